"""Tables as Apache Parquet, by pyarrow (extra: parquet).

Each piece is a Parquet file of one row group, which its worker makes. They lie one after another,
so that a sweep can be cut off at any of them and continued; a footer over all makes them one file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from inspect import signature
from typing import IO, Any

import numpy as np

from planner.base.errors import Fault, PlanError
from planner.questions.studies import footer
from planner.questions.studies.points import Array, is_name
from planner.questions.studies.study import Study
from planner.questions.studies.table import Column, Rows, coded, columns
from planner.questions.studies.thrift import Struct

#: Rows of a row group that is written anew, and those that a piece should have to stay one.
GROUP, SHORT = 1 << 19, 1 << 14
#: Parquet's types of what columns hold.
PHYSICAL = {"flag": 0, "whole": 2, "number": 5, "text": 6}


def needed() -> None:
    """That pyarrow is there, without the time that it takes to load.

    Raises:
        PlanError: it is not installed.
    """
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise _missing()


def loaded() -> Any:
    """pyarrow.

    Raises:
        PlanError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise _missing() from None
    return pyarrow


def _missing() -> PlanError:
    fix = "pip install 'trainplan[parquet]', or write .csv"
    return PlanError(Fault("Parquet needs pyarrow", None, fix))


def _kind(study: Study, column: Column) -> str:
    """What a column holds: text, flag, whole or number."""
    if column.role == "axis":
        axis = next(axis for axis in study.axes if axis.name == column.source)
        if not axis.numeric:
            return "text"
        whole = all(isinstance(c.label, int) and abs(c.label) < 2**63 for c in axis.choices)
        return "whole" if whole else "number"
    if column.role == "verdict":
        return "flag"
    return "number" if column.role == "quantity" and not is_name(column.source) else "text"


