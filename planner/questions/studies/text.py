"""Rows of a table as text: CSV, or a JSON object on each line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np

from planner.base.display import cell, quoted
from planner.questions.studies.points import Array
from planner.questions.studies.study import Study
from planner.questions.studies.table import Column, Rows, coded, columns, is_whole

#: Columns beside each other are joined before they are repeated, where that makes so many times
#: fewer texts than there are rows.
FEWER = 8
#: Rows that become text at once: a core's cache holds what they are made of.
BLOCK = 1 << 14


def header(study: Study, kind: str) -> bytes:
    """What stands before the first row."""
    if kind != "csv":
        return b""
    return (",".join(_quoted(column.name) for column in columns(study)) + "\n").encode()


def encoded(table: Rows, kind: str) -> bytes:
    """The rows as bytes that follow those of the piece before."""
    size = math.prod(table.grid)
    if not size:
        return b""
    between = "," if kind == "csv" else ", "
    parts: list[Array] = []
    for column in columns(table.study):
        part = _cells(table, column, kind)
        if parts and _joined_size(parts[-1], part) * FEWER <= size:
            parts.append(_joined(parts.pop(), part, between))
        else:
            parts.append(part)
    repeated = [np.broadcast_to(part, table.grid).ravel() for part in parts]
    begin, end = ("", "\n") if kind == "csv" else ("{", "}\n")
    blocks = []
    for start in range(0, size, BLOCK):
        cells = (part[start : start + BLOCK].tolist() for part in repeated)
        lines = map(between.join, zip(*cells, strict=True))
        block = begin + (end + begin).join(lines) + end
        blocks.append(block.encode("utf-8", "backslashreplace"))
    return b"".join(blocks)


def _joined_size(one: Array, other: Array) -> int:
    return math.prod(map(max, one.shape, other.shape))


def _joined(one: Array, other: Array, between: str) -> Array:
    left, right = np.broadcast_arrays(one, other)
    pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
    return _texts([a + between + b for a, b in pairs], left.shape)


def _texts(texts: list[str], shape: tuple[int, ...]) -> Array:
    found = np.empty(len(texts), dtype=object)
    found[:] = texts
    return found.reshape(shape)


def _cells(table: Rows, column: Column, kind: str) -> Array:
    """One column as text, over the grid of kept rows as far as it varies there."""
    word: Callable[[object], str] = _csv if kind == "csv" else quoted
    before = "" if kind == "csv" else f"{json.dumps(column.name)}: "
    if column.numbers:
        return _numbers(table.laid(table.values.numbers[column.source]), before, word(None))
    codes, distinct = coded(table, column)
    texts = _texts([before + word(value) for value in distinct], (len(distinct),))
    found: Array = texts[table.laid(codes)]
    return found


def _numbers(numbers: Array, before: str, absent: str) -> Array:
    """Whole numbers are printed as such while they are exact."""
    flat = numbers.ravel()
    texts = [
        before + (repr(int(value)) if whole else repr(value) if value == value else absent)
        for value, whole in zip(flat.tolist(), is_whole(flat).tolist(), strict=True)
    ]
    return _texts(texts, numbers.shape)


def _csv(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A cell of text; one line of the file is one row, whatever a name holds."""
    text = cell(" ".join(text.splitlines()) if not text.isprintable() else text)
    if any(c in text for c in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text
