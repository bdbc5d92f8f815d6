"""All quantities of a result: as a table in HTML, and as a pandas data frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from html import escape
from typing import Any

from planner.base.display import exact_text, format_value, plain

COLUMNS = ("id", "value", "unit", "title", "symbol", "exact", "source")


def records(quantities: Iterable[Any]) -> list[dict[str, Any]]:
    """Quantities of a result, a mapping of COLUMNS each; integers stay exact."""
    return [{name: plain(getattr(quantity, name)) for name in COLUMNS} for quantity in quantities]


def frame(quantities: Iterable[Any]) -> Any:
    """Quantities of a result as a data frame with their ids as index.

    The column ``value`` holds Python objects, as counts of FLOPs exceed 64 bits;
    ``frame.value.astype(float)`` where there are no names in it.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]

    table = pandas.DataFrame(records(quantities), columns=list(COLUMNS), dtype=object)
    return table.set_index("id")


def html(quantities: Collection[Any], absent: Mapping[str, str]) -> str:
    """The quantities of the whole plan as an HTML table; those per layer or stage are counted, and
    why others are ``absent`` is folded."""
    whole = [quantity for quantity in quantities if "[" not in quantity.id]
    parts, more = [_table(whole)], len(quantities) - len(whole)
    if more:
        parts.append(
            f"<div>{more} more hold per layer kind, component or stage: "
            "<code>result.to_pandas()</code></div>"
        )
    if absent:
        rows = "".join(
            f"<li><code>{escape(name)}</code>: {escape(reason)}</li>"
            for name, reason in absent.items()
        )
        parts.append(_folded(f"{len(absent)} absent, with reason", f"<ul>{rows}</ul>"))
    return "".join(parts)


def _folded(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>{inner}</details>"


def _table(quantities: Iterable[Any]) -> str:
    rows = []
    for quantity in quantities:
        value, unit = quantity.value, quantity.unit
        exact = isinstance(value, (int, Fraction))
        whole = f"{exact_text(value)} {unit}" if exact else str(value)
        shown = value if isinstance(value, str) else format_value(Fraction(value), unit)
        rows.append(
            f"<tr><td><code>{escape(quantity.id)}</code></td><td>{escape(quantity.title)}</td>"
            f'<td title="{escape(whole)}">'
            f"{'' if quantity.exact else '≈ '}{escape(shown)}</td></tr>"
        )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"
