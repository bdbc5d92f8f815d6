"""A result in a notebook: as a table that shows itself, and as a pandas data frame."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from html import escape
from typing import Any, Protocol

from planner.base.display import exact_text, format_value
from planner.plans.document import Plan


class Shown(Protocol):
    """What is shown of a result."""

    plan: Plan

    @property
    def quantities(self) -> Mapping[str, Any]: ...
    @property
    def absent(self) -> Mapping[str, str]: ...


COLUMNS = ("id", "value", "unit", "title", "symbol", "exact", "source")


def records(result: Shown) -> list[dict[str, Any]]:
    """The quantities that have a value, a mapping of COLUMNS each; integers stay exact."""
    return [
        {name: _plain(getattr(quantity, name)) for name in COLUMNS}
        for quantity in result.quantities.values()
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    return value


def frame(result: Shown) -> Any:
    """The quantities as a data frame with their ids as index.

    The column ``value`` holds Python objects, as counts of FLOPs exceed 64 bits;
    ``frame.value.astype(float)`` where there are no names in it.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]

    table = pandas.DataFrame(records(result), columns=list(COLUMNS), dtype=object)
    return table.set_index("id")


_STYLE = "text-align:left;padding:0 1em 0 0"


def html(result: Shown) -> str:
    """The quantities of the whole plan as an HTML table; those per layer or stage are folded."""
    whole: list[Any] = []
    single: list[Any] = []
    for quantity in result.quantities.values():
        (single if "[" in quantity.id else whole).append(quantity)
    parts = [f"<div><b>{escape(result.plan.name)}</b>", _table(whole)]
    if single:
        parts.append(
            f"<details><summary>{len(single)} per layer kind, component or stage"
            f"</summary>{_table(single)}</details>"
        )
    if result.absent:
        rows = "".join(
            f"<li><code>{escape(name)}</code>: {escape(reason)}</li>"
            for name, reason in result.absent.items()
        )
        parts.append(
            f"<details><summary>{len(result.absent)} absent, with reason</summary>"
            f"<ul>{rows}</ul></details>"
        )
    return "".join(parts) + "</div>"


def _table(quantities: list[Any]) -> str:
    rows = "".join(
        f'<tr><td style="{_STYLE}"><code>{escape(q.id)}</code></td>'
        f'<td style="{_STYLE}">{escape(q.title)}</td>'
        f'<td title="{escape(_exactly(q))}">{"" if q.exact else "≈ "}{escape(_shown(q))}</td></tr>'
        for q in quantities
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _shown(quantity: Any) -> str:
    value = quantity.value
    if isinstance(value, float):
        value = Fraction(value)
    if isinstance(value, (int, Fraction)):
        return format_value(value, quantity.unit)
    return str(value)


def _exactly(quantity: Any) -> str:
    value = quantity.value
    if isinstance(value, (int, Fraction)):
        return f"{exact_text(value)} {quantity.unit}"
    return str(value)
