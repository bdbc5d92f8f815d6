"""The points of a piece as rows of a table: which are kept, and what each column holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from planner.base.display import plain
from planner.questions.batch_rows import chosen
from planner.questions.studies.axes import Axis
from planner.questions.studies.points import (
    FITS,
    LAYOUT_FOUND,
    MEMORY,
    REASON,
    SURE,
    Array,
    bounded,
    is_name,
)
from planner.questions.studies.study import Study

#: What a verdict is, by its code; none where there is no plan.
STATES = (None, "open", "no", "tight", "fits")
#: Whole numbers up to here are exact in the arrays.
EXACT = 2**53
#: What a column holds: text, a truth value, or numbers.
TEXT, FLAG, WHOLE, NUMBER = "text", "flag", "whole", "number"


@dataclass(frozen=True)
class Column:
    """A column: what it is called and what it holds.

    ``coded`` says of rows the place of each one's value, as (dimension, …), among the few that
    there are; None stands for no value. Without it, the numbers of the rows of that name are meant,
    NaN where there is none.
    """

    name: str
    kind: str
    coded: Callable[[Points], tuple[Array, Sequence[Any]]] | None = None


def columns(study: Study) -> tuple[Column, ...]:
    """The columns in their order. A quantity that an axis gives in numbers is there once; else
    the axis says what was given, and the quantity what became of it."""
    found = []
    for dimension, axes in enumerate(study.dimensions):
        for axis in axes:
            twice = axis.name in study.record and not axis.numeric
            name = f"{axis.name} (given)" if twice else axis.name
            whole = all(isinstance(c.label, int) and abs(c.label) < 2**63 for c in axis.choices)
            number = WHOLE if whole else NUMBER
            kind = number if axis.numeric else TEXT
            found.append(Column(name, kind, partial(_of_axis, dimension, axis)))
    if study.searches:
        found.append(Column(LAYOUT_FOUND, TEXT, partial(_of_words, LAYOUT_FOUND)))
    found += [
        Column("fits", FLAG, lambda rows: (rows.fits + 1, [None, False, True])),
        Column("verdict", TEXT, lambda rows: (rows.verdict, STATES)),
    ]
    numeric = {axis.name for axis in study.axes if axis.numeric}
    may_have = bounded(study)
    for name in study.record:
        if is_name(name):
            found.append(Column(name, TEXT, partial(_of_words, name)))
        elif name not in numeric:
            found.append(Column(name, NUMBER))
        if name in may_have:
            found += [Column(f"{name}.{end}", NUMBER) for end in ("low", "high")]
    return (*found, Column(REASON, TEXT, partial(_of_words, REASON)))


def _of_axis(dimension: int, axis: Axis, rows: Points) -> tuple[Array, list[Any]]:
    places = np.ix_(*rows.ranges)[dimension]  # of length 1 along other dimensions
    return places, plain([choice.label for choice in axis.choices])


def _of_words(name: str, rows: Points) -> tuple[Array, list[Any]]:
    texts = rows.words[name]
    distinct, codes = chosen((text or None for text in texts.flat), np.arange(texts.size))
    return codes.reshape(texts.shape), distinct


@dataclass(frozen=True)
class Points:
    """The points of a piece, and which of them the table keeps.

    Arrays are (dimension, …), of length 1 along dimensions that change nothing; they broadcast to
    the shape of the piece.
    """

    study: Study
    ranges: Sequence[range]
    numbers: dict[str, Array]  # of quantities and ends of intervals: float64, NaN where absent
    words: dict[str, Array]  # of quantities that are names, the layout found, the reason: objects
    valid: Array  # False where the values do not go together

    @cached_property
    def holds(self) -> Array:
        """Which points are valid, and within the limits of the study, as (dimension, …)."""
        holds = self.valid
        for limit in self.study.where:
            with np.errstate(invalid="ignore"):
                holds = holds & limit.holds(self.numbers[limit.quantity])
        return holds

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.ranges))

    @cached_property
    def kept(self) -> Array:
        """Which points the table keeps, as (dimension, …) in full: those within the limits, and
        with their reason those that are no plan, unless the study drops them."""
        kept = self.holds | ~self.valid if self.study.keep_invalid else self.holds
        return np.broadcast_to(kept, self.shape)

    def __len__(self) -> int:
        return self.count(self.kept)

    def laid(self, array: Array) -> Array:
        """What is said of each point, as (dimension, …), as (rows,) of the table."""
        found: Array = np.broadcast_to(array, self.shape)[self.kept]
        return found

    def count(self, true: Array) -> int:
        """How many points of the piece something, as (dimension, …), is true of."""
        return int(np.count_nonzero(np.broadcast_to(true, self.shape)))

    @cached_property
    def of_study(self) -> Array:
        """The numbers of the points in the study, as (dimension, …) in full."""
        return numbers_of(self.study, self.ranges)

    @cached_property
    def fits(self) -> Array:
        """1 where it fits, 0 where it does not, -1 where that is unknown, as (dimension, …)."""
        headroom = self.numbers[FITS]
        return np.where(np.isnan(headroom), -1, headroom >= 0).astype(np.int8)

    @cached_property
    def verdict(self) -> Array:
        """The places in ``STATES``, as (dimension, …); ``Result.verdict`` says it of a plan."""
        safe = self.numbers[SURE] >= 0
        least = self.numbers[f"{MEMORY}.low"]  # a model of a size alone has none
        known = np.where(np.isnan(least) | (self.fits < 0), 1, np.where(safe, 4, 3))
        return np.where(self.valid, np.where(self.fits == 0, 2, known), 0)

    @cached_property
    def whole(self) -> dict[str, bool]:
        """Of each recorded number whether its values in the table are whole, and exact."""
        found = {}
        for name in self.study.record:
            if not is_name(name):
                numbers = self.laid(self.numbers[name])
                found[name] = bool(is_whole(numbers[~np.isnan(numbers)]).all())
        return found


def numbers_of(study: Study, ranges: Sequence[range]) -> Array:
    """The numbers in a study of the points at some places along each dimension, (dimension, …)."""
    return np.asarray(np.ravel_multi_index(np.ix_(*ranges), study.shape))


def is_whole(numbers: Array) -> Array:
    """Which numbers, of any shape, are whole and exact as such."""
    found: Array = (np.rint(numbers) == numbers) & (np.abs(numbers) <= EXACT)
    return found
