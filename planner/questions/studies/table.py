"""The rows of a table: the columns and their values, as CSV or a JSON object on each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from planner.base.display import escape_cell, plain, quote_json
from planner.engine.arrays.table import Array
from planner.questions.batch_rows import encode_values
from planner.questions.studies.axes import StudyAxis
from planner.questions.studies.points import (
    LAYOUT_FOUND,
    REASON,
    STATES,
    Points,
    is_name,
    is_whole,
    list_bounded,
)
from planner.questions.studies.study import StudySpec

#: Kinds of columns: text, truth values, integers, numbers.
TEXT, FLAG, WHOLE, NUMBER = "text", "flag", "whole", "number"
#: Rows that are formatted at once, so that their data fits into a core's cache.
BLOCK = 1 << 14


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes:
        name: its heading.
        kind: the kind of its values: text, truth values, integers, numbers.
        coded: returns the index of each row's value, (dimension, …), and the distinct values, of
            which None is no value. Without it the column has the numbers of the rows of that name,
            NaN for no value.
    """

    name: str
    kind: str
    coded: Callable[[Points], tuple[Array, Sequence[Any]]] | None = None


def list_columns(study: StudySpec) -> tuple[TableColumn, ...]:
    """List the columns in their order. A quantity that an axis gives in numbers has one column;
    otherwise the axis has one of the given values, and the quantity one of the results."""
    found = []
    for dimension, axes in enumerate(study.dimensions):
        for axis in axes:
            twice = axis.name in study.record and not axis.numeric
            name = f"{axis.name} (given)" if twice else axis.name
            whole = all(isinstance(c.label, int) and abs(c.label) < 2**63 for c in axis.choices)
            number = WHOLE if whole else NUMBER
            kind = number if axis.numeric else TEXT
            found.append(TableColumn(name, kind, partial(_encode_axis, dimension, axis)))
    if study.searches:
        found.append(TableColumn(LAYOUT_FOUND, TEXT, partial(_encode_words, LAYOUT_FOUND)))
    found += [
        TableColumn("fits", FLAG, lambda rows: (rows.fits + 1, [None, False, True])),
        TableColumn("verdict", TEXT, lambda rows: (rows.verdict, STATES)),
    ]
    numeric = {axis.name for axis in study.axes if axis.numeric}
    may_have = list_bounded(study)
    for name in study.record:
        if is_name(name):
            found.append(TableColumn(name, TEXT, partial(_encode_words, name)))
        elif name not in numeric:
            found.append(TableColumn(name, NUMBER))
        if name in may_have:
            found += [TableColumn(f"{name}.{end}", NUMBER) for end in ("low", "high")]
    return (*found, TableColumn(REASON, TEXT, partial(_encode_words, REASON)))


def _encode_axis(dimension: int, axis: StudyAxis, rows: Points) -> tuple[Array, list[Any]]:
    """Encode the values of an axis: the index of each row's label, and the labels."""
    places = np.ix_(*rows.ranges)[dimension]  # of length 1 along other dimensions
    return places, plain([choice.label for choice in axis.choices])


def _encode_words(name: str, rows: Points) -> tuple[Array, list[Any]]:
    """Encode the texts of that name: the index of each row's text, and the distinct texts."""
    texts = rows.words[name]
    distinct, codes = encode_values((text or None for text in texts.flat), np.arange(texts.size))
    return codes.reshape(texts.shape), distinct


def encode_table(table: Points, kind: str) -> bytes:
    """Encode the rows as bytes that follow those of the piece before; the first piece of CSV begins
    with the names of the columns."""
    between, begin, end = (",", "", "\n") if kind == "csv" else (", ", "{", "}\n")
    own = list_columns(table.study)
    cells = [table.flatten_values(_format_cells(table, column, kind)) for column in own]
    blocks = []
    if kind == "csv" and not any(places.start for places in table.ranges):
        blocks.append((",".join(_quote_cell(column.name) for column in own) + "\n").encode())
    for start in range(0, len(table), BLOCK):
        block = (column[start : start + BLOCK].tolist() for column in cells)
        lines = begin + (end + begin).join(map(between.join, zip(*block, strict=True))) + end
        blocks.append(lines.encode("utf-8", "backslashreplace"))
    return b"".join(blocks)


def _format_cells(table: Points, column: TableColumn, kind: str) -> Array:
    """Format the texts of a column; exact whole numbers are printed as integers.

    Args:
        table: the points of the piece.
        column: the column.
        kind: ``csv`` or ``jsonl``; the latter's cells begin with the name of the column.

    Returns:
        Texts, as (dimension, …) as far as they vary.
    """
    word: Callable[[object], str] = _format_csv if kind == "csv" else quote_json
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


def _format_csv(value: object) -> str:
    """Format a value as a cell of CSV; no value is empty."""
    if isinstance(value, str):
        return _quote_cell(value)
    return "" if value is None else quote_json(value)


def _quote_cell(text: str) -> str:
    """Format a cell of text for CSV; one line of the file is one row, whatever a name holds."""
    text = escape_cell(" ".join(text.splitlines()) if not text.isprintable() else text)
    if any(c in text for c in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text
