"""A graph over a table gives what plain arithmetic gives, row by row."""

from __future__ import annotations

import contextlib
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from planner.engine.arrays import operations
from planner.engine.arrays.graph import ArrayGraph
from planner.engine.arrays.program import Program, Values
from planner.engine.arrays.table import Codes, Table

COLUMNS = {"a": (1.0, 2.0, 3.0), "b": (0.5, 4.0), "c": tuple(range(1, 40))}
AXES = {"zero": (1.0, 2.0, 5.0), "mode": (7.0, 9.0)}


def build(graph: ArrayGraph, chance: random.Random, depth: int) -> int:
    """A random formula over the inputs."""
    kind = chance.choice(("input", "input", "const") if depth == 0 else OPERATIONS)
    if kind == "input":
        return graph.add_node("input", chance.choice([*COLUMNS, *AXES]))
    if kind == "const":
        return graph.add_constant(chance.choice((1, 2, Fraction(1, 3), 0.25)))
    inner = [build(graph, chance, depth - 1) for _ in range(chance.choice((2, 3)))]
    if kind == "add":
        return graph.add_sum(inner)
    if kind == "mul":
        return graph.add_product(inner[:1], inner[1:])
    if kind == "power":
        exponent = chance.choice((0, 1, 2, 3, 4, -1, Fraction(1, 2), Fraction(1, 4)))
        return graph.add_power(inner[0], graph.add_constant(exponent))
    if kind in ("max", "min"):
        return graph.add_extreme(kind, inner)
    if kind == "pick":
        return graph.add_pick(inner, [build(graph, chance, depth - 1) for _ in inner])
    if kind == "select":
        first = graph.add_node("is", "kind", "x")
        second = graph.add_node("is", "kind", "y", "z")
        return graph.add_select([(first, inner[0]), (second, inner[1])])
    return graph.add_node(kind, inner[0])


OPERATIONS = ("add", "mul", "mul", "power", "max", "min", "pick", "select", "ceil", "floor")


def plainly(graph: ArrayGraph, place: int, values: dict[str, Any]) -> float:
    """The value of a node for one row and one choice."""
    operation, arguments = graph.nodes[place]
    if operation == "const":
        return float(arguments[0])
    if operation == "input":
        return float(values[arguments[0]])
    if operation == "is":
        return float(values[arguments[0]] in arguments[1:])
    inner = [plainly(graph, a, values) for a in arguments]
    if operation == "select":
        return next(v for c, v in zip(inner[0::2], inner[1::2], strict=True) if c)
    if operation == "pick":
        return max(zip(inner[0::2], inner[1::2], strict=True), key=lambda pair: pair[0])[1]
    whole: dict[str, Any] = {
        "add": sum,
        "mul": math.prod,
        "div": lambda x: x[0] / x[1],
        "pow": lambda x: x[0] ** x[1],
        "max": max,
        "min": min,
        "ceil": lambda x: math.ceil(x[0] * (1 - operations.SNAP)),
        "floor": lambda x: math.floor(x[0] * (1 + operations.SNAP)),
    }
    return float(whole[operation](inner))


@pytest.mark.parametrize("rows", [40, 6000])
@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph_over_a_random_table(seed: int, rows: int) -> None:
    chance, draw = random.Random(seed), np.random.default_rng(seed)
    graph = ArrayGraph()
    roots: list[int] = []
    while len(roots) < 6:
        with contextlib.suppress(ZeroDivisionError):
            roots.append(build(graph, chance, 4))
    columns = {k: Codes(draw.integers(0, len(v), rows), len(v)) for k, v in COLUMNS.items()}
    kinds = ("x", "y", "z")
    columns["kind"] = Codes(columns["a"].of_row, 3)  # follows from a
    table = Table(rows, columns)

    def leaf(content: Any) -> Values:
        operation, arguments = content
        if operation == "is":
            found = np.array([kind in arguments[1:] for kind in kinds])
            return Values("kind", found[None, None, :])
        name = arguments[0]
        if name in COLUMNS:
            return Values(name, np.array(COLUMNS[name], dtype=float)[None, None, :])
        array = np.array(AXES[name])
        return Values(None, array[:, None, None] if name == "zero" else array[None, :, None])

    made = Program(graph, roots, table, leaf)
    start = chance.randrange(rows - 20)
    found = made.run_rows(slice(start, start + 20), (3, 2))
    for row in range(0, 20, 7):
        values = {k: v[columns[k].of_row[start + row]] for k, v in COLUMNS.items()}
        values["kind"] = kinds[columns["kind"].of_row[start + row]]
        for zero, mode in ((0, 0), (2, 1)):
            values |= {"zero": AXES["zero"][zero], "mode": AXES["mode"][mode]}
            for root in roots:
                try:
                    expected = plainly(graph, root, values)
                except (ZeroDivisionError, OverflowError):  # infinite or no number over arrays
                    continue
                assert found[root][zero, mode, row] == pytest.approx(expected, rel=1e-9)


