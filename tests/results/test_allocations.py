"""Allocations of a step add up to the live tensors of each phase."""

from typing import Any

import pytest
from hypothesis import given, settings

from planner.base.errors import PlanError
from planner.questions import loading
from planner.results.allocations import list_allocations
from planner.results.result import evaluate_plan
from tests import strategies
from tests.conftest import ROOT


def check_sums(document: Any) -> int:
    """Compare with memory.live, which sums nothing that is listed; return how many were."""
    try:
        result = evaluate_plan(loading.load(document))
        list_allocations(result)
    except PlanError:  # no valid plan, or a model that is given by its size
        return 0
    phases = result.list_entries("phase")
    order = [phase.name for phase in phases]
    for stage in result.list_entries("stage"):
        rows = list_allocations(result, stage)
        assert all(row.copies >= 1 and row.bytes > 0 for row in rows)
        for now, phase in enumerate(phases):
            alive = [row for row in rows if order.index(row.born) <= now <= order.index(row.freed)]
            wanted = result.evaluation.value("memory.live", {"stage": stage, "phase": phase})
            assert sum(row.get_total() for row in alive) == wanted
    return len(rows)


def test_allocations_of_shipped_plans_are_all_that_lives() -> None:
    assert [check_sums(path) > 50 for path in (ROOT / "presets").glob("*.yaml")].count(False) == 1


@pytest.mark.slow
@settings(max_examples=60)
@given(strategies.whole_plans())
def test_allocations_of_any_plan_are_all_that_lives(document: strategies.Document) -> None:
    check_sums(document)
