"""The command `sweep`: what its options mean together, and what it prints when it is done."""

from __future__ import annotations

import argparse
import sys

from planner.base.errors import Fault, PlanError
from planner.base.progress import progress


def sweep(options: argparse.Namespace) -> bool:
    """Run the command; returns whether the study has any point to show.

    Raises:
        PlanError: bad input, an output that cannot be written, an engine that fails.
    """
    from planner.questions.studies import outputs
    from planner.questions.studies.engines import chosen

    if not options.output:
        raise PlanError(Fault("a sweep needs an output", None, "-o FILE.csv, .parquet or .html"))
    tables = [path for path in options.output if outputs.ending(path) in outputs.TABLES]
    reports = [path for path in options.output if path not in tables]
    for path in reports:
        outputs.comparison(path, outputs.TABLES)
    if len(tables) > 1:
        raise PlanError(Fault(f"two tables: {tables[0]} and {tables[1]}", None, "one of them"))
    table = tables[0] if tables else None
    if table:
        outputs.table(table)
    chosen(options.workers, options.on)  # a fault of theirs comes before the study's
    # Heavy modules.
    from planner.base import files
    from planner.questions.studies import study as studies
    from planner.questions.studies.run import sweep as run
    from planner.report import study as pages

    study = studies.load(options.study, options.changes)
    for path in reports:
        files.spare(path, study.files)
    shown = progress("plans")
    outcome = run(study, table, options.workers, options.on, options.restart, shown)
    for path in reports:
        pages.write(outcome, path)
    sys.stdout.write(pages.text(outcome))
    return outcome.summary.points > outcome.summary.invalid + outcome.summary.outside
