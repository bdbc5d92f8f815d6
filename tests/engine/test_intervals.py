"""Intervals hold whatever is evaluated exactly, and prove what quantities cannot be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal, getcontext
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.book.expressions import Symbol
from planner.book.quantity import BOOK
from planner.engine import instance
from planner.engine.evaluate import Evaluation
from planner.engine.graph import Graph
from planner.engine.lower import Absent, Key
from planner.engine.run import run_graph, simplify_value
from planner.questions import loading
from tests.engine import intervals
from tests.engine.intervals import Interval
from tests.engine.proofs import Proof, unproved

ENDS = st.fractions(-8, 8, max_denominator=6)
OF_TWO = ("add", "mul", "div", "max", "min")
OPERATIONS = (*OF_TWO, "ceil", "floor", "pow", "pick")  # that are exact


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, dict[int, Interval]]:
    """A graph by hand over three inputs that have ranges."""
    graph = Graph()
    inputs = [graph.add_input(Symbol(name), (), None) for name in "xyz"]
    ranges = {place: (min(ends), max(ends)) for place in inputs
              for ends in [draw(st.tuples(ENDS, ENDS))]}  # fmt: skip
    places = [*inputs, graph.add_constant(2), graph.add_constant(Fraction(-1, 3))]
    for operation in draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=8)):
        one, other, third = (draw(st.sampled_from(places)) for _ in range(3))
        if operation == "pow":
            exponent = draw(st.sampled_from((-2, -1, 2, 3)))
            places.append(graph.add_power(one, graph.add_constant(exponent)))
        elif operation == "pick":
            places.append(graph.add_pick([one, other], [other, third]))
        elif operation in OF_TWO:
            places.append(graph.add_node(operation, one, other))
        else:
            places.append(graph.add_node(operation, one))
    return graph, ranges


def sampled(graph: Graph, ranges: dict[int, Interval], shares: list[Fraction]) -> list[Any]:
    """The exact values of all nodes, each input so far along its range."""
    given_ = {
        place: low + (high - low) * share
        for (place, (low, high)), share in zip(ranges.items(), shares, strict=True)
    }
    values: list[Any] = [None] * len(graph.nodes)
    run_graph(graph, range(len(values)), values, given_.__getitem__, lambda _, value: value)
    return values


SHARES = st.lists(st.sampled_from([Fraction(n, 7) for n in range(8)]), min_size=3, max_size=3)


@pytest.mark.slow
@settings(max_examples=200)
@given(graphs(), st.lists(SHARES, min_size=1, max_size=6))
def test_every_value_lies_in_its_interval(
    made: tuple[Graph, dict[int, Interval]], samples: list[list[Fraction]]
) -> None:
    graph, ranges = made
    found = intervals.run(graph, ranges)
    proof = Proof(graph, found)
    proved = [found[p] is not None and proof.within(p, 0, None) for p in range(len(found))]
    for shares in samples:
        for value, interval, positive in zip(
            sampled(graph, ranges, shares), found, proved, strict=True
        ):
            if not isinstance(value, Absent):
                assert interval is not None
                assert interval[0] <= value <= interval[1]
                assert value >= 0 or not positive


def test_what_stands_twice_is_cancelled() -> None:
    """x - x is 0, x / (x + y) at most 1, and x - min(x, y) is not below 0; x - y may be."""
    graph = Graph()
    x, y = (graph.add_input(Symbol(name), (), None) for name in "xy")
    less = graph.add_constant(-1)
    values = {
        "nothing": graph.add_sum([x, graph.add_product([less, x])]),
        "share": graph.add_product([x], [graph.add_sum([x, y])]),
        "rest": graph.add_sum([x, graph.add_product([less, graph.add_extreme("min", [x, y])])]),
        "difference": graph.add_sum([x, graph.add_product([less, y])]),
        "whole": graph.add_node(
            "ceil", graph.add_sum([x, graph.add_product([less, graph.add_node("ceil", x)])])
        ),
        "half": graph.add_node(
            "floor", graph.add_sum([x, graph.add_product([less, graph.add_node("ceil", x)])])
        ),
    }
    proof = Proof(graph, intervals.run(graph, {x: (0, 10**30), y: (Fraction(1, 10), 10**30)}))
    assert proof.within(values["nothing"], 0, 0)
    assert proof.within(values["share"], 0, 1)
    assert proof.within(values["rest"], 0, None)
    assert not proof.within(values["rest"], 1, None)
    assert not proof.within(values["difference"], 0, None)
    assert proof.within(values["whole"], 0, None)  # above -1, so rounded up to 0
    assert not proof.within(values["half"], 0, None)  # rounded down to -1


@settings(max_examples=100)
@given(st.fractions(Fraction(1, 10**6), 300), st.fractions(Fraction(1, 100), 5))
def test_roots_and_exponentials_are_rounded_outwards(x: Fraction, power: Fraction) -> None:
    """Against 60 digits of the decimal module."""
    getcontext().prec = 60
    exact = Decimal(x.numerator) / x.denominator
    growth, exponent = exact.exp(), Decimal(power.numerator) / power.denominator
    graph = Graph()
    node, other = (graph.add_input(Symbol(name), (), None) for name in "xy")
    values = {
        graph.add_node("exp", node): growth,
        graph.add_node("log", node): exact.ln(),
        graph.add_node("tanh", node): (growth - 1 / growth) / (growth + 1 / growth),
        graph.add_power(node, other): (exponent * exact.ln()).exp(),
    }
    found = intervals.run(graph, {node: (x, x), other: (power, power)})
    for place, value in values.items():
        low, high = found[place] or (0, 0)
        near = abs(Fraction(value)) / 10**50  # what the digits leave open
        assert low - near <= Fraction(value) <= high + near
        assert high - low <= abs(Fraction(value)) / 10**12


# The book ---------------------------------------------------------------------------------------

CLUSTER: dict[str, Any] = {
    "extends": "hgx-h100", "devices": 16, "price": "2 USD/h",
    "failures": {"count": 419, "devices": 16384, "period": "54 days"},
    "storage": {"bandwidth": "100 GB/s", "blocking": 0.5},
}  # fmt: skip
SERVED = {"mode": "inference", "output_tokens": 100}
ALONE = {"tensor": 1, "pipeline": 1}
#: What is tried: a model, and what its training and its layout say.
STRUCTURES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    *(("llama3-8b", {"optimizer": name}, {}) for name in
      ("adamw", "adam-8bit", "sgd", "sgd-momentum", "adafactor", "lion", "muon", "soap")),
    *(("llama3-8b", {"recompute": mode}, {"zero": zero, **ALONE}) for mode, zero in
      (("none", 0), ("selective", 1), ("full", 2), ("full", 3))),
    *(("llama3-8b", {"precision": name}, {"context": 2, "pipeline": 1}) for name in
      ("fp32", "bf16-pure", "fp8")),
    *(("mistral-7b", {"attention_count": name}, {}) for name in
      ("full", "causal", "window", "causal-window")),
    ("llama3-8b", {"lora": {"rank": 16}}, ALONE),
    ("llama3-8b", {"lora": {"rank": 16, "base": "nf4"}}, ALONE),
    ("llama3-8b", {}, {"virtual_pipeline": 2}),
    ("llama3-8b", {"schedule": "zero-bubble"}, {}),
    ("gpt2-small", {"sequence_length": 512, "dropout": 0.1, "attention": "eager"}, ALONE),
    ("t5-small", {"sequence_length": 512}, ALONE),
    ("bert-base", {"sequence_length": 512}, ALONE),
    *((name, {}, {"tensor": 2, "pipeline": 1, "expert": 8}) for name in
      ("mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b")),
    *((name, {}, {"tensor": 2, "pipeline": 1}) for name in
      ("gemma2-9b", "qwen3-next-80b-a3b", "jamba-52b", "falcon-h1-7b", "lfm2-1.2b", "mamba-130m")),
    *((name, SERVED, {"tensor": 2, "pipeline": 1}) for name in
      ("mistral-7b", "mixtral-8x7b", "deepseek-v3", "qwen3-next-80b-a3b")),
)  # fmt: skip
#: What is not proved: that the allocator's blocks are no fewer than the tensors that are alive at
#: once, of each stage and phase; less rounds of a scan than are taken off going backward; and keys
#: that a query meets, in whose formula length and window stand several times.
OPEN = {
    *("memory.allocator", "compute.component_backward", "time.bubble"),
    *("compute.attended_keys", "compute.performed_keys"),
}
SCALARS = [q.id for q in BOOK.quantities.values() if not q.per]


def evaluations(structures: Iterable[Any]) -> Iterator[Evaluation]:
    for model, training, layout in structures:
        document = {
            "name": "a structure", "model": model, "cluster": CLUSTER,
            "training": {"tokens": 10**9, "sequence_length": 2048, "global_batch": 64, **training},
            "parallelism": {"tensor": 2, "pipeline": 2, **layout},
        }  # fmt: skip
        evaluation = Evaluation(instance.build(loading.load(document)))
        for name in SCALARS:
            evaluation.instance(name, {})
        yield evaluation


def counterexample(
    evaluation: Evaluation, ranges: dict[int, Interval], key: Key, tries: int
) -> str | None:
    """Why a quantity has no value at some corner of the ranges, where it leaves its own."""
    random, node, graph = Random(key[0]), evaluation.nodes[key], evaluation.graph
    places = graph.list_needed([node])
    for _ in range(tries):
        drawn: dict[int, Any] = {}
        for place in graph.inputs:
            value, (low, high) = evaluation.evaluate_node(place), ranges[place]
            tried = random.choice((low, high, value, value * Fraction(10) ** random.randint(-6, 6)))
            inside = min(max(tried, low), high)
            drawn[place] = int(inside) if isinstance(value, int) else inside
        found: list[Any] = [None] * len(graph.nodes)
        run_graph(graph, places, found, drawn.__getitem__, lambda _, value: simplify_value(value))
        value = found[node]
        outside = (
            None if isinstance(value, Absent) else BOOK.quantities[key[0]].explain_outside(value)
        )
        if outside is not None:
            return outside
    return None


#: What a convention counts may be more than anybody performs: then it is absent, and says why.
COUNTED = "time.mfu"


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("start", range(5))
def test_no_quantity_leaves_its_range(start: int) -> None:
    """Over the ranges of the schemas, for each structure of plan that is tried."""
    count, open_ = 0, Counter[str]()
    for evaluation in evaluations(STRUCTURES[start::5]):
        ranges = intervals.domains(evaluation)
        instances, left = unproved(evaluation, ranges)
        count += instances
        for key in left:
            if key[0] == COUNTED:
                continue
            open_[key[0]] += 1
            assert counterexample(evaluation, ranges, key, 25) is None, key[0]
    print(f"{count} values, not proved: {dict(open_)}")
    assert set(open_) <= OPEN
    assert count > 1_500
