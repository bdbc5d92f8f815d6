"""One piece of a study, from its number to its rows: what every worker runs, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.base.version import full
from planner.questions.studies import dimensions, evaluator, parquet, table, text
from planner.questions.studies.grid import Pieces
from planner.questions.studies.points import Values, is_name, wanted
from planner.questions.studies.study import Study
from planner.questions.studies.summary import summary

#: Points of a piece: over arrays, and where names make it one plan after another.
OVER_ARRAYS, ONE_BY_ONE = 1 << 18, 64
#: Plans that a piece over arrays completes at most.
MOST_PLANS = 2048


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
        rows = table.rows(self.study, ranges, self.evaluate(ranges))
        data = b""
        if self.kind == "parquet":
            data = parquet.piece(rows)
        elif self.kind is not None:
            data = text.encoded(rows, self.kind)
        if self.kind == "csv" and number == 0:
            data = text.header(self.study) + data
        return Piece(data, summary(rows).to_json())
