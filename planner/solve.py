"""Inverse questions: the last value of an unknown at which quantities keep their limits.

A question walks a domain (``domains.py``, ``families.py``) and answers with a certificate: it holds
there, it fails at the next value that makes a valid plan, and this limit binds. A domain of few
values is tried in full. An endless one is bracketed and narrowed by interpolation and halving;
values beyond the answer are probed too, and where one of them holds again the quantity is not
monotone and the search goes on from there.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner import case
from planner.display import format_value
from planner.document import Plan
from planner.domains import Domain
from planner.errors import Fault, PlanError, nearest
from planner.evaluate import Absent, Evaluation, Key, Number, Point, widen
from planner.plan import variant
from planner.quantity import BOOK

if TYPE_CHECKING:
    from sympy import Symbol

#: Strides, each at least twice the one before, until a question counts as unbounded.
MOST_STRIDES = 60
#: Values passed over in search of the next one that makes a valid plan.
MOST_SKIPS = 64
#: A domain of no more values is tried in full.
FEW = 64
#: How far beyond an answer it is checked that nothing holds again, as multiples of the value.
BEYOND = (Fraction(9, 8), Fraction(3, 2), Fraction(3))

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
        return f"{self.quantity} {self.relation} {shown(self.value, self.unit)}"


@dataclass(frozen=True)
class Probe:
    """One valid value of the unknown with what the limits' quantities are there."""

    index: int
    value: Number
    plan: Plan
    values: Mapping[str, Any]  # quantity -> value
    broken: tuple[Limit, ...]

    def slack(self, limit: Limit) -> Number:
        return limit.slack(self.values[limit.quantity])


@dataclass(frozen=True)
class Answer:
    """The certificate: the last value that holds, the next valid one that does not, and why."""

    question: str
    domain: Domain
    direction: int  # +1: the largest value that holds, -1: the smallest
    limits: tuple[Limit, ...]
    holds: Probe | None
    fails: Probe | None  # None: the domain ends with ``holds``
    miss: Probe | None = None  # without a solution: the value that comes nearest
    notes: tuple[str, ...] = ()
    tried: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def binding(self) -> Limit | None:
        """The limit that stops the value from going one step further."""
        probe = self.fails if self.holds else self.miss
        if probe is None or not probe.broken:
            return None
        return min(probe.broken, key=lambda limit: _share(probe, limit))


def shown(value: Any, unit: str, digits: int = 3) -> str:
    """A value for people; estimates may be floats, which the display takes as fractions."""
    if isinstance(value, float):
        value = Fraction(value) if math.isfinite(value) else str(value)
    return value if isinstance(value, str) else format_value(value, unit, digits)


def parse_limit(text: str) -> Limit:
    """A limit such as ``memory.process<=70 GiB``.

    Raises:
        PlanError: unknown quantity or relation, or a value in the wrong unit.
    """
    from planner import units

    found = re.fullmatch(r"\s*([\w.]+)\s*(<=|>=)\s*(.+?)\s*", text)
    if not found:
        raise PlanError(Fault(f"{text!r} is no limit", None, "QUANTITY<=VALUE or QUANTITY>=VALUE"))
    name, relation, value = found.groups()
    known(name)
    if not BOOK.declarations[name][0].unit:
        raise PlanError(Fault(f"{name} is a name, not a number that could be limited"))
    try:
        number = units.parse(value, BOOK.declarations[name][0].unit)
    except units.UnitError as error:
        raise PlanError(Fault(f"{name}: {error}", None, error.allowed, error.hint)) from None
    return Limit(name, relation, number)


def known(quantity: str) -> None:
    """Raises PlanError unless the book has a quantity of that id that holds for the whole plan."""
    import planner.formulas  # noqa: F401  (registers the quantities)

    if quantity not in BOOK.declarations or BOOK.declarations[quantity][0].per:
        pool = [i for i, d in BOOK.declarations.items() if not d[0].per]
        raise PlanError(Fault(f"unknown quantity {quantity}", None, None, nearest(quantity, pool)))


class Search:
    """The values of one domain, probed on demand and remembered."""

    def __init__(self, plan: Plan, domain: Domain, limits: tuple[Limit, ...]) -> None:
        self.plan, self.domain, self.limits = plan, domain, limits
        self.probes: dict[int, Probe | None] = {}
        self.faults: dict[int, PlanError] = {}

    def probe(self, index: int) -> Probe | None:
        """What holds at an index; None outside the domain and where no valid plan results."""
        if index not in self.probes:
            self.probes[index] = self._probe(index)
        return self.probes[index]

    def inside(self, index: int) -> bool:
        last = self.domain.last
        return self.domain.first <= index and (last is None or index <= last)

    def _probe(self, index: int) -> Probe | None:
        if not self.inside(index):
            return None
        value = self.domain.value(index)
        try:
            changed = variant(self.plan, self.domain.changes(value))
        except PlanError as error:
            self.faults[index] = error
            return None
        values = evaluated(changed, [limit.quantity for limit in self.limits])
        broken = tuple(li for li in self.limits if not li.holds(values[li.quantity]))
        return Probe(index, value, changed, values, broken)

    def first_valid(self, indices: Iterable[int]) -> Probe | None:
        for index in indices:
            if (found := self.probe(index)) is not None:
                return found
        return None

    def beyond(self, index: int, toward: int) -> Probe | None:
        """The first valid value from an index on, in one direction, not too far away."""
        return self.first_valid(index + toward * skip for skip in range(MOST_SKIPS))

    @property
    def known(self) -> list[Probe]:
        return sorted((p for p in self.probes.values() if p), key=lambda p: p.index)


