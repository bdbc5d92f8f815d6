"""The moves of a plan cost and save the same wherever they are shown."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.plans.plan import about, variant
from planner.questions.loading import load
from planner.questions.sensitivity import step_choices, twice
from planner.results.improvements import find_faster, find_fixes, list_faster
from planner.results.moves import list_moves
from planner.results.result import evaluate_plan
from planner.results.verdict import FITS
from planner.serve import page
from tests.conftest import ROOT

STEP, PROCESS = "time.step_seconds", "memory.process"
PLANS = {
    "gpt2small_hgx-h100": ["training.micro_batch=8"],
    "mixtral8x7b_h100x1024": ["cluster.accelerator.memory_usable=20 GiB"],
}


def make(name: str, changes: list[str] | None = None) -> Plan:
    return load(ROOT / "presets" / f"{name}.yaml", changes or [])


def evaluate_alone(plan: Plan, changes: Any, quantity: str) -> Any:
    """Return a quantity of the changed plan, evaluated over a graph of its own."""
    return Evaluation(instance.build(variant(plan, changes))).value(quantity)


@pytest.mark.parametrize("name", PLANS)
def test_every_row_offers_only_what_the_schema_allows_and_other_values_than_its_own(
    name: str,
) -> None:
    plan, offered = make(name), 0
    for move in list_moves():
        assert about(move.key)
        for changes in move.yield_changes(plan):
            offered += 1
            assert changes[move.key] != plan.get(move.key)
            with suppress(PlanError):
                other = variant(plan, changes)
                taken = other.get(move.key) == changes[move.key]
                assert taken or move.key in other.derived  # nothing for it to divide
    assert offered > 20


def test_every_row_is_read_by_a_question() -> None:
    for move in list_moves():
        assert move.frees is not None or move.faster or move.otherwise or move.doubled, move
        assert bool(move.words) == (move.otherwise or move.doubled), move
    faster = [move for move in list_moves() if move.faster]
    assert len(faster) == len(list_faster()) and all(move in list_faster() for move in faster)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_what_does_not_fit_is_the_same_on_the_page_and_beside_a_choice(name: str) -> None:
    """A refused choice lacks as much as the plan in which it is set, and no fix is refused."""
    plan = make(name, PLANS[name])
    refused = dict(page._find_refused(evaluate_plan(plan)))
    assert refused
    for key, said in refused.items():
        for option, why in said.items():
            if why.startswith("does not fit: "):
                value = {"yes": True, "no": False}.get(option, option)
                value = int(value) if type(plan.get(key)) is int else value
                gib = Fraction(evaluate_alone(plan, {key: value}, FITS)) / 2**30
                assert float(why.split()[3]) == pytest.approx(-float(gib), rel=5e-3)
    advice = find_fixes(plan)
    for fix in advice.remedies if advice else ():
        if len(fix.changes) == 1:
            ((key, value),) = fix.changes.items()
            assert str(value) not in refused.get(key, {})


def test_doubled_devices_are_doubled_alike_by_reports_and_sensitivity() -> None:
    plan = make("gpt2small_hgx-h100")
    result = evaluate_plan(plan)
    doubled = {key: change for _, key, change in twice(result, "time.training_days")}
    steps = {step.key: step for step in step_choices(plan, "time.training_days")}
    shared = {key for key in doubled if key in steps and steps[key].after == 2 * steps[key].before}
    assert shared
    for key in shared:
        assert doubled[key] == steps[key].change


@pytest.mark.slow
def test_faster_layouts_and_fixes_have_the_values_of_plans_of_their_own() -> None:
    plan = make("mixtral8x7b_h100x1024", ["training.recompute=full"])
    for near in find_faster(plan, (PROCESS,)):
        for quantity, value in near.values.items():
            with suppress(Absent):
                own = evaluate_alone(plan, near.changes, quantity)
                assert float(value) == pytest.approx(float(own), rel=1e-9)
    tight = make("mixtral8x7b_h100x1024", PLANS["mixtral8x7b_h100x1024"])
    advice = find_fixes(tight)
    assert advice is not None and advice.remedies
    for fix in advice.remedies:
        own = evaluate_alone(tight, fix.changes, "memory.headroom_p95")
        assert fix.at_worst == float(own) >= 0
