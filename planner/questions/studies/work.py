"""The pieces of a study, and one from its number to its rows: what every worker runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from planner.base.errors import Fault, PlanError
from planner.base.version import full
from planner.questions.studies import dimensions, evaluator, parquet, table, text
from planner.questions.studies.points import Values, is_name, wanted
from planner.questions.studies.study import Study
from planner.questions.studies.summary import summary

#: Points of a piece: over arrays, and where names make it one plan after another.
OVER_ARRAYS, ONE_BY_ONE = 1 << 18, 64
#: Plans that a piece over arrays completes at most.
MOST_PLANS = 2048


@dataclass(frozen=True)
class Pieces:
    """How a grid of some shape is cut into pieces of about so many points, which are grids too.

    Points are numbered so that the last dimension turns fastest. A piece is a run of neighbours:
    one place along the slow dimensions, a stretch along one, everything along the fast ones. So
    whatever depends on few dimensions is worked out once for a piece.
    """

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


@dataclass(frozen=True)
class Piece:
    """One piece, done: its rows as bytes, and what the comparison needs of it, as JSON."""

    data: bytes
    summary: str


@dataclass(frozen=True)
class Job:
    """What a worker is told: the study and how its rows are written."""

    study: Study
    kind: str | None  # csv, jsonl, parquet; None: no table
    version: str = field(default_factory=full)

    @cached_property
    def pieces(self) -> Pieces:
        """How the points are cut, whoever works on them."""
        differ = dimensions.differences(self.study)
        most = ONE_BY_ONE if any(map(is_name, wanted(self.study))) else OVER_ARRAYS
        while True:
            cut, plans = Pieces(self.study.shape, most), 1
            for places, one in zip(cut.ranges(0), differ, strict=True):
                plans *= len(places) if one == dimensions.PLANS else 1
            if plans <= MOST_PLANS or most == 1:
                return cut
            most //= 2

    @cached_property
    def evaluate(self) -> Callable[[Sequence[range]], Values]:
        return evaluator.Evaluator(self.study).evaluate

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker finds for itself."""
        return {"study": self.study, "kind": self.kind, "version": self.version}

    def work(self, number: int) -> Piece:
        """The rows of a piece.

        Raises:
            PlanError: the program here is another version than where the study was read.
        """
        if self.version != full():
            raise PlanError(Fault(f"a worker runs {full()}, the study {self.version}"))
        ranges = self.pieces.ranges(number)
        rows = table.Rows(self.study, ranges, self.evaluate(ranges))
        data = b""
        if self.kind == "parquet":
            data = parquet.piece(rows)
        elif self.kind is not None:
            data = text.encoded(rows, self.kind)
        if self.kind == "csv" and number == 0:
            data = text.header(self.study) + data
        return Piece(data, summary(rows).to_json())
