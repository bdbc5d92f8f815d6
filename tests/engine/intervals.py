"""A graph worked out in intervals: where each node can lie while its inputs run over ranges.

An interval is as wide as if no input stood in a formula twice; what that leaves open,
``proofs.py`` settles where it can. Ends are exact; floats enter only through roots,
exponentials, logarithms and tangents, rounded outwards. All of it is about real numbers: that a
float is rounded is not part of a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from planner.base.units import LARGEST
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine.evaluate import Evaluation
from planner.engine.graph import Graph, Number

Interval = tuple[Number, Number]

INFINITE = math.inf
#: An end beyond this, or nearer to 0 than its reciprocal, is taken for infinite, or for 0.
BEYOND = 10**300
#: Whole exponents up to it are worked out exactly.
HIGHEST = 64
#: Numbers that structure decides: what divides the model and the devices.
FIXED = (
    "parallelism.", "cluster.devices", "cluster.link_domain", "model.layers", "moe.experts",
    "moe.top_k", "moe.router_group",
)  # fmt: skip
#: What structure decides that no input says by itself.
DECIDED = ("layout.micro_batches",)
#: Where the schemas describe what a plan takes from a table.
DESCRIBED = {
    f"cluster.accelerator.{peak}.value": "cluster.accelerator.peaks.bf16.value"
    for peak in ("peak", "peak_16")
}


def domain(key: str | None, value: Number) -> Interval:
    """The numbers that the schemas allow for an input; only its own where structure decides it, or
    where it is no key of a document."""
    if key is None or key.startswith(FIXED):
        return value, value
    for document in ("plan", "model"):
        said = schema.describe(document, DESCRIBED.get(key, key))
        if said is not None:
            low = said.get("minimum", Fraction(1, LARGEST))
            high = said.get("maximum", said.get("exclusiveMaximum", LARGEST))
            return low, high
    return value, value


def domains(evaluation: Evaluation) -> dict[int, Interval]:
    """The ranges of a graph's inputs, by their nodes, around the numbers of one plan; and what they
    have in common, which is how often they divide each other."""
    keys = {note.symbol: note.key for note in BOOK.notation.values()}
    symbols = {place: evaluation.graph.nodes[place][1][0] for place in evaluation.graph.inputs}
    found = {
        place: domain(keys.get(symbol), evaluation.evaluate_node(place))
        for place, symbol in symbols.items()
    }
    for (name, _), place in evaluation.nodes.items():
        if name in DECIDED:
            found[place] = evaluation.evaluate_node(place), evaluation.evaluate_node(place)
    return found


# -- operations ------------------------------------------------------------------------------------


def _times(one: Number, other: Number) -> Number:
    if one == 0 or other == 0:
        return 0
    if INFINITE in (abs(one), abs(other)):  # a float, which an exact number may be too large for
        return INFINITE if (one > 0) == (other > 0) else -INFINITE
    return one * other


def times(*factors: Interval) -> Interval:
    """The product of some intervals; nothing times infinity is nothing."""
    low: Number = 1
    high: Number = 1
    for factor in factors:
        ends = [_times(end, other) for end in (low, high) for other in factor]
        low, high = min(ends), max(ends)
    return low, high


def _reciprocal(value: Interval) -> Interval:
    """Of the values that are not 0."""
    low, high = _exact(value[0]), _exact(value[1])
    if low < 0 < high:
        return -INFINITE, INFINITE
    least: Number = -INFINITE if high == 0 else 0 if high == INFINITE else Fraction(1) / high
    most: Number = INFINITE if low == 0 else 0 if low == -INFINITE else Fraction(1) / low
    return least, most


def power(base: Interval, exponent: Interval) -> Interval:
    """A power, of a base that is not below 0 unless the exponent is a small whole number."""
    whole: Any = exponent[0]
    if whole == exponent[1] and abs(whole) <= HIGHEST and int(whole) == whole:
        if whole < 0:
            return _reciprocal(power(base, (-whole, -whole)))
        ends: list[Number] = [end ** int(whole) for end in base]
        if whole % 2 == 0 and base[0] < 0 < base[1]:
            ends.append(0)
        return min(ends), max(ends)
    if base[0] < 0 and (whole != exponent[1] or int(whole) == whole):
        return -INFINITE, INFINITE
    roots = [_root(max(end, 0), other) for end in base for other in exponent]
    return min(root[0] for root in roots), max(root[1] for root in roots)


def _root(base: Number, exponent: Number) -> Interval:
    """Of a number that is not below 0."""
    if base in (0, 1) or exponent == 0:
        end: Number = 1 if base or not exponent else 0 if exponent > 0 else INFINITE
        return end, end
    return _around(lambda b, e: b**e, base, exponent)


def _around(function: Callable[..., float], *arguments: Number) -> Interval:
    """What a function of the library may truly be, which rises or falls throughout, is not below 0
    unless its argument is, and is computed to within two floats of the true value."""
    found = []
    for near in product(*map(_floats, arguments)):
        try:
            found.append(function(*near))
        except ArithmeticError:
            found.append(INFINITE)
    low, high = min(found), max(found)
    for _ in range(2):
        low, high = math.nextafter(low, -INFINITE), math.nextafter(high, INFINITE)
    if min(found) == 0:  # of what is not 0, 0 is below the truth
        low = 0.0
    return _exact(low), _exact(high)


def _exact(end: Number) -> Number:
    return Fraction(end) if math.isfinite(end) else end


def _floats(value: Number) -> tuple[float, float]:
    """The floats around a number."""
    near = float(value)
    down = near if near <= value else math.nextafter(near, -INFINITE)
    return down, near if near >= value else math.nextafter(near, INFINITE)


def _rising(
    function: Callable[[float], float], at_zero: Number, most: Number = INFINITE
) -> Callable[[Interval], Interval]:
    """A function that never falls, whose value at 0 and the most that it comes to are known."""

    def ends(value: Interval) -> Interval:
        low, high = ((at_zero, at_zero) if end == 0 else _around(function, end) for end in value)
        return low[0], min(high[1], most)

    return ends


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0 else -INFINITE


def _whole(rounding: Callable[[Any], int]) -> Callable[[Interval], Interval]:
    def ends(value: Interval) -> Interval:
        low, high = (end if abs(end) == INFINITE else rounding(end) for end in value)
        return low, high

    return ends


def _union(values: Sequence[Interval | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return (min(v[0] for v in known), max(v[1] for v in known)) if known else None


_OPERATIONS: Mapping[str, Callable[..., Interval]] = {
    "add": lambda *terms: (sum(t[0] for t in terms), sum(t[1] for t in terms)),
    "mul": times,
    "div": lambda above, below: times(above, _reciprocal(below)),
    "pow": power,
    "exp": _rising(math.exp, 1),
    "log": _rising(_logarithm, -INFINITE),
    "tanh": _rising(math.tanh, 0, 1),
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "max": lambda *values: (max(v[0] for v in values), max(v[1] for v in values)),
    "min": lambda *values: (min(v[0] for v in values), min(v[1] for v in values)),
}


def run(graph: Graph, inputs: Mapping[int, Interval]) -> list[Interval | None]:
    """The interval of each node; None of those that are no numbers, or have no value at all.

    A quantity that is outside of its range is absent, so that what rests on it may take it to be
    inside. Of conditions and of ``pick`` it is not known which holds: the result is any of them.
    """
    values: list[Interval | None] = []
    for place, (operation, arguments) in enumerate(graph.nodes):
        found: Interval | None = None
        if place in inputs:
            found = inputs[place]
        elif operation == "const":
            found = arguments[0], arguments[0]
        elif operation == "quantity":
            found = _inside(values[arguments[0]], graph.nodes[arguments[1]][1][0][0])
        elif operation in ("pick", "select"):
            found = _union([values[argument] for argument in arguments[1::2]])
        elif operation in _OPERATIONS:
            given = [values[argument] for argument in arguments]
            if None not in given:
                found = _OPERATIONS[operation](*given)
        values.append(found and _bounded(found))
    return values


def _inside(value: Interval | None, identifier: str) -> Interval | None:
    """What of an interval a quantity may be; nothing where it may not be any of it."""
    if value is None:
        return None
    least, most = BOOK.quantities[identifier].within
    low = value[0] if least is None else max(least, value[0])
    high = value[1] if most is None else min(most, value[1])
    return (low, high) if low <= high else None


def _bounded(value: Interval) -> Interval:
    """An interval around another, with ends of few digits."""
    low, high = value
    least = Fraction(1, BEYOND)
    low = BEYOND if low > BEYOND else -INFINITE if low < -BEYOND else low
    high = INFINITE if high > BEYOND else -BEYOND if high < -BEYOND else high
    low = 0 if 0 < low < least else -least if -least < low < 0 else low
    high = least if 0 < high < least else 0 if -least < high < 0 else high
    return low, high
