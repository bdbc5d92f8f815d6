"""The one best layout of a plan, found without asking every layout how much memory it needs.

Time is evaluated sooner than memory, and few layouts are faster than the fastest that fits. So rows
of layouts are put in the order of the least that one of them comes to, and are asked for memory in
this order until none that is left can be better. Where nothing fits, all of them are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    Layout,
    Walk,
    explain_absence,
    layout_of,
    of_memory,
    wanted,
)
from planner.questions.search.layouts import Chunk, SpaceRows
from planner.questions.search.selection import Best, Item, Plain

Array = NDArray[Any]
Options = Mapping[str, Sequence[Any]]
#: Rows that are asked first, and how many times as many each time after.
FIRST, MORE = 512, 6
#: Where memory leaves a smaller share of many rows, only these are asked for the rest.
FEW = 0.25
#: As many at a time at most, for arrays grow with them.
MOST_ROWS = 65_536
#: What most good layouts have, and most of those that leave room: rows to begin with where a space
#: is searched often.
FEWER: Options = {"parallelism.replicate": (1,), "training.micro_batch": (1, 2)}
ROOMIER: Options = {**FEWER, "training.micro_batch": (1,)}
#: Scores that differ by a smaller share may be equal but for rounding.
NEAR = 1e-9


class BoundedSearch:
    """The layouts of a plan, to be ranked by a quantity that is made small.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        by: the quantity to make small.
        limits: further limits that a layout has to keep.
        options: values that keys may have (``Walk``).
        walk: the layouts, in the place of all that have the options.
        fits: when a layout fits; by what is predicted.

    Raises:
        PlanError: no valid layout, an unknown quantity, or one that no layout has.
    """

    def __init__(
        self,
        plan: Plan,
        by: str = STEP,
        limits: Sequence[Limit] = (),
        options: Options | None = None,
        walk: Walk | None = None,
        fits: Limit = PREDICTED,
    ) -> None:
        self.plan, self.by, self.limits, self.fit = plan, by, tuple(limits), fits
        self.wanted = wanted(by, (fits, *limits))
        self.late = tuple(name for name in self.wanted if name.startswith("memory."))
        self.early = tuple(name for name in self.wanted if name not in self.late)
        self.walk = walk or Walk(plan, self.early, options or {}, most=MOST)
        self.rows: list[SpaceRows] = []  # of each space
        space, order, stride = [], [], []
        done = 0
        for number, found in enumerate(self.walk.spaces):
            blocks = list(found.blocks())
            self.rows.append(SpaceRows.joined(blocks))
            for block in blocks:
                first, lengths = block.chunked()
                order.append(done + first)
                stride.append(lengths)
                space.append(np.full(len(block), number))
                done += len(block) * len(found.zero) * len(found.recompute)
        self.space, self.order, self.stride = map(np.concatenate, (space, order, stride))
        self.starts = np.searchsorted(self.space, np.arange(len(self.rows)))
        #: Of the layouts asked for room in chunks of which none fits, the one that lacks least.
        self.nearest = Best(1)
        self.excluded = np.zeros(len(self.space), dtype=bool)  # rows of which nothing fits

    def ask(
        self, question: Callable[[Candidates], Item | None], options: Options | None = None
    ) -> Item | None:
        """The answer of all layouts, or of those ``having`` some options. Where no layout of a
        narrowed space will do, others are asked (``Walk.wider``): that nothing fits is proven so,
        but not what another limit forbids."""
        if options is not None:
            return question(self.having(options))
        found = question(self.all)
        return question(self.wider.all) if found is None and self.wider is not None else found

    def having(self, options: Options) -> Candidates:
        """The layouts that have one of some values of each of some keys, but of keys that were not
        free."""
        free = {key: values for key, values in options.items() if key not in self.walk.given}
        kept = np.concatenate([rows.having(free) for rows in self.rows])
        return Candidates(self, np.flatnonzero(kept))

    @cached_property
    def all(self) -> Candidates:
        """Every layout."""
        return Candidates(self, np.arange(len(self.space)))

    @cached_property
    def wider(self) -> BoundedSearch | None:
        """The search of what a narrowed space leaves out too; None where that decides nothing."""
        walk = self.walk.wider() if of_memory(self.limits) else None
        if walk is None:
            return None
        found = BoundedSearch(self.plan, self.by, self.limits, None, walk, self.fit)
        found.nearest = self.nearest
        return found

    def evaluated(self, places: Array, *groups: tuple[str, ...]) -> Iterator[Evaluated]:
        """All layouts of some rows (rows,) with groups of quantities, those of a space together."""
        for number in np.unique(self.space[places]).tolist():
            inside = places[self.space[places] == number]
            for start in range(0, len(inside), MOST_ROWS):
                rows = inside[start : start + MOST_ROWS]
                some = self.rows[number].take(rows - self.starts[number])
                for part, chunk in self.walk.over(some, *groups):
                    yield Evaluated(self, rows[part], chunk, chunk.valid)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Some layouts of a chunk, with quantities."""

    search: BoundedSearch
    rows: Array  # (rows of the chunk,), their places in the search
    chunk: Chunk
    kept: Array  # which of the chunk's layouts, as (zero, recompute, rows)

    @cached_property
    def places(self) -> Array:
        """The layouts in the chunk's flattened arrays, as (layouts,)."""
        return np.flatnonzero(self.kept)

    def __getitem__(self, quantity: str) -> Array:
        """A quantity, as (layouts,)."""
        found: Array = self.chunk.values[quantity].ravel()[self.places]
        return found

    @property
    def of_rows(self) -> Array:
        """Of which rows there are layouts, as (rows of the chunk,)."""
        return np.asarray(self.kept.any(axis=(0, 1)))

    def within(self, limits: Iterable[Limit]) -> Evaluated:
        """Those that keep some limits."""
        kept = self.kept
        for limit in limits:
            kept = kept & limit.holds(self.chunk.values[limit.quantity])
        return replace(self, kept=kept)

    def fitting(self) -> Evaluated:
        """Those that fit, and have what is made small; rows of which none fits are not asked
        again."""
        search, found = self.search, self.within([self.search.fit])
        search.excluded[self.rows] = ~found.of_rows
        score = self.chunk.values.get(search.by)
        return found if score is None else replace(found, kept=found.kept & np.isfinite(score))

    def give(self, best: Best, score: Array) -> None:
        """The layouts to what keeps the best of them, with a score (layouts,); of equally good ones
        it keeps the one that comes first in the whole search."""
        row = self.places % len(self.rows)
        order = self.search.order[self.rows[row]]
        order = order + self.places // len(self.rows) * self.search.stride[self.rows[row]]
        best.add(score, self[MEMORY], self.chunk.setting, self.places, order)


