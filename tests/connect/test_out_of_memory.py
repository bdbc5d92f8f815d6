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
from planner.report.out_of_memory import explain_failure
from planner.results.allocations import list_allocations
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


@pytest.mark.parametrize("form", ["text", "pickle", "json", "page"])
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_largest_tensor_of_a_plan_is_known_again(path: Path, form: str, tmp_path: Path) -> None:
    plan, file = loading.load(path), tmp_path / form
    try:
        tensors = sorted(list_allocations(evaluate_plan(plan)), key=lambda one: -one.bytes)
    except PlanError:  # a model that is given by its size
        return
    names = [phase.name for phase in evaluate_plan(plan).list_entries("phase")]
    now = names.index(tensors[0].born)
    alive = [one for one in tensors if names.index(one.born) <= now <= names.index(one.freed)]
    live = sum((one.get_total() for one in alive), Fraction(0)) - tensors[0].bytes
    if form == "text":
        sizes = [f"{float(size / 2**20):.2f} MiB" for size in (tensors[0].bytes, live)]
        text = (
            "CUDA out of memory. Tried to allocate {} (GPU 0; {} already allocated; 0 bytes free)"
        )
        file.write_text(text.format(*sizes))
    else:
        blocks = [
            {"size": math.ceil(one.bytes / 512) * 512, "state": "active_allocated", "frames": []}
            for one in alive
            for _ in range(one.copies - (one is tensors[0]))
        ]
        segment = {"total_size": math.ceil(live), "blocks": blocks, "segment_pool_id": (0, 0)}
        event = {"action": "oom", "size": blocks[0]["size"], "device_free": 0}
        event["size"] = math.ceil(tensors[0].bytes / 512) * 512
        tree = {"segments": [segment], "device_traces": [[event]]}
        raw = json.dumps(tree).encode() if form == "json" else pickle.dumps(tree)
        if form == "page":
            raw = b'\n<html>[{"base64": "%s"}]</html>' % base64.b64encode(raw + b"\0\0")
        file.write_bytes(raw)
    words = (str(file), None) if form == "text" else (None, str(file))
    (found,) = json.loads(explain_failure(plan, *words, "json"))["failures"]
    nearest = found["planned tensors nearest in size"]
    nearest = [one for one in nearest if one["rank"] == nearest[0]["rank"]]
    same = {"bytes": float(tensors[0].bytes), "difference": 0, "born": tensors[0].born}
    assert any(one.items() >= same.items() for one in nearest)
    assert not found.get("blocks that are not planned")


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
