"""Quantities of a plan as one graph, to be run again over other numbers.

While a change moves numbers only (not which formulas hold, nor which entries there are) the graph
of one case runs over the inputs of another: in floats for a question that tries hundreds of plans,
exactly for derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from planner.book.expressions import Symbol
from planner.engine.graph import Graph
from planner.engine.lower import Absent, Case, Entry, Lowering, bound
from planner.engine.run import run, slopes, worth

#: What an input can be.
NUMBERS = frozenset((int, Fraction, float, bool))
#: Sets of inputs of which a tape remembers what rests on them.
MOST_MOVES = 16

Place = tuple[str, int]  # axis and position
Quantity = tuple[str, tuple[Place, ...]]


class Leaf(NamedTuple):
    """A bound symbol: of the plan, of one entry or of a pair of entries; or a quantity at which a
    tape ends."""

    symbol: Symbol
    places: tuple[Place, ...]


class Tape:
    """The operations behind some quantities of one case.

    Args:
        case: what is evaluated.
        quantities: the results.
        ends: quantities that are leaves, whatever they are made of. Their symbols are no symbols
            that a case binds, so that ``values`` has none for them.
        absent: takes why a quantity has no value, whatever the numbers, in the place of a result.
        like: a lowering of the case, or of one like it, whose graph is used again.

    Raises:
        Absent: a quantity that has no value, whatever the numbers, which one and why; with
            ``absent``, none.
    """

    def __init__(
        self,
        case: Case,
        quantities: Iterable[str],
        ends: Collection[str] = (),
        absent: dict[str, str] | None = None,
        like: Lowering | None = None,
    ) -> None:
        lowering = Lowering(case, ends=ends, like=like)
        self.graph: Graph = lowering.graph
        self.results: dict[str, int] = {}
        for name in quantities:
            node = lowering.instance(name, {})
            reason = self.graph.lacking.get(node)
            if reason is None:
                self.results[name] = node
            elif absent is None:
                raise Absent(f"{name} cannot be computed: {reason}")
            else:
                absent[name] = reason
        places = _places(case)
        #: The nodes, of which a shared graph has others besides.
        self._order: Sequence[int] = range(len(self.graph.nodes))
        if like is not None:
            self._order = self.graph.used(tuple(self.results.values()))[0]
        #: The node of each leaf.
        self.inputs = [p for p in self._order if self.graph.nodes[p][0] == "input"]
        self.leaves = [
            Leaf(symbol, tuple(places[entry] for entry in scope))
            for symbol, *scope in (self.graph.nodes[place][1] for place in self.inputs)
        ]
        self._nodes, self._places = lowering.nodes, places
        self._frame = _Frame(case, lowering, places)
        self._last: dict[bool, tuple[list[Any], list[Any]]] = {}
        self._moved: dict[frozenset[int], list[int]] = {}

    @cached_property
    def quantities(self) -> dict[Quantity, int]:
        """Which node is the value of which quantity at which entries."""
        return {
            (name, tuple(self._places[entry] for entry in entries)): node
            for (name, entries), node in self._nodes.items()
        }

    def values(self, case: Case) -> list[Any] | None:
        """The numbers of the leaves in a case; None where another tape is needed for it."""
        return self._frame.leaves(case, self.leaves)

    def run(self, leaves: Sequence[Any], exact: bool = True) -> list[Any]:
        """The value of every node, exact where the leaves are; a result that has none is NaN. Not
        ``exact``, the numbers of the formulas are floats, as the leaves then are."""
        values: list[Any] = [None] * len(self.graph.nodes)
        return self._run(self._order, values, leaves, exact)

    def _run(
        self, places: Iterable[int], values: list[Any], leaves: Sequence[Any], exact: bool
    ) -> list[Any]:
        given = dict(zip(self.inputs, leaves, strict=True))
        run(self.graph, places, values, given.__getitem__, worth if exact else None)
        for place in self.results.values():
            if type(values[place]) is Absent:
                values[place] = math.nan
        return values

    def again(self, leaves: Sequence[Any], exact: bool) -> list[Any]:
        """As ``run``; only what rests on leaves that are not as they were the last time (of exact
        numbers, or of floats) is computed anew."""
        before, values = self._last.get(exact, ((), []))
        if not before:
            values = self.run(leaves, exact)
        else:
            moved = frozenset(
                place
                for place, old, new in zip(self.inputs, before, leaves, strict=True)
                if old != new or type(old) is not type(new)
            )
            if moved not in self._moved:
                if len(self._moved) >= MOST_MOVES:
                    self._moved.clear()
                self._moved[moved] = self.graph.dependents(moved.__contains__, self._order)
            values = self._run(self._moved[moved], list(values), leaves, exact)
        self._last[exact] = (list(leaves), values)
        return values

    def gradient(self, values: Sequence[Any], result: int, rounds: int = 0) -> dict[int, Any]:
        """The derivative of one node by each leaf that it rests on, by the leaf's number; see
        ``run.slopes``."""
        found = slopes(self.graph.nodes, values, result, rounds)
        return {number: found[p] for number, p in enumerate(self.inputs) if p in found}


def _places(case: Case) -> dict[Entry, Place]:
    return {
        entry: (axis, index)
        for axis, entries in case.axes.items()
        if not isinstance(entries, Absent)
        for index, entry in enumerate(entries)
    }


class _Frame:
    """What must be as it was when a tape was recorded."""

    def __init__(self, case: Case, lowering: Lowering, places: Mapping[Entry, Place]) -> None:
        self.names = tuple(sorted(lowering.asked))
        self.settings = _settings(case.settings, self.names)
        self.expressions = {
            Leaf(symbol, tuple(places[entry] for entry in scope)): expression
            for (symbol, scope), expression in lowering.expressions.items()
        }
        self.axes: dict[str, tuple[tuple[str, ...], list[Any]] | None] = {}
        for axis, entries in case.axes.items():
            if isinstance(entries, Absent):
                self.axes[axis] = None
                continue
            given = {name for entry in entries for name in entry.settings}
            names = tuple(name for name in self.names if name in given)
            self.axes[axis] = (names, _shape(entries, names, places))
        #: The entries of each axis that agreed last.
        self._same: dict[str, Any] = {a: case.axes[a] for a, known in self.axes.items() if known}

    def leaves(self, case: Case, leaves: Sequence[Leaf]) -> list[Any] | None:
        """The numbers of some leaves in another case; None where its frame is not this one."""
        if _settings(case.settings, self.names) != self.settings:
            return None
        if case.axes.keys() != self.axes.keys():
            return None
        for axis, known in self.axes.items():
            entries = case.axes[axis]
            if known is None or isinstance(entries, Absent):
                if known is not None or not isinstance(entries, Absent):
                    return None
            elif len(entries) != len(known[1]):
                return None
        new = [axis for axis, same in self._same.items() if case.axes[axis] is not same]
        places = _places(case) if new else {}
        for axis in new:  # cases of one model share most entries
            entries, known = case.axes[axis], self.axes[axis]
            assert not isinstance(entries, Absent) and known is not None
            if _shape(entries, known[0], places) != known[1]:
                return None
        for leaf, expression in self.expressions.items():
            moved = not leaf.places or any(axis in new for axis, _ in leaf.places)
            if moved and _bound(case, leaf) is not expression:
                return None
        self._same = {axis: case.axes[axis] for axis in self._same}
        found = []
        for leaf in leaves:
            value = _bound(case, leaf)
            if type(value) not in NUMBERS:
                return None
            found.append(value)
        return found


def _settings(settings: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [settings.get(name) for name in names]


def _shape(
    entries: Sequence[Entry], names: Sequence[str], places: Mapping[Entry, Place]
) -> list[Any]:
    """Of each entry its parent, what it binds and what decides about it."""
    return [
        (
            None if entry.parent is None else places[entry.parent],
            tuple(entry.bindings),
            [entry.settings.get(name) for name in names],
        )
        for entry in entries
    ]


def _bound(case: Case, leaf: Leaf) -> Any:
    scope = [case.axes[axis][index] for axis, index in leaf.places]  # type: ignore[index]
    return bound(case, leaf.symbol, scope)
