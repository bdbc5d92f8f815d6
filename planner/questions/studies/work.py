"""One piece of a study, from its number to its rows: what every worker runs, wherever it is."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pickle import PickleBuffer
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.base.version import full
from planner.plans import hardware
from planner.questions.studies import arrays, layouts, parquet, points, table, text
from planner.questions.studies.grid import Pieces
from planner.questions.studies.points import Values
from planner.questions.studies.study import Study
from planner.questions.studies.summary import summary

#: Points of a piece: over arrays, and one plan after another.
OVER_ARRAYS, ONE_BY_ONE = 1 << 19, 64
#: Plans that a piece over arrays completes at most.
MOST_PLANS = 2048


@dataclass(frozen=True)
class Piece:
    """One piece, done: its rows as bytes, and what the comparison needs of it."""

    number: int
    data: bytes | memoryview
    checksum: int  # of its bytes
    summary: str  # as JSON, which is how the journal keeps it

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Clusters, which pickle by protocol 5, send the rows without copying them."""
        data = PickleBuffer(self.data) if protocol >= 5 else bytes(self.data)
        return Piece, (self.number, data, self.checksum, self.summary)

    def __sizeof__(self) -> int:
        """Bytes of memory, of which a cluster keeps an account."""
        return object.__sizeof__(self) + len(self.data) + len(self.summary)


@dataclass(frozen=True)
class Job:
    """What a worker is told: the study and how its rows are written."""

    study: Study
    kind: str | None  # csv, jsonl, parquet; None: no table
    version: str

    @classmethod
    def of(cls, study: Study, kind: str | None) -> Job:
        return cls(study, kind, full())

    @cached_property
    def over_arrays(self) -> bool:
        return arrays.able(self.study)

    @property
    def light(self) -> bool:
        """Whether a piece takes a fraction of a second and is a few megabytes."""
        return self.over_arrays and not self.study.searches and self.kind in (None, "parquet")

    @cached_property
    def pieces(self) -> Pieces:
        """How the points are cut, whoever works on them."""
        shape = self.study.shape
        if not self.over_arrays:
            return Pieces(shape, ONE_BY_ONE)
        inside, most = arrays.plain(self.study), OVER_ARRAYS
        if layouts.able(self.study):
            along = layouts.along_layouts(self.study)
            inside = tuple(map(any, zip(inside, along, strict=True)))
        while True:
            cut, plans = Pieces(shape, most), 1
            for places, alone in zip(cut.ranges(0), inside, strict=True):
                plans *= 1 if alone else len(places)
            if plans <= MOST_PLANS or most == 1:
                return cut
            most //= 2

    @cached_property
    def evaluate(self) -> Callable[[Sequence[range]], Values]:
        if self.over_arrays:
            if layouts.able(self.study):
                return layouts.Evaluator(self.study).evaluate
            return arrays.Evaluator(self.study).evaluate
        return lambda ranges: points.evaluate(self.study, ranges)

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker finds for itself."""
        return {"study": self.study, "kind": self.kind, "version": self.version}

    def work(self, number: int) -> Piece:
        """The rows of a piece."""
        ranges = self.pieces.ranges(number)
        rows = table.rows(self.study, ranges, self.evaluate(ranges))
        data = self._encoded(rows)
        if number == 0 and self.kind is not None:
            data = text.header(self.study, self.kind) + data
        return Piece(number, data, zlib.crc32(data), summary(rows).to_json())

    def _encoded(self, rows: table.Rows) -> bytes:
        if self.kind is None:
            return b""
        if self.kind == "parquet":
            return parquet.piece(rows, self._room)
        return text.encoded(rows, self.kind)

    @cached_property
    def _room(self) -> parquet.Room:
        return parquet.Room()


def load(kind: str | None) -> None:
    """Load what the first piece of a table of some kind needs.

    Raises:
        PlanError: pyarrow is not installed.
    """
    full()
    hardware.calibration()
    if kind == "parquet":
        parquet.loaded()


#: The job at hand in this process: what it found is kept from piece to piece, which is for one
#: thread at a time, though a cluster may give a worker several.
_AT_HAND: dict[str, Job] = {}
_ONE = threading.Lock()


def work(job: Job, number: int) -> Piece:
    """As ``Job.work``, in a process that may have worked on the study before.

    Raises:
        PlanError: the program here is another version than where the study was read.
    """
    if job.version != full():
        raise PlanError(Fault(f"a worker runs {full()}, the study {job.version}"))
    key = f"{job.study.digest} {job.kind}"
    with _ONE:
        if key not in _AT_HAND:
            _AT_HAND.clear()
            _AT_HAND[key] = job
        return _AT_HAND[key].work(number)
