"""The table of what can be trained on some devices, for a terminal, as Markdown and as data."""

from __future__ import annotations

from contextlib import suppress

from planner.base.display import as_json, clean, columns, format_md_table, one_line
from planner.base.errors import PlanError
from planner.base.numbers import exact_text, text
from planner.documents.stacks import load_stack
from planner.plans.document import Plan
from planner.questions.fit_table import (
    DEVICE_BYTES,
    PROCESS_BYTES,
    RATE,
    TOKENS_LONG,
    FitCell,
    FitTable,
)
from planner.questions.solve.priced_devices import list_offers
from planner.report.answer import gib
from planner.report.report import escape_md
from planner.report.sentences import wrap_text
from planner.results.verdict import VERDICTS


def _describe_devices(table: FitTable) -> str:
    """Say what the devices are and what stands in a cell."""
    plan = table.plan
    capacity = next(cell.row[DEVICE_BYTES] for cell in table.cells if cell.row[DEVICE_BYTES])
    device = clean(plan.get("cluster.accelerator.name"))
    stack = load_stack(plan.get("training.stack"))["name"]
    return (
        f"{plan.get('cluster.devices')} × {device}, {gib(capacity)} GiB each: what can be trained "
        f"with {stack}. GiB of a device, and hours for {exact_text(table.examples)} examples as "
        f"long as the sequence{_describe_price(plan)}."
    )


def _describe_price(plan: Plan) -> str:
    """Say what a device costs, if its document or the plan has a price."""
    with suppress(PlanError):
        name = plan.document.find_node(("cluster", "accelerator")).reference
        offer = list_offers(plan, [str(name)])[0]
        return f"; a device costs {text(offer.price, 'USD/h')} ({offer.whose})"
    return ""


def _describe_marks(table: FitTable) -> str:
    """Say what the marks mean and how far off the numbers are."""
    fits = (cell for cell in table.cells if cell.state in ("fits", "tight"))
    known = [(cell.compute_hours(1), cell.row) for cell in fits]
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


def _format_fit(cell: FitCell, examples: int) -> str:
    """Format the memory of a cell, and its hours if it fits."""
    if cell.state == "open":
        return "–"
    hours = cell.compute_hours(examples)[0]
    said = f"{_get_mark(cell.state)} {gib(cell.row[PROCESS_BYTES])}".strip()
    return said if cell.state == "no" or hours is None else f"{said} · {text(hours, 'h')}"


def _list_fit_rows(table: FitTable) -> list[list[str]]:
    """List the rows with their head."""
    head = ["", "", *(exact_text(length) for length in table.lengths)]
    rows, before = [head], ""
    for cells in table.rows:
        model = clean(cells[0].model)
        shown = [_format_fit(cell, table.examples) for cell in cells]
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


def encode_fit_table(table: FitTable) -> str:
    """Return the cells as JSON, each with its plan."""
    cells = []
    for cell in table.cells:
        hours = cell.compute_hours(table.examples)
        known = {
            name: cell.row.get(name)
            for name in (PROCESS_BYTES, DEVICE_BYTES, RATE, "layout", "reason")
        }
        told = {"model": cell.model, "method": cell.method, TOKENS_LONG: cell.length}
        cells.append(
            {**told, "verdict": cell.state, **known, "hours": hours[0], "interval": hours[1:],
             "plan": cell.document}
        )  # fmt: skip
    return as_json({"examples": table.examples, "cells": cells})
