"""YAML text becomes a tree of nodes that know where they were written.

The rules are those of YAML 1.2's core schema with strict numbers: `1e9` is a number, `no`
and `10:30` are strings, `017`, duplicate keys, tags and merge keys (`<<`; use `extends`) are
faults. Numbers are exact: int where integral, else Fraction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile
from typing import Any, NamedTuple

import yaml

from planner.base import units
from planner.base.errors import Fault, Place, PlanError

MAX_BYTES = 5_000_000
MAX_NODES = 20_000  # with every alias written out
MAX_DEPTH = 100

Value = dict[str, "Node"] | list["Node"] | str | int | Fraction | bool | None


class Origin(NamedTuple):
    """Who decided a value. `kind` is file, preset, set, default or argument."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place, the place of its key and its origin.

    `text` is a scalar as written, `reference` the name that a mapping was looked up by,
    `unit` that of a quantity which has been read.
    """

    value: Value
    place: Place
    origin: Origin
    key_place: Place | None = None
    text: str | None = None
    reference: str | None = None
    unit: str | None = None

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def find(self, dotted: str) -> Node | None:
        """Return the node of a dotted key, None where there is none."""
        found: Node | None = self
        for step in dotted.split("."):
            found = found and found.entries.get(step)
        return found

    def drop_defaults(self, kinds: Collection[str] = ("default",)) -> Node:
        """Return the tree without what nobody states, as the kinds of its origins say."""
        if not self.entries:
            return self
        left = {key: below.drop_defaults(kinds) for key, below in self.entries.items()}
        stated = {k: v for k, v in left.items() if v.entries or v.origin.kind not in kinds}
        return replace(self, value=stated)

    def plain(self) -> Any:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def iter_children(self) -> Iterator[tuple[str | int, Node]]:
        """Yield keys or indices with their nodes."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)

    def walk(
        self, path: tuple[str | int, ...] = ()
    ) -> Iterator[tuple[tuple[str | int, ...], Node]]:
        """Yield this node and all in it, each with its path from here, in document order."""
        yield path, self
        for step, child in self.iter_children():
            yield from child.walk((*path, step))


