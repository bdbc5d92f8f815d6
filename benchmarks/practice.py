"""What a newcomer's plan misses against the plans that experts ran.

    python -m benchmarks.practice [NAME...] [--unstated FILE]

Each published run (presets/runs) is planned as published, and as a newcomer would type it, with
model, cluster, batch, sequence length, number formats (of products, master weights and optimizer
states) and adapters only, under the software of today and under that of the month in which it was
published, with the framework that ran it where that is one of the stacks that a plan can name.
Printed are the predicted step of today over the published plan's, and in which newcomer's interval
the measured value is.

A plan that names no software gets the one that most people run. How far the software that ran lies
from it, with the layout that a search finds under each, widens the interval of such a plan, by the
rule of ``benchmarks.spread``; ``--unstated`` writes it (presets/efficiency/practice.yaml). Here
each run is judged by the spread of all other sources.
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import measured, spread
from planner.base import units
from planner.base.display import columns
from planner.documents.references import list_runs, locate_file, preset_names, read_document
from planner.plans import error_bands
from planner.questions.loading import load
from planner.questions.plan_questions import evaluate
from planner.results import intervals
from planner.results.result import Result

STEP, MFU = "time.step_seconds", "time.mfu"
#: What a newcomer types of a run, and of the bytes of a parameter.
TYPED = ("tokens", "sequence_length", "global_batch", "precision", "lora")
FORMATS = ("master", "state")
#: What a plan leaves open of the software that it gets by default (``time.unstated``).
OPEN = ("framework and release", "framework")
HEAD = """\
# Step under the software that ran published runs over the step under the software that a plan of
# them gets where it names none, each with the layout that a search finds, less 1: 5th and 95th
# percentile of a new source, by the rule of benchmarks/spread.py; and the published runs whose
# utilisation none exceeds on as many devices. Written by benchmarks.practice.
"""
#: What published runs are told apart by, and the devices, of which more are harder.
REACHED_BY = ("cluster.accelerator.architecture", "training.precision", "cluster.devices")


class NewcomerRow(NamedTuple):
    """A run, and what a newcomer's plans of it predict.

    Attributes:
        name, source: of the run.
        quantity, measured: what was measured, and its value in its unit.
        ratio: step of the newcomer's plan over that of the published plan.
        off: prediction of the published plan over the measured value, less one.
        reached: its architecture, number format and devices, and its measured utilisation.
        today: under the software of today.
        then: under that of the run's month, with its framework where a plan can name it.
        apart: logarithm of the step under the software that ran over the one under the software
            that the plan gets, by what it leaves open; only where a plan can name what ran.
    """

    name: str
    source: str
    quantity: str
    measured: float
    ratio: float
    off: float
    reached: tuple[Any, ...]
    today: Result
    then: Result
    apart: Mapping[str, float]


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
        run, data = evaluate(load(name)), read_document(locate_file(name, "plan")[0])
        (row,) = run.plan.document.get("measured")
        month, quantity = {"kernels": row["date"]}, row["quantity"]
        software, own = run.plan.get("training.implementation"), month
        if software in preset_names("stack"):
            own = {**month, "stack": f"{software}@{row['date']}"}
        typed = (load(strip_run(data.plain(), **kept)) for kept in ({}, month, own))
        today, dated, then = map(evaluate, typed)
        value = float(units.parse(row["value"], today[quantity].unit))
        named = then.plan.get("training.implementation") == software
        pairs = zip(OPEN, (today, dated), strict=True) if named else ()
        apart = {key: math.log(then[STEP].number / one[STEP].number) for key, one in pairs}
        predicted = float(run[quantity].number)
        mfu = float(run[MFU].number) * (1 + measured.slower(quantity, value, predicted))
        yield NewcomerRow(
            name, row["source"], quantity, value, float(today[STEP].number / run[STEP].number),
            predicted / value - 1, (*map(run.plan.get, REACHED_BY), mfu), today, then, apart,
        )  # fmt: skip


def list_best(rows: list[NewcomerRow]) -> Iterator[str]:
    """Format the runs whose utilisation none of their kind exceeds on as many devices."""
    for (*kind, devices, mfu), name in sorted((row.reached, row.name) for row in rows):
        others = [row.reached[2:] for row in rows if [*row.reached[:2]] == kind]
        if not any(count >= devices and one > mfu for count, one in others):
            keys = "architecture: {}, precision: {}".format(*kind)
            yield f"  - {{{keys}, devices: {devices}, mfu: {mfu:.3f}, run: {name}}}\n"


def find_spread(rows: list[NewcomerRow], left_out: str = "") -> dict[str, spread.Interval]:
    """Return how far software that ran lies from what a plan gets, of all sources but one."""
    ratios: dict[spread.Kind, dict[str, list[float]]] = {("practice", key): {} for key in OPEN}
    for row in (row for row in rows if row.source != left_out):
        for key, apart in row.apart.items():
            ratios["practice", key].setdefault(row.source, []).append(apart)
    found = (spread.intervals({kind: ratios[kind]}) for kind in ratios)
    return {key: band for one in found for (_, key), band in one.items()}


def is_inside(row: NewcomerRow, typed: Result, spreads: Mapping[str, spread.Interval]) -> bool:
    """Decide whether the measured value is in the interval of a newcomer's plan."""
    settings = typed.evaluation.case.settings
    what = error_bands.classify_time(row.quantity, settings)
    band = error_bands.find_time_band(what, {**settings, "time.unstated": ""})
    if left := settings.get("time.unstated"):
        band = error_bands.widen_band(band, {"leaves_open": left, **spreads[left]._asdict()})
    value, ends = typed[row.quantity].number, (1 + band.low, 1 + band.high)
    other = partial(intervals.get_or_zero, evaluation=typed.evaluation)
    low, high = intervals.compute_bounds(row.quantity, value, other, *ends, min, max)
    return bool(low <= row.measured <= high)


def format_document(found: Mapping[str, spread.Interval]) -> str:
    """Format the spread as it ships."""
    rows = (
        f"  - {{leaves_open: {key}, low: {band.low:.2f}, high: {band.high:.2f}, "
        f"rows: {band.rows}, sources: {band.sources}}}\n"
        for key, band in found.items()
    )
    return f"{HEAD}unstated:\n{''.join(rows)}"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="published runs; by default all")
    parser.add_argument("--unstated", type=Path, help="document of the spread that is rewritten")
    options = parser.parse_args()
    rows = list(compare_runs(options.names))
    without = {row.source: find_spread(rows, row.source) for row in rows}
    inside = [[is_inside(r, t, without[r.source]) for t in (r.today, r.then)] for r in rows]
    table = [
        (r.name, f"{r.ratio:.3f}", f"{r.off:+.1%}", "in" * today, "in" * then)
        for r, (today, then) in zip(rows, inside, strict=True)
    ]
    table.insert(0, ("run", "ratio", "published off", "today", "its month"))
    sys.stdout.write("\n".join(columns(table)))
    ratios, (now, once) = [row.ratio for row in rows], map(sum, zip(*inside, strict=True))
    near = sum(ratio <= 1.05 for ratio in ratios)
    spans = f"median {median(ratios):.3f}, most {max(ratios):.3f}, {near} at most 1.05"
    sys.stdout.write(f"\n{len(rows)} runs: {spans}, measured value inside in {now}, then {once}\n")
    document = f"{format_document(find_spread(rows))}best:\n{''.join(list_best(rows))}"
    sys.stdout.write(document)
    if options.unstated:
        options.unstated.write_text(document, "utf-8")


if __name__ == "__main__":
    main()
