"""Event files of TensorBoard: as they are written by others, and what hostile ones come to."""

from __future__ import annotations

import random
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.record_writer import masked_crc32c

from planner.base.errors import Place, PlanError
from planner.connect import compare, logs
from planner.questions import loading
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
#: Written by torch 2.13's SummaryWriter (tensorboard 2.21), with the tags of torchtitan's
#: MetricsProcessor, 12 steps of 2.5 s of which the first takes 40 s, a histogram and a text.
TITAN = ROOT / "tests" / "data" / "logs" / "torchtitan.tfevents"
GIB = 2**30
STEP, RATE = "time.step_seconds", "time.tokens_per_second_per_device"
Scalars = list[tuple[int, float, str, float]]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def framed(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    marks = (struct.pack("<I", masked_crc32c(each)) for each in (head, data))
    return head + next(marks) + data + next(marks)


def record(step: int, wall_time: float, tag: str, value: float) -> bytes:
    """An event as SummaryWriter writes it: wall_time 1, step 2, summary 5 of a value 1."""
    name = tag.encode()
    inside = b"\x0a" + varint(len(name)) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + varint(len(inside)) + inside
    event = b"\x09" + struct.pack("<d", wall_time) + b"\x10" + varint(step)
    return framed(event + b"\x2a" + varint(len(summary)) + summary)


def written(path: Path, rows: Scalars) -> Path:
    path.write_bytes(b"".join(record(*row) for row in rows))
    return path


def measured(path: Path) -> dict[str, Fraction]:
    changes = ["training.global_batch=512", "training.sequence_length=1024"]
    plan = loading.load(ROOT / "presets" / "gpt2small_hgx-h100.yaml", changes)
    return {row.id: row.measured for row in compare.compare(plan, path).rows}


#: By trainer: the scalars of a record, and what they say.
TAGS: dict[str, tuple[dict[str, float], dict[str, Any]]] = read_data("logs")["scalars"]


@pytest.mark.parametrize("name", TAGS)
def test_the_scalars_of_a_trainer_are_read(name: str, tmp_path: Path) -> None:
    values, said = TAGS[name]
    rows = [
        (10 * n, 1.7e9 + 2.5 * n + 30 * (n // 5), tag, value)
        for n in range(1, 13)
        for tag, value in values.items()
    ]
    found = measured(written(tmp_path / "events.out.tfevents.1", rows))
    assert {key: found[key] for key in said} == {key: Fraction(v) for key, v in said.items()}


def test_deepspeed_counts_samples_where_others_count_steps(tmp_path: Path) -> None:
    """`Train/Samples/train_loss` stands at the number of samples: 512 of them take 4 s."""
    rows: Scalars = [(512 * n, 1.7e9 + 4 * n, "Train/Samples/train_loss", 2.0) for n in range(12)]
    assert measured(written(tmp_path / "log", rows))[STEP] == 4


def test_what_is_drawn_over_samples_is_no_step(tmp_path: Path) -> None:
    """Megatron-LM writes each scalar a second time, at the number of samples."""
    rows: Scalars = []
    for n in range(1, 13):
        rows.append((n, 1.7e9 + 2 * n, "lm loss", 2.0))
        rows.append((512 * n, 1.7e9 + 2 * n, "lm loss vs samples", 2.0))
    assert measured(written(tmp_path / "log", rows))[STEP] == 2


def test_a_file_of_torch_is_read() -> None:
    log = logs.read_log(TITAN)
    assert log.format == "TensorBoard"
    assert [*log.list_series(STEP)[0].doubles] == [40.0] + [2.5] * 11
    assert [*log.list_series(STEP)[0].steps] == [10 * n for n in range(1, 13)]
    found = measured(TITAN)
    assert found["memory.reserved"] == Fraction("40.1") * GIB and found[RATE] == Fraction("5762.25")
    assert found["time.mfu"] == Fraction("0.303")


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"new_style": True}, {"double_precision": True}])
def test_what_a_writer_writes_now_is_read(how: dict[str, bool], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(tmp_path)
    for n in range(1, 13):
        writer.add_scalar("perf/step_time_seconds", 0.123456789, n, **how)
    writer.close()
    (file,) = tmp_path.iterdir()
    assert float(measured(file)[STEP]) == pytest.approx(0.123456789, rel=1e-7)


def test_a_record_that_is_not_whole_is_left_for_later(tmp_path: Path) -> None:
    """However the bytes of a file arrive, they say the same."""
    data = TITAN.read_bytes()
    whole = logs.read_log(TITAN).columns
    reading, at, draw = logs.LogReader(Place("log")), 0, random.Random(1)
    while at < len(data):
        size = draw.randrange(1, 2000)
        reading.read_chunk(data[at : at + size])
        at += size
    assert reading.log is not None and reading.log.columns == whole
    cut = tmp_path / "log"
    cut.write_bytes(data[:-7])  # the job was killed while it wrote
    assert len(logs.read_log(cut).list_series(STEP)[0].doubles) == 12


def test_an_event_file_without_what_is_compared_names_its_scalars(tmp_path: Path) -> None:
    path = written(tmp_path / "log", [(n, 1e9, "val/accuracy", 0.5) for n in range(9)])
    with pytest.raises(PlanError, match=r"no step time.*among its scalars: val/accuracy"):
        logs.read_log(path)


@pytest.mark.slow
def test_hostile_event_files_are_one_fault_or_the_truth(tmp_path: Path) -> None:
    """Bytes that were changed are a damaged record; they never change a number."""
    data, path, draw = TITAN.read_bytes()[:6000], tmp_path / "log", random.Random(2)
    path.write_bytes(data)
    true = {*logs.read_log(path).list_series(STEP)[0].doubles}
    for _ in range(300):
        bad = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        path.write_bytes(bad)
        try:
            found = logs.read_log(path)
        except PlanError as error:
            assert len(str(error).splitlines()) == 1
        else:
            assert {x for series in found.list_series(STEP) for x in series.doubles} <= true


@pytest.mark.parametrize(
    "inside",
    [
        b"\xff" * 30,  # a number without an end
        b"\x2a\xff\xff\xff\xff\x0f",  # longer than the record
        b"\x2a\x04\x0a\x02\x0a\x7f",  # a tag longer than its value
        b"\x2a\x0b\x0a\x09\x0a\x02\xff\xfe\x15\x00\x00\x80\x3f",  # a tag that is no text
        b"\x09\x00",
    ],
)
def test_a_record_that_is_no_event_is_one_fault(inside: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(record(1, 1e9, "step_time", 1.0) + framed(inside))
    with pytest.raises(PlanError, match=r"the record at byte [0-9]+ is damaged"):
        logs.read_log(path)


def test_a_record_of_exabytes_is_one_fault(tmp_path: Path) -> None:
    head = struct.pack("<Q", 1 << 60)
    path = tmp_path / "log"
    huge = head + struct.pack("<I", masked_crc32c(head)) + bytes(100)
    path.write_bytes(record(1, 1e9, "step_time", 1.0) + huge)
    with pytest.raises(PlanError, match="damaged"):
        logs.read_log(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_scalar_that_cannot_be_believed(value: float, tmp_path: Path) -> None:
    rows: Scalars = [(n, 1e9, "step_time", value if n == 5 else 1.0) for n in range(9)]
    path = written(tmp_path / "log", rows)
    if value != value:
        assert len(logs.read_log(path).list_series(STEP)[0].doubles) == 8
    else:
        with pytest.raises(PlanError, match="step_time"):
            logs.read_log(path)


def test_one_damaged_record_among_many_is_named(tmp_path: Path) -> None:
    several = [record(n, 1e9, "step_time", 1.0) for n in range(100, 164)]
    head = b"".join(several[:40])
    broken = bytearray(several[40])
    broken[-7] ^= 1  # in the value
    path = tmp_path / "log"
    path.write_bytes(head + bytes(broken) + b"".join(several[41:]))
    with pytest.raises(PlanError, match=f"the record at byte {len(head)} is damaged"):
        logs.read_log(path)
