"""Figures as geometry: what is drawn where, in the units of a view box. Templates only place it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from planner.report.numbers import Data

WIDTH, HEIGHT = 480, 236
LEFT, RIGHT, TOP, BOTTOM = 46, 470, 14, 196
COLOURS = 6


def axis(
    low: float,
    high: float,
    start: float,
    end: float,
    scale: Callable[[float], float] = float,
    digits: int | None = None,
) -> Callable[[float], Any]:
    """Where a number stands between the places of the low and the high end of an axis, rounded to
    so many digits."""
    low, high = scale(low), scale(high)
    return lambda value: round(start + (scale(value) - low) / (high - low) * (end - start), digits)


def roofline(peak: float, bandwidth: float, kernels: Sequence[Data]) -> Data:
    """Kernels against the roof of a device: logarithmic in both directions.

    Args:
        peak: FLOP/s; the flat part of the roof.
        bandwidth: bytes/s; its slope.
        kernels: each with its mark, its FLOPs for each byte as intensity, and as rate FLOP/s where
            a time is predicted, else None.
    """
    ridge = peak / bandwidth
    rates = [k.rate for k in kernels if k.rate]
    first = math.floor(math.log10(min(ridge / 8, *(k.intensity for k in kernels))))
    last = math.ceil(math.log10(2 * max(ridge, *(k.intensity for k in kernels))))
    low, high = min(bandwidth * 10.0**first, *rates, math.inf), peak * 10**0.12
    x = axis(10.0**first, 10.0**last, LEFT, RIGHT, math.log10)
    y = axis(low, high, BOTTOM, TOP, math.log10)
    placed: list[Data] = []
    for kernel in sorted(kernels, key=lambda k: k.intensity):
        roof = min(peak, bandwidth * kernel.intensity)
        rate = kernel.rate or roof
        here = Data(mark=kernel.mark, x=x(kernel.intensity), y=y(rate), roof=y(roof))
        here.label = _free(here, placed)
        placed.append(here)
    ticks = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return Data(
        x_ticks=[Data(at=x(10**i), text=_power(i)) for i in range(first, last + 1)],
        y_ticks=[Data(at=y(10**i), text=_power(i - 12)) for i in ticks],
        roof=f"M{LEFT} {y(bandwidth * 10**first)}L{x(ridge)} {y(peak)}H{RIGHT}",
        kernels=placed,
    )


def _free(here: Data, placed: Sequence[Data]) -> int:
    """Where the mark of a dot stands below it: no other mark is written there."""
    room = 4 + 4 * len(here.mark)
    near = [p.label - here.y for p in placed if abs(p.x - here.x) < room + 4 * len(p.mark)]
    free = (low for low in range(17, 90, 12) if not any(abs(label - low) < 12 for label in near))
    return int(here.y) + next(free, 17)


def _power(exponent: int) -> str:
    """A power of ten for an axis."""
    if exponent > 3:
        return f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[exponent % 10]}"
    return str(10**exponent) if exponent >= 0 else f"0.{'0' * (-exponent - 1)}1"


def scatter(dots: Sequence[Data], limit: float) -> Data:
    """Plans by step time (to the right) and memory (upwards), both from nothing.

    Args:
        dots: each with its mark, its coordinates in seconds and GiB, whether it fits, and whether
            it is the plan itself.
        limit: GiB of a device.
    """
    right = _end(max(dot.x for dot in dots) * 1.05)
    top = _end(max(*(dot.y for dot in dots), limit) * 1.05)
    x, y = axis(0, right, LEFT, RIGHT), axis(0, top, BOTTOM, TOP)
    placed: list[Data] = []
    for dot in dots:
        here = Data(**vars(dot) | {"x": x(dot.x), "y": y(dot.y)})
        taken = sum(abs(p.x - here.x) < 16 and abs(p.y - here.y) < 12 for p in placed)
        here.label = here.x + 9 + 11 * taken
        placed.append(here)
    return Data(
        dots=placed,
        limit=y(limit),
        x_ticks=[Data(at=x(right * i / 4), text=f"{right * i / 4:.3g}") for i in range(5)],
        y_ticks=[Data(at=y(top * i / 4), text=f"{top * i / 4:.3g}") for i in range(5)],
    )


def _end(value: float) -> float:
    """The end of an axis: a number of which quarters are short."""
    step = 10.0 ** math.floor(math.log10(value))
    return next(step * i for i in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12) if step * i >= value)


def bar_of(identifier: str, title: str, rows: Sequence[Data], whole: Fraction) -> Data | None:
    """A stacked bar in thousandths of its width; None where parts are negative or all nothing."""
    if whole <= 0 or any(row.value < 0 for row in rows):
        return None
    segments, before = [], Fraction(0)
    for row in rows:
        part = Fraction(row.value) * 1000 / whole
        start, stop = round(before), round(before + part)
        before += part
        if stop > start:
            segments.append(
                Data(
                    x=start,
                    width=stop - start,
                    label=row.label,
                    colour=row.place % COLOURS,
                    # Labels that share a colour differ in their pattern.
                    hatch=(row.place % COLOURS + row.place // COLOURS) % COLOURS,
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