class Candidates:
    """Some rows of a search, by their places (rows,)."""

    def __init__(self, search: BoundedSearch, places: Array) -> None:
        self.search, self.places = search, places
        self.limits = [limit for limit in search.limits if limit.quantity in search.early]
        self.ranked = search.by in search.early

    # -- what is looked for -------------------------------------------------------------------

    def first(self, within: bool = True, scarce: bool = False) -> Item | None:
        """The layout with the smallest score that fits, and that keeps the limits. Where few fit
        (``scarce``) all are asked for memory first."""
        best = Best(1)
        for least, found in self._in_order(within, scarce):
            found.give(best, found[self.search.by])
            if best.most < least - NEAR * abs(least):
                break
        return best.first

    def plainest(self, within: bool = True, scarce: bool = False) -> Item | None:
        """As ``first``, but of all layouts nearly as good the plainest, as ``search`` and
        ``parallelism: auto`` take it; its second number is how plain it is."""
        plain = Plain()
        for least, found in self._in_order(within, scarce):
            chunk = found.chunk
            plain.add(found[self.search.by], chunk.plainness, chunk.setting, found.places)
            if plain.most < least - NEAR * abs(least):
                break
        return plain.first

    def roomiest(self) -> Item | None:
        """Of the layouts that keep the limits the one that stays furthest from all of them."""
        best, search = Best(1), self.search
        # Where memory alone is limited, time is not asked for.
        groups = (search.early, search.late) if self.limits else (search.late,)
        rows = self._by_score(True)[0] if self.limits else self._left
        for found in self._fitting(rows, True, *groups):
            if not self.limits and not found.kept.any():
                every = replace(found, kept=found.chunk.valid)
                every.give(search.nearest, -search.fit.slack(every[search.fit.quantity]))
            kept = found.within(search.limits)
            kept.give(best, -_share(kept))
        return best.first

    # -- in which order -----------------------------------------------------------------------

    @property
    def _left(self) -> Array:
        """The rows of which something may fit."""
        return self.places[~self.search.excluded[self.places]]

    @cached_property
    def _least(self) -> tuple[Array, Array]:
        """The least score of each row, as (rows,): of all its layouts, and of those within the
        limits that are known before memory."""
        least, within = [np.empty(0)], [np.empty(0)]
        for found in self.search.evaluated(self.places, self.search.early):
            for scores, some in ((least, found), (within, found.within(self.limits))):
                score = found.chunk.values[self.search.by] if self.ranked else np.zeros(1)
                lowest = np.where(some.kept & np.isfinite(score), score, np.inf)
                scores.append(lowest.min(axis=(0, 1)))
        return np.concatenate(least), np.concatenate(within)

    def _by_score(self, within: bool) -> tuple[Array, Array]:
        """The rows of which something may fit, and keep the limits, in the order of their least
        score; and these, both (rows,)."""
        every, kept = self._least
        search = self.search
        if len(self.places) == len(search.space) and not np.isfinite(every).any():
            explain_absence(search.walk, search.by)
        least = kept if within else every
        rows = np.flatnonzero(np.isfinite(least) & ~search.excluded[self.places])
        rows = rows[np.argsort(least[rows], kind="stable")]
        return self.places[rows], least[rows]

    def _in_order(self, within: bool, scarce: bool) -> Iterator[tuple[float, Evaluated]]:
        """Layouts that fit, and keep the limits, with every quantity: those of rows with the least
        score first, and each time the least that is left; all at once where few fit
        (``scarce``), where scores are not known before memory, or where nothing fits among the
        first."""
        search = self.search
        groups, limits = (search.early, search.late), search.limits if within else ()
        if search.excluded.all():
            return
        if scarce:
            rows = self._with_room(self._left, within)
            least = np.full(len(rows), -np.inf)
        else:
            rows, least = self._by_score(within)
        done, size = 0, FIRST if self.ranked and not scarce else len(rows)
        while done < len(rows):
            batch = rows[done : done + size]
            done, size = done + size, size * MORE
            left = float(least[done]) if done < len(rows) else np.inf
            found = list(self._fitting(batch, within, *groups))
            if not any(some.kept.any() for some in found):
                size = len(rows)
            for number, some in enumerate(found, start=1):
                yield left if number == len(found) else -np.inf, some.within(limits)

    def _fitting(self, rows: Array, within: bool, *groups: tuple[str, ...]) -> Iterator[Evaluated]:
        """The layouts of some rows that fit; of many, first those rows that have room at all."""
        if len(rows) > FIRST and self.search.early in groups:
            some = self._with_room(rows, within)
            if len(some) < FEW * len(rows):
                rows = some
        for found in self.search.evaluated(rows, *groups):
            yield found.fitting()

    def _with_room(self, rows: Array, within: bool) -> Array:
        """Of some rows those of which some layout fits and keeps the limits on memory."""
        search = self.search
        limits = [limit for limit in search.limits if within and limit.quantity in search.late]
        kept = [rows[:0]]
        for found in search.evaluated(rows, search.late):
            kept.append(found.rows[found.fitting().within(limits).of_rows])
        return np.concatenate(kept)


