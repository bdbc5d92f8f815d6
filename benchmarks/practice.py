"""What a newcomer's plan misses against the plans that experts ran.

    python -m benchmarks.practice [NAME...]

Each published run (presets/runs) is planned twice: as published, and as a newcomer would type it,
with model, cluster, batch, sequence length, number format and adapters only. Printed are the
predicted step of the second over that of the first, and whether the measured value is in the
interval of the second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from planner.base import units
from planner.base.display import columns
from planner.documents import source
from planner.documents.references import list_runs
from planner.questions.loading import load
from planner.questions.plan_questions import evaluate

STEP = "time.step_seconds"
#: What a newcomer types of a run.
TYPED = ("sequence_length", "global_batch", "precision", "lora")


class NewcomerRow(NamedTuple):
    """A newcomer's plan beside the published one.

    Attributes:
        name: of the run.
        ratio: the newcomer's predicted step over the published plan's.
        off: the published plan's prediction over the measured value, less one.
        inside: whether the measured value is in the newcomer's 90 % interval.
    """

    name: str
    ratio: float
    off: float
    inside: bool


def strip_run(data: dict[str, Any]) -> dict[str, Any]:
    """Return the plan that a newcomer would type for a published run."""
    training = {key: data["training"][key] for key in TYPED if key in data["training"]}
    whole = {key: data[key] for key in ("model", "cluster")}
    return {**whole, "training": training, "parallelism": "auto"}


def compare_runs(names: list[str]) -> Iterator[NewcomerRow]:
    """Compare some published runs, or all."""
    for name in names or list_runs():
        run, data = evaluate(load(name)), source.read_document(source.locate_file(name, "plan")[0])
        typed = evaluate(load(strip_run(data.plain())))
        (row,) = run.plan.document.get("measured")
        quantity = typed[row["quantity"]]
        measured, interval = units.parse(row["value"], quantity.unit), quantity.interval
        ratio, off = typed[STEP].number / run[STEP].number, run[row["quantity"]].number / measured
        inside = interval is not None and interval[0] <= measured <= interval[1]
        yield NewcomerRow(name, float(ratio), float(off) - 1, inside)


def main() -> None:
    rows = list(compare_runs(sys.argv[1:]))
    table = [(one.name, f"{one.ratio:.3f}", f"{one.off:+.1%}", "in" * one.inside) for one in rows]
    sys.stdout.write("\n".join(columns([("run", "ratio", "published off", "interval"), *table])))
    ratios, inside = [one.ratio for one in rows], sum(one.inside for one in rows)
    near = sum(ratio <= 1.05 for ratio in ratios)
    sys.stdout.write(
        f"\n{len(rows)} runs: median {median(ratios):.3f}, most {max(ratios):.3f}, "
        f"{near} at most 1.05, measured value inside in {inside}\n"
    )


if __name__ == "__main__":
    main()
