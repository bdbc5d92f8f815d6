"""What ships: presets by kind with what tells them apart, number formats, quantities."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from planner.base import resources
from planner.base.display import columns
from planner.base.errors import PlanError
from planner.documents import source

Row = tuple[str, ...]


def listing(what: str | None = None) -> str:
    """The table of one kind; without a kind, of every kind of preset."""
    if what is not None:
        return _table(TABLES[what]())
    sections = []
    for kind in ("plans", "studies", "models", "clusters", "accelerators"):
        sections.append(f"{kind}\n" + _table(TABLES[kind](), indent="  "))
    return "\n".join(sections)


def _table(rows: Sequence[Row], indent: str = "") -> str:
    return "".join(f"{line}\n" for line in columns(rows, indent=indent))


def _presets(kind: str, *facts: Callable[[dict[str, Any]], str]) -> list[Row]:
    """Documents of a kind, with the name that each gives itself and what these say of it."""
    rows = []
    for name in source.preset_names(kind):
        file = resources.folder("presets") / source.FOLDERS.get(kind, "") / f"{name}.yaml"
        with contextlib.suppress(PlanError):
            # What a plan names is not looked up.
            data = source.load(file, kind="" if kind == "plan" else kind).data
            rows.append((name, str(data.get("name", "")), *(fact(data) for fact in facts)))
    return rows


def _precisions() -> list[Row]:
    from planner.plans.formats import table

    return table()


def _quantities() -> list[Row]:
    import planner.book.formulas  # noqa: F401  (registers the quantities)
    from planner.book.quantity import BOOK

    return [
        (i, q.unit, q.title, f"per {', '.join(q.per)}" if q.per else "")
        for i, q in sorted(BOOK.quantities.items())
    ]


TABLES: dict[str, Callable[[], list[Row]]] = {
    "plans": lambda: _presets("plan"),
    "studies": lambda: _presets("study"),
    "models": lambda: _presets("model"),
    "clusters": lambda: _presets("cluster", lambda data: f"{data.get('devices', '')} devices"),
    "accelerators": lambda: _presets("accelerator", lambda data: str(data.get("memory", ""))),
    "precisions": _precisions,
    "quantities": _quantities,
}
