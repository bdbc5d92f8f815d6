"""Find the one best layout of a plan without computing the memory of every layout.

Time is cheaper to evaluate than memory, and few layouts are faster than the fastest that fits. So
rows of layouts are sorted by their smallest score, and memory is evaluated in this order until no
remaining row can be better. If nothing fits, all rows are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from planner.engine.arrays.table import Array
from planner.plans.document import Plan
from planner.questions.constraints import PREDICTED, Limit
from planner.questions.search.engine import (
    HEADROOM,
    MEMORY,
    MOST,
    STEP,
    Walk,
    explain_absence,
    is_memory_only,
    list_criteria,
)
from planner.questions.search.layouts import SpaceRows
from planner.questions.search.selection import Best, Item, Plain

Options = Mapping[str, Sequence[Any]]
#: Rows to evaluate first, and the factor by which each further batch grows.
FIRST, MORE = 512, 6
#: Values of most good layouts, and of most with much free memory: where to begin if a space is
#: searched often.
FEWER: Options = {"parallelism.replicate": (1,), "training.micro_batch": (1, 2)}
ROOMIER: Options = {**FEWER, "training.micro_batch": (1,)}


class BoundedSearch:
    """The layouts of a plan, ranked by a quantity to minimise.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        by: the quantity to minimise.
        limits: further limits that a layout must satisfy.
        options: values that keys may have, by key.
        fits: the limit with which a layout fits; in any case it fits as predicted.
        walk: the layouts, instead of all that have the options.

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
        self.plan, self.by, self.limits = plan, by, tuple(limits)
        self.fit = tuple(dict.fromkeys((fits, PREDICTED)))
        names = list_criteria(by, (*self.fit, *limits))
        self.late = tuple(name for name in names if name.startswith("memory."))
        self.early = tuple(name for name in names if name not in self.late)
        self.walk = walk or Walk(plan, self.early, options or {}, most=MOST)
        #: The layout that lacks least memory, of chunks in which none fits.
        self.nearest = Best()

    def run_question(
        self, question: Callable[[BoundedSearch], Item | None], options: Options | None = None
    ) -> Item | None:
        """Run a question on all layouts, or on a part of them where that is enough.

        If no layout of a narrowed space satisfies the question and only memory is limited, it is
        run on those left out: this proves that nothing fits.

        Args:
            question: returns a layout of a search, or None.
            options: values of keys to which the layouts are narrowed, except keys that were given;
                None for all layouts.

        Returns:
            What the question returns.
        """
        found, walk = None, None
        if options is not None:
            walk = self.walk.narrow_layouts(options)
        elif (found := question(self)) is None and is_memory_only(self.limits):
            walk = self.walk.widen_layouts()
        if walk is None:
            return found
        others = BoundedSearch(self.plan, self.by, self.limits, None, self.fit[0], walk)
        others.nearest = self.nearest
        return question(others)

    def find_best(self, within: bool = True) -> Item | None:
        """Find the layout with the smallest score that fits and satisfies the limits."""
        best = Best()
        for chunk, places in self._yield_by_score(lambda: best.most, within):
            score, memory = (chunk.of(name, places) for name in (self.by, MEMORY))
            best.add(score, memory, chunk.build_setting, places)
        return best.first

    def find_simplest(self) -> Item | None:
        """Find the simplest layout with nearly the best score, as ``search`` and ``parallelism:
        auto`` take it; its second number is its simplicity score."""
        plain = Plain(self.by)
        for chunk, places in self._yield_by_score(lambda: plain.most, True):
            plain.add_layouts(chunk.of(self.by, places), chunk, places)
        return plain.first

    def find_max_slack(self) -> Item | None:
        """Find the layout farthest inside all limits, of those that satisfy them."""
        best = Best()
        memory_alone = all(limit.quantity in self.late for limit in self.limits)
        if memory_alone:  # time is not evaluated
            chunks = self._evaluate_rows(np.arange(self.starts[-1]), self.late)
        else:
            rows = np.flatnonzero(np.isfinite(self._least[1]))
            chunks = self._evaluate_rows(rows, self.early, self.late)
        for chunk in chunks:
            fits = chunk.within(self.fit)
            if memory_alone and not fits.any():
                every = np.flatnonzero(chunk.valid)
                slack = [one.compute_slack(chunk.of(one.quantity, every)) for one in self.fit]
                lacking = -np.min(slack, axis=0)
                self.nearest.add(lacking, chunk.of(MEMORY, every), chunk.build_setting, every)
            places = np.flatnonzero(chunk.within(self.limits, fits))
            share, memory = self._compute_share(chunk, places), chunk.of(MEMORY, places)
            best.add(-share, memory, chunk.build_setting, places)
        return best.first

    def _compute_share(self, chunk: SpaceRows, places: Array) -> Array:
        """Return the share of the tightest limit, memory included, that is left, as (layouts,)."""
        room, used = (chunk.of(name, places) for name in (HEADROOM, MEMORY))
        least: Array = room / (room + used)
        for limit in self.limits:
            value, bound = chunk.of(limit.quantity, places), float(limit.value)
            size = np.maximum(np.abs(value), abs(bound) or np.finfo(float).tiny)
            least = np.minimum(least, limit.compute_slack(value) / size)
        return least

    @cached_property
    def blocks(self) -> list[SpaceRows]:
        """All rows; the index of a row counts over all blocks."""
        return [*self.walk.yield_rows()]

    @cached_property
    def starts(self) -> Array:
        """Index of the first row of each block, and the number of rows, as (blocks + 1,)."""
        return np.cumsum([0, *map(len, self.blocks)])

    def _evaluate_rows(self, places: Array, *groups: tuple[str, ...]) -> Iterator[SpaceRows]:
        """Yield all layouts of some rows (rows,), in order, with groups of quantities."""
        inside = np.split(places, np.searchsorted(places, self.starts[1:-1]))
        for block, start, some in zip(self.blocks, self.starts, inside, strict=False):
            if len(some):
                yield from self.walk.evaluate_rows(block.take(some - start), *groups)

    @cached_property
    def _least(self) -> tuple[Array, Array]:
        """Smallest score of each row, as (rows,): of all its layouts, and of those within the
        limits that need no memory; -inf if the score is a quantity of memory."""
        every, within = [], []
        limits = [limit for limit in self.limits if limit.quantity in self.early]
        for chunk in self._evaluate_rows(np.arange(self.starts[-1]), self.early):
            score = chunk.values.get(self.by, np.full(chunk.shape, -np.inf))
            there = chunk.valid & ~np.isnan(score)
            kept = chunk.within(limits, there)
            every.append(np.where(there, score, np.inf).min(axis=(0, 1)))
            within.append(np.where(kept, score, np.inf).min(axis=(0, 1)))
        if not any((least < np.inf).any() for least in every):
            explain_absence(self.walk, self.by)
        return np.concatenate(every), np.concatenate(within)

    def _yield_by_score(
        self, most: Callable[[], float], within: bool
    ) -> Iterator[tuple[SpaceRows, Array]]:
        """Yield chunks of layouts, rows with the smallest score first.

        Args:
            most: the largest score that can still be the answer; where no remaining row reaches it,
                the search ends.
            within: whether layouts must satisfy the limits, and not only fit.

        Yields:
            A chunk, and the indices (layouts,) of those of its layouts that fit and, if required,
                satisfy the limits.
        """
        least, done, size = self._least[within], 0, FIRST
        order = np.argsort(least, kind="stable")[: np.count_nonzero(least != np.inf)]
        while done < len(order) and least[order[done]] <= most():
            rows = np.sort(order[done : done + size])
            if done:  # none of the fastest is the answer: perhaps few others fit
                room = (chunk.within(self.fit) for chunk in self._evaluate_rows(rows, self.late))
                rows = rows[np.concatenate([fits.any(axis=(0, 1)) for fits in room])]
            for chunk in self._evaluate_rows(rows, self.early, self.late):
                fits = chunk.within(self.fit) & np.isfinite(chunk.values[self.by])
                yield chunk, np.flatnonzero(chunk.within(self.limits if within else (), fits))
            done, size = done + size, size * MORE
