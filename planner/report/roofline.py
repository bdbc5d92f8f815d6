"""The layout of a roofline figure: kernels under the roof of a device, and their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.report.chart import Box, has_overlap, list_powers, make_axis, tick
from planner.report.layout import Data

#: The box: how wide and high it is, and the edges of what is drawn in it.
BOX = Data(width=620, height=330, left=52, right=606, top=22, bottom=284)
LETTER, LINE, DOT = 6.4, 15, 6  # the width of a letter, the height of a line, the room of a dot
ASIDE = 26  # where the column of labels begins, behind the last dot
#: Where a label may stand by its dot: how its text is anchored, and where.
NEAR = {"end": (-9, 4), "start": (9, 4), "middle": (0, 19), "middle above": (0, -10)}


def place_kernels(peak: float, bandwidth: float, kernels: Sequence[Data]) -> Data:
    """Place kernels under the roof of a device, on two logarithmic axes.

    Args:
        peak: FLOP/s; the flat part of the roof.
        bandwidth: bytes/s; its slope.
        kernels: each with label, intensity (FLOPs per byte), rate (FLOP/s), and ``own`` for the
            plan's whole step.
    """
    ridge, rates = peak / bandwidth, [kernel.rate for kernel in kernels]
    first = min(ridge, *(kernel.intensity for kernel in kernels)) / 2
    most = max(ridge, *(kernel.intensity for kernel in kernels))
    room = ASIDE + LETTER * max(len(kernel.label) for kernel in kernels)  # behind the last one
    last = first * (most / first) ** ((BOX.right - BOX.left) / (BOX.right - BOX.left - room))
    low, high = min(peak, *rates) / 1.4, max(peak, *rates) * 1.25
    x = make_axis(first, last, BOX.left, BOX.right, math.log10, 1)
    y = make_axis(low, high, BOX.bottom, BOX.top, math.log10, 1)
    start = max(first, low / bandwidth)
    x0, y0, x1, y1 = x(start), y(bandwidth * start), x(ridge), y(peak)
    dots = [
        Data(
            label=kernel.label,
            own=kernel.own,
            x=x(kernel.intensity),
            y=y(kernel.rate),
            roof=y(min(peak, bandwidth * kernel.intensity)),
        )
        for kernel in kernels
    ]
    slope = [(x0 + (x1 - x0) * i / 40, y0 + (y1 - y0) * i / 40) for i in range(41)]
    taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in slope] + [(x1, y1 - 3, BOX.right, y1 + 3)]
    taken += [(d.x - 1, min(d.y, d.roof), d.x + 1, max(d.y, d.roof)) for d in dots]
    write_labels(dots, taken, (BOX.left + 2, BOX.top, BOX.right, BOX.bottom - 4))
    return Data(
        **vars(BOX),
        x_ticks=[Data(at=x(t), text=tick(t)) for t in list_powers(first, last)],
        y_ticks=[Data(at=y(t * 1e12), text=tick(t)) for t in list_powers(low / 1e12, high / 1e12)],
        roof=f"M{x0} {y0}L{x1} {y1}H{BOX.right}",
        dots=dots,
    )


def write_labels(dots: Sequence[Data], taken: Sequence[Box], box: Box) -> None:
    """Place each label at its dot, left, right, above or below, without overlaps; labels without
    room go to a column on the right, each with a line to its dot. Sets ``text_x``, ``text_y``,
    ``anchor`` and ``line`` (the path of that line, or empty).

    Args:
        dots: each with a label and its place, x and y.
        taken: boxes to avoid besides dots and other labels.
        box: the bounds of labels; the column is ``ASIDE`` right of the last dot.
    """
    aside = max(dot.x for dot in dots) + ASIDE
    boxes = [*taken, *((d.x - DOT, d.y - DOT, d.x + DOT, d.y + DOT) for d in dots)]
    left: list[Data] = []
    for dot in sorted(dots, key=lambda one: one.x):
        for anchor, (x, y) in NEAR.items():
            dot.anchor, dot.text_x, dot.text_y, dot.line = anchor, dot.x + x, dot.y + y, ""
            text = get_label_box(dot)
            inside = box[0] < text[0] and box[1] < text[1] and text[2] < aside - 4
            if inside and text[3] < box[3] and not any(has_overlap(text, other) for other in boxes):
                boxes.append(text)
                break
        else:
            left.append(dot)
    at = box[1]
    for dot in sorted(left, key=lambda one: one.y):
        at = max(dot.y + 4, at + LINE)
        dot.anchor, dot.text_x, dot.text_y = "start", aside, at
    excess = max(0.0, at - box[3])
    for dot in left:
        dot.text_y = round(dot.text_y - excess, 1)
        dot.line = f"M{dot.x} {dot.y}L{aside - 3:g} {dot.text_y - 4:g}"
    for dot in dots:
        dot.text_x, dot.text_y = round(dot.text_x, 1), round(dot.text_y, 1)
        dot.anchor = dot.anchor.partition(" ")[0]


def get_label_box(dot: Data) -> Box:
    """Return the box of a dot's label."""
    wide = LETTER * len(dot.label)
    side = {"start": 0.0, "middle": wide / 2, "end": wide}[dot.anchor.partition(" ")[0]]
    left = dot.text_x - side
    return left, dot.text_y - LINE + 4, left + wide, dot.text_y + 3
