"""The layout of panels of columns: what a device holds at each moment of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.report.chart import list_steps, make_axis, tick
from planner.report.layout import Data

#: The box of a panel of memory, where its columns stand, how high a part is that has its
#: name, how wide a letter of that is, and a column at most.
PANEL = Data(width=372, height=196, left=30, right=372, top=24, bottom=162)
NAMED, LETTER, WIDEST = 14, 5.6, 90


def build_panels(
    stages: Sequence[Sequence[Sequence[tuple[str, Any]]]],
    sizes: Sequence[Sequence[str]],
    capacity: float,
    scale: float,
) -> Data:
    """Return columns of parts, a panel for each stage, all on one scale.

    Args:
        stages: of each stage, at each moment, parts by name in bytes, lowest first.
        sizes: the sums as they are printed.
        capacity: bytes of a device, a line where columns come near it.
        scale: bytes of the unit of the axis.
    """
    of, moments = PANEL, len(stages[0])
    most = max(float(sum(v for _, v in held)) for stage in stages for held in stage)
    limit = capacity if capacity < 1.4 * most else None
    top = max(most, limit or 0)
    y = make_axis(0, top, of.bottom, of.top, digits=1)
    wide = min(WIDEST, (of.right - of.left) / moments)
    named, found = set[str](), []
    for number, (stage, texts) in enumerate(zip(stages, sizes, strict=True)):
        shapes: dict[str, str] = {}
        labels, tops = [], []
        whole = [sum(value for _, value in held) for held in stage]
        for column, held in enumerate(stage):
            left, below = round(of.left + column * wide + 1, 1), 0.0
            for name, value in held:
                low, below = y(below), below + float(value)
                high = round(low - y(below), 1)
                if not high:
                    continue
                shapes[name] = (
                    shapes.get(name, "") + f"M{left} {low}v-{high:g}h{wide - 2:g}v{high:g}z"
                )
                fits = high >= NAMED and len(name) * LETTER < wide - 6
                if not number and name not in named and fits:
                    named.add(name)
                    place = round(low - high / 2 + 4, 1)
                    labels.append(Data(x=left + 5, y=place, text=name))
            tops.append(
                Data(
                    x=round(left - 1 + wide / 2, 1),
                    y=round(y(below) - 5, 1),
                    text=texts[column],
                    peak=column == whole.index(max(whole)),
                )
            )
        found.append(Data(shapes=shapes, labels=labels, tops=tops, sizes=texts))
    ticks = [
        Data(at=y(mark * scale), text=tick(mark))
        for mark in list_steps(0, top / scale)
        if mark * scale <= top
    ]
    names = dict.fromkeys(name for one in found for name in one.shapes)
    return Data(
        **vars(of),
        panels=found,
        ticks=ticks,
        limit=None if limit is None else y(limit),
        thin=[name for name in names if name not in named],
    )
