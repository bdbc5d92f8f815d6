"""What the ending of an output's file means: a table, or a comparison of a study."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import splitext

from planner.base.errors import Fault, Place, PlanError

TABLES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COMPARISONS = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}


def is_table(path: str) -> bool:
    """Whether a file is a table by its ending."""
    return splitext(path)[1].lower() in TABLES


def kind(path: str, formats: Mapping[str, str], what: str) -> str:
    """The format of a file by its ending.

    Args:
        formats: those that there are, by ending.
        what: they are called.

    Raises:
        PlanError: none has that ending.
    """
    ending = splitext(path)[1].lower()
    if ending not in formats:
        said = f"no {what} has the ending '{ending}'"
        raise PlanError(Fault.among(said, ending, formats, Place(path)))
    return formats[ending]


def table(path: str) -> str:
    """The format of a table; a fault is as of ``kind``."""
    return kind(path, TABLES, "table")


def comparison(path: str, others: Mapping[str, str] | None = None) -> str:
    """The format of a comparison; a fault is as of ``kind``, and names ``others`` as well."""
    return kind(path, {**(others or {}), **COMPARISONS}, "table and no comparison")
