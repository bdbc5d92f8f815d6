"""What a largest model is held against: what bytes per parameter alone allow, which is devices
times memory over bytes, and the shipped models of its size."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from planner.base import units
from planner.base.display import exact_text
from planner.base.errors import PlanError
from planner.documents import schema, source
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.solve.families import SIZE

#: What is kept for each parameter, whatever the activations.
STATES = "memory.bytes_per_parameter"
#: One short sequence on one device: what any model can be counted on.
ALONE = {
    "name": "alone",
    "model": {"parameters": 1},
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
    "training": {"sequence_length": 8},
}
#: A size in the name of a shipped model: 7b, 1.5b, 125m, 8x7b.
NAMED = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
#: How many times the one of the size in a name and that of the weights may be the other.
LOOSE = Fraction(5, 4)


@dataclass(frozen=True)
class Closed:
    """One reading of the rule, in words, as an expression, with its numbers put in."""

    case: str
    formula: str
    substituted: str
    value: Fraction


def by_bytes(plan: Plan) -> tuple[Closed, ...]:
    """Parameters by bytes per parameter alone (weights, gradients and optimizer states, nothing
    divided), under the readings that people mean by it."""
    if plan.get("training.lora") is not None:
        return ()  # most weights have neither gradient nor states
    precision, optimizer = plan.get("training.precision"), plan.get("training.optimizer")
    devices, found = plan.get("cluster.devices"), []
    for words, memory, recipe in (
        ("capacity of the datasheet", "memory", precision),
        ("capacity that the driver reports", "memory_usable", precision),
        ("capacity of the datasheet", "memory", "bf16" if precision == "fp32" else "fp32"),
    ):
        capacity = plan.get(f"cluster.accelerator.{memory}")
        if capacity is None:
            continue
        with suppress(PlanError):  # a recipe that this optimizer has no states for
            each = evaluated(variant(plan, {"training.precision": recipe}), [STATES])[STATES]
            value = Fraction(devices) * Fraction(capacity) / Fraction(each)
            numbers = f"{devices} × {exact_text(capacity)} bytes / {exact_text(each)} bytes"
            found.append(Closed(f"{words}, {recipe} {optimizer}", "N = n M / β", numbers, value))
    return tuple(found)


def below(plan: Plan, size: int, most: int = 3) -> list[tuple[str, int]]:
    """Shipped models next below a size, the largest first, with their parameters.

    Of the plan's kind: dense, or with experts. Only names that carry a size are looked at, since
    every other model would have to be read and counted.
    """
    named = [
        (units.parse(match[2] + match[3].upper(), "parameters") * int(match[1] or 1), match.string)
        for match in filter(None, map(NAMED.search, source.preset_names("model")))
    ]
    alone = loading.load(ALONE)
    sparse, found = bool(plan.get("model.moe")), list[tuple[str, int]]()
    for nominal, name in sorted(named, reverse=True):
        if nominal > size * LOOSE:
            continue
        if len(found) == most and nominal * LOOSE < min(total for _, total in found):
            break
        model = schema.validate(source.load({"extends": name}, kind="model"), "model").data
        if bool(model.get("moe")) == sparse:
            total = int(evaluated(variant(alone, {"model": model}), [SIZE])[SIZE])
            if total <= size:
                found = sorted([*found, (name, total)], key=lambda pair: -pair[1])[:most]
    return found
