"""How well predicted time agrees with published runs.

``python -m benchmarks.time_accuracy --runs FILE [--json FILE]`` evaluates an ordinary plan document
for each row, made from its own columns, and prints the agreement by source: rows, mean, median,
90th percentile, worst, bias (of the quantity that was measured). Rows marked `offset` are judged
after the median ratio of their source is removed. ``--markdown FILE`` rewrites the table between
the markers of a page (docs/accuracy.md). The intervals that predictions carry come of the same
comparisons (``benchmarks.time_bands``).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import runs_time
from benchmarks.runs_memory import LeftOut
from planner import case, plan
from planner.errors import PlanError
from planner.evaluate import Absent, Evaluation

Record = dict[str, Any]
BEGIN, END = "<!-- time: begin -->", "<!-- time: end -->"


def rows(file: Path) -> Iterator[Mapping[str, str]]:
    """The rows that measure speed and are meant to be used."""
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["measured_quantity"] in runs_time.QUANTITIES and row["use"] in ("yes", "offset"):
                yield row


class Plans:
    """Evaluations by document: the rows of one run share theirs."""

    def __init__(self) -> None:
        self.found: dict[str, Evaluation | str] = {}

    def evaluation(self, document: Mapping[str, Any]) -> Evaluation:
        """Raises LeftOut where the document is no valid plan."""
        key = json.dumps(document, sort_keys=True)
        if key not in self.found:
            try:
                self.found[key] = Evaluation(case.build(plan.load(document)))
            except PlanError as problem:
                self.found[key] = str(problem).partition(": ")[2] or str(problem)
        found = self.found[key]
        if isinstance(found, str):
            raise LeftOut(found)
        return found


def predicted(row: Mapping[str, str], evaluation: Evaluation) -> float:
    """What the row should read, by its source's convention."""
    quantity = row["measured_quantity"]
    step = float(evaluation.value("time.step_seconds"))
    if quantity == "step_time_s":
        return step
    rate = float(evaluation.value("time.tokens_per_second_per_device"))
    if quantity == "tokens_per_s_per_gpu":
        return rate
    if quantity in ("train_days", "total_train_gpu_hours"):
        return float(evaluation.value(runs_time.QUANTITIES[quantity]))
    values = {
        "token": evaluation.value("compute.flops_per_token"),
        "executed": evaluation.value("compute.executed_flops_per_token"),
        "parameters": evaluation.value("parameters.total"),
        "megatron": megatron(evaluation),
    }
    flops = rate * float(runs_time.convention(row, values))
    if quantity == "tflops_per_gpu":
        return flops / 1e12
    peak = runs_time.peak(row) or float(evaluation.value("time.peak"))
    return 100 * flops / peak


def megatron(evaluation: Evaluation) -> float:
    """FLOPs of one token by Megatron's formula: layers run forward twice, the head once."""
    parts = evaluation.case.axes["part"]
    if isinstance(parts, Absent):
        raise parts
    total = 0.0
    for part in parts:
        flops = float(evaluation.value("compute.layer", {"part": part}))
        count = float(evaluation.symbol(_layers(), {"part": part}))
        total += (4 if part.settings["layers"] else 3) * flops * count
    return total


def _layers() -> Any:
    from planner.notation import L_k

    return L_k


def compare(file: Path) -> list[Record]:
    """One record for each row: expected, predicted and error, or why it was left out."""
    plans, records = Plans(), []
    for row in rows(file):
        record: Record = {
            "source": runs_time.source(row),
            "id": row["id"],
            "quantity": runs_time.QUANTITIES[row["measured_quantity"]],
        }
        try:
            evaluation = plans.evaluation(runs_time.document(row))
            record["scale"] = evaluation.case.settings["time.scale"]
            record["expected"] = float(row["value"])
            record["predicted"] = predicted(row, evaluation)
            record["error"] = record["predicted"] / record["expected"] - 1
            choices = runs_time.left_open(row)
            if len(choices) > 1:
                reach = [
                    predicted(row, plans.evaluation(runs_time.document(row, *choice)))
                    for choice in choices
                ]
                record["range"] = [min(reach), max(reach)]
        except (Absent, LeftOut) as problem:
            record["left_out"] = str(problem)
        record["offset"] = row["use"] == "offset"
        records.append(record)
    remove_offsets(records)
    return records


def remove_offsets(records: Iterable[Record]) -> None:
    """Judge rows marked `offset` after the median ratio of their source and quantity is removed."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record["offset"] and "error" in record:
            groups.setdefault((record["source"], record["quantity"]), []).append(record)
    for group in groups.values():
        ratio = median(1 + record["error"] for record in group)
        for record in group:
            record["removed"] = ratio - 1
            record["error"] = (1 + record["error"]) / ratio - 1


def by_source(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by source, in alphabetical order."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["source"], []).append(record)
    return dict(sorted(found.items()))


def spread(errors: list[float]) -> list[float]:
    """Mean, median, 90th percentile and worst of the size, and the mean of the signed error."""
    size = sorted(abs(error) for error in errors)
    count = len(size)
    return [
        sum(size) / count,
        median(size),
        size[min(count - 1, int(0.9 * count))],
        size[-1],
        sum(errors) / count,
    ]


HEADS = ("source", "rows", "mean", "median", "90 %", "worst", "bias", "left out")


def lines(records: list[Record]) -> list[tuple[str, ...]]:
    """The table: a line for each source, the mean over sources and all rows together."""
    table: list[tuple[str, ...]] = [HEADS]
    means = []
    for name, group in by_source(records).items():
        errors = [record["error"] for record in group if "error" in record]
        left = str(len(group) - len(errors))
        if not errors:
            table.append((name, "0", "", "", "", "", "", left))
            continue
        figures = spread(errors)
        if not name.endswith(" experts"):
            means.append(figures[0])
        table.append((name, str(len(errors)), *map(percent, figures), left))
    if means:
        table.append(("mean over sources, dense", "", percent(sum(means) / len(means)), *[""] * 5))
    errors = [record["error"] for record in records if "error" in record]
    if errors:
        left = str(len(records) - len(errors))
        table.append(("all rows", str(len(errors)), *map(percent, spread(errors)), left))
    return table


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def text(table: list[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )


def markdown(table: list[tuple[str, ...]]) -> str:
    head, *body = table
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, tuple(rule), *body))


def ranges(records: list[Record]) -> str:
    """How many rows that leave something open were measured inside their range."""
    reached = [record for record in records if "range" in record]
    inside = [r for r in reached if r["range"][0] <= r["expected"] <= r["range"][1]]
    return (
        f"Of {len(reached)} rows with experts that leave recomputation or dispatcher open, "
        f"{len(inside)} were measured inside the range of their possibilities."
    )


def rewritten(page: str, table: str) -> str:
    """The page with the table between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="CSV file of measured runs")
    parser.add_argument("--json", type=Path, help="write every comparison to this file")
    parser.add_argument("--markdown", type=Path, help="page whose table is rewritten")
    options = parser.parse_args()
    records = compare(options.runs)
    table = lines(records)
    print(text(table))
    print(ranges(records))
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    if options.markdown:
        page = options.markdown.read_text("utf-8")
        options.markdown.write_text(
            rewritten(page, f"{markdown(table)}\n\n{ranges(records)}"), "utf-8"
        )


if __name__ == "__main__":
    main()
