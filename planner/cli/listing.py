"""Tables of what is built in: presets by kind, number formats, quantities, aliases."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from planner.base import numbers, resources
from planner.base.display import columns
from planner.base.errors import PlanError
from planner.documents import aliases, references, source

#: Kinds of presets as they are listed, and the kind of a document of each.
KINDS = {folder or "plans": kind for kind, folder in references.FOLDERS.items()}
#: Keys besides the name that distinguish documents of a kind, with the unit of the value.
FACTS = {"cluster": {"devices": " devices"}, "accelerator": {"memory": ""}}


def format_listing(what: str | None = None) -> str:
    """Format the table of one kind; without a kind, of every kind of preset."""
    if what == "precisions":
        from planner.report import precisions

        return "".join(f"{line}\n" for line in precisions.render_formats())
    if what is not None:
        return "".join(f"{line}\n" for line in columns(_list_rows(what)))
    sections = ([kind, *columns(_list_rows(kind), indent="  "), ""] for kind in (*KINDS, "runs"))
    return "\n".join(line for section in sections for line in section)


def _list_rows(what: str) -> list[tuple[str, ...]]:
    """List the rows of the table of one kind; those of models and aliases begin with a heading."""
    if what == "aliases":
        return [
            ("understood or suggested for", "what ships, our key or value", "also typed as"),
            *aliases.list_aliases(),
        ]
    if what == "quantities":
        import planner.book.formulas  # noqa: F401  (registers the quantities)
        from planner.book.quantity import BOOK

        return [
            (i, q.unit, q.title, f"per {', '.join(q.per)}" if q.per else "")
            for i, q in sorted(BOOK.quantities.items())
        ]
    if what == "models":
        sizes = resources.read_json(resources.folder("presets") / "aliases" / "sizes.json")
        names = references.preset_names("model")
        return [_MODELS, *(_model(name, sizes.get(name)) for name in names)]
    if what == "runs":
        loaded = ((name, source.load(name).data) for name in references.list_runs())
        return [(i, d["name"], ", ".join(row["value"] for row in d["measured"])) for i, d in loaded]
    kind = KINDS[what]
    folder = resources.folder("presets") / references.FOLDERS[kind]
    rows = []
    for name in references.list_plans() if kind == "plan" else references.preset_names(kind):
        with contextlib.suppress(PlanError):
            # Documents that a plan names are not loaded.
            data = source.load(folder / f"{name}.yaml", kind="" if kind == "plan" else kind).data
            facts = [f"{data.get(key, '')}{unit}" for key, unit in FACTS.get(kind, {}).items()]
            rows.append((name, str(data.get("name", "")), *facts))
    return rows


_MODELS = ("name", "model", "parameters", "active", "family", "context")


def _model(name: str, counted: list[Any] | None) -> tuple[str, ...]:
    """Return a model's row: sizes, first word of its name without a version, context."""
    title, total, active, context = counted or ("", None, None, None)
    sizes = (
        "" if size is None else numbers.text(size, "parameters", "table")
        for size in (total, active)
    )
    family = re.sub(r"(?<=[a-z]{2})[\d.]+$", "", name.partition("-")[0])
    return (name, title, *sizes, family, numbers.text(context) if context else "")
