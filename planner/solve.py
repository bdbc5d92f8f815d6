"""Inverse questions: the largest or smallest value of a key at which quantities keep their limits.

A question varies one number (a key of the document, or the size of a family of models) over the
values that make a valid plan, and looks for the last one at which every limit holds. The answer is
a certificate: it holds there, it fails one valid step further, and this constraint binds. Nothing
is assumed about the quantity but that limits, once broken along the way, stay broken; the bracket
is probed on the way, and where that shows otherwise the probes are scanned one by one.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from planner import case, units
from planner.document import Plan
from planner.errors import Fault, PlanError, nearest
from planner.evaluate import Absent, Evaluation, Number
from planner.plan import variant
from planner.quantity import BOOK

#: Doublings before a question counts as unbounded.
MOST_DOUBLINGS = 60
#: Steps tried for the next value that makes a valid plan.
MOST_SKIPS = 64
#: Relative width to which values that are not whole are found.
FINENESS = Fraction(1, 10**6)

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Limit:
    """``quantity <= value`` or ``quantity >= value``, in the quantity's own unit."""

    quantity: str
    relation: str
    value: Number

    @property
    def unit(self) -> str:
        return BOOK.declarations[self.quantity][0].unit

    def holds(self, value: Any) -> bool:
        return _COMPARE[self.relation](value, self.value)

    def slack(self, value: Any) -> Number:
        """How far the value is inside the limit; negative outside."""
        inside: Number = self.value - value if self.relation == "<=" else value - self.value
        return inside

    def __str__(self) -> str:
        return f"{self.quantity} {self.relation} {units.format_value(self.value, self.unit)}"


@dataclass(frozen=True)
class Probe:
    """One valid value of the unknown with what the limits' quantities are there."""

    value: Number
    plan: Plan
    values: Mapping[str, Any]
    broken: tuple[Limit, ...]


@dataclass(frozen=True)
class Answer:
    """The certificate: the last value that holds, the next one that does not, and why."""

    question: str
    unknown: str
    unit: str
    direction: int  # +1: the largest value that holds, -1: the smallest
    limits: tuple[Limit, ...]
    holds: Probe | None
    fails: Probe | None
    note: str = ""
    closed: tuple[tuple[str, str, Number], ...] = ()  # case, formula with numbers, value
    tried: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def binding(self) -> Limit | None:
        """The limit that stops the value from going one step further."""
        return self.fails.broken[0] if self.fails and self.fails.broken else None


def parse_limit(text: str) -> Limit:
    """A limit such as ``memory.process<=70 GiB``.

    Raises:
        PlanError: unknown quantity or relation, or a value in the wrong unit.
    """
    found = re.fullmatch(r"\s*([\w.]+)\s*(<=|>=)\s*(.+?)\s*", text)
    if not found:
        raise PlanError(Fault(f"{text!r} is no limit", None, "QUANTITY<=VALUE or QUANTITY>=VALUE"))
    name, relation, value = found.groups()
    import planner.formulas  # noqa: F401  (registers the quantities)

    if name not in BOOK.declarations or BOOK.declarations[name][0].per:
        pool = [i for i, d in BOOK.declarations.items() if not d[0].per]
        raise PlanError(Fault(f"unknown quantity {name}", None, None, nearest(name, pool)))
    try:
        number = units.parse(value, BOOK.declarations[name][0].unit)
    except units.UnitError as error:
        raise PlanError(Fault(f"{name}: {error}", None, error.allowed, error.hint)) from None
    return Limit(name, relation, number)


class Search:
    """The valid values of one unknown, probed on demand and remembered."""

    def __init__(
        self, plan: Plan, change: Callable[[Number], Mapping[str, Any]], limits: tuple[Limit, ...]
    ) -> None:
        self.plan, self.change, self.limits = plan, change, limits
        self.probes: dict[Number, Probe | None] = {}
        self.faults: dict[Number, PlanError] = {}

    def probe(self, value: Number) -> Probe | None:
        """What holds at a value; None where it makes no valid plan."""
        if value not in self.probes:
            self.probes[value] = self._probe(value)
        return self.probes[value]

    def _probe(self, value: Number) -> Probe | None:
        try:
            changed = variant(self.plan, self.change(value))
        except PlanError as error:
            self.faults[value] = error
            return None
        evaluation = Evaluation(case.build(changed))
        values: dict[str, Any] = {}
        for limit in self.limits:
            try:
                values[limit.quantity] = evaluation.value(limit.quantity)
            except Absent as absent:
                raise PlanError(
                    Fault(f"{limit.quantity} cannot be computed: {absent.reason}")
                ) from None
        broken = tuple(li for li in self.limits if not li.holds(values[li.quantity]))
        return Probe(value, changed, values, broken)

    def valid(self, value: int, step: int, toward: int) -> Probe | None:
        """The first valid value from ``value`` on, in steps, at most MOST_SKIPS away."""
        for skip in range(MOST_SKIPS):
            candidate = value + toward * skip * step
            if candidate < 1:
                return None
            found = self.probe(candidate)
            if found is not None:
                return found
        return None


