"""Inverse questions: the last value of an unknown at which quantities keep their limits.

A question walks a domain (``domains.py``, ``families.py``) and answers with a certificate: it holds
there, it fails at the next value that makes a valid plan, and this limit binds. A domain of few
values is tried in full. An endless one is bracketed and narrowed by interpolation and halving;
values beyond the answer are probed too, and where one of them holds again the quantity is not
monotone and the search goes on from there. Both sides of the answer are computed exactly.

Models differ in two ways, in width and in depth: their domain has rows. Along a row, and from the
first of one row to the first of the next, the limits come nearer; so the rows that hold anything
end somewhere, and of each of them the last value that holds is found by narrowing. A row whose last
value is no larger than what holds already ends the question: the rows before it are smaller still.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, groupby
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.plans.document import Plan
from planner.questions.constraints import Limit, shown
from planner.questions.domains import Domain
from planner.questions.solve.evaluations import Goal, Probe, Probes, narrow

#: Strides, each at least twice the one before, until a question counts as unbounded.
MOST_STRIDES = 60
#: Strides on which nothing gets better until a question turns back.
PATIENCE = 2
#: How often limits may hold again beyond an answer until it is taken nonetheless.
MOST_JUMPS = 8
#: How far beyond an answer it is checked that nothing holds again: steps, and multiples.
STEPS = (2, 3, 5)
BEYOND = (Fraction(9, 8), Fraction(3, 2), Fraction(3))


@dataclass(frozen=True)
class Answer:
    """The certificate: the last value that holds, the next valid one that does not, and why."""

    domain: Domain
    direction: int  # +1: the largest value that holds, -1: the smallest
    limits: tuple[Limit, ...]
    question: str = "vary"
    holds: Probe | None = None
    fails: Probe | None = None  # None: the domain ends with ``holds``
    miss: Probe | None = None  # without a solution: the value that comes nearest
    goal: Goal | None = None  # what is largest or smallest at ``holds``, if asked for
    beside: tuple[Probe, ...] = ()  # with a goal: the next valid values, worse or not within limits
    unmet: tuple[Limit, ...] = ()  # without a solution: what no value meets
    together: bool = False  # each of ``unmet`` can be met, but not both
    notes: tuple[str, ...] = ()
    tried: int = 0
    #: Where values differ in two ways: what is next in each of the rows that might go further.
    beyond: tuple[Probe, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the answer is about: the question, or the key that was varied."""
        return self.domain.key if self.question == "vary" else self.question

    @property
    def binding(self) -> Limit | None:
        """The limit that stops the value from going one step further; without a solution, the one
        that no value meets."""
        if self.holds is None and self.miss is not None:
            unmet = [limit for limit in self.unmet if limit in self.miss.broken]
            return min(unmet or self.miss.broken, key=self.miss.share)
        if self.fails is None or not self.fails.broken:
            return None
        return min(self.fails.broken, key=self.fails.share)


def solve(
    plan: Plan,
    domain: Domain,
    limits: tuple[Limit, ...],
    direction: int | None = None,
    *,
    search: Probes | None = None,
) -> Answer:
    """The last value of a domain at which every limit holds.

    ``direction`` +1 asks for the largest, -1 for the smallest; None lets the quantities decide:
    the way on which a limit comes nearer is the way on which the answer is the last one.
    ``search`` brings probes along, such as those of an evaluator that is not of the plan as it is.

    Raises:
        PlanError: no value makes a valid plan, a limit's quantity is absent, or nothing limits the
            unknown.
    """
    search = search or Probes(plan, domain, limits)
    if domain.rows:
        return replace(Answer(domain, 1, limits), **_largest(search), tried=len(search.known))
    few = search.all()
    start = search.start()
    if direction is None:
        direction = _direction(search, start)
    inside = find_near(search, start, direction)
    if inside is None:  # perhaps one that was tried on the way
        inside = next((probe for probe in search.known if not probe.broken), None)
    found = nearest_miss(search) if inside is None else _last(search, inside, direction, few)
    return replace(Answer(domain, direction, limits), **found, tried=len(search.known))


