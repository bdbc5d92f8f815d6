"""Options of one framework in the fields of another that is built on it, and back: Megatron-Bridge
configures in Python what Megatron-LM's arguments say.

Of an option the table ``options`` has the field that takes its value, or several that all do, or
the values of fields that stand for it, or a field that is ``given`` where it is; an option that is
not there is a field of the model by the same name. Where a field's value has several spellings, the
first is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.base.errors import Fault, Place, PlanError

Fields = str | Sequence[str] | Mapping[str, Any]
#: What a field of the model is called that has no other name, and the sections that are calls.
MODEL, SECTIONS = "model.", ("model", "dataset", "peft")


def is_field(key: str) -> bool:
    """Check whether a key is a field already: options are words with dashes."""
    return "." in key or "_" in key or key in SECTIONS


def write_fields(options: Mapping[str, Fields], said: Mapping[str, Any]) -> dict[str, Any]:
    """Write options as fields by sections; fields of rows stay where no option differs."""
    found = {key: value for key, value in said.items() if is_field(key)}
    for option, value in said.items():
        if is_field(option):
            continue
        fields = options.get(option, f"{MODEL}{option.replace('-', '_')}")
        if isinstance(fields, Mapping):
            fields = {} if "given" in fields else fields
            found |= {key: list_spellings(one)[0] for key, one in fields.items()}
        else:
            found |= dict.fromkeys([fields] if isinstance(fields, str) else fields, value)
    sections = [*dict.fromkeys((*SECTIONS, *(key.partition(".")[0] for key in found)))]
    order = sorted(found, key=lambda key: (sections.index(key.partition(".")[0]), "." in key))
    return {key: found[key] for key in order}


def find_options(
    options: Mapping[str, Fields],
    besides: Sequence[str],
    usual: Mapping[str, Any],
    said: Mapping[str, Any],
    place: Place,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Find the options that fields stand for.

    Args:
        options: by option the field or fields that say it.
        besides: patterns of fields of the model that stand for none.
        usual: the defaults of fields.
        said: the fields of a file.
        place: the file.

    Returns:
        The options with their values, and the field that said each.

    Raises:
        PlanError: a field has a value that stands for no option.
    """
    nothing = re.compile("|".join(besides))
    found, names, stood = dict[str, Any](), dict[str, str](), set[str]()
    takes: dict[str, list[Any]] = {}
    for option, fields in options.items():
        if isinstance(fields, Mapping) and "given" in fields:
            if said.get(fields["given"]) is not None:
                found[option], names[option] = True, fields["given"]
        elif isinstance(fields, Mapping):
            for key, value in fields.items():
                takes.setdefault(key, []).extend(list_spellings(value))
            if fields and all(said.get(key) in list_spellings(one) for key, one in fields.items()):
                found[option], names[option] = True, next(iter(fields))
                stood |= {*fields}
    for option, fields in options.items():
        if isinstance(fields, Mapping):
            continue
        for key in [fields] if isinstance(fields, str) else fields:
            stood.add(key)
            if said.get(key) is not None and option not in found:
                found[option], names[option] = said[key], key
    for key, values in takes.items():
        value = said.get(key)
        if key not in stood and value not in (None, False, usual.get(key)):
            allowed = [str(one) for one in (*values, usual.get(key)) if one is not None]
            raise PlanError(Fault.from_pool(f"{key} is {value}", str(value), allowed, place))
    for key, value in said.items():
        if key in stood or key in takes or not key.startswith(MODEL) or nothing.match(key):
            continue
        if value is not None and value is not False:
            option = key.removeprefix(MODEL).replace("_", "-")
            found[option], names[option] = value, key
    return found, names


def list_spellings(value: Any) -> list[Any]:
    """List the values of a field that mean the same; the first is written."""
    return value if isinstance(value, list) else [value]


def resolve_synonyms(
    said: dict[str, Any], also: Sequence[Mapping[str, Mapping[str, Any]]], first: str
) -> None:
    """Replace what is said in other words by the words that rows write; what is said itself stays.

    Args:
        said: what a file says, which is changed.
        also: rules: ``when`` all have such values, it ``means`` these.
        first: the key of a call's only argument; a call of a name, or with it, is that name.
    """

    def same(key: str, option: Any) -> bool:
        held = [said.get(key), said.get(f"{key}.{first}")]
        names = [one.replace("-", "_").removesuffix("()") for one in held if isinstance(one, str)]
        return option in held or option in names

    for rule in also:
        if all(same(key, value) for key, value in rule["when"].items()):
            for key in rule["when"]:
                said.pop(key, None)
            for key, value in rule["means"].items():
                said.setdefault(key, value)
