"""The elements of pages: frozen records whose fields templates read. Texts are final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.base.sandbox import Record


class Link(Record):
    """A text that leads to the derivation of a quantity.

    Attributes:
        id: the id of the quantity.
        text: what is printed.
    """

    id: str
    text: str


#: Rows of a table; each begins with its label.
Rows = list[list[str | Link]]


class Table(Record):
    """A table, as any of the formats writes it.

    Attributes:
        title: its caption; empty without one.
        head: the heads of the columns.
        rows: the cells of each row.
        note: a sentence below the table.
        total: the last row, a sum; empty without one.
        looks: the style of each column: n for numbers, q for small print; columns without one are
            plain.
        style: the style of the table: numeric, num or i.
        anchors: whether links lead to its cells.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Link]]
    note: str = ""
    total: Sequence[str | Link] = ()
    looks: Sequence[str] = ()
    style: str = ""
    anchors: bool = False


class Label(Record):
    """A text at a place of a figure.

    Attributes:
        x, y: where it is anchored, in the box of the figure.
        text: what is printed; of a point its tooltip.
        look: its style, or how it is anchored: start, middle or end.
        tie: the path of a line to what it labels; empty without one.
    """

    x: float
    y: float
    text: str
    look: str = ""
    tie: str = ""


#: Positions along an axis, each with its text.
Ticks = Sequence[tuple[float, str]]


class Axes(Record):
    """The box of a figure and the axes in it.

    Attributes:
        width, height: the size of the box.
        left, right, top, bottom: the edges of what is drawn in it.
        x_ticks, y_ticks: the ticks along each axis.
        x_name, y_name: titles of the axes.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_ticks: Ticks = ()
    y_ticks: Ticks = ()
    x_name: str = ""
    y_name: str = ""


class Plot(Record):
    """Points in a plane, of a search, a study, or one result over one setting.

    Attributes:
        axes: the box and its axes.
        marks: a path of points by their style.
        line: the path of a line through points; empty without one.
        ends: points on that line, with tooltips.
        best, labels: labels in bold, and others.
        title: what is written above it.
        said: a sentence below it.
        dots: points that are taken by a click, each with the number of what is taken.
        rings: places with a ring around them.
        chosen: the place of the answer.
        whisker: left and right end and height of its interval.
        late: the position of a deadline, with its text.
        lines: lines across, such as the capacity of a device: style, height, text, and whether the
            text is above.
        window: the path of a box around what another plot shows.
        states: the styles in use, with their meaning.
    """

    axes: Axes
    marks: Mapping[str, str]
    line: str
    ends: Sequence[Label] = ()
    best: Sequence[Label] = ()
    labels: Sequence[Label] = ()
    title: str = ""
    said: str = ""
    dots: Sequence[tuple[Label, int]] = ()
    rings: Sequence[tuple[float, float]] = ()
    chosen: tuple[float, float] | None = None
    whisker: tuple[float, float, float] | None = None
    late: tuple[float, str] | None = None
    lines: Sequence[tuple[str, float, str, bool]] = ()
    window: str = ""
    states: Sequence[tuple[str, str]] = ()
