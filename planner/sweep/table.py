"""The points of a piece as rows of a table: which are kept, what each column holds, as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from planner.display import quoted
from planner.errors import Fault, Place, PlanError, nearest
from planner.sweep.asked import FITS
from planner.sweep.points import Array, Values, is_name
from planner.sweep.study import Study

#: What the ending of a table's file means.
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
FITTING, LAYOUT_FOUND, REASON = "fits", "layout", "reason"
#: Whole numbers up to here are exact in the arrays.
EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """A column: what it is called, and whether it is an axis, the layout that was found, the
    verdict, a quantity or the reason."""

    name: str
    role: str
    source: str = ""  # the axis or the quantity


def columns(study: Study) -> tuple[Column, ...]:
    """The columns in their order. A quantity that an axis gives in numbers is there once; else
    the axis says what was given, and the quantity what became of it."""
    names = {axis.name: axis for axis in study.axes}
    found = []
    for name, axis in names.items():
        twice = name in study.record and not axis.numeric
        found.append(Column(f"{name} (given)" if twice else name, "axis", name))
    if study.searches:
        found.append(Column(LAYOUT_FOUND, "layout"))
    found.append(Column(FITTING, "verdict"))
    for name in study.record:
        if name not in names or not names[name].numeric:
            found.append(Column(name, "quantity", name))
    return (*found, Column(REASON, "reason"))


@dataclass(frozen=True)
class Rows:
    """The points of a piece that the table keeps."""

    study: Study
    ranges: tuple[range, ...]
    values: Values
    kept: Array  # of every point of the piece
    holds: Array  # valid, and within the limits of the study

    @property
    def fits(self) -> Array:
        """1 where it fits, 0 where it does not, -1 where that is unknown."""
        headroom = self.values.numbers[FITS]
        return np.where(np.isnan(headroom), -1, headroom >= 0).astype(np.int8)

    def place(self, dimension: int) -> Array:
        """The place of each kept point along a dimension."""
        shape = tuple(map(len, self.ranges))
        along = [1] * len(shape)
        along[dimension] = shape[dimension]
        places = np.array(self.ranges[dimension], dtype=np.int64).reshape(along)
        return self.of_kept(np.broadcast_to(places, shape).ravel())

    def of_kept(self, column: Array) -> Array:
        """What a column over all points holds for those that are kept."""
        return column if self._all else column[self.kept]

    @cached_property
    def _all(self) -> bool:
        return bool(self.kept.all())

    def axis(self, name: str) -> tuple[Array, list[Any]]:
        """For each kept point the place of its value, and the values of an axis."""
        for dimension, axes in enumerate(self.study.dimensions):
            for axis in axes:
                if axis.name == name:
                    return self.place(dimension), [choice.label for choice in axis.choices]
        raise KeyError(name)


def rows(study: Study, ranges: Sequence[range], values: Values) -> Rows:
    """What the table keeps of a piece: valid points within the limits, and with their reason
    those that are no plan, unless the study drops them."""
    holds = values.valid.copy()
    for limit in study.where:
        with np.errstate(invalid="ignore"):
            numbers, bound = values.numbers[limit.quantity], float(limit.value)
            holds &= numbers <= bound if limit.relation == "<=" else numbers >= bound
    kept = holds | ~values.valid if study.keep_invalid else holds
    return Rows(study, tuple(ranges), values, kept, holds)


def header(study: Study, kind: str) -> bytes:
    """What stands before the first row."""
    if kind != "csv":
        return b""
    return (",".join(_quoted(column.name) for column in columns(study)) + "\n").encode()


def encoded(table: Rows, kind: str) -> bytes:
    """The rows as bytes that follow those of the piece before."""
    count = int(table.kept.sum())
    if not count:
        return b""
    texts = [_cells(table, column, kind) for column in columns(table.study)]
    cells = zip(*texts, strict=True)
    lines: Iterable[str] = map((",", ", ")[kind != "csv"].join, cells)
    if kind != "csv":
        lines = ("{" + line + "}" for line in lines)
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _cells(table: Rows, column: Column, kind: str) -> list[str]:
    """One column as text, a cell for each kept point."""
    word: Callable[[Any], str] = _csv if kind == "csv" else _json
    before = "" if kind == "csv" else f"{json.dumps(column.name)}: "
    codes, distinct = coded(table, column)
    texts = np.array([before + word(value) for value in distinct], dtype=object)
    found: list[str] = texts[codes].tolist()
    return found


def coded(table: Rows, column: Column) -> tuple[Array, list[Any]]:
    """A column as places in its distinct values; None where there is none."""
    values = table.values
    if column.role == "axis":
        codes, labels = table.axis(column.source)
        return codes, [plain(label) for label in labels]
    if column.role == "verdict":
        return table.of_kept(table.fits) + 1, [None, False, True]
    if column.role == "reason":
        return table.of_kept(values.reasons), [text or None for text in values.texts]
    if column.role == "layout":
        return _factored(np.array(values.layouts, dtype=object)[table.kept].tolist())
    numbers = table.of_kept(values.numbers[column.source])
    if is_name(column.source):
        return _factored(numbers.tolist())
    distinct, codes = np.unique(numbers, return_inverse=True)
    return codes, [None if value != value else _whole(value) for value in distinct.tolist()]


def _factored(values: Iterable[Any]) -> tuple[Array, list[Any]]:
    places: dict[Any, int] = {}
    codes = [places.setdefault(value or None, len(places)) for value in values]
    return np.array(codes, dtype=np.int64), list(places)


def _whole(value: float) -> int | float:
    """Whole numbers are printed as such while they are exact."""
    return int(value) if value.is_integer() and abs(value) <= EXACT else value


def plain(label: Any) -> Any:
    """The value of an axis as a table holds it."""
    if isinstance(label, Fraction):
        return label.numerator if label.denominator == 1 else float(label)
    return label


def _csv(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A cell of text; one line of the file is one row, whatever a name holds."""
    text = " ".join(text.splitlines()) if not text.isprintable() else text
    if any(c in text for c in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json(value: Any) -> str:
    return quoted(value)


def kind_of(path: str) -> str:
    """The format that the ending of a table's file picks.

    Raises:
        PlanError: no table has that ending.
    """
    import os

    suffix = os.path.splitext(path)[1].lower()
    if suffix not in FORMATS:
        raise PlanError(
            Fault(
                f"no table has the ending '{suffix}'",
                Place(path),
                "one of " + ", ".join(FORMATS),
                nearest(suffix, FORMATS),
            )
        )
    return FORMATS[suffix]
