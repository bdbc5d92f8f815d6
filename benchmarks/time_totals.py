"""How well predicted time agrees with published runs of the largest models, to which no constant is
fitted.

``python -m benchmarks.time_totals --totals FILE`` evaluates the plans of the file and prints
published and predicted figures; ``--markdown FILE`` rewrites the table between the markers of a
page (docs/accuracy.md). Where a source leaves part of its layout open, the prediction is a range.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from planner import case, plan
from planner.evaluate import Evaluation

BEGIN, END = "<!-- totals: begin -->", "<!-- totals: end -->"
UNITS = {
    "time.step_seconds": "s",
    "time.tflops_per_device": "TFLOP/s",
    "time.device_hours": "device hours",
}


class Total(NamedTuple):
    """A published figure and what the book says of it, for each layout that its source allows."""

    run: str
    source: str
    quantity: str
    published: float
    predicted: list[float]

    def slower(self, value: float) -> float:
        """Predicted time over published time, less 1."""
        rate = self.quantity == "time.tflops_per_device"
        return (self.published / value if rate else value / self.published) - 1

    def errors(self) -> list[float]:
        """Of predicted time, smallest first."""
        return sorted(self.slower(value) for value in self.predicted)


def changed(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A plan document with some of its keys replaced."""
    made = deepcopy(dict(document))
    for key, value in change.items():
        inner = isinstance(value, Mapping) and isinstance(made.get(key), Mapping)
        made[key] = changed(made[key], value) if inner else value
    return made


def totals(file: Path) -> Iterator[Total]:
    """Every run of the file."""
    for row in yaml.safe_load(file.read_text("utf-8")):
        first = changed(row["plan"], row.get("change", {}))
        layouts = [first, *(changed(first, other) for other in row.get("or", ()))]
        values = [
            float(Evaluation(case.build(plan.load(layout))).value(row["quantity"]))
            for layout in layouts
        ]
        yield Total(row["run"], row["source"], row["quantity"], float(row["published"]), values)


def table(found: list[Total]) -> str:
    """Published and predicted figures, and how much longer than published the prediction is."""
    lines = ["| run | published | predicted | predicted time |", "|---|--:|--:|--:|"]
    for total in found:
        unit = UNITS[total.quantity]
        digits = 1 if max(total.published, *total.predicted) < 100 else 0
        values = _range([f"{value:,.{digits}f}" for value in sorted(total.predicted)])
        errors = _range([_percent(error) for error in total.errors()])
        source = "" if total.source == "the same" else f" ({total.source})"
        lines.append(
            f"| {total.run}{source} | {total.published:,.{digits}f} {unit} "
            f"| {values} {unit} | {errors} |"
        )
    return "\n".join(lines)


def _range(shown: list[str]) -> str:
    """The first and the last, once where they are alike."""
    return " to ".join(dict.fromkeys((shown[0], shown[-1])))


def _percent(error: float) -> str:
    return f"{round(100 * error):+d} %" if round(100 * error) else "0 %"


def rewritten(page: str, text: str) -> str:
    """The page with the table between its markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--totals", type=Path, required=True, help="YAML file of published runs")
    parser.add_argument("--markdown", type=Path, help="page whose table is rewritten")
    options = parser.parse_args()
    text = table(list(totals(options.totals)))
    print(text)
    if options.markdown:
        page = options.markdown.read_text("utf-8")
        options.markdown.write_text(rewritten(page, text), "utf-8")


if __name__ == "__main__":
    main()
