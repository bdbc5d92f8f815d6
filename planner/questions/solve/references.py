"""References for the largest model: the size that bytes per parameter alone allow, which is devices
times memory over bytes, and the built-in models of its size."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from planner.base import resources
from planner.base.errors import PlanError
from planner.base.numbers import exact_text
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.plan import variant

#: Bytes kept for each parameter, without activations.
STATES = "memory.bytes_per_parameter"
#: A size in the name of a built-in model: 7b, 1.5b, 125m, 8x7b.
NAMED = re.compile(r"\d[bm](?![a-z0-9])")


@dataclass(frozen=True)
class Closed:
    """One variant of the rule by bytes per parameter.

    Attributes:
        case: the variant in words.
        formula: the rule as an expression.
        substituted: the rule with its numbers.
        value: the number of parameters.
    """

    case: str
    formula: str
    substituted: str
    value: Fraction


def compute_by_bytes(plan: Plan) -> tuple[Closed, ...]:
    """Compute the parameters that bytes per parameter alone allow (weights, gradients and optimizer
    states, not sharded), in the variants that are in use."""
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
            each = compute_values(variant(plan, {"training.precision": recipe}), [STATES])[STATES]
            value = Fraction(devices) * Fraction(capacity) / Fraction(each)
            numbers = f"{devices} × {exact_text(capacity)} bytes / {exact_text(each)} bytes"
            found.append(Closed(f"{words}, {recipe} {optimizer}", "N = n M / β", numbers, value))
    return tuple(found)


def list_smaller(plan: Plan, size: int) -> list[tuple[str, int]]:
    """List built-in models next below a size.

    Args:
        plan: its kind of model, dense or with experts, is listed.
        size: the largest number of parameters.

    Returns:
        Names and parameters, the largest first, of three models with a size in their names.
    """
    counted = resources.read_json(resources.folder("presets") / "aliases" / "sizes.json")
    sparse = bool(plan.get("model.moe"))
    named = [
        (name, int(total))
        for name, (_, total, active, _) in counted.items()
        if NAMED.search(name) and (total != active) == sparse and total <= size
    ]
    return sorted(named, key=lambda pair: -pair[1])[:3]
