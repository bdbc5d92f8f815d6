"""How well the memory model agrees with what was counted and measured.

``python -m benchmarks.memory_accuracy --truth DIR --runs FILE [--json FILE]`` evaluates an ordinary
plan document for each case and row, made from its own columns, and prints the agreement by source.
``--markdown FILE`` rewrites the table between the markers of a page (docs/accuracy.md), ``--bands
FILE`` the intervals that estimates of memory carry.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import runs_memory, truth_memory
from benchmarks.time_bands import quantile
from planner import case, notation, plan
from planner.errors import PlanError
from planner.evaluate import Absent, Evaluation, widen
from planner.quantity import BOOK

Record = dict[str, Any]


def evaluated(document: Mapping[str, Any]) -> Evaluation:
    """An evaluation of a plan document."""
    return Evaluation(case.build(plan.load(document)))


def value_of(document: Mapping[str, Any], quantity: str) -> Any:
    """One quantity of a plan document; of a quantity per stage, that of the largest stage."""
    return _value(evaluated(document), quantity)


def _value(evaluation: Evaluation, quantity: str) -> Any:
    if BOOK.declarations[quantity][0].per == ("stage",):
        stages = evaluation.case.axes["stage"]
        return max(evaluation.value(quantity, {"stage": entry}) for entry in stages)
    return evaluation.value(quantity)


def truth(folder: Path) -> Iterator[Record]:
    """One record for each expected quantity of each case of the files that are there."""
    for file, cases in truth_memory.CASES.items():
        path = folder / file
        if not path.is_file():
            continue
        for name, document, expected in cases(json.loads(path.read_text("utf-8"))):
            for quantity, want in expected.items():
                record = {"source": f"{file} {quantity}", "id": name, "quantity": quantity}
                yield {**record, **_compared(document, quantity, want)}


def _compared(document: Mapping[str, Any], quantity: str, want: Any) -> Record:
    try:
        got = value_of(document, quantity)
    except (PlanError, Absent) as problem:
        return {"left_out": str(problem)}
    if isinstance(want, str):
        got = truth_memory.PHASES.get(got, got)
        return {"expected": want, "predicted": got, "error": 0 if got == want else 1}
    error = Fraction(got) / Fraction(want) - 1
    plain = int(got) if Fraction(got).denominator == 1 else float(got)
    return {"expected": want, "predicted": plain, "error": float(error)}


def runs(file: Path) -> Iterator[Record]:
    """One record for each row that reads memory and is meant to be used."""
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["measured_quantity"] in runs_memory.QUANTITIES and row["use"] != "no":
                record = {"source": runs_memory.source(row), "id": row["id"]}
                yield {**record, "runs": runs_memory.name(row), **_measured(row)}


def _measured(row: Mapping[str, str]) -> Record:
    """What a row should read: the middle of what its open choices allow, and their reach."""
    quantity = ""
    try:
        quantity = runs_memory.reading(row)
        values, moments = [], set()
        for document in runs_memory.documents(row):
            evaluation = evaluated(document)
            values.append(runs_memory.read(evaluation, quantity, row))
            moments.add(evaluation.value("memory.phase"))
    except (PlanError, Absent, runs_memory.LeftOut) as problem:
        return {"quantity": quantity, "left_out": str(problem)}
    low, high, want = float(min(values)), float(max(values)), float(row["value"])
    middle = (low + high) / 2
    return {
        "quantity": quantity,
        "expected": want,
        "predicted": middle,
        "range": [low, high],
        "error": middle / want - 1,
        "moment": sorted(map(str, moments)),
        "largest": largest_tensors(evaluation),
    }


def largest_tensors(evaluation: Evaluation) -> list[str]:
    """The five largest kept or temporary tensors at the peak, of all layers and micro-batches."""
    stages = evaluation.case.axes["stage"]
    stage = max(stages, key=lambda entry: evaluation.value("memory.peak", {"stage": entry}))
    sizes = []
    for entry in evaluation.case.axes["tensor"]:
        point = widen({"tensor": entry})
        alive = evaluation.case.crossed[notation.A_ks, stage, point["part"]]
        bytes_ = evaluation.value("memory.tensor", {"tensor": entry})
        kept = entry.settings["moment"] == "kept"
        sizes.append((float(bytes_) * (alive if kept else min(1, alive)), entry.path))
    return [f"{name}: {size / 2**30:.3f} GiB" for size, name in sorted(sizes, reverse=True)[:5]]


HEADING = ["source", "cases", "exact", "mean", "median", "p90", "worst", "bias", "left out"]
BEGIN, END = "<!-- memory: begin -->", "<!-- memory: end -->"


def lines(records: list[Record]) -> list[list[str]]:
    """Agreement by source: cases, exact ones, and the spread of the relative error."""
    sources: dict[str, list[Record]] = {}
    for record in records:
        sources.setdefault(record["source"], []).append(record)
    return [HEADING, *(_line(source, rows) for source, rows in sources.items())]


def _line(source: str, rows: list[Record]) -> list[str]:
    errors = [row["error"] for row in rows if "error" in row]
    left = str(len(rows) - len(errors))
    if not errors:
        return [source, "0", *[""] * 6, left]
    size = sorted(abs(error) for error in errors)
    count = len(size)
    spread = [
        sum(size) / count,
        median(size),
        size[min(count - 1, int(0.9 * count))],
        size[-1],
        sum(errors) / count,
    ]
    cells = [f"{100 * value:.3f} %" for value in spread]
    return [source, str(count), str(size.count(0)), *cells, left]


def text(cells: list[list[str]]) -> str:
    """The table for a terminal."""
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADING))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def markdown(cells: list[list[str]]) -> str:
    """The table for a page."""
    rows = ["| " + " | ".join(line) + " |" for line in cells]
    return "\n".join([rows[0], "|---" + "|--:" * (len(HEADING) - 1) + "|", *rows[1:]])


def rewritten(page: str, table: str) -> str:
    """A page with the table between its markers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