def nearest_miss(search: Probes) -> dict[str, Any]:
    """What an answer says where no value is known at which all limits hold: the nearest miss, and
    the limits that no value meets, or two that none meets together."""
    probes = search.known
    miss = search.confirm(max(probes, key=lambda p: min(map(p.share, p.broken))))
    alone = tuple(li for li in search.limits if all(li in probe.broken for probe in probes))
    if alone:
        return {"miss": miss, "unmet": alone}
    for pair in combinations(search.limits, 2):
        if all(set(pair) & set(probe.broken) for probe in probes):
            return {"miss": miss, "unmet": pair, "together": True}
    return {"miss": miss}


def _largest(search: Probes) -> dict[str, Any]:
    """What an answer says where values come in rows: the largest that holds, and of each row that
    might have a larger one the first that is larger, which does not hold; the smallest first."""
    while True:
        holds, beyond = _largest_known(search)
        if holds is None:
            return nearest_miss(search)
        holds, next_ones = search.confirm(holds), tuple(map(search.confirm, beyond[:1]))
        if not holds.broken and all(probe.broken for probe in next_ones):
            break
    first, _ = _row_of(search, holds)
    before = (probe for probe in search.known if first <= probe.index < holds.index)
    name = search.domain.key
    again = any(probe.broken for probe in before)
    return {
        "holds": holds,
        "fails": next_ones[0] if beyond else None,
        "beyond": (*next_ones, *beyond[1:]),
        "notes": (f"{name} is not monotone: limits break and hold again",) if again else (),
    }


def _largest_known(search: Probes) -> tuple[Probe | None, list[Probe]]:
    """The largest value that holds, and what might be larger.

    Raises:
        PlanError: no value is valid, or the limits hold at the end of the domain.
    """
    rows, asked, best = search.domain.rows, [], None

    def fails(row: tuple[int, int]) -> bool:
        first = search.probe(row[0])
        return first is None or bool(first.broken)

    widest = bisect_left(rows, True, key=fails)
    if not widest and not search.start().broken:  # rows begin with what is no valid plan
        best = search.start()
        asked = [_row_of(search, best)]
    for low, high in reversed(rows[:widest]):
        end = search.probe(high)
        if best is not None and end is not None and end.number <= best.number:
            break
        asked.append((low, high))
        best = _last_of_row(search, (low, high), best)
    if best is None:
        return None, []
    asked = [*rows[widest : widest + 1], *asked]
    while True:
        if best.index == rows[-1][1]:
            raise unbounded(search, shown(best.number, "parameters"))
        larger = [probe for row in asked if (probe := _larger(search, row, best))]
        if all(probe.broken for probe in larger):
            return best, sorted(larger, key=lambda probe: probe.number)
        for row in asked:  # limits that broke on the way hold again
            best = _last_of_row(search, row, best) or best


def _row_of(search: Probes, probe: Probe) -> tuple[int, int]:
    return next(row for row in search.domain.rows if row[0] <= probe.index <= row[1])


def _last_of_row(search: Probes, row: tuple[int, int], best: Probe | None) -> Probe | None:
    """The last value of a row that holds, if it is larger than another; else the other."""
    inside = search.probe(row[0]) if best is None else _larger(search, row, best)
    if inside is None or inside.broken:
        return best
    end = search.probe(row[1])
    if end is None or not end.broken:
        return end or inside
    return narrow(search, inside, end)[0]


def _larger(search: Probes, row: tuple[int, int], best: Probe) -> Probe | None:
    """The first value of a row that is larger than another; None where there is none."""
    first, end = map(search.probe, row)
    if first is None or end is None or end.number <= best.number:
        return None
    if first.number > best.number:
        return first
    return narrow(search, first, end, (Limit(search.domain.measure, "<=", best.number),))[1]


def unbounded(search: Probes, value: str) -> PlanError:
    """The fault of a question whose limits hold at any value."""
    names = " and ".join(limit.quantity for limit in search.limits)
    said = f"{search.domain.key} is unbounded: {names} still within limits at {value}"
    return PlanError(Fault(said, None))


