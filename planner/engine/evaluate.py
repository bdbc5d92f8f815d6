"""Exact evaluation: the values of a plan's quantities, and the trace of how they were computed.

Values are ints and Fractions throughout; floats enter only through roots and fractional powers of
estimates. Formulas become nodes of a graph on demand (``lower.py``) and are computed at once
(``run.py``). If a change affects numbers only (not which formulas apply, nor which entries exist),
the same graph serves the changed plan.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from planner.base.errors import PlanError
from planner.book.expressions import Expression, Symbol
from planner.book.quantity import KINDS, Book, Formula
from planner.engine.graph import LEAVES, UNKNOWN, Number
from planner.engine.lower import (
    SIZE_ONLY,
    Absent,
    Case,
    Entries,
    Entry,
    Key,
    Lowering,
    Point,
    diff_structure,
    get_binding,
    get_structure,
    widen,
)
from planner.engine.run import BEYOND, pick_operands, run_graph, simplify_value

__all__ = ["SIZE_ONLY", "Absent", "Case", "Entry", "Evaluation", "Key", "Number", "Point", "widen"]

Value = Number | str
ESTIMATE = KINDS.index("estimate")


class Trace:
    """One evaluated instance of a quantity: its formula, its value and its operands."""

    def __init__(self, evaluation: Evaluation, place: int) -> None:
        """Evaluate the instance whose ``quantity`` node is at ``place``."""
        self._evaluation, self.place = evaluation, place
        #: The node of its value; instances with the same formula and inputs share one.
        self.body: int
        self.body, name = evaluation.graph.nodes[place][1]
        self.key: Key = evaluation.graph.nodes[name][1][0]
        self.chosen: Formula | None = evaluation.chosen.get(self.key)
        self.value: Value | Absent = evaluation.evaluate_node(place)

    @cached_property
    def point(self) -> Point:
        """The entries at which the quantity was evaluated, and those around them, by axis."""
        return widen({entry.axis: entry for entry in self.key[1]})

    @cached_property
    def uses(self) -> dict[tuple[Any, ...], None]:
        """The operands in evaluation order, up to and including the first absent one: keys of
        quantities, and symbols with the entries that bind them."""
        found: dict[tuple[Any, ...], None] = {}
        nodes, values = self._evaluation.graph.nodes, self._evaluation.values
        seen: set[int] = set()

        def walk(place: int) -> bool:
            """Collect operands below a node; return False if it is absent, so that later ones are
            not needed."""
            if place not in seen:
                seen.add(place)
                operation, arguments = nodes[place]
                if operation == "quantity" and place != self.place:
                    found[nodes[arguments[1]][1][0]] = None
                elif operation == "input":
                    found[arguments] = None
                elif operation not in LEAVES:
                    if operation in ("div", "pick"):
                        arguments = tuple(pick_operands(operation, arguments, values))
                    for argument in arguments:
                        if not walk(argument):
                            return False
            return type(values[place]) is not Absent

        walk(self.place)
        return found


class Evaluation(Lowering):
    """Evaluates quantities of one case on demand and records how.

    Args:
        like: an evaluation of another case, as of a plan one step away, whose graph is reused.
        exact: whether numbers are exact, and a quantity outside its range is absent; else all are
            floats, for a question that tries hundreds of plans.
    """

    def __init__(
        self,
        case: Case,
        book: Book | None = None,
        like: Evaluation | None = None,
        exact: bool = True,
    ) -> None:
        assert like is None or not like.sealed
        super().__init__(case, book, like=like)
        self.exact = exact
        self.values: list[Any] = []  # of the nodes of the graph, as far as they are known
        self._traces: dict[int, Trace] = {}  # by their nodes
        self._axes = case.axes  # whose entries stand in the graph
        self._now: dict[Entry, Entry] = {}  # what stands for them in this case, where it is others
        self._kinds: dict[int, int] = {}  # of nodes, as places in KINDS

    def trace_quantity(self, identifier: str, point: Point | None = None) -> Trace:
        """Return the evaluated instance of a quantity, at a point if it has axes."""
        place = self.instance(identifier, point or {})
        if place not in self._traces:
            self._traces[place] = Trace(self, place)
        return self._traces[place]

    def value(self, identifier: str, point: Point | None = None) -> Any:
        """Return the value of a quantity; raise Absent with the reason if there is none."""
        return self._require_value(self.instance(identifier, point or {}))

    def get_values(self, quantities: Iterable[str]) -> dict[str, Any]:
        """Return the values of some quantities of the whole plan.

        Raises:
            PlanError: one of them cannot be computed, with the reason.
        """
        found = {}
        for name in quantities:
            try:
                found[name] = self.value(name)
            except Absent as absent:
                raise PlanError(f"{name} cannot be computed: {absent.reason}") from None
        return found

    def compute(self, expression: Expression, point: Point) -> Any:
        """Compute a canonical expression at a point; exact where it is rational. Raise Absent if it
        has no value."""
        return self._require_value(self.lower_tree(expression, point))

    def evaluate_node(self, place: int) -> Any:
        """Evaluate a node: return its value, or an Absent with the reason."""
        values = self.values
        if place >= len(values):
            values += [UNKNOWN] * (len(self.graph.nodes) - len(values))
        if values[place] is UNKNOWN:
            needed = self.graph.list_needed([place], values)
            run_graph(
                self.graph,
                needed,
                values,
                self._read_input,
                self._check_value if self.exact else None,
            )
        return values[place]

    def find_certainty(self, place: int) -> int:
        """Return a node's certainty (index into ``KINDS``): the weakest of its formulas and its
        inputs; inputs after an absent one are ignored."""
        worst = self._kinds.get(place)
        if worst is None:
            worst = 0
            operation, arguments = self.graph.nodes[place]
            if operation == "input":
                worst = KINDS.index(self.case.kinds.get(arguments[0], "exact"))
            elif operation == "quantity":
                key = self.graph.nodes[arguments[1]][1][0]
                formula = self.chosen.get(key) or self.book.quantities[key[0]].formulas[0]
                worst = max(0 if formula.exact else ESTIMATE, self.find_certainty(arguments[0]))
            elif operation not in LEAVES:
                if operation in ("div", "pick"):
                    arguments = tuple(pick_operands(operation, arguments, self.values))
                worst = self._find_weakest(arguments)
            self._kinds[place] = worst
        return worst

    def _find_weakest(self, arguments: Sequence[int]) -> int:
        """Return the weakest certainty of some operands, up to the first absent one."""
        worst = 0
        for argument in arguments:
            worst = max(worst, self.find_certainty(argument))
            if type(self.values[argument]) is Absent:
                return worst
        return worst

    def _require_value(self, place: int) -> Any:
        """Evaluate a node; raise Absent with the reason if it has no value."""
        value = self.evaluate_node(place)
        if type(value) is Absent:
            raise Absent(value.reason)
        return value

    def _read_input(self, place: int) -> Any:
        """Return an input's value in this case; None if there is no such pair of entries."""
        symbol, *scope = self.graph.nodes[place][1]
        if scope and self._now:
            scope = [self._now.get(entry, entry) for entry in scope]
        value = get_binding(self.case, symbol, scope)
        return value if self.exact or value is None else float(value)

    def _check_value(self, key: Key, value: Any) -> Any:
        """Simplify the value of a quantity; return an Absent if it is outside its range."""
        quantity = self.book.quantities[key[0]]
        if type(value) is Absent:
            return Absent(quantity.beyond) if quantity.beyond and value.reason == BEYOND else value
        value = simplify_value(value)
        outside = quantity.explain_outside(value)
        return value if outside is None else Absent(outside)

    def change_input(self, symbol: Symbol, value: Number) -> Evaluation:
        """Evaluate the case with another value of an input; keep what does not depend on it."""
        case = replace(self.case, bindings={**self.case.bindings, symbol: value})
        return self.rerun(case, self.exact) or Evaluation(case, self.book, exact=self.exact)

    def recompute_nodes(self, places: Iterable[int], others: Mapping[int, Number]) -> list[Any]:
        """Compute nodes again with other values for some nodes, as in a difference quotient; return
        the values of all nodes.

        Args:
            places: the nodes to compute, in evaluation order.
            others: values by node; none of them is in ``places``.
        """
        values = list(self.values)
        for place, value in others.items():
            values[place] = value
        checked = self._check_value if self.exact else None
        run_graph(self.graph, places, values, self._read_input, checked)
        return values

    def rerun(self, case: Case, exact: bool) -> Evaluation | None:
        """Run the same graph over the numbers of another case; keep values whose inputs are equal.
        Return None if other formulas apply there or its entries differ in structure. If entries
        have other numbers, the new evaluation is sealed: it has only the quantities of the
        graph."""
        if case.book is not self.case.book:
            return None
        others = diff_structure(self.case, case, self.asked, self._is_same_structure)
        if any(other in rests for other in others for rests in self.rests.values()):
            return None
        other = copy.copy(self)
        other.case, other.exact, other.values, other._traces, other._kinds = case, exact, [], {}, {}
        # From now on each has its own records.
        other.nodes, other.chosen, other.rests = {**self.nodes}, {**self.chosen}, {**self.rests}
        other.asked, other._anywhere, other._index = {*self.asked}, {**self._anywhere}, {}
        other._now = {}
        for axis, entries in self._axes.items():
            now = case.axes[axis]
            if entries is not now and isinstance(entries, tuple) and isinstance(now, tuple):
                pairs = zip(entries, now, strict=False)  # as many, where it matters
                other._now.update((old, new) for old, new in pairs if old is not new)
        other.sealed = bool(other._now)
        stale = []
        for place in self.graph.inputs:
            before = self.values[place] if place < len(self.values) else UNKNOWN
            if before is not UNKNOWN:
                after = other._read_input(place)
                if after is None:
                    return None
                if before != after or type(before) is not type(after):
                    stale.append(place)
        if exact is self.exact:
            other.values = list(self.values)
            for place in self.graph.list_dependents(stale):
                if place < len(other.values):
                    other.values[place] = UNKNOWN
        return other

    def _is_same_structure(self, some: Entries, others: Entries) -> bool:
        """Decide whether two lists of entries have the same parents, bind the same symbols and have
        the same settings, one by one."""
        return len(some) == len(others) and all(
            one is other or self._get_structure(one) == self._get_structure(other)
            for one, other in zip(some, others, strict=True)
        )

    def _get_structure(self, entry: Entry) -> list[Any]:
        """Return what decides which nodes an entry leads to, without the numbers that it binds."""
        return [
            entry.parent and entry.parent.path,
            entry.stack and entry.stack.path,
            [(symbol, get_structure(value)) for symbol, value in entry.bindings.items()],
            {name: value for name, value in entry.settings.items() if name in self.asked},
        ]
