"""Runs that are predicted before their measured values are read.

    python -m benchmarks.predicted --runs FILE --write PREDICTIONS
    python -m benchmarks.predicted --runs FILE --score PREDICTIONS [--markdown PAGE] [--name NAME]

The rows of ``--runs`` (``benchmarks.measured``) are written from what a source says of its
settings, their ``value`` null. ``--write`` predicts them, one line each; the file is committed,
its SHA-256 in docs/accuracy/runs.md. Then the values are read and written into the rows.
``--score`` compares them with the committed predictions, never with new ones, and refuses a row
whose plan is not the one that was predicted. ``--markdown PAGE`` rewrites the tables by source and
by run, between markers that begin with ``--name`` ("predicted").
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import measured, tables, time_accuracy, time_totals
from benchmarks.measured import Row
from benchmarks.tables import Record


def digest(row: Row) -> str:
    """SHA-256 of what a prediction rests on: the plan, the keys left open, how it is counted."""
    rests_on = [row.quantity, row.unit, row.plan, list(row.unstated), row.convention]
    return hashlib.sha256(json.dumps(rests_on, sort_keys=True).encode()).hexdigest()


def predict(rows: Iterable[Row]) -> list[Record]:
    """What each row should read, with its interval; or why it cannot be said."""
    rows = list(rows)
    kept = ("quantity", "predicted", "interval", "range", "left_out")
    return [
        {"id": row.id, "unit": row.unit, "plan": digest(row)}
        | {key: record[key] for key in kept if key in record}
        for row, record in zip(rows, measured.compare(rows), strict=True)
    ]


def score(rows: Iterable[Row], predictions: Iterable[Mapping[str, object]]) -> list[Record]:
    """Records as ``benchmarks.measured`` gives them, of the predictions that were committed.

    Raises:
        SystemExit: a row was not predicted, or its plan has changed since.
    """
    made = {prediction["id"]: prediction for prediction in predictions}
    records: list[Record] = []
    for row in rows:
        if row.id not in made:
            raise SystemExit(f"{row.id}: it was not predicted")
        prediction = dict(made[row.id])
        # A reading of memory has its value in bytes.
        asked = row._replace(unit=str(prediction["unit"]))
        if prediction.pop("plan") != digest(asked):
            raise SystemExit(f"{row.id}: its plan is not the one that was predicted")
        record: Record = {
            **prediction,
            **{"run": row.run, "source": row.source, "kind": row.kind, "group": row.group},
            "expected": row.value,
        }
        if "predicted" in record:
            record["error"] = measured.slower(row.quantity, row.value, record["predicted"])
        records.append(record)
    return records


def read(file: Path) -> list[Record]:
    """The predictions of a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def pages(name: str, rows: Sequence[Row], records: Sequence[Record]) -> dict[str, str]:
    """What stands between the markers of docs/accuracy/runs.md that begin with a name."""
    return {
        f"{name} sources": tables.markdown(time_accuracy.lines(records)),
        f"{name} runs": tables.markdown(time_totals.lines(rows, records)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="rows with plans (.jsonl)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="predict them into this file")
    parser.add_argument("--score", type=Path, metavar="FILE", help="committed predictions")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="a page to rewrite")
    parser.add_argument("--name", default="predicted", help="of the page's tables")
    options = parser.parse_args()
    rows = list(measured.read(options.runs))
    if options.write:
        text = "".join(json.dumps(line) + "\n" for line in predict(rows))
        options.write.write_text(text, "utf-8")
        print(f"{hashlib.sha256(text.encode()).hexdigest()}  {options.write}")
    if options.score:
        records = score(rows, read(options.score))
        print(tables.text(time_accuracy.lines(records)), time_accuracy.reasons(records), sep="\n")
        if options.markdown:
            tables.rewrite(options.markdown, pages(options.name, rows, records))


if __name__ == "__main__":
    main()
