"""Plot areas as plain numbers: positions of ticks, points, lines and labels in a fixed box.

Templates draw them as SVG. Nothing is computed there, and no text of a document goes into a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from planner.base import numbers
from planner.base.numbers import trim_zeros
from planner.report.elements import Axes, Label

#: The box, and its margins for text.
WIDTH, HEIGHT = 560, 330
RIGHT, TOP, BOTTOM = 14, 26, 42
#: A range with a larger ratio is drawn logarithmically.
RATIO = 4
#: Padding of a range at each end, as a share, so that no point is on the frame.
PADDING = 0.06
#: Width and height of a letter, on a phone, where the box is scaled by 0.64 and letters are not.
LETTER, LINE = 8.6, 17
#: Offsets of a label from its point: beside it, then further away with a line to it.
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
    """Two axes in a box, fitted to some points.

    Args:
        points: what must lie inside, (x, y) each; both positive or not.
        names: titles of the axes; that of y is above its ticks.
        x_words: format of the numbers along x, if not as those along y.
        x_values: ticks along x, if not round numbers.
        height: of the box.

    Attributes:
        x_low, x_high, y_low, y_high: ends of the axes, in the numbers of the points.
        x, y: functions from such a number to a position in the box.
        axes: the box with its ticks, as templates draw it.
    """

    def __init__(
        self,
        points: Sequence[Point],
        names: tuple[str, str],
        x_words: Words | None = None,
        x_values: Sequence[float] | None = None,
        height: int = HEIGHT,
    ) -> None:
        xs, ys = ([point[way] for point in points] for way in (0, 1))
        self.x_low, self.x_high, across = _fit_range(xs)
        self.y_low, self.y_high, up = _fit_range(ys)
        y_ticks = [(y, tick(y)) for y in _pick_ticks(self.y_low, self.y_high, up is math.log10)]
        left = 12 + LETTER * max((len(text) for _, text in y_ticks), default=0)
        edges = round(left), WIDTH - RIGHT, TOP, height - BOTTOM
        self.x = make_axis(self.x_low, self.x_high, edges[0], edges[1], across)
        self.y = make_axis(self.y_low, self.y_high, edges[3], edges[2], up)
        x_ticks = x_values or _pick_ticks(self.x_low, self.x_high, across is math.log10)
        kept = _drop_overlaps([(self.x(x), (x_words or tick)(x)) for x in x_ticks])
        placed = [(self.y(y), text) for y, text in y_ticks]
        self.axes = Axes(WIDTH, height, *edges, kept, placed, *names)
        self._taken: list[Box] = []

    def is_inside(self, point: Point) -> bool:
        """Decide whether a point lies inside the axes."""
        x, y = point
        return self.x_low <= x <= self.x_high and self.y_low <= y <= self.y_high

    def clamp_point(self, point: Point) -> Point:
        """Clamp a point to the range of the axes."""
        x, y = point
        return min(max(x, self.x_low), self.x_high), min(max(y, self.y_low), self.y_high)

    def at(self, point: Point) -> Point:
        """Place a point in the box."""
        return self.x(point[0]), self.y(point[1])

    def dots(self, points: Iterable[Point], shape: str = "h0") -> str:
        """Draw a mark at each point inside, as one path: a dot (a stroke of no length with round
        ends), ``CROSS`` or ``TRIANGLE``."""
        begin = {CROSS: (-3, -3), TRIANGLE: (0, -4.5)}.get(shape, (0, 0))
        placed = dict.fromkeys(map(self.at, filter(self.is_inside, points)))
        return "".join(f"M{x + begin[0]:g} {y + begin[1]:g}{shape}" for x, y in placed)

    def draw_line(self, points: Sequence[Point], steps: bool = False) -> str:
        """Draw a path through points, straight or in steps."""
        placed = list(map(self.at, points))
        if not placed:
            return ""
        first = f"M{placed[0][0]:g} {placed[0][1]:g}"
        return first + "".join(f"H{x:g}V{y:g}" if steps else f"L{x:g} {y:g}" for x, y in placed[1:])

    def keep_free(self, points: Iterable[Point], radius: float = 5) -> None:
        """Keep labels off these points."""
        for x, y in map(self.at, points):
            self._taken.append((x - radius, y - radius, x + radius, y + radius))

    def keep_line_free(self, points: Sequence[Point]) -> None:
        """Keep labels off the straight line through these points."""
        for (x, y), (to_x, to_y) in pairwise(map(self.at, points)):
            parts = max(1, int(math.hypot(to_x - x, to_y - y) / 6))
            along = ((x + (to_x - x) * i / parts, y + (to_y - y) * i / parts) for i in range(parts))
            self._taken += [(a - 1, b - 1, a + 1, b + 1) for a, b in along]

    def place_labels(self, wanted: Sequence[tuple[Point, str]], far: bool = False) -> list[Label]:
        """Place labels at points, the most important first, where they overlap nothing; if ``far``,
        also further away with a line to the point. Labels without room are left out.

        Args:
            wanted: points with the text at each.
            far: whether to try places further away too.

        Returns:
            The labels that have room; ``look`` is the anchor.
        """
        found = []
        for point, text in wanted:
            x, y = self.at(point)
            for dx, dy, anchor in (*NEAR, *FAR) if far else NEAR:
                box = _measure_label(x + dx, y + dy, text, anchor)
                if self._is_free(box):
                    self._taken.append(box)
                    tie = (
                        f"M{x:g} {y:g}L{x + dx:g} {y + dy - 5:g}" if (dx, dy, anchor) in FAR else ""
                    )
                    found.append(Label(round(x + dx, 1), round(y + dy, 1), text, anchor, tie))
                    break
        return found

    def _is_free(self, box: Box) -> bool:
        """Decide whether a box is inside the drawing and overlaps nothing placed so far."""
        (left, top, right, bottom), axes = box, self.axes
        if left < axes.left or right > WIDTH or top < axes.top - 8 or bottom > axes.bottom:
            return False
        return not any(has_overlap(box, other) for other in self._taken)


CROSS, TRIANGLE = "l6 6m0-6l-6 6", "l4.6 8h-9.2z"


def has_overlap(one: Box, other: Box) -> bool:
    """Decide whether two boxes overlap."""
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def _measure_label(x: float, y: float, text: str, anchor: str) -> Box:
    """Measure the box of a label from the usual width of a letter.

    Args:
        x, y: position of its anchor, on the line of writing.
        text: its text.
        anchor: start, middle or end, the part of the text at x.

    Returns:
        Left, top, right and bottom.
    """
    wide = LETTER * len(text)
    left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
    return left, y - LINE + 4, left + wide, y + 4


def _fit_range(values: Sequence[float]) -> tuple[float, float, Callable[[float], float]]:
    """Return the ends of an axis for some values, with padding, and its scale."""
    low, high = min(values), max(values)
    if low > 0 and high / low > RATIO:
        room = (high / low) ** PADDING
        return low / room, high * room, math.log10
    room = PADDING * (high - low) or abs(high) / 10 or 1.0
    return max(low - room, 0.0) if low >= 0 else low - room, high + room, float


def _pick_ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Pick three to eight round numbers inside a range.

    Args:
        low, high: ends of the axis.
        logarithmic: whether the axis is; both ends are positive then.
    """
    if logarithmic and high / low < 25:
        decade = 10.0 ** math.floor(math.log10(low))
        places = [m * size for size in (decade, 10 * decade) for m in (1, 1.5, 2, 3, 5, 7.5)]
        found = [place for place in places if low <= place <= high]
    else:
        found = list_powers(low, high) if logarithmic else []
    if len(found) > 2:
        return found
    size = 10.0 ** math.floor(math.log10(high - low))
    for step in (size, size / 2, size / 4, size / 5, size / 10):
        times = range(math.ceil(low / step), math.floor(high / step) + 1)
        if len(times) > 2:
            break
    return [round(time * step, 12) for time in times]


