"""Says in our words, and at its place, what a schema finds wrong with a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from planner.base import units
from planner.base.errors import Fault, Place, nearest
from planner.documents.source import Document, Path_

__all__ = ["complaints"]

MOST_LISTED = 16

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "object": "a mapping",
    "array": "a list",
    "boolean": "true or false",
    "null": "nothing",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


Elsewhere = Callable[[str], str | None]


def complaints(error: Any, document: Document, elsewhere: Elsewhere) -> Iterator[Fault]:
    """The faults that one jsonschema error of `document` stands for.

    `elsewhere` finds the dotted path of a key that stands in the wrong mapping.
    """
    path: Path_ = tuple(error.absolute_path)
    rule, instance, schema = error.validator, error.instance, error.schema
    name = ".".join(map(str, path)) or "the document"
    if rule == "additionalProperties":
        known = list(schema.get("properties", {}))
        for key in instance:
            if key not in known:
                where = f" in {name}" if path else ""
                close = elsewhere(key) or nearest(key, known)
                yield Fault(
                    f"unknown key '{key}'{where}",
                    document.key_place((*path, key)),
                    _keys(known, 6 if close else MOST_LISTED),
                    close,
                )
        return
    if rule == "required":
        where = f"{name} has" if path else "the document has"
        for key in error.validator_value:
            if key not in instance:
                yield Fault(f"{where} no key '{key}'", document.key_place(path))
        return
    if rule == "propertyNames" or (
        isinstance(document.find(path).value, dict) and isinstance(instance, str)
    ):
        yield Fault(f"'{instance}' is not a key of {name}", document.key_place((*path, instance)))
        return
    if rule in ("anyOf", "oneOf") and error.context:
        yield from _alternatives(error, document, name, elsewhere)
        return
    yield _value(error, name, document.place(path))


def _keys(known: list[str], most: int) -> str | None:
    if not known or len(known) > most:
        return None
    return f"allowed keys: {', '.join(known)}"


def _value(error: Any, name: str, place: Place) -> Fault:
    """The fault of a single value."""
    rule, limit, schema = error.validator, error.validator_value, error.schema
    shown = f"{name} is {_shown(error.instance)}"
    if rule in ("enum", "const", "type"):
        hint = None
        if rule == "enum" and isinstance(error.instance, str):
            hint = nearest(error.instance, [v for v in limit if isinstance(v, str)])
        return Fault(shown, place, _allowed(error), hint)
    if rule in _BOUNDS:
        unit = schema.get("unit", "1")
        return Fault(f"{shown}{'' if unit == '1' else ' ' + unit}", place, _range(schema))
    if rule == "multipleOf":
        return Fault(shown, place, f"a multiple of {limit}")
    counted = {
        "minItems": "at least one item" if limit == 1 else f"at least {limit} items",
        "maxItems": f"at most {limit} items",
        "minLength": "at least one character" if limit == 1 else f"at least {limit} characters",
        "maxLength": f"at most {limit} characters",
        "minProperties": "at least one key" if limit == 1 else f"at least {limit} keys",
        "maxProperties": f"at most {limit} keys",
        "uniqueItems": "no item twice",
        "contains": "an item of another form",
    }
    if rule in counted:
        return Fault(shown, place, counted[rule])
    if rule == "dependencies":
        return Fault(f"{name}: {_first_words(error.message)}", place)
    allowed = None
    if rule == "pattern":
        examples = schema.get("examples")
        allowed = f"such as {examples[0]}" if examples else f"text of the form {limit}"
        return Fault(f"{name} does not have the form that is needed", place, allowed)
    return Fault(f"{name} is not allowed here", place, schema.get("description"))


def _first_words(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + " ..."


def _shown(value: Any) -> str:
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
    return units.plain_text(value)


def _allowed(error: Any) -> str:
    """What an enum, a const or a type accepts."""
    limit = error.validator_value
    if error.validator == "enum":
        return f"one of {', '.join(_word(value) for value in limit)}"
    if error.validator == "const":
        return _word(limit)
    kinds = [limit] if isinstance(limit, str) else list(limit)
    if "unit" in error.schema:
        if not isinstance(error.instance, (int, Fraction)):
            return units.wanted(error.schema["unit"])
        kinds = [kind for kind in kinds if kind != "string"] or kinds
    return " or ".join(_KINDS.get(kind, kind) for kind in kinds)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else _shown(value)


def _range(schema: Any) -> str:
    """The bounds of a number with their unit: `more than 0, at most 1`."""
    unit = schema.get("unit", "1")
    bounds = [
        f"{word} {units.plain_text(schema[rule])}"
        for rule, word in _BOUNDS.items()
        if rule in schema
    ]
    return ", ".join(bounds) + ("" if unit == "1" else f" {unit}")


def _alternatives(
    error: Any, document: Document, name: str, elsewhere: Elsewhere
) -> Iterator[Fault]:
    """The faults of the alternative that comes closest to what was written."""
    branches: dict[int, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    outright = {"type", "enum", "const"}

    def misses(inner: Any) -> bool:
        return inner.validator in outright and not inner.relative_path

    close = [found for found in branches.values() if not any(map(misses, found))]
    if not close:
        place = document.place(tuple(error.absolute_path))
        at_root = [inner for found in branches.values() for inner in found if misses(inner)]
        allowed = " or ".join(dict.fromkeys(map(_allowed, at_root)))
        words = [
            word
            for inner in at_root
            if inner.validator in ("enum", "const")
            for word in _words(inner.validator_value)
        ]
        text = error.instance if isinstance(error.instance, str) else ""
        yield Fault(f"{name} is {_shown(error.instance)}", place, allowed, nearest(text, words))
        return

    def closeness(found: list[Any]) -> tuple[bool, int, int]:
        # A wrong discriminating word rules a branch out; then the deepest fault is nearest.
        wrong_word = any(inner.validator in ("const", "enum") for inner in found)
        return not wrong_word, max(len(inner.relative_path) for inner in found), -len(found)

    for inner in max(close, key=closeness):
        yield from complaints(inner, document, elsewhere)


def _words(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for word in values if isinstance(word, str)]
