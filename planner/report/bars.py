"""Stacked bars in thousandths of their width."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

__all__ = ["COLOURS", "bar_of", "hatch"]

Data = SimpleNamespace
COLOURS = 6


def hatch(place: int) -> int:
    """The pattern of a place: labels that share a colour differ in it."""
    return (place % COLOURS + place // COLOURS) % COLOURS


def bar_of(
    identifier: str, title: str, rows: Sequence[Data], values: Sequence[Any], whole: Fraction
) -> Data | None:
    """A stacked bar in thousandths of its width; None where parts are negative or all nothing."""
    if whole <= 0 or any(value < 0 for value in values):
        return None
    segments, before = [], Fraction(0)
    for row, value in zip(rows, values, strict=True):
        part = Fraction(value) * 1000 / whole
        start, stop = round(before), round(before + part)
        before += part
        if stop > start:
            segments.append(
                Data(
                    x=start,
                    width=stop - start,
                    label=row.label,
                    colour=row.place % COLOURS,
                    hatch=hatch(row.place),
                    named=stop - start >= 60,
                )
            )
    text = ", ".join(f"{row.label} {row.share} %" if row.share else row.label for row in rows)
    return Data(
        id=f"bar-{identifier}",
        title=title,
        text=text,
        segments=segments,
        rest=1000 - round(before),
        rest_label="",
        limit=None,
        caption=f"{title}: {text}.",
    )