class Untraced(Evaluation):
    """Exact values without the trace of what they were made from, which takes half the time."""

    def value(self, identifier: str, point: Point | None = None) -> Any:
        first = self.book.declarations[identifier][0]
        entries = tuple(point[axis] for axis in first.per) if point else ()
        found = self._values.get((identifier, entries))
        if found is None:
            found = self._found(identifier, widen(dict(zip(first.per, entries, strict=True))))
            self._values[identifier, entries] = found
        if isinstance(found, Absent):
            raise found
        return found

    def _found(self, identifier: str, point: Point) -> Any:
        for declaration in self.book.declarations[identifier]:
            for name, wanted in declaration.when.items():
                actual = self.setting(name, point)
                several = isinstance(wanted, (tuple, set, frozenset))
                if not (actual in wanted if several else actual == wanted):
                    break
            else:
                try:
                    value = self.compute(declaration.expression, point)
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
    evaluation, values = Untraced(case.build(plan)), {}
    for quantity in quantities:
        try:
            values[quantity] = evaluation.value(quantity)
        except Absent as absent:
            raise PlanError(Fault(f"{quantity} cannot be computed: {absent.reason}")) from None
    return values


def solve(
    plan: Plan,
    domain: Domain,
    limits: tuple[Limit, ...],
    *,
    question: str = "",
    direction: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Answer:
    """The last value of a domain at which every limit holds.

    ``direction`` +1 asks for the largest, -1 for the smallest; None lets the quantities decide:
    the way on which a limit comes nearer is the way on which the answer is the last one.

    Raises:
        PlanError: no value makes a valid plan, a limit's quantity is absent, or nothing limits the
            unknown.
    """
    search = Search(plan, domain, limits)
    few = domain.last is not None and domain.last - domain.first < FEW
    if few and domain.last is not None:
        for index in range(domain.first, domain.last + 1):
            search.probe(index)
    start = search.first_valid(
        domain.start + sign * skip for skip in range(MOST_SKIPS) for sign in (1, -1)
    )
    if start is None:
        raise next(iter(search.faults.values()), PlanError(Fault(f"no value of {domain.key}")))
    if direction is None:
        direction = _direction(search, start)
    inside = _inside(search, start, direction)
    outside = None
    notes: tuple[str, ...] = ()
    if inside is not None:
        inside, outside, jumps = _last(search, inside, direction)
        if jumps or (few and not _monotone(search.known)):
            notes = ("not monotone: the limits break and hold again on the way",)
    miss = None
    if inside is None:
        miss = max(search.known, key=lambda p: min(_share(p, li) for li in p.broken))
    return Answer(
        question,
        domain,
        direction,
        limits,
        inside,
        outside,
        miss,
        notes,
        len(search.known),
        extra=extra or {},
    )


def _share(probe: Probe, limit: Limit) -> float:
    """The slack of a limit as a share of its value or of the quantity's, whichever is larger."""
    size = max(abs(limit.value), abs(probe.values[limit.quantity])) or 1
    return float(probe.slack(limit) / size)


def _monotone(probes: list[Probe]) -> bool:
    """Whether what holds is one stretch of the probed values."""
    held = [not probe.broken for probe in probes]
    return sum(a != b for a, b in zip([False, *held], [*held, False], strict=True)) <= 2


def _direction(search: Search, start: Probe) -> int:
    """The way on which the first limit that changes comes nearer."""
    for sign in (1, -1):
        for power in range(0, MOST_STRIDES, 4):
            other = search.beyond(start.index + sign * 2**power, sign)
            if other is None:
                break
            for limit in search.limits:
                change = other.slack(limit) - start.slack(limit)
                if change:
                    return sign if change < 0 else -sign
    return 1


def _strides(search: Search, start: Probe, toward: int) -> Iterator[Probe]:
    """Valid values further and further away, to the end of the domain."""
    here, stride = start, max(1, abs(start.index) // 16)
    for _ in range(MOST_STRIDES):
        index = here.index + toward * stride
        if not search.inside(index):
            end = search.domain.first if toward < 0 else search.domain.last
            assert end is not None
            last = search.beyond(end, -toward)
            if last is not None and (last.index - here.index) * toward > 0:
                yield last
            return
        there = search.beyond(index, toward)
        if there is None:
            return
        yield there
        # As far as the straight line through the last two says that a limit breaks or holds, but
        # at least twice and at most 1024 times as far as before.
        aim = _crossing(search.limits, here, there)
        distance = abs(there.index - here.index)
        stride = max(2 * distance, min(1024 * distance, aim + aim // 16))
        here = there


def _crossing(limits: tuple[Limit, ...], here: Probe, there: Probe) -> int:
    """How far beyond ``there`` the nearest limit crosses, by a straight line; 0 where none does."""
    distance, nearest_one = abs(there.index - here.index), 0
    for limit in limits:
        a, b = here.slack(limit), there.slack(limit)
        if (a - b) * b > 0:
            ahead = int(b / (a - b) * distance) + 1
            nearest_one = min(nearest_one or ahead, ahead)
    return nearest_one


def _inside(search: Search, start: Probe, direction: int) -> Probe | None:
    """A value at which every limit holds, looked for on both sides; None where none is found."""
    if not start.broken:
        return start
    for toward in (-direction, direction):
        here = start
        for there in _strides(search, start, toward):
            if not there.broken:
                return there
            if not set(here.broken) & set(there.broken):
                found = _between_limits(search, here, there)
                if found is not None:
                    return found
            if all(there.slack(limit) <= here.slack(limit) for limit in there.broken):
                break  # further away nothing gets better
            here = there
    return None


def _between_limits(search: Search, here: Probe, there: Probe) -> Probe | None:
    """One limit is broken on one side, another on the other: what holds lies between them."""
    while abs(there.index - here.index) > 1:
        middle = _nearest_valid(search, (here.index + there.index) // 2, here.index, there.index)
        if middle is None or not middle.broken:
            return middle
        if set(middle.broken) & set(here.broken):
            if set(middle.broken) & set(there.broken):
                return None
            here = middle
        else:
            there = middle
    return None


def _last(search: Search, inside: Probe, direction: int) -> tuple[Probe, Probe | None, int]:
    """The last value that holds, the next that does not, and how often it held again beyond."""
    jumps = 0
    while True:
        outside = None
        for probe in _strides(search, inside, direction):
            if probe.broken:
                outside = probe
                break
            inside = probe
        else:
            if search.domain.endless and direction > 0:
                names = " and ".join(limit.quantity for limit in search.limits)
                raise PlanError(
                    Fault(
                        f"{search.domain.key} is unbounded: {names} still within limits at "
                        f"{shown(inside.value, search.domain.unit)}",
                        None,
                    )
                )
        if outside is None:
            return inside, None, jumps
        inside, outside = _narrow(search, inside, outside)
        again = _holds_again(search, outside, direction)
        if again is None:
            return inside, outside, jumps
        inside, jumps = again, jumps + 1


def _holds_again(search: Search, outside: Probe, direction: int) -> Probe | None:
    """A value beyond a broken one at which every limit holds; None where none was found."""
    beyond = (p for p in search.known if (p.index - outside.index) * direction > 0)
    found = [probe for probe in beyond if not probe.broken]
    for ratio in BEYOND:
        index = int(outside.index * ratio) if direction > 0 else int(outside.index / ratio)
        probe = search.beyond(index, direction) if index != outside.index else None
        if probe is not None and not probe.broken:
            found.append(probe)
    return max(found, key=lambda p: p.index * direction, default=None)


def _narrow(search: Search, inside: Probe, outside: Probe) -> tuple[Probe, Probe]:
    """To neighbours among the valid values: by interpolation, and by halves where that is slow."""
    turn = 0
    while abs(outside.index - inside.index) > 1:
        width = abs(outside.index - inside.index)
        low, high = sorted((inside.index, outside.index))
        aim = (low + high) // 2
        if turn % 3 < 2:
            steps = min(
                int(inside.slack(li) / (inside.slack(li) - outside.slack(li)) * width)
                for li in outside.broken
            )
            aim = inside.index + (steps if outside.index > inside.index else -steps)
        aim = min(max(aim, low + 1), high - 1)
        probe = _nearest_valid(search, aim, low, high)
        if probe is None:
            break
        inside, outside = (inside, probe) if probe.broken else (probe, outside)
        turn = turn + 1 if abs(outside.index - inside.index) * 2 > width else 0
    return inside, outside


def _nearest_valid(search: Search, aim: int, low: int, high: int) -> Probe | None:
    """The valid value nearest to an index, strictly between two others."""
    low, high = sorted((low, high))
    for skip in range(high - low):
        for index in (aim + skip, aim - skip):
            if low < index < high and (probe := search.probe(index)) is not None:
                return probe
    return None
