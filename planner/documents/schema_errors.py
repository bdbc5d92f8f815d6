"""Says in our words, and at its place, what jsonschema finds wrong with a document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from jsonschema import Draft7Validator, validators

from planner.base import resources, units
from planner.base.errors import Fault, Place, nearest
from planner.base.numbers import plain_text
from planner.documents import aliases
from planner.documents.json_schema import Schema, is_number, list_schemas
from planner.documents.source import Document

MOST_LISTED = 16

_KINDS, _BOUNDS = resources.load_beside(__file__).values()
_SIZES = {
    f"{rule}{what}": f"{bound} {{}} {word}"
    for what, word in (("Items", "item"), ("Length", "character"), ("Properties", "key"))
    for rule, bound in (("min", "at least"), ("max", "at most"))
}

_extend: Any = validators.extend
#: Numbers are exact.
_VALIDATOR: Any = _extend(
    Draft7Validator,
    type_checker=Draft7Validator.TYPE_CHECKER.redefine_many(
        {
            "number": lambda _, value: is_number(value),
            "integer": lambda _, value: type(value) is int,
        }
    ),
)

#: A ``ValidationError`` of jsonschema, any part of which may be unset by its type.
Error = Any


def iter_faults(
    document: Document,
    schema: Schema,
    known: Sequence[str],
    told: Collection[tuple[str | int, ...]],
) -> Iterator[Fault]:
    """Yield the faults of a document.

    Args:
        known: the dotted keys that there are, for one that stands in the wrong mapping.
        told: paths at which a fault was told already.
    """
    for error in _VALIDATOR(schema).iter_errors(document.data):
        path = tuple(error.absolute_path)
        if not any(path[: len(bad)] == bad for bad in told):
            yield from _convert_error(error, document, known)


def _convert_error(error: Error, document: Document, known: Sequence[str]) -> Iterator[Fault]:
    """Convert one error of jsonschema to faults."""
    path, schema, value = tuple(error.absolute_path), error.schema, error.instance
    name = ".".join(map(str, path)) or "the document"
    if error.validator == "additionalProperties":
        where = f" in {name}" if path else ""
        allowed = list(schema.get("properties", {}))
        for key in value:
            if list_schemas(schema, key) != [False]:
                continue
            homes = [home for home in known if home.rpartition(".")[2] == key]
            close = homes[0] if len(homes) == 1 else aliases.suggest_key(str(key), document.kind)
            if close is None:
                close = nearest(str(key), allowed)
            elif close.rpartition(".")[0] == name:
                close = close.rpartition(".")[2]
            few = 0 < len(allowed) <= (6 if close else MOST_LISTED)
            place = document.find_key_place((*path, key))
            listed = f"allowed keys: {', '.join(allowed)}" if few else None
            if close == key:  # in one of the sections
                listed, close = "it stands at the top of the document", None
            yield Fault(f"unknown key '{key}'{where}", place, listed, close)
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in value:
                yield Fault(f"{name} has no key '{key}'", document.find_key_place(path))
    elif error.validator == "anyOf":
        yield from _explain_closest(error, document, name, known)
    else:
        yield _explain_value(error, name, document.find_place(path))


def _explain_value(error: Error, name: str, place: Place) -> Fault:
    """Return the fault of a single value."""
    rule, limit, schema = error.validator, error.validator_value, error.schema
    shown = f"{name} is {_quote_value(error.instance)}"
    if rule in ("enum", "type"):
        return _explain_mismatch([error], name, place)
    if rule in _BOUNDS:
        unit = schema.get("unit", "1")
        suffix = "" if unit == "1" else f" {unit}"
        bounds = (f"{word} {plain_text(schema[b])}" for b, word in _BOUNDS.items() if b in schema)
        return Fault(shown + suffix, place, ", ".join(bounds) + suffix)
    if rule in _SIZES:
        several = "" if limit == 1 else "s"
        return Fault(shown, place, _SIZES[rule].format("one" if limit == 1 else limit) + several)
    if rule == "uniqueItems":
        return Fault(shown, place, "no item twice")
    if rule == "pattern":
        examples = schema.get("examples")
        allowed = f"such as {examples[0]}" if examples else f"text of the form {limit}"
        return Fault(f"{name} has the wrong form", place, allowed)
    return Fault(f"{name} is not allowed here", place, schema.get("description"))


def _explain_mismatch(errors: Sequence[Error], name: str, place: Place) -> Fault:
    """Return the fault of a value that has none of the allowed types or words."""
    value = errors[0].instance
    allowed = " or ".join(dict.fromkeys(map(_describe_allowed, errors)))
    listed = [
        word for error in errors if error.validator == "enum" for word in error.validator_value
    ]
    hint = None
    if isinstance(value, str):
        hint = nearest(value, [word for word in listed if isinstance(word, str)])
    key = re.sub(r"\.\d+$", "", name)  # of an item, that of its list
    hint = aliases.match_value(key, value) or hint
    return Fault(f"{name} is {_quote_value(value)}", place, allowed, hint)


def _quote_value(value: Any) -> str:
    """Name a value in a message: text in quotes, a mapping or a list by what it is."""
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value if len(value) <= 60 else value[:57] + '...'}'"
    return plain_text(value)


def _describe_allowed(error: Error) -> str:
    """Describe what an enum or a type accepts."""
    limit = error.validator_value
    if error.validator == "enum":
        words = (value if isinstance(value, str) else _quote_value(value) for value in limit)
        return f"one of {', '.join(words)}"
    kinds = [limit] if isinstance(limit, str) else list(limit)
    if "unit" in error.schema:
        if not is_number(error.instance):
            return units.describe_unit(error.schema["unit"])
        kinds = [kind for kind in kinds if kind != "string"] or kinds
    return " or ".join(_KINDS.get(kind, kind) for kind in kinds)


def _explain_closest(
    error: Error, document: Document, name: str, known: Sequence[str]
) -> Iterator[Fault]:
    """Yield the faults of the alternative that is closest to what was written."""

    def misses(inner: Error) -> bool:
        """Decide whether a branch fails at the value itself, by its type or its word."""
        return inner.validator in ("type", "enum") and inner.absolute_path == error.absolute_path

    branches: dict[Any, list[Error]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    close = [found for found in branches.values() if not any(map(misses, found))]
    if not close:
        outright = [inner for found in branches.values() for inner in found if misses(inner)]
        yield _explain_mismatch(outright, name, document.find_place(tuple(error.absolute_path)))
        return

    def closeness(found: Sequence[Error]) -> tuple[bool, int, int]:
        """Rank the faults of a branch; the largest is the branch that was probably meant."""
        # A wrong discriminating word rules a branch out; then the deepest fault is nearest.
        wrong_word = any(inner.validator == "enum" for inner in found)
        depths = (len(e.absolute_path) + (e.validator == "additionalProperties") for e in found)
        return not wrong_word, max(depths), -len(found)

    for inner in max(close, key=closeness):
        yield from _convert_error(inner, document, known)
