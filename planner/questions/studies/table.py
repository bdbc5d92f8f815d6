"""The points of a piece as rows of a table: which are kept, and what each column holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from planner.questions.studies import bounds
from planner.questions.studies.grid import narrowed
from planner.questions.studies.points import FITS, MEMORY, SURE, Array, Values, is_name
from planner.questions.studies.study import Study

FITTING, VERDICT, LAYOUT_FOUND, REASON = "fits", "verdict", "layout", "reason"
#: What a verdict is, by its code; none where there is no plan.
STATES = (None, "open", "no", "tight", "fits")
#: Whole numbers up to here are exact in the arrays.
EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """A column: what it is called, and whether it is an axis, the layout that was found, whether it
    fits, the verdict, a quantity, a bound of its interval or the reason."""

    name: str
    role: str
    source: str = ""  # the axis, the quantity, or the quantity with the bound

    @property
    def numbers(self) -> bool:
        """Whether it holds numbers of ``Values``."""
        return self.role == "bound" or (self.role == "quantity" and not is_name(self.source))


def columns(study: Study) -> tuple[Column, ...]:
    """The columns in their order. A quantity that an axis gives in numbers is there once; else
    the axis says what was given, and the quantity what became of it."""
    names = {axis.name: axis for axis in study.axes}
    found = []
    for name, axis in names.items():
        twice = name in study.record and not axis.numeric
        found.append(Column(f"{name} (given)" if twice else name, "axis", name))
    if study.searches:
        found.append(Column(LAYOUT_FOUND, "layout"))
    found += [Column(FITTING, "fits"), Column(VERDICT, "verdict")]
    may_have = bounds.bounded(study)
    for name in study.record:
        if name not in names or not names[name].numeric:
            found.append(Column(name, "quantity", name))
        if name in may_have:
            ends = (f"{name}.low", f"{name}.high")
            found += [Column(end, "bound", end) for end in ends]
    return (*found, Column(REASON, "reason"))


@dataclass(frozen=True)
class Rows:
    """The points of a piece that the table keeps.

    Arrays are (dimension, …), of length 1 where they are the same all along; what is done with them
    costs the size of what they vary along, not the number of points.
    """

    study: Study
    ranges: tuple[range, ...]
    values: Values
    kept: Array  # of every point of the piece
    holds: Array  # valid, and within the limits of the study

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.ranges))

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    def count(self, true: Array) -> int:
        """How many points of the piece something, as (dimension, …), is true of."""
        return int(np.count_nonzero(true)) * (self.size // true.size)

    @cached_property
    def fits(self) -> Array:
        """1 where it fits, 0 where it does not, -1 where that is unknown, as (dimension, …)."""
        headroom = self.values.numbers[FITS]
        return np.where(np.isnan(headroom), -1, headroom >= 0).astype(np.int8)

    @cached_property
    def verdict(self) -> Array:
        """The places in ``STATES``, as (dimension, …); ``Result.verdict`` says it of a plan."""
        safe = self.values.numbers[SURE] >= 0
        shaped, _ = self.values.shares.get(MEMORY, bounds.NONE)  # of a size alone there are none
        known = np.where(np.isnan(shaped) | (self.fits < 0), 1, np.where(safe, 4, 3))
        return np.where(self.values.valid, np.where(self.fits == 0, 2, known), 0)

    @cached_property
    def whole(self) -> dict[str, bool]:
        """Of each recorded number whether its values in the table are whole, and exact."""
        found = {}
        for name in self.study.record:
            if not is_name(name):
                numbers = self.laid(self.values.numbers[name])
                found[name] = bool(is_whole(numbers[~np.isnan(numbers)]).all())
        return found

    def axis(self, name: str) -> tuple[Array, list[Any]]:
        """The places of the values of an axis, as (dimension, …) of length 1 but along its own, and
        all its values."""
        for dimension, axes in enumerate(self.study.dimensions):
            for axis in axes:
                if axis.name == name:
                    along = [1] * len(self.shape)
                    along[dimension] = self.shape[dimension]
                    places = np.array(self.ranges[dimension], dtype=np.int64).reshape(along)
                    return places, [choice.label for choice in axis.choices]
        raise KeyError(name)

    # The kept points are a grid again: along its first axis whatever is left of the slow
    # dimensions, then the fast ones of which nothing is dropped.

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """The shape of that grid; the rows of the table are its points in order."""
        heads = len(self._heads[0]) if self._heads else 1
        return (heads, *self.shape[len(self._heads) :])

    @cached_property
    def _heads(self) -> tuple[Array, ...]:
        """The places that are left along the dimensions of which something is dropped."""
        if self.kept.all():
            return ()
        last = max((d for d, n in enumerate(self.kept.shape) if n > 1), default=-1) + 1
        over = np.broadcast_to(self.kept.reshape(self.kept.shape[:last]), self.shape[:last])
        return tuple(np.nonzero(over)) if last else (np.zeros(0, dtype=np.int64),)

    def laid(self, array: Array) -> Array:
        """An array (dimension, …) as one (heads, …) that broadcasts to the grid of kept points."""
        slow = array.shape[: len(self._heads)]
        if all(n == 1 for n in slow):
            return array.reshape(1, *array.shape[len(slow) :])[: self.grid[0]]
        places = (p if n > 1 else 0 for p, n in zip(self._heads, slow, strict=True))
        found: Array = array[tuple(places)]
        return found


def rows(study: Study, ranges: Sequence[range], values: Values) -> Rows:
    """What the table keeps of a piece: valid points within the limits, and with their reason
    those that are no plan, unless the study drops them."""
    values = _narrowed(study, values)
    holds = values.valid
    for limit in study.where:
        with np.errstate(invalid="ignore"):
            holds = holds & limit.of_arrays.holds(values.numbers[limit.quantity])
    kept = holds | ~values.valid if study.keep_invalid else holds
    return Rows(study, tuple(ranges), values, narrowed(kept), holds)


def _narrowed(study: Study, values: Values) -> Values:
    """Values where they vary, and the bounds of their intervals."""
    layouts = values.layouts
    numbers = {name: narrowed(array) for name, array in values.numbers.items()}
    shares = {name: (narrowed(low), narrowed(high)) for name, (low, high) in values.shares.items()}
    return Values(
        {**numbers, **bounds.ends(study, numbers, shares)},
        narrowed(values.valid),
        narrowed(values.reasons),
        values.texts,
        None if layouts is None else narrowed(layouts),
        shares,
    )


def is_whole(numbers: Array) -> Array:
    """Which numbers, of any shape, are whole and exact as such."""
    found: Array = (np.rint(numbers) == numbers) & (np.abs(numbers) <= EXACT)
    return found


def coded(table: Rows, column: Column) -> tuple[Array, list[Any]]:
    """A column of few distinct values as places (dimension, …) in them; None where there is
    none."""
    values = table.values
    if column.role == "axis":
        codes, labels = table.axis(column.source)
        return codes, [plain(label) for label in labels]
    if column.role == "fits":
        return table.fits + 1, [None, False, True]
    if column.role == "verdict":
        return table.verdict, list(STATES)
    if column.role == "reason":
        return values.reasons, [text or None for text in values.texts]
    if column.role == "layout":
        return _factored(np.asarray(values.layouts))
    return _factored(values.numbers[column.source])


def _factored(names: Array) -> tuple[Array, list[Any]]:
    places: dict[Any, int] = {}
    codes = [places.setdefault(name or None, len(places)) for name in names.ravel().tolist()]
    return np.array(codes, dtype=np.int64).reshape(names.shape), list(places)


def plain(label: Any) -> Any:
    """The value of an axis as a table holds it."""
    if isinstance(label, Fraction):
        return label.numerator if label.denominator == 1 else float(label)
    return label
