"""Published and predicted speed of single runs, each in its own line.

``python -m benchmarks.time_totals --runs FILE`` evaluates the plan of each measured value
(``benchmarks.measured``) and prints published and predicted figures under the name of their source
and table; ``--markdown PAGE --name NAME`` rewrites what stands between the markers of that name
(docs/accuracy/runs.md). Where a source leaves part of its layout open, the prediction is a range.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import measured, tables
from benchmarks.measured import Row
from benchmarks.tables import Record

UNITS = {
    "time.step_seconds": "s",
    "time.tflops_per_device": "TFLOP/s",
    "time.tokens_per_second_per_device": "tokens/s",
    "time.device_hours": "GPU hours",
}
HEADS = ("run", "published", "predicted", "predicted time")


def lines(rows: Sequence[Row], records: Sequence[Record]) -> list[tuple[str, ...]]:
    """Published and predicted figures, and how much longer than published the prediction is; a
    line ahead of the first of each source and table."""
    table: list[tuple[str, ...]] = [HEADS]
    above = ("", "")
    for row, record in zip(rows, records, strict=True):
        if (row.source, row.publication) != above:
            above = (row.source, row.publication)
            table.append((f"**[{row.source}]({row.url})**: {row.publication}", "", "", ""))
        table.append(_line(row, record))
    return table


def _line(row: Row, record: Record) -> tuple[str, ...]:
    if "error" not in record:
        return (row.title, "", "", record["left_out"])
    unit, reach = UNITS.get(row.quantity, "s"), sorted(reached(record))
    digits = 1 if max(row.value, *reach) < 100 else 0
    values = _range([f"{value:,.{digits}f}" for value in reach])
    errors = _range([percent(error) for error in errors_of(record)])
    return (row.title, f"{row.value:,.{digits}f} {unit}", f"{values} {unit}", errors)


def reached(record: Record) -> list[float]:
    """The predictions of what a source leaves open: smallest and largest."""
    return list(record.get("range", [record["predicted"]]))


def errors_of(record: Record) -> list[float]:
    """Predicted over published time, less 1: smallest and largest."""
    return sorted(
        measured.slower(record["quantity"], record["expected"], value) for value in reached(record)
    )


def _range(shown: list[str]) -> str:
    """The first and the last, once where they are alike."""
    return " to ".join(dict.fromkeys((shown[0], shown[-1])))


def percent(error: float) -> str:
    return f"{round(100 * error):+d} %" if round(100 * error) else "0 %"


def main() -> None:
    parser = tables.make_parser(__doc__)
    parser.add_argument("--name", default="largest runs", help="of the markers in the page")
    options = parser.parse_args()
    rows, records = measured.pair(*options.runs)
    tables.publish(options, options.name, lines(rows, records), records)


if __name__ == "__main__":
    main()
