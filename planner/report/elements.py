"""The elements of pages: frozen records whose fields templates read. Texts are final."""

from __future__ import annotations

from collections.abc import Sequence

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
