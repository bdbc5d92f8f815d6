"""A model document as YAML: a line for each usual block, a commented line for each unusual key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from planner.base.display import flow
from planner.connect.imports.families import DOCUMENT

HEADER = "# yaml-language-server: $schema=schemas/model.schema.json"

WIDTH = 96


def write(
    document: Mapping[str, Any],
    came_from: Mapping[str, tuple[str, ...]],
    family: str,
) -> str:
    """The text of a document.

    Args:
        document: a model document.
        came_from: for dotted keys, the configuration keys that gave them.
        family: what a key without such a source comes from.
    """
    lines = [HEADER]
    for key in sorted(document, key=partial(_rank, "order")):
        lines += _entry(key, document[key], came_from, family)
    return "\n".join(lines) + "\n"


def _rank(order: str, key: str) -> int:
    known = DOCUMENT[order]
    return known.index(key) if key in known else len(known)


def _entry(
    key: str, value: Any, came_from: Mapping[str, tuple[str, ...]], family: str
) -> list[str]:
    def comment(dotted: str) -> str:
        if dotted in DOCUMENT["usual"]:
            return ""
        return "  # " + (", ".join(came_from.get(dotted, ())) or family)

    if key == "kinds":
        return ["kinds:", *(f"  {name}: {flow(kind or {})}" for name, kind in value.items())]
    if isinstance(value, Mapping):
        value = dict(sorted(value.items(), key=lambda item: _rank("inner_order", item[0])))
        line = f"{key}: {flow(value)}"
        unusual = any(f"{key}.{inner}" not in DOCUMENT["usual"] for inner in value)
        if len(line) <= WIDTH and (not unusual or key == "encoder"):
            return [line + comment(key if key == "encoder" else "name")]
        inside = ((inner, comment(f"{key}.{inner}")) for inner in value)
        return [f"{key}:", *(f"  {inner}: {flow(value[inner])}{why}" for inner, why in inside)]
    return [f"{key}: {flow(value)}{comment(key)}"]