def schema(study: Study, whole: frozenset[str] = frozenset()) -> Any:
    """The columns with their types; ``whole`` are quantities that turned out to be integers."""
    arrow = loaded()
    types = {
        "text": arrow.dictionary(arrow.int32(), arrow.string()),
        "flag": arrow.bool_(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
    }
    named = zip(columns(study), _kinds(study, whole), strict=True)
    return arrow.schema([(column.name, types[kind]) for column, kind in named])


def _kinds(study: Study, whole: frozenset[str]) -> list[str]:
    """What each column holds, where some quantities are whole numbers."""

    def kind(column: Column) -> str:
        integral = column.role == "quantity" and column.source in whole
        return "whole" if integral else _kind(study, column)

    return [kind(column) for column in columns(study)]


class Room:
    """Memory for the columns of one piece after another. Memory that is new to a process costs more
    than to write a column into it, and a worker's allocator may give all of it back at once."""

    def __init__(self) -> None:
        self.blocks: list[Array] = []

    def flat(self, array: Array, grid: tuple[int, ...], number: int) -> Array:
        """The values of an array at every place of a grid, to which it broadcasts, in one of the
        blocks, of which nothing is needed any more."""
        if array.shape == grid:
            return array.ravel()
        size = math.prod(grid) * array.itemsize
        while len(self.blocks) <= number:
            self.blocks.append(np.empty(0, dtype=np.uint8))
        if len(self.blocks[number]) < size:
            self.blocks[number] = np.empty(size, dtype=np.uint8)
        found = self.blocks[number][:size].view(array.dtype)
        np.copyto(found.reshape(grid), array)
        return found


def piece(table: Rows, room: Room) -> bytes:
    """The kept rows as a Parquet file of one row group; nothing where there are none.

    Args:
        room: where its columns may lie, for no longer than this takes.
    """
    rows = math.prod(table.grid)
    if not rows:
        return b""
    arrow = loaded()
    wanted = schema(table.study, _names(table.whole))
    arrays = [
        _array(
            arrow, table, column, field.type == arrow.int64(),
            partial(room.flat, grid=table.grid, number=number),
        )
        for number, (column, field) in enumerate(zip(columns(table.study), wanted, strict=True))
    ]  # fmt: skip
    return _file(table.study, wanted, arrow.table(arrays, schema=wanted))


def _names(whole: Mapping[str, bool]) -> frozenset[str]:
    return frozenset(name for name, is_whole in whole.items() if is_whole)


def _file(study: Study, wanted: Any, table: Any = None) -> bytes:
    into = loaded().BufferOutputStream()
    with _writer(study, into, wanted) as writer:
        if table is not None:
            writer.write_table(table, row_group_size=table.num_rows)
    data: bytes = into.getvalue().to_pybytes()
    return data


def _writer(study: Study, into: Any, wanted: Any) -> Any:
    from pyarrow import parquet

    few = [column.name for column in columns(study) if column.role != "quantity"]
    # Pages of a megabyte, as pyarrow wrote them before it had a bound of rows too: the compressor
    # begins anew with each.
    rows = {"max_rows_per_page": GROUP} if "max_rows_per_page" in _options() else {}
    return parquet.ParquetWriter(into, wanted, use_dictionary=few, compression="zstd", **rows)


@cache
def _options() -> frozenset[str]:
    """What this version of pyarrow lets a writer be told."""
    from pyarrow import parquet

    return frozenset(signature(parquet.ParquetWriter).parameters)


def _array(
    arrow: Any, table: Rows, column: Column, whole: bool, flat: Callable[[Array], Array]
) -> Any:
    def mask(absent: Array) -> Array | None:
        return np.broadcast_to(absent, table.grid).ravel() if absent.any() else None

    kind = _kind(table.study, column)
    if column.role == "quantity" and kind == "number":
        numbers = table.laid(table.values.numbers[column.source])
        absent = np.isnan(numbers)
        if whole:
            numbers = np.where(absent, 0, numbers).astype(np.int64)
        return arrow.array(flat(numbers), mask=mask(absent))
    codes, distinct = coded(table, column)
    codes = table.laid(codes)
    if kind == "text":
        texts = ["" if value is None else str(value) for value in distinct]
        absent = np.array([value is None for value in distinct], dtype=bool)[codes]
        places = arrow.array(flat(codes.astype(np.int32)), mask=mask(absent))
        return arrow.DictionaryArray.from_arrays(places, arrow.array(texts, arrow.string()))
    if kind == "flag":
        return arrow.array(flat(codes == 2), mask=mask(codes == 0))
    return arrow.array(flat(np.array(distinct, dtype=np.int64 if whole else np.float64)[codes]))


def ending(
    study: Study, footers: Iterable[tuple[int, Struct]], whole: Mapping[str, bool]
) -> bytes | None:
    """What makes one Parquet file of pieces that lie one after another; None where they have to
    be written anew.

    Args:
        footers: where each begins that has rows, and its own footer.
        whole: of each quantity whether its every value is a whole number.
    """
    names = _names(whole)
    types = [PHYSICAL[kind] for kind in _kinds(study, names)]
    return footer.joined(types, lambda: _file(study, schema(study, names)), footers, SHORT)


def write(
    study: Study,
    spans: Iterable[tuple[int, int]],
    read: footer.Read,
    target: IO[bytes],
    whole: Mapping[str, bool],
) -> None:
    """Write pieces as one Parquet file of large row groups.

    Args:
        spans: where each begins and ends.
        read: gives the bytes between two places.
        target: what the file is written to.
        whole: as for ``ending``.
    """
    arrow = loaded()
    from pyarrow import parquet

    wanted = schema(study, _names(whole))
    waiting: list[Any] = []
    with _writer(study, target, wanted) as writer:

        def flush() -> None:
            if waiting:
                tables = [table.cast(wanted) for table in waiting]
                table = arrow.concat_tables(tables).unify_dictionaries()
                writer.write_table(table, row_group_size=GROUP)
                waiting.clear()

        for start, end in spans:
            if start < end:
                waiting.append(parquet.read_table(arrow.BufferReader(read(start, end))))
            if sum(table.num_rows for table in waiting) >= GROUP:
                flush()
        flush()
