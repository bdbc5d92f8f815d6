"""The last value of a domain that differs in two ways: rows of values, each in increasing order.

A model has a width and a depth. Along a row, and from the first of one row to the first of the
next, the limits come nearer; so the rows that hold anything end somewhere, and of each of them the
last value that holds is found by halving. A row whose last value is no larger than what holds
already ends the question: the rows before it are smaller still.
"""

from __future__ import annotations

from planner.engine.evaluate import Number
from planner.questions.constraints import shown
from planner.questions.solve.evaluations import Probe, Probes, narrow, unbounded


class Rows:
    """What is known of the rows of a question's domain, in which each value is a probe."""

    def __init__(self, search: Probes) -> None:
        self.search, self.rows = search, search.domain.rows
        self.measure = search.domain.measure

    def size(self, probe: Probe) -> Number:
        value: Number = probe.values[self.measure]
        return value

    def last(self) -> tuple[Probe | None, tuple[Probe, ...]]:
        """The largest value that holds, and of each row that might have a larger one the first that
        is larger, which does not hold; the smallest of these first.

        Raises:
            PlanError: the limits hold at the end of the domain.
        """
        row = self._widest()
        if row is None:
            return None, ()
        best: Probe | None = None
        asked = []
        for place in range(row, -1, -1):
            if best is not None and not self._larger(place, best):
                break
            asked.append(place)
            best = self._deepest(place, best)
        assert best is not None
        if best.index == self.rows[-1][1]:
            raise unbounded(self.search, shown(self.size(best), "parameters"))
        further = [row + 1] if row + 1 < len(self.rows) else []
        beyond = [self._next(place, best) for place in (*further, *asked)]
        found = sorted((p for p in beyond if p is not None), key=self.size)
        return best, tuple(found)

    def _holds(self, place: int) -> bool:
        first = self.search.probe(self.rows[place][0])
        return first is not None and not first.broken

    def _widest(self) -> int | None:
        """The last row of which the first value holds; None where there is none."""
        start = self.search.domain.start
        place = next(i for i, (_, last) in enumerate(self.rows) if start <= last)
        toward = 1 if self._holds(place) else -1
        stride, here = 1, place
        while True:
            there = min(max(here + toward * stride, -1), len(self.rows))
            if not 0 <= there < len(self.rows) or self._holds(there) != (toward > 0):
                break
            here, stride = there, 2 * stride
        inside, outside = (here, there) if toward > 0 else (there, here)
        while outside - inside > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if self._holds(middle) else (inside, middle)
        return inside if inside >= 0 else None

    def _larger(self, place: int, best: Probe) -> bool:
        """Whether a row has a value that is larger."""
        end = self.search.probe(self.rows[place][1])
        return end is None or self.size(end) > self.size(best)

    def _deepest(self, place: int, best: Probe | None) -> Probe | None:
        """The last value of a row that holds, if it is larger than another; else the other."""
        inside = self.search.probe(self.rows[place][0]) if best is None else self._next(place, best)
        if inside is None or inside.broken:
            return best
        end = self.search.probe(self.rows[place][1])
        if end is None:
            return inside
        if not end.broken:
            return end
        return narrow(self.search, inside, end)[0]

    def _next(self, place: int, best: Probe) -> Probe | None:
        """The first value of a row that is larger than another; None where there is none. Sizes
        grow evenly along a row, but for layers of several kinds, so that those beside it are asked
        too."""
        low, high = self.rows[place]
        first, end = self.search.probe(low), self.search.probe(high)
        if first is None or end is None or self.size(end) <= self.size(best):
            return None
        if self.size(first) > self.size(best):
            return first
        rise = self.size(end) - self.size(first)
        index = low + int((self.size(best) - self.size(first)) * (high - low) // rise) + 1
        probe = self.search.probe(min(index, high))
        before = probe and self.search.probe(probe.index - 1)
        while before is not None and self.size(before) > self.size(best):
            probe, before = before, self.search.probe(before.index - 1)
        while probe is not None and self.size(probe) <= self.size(best) and probe.index < high:
            probe = self.search.probe(probe.index + 1)
        return probe
