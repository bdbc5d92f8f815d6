"""Runs a study: pieces on some engine, their rows in order into one table."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from planner.base import files
from planner.questions.studies import footer, outputs, parquet
from planner.questions.studies.ahead import Engine
from planner.questions.studies.engines import chosen
from planner.questions.studies.journal import Journal
from planner.questions.studies.study import Study
from planner.questions.studies.summary import Summary
from planner.questions.studies.thrift import Struct
from planner.questions.studies.work import Job, Piece

#: Called with points done, points in all, seconds passed.
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Outcome:
    """A study, done: its table, and what a comparison says of it."""

    study: Study
    output: str | None
    summary: Summary


def sweep(
    study: Study,
    output: str | Path | None = None,
    workers: int | None = None,
    on: str | Engine | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Evaluate every point of a study.

    Args:
        output: the table, .csv, .jsonl or .parquet; None for the comparison alone. Rows are in the
            order of the points, the last axis turning fastest, whoever evaluates them. A sweep
            that was stopped goes on where it was.
        workers: processes on this machine; all cores by default.
        on: a cluster instead, ``dask://HOST:PORT`` or ``ray://HOST:PORT``, or any engine.
        restart: begin afresh where an earlier sweep was stopped.
        progress: called with points done, points in all, seconds passed.

    Raises:
        PlanError: the table cannot be written, or the engine fails.
    """
    engine = chosen(workers, on)
    if output is None:
        found = Summary()
        for piece in done(engine, Job.of(study, None), 0, found, progress):
            found.add(Summary.from_json(piece.summary))
        return Outcome(study, None, found)
    kind = outputs.table(str(output))
    if kind == "parquet":
        parquet.needed()
    files.spare(output, study.files)
    return Outcome(
        study, str(output), _written(study, Path(output), kind, engine, restart, progress)
    )


def _written(
    study: Study,
    output: Path,
    kind: str,
    engine: Engine,
    restart: bool,
    progress: Progress | None,
) -> Summary:
    job = Job.of(study, kind)
    about = {"study": study.digest, "format": kind, "pieces": len(job.pieces)}
    target = Path(os.path.realpath(output)) if output.is_symlink() else output
    journal, found = Journal(target, about, restart), Summary()
    with contextlib.closing(journal):
        footers: list[tuple[int, Struct]] = []  # of Parquet: read while others work
        for entry, (start, end) in zip(journal.entries, journal.spans(), strict=True):
            found.add(Summary.from_json(entry.summary))
            if kind == "parquet" and start < end:
                footers.append((start, footer.read(end, journal.read)))
        for piece in done(engine, job, len(journal.entries), found, progress):
            if kind == "parquet" and piece.data:
                footers.append((journal.end, footer.found(piece.data)))
            journal.add(piece.data, piece.checksum, piece.summary)
            found.add(Summary.from_json(piece.summary))
        if kind != "parquet":
            journal.finish()
            return found
        ending = parquet.ending(study, footers, found.whole)
        if ending is not None:
            journal.finish(ending=ending)
            return found
        with files.replacing(target) as made:
            parquet.write(study, journal.spans(), journal.read, made, found.whole)
        journal.finish(made=True)
    return found


def done(
    engine: Engine, job: Job, first: int, found: Summary, progress: Progress | None
) -> Generator[Piece, None, None]:
    """The pieces from one on."""
    start = time.perf_counter()
    if progress is not None:
        progress(found.points, job.study.size, 0.0)
    with contextlib.closing(engine(job, range(first, len(job.pieces)))) as pieces:
        for piece in pieces:
            yield piece
            if progress is not None:
                progress(found.points, job.study.size, time.perf_counter() - start)
