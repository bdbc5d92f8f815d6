"""Schedules of one's own: a table gives what its name gives, and its faults are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planner
from planner.plans.schedules import evaluate_number
from planner.report.resolved import format_resolved
from tests.changed import merged
from tests.conftest import read_data


def document(schedule: Any, virtual: int = 1, stages: int = 4) -> dict[str, Any]:
    return merged(
        read_data("plans")["own_schedule"],
        training={"schedule": schedule},
        parallelism={"pipeline": stages, "virtual_pipeline": virtual},
    )


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("name", "virtual"), [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 8)]
)
def test_a_table_is_as_good_as_a_name(name: str, virtual: int) -> None:
    """The closed form of a shipped schedule is published; of a table it is worked out."""
    named = planner.load(document(name, virtual)).evaluate()
    own = planner.load(document({"extends": name}, virtual)).evaluate()
    for quantity in ("time.bubble", "time.step_seconds", "memory.total", "memory.stage"):
        assert own[quantity].value == named[quantity].value, quantity
    assert planner.simulate(own).seconds == planner.simulate(named).seconds


def test_there_and_back() -> None:
    """ZB-V's path with whole backward passes: the last stage's device turns around at once, so that
    a micro-batch passes 2 p half stages, of which the first device has first and last."""
    table = read_data("plans")["schedule_v"]
    plan = planner.load(document(table, 2))
    found = plan.simulate()
    assert plan.evaluate()["memory.stage"].value is not None
    sent = {span.stage for span in found.spans if span.work == "send" and span.chunk == 0}
    assert sent == {0, 1, 2, 3}  # stage 4 sends gradients of its first chunk, no activations
    assert found.seconds == pytest.approx(found.closed, rel=0.1)


def test_a_file_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "name: eager\npath: loop\nphases:\n"
        "  - {times: 2*(p - i - 1), passes: [F]}\n  - {passes: [F, B]}\n"
    )
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "name: own\nmodel: llama3-8b\ncluster: {extends: hgx-h100, devices: 8}\n"
        "training: {tokens: 1T, sequence_length: 4096, global_batch: 32, schedule: mine.yaml}\n"
        "parallelism: {pipeline: 4, zero: 1}\n"
    )
    eager = planner.load(plan)
    usual = planner.load(plan, set=["training.schedule=1f1b"])
    assert eager.evaluate()["time.bubble"].value == usual.evaluate()["time.bubble"].value
    kept = [p.evaluate()["memory.activations"].number for p in (eager, usual)]
    # The first stage keeps 2 (p - 1) + 1 = 7 micro-batches, not p = 4.
    assert kept[0] > 1.5 * kept[1]
    assert eager.simulate().schedule == "eager"
    # What is resolved says the table itself, and loads to the same plan.
    (tmp_path / "mine.yaml").rename(tmp_path / "gone.yaml")
    plan.write_text(format_resolved(eager.plan))
    again = planner.load(plan).evaluate()
    assert again["memory.total"].value == eager.evaluate()["memory.total"].value


def faults(table: dict[str, Any], virtual: int = 1) -> str:
    with pytest.raises(planner.PlanError) as found:
        planner.load(document({"name": "wrong", "path": "loop", **table}, virtual))
    assert len(found.value.faults) == 1
    return str(found.value.faults[0])


def test_faults() -> None:
    said = faults({"phases": [{"passes": ["B", "F"]}]})
    assert "stage 1 waits forever before its pass 1, B0 of micro-batch 1" in said
    said = faults({"phases": [{"times": "p - i", "passes": ["F"]}, {"passes": ["B"]}]})
    assert "its phases leave 12 passes undone on stage 1" in said
    assert "4 stages, 1 chunks a device and 16 micro-batches" in said
    said = faults({"phases": [{"passes": ["F", "I"]}]})
    assert "leave 16 gradients of weights on stage 1" in said
    said = faults({"phases": [{"times": "p - j", "passes": ["F"]}, {"passes": ["F", "B"]}]})
    assert "'p - j': 'j' is not a number or one of p, v, m, i" in said
    said = faults({"phases": [{"passes": ["F2", "B"]}]})
    assert "F2: a device has 1 chunks" in said
    assert "copies of the model" in faults({"path": "opposite", "phases": [{"passes": ["F", "B"]}]})
    said = faults({"path": "there and back", "phases": [{"passes": ["F", "B"]}]})
    assert "two chunks on each device, not 1" in said
    assert "passes.0 has the wrong form" in faults({"phases": [{"passes": ["X"]}]})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("7", 7), (7, 7), ("p - i - 1", 5), ("2*(p - i - 1) + (v - 1)*p", 26)),
        *(("-p // 3", -3), ("p//2 - 1 - min(i, p - 1 - i)", 1), ("(i + 1)%2 * 3", 3)),
        *(("max(1, 2, p)", 8), ("- -i", 2), ("((((1))))", 1)),
    ],
)
def test_numbers(text: str | int, value: int) -> None:
    """As Python reads them, for p = 8, i = 2, v = 3."""
    names = {"p": 8, "v": 3, "m": 16, "i": 2}
    assert (
        evaluate_number(text, names)
        == value
        == eval(str(text), {"min": min, "max": max}, dict(names))
    )


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "1)", "p p", "2**3", "p.q", "p // (i - 2)", "min()", "'a'", "1" * 101]
)
def test_no_numbers(text: str) -> None:
    with pytest.raises(ValueError):
        evaluate_number(text, {"p": 8, "i": 2})
