"""How well predicted time agrees with published runs that no constant is fitted to.

``python -m benchmarks.time_totals --totals FILE`` evaluates the plans of the file and prints
published and predicted figures; ``--markdown FILE`` rewrites the table between the markers of a
page (docs/accuracy.md). Where a source leaves part of its layout open, the prediction is a range.
Whole tables of other laboratories are read the same way (``benchmarks.time_bands``).
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml

from planner import bands, case, plan
from planner.evaluate import Evaluation

#: Names of the tables' markers in a page.
TOTALS, SOURCES, RUNS = "totals", "held-out sources", "held-out runs"
UNITS = {
    "time.step_seconds": "s",
    "time.tflops_per_device": "TFLOP/s",
    "time.tokens_per_second_per_device": "tokens/s",
    "time.device_hours": "device hours",
}
#: Generation of the accelerator, whether the model has experts, and the scale: node or nodes.
Kind = tuple[str, bool, str]
#: What a row takes from the one before it where it does not say.
INHERITED = ("source", "table", "address", "quantity")


class Total(NamedTuple):
    """A published figure and what the book says of it, for each layout that its source allows."""

    run: str
    source: str
    quantity: str
    published: float
    predicted: tuple[float, ...]
    kind: Kind
    table: str = ""
    address: str = ""

    def slower(self, value: float) -> float:
        """Predicted time over published time, less 1."""
        rate = self.quantity in bands.SHORTER
        return (self.published / value if rate else value / self.published) - 1

    def errors(self) -> list[float]:
        """Of predicted time, smallest first."""
        return sorted(self.slower(value) for value in self.predicted)

    def error(self) -> float:
        """Of the middle of the layouts that the source leaves open."""
        errors = self.errors()
        return (errors[0] + errors[-1]) / 2

    def ratio(self) -> float:
        """Published time over predicted time."""
        return 1 / (1 + self.error())


def changed(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A plan document with some of its keys replaced."""
    made = deepcopy(dict(document))
    for key, value in change.items():
        inner = isinstance(value, Mapping) and isinstance(made.get(key), Mapping)
        made[key] = changed(made[key], value) if inner else value
    return made


def totals(file: Path) -> Iterator[Total]:
    """Every run of the file."""
    above: dict[str, Any] = {}
    for own in yaml.safe_load(file.read_text("utf-8")):
        row = above | own
        above = {key: row[key] for key in INHERITED if key in row}
        first = changed(row["plan"], row.get("change", {}))
        layouts = [first, *(changed(first, other) for other in row.get("or", ()))]
        found = [Evaluation(case.build(plan.load(layout))) for layout in layouts]
        settings = found[0].case.settings
        yield Total(
            row["run"],
            row["source"],
            row["quantity"],
            float(row["published"]),
            tuple(float(evaluation.value(row["quantity"])) for evaluation in found),
            (
                str(settings["cluster.accelerator.architecture"]),
                bool(settings.get("experts")),
                str(settings["time.scale"]),
            ),
            row.get("table", ""),
            row.get("address", ""),
        )


def table(found: list[Total]) -> str:
    """Published and predicted figures, and how much longer than published the prediction is."""
    lines = ["| run | published | predicted | predicted time |", "|---|--:|--:|--:|"]
    for total in found:
        source = "" if total.source == "the same" else f" ({total.source})"
        lines.append(_line(total, f"{total.run}{source}"))
    return "\n".join(lines)


def _line(total: Total, run: str) -> str:
    unit = UNITS[total.quantity]
    digits = 1 if max(total.published, *total.predicted) < 100 else 0
    values = _range([f"{value:,.{digits}f}" for value in sorted(total.predicted)])
    errors = _range([_percent(error) for error in total.errors()])
    return f"| {run} | {total.published:,.{digits}f} {unit} | {values} {unit} | {errors} |"


def runs(found: list[Total], inside: Collection[Total]) -> str:
    """As ``table``, under the name of each source and of each of its tables."""
    lines = ["| run | published | predicted | predicted time |", "|---|--:|--:|--:|"]
    above = ""
    for total in found:
        if total.table != above:
            lines.append(f"| **[{total.source}]({total.address})**: {total.table} | | | |")
            above = total.table
        lines.append(_line(total, total.run + ("" if total in inside else " (outside)")))
    return "\n".join(lines)


def sources(found: list[Total], inside: Collection[Total]) -> str:
    """How predicted time agrees with published time by source, and how many runs lie in the
    interval that other sources give."""
    lines = [
        "| source | runs | mean | median | worst | bias | in the interval of others |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[str, list[Total]] = {}
    for total in found:
        groups.setdefault(total.source, []).append(total)
    for source, group in (*groups.items(), ("all", found)):
        errors = [total.error() for total in group]
        sizes = [abs(error) for error in errors]
        figures = (sum(sizes) / len(sizes), median(sizes), max(sizes))
        bias = sum(errors) / len(errors)
        shown = " | ".join(f"{100 * figure:.0f} %" for figure in figures)
        within = sum(total in inside for total in group)
        lines.append(f"| {source} | {len(group)} | {shown} | {_percent(bias)} | {within} |")
    return "\n".join(lines)


def _range(shown: list[str]) -> str:
    """The first and the last, once where they are alike."""
    return " to ".join(dict.fromkeys((shown[0], shown[-1])))


def _percent(error: float) -> str:
    return f"{round(100 * error):+d} %" if round(100 * error) else "0 %"


def rewritten(page: str, text: str, name: str = TOTALS) -> str:
    """The page with the table between the markers of that name."""
    begin, end = (f"<!-- {name}: {side} -->" for side in ("begin", "end"))
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--totals", type=Path, required=True, help="YAML file of the largest runs")
    parser.add_argument("--markdown", type=Path, help="page whose table is rewritten")
    options = parser.parse_args()
    text = table(list(totals(options.totals)))
    print(text)
    if options.markdown:
        page = options.markdown.read_text("utf-8")
        options.markdown.write_text(rewritten(page, text), "utf-8")


if __name__ == "__main__":
    main()
