"""The one best layout of a plan, found without asking every layout how much memory it needs.

Time is evaluated sooner than memory, and few layouts are faster than the fastest that fits. So rows
of layouts are put in the order of the least that one of them comes to, and are asked for memory in
this order until none that is left can be better. Where nothing fits, all of them are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.plans.document import Plan
from planner.questions.constraints import Limit
from planner.questions.search.engine import (
    FITS,
    MEMORY,
    MOST,
    PREDICTED,
    STEP,
    Walk,
    explain_absence,
    of_memory,
    wanted,
)
from planner.questions.search.layouts import SpaceRows
from planner.questions.search.selection import Best, Item, Plain

Array = NDArray[Any]
Options = Mapping[str, Sequence[Any]]
#: Rows that are asked first, and how many times as many each time after.
FIRST, MORE = 512, 6
#: What most good layouts have, and most of those that leave room: layouts to begin with where a
#: space is searched often.
FEWER: Options = {"parallelism.replicate": (1,), "training.micro_batch": (1, 2)}
ROOMIER: Options = {**FEWER, "training.micro_batch": (1,)}


class BoundedSearch:
    """The layouts of a plan, to be ranked by a quantity that is made small.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        by: the quantity to make small.
        limits: further limits that a layout has to keep.
        options: values that keys may have (``Walk``).
        fits: when a layout fits; by what is predicted.
        walk: the layouts, in the place of all that have the options.

    Raises:
        PlanError: no valid layout, an unknown quantity, or one that no layout has.
    """

    def __init__(
        self,
        plan: Plan,
        by: str = STEP,
        limits: Sequence[Limit] = (),
        options: Options | None = None,
        fits: Limit = PREDICTED,
        walk: Walk | None = None,
    ) -> None:
        self.plan, self.by, self.limits, self.fit = plan, by, tuple(limits), fits
        names = wanted(by, (fits, *limits))
        self.late = tuple(name for name in names if name.startswith("memory."))
        self.early = tuple(name for name in names if name not in self.late)
        self.walk = walk or Walk(plan, self.early, options or {}, most=MOST)
        #: Of the layouts asked for room in chunks of which none fits, the one that lacks least.
        self.nearest = Best()

    def ask(
        self, question: Callable[[BoundedSearch], Item | None], options: Options | None = None
    ) -> Item | None:
        """The answer of all layouts, or of those that have one of some values of each of some keys,
        but of keys that were not free. Where no layout of a narrowed space will do, others are
        asked (``Walk.wider``): that nothing fits is proven so, but not what another limit
        forbids."""
        found, walk = None, None
        if options is not None:
            walk = self.walk.having(options)
        elif (found := question(self)) is None and of_memory(self.limits):
            walk = self.walk.wider()
        if walk is None:
            return found
        others = BoundedSearch(self.plan, self.by, self.limits, None, self.fit, walk)
        others.nearest = self.nearest
        return question(others)

    # -- what is looked for -------------------------------------------------------------------

    def first(self, within: bool = True) -> Item | None:
        """The layout with the smallest score that fits, and that keeps the limits."""
        best = Best()
        for chunk, places in self._in_order(lambda: best.most, within):
            score, memory = (chunk.of(name, places) for name in (self.by, MEMORY))
            best.add(score, memory, chunk.setting, places)
        return best.first

    def plainest(self) -> Item | None:
        """As ``first``, but of all layouts nearly as good the plainest, as ``search`` and
        ``parallelism: auto`` take it; its second number is how plain it is."""
        plain = Plain()
        for chunk, places in self._in_order(lambda: plain.most, True):
            plain.add(chunk.of(self.by, places), chunk.plainness, chunk.setting, places)
        return plain.first

    def roomiest(self) -> Item | None:
        """Of the layouts that keep the limits the one that stays furthest from all of them."""
        best = Best()
        memory_alone = all(limit.quantity in self.late for limit in self.limits)
        if memory_alone:  # time is not asked for
            chunks = self._evaluated(np.arange(self.starts[-1]), self.late)
        else:
            rows = np.flatnonzero(np.isfinite(self._least[1]))
            chunks = self._evaluated(rows, self.early, self.late)
        for chunk in chunks:
            fits = chunk.within([self.fit])
            if memory_alone and not fits.any():
                every = np.flatnonzero(chunk.valid)
                lacking = -self.fit.slack(chunk.of(self.fit.quantity, every))
                self.nearest.add(lacking, chunk.of(MEMORY, every), chunk.setting, every)
            places = np.flatnonzero(chunk.within(self.limits, fits))
            share, memory = self._share(chunk, places), chunk.of(MEMORY, places)
            best.add(-share, memory, chunk.setting, places)
        return best.first

    def _share(self, chunk: SpaceRows, places: Array) -> Array:
        """By what share some layouts keep the tightest limit, that of memory among them, as
        (layouts,)."""
        room, used = (chunk.of(name, places) for name in (FITS, MEMORY))
        least: Array = room / (room + used)
        for limit in self.limits:
            value, bound = chunk.of(limit.quantity, places), float(limit.value)
            size = np.maximum(np.abs(value), abs(bound) or np.finfo(float).tiny)
            least = np.minimum(least, limit.slack(value) / size)
        return least

    # -- in which order -----------------------------------------------------------------------

    @cached_property
    def blocks(self) -> list[SpaceRows]:
        """All rows; the place of one is that in all blocks together."""
        return [*self.walk.rows()]

    @cached_property
    def starts(self) -> Array:
        """The places of the first rows of blocks, and how many rows there are, as (blocks + 1,)."""
        return np.cumsum([0, *map(len, self.blocks)])

    def _evaluated(self, places: Array, *groups: tuple[str, ...]) -> Iterator[SpaceRows]:
        """All layouts of some rows (rows,), in increasing order, with groups of quantities."""
        inside = np.split(places, np.searchsorted(places, self.starts[1:-1]))
        for block, start, some in zip(self.blocks, self.starts, inside, strict=False):
            if len(some):
                yield from self.walk.over(block.take(some - start), *groups)

    @cached_property
    def _least(self) -> tuple[Array, Array]:
        """The least score of each row, as (rows,): of all its layouts, and of those within the
        limits that are known before memory; nothing is known of a score that is one of memory."""
        every, within = [], []
        limits = [limit for limit in self.limits if limit.quantity in self.early]
        for chunk in self._evaluated(np.arange(self.starts[-1]), self.early):
            score = chunk.values.get(self.by, np.full(chunk.shape, -np.inf))
            there = chunk.valid & ~np.isnan(score)
            kept = chunk.within(limits, there)
            every.append(np.where(there, score, np.inf).min(axis=(0, 1)))
            within.append(np.where(kept, score, np.inf).min(axis=(0, 1)))
        if not any((least < np.inf).any() for least in every):
            explain_absence(self.walk, self.by)
        return np.concatenate(every), np.concatenate(within)

    def _in_order(
        self, most: Callable[[], float], within: bool
    ) -> Iterator[tuple[SpaceRows, Array]]:
        """Chunks of layouts with the places (layouts,) of those that fit, and keep the limits where
        they have to be ``within`` them: those of rows with the least score first, until none that
        is left has a score of at most so much."""
        least, done, size = self._least[within], 0, FIRST
        order = np.argsort(least, kind="stable")[: np.count_nonzero(least != np.inf)]
        while done < len(order) and least[order[done]] <= most():
            rows = np.sort(order[done : done + size])
            if done:  # none of the fastest is the answer: maybe few others have room
                room = (chunk.within([self.fit]) for chunk in self._evaluated(rows, self.late))
                rows = rows[np.concatenate([fits.any(axis=(0, 1)) for fits in room])]
            for chunk in self._evaluated(rows, self.early, self.late):
                fits = chunk.within([self.fit]) & np.isfinite(chunk.values[self.by])
                yield chunk, np.flatnonzero(chunk.within(self.limits if within else (), fits))
            done, size = done + size, size * MORE
