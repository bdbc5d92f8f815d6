"""What a newcomer's plan misses against the plans that experts ran.

    python -m benchmarks.practice [NAME...]

Each published run (presets/runs) is planned twice: as published, and as a newcomer would type it,
with model, cluster, batch, sequence length, number format and adapters only, under the software of
today. Printed are the predicted step of the second over that of the first, and whether the measured
value is in the interval of the second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

from planner.base import units
from planner.base.display import columns
from planner.documents import source
from planner.documents.references import list_runs
from planner.questions.loading import load
from planner.questions.plan_questions import evaluate

STEP = "time.step_seconds"
#: What a newcomer types of a run.
TYPED = ("tokens", "sequence_length", "global_batch", "precision", "lora")


#: A run; the newcomer's predicted step over the published plan's; the published plan's prediction
#: over the measured value, less one; and whether that is in the newcomer's 90 % interval.
NewcomerRow = tuple[str, float, float, bool]


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
        yield name, float(ratio), float(off) - 1, inside


def main() -> None:
    rows = list(compare_runs(sys.argv[1:]))
    table = [
        (name, f"{ratio:.3f}", f"{off:+.1%}", "in" * inside) for name, ratio, off, inside in rows
    ]
    sys.stdout.write("\n".join(columns([("run", "ratio", "published off", "interval"), *table])))
    ratios, inside = [ratio for _, ratio, _, _ in rows], sum(row[-1] for row in rows)
    near = sum(ratio <= 1.05 for ratio in ratios)
    sys.stdout.write(
        f"\n{len(rows)} runs: median {median(ratios):.3f}, most {max(ratios):.3f}, "
        f"{near} at most 1.05, measured value inside in {inside}\n"
    )


if __name__ == "__main__":
    main()
