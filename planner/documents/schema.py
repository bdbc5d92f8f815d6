"""Checks documents against schemas/*.schema.json and completes them.

The schemas are JSON Schema draft 7 with one keyword more: `"unit": "bytes"` says that the
value is a quantity, which may be written as `80 GiB` and is exact in that unit afterwards.
Three passes: read the quantities, check, fill in the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice, starmap
from pathlib import Path
from typing import Any

from planner.base import resources, units
from planner.base.errors import MOST, Fault, PlanError
from planner.documents.source import Document, Path_
from planner.documents.yaml_nodes import Node, Origin, from_data

__all__ = ["describe", "knows", "paths", "validate"]

Schema = Mapping[str, Any]
DEFAULT = Origin("default", "default")
ENOUGH = 2 * MOST  # faults, after which nobody needs to know the rest


@lru_cache(maxsize=64)
def _load(file: Path) -> Schema:
    """A schema file; its decimals are exact like those of documents."""
    loaded: dict[str, Any] = resources.read_json(file, parse_float=units.number)
    # They would lead the validator to its stock class and to other addresses.
    return {key: value for key, value in loaded.items() if key not in ("$schema", "$id")}


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in the schemas: the keywords there and the file that they stand in."""

    schema: Schema
    file: Path

    def inner(self, schema: Any) -> _Place:
        return _Place(schema if isinstance(schema, dict) else {}, self.file).followed()

    def followed(self) -> _Place:
        """The same after following `$ref`, which in draft 7 stands alone."""
        here = self
        while "$ref" in here.schema:
            name, _, pointer = str(here.schema["$ref"]).partition("#")
            # A released schema is named by its address; beside it lies the file.
            file = here.file.parent / name.rsplit("/", 1)[-1] if name else here.file
            target: Any = _load(file)
            for step in pointer.strip("/").split("/") if pointer.strip("/") else []:
                target = target[step.replace("~1", "/").replace("~0", "~")]
            here = _Place(target, file)
        return here


def is_number(_: object, value: object) -> bool:
    """Whether a JSON Schema number: exact, and no truth value."""
    return isinstance(value, (int, Fraction)) and not isinstance(value, bool)


def is_integer(_: object, value: object) -> bool:
    """Whether a JSON Schema integer."""
    return isinstance(value, int) and not isinstance(value, bool)


@lru_cache(maxsize=64)
def _validator(file: Path) -> Any:
    """The jsonschema validator of a schema file, exact numbers included."""
    from jsonschema import Draft7Validator, validators
    from referencing import Registry
    from referencing.jsonschema import DRAFT7

    def retrieve(uri: str) -> Any:
        """Finds schemas by their file name."""
        return DRAFT7.create_resource(_load(file.parent / uri.rsplit("/", 1)[-1]))

    checker = Draft7Validator.TYPE_CHECKER.redefine_many(
        {"number": is_number, "integer": is_integer}
    )
    extend: Any = validators.extend
    exact = extend(Draft7Validator, type_checker=checker)
    registry: Any = Registry
    return exact({"$ref": file.name}, registry=registry(retrieve=retrieve))


# Most documents are valid. That is found here, in the time in which jsonschema is imported; what is
# wrong with the others, jsonschema says.


def _accepts(place: _Place, value: Any) -> bool:
    """Whether a schema accepts plain data."""
    place = place.followed()
    for keyword, wanted in place.schema.items():
        kinds, holds = _RULES.get(keyword, _NO_RULE)
        if (kinds is None or type(value) in kinds) and not holds(wanted, value, place):
            return False
    return True


def _accept(place: _Place, schema: Any, value: Any) -> bool:
    return schema if isinstance(schema, bool) else _accepts(place.inner(schema), value)


def _is_type(wanted: str | list[str], value: Any, _: _Place) -> bool:
    kind = _TYPES.get(type(value), "number")
    kinds = [wanted] if isinstance(wanted, str) else wanted
    return kind in kinds or ("integer" in kinds and is_integer(None, value))


