"""Parse what a search may choose from a command line: keys held at a value, and keys with the
values that they may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from planner.base import units
from planner.base.errors import Fault, PlanError, nearest
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.plans.plan import about, check_value


def parse_fixed(plan: Plan, texts: Iterable[str]) -> dict[str, Any]:
    """Parse keys of a layout that keep a value: ``KEY``, as in the plan, or ``KEY=VALUE``.

    Returns:
        The value of each key, by dotted key.

    Raises:
        PlanError: no key of a layout, a value that it cannot have, or two for one key.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, given, value = text.partition("=")
        if key not in KEYS:
            raise PlanError(Fault.from_pool(f"--fix {key}: not a layout key", key, KEYS))
        chosen = _parse_choice(key, value) if given else plan.get(key)
        if found.setdefault(key, chosen) != chosen:
            raise PlanError(f"--fix {key}: both {found[key]} and {chosen}")
    return found


def parse_varied(texts: Iterable[str], kept: Iterable[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Parse keys with the values that they may have: ``KEY=V1,V2``; ``KEY`` alone takes every value
    that the schema lists or, of a layout, every valid one (an empty tuple).

    Args:
        texts: as on the command line.
        kept: keys that are held at a value, and so may not vary.

    Returns:
        The values of each key, by dotted key.

    Raises:
        PlanError: an unknown key, a value that it cannot have, a key that is held at a value, or
            one whose values cannot be listed.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, given, values = text.partition("=")
        if key in (*found, *kept):
            raise PlanError(f"--vary {key}: it has a value already")
        said = about(key)
        if given:
            found[key] = tuple(
                dict.fromkeys(_parse_choice(key, one) for one in split_values(values, True))
            )
        elif key in KEYS:
            found[key] = ()
        elif said.get("enum") or "boolean" in said.get("type", ()):
            found[key] = tuple(said.get("enum") or (False, True))
        else:
            raise PlanError(f"--vary {key}: which values?", None, f"{key}=V1,V2,…")
    return found


def split_values(text: str, compact: bool = False) -> list[str]:
    """Split a list of values at its commas; in `1,024, 2,048` only those before a space separate.
    With `compact` the commas of a list without spaces separate wherever they can.

    Raises:
        PlanError: commas may separate values or group digits.
    """
    separate = [one.strip() for one in text.split(",")]
    spaced = [one.strip() for one in re.split(r",(?=\s|$)", text)]
    grouped = all("," not in units.GROUPED.sub("", one, count=1) for one in spaced)
    plain = not any(re.match(r"0\d", one) for one in separate[1:])
    if spaced == separate or (plain and (not grouped or (compact and len(spaced) == 1))):
        return separate
    if grouped and not plain:
        return spaced
    whole = ", ".join(one.replace(",", "") for one in spaced)
    either = f"{whole}, or {', '.join(separate)}" if plain else "a space behind each value's comma"
    raise PlanError(f"{text}: do commas group digits or separate values?", None, either)


def _parse_choice(key: str, text: str) -> Any:
    """Parse a value by the schema of its key."""
    said, text = about(key), text.strip()
    kinds = {said["type"]} if isinstance(said.get("type"), str) else set(said.get("type", ()))
    if said.get("enum"):
        named = {str(value).lower(): value for value in said["enum"]}
        if text.lower() not in named:
            allowed = "one of " + ", ".join(map(str, said["enum"]))
            raise PlanError(f"{key}: {text!r}", None, allowed, nearest(text, named))
        return named[text.lower()]
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "unit" in said or kinds & {"integer", "number"}:
        with units.name_faults(key):
            return check_value(key, units.parse(text, said.get("unit", "1")))
    if "boolean" in kinds:
        raise PlanError(f"{key}: {text!r}", None, "true or false")
    check_value(key, text)
    return text
