"""Changes keys of a YAML text and leaves every other character as it was.

What is written between the marks of the parser is replaced, and lines are added and taken away; a
library that reads a document and prints it again would also change how the rest is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from planner.base.display import format_flow
from planner.base.errors import Place, PlanError
from planner.documents import aliases, schema, source, yaml_nodes
from planner.documents.references import REFERENCES

#: Text that starts with a number and needs no quotes, such as ``30 days``.
BARE = re.compile(r"(?!0[box]|[0-9.]+(?:[eE][0-9]*)?\Z)[0-9][0-9A-Za-z .%/]*(?<! )")

#: Mappings in mappings, of which the leaves are YAML; a comment stands at a key of its own.
Tree = dict[str, Any]
#: As a value: remove the key.
GONE = object()


class _Marked(yaml.SafeLoader):
    """Composes nodes with the marks of their own text: an alias is a node, not its target."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node; an alias becomes a scalar at its own place, since its text is edited
        there."""
        if self.check_event(yaml.AliasEvent):
            event: Any = self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode("alias", event.anchor, event.start_mark, event.end_mark)
        return super().compose_node(parent, index)


def change_values(
    text: str, file: str, changes: Mapping[str, Any], gone: Iterable[str] = ()
) -> str:
    """Change the values of some dotted keys in the text of a plan, one after the other.

    Args:
        text: a mapping in YAML.
        file: how it is called in faults.
        changes: plain data by dotted key.
        gone: keys that are taken away, where the text has them.

    Raises:
        PlanError: a key lies in something that is no mapping.
    """
    for key, value in changes.items():
        text = _PlanText(text, file).change_key(key.split("."), value)
    for key in gone:
        text = _PlanText(text, file).change_key(key.split("."), GONE)
    return text


class _Spot(NamedTuple):
    """An entry of a mapping, or the place for one."""

    around: Any  # the mapping
    key: Any = None
    value: Any = None


class _PlanText:
    """The text of a plan, with the places of its nodes: edits change lines and keep all others."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        loader = _Marked(text)
        try:
            self.root: Any = loader.get_single_node()
        finally:
            loader.dispose()

    def change_key(self, steps: Sequence[str], value: Any) -> str:
        """Return the text with one key changed or, if the value is GONE, removed. Where a key on
        the way holds the name of a document, a mapping that extends it takes its place."""
        kind = "plan"
        spot = parent = _Spot(None, None, self.root)
        for place, step in enumerate(steps):
            if not isinstance(spot.value, yaml.MappingNode):
                if value is GONE:  # one word may be short for a mapping, as parallelism: auto
                    is_short = isinstance(spot.value, yaml.ScalarNode) and spot.value.value == step
                    return self._replace_value(spot, "{}") if is_short else self.text
                if not isinstance(spot.value, yaml.ScalarNode):
                    mark = spot.value.start_mark
                    where = Place(self.file, mark.line + 1, mark.column + 1)
                    raise PlanError(f"'{step}' is in a list", where, "a mapping")
                return self._expand_to_mapping(spot, steps[:place], steps[place:], value, kind)
            kind = REFERENCES.get(kind, {}).get(step, "")
            pairs = spot.value.value
            found = next((pair for pair in pairs if pair[0].value == step), (None, None))
            parent, spot = spot, _Spot(spot.value, *found)
            if spot.key is None:
                return self.text if value is GONE else self._add_entry(spot, steps[place:], value)
        if value is GONE:
            return self._remove_entry(spot, parent)
        return self._replace_value(spot, format_flow(value, bare=BARE))

    def _replace_value(self, spot: _Spot, shown: str) -> str:
        """Replace the value of an entry; a comment after it stays in its column."""
        start, end = spot.value.start_mark.index, self._find_end(spot.value)
        before = self.text[:start]
        if _is_block(spot.value):
            before = self.text[: self.text.index(":", spot.key.end_mark.index) + 1]
        if before.endswith(":"):
            shown = f" {shown}"
        elif start == end and not before.rstrip().endswith(":"):
            shown = f": {shown}"
        rest = self.text[end:]
        spaces = re.match(r" {2,}(?=#)", rest)
        if spaces and "\n" not in self.text[start:end]:
            pad = max(2, len(spaces[0]) + end - len(before) - len(shown))
            rest = " " * pad + rest[spaces.end() :]
        return before + shown + rest

    def _expand_to_mapping(
        self, spot: _Spot, way: Sequence[str], steps: Sequence[str], value: Any, kind: str
    ) -> str:
        """Replace a value that is no mapping by one: a name by a mapping that extends it, an alias
        of YAML by a copy of its target."""
        held = yaml_nodes.parse_plain(self.text, self.file) or {}
        for step in way:
            held = held[step]
        if isinstance(held, str) and kind:
            counted = aliases.parse_count(held) if kind == "cluster" else None
            held = {"extends": held}
            if counted is not None:
                held = {"accelerator": counted[1], "devices": counted[0]}
        entries = _replace_at(held, steps, value)
        if spot.value.tag == "alias" or spot.around.flow_style:
            return self._replace_value(spot, format_flow(entries, bare=BARE))
        start, end = spot.value.start_mark.index, self._find_end(spot.value)
        line = self._find_line_end(end)
        rest = self.text[end:line]
        before, rest = self.text[:start].rstrip(" "), rest.rstrip()
        indent = " " * (spot.key.start_mark.column + self._step())
        inside = "".join(
            f"{self._break(line)}{indent}{one}" for one in format_entries(entries, self._step())
        )
        return before + rest + inside + self.text[line:]

    def _add_entry(self, spot: _Spot, steps: Sequence[str], value: Any) -> str:
        """Add an entry at the end of its mapping."""
        mapping, entries = spot.around, _replace_at({}, steps, value)
        if mapping.flow_style:
            shown = format_flow(entries, bare=BARE)[1:-1]
            if not mapping.value:
                start = mapping.end_mark.index - 1
                return self.text[:start] + shown + self.text[start:]
            end = self._find_end(mapping.value[-1][1])
            return f"{self.text[:end]}, {shown}{self.text[end:]}"
        last_key, last = mapping.value[-1]
        indent = " " * self._find_column(mapping)
        added = [indent + one for one in format_entries(entries, self._step())]
        line = self._find_line_end(self._find_end(last))
        made = self._break(line)
        if line == len(self.text):  # without an end of line, which the last line keeps so
            line = self._find_line_start(last_key)
            return self.text[:line] + "".join(f"{one}{made}" for one in added) + self.text[line:]
        return self.text[:line] + "".join(f"{made}{one}" for one in added) + self.text[line:]

    def _remove_entry(self, spot: _Spot, parent: _Spot) -> str:
        """Remove an entry; the last one of a mapping leaves an empty mapping."""
        pairs = spot.around.value
        place = next(i for i, pair in enumerate(pairs) if pair[0] is spot.key)
        start, end = spot.key.start_mark.index, self._find_end(spot.value)
        if spot.around.flow_style:
            before = self._find_end(pairs[place - 1][1]) if place else start
            if place and (place + 1 == len(pairs) or "#" not in self.text[before:start]):
                start = before
            elif place + 1 < len(pairs):
                end = pairs[place + 1][0].start_mark.index
            return self.text[:start] + self.text[end:]
        if len(pairs) == 1 and parent.key is not None:
            return self._replace_value(parent, "{}")
        line = self._find_line_end(end)
        after = self.text[line:].removeprefix("\r").removeprefix("\n")
        return self.text[: self._find_line_start(spot.key)] + after

    def _find_end(self, node: Any) -> int:
        """Return the index after the last character of a value; comments are not part of it."""
        if _is_block(node) and node.value:
            last = node.value[-1]
            return self._find_end(last[1] if isinstance(last, tuple) else last)
        end: int = node.end_mark.index
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            return len(self.text[:end].rstrip())
        return end

    def _find_line_start(self, node: Any) -> int:
        """Return the index of the first character of the line that a node begins on."""
        index: int = node.start_mark.index
        return self.text.rfind("\n", 0, index) + 1

    def _find_line_end(self, index: int) -> int:
        """Return the index at which the break of a line begins, or the text ends."""
        found = self.text.find("\n", index)
        end = len(self.text) if found < 0 else found
        return end - (self.text[index:end].endswith("\r"))

    def _break(self, line: int) -> str:
        """Return the line break at an index, or at the end of the text that of the first line."""
        first = self.text.find("\n")
        crlf = self.text[line : line + 2] == "\r\n" or self.text[first - 1 : first] == "\r"
        return "\r\n" if first > 0 and crlf else "\n"

    def _find_column(self, mapping: Any) -> int:
        """Return the column of the keys of a mapping."""
        key = mapping.value[0][0]
        lead = self.text[self._find_line_start(key) : key.start_mark.index].lstrip("\ufeff")
        column: int = (mapping if lead.strip() else key).start_mark.column
        first = self.text.startswith("\ufeff") and key.start_mark.line == 0
        return column - int(first)

    def _step(self) -> int:
        """Return the indentation of the first nested mapping, else 2 columns."""
        for _, value in self.root.value:
            if _is_block(value) and isinstance(value, yaml.MappingNode) and value.value:
                return max(1, self._find_column(value) - self._find_column(self.root))
        return 2