#: Estimates that carry an interval, each with the readings of an allocator or a driver it rests on.
READINGS = {
    "memory.total": ("memory.total", "memory.peak"),
    "memory.reserved": ("memory.reserved",),
    "memory.process": ("memory.process",),
}


def bands(records: list[Record]) -> str:
    """The intervals of estimates, and what counts by other software agree with, as a document."""
    lines = [
        "# Measured over predicted memory on published runs, less 1: 5th and 95th percentile,",
        "# each source with the same weight; and how many counts of other software are the same.",
        "# Written by benchmarks.memory_accuracy --bands.",
        "measured:",
    ]
    for quantity, readings in READINGS.items():
        found: dict[str, list[float]] = {}
        for record in records:
            if "runs" in record and "error" in record and record["quantity"] in readings:
                found.setdefault(record["runs"], []).append(1 / (1 + record["error"]))
        if found:
            low, high = (quantile(list(found.values()), share) - 1 for share in (0.05, 0.95))
            lines.append(
                f"  - {{quantity: {quantity}, low: {low:.3f}, high: {high:.3f}, "
                f"rows: {sum(map(len, found.values()))}, sources: {json.dumps(sorted(found))}}}"
            )
    lines.append("counted:")
    counts: dict[str, list[float]] = {}
    for record in records:
        if "runs" not in record and "error" in record:
            counts.setdefault(record["quantity"], []).append(abs(record["error"]))
    lines += [
        f"  - {{quantity: {quantity}, cases: {len(errors)}, exact: {errors.count(0)}, "
        f"worst: {_upward(max(errors))}}}"
        for quantity, errors in counts.items()
    ]
    return "\n".join(lines) + "\n"


def _upward(error: float) -> str:
    """A share rounded up to a thousandth of a per cent."""
    return f"{math.ceil(error * 1e5) / 1e5:.5f}" if error else "0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", type=Path, help="folder with activations.json and so on")
    parser.add_argument("--runs", type=Path, help="CSV file of measured runs")
    parser.add_argument("--json", type=Path, help="write every comparison to this file")
    parser.add_argument("--markdown", type=Path, help="page whose table is rewritten")
    parser.add_argument("--bands", type=Path, help="document of intervals that is rewritten")
    options = parser.parse_args()
    records: list[Record] = []
    if options.truth:
        records += truth(options.truth)
    if options.runs:
        records += runs(options.runs)
    print(text(lines(records)))
    if options.markdown:
        page = options.markdown.read_text("utf-8")
        options.markdown.write_text(rewritten(page, markdown(lines(records))), "utf-8")
    if options.bands:
        options.bands.write_text(bands(records), "utf-8")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
