"""The plan with every name and default resolved, as YAML with the origin of each value."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from planner.base.display import clean, format_flow
from planner.documents import schema
from planner.plans.document import Plan
from planner.results.inputs import LEFT_OUT, find_origin

#: The price list, of which the provider's rows are written, and the keys derived from it.
PRICES = ("cluster", "accelerator", "prices")
OF_PRICES = (("cluster", "price"), ("cluster", "reserved_price"))

SCHEDULE = ("training", "schedule")
#: Bytes of a stored block of deflated data at most.
MOST_STORED = 65_535


def format_resolved(plan: Plan, origins: bool = True) -> str:
    """Format a document that loads to the same plan, with the origin of each value or without."""
    rows: list[tuple[str, str]] = []
    _add_mapping(plan, plan.data, (), rows)
    if not origins:
        return "".join(f"{text}\n" for text, _ in rows)
    width = min(60, max((len(text) for text, why in rows if why), default=0))
    return "".join(f"{text.ljust(width)}  # {why}\n" if why else f"{text}\n" for text, why in rows)


def make_page_link(plan: Plan) -> str | None:
    """Make the address at which a page of ``serve`` or ``site`` opens with a plan, which stands
    after ``#``, deflated: stored in blocks, so that every machine writes the same bytes.

    Returns:
        None where the plan names no page (``report.page``).
    """
    page = plan.get("report.page")
    if page is None:
        return None
    text = json.dumps(
        [format_resolved(plan, False)], ensure_ascii=False, separators=(",", ":")
    ).encode()
    stored = b""
    for at in range(0, len(text), MOST_STORED):
        block = text[at : at + MOST_STORED]
        size, last = len(block), at + MOST_STORED >= len(text)
        stored += bytes([last]) + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
        stored += block
    return f"{page}#p={urlsafe_b64encode(stored).decode().rstrip('=')}"


def _add_mapping(
    plan: Plan, data: Mapping[str, Any], path: tuple[str, ...], rows: list[tuple[str, str]]
) -> None:
    """Add the lines of a mapping, nested mappings with indents, each with the origin of its value.

    Args:
        plan: the plan, from which origins and units are read.
        data: the mapping.
        path: its keys from the root of the plan.
        rows: lines so far, a pair of text and origin each, to which this adds.
    """
    indent = "  " * len(path)
    for key, value in data.items():
        here = (*path, str(key))
        given = plan.document.has_value(here)
        if here == PRICES:
            ours = [row for row in value if row["provider"] == plan.get("cluster.provider")]
            value = [{**row, "price": f"{format_flow(row['price'])} USD/h"} for row in ours]
        elif key in LEFT_OUT or (here in OF_PRICES and not given):
            continue
        elif value is None and path[-1:] == ("kinds",):  # a layer kind without settings
            value = {}
        elif here == SCHEDULE:  # a custom schedule is written as its table
            value = plan.get("parallelism.passes") or value
        # Values that only the engine sets are not keys of a document.
        if value in (None, []) or (not given and schema.describe("plan", here) is None):
            continue
        if isinstance(value, Mapping):
            before = len(rows)
            rows.append((f"{indent}{format_flow(str(key))}:", ""))
            _add_mapping(plan, value, here, rows)
            if len(rows) == before + 1:
                rows[before:] = [(f"{rows[before][0]} {{}}", "")] * given
            continue
        unit = plan.document.find_node(here).unit if given else None
        _, who = find_origin(plan, ".".join(here))
        rows.append((f"{indent}{format_flow(str(key))}: {format_flow(value, unit)}", clean(who)))