def _direction(search: Probes, start: Probe) -> int:
    """The way on which the first limit that changes comes nearer."""
    for sign in (1, -1):
        for power in range(0, MOST_STRIDES, 4):
            other = search.beyond(start.index + sign * 2**power, sign)
            if other is None:
                break
            if way := nearer_way(search.limits, start, other):
                return way
    return 1


def nearer_way(limits: tuple[Limit, ...], start: Probe, other: Probe) -> int | None:
    """The way on which the first limit that differs between two values comes nearer."""
    toward = 1 if other.index > start.index else -1
    changes = (other.slack(limit) - start.slack(limit) for limit in limits)
    return next((toward if change < 0 else -toward for change in changes if change), None)


def strides(search: Probes, start: Probe, toward: int) -> Iterator[Probe]:
    """Valid values further and further away, to the end of the domain."""
    here, stride = start, max(1, abs(start.index) // 16)
    for _ in range(MOST_STRIDES):
        index = here.index + toward * stride
        if not search.domain.has(index):
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


def find_near(search: Probes, start: Probe, direction: int) -> Probe | None:
    """A value at which every limit holds, looked for on both sides; None where none is found."""
    if not start.broken:
        return start
    for toward in (-direction, direction):
        here, worse = start, 0
        for there in strides(search, start, toward):
            if not there.broken:
                return there
            if not set(here.broken) & set(there.broken):
                found = _between_limits(search, here, there)
                if found is not None:
                    return found
            nearer = [there.slack(limit) - here.slack(limit) for limit in there.broken]
            if any(change > 0 for change in nearer):
                worse = 0
            elif any(nearer):  # where nothing changes yet, it may further on
                worse += 1
            if worse == PATIENCE:
                break
            here = there
    return None


def _between_limits(search: Probes, here: Probe, there: Probe) -> Probe | None:
    """One limit is broken on one side, another on the other: what holds lies between them."""
    while abs(there.index - here.index) > 1:
        middle = search.nearest_valid((here.index + there.index) // 2, here.index, there.index)
        if middle is None or not middle.broken:
            return middle
        if set(middle.broken) & set(here.broken):
            if set(middle.broken) & set(there.broken):
                return None
            here = middle
        else:
            there = middle
    return None


def _last(search: Probes, inside: Probe, direction: int, few: bool) -> dict[str, Any]:
    """What an answer says of the last value that holds: the next that does not, both exact, and a
    note where limits hold again beyond."""
    jumps, outside = 0, None
    while True:
        outside = None
        for probe in strides(search, inside, direction):
            if probe.broken:
                outside = probe
                break
            inside = probe
        else:
            if search.domain.endless and direction > 0:
                raise unbounded(search, shown(inside.value, search.domain.unit))
        if outside is not None:
            inside, outside = narrow(search, inside, outside)
            outside = search.confirm(outside)
        inside = search.confirm(inside)
        if inside.broken:  # an estimate was wrong: never by much
            inside = next(probe for probe in search.known if not probe.broken)
            continue
        if outside is None or jumps == MOST_JUMPS:
            break
        again = outside if not outside.broken else _holds_again(search, outside, direction)
        if again is None:
            break
        inside, jumps = again, jumps + bool(outside.broken)
    notes: tuple[str, ...] = ()
    stretches = sum(held for held, _ in groupby(search.known, lambda probe: not probe.broken))
    if jumps or (few and stretches > 1):
        further = ", perhaps further on too" if jumps == MOST_JUMPS else " on the way"
        notes = (f"not monotone: the limits break and hold again{further}",)
    return {"holds": inside, "fails": outside, "notes": notes}


def _holds_again(search: Probes, outside: Probe, direction: int) -> Probe | None:
    """A value beyond a broken one at which every limit holds; None where none was found."""
    beyond = (p for p in search.known if (p.index - outside.index) * direction > 0)
    found = [probe for probe in beyond if not probe.broken]
    steps = [outside.index + direction * step for step in STEPS]
    further = [
        int(outside.index * ratio) if direction > 0 else int(outside.index / ratio)
        for ratio in BEYOND
    ]
    for index in {*steps, *further} - {outside.index}:
        probe = search.beyond(index, direction)
        if probe is not None and not probe.broken:
            found.append(probe)
    return max(found, key=lambda p: p.index * direction, default=None)
