"""Sentences that lead a page or a terminal: texts each with how it is set, numbers to three digits
with what published runs leave open of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from planner.base.display import rounded, significant
from planner.report.numbers import shown
from planner.results.result import Quantity

#: Texts, each with how it is set: b, small or nothing.
Parts = list[tuple[str, str]]
#: Characters of a line of a terminal.
LINE = 80


def plain(parts: Iterable[tuple[str, str]]) -> str:
    """A sentence as plain text."""
    return "".join(text for text, _ in parts)


def wrapped(text: str, indent: str = "", further: str | None = None) -> list[str]:
    """A text as lines of a terminal, ``further`` ones indented as said; nothing of nothing."""
    more = indent if further is None else further
    return textwrap.wrap(
        text, LINE, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False
    )


def three(value: Any, unit: str) -> str:
    """A number to three digits, the rest nothing, with its unit."""
    return shown(Fraction(rounded(Fraction(value), 3)), unit)


def digits(value: float | None) -> str:
    """A number to three digits, the rest nothing."""
    return "–" if value is None else significant(Fraction(rounded(Fraction(value), 3)), 3)


def short(quantity: Quantity, unit: str | None = None) -> str:
    """A quantity to three digits, in its unit or in one that is counted as USD are."""
    if quantity.declared.share:
        return shown(quantity.value, quantity.unit, True)
    return amount(quantity.number, quantity.unit, unit)


def of_whole(part: Quantity, whole: Quantity) -> str:
    """A quantity of another one, the unit once where both have the same: 41.2 of 79.6 GiB."""
    text = short(whole)
    unit = f" {text.partition(' ')[2]}"
    return f"{short(part).removesuffix(unit)} of {text}"


def amount(value: Any, own: str, unit: str | None) -> str:
    """A number to three digits in its own unit, or in one that is counted as USD are."""
    return three(value, own) if unit is None else three(value, "USD").replace("USD", unit)


def with_interval(quantity: Quantity, unit: str | None = None) -> Parts:
    """A quantity, and what published runs leave open of it."""
    text = short(quantity, unit)
    if quantity.interval is None:
        return [(text, "b")]
    return [(text, "b"), (f" ({between(quantity.interval, quantity.unit, text, unit)})", "small")]


def between(ends: Sequence[Any], own: str, like: str, unit: str | None = None) -> str:
    """An interval to three digits, without the unit where it is that of the text beside it."""
    low, high = (amount(end, own, unit) for end in ends)
    name = f" {like.partition(' ')[2]}"
    if low.endswith(name) and high.endswith(name):
        low, high = low.removesuffix(name), high.removesuffix(name)
    return f"{low}–{high}"
