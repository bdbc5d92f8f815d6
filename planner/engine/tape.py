"""Quantities of a plan as one graph, to be run again over other numbers.

While a change moves numbers only (not which formulas hold, nor which entries there are) the graph
of one case runs over the inputs of another: in floats for a question that tries hundreds of plans,
exactly for derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from planner.book.expressions import Symbol
from planner.engine.lower import Absent, Case, Entries, Entry, Lowering, bound, form, moved
from planner.engine.run import run, slopes, worth

#: What an input can be.
NUMBERS = frozenset((int, Fraction, float, bool))
#: Sets of inputs of which a tape remembers what rests on them.
MOST_MOVES = 16

Place = tuple[str, int]  # axis and position
Quantity = tuple[str, tuple[Place, ...]]


class Leaf(NamedTuple):
    """A bound symbol: of the plan, of one entry or of a pair of entries."""

    symbol: Symbol
    places: tuple[Place, ...]


class Tape:
    """The operations behind some quantities of one case.

    Args:
        case: what is evaluated.
        quantities: the results.
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
        absent: dict[str, str] | None = None,
        like: Lowering | None = None,
    ) -> None:
        lowering = Lowering(case, like=like)
        self.graph = lowering.graph
        self.results, lacking = lowering.roots(quantities)
        if absent is not None:
            absent.update(lacking)
        for name, reason in lacking.items() if absent is None else ():
            raise Absent(f"{name} cannot be computed: {reason}")
        #: The nodes, of which a shared graph has others besides.
        self._order: Sequence[int] = range(len(self.graph.nodes))
        if like is not None:
            self._order = self.graph.needed(self.results.values())
        self._lowering, self._agreed = lowering, case
        self._rests = frozenset().union(*lowering.rests.values())
        self._places: dict[Entry, Place] = {
            entry: (axis, index)
            for axis, entries in case.axes.items()
            if not isinstance(entries, Absent)
            for index, entry in enumerate(entries)
        }
        #: The node of each leaf.
        self.inputs = [p for p in self._order if self.graph.nodes[p][0] == "input"]
        self.leaves = [
            Leaf(symbol, tuple(self._places[entry] for entry in scope))
            for symbol, *scope in (self.graph.nodes[place][1] for place in self.inputs)
        ]
        self._last: dict[bool, tuple[list[Any], list[Any]]] = {}
        self._moved: dict[frozenset[int], list[int]] = {}

    @cached_property
    def quantities(self) -> dict[Quantity, int]:
        """Which node is the value of which quantity at which entries."""
        return {
            (name, tuple(self._places[entry] for entry in entries)): node
            for (name, entries), node in self._lowering.nodes.items()
        }

    def values(self, case: Case) -> list[Any] | None:
        """The numbers of the leaves in a case; None where another tape is needed for it."""
        if not self._rests.isdisjoint(moved(self._agreed, case, self._lowering.asked, self._alike)):
            return None
        found = []
        for leaf in self.leaves:
            scope = [case.axes[axis][index] for axis, index in leaf.places]  # type: ignore[index]
            found.append(bound(case, leaf.symbol, scope))
        if not NUMBERS.issuperset(map(type, found)):
            return None
        self._agreed = case  # the next one has most of its entries
        return found

    def _alike(self, some: Entries, others: Entries) -> bool:
        """Whether the entries of an axis have the same parents, bind the same symbols and decide
        the same, one by one."""
        return len(some) == len(others) and all(
            one is other or self._shape(one) == self._shape(other)
            for one, other in zip(some, others, strict=True)
        )

    def _shape(self, entry: Entry) -> list[Any]:
        asked = self._lowering.asked
        return [
            entry.parent and entry.parent.path,
            [(symbol, form(value)) for symbol, value in entry.bindings.items()],
            {name: value for name, value in entry.settings.items() if name in asked},
        ]

    def run(self, leaves: Sequence[Any], exact: bool = True) -> list[Any]:
        """The value of every node, exact where the leaves are; a result that has none is NaN. Not
        ``exact``, the numbers of the formulas are floats, as the leaves then are."""
        return self._run(self._order, [None] * len(self.graph.nodes), leaves, exact)

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
            changed = frozenset(
                place
                for place, old, new in zip(self.inputs, before, leaves, strict=True)
                if old != new or type(old) is not type(new)
            )
            if changed not in self._moved:
                if len(self._moved) >= MOST_MOVES:
                    self._moved.clear()
                self._moved[changed] = self.graph.dependents(changed.__contains__, self._order)
            values = self._run(self._moved[changed], list(values), leaves, exact)
        self._last[exact] = (list(leaves), values)
        return values

    def gradient(self, values: Sequence[Any], result: int, rounds: int = 0) -> dict[int, Any]:
        """The derivative of one node by each leaf that it rests on, by the leaf's number; see
        ``run.slopes``."""
        found = slopes(self.graph.nodes, values, result, rounds)
        return {number: found[p] for number, p in enumerate(self.inputs) if p in found}
