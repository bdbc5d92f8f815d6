"""Every resolved value of a plan, with its origin: the inputs of a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from planner.plans.document import Plan

Path = tuple[str, ...]
#: Facts about facts, and prices of which a plan takes one; the references of a report show them.
LEFT_OUT = frozenset({"sources", "prices"})


class Input(NamedTuple):
    """One value that entered.

    Attributes:
        key: dotted.
        value: in ``unit``.
        kind: file, preset, set, default, argument or derived.
        origin: in words, such as the preset or the rule.
        text: as written, such as 15T.
        unit: of the key.
    """

    key: str
    value: Any
    kind: str
    origin: str
    text: str | None = None
    unit: str | None = None


def list_inputs(plan: Plan) -> list[Input]:
    """List the values in the order of the document; derived ones stand beside them."""
    found = []
    for path, value in _yield_leaves(plan.data, ()):
        key = ".".join(path)
        kind, text = find_origin(plan, key)
        node = plan.document.find_node(path) if kind != "derived" else None
        written = (node.text, node.unit) if node is not None else (None, None)
        found.append(Input(key, value, kind, text, *written))
    return found


#: In place of the name of a part of a stack, and of a default.
REASONS = {"stack": "that of the stack", "default": "the default"}


def list_reasons(plan: Plan) -> dict[str, str]:
    """Map keys whose values follow from others, from the stack or from nothing that is said, to why
    they have them."""
    every = [one for one in list_inputs(plan) if one.kind in ("derived", "stack", "default")]
    return {one.key: REASONS.get(one.origin.partition(" ")[0], one.origin) for one in every}


def _yield_leaves(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of every scalar and list that is set."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key not in LEFT_OUT:
                yield from _yield_leaves(value, (*path, str(key)))
    elif node is not None:
        yield path, node


def find_origin(plan: Plan, key: str) -> tuple[str, str]:
    """Return the kind and the description of the origin of a dotted key's value."""
    path = tuple(key.split("."))
    # A value that follows from others may replace what the document says; the last word counts.
    for end in range(len(path), 0, -1):
        around = ".".join(path[:end])
        if around in plan.derived:
            return "derived", plan.derived[around]
    found = plan.document.find_origin(path)
    if not plan.document.has_value(path):
        return "derived", "follows from the document"
    return found.kind, found.text
