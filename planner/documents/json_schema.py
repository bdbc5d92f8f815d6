"""JSON Schema draft 7: reads a schema, tells fast whether plain data agrees with it. Numbers are
exact, ints and Fractions.

Most documents are valid. That is found here, as far as schemas/ use the standard, in less time than
it takes to import jsonschema; what is wrong with the others, jsonschema says (schema_errors.py).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import combinations, starmap
from typing import Any

from planner.base import resources, units

Schema = Mapping[str, Any]


@cache
def read_schema(kind: str) -> Schema:
    """Read the schema of a kind of document. Each `$ref` is replaced by its target, and
    alternatives that differ by type are merged into one schema of several types.

    A quantity is text with its `unit`, which is the name of a definition of units.schema.json."""
    file = resources.folder("schemas") / f"{kind}.schema.json"
    root = resources.read_json(file, parse_float=units.parse_number)
    known = dict[str, Any]()  # what is referred to from many places, by its reference

    def resolve(node: Any, named: bool = False) -> Any:
        """Return a schema with each reference replaced by what it refers to, keys beside it
        merged; or such schemas by name."""
        if isinstance(node, list):
            return [resolve(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" not in node:
            data = () if named else _DATA
            # That a key may be anything says nothing of it.
            return _merge_branches(
                {
                    key: inner if key in data else resolve(inner, key == "properties")
                    for key, inner in node.items()
                    if inner is not True or key in data
                }
            )
        if node["$ref"] in known:
            return known[node["$ref"]]
        name, _, pointer = node["$ref"].partition("#")
        steps = [step.replace("~1", "/") for step in pointer.split("/") if step]
        other = name.removesuffix(".schema.json")
        if other == "units":
            return {"type": "string", "unit": steps[-1]}
        if other == "names":  # none is left where a document is checked
            left = steps[-1] not in ("file", "nothing")
            return {"type": "string", "minLength": 1} if left else False
        target = read_schema(other) if name else root
        for step in steps:
            target = target[step]
        known[node["$ref"]] = target if name else resolve(target)
        return known[node["$ref"]]

    schema: Schema = resolve(root)
    return schema


#: Keywords whose values are no schemas.
_DATA = {"default", "examples", "enum", "const", "uniqueItems"}


def _merge_branches(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge alternatives whose types differ into one schema: most rules concern one type only."""
    found = schema.get("anyOf", ())
    if schema.get("if") == {"type": "object"} and "else" in schema:
        found = [schema["then"], schema["else"]]
    branches = [branch for branch in found if branch is not False]
    kinds = [kind for branch in branches for kind in _list_types(branch)]
    alone = len(branches) == 1
    alike = len(kinds) == len(set(kinds)) and all(map(_list_types, branches))
    if not branches or not (alone or alike):
        return {"type": ["string", "object"], **schema} if "if" in schema and kinds else schema
    outer = {key: inner for key, inner in schema.items() if key not in _ALTERNATIVES}
    made = {key: inner for each in branches for key, inner in each.items() if key not in _OF_A_FILE}
    if "unit" in made:  # a number that lacks its unit is refused where the quantity is read
        made.pop("const", None)
    return {**made, **({} if alone else {"type": kinds}), **outer}


_ALTERNATIVES = ("anyOf", "if", "then", "else")
_OF_A_FILE = ("$id", "$schema", "title", "definitions")


def _list_types(branch: Schema) -> list[str]:
    """List the types of an alternative; none where it has rules for any type."""
    kinds = branch.get("type", [])
    return [] if "enum" in branch else [kinds] if isinstance(kinds, str) else kinds


def is_number(value: object) -> bool:
    """Return whether a value is a number of JSON Schema: exact, and not a boolean."""
    return isinstance(value, (int, Fraction)) and not isinstance(value, bool)


_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def is_type(wanted: str | list[str], value: object) -> bool:
    """Return whether a value is of one of the types; an int is an integer and a number."""
    kind = _TYPES.get(type(value), "number")
    kinds = [wanted] if isinstance(wanted, str) else wanted
    return kind in kinds or ("integer" in kinds and type(value) is int)


def list_schemas(schema: Schema, step: str | int) -> list[Schema | bool]:
    """Return the schemas that apply to a key of a mapping, or to an item of a list."""
    if isinstance(step, int):
        return [schema["items"]] if "items" in schema else []
    found = [schema["properties"][step]] if step in schema.get("properties", ()) else []
    if "patternProperties" in schema:
        forms = schema["patternProperties"].items()
        found += [inner for form, inner in forms if re.search(form, step)]
    return found or [schema.get("additionalProperties", True)]


def accepts(schema: Schema, value: Any) -> bool:
    """Return whether plain data is valid under a schema; keywords without a row are ignored."""
    items = enumerate(value) if isinstance(value, list) else ()
    for step, item in value.items() if isinstance(value, dict) else items:
        for inner in list_schemas(schema, step):
            if inner is False or (inner is not True and not accepts(inner, item)):
                return False
    for rule, wanted in schema.items():
        kinds, holds = RULES.get(rule, _NO_RULE)
        if type(value) in kinds and not holds(wanted, value):
            return False
    if "if" in schema:
        branch = "then" if accepts(schema["if"], value) else "else"
        return accepts(schema.get(branch, {}), value)
    return True


def _is_equal(one: Any, other: Any) -> bool:
    """Compare as JSON does, where true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


_Rule = tuple[tuple[type, ...], Callable[[Any, Any], Any]]
_NUMBER, _TEXT, _LIST, _MAPPING = (int, Fraction), (str,), (list,), (dict,)
_ANY = (*_TYPES, *_NUMBER, float)
#: Endings of the rules that limit a size, with the types that they apply to.
_SIZES = (("Length", _TEXT), ("Items", _LIST), ("Properties", _MAPPING))
_NO_RULE: _Rule = ((), operator.eq)
#: Of each rule, the types that it applies to, and a function of its argument and a value.
RULES: Mapping[str, _Rule] = {
    "type": (_ANY, is_type),
    "enum": (_ANY, lambda wanted, value: any(_is_equal(value, each) for each in wanted)),
    "not": (_ANY, lambda wanted, value: not accepts(wanted, value)),
    "allOf": (_ANY, lambda wanted, value: all(accepts(each, value) for each in wanted)),
    "anyOf": (_ANY, lambda wanted, value: any(accepts(each, value) for each in wanted)),
    "minimum": (_NUMBER, operator.le),
    "maximum": (_NUMBER, operator.ge),
    "exclusiveMinimum": (_NUMBER, operator.lt),
    "exclusiveMaximum": (_NUMBER, operator.gt),
    **{f"min{what}": (kinds, lambda wanted, value: len(value) >= wanted) for what, kinds in _SIZES},
    **{f"max{what}": (kinds, lambda wanted, value: len(value) <= wanted) for what, kinds in _SIZES},
    "pattern": (_TEXT, re.search),
    "uniqueItems": (
        _LIST,
        lambda wanted, value: not (wanted and any(starmap(_is_equal, combinations(value, 2)))),
    ),
    "required": (_MAPPING, lambda wanted, value: all(key in value for key in wanted)),
}
