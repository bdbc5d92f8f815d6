"""`plan.py explain`: the derivation of one quantity as an indented tree for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from planner import display
from planner.quantity import Notation
from planner.result import Quantity, Result

WIDTH = 96
#: A line of numbers longer than this is left to the reports: a terminal would only wrap it.
LONGEST = 600


def explain(result: Result, identifier: str, depth: int | None = None) -> str:
    """Formula, numbers put in, value, sources and inputs of a quantity, then of those it uses.

    A quantity that was explained further up is named, not repeated; the words of a formula that
    holds many times (for each component, each part) stand where it occurs first.

    Raises:
        PlanError: the book has no such quantity.
    """
    shown: set[str] = set()
    return "\n".join(_tree(result.find(identifier), 0, depth, shown)) + "\n"


def _tree(
    quantity: Quantity, level: int, depth: int | None, shown: set[str]
) -> Iterator[str]:
    indent = "   " * level
    mark = "└─ " if level else ""
    lead = "   " * (level - 1) + mark if level else ""
    inner = indent + ("   " if level else "  ")
    if quantity.id in shown:
        yield f"{lead}{quantity.id} = {_value(quantity)} (derived above)"
        return
    shown.add(quantity.id)
    yield f"{lead}{quantity.id}: {quantity.title}"
    yield from _derivation(quantity, inner, shown)
    if depth is not None and level >= depth:
        return
    for used in quantity.uses:
        yield from _tree(used, level + 1, depth, shown)


def _derivation(quantity: Quantity, inner: str, shown: set[str]) -> Iterator[str]:
    symbol = quantity.symbol
    if quantity.absent is not None:
        yield from _wrapped(f"absent: {quantity.absent}", inner)
        return
    blank = " " * len(symbol)
    yield from _wrapped(f"{symbol} = {quantity.formula}", inner, len(symbol) + 3)
    numbers = quantity.substituted
    if numbers and numbers != quantity.formula and numbers != _bare(quantity.value):
        if len(numbers) > LONGEST:
            numbers = f"… ({len(quantity.terms) or 'many'} terms, spelled out in the reports)"
        yield from _wrapped(f"{blank} = {numbers}", inner, len(symbol) + 3)
    yield f"{inner}{blank} = {_value(quantity)}{'' if quantity.exact else '   (estimate)'}"
    words = f"{quantity.why} (source: {quantity.source})"
    if words not in shown:
        shown.add(words)
        yield from _wrapped(quantity.why, inner)
        yield from _wrapped(f"source: {quantity.source}", inner)
    inputs = [_input(note, value, found) for note, value, found in quantity.symbols]
    if inputs:
        yield from _wrapped("inputs: " + "; ".join(inputs), inner)


def _bare(value: Any) -> str:
    return display.exact_text(value, ",") if isinstance(value, int) else ""


def _value(quantity: Quantity) -> str:
    value = quantity.value
    if value is None or isinstance(value, str):
        return str(value if value is not None else "absent")
    short = display.format_value(value, quantity.unit)
    if isinstance(value, int) and abs(value) >= 1000:
        full = display.exact_text(value, ",")
        unit = "" if quantity.unit == "1" else f" {quantity.unit}"
        return f"{full}{unit} = {short}" if short != full else f"{full}{unit}"
    return short


def _input(note: Notation, value: Any, found: Any) -> str:
    from planner.typeset import names

    shown = display.exact_text(value, ",") if isinstance(value, int) else str(value)
    origin = f", {found.origin}" if found is not None and found.origin else ""
    return f"{names.parse(note.latex).plain()} = {shown} ({note.meaning}{origin})"


def _wrapped(text: str, indent: str, hang: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        max(WIDTH, len(indent) + 40),
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
