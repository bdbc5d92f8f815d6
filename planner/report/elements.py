"""The elements of pages: frozen records whose fields templates read. Texts are final."""

from __future__ import annotations

from collections.abc import Sequence

from planner.base.sandbox import Record


class Link(Record):
    """A text with the id of the quantity that it is about."""

    id: str
    text: str


#: Rows of a table; each begins with its label.
Rows = list[list[str | Link]]


class Table(Record):
    """A table."""

    title: str  # its caption; empty without one
    head: Sequence[str]
    rows: Sequence[Sequence[str | Link]]
    note: str = ""  # a sentence below
    total: Sequence[str | Link] = ()  # the last row
    looks: Sequence[str] = ()  # of the columns: n for numbers, q for small print
    style: str = ""  # of the table: numeric, num, i
    anchors: bool = False  # whether links lead to its cells
