"""The one best layout of a plan, found without asking every layout how much memory it needs.

Time is evaluated sooner than memory, and few layouts are faster than the fastest that fits. So rows
of layouts are put in the order of the least that one of them comes to, and are asked for memory in
this order until none that is left can be better. Where nothing fits, all of them are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.plans.document import Plan
from planner.questions.batch import BatchRows
from planner.questions.constraints import Limit
from planner.questions.search.engine import (
    FITS,
    MEMORY,
    MOST,
    STEP,
    Chunk,
    Layout,
    Walk,
    explain_absence,
    layout_of,
    of_memory,
    wanted,
)
from planner.questions.search.layouts import SpaceRows
from planner.questions.search.selection import Item, Plain, rounded

Array = NDArray[Any]
Options = Mapping[str, Sequence[Any]]
Groups = tuple[tuple[str, ...], ...]
#: A layout and what it is compared by: score and memory, rounded, and its place in the search.
Ranked = tuple[tuple[float, float, int], Item]
#: By what is predicted.
PREDICTED = Limit(FITS, ">=", 0)
#: Rows that are asked first, and how many times as many each time after.
FIRST, MORE = 512, 6
#: Where memory leaves a smaller share of many rows, only these are asked for the rest.
FEW = 0.25
#: Where a larger share of all rows is asked, what they have in common is prepared for all.
SOME = 0.25
#: As many at a time at most, for arrays grow with them.
MOST_ROWS = 65_536
#: What most good layouts have, and most of those that leave room: rows to begin with where a space
#: is searched often.
FEWER: Options = {"parallelism.replicate": (1,), "training.micro_batch": (1, 2)}
ROOMIER: Options = {**FEWER, "training.micro_batch": (1,)}
#: Scores that differ by a smaller share may be equal but for rounding.
NEAR = 1e-9


@dataclass(frozen=True, eq=False)
class Asked:
    """Layouts that fit, with every quantity; arrays are (layouts,)."""

    values: Mapping[str, Array]
    order: Array  # the place of each in the whole search
    chunk: Chunk
    places: Array  # in the chunk

    def first(self, score: Array, kept: Array) -> Ranked | None:
        """Of those that are kept the one with the smallest score; of equal ones, the one with less
        memory, then the first. ``score`` is (layouts,), ``kept`` are (kept,) places in it."""
        if not len(kept):
            return None
        memory = self.values[MEMORY]
        near = kept[score[kept] <= score[kept].min() + NEAR * abs(score[kept].min())]
        keys = (self.order[near], rounded(memory[near]), rounded(score[near]))
        at = near[np.lexsort(keys)[0]]
        key = (float(rounded(score[at])), float(rounded(memory[at])), int(self.order[at]))
        setting = self.chunk.setting(int(self.places[at]))
        return key, (float(score[at]), float(memory[at]), setting)


class Contest:
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
        for number, (_, found) in enumerate(self.walk.spaces):
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
        self.nearest: Ranked | None = None  # where nothing fits, what lacks least, of those asked
        self._whole: dict[int, BatchRows] = {}  # all rows of spaces of which many were asked
        self.hopeless = np.zeros(len(self.space), dtype=bool)  # rows of which nothing fits

    @cached_property
    def all(self) -> Field:
        """Every layout."""
        return Field(self, np.arange(len(self.space)))

    @cached_property
    def wider(self) -> Contest | None:
        """What is asked where no layout of a narrowed space will do (``Walk.wider``): that nothing
        fits is proven so, but not what another limit forbids."""
        walk = self.walk.wider() if of_memory(self.limits) else None
        return (
            None if walk is None else Contest(self.plan, self.by, self.limits, None, walk, self.fit)
        )

    @cached_property
    def few(self) -> Field:
        """The layouts of ``FEWER``."""
        return self._having(FEWER)

    @cached_property
    def roomy(self) -> Field:
        """The layouts of ``ROOMIER``."""
        return self._having(ROOMIER)

    def _having(self, options: Options) -> Field:
        free = {key: said for key, said in options.items() if key not in self.walk.given}
        kept = np.concatenate([rows.having(free) for rows in self.rows])
        return Field(self, np.flatnonzero(kept))

    def over(self, places: Array, *groups: tuple[str, ...]) -> Iterator[tuple[Array, Chunk]]:
        """Some rows with groups of quantities, those of a space together: places (rows,), and a
        chunk of these rows."""
        for number in np.unique(self.space[places]).tolist():
            inside = places[self.space[places] == number]
            for start in range(0, len(inside), MOST_ROWS):
                block = inside[start : start + MOST_ROWS]
                for chunk in self._chunks(number, block - self.starts[number], groups):
                    length = chunk.valid.shape[2]
                    yield block[chunk.start : chunk.start + length], chunk

    def _chunks(self, number: int, places: Array, groups: Groups) -> Iterator[Chunk]:
        """Some rows of a space, by their places in it. Where many are asked, all are prepared, so
        that for further ones nothing is left to prepare."""
        every = self.rows[number]
        rows = every.take(places)
        many = len(every) <= MOST_ROWS and len(places) > SOME * len(every)
        if many and number not in self._whole:
            self._whole[number] = self.walk.made(number, every)
        whole = self._whole.get(number)
        prepared = [many or (whole is not None and group in whole.programs) for group in groups]
        made = whole if all(prepared) else self.walk.made(number, rows)
        assert made is not None
        for part in made.batch.stretches(len(rows)):
            values: dict[str, Array] = {}
            for group, ready in zip(groups, prepared, strict=True):
                if ready and whole is not None:
                    values |= whole.values(group, places[part])
                else:
                    values |= made.values(group, part)
            yield self.walk.chunk(number, rows, part, values)

    def fits(self, places: Array, chunk: Chunk) -> Array:
        """Which layouts of the rows at ``places`` (rows,) fit, as (zero, recompute, rows); rows of
        which none does are not asked again."""
        fits: Array = chunk.valid & self.fit.of_arrays.holds(chunk.values[self.fit.quantity])
        self.hopeless[places] = ~fits.any(axis=(0, 1))
        return fits

    def lack(self, places: Array, chunk: Chunk) -> None:
        """Note of layouts of which none fits, of rows at ``places`` (rows,), the one that lacks
        least memory."""
        room = np.where(
            chunk.valid, self.fit.of_arrays.slack(chunk.values[self.fit.quantity]), -np.inf
        )
        found = np.array([np.argmax(room)])
        short, memory = -room.ravel()[found], chunk.values[MEMORY].ravel()[found]
        if np.isfinite(short[0]):
            asked = Asked({MEMORY: memory}, self.ordered(places, chunk, found), chunk, found)
            self.nearest = _better(self.nearest, asked.first(short, np.arange(1)))

    def ordered(self, places: Array, chunk: Chunk, found: Array) -> Array:
        """Where layouts of a chunk, (layouts,) places in its flattened arrays, come in the whole
        search; ``places`` are those of its rows, (rows,)."""
        length = chunk.valid.shape[2]
        rows = places[found % length]
        order: Array = self.order[rows] + found // length * self.stride[rows]
        return order


class Field:
    """Some rows of a contest."""

    def __init__(self, contest: Contest, places: Array) -> None:
        self.contest, self.places = contest, places
        self.whole = len(places) == len(contest.space)
        self.limits = [limit for limit in contest.limits if limit.quantity in contest.early]
        self.ranked = contest.by in contest.early

    @cached_property
    def ranks(self) -> tuple[Array, Array]:
        """The least score of each row, as (rows,): of all its layouts, and of those within the
        limits that are known before memory."""
        least, within = [np.empty(0)], [np.empty(0)]
        for _, chunk in self.contest.over(self.places, self.contest.early):
            shape = chunk.valid.shape
            score = chunk.values[self.contest.by] if self.ranked else np.zeros(shape)
            least.append(_least(score, chunk.valid))
            kept = chunk.valid
            for limit in self.limits:
                kept = kept & limit.of_arrays.holds(chunk.values[limit.quantity])
            within.append(_least(score, kept) if self.limits else least[-1])
        return np.concatenate(least), np.concatenate(within)

    def asked(self, within: bool = True, ranked: bool = True) -> Iterator[tuple[float, Asked]]:
        """Layouts that fit with every quantity, those of rows with the least score first, and each
        time the least that is left; all at once where nothing is ``ranked``, or where nothing fits
        among the first."""
        contest = self.contest
        if contest.hopeless.all():
            return
        every, kept = self.ranks
        if self.whole and not np.isfinite(every).any():
            explain_absence(contest.walk, contest.by)
        least = kept if within else every
        rows = np.flatnonzero(np.isfinite(least) & ~contest.hopeless[self.places])
        rows = rows[np.argsort(least[rows], kind="stable")]
        done, size = 0, FIRST if ranked and self.ranked else len(rows)
        while done < len(rows):
            batch = rows[done : done + size]
            done, size = done + size, size * MORE
            left = float(least[rows[done]]) if done < len(rows) else np.inf
            found = list(self._evaluated(self.places[batch], within))
            if not any(len(asked.order) for asked in found):
                size = len(rows)
            for number, asked in enumerate(found, start=1):
                yield left if number == len(found) else -np.inf, asked

    def _slim(self, within: bool) -> Iterator[tuple[float, Asked]]:
        """As ``asked``, of the rows that have room."""
        rows = self.places[~self.contest.hopeless[self.places]]
        room = [part[fits] for part, fits in self._room(rows, within)]
        for asked in self._evaluated(np.concatenate([rows[:0], *room]), within):
            yield -np.inf, asked

    def _evaluated(self, places: Array, within: bool) -> Iterator[Asked]:
        """Some rows; of many, first which have room at all."""
        contest = self.contest
        if len(places) > FIRST and contest.early:
            some = np.concatenate([part[fits] for part, fits in self._room(places, within)])
            if len(some) < FEW * len(places):
                places = some
        for part, chunk in contest.over(places, contest.early, contest.late):
            fits = contest.fits(part, chunk) & np.isfinite(chunk.values[contest.by])
            found = np.flatnonzero(fits)
            values = {name: array.ravel()[found] for name, array in chunk.values.items()}
            yield Asked(values, contest.ordered(part, chunk, found), chunk, found)

    def _room(self, places: Array, within: bool) -> Iterator[tuple[Array, Array]]:
        """Rows, and of which of them some layout fits and keeps the limits on memory."""
        contest = self.contest
        for part, chunk in contest.over(places, contest.late):
            fits = contest.fits(part, chunk)
            for limit in contest.limits if within else ():
                if limit.quantity in contest.late:
                    fits = fits & limit.of_arrays.holds(chunk.values[limit.quantity])
            yield part, np.asarray(fits.any(axis=(0, 1)))

    # -- what is looked for -------------------------------------------------------------------

    def nearest(self) -> Item | None:
        """Of layouts that were asked for room and of which none fits, the one that lacks least."""
        found = self.contest.nearest
        if self.whole and "wider" in self.contest.__dict__ and self.contest.wider is not None:
            found = _better(found, self.contest.wider.nearest)
        return None if found is None else found[1]

    def first(self, within: bool = True, scarce: bool = False) -> Item | None:
        """The layout with the smallest score that fits, and that keeps the limits. Where few fit
        (``scarce``) all are asked for memory first."""
        best: Ranked | None = None
        for left, asked in self._in_order(within, scarce):
            best = _better(
                best, asked.first(asked.values[self.contest.by], self._kept(asked, within))
            )
            if best is not None and best[1][0] < left - NEAR * abs(left):
                break
        if best is None and self.whole and self.contest.wider is not None:
            return self.contest.wider.all.first(within, scarce)
        return None if best is None else best[1]

    def plainest(self, within: bool = True, scarce: bool = False) -> Item | None:
        """As ``first``, but of all layouts nearly as good the plainest, as ``search`` and
        ``parallelism: auto`` take it; its second number is how plain it is."""
        plain = Plain()
        for left, asked in self._in_order(within, scarce):
            kept = self._kept(asked, within)
            score = asked.values[self.contest.by][kept]
            plain.add(score, asked.chunk.plainness, asked.chunk.setting, asked.places[kept])
            if plain.most < left - NEAR * abs(left):
                break
        if plain.first is None and self.whole and self.contest.wider is not None:
            return self.contest.wider.all.plainest(within, scarce)
        return plain.first

    def _in_order(self, within: bool, scarce: bool) -> Iterator[tuple[float, Asked]]:
        return self._slim(within) if scarce else self.asked(within)

    def roomiest(self) -> Item | None:
        """Of the layouts that keep the limits the one that stays furthest from all of them."""
        best: Ranked | None = None
        # Where memory alone is limited, time is not asked for.
        found = (
            (asked for _, asked in self.asked(ranked=False)) if self.limits else self._by_memory()
        )
        for asked in found:
            best = _better(best, asked.first(-self._share(asked), self._kept(asked)))
        if best is None and self.whole and self.contest.wider is not None:
            return self.contest.wider.all.roomiest()
        return None if best is None else best[1]

    def _by_memory(self) -> Iterator[Asked]:
        contest = self.contest
        rows = self.places[~contest.hopeless[self.places]]
        for part, chunk in contest.over(rows, contest.late):
            found = np.flatnonzero(contest.fits(part, chunk))
            if not len(found):
                contest.lack(part, chunk)
            values = {name: array.ravel()[found] for name, array in chunk.values.items()}
            yield Asked(values, contest.ordered(part, chunk, found), chunk, found)

    def _kept(self, asked: Asked, within: bool = True) -> Array:
        """Which of some layouts keep the limits."""
        kept = np.ones(len(asked.order), dtype=bool)
        for limit in self.contest.limits if within else ():
            kept &= limit.of_arrays.holds(asked.values[limit.quantity])
        return np.flatnonzero(kept)

    def _share(self, asked: Asked) -> Array:
        """By what share the tightest limit is kept, that of memory among them."""
        room, used = asked.values[FITS], asked.values[MEMORY]
        least: Array = room / (room + used)
        for limit in self.contest.limits:
            value, bound = asked.values[limit.quantity], float(limit.value)
            size = np.maximum(np.abs(value), abs(bound))
            least = np.minimum(least, limit.of_arrays.slack(value) / np.where(size > 0, size, 1))
        return least


def _better(one: Ranked | None, other: Ranked | None) -> Ranked | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda ranked: ranked[0])


def _least(score: Array, kept: Array) -> Array:
    least: Array = np.where(kept & np.isfinite(score), score, np.inf).min(axis=(0, 1))
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
    contest = Contest(plan, by, limits, {key: (value,) for key, value in (fixed or {}).items()})
    found = contest.all.plainest()
    return None if found is None else layout_of(plan, found, (by,), contest.wanted)
