"""What the ending of an output's file means: a table, or a comparison of a study."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import splitext

from planner.base.errors import Fault, Place, PlanError, nearest

TABLES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COMPARISONS = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}


def ending(path: str) -> str:
    """The ending of a file's name, as the formats are listed."""
    return splitext(path)[1].lower()


def table(path: str) -> str:
    """The format of a table.

    Raises:
        PlanError: no table has that ending.
    """
    if ending(path) not in TABLES:
        said = f"no table has the ending '{ending(path)}'"
        raise PlanError(Fault.among(said, ending(path), TABLES, Place(path)))
    return TABLES[ending(path)]


def comparison(path: str, tables: Iterable[str] = ()) -> str:
    """The format of a comparison; ``tables`` are endings that would do as well.

    Raises:
        PlanError: no comparison has that ending.
    """
    if ending(path) not in COMPARISONS:
        known = [*tables, *COMPARISONS]
        what = f"no table and no comparison has the ending '{ending(path)}'"
        said = "one of " + ", ".join(known)
        raise PlanError(Fault(what, Place(path), said, nearest(ending(path), known)))
    return COMPARISONS[ending(path)]
