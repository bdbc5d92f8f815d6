"""Tables as Apache Parquet, by pyarrow (extra: parquet).

Each piece is a Parquet file of one row group, which its worker makes; the table is written of them
at the end, when it is known which quantities are whole numbers everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from planner.base.errors import Fault, PlanError
from planner.questions.studies.points import Array
from planner.questions.studies.study import Study
from planner.questions.studies.table import Column, Rows, coded, columns

#: Rows of a row group of the table.
GROUP = 1 << 18


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
    if column.role == "fits":
        return "flag"
    return "number" if column.numbers else "text"


def schema(study: Study, whole: frozenset[str] = frozenset()) -> Any:
    """The columns with their types; ``whole`` are quantities that turned out to be integers."""
    arrow = loaded()
    types = {
        "text": arrow.dictionary(arrow.int32(), arrow.string()),
        "flag": arrow.bool_(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
    }

    def kind(column: Column) -> str:
        integral = column.role == "quantity" and column.source in whole
        return "whole" if integral else _kind(study, column)

    return arrow.schema([(column.name, types[kind(column)]) for column in columns(study)])


def piece(table: Rows) -> bytes:
    """The kept rows as a Parquet file of one row group."""
    arrow = loaded()
    wanted = schema(table.study, _names(table.whole))
    arrays = [
        _array(arrow, table, column, field.type == arrow.int64())
        for column, field in zip(columns(table.study), wanted, strict=True)
    ]
    into = arrow.BufferOutputStream()
    with _writer(table.study, into, wanted, "lz4") as writer:
        rows = math.prod(table.grid)
        writer.write_table(arrow.table(arrays, schema=wanted), row_group_size=rows or 1)
    data: bytes = into.getvalue().to_pybytes()
    return data


def _names(whole: Mapping[str, bool]) -> frozenset[str]:
    return frozenset(name for name, is_whole in whole.items() if is_whole)


def _writer(study: Study, into: Any, wanted: Any, compression: str) -> Any:
    from pyarrow import parquet

    few = [column.name for column in columns(study) if column.role != "quantity"]
    return parquet.ParquetWriter(into, wanted, use_dictionary=few, compression=compression)


def _array(arrow: Any, table: Rows, column: Column, whole: bool) -> Any:
    def flat(array: Array) -> Array:
        """What broadcasts to the grid of kept points, as (rows,) of the table."""
        return np.broadcast_to(array, table.grid).ravel()

    def mask(absent: Array) -> Array | None:
        """Which rows have no value, as (rows,); None where each has one."""
        return flat(absent) if absent.any() else None

    kind = _kind(table.study, column)
    if column.numbers:
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


def join(
    study: Study, pieces: Iterable[bytes], target: IO[bytes], whole: Mapping[str, bool]
) -> None:
    """Write pieces as one Parquet file of large row groups.

    Args:
        whole: of each quantity whether its every value is a whole number.
    """
    arrow = loaded()
    from pyarrow import parquet

    wanted = schema(study, _names(whole))
    waiting: list[Any] = []
    with _writer(study, target, wanted, "zstd") as writer:

        def flush() -> None:
            table = arrow.concat_tables(waiting).unify_dictionaries()
            writer.write_table(table, row_group_size=GROUP)
            waiting.clear()

        for piece in pieces:
            waiting.append(parquet.ParquetFile(arrow.BufferReader(piece)).read().cast(wanted))
            if sum(table.num_rows for table in waiting) >= GROUP:
                flush()
        if waiting:
            flush()
