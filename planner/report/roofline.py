"""The layout of a roofline figure: kernels under the roof of a device, and their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from planner.base.sandbox import Record
from planner.report.chart import Box, has_overlap, list_powers, make_axis, tick
from planner.report.elements import Axes, Label, Link

#: The box: how wide and high it is, and the edges of what is drawn in it.
BOX = Axes(width=620, height=330, left=52, right=606, top=22, bottom=284)
LETTER, LINE, DOT = 6.4, 15, 6  # the width of a letter, the height of a line, the room of a dot
ASIDE = 26  # where the column of labels begins, behind the last dot
#: Where a label may stand by its dot: how its text is anchored, and where.
NEAR = {"end": (-9, 4), "start": (9, 4), "middle": (0, 19), "middle above": (0, -10)}


class Roofline(Record):
    """Kernels under the roof of a device.

    Attributes:
        axes: the box with its ticks.
        roof: the path of the roof.
        dots: the kernels, each with its label and the height of the roof above it; that of the
            whole step has the style own.
        ridge: the intensity at the ridge.
        text: the intensities in words.
        layer: the kind of layer.
    """

    axes: Axes
    roof: str
    dots: list[tuple[Label, Label, float]]
    ridge: Link | None = None
    text: str = ""
    layer: str = ""


def place_kernels(peak: float, bandwidth: float, kernels: Sequence[Label]) -> Roofline:
    """Place kernels under the roof of a device, on two logarithmic axes.

    Args:
        peak: FLOP/s; the flat part of the roof.
        bandwidth: bytes/s; its slope.
        kernels: what each is called, at its FLOPs per byte and FLOP/s; ``look`` is own for the
            whole step.
    """
    ridge, rates = peak / bandwidth, [kernel.y for kernel in kernels]
    first = min(ridge, *(kernel.x for kernel in kernels)) / 2
    most = max(ridge, *(kernel.x for kernel in kernels))
    room = ASIDE + LETTER * max(len(kernel.text) for kernel in kernels)  # behind the last one
    last = first * (most / first) ** ((BOX.right - BOX.left) / (BOX.right - BOX.left - room))
    low, high = min(peak, *rates) / 1.4, max(peak, *rates) * 1.25
    x = make_axis(first, last, BOX.left, BOX.right, math.log10)
    y = make_axis(low, high, BOX.bottom, BOX.top, math.log10)
    start = max(first, low / bandwidth)
    x0, y0, x1, y1 = x(start), y(bandwidth * start), x(ridge), y(peak)
    dots = [replace(kernel, x=x(kernel.x), y=y(kernel.y)) for kernel in kernels]
    roofs = [y(min(peak, bandwidth * kernel.x)) for kernel in kernels]
    slope = [(x0 + (x1 - x0) * i / 40, y0 + (y1 - y0) * i / 40) for i in range(41)]
    taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in slope] + [(x1, y1 - 3, BOX.right, y1 + 3)]
    taken += [
        (d.x - 1, min(d.y, roof), d.x + 1, max(d.y, roof))
        for d, roof in zip(dots, roofs, strict=True)
    ]
    labels = write_labels(dots, taken, (BOX.left + 2, BOX.top, BOX.right, BOX.bottom - 4))
    x_ticks = [(x(t), tick(t)) for t in list_powers(first, last)]
    y_ticks = [(y(t * 1e12), tick(t)) for t in list_powers(low / 1e12, high / 1e12)]
    return Roofline(
        replace(BOX, x_ticks=x_ticks, y_ticks=y_ticks),
        roof=f"M{x0} {y0}L{x1} {y1}H{BOX.right}",
        dots=[*zip(dots, labels, roofs, strict=True)],
    )


def write_labels(dots: Sequence[Label], taken: Sequence[Box], box: Box) -> list[Label]:
    """Place each label at its dot, left, right, above or below, without overlaps; labels without
    room go to a column on the right, each tied to its dot.

    Args:
        dots: each with the text of its label and its own place.
        taken: boxes to avoid besides dots and other labels.
        box: the bounds of labels; the column is ``ASIDE`` right of the last dot.

    Returns:
        The labels in the order of the dots; ``look`` is how each is anchored.
    """
    aside = max(dot.x for dot in dots) + ASIDE
    boxes = [*taken, *((d.x - DOT, d.y - DOT, d.x + DOT, d.y + DOT) for d in dots)]
    found: dict[int, Label] = {}
    order = sorted(range(len(dots)), key=lambda number: dots[number].x)
    for number in order:
        dot = dots[number]
        for anchor, (x, y) in NEAR.items():
            label = Label(dot.x + x, dot.y + y, dot.text, anchor.partition(" ")[0])
            text = get_label_box(label)
            inside = box[0] < text[0] and box[1] < text[1] and text[2] < aside - 4
            if inside and text[3] < box[3] and not any(has_overlap(text, other) for other in boxes):
                boxes.append(text)
                found[number] = label
                break
    left = sorted((n for n in order if n not in found), key=lambda number: dots[number].y)
    at, heights = box[1], list[float]()
    for number in left:
        at = max(dots[number].y + 4, at + LINE)
        heights.append(at)
    excess = max(0.0, at - box[3])
    for number, height in zip(left, heights, strict=True):
        dot, down = dots[number], round(height - excess, 1)
        tie = f"M{dot.x} {dot.y}L{aside - 3:g} {down - 4:g}"
        found[number] = Label(aside, down, dot.text, "start", tie)
    return [
        replace(found[number], x=round(found[number].x, 1), y=round(found[number].y, 1))
        for number in range(len(dots))
    ]


def get_label_box(label: Label) -> Box:
    """Return the box of a dot's label."""
    wide = LETTER * len(label.text)
    left = label.x - {"start": 0.0, "middle": wide / 2, "end": wide}[label.look]
    return left, label.y - LINE + 4, left + wide, label.y + 3
