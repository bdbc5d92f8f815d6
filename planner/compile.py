"""The same formulas over arrays: one walk of the graph evaluates thousands of plans at once.

Symbols that differ between plans are bound to NumPy arrays, settings that differ to columns. Where
a setting decides between formulas, each is evaluated and each plan takes the one that holds for it.
What does not differ is a plain number. A quantity that is absent for a plan is
NaN there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sympy import Add, Integer, Max, Min, Mul, Pow, Rational, Symbol, ceiling, floor

from planner.evaluate import Absent, Evaluation, Point, widen
from planner.folds import AtLargest, Fold, Largest, Total, Which
from planner.quantity import Declaration

Array = NDArray[Any]
#: Results of divisions this close to a whole number, as a share, are that number.
SNAP = 1e-12


@dataclass(frozen=True, eq=False)
class Column:
    """A setting that differs between plans: for each plan the place of its value in ``values``."""

    codes: Array
    values: tuple[Any, ...]

    def mask(self, wanted: Any) -> Array:
        """For each plan whether its value is the wanted one, or one of them."""
        several = isinstance(wanted, (tuple, set, frozenset))
        hits = [value in wanted if several else value == wanted for value in self.values]
        return np.asarray(hits, dtype=bool)[self.codes]


class ArrayEvaluation(Evaluation):
    """Evaluates a case whose bindings may be arrays and whose settings may be columns."""

    def array(self, identifier: str, shape: tuple[int, ...]) -> Array:
        """A quantity for all plans, in the shape that all arrays of the case broadcast to; NaN
        where it is absent."""
        try:
            value = self.value(identifier)
        except Absent:
            value = float("nan")
        return np.broadcast_to(np.asarray(_float(value), dtype=np.float64), shape)

    def value(self, identifier: str, point: Point | None = None) -> Any:
        per = self.book.declarations[identifier][0].per
        entries = () if point is None else tuple(point[axis] for axis in per)
        key = (identifier, entries)
        found: Any = self.traces.get(key)
        if found is None:
            wide = widen(dict(zip(per, entries, strict=True)))
            try:
                found = self._choice(identifier, wide)
            except Absent as absent:
                found = absent
            except ArithmeticError as error:
                found = Absent(f"its numbers cannot be computed with ({error})")
            self.traces[key] = found
        if isinstance(found, Absent):
            raise found
        return found

    def _choice(self, identifier: str, point: Point) -> Any:
        """The formula that holds, or for each plan the one that holds for it."""
        chosen: list[tuple[Array | None, Declaration]] = []
        for declaration in self.book.declarations[identifier]:
            held, mask = self._held(declaration, point)
            if held and (mask is None or mask.any()):
                chosen.append((mask, declaration))
        if not chosen:
            raise Absent("no formula in the book holds for this plan's settings")
        result: Any = None
        for mask, declaration in chosen:
            try:
                value = self.compute(declaration.expression, point)
            except Absent:
                if mask is None:
                    raise
                value = float("nan")
            if mask is None or mask.all():
                return value
            other = float("nan") if result is None else _float(result)
            result = np.where(mask, _float(value), other)
        return result

    def _held(self, declaration: Declaration, point: Point) -> tuple[bool, Array | None]:
        mask: Array | None = None
        for name, wanted in declaration.when.items():
            actual = self.setting(name, point)
            if isinstance(actual, Column):
                one = actual.mask(wanted)
                mask = one if mask is None else mask & one
            elif not (
                actual in wanted
                if isinstance(wanted, (tuple, set, frozenset))
                else actual == wanted
            ):
                return False, None
        return True, mask

    def symbol(self, symbol: Symbol, point: Point) -> Any:
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            return self.value(identifier, point)
        bound = self.bound(symbol, point)
        if isinstance(bound, Absent):
            raise bound
        if isinstance(bound, (int, float, str, np.ndarray)):
            return bound
        if isinstance(bound, Fraction):
            return bound.numerator if bound.denominator == 1 else float(bound)
        return self.compute(bound, point)

    def compute(self, expression: Any, point: Point) -> Any:
        kind = type(expression)
        if kind is Symbol:
            return self.symbol(expression, point)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, expression, point)
        if isinstance(expression, Integer):
            return int(expression.p)
        if isinstance(expression, Rational):
            return expression.p / expression.q
        raise TypeError(f"no evaluation for {kind.__name__}: {expression}")


def _float(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else float(value)


def _sum(values: Any) -> Any:
    number: Any = 0
    arrays: Any = None
    for value in values:
        if isinstance(value, np.ndarray):
            arrays = value if arrays is None else arrays + value
        else:
            number += value
    if arrays is None:
        return number
    return arrays + float(number) if number else arrays


def _add(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    return _sum(self.compute(term, point) for term in expression.args)


def _mul(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    """Divisors are multiplied first, so that a quotient of whole numbers is rounded once."""
    above, below = _Product(), _Product()
    for factor in expression.args:
        if type(factor) is Pow and isinstance(factor.args[1], Integer) and factor.args[1].p < 0:
            base = self.compute(factor.args[0], point)
            for _ in range(-int(factor.args[1].p)):
                below.times(base)
        else:
            above.times(self.compute(factor, point))
    if below.arrays is None and below.number == 0:
        raise Absent("division by zero")
    if above.arrays is None and below.arrays is None:
        return _quotient(above.number, below.number)
    if below.number != 1:
        above.number = _quotient(above.number, below.number)
    top = above.joined()
    return top if below.arrays is None else top / below.arrays


def _quotient(above: Any, below: Any) -> Any:
    """Whole where it is, so that whole numbers stay exact."""
    if isinstance(above, int) and isinstance(below, int) and above % below == 0:
        return above // below
    return above / below


class _Product:
    """A product of plain numbers and of arrays, kept apart."""

    __slots__ = ("arrays", "number")

    def __init__(self) -> None:
        self.number: Any = 1
        self.arrays: Any = None

    def times(self, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self.arrays = value if self.arrays is None else self.arrays * value
        else:
            self.number *= value

    def joined(self) -> Any:
        if self.arrays is None:
            return float(self.number)
        return self.arrays if self.number == 1 else self.arrays * float(self.number)


def _pow(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    base = self.compute(expression.args[0], point)
    exponent = self.compute(expression.args[1], point)
    if isinstance(base, np.ndarray) or isinstance(exponent, np.ndarray):
        if isinstance(exponent, int) and exponent == -1:
            return 1.0 / base
        return np.power(_float(base), _float(exponent))
    if isinstance(exponent, int):
        if base == 0 and exponent < 0:
            raise Absent("division by zero")
        return base**exponent if exponent > 0 else _quotient(1, base**-exponent)
    return float(base) ** float(exponent)


def _bodies(self: ArrayEvaluation, fold: Fold, body: Any, point: Point) -> list[Any]:
    return [self.compute(body, p) for p in self.entries(fold.axis, point, fold.where)]


def _total(self: ArrayEvaluation, fold: Total, point: Point) -> Any:
    return _sum(_bodies(self, fold, fold.body, point))


def _largest(self: ArrayEvaluation, fold: Largest, point: Point) -> Any:
    values = _bodies(self, fold, fold.body, point)
    if not values:
        raise Absent(f"there is no {fold.axis}")
    return _fold_values(values, np.maximum, max)


def _at_largest(self: ArrayEvaluation, fold: AtLargest, point: Point) -> Any:
    best: Any = None
    result: Any = None
    for below in self.entries(fold.axis, point, fold.where):
        by = self.compute(fold.by, below)
        body = self.compute(fold.body, below)
        if best is None:
            best, result = by, body
            continue
        better = np.asarray(_float(by)) > np.asarray(_float(best))
        if better.ndim == 0:
            best, result = (by, body) if better else (best, result)
        else:
            best = np.where(better, _float(by), _float(best))
            result = np.where(better, _float(body), _float(result))
    if best is None:
        raise Absent(f"there is no {fold.axis}")
    return result


def _which(self: ArrayEvaluation, fold: Which, point: Point) -> Any:
    raise Absent("names are not evaluated over arrays")


def _fold_values(values: list[Any], joined: Any, plain: Any) -> Any:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    numbers = [value for value in values if not isinstance(value, np.ndarray)]
    if not arrays:
        return plain(numbers)
    result = arrays[0]
    for value in arrays[1:]:
        result = joined(result, value)
    return joined(result, float(plain(numbers))) if numbers else result


def _round_up(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    value = self.compute(expression.args[0], point)
    if isinstance(value, int):
        return value
    return np.ceil(_snapped(value)) if isinstance(value, np.ndarray) else math.ceil(_whole(value))


def _round_down(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    value = self.compute(expression.args[0], point)
    if isinstance(value, int):
        return value
    return np.floor(_snapped(value)) if isinstance(value, np.ndarray) else math.floor(_whole(value))


def _snapped(value: Array) -> Array:
    near = np.rint(value)
    return np.where(np.abs(value - near) <= SNAP * np.abs(near), near, value)


def _whole(value: float) -> float:
    near = round(value)
    return near if abs(value - near) <= SNAP * abs(near) else value


def _max(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    values = [self.compute(argument, point) for argument in expression.args]
    return _fold_values(values, np.maximum, max)


def _min(self: ArrayEvaluation, expression: Any, point: Point) -> Any:
    values = [self.compute(argument, point) for argument in expression.args]
    return _fold_values(values, np.minimum, min)


_HANDLERS: Mapping[type, Callable[[Any, Any, Point], Any]] = {
    Add: _add,
    Mul: _mul,
    Pow: _pow,
    Max: _max,
    Min: _min,
    ceiling: _round_up,
    floor: _round_down,
    Total: _total,
    Largest: _largest,
    AtLargest: _at_largest,
    Which: _which,
}
