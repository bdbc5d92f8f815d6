"""Charts of a study as plain numbers: where ticks, lines, marks and bars lie in a fixed box.

The templates draw them as SVG. Nothing is computed there, and nothing of a document's text is put
into a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from planner.base.display import exact_text
from planner.report.figures import axis
from planner.report.numbers import Data

#: The box, and what is left free around the drawing for words.
WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 74, 18, 14, 46
#: A range with a larger ratio is drawn logarithmically.
RATIO = 12
BAR = 26

Words = Callable[[float], str]


def _scale(
    values: Sequence[float], start: float, end: float
) -> tuple[Callable[[float], float], list[float]]:
    """Numbers to places along an axis, to a tenth, and its ticks."""
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low > RATIO
    if logarithmic:
        ticks = powers(low, high)
    else:
        ticks = steps(0.0 if low >= 0 and low < high / 2 else low, high)
    ends = min(low, ticks[0]), max(high, ticks[-1])
    return axis(*ends, start, end, math.log10 if logarithmic else float, 1), ticks


def steps(low: float, high: float) -> list[float]:
    """Round numbers, about five, from below the low end to above the high one."""
    span = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(span / 5))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if span / (size * m) <= 5)
    first = math.floor(low / step)
    count = math.ceil(round(high / step - first, 6))
    return [round((first + i) * step, 12) for i in range(max(count, 1) + 1)]


def powers(low: float, high: float) -> list[float]:
    """Powers of ten with what lies between them, not too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inner = (1,) if last - first > 4 else (1, 3) if last - first > 2 else (1, 2, 5)
    ticks = [m * 10.0**power for power in range(first, last + 1) for m in inner]
    below = max((t for t in ticks if t <= low), default=low)
    above = min((t for t in ticks if t >= high), default=high)
    return [t for t in ticks if below <= t <= above]


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    labels: tuple[str, str],
    words: tuple[Words, Words],
    x_values: Sequence[float] | None = None,
    loose: Collection[int] = (),
) -> Data | None:
    """Lines through points, in a box with two axes; None where there are not two points.

    Each line has its label, its number as ``colour``, its ``path`` and ``marks`` with what they
    say.

    Args:
        series: label and points of each line.
        labels: what the axes are called.
        words: how numbers of each axis are said.
        x_values: what ticks stand at along x, where that is not round numbers.
        loose: places of series whose points no line joins.
    """
    points = [point for _, several in series for point in several]
    if len(points) < 2 or not all(map(math.isfinite, (v for p in points for v in p))):
        return None
    across, x_ticks = _scale([p[0] for p in points], LEFT, WIDTH - RIGHT)
    up, y_ticks = _scale([p[1] for p in points], HEIGHT - BOTTOM, TOP)
    drawn = []
    for number, (label, several) in enumerate(series):
        before = f"{label}: " if label else ""
        marks = [
            Data(x=across(x), y=up(y), text=f"{before}{words[0](x)}, {words[1](y)}")
            for x, y in several
        ]
        joined = marks and number not in loose
        path = "M" + "L".join(f"{mark.x:g} {mark.y:g}" for mark in marks) if joined else ""
        drawn.append(Data(label=label, colour=number, path=path, marks=marks))
    return Data(
        x_label=labels[0],
        y_label=labels[1],
        x_ticks=_spread([(across(x), words[0](x)) for x in x_values or x_ticks]),
        y_ticks=[Data(at=up(y), text=words[1](y)) for y in y_ticks],
        lines=drawn,
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        bottom=HEIGHT - BOTTOM,
    )


def _spread(ticks: Sequence[tuple[float, str]]) -> list[Data]:
    """Ticks whose words do not run into each other."""
    kept: list[Data] = []
    free = -math.inf
    for at, text in ticks:
        half = 4.2 * len(text)
        if at - half >= free:
            kept.append(Data(at=at, text=text))
            free = at + half
    return kept


def tick(value: float) -> str:
    """A short number for a tick."""
    return f"{value:.3g}" if value < 1000 else exact_text(round(value))


def bars(
    rows: Sequence[tuple[str, float, float]], limit: float | None, words: Words
) -> Data | None:
    """Ranges as horizontal bars from the least to the most, with a limit where there is one, which
    the least of some is ``over``; None without rows."""
    if not rows:
        return None
    largest = max([high for _, _, high in rows] + ([limit] if limit else []))
    scale = 1000 / largest if largest > 0 else 0.0
    drawn = []
    for number, (label, low, high) in enumerate(rows):
        # A range of nothing is still a stroke to see.
        start = 0.0 if low == high else round(low * scale, 1)
        width = max(round(high * scale, 1) - start, 3.0)
        said = words(high) if low == high else f"{words(low)} to {words(high)}"
        over, y = limit is not None and low > limit, number * BAR
        drawn.append(Data(label=label, y=y, x=start, width=width, text=said, over=over))
    return Data(
        bars=drawn,
        height=len(rows) * BAR,
        thick=BAR - 8,
        limit=round(limit * scale, 1) if limit else None,
    )
