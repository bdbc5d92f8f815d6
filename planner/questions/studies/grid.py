"""The points of a grid in pieces that are grids themselves.

Points are numbered so that the last dimension turns fastest. A piece is a run of neighbours: one
place along the slow dimensions, a stretch along one, everything along the fast ones. So whatever
depends on few dimensions is worked out once for a piece.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


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
        slow = map(int, np.unravel_index(number, self.shape[:dimension]))
        stretch = range(part * step, min((part + 1) * step, self.shape[dimension]))
        alone = (range(place, place + 1) for place in slow)
        return (*alone, stretch, *map(range, self.shape[dimension + 1 :]))
