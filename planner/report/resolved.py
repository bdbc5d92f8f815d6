"""The plan with every name and default resolved, as YAML with the origin of each value."""

from __future__ import annotations

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


def format_resolved(plan: Plan) -> str:
    """Format a document that loads to the same plan, with the origin of each value."""
    rows: list[tuple[str, str]] = []
    _add_mapping(plan, plan.data, (), rows)
    width = min(60, max((len(text) for text, why in rows if why), default=0))
    return "".join(f"{text.ljust(width)}  # {why}\n" if why else f"{text}\n" for text, why in rows)


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