def list_powers(low: float, high: float) -> list[float]:
    """List powers of ten inside a range, with steps between them if few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inner = (1,) if last - first > 4 else (1, 3) if last - first > 2 else (1, 2, 5)
    ticks = [m * 10.0**power for power in range(first, last + 1) for m in inner]
    return [t for t in ticks if low <= t <= high]


def make_axis(
    low: float, high: float, start: float, end: float, scale: Callable[[float], float] = float
) -> Callable[[float], float]:
    """Make the function from numbers to positions along an axis, to one decimal.

    Args:
        low, high: numbers at the ends.
        start, end: positions of the ends; start is the larger one for an axis that points up.
        scale: what makes the axis linear in position, such as log10.

    Returns:
        A function; numbers beyond the ends have positions beyond them.
    """
    low, high = scale(low), scale(high)
    return lambda value: round(start + (scale(value) - low) / (high - low) * (end - start), 1)


def list_steps(high: float) -> list[float]:
    """List about five round numbers, from 0 to at or above the high end."""
    span = high or 1.0
    size = 10.0 ** math.floor(math.log10(span / 5))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if span / (size * m) <= 5)
    count = math.ceil(round(high / step, 6))
    return [round(i * step, 12) for i in range(max(count, 1) + 1)]


def _drop_overlaps(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Drop ticks whose labels would overlap."""
    kept: list[tuple[float, str]] = []
    free = -math.inf
    for at, text in ticks:
        half = LETTER / 2 * (len(text) + 1)
        if at - half >= free and at + half <= WIDTH + 8:
            kept.append((at, text))
            free = at + half
    return kept


def tick(value: float) -> str:
    """Format the label of a tick."""
    return trim_zeros(numbers.text(value if abs(value) < 1000 else round(value)))
