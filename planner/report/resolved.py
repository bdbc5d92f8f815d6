"""The plan with every name and default resolved, as YAML with the origin of each value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.base.display import flow
from planner.documents import schema
from planner.plans.document import Plan
from planner.report.numbers import clean
from planner.results.inputs import LEFT_OUT, origin

#: The price list, of which the provider's rows are told, and what follows from them.
PRICES = ("cluster", "accelerator", "prices")
OF_PRICES = (("cluster", "price"), ("cluster", "reserved_price"))

SCHEDULE = ("training", "schedule")


def resolved(plan: Plan) -> str:
    """A document that loads to the same plan; after each value, who decided it."""
    rows: list[tuple[str, str]] = []
    _mapping(plan, plan.data, (), rows)
    width = min(60, max((len(text) for text, why in rows if why), default=0))
    return "".join(f"{text.ljust(width)}  # {why}\n" if why else f"{text}\n" for text, why in rows)


def _mapping(
    plan: Plan, data: Mapping[str, Any], path: tuple[str, ...], rows: list[tuple[str, str]]
) -> None:
    indent = "  " * len(path)
    for key, value in data.items():
        here = (*path, str(key))
        given = plan.document.has(here)
        if here == PRICES:
            ours = [row for row in value if row["provider"] == plan.get("cluster.provider")]
            value = [{**row, "price": f"{flow(row['price'])} USD/h"} for row in ours]
        elif key in LEFT_OUT or (here in OF_PRICES and not given):
            continue
        elif here == SCHEDULE:  # one's own is its table
            value = plan.get("parallelism.passes") or value
        # Some values only the engine puts into the tree: no document may say them.
        if value in (None, {}, []) or (not given and schema.describe("plan", here) is None):
            continue
        if isinstance(value, Mapping) and value:
            rows.append((f"{indent}{flow(str(key))}:", ""))
            _mapping(plan, value, here, rows)
            continue
        unit = plan.document.find(here).unit if given else None
        _, who = origin(plan, ".".join(here))
        rows.append((f"{indent}{flow(str(key))}: {flow(value, unit)}", clean(who)))
