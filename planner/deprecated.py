"""Keys that have a new name: the old one works for one minor version, with a warning.

A row of RENAMED is all that a renaming needs. Through the minor version of ``since`` the old key
is read as the new one, and a warning names both, the place and the version that ends it. From the
next minor version on the old key is an unknown key whose fault names the new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.errors import Fault, Place, PlanError
from planner.nodes import REFERENCES, Node
from planner.version import __version__

__all__ = ["RENAMED", "DeprecatedKey", "Renamed", "renamed", "renamed_key", "successor"]


class DeprecatedKey(FutureWarning):
    """A document uses a key that will go; the text is one line that begins with the place."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """Dotted keys of documents of one kind (plan, model, cluster, accelerator, study)."""

    kind: str
    old: str
    new: str
    since: str  # version, such as 0.4.0

    @property
    def until(self) -> str:
        """The first version that does not know the old key."""
        major, minor = _minor(self.since)
        return f"{major}.{minor + 1}"

    @property
    def works(self) -> bool:
        return _minor(__version__) < _minor(self.until)


#: Newest last. A row may go when two minor versions have passed.
RENAMED: tuple[Renamed, ...] = ()


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _rows(kind: str, prefix: str = "") -> Iterator[tuple[list[str], list[str], Renamed]]:
    """Old and new steps of what concerns a kind, and the kinds inside it."""
    for row in RENAMED:
        if row.kind == kind:
            yield (prefix + row.old).split("."), (prefix + row.new).split("."), row
    for key, inner in REFERENCES.get(kind, {}).items():
        yield from _rows(inner, f"{prefix}{key}.")


def _warn(old: list[str], new: list[str], row: Renamed, place: Place | None) -> None:
    fault = Fault(
        f"the key {'.'.join(old)} is deprecated and goes in {row.until}",
        place,
        f"its name is {'.'.join(new)} since {row.since}",
    )
    warnings.warn(str(fault), DeprecatedKey, stacklevel=2)


def renamed(root: Node, kind: str) -> Node:
    """The tree of one document as written, with old keys under their new names.

    Raises:
        PlanError: a document gives a key under both names.
    """
    for old, new, row in _rows(kind) if RENAMED else ():
        node = _at(root, old)
        if node is None or not row.works:
            continue
        if _at(root, new) is not None:
            raise PlanError(
                Fault(
                    f"{'.'.join(old)} and {'.'.join(new)} are two names of one key",
                    node.key_place or node.place,
                    f"{'.'.join(new)} only",
                )
            )
        _warn(old, new, row, node.key_place or node.place)
        root = _with(_without(root, old), new, node)
    return root


def renamed_key(steps: list[str], kind: str, place: Place) -> list[str]:
    """The steps of a dotted key of an override, under its new name."""
    for old, new, row in _rows(kind) if RENAMED else ():
        if row.works and steps[: len(old)] == old:
            _warn(old, new, row, place)
            steps = [*new, *steps[len(old) :]]
    return steps


def successor(kind: str, key: str) -> str | None:
    """The new name of a key whose time is over, for the fault that calls it unknown."""
    found = (".".join(new) for old, new, _ in _rows(kind) if old[-1] == key)
    return next(found, None)


def _at(node: Node | None, steps: list[str]) -> Node | None:
    for step in steps:
        node = node.value.get(step) if node and isinstance(node.value, dict) else None
    return node


def _without(node: Node, steps: list[str]) -> Node:
    assert isinstance(node.value, dict)
    entries = dict(node.value)
    if len(steps) == 1:
        del entries[steps[0]]
    else:
        entries[steps[0]] = _without(entries[steps[0]], steps[1:])
    return replace(node, value=entries)


def _with(node: Node, steps: list[str], value: Node) -> Node:
    entries = dict(node.value) if isinstance(node.value, dict) else {}
    if len(steps) > 1:
        inner = entries.get(steps[0]) or replace(value, value={}, text=None)
        value = _with(inner, steps[1:], value)
    entries[steps[0]] = value
    return replace(node, value=entries)
