"""A measured step beside its plan: the rows, as a table for a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from planner.base.display import format_value, one_line, significant
from planner.connect.compare import Row
from planner.plans.document import Plan

HEADER = ("quantity", "predicted", "measured", "predicted/measured", "measured as")


@dataclass(frozen=True)
class Beside:
    """What was predicted for the scaled-down plan and what a run of it measured."""

    plan: Plan  # the scaled-down one
    device: str
    torch: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, identifier: str) -> Row:
        return next(row for row in self.rows if row.id == identifier)


def _cells(row: Row) -> tuple[str, ...]:
    planned = "absent" if row.planned is None else format_value(row.planned, row.unit)
    ratio = "" if row.ratio is None else significant(row.ratio, 3)
    return row.title, planned, format_value(row.measured, row.unit), ratio, row.how


def text(found: Beside) -> str:
    """A table for a terminal."""
    rows = [HEADER, *map(_cells, found.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = [found.plan.name, f"{found.device}, PyTorch {found.torch}", ""]
    for row in rows:
        cells = (
            cell.rjust(width) if 1 <= i <= 3 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    lines += ["", *(f"- {note}" for note in found.notes)]
    return "".join(one_line(line) + "\n" for line in lines)


def data(found: Beside) -> str:
    """The rows as JSON, with the inputs of the scaled-down plan that decide."""
    from planner.connect.exports.table import number

    plan = found.plan
    rows = [
        {
            "id": row.id,
            "unit": row.unit,
            "predicted": number(row.planned),
            "measured": number(row.measured),
            "ratio": number(row.ratio),
            "how": row.how,
        }
        for row in found.rows
    ]
    keys = ("micro_batch", "sequence_length", "precision", "attention", "recompute")
    tree = {
        "plan": plan.name,
        "device": found.device,
        "torch": found.torch,
        "layers": plan.get("model.layers"),
        "training": {key: plan.get(f"training.{key}") for key in keys},
        "quantities": rows,
        "notes": list(found.notes),
    }
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
