"""One graph, many ways to run it: over random plans they say the same."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from planner.engine import instance as case
from planner.engine.arrays.compile import compiled
from planner.engine.arrays.operations import OPERATIONS, State
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.graph import LEAVES, Graph
from planner.engine.lower import bound
from planner.engine.tape import Tape
from planner.questions import loading
from planner.questions.studies.operations import Broadcast, over_arrays
from tests.strategies import plans

QUANTITIES = (
    "memory.process",
    "memory.headroom_p95",
    "time.step_seconds",
    "time.training_days",
    "compute.flops_per_token",
    "checkpoint.bytes",
)
BANDWIDTH = "cluster.accelerator.memory_bandwidth"


def close(value: Any) -> Any:
    return pytest.approx(float(value), rel=1e-9, abs=1e-12)


def for_arrays(graph: Graph, built: case.Case) -> list[State]:
    """Every node of a graph that is written for arrays, each input two rows of its number."""
    states: list[State] = []
    for operation, arguments in graph.nodes:
        if operation == "input":
            number = float(bound(built, arguments[0], arguments[1:]))
            states.append(State(array=np.array([number, number])))
        elif operation in LEAVES:
            value = arguments[0] if operation == "const" else float("nan")
            states.append(State(number=value))
        else:
            states.append(OPERATIONS[operation](Broadcast(), [states[i] for i in arguments]))
    return states


@settings(max_examples=12, deadline=None)
@given(plans())
def test_all_back_ends_say_the_same(document: Any) -> None:
    built = case.build(loading.load(document))
    evaluation = Evaluation(built)
    exact = {name: evaluation.value(name) for name in QUANTITIES}
    tape = Tape(built, QUANTITIES)
    leaves = tape.values(built)
    assert leaves is not None
    again, floats = tape.run(leaves), tape.run([float(leaf) for leaf in leaves], exact=False)
    rows = over_arrays(tape, [np.array([float(leaf)] * 2) for leaf in leaves])
    made = compiled(built, QUANTITIES)
    states = for_arrays(made.graph, built)
    for name, value in exact.items():
        node, root = tape.results[name], states[made.roots[name]]
        assert again[node] == value
        assert floats[node] == close(value)
        assert list(np.broadcast_to(rows[node], 2)) == [close(value)] * 2
        found = root.array if root.number is None else root.number
        assert list(np.broadcast_to(np.asarray(found, dtype=float), 2)) == [close(value)] * 2


@settings(max_examples=12, deadline=None)
@given(plans())
def test_a_derivative_is_what_a_small_change_makes(document: Any) -> None:
    """Of the time of a step by the bandwidth of memory, which no rounding stands before."""
    predicted = {key: value for key, value in document.items() if key != "time"}
    built = case.build(loading.load(predicted))
    tape = Tape(built, ["time.step_seconds"])
    leaves, node = tape.values(built), tape.results["time.step_seconds"]
    assert leaves is not None
    symbol = next(n.symbol for n in case.BOOK.notation.values() if n.key == BANDWIDTH)
    number = next(i for i, leaf in enumerate(tape.leaves) if leaf.symbol is symbol)
    values = tape.run(leaves)
    slope = tape.gradient(values, node).get(number, 0)
    ends = []
    for step in (Fraction(-1, 10**5), Fraction(1, 10**5)):
        moved = [x * (1 + step) if i == number else x for i, x in enumerate(leaves)]
        ends.append(Fraction(tape.run(moved)[node]))
    quotient = (ends[1] - ends[0]) / (Fraction(2, 10**5) * leaves[number])
    assert float(slope * leaves[number]) == pytest.approx(
        float(quotient * leaves[number]), rel=1e-4, abs=1e-9 * float(values[node])
    )


def test_what_is_absent_is_absent_for_all_with_one_reason() -> None:
    built = case.build(loading.load("presets/gpt3_a100x1024.yaml"))
    with pytest.raises(Absent) as found:
        Evaluation(built).value("cost.total")
    with pytest.raises(Absent) as taped:
        Tape(built, ["cost.total"])
    assert taped.value.reason == f"cost.total cannot be computed: {found.value.reason}"
    assert compiled(built, ["cost.total"]).absent == {"cost.total": found.value.reason}
