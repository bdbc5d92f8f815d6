"""Inverse questions: the last value of an unknown at which quantities keep their limits.

A question walks a domain (``domains.py``, ``families.py``) and answers with a certificate: it holds
there, it fails at the next value that makes a valid plan, and this limit binds. A domain of few
values is tried in full. An endless one is bracketed and narrowed by interpolation and halving;
values beyond the answer are probed too, and where one of them holds again the quantity is not
monotone and the search goes on from there. Both sides of the answer are computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from planner.engine.graph import Number
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.questions.constraints import Limit, known, parse_limit, shown
from planner.questions.domains import Domain
from planner.questions.solve.evaluations import Goal, Probe, Probes, narrow, unbounded
from planner.questions.solve.rows import Rows

__all__ = ["Answer", "Limit", "Probe", "evaluated", "known", "parse_limit", "shown", "solve"]

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

    def number(self, probe: Probe) -> Number:
        """What a value of the unknown is compared by: of models, their size."""
        number: Number = probe.values[self.domain.measure] if self.domain.rows else probe.value
        return number

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
    exact: bool = True,
) -> Answer:
    """The last value of a domain at which every limit holds.

    ``direction`` +1 asks for the largest, -1 for the smallest; None lets the quantities decide:
    the way on which a limit comes nearer is the way on which the answer is the last one.
    ``search`` brings probes along, such as those of an evaluator that is not of the plan as it is.
    Not ``exact``, the values on both sides of the answer may be estimates.

    Raises:
        PlanError: no value makes a valid plan, a limit's quantity is absent, or nothing limits the
            unknown.
    """
    search = search or Probes(plan, domain, limits, [domain.measure] if domain.rows else ())
    if domain.rows:
        return _largest(search, Answer(domain, 1, limits))
    few = search.all()
    start = search.start()
    if direction is None:
        direction = _direction(search, start)
    answer = Answer(domain, direction, limits)
    inside = held_near(search, start, direction)
    if inside is None:  # perhaps one that was tried on the way
        inside = next((probe for probe in search.known if not probe.broken), None)
    if inside is None:
        return replace(answer, **missed(search), tried=len(search.known))
    inside, outside, jumps = _confirmed(search, inside, direction, exact)
    notes: tuple[str, ...] = ()
    if jumps or (few and not _monotone(search.known)):
        notes = ("not monotone: the limits break and hold again on the way",)
    if jumps == MOST_JUMPS:
        notes = ("not monotone: the limits break and hold again, perhaps further on too",)
    return replace(answer, holds=inside, fails=outside, notes=notes, tried=len(search.known))


def _largest(search: Probes, answer: Answer) -> Answer:
    """The answer of a domain of rows, exact on both sides."""
    rows = Rows(search)
    while True:
        holds, beyond = rows.last()
        if holds is None:
            search.start()  # raises where no value is valid
            return replace(answer, **missed(search), tried=len(search.known))
        sides = [search.confirmed(probe) for probe in (holds, *beyond[:1])]
        if not sides[0].broken and all(probe.broken for probe in sides[1:]):
            fails = sides[1] if beyond else None
            beyond = (*sides[1:], *beyond[1:])
            tried = len(search.known)
            return replace(answer, holds=sides[0], fails=fails, beyond=beyond, tried=tried)


def missed(search: Probes) -> dict[str, Any]:
    """What an answer says where no value is known at which all limits hold: the nearest miss, and
    the limits that no value meets, or two that none meets together."""
    probes = search.known
    miss = search.confirmed(max(probes, key=lambda p: min(map(p.share, p.broken))))
    alone = tuple(li for li in search.limits if all(li in probe.broken for probe in probes))
    if alone:
        return {"miss": miss, "unmet": alone}
    pairs = ((a, b) for i, a in enumerate(search.limits) for b in search.limits[i + 1 :])
    together = next(
        ((a, b) for a, b in pairs if all(a in p.broken or b in p.broken for p in probes)), ()
    )
    return {"miss": miss, "unmet": together, "together": bool(together)}


def _confirmed(
    search: Probes, inside: Probe, direction: int, exact: bool
) -> tuple[Probe, Probe | None, int]:
    """``_last`` with exact values on both sides, if these are wanted."""
    while True:
        found, outside, jumps = _last(search, inside, direction)
        if not exact:
            return found, outside, jumps
        found = search.confirmed(found)
        outside = None if outside is None else search.confirmed(outside)
        if found.broken:  # an estimate was wrong: never by much
            inside = next(p for p in search.known if not p.broken)
        elif outside is None or outside.broken:
            return found, outside, jumps
        else:
            inside = outside


def _monotone(probes: list[Probe]) -> bool:
    """Whether what holds is one stretch of the probed values."""
    held = [not probe.broken for probe in probes]
    return sum(a != b for a, b in zip([False, *held], [*held, False], strict=True)) <= 2


def _direction(search: Probes, start: Probe) -> int:
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


def held_near(search: Probes, start: Probe, direction: int) -> Probe | None:
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


def _last(search: Probes, inside: Probe, direction: int) -> tuple[Probe, Probe | None, int]:
    """The last value that holds, the next that does not, and how often it held again beyond."""
    jumps = 0
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
        if outside is None:
            return inside, None, jumps
        inside, outside = narrow(search, inside, outside)
        again = _holds_again(search, outside, direction) if jumps < MOST_JUMPS else None
        if again is None:
            return inside, outside, jumps
        inside, jumps = again, jumps + 1


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
