"""Select, of many layouts that come in chunks, the best, the front and a sample.

Memory use does not grow with the number of layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from planner.engine.arrays.table import Array
from planner.plans import error_bands
from planner.questions.search.layouts import Setting, SpaceRows

#: A selected layout with its two numbers.
Item = tuple[float, float, Setting]
#: Returns a layout by its index in a chunk.
Settings = Callable[[int], Setting]
#: Numbers that agree in so many binary digits are equal, so that the order of equally good layouts
#: does not depend on how a processor rounds.
DIGITS = 38
#: By what share of the minimised quantity a simpler layout may be worse than the best, and win:
#: up to it published runs do not tell two layouts apart.
SPARE = error_bands.load_order().close
#: By what share a layout that somebody ran may take longer than one that nobody is known to have
#: run: as much as runs of a kind that nobody measured may.
RUN_BEFORE = float(error_bands.row(error_bands.DENSE, {})["high"])
#: Points that a sample collects before it is thinned, per requested point.
COLLECTED = 20


def round_numbers(values: Array) -> Array:
    """Round numbers of any shape to ``DIGITS`` binary digits."""
    mantissa, exponent = np.frexp(values)
    rounded: Array = np.ldexp(np.rint(np.ldexp(mantissa, DIGITS)), exponent - DIGITS)
    return rounded


def _widen_value(value: float, share: float = 2.0 ** (1 - DIGITS)) -> float:
    """Return a value that is worse by a share; by default the bound below which all numbers lie
    that round to the same."""
    return value + share * abs(value)


class Best:
    """The layouts with the smallest score; ties go to less memory, then to the first. Layouts that
    agree in both are the same step under other names."""

    def __init__(self, count: int = 1, distinct: bool = False) -> None:
        """Begin without layouts.

        Args:
            count: how many to keep.
            distinct: whether any two must differ in score or in memory.
        """
        self.count, self.distinct = count, distinct
        self._items: list[Item] = []
        self._keys = np.empty((2, 0))  # score and memory of each, rounded for comparison

    def add(self, score: Array, memory: Array, settings: Settings, places: Array) -> None:
        """Add layouts of a chunk.

        Args:
            score: the score of each, the smaller the better, (layouts,).
            memory: memory in use in bytes, (layouts,).
            settings: returns a layout by its index in the chunk.
            places: indices of the layouts in the chunk, (layouts,).
        """
        near = np.flatnonzero(self._find_candidates(score, memory))
        if not len(near):
            return
        came = np.stack((score[near], memory[near]))
        keys = np.concatenate((self._keys, round_numbers(came)), axis=1)
        order = np.lexsort(keys[::-1])
        order = order[self._select_kept(keys[:, order])]
        kept, self._keys, self._items = self._items, keys[:, order], []
        for number in order.tolist():
            if number < len(kept):
                self._items.append(kept[number])
            else:
                number -= len(kept)
                self._items.append((*came[:, number].tolist(), settings(int(places[near[number]]))))

    def _find_candidates(self, score: Array, memory: Array) -> Array:
        """Return which layouts may be among the best, all (layouts,)."""
        found: Array = np.isfinite(score) & (score <= self.most)
        return found

    def _select_kept(self, keys: Array) -> Array:
        """Return the indices to keep among sorted candidates, from rounded numbers (2, layouts)."""
        differ = np.any(np.diff(keys, axis=1), axis=0) | (not self.distinct)
        return np.flatnonzero(np.concatenate(([True], differ)))[: self.count]

    @property
    def most(self) -> float:
        """The largest score that is still as good as the worst one kept, or better."""
        return _widen_value(self._items[-1][0]) if len(self._items) == self.count else np.inf

    @property
    def first(self) -> Item | None:
        """The best layout; None if there is none."""
        return self._items[0] if self._items else None

    def list_items(self) -> list[Item]:
        """Return all that are kept, in order."""
        return self._items


class ByChoice:
    """For each value of each choice, the best layout that has it; None if none fits."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, Any], Best] = {}

    def add_layouts(
        self,
        score: Array,
        memory: Array,
        kept: Array,
        choices: Sequence[Sequence[tuple[str, Sequence[Any], Array]]],
        settings: Settings,
    ) -> None:
        """Add layouts of a chunk.

        Args:
            score, memory, kept: arrays of the same shape, such as (zero, recompute, rows).
            choices: for each axis, keys with their values and, for each position along it, the
                index of the value.
            settings: a layout by its index in the flattened arrays.
        """
        lowest = np.where(kept, score, np.inf)
        for axis, keys in enumerate(choices):
            others = tuple(i for i in range(lowest.ndim) if i != axis)
            along = lowest.min(axis=others)
            for key, values, places in keys:
                for place in np.flatnonzero(np.bincount(places)).tolist():
                    best = self._best.setdefault((key, values[place]), Best())
                    has = places == place
                    least = along[has].min()
                    if not np.isfinite(least) or least > best.most:
                        continue
                    near = (lowest <= _widen_value(least)) & np.expand_dims(has, others)
                    found = np.flatnonzero(near)
                    best.add(score.ravel()[found], memory.ravel()[found], settings, found)

    def list_items(self) -> dict[str, list[tuple[Any, Item | None]]]:
        """Return for each key its values with their best layouts, the best first."""
        found: dict[str, list[tuple[Any, Item | None]]] = {}
        for (key, value), best in self._best.items():
            found.setdefault(key, []).append((value, best.first))

        def rank(row: tuple[Any, Item | None]) -> tuple[Any, ...]:
            """Return a sort key: values with a layout by its score and memory, before those
            without."""
            value, item = row
            last = (value is not None, value)
            return item is None, *(round_numbers(np.array(item[:2])).tolist() if item else last)

        return {key: sorted(rows, key=rank) for key, rows in found.items()}


