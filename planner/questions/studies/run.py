"""Runs a study: pieces on some engine, their rows in order into one table."""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from planner.base import files, numbers
from planner.base.progress import report_progress
from planner.questions.studies import TABLES, parquet
from planner.questions.studies.engines import choose_engine
from planner.questions.studies.pieces import PieceFolder
from planner.questions.studies.study import StudySpec
from planner.questions.studies.summary import Summary
from planner.questions.studies.work import Job

#: Version of the files of a piece: those of another version are not continued.
FORM = 4


@dataclass(frozen=True, eq=False)  # equal only to itself; its output formats share caches
class StudyOutcome:
    """A finished study.

    Attributes:
        study: the study.
        output: the file of its table; None without one.
        summary: the facts of a comparison.
    """

    study: StudySpec
    output: str | None
    summary: Summary


def sweep(
    study: StudySpec,
    output: str | Path | None = None,
    workers: int | None = None,
    on: str | Executor | None = None,
    restart: bool = False,
) -> StudyOutcome:
    """Evaluate every point of a study.

    Args:
        study: the study.
        output: the table, .csv, .jsonl or .parquet; None for the comparison alone. Rows are in the
            order of the points, the last axis changing fastest, on any engine. A sweep that was
            stopped continues.
        workers: processes on this machine, all cores by default; of an executor, how many it has.
        on: a cluster instead, ``dask://HOST:PORT`` or ``ray://HOST:PORT``, or any executor.
        restart: start again instead of continuing a sweep that was stopped.

    Returns:
        The study with the summary of all its points.

    Raises:
        PlanError: the table cannot be written, or the engine fails.
    """
    engine = choose_engine(workers, on)
    kind = None if output is None else files.format_of(output, TABLES, "table")
    if kind == "parquet":
        parquet.import_pyarrow()
    job, found = Job(study, kind), Summary()
    with contextlib.ExitStack() as stack:
        folder = None
        if output is not None:
            files.refuse_overwrite(output, study.files)
            about = {"study": study.digest, "format": kind, "pieces": len(job.pieces), "form": FORM}
            folder = stack.enter_context(closing(PieceFolder(Path(output), about, restart)))
        pieces, done = range(len(job.pieces)), set() if folder is None else folder.done
        made = engine(job, [number for number in pieces if number not in done])
        stack.enter_context(closing(made))
        for number in pieces:
            if folder is not None and number in done:
                summary = folder.read_piece(number)[1]
            else:
                piece = next(made)
                summary = piece.summary
                if folder is not None:
                    folder.add_piece(number, piece.data, summary)
            found.merge_summary(Summary(**files.parse_json(summary)))
            report_progress(f"{numbers.text(found.points)} of {numbers.text(study.size)} plans")
        if folder is not None and kind == "parquet":
            folder.finish_table(partial(parquet.join_pieces, study, whole=found.whole))
        elif folder is not None:
            folder.finish_table(lambda pieces, file: file.writelines(pieces))
    return StudyOutcome(study, None if output is None else str(output), found)
