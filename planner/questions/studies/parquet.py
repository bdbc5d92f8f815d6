"""Tables as Apache Parquet, by pyarrow (extra: parquet).

Each piece is a Parquet file of one row group, written by its worker; the table is joined at the
end, when it is known which quantities are integers everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from planner.base.errors import require_extra
from planner.questions.studies.points import Points
from planner.questions.studies.study import StudySpec
from planner.questions.studies.table import FLAG, NUMBER, TEXT, WHOLE, TableColumn, list_columns

#: Rows of a row group of the table.
GROUP = 1 << 18


def import_pyarrow() -> Any:
    """Import pyarrow.

    Raises:
        PlanError: it is not installed.
    """
    with require_extra("Parquet", "parquet", ", or write .csv"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _open_writer(study: StudySpec, whole: Mapping[str, bool], into: Any, compression: str) -> Any:
    """Open a writer of the study's columns.

    Args:
        study: decides the columns and their types.
        whole: for each quantity whether all its values are integers.
        into: a file or a buffer of pyarrow.
        compression: as Parquet names it.
    """
    arrow, found = import_pyarrow(), []
    types = {
        TEXT: arrow.dictionary(arrow.int32(), arrow.string()),
        FLAG: arrow.bool_(),
        WHOLE: arrow.int64(),
        NUMBER: arrow.float64(),
    }
    for column in list_columns(study):
        integer = column.coded is None and whole.get(column.name)
        found.append((column.name, types[WHOLE if integer else column.kind]))
    few = [column.name for column in list_columns(study) if column.coded is not None]
    return arrow.parquet.ParquetWriter(
        into, arrow.schema(found), use_dictionary=few, compression=compression
    )


def encode_parquet(table: Points) -> bytes:
    """Return the kept rows as a Parquet file of one row group."""
    arrow = import_pyarrow()
    into = arrow.BufferOutputStream()
    with _open_writer(table.study, {}, into, "lz4") as writer:
        both = zip(list_columns(table.study), writer.schema.types, strict=True)
        rows = arrow.table([_convert_column(table, *one) for one in both], schema=writer.schema)
        writer.write_table(rows, row_group_size=len(table) or 1)
    data: bytes = into.getvalue().to_pybytes()
    return data


def _convert_column(table: Points, column: TableColumn, type_: Any) -> Any:
    """Convert a column of the kept rows to an array of pyarrow.

    Args:
        table: the points of a piece.
        column: the column.
        type_: the pyarrow type of its values; numbers without codes are floats.
    """
    arrow = import_pyarrow()
    if column.coded is None:
        numbers = table.flatten_values(table.numbers[column.name])
        return arrow.array(numbers, mask=np.isnan(numbers))
    codes, distinct = column.coded(table)
    said: Any = {TEXT: str, NUMBER: float}.get(column.kind)
    values = [value if said is None or value is None else said(value) for value in distinct]
    return arrow.array(values, type_).take(arrow.array(table.flatten_values(codes)))


def join_pieces(
    study: StudySpec, pieces: Iterable[bytes], target: IO[bytes], whole: Mapping[str, bool]
) -> None:
    """Write pieces as one Parquet file of large row groups.

    Args:
        study: decides the columns.
        pieces: each a Parquet file.
        target: the file to write.
        whole: for each quantity whether all its values are integers.
    """
    arrow = import_pyarrow()
    waiting: list[Any] = []
    with _open_writer(study, whole, target, "zstd") as writer:

        def flush() -> None:
            """Write the waiting rows as row groups."""
            table = arrow.concat_tables(waiting).unify_dictionaries()
            writer.write_table(table, row_group_size=GROUP)
            waiting.clear()

        for piece in pieces:
            read = arrow.parquet.ParquetFile(arrow.BufferReader(piece)).read()
            waiting.append(read.cast(writer.schema))
            if sum(table.num_rows for table in waiting) >= GROUP:
                flush()
        if waiting:
            flush()
