"""What a search may choose, from the words of a command line: keys held at a value, and keys with
the values that they may have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.base import units
from planner.base.errors import Fault, PlanError, nearest
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.plans.plan import about, checked


def fixed(plan: Plan, texts: Iterable[str]) -> dict[str, Any]:
    """Keys of a layout with the value that each keeps: ``KEY``, as in the plan, or ``KEY=VALUE``.

    Raises:
        PlanError: no key of a layout, a value that it cannot have, or two for one key.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, given, value = text.partition("=")
        if key not in KEYS:
            raise PlanError(Fault.among(f"--fix {key}: no choice of a layout", key, KEYS))
        chosen = _value(key, value) if given else plan.get(key)
        if found.setdefault(key, chosen) != chosen:
            raise PlanError(Fault(f"--fix {key}: both {found[key]} and {chosen}"))
    return found


def varied(texts: Iterable[str], kept: Iterable[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Keys with the values that they may have: ``KEY=V1,V2``; ``KEY`` alone takes every value that
    the schema lists, or, of a layout, every valid one (which the empty tuple stands for).

    Raises:
        PlanError: an unknown key, a value that it cannot have, a key that is held at a value, or
            one whose values cannot be listed.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, given, values = text.partition("=")
        if key in (*found, *kept):
            raise PlanError(Fault(f"--vary {key}: it has a value already"))
        said = about(key)
        if given:
            found[key] = tuple(dict.fromkeys(_value(key, value) for value in values.split(",")))
        elif key in KEYS:
            found[key] = ()
        elif said.get("enum") or "boolean" in said.get("type", ()):
            found[key] = tuple(said.get("enum") or (False, True))
        else:
            raise PlanError(Fault(f"--vary {key}: which values?", None, f"{key}=V1,V2,…"))
    return found


def _value(key: str, text: str) -> Any:
    """A value from its text, as the schema says that the key has them."""
    said, text = about(key), text.strip()
    kinds = {said["type"]} if isinstance(said.get("type"), str) else set(said.get("type", ()))
    if said.get("enum"):
        named = {str(value).lower(): value for value in said["enum"]}
        if text.lower() not in named:
            allowed = "one of " + ", ".join(map(str, said["enum"]))
            raise PlanError(Fault(f"{key}: {text!r}", None, allowed, nearest(text, named)))
        return named[text.lower()]
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "unit" in said or kinds & {"integer", "number"}:
        try:
            return checked(key, units.parse(text, said.get("unit", "1")))
        except units.UnitError as error:
            raise PlanError(Fault(f"{key}: {error}", None, error.allowed, error.hint)) from None
    if "boolean" in kinds:
        raise PlanError(Fault(f"{key}: {text!r}", None, "true or false"))
    checked(key, text)
    return text
