"""What an expression is worth at a point: a tree of SymPy, turned into nested functions once.

Exact wherever the expression is rational: ints and Fractions, floats only below a root. The same
few hundred formulas are worked out for every layer, stage and neighbour of a plan, so that a walk
over their trees each time would be most of the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Protocol

from sympy import (
    Add,
    Integer,
    Max,
    Min,
    Mul,
    Pow,
    Rational,
    Symbol,
    ceiling,
    exp,
    floor,
    log,
    tanh,
)

from planner.book.reductions import AtLargest, Fold, Largest, Total, Which

Number = int | Fraction | float
#: Expressions kept as functions; documents have expressions of their own.
MOST_KEPT = 10_000


class Absent(Exception):
    """A quantity that cannot be computed, with its reason. It is never 0."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Evaluator(Protocol):
    """What gives symbols their values, and axes their entries."""

    def symbol(self, symbol: Symbol, point: Any) -> Any: ...

    def entries(self, axis: str, point: Any, where: Mapping[str, str]) -> list[Any]: ...


Work = Callable[[Evaluator, Any], Any]
_KEPT: dict[Any, Work] = {}


def work(expression: Any) -> Work:
    """The function of an evaluator and a point that gives the expression's value."""
    found = _KEPT.get(expression)
    if found is None:
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        found = _KEPT[expression] = _made(expression)
    return found


def _made(expression: Any) -> Work:
    if isinstance(expression, Symbol):
        return lambda ev, point: ev.symbol(expression, point)
    maker = _MAKERS.get(type(expression))
    if maker is not None:
        return maker(expression)
    if isinstance(expression, Integer):
        return _constant(int(expression.p))
    if isinstance(expression, Rational):
        return _constant(Fraction(expression.p, expression.q))
    raise TypeError(f"no evaluation for {type(expression).__name__}: {expression}")


def _constant(value: Number) -> Work:
    return lambda ev, point: value


def _add(expression: Any) -> Work:
    terms = [work(term) for term in expression.args]

    def add(ev: Evaluator, point: Any) -> Number:
        total: Number = 0
        for term in terms:
            total += term(ev, point)
        return total

    return add


def _mul(expression: Any) -> Work:
    below = [factor for factor in expression.args if _inverse(factor)]
    tops = [work(factor) for factor in expression.args if factor not in below]
    bottoms = [work(factor.args[0]) for factor in below]

    def mul(ev: Evaluator, point: Any) -> Number:
        product: Number = 1
        for factor in tops:
            product *= factor(ev, point)
        return product

    def divided(ev: Evaluator, point: Any) -> Number:
        divisor: Number = 1
        for factor in bottoms:
            divisor *= factor(ev, point)
        product = mul(ev, point)
        if divisor == 0:
            raise Absent("division by zero")
        if isinstance(product, int) and isinstance(divisor, int):
            return Fraction(product, divisor)
        return product / divisor

    return divided if below else mul


def _inverse(factor: Any) -> bool:
    return isinstance(factor, Pow) and factor.args[1] == -1


def _pow(expression: Any) -> Work:
    base, exponent = (work(argument) for argument in expression.args)

    def power(ev: Evaluator, point: Any) -> Number:
        below, above = base(ev, point), exponent(ev, point)
        if isinstance(above, Fraction) and above.denominator == 1:
            above = above.numerator
        if not isinstance(above, int):
            root: float = float(below) ** float(above)
            return root
        if below == 0 and above < 0:
            raise Absent("division by zero")
        if above < 0 and isinstance(below, int):
            return Fraction(below) ** above
        whole: Number = below**above
        return whole

    return power


def _below(ev: Evaluator, fold: Fold, body: Work, point: Any) -> Iterator[tuple[Any, Number]]:
    for entry in ev.entries(fold.axis, point, fold.where):
        yield entry, body(ev, entry)


def _total(expression: Total) -> Work:
    body = work(expression.body)
    return lambda ev, point: sum((v for _, v in _below(ev, expression, body, point)), 0)


def _peak(expression: Fold, by: Any) -> Callable[[Evaluator, Any], tuple[Any, Number]]:
    """The entry at which something is largest, the first of several, and how large it is."""
    compared = work(by)

    def peak(ev: Evaluator, point: Any) -> tuple[Any, Number]:
        best: tuple[Any, Number] | None = None
        for entry, value in _below(ev, expression, compared, point):
            if best is None or value > best[1]:
                best = (entry, value)
        if best is None:
            raise Absent(f"there is no {expression.axis}")
        return best

    return peak


def _largest(expression: Largest) -> Work:
    peak = _peak(expression, expression.body)
    return lambda ev, point: peak(ev, point)[1]


def _at_largest(expression: AtLargest) -> Work:
    peak, body = _peak(expression, expression.by), work(expression.body)
    return lambda ev, point: body(ev, peak(ev, point)[0])


def _which(expression: Which) -> Work:
    peak = _peak(expression, expression.body)
    return lambda ev, point: peak(ev, point)[0][expression.axis].title


def _ceiling(expression: Any) -> Work:
    inner = work(expression.args[0])
    return lambda ev, point: -int(-inner(ev, point) // 1)


def _floor(expression: Any) -> Work:
    inner = work(expression.args[0])
    return lambda ev, point: int(inner(ev, point) // 1)


def exponential(exponent: Number) -> float:
    """e to a power.

    Raises:
        Absent: it is larger than every number that can be computed with, or smaller.
    """
    try:
        power = math.exp(exponent)
    except OverflowError:
        power = 0.0
    if not power:
        raise Absent(f"e to the power of {float(exponent):.3g} is beyond all numbers")
    return power


def _exp(expression: Any) -> Work:
    inner = work(expression.args[0])
    return lambda ev, point: exponential(inner(ev, point))


def logarithm(value: Number) -> float:
    """The natural logarithm.

    Raises:
        Absent: the number has none.
    """
    if value <= 0:
        raise Absent("there is no logarithm of what is not above 0")
    return math.log(value)


def _log(expression: Any) -> Work:
    inner = work(expression.args[0])
    return lambda ev, point: logarithm(inner(ev, point))


def _tanh(expression: Any) -> Work:
    inner = work(expression.args[0])
    return lambda ev, point: math.tanh(inner(ev, point))


def _max(expression: Any) -> Work:
    several = [work(argument) for argument in expression.args]
    return lambda ev, point: max([one(ev, point) for one in several])


def _min(expression: Any) -> Work:
    several = [work(argument) for argument in expression.args]
    return lambda ev, point: min([one(ev, point) for one in several])


_MAKERS: dict[type, Callable[[Any], Work]] = {
    Add: _add,
    Mul: _mul,
    Pow: _pow,
    Max: _max,
    Min: _min,
    ceiling: _ceiling,
    floor: _floor,
    exp: _exp,
    tanh: _tanh,
    log: _log,
    Total: _total,
    Largest: _largest,
    AtLargest: _at_largest,
    Which: _which,
}
