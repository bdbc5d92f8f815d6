"""Checks documents against schemas/*.schema.json and completes them.

The schemas are JSON Schema draft 7 with one keyword more: `"unit": "bytes"` says that the
value is a quantity, which may be written as `80 GiB` and is exact in that unit afterwards.
Two passes: read the quantities and fill in the defaults, check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from planner.base import units
from planner.base.errors import MOST, Fault, PlanError
from planner.documents.json_schema import (
    Schema,
    accepts,
    is_number,
    is_type,
    list_schemas,
    read_schema,
)
from planner.documents.source import Document, Path_
from planner.documents.yaml_nodes import Node, Origin, from_data

__all__ = ["describe", "is_number", "list_key_paths", "validate", "walk_schema"]

DEFAULT = Origin("default", "default")
ENOUGH = 2 * MOST  # faults, after which nobody needs to know the rest


def _find_applicable(schema: Schema, node: Node) -> Iterator[Schema]:
    """Yield a schema and those of its conditions and alternatives that apply."""
    yield schema
    for part in schema.get("allOf", ()):
        yield from _find_applicable(part, node)
    if "if" in schema:
        branch = "then" if accepts(schema["if"], node.plain()) else "else"
        if branch in schema:
            yield from _find_applicable(schema[branch], node)
    if "anyOf" in schema:
        # Any text could be a quantity, so other readings of it go first.
        plain = node.plain()
        branches = sorted(schema["anyOf"], key=lambda branch: "unit" in branch)
        fitting = [branch for branch in branches if accepts(branch, plain)]
        alike = [branch for branch in branches if is_type(branch.get("type", []), plain)]
        for chosen in (fitting or alike)[:1]:
            yield from _find_applicable(chosen, node)


def _parse_tree(
    node: Node, schemas: Sequence[Schema], path: Path_, faults: dict[Path_, Fault]
) -> Node:
    """Return the tree with quantities as exact numbers of their units and defaults for missing
    keys; ``faults`` receives what cannot be read, by path."""
    parts = [part for schema in schemas for part in _find_applicable(schema, node)]
    if not isinstance(node.value, (dict, list)):
        return _quantity(node, parts, path, faults)
    # Nothing is what leaves a quantity out, as where a plan takes away what it extends.
    children = {
        step: child
        for step, child in node.iter_children()
        if child.value is not None
        or isinstance(step, int)
        or not any("unit" in schema for part in parts for schema in _list_below(part, step))
    }
    for part in parts if isinstance(node.value, dict) else ():
        for key, schema in part.get("properties", {}).items():
            if key not in children and schema.get("default") is not None:
                children[key] = replace(
                    from_data(schema["default"], node.place, DEFAULT), key_place=node.key_place
                )
    made: dict[Any, Node] = {}
    for step, child in children.items():
        known = [schema for part in parts for schema in _list_below(part, step)]
        shipped = child.origin.kind == "preset"
        read_child = _read_again if shipped else _parse_tree
        made[step] = read_child(child, known, (*path, step), faults)
    return replace(node, value=made if isinstance(node.value, dict) else list(made.values()))


#: Cache of values of presets by id of their node: the node (so that its id is not reused), the
#: schemas, and the result.
_SHIPPED: dict[int, tuple[Node, list[Schema], Node]] = {}
MOST_SHIPPED = 4096


def _read_again(node: Node, schemas: list[Schema], path: Path_, faults: dict[Path_, Fault]) -> Node:
    """Return what ``_parse_tree`` does, cached by node and schemas (for presets)."""
    kept = _SHIPPED.get(id(node))
    if kept is not None and kept[1] == schemas:
        return kept[2]
    before = len(faults)
    made = _parse_tree(node, schemas, path, faults)
    if len(faults) == before:
        if len(_SHIPPED) >= MOST_SHIPPED:
            _SHIPPED.clear()
        _SHIPPED[id(node)] = node, schemas, made
    return made


def _quantity(node: Node, parts: Sequence[Schema], path: Path_, faults: dict[Path_, Fault]) -> Node:
    """Parse a scalar: a quantity that is not read yet becomes an exact number of its unit; true and
    false stay where the key takes them beside a share."""
    if isinstance(node.value, bool) and any("boolean" in part.get("type", ()) for part in parts):
        return node
    wanted = (p["unit"] for p in parts if "unit" in p and node.value not in p.get("enum", ()))
    unit = next(wanted, None)
    try:
        if unit is not None and node.unit != unit:
            if len(faults) > ENOUGH:  # looking for near spellings takes its time
                raise PlanError(faults.values())
            node = replace(node, value=units.parse(node.value, unit), unit=unit)  # type: ignore[arg-type]
        if is_number(node.value):
            units.check_range(node.value)  # type: ignore[arg-type]
    except units.UnitError as error:
        wrong = f"{'.'.join(map(str, path))}: {error.message}"
        faults[path] = Fault(wrong, node.place, error.allowed, error.hint)
    return node


def _list_below(schema: Schema, step: str | int) -> list[Schema]:
    """Return the schemas that apply one step below, without those that are ``true`` or
    ``false``."""
    return [found for found in list_schemas(schema, step) if isinstance(found, dict)]


class Invalid(PlanError):
    """The faults of a document that violates its schema; ``document`` is what could be read of
    it."""

    def __init__(self, faults: Iterable[Fault], document: Document) -> None:
        """Keep the document beside its faults, for checks of what is valid in it."""
        super().__init__(faults)
        self.document = document


def validate(
    document: Document, schema: str, unknown: Mapping[Path_, Sequence[Fault]] | None = None
) -> Document:
    """Check a document; return it with exact quantities and defaults.

    Args:
        document: as `source.load` returns it.
        schema: plan, model, cluster, accelerator, or another NAME.schema.json.
        unknown: the faults of names that `source.load` left as they are, by path.

    Raises:
        Invalid: every fault of the document, sorted by place; of very many the first.
    """
    root, unread = read_schema(schema), dict[Path_, Fault]()
    found = replace(document, node=_parse_tree(document.node, [root], (), unread))
    names = [fault for several in (unknown or {}).values() for fault in several]
    if names or unread or not accepts(root, found.data):
        from planner.documents.schema_errors import iter_faults  # it takes a while

        others = iter_faults(found, root, list_key_paths(schema), {*unread, *(unknown or {})})
        some = islice(others, max(0, ENOUGH - len(unread)))
        raise Invalid([*names, *unread.values(), *some], found)
    return found


@cache
def list_key_paths(schema: str) -> Sequence[str]:
    """List the dotted keys of a kind of document, three levels deep, for near spellings."""
    found: set[str] = set()
    level: list[tuple[str, Schema]] = [("", read_schema(schema))]
    for _ in range(3):
        level = [
            (f"{prefix}{name}.", inner)
            for prefix, around in level
            for part in walk_schema(around)
            for name, inner in part.get("properties", {}).items()
        ]
        found |= {path.rstrip(".") for path, _ in level}
    return sorted(found)


def describe(schema: str, path: str | Sequence[str | int]) -> Schema | None:
    """Return what a schema says about a key (description, unit, default, enum, type and so on);
    None where there is no such key.

    Args:
        schema: as for `validate`.
        path: dotted, such as `training.tokens`; items of lists by any index.
    """
    parts = list(walk_schema(read_schema(schema)))
    said: dict[str, Any] = {}
    steps = path.split(".") if isinstance(path, str) else [str(step) for step in path]
    for step in filter(None, steps):
        found = [
            inner
            for part in parts
            for inner in _list_below(part, step) or (_list_below(part, 0) if step.isdigit() else [])
        ]
        if not found:
            return None
        said = {key: value for inner in reversed(found) for key, value in inner.items()}
        parts = [part for inner in found for part in walk_schema(inner)]
    for part in parts:
        for key, value in part.items():
            said.setdefault(key, value)
    return {key: value for key, value in said.items() if key not in _STRUCTURE}


#: Keywords that say nothing of a key itself.
_STRUCTURE = {
    "$schema", "$id", "definitions", "properties", "patternProperties", "additionalProperties",
    "required", "items", "allOf", "anyOf", "not", "if", "then", "else",
}  # fmt: skip


def walk_schema(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all its conditional parts and alternatives."""
    yield schema
    branches = [schema[keyword] for keyword in ("then", "else") if keyword in schema]
    for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()), *branches):
        yield from walk_schema(part)
