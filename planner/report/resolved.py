"""The plan with every name and default resolved, as YAML with the origin of each value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from planner.base.display import plain_text, quoted
from planner.documents import schema
from planner.plans.document import Plan
from planner.report.numbers import clean
from planner.results.inputs import LEFT_OUT, origin

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ./_+()-]*(?<! )")
#: The price list, of which the provider's rows are told, and what follows from them.
PRICES = ("cluster", "accelerator", "prices")
OF_PRICES = (("cluster", "price"), ("cluster", "reserved_price"))
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


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
            value = _of_provider(plan, value)
        elif key in LEFT_OUT or (here in OF_PRICES and not given):
            continue
        if value in (None, {}, []) or not (given or _in_schema(here)):
            continue
        if isinstance(value, Mapping) and value:
            rows.append((f"{indent}{_scalar(str(key))}:", ""))
            _mapping(plan, value, here, rows)
            continue
        unit = plan.document.find(here).unit if given else None
        rows.append(
            (
                f"{indent}{_scalar(str(key))}: {_flow(value, unit)}",
                clean(origin(plan, ".".join(here))[1]),
            )
        )


def _of_provider(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a price list that hold for the plan."""
    return [
        {**row, "price": f"{_flow(row['price'])} USD/h"}
        for row in rows
        if row["provider"] == plan.get("cluster.provider")
    ]


def _in_schema(path: tuple[str, ...]) -> bool:
    """Whether a document may say it; some values only the engine puts into the tree."""
    try:
        schema.describe("plan", path)
    except KeyError:
        return False
    return True


def _flow(value: Any, unit: str | None = None) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Fraction)):
        text = plain_text(value)
        return f"{text} {unit}" if unit and unit not in ("1", "tokens", "bytes") else text
    return _scalar(str(value))


def _scalar(text: str) -> str:
    """Plain where YAML reads it as text, else in double quotes, which JSON and YAML share."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return quoted(text)
