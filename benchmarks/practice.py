"""What a newcomer's plan misses against the plans that experts ran.

    python -m benchmarks.practice [NAME...]

Each published run (presets/runs) is planned as published, and as a newcomer would type it, with
model, cluster, batch, sequence length, number formats (of products, master weights and optimizer
states) and adapters only, under the software of today
and under that of the month in which it was published, with the framework that ran it where that is
one of the stacks that a plan can name. Printed are the predicted step of today over the published
plan's, and in which newcomer's interval the measured value is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

from planner.base import units
from planner.base.display import columns
from planner.documents import source
from planner.documents.references import list_runs, preset_names
from planner.questions.loading import load
from planner.questions.plan_questions import evaluate

STEP = "time.step_seconds"
#: What a newcomer types of a run, and of the bytes of a parameter.
TYPED = ("tokens", "sequence_length", "global_batch", "precision", "lora")
FORMATS = ("master", "state")


#: A run; the newcomer's predicted step over the published plan's; the published plan's prediction
#: over the measured value, less one; and whether the measured value is in the newcomer's 90 %
#: interval, under the software of today and of its month.
NewcomerRow = tuple[str, float, float, bool, bool]


def strip_run(data: dict[str, Any], **dated: str) -> dict[str, Any]:
    """Return the plan that a newcomer would type for a published run, of today or of a month."""
    given, formats = data["training"], data["training"].get("bytes", {})
    training: dict[str, Any] = {key: given[key] for key in TYPED if key in given} | dated
    training["bytes"] = {key: formats[key] for key in FORMATS if key in formats}
    whole = {key: data[key] for key in ("model", "cluster")}
    return {**whole, "training": training, "parallelism": "auto"}


def compare_runs(names: list[str]) -> Iterator[NewcomerRow]:
    """Compare some published runs, or all."""
    for name in names or list_runs():
        run, data = evaluate(load(name)), source.read_document(source.locate_file(name, "plan")[0])
        (row,) = run.plan.document.get("measured")
        quantity, dated = row["quantity"], {"kernels": row["date"]}
        software = run.plan.get("training.implementation")
        if software in preset_names("stack"):
            dated["stack"] = f"{software}@{row['date']}"
        today, then = (evaluate(load(strip_run(data.plain(), **kept))) for kept in ({}, dated))
        measured = units.parse(row["value"], today[quantity].unit)
        ratio, off = today[STEP].number / run[STEP].number, run[quantity].number / measured
        ends = [typed[quantity].interval or (0, 0) for typed in (today, then)]
        inside, once = (low <= measured <= high for low, high in ends)
        yield name, float(ratio), float(off) - 1, inside, once


def main() -> None:
    rows = list(compare_runs(sys.argv[1:]))
    table = [(r[0], f"{r[1]:.3f}", f"{r[2]:+.1%}", "in" * r[3], "in" * r[4]) for r in rows]
    heads = ("run", "ratio", "published off", "today", "its month")
    sys.stdout.write("\n".join(columns([heads, *table])))
    ratios, inside, once = [r[1] for r in rows], sum(r[3] for r in rows), sum(r[4] for r in rows)
    near = sum(ratio <= 1.05 for ratio in ratios)
    sys.stdout.write(
        f"\n{len(rows)} runs: median {median(ratios):.3f}, most {max(ratios):.3f}, "
        f"{near} at most 1.05, measured value inside in {inside}, of its month in {once}\n"
    )


if __name__ == "__main__":
    main()
