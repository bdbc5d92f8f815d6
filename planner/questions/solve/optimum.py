"""The value of an unknown at which a quantity is largest or smallest while limits hold.

A domain of few values is tried in full. Over a larger one the peaks of a coarse scan are climbed:
between a peak and its neighbours further values are tried until its neighbours are the next valid
ones. Where the quantity has several peaks, the highest is the answer and the others are noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from planner.base import numbers
from planner.base.errors import PlanError
from planner.questions.solve.evaluations import Goal, Probe, Probes, narrow_bounds
from planner.questions.solve.solve import Answer, find_near, nearest_miss, yield_strides

#: Values of a coarse scan between the first and the last feasible value; up to twice as many.
SCAN = 32
#: Beyond this multiple of the start's index a goal counts as having no best value.
FAR = 2**20
#: Directions: to smaller and to larger values.
BOTH = (-1, 1)
#: Peaks of the scan that are climbed.
MOST_PEAKS = 3


def find_optimum(search: Probes, goal: Goal) -> Answer:
    """Find the best value of a domain, with its neighbours on both sides: each worse, or beyond the
    limits.

    Raises:
        PlanError: no value makes a valid plan, a quantity is absent, or there is no best value.
    """
    domain = search.domain
    if not search.evaluate_all():
        _scan_domain(search)
    scanned = search.known or [search.find_start()]
    if len(scanned) > 1 and len({goal.score_probe(probe) for probe in scanned}) == 1:
        raise PlanError(f"{goal.quantity} does not change with {domain.key}", None)
    peaks = _find_peaks(scanned, goal)
    far = peaks[0].index > FAR * max(1, domain.start)
    if domain.endless and far and not peaks[0].broken:
        best = numbers.text(peaks[0].value, domain.unit)
        why = f"{goal.quantity} has no {goal.word} value; it is still better at {best}"
        raise PlanError(f"{domain.key} is unbounded: {why}", None, "a limit with --until")
    top = max((_refine_peak(search, peak, goal) for peak in peaks), key=goal.rank_probe)
    exact = None if top.broken else search.evaluate_exact(top)
    found = nearest_miss(search) if exact is None else _build_best(search, exact, goal)
    tried = len(search.known)
    return Answer(domain, goal.sense, search.limits, goal=goal, **found, tried=tried)


def _build_best(search: Probes, top: Probe, goal: Goal) -> dict[str, Any]:
    """Build the fields of an answer for its best value.

    Args:
        search: the evaluated values.
        top: the best of them, exact.
        goal: what is maximised or minimised.

    Returns:
        The best value, its valid neighbours, and notes on other peaks and on values that are as
            good.
    """
    beside = [search.beyond(top.index + toward, toward) for toward in BOTH]
    known, notes = search.known, []
    if len({peak.index for peak in _find_peaks(known, goal)}) > 1:
        notes.append(f"{goal.quantity} rises and falls more than once; other peaks are worse")
    same = [p for p in known if not p.broken and p.index != top.index]
    if any(goal.score_probe(p) == goal.score_probe(top) for p in same):
        notes.append(f"other values give the same {goal.quantity}")
    sides = tuple(search.evaluate_exact(probe) for probe in beside if probe is not None)
    return {"holds": top, "beside": sides, "notes": tuple(notes)}


def _scan_domain(search: Probes) -> None:
    """Evaluate values at growing distances on both sides, where limits begin and cease to be met
    between them, and some in between."""
    start = search.find_start()
    find_near(search, start, 1)
    for toward in BOTH:
        for _ in yield_strides(search, start, toward):
            pass
    for pair in pairwise(search.known):
        inside, outside = sorted(pair, key=lambda probe: bool(probe.broken))
        if outside.broken and not inside.broken:
            narrow_bounds(search, inside, outside)
    held = [probe.index for probe in search.known if not probe.broken] or [start.index]
    low, high = held[0], held[-1]
    # Round values: matmuls run best on multiples of powers of two.
    step = 1 << max(0, ((high - low) // SCAN).bit_length() - 1)
    for index in range(low + -low % step, high, step):
        search.beyond(index, 1)


def _find_peaks(probes: Sequence[Probe], goal: Goal) -> list[Probe]:
    """Return the values better than their neighbours, best first; of equal ones the first."""
    ranks = [goal.rank_probe(probe) for probe in probes]
    found = []
    for i, probe in enumerate(probes):
        left = i == 0 or ranks[i] > ranks[i - 1]
        right = i == len(probes) - 1 or ranks[i] >= ranks[i + 1]
        if left and right and (ranks[i][0] or all(not rank[0] for rank in ranks)):
            found.append(probe)
    return sorted(found, key=goal.rank_probe, reverse=True)[:MOST_PEAKS]


def _refine_peak(search: Probes, peak: Probe, goal: Goal) -> Probe:
    """Climb from a peak of the scan to a value that is better than the next valid ones.

    Args:
        search: evaluates values between the peak and its neighbours.
        peak: the value to start from.
        goal: what is maximised or minimised.
    """
    while True:
        tried, between = [peak], False
        for toward in BOTH:
            beside = pairwise(search.known[::toward])
            known = (after for probe, after in beside if probe.index == peak.index)
            other = next(known, None) or search.beyond(peak.index + toward, toward)
            if other is not None:
                middle = (peak.index + other.index) // 2
                nearer = search.find_nearest(middle, peak.index, other.index)
                between = between or nearer is not None
                tried += [other] if nearer is None else [nearer, other]
        best = max(tried, key=goal.rank_probe)
        if best is peak and not between:
            return peak
        peak = best
