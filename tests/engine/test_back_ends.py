"""One graph, many ways to run it: over random plans they say the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.base import resources
from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.arrays.graph import compiled
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.graph import LEAVES, Graph
from planner.engine.lower import bound
from planner.engine.tape import Tape
from planner.plans.plan import variant
from planner.questions import loading
from planner.results.attribution import taken_apart
from tests.over_arrays import over_arrays
from tests.strategies import plans

QUANTITIES = (
    "memory.process",
    "memory.headroom_p95",
    "time.step_seconds",
    "time.training_days",
    "compute.flops_per_token",
    "checkpoint.bytes",
)
NODE = shutil.which("node")
BANDWIDTH = "cluster.accelerator.memory_bandwidth"


def close(value: Any) -> Any:
    return pytest.approx(float(value), rel=1e-9, abs=1e-12)


def twice(graph: Graph, built: case.Case) -> dict[Any, Any]:
    """Each input as two rows of its number."""
    contents = [content for content in graph.nodes if content[0] == "input"]
    values = [bound(built, arguments[0], arguments[1:]) for _, arguments in contents]
    return {c: np.array([float(v)] * 2) for c, v in zip(contents, values, strict=True)}


@settings(max_examples=12)
@given(plans())
def test_all_back_ends_say_the_same(document: Any) -> None:
    built = case.build(loading.load(document))
    evaluation = Evaluation(built)
    exact = {name: evaluation.value(name) for name in QUANTITIES}
    tape = Tape(built, QUANTITIES)
    leaves = tape.values(built)
    assert leaves is not None
    again, floats = tape.run(leaves), tape.run([float(leaf) for leaf in leaves], exact=False)
    rows = over_arrays(tape.graph, list(tape.results.values()), twice(tape.graph, built))
    made = compiled(built, QUANTITIES)
    rewritten = over_arrays(made.graph, list(made.roots.values()), twice(made.graph, built))
    for name, value in exact.items():
        node = tape.results[name]
        assert again[node] == value
        assert floats[node] == close(value)
        assert list(rows[node]) == [close(value)] * 2
        assert list(rewritten[made.roots[name]]) == [close(value)] * 2


def in_javascript(tape: Tape, leaves: list[Any]) -> list[Any]:
    """Every node of a tape as the what-if page works it out; None where it has no value."""
    inputs = dict(zip(tape.inputs, map(float, leaves), strict=True))
    nodes = [
        [op, [float(given[0])] if op == "const" else [] if op in LEAVES else given]
        for op, given in tape.graph.nodes
    ]
    folder = resources.folder("templates") / "interactive"
    program = (
        *(resources.read_text(folder / name) for name in ("python.js", "graph.js")),
        f"const graph={{nodes:{json.dumps(nodes)}}},inputs={json.dumps(inputs)},values=[];",
        "GRAPH.run(graph,graph.nodes.keys(),values,place=>inputs[place],(key,value)=>value);",
        "console.log(JSON.stringify(values.map(v=>typeof v==='number'?v:null)));",
    )
    done = subprocess.run(
        [NODE or ""], input="\n".join(program), capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


@pytest.mark.skipif(NODE is None, reason="there is no Node")
@settings(max_examples=6)
@given(plans())
def test_javascript_says_the_same(document: Any) -> None:
    built = case.build(loading.load(document))
    tape = Tape(built, QUANTITIES)
    leaves = tape.values(built)
    assert leaves is not None
    found = in_javascript(tape, leaves)
    for name, node in tape.results.items():
        assert found[node] == close(Evaluation(built).value(name)), name


@settings(max_examples=12)
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


STEPS = (
    {"training.micro_batch": 2},
    {"training.recompute": "full"},
    {"training.optimizer": "lion"},
    {"parallelism.zero": 3},
    {"parallelism.tensor": 1, "parallelism.sequence": False},
    {"parallelism.pipeline": 1},
    {"time.mfu": Fraction(2, 5)},
    {"cluster.price": None},
    {"training.mode": "inference", "training.output_tokens": 7},
)


def told(evaluation: Evaluation) -> dict[str, Any]:
    """Every quantity of a case, or why it has no value, with what it rests on in its order."""
    for name, quantity in BOOK.quantities.items():
        if not quantity.per:
            evaluation.trace(name)
    waiting, found = [(name, ()) for name, q in BOOK.quantities.items() if not q.per], {}
    while waiting:
        name, entries = waiting.pop()
        key = f"{name}[{','.join(entry.path for entry in entries)}]"
        if key not in found:
            trace = evaluation.trace(name, {entry.axis: entry for entry in entries})
            value = trace.value
            used = [key for key in trace.uses if isinstance(key[0], str)]
            rests = [(str(key[0]), *(getattr(e, "path", e) for e in key[1:])) for key in trace.uses
                     if not isinstance(key[0], str)]  # fmt: skip
            said = [f"{n}[{','.join(e.path for e in es)}]" for n, es in used]
            reason = value.reason if isinstance(value, Absent) else None
            found[key] = (reason, None if reason else value, trace.chosen, said, rests)
            waiting += used
    return found


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
        if isinstance(alone.trace(quantity).value, Absent):
            continue
        assert taken_apart(like, quantity) == taken_apart(alone, quantity)
        shared, own = (Tape(built, [quantity], like=by) for by in (like, None))
        slopes = []
        for tape in (shared, own):
            leaves = tape.values(built)
            assert leaves is not None
            by = tape.gradient(tape.again(leaves, exact=True), tape.results[quantity])
            slopes.append({tape.leaves[number]: slope for number, slope in by.items()})
        assert slopes[0].keys() == slopes[1].keys()
        assert all(slopes[0][leaf] == close(slopes[1][leaf]) for leaf in slopes[0])
