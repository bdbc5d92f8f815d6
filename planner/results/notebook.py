"""A result in a notebook: as a table that shows itself, and as a pandas data frame."""

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


_STYLE = "text-align:left;padding:0 1em 0 0"


def html(name: str, quantities: Collection[Any], absent: Mapping[str, str]) -> str:
    """The quantities of the whole plan as an HTML table; those per layer or stage are folded, and
    so is why others are ``absent``."""
    whole, single = ([q for q in quantities if ("[" in q.id) == inner] for inner in (False, True))
    parts = [f"<b>{escape(name)}</b>{_table(whole)}"]
    if single:
        parts.append(_folded(f"{len(single)} per layer kind, component or stage", _table(single)))
    if absent:
        rows = "".join(
            f"<li><code>{escape(name)}</code>: {escape(reason)}</li>"
            for name, reason in absent.items()
        )
        parts.append(_folded(f"{len(absent)} absent, with reason", f"<ul>{rows}</ul>"))
    return f"<div>{''.join(parts)}</div>"


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
            f'<tr><td style="{_STYLE}"><code>{escape(quantity.id)}</code></td>'
            f'<td style="{_STYLE}">{escape(quantity.title)}</td><td title="{escape(whole)}">'
            f"{'' if quantity.exact else '≈ '}{escape(shown)}</td></tr>"
        )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"
