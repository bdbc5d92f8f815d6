"""One Parquet file of several that lie one after another, without writing their columns again.

A Parquet file is read from its end: the footer says where the columns of each row group begin.
So a footer over the row groups of all makes one file of them; their own footers are skipped. Field
numbers are those of parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from planner.questions.studies import thrift
from planner.questions.studies.thrift import Struct

Read = Callable[[int, int], bytes]
Bytes = bytes | memoryview

MAGIC = b"PAR1"
#: Of a file, a row group, a column, the metadata of a column, and its statistics.
SCHEMA, ROWS, GROUPS = 2, 3, 4
COLUMNS, BEGIN, ORDINAL = 1, 5, 7
METADATA = 3
TYPE, VALUES, STATISTICS = 1, 5, 12
OFFSETS = (9, 10, 11, 14)
NULLS = 3


def found(data: Bytes) -> Struct:
    """The footer of a file."""
    return read(len(data), lambda start, end: bytes(data[start:end]))


def read(end: int, between: Read) -> Struct:
    """The footer of a file that ends somewhere; ``between`` gives the bytes between two places."""
    end -= len(MAGIC)
    length = int.from_bytes(between(end - 4, end), "little")
    return thrift.read(between(end - 4 - length, end - 4))


def joined(
    types: Sequence[int],
    empty: Callable[[], bytes],
    footers: Iterable[tuple[int, Struct]],
    least: int,
) -> bytes | None:
    """The footer of one file over the row groups of several.

    Args:
        types: Parquet's physical types of the columns of the whole.
        empty: makes a file of these columns without rows; asked for where no file has the types.
        footers: where each file begins, and its own footer, of which nothing is needed any more.
        least: rows that a group has on average.

    Returns:
        None where row groups are shorter, or a column is of another type: the rows have to be
        written anew.
    """
    whole: Struct | None = None
    groups: list[Struct] = []
    rows = 0
    for start, footer in footers:
        rows += footer[ROWS][1]
        if whole is None and _types(footer) == list(types):
            whole = dict(footer)
        for group in footer[GROUPS][1][1]:
            for column, kind in zip(_columns(group), types, strict=True):
                if column[TYPE][1] != kind and not _absent(column):
                    return None
                column[TYPE] = (thrift.I32, kind)
            _moved(group, start, len(groups))
            groups.append(group)
    if len(groups) > 1 and rows < least * len(groups):
        return None
    whole = found(empty()) if whole is None else whole
    whole[ROWS] = (thrift.I64, rows)
    whole[GROUPS] = (thrift.LIST, (thrift.STRUCT, groups))
    made = thrift.written(whole)
    return (b"" if groups else MAGIC) + made + len(made).to_bytes(4, "little") + MAGIC


def _types(footer: Struct) -> list[int]:
    """The types of the columns, of which the first element, their root, has none."""
    return [element[TYPE][1] for element in footer[SCHEMA][1][1] if TYPE in element]


def _columns(group: Struct) -> Iterator[Struct]:
    for column in group[COLUMNS][1][1]:
        yield column[METADATA][1]


def _absent(column: Struct) -> bool:
    """Whether a column has no value at all, so that its type says nothing about its bytes."""
    statistics: Any = column.get(STATISTICS, (thrift.STRUCT, {}))[1]
    return NULLS in statistics and bool(statistics[NULLS][1] == column[VALUES][1])


def _moved(group: Struct, start: int, number: int) -> None:
    """A row group whose file begins elsewhere."""
    group.pop(ORDINAL, None)
    if number < 1 << 15:
        group[ORDINAL] = (thrift.I16, number)
    for struct, fields in [(group, (BEGIN,)), *((c, OFFSETS) for c in _columns(group))]:
        for field in fields:
            if field in struct:
                struct[field] = (thrift.I64, struct[field][1] + start)
