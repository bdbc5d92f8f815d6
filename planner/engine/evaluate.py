"""Exact evaluation: what a plan's quantities are worth, and the trace of how that was found.

Values are ints and Fractions to the end; floats enter only through roots and fractional powers of
estimates. Formulas become nodes of a graph as they are asked for (``lower.py``) and are worked out
at once (``run.py``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.book.expressions import Expression, Symbol
from planner.book.quantity import BOOK, Book, Formula
from planner.engine.graph import LEAVES, UNKNOWN, Number
from planner.engine.lower import SIZE_ONLY, Absent, Case, Entry, Key, Lowering, Point, bound, widen
from planner.engine.lower import number as is_number
from planner.engine.run import operands, run, worth

__all__ = ["SIZE_ONLY", "Absent", "Case", "Entry", "Evaluation", "Key", "Number", "Point", "widen"]

Value = Number | str


class Trace:
    """One evaluated quantity instance: its formula, its value and what it was made from."""

    def __init__(self, evaluation: Evaluation, key: Key, place: int) -> None:
        self.chosen: Formula | None = evaluation.chosen.get(key)
        self.value: Value | Absent = evaluation.worth(place)
        self._evaluation, self._key, self._place = evaluation, key, place

    @property
    def body(self) -> int:
        """The node that it is the value of; instances made alike of the same inputs share one."""
        body: int = self._evaluation.graph.nodes[self._place][1][0]
        return body

    @cached_property
    def point(self) -> Point:
        per = self._evaluation.book.quantities[self._key[0]].per
        return widen(dict(zip(per, self._key[1], strict=True)))

    @cached_property
    def uses(self) -> dict[tuple[Any, ...], None]:
        """Keys of quantities, and symbols with the paths of the entries that bind them, in the
        order in which the formula asks for them; none after one that has no value."""
        found: dict[tuple[Any, ...], None] = {}
        nodes, values = self._evaluation.graph.nodes, self._evaluation.values
        seen: set[int] = set()

        def walk(place: int) -> bool:
            if place not in seen:
                seen.add(place)
                operation, arguments = nodes[place]
                if operation == "quantity" and place != self._place:
                    found[nodes[arguments[1]][1][0]] = None
                elif operation == "input":
                    symbol, *scope = arguments
                    found[(symbol, *sorted([entry.path for entry in scope]))] = None
                elif operation not in LEAVES:
                    if operation in ("div", "pick"):
                        arguments = tuple(operands(operation, arguments, values))
                    for argument in arguments:
                        if not walk(argument):
                            return False
            return type(values[place]) is not Absent

        walk(self._place)
        return found


class Evaluation(Lowering):
    """Evaluates quantities of one case on demand and remembers how.

    Args:
        like: an evaluation of another case, as of a plan one step away, whose graph is used again.
    """

    def __init__(self, case: Case, book: Book = BOOK, like: Evaluation | None = None) -> None:
        super().__init__(case, book, like=like)
        self.values: list[Any] = []  # of the nodes of the graph, as far as they are known
        self._traces: dict[Key, Trace] = {}

    # -- quantities ---------------------------------------------------------------------------

    def trace(self, identifier: str, point: Point | None = None) -> Trace:
        """The evaluated instance of a quantity at a point (for quantities with axes)."""
        point = point or {}
        place = self.instance(identifier, point)
        per = self.book.quantities[identifier].per
        key = (identifier, tuple([point[axis] for axis in per]))
        found = self._traces.get(key)
        if found is None:
            found = self._traces[key] = Trace(self, key, place)
        return found

    @property
    def traces(self) -> dict[Key, Trace]:
        """All instances that were evaluated, asked for or used."""
        return {key: Trace(self, key, place) for key, place in self.nodes.items()}

    def value(self, identifier: str, point: Point | None = None) -> Any:
        """The value of a quantity; raises Absent with the reason where there is none."""
        return self._given(self.instance(identifier, point or {}))

    def symbol(self, symbol: Symbol, point: Point) -> Any:
        """The value of an input or of a quantity; raises Absent where there is none."""
        return self._given(self.lower(symbol, point))

    def compute(self, expression: Expression, point: Point) -> Any:
        """The value of a canonical expression at a point; exact wherever it is rational."""
        return self._given(self.lower(expression, point))

    def worth(self, place: int) -> Any:
        """The value of a node, or why it has none."""
        values = self.values
        if place >= len(values):
            values += [UNKNOWN] * (len(self.graph.nodes) - len(values))
        if values[place] is UNKNOWN:
            needed = self.graph.needed([place], values)
            run(self.graph, needed, values, self._input, self._worth)
        return values[place]

    def _given(self, place: int) -> Any:
        value = self.worth(place)
        if type(value) is Absent:
            raise Absent(value.reason)
        return value

    def _input(self, place: int) -> Any:
        symbol, *scope = self.graph.nodes[place][1]
        return bound(self.case, symbol, scope)

    def _worth(self, key: Key, value: Any) -> Any:
        return worth(key, value, self.book)

    # -- variations ---------------------------------------------------------------------------

    def varied(self, symbol: Symbol, value: Number) -> Evaluation:
        """The same case with another value of an input; what does not rest on it is kept."""
        case = replace(self.case, bindings={**self.case.bindings, symbol: value})
        if not is_number(self.case.bindings.get(symbol)):
            return Evaluation(case, self.book)
        other = copy.copy(self)
        other.case, other.values, other._traces = case, list(self.values), {}
        place = self.graph.find("input", symbol)
        moved = self.graph.dependents(lambda p: p == place)
        known = [p for p in moved if p < len(self.values) and self.values[p] is not UNKNOWN]
        run(self.graph, known, other.values, other._input, other._worth)
        return other


def of_case(built: Case, quantities: Iterable[str]) -> dict[str, Any]:
    """The values of some quantities of a case; only what they need is evaluated.

    Raises:
        PlanError: one of them cannot be computed, with the reason.
    """
    evaluation, values = Evaluation(built), {}
    for quantity in quantities:
        try:
            values[quantity] = evaluation.value(quantity)
        except Absent as absent:
            raise PlanError(Fault(f"{quantity} cannot be computed: {absent.reason}")) from None
    return values
