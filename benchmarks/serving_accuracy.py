"""Serving by roofline beside published measurements: `python -m benchmarks.serving_accuracy`.

Each row of the file becomes an ordinary plan made from its own columns; no constant is fitted to
these rows. A whole answer is compared: the first token and all further ones. ``--markdown FILE``
rewrites the table between the markers of a page (docs/accuracy.md).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading

RUNS = Path("tests/data/serving_runs.csv")
BEGIN, END = "<!-- serving: begin -->", "<!-- serving: end -->"


class Row(NamedTuple):
    """One measurement and its prediction, in the measured unit."""

    run: Mapping[str, str]
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        """Predicted over measured speed: above 1 the roofline is faster than the run was."""
        faster = self.predicted / self.measured
        return 1 / faster if self.run["quantity"] == "seconds" else faster


def document(run: Mapping[str, str]) -> dict[str, Any]:
    """The plan of a row."""
    tensor = int(run["tensor"])
    return {
        "model": run["model"],
        "cluster": {"accelerator": run["accelerator"], "devices": tensor, "devices_per_node": 8},
        "training": {
            "mode": "inference",
            "sequence_length": int(run["prompt"]),
            "output_tokens": int(run["output"]),
            "micro_batch": int(run["batch"]),
            "precision": run["precision"],
            "bytes": {
                "weight": Fraction(run["weight_bytes"]),
                "cache": Fraction(run["cache_bytes"]),
            },
        },
        "parallelism": {"tensor": tensor, "expert_tensor": int(run["expert_tensor"])},
    }


def compared(runs: Path) -> Iterator[Row]:
    """Every row of a file with its prediction."""
    with runs.open(encoding="utf-8", newline="") as file:
        for run in csv.DictReader(file):
            evaluation = Evaluation(case.build(loading.load(document(run))))
            seconds = float(evaluation.value("time.latency_seconds"))
            tokens = int(run["batch"]) * int(run["output"])
            predicted = seconds if run["quantity"] == "seconds" else tokens / seconds
            yield Row(run, float(run["value"]), predicted)


def table(rows: Sequence[Row]) -> str:
    """The rows, then each source's mean ratio, in Markdown."""
    lines = [
        "| source | model | devices | batch | prompt + answer | bytes of a weight | measured "
        "| predicted | predicted speed over measured |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        run, unit = row.run, "s" if row.run["quantity"] == "seconds" else "tokens/s"
        lines.append(
            f"| {run['source']} | {run['model']} | {run['tensor']} {run['accelerator']} "
            f"| {run['batch']} | {run['prompt']} + {run['output']} | {run['weight_bytes']} "
            f"| {row.measured:.4g} {unit} | {row.predicted:.4g} {unit} | {row.ratio:.2f} |"
        )
    lines.append("")
    for source in dict.fromkeys(row.run["source"] for row in rows):
        own = [row for row in rows if row.run["source"] == source]
        off = fmean(abs(row.ratio - 1) for row in own)
        lines.append(
            f"- {source}: {len(own)} rows, predicted speed over measured "
            f"{fmean(row.ratio for row in own):.2f} on average, {off:.0%} off."
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.serving_accuracy", description=__doc__)
    parser.add_argument("--runs", type=Path, default=RUNS, help="measured rows (CSV)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every row")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="a page to rewrite")
    options = parser.parse_args(arguments)
    rows = list(compared(options.runs))
    if options.json:
        data = [{**row.run, "predicted": row.predicted, "ratio": row.ratio} for row in rows]
        options.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        page = options.markdown.read_text("utf-8")
        before, _, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        text = f"{before}{BEGIN}\n{table(rows)}{END}{after}"
        options.markdown.write_text(text, encoding="utf-8")
    print(table(rows), end="")


if __name__ == "__main__":
    main()