def test_equal_formulas_are_one_node() -> None:
    graph = ArrayGraph()
    x, y = graph.add_node("input", "x"), graph.add_node("input", "y")
    assert graph.add_sum([x, y]) == graph.add_sum([y, x])
    assert graph.add_product([x, y], [y, x]) == graph.add_product([y, x], [x, y])
    assert graph.add_sum([x, graph.add_constant(0)]) == x
    assert graph.add_pick([x, y], [x, y]) == graph.add_extreme("max", [x, y])
    # Parts of a sum picked at the largest sum are that largest sum.
    one, two = graph.add_sum([x, y]), graph.add_sum([x, graph.add_constant(1)])
    parts = [
        graph.add_pick([one, two], [x, x]),
        graph.add_pick([one, two], [y, graph.add_constant(1)]),
    ]
    assert graph.add_sum(parts) in (
        graph.add_extreme("max", [one, two]),
        graph.add_sum([x, parts[1]]),
    )
    for zero in (0, 0.0):
        with pytest.raises(ZeroDivisionError):
            graph.add_product([x], [graph.add_constant(zero)])


def test_a_sum_of_what_is_largest_is_the_largest_sum() -> None:
    """Two stages, of each the sum of what it holds and of what lives at its fullest moment: all of
    it picked at the largest sum is the largest sum, and what a stage holds stands outside."""
    graph = ArrayGraph()
    stages = []
    for stage in "ab":
        held, *living = (graph.add_node("input", f"{stage}{moment}") for moment in range(4))
        moments = [graph.add_sum([held, one]) for one in living]
        peak = graph.add_extreme("max", moments)
        assert graph.nodes[peak] == ("add", tuple(sorted((held, graph.add_extreme("max", living)))))
        stages.append((peak, held, graph.add_pick(moments, living)))
    peaks, held, living = zip(*stages, strict=True)
    assert [graph.add_sum(pair) for pair in zip(held, living, strict=True)] == list(peaks)
    whole = graph.add_sum([graph.add_pick(peaks, held), graph.add_pick(peaks, living)])
    assert whole == graph.add_extreme("max", peaks)


def test_groups_say_which_rows_agree() -> None:
    draw = np.random.default_rng(1)
    columns = {name: Codes(draw.integers(0, size, 5000), size) for name, size in
               (("a", 3), ("b", 50), ("c", 700))}  # fmt: skip
    table = Table(5000, columns)
    for names in (("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")):
        group = table.build_group(table.encode_mask(names))
        keys = list(zip(*(columns[name].of_row.tolist() for name in names), strict=True))
        assert group.count == len(set(keys))
        for row in range(0, 5000, 97):
            assert keys[group.first[group.of_rows[row]]] == keys[row]


def test_rows_that_differ_in_columns_of_many_values_are_told_apart() -> None:
    """Where the combinations that could be are more than 2^32, of which few are."""
    rows = 1 << 17
    columns = {"a": Codes(np.arange(rows), rows), "b": Codes(np.arange(rows) // rows, rows)}
    table = Table(rows, columns)
    assert table.build_group(table.all.mask).count == rows
