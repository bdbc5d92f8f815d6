"""The pieces of a study, and the evaluation of one by its number, which every worker runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from planner.base.errors import PlanError
from planner.base.version import format_versions
from planner.questions.studies import dimensions, evaluator, parquet, table
from planner.questions.studies.points import Points, is_name, list_needed
from planner.questions.studies.study import StudySpec
from planner.questions.studies.summary import summarise_piece

#: Points of a piece: over arrays, and where quantities that are words need single plans.
OVER_ARRAYS, ONE_BY_ONE = 1 << 18, 64
#: The most plans that a piece over arrays completes.
MOST_PLANS = 2048


@dataclass(frozen=True)
class Pieces:
    """A grid of some shape, cut into pieces, which are grids too.

    Points are numbered so that the last dimension changes fastest. A piece is a run of neighbours:
    one place along the slow dimensions, a stretch along one, everything along the fast ones. So
    values that depend on few dimensions are computed once for a piece.

    Attributes:
        shape: number of places along each dimension.
        most: the most points of a piece.
    """

    shape: tuple[int, ...]
    most: int

    @cached_property
    def cuts(self) -> tuple[range, ...]:
        """Where along each dimension a piece begins, in steps of the places that it has."""
        room, found = self.most, []
        for length in reversed(self.shape):
            found.append(range(0, length, max(1, min(length, room))))
            room //= length
        return tuple(reversed(found))

    def __len__(self) -> int:
        return math.prod(map(len, self.cuts))

    def list_ranges(self, number: int) -> tuple[range, ...]:
        """Return the places of a piece along each dimension."""
        places = np.unravel_index(number, [len(cut) for cut in self.cuts])
        begins = (cut[place] for cut, place in zip(self.cuts, places, strict=True))
        several = zip(self.shape, self.cuts, begins, strict=True)
        return tuple(range(at, min(at + cut.step, length)) for length, cut, at in several)


@dataclass(frozen=True)
class StudyPiece:
    """A finished piece.

    Attributes:
        data: its rows, in the format of the table; empty without a table.
        summary: its facts, as JSON.
    """

    data: bytes
    summary: str


@dataclass(frozen=True)
class Job:
    """The task of a worker.

    Attributes:
        study: the study.
        kind: the format of its rows: csv, jsonl or parquet; None for no table.
        version: versions of the program that read the study; a worker must have the same.
    """

    study: StudySpec
    kind: str | None
    version: str = field(default_factory=format_versions)

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces of the study, the same for all workers."""
        differ = dimensions.classify_axes(self.study)
        several = [n for n, one in enumerate(differ) if one == dimensions.NUMBERS]
        alone = {dimensions.PLANS}
        if math.prod(self.study.shape[n] for n in several) > MOST_PLANS:
            alone |= set() if evaluator.is_together(self.study, several) else {dimensions.NUMBERS}
        most = ONE_BY_ONE if any(map(is_name, list_needed(self.study))) else OVER_ARRAYS
        while True:
            cut = Pieces(self.study.shape, most)
            plans = math.prod(
                len(r) for r, one in zip(cut.list_ranges(0), differ, strict=True) if one in alone
            )
            if plans <= MOST_PLANS or most == 1:
                return cut
            most //= 2

    @cached_property
    def evaluate(self) -> Callable[[Sequence[range]], Points]:
        """Evaluates the points of a piece, by its places along each dimension."""
        return evaluator.Evaluator(self.study).evaluate_points

    def run_piece(self, number: int) -> StudyPiece:
        """Evaluate a piece and encode its rows.

        Raises:
            PlanError: this program is another version than the one that read the study.
        """
        if self.version != format_versions():
            raise PlanError(f"a worker runs {format_versions()}, the study {self.version}")
        ranges = self.pieces.list_ranges(number)
        rows = self.evaluate(ranges)
        data = b""
        if self.kind == "parquet":
            data = parquet.encode_parquet(rows)
        elif self.kind is not None:
            data = table.encode_table(rows, self.kind)
        return StudyPiece(data, json.dumps(vars(summarise_piece(rows)), separators=(",", ":")))
