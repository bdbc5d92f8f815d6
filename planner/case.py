"""From a plan to what the engine evaluates: bound symbols, settings and the entries of each axis.

Axes: ``part`` (embedding, layer kinds, head), ``block`` and ``component`` inside a part, and
``stage`` (distinct pipeline stages). The symbol ``L_ks`` has a value per stage and part.
"""

from __future__ import annotations

from typing import Any

from sympy import Symbol

import planner.formulas  # noqa: F401  (registers the quantities)
from planner import notation
from planner.document import Model, Plan
from planner.evaluate import Absent, Case, Entry
from planner.inventory import Component, components
from planner.quantity import BOOK

SIZE_ONLY = "the model is given by its size only (model.parameters), not by its shape"


def build(plan: Plan) -> Case:
    """The case of a plan. Raises nothing: what is missing is bound to an Absent."""
    bindings: dict[Symbol, Any] = {}
    for note in BOOK.notation.values():
        if note.key is not None and not note.per:
            value = plan.get(note.key)
            if value is None:
                value = Absent(_reason(plan, note.key, note.meaning))
            bindings[note.symbol] = value
    axes: dict[str, Any] = {}
    if plan.model is None:
        for axis in ("part", "block", "component", "stage"):
            axes[axis] = Absent(SIZE_ONLY)
    else:
        axes.update(_model_axes(plan.model))
    return Case(bindings, plan.settings, axes)


def _reason(plan: Plan, key: str, meaning: str) -> str:
    if plan.model is None and key.startswith("model."):
        return SIZE_ONLY
    return f"{meaning} is not given ({key})"


def _model_axes(model: Model) -> dict[str, tuple[Entry, ...]]:
    by_block: dict[str, list[Any]] = {}
    for note in BOOK.notation.values():
        if note.per == ("block",) and note.key:
            kind, _, key = note.key.partition(".")
            by_block.setdefault(kind, []).append((note.symbol, key))
    parts, blocks, pieces = [], [], []
    for part in model.parts:
        part_entry = Entry(
            "part",
            part.name,
            part.title,
            bindings={notation.L_k: part.count},
            settings={"part": part.name, "layers": part.name not in ("embedding", "head")},
        )
        parts.append(part_entry)
        for block in part.blocks:
            values = {
                symbol: block.values[key]
                for symbol, key in by_block.get(block.kind, ())
                if block.values.get(key) is not None
            }
            settings = {f"block.{key}": value for key, value in block.values.items()}
            settings["block"] = block.kind
            entry = Entry("block", block.name, block.name, part_entry, values, settings)
            blocks.append(entry)
            pieces += [_component(c, entry) for c in components(block.kind, block.values)]
    return {"part": tuple(parts), "block": tuple(blocks), "component": tuple(pieces)}


def _component(component: Component, block: Entry) -> Entry:
    return Entry(
        "component",
        component.name,
        component.name,
        block,
        bindings={
            notation.n_in: component.n_in,
            notation.n_out: component.n_out,
            notation.copies: component.copies,
            notation.applied: component.applied,
        },
        settings={
            "type": component.type,
            "group": component.group,
            "split": component.split,
            "bias": component.bias,
            "shared": component.shared,
            "matmul": component.type in ("linear", "core"),
            **component.extra,
        },
    )
