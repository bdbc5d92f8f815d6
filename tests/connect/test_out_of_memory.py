"""Out-of-memory errors and memory snapshots beside plans."""

import base64
import json
import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.connect.out_of_memory import read_failures, read_snapshot
from planner.questions import loading
from planner.report.out_of_memory import explain_failure, list_phases
from planner.results.result import evaluate_plan
from tests.conftest import ROOT, read_data

DATA, PLANS = read_data("out_of_memory"), sorted((ROOT / "presets").glob("*.yaml"))


@pytest.mark.parametrize("row", DATA["messages"], ids=lambda row: row["source"])
def test_errors_as_people_paste_them(row: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text(f"step 1\n{row['text']} See the documentation.\n{row['text']}\n")
    (found,) = read_failures(file)
    assert (found.place.line, found.rank, found.device) == (
        2,
        row.get("rank"),
        row.get("device", 0),
    )
    sizes = {name: float(size) / 2**20 for name, size in found.sizes.items()}
    assert sizes == pytest.approx(row["sizes"], abs=1e-3)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("form", ["text", "pickle", "json", "page"])
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_largest_tensor_of_a_plan_is_known_again(path: Path, form: str, tmp_path: Path) -> None:
    plan, file = loading.load(path), tmp_path / form
    try:
        phases = list_phases(evaluate_plan(plan))
    except PlanError:  # a model that is given by its size
        return
    tensor = max((one for alive in phases.values() for one in alive), key=lambda one: one.bytes)
    alive = phases[tensor.born]
    live = sum((one.get_total() for one in alive), Fraction(0)) - tensor.bytes
    if form == "text":
        sizes = [f"{float(size / 2**20):.2f} MiB" for size in (tensor.bytes, live)]
        text = (
            "CUDA out of memory. Tried to allocate {} (GPU 0; {} already allocated; 0 bytes free)"
        )
        file.write_text(text.format(*sizes))
    else:
        blocks = [
            {"size": math.ceil(one.bytes / 512) * 512, "state": "active_allocated", "frames": []}
            for one in alive
            for _ in range(one.copies - (one is tensor))
        ]
        segment = {"total_size": math.ceil(live), "blocks": blocks, "segment_pool_id": (0, 0)}
        size = math.ceil(tensor.bytes / 512) * 512
        event = {"action": "oom", "size": size, "device_free": 0}
        tree = {"segments": [segment], "device_traces": [[event]]}
        raw = json.dumps(tree).encode() if form == "json" else pickle.dumps(tree)
        if form == "page":
            raw = b'\n<html>[{"base64": "%s"}]</html>' % base64.b64encode(raw + b"\0\0")
        file.write_bytes(raw)
    words = (str(file), None) if form == "text" else (None, str(file))
    (found,) = json.loads(explain_failure(plan, *words, "json"))["failures"]
    nearest = found["nearest planned tensors"]
    nearest = [one for one in nearest if one["rank"] == nearest[0]["rank"]]
    same = {"bytes": float(tensor.bytes), "difference": 0, "born": tensor.born}
    assert any(one.items() >= same.items() for one in nearest)
    assert not found.get("blocks that are not planned")


def test_the_blocks_of_a_public_run_are_its_states(tmp_path: Path) -> None:
    row, file = DATA["snapshot"], tmp_path / "snapshot"
    blocks = []
    for count, size, frame in row["blocks"]:
        frames = (
            [dict(zip(("filename", "name"), frame.split(":", 1), strict=True))] if frame else []
        )
        block = {"state": "active_allocated", "size": -(-size // 512) * 512, "frames": frames}
        blocks += [{**block, "requested_size": size}] * count
    file.write_text(json.dumps([{"total_size": 7235174400, "blocks": blocks}]))
    plan = loading.load({"name": "CS336 medium", **row["plan"]})
    (found,) = json.loads(explain_failure(plan, None, str(file), "json"))["failures"]
    sums = {one["for"]: one for one in found["blocks"]}
    steps = 4 * (24 * 9 + 3 - 1)  # that AdamW of PyTorch counts on the device; a scalar is as large
    for role, more in {"weights": 0, "gradients": 0, "optimizer states": steps}.items():
        assert sums[role]["run"] == sums[role]["planned"] - more > 10**9
    rest = {one["each"]: int(one["count"]) for one in found["blocks that are not planned"]}
    assert rest == row["not_planned"]


@pytest.mark.parametrize(("raw", "fault"), DATA["faults"])
def test_what_is_no_snapshot_is_one_fault(raw: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "snapshot"
    file.write_bytes(raw.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    with pytest.raises(PlanError) as error:
        read_snapshot(file)
    (message,) = error.value.faults
    assert message.message.startswith(
        f"no memory snapshot, or cut off: {fault}"
    ) and "\n" not in str(message)


@pytest.mark.parametrize(("text", "fault"), DATA["texts"])
def test_a_text_of_another_run_is_one_fault(text: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    with pytest.raises(PlanError) as error:
        explain_failure(
            loading.load(ROOT / "presets/gpt2small_hgx-h100.yaml"), str(file), None, "md"
        )
    (message,) = error.value.faults
    assert message.message == fault and message.place and message.place.file == str(file)
