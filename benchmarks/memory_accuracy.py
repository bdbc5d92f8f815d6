"""How well the memory model agrees with what was counted and measured.

``python -m benchmarks.memory_accuracy --truth DIR --runs FILE [--json FILE]`` evaluates an ordinary
plan document for each case and measured value, and prints the agreement by source.
``--markdown FILE`` rewrites the table between the markers of a page (docs/accuracy.md), ``--bands
FILE`` the intervals that estimates of memory carry.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks import measured, spread, tables, truth_memory
from benchmarks.tables import Record
from planner.base.errors import PlanError
from planner.book import notation
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation, widen
from planner.plans import error_bands
from planner.questions import loading
from planner.results.verdict import FITS, SURE, VERDICTS, decide_state

#: Estimates that carry an interval, each with the readings of an allocator or a driver it rests on.
READINGS = {
    "memory.total": ("memory.total", "memory.peak[0]"),
    "memory.reserved": ("memory.reserved",),
    "memory.process": ("memory.process",),
}


def evaluated(document: Mapping[str, Any]) -> Evaluation:
    """An evaluation of a plan document."""
    return Evaluation(case.build(loading.load(document)))


def value_of(document: Mapping[str, Any], quantity: str) -> Any:
    """One quantity of a plan document; of a quantity per stage, that of the largest stage."""
    return _value(evaluated(document), quantity)


def _value(evaluation: Evaluation, quantity: str) -> Any:
    if BOOK.quantities[quantity].per == ("stage",):
        stages = evaluation.case.entries("stage")
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


def runs(*files: Path) -> list[Record]:
    """One record for each measured value that reads memory."""
    rows = [row for row in measured.read(*files) if row.quantity.startswith("memory.")]
    records = measured.compare(rows, more=details)
    for row, record in zip(rows, records, strict=True):
        record["runs"] = row.source
        record["source"] = f"{row.group} {row.quantity}"
        record.setdefault("held", "unknown")
    return records


def held(evaluation: Evaluation) -> str:
    """What a run holds, as the intervals tell it apart."""
    return error_bands.classify_memory(evaluation.case.settings.get)


def verdicts(*files: Path) -> list[Record]:
    """Whether each run ran and the planner's verdict, which is "open" where it depends on a key
    that the report leaves open. A run of which an allocator or a driver was read ran; what a paper
    works out need not have."""
    plans, found = measured.Plans(), {}
    read = {"verdict"}.union(*READINGS.values())
    for row in measured.read(*files):
        if row.quantity not in read:
            continue
        record: Record = {"id": row.id, "run": row.run, "held": "unknown"}
        try:
            allowed = plans.allowed(row)
            record["held"], states = held(allowed[0]), set(map(_decide_state, allowed))
            record["ran"] = row.value > 0
            decided = states == {"no"} or "no" not in states
            record["state"] = next(one for one in VERDICTS if one in states) if decided else "open"
        except (Absent, measured.LeftOut) as problem:
            record["left_out"] = str(problem)
        found[row.run] = record
    return list(found.values())


def _decide_state(evaluation: Evaluation) -> str:
    fits, safe = (bool(evaluation.value(name) >= 0) for name in (FITS, SURE))
    return decide_state(fits, True, safe)


def decided(records: Iterable[Record]) -> list[list[str]]:
    """By what is held: how many ran and how many ran out of memory, by verdict."""
    columns = [(ran, state) for ran in (True, False) for state in VERDICTS]
    words = {True: "ran", False: "out of memory"}
    lines = [["held", *(f"{words[ran]}: {state}" for ran, state in columns), "left out"]]
    for name, rows in tables.grouped(records, "held").items():
        found = Counter((row.get("ran"), row.get("state")) for row in rows)
        lines.append([name, *(str(found[column]) for column in (*columns, (None, None)))])
    return lines


def details(evaluation: Evaluation) -> Record:
    """The moment of the peak and its largest tensors."""
    return {
        "held": held(evaluation),
        "moment": str(evaluation.value("memory.phase")),
        "largest": largest_tensors(evaluation),
    }


def largest_tensors(evaluation: Evaluation) -> list[str]:
    """The five largest kept or temporary tensors at the peak, of all layers and micro-batches."""
    stages = evaluation.case.entries("stage")
    stage = max(stages, key=lambda entry: evaluation.value("memory.peak", {"stage": entry}))
    sizes = []
    for entry in evaluation.case.entries("tensor"):
        point = widen({"tensor": entry})
        alive = evaluation.case.pair_values[notation.in_flight, stage, point["part"]]
        bytes_ = evaluation.value("memory.tensor", {"tensor": entry})
        kept = entry.settings["moment"] == "kept"
        sizes.append((float(bytes_) * (alive if kept else min(1, alive)), entry.path))
    return [f"{name}: {size / 2**30:.3f} GiB" for size, name in sorted(sizes, reverse=True)[:5]]


HEADING = ["source", "cases", "exact", "mean", "median", "p90", "worst", "bias"]
HEADING += ["in the interval", "left out"]
MARK = "memory"


def lines(records: list[Record], by: str = "source") -> list[list[str]]:
    """Agreement by source: cases, exact ones, and the spread of the relative error."""
    return [[by, *HEADING[1:]], *(_line(*group) for group in tables.grouped(records, by).items())]


def _line(source: str, rows: Sequence[Record]) -> list[str]:
    counted = tables.judged(rows)
    errors = [row["error"] for row in counted]
    left = str(sum("left_out" in row for row in rows))
    if not errors:
        return [source, "0", *[""] * 7, left]
    cells = [f"{100 * value:.3f} %" for value in tables.spread(errors)]
    within = tables.covered(counted)
    inside = str(sum(within)) if within else ""
    return [source, str(len(errors)), str(errors.count(0)), *cells, inside, left]


def ratios(records: Iterable[Record]) -> spread.Ratios:
    """Log of measured over predicted bytes, by reading, what is held, and source."""
    found: dict[spread.Kind, dict[str, list[float]]] = {}
    for record in tables.judged(records):
        for quantity, readings in READINGS.items():
            if "runs" in record and record["quantity"] in readings:
                groups = found.setdefault((quantity, record["held"]), {})
                groups.setdefault(record["runs"], []).append(-math.log1p(record["error"]))
    return found


def bands(records: list[Record]) -> str:
    """The intervals of estimates, and what counts by other software agree with, as a document."""
    lines = [
        "# Measured over predicted memory on published runs, less 1: 5th and 95th percentile of a",
        "# new source, by the rule of benchmarks/spread.py; and how many counts of other software",
        "# are the same. Written by benchmarks.memory_accuracy --bands.",
        "measured:",
    ]
    found = ratios(records)
    asked = [
        (quantity, held) for quantity in READINGS for held in (*error_bands.HELD, error_bands.REST)
    ]
    for (quantity, held), band in sorted(spread.intervals(found, asked).items()):
        names = sorted(found.get((quantity, held), ()))
        lines.append(
            f"  - {{quantity: {quantity}, holds: {held}, "
            f"low: {band.low:.3f}, high: {band.high:.3f}, "
            f"rows: {band.rows}, sources: {json.dumps(names)}}}"
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
    parser = tables.make_parser(__doc__, needs=False)
    parser.add_argument("--truth", type=Path, help="folder with activations.json and so on")
    parser.add_argument("--bands", type=Path, help="document of intervals that is rewritten")
    options = parser.parse_args()
    records = [*(truth(options.truth) if options.truth else ()), *runs(*options.runs)]
    tables.publish(options, MARK, lines(records), records)
    if options.runs:
        read = [record for record in records if "held" in record]
        print("", tables.text(lines(read, "held")), "", sep="\n")
        print(tables.text(decided(verdicts(*options.runs))))
    if options.bands:
        options.bands.write_text(bands(records), "utf-8")


if __name__ == "__main__":
    main()
