"""The graph of many rows, which is written so that arrays have less to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import Any

from planner.book.quantity import BOOK, SIGNED
from planner.engine.graph import LEAVES, Graph, Number
from planner.engine.lower import Case, Entry, Lowering, number


class ArrayGraph(Graph):
    """A graph whose sums, products and choices are put together where that saves operations.

    Args:
        checked: whether what is divided by zero, and quantities outside of their range, have no
            value, as where one plan is evaluated. Layouts that are ranked need no checks: those
            that are shown are evaluated exactly.
    """

    inverts = True

    def __init__(self, checked: bool = False) -> None:
        super().__init__()
        self.checked = checked
        self._counts: dict[int, bool] = {}

    def quantity(self, value: int, key: Any) -> int:
        """The value itself, for no array is traced, if it may not be outside of its range."""
        low, high = within = BOOK.quantities[key[0]].within
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
        if len(scope) == 1 and number(value):
            return self.const(value)
        return super().input(symbol, scope, value)

    # -- sums and products --------------------------------------------------------------------

    def add(self, terms: Iterable[int]) -> int:
        """A sum. Sums of bodies that are picked at the same place are the picked sum, and the
        largest one where that is what they are picked by."""
        constant: Number = 0
        others: list[int] = []
        picks: dict[tuple[int, ...], list[int]] = {}
        for term in terms:
            operation, arguments = self.nodes[term]
            if operation == "const":
                constant += arguments[0]
            elif operation == "pick":
                picks.setdefault(arguments[0::2], []).append(term)
            else:
                others.append(term)
        if constant:
            others.append(self.const(constant))
        for bys, found in picks.items():
            if len(found) > 1:
                bodies = [self.nodes[term][1][1::2] for term in found]
                pick = self.pick(bys, [self.add(at) for at in zip(*bodies, strict=True)])
            else:
                (pick,) = found
            if len(picks) == 1 and self._completes(others, pick):
                return self.extreme("max", bys)
            others.append(pick)
        if len(others) < 2:
            return others[0] if others else self.const(0)
        return self.node("add", *sorted(others))

    def mul(self, factors: Iterable[int], divisors: Iterable[int] = ()) -> int:
        """A product over a product: divisors are multiplied first, so that a quotient of whole
        numbers is rounded once."""
        over, above, multiplied = self._factors(factors)
        under, below, divided = self._factors(divisors)
        if not below or not divided:
            raise ZeroDivisionError
        lost = next((place for place in (*under, *over) if place in self.lacking), None)
        if self.checked and lost is not None:
            return lost
        if not above:
            zero = self.const(0)
            if not (self.checked and under):
                return zero
            return self._finite(self.node("div", zero, self._product(under, 1, 1.0)))
        for place in () if self.checked else under[:]:
            if place in over:
                over.remove(place)
                under.remove(place)
        ratio = above if below == 1 else Fraction(above) / below
        inexact = multiplied / divided
        if not over and not under:
            return self.const(ratio if inexact == 1.0 else float(ratio) * inexact)
        top = self._product(over, ratio.numerator, inexact)
        bottom = self._product(under, ratio.denominator, 1.0)
        if self.number(bottom) is not None:
            return top if self.number(bottom) == 1 else self.node("div", top, bottom)
        return self._finite(self.node("div", top, bottom))

    def _factors(self, places: Iterable[int]) -> tuple[list[int], int | Fraction, float]:
        """Factors, the exact numbers among them multiplied, and the others."""
        others: list[int] = []
        exact: int | Fraction = 1
        inexact = 1.0
        for place in places:
            operation, arguments = self.nodes[place]
            if operation != "const":
                others.append(place)
            elif type(arguments[0]) is float:
                inexact *= arguments[0]
            else:
                exact *= arguments[0]
        return others, exact, inexact

    def _product(self, factors: list[int], whole: int, inexact: float) -> int:
        factors.sort()
        if inexact != 1.0 or whole != 1 or not factors:
            factors.append(self.const(whole * inexact if inexact != 1.0 else whole))
        return factors[0] if len(factors) == 1 else self.node("mul", *factors)

    def power(self, base: int, exponent: int) -> int:
        value, number = self.number(exponent), self.number(base)
        if isinstance(value, Fraction) and value in (Fraction(1, 2), Fraction(1, 4)):
            root = self.node("sqrt", base)
            return root if value == Fraction(1, 2) else self.node("sqrt", root)
        if isinstance(value, int):
            if number is not None and not isinstance(number, float):
                return self.const(Fraction(number) ** value)
            if 0 <= value <= 1:
                return base if value else self.const(1)
            if 1 < value <= 4:
                half = self.mul([base] * (value // 2))
                return self.mul([half, half] + [base] * (value % 2))
            if value < 0:
                return self.mul([], [self.power(base, self.const(-value))])
        return self._finite(self.node("pow", base, exponent))

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

    # -- choices ------------------------------------------------------------------------------

    def extreme(self, operation: str, values: Iterable[int]) -> int:
        """``max`` or ``min`` of some values; what all of them add stands outside."""
        places: set[int] = set()
        numbers: list[Number] = []
        for value in values:
            found, arguments = self.nodes[value]
            if found == "const":
                numbers.append(arguments[0])
            elif found == operation:
                places.update(arguments)
            else:
                places.add(value)
        if numbers:
            places.add(self.const(max(numbers) if operation == "max" else min(numbers)))
        sums = [Counter(self._terms(place)) for place in places]
        shared = reduce(and_, sums)
        if len(sums) > 1 and shared:
            rest = [self.add((terms - shared).elements()) for terms in sums]
            return self.add([*shared.elements(), self.extreme(operation, rest)])
        return places.pop() if len(places) == 1 else self.node(operation, *sorted(places))

    def pick(self, bys: Sequence[int], bodies: Sequence[int]) -> int:
        """The body at the largest ``by``."""
        lost = next((place for place in bys if place in self.lacking), None)
        if self.checked and lost is not None:
            return lost
        if len(set(bodies)) == 1:
            return bodies[0]
        if list(bys) == list(bodies):
            return self.extreme("max", bodies)
        pairs = list(dict.fromkeys(zip(bys, bodies, strict=True)))
        if len(pairs) == 1:
            return pairs[0][1]
        return self.node("pick", *(place for pair in pairs for place in pair))

    def select(self, cases: Sequence[tuple[int, int]]) -> int:
        """The value whose condition is true."""
        if len(cases) > 1 and len({value for _, value in cases}) == 1:
            conditions = {condition for condition, _ in cases}
            names = {self.nodes[c][1][0] for c in conditions if self.nodes[c][0] == "is"}
            if len(names) == 1 and all(self.nodes[c][0] == "is" for c in conditions):
                wanted = [v for c in conditions for v in self.nodes[c][1][1:]]
                cases = [(self.node("is", names.pop(), *wanted), cases[0][1])]
        return super().select(cases)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A graph, and where quantities are in it; a quantity that no plan has is left out."""

    graph: Graph
    roots: Mapping[str, int]
    absent: Mapping[str, str] = field(default_factory=dict)  # quantity -> reason


def compiled(
    case: Case,
    quantities: Sequence[str],
    conditional: Mapping[Entry, int] | None = None,
    checked: bool = False,
) -> Compiled:
    """The graph of some quantities of a case.

    Args:
        case: settings may be ``Varying``; numbers of the document and crossed symbols are inputs.
        quantities: ids that hold for the whole plan.
        conditional: entries that are there in some of the plans only, each with a key; it is the
            key of the node ``present`` that says in which.
        checked: as of ``ArrayGraph``.
    """
    lowering = Lowering(case, graph=ArrayGraph(checked), conditional=conditional)
    roots, absent = lowering.roots(quantities)
    return Compiled(lowering.graph, roots, absent)
