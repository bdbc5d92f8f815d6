"""Inverse questions: the last value of an unknown at which quantities meet their limits.

A question searches a domain (``domains.py``, ``families.py``) and answers with a certificate: the
last feasible value, the next valid value, which is infeasible, and the limit that it violates. A
small domain is tried in full. In a large one the steps grow, and between the last feasible and the
first infeasible value the answer is narrowed down. Values beyond the answer are tried too: if one
of them is feasible, the quantity is not monotone and the search continues from there. Both sides of
the answer are computed exactly.

Models differ in width and in depth: their domain has rows. Limits come nearer along a row, and from
the first value of one row to the first of the next; so rows with feasible values end somewhere, and
the last feasible value of each is found by narrowing. The question ends at a row whose last value
is no larger than a known feasible one: the rows before it are smaller still.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Any

from planner.base import numbers
from planner.base.errors import PlanError
from planner.base.notebook import Shown
from planner.questions.constraints import Limit
from planner.questions.domains import Domain
from planner.questions.solve.evaluations import Goal, Probe, Probes, narrow_bounds

#: Steps after which a question counts as unbounded.
MOST_STRIDES = 60
#: Steps on which limits are missed by more and more, after which a direction is given up.
PATIENCE = 3
#: How often a value beyond an answer may be feasible again until the answer is accepted anyway.
MOST_JUMPS = 8
#: Distances beyond an answer that are checked for feasible values, besides the growing steps.
STEPS = (2, 3, 5)


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """The certificate: the last feasible value, the next valid, infeasible one, and why.

    Attributes:
        domain: the values of the unknown.
        direction: +1 for the largest value that holds, -1 for the smallest.
        limits: the limits of the question.
        question: its name; ``vary`` if it varies a key.
        holds: the last feasible value, or the best one; None without a feasible value.
        fails: the next valid value, which is infeasible; None where the domain ends with ``holds``.
        miss: without a feasible value, the value that comes nearest.
        goal: what is largest or smallest at ``holds``, if that was asked for.
        beside: with a goal, the next valid values, worse or not within the limits.
        unmet: without a feasible value, the limits that no value meets.
        together: whether each of ``unmet`` can be met, but not both.
        notes: further remarks, a sentence each.
        tried: number of valid values that were evaluated.
        beyond: in a domain with rows, the next value of each row that might have a larger one.
        extra: what some questions add, such as offers and sizes by bytes alone.
    """

    domain: Domain
    direction: int
    limits: tuple[Limit, ...]
    question: str = "vary"
    holds: Probe | None = None
    fails: Probe | None = None
    miss: Probe | None = None
    goal: Goal | None = None
    beside: tuple[Probe, ...] = ()
    unmet: tuple[Limit, ...] = ()
    together: bool = False
    notes: tuple[str, ...] = ()
    tried: int = 0
    beyond: tuple[Probe, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        value = "no value" if self.holds is None else str(self.holds.value)
        return f"<Answer {self.name}: {value[:60]}>"

    @property
    def name(self) -> str:
        """The subject of the answer: the question, or the key that was varied."""
        return self.domain.key if self.question == "vary" else self.question

    @property
    def binding(self) -> Limit | None:
        """The limit that the next value violates; without a feasible value, the limit that no value
        meets."""
        if self.holds is None and self.miss is not None:
            unmet = [limit for limit in self.unmet if limit in self.miss.broken]
            return min(unmet or self.miss.broken, key=self.miss.share)
        if self.fails is None or not self.fails.broken:
            return None
        return min(self.fails.broken, key=self.fails.share)


def solve_domain(search: Probes, direction: int | None = None) -> Answer:
    """Find the last value of a domain that meets every limit.

    Args:
        search: the limits, and the values of the domain.
        direction: +1 for the largest value, -1 for the smallest, None for the direction in which a
            limit comes nearer; always the largest in a domain with rows.

    Returns:
        The value and the next one, or the nearest miss.

    Raises:
        PlanError: no value makes a valid plan, a limit's quantity is absent, or nothing limits the
            unknown.
    """
    if search.domain.rows:
        direction, found = 1, _solve_rows(search)
    else:
        few, start = search.evaluate_all(), search.find_start()
        if direction is None:
            direction = find_direction(search, start)
        inside = find_near(search, start, direction)
        found = nearest_miss(search) if inside is None else _last(search, inside, direction, few)
    return Answer(search.domain, direction, search.limits, **found, tried=len(search.known))


def nearest_miss(search: Probes) -> dict[str, Any]:
    """Return the fields of an answer without a feasible value: the nearest miss, and the limits
    that no value meets, or two that no value meets together.

    Raises:
        PlanError: no value makes a valid plan.
    """
    probes = search.known or [search.find_start()]
    miss = search.evaluate_exact(max(probes, key=lambda p: min(map(p.share, p.broken))))
    alone = tuple(li for li in search.limits if all(li in probe.broken for probe in probes))
    if alone:
        return {"miss": miss, "unmet": alone}
    for pair in combinations(search.limits, 2):
        if all(set(pair) & set(probe.broken) for probe in probes):
            return {"miss": miss, "unmet": pair, "together": True}
    return {"miss": miss}


def refuse_unbounded(search: Probes, probe: Probe) -> PlanError:
    """Return the fault of a question whose limits are met at every value, this one too."""
    value = numbers.text(probe.number, search.domain.unit)
    names = " and ".join(limit.quantity for limit in search.limits)
    said = f"{search.domain.key} is unbounded: {names} still within limits at {value}"
    return PlanError(said, None)


# values in one row --------------------------------------------------------------------------


def yield_strides(search: Probes, start: Probe, toward: int) -> Iterator[Probe]:
    """Yield valid values at growing distances from a start.

    Args:
        search: evaluates the values.
        start: the value to start from.
        toward: +1 for values at 1.5, 2, 3, 5, 9, … times the start, -1 for 2/3, 1/2, 1/3, 1/5, … of
            it.

    Yields:
        Values to the end of the domain, or until limits are missed by more and more.
    """
    here, further = start, 0
    for stride in range(MOST_STRIDES):
        if toward == 1:
            index = max(start.index + max(start.index, 1) * 2**stride // 2, here.index + 1)
        else:
            index = min(start.index * 2 // (2 + 2**stride), here.index - 1)
        index = search.domain.clamp_index(index)
        there = search.beyond(index, toward) or search.beyond(index, -toward)
        if there is None or there.index == here.index:
            return
        yield there
        changes = [there.slack(limit) - here.slack(limit) for limit in there.broken]
        further = further + 1 if changes and max(changes) <= 0 > min(changes) else 0
        if further == PATIENCE:
            return
        here = there


def find_direction(search: Probes, start: Probe) -> int:
    """Return the direction in which the first limit that changes comes nearer."""
    for toward in (1, -1):
        for other in yield_strides(search, start, toward):
            for limit in search.limits:
                if change := other.slack(limit) - start.slack(limit):
                    return toward if change < 0 else -toward
    return 1


def find_near(search: Probes, start: Probe, direction: int) -> Probe | None:
    """Find a value that meets every limit, on both sides of a start.

    Args:
        search: evaluates the values.
        start: the value to start from.
        direction: the opposite direction is tried first.

    Returns:
        The start if it is feasible, else another value; None if none of those tried is feasible.
    """
    if not start.broken:
        return start
    for toward in (-direction, direction):
        here = start
        for there in yield_strides(search, start, toward):
            if not there.broken:
                return there
            if not set(here.broken) & set(there.broken):
                # A feasible value may lie between two that violate different limits.
                inside, _ = narrow_bounds(search, here, there, there.broken)
                if not inside.broken:
                    return inside
            here = there
    return next((probe for probe in search.known if not probe.broken), None)


def _last(search: Probes, inside: Probe, direction: int, few: bool) -> dict[str, Any]:
    """Find the last feasible value and the next one.

    Args:
        search: evaluates the values.
        inside: a feasible value.
        direction: +1 for the largest value, -1 for the smallest.
        few: whether the whole domain was evaluated.

    Returns:
        The fields of an answer: both values, exact, and a note if limits are met again beyond.
    """
    jumps = 0
    while True:
        inside, outside = _find_edge(search, inside, direction)
        if inside.broken:  # an estimate was wrong: never by much
            inside = next(probe for probe in search.known if not probe.broken)
            continue
        again = None if outside is None else _find_furthest(search, outside, direction)
        if outside is None or again is None or jumps == MOST_JUMPS:
            break
        inside, jumps = again, jumps + bool(outside.broken)
    notes: tuple[str, ...] = ()
    stretches = sum(held for held, _ in groupby(search.known, lambda probe: not probe.broken))
    if jumps or (few and stretches > 1):
        further = ", perhaps further on too" if jumps == MOST_JUMPS else " on the way"
        notes = (f"not monotone: the limits break and hold again{further}",)
    return {"holds": inside, "fails": outside, "notes": notes}


def _find_edge(search: Probes, inside: Probe, direction: int) -> tuple[Probe, Probe | None]:
    """Find the last value before limits are violated.

    Args:
        search: evaluates the values.
        inside: a feasible value.
        direction: +1 for larger values, -1 for smaller ones.

    Returns:
        That value and the next valid one, both exact; None for the latter where the domain ends.

    Raises:
        PlanError: the limits are met at every value.
    """
    for probe in yield_strides(search, inside, direction):
        if probe.broken:
            inside, outside = narrow_bounds(search, inside, probe)
            return search.evaluate_exact(inside), search.evaluate_exact(outside)
        inside = probe
    if search.domain.endless and direction == 1:
        raise refuse_unbounded(search, inside)
    return search.evaluate_exact(inside), None


def _find_furthest(search: Probes, outside: Probe, direction: int) -> Probe | None:
    """Find the furthest feasible value from an infeasible one on, after trying some values.

    Args:
        search: evaluates the values.
        outside: the infeasible value.
        direction: +1 for larger values, -1 for smaller ones.

    Returns:
        The value; None if none is known.
    """
    for step in STEPS:
        search.beyond(outside.index + direction * step, direction)
    list(yield_strides(search, outside, direction))  # evaluates them
    known = search.known[::direction]
    beyond = known[known.index(outside) :]
    return next((probe for probe in reversed(beyond) if not probe.broken), None)


# values in rows -----------------------------------------------------------------------------


def _solve_rows(search: Probes) -> dict[str, Any]:
    """Return the fields of an answer in a domain with rows: the largest feasible value, and of each
    row the first that is larger, which is infeasible; the smallest first."""
    while True:
        holds, beyond = _find_largest(search)
        if holds is None:
            return nearest_miss(search)
        holds = search.evaluate_exact(holds)
        beyond[:1] = map(search.evaluate_exact, beyond[:1])  # the others stay estimates
        if not holds.broken and all(probe.broken for probe in beyond):
            break
    row = next(row for row in search.domain.rows if holds.index in row)
    before = (probe for probe in search.known if probe.index in range(row[0], holds.index))
    name = search.domain.key
    again = any(probe.broken for probe in before)
    return {
        "holds": holds,
        "fails": next(iter(beyond), None),
        "beyond": tuple(beyond),
        "notes": (f"{name} is not monotone: limits break and hold again",) if again else (),
    }


def _find_largest(search: Probes) -> tuple[Probe | None, list[Probe]]:
    """Find the largest feasible value, and the first larger value of each row that has one.

    Raises:
        PlanError: the limits are met at the end of the domain.
    """
    rows, measure = search.domain.rows, search.domain.measure
    best: Probe | None = None

    def fails(row: range) -> bool:
        """Decide whether the first value of a row is infeasible, or none is valid."""
        first = search.find_end(row)
        return first is None or bool(first.broken)

    widest = bisect_left(rows, True, key=fails)
    while True:
        beyond, before = list[Probe](), best
        for row in reversed(rows[: widest + 1]):
            first = search.find_end(row)
            if first is None:
                continue
            if best is not None and first.number <= best.number:
                end = search.find_end(reversed(row)) or first
                if end.number <= best.number:
                    break
                _, first = narrow_bounds(search, first, end, (Limit(measure, "<=", best.number),))
            if first.broken:
                beyond.append(first)
            else:
                end = search.find_end(reversed(row)) or first
                best = narrow_bounds(search, first, end)[0] if end.broken else end
        if best is before:  # also where limits that broke on the way hold again
            break
    if search.domain.endless and best is not None and best.index == rows[-1][-1]:
        raise refuse_unbounded(search, best)
    return best, sorted(beyond, key=lambda probe: probe.number)
