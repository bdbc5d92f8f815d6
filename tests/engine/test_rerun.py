"""A graph over other numbers gives what an evaluation of its own gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.plan import variant
from planner.questions import loading
from tests.strategies import plans

SHIPPED = (
    "presets/gpt2small_hgx-h100.yaml",
    "presets/gpt3_a100x1024.yaml",
    "presets/mixtral8x7b_h100x1024.yaml",
)
ASKED = ("memory.process", "time.training_days")


def numbers(evaluation: Evaluation) -> dict[str, Any]:
    """Every quantity of the whole plan that is a number."""
    found = {}
    for name, first in BOOK.quantities.items():
        if first.per or not first.unit:
            continue
        try:
            found[name] = evaluation.value(name)
        except Absent:
            continue
    return found


def evaluated(plan: Any) -> Evaluation:
    evaluation = Evaluation(case.build(plan))
    evaluation.get_values(ASKED)
    return evaluation


@pytest.mark.parametrize("path", SHIPPED)
@pytest.mark.parametrize(
    "changes", [{"time.use": "assumed"}, {"time.mfu": None}], ids=["assumed", "predicted"]
)
def test_floats_say_what_exact_numbers_say(path: str, changes: dict[str, Any]) -> None:
    built = case.build(variant(loading.load(path), changes))
    expected = numbers(Evaluation(built))
    assert len(expected) > 60
    floats = Evaluation(built, exact=False)
    for name, value in expected.items():
        near = floats.value(name)
        assert isinstance(near, float)
        assert math.isclose(near, value, rel_tol=1e-9, abs_tol=1e-9 * abs(value) + 1)


@pytest.mark.slow
@settings(max_examples=25)
@given(plans())
def test_a_graph_holds_for_every_plan_whose_numbers_it_takes(document: Any) -> None:
    """Either a changed plan needs another graph, or this one gives its exact values."""
    plan = loading.load(document)
    evaluation, taken = evaluated(plan), 0
    for changes in (
        {"training.tokens": 12345678},
        {"training.sequence_length": 64},
        {"training.recompute": "full"},
        {"model.layers": 2 * plan.get("model.layers")},
        {"parallelism.zero": 1},
    ):
        built = case.build(variant(plan, changes))
        again = evaluation.rerun(built, exact=True)
        if again is not None:
            taken += 1
            assert again.get_values(ASKED) == Evaluation(built).get_values(ASKED), changes
    assert taken  # the number of tokens decides nothing


@pytest.mark.slow
@settings(max_examples=25)
@given(plans())
def test_what_is_kept_is_what_would_be_computed(document: Any) -> None:
    plan = loading.load(document)
    for exact in (True, False):
        last = Evaluation(case.build(plan), exact=exact)
        last.get_values(ASKED)
        for changes in (
            {},
            {"training.tokens": 12345678},
            {"training.tokens": 12345679, "training.sequence_length": 64},
            {"training.sequence_length": 64},
            {},
        ):
            built = case.build(variant(plan, changes))
            alone = Evaluation(built, exact=exact)
            again = last.rerun(built, exact)
            if again is not None:
                last = again
                assert repr(last.get_values(ASKED)) == repr(alone.get_values(ASKED))


def test_another_formula_needs_another_graph() -> None:
    plan = loading.load(SHIPPED[0])
    evaluation = evaluated(plan)
    more, full = ({"training.micro_batch": 16}, {"training.recompute": "full"})
    assert evaluation.rerun(case.build(variant(plan, more)), exact=True) is not None
    assert evaluation.rerun(case.build(variant(plan, full)), exact=True) is None


def test_what_is_new_to_the_graph_is_not_asked_of_other_entries() -> None:
    plan = loading.load(SHIPPED[0])
    evaluation = evaluated(plan)
    again = evaluation.rerun(case.build(variant(plan, {"model.hidden": 1536})), exact=True)
    assert again is not None and again.value("memory.process") > evaluation.value("memory.process")
    with pytest.raises(AssertionError, match=r"time\.mfu is not in the graph"):
        again.value("time.mfu")


def test_what_is_absent_says_which_and_why() -> None:
    evaluation = evaluated(loading.load(SHIPPED[1], {"cluster.provider": None}))
    with pytest.raises(PlanError, match=r"cost\.total cannot be computed: price of one device"):
        evaluation.get_values(["memory.process", "cost.total"])


def test_dependents_are_those_that_move() -> None:
    evaluation = evaluated(loading.load(SHIPPED[0]))
    graph = evaluation.graph
    tokens = [place for place in graph.inputs if graph.nodes[place][1][0].name == "T"]
    moved = graph.list_dependents(tokens)
    assert evaluation.instance("time.training_days", {}) in moved
    assert evaluation.instance("memory.process", {}) not in moved
