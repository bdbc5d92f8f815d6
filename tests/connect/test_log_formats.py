"""Logs of trainers as they print them: a few lines of each, and what they say."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.base.errors import Place, PlanError
from planner.connect import compare, logs
from planner.plans.document import Plan
from planner.questions import loading
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
STEP, RATE = "time.step_seconds", "time.tokens_per_second_per_device"


def plan() -> Plan:
    changes = ["training.global_batch=512", "training.sequence_length=1024"]
    return loading.load(ROOT / "presets" / "gpt2small_hgx-h100.yaml", changes)


PROGRESS = (
    "Epoch 0: : 100%|█████| {n}/100 [10:48<00:00, reduced_train_loss=0.0172, global_step=99.00, "
    "consumed_samples=25600.0, train_step_timing in s=3.130]"
)

#: By format: a line of a step, and the quantities that it says.
LINES = read_data("logs")["lines"]


#: By format: a line with one number of it (`{x}`), what it says, and what one of it is worth. The
#: forms are those of public logs: documentation and issues of torchtitan, nanotron, MaxText and
#: DeepSpeed, runs of Megatron-LM, NeMo, verl and LLM Foundry.
UNITS = [(*row, Fraction(worth)) for *row, worth in read_data("logs")["units"]]


def measured(path: Path) -> dict[str, Fraction]:
    return {row.id: row.measured for row in compare.compare(plan(), path).rows}


def test_every_trainer_that_is_known_has_lines_here() -> None:
    assert {*LINES, "Megatron-LM", "torchtitan", "NeMo RL"} == {*logs.TRAINERS}


@pytest.mark.parametrize("name", LINES)
def test_lines_of_a_trainer_are_read(name: str, tmp_path: Path) -> None:
    line, said = LINES[name]
    path = tmp_path / "log"
    path.write_text("".join(f"{line.format(n=n)}\nsomething else\n" for n in range(1, 9)), "utf-8")
    assert logs.read_log(path).format == name
    found = measured(path)
    assert {key: found[key] for key in said} == {key: Fraction(v) for key, v in said.items()}


@pytest.mark.parametrize("name, changes, lines, said", read_data("logs")["phases"])
def test_phases_of_reinforcement_learning_are_read(
    name: str, changes: list[str], lines: str, said: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text("".join(lines.replace("{n}", str(n)) for n in range(1, 9)), "utf-8")
    preset = ROOT / "presets" / "reinforcement" / "grpo_llama3.1-8b_16xh100.yaml"
    found = compare.compare(loading.load(preset, changes), path)
    rows = {row.id: row.measured for row in found.rows if row.id.startswith("rl.")}
    assert found.format == name and rows == {key: Fraction(v) for key, v in said.items()}
    assert any("no phase" in note for note in found.notes) == (len(said) == 1)


@pytest.mark.parametrize("line, said", read_data("logs")["printed"])
def test_mappings_of_python_are_read(line: str, said: dict[str, Any], tmp_path: Path) -> None:
    """From the first line on, and behind what other programs print."""
    path, lines = tmp_path / "log", [f"{line.format(n=n)}\n" for n in range(1, 9)]
    last = "{'train_runtime': '55.71', 'train_steps_per_second': '0.413', 'epoch': '3.0'}\n"
    for text in ("".join(lines), "[rank0] begins\n" + " 5%|#   |\r".join(lines)):
        path.write_text(text, "utf-8")
        found = measured(path)
        assert {key: found[key] for key in said} == {key: Fraction(v) for key, v in said.items()}
    path.write_text("".join([*lines, last]), "utf-8")
    assert logs.read_log(path).format == "transformers" and "memory.reserved" in measured(path)


def test_more_than_the_peak_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step_time": 0.0001, "mfu": 48.5}\n' * 8, "utf-8")
    notes = " ".join(compare.compare(plan(), path).notes)
    assert "mfu is 48.5 in the log" in notes and "no device runs faster" in notes


def test_every_trainer_has_a_line_whose_unit_is_held() -> None:
    assert {name for name, *_ in UNITS} == {*logs.TRAINERS}


@pytest.mark.parametrize("name, line, quantity, worth", UNITS)
@given(st.decimals("0.01", "20000", places=3), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_number_is_worth_what_its_trainer_says(
    name: str, line: str, quantity: str, worth: Fraction, value: Decimal, end: str, colour: bool
) -> None:
    """To the digit, whatever the ends of lines and the colours."""
    lines = [line.format(n=n, x=f"{value:f}") for n in range(1, 4)]
    text = "".join(f"\x1b[32m{each}\x1b[0m{end}" if colour else each + end for each in lines)
    reading = logs.LogReader(Place("log"))
    reading.read_chunk(text.encode())
    reading.finish_log()
    log = reading.log
    assert log is not None and log.format == name
    (series,) = log.list_series(quantity)
    assert {series.to_exact(double) for double in series.doubles} == {Fraction(value) * worth}
    assert len(series.doubles) == 3
    if "{n}" in line and name != "transformers" and "after" not in line and "Memory" not in line:
        assert [*series.steps] == [1, 2, 3]


@pytest.mark.parametrize("name, line, quantity, worth", UNITS)
def test_a_line_that_is_cut_off_says_nothing_wrong(
    name: str, line: str, quantity: str, worth: Fraction
) -> None:
    """A job is killed, or its disk is full, in the middle of a line."""
    text = line.format(n=7, x="12345.625")
    for length in range(len(text)):
        reading = logs.LogReader(Place("log"))
        reading.read_chunk(text[:length].encode())
        reading.finish_log()
        with contextlib.suppress(PlanError):
            log = reading.log
            series = log.list_series(quantity) if log is not None else []
            assert all(each.to_exact(each.doubles[0]) == Fraction("12345.625") * worth
                       for each in series)  # fmt: skip


def test_another_unit_than_the_trainers_is_no_record() -> None:
    for line in (
        "DeepSpeed: epoch=0/micro_step=1/global_step=1, RunningAvgSamplesPerSec=1.5, "
        "CurrSamplesPerSec=2.5, MemAllocated=1.0MB, MaxMemAllocated=12.5MB\n",
        "step: 1  loss: 1.0  memory: 12.5MiB(3%)  tps: 5\n",
        "iter 5: loss 10.9891, time 412.5s, mfu 17.21%\n",
        "Step Time : 5.25ms GPU utilization: 512.5MODEL_TFLOP/s/GPU\n",
    ):
        reading = logs.LogReader(Place("log"))
        reading.read_chunk(line.encode())
        log = reading.log
        wrong = {STEP, "memory.total", "memory.reserved"}
        assert log is None or not wrong & log.columns.keys(), line


def test_lines_of_several_ranks_are_told_apart(tmp_path: Path) -> None:
    """Eight ranks write each step, some of them on one line; warm-up is of steps, not of lines."""
    path = tmp_path / "log"
    line = "completed step: {n}, seconds: {x}, TFLOP/s/device: 305.1, loss: 10.5"
    text = ""
    for n in range(12):
        ranks = [f"[rank{i}] {line.format(n=n, x=60 if n < 5 else 2 + i / 64)}" for i in range(8)]
        text += "\n".join(ranks[:4]) + "\n" + "".join(ranks[4:]) + "\n"
    path.write_text(text, "utf-8")
    (series,) = logs.read_log(path).list_series(STEP)
    assert len(series.doubles) == 96 and series.skip_steps(5) == 40
    assert 2 <= measured(path)[STEP] < 3
    (step,) = [row for row in compare.compare(plan(), path).rows if row.id == STEP]
    assert step.how == "median of 56"


def test_an_evaluation_or_a_checkpoint_is_in_no_step(tmp_path: Path) -> None:
    """nanoGPT's iteration after an evaluation, torchtitan's line after a checkpoint."""
    path = tmp_path / "log"
    path.write_text("".join(
        f"step {n}: train loss 4.2, val loss 4.3\niter {n}: loss 4.1, time 20000.00ms, mfu 1.00%\n"
        f"iter {n + 1}: loss 4.1, time 400.00ms, mfu 17.00%\n" for n in range(0, 24, 2)
    ))  # fmt: skip
    assert {*logs.read_log(path).list_series(STEP)[0].doubles} == {400}
    line = "step: {n}  loss: 1.0  memory: 30.5GiB(33%)  tps: {x}  tflops: 400.0  mfu: 41.0%\n"
    saved = (
        "[titan] Finished saving the checkpoint (or staging if async is enabled)in 5.53 seconds."
    )
    path.write_text("".join(
        line.format(n=n, x="7,000") + f"{saved}\n" + line.format(n=n + 10, x=700)
        + line.format(n=n + 20, x="7,000") for n in range(0, 300, 30)
    ))  # fmt: skip
    log = logs.read_log(path)
    assert {*log.list_series(RATE)[0].doubles} == {7000}
    assert len(log.list_series("memory.reserved")[0].doubles) == 30


def test_a_clock_is_not_taken_for_the_time_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,seconds\n" + "".join(f"{n},{2.5 * n}\n" for n in range(1, 20)))
    with pytest.raises(PlanError, match="grow with each record, like a clock"):
        measured(path)


def test_memory_without_a_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step_time,max_memory_allocated\n" + "2,41.5\n" * 9)
    with pytest.raises(PlanError, match=r"41.5 bytes by its name .a unit, as in max_memory_alloc"):
        logs.read_log(path)


def test_a_share_that_is_in_percent_and_does_not_say_so_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step_time,throughput/device/MFU\n" + "2,57.1\n" * 9)
    assert not logs.read_log(path).list_series("time.mfu")


def test_evaluations_are_taken_out_of_a_run(tmp_path: Path) -> None:
    """transformers' rates are over all of a run: 100 steps in 60 s, 10 s of them evaluations."""
    rows: list[dict[str, float]] = [{"eval_runtime": 5.0, "eval_loss": 2.0, "step": 50}] * 2
    rows.append({"train_runtime": 60.0, "train_steps_per_second": 1.6666666666666667, "step": 100})
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": rows}), "utf-8")
    assert float(measured(path)[STEP]) == pytest.approx(0.5)
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")  # the console
    assert float(measured(path)[STEP]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "line",
    ["iteration 1/ 2 | ", "global_batch_size: 8 | ", "step: 1  loss: ", "iteration: 1 / 2 | ",
     "memory (MB) | allocated: 1 ", "completed step: 1, ", "Max_MA 1 GB ", "x" * 40],
)  # fmt: skip
def test_a_line_that_repeats_itself_takes_no_longer_for_it(line: str) -> None:
    """A megabyte of beginnings of records without an end, which a pattern must not try each."""
    reading, words = (
        logs.LogReader(Place("log")),
        "elapsed time per iteration train_step_timing in s",
    )
    begun = time.process_time()
    reading.read_chunk((line * (10**6 // len(line)) + words + "\n").encode())
    assert time.process_time() - begun < 3


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_huge_log_is_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    """25 MB, most of it of no interest, and a line of 20 MB; 100 MB take four times as long."""
    path = tmp_path / "log"
    noise = "INFO 2025-06-04 08:51:48 nothing of interest in this line, as in most of a log\n" * 40
    with path.open("w") as file:
        for n in range(1500):
            file.write(noise + f"completed step: {n}, seconds: 2.5, TFLOP/s/device: 305.1\n")
        file.write("x" * 20_000_000 + "\n" + "completed step: 9, seconds: 2.5\n")
    code = (
        "import sys, time\nfrom planner.connect import logs\nbegun = time.process_time()\n"
        "log = logs.read_log(sys.argv[1])\nspent = time.process_time() - begun\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "peak = next(int(x.split()[1]) for x in lines if x.startswith('VmHWM')) / 1000\n"
        "print(len(log.list_series('time.step_seconds')[0].doubles), spent, peak, sep=';')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    length, spent, peak = done.stdout.strip().split(";")
    assert int(length) == 1501 and float(spent) < 10 and float(peak) < 50


def test_a_progress_bar_says_the_time_of_its_step(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\r".join(PROGRESS.format(n=n) for n in range(1, 9)), "utf-8")
    assert measured(path)[STEP] == Fraction("3.13")


def test_the_state_of_a_trainer_says_how_long_its_steps_took(tmp_path: Path) -> None:
    """transformers' trainer_state.json: 32 steps in 21.5 s are 0.67 s a step; its
    train_batch_size is of one device, and evaluation has rates of its own."""
    state = {
        "best_metric": None, "epoch": 1.0, "eval_steps": 500, "global_step": 32,
        "log_history": [
            {"epoch": 0.5, "grad_norm": 1.0, "learning_rate": 1e-4, "loss": 2.0, "step": 16},
            {"epoch": 1.0, "eval_loss": 2.0, "eval_runtime": 1.5, "eval_steps_per_second": 20.0,
             "eval_samples_per_second": 80.0, "step": 32},
            {"epoch": 1.0, "step": 32, "total_flos": 1.0e15, "train_loss": 1.5,
             "train_runtime": 21.5, "train_samples_per_second": 11.907,
             "train_steps_per_second": 1.488},
        ],
        "logging_steps": 16, "max_steps": 32, "num_train_epochs": 1, "save_steps": 500,
        "stateful_callbacks": {"TrainerControl": {"args": {"should_log": False}}},
        "total_flos": 1.0e15, "train_batch_size": 4, "trial_name": None,
    }  # fmt: skip
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state, indent=2), "utf-8")
    # Of 21.5 s 1.5 are evaluation.
    assert measured(path)[STEP] == 1 / Fraction("1.488") * Fraction("20") / Fraction("21.5")
    assert not logs.read_log(path).list_series("batch")
    path.write_text(json.dumps(state["log_history"][-1]), "utf-8")  # type: ignore[index]
    assert measured(path)[STEP] == 1 / Fraction("1.488")  # train_results.json


def test_a_clock_and_a_counter_are_a_rate(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rows = (
        {"current_steps": 10 * n, "total_steps": 100, "loss": 1.0, "lr": 1e-5, "epoch": 0.1,
         "percentage": 10.0 * n, "elapsed_time": f"0:00:{5 * n:02}", "remaining_time": "0:10:00"}
        for n in range(1, 9)
    )  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")  # LLaMA-Factory
    assert measured(path)[STEP] == Fraction("0.5")
    lines = [f"{1700000000 + 3 * n},{2 * n},{1.5}" for n in range(9)]
    path.write_text("\n".join(["Wall time,Step,Value", *lines]), "utf-8")  # TensorBoard
    assert measured(path)[STEP] == Fraction("1.5")


def test_columns_of_an_export_have_a_run_before_their_name(tmp_path: Path) -> None:
    """W&B writes the run, and the least and the most of what it draws, for each column."""
    name = '"fluffy-cloud-7 - perf/step_time_seconds"'
    head = f'"Step",{name},{name[:-1]}__MIN",{name[:-1]}__MAX"'
    path = tmp_path / "log"
    path.write_text("\n".join([head, *(f'"{n}","2.5","1","9"' for n in range(8))]), "utf-8")
    assert measured(path)[STEP] == Fraction("2.5")


def test_results_of_mlperf_say_how_long_blocks_took(tmp_path: Path) -> None:
    """mlcommons/training_results: 384 sequences of Llama 2 70B with LoRA in 199.434 s, which the
    file's own throughput says too (1.9258 a second)."""
    begin = (
        '0: :::MLLOG {"namespace": "", "time_ms": %d, "event_type": "INTERVAL_%s", "key": '
        '"block_%s", "value": null, "metadata": {"file": "c.py", "lineno": 1, "samples_count": %d}}'
    )
    lines = [
        '0: :::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": '
        '"global_batch_size", "value": 512, "metadata": {"file": "c.py", "lineno": 9}}',
        "something else",
    ]
    for n in range(8):
        start = 1721026606541 + n * 300_000  # 100.566 s of each are evaluation
        lines.append(begin % (start, "START", "start", 384 * n))
        lines.append(begin % (start + 199_434, "END", "stop", 384 * (n + 1)))
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(lines), "utf-8")
    log = logs.read_log(path)
    assert log.format == "MLPerf" and log.list_series("batch")[0].doubles[0] == 512
    assert float(measured(path)[STEP]) == pytest.approx(512 * 199.434 / 384, rel=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        *read_data("faults")["hostile_log_lines"],
        ':::MLLOG {"key": ' * 3000,
        ":::MLLOG " + "[" * 100_000,
        '{"current_steps": 1, "elapsed_time": "99999999999999999999999:00:00"}\n' * 3,
    ],
)
def test_hostile_lines_are_one_fault(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text, "utf-8")
    with pytest.raises(PlanError) as error:
        compare.compare(plan(), path)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "lines",
    ['1,"\n' + "a\n" * 150_000, "1,1.5\n" * 150_000, '"1","1.5"\n' * 70_000, '"\n' * 300_000],
    ids=["a cell that never ends", "short rows", "quoted rows", "quotes"],
)
def test_short_lines_take_no_longer_than_their_bytes(lines: str, tmp_path: Path) -> None:
    """A row that goes on is not read again with each of its lines."""
    (tmp_path / "run.csv").write_text("step,step_seconds\n" + lines)
    started = time.process_time()
    with contextlib.suppress(PlanError):
        logs.read_log(tmp_path / "run.csv")
    assert time.process_time() - started < 4


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_row_in_quotes_goes_on_and_is_one_record(end: str, tmp_path: Path) -> None:
    rows = 'step,"step_seconds",note\n1,1.5,"a\n""b"",\n"\n2,"2.5",c\n3,3.5,\n'
    (tmp_path / "run.csv").write_bytes(rows.replace("\n", end).encode())
    (series,) = logs.read_log(tmp_path / "run.csv").list_series("time.step_seconds")
    assert [*series.doubles] == [1.5, 2.5, 3.5] and [*series.steps] == [1, 2, 3]