_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_LEADING_ZERO = re.compile(r"([-+]?)0+([0-9][0-9.eE+-]*)")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _parse_scalar(text: str) -> str | int | Fraction | bool | None:
    """Parse a plain scalar by YAML 1.2's core schema.

    Raises:
        UnitError: a number that is written in a way that misleads, or is out of range.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise units.UnitError(f"'{text}' is not a finite number")
    if len(text) <= units.LONGEST and _BASED.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if "_" in text or not units.NUMBER.fullmatch(text):
        return text
    zero = _LEADING_ZERO.fullmatch(text)
    if zero:
        wrong, allowed = f"the number {text} starts with a zero", "quote it if it is text"
        raise units.UnitError(wrong, allowed, zero[1] + zero[2])
    return units.parse_number(text)


class _Composer:
    """Builds nodes from the parser's events, so that depth and size stay bounded."""

    def __init__(self, text: str, file: str, origin: Origin | None) -> None:
        self.file, self.origin = file, origin
        self.name = re.split(r"[/\\]", file)[-1]
        #: Each anchored node with how many there are in it; None while it is being read.
        self.anchors: dict[str, tuple[Node, int] | None] = {}
        self.faults: list[Fault] = []
        self.size = 0
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.events = yaml.parse(text, Loader=loader)

    def make_place(self, mark: Any) -> Place:
        """Return the place of a mark; an override has no lines."""
        if self.origin is not None and self.origin.kind == "set":
            return Place(self.file)
        return Place(self.file, mark.line + 1, mark.column + 1)

    def stop(self, message: str, place: Place, allowed: str | None = None) -> PlanError:
        """Return the error that ends the reading: the faults so far and a last one.

        Args:
            message: what is wrong.
            place: where.
            allowed: what may be written.
        """
        return PlanError([*self.faults, Fault(message, place, allowed)])

    def build_root(self) -> Node | None:
        """Return the one document of the stream; None where it is empty."""
        found = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if found is not None:
                    here = self.make_place(event.start_mark)
                    raise self.stop("a second document starts here", here, "one document per file")
                found = self.build_node(next(self.events), 0)
        return found

    def build_node(self, event: Any, depth: int) -> Node:
        """Build the node that an event begins; the events of its content are consumed."""
        place, before = self.make_place(event.start_mark), self.size
        if depth > MAX_DEPTH:
            raise self.stop("nested too deeply", place, f"at most {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self.resolve_alias(event, place)
        self.count_nodes(1, place)
        if event.anchor:
            self.anchors[event.anchor] = None
        # `!` alone and the tag of plain text say nothing beyond what quotes say.
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            wrong = f"the tag {tag} is not supported"
            self.faults.append(Fault(wrong, place, "plain YAML without tags"))
        text: str | None = None
        value: Value = None
        if isinstance(event, yaml.ScalarEvent):
            text = value = event.value
            if event.tag is None and event.implicit[0]:
                try:
                    value = _parse_scalar(text)
                except units.UnitError as error:
                    self.faults.append(Fault(error.message, place, error.allowed, error.hint))
        elif isinstance(event, yaml.SequenceStartEvent):
            value = [
                self.build_node(item, depth + 1) for item in self.iter_until(yaml.SequenceEndEvent)
            ]
        else:
            value = self.build_entries(depth)
        origin = self.origin or Origin("file", f"{self.name}:{place.line}")
        made = Node(value, place, origin, text=text)
        if event.anchor:
            self.anchors[event.anchor] = made, self.size - before
        return made

    def iter_until(self, end: type) -> Iterator[Any]:
        """Yield events up to the end of a mapping or a list, which is consumed."""
        return takewhile(lambda event: not isinstance(event, end), self.events)

    def count_nodes(self, more: int, place: Place) -> None:
        """Count nodes, those of an alias each time; raise a PlanError beyond ``MAX_NODES``."""
        self.size += more
        if self.size > MAX_NODES:
            allowed = f"at most {MAX_NODES} values, aliases written out"
            raise self.stop("the document is too large", place, allowed)

    def resolve_alias(self, event: Any, place: Place) -> Node:
        """Return the anchored node at the place of its alias.

        Raises:
            PlanError: the anchor is unknown, contains its alias, or the document grows too large.
        """
        if event.anchor not in self.anchors:
            raise self.stop(f"unknown alias *{event.anchor}", place, "an anchor written before it")
        target = self.anchors[event.anchor]
        if target is None:
            raise self.stop(f"the alias *{event.anchor} contains itself", place)
        self.count_nodes(target[1], place)
        return replace(target[0], place=place)

    def build_entries(self, depth: int) -> dict[str, Node]:
        """Build the entries of a mapping."""
        entries: dict[str, Node] = {}
        for event in self.iter_until(yaml.MappingEndEvent):
            key = self.build_node(event, depth + 1)
            value = self.build_node(next(self.events), depth + 1)
            wrong, allowed = "", ""
            if not isinstance(key.value, str):
                shown = "a key" if key.text is None else f"the key '{key.text}'"
                wrong, allowed = f"{shown} is not text", "quote it to make it text"
            elif key.value == "<<" and key.place == self.make_place(event.start_mark):
                wrong, allowed = "merge keys are not supported", "extends: NAME"
            elif key.value in entries:
                first = entries[key.value].key_place
                wrong, allowed = f"the key '{key.value}' occurs twice", f"first at {first}"
            else:
                entries[key.value] = replace(value, key_place=key.place)
            if wrong:
                self.faults.append(Fault(wrong, key.place, allowed))
        return entries


def parse_yaml(text: str, file: str, origin: Origin | None = None) -> Node | None:
    """Parse YAML text to a tree of nodes; None where it is empty.

    Args:
        text: YAML.
        file: how the file is called in faults.
        origin: of every value; left out, it is the file and line.

    Raises:
        PlanError: not YAML, or against the strict rules above; every such fault at once,
            up to the first that makes the rest unreadable.
    """
    composer = _Composer(text, file, origin)
    try:
        root = composer.build_root()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = composer.make_place(mark) if mark else Place(file)
        said = ", ".join(filter(None, (error.context, error.problem))) or "unreadable"
        if "maximum nesting depth" in said:  # of the parser; ours is lower, but told later
            allowed = f"at most {MAX_DEPTH} levels"
            raise composer.stop("nested too deeply", place, allowed) from None
        raise composer.stop(f"not valid YAML: {said}", place) from None
    except (yaml.YAMLError, UnicodeError):
        # The parsers count in bytes or in characters, so look for it again.
        found = yaml.reader.Reader.NON_PRINTABLE.search(text)
        before = text[: found.start() if found else 0]
        column = len(before) - before.rfind("\n") - 1
        mark = yaml.Mark(file, 0, before.count("\n"), column, None, 0)
        wrong = "a character that YAML does not allow" if found else "not valid YAML"
        raise composer.stop(wrong, composer.make_place(mark)) from None
    if composer.faults:
        raise PlanError(composer.faults)
    return root


def parse_plain(text: str, file: str) -> Any:
    """Parse YAML text to plain dicts, lists and scalars; None where it is empty."""
    root = parse_yaml(text, file)
    return None if root is None else root.plain()


def from_data(data: object, place: Place, origin: Origin, depth: int = 0) -> Node:
    """Convert plain Python data to a tree of nodes. Floats count as their shortest decimal text.

    Args:
        data: mappings with text as keys, lists, text, numbers, booleans, None; nodes stay.
        place: of every node.
        origin: of every node.
        depth: levels above ``data``.

    Raises:
        PlanError: data of another type, or nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise PlanError("nested too deeply", place, f"at most {MAX_DEPTH} levels")
    if isinstance(data, Node):
        return data
    if isinstance(data, Mapping):
        entries: dict[str, Node] = {}
        for key, item in data.items():
            if not isinstance(key, str):
                raise PlanError(f"the key {key!r} is not text", place)
            entries[key] = replace(from_data(item, place, origin, depth + 1), key_place=place)
        return Node(entries, place, origin)
    if isinstance(data, (list, tuple)):
        items = [from_data(item, place, origin, depth + 1) for item in data]
        return Node(items, place, origin)
    if data is None or isinstance(data, (str, bool)):
        return Node(data, place, origin, text=data if isinstance(data, str) else None)
    if isinstance(data, (int, Fraction, float)):
        try:
            return Node(units.parse(data), place, origin, text=str(data))
        except units.UnitError as error:
            raise PlanError(error.message, place, error.allowed, error.hint) from None
    allowed = "mappings, lists, text, numbers, true, false"
    raise PlanError(f"a value of type {type(data).__name__}", place, allowed)
