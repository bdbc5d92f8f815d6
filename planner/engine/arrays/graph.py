"""The graph of many rows, built so that arrays need fewer operations.

Its constants stay Python numbers: ``program`` computes with constants alone exactly, before there
are arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from planner.book.quantity import BOOK, SIGNED, Book
from planner.engine.graph import LEAVES, Graph
from planner.engine.lower import Case, Entry, Lowering


class ArrayGraph(Graph):
    """A graph whose sums and choices are merged where that saves operations.

    Args:
        checked: whether a division by zero and a quantity outside its range have no value, as if
            one plan is evaluated. Layouts that are ranked need no checks: those that are shown are
            evaluated exactly.
        book: of its quantities.
    """

    inverts = True

    def __init__(self, checked: bool = False, book: Book = BOOK) -> None:
        super().__init__()
        self.checked, self.book = checked, book
        self._counts: dict[int, bool] = {}

    def add_quantity(self, value: int, key: Any) -> int:
        """Return the value, for arrays have no trace; add a check if it can leave its range."""
        low, high = within = self.book.quantities[key[0]].within
        if not self.checked or (high is None and (low is None or self.is_nonnegative(value))):
            return value
        return self.add_node("within", value, self._magnitude(value), self.add_node("name", within))

    def is_nonnegative(self, place: int) -> bool:
        """Decide whether a node is never negative, as no input is."""
        if place not in self._counts:
            operation, arguments = self.nodes[place]
            if operation == "const":
                found = arguments[0] >= 0
            elif operation == "within":
                found = self.nodes[arguments[2]][1][0] != SIGNED
            elif operation == "max":
                found = any(map(self.is_nonnegative, arguments))
            elif operation in ("pick", "select"):
                found = all(map(self.is_nonnegative, arguments[1::2]))
            elif operation in LEAVES or operation == "pow":
                found = True
            else:
                found = operation != "log" and all(map(self.is_nonnegative, arguments))
            self._counts[place] = found
        return self._counts[place]

    def _magnitude(self, place: int) -> int:
        """Add a bound on a node's magnitude: its value if nothing in it cancelled."""
        operation, arguments = self.nodes[place]
        if operation == "const":
            return self.add_constant(abs(arguments[0]))
        if self.is_nonnegative(place):
            return place
        if operation == "finite":
            return self._magnitude(arguments[0])
        if operation in ("add", "mul", "max", "min"):
            terms = [self._magnitude(argument) for argument in arguments]
            if operation == "add":
                return self.add_sum(terms)
            return self.add_product(terms) if operation == "mul" else self.add_extreme("max", terms)
        if operation == "div":
            return self.add_product(
                [self._magnitude(arguments[0])], [self._magnitude(arguments[1])]
            )
        return place

    def _check_finite(self, place: int) -> int:
        """Replace a quotient or power that is not finite by NaN, if checked."""
        return self.add_node("finite", place) if self.checked else place

    def add_input(self, symbol: Any, scope: tuple[Any, ...], value: Any) -> int:
        """Add an input: a constant if it is one number in all rows, as what one entry binds is.

        Args:
            symbol: of the book's notation.
            scope: the entries that bind it, empty for the plan.
            value: of any row.
        """
        if len(scope) == 1 and isinstance(value, (int, Fraction, float)):
            return self.add_constant(value)
        return super().add_input(symbol, scope, value)

    def add_sum(self, terms: Iterable[int]) -> int:
        """Add a sum. Bodies that are picked by the same values are summed before the choice; if a
        picked body and the other terms sum to what it is picked by, add the maximum instead."""
        others: list[int] = []
        picks: dict[tuple[int, ...], list[int]] = {}
        for term in terms:
            operation, arguments = self.nodes[term]
            if operation == "pick":
                picks.setdefault(arguments[0::2], []).append(term)
            elif self.get_number(term) != 0:
                others.append(term)
        for bys, found in picks.items():
            pick = found[0]
            if len(found) > 1:
                bodies = [self.nodes[term][1][1::2] for term in found]
                pick = self.add_pick(bys, [self.add_sum(at) for at in zip(*bodies, strict=True)])
            if len(picks) == 1 and self._is_full_sum(others, pick):
                return self.add_extreme("max", bys)
            others.append(pick)
        return super().add_sum(sorted(others))

    def _is_full_sum(self, others: Sequence[int], pick: int) -> bool:
        """Decide whether a picked body and some other terms sum to what it is picked by."""
        operation, arguments = self.nodes[pick]
        return operation == "pick" and all(
            sorted((*others, *self._list_terms(body))) == self._list_terms(by)
            for by, body in zip(arguments[0::2], arguments[1::2], strict=True)
        )

    def _list_terms(self, place: int) -> list[int]:
        """List the terms of which a node is the sum."""
        operation, arguments = self.nodes[place]
        if operation == "add":
            return sorted(arguments)
        return [] if self.get_number(place) == 0 else [place]

    def add_product(self, factors: Iterable[int], divisors: Iterable[int] = ()) -> int:
        """Add a product over a product: divisors are multiplied first, so that a quotient of whole
        numbers is rounded once."""
        below = sorted(divisors)
        if any(self.get_number(place) == 0 for place in below):
            raise ZeroDivisionError
        found = super().add_product(sorted(factors), below)
        return self._check_finite(found) if below else found

    def add_power(self, base: int, exponent: int) -> int:
        """Add a power; in a checked graph it has no value where it is not finite."""
        return self._check_finite(super().add_power(base, exponent))

    def add_extreme(self, operation: str, values: Iterable[int]) -> int:
        """Add ``max`` or ``min`` of some values; terms common to all are added outside."""
        places = sorted(set(values))
        sums = [Counter(self._list_terms(place)) for place in places]
        shared = reduce(and_, sums)
        if len(sums) > 1 and shared:
            rest = [self.add_sum((terms - shared).elements()) for terms in sums]
            return self.add_sum([*shared.elements(), self.add_extreme(operation, rest)])
        return super().add_extreme(operation, places)

    def add_pick(self, bys: Sequence[int], bodies: Sequence[int]) -> int:
        """Add the body at the largest ``by``."""
        lost = next((place for place in bys if place in self.lacking), None)
        if self.checked and lost is not None:
            return lost
        if len(set(bodies)) == 1:
            return bodies[0]
        if list(bys) == list(bodies):
            return self.add_extreme("max", bodies)
        pairs = dict.fromkeys(zip(bys, bodies, strict=True))
        return self.add_node("pick", *(place for pair in pairs for place in pair))


class Compiled(NamedTuple):
    """A graph, the nodes of quantities in it, and those that no plan has, with the reason."""

    graph: Graph
    roots: Mapping[str, int]
    absent: Mapping[str, str]


def compile_graph(
    case: Case,
    quantities: Sequence[str],
    conditional: Mapping[Entry, int] | None = None,
    checked: bool = False,
) -> Compiled:
    """Compile some quantities of a case into a graph.

    Args:
        case: settings may be ``Varying``; numbers of the document and of pairs of entries are
            inputs.
        quantities: ids that hold for the whole plan.
        conditional: entries that only some plans have, as of ``Lowering``.
        checked: as of ``ArrayGraph``.
    """
    graph = ArrayGraph(checked, case.book)
    lowering = Lowering(case, graph=graph, conditional=conditional)
    found = {name: lowering.instance(name, {}) for name in quantities}
    roots = {name: node for name, node in found.items() if node not in graph.lacking}
    absent = {name: graph.lacking[node] for name, node in found.items() if node in graph.lacking}
    return Compiled(graph, roots, absent)