def _share(found: Evaluated) -> Array:
    """By what share layouts keep the tightest limit, that of memory among them, as (layouts,)."""
    room, used = found[FITS], found[MEMORY]
    least: Array = room / (room + used)
    for limit in found.search.limits:
        value, bound = found[limit.quantity], float(limit.value)
        size = np.maximum(np.abs(value), abs(bound))
        least = np.minimum(least, limit.slack(value) / np.where(size > 0, size, 1))
    return least


def best(
    plan: Plan,
    by: str = STEP,
    limits: Sequence[Limit] = (),
    fixed: Mapping[str, Any] | None = None,
) -> Layout | None:
    """The plainest of the best layouts of a plan that fit into memory and keep some limits
    (``selection.Plain``).

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        by: the quantity to make small.
        limits: further limits that the layout has to keep.
        fixed: keys of the layout that keep a value.

    A space of more than ``MOST`` layouts is narrowed (``NARROWER``), so that an answer takes a
    second at most; where memory is the only limit and nothing is left that fits, all but those with
    replicas are asked.

    Returns:
        The layout with exact values of ``by``, ``memory.headroom``, ``memory.process`` and of each
        limit's quantity; ``layout.of(plan)`` is the plan. None where no layout fits and keeps the
        limits.

    Raises:
        PlanError: no valid layout, an unknown quantity, or one that no layout has.
    """
    options = {key: (value,) for key, value in (fixed or {}).items()}
    search = BoundedSearch(plan, by, limits, options)
    found = search.ask(Candidates.plainest)
    return found and layout_of(found, by).exactly(plan, search.wanted)
