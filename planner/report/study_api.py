"""A study from Python: its rows one by one, as a data frame, or as a swept table with a
comparison."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.base import numbers
from planner.base.display import plain
from planner.base.errors import require_extra
from planner.base.notebook import Shown
from planner.questions.studies import run
from planner.questions.studies.engines import choose_engine
from planner.questions.studies.study import StudySpec as Document
from planner.questions.studies.summary import QUESTIONS, TASKS
from planner.questions.studies.work import Job
from planner.report.study import format_study, write_study


class Study:
    """A checked study.

    >>> import planner
    >>> study = planner.load_study("presets/studies/llama70b_devices.yaml")
    >>> len(study)
    72
    """

    def __init__(self, study: Document) -> None:
        self.study, self.name = study, study.name

    def __len__(self) -> int:
        return self.study.size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def __repr__(self) -> str:
        return f"<Study {self.name!r}, {len(self)} plans>"

    def rows(self, workers: int = 1, on: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield one mapping for each row of the table, in order: axes, ``fits``, quantities,
        ``reason``; None for absent values. Rows are not stored, however many there are.

        Raises:
            PlanError: the engine fails.
        """
        engine, job = choose_engine(None if on else workers, on), Job(self.study, "jsonl")
        with contextlib.closing(engine(job, range(len(job.pieces)))) as pieces:
            for piece in pieces:
                yield from map(json.loads, piece.data.decode().splitlines())

    def to_pandas(self, workers: int = 1, on: str | None = None) -> Any:
        """Return the rows as a data frame.

        Raises:
            PlanError: pandas is not installed.
        """
        with require_extra("a data frame", "notebook"):
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        return pandas.DataFrame(self.rows(workers, on))

    def sweep(
        self,
        output: str | Path | None = None,
        *,
        workers: int = 1,
        on: str | None = None,
        restart: bool = False,
    ) -> Comparison:
        """Evaluate every point of the study and compare the results.

        Args:
            output: the file of the table, one row a point; None writes none.
            workers: processes to use; not read if ``on`` is given.
            on: the engine to run on, in place of local processes.
            restart: whether to start again where a table of an earlier run could be continued.

        Returns:
            The comparison.

        Raises:
            PlanError: the table cannot be written, or the engine fails.
        """
        return Comparison(run.sweep(self.study, output, None if on else workers, on, restart))


class Comparison(Shown):
    """The results of a swept study: counts, and the best point for each question."""

    def __init__(self, outcome: run.StudyOutcome) -> None:
        self.outcome = outcome

    @property
    def counts(self) -> dict[str, int]:
        """The points, the rows of the table, and the points by outcome."""
        names = ("points", "rows", "fit", "tight", "unfit", "outside", "invalid")
        return {name: getattr(self.outcome.summary, name) for name in names}

    @property
    def best(self) -> list[dict[str, Any]]:
        """For each task of the study and each question: the value, and the values of the axes."""
        found = []
        for best in self.outcome.summary.best[TASKS].values():
            for question, (score, point) in best.items():
                quantity, sign = QUESTIONS[question]
                labels = plain(self.outcome.study.label_point(point))
                row = {"question": question, "quantity": quantity, "value": sign * score}
                found.append({**row, "point": labels})
        return found

    def write(self, path: str | Path) -> None:
        """Write the comparison, .html or .md, atomically.

        Raises:
            PlanError: another ending, or a place that cannot be written.
        """
        write_study(self.outcome, str(path))

    def __repr__(self) -> str:
        plans = numbers.text(self.counts["points"])
        return f"<Comparison of {self.outcome.study.name!r}, {plans} plans>"

    def __str__(self) -> str:
        return format_study(self.outcome)