def _equal(one: Any, other: Any) -> bool:
    """As JSON has it, where true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _other_keys(wanted: Any, value: dict[str, Any], place: _Place) -> bool:
    known, forms = place.schema.get("properties", {}), place.schema.get("patternProperties", {})
    return all(
        key in known or any(re.search(form, key) for form in forms) or _accept(place, wanted, item)
        for key, item in value.items()
    )


def _items(wanted: Any, value: list[Any], place: _Place) -> bool:
    if isinstance(wanted, list):
        return all(map(_accept, [place] * len(wanted), wanted, value))
    return all(_accept(place, wanted, item) for item in value)


def _branch(wanted: Any, value: Any, place: _Place) -> bool:
    name = "then" if _accept(place, wanted, value) else "else"
    return _accept(place, place.schema.get(name, True), value)


_Kinds = frozenset[type]
_NUMBER: _Kinds = frozenset((int, Fraction))
_TEXT: _Kinds = frozenset((str,))
_LIST: _Kinds = frozenset((list,))
_MAPPING: _Kinds = frozenset((dict,))
_NO_RULE: Any = (set(), None)
#: Of each keyword, the types that it speaks of (None: all), and whether a value agrees with it:
#: by what the keyword wants, the value, and where in the schemas it stands.
_RULES: Mapping[str, tuple[_Kinds | None, Callable[[Any, Any, _Place], bool]]] = {
    "type": (None, _is_type),
    "enum": (None, lambda wanted, value, _: any(_equal(value, each) for each in wanted)),
    "const": (None, lambda wanted, value, _: _equal(value, wanted)),
    "minimum": (_NUMBER, lambda wanted, value, _: value >= wanted),
    "maximum": (_NUMBER, lambda wanted, value, _: value <= wanted),
    "exclusiveMinimum": (_NUMBER, lambda wanted, value, _: value > wanted),
    "exclusiveMaximum": (_NUMBER, lambda wanted, value, _: value < wanted),
    "multipleOf": (_NUMBER, lambda wanted, value, _: value % wanted == 0),
    "minLength": (_TEXT, lambda wanted, value, _: len(value) >= wanted),
    "maxLength": (_TEXT, lambda wanted, value, _: len(value) <= wanted),
    "pattern": (_TEXT, lambda wanted, value, _: re.search(wanted, value) is not None),
    "minItems": (_LIST, lambda wanted, value, _: len(value) >= wanted),
    "maxItems": (_LIST, lambda wanted, value, _: len(value) <= wanted),
    "uniqueItems": (
        _LIST,
        lambda wanted, value, _: not (wanted and any(starmap(_equal, combinations(value, 2)))),
    ),
    "items": (_LIST, _items),
    "minProperties": (_MAPPING, lambda wanted, value, _: len(value) >= wanted),
    "maxProperties": (_MAPPING, lambda wanted, value, _: len(value) <= wanted),
    "required": (_MAPPING, lambda wanted, value, _: all(key in value for key in wanted)),
    "propertyNames": (
        _MAPPING,
        lambda wanted, value, place: all(_accept(place, wanted, key) for key in value),
    ),
    "properties": (
        _MAPPING,
        lambda wanted, value, place: all(
            _accept(place, wanted[key], item) for key, item in value.items() if key in wanted
        ),
    ),
    "patternProperties": (
        _MAPPING,
        lambda wanted, value, place: all(
            _accept(place, wanted[form], item)
            for key, item in value.items()
            for form in wanted
            if re.search(form, key)
        ),
    ),
    "additionalProperties": (_MAPPING, _other_keys),
    "allOf": (None, lambda wanted, value, here: all(_accept(here, each, value) for each in wanted)),
    "anyOf": (None, lambda wanted, value, here: any(_accept(here, each, value) for each in wanted)),
    "oneOf": (
        None,
        lambda wanted, value, here: sum(_accept(here, each, value) for each in wanted) == 1,
    ),
    "not": (None, lambda wanted, value, here: not _accept(here, wanted, value)),
    "if": (None, _branch),
}


@dataclass
class _Walk:
    """Goes through a document and its schema together."""

    faults: list[Fault] = field(default_factory=list)
    unread: set[Path_] = field(default_factory=set)  # quantities that could not be read

    def parts(self, place: _Place, node: Node) -> Iterator[_Place]:
        """The schema at `place` and those of its conditions and alternatives that apply."""
        place = place.followed()
        schema = place.schema
        yield place
        for part in schema.get("allOf", ()):
            yield from self.parts(place.inner(part), node)
        if "if" in schema:
            branch = "then" if _accepts(place.inner(schema["if"]), node.plain()) else "else"
            if branch in schema:
                yield from self.parts(place.inner(schema[branch]), node)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                # Any text could be a quantity, so other readings of it go first.
                plain = node.plain()
                branches = [place.inner(branch) for branch in schema[keyword]]
                branches.sort(key=lambda branch: "unit" in branch.schema)
                fitting = [branch for branch in branches if _accepts(branch, plain)]
                alike = [branch for branch in branches if _same_type(branch, node)]
                for chosen in (fitting or alike)[:1]:
                    yield from self.parts(chosen, node)

    def inner(self, parts: Sequence[_Place], step: str | int) -> list[_Place]:
        """The schemas of a key or item, from all that apply to what holds it."""
        found = []
        for part in parts:
            schema = part.schema
            if isinstance(step, int):
                items = schema.get("items")
                if isinstance(items, list):
                    items = items[step] if step < len(items) else None
                found.append(items and part.inner(items))
            elif step in schema.get("properties", {}):
                found.append(part.inner(schema["properties"][step]))
            elif isinstance(schema.get("additionalProperties"), dict):
                found.append(part.inner(schema["additionalProperties"]))
        return [place for place in found if place]

    def quantities(self, node: Node, places: list[_Place], path: Path_) -> Node:
        """The tree with each quantity as an exact number of its unit."""
        parts = [part for place in places for part in self.parts(place, node)]
        if isinstance(node.value, dict):
            value: dict[str, Node] = {}
            for key, child in node.value.items():
                below = self.inner(parts, key)
                # Nothing is what leaves a quantity out, as where a plan takes away what it extends.
                if child.value is not None or not any("unit" in part.schema for part in below):
                    value[key] = self.quantities(child, below, (*path, key))
            return replace(node, value=value)
        if isinstance(node.value, list):
            return replace(
                node,
                value=[
                    self.quantities(child, self.inner(parts, index), (*path, index))
                    for index, child in enumerate(node.value)
                ],
            )
        for part in parts:
            unit = part.schema.get("unit")
            if unit is not None and node.value not in part.schema.get("enum", ()):
                return self.within(self.quantity(node, unit, path), path)
        return self.within(node, path)

    def within(self, node: Node, path: Path_) -> Node:
        """The node; a fault where its number is none to compute with."""
        if is_number(None, node.value) and path not in self.unread:
            allowed = units.out_of_range(node.value)  # type: ignore[arg-type]
            if allowed is not None:
                self.faults.append(
                    Fault(f"{'.'.join(map(str, path))}: a number out of range", node.place, allowed)
                )
                self.unread.add(path)
        return node

    def quantity(self, node: Node, unit: str, path: Path_) -> Node:
        if node.unit == unit:  # checked before
            return node
        if len(self.faults) > ENOUGH:  # looking for near spellings takes its time
            raise PlanError(self.faults)
        try:
            read = units.parse(node.value, unit)  # type: ignore[arg-type]
        except units.UnitError as error:
            message = f"{'.'.join(map(str, path))}: {error.message}"
            self.faults.append(Fault(message, node.place, error.allowed, error.hint))
            self.unread.add(path)
            return node
        return replace(node, value=read, unit=unit)

    def defaults(self, node: Node, places: list[_Place], path: Path_) -> Node:
        """The tree with the defaults of absent keys."""
        parts = [part for place in places for part in self.parts(place, node)]
        if isinstance(node.value, list):
            return replace(
                node,
                value=[
                    self.defaults(child, self.inner(parts, index), (*path, index))
                    for index, child in enumerate(node.value)
                ],
            )
        if not isinstance(node.value, dict):
            return node
        value = dict(node.value)
        for part in parts:
            for key, schema in part.schema.get("properties", {}).items():
                # A default may stand beside a reference, for editors and for us.
                default = schema.get("default", part.inner(schema).schema.get("default"))
                if key not in value and default is not None:
                    made = _at(from_data(default, "default", DEFAULT), node)
                    value[key] = self.quantities(made, [part.inner(schema)], (*path, key))
        return replace(
            node,
            value={
                key: self.defaults(child, self.inner(parts, key), (*path, key))
                for key, child in value.items()
            },
        )


def _at(made: Node, around: Node) -> Node:
    """A default stands where its mapping does."""
    value = made.value
    if isinstance(value, dict):
        value = {key: _at(child, around) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_at(child, around) for child in value]
    return replace(made, value=value, place=around.place, key_place=around.key_place)


_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def _same_type(place: _Place, node: Node) -> bool:
    return _is_type(place.schema.get("type", []), node.value, place)


def validate(document: Document, schema: str, folder: Path | None = None) -> Document:
    """The document with exact quantities and defaults.

    Args:
        document: as `source.load` returns it.
        schema: plan, model, cluster, accelerator, or another NAME.schema.json.
        folder: of the schemas, where it is not the program's own.

    Raises:
        PlanError: every fault of the document, sorted by place.
    """
    file = _file(schema, folder)
    root = _Place(_load(file), file)
    walk = _Walk()
    node = walk.quantities(document.node, [root], ())
    read = replace(document, node=node)
    if walk.faults or not _accepts(root, read.data):
        faults = [*walk.faults, *_complaints(root, read, walk)]
        if faults:
            raise PlanError(faults)
    return replace(read, node=walk.defaults(node, [root], ()))


def _complaints(root: _Place, read: Document, walk: _Walk) -> Iterator[Fault]:
    """What jsonschema finds wrong with a document, beside the quantities that could not be read;
    of very many faults the first."""
    from planner.documents.schema_errors import complaints

    def elsewhere(key: str) -> str | None:
        return _elsewhere(root, key)

    found = (
        fault
        for error in _validator(root.file).iter_errors(read.data)
        if not any(tuple(error.absolute_path)[: len(bad)] == bad for bad in walk.unread)
        for fault in complaints(error, read, elsewhere)
    )
    return islice(found, max(0, ENOUGH - len(walk.faults)))


def _elsewhere(root: _Place, key: str) -> str | None:
    """The dotted path of a key, where exactly one mapping near the top knows it."""
    found = _paths_of_keys(root.file).get(key, set())
    return next(iter(found)) if len(found) == 1 else None


@lru_cache(maxsize=16)
def _paths_of_keys(file: Path) -> dict[str, set[str]]:
    """The dotted paths near the top at which a schema knows each key."""
    found: dict[str, set[str]] = {}
    level: list[tuple[str, _Place]] = [("", _Place(_load(file), file))]
    for _ in range(3):
        below = []
        for prefix, place in level:
            for part in _every(place):
                for name, schema in part.schema.get("properties", {}).items():
                    below.append((f"{prefix}{name}.", part.inner(schema)))
                    found.setdefault(name, set()).add(prefix + name)
        level = below
    return found


def knows(schema: str, path: str) -> bool:
    """Whether a kind of document has a dotted key."""
    try:
        describe(schema, path)
    except KeyError:
        return False
    return True


def paths(schema: str) -> list[str]:
    """The dotted keys near the top of a kind of document, for near spellings."""
    found = _paths_of_keys(_file(schema, None)).values()
    return sorted(path for several in found for path in several)


def _file(schema: str, folder: Path | None) -> Path:
    return (folder or resources.folder("schemas")) / f"{schema}.schema.json"


def describe(schema: str, path: str | Sequence[str | int], folder: Path | None = None) -> Schema:
    """What a schema says about a key: description, unit, default, enum, type and so on.

    Args:
        schema: as for `validate`.
        path: dotted, such as `training.tokens`; items of lists by any index.

    Raises:
        KeyError: the schema knows no such key.
    """
    file = _file(schema, folder)
    places = list(_every(_Place(_load(file), file)))
    said: dict[str, Any] = {}
    steps = path.split(".") if isinstance(path, str) else [str(step) for step in path]
    for step in filter(None, steps):
        found = []
        for place in places:
            inner = place.schema.get("properties", {}).get(step)
            if inner is None and step.isdigit():
                inner = place.schema.get("items")
            if inner is None and isinstance(place.schema.get("additionalProperties"), dict):
                inner = place.schema["additionalProperties"]
            if isinstance(inner, dict):
                found.append(_Place(inner, place.file))
        if not found:
            raise KeyError(path)
        said = {key: value for place in reversed(found) for key, value in place.schema.items()}
        places = [part for place in found for part in _every(place)]
    for place in places:
        for key, value in place.schema.items():
            said.setdefault(key, value)
    return {key: value for key, value in said.items() if key not in _STRUCTURE}


_STRUCTURE = frozenset(
    {
        "$ref",
        "$schema",
        "$id",
        "definitions",
        "properties",
        "items",
        "additionalProperties",
        "patternProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "then",
        "else",
        "required",
        "not",
        "dependencies",
    }
)


def _every(place: _Place) -> Iterator[_Place]:
    """A schema and all its conditional parts and alternatives."""
    place = place.followed()
    yield place
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in place.schema.get(keyword, ()):
            yield from _every(place.inner(part))
    for keyword in ("then", "else"):
        if keyword in place.schema:
            yield from _every(place.inner(place.schema[keyword]))
