"""What ships: presets by kind with what tells them apart, number formats, quantities, aliases."""

from __future__ import annotations

import contextlib

from planner.base import resources
from planner.base.display import columns
from planner.base.errors import PlanError
from planner.documents import source

#: Kinds of presets as they are listed, and the kind of a document of each.
KINDS = {folder or "plans": kind for kind, folder in source.FOLDERS.items()}
#: What else than its name tells documents of a kind apart: a key, and what its value counts.
FACTS = {"cluster": {"devices": " devices"}, "accelerator": {"memory": ""}}


def listing(what: str | None = None) -> str:
    """The table of one kind; without a kind, of every kind of preset."""
    if what == "precisions":
        from planner.report import precisions

        return "".join(f"{line}\n" for line in precisions.listing())
    if what is not None:
        return "".join(f"{line}\n" for line in columns(_rows(what)))
    sections = ([kind, *columns(_rows(kind), indent="  "), ""] for kind in KINDS)
    return "\n".join(line for section in sections for line in section)


def _rows(what: str) -> list[tuple[str, ...]]:
    if what == "aliases":
        from planner.documents import aliases

        return [
            ("understood or suggested for", "what ships, our key or value", "also typed as"),
            *aliases.table(),
        ]
    if what == "quantities":
        import planner.book.formulas  # noqa: F401  (registers the quantities)
        from planner.book.quantity import BOOK

        return [
            (i, q.unit, q.title, f"per {', '.join(q.per)}" if q.per else "")
            for i, q in sorted(BOOK.quantities.items())
        ]
    kind = KINDS[what]
    folder = resources.folder("presets") / source.FOLDERS[kind]
    rows = []
    for name in source.preset_names(kind):
        with contextlib.suppress(PlanError):
            # What a plan names is not looked up.
            data = source.load(folder / f"{name}.yaml", kind="" if kind == "plan" else kind).data
            facts = [f"{data.get(key, '')}{unit}" for key, unit in FACTS.get(kind, {}).items()]
            rows.append((name, str(data.get("name", "")), *facts))
    return rows
