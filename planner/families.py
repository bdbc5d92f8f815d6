"""Families of models: the plan's own architecture, scaled in width and depth.

The shape is kept: head size, the ratios of feed-forward and embedding width to hidden size, query
heads per key/value head, experts, and layers per width. What a layout divides stays divisible.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from planner.document import Plan
from planner.domains import Domain
from planner.errors import Fault, PlanError

#: Widths that grow with the hidden size, where the document gives them.
WIDTHS = (
    "mlp.intermediate", "moe.intermediate", "moe.shared_intermediate", "moe.latent",
    "embedding_dim",
)
#: Ways in which a stack is spelled out layer by layer or in which widths are not the layers' own.
SPELLED = ("kinds", "pattern", "mixer", "encoder", "decoder")


def of_plan(plan: Plan) -> Domain:
    """The models of the plan's family by size; index 1 is the smallest.

    Raises:
        PlanError: the plan's model is given by its size only.
    """
    if plan.model is None:
        raise PlanError(Fault(
            "largest-model scales a shape, and the model is given by its size only",
            plan.document.place(("model",)), "a model with layers, hidden and so on"))
    model = plan.document.data["model"]
    if model.get("attention") and not any(model.get(key) for key in SPELLED):
        return _scaled(plan, model)
    return _deeper(plan, model)


def _chunks(plan: Plan) -> int:
    return int(plan.get("parallelism.pipeline") * plan.get("parallelism.virtual_pipeline"))


def _deeper(plan: Plan, model: Mapping[str, Any]) -> Domain:
    """Depth alone, in whole patterns and whole stages."""
    pattern = model.get("pattern") or model.get("mixer")
    unit = lcm(_chunks(plan), len(pattern) if isinstance(pattern, list) else 1)
    return Domain(
        "model", "layers", lambda i: i * unit, lambda v: {"model.layers": v},
        max(1, round(Fraction(model["layers"], unit))), 1, None,
        f"width kept, layers in multiples of {unit}",
    )


def _scaled(plan: Plan, model: Mapping[str, Any]) -> Domain:
    heads, hidden = model["attention"]["heads"], model["hidden"]
    shared = plan.get("model.attention.kv_heads") or heads
    tensor, chunks = plan.get("parallelism.tensor"), _chunks(plan)
    group = heads // shared if shared > 1 else 1
    divided = tensor if shared > 1 and shared % tensor == 0 else 1
    # The fewest heads by which a model of this family can be wider.
    quantum = lcm(tensor, group * divided, heads // gcd(heads, hidden))
    aspect = Fraction(model["layers"], hidden)

    def changes(count: Any) -> dict[str, Any]:
        width = Fraction(hidden * count, heads)
        changed: dict[str, Any] = {
            "model.attention.heads": count,
            "model.hidden": int(width),
            "model.layers": max(1, round(aspect * width / chunks)) * chunks,
        }
        if model["attention"].get("kv_heads") is not None:
            changed["model.attention.kv_heads"] = count // group if shared > 1 else 1
        for key in WIDTHS:
            given = _at(model, key)
            if given:
                changed[f"model.{key}"] = round(given * width / hidden / tensor) * tensor
        return changed

    depth = f"multiples of {chunks}" if chunks > 1 else "any number"
    return Domain(
        "model", "heads", lambda i: i * quantum, changes, max(1, heads // quantum), 1, None,
        f"heads in multiples of {quantum}, layers {depth}, layers / hidden = {aspect}, "
        "head size, feed-forward ratio and heads per key/value head kept",
    )


def _at(model: Mapping[str, Any], dotted: str) -> Any:
    node: Any = model
    for step in dotted.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node
