"""A measured step beside its plan: the rows, as a table for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.base.display import as_json, columns, one_line
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


def text(found: Beside) -> str:
    """A table for a terminal."""
    lines = [found.plan.name, f"{found.device}, PyTorch {found.torch}", ""]
    lines += columns([HEADER, *(row.cells() for row in found.rows)], right=(1, 2, 3))
    lines += ["", *(f"- {note}" for note in found.notes)]
    return "".join(one_line(line) + "\n" for line in lines)


def data(found: Beside) -> str:
    """The rows as JSON, with the inputs of the scaled-down plan that decide."""
    plan = found.plan
    rows = [
        {
            "id": row.id,
            "unit": row.unit,
            "predicted": row.planned,
            "measured": row.measured,
            "ratio": row.ratio,
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
        "notes": found.notes,
    }
    return as_json(tree)
