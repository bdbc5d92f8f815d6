"""One graph, many ways to run it: over random plans they say the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from planner.base import resources
from planner.engine import instance as case
from planner.engine.arrays.graph import compiled
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.graph import LEAVES, Graph
from planner.engine.lower import bound
from planner.engine.tape import Tape
from planner.questions import loading
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
@settings(max_examples=6, deadline=None)
@given(plans())
def test_javascript_says_the_same(document: Any) -> None:
    built = case.build(loading.load(document))
    tape = Tape(built, QUANTITIES)
    leaves = tape.values(built)
    assert leaves is not None
    found = in_javascript(tape, leaves)
    for name, node in tape.results.items():
        assert found[node] == close(Evaluation(built).value(name)), name


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
