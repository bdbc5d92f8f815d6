"""Two axes that fit what is drawn, as plain numbers: where ticks, dots, lines and labels lie in a
fixed box.

The templates draw them as SVG. Nothing is computed there, and nothing of a document's text is put
into a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from planner.base.display import exact_text
from planner.report.numbers import Data

#: The box, and what is left free around the drawing for words.
WIDTH, HEIGHT = 560, 330
RIGHT, TOP, BOTTOM = 14, 26, 42
#: A range with a larger ratio is drawn logarithmically.
RATIO = 4
#: What a range is widened by at each end, so that nothing lies on the frame.
PADDING = 0.06
#: Of a letter of a label on a phone, where the box is 0.64 of its size and letters are not.
LETTER, LINE = 8.6, 17
#: Ends of a label from its point: beside it, then further away with a line to it.
NEAR = ((-9, 17, "end"), (-12, 24, "end"), (0, 22, "middle"), (9, -7, "start"), (9, 15, "start"),
        (-9, -7, "end"), (0, -11, "middle"), (11, 5, "start"), (-11, 5, "end"))  # fmt: skip
FAR = tuple(
    (round(radius * math.cos(turn), 1), round(radius * math.sin(turn), 1) + 5,
     "start" if math.cos(turn) > 0.3 else "end" if math.cos(turn) < -0.3 else "middle")
    for radius in (26, 40, 56, 74)  # from below left on, where nothing lies below a front
    for turn in (math.pi * (0.75 + k * (-1) ** k / 16) for k in range(16))
)  # fmt: skip

Words = Callable[[float], str]
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


class Plane:
    """Two axes in a box that fit some points.

    Args:
        points: what has to be inside, (x, y) each; both positive or not.
        names: what the axes are called; that of y stands above its ticks.
        words: how numbers of each axis are said.
        x_values: what ticks stand at along x, where that is not round numbers.
        height: of the box.
    """

    def __init__(
        self,
        points: Sequence[Point],
        names: tuple[str, str],
        words: tuple[Words, Words],
        x_values: Sequence[float] | None = None,
        height: int = HEIGHT,
    ) -> None:
        xs, ys = ([point[way] for point in points] for way in (0, 1))
        self.x_low, self.x_high, across = _range(xs)
        self.y_low, self.y_high, up = _range(ys)
        y_ticks = [(y, words[1](y)) for y in _ticks(self.y_low, self.y_high, up is math.log10)]
        left = 12 + LETTER * max((len(text) for _, text in y_ticks), default=0)
        self.left, self.right = round(left), WIDTH - RIGHT
        self.top, self.bottom = TOP, height - BOTTOM
        self.x = axis(self.x_low, self.x_high, self.left, self.right, across, 1)
        self.y = axis(self.y_low, self.y_high, self.bottom, self.top, up, 1)
        x_ticks = x_values or _ticks(self.x_low, self.x_high, across is math.log10)
        self.x_name, self.y_name = names
        self.width, self.height = WIDTH, height
        self.x_ticks = _spread([(self.x(x), words[0](x)) for x in x_ticks])
        self.y_ticks = [Data(at=self.y(y), text=text) for y, text in y_ticks]
        self._taken: list[Box] = []

    def holds(self, point: Point) -> bool:
        """Whether a point lies inside the axes."""
        x, y = point
        return self.x_low <= x <= self.x_high and self.y_low <= y <= self.y_high

    def nearest(self, point: Point) -> Point:
        """The point inside the axes that is nearest to a point."""
        x, y = point
        return min(max(x, self.x_low), self.x_high), min(max(y, self.y_low), self.y_high)

    def at(self, point: Point) -> Point:
        """Where a point lies in the box."""
        return self.x(point[0]), self.y(point[1])

    def dots(self, points: Iterable[Point], shape: str = "h0") -> str:
        """One path of a mark at each point inside: without extent (a stroke with round ends draws
        a dot), ``CROSS`` or ``TRIANGLE``."""
        begin = {CROSS: (-3, -3), TRIANGLE: (0, -4.5)}.get(shape, (0, 0))
        placed = dict.fromkeys(map(self.at, filter(self.holds, points)))
        return "".join(f"M{x + begin[0]:g} {y + begin[1]:g}{shape}" for x, y in placed)

    def line(self, points: Sequence[Point], steps: bool = False) -> str:
        """A path through points, in steps where nothing lies between them."""
        placed = list(map(self.at, points))
        if not placed:
            return ""
        first = f"M{placed[0][0]:g} {placed[0][1]:g}"
        return first + "".join(f"H{x:g}V{y:g}" if steps else f"L{x:g} {y:g}" for x, y in placed[1:])

    def keep_free(self, points: Iterable[Point], radius: float = 5) -> None:
        """No label is written over these points."""
        for x, y in map(self.at, points):
            self._taken.append((x - radius, y - radius, x + radius, y + radius))

    def keep_line_free(self, points: Sequence[Point]) -> None:
        """No label is written over the straight line through these points."""
        for (x, y), (to_x, to_y) in pairwise(map(self.at, points)):
            parts = max(1, int(math.hypot(to_x - x, to_y - y) / 6))
            along = ((x + (to_x - x) * i / parts, y + (to_y - y) * i / parts) for i in range(parts))
            self._taken += [(a - 1, b - 1, a + 1, b + 1) for a, b in along]

    def labels(self, wanted: Sequence[tuple[Point, str]], far: bool = False) -> list[Data]:
        """Labels at points, the first ones most important, each where none is yet; where ``far``,
        also further away with a line to the point, else those without room are left out."""
        found = []
        for point, text in wanted:
            x, y = self.at(point)
            for dx, dy, anchor in (*NEAR, *FAR) if far else NEAR:
                box = _written(x + dx, y + dy, text, anchor)
                if self._free(box):
                    self._taken.append(box)
                    tie = (
                        f"M{x:g} {y:g}L{x + dx:g} {y + dy - 5:g}" if (dx, dy, anchor) in FAR else ""
                    )
                    found.append(Data(x=round(x + dx, 1), y=round(y + dy, 1), anchor=anchor,
                                      text=text, tie=tie))  # fmt: skip
                    break
        return found

    def _free(self, box: Box) -> bool:
        left, top, right, bottom = box
        if left < self.left or right > WIDTH or top < self.top - 8 or bottom > self.bottom:
            return False
        return not any(overlap(box, other) for other in self._taken)


CROSS, TRIANGLE = "l6 6m0-6l-6 6", "l4.6 8h-9.2z"


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes have anything in common."""
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def _written(x: float, y: float, text: str, anchor: str) -> Box:
    """The room that a label takes."""
    wide = LETTER * len(text)
    left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
    return left, y - LINE + 4, left + wide, y + 4


