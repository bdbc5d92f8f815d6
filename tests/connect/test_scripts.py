"""Shell scripts that start a run: what is read of them, and that nothing of them is run."""

from __future__ import annotations

from typing import Any

import pytest

from planner.base.errors import Place, PlanError
from planner.connect.imports import launch, megatron
from planner.questions import loading
from planner.results.result import evaluate_plan
from tests.conftest import read_data


@pytest.mark.parametrize("row", read_data("scripts"), ids=lambda row: row["source"])
def test_a_script_is_read_or_says_what_it_leaves_open(row: dict[str, Any]) -> None:
    place = Place("run.sh")
    if "refused" in row:
        with pytest.raises(PlanError, match=row["refused"]) as error:
            launch.read_launch(row["script"], "megatron", place, changes=row["set"])
        assert all("\n" not in str(fault) for fault in error.value.faults)
        return
    read = launch.read_launch(row["script"], "megatron", place, changes=row["set"])
    plan, named = loading.load(read.document), row.get("named")
    assert named is None or named in read.said
    for key, value in row["read"].items():
        if key == "parameters":
            count = evaluate_plan(plan)["parameters.total"].number
            assert count == pytest.approx(value, rel=0.01)
        else:
            assert plan.get(key) == value, key


@pytest.mark.parametrize("script", read_data("faults")["scripts"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_hostile_script_is_one_fault_a_line(script: str, whole: bool) -> None:
    text = script.replace("$M", "A=1; x $A --num-layers " + '"$(' * 30_000)
    with pytest.raises(PlanError) as error:
        if whole:
            launch.read_launch(text, "megatron", Place("run.sh"))
        else:
            megatron.read_megatron(text, Place("run.sh"))
    assert all("\n" not in str(fault) and "\0" not in str(fault) for fault in error.value.faults)
