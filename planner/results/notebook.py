"""All quantities of a result as records and as a pandas data frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.base.display import plain

COLUMNS = ("id", "value", "unit", "title", "symbol", "exact", "source")


def records(quantities: Iterable[Any]) -> list[dict[str, Any]]:
    """Return quantities of a result as a mapping of COLUMNS each; integers stay exact."""
    return [{name: plain(getattr(quantity, name)) for name in COLUMNS} for quantity in quantities]


def frame(quantities: Iterable[Any]) -> Any:
    """Build a data frame of quantities of a result, with their ids as index.

    The column ``value`` holds Python objects, as counts of FLOPs exceed 64 bits;
    ``frame.value.astype(float)`` converts it if it has no names.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]

    table = pandas.DataFrame(records(quantities), columns=list(COLUMNS), dtype=object)
    return table.set_index("id")
