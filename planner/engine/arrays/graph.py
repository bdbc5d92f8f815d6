"""The graph of many rows, which is written so that arrays have less to do.

Numbers stand in it as they come: what runs it (``program``) computes with these alone, exactly,
before there are arrays.
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
    """A graph whose sums and choices are put together where that saves operations.

    Args:
        checked: whether what is divided by zero, and quantities outside of their range, have no
            value, as where one plan is evaluated. Layouts that are ranked need no checks: those
            that are shown are evaluated exactly.
        book: whose quantities stand in it.
    """

    inverts = True

    def __init__(self, checked: bool = False, book: Book = BOOK) -> None:
        super().__init__()
        self.checked, self.book = checked, book
        self._counts: dict[int, bool] = {}

    def quantity(self, value: int, key: Any) -> int:
        """The value itself, for no array is traced, if it may not be outside of its range."""
        low, high = within = self.book.quantities[key[0]].within
        if not self.checked or (high is None and (low is None or self.counts(value))):
            return value
        return self.node("within", value, self._magnitude(value), self.node("name", within))

    def counts(self, place: int) -> bool:
        """Whether a node is never negative, as no input is."""
        if place not in self._counts:
            operation, arguments = self.nodes[place]
            if operation == "const":
                found = arguments[0] >= 0
            elif operation == "within":
                found = self.nodes[arguments[2]][1][0] != SIGNED
            elif operation == "max":
                found = any(map(self.counts, arguments))
            elif operation in ("pick", "select"):
                found = all(map(self.counts, arguments[1::2]))
            elif operation in LEAVES or operation == "pow":
                found = True
            else:
                found = operation != "log" and all(map(self.counts, arguments))
            self._counts[place] = found
        return self._counts[place]

    def _magnitude(self, place: int) -> int:
        """How large a node would be if nothing in it cancelled."""
        operation, arguments = self.nodes[place]
        if operation == "const":
            return self.const(abs(arguments[0]))
        if self.counts(place):
            return place
        if operation == "finite":
            return self._magnitude(arguments[0])
        if operation in ("add", "mul", "max", "min"):
            terms = [self._magnitude(argument) for argument in arguments]
            if operation == "add":
                return self.add(terms)
            return self.mul(terms) if operation == "mul" else self.extreme("max", terms)
        if operation == "div":
            return self.mul([self._magnitude(arguments[0])], [self._magnitude(arguments[1])])
        return place

    def _finite(self, place: int) -> int:
        """A quotient or a power, none where there is no such number."""
        return self.node("finite", place) if self.checked else place

    def input(self, symbol: Any, scope: tuple[Any, ...], value: Any) -> int:
        """What an entry binds is the same in all rows."""
        if len(scope) == 1 and isinstance(value, (int, Fraction, float)):
            return self.const(value)
        return super().input(symbol, scope, value)

    # -- sums, products and choices ---------------------------------------------------------------

    def add(self, terms: Iterable[int]) -> int:
        """A sum. Sums of bodies that are picked at the same place are the picked sum, and the
        largest one where that is what they are picked by."""
        others: list[int] = []
        picks: dict[tuple[int, ...], list[int]] = {}
        for term in terms:
            operation, arguments = self.nodes[term]
            if operation == "pick":
                picks.setdefault(arguments[0::2], []).append(term)
            elif self.number(term) != 0:
                others.append(term)
        for bys, found in picks.items():
            pick = found[0]
            if len(found) > 1:
                bodies = [self.nodes[term][1][1::2] for term in found]
                pick = self.pick(bys, [self.add(at) for at in zip(*bodies, strict=True)])
            if len(picks) == 1 and self._completes(others, pick):
                return self.extreme("max", bys)
            others.append(pick)
        return super().add(sorted(others))

    def _completes(self, others: Sequence[int], pick: int) -> bool:
        """Whether a picked body and some other terms sum up to what it is picked by."""
        operation, arguments = self.nodes[pick]
        return operation == "pick" and all(
            sorted((*others, *self._terms(body))) == self._terms(by)
            for by, body in zip(arguments[0::2], arguments[1::2], strict=True)
        )

    def _terms(self, place: int) -> list[int]:
        """What a node is the sum of."""
        operation, arguments = self.nodes[place]
        if operation == "add":
            return sorted(arguments)
        return [] if self.number(place) == 0 else [place]

    def mul(self, factors: Iterable[int], divisors: Iterable[int] = ()) -> int:
        """A product over a product: divisors are multiplied first, so that a quotient of whole
        numbers is rounded once."""
        below = sorted(divisors)
        if any(self.number(place) == 0 for place in below):
            raise ZeroDivisionError
        found = super().mul(sorted(factors), below)
        return self._finite(found) if below else found

    def power(self, base: int, exponent: int) -> int:
        return self._finite(super().power(base, exponent))

    def extreme(self, operation: str, values: Iterable[int]) -> int:
        """``max`` or ``min`` of some values; what all of them add stands outside."""
        places = sorted(set(values))
        sums = [Counter(self._terms(place)) for place in places]
        shared = reduce(and_, sums)
        if len(sums) > 1 and shared:
            rest = [self.add((terms - shared).elements()) for terms in sums]
            return self.add([*shared.elements(), self.extreme(operation, rest)])
        return super().extreme(operation, places)

    def pick(self, bys: Sequence[int], bodies: Sequence[int]) -> int:
        """The body at the largest ``by``."""
        lost = next((place for place in bys if place in self.lacking), None)
        if self.checked and lost is not None:
            return lost
        if len(set(bodies)) == 1:
            return bodies[0]
        if list(bys) == list(bodies):
            return self.extreme("max", bodies)
        pairs = dict.fromkeys(zip(bys, bodies, strict=True))
        return self.node("pick", *(place for pair in pairs for place in pair))


class Compiled(NamedTuple):
    """A graph, and where quantities are in it; those that no plan has, with the reason."""

    graph: Graph
    roots: Mapping[str, int]
    absent: Mapping[str, str]


def compiled(
    case: Case,
    quantities: Sequence[str],
    conditional: Mapping[Entry, int] | None = None,
    checked: bool = False,
) -> Compiled:
    """The graph of some quantities of a case.

    Args:
        case: settings may be ``Varying``; numbers of the document and of pairs of entries are
            inputs.
        quantities: ids that hold for the whole plan.
        conditional: entries that are there in some of the plans only, each with a key; it is the
            key of the node ``present`` that says in which.
        checked: as of ``ArrayGraph``.
    """
    graph = ArrayGraph(checked, case.book)
    lowering = Lowering(case, graph=graph, conditional=conditional)
    found = {name: lowering.instance(name, {}) for name in quantities}
    roots = {name: node for name, node in found.items() if node not in graph.lacking}
    absent = {name: graph.lacking[node] for name, node in found.items() if node in graph.lacking}
    return Compiled(graph, roots, absent)
