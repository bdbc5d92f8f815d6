"""The closed form of the largest model: devices times memory over bytes per parameter."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

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


def bytes_per_parameter(plan: Plan, precision: str | None = None) -> Fraction:
    """Bytes of weights, gradients and optimizer states for one parameter of the plan, nothing
    divided: the quantity that its report shows, in its own precision or in another.

    Raises:
        PlanError: the book has no answer for this plan's precision and optimizer.
    """
    if precision not in (None, plan.get("training.precision")):
        plan = variant(plan, {"training.precision": precision})
    return Fraction(evaluated(plan, [STATES])[STATES])


def largest_model(plan: Plan) -> tuple[Closed, ...]:
    """Parameters by bytes per parameter alone, under the readings that people mean by it."""
    if plan.get("training.lora") is not None:
        return ()  # most weights have neither gradient nor states
    precision = plan.get("training.precision")
    optimizer = plan.get("training.optimizer")
    memory = plan.get("cluster.accelerator.memory")
    usable = plan.get("cluster.accelerator.memory_usable")
    other = OTHER.get(precision, "fp32")
    own, others = f"{precision} {optimizer}", f"{other} {optimizer}"
    cases: list[tuple[str, Any, str]] = [(f"capacity of the datasheet, {own}", memory, precision)]
    if usable is not None:
        cases.append((f"capacity that the driver reports, {own}", usable, precision))
    cases.append((f"capacity of the datasheet, {others}", memory, other))
    found = []
    for text, capacity, recipe in cases:
        try:
            each = bytes_per_parameter(plan, recipe)
        except PlanError:
            continue  # a recipe that this optimizer has no states for
        devices = plan.get("cluster.devices")
        value = Fraction(devices) * Fraction(capacity) / Fraction(each)
        numbers = f"{devices} × {exact_text(capacity)} bytes / {exact_text(each)} bytes"
        found.append(Closed(text, "N = n M / β", numbers, value))
    return tuple(found)
