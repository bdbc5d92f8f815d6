"""Runs a study: pieces on some engine, their rows in order into one table."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from planner.base import files
from planner.base.progress import tell
from planner.questions.studies import TABLES, parquet
from planner.questions.studies.engines import chosen
from planner.questions.studies.pieces import PieceFolder
from planner.questions.studies.study import Study
from planner.questions.studies.summary import Summary
from planner.questions.studies.work import Job

#: Of what is kept of a piece: one of another form is not gone on with.
FORM = 4
#: Called with points done, points in all, seconds passed.
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, eq=False)  # one sweep is itself; its formats share what is made of it
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
    kind = None if output is None else files.format_of(output, TABLES, "table")
    if kind == "parquet":
        parquet.loaded()
    job, found, start = Job(study, kind), Summary(), time.perf_counter()
    with contextlib.ExitStack() as stack:
        folder = None
        if output is not None:
            files.spare(output, study.files)
            about = {"study": study.digest, "format": kind, "pieces": len(job.pieces), "form": FORM}
            folder = stack.enter_context(closing(PieceFolder(Path(output), about, restart)))
        numbers, done = range(len(job.pieces)), set() if folder is None else folder.done
        made = engine(job, [number for number in numbers if number not in done])
        stack.enter_context(closing(made))
        for number in numbers:
            if folder is not None and number in done:
                summary = folder.read(number)[1]
            else:
                piece = next(made)
                summary = piece.summary
                if folder is not None:
                    folder.add(number, piece.data, summary)
            found.add(Summary(**files.parse_json(summary)))
            tell(f"{found.points:,} of {study.size:,} plans")
            if progress is not None:
                progress(found.points, study.size, time.perf_counter() - start)
        if folder is not None and kind == "parquet":
            folder.finish(partial(parquet.join, study, whole=found.whole))
        elif folder is not None:
            folder.finish(lambda pieces, file: file.writelines(pieces))
    return Outcome(study, None if output is None else str(output), found)