def vary(
    plan: Plan,
    unknown: str,
    start: Number,
    limits: tuple[Limit, ...],
    change: Callable[[Number], Mapping[str, Any]] | None = None,
    *,
    question: str = "",
    unit: str = "1",
    whole: bool = True,
    direction: int | None = None,
) -> Answer:
    """The last value of ``unknown`` at which every limit holds.

    ``direction`` +1 asks for the largest, -1 for the smallest; None lets the quantities decide:
    the way on which a limit comes nearer is the way on which the answer is the last one.
    """
    search = Search(plan, change or (lambda value: {unknown: value}), limits)
    if not whole:
        return _continuous(search, unknown, start, limits, question, unit, direction)
    first = search.valid(int(start), 1, +1) or search.valid(int(start), 1, -1)
    if first is None:
        raise next(iter(search.faults.values()))
    step = _step(search, int(first.value))
    if direction is None:
        direction = _direction(search, int(first.value), step, limits)
    inside, outside = _bracket(search, first, step, direction)
    if inside is not None and outside is not None:
        inside, outside = _bisect(search, inside, outside, step, direction)
    note = "" if outside is not None or inside is None else "no limit was met on the way"
    return Answer(question, unknown, unit, direction, limits, inside, outside, note,
                  tried=len(search.probes))


def _step(search: Search, value: int) -> int:
    """The smallest divisor of a valid value that leads to another valid value."""
    for step in _divisors(value):
        if search.probe(value + step) is not None:
            return step
    return value


def _divisors(value: int) -> Iterator[int]:
    small = [i for i in range(1, math.isqrt(value) + 1) if value % i == 0]
    yield from small
    yield from (value // i for i in reversed(small) if i * i != value)


def _direction(search: Search, value: int, step: int, limits: tuple[Limit, ...]) -> int:
    here, there = search.probe(value), search.probe(value + step)
    assert here is not None and there is not None
    for limit in limits:
        change = limit.slack(there.values[limit.quantity]) - limit.slack(
            here.values[limit.quantity]
        )
        if change:
            return 1 if change < 0 else -1
    return 1


def _bracket(
    search: Search, first: Probe, step: int, direction: int
) -> tuple[Probe | None, Probe | None]:
    """A value that holds and one that does not, further in the direction; None where none is."""
    inside, outside = (first, None) if not first.broken else (None, first)
    # Doubling away from the start: forward while it holds, backward while it does not.
    toward = direction if inside else -direction
    probe: Probe | None = first
    for _ in range(MOST_DOUBLINGS):
        assert probe is not None
        reach = int(probe.value) * 2 if toward > 0 else int(probe.value) // 2 // step * step
        probe = search.valid(reach, step, toward) if reach >= 1 else None
        if probe is None and toward < 0:
            smallest = search.valid(step, step, +1)
            if smallest is None or (inside or outside or first).value <= smallest.value:
                break
            probe = smallest
        if probe is None:
            break
        if probe.broken:
            outside = probe
        else:
            inside = probe
        if inside and outside:
            break
    return inside, outside


def _bisect(
    search: Search, inside: Probe, outside: Probe, step: int, direction: int
) -> tuple[Probe, Probe]:
    """Narrow to neighbours among the valid values."""
    while True:
        low, high = sorted((int(inside.value), int(outside.value)))
        middle = low + (high - low) // 2 // step * step
        probe = None
        if low < middle < high:
            probe = _between(search, middle, low, high, step)
        elif high - low > step:
            probe = _between(search, low + step, low, high, step)
        if probe is None:
            return inside, outside
        if probe.broken:
            outside = probe
        else:
            inside = probe


def _between(search: Search, middle: int, low: int, high: int, step: int) -> Probe | None:
    for candidate in (*range(middle, high, step), *range(middle - step, low, -step)):
        probe = search.probe(candidate)
        if probe is not None:
            return probe
    return None


def _continuous(
    search: Search, unknown: str, start: Number, limits: tuple[Limit, ...],
    question: str, unit: str, direction: int | None,
) -> Answer:
    """As for whole numbers, on a geometric scale down to FINENESS."""
    value = Fraction(start)
    here, there = search.probe(value), search.probe(value * (1 + FINENESS))
    if here is None:
        raise search.faults[value]
    if direction is None:
        direction = 1
        for limit in limits:
            other = there or here
            change = limit.slack(other.values[limit.quantity]) - limit.slack(
                here.values[limit.quantity]
            )
            if change:
                direction = 1 if change < 0 else -1
                break
    inside, outside = (here, None) if not here.broken else (None, here)
    toward = direction if inside else -direction
    for power in range(1, MOST_DOUBLINGS):
        probe = search.probe(value * Fraction(2) ** (toward * power))
        if probe is None:
            break
        inside, outside = (inside, probe) if probe.broken else (probe, outside)
        if inside and outside:
            break
    while inside and outside:
        a, b = Fraction(inside.value), Fraction(outside.value)
        if abs(a - b) <= FINENESS * max(a, b):
            break
        probe = search.probe(((a + b) / 2).limit_denominator(10**12))
        if probe is None:
            break
        inside, outside = (inside, probe) if probe.broken else (probe, outside)
    return Answer(question, unknown, unit, direction, limits, inside, outside,
                  tried=len(search.probes))
