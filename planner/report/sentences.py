"""Leading sentences of pages and terminals: texts with a style each, numbers to three digits with
their 90 % intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from planner.base import numbers
from planner.results.result import Quantity

#: Texts, each with how it is set: b, small or nothing.
Parts = list[tuple[str, str]]
#: Characters of a line of a terminal.
LINE = 80


def join_parts(parts: Iterable[tuple[str, str]]) -> str:
    """Join the parts of a sentence as plain text."""
    return "".join(text for text, _ in parts)


def wrap_text(
    text: str, indent: str = "", further: str | None = None, break_long_words: bool = True
) -> list[str]:
    """Wrap text for a terminal, at most ``LINE`` characters a line.

    Args:
        text: the text.
        indent: the start of the first line.
        further: the start of the others; by default the same.
        break_long_words: whether a word that is longer than a line is broken.

    Returns:
        Lines; none if there is no text.
    """
    more = indent if further is None else further
    how: Any = {"break_long_words": break_long_words, "break_on_hyphens": False}
    return textwrap.TextWrapper(LINE, indent, more, **how).wrap(text)


def format_quantity(quantity: Quantity, unit: str | None = None) -> str:
    """Format a quantity, or its number in a unit that is counted like USD."""
    return quantity.text() if unit is None else format_amount(quantity.number, unit)


def format_part(part: Quantity, whole: Quantity) -> str:
    """Format a part of a whole, the unit once if both have the same: 41.2 of 79.6 GiB."""
    text = format_quantity(whole)
    unit = f" {text.partition(' ')[2]}"
    return f"{format_quantity(part).removesuffix(unit)} of {text}"


def format_amount(value: Any, unit: str | None) -> str:
    """Format a number of USD, or of a unit that is counted like USD."""
    return numbers.text(value, "USD").replace("USD", unit or "USD")


def build_interval(quantity: Quantity, unit: str | None = None) -> Parts:
    """Return a quantity and its 90 % interval as parts of a sentence."""
    text = format_quantity(quantity, unit)
    if quantity.interval is None:
        return [(text, "b")]
    ends = (
        format_amount(end, unit) if unit else quantity.declared.text(end)
        for end in quantity.interval
    )
    return [(text, "b"), (f" ({numbers.between(ends, text)})", "small")]
