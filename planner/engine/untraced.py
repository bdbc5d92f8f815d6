"""Exact values of a few quantities of a plan, without the trace of what they were made from."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.base.errors import Fault, PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Case, Evaluation, Key, Point, Trace, widen
from planner.plans.document import Plan

if TYPE_CHECKING:
    from sympy import Symbol


class Untraced(Evaluation):
    """Exact values without the trace of what they were made from, which takes half the time."""

    def value(self, identifier: str, point: Point | None = None) -> Any:
        first = self.book.quantities[identifier]
        entries = tuple(point[axis] for axis in first.per) if point else ()
        found = self._values.get((identifier, entries))
        if found is None:
            found = self._found(identifier, widen(dict(zip(first.per, entries, strict=True))))
            self._values[identifier, entries] = found
        if isinstance(found, Absent):
            raise found
        return found

    def trace(self, identifier: str, point: Point | None = None) -> Trace:
        """The instance of a quantity, without what it was made from."""
        wide = widen(point or {})
        declaration = self.book.quantities[identifier].choose(lambda name: self.setting(name, wide))
        try:
            return Trace(declaration, wide, self.value(identifier, point))
        except Absent as absent:
            return Trace(declaration, wide, absent)

    def _found(self, identifier: str, point: Point) -> Any:
        for declaration in self.book.quantities[identifier].formulas:
            for name, wanted in declaration.when.items():
                actual = self.setting(name, point)
                several = isinstance(wanted, (tuple, set, frozenset))
                if not (actual in wanted if several else actual == wanted):
                    break
            else:
                try:
                    value = self.compute(declaration.expression, point)
                    outside = declaration.quantity.outside(value)
                    if outside is not None:
                        return Absent(outside)
                    whole = isinstance(value, Fraction) and value.denominator == 1
                    return value.numerator if whole else value  # type: ignore[union-attr]
                except Absent as absent:
                    return absent
                except ArithmeticError as error:
                    return Absent(str(error))
        return self._evaluate(identifier, point).value  # says why there is none

    @cached_property
    def _values(self) -> dict[Key, Any]:
        return {}

    def symbol(self, symbol: Symbol, point: Point) -> Any:
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            return self.value(identifier, point)
        bound = self.bound(symbol, point)
        if isinstance(bound, Absent):
            raise bound
        if isinstance(bound, (int, Fraction, float, str)):
            return bound
        return self.compute(bound, point)


def evaluated(plan: Plan, quantities: Iterable[str]) -> dict[str, Any]:
    """The values of some quantities of a plan; only what they need is evaluated.

    Raises:
        PlanError: one of them cannot be computed, with the reason.
    """
    return of_case(case.build(plan), quantities)


def of_case(built: Case, quantities: Iterable[str]) -> dict[str, Any]:
    """As ``evaluated``, of a case."""
    evaluation, values = Untraced(built), {}
    for quantity in quantities:
        try:
            values[quantity] = evaluation.value(quantity)
        except Absent as absent:
            raise PlanError(Fault(f"{quantity} cannot be computed: {absent.reason}")) from None
    return values
