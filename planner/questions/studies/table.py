"""The rows of a table: the columns and their values, as CSV or a JSON object on each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from planner.base.display import cell, plain, quoted
from planner.questions.batch_rows import chosen
from planner.questions.studies.axes import Axis
from planner.questions.studies.points import (
    LAYOUT_FOUND,
    REASON,
    STATES,
    Array,
    Points,
    bounded,
    is_name,
    is_whole,
)
from planner.questions.studies.study import Study

#: Kinds of columns: text, truth values, integers, numbers.
TEXT, FLAG, WHOLE, NUMBER = "text", "flag", "whole", "number"
#: Rows that are formatted at once, so that their data fits into a core's cache.
BLOCK = 1 << 14


@dataclass(frozen=True)
class Column:
    """A column with its name and its kind.

    ``coded`` returns the index of each row's value, (dimension, …), and the distinct values, of
    which None is no value. Without it the column has the numbers of the rows of that name, NaN for
    no value.
    """

    name: str
    kind: str
    coded: Callable[[Points], tuple[Array, Sequence[Any]]] | None = None


def columns(study: Study) -> tuple[Column, ...]:
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
            found.append(Column(name, kind, partial(_of_axis, dimension, axis)))
    if study.searches:
        found.append(Column(LAYOUT_FOUND, TEXT, partial(_of_words, LAYOUT_FOUND)))
    found += [
        Column("fits", FLAG, lambda rows: (rows.fits + 1, [None, False, True])),
        Column("verdict", TEXT, lambda rows: (rows.verdict, STATES)),
    ]
    numeric = {axis.name for axis in study.axes if axis.numeric}
    may_have = bounded(study)
    for name in study.record:
        if is_name(name):
            found.append(Column(name, TEXT, partial(_of_words, name)))
        elif name not in numeric:
            found.append(Column(name, NUMBER))
        if name in may_have:
            found += [Column(f"{name}.{end}", NUMBER) for end in ("low", "high")]
    return (*found, Column(REASON, TEXT, partial(_of_words, REASON)))


def _of_axis(dimension: int, axis: Axis, rows: Points) -> tuple[Array, list[Any]]:
    places = np.ix_(*rows.ranges)[dimension]  # of length 1 along other dimensions
    return places, plain([choice.label for choice in axis.choices])


def _of_words(name: str, rows: Points) -> tuple[Array, list[Any]]:
    texts = rows.words[name]
    distinct, codes = chosen((text or None for text in texts.flat), np.arange(texts.size))
    return codes.reshape(texts.shape), distinct


def encoded(table: Points, kind: str) -> bytes:
    """Encode the rows as bytes that follow those of the piece before; the first piece of CSV begins
    with the names of the columns."""
    between, begin, end = (",", "", "\n") if kind == "csv" else (", ", "{", "}\n")
    own = columns(table.study)
    cells = [table.laid(_cells(table, column, kind)) for column in own]
    blocks = []
    if kind == "csv" and not any(places.start for places in table.ranges):
        blocks.append((",".join(_quoted(column.name) for column in own) + "\n").encode())
    for start in range(0, len(table), BLOCK):
        block = (column[start : start + BLOCK].tolist() for column in cells)
        lines = begin + (end + begin).join(map(between.join, zip(*block, strict=True))) + end
        blocks.append(lines.encode("utf-8", "backslashreplace"))
    return b"".join(blocks)


def _cells(table: Points, column: Column, kind: str) -> Array:
    """Format the texts of a column, as (dimension, …) as far as it varies; exact whole numbers are
    printed as integers."""
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
    if isinstance(value, str):
        return _quoted(value)
    return "" if value is None else quoted(value)


def _quoted(text: str) -> str:
    """Format a cell of text for CSV; one line of the file is one row, whatever a name holds."""
    text = cell(" ".join(text.splitlines()) if not text.isprintable() else text)
    if any(c in text for c in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text
