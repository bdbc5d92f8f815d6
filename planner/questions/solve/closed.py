"""The closed form of the largest model: devices times memory over bytes per parameter."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from planner.base.display import exact_text
from planner.base.errors import PlanError
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.plan import variant

#: What is kept for each parameter, whatever the activations.
STATES = "memory.bytes_per_parameter"
#: The precision that the closed form shows beside the plan's own.
OTHER = {"fp32": "bf16"}


@dataclass(frozen=True)
class Closed:
    """One reading of the rule, in words, as an expression, with its numbers put in."""

    case: str
    formula: str
    substituted: str
    value: Fraction


def largest_model(plan: Plan) -> tuple[Closed, ...]:
    """Parameters by bytes per parameter alone (weights, gradients and optimizer states, nothing
    divided), under the readings that people mean by it."""
    if plan.get("training.lora") is not None:
        return ()  # most weights have neither gradient nor states
    precision, optimizer = plan.get("training.precision"), plan.get("training.optimizer")
    devices, found = plan.get("cluster.devices"), []
    for words, memory, recipe in (
        ("capacity of the datasheet", "memory", precision),
        ("capacity that the driver reports", "memory_usable", precision),
        ("capacity of the datasheet", "memory", OTHER.get(precision, "fp32")),
    ):
        capacity = plan.get(f"cluster.accelerator.{memory}")
        if capacity is None:
            continue
        try:
            other = {} if recipe == precision else {"training.precision": recipe}
            each = evaluated(variant(plan, other), [STATES])[STATES]
        except PlanError:
            continue  # a recipe that this optimizer has no states for
        value = Fraction(devices) * Fraction(capacity) / Fraction(each)
        numbers = f"{devices} × {exact_text(capacity)} bytes / {exact_text(each)} bytes"
        found.append(Closed(f"{words}, {recipe} {optimizer}", "N = n M / β", numbers, value))
    return tuple(found)
