"""Tables as Apache Parquet, by pyarrow (extra: parquet).

While a sweep runs, each piece is one Arrow record batch; such a file can be cut at any batch and
continued, as a Parquet file cannot. When the sweep is done it is written as Parquet.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from planner.errors import Fault, PlanError
from planner.sweep.points import is_name
from planner.sweep.study import Study
from planner.sweep.table import Column, Rows, coded, columns

#: Rows of a row group.
GROUP = 1 << 19


def needed() -> Any:
    """pyarrow.

    Raises:
        PlanError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise PlanError(
            Fault("Parquet needs pyarrow", None, "pip install 'trainplan[parquet]', or write .csv")
        ) from None
    return pyarrow


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
    arrow = needed()
    types = {
        "text": arrow.dictionary(arrow.int32(), arrow.string()),
        "flag": arrow.bool_(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
    }
    found = []
    for column in columns(study):
        integral = column.role == "quantity" and column.source in whole
        found.append((column.name, types["whole" if integral else _kind(study, column)]))
    return arrow.schema(found)


def batch(table: Rows) -> bytes:
    """The kept rows as one stream of Arrow record batches."""
    arrow = needed()
    arrays = [_array(arrow, table, column) for column in columns(table.study)]
    found = arrow.record_batch(arrays, schema=schema(table.study))
    into = io.BytesIO()
    with arrow.ipc.new_stream(into, found.schema) as writer:
        writer.write_batch(found)
    return into.getvalue()


def _array(arrow: Any, table: Rows, column: Column) -> Any:
    kind = _kind(table.study, column)
    if column.role == "quantity" and kind == "number":
        # What is absent is NaN, and null in the table.
        return arrow.array(table.of_kept(table.values.numbers[column.source]), from_pandas=True)
    codes, distinct = coded(table, column)
    if kind == "text":
        texts = ["" if value is None else str(value) for value in distinct]
        absent = np.array([value is None for value in distinct], dtype=bool)
        places = arrow.array(codes.astype(np.int32), mask=absent[codes])
        return arrow.DictionaryArray.from_arrays(places, arrow.array(texts, arrow.string()))
    if kind == "flag":
        return arrow.array(codes == 2, mask=codes == 0)
    whole = kind == "whole"
    numbers = np.array(distinct, dtype=np.int64 if whole else np.float64)[codes]
    return arrow.array(numbers, arrow.int64() if whole else arrow.float64())


def write(study: Study, streams: Iterator[memoryview], target: Path, whole: frozenset[str]) -> None:
    """Write the pieces as one Parquet file.

    Args:
        streams: what ``batch`` made of each piece.
        whole: quantities whose every value is a whole number.
    """
    arrow = needed()
    from pyarrow import parquet

    wanted = schema(study, whole)
    waiting: list[Any] = []
    few = [column.name for column in columns(study) if column.role != "quantity"]
    with parquet.ParquetWriter(target, wanted, use_dictionary=few, compression="zstd") as writer:

        def flush() -> None:
            if waiting:
                table = arrow.concat_tables(waiting).unify_dictionaries().cast(wanted)
                writer.write_table(table, row_group_size=GROUP)
                waiting.clear()

        for stream in streams:
            waiting.append(arrow.ipc.open_stream(stream).read_all())
            if sum(table.num_rows for table in waiting) >= GROUP:
                flush()
        flush()
