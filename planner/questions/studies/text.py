"""Rows of a table as text: CSV, or a JSON object on each line."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from planner.base.display import cell, quoted
from planner.questions.studies.points import Array
from planner.questions.studies.study import Study
from planner.questions.studies.table import Column, Points, columns, is_whole

#: Rows that become text at once: a core's cache holds what they are made of.
BLOCK = 1 << 14


def header(study: Study) -> bytes:
    """What stands before the first row of CSV."""
    return (",".join(_quoted(column.name) for column in columns(study)) + "\n").encode()


def encoded(table: Points, kind: str) -> bytes:
    """The rows as bytes that follow those of the piece before."""
    between, begin, end = (",", "", "\n") if kind == "csv" else (", ", "{", "}\n")
    columns_ = [table.laid(_cells(table, column, kind)) for column in columns(table.study)]
    blocks = []
    for start in range(0, len(table), BLOCK):
        cells = (column[start : start + BLOCK].tolist() for column in columns_)
        lines = map(between.join, zip(*cells, strict=True))
        block = begin + (end + begin).join(lines) + end
        blocks.append(block.encode("utf-8", "backslashreplace"))
    return b"".join(blocks)


def _cells(table: Points, column: Column, kind: str) -> Array:
    """The texts of a column, as (dimension, …) as far as it varies; whole numbers are printed as
    such while they are exact."""
    word: Callable[[object], str] = _csv if kind == "csv" else quoted
    before = "" if kind == "csv" else f"{json.dumps(column.name)}: "
    if column.coded is not None:
        codes, distinct = column.coded(table)
        return np.array([before + word(value) for value in distinct], dtype=object)[codes]
    numbers, absent = table.numbers[column.name], word(None)
    texts = [
        before + (repr(int(value)) if whole else repr(value) if value == value else absent)
        for value, whole in zip(
            numbers.ravel().tolist(), is_whole(numbers.ravel()).tolist(), strict=True
        )
    ]
    return np.array(texts, dtype=object).reshape(numbers.shape)


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
