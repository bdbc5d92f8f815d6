"""The table of what can be trained on some devices, for a terminal, as Markdown and as data."""

from __future__ import annotations

from planner.base.display import as_json, clean, columns, format_md_table, one_line
from planner.base.numbers import exact_text, text
from planner.documents.stacks import load_stack
from planner.questions.fit_table import (
    COST,
    DEVICE_BYTES,
    PRICE,
    PROCESS_BYTES,
    RATE,
    TOKENS_LONG,
    FitCell,
    FitTable,
)
from planner.report.answer import gib
from planner.report.elements import Table
from planner.report.report import escape_md, render_page
from planner.report.sentences import wrap_text
from planner.results.verdict import VERDICTS


def _describe_devices(table: FitTable) -> str:
    """Say what the devices are and what stands in a cell."""
    plan = table.plan
    capacity = next(cell.row[DEVICE_BYTES] for cell in table.cells if cell.row[DEVICE_BYTES])
    device = clean(plan.get("cluster.accelerator.name"))
    (price, whose), cost, paid = table.price, "", "; the price of a device is unknown"
    if price is not None:
        cost, paid = " and cost", f" at {text(price, 'USD/h')} a device ({clean(whose)})"
    stack = load_stack(plan.get("training.stack"))["name"]
    return (
        f"{plan.get('cluster.devices')} × {device}, {gib(capacity)} GiB each: what can be trained "
        f"with {stack}. GiB of a device, and hours{cost} for {exact_text(table.examples)} examples "
        f"as long as the sequence{paid}."
    )


def _describe_marks(table: FitTable) -> str:
    """Say what the marks mean and how far off the numbers are."""
    fits = (cell for cell in table.cells if cell.state in ("fits", "tight"))
    known = [(cell.hours, cell.row) for cell in fits]
    marks = f"{_get_mark('no')} does not fit, {_get_mark('tight')} {VERDICTS['tight'].legend}."
    if not known:
        return marks
    (middle, low, high), row = known[0]
    assert middle and low and high
    ends = [row[f"{PROCESS_BYTES}.{end}"] / row[PROCESS_BYTES] - 1 for end in ("low", "high")]
    times = [end / middle - 1 for end in (low, high)]
    memory, hours = (
        " to ".join(text(end, style="change", digits=2) for end in pair) for pair in (ends, times)
    )
    return f"{marks} 90 % intervals of the first that fits: GiB {memory}, hours {hours}."


def _get_mark(state: str) -> str:
    """Return the sign of a verdict: none where it fits."""
    return VERDICTS[state].mark.partition(" ")[0] if state in ("tight", "no") else ""


def _format_fit(cell: FitCell) -> str:
    """Format the memory of a cell, and if it fits its hours and its cost."""
    if cell.state == "open":
        return "–"
    said = f"{_get_mark(cell.state)} {gib(cell.row[PROCESS_BYTES])}".strip()
    spent = {} if cell.state == "no" else {"h": cell.hours[0], "USD": cell.row.get(COST)}
    known = (text(amount, unit) for unit, amount in spent.items() if amount is not None)
    return " · ".join((said, *known))


def _list_fit_rows(table: FitTable) -> list[list[str]]:
    """List the rows with their head."""
    head = ["", "", *(exact_text(length) for length in table.lengths)]
    rows, before = [head], ""
    for cells in table.rows:
        model = clean(cells[0].model)
        shown = [_format_fit(cell) for cell in cells]
        rows.append(["" if model == before else model, clean(cells[0].method), *shown])
        before = model
    return rows


def format_fit_table(table: FitTable) -> str:
    """Format the table for a terminal."""
    lines = [
        *wrap_text(_describe_devices(table)),
        "",
        *columns(_list_fit_rows(table)),
        "",
        *wrap_text(_describe_marks(table)),
    ]
    return "".join(f"{one_line(line)}\n" for line in lines)


def render_fit_table(table: FitTable) -> str:
    """Render the table as Markdown."""
    rows = [[escape_md(cell) for cell in row] for row in _list_fit_rows(table)]
    body = "\n".join(format_md_table(rows))
    return (
        f"{escape_md(_describe_devices(table))}\n\n{body}\n\n{escape_md(_describe_marks(table))}\n"
    )


def render_fit_page(table: FitTable, template: str = "fit_table.html.jinja") -> str:
    """Render the table as a page of its own, or as a fragment of one by another template."""
    head, *rows = _list_fit_rows(table)
    cells = Table("Memory, hours and cost", head, rows, _describe_marks(table))
    return render_page(template, lead=_describe_devices(table), cells=cells)


def encode_fit_table(table: FitTable) -> str:
    """Return the cells as JSON, each with its plan."""
    cells = []
    for cell in table.cells:
        names = (PROCESS_BYTES, DEVICE_BYTES, RATE, COST, "layout", "reason")
        known = {name: cell.row.get(name) for name in names}
        told = {"model": cell.model, "method": cell.method, TOKENS_LONG: cell.length}
        cells.append(
            {**told, "verdict": cell.state, **known, "hours": cell.hours[0],
             "interval": cell.hours[1:], "plan": cell.document}
        )  # fmt: skip
    price = dict(zip((PRICE, "source"), table.price, strict=True))
    return as_json({"examples": table.examples, **price, "cells": cells})


#: The forms of the table, as --format names them.
FORMS = {
    "text": format_fit_table, "md": render_fit_table,
    "html": render_fit_page, "json": encode_fit_table,
}  # fmt: skip
