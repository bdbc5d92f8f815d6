"""What a search found, as text, as plain data, as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner.display import exact_text
from planner.quantity import BOOK
from planner.search import FITS, MEMORY, Found, Layout
from planner.solve import shown

#: Heading and key of each column of a layout.
COLUMNS = (
    ("tensor", "parallelism.tensor"),
    ("seq.", "parallelism.sequence"),
    ("pipeline", "parallelism.pipeline"),
    ("virtual", "parallelism.virtual_pipeline"),
    ("context", "parallelism.context"),
    ("expert", "parallelism.expert"),
    ("in expert", "parallelism.expert_tensor"),
    ("zero", "parallelism.zero"),
    ("micro-batch", "training.micro_batch"),
    ("recompute", "training.recompute"),
    ("schedule", "training.schedule"),
)


def text(found: Found) -> str:
    """The best layouts as a table for a terminal, the plan's own last."""
    by = BOOK.declarations[found.by][0]
    counted = f"{exact_text(found.size)} layouts, {exact_text(found.fitting)} fit into memory"
    if not found.best:
        return f"no layout fits: {counted}\n"
    shown_columns = [column for column in COLUMNS if _differs(found, column[1])]
    rows = [("", *(heading for heading, _ in shown_columns), by.title.split(" (")[0], "memory")]
    for number, layout in enumerate(found.best, start=1):
        rows.append(_row(str(number), layout, shown_columns, found.by))
    if found.own is not None:
        rows.append(_row("own", found.own, shown_columns, found.by))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [f"{counted}; smallest {found.by} first", ""]
    lines += [
        "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    if found.own is not None and found.own.values[FITS] < 0:
        lines += ["", "The plan's own layout does not fit into memory."]
    return "\n".join(lines) + "\n"


def _differs(found: Found, key: str) -> bool:
    """Whether a column says something: not all layouts have the neutral value."""
    layouts = (*found.best, *([found.own] if found.own else []))
    return any(layout.changes.get(key) not in (None, 1, False) for layout in layouts)


def _row(label: str, layout: Layout, columns: list[tuple[str, str]], by: str) -> tuple[str, ...]:
    cells = (_word(layout.changes.get(key)) for _, key in columns)
    value = shown(layout.values[by], BOOK.declarations[by][0].unit)
    return (label, *cells, value, shown(layout.values[MEMORY], "bytes"))


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def as_data(found: Found) -> dict[str, Any]:
    """Plain data for JSON."""
    return {
        "by": found.by,
        "layouts": found.size,
        "fitting": found.fitting,
        "best": [_data(layout) for layout in found.best],
        "front": [_data(layout) for layout in found.front],
        "own": None if found.own is None else _data(found.own),
    }


def _data(layout: Layout) -> dict[str, Any]:
    return {"set": _numbers(layout.changes), "quantities": _numbers(layout.values)}


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: (int(value) if value.denominator == 1 else float(value))
        if isinstance(value, Fraction)
        else value
        for key, value in values.items()
    }


def to_json(found: Found) -> str:
    """JSON text."""
    return json.dumps(as_data(found), indent=2) + "\n"


def to_csv(found: Found) -> str:
    """One line for each of the best layouts."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    keys = [key for _, key in COLUMNS]
    names = list(found.best[0].values) if found.best else []
    writer.writerow([*keys, *names])
    for layout in found.best:
        numbers = _numbers(layout.values)
        writer.writerow(
            [*(layout.changes.get(key) for key in keys), *(numbers[name] for name in names)]
        )
    return buffer.getvalue()
