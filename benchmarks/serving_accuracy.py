"""Serving by roofline beside published measurements: `python -m benchmarks.serving_accuracy`.

Each row of the file (``benchmarks.measured``) is a whole answer or one further token of it.
``--markdown FILE`` rewrites the table between the markers of a page (docs/accuracy/runs.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from benchmarks import measured, tables
from benchmarks.measured import Row
from benchmarks.tables import Record

RUNS = Path("tests/data/serving_runs.jsonl")
MARK = "serving"
HEADS = (
    *("source", "model", "devices", "batch", "prompt + answer", "bytes of a weight"),
    *("measured", "predicted", "predicted speed over measured"),
)


def speed(record: Record) -> float:
    """Predicted over measured speed: above 1 the roofline is faster than the run was."""
    return 1 / (1 + float(record["error"]))


def lines(rows: Sequence[Row], records: Sequence[Record]) -> list[tuple[str, ...]]:
    """A line for each row, in output tokens/s."""
    table: list[tuple[str, ...]] = [HEADS]
    for row, record in zip(rows, records, strict=True):
        cluster, run = row.plan["cluster"], row.plan["training"]
        answer = row.quantity == "time.latency_seconds"
        tokens = run["micro_batch"] * (run["output_tokens"] if answer else 1)
        table.append(
            (
                row.source,
                str(row.plan["model"]["extends"]),
                f"{cluster['devices']} {cluster['accelerator']}",
                str(run["micro_batch"]),
                f"{run['sequence_length']} + {run['output_tokens']}",
                str(run["bytes"]["weight"]),
                *(f"{tokens / record[key]:.4g} tokens/s" for key in ("expected", "predicted")),
                f"{speed(record):.2f}",
            )
        )
    return table


def means(records: Sequence[Record]) -> str:
    """Each source's mean ratio and median error."""
    said = []
    for source, group in tables.grouped(records, "source").items():
        ratios = [speed(record) for record in group]
        off = median(abs(ratio - 1) for ratio in ratios)
        said.append(
            f"- {source}: {len(group)} rows, predicted speed over measured {fmean(ratios):.2f} on "
            f"average, median error {off:.0%}."
        )
    return "\n".join(said)


def main() -> None:
    parser = tables.make_parser(__doc__, needs=False)
    options = parser.parse_args()
    rows, records = measured.pair(*options.runs or [RUNS])
    tables.publish(options, MARK, lines(rows, records), records, means(records))


if __name__ == "__main__":
    main()