def _range(values: Sequence[float]) -> tuple[float, float, Callable[[float], float]]:
    """The ends of an axis on which values lie, with some room, and its scale."""
    low, high = min(values), max(values)
    if low > 0 and high / low > RATIO:
        room = (high / low) ** PADDING
        return low / room, high * room, math.log10
    room = PADDING * (high - low) or abs(high) / 10 or 1.0
    return max(low - room, 0.0) if low >= 0 else low - room, high + room, float


def _ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Round numbers inside a range, three to eight."""
    if logarithmic and high / low < 25:
        decade = 10.0 ** math.floor(math.log10(low))
        places = [m * size for size in (decade, 10 * decade) for m in (1, 1.5, 2, 3, 5, 7.5)]
        found = [place for place in places if low <= place <= high]
    else:
        found = powers(low, high) if logarithmic else []
    if len(found) > 2:
        return found
    size = 10.0 ** math.floor(math.log10(high - low))
    for step in (size, size / 2, size / 4, size / 5, size / 10):
        times = range(math.ceil(low / step), math.floor(high / step) + 1)
        if len(times) > 2:
            break
    return [round(time * step, 12) for time in times]


def powers(low: float, high: float) -> list[float]:
    """Powers of ten inside a range with what lies between them, not too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inner = (1,) if last - first > 4 else (1, 3) if last - first > 2 else (1, 2, 5)
    ticks = [m * 10.0**power for power in range(first, last + 1) for m in inner]
    return [t for t in ticks if low <= t <= high]


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


def steps(low: float, high: float) -> list[float]:
    """Round numbers, about five, from below the low end to above the high one."""
    span = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(span / 5))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if span / (size * m) <= 5)
    first = math.floor(low / step)
    count = math.ceil(round(high / step - first, 6))
    return [round((first + i) * step, 12) for i in range(max(count, 1) + 1)]


def _spread(ticks: Sequence[tuple[float, str]]) -> list[Data]:
    """Ticks whose words do not run into each other."""
    kept: list[Data] = []
    free = -math.inf
    for at, text in ticks:
        half = LETTER / 2 * (len(text) + 1)
        if at - half >= free and at + half <= WIDTH + 8:
            kept.append(Data(at=at, text=text))
            free = at + half
    return kept


def tick(value: float) -> str:
    """A short number for a tick."""
    return f"{value:.3g}" if abs(value) < 1000 else exact_text(round(value))
