"""The interval of a prediction at a place that nobody measured, from the errors at those that were.

Published runs come in sources (a laboratory, a table), sources in kinds (what ran, on which
generation), kinds in families (dense, experts, LoRA, inference). The logarithm of measured over
predicted, y, is taken as

    y = family's mean + kind's effect + source's effect + run's effect

with variances ``of_kinds``, ``between`` sources and ``within`` a source. The interval is that of a
new run of a new source: the kind's mean, drawn to its family's, and Student's 5th and 95th
percentile of all three variances and of the mean's own. A variance with little evidence is drawn to
that of the level above, which counts as ``PRIOR`` further sources (all families together, then the
family, then the kind), so that one source alone never vouches for all others. A kind without runs
scatters as the widest of its family, around the family's mean, with the variance between kinds on
top. How far sources lie apart is taken of those that no constant was fitted to, where those are
further apart than all are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, variance
from typing import NamedTuple

from planner.connect.calibrate.fit import PRIOR, SHARE, find_quantile

#: Family and kind of a run; log of measured over predicted by source.
Kind = tuple[str, str]
Groups = Mapping[str, Sequence[float]]
Ratios = Mapping[Kind, Groups]
#: Runs of a source from which its own scatter is known.
ENOUGH = 3


class Interval(NamedTuple):
    """Measured over predicted, less 1: 5th and 95th percentile, what they rest on, and the
    standard deviation of the logarithm within a source."""

    low: float
    high: float
    rows: int
    sources: int
    within: float


class _Spread(NamedTuple):
    """A variance and the number of sources that speak for it."""

    value: float
    weight: float


def _pooled(found: Iterable[_Spread], prior: float | None) -> float:
    """The mean of variances by their evidence, drawn to that of the level above."""
    found = list(found)
    weight = sum(each.weight for each in found)
    total = sum(each.value * each.weight for each in found)
    if prior is None:
        return total / weight if weight else 0.0
    return (PRIOR * prior + total) / (PRIOR + weight)


def _within(groups: Iterable[Sequence[float]]) -> list[_Spread]:
    return [_Spread(variance(group), 1) for group in groups if len(group) >= ENOUGH]


def _between(sources: Groups, within: float, fitted: Collection[str]) -> _Spread:
    """The variance of sources' means, less what rows alone would make of it: of all, or of those
    that no constant was fitted to where it is larger, since a fit brings those that it saw
    together."""
    unseen = {name: group for name, group in sources.items() if name not in fitted}
    found = _Spread(0.0, 0)
    for groups in (list(sources.values()), list(unseen.values())):
        if len(groups) > 1:
            noise = fmean(within / len(group) for group in groups)
            value = max(variance(map(fmean, groups)) - noise, 0.0)
            found = max(found, _Spread(value, len(groups) - 1))
    return found


def _mean(groups: Iterable[Sequence[float]], within: float, between: float) -> tuple[float, float]:
    """Precision of sources' means, and their sum weighted by it."""
    weights = [(1 / (between + within / len(group)), fmean(group)) for group in groups]
    return sum(weight for weight, _ in weights), sum(weight * mean for weight, mean in weights)


def intervals(
    ratios: Ratios, asked: Iterable[Kind] = (), fitted: Collection[str] = ()
) -> dict[Kind, Interval]:
    """The interval of each kind that has runs, and of those asked for; ``fitted`` are the sources
    that constants were fitted to."""
    families: dict[str, dict[str, Groups]] = {}
    for (family, kind), sources in ratios.items():
        families.setdefault(family, {})[kind] = sources
    for family, kind in asked:
        families.setdefault(family, {}).setdefault(kind, {})
    every = [sources for kinds in families.values() for sources in kinds.values()]
    within = _pooled(_within(group for sources in every for group in sources.values()), None)
    between = _pooled((_between(sources, within, fitted) for sources in every), None)
    tops = {name: _Family(kinds, within, between, fitted) for name, kinds in families.items()}
    # Kinds of a family that has one alone differ as those of other families do.
    of_kinds = _pooled((top.kinds for top in tops.values()), None)
    return {
        (name, kind): top.interval(sources, of_kinds)
        for name, top in tops.items()
        for kind, sources in families[name].items()
    }


class _Family:
    """What the kinds of one family have in common."""

    def __init__(
        self,
        kinds: Mapping[str, Groups],
        within: float,
        between: float,
        fitted: Collection[str],
    ) -> None:
        self.fitted = fitted
        every = [group for sources in kinds.values() for group in sources.values()]
        self.within = _pooled(_within(every), within)
        self.between = _pooled(
            (_between(sources, self.within, fitted) for sources in kinds.values()), between
        )
        self.freedom = PRIOR + sum(max(len(sources) - 1, 0) for sources in kinds.values())
        known = [
            _mean(sources.values(), self.within, self.between)
            for sources in kinds.values()
            if sources
        ]
        precision = sum(weight for weight, _ in known)
        self.mean = sum(total for _, total in known) / precision if known else 0.0
        self.kinds = _Spread(0.0, 0)
        if len(known) > 1:
            own = variance(total / weight for weight, total in known)
            noise = fmean(1 / weight for weight, _ in known)
            self.kinds = _Spread(max(own - noise, 0.0), len(known) - 1)

        scatters = [self._scatter(sources) for sources in kinds.values()]
        #: A kind without runs scatters as the widest known, within sources and between them.
        self.widest = (max(s[0] for s in scatters), max(s[1] for s in scatters))

    def _scatter(self, sources: Groups) -> tuple[float, float]:
        """Variances within the sources of a kind and between them."""
        within = _pooled(_within(sources.values()), self.within)
        return within, _pooled([_between(sources, within, self.fitted)], self.between)

    def interval(self, sources: Groups, of_kinds: float) -> Interval:
        """Of a new run at a new source of a kind with these runs."""
        groups = list(sources.values())
        within, between = self._scatter(sources) if sources else self.widest
        apart = max(_pooled([self.kinds], of_kinds), 1e-6)
        precision, total = _mean(groups, within, between) if groups else (0.0, 0.0)
        mean = (total + self.mean / apart) / (precision + 1 / apart)
        size = math.sqrt(within + between + 1 / (precision + 1 / apart))
        freedom = PRIOR + len(groups) - 1 if groups else self.freedom
        reach = find_quantile(1 - SHARE, freedom) * size
        low, high = math.exp(mean - reach) - 1, math.exp(mean + reach) - 1
        rows = sum(map(len, groups))
        return Interval(min(low, 0), max(high, 0), rows, len(groups), math.sqrt(within))


def left_out(
    ratios: Ratios, asked: Iterable[Kind] = (), fitted: Collection[str] = ()
) -> Iterator[tuple[str, Kind, list[bool]]]:
    """For each source and kind whether its runs lie in the interval that all other sources give."""
    asked = [*asked, *ratios]
    for name in sorted({source for sources in ratios.values() for source in sources}):
        others = {
            kind: {source: group for source, group in sources.items() if source != name}
            for kind, sources in ratios.items()
        }
        found = intervals({kind: own for kind, own in others.items() if own}, asked, fitted)
        for kind, sources in ratios.items():
            if sources.get(name):
                band = found[kind]
                inside = [band.low <= math.expm1(y) <= band.high for y in sources[name]]
                yield name, kind, inside
