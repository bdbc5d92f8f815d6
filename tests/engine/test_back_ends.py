"""One graph, many ways to run it: over random plans they say the same."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.arrays.graph import compile_graph
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.graph import Graph
from planner.engine.lower import get_binding
from planner.engine.run import slopes
from planner.plans.plan import variant
from planner.questions import loading
from planner.results.attribution import break_down
from tests.conftest import read_data
from tests.over_arrays import over_arrays
from tests.strategies import plans

QUANTITIES = read_data("results")["quantities_of_back_ends"]
BANDWIDTH = "cluster.accelerator.memory_bandwidth"


def close(value: Any) -> Any:
    return pytest.approx(float(value), rel=1e-9, abs=1e-12)


def numbers(graph: Graph, built: case.Case) -> dict[int, float]:
    """What each input of a graph is in a case."""
    inputs = {place: graph.nodes[place][1] for place in graph.inputs}
    return {
        place: float(get_binding(built, symbol, scope))
        for place, (symbol, *scope) in inputs.items()
    }


def twice(graph: Graph, built: case.Case) -> dict[Any, Any]:
    """Each input as two rows of its number."""
    found = numbers(graph, built)
    return {graph.nodes[place]: np.array([value] * 2) for place, value in found.items()}


@pytest.mark.slow
@settings(max_examples=12)
@given(plans())
def test_all_back_ends_say_the_same(document: Any) -> None:
    built = case.build(loading.load(document))
    evaluation = Evaluation(built)
    exact = {name: evaluation.value(name) for name in QUANTITIES}
    floats = Evaluation(built, exact=False)
    places = {name: evaluation.instance(name, {}) for name in QUANTITIES}
    graph = evaluation.graph
    rows = over_arrays(graph, list(places.values()), twice(graph, built))
    made = compile_graph(built, QUANTITIES)
    rewritten = over_arrays(made.graph, list(made.roots.values()), twice(made.graph, built))
    for name, value in exact.items():
        assert floats.value(name) == close(value)
        assert list(rows[places[name]]) == [close(value)] * 2
        assert list(rewritten[made.roots[name]]) == [close(value)] * 2


@settings(max_examples=12)
@given(plans())
def test_a_derivative_is_what_a_small_change_makes(document: Any) -> None:
    """Of the time of a step by the bandwidth of memory, which no rounding stands before."""
    predicted = {key: value for key, value in document.items() if key != "time"}
    built = case.build(loading.load(predicted))
    evaluation, name = Evaluation(built), "time.step_seconds"
    seconds, nodes = evaluation.value(name), evaluation.graph.nodes
    symbol = next(n.symbol for n in case.BOOK.notation.values() if n.key == BANDWIDTH)
    found = slopes(nodes, evaluation.values, evaluation.instance(name, {}))
    slope = next((s for place, s in found.items() if nodes[place][1] == (symbol,)), 0)
    size, step = built.bindings[symbol], Fraction(1, 10**5)
    ends = [evaluation.change_input(symbol, size * (1 + by)).value(name) for by in (-step, step)]
    quotient = (Fraction(ends[1]) - Fraction(ends[0])) / (2 * step * size)
    assert float(slope * size) == pytest.approx(
        float(quotient * size), rel=1e-4, abs=1e-9 * float(seconds)
    )


def test_what_is_absent_is_absent_for_all_with_one_reason() -> None:
    built = case.build(loading.load("presets/gpt3_a100x1024.yaml", {"cluster.provider": None}))
    with pytest.raises(Absent) as found:
        Evaluation(built).value("cost.total")
    with pytest.raises(Absent) as floats:
        Evaluation(built, exact=False).value("cost.total")
    assert floats.value.reason == found.value.reason
    assert compile_graph(built, ["cost.total"]).absent == {"cost.total": found.value.reason}


STEPS = (
    {"training.micro_batch": 2},
    {"training.recompute": "full"},
    {"training.optimizer": "lion"},
    {"parallelism.zero": 3},
    {"parallelism.tensor": 1, "parallelism.sequence": False},
    {"parallelism.pipeline": 1},
    {"time.mfu": Fraction(2, 5), "time.use": "assumed"},
    {"cluster.price": None},
    {"training.mode": "inference", "training.output_tokens": 7},
)


def told(evaluation: Evaluation) -> dict[str, Any]:
    """Every quantity of a case, or why it has no value, with what it rests on in its order."""
    for name, quantity in BOOK.quantities.items():
        if not quantity.per:
            evaluation.trace_quantity(name)
    waiting, found = [(name, ()) for name, q in BOOK.quantities.items() if not q.per], {}
    while waiting:
        name, entries = waiting.pop()
        key = f"{name}[{','.join(entry.path for entry in entries)}]"
        if key not in found:
            trace = evaluation.trace_quantity(name, {entry.axis: entry for entry in entries})
            value = trace.value
            used = [key for key in trace.uses if isinstance(key[0], str)]
            rests = [(str(key[0]), *(getattr(e, "path", e) for e in key[1:])) for key in trace.uses
                     if not isinstance(key[0], str)]  # fmt: skip
            said = [f"{n}[{','.join(e.path for e in es)}]" for n, es in used]
            reason = value.reason if isinstance(value, Absent) else None
            found[key] = (reason, None if reason else value, trace.chosen, said, rests)
            waiting += used
    return found


@pytest.mark.slow
@settings(max_examples=4)
@given(plans(), plans(), st.lists(st.sampled_from(STEPS), min_size=1, max_size=2))
def test_a_graph_used_again_says_what_a_new_one_says(
    document: Any, other: Any, steps: list[Any]
) -> None:
    """Plans one step from each other, and one that shares nothing, write into one graph."""
    plan = loading.load(document)
    every = [plan, loading.load(other)]
    for step in steps:
        with suppress(PlanError):
            every.append(variant(every[-1], step))
            every.append(variant(plan, step))
    like = None
    for each in every:
        built = case.build(each)
        like = Evaluation(built, like=like)
        alone = Evaluation(built)
        assert told(like) == told(alone)
        quantity = "time.step_seconds"
        if isinstance(alone.trace_quantity(quantity).value, Absent):
            continue
        assert break_down(like, quantity) == break_down(alone, quantity)
        shared, own = ({
            by.graph.nodes[place][1]: slope
            for place, slope in slopes(by.graph.nodes, by.values, by.instance(quantity, {})).items()
        } for by in (like, alone))  # fmt: skip
        assert shared.keys() == own.keys()
        assert all(shared[leaf] == close(own[leaf]) for leaf in shared)
