"""Runs a study: pieces on some engine, their rows in order into one table."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from planner.base import files
from planner.questions.studies import outputs, parquet
from planner.questions.studies.engines import Engine, chosen
from planner.questions.studies.pieces import PieceFolder
from planner.questions.studies.study import Study
from planner.questions.studies.summary import Summary
from planner.questions.studies.work import Job

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
    on: str | Executor | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Evaluate every point of a study.

    Args:
        output: the table, .csv, .jsonl or .parquet; None for the comparison alone. Rows are in the
            order of the points, the last axis turning fastest, whoever evaluates them. A sweep
            that was stopped goes on where it was.
        workers: processes on this machine, all cores by default; of an executor, how many it has.
        on: a cluster instead, ``dask://HOST:PORT`` or ``ray://HOST:PORT``, or any executor.
        restart: begin afresh where an earlier sweep was stopped.
        progress: called with points done, points in all, seconds passed.

    Raises:
        PlanError: the table cannot be written, or the engine fails.
    """
    engine = chosen(workers, on)
    kind = None if output is None else outputs.table(str(output))
    if kind == "parquet":
        parquet.loaded()
    job, found, start = Job(study, kind), Summary(), time.perf_counter()

    def told(summaries: Iterable[str]) -> Summary:
        for summary in summaries:
            found.add(Summary.from_json(summary))
            if progress is not None:
                progress(found.points, study.size, time.perf_counter() - start)
        return found

    if output is None:
        with contextlib.closing(engine(job, range(len(job.pieces)))) as pieces:
            return Outcome(study, None, told(piece.summary for piece in pieces))
    files.spare(output, study.files)
    about = {"study": study.digest, "format": kind, "pieces": len(job.pieces)}
    with contextlib.closing(PieceFolder(Path(output), about, restart)) as folder:
        with contextlib.closing(_summaries(folder, engine, job)) as summaries:
            told(summaries)
        if kind == "parquet":
            folder.finish(lambda pieces, file: parquet.join(study, pieces, file, found.whole))
        else:
            folder.finish(lambda pieces, file: file.writelines(pieces))
    return Outcome(study, str(output), found)


def _summaries(folder: PieceFolder, engine: Engine, job: Job) -> Generator[str, None, None]:
    """What the comparison needs of each piece in turn, those that were missing added."""
    missing = [number for number in range(folder.count) if number not in folder.done]
    with contextlib.closing(engine(job, missing)) as made:
        for number in range(folder.count):
            if number in folder.done:
                yield folder.read(number)[1]
            else:
                piece = next(made)
                folder.add(number, piece.data, piece.summary)
                yield piece.summary
