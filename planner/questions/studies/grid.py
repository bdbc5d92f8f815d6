"""The points of a grid in pieces that are grids themselves.

Points are numbered so that the last dimension turns fastest. A piece is a run of neighbours: one
place along the slow dimensions, a stretch along one, everything along the fast ones. So whatever
depends on few dimensions is worked out once for a piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Pieces:
    """How a grid of some shape is cut into pieces of about so many points."""

    shape: tuple[int, ...]
    most: int

    @property
    def _cut(self) -> tuple[int, int]:
        """The dimension that is cut, and how many of its places make a piece."""
        below = 1
        for dimension in reversed(range(len(self.shape))):
            if below * self.shape[dimension] > self.most:
                return dimension, max(1, self.most // below)
            below *= self.shape[dimension]
        return 0, self.shape[0] if self.shape else 1

    def __len__(self) -> int:
        if not self.shape:
            return 1
        dimension, step = self._cut
        return math.prod(self.shape[:dimension]) * -(-self.shape[dimension] // step)

    def ranges(self, number: int) -> tuple[range, ...]:
        """The places of a piece along each dimension."""
        if not self.shape:
            return ()
        dimension, step = self._cut
        number, part = divmod(number, -(-self.shape[dimension] // step))
        slow = []
        for length in reversed(self.shape[:dimension]):
            number, place = divmod(number, length)
            slow.append(range(place, place + 1))
        stretch = range(part * step, min((part + 1) * step, self.shape[dimension]))
        return (*reversed(slow), stretch, *map(range, self.shape[dimension + 1 :]))

    def first(self, ranges: Sequence[range]) -> int:
        """The number of the first point of a piece."""
        point = 0
        for length, places in zip(self.shape, ranges, strict=True):
            point = point * length + places.start
        return point


def narrowed(array: Array) -> Array:
    """An array (dimension, …) without what it repeats: of length 1 along the dimensions that change
    nothing."""
    for dimension in reversed(range(array.ndim)):
        first = array[(slice(None),) * dimension + (slice(0, 1),)]
        if array.shape[dimension] > 1 and _alike(array, first, dimension):
            array = first
    return array


def _alike(array: Array, first: Array, dimension: int) -> bool:
    """Whether an array is the same at every place along a dimension; NaN is NaN."""
    if array.dtype == np.float64:
        array, first = array.view(np.int64), first.view(np.int64)
    # One other place tells most arrays that change from those that do not.
    last = array[(slice(None),) * dimension + (slice(-1, None),)]
    return bool(np.array_equal(first, last) and (array == first).all())
