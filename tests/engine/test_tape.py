"""Tapes: they give what evaluation gives, for the plan of their recording and for others."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings

from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.tape import Tape
from planner.plans.plan import variant
from planner.questions import loading
from tests.strategies import plans

SHIPPED = (
    "presets/gpt2small_hgx-h100.yaml",
    "presets/gpt3_a100x1024.yaml",
    "presets/mixtral8x7b_h100x1024.yaml",
)


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


@pytest.mark.parametrize("path", SHIPPED)
@pytest.mark.parametrize("changes", [{}, {"time.mfu": None}], ids=["assumed", "predicted"])
def test_a_tape_says_what_evaluation_says(path: str, changes: dict[str, Any]) -> None:
    built = case.build(variant(loading.load(path), changes))
    expected = numbers(Evaluation(built))
    tape = Tape(built, expected)
    leaves = tape.values(built)
    assert leaves is not None and len(expected) > 60
    exact, floats = tape.run(leaves), tape.run([float(leaf) for leaf in leaves])
    for name, value in expected.items():
        node = tape.results[name]
        # Below a root both are floats, and sums of floats hang on their order.
        if isinstance(value, float) or isinstance(exact[node], float):
            assert exact[node] == pytest.approx(value, rel=1e-12)
        else:
            assert exact[node] == value
        assert math.isclose(floats[node], value, rel_tol=1e-9, abs_tol=1e-9 * abs(value) + 1)


@pytest.mark.slow
@settings(max_examples=25)
@given(plans())
def test_a_tape_holds_for_every_plan_whose_leaves_it_takes(document: Any) -> None:
    """Either a changed plan needs another tape, or this one gives its exact values."""
    plan = loading.load(document)
    tape = Tape(case.build(plan), ["memory.process", "time.training_days"])
    taken = 0
    for changes in (
        {"training.tokens": 12345678},
        {"training.sequence_length": 64},
        {"training.recompute": "full"},
        {"model.layers": 2 * plan.get("model.layers")},
        {"parallelism.zero": 1},
    ):
        changed = variant(plan, changes)
        leaves = tape.values(case.build(changed))
        if leaves is not None:
            values, evaluation = tape.run(leaves), Evaluation(case.build(changed))
            taken += 1
            for name, node in tape.results.items():
                assert values[node] == evaluation.value(name), (changes, name)
    assert taken  # the number of tokens decides nothing


@pytest.mark.slow
@settings(max_examples=25)
@given(plans())
def test_what_did_not_move_is_not_computed_again(document: Any) -> None:
    plan = loading.load(document)
    tape = Tape(case.build(plan), ["memory.process", "time.training_days"])
    for changes in (
        {},
        {"training.tokens": 12345678},
        {"training.tokens": 12345679, "training.sequence_length": 64},
        {"training.sequence_length": 64},
        {},
    ):
        leaves = tape.values(case.build(variant(plan, changes)))
        if leaves is not None:
            assert tape.again(leaves, exact=True) == tape.run(leaves)
            floats = [float(leaf) for leaf in leaves]
            assert repr(tape.again(floats, exact=False)) == repr(tape.run(floats, exact=False))


def test_another_formula_needs_another_tape() -> None:
    plan = loading.load(SHIPPED[0])
    tape = Tape(case.build(plan), ["memory.process"])
    assert tape.values(case.build(variant(plan, {"training.micro_batch": 16}))) is not None
    assert tape.values(case.build(variant(plan, {"training.recompute": "full"}))) is None


def test_what_is_absent_says_which_and_why() -> None:
    plan = loading.load(SHIPPED[1])
    with pytest.raises(Absent, match=r"cost\.total cannot be computed: price of one device"):
        Tape(case.build(plan), ["memory.process", "cost.total"])


def test_dependents_are_those_that_move() -> None:
    plan = loading.load(SHIPPED[0])
    tape = Tape(case.build(plan), ["memory.process", "time.training_days"])
    leaf = next(i for i, leaf in enumerate(tape.leaves) if leaf.symbol.name == "T")
    moved = tape.graph.dependents({tape.inputs[leaf]}.__contains__)
    assert tape.results["time.training_days"] in moved
    assert tape.results["memory.process"] not in moved
