"""The formulas that a case asks for, as one graph of operations without names.

A node is a number: its place in the graph. Nodes that compute the same are one node, and nodes come
after what they are made from. What a graph computes with is an ``Input`` by key; the settings that
differ between plans are conditions, which are true or false for each plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import Any

#: A node: its operation, and its arguments (nodes, or a key or a number for the leaves).
Content = tuple[str, tuple[Any, ...]]
Number = int | Fraction | float
#: Operations whose arguments are no nodes.
LEAVES = frozenset(("const", "input", "is", "present"))


class Graph:
    """Nodes in the order of evaluation.

    Operations: ``const`` (a number), ``input`` (a key), ``is`` (a setting and the values wanted),
    ``present`` (a key of entries), ``and`` (conditions), ``select`` (condition, value, …: the
    first whose condition is true, NaN where none is), ``add``, ``mul``, ``div``, ``pow``,
    ``sqrt``, ``exp``, ``tanh``, ``log``, ``max``, ``min``, ``ceil``, ``floor``, ``pick`` (by,
    body, …: the body at the largest ``by``, the first of equals).
    """

    def __init__(self) -> None:
        self.nodes: list[Content] = []
        self._places: dict[Content, int] = {}
        self._used: dict[tuple[int, ...], tuple[list[int], dict[int, int]]] = {}

    def node(self, operation: str, *arguments: Any) -> int:
        content = (operation, arguments)
        place = self._places.get(content)
        if place is None:
            place = self._places[content] = len(self.nodes)
            self.nodes.append(content)
        return place

    def const(self, value: Number) -> int:
        if isinstance(value, Fraction):
            value = value.numerator if value.denominator == 1 else value
        return self.node("const", value, type(value) is float)

    def number(self, place: int) -> Number | None:
        """The number that a node is, None where it is none."""
        operation, arguments = self.nodes[place]
        return arguments[0] if operation == "const" else None

    def used(self, roots: Sequence[int]) -> tuple[list[int], dict[int, int]]:
        """The nodes that some roots need, in the order of evaluation, and how often each is used;
        a root once more. A graph that is asked does not grow any more."""
        key = tuple(roots)
        if key not in self._used:
            uses = dict.fromkeys(roots, 0)
            for root in roots:
                uses[root] += 1
            waiting = [*uses]
            while waiting:
                operation, arguments = self.nodes[waiting.pop()]
                for argument in () if operation in LEAVES else arguments:
                    if argument not in uses:
                        uses[argument] = 0
                        waiting.append(argument)
                    uses[argument] += 1
            self._used[key] = (sorted(uses), uses)
        return self._used[key]

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
        if not above:
            return self.const(0)
        for place in under[:]:
            if place in over:
                over.remove(place)
                under.remove(place)
        ratio = above if below == 1 else Fraction(above) / below
        inexact = multiplied / divided
        if not over and not under:
            return self.const(ratio if inexact == 1.0 else float(ratio) * inexact)
        top = self._product(over, ratio.numerator, inexact)
        bottom = self._product(under, ratio.denominator, 1.0)
        return top if self.number(bottom) == 1 else self.node("div", top, bottom)

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
        return self.node("pow", base, exponent)

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
        if len(set(bodies)) == 1:
            return bodies[0]
        if list(bys) == list(bodies):
            return self.extreme("max", bodies)
        pairs = list(dict.fromkeys(zip(bys, bodies, strict=True)))
        if len(pairs) == 1:
            return pairs[0][1]
        return self.node("pick", *(place for pair in pairs for place in pair))

    def both(self, conditions: Iterable[int]) -> int:
        """All of some conditions."""
        places = sorted(set(conditions))
        return places[0] if len(places) == 1 else self.node("and", *places)

    def select(self, cases: Sequence[tuple[int, int]]) -> int:
        """The value whose condition is true."""
        if len(cases) > 1 and len({value for _, value in cases}) == 1:
            conditions = {condition for condition, _ in cases}
            names = {self.nodes[c][1][0] for c in conditions if self.nodes[c][0] == "is"}
            if len(names) == 1 and all(self.nodes[c][0] == "is" for c in conditions):
                wanted = [v for c in conditions for v in self.nodes[c][1][1:]]
                return self.node("select", self.node("is", names.pop(), *wanted), cases[0][1])
        return self.node("select", *(place for case in cases for place in case))