class Front(Best):
    """The Pareto front of score and memory, without a limit of its size, smallest score first."""

    def _find_candidates(self, score: Array, memory: Array) -> Array:
        """Return which layouts have less memory than every kept one whose score is as small, all
        (layouts,)."""
        scores, least = self._keys
        behind = np.searchsorted(scores, score, side="right")
        found: Array = memory < np.concatenate(([np.inf], least))[behind]
        return found

    def _select_kept(self, keys: Array) -> Array:
        """Return the indices of sorted candidates with less memory than all before them, from
        rounded numbers (2, layouts)."""
        lowest = np.minimum.accumulate(keys[1])
        return np.flatnonzero(np.concatenate(([True], lowest[1:] < lowest[:-1])))


class Plain:
    """The simplest layout with a score within ``SPARE`` of the smallest; ties go to the smaller.

    A layout that somebody is known to have run goes before all others: the simplest within
    ``SPARE`` of the best of all; if there is none, the best that somebody ran, unless that is worse
    than the best of all by more than ``RUN_BEFORE`` (``SPARE`` for memory). So a layout that comes
    to lie just beyond ``SPARE`` is not exchanged for a worse one.
    """

    def __init__(self, by: str) -> None:
        """Begin without layouts, which ``by`` ranks."""
        self._further = SPARE if by.startswith("memory.") else RUN_BEFORE
        self._fronts, self._least = (Front(), Front()), [np.inf, np.inf]  # run, and untried

    def add_layouts(self, score: Array, chunk: SpaceRows, places: Array) -> None:
        """Add layouts of a chunk.

        Args:
            score: the score of each, the smaller the better, (layouts,).
            chunk: the rows of the layouts.
            places: indices of the layouts in the chunk, (layouts,).
        """
        untried = chunk.find_untried(places)
        for index, front in enumerate(self._fronts):
            least = score.min(where=untried == index, initial=self._least[index])
            self._least[index] = least
            near = np.flatnonzero((untried == index) & (score <= _widen_value(least, SPARE)))
            plain = chunk.score_simplicity(places[near]).astype(np.float64)
            front.add(score[near], plain, chunk.build_setting, places[near])

    @property
    def most(self) -> float:
        """The largest score that can still change the answer."""
        worst = _widen_value(min(self._least), self._further)
        return _widen_value(min(self._least[0], worst), SPARE)

    @property
    def first(self) -> Item | None:
        """The simplest layout of those near enough to the best; None if there is none."""
        run, least = self._least[0], min(self._least)
        near, allowed = (run <= _widen_value(least, share) for share in (SPARE, self._further))
        most = _widen_value(run) if allowed and not near else _widen_value(least, SPARE)
        within = [item for item in self._fronts[not allowed].list_items() if item[0] <= most]
        return within[-1] if within else None


class Sample:
    """Points spread over memory and score: every n-th layout, then one for each cell of a grid."""

    def __init__(self, count: int, size: int) -> None:
        """Begin without points.

        Args:
            count: about how many points are requested; 0 for none.
            size: the number of layouts that follow.
        """
        self.count = count
        self._stride = max(1, size // (COLLECTED * count) if count else size)
        self._seen = 0
        self._parts: list[Array] = []

    def add(self, score: Array, memory: Array, there: Array, fits: Array) -> None:
        """Add some of the next layouts to the sample.

        Args:
            score: the minimised quantity, (layouts,).
            memory: memory in use in bytes, (layouts,).
            there: which layouts are valid and have values, (layouts,).
            fits: which layouts fit, (layouts,).
        """
        places = np.flatnonzero(there)
        chosen = places[-self._seen % self._stride :: self._stride]
        self._seen += len(places)
        self._parts.append(np.stack((score[chosen], memory[chosen], fits[chosen])))

    def yield_points(self) -> Iterator[tuple[float, float, bool]]:
        """Yield score, memory and whether it fits, of about as many points as requested."""
        if not self._parts or not self.count:
            return
        score, memory, fits = np.concatenate(self._parts, axis=1)
        side, chosen = 2, np.arange(0)
        while side <= 4 * self.count:
            fields = tuple(_index_cells(column, side) for column in (score, memory))
            _, first = np.unique(np.ravel_multi_index(fields, (side, side)), return_index=True)
            if len(first) > self.count:
                break
            chosen, side = np.sort(first), side + max(1, side // 4)
        for i in chosen:
            yield float(score[i]), float(memory[i]), bool(fits[i])


def _index_cells(values: Array, side: int) -> Array:
    """Return the index of the cell of each value, on a grid of equal width in the logarithm."""
    logs = np.log(np.maximum(values, np.finfo(float).tiny))
    low, high = logs.min(), logs.max()
    if high == low:
        return np.zeros(len(values), dtype=np.int64)
    fields: Array = np.minimum((logs - low) / (high - low) * side, side - 1).astype(np.int64)
    return fields