def _is_block(node: Any) -> bool:
    """Decide whether a node is a mapping or a list on lines of its own, without braces."""
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _replace_at(held: Any, steps: Sequence[str], value: Any) -> Any:
    """Return plain data with the value at some steps replaced."""
    if not steps:
        return value
    entries = held if isinstance(held, dict) else {}
    return {**entries, steps[0]: _replace_at(entries.get(steps[0]), steps[1:], value)}


def format_entries(entries: Mapping[str, Any], step: int = 2) -> list[str]:
    """Return the entries of a mapping as lines of YAML in block style."""
    found: list[str] = []
    for key, value in entries.items():
        if isinstance(value, Mapping) and value:
            inner = format_entries(value, step)
            found += [f"{format_flow(key)}:", *(" " * step + line for line in inner)]
        else:
            found.append(f"{format_flow(key)}: {format_flow(value, bare=BARE)}")
    return found


def write_document(head: Iterable[str], tree: Tree, kind: str) -> str:
    """Write a document as YAML that validates.

    Args:
        head: comments above it.
        tree: its keys, in their order.
        kind: of the document, such as ``cluster``.
    """
    text = "".join(f"{line}\n" for line in (*head, *_write_tree(tree)))
    schema.validate(source.load(yaml_nodes.parse_plain(text, "<written>"), kind=kind), kind)
    return text


def _write_tree(tree: Tree, indent: str = "") -> Iterator[str]:
    """Yield the lines of a mapping as YAML; a key that starts with # is a comment."""
    for key, value in tree.items():
        if key.startswith("#"):
            yield f"{indent}# {value}"
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {item}" for item in value)
        elif isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _write_tree(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {value}"
