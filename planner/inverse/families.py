"""Families of models: an architecture, the plan's own or another, scaled in width and depth.

The shape is kept: head size, the ratios of feed-forward and embedding width to hidden size,
experts, and layers per width. Query heads that share keys and values keep as many key/value heads,
as the published families do. What a layout divides stays divisible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor, gcd, lcm
from typing import Any

from planner.document import Plan
from planner.domains import MOST_LAYERS, Domain
from planner.errors import Fault, PlanError
from planner.plan import variant

#: Widths that grow with the hidden size, where the document gives them.
WIDTHS = (
    "mlp.intermediate",
    "moe.intermediate",
    "moe.shared_intermediate",
    "moe.latent",
    "embedding_dim",
)
#: Ways in which a stack is spelled out layer by layer or in which widths are not the layers' own.
SPELLED = ("kinds", "pattern", "mixer", "encoder", "decoder")


def of_plan(plan: Plan, family: str | None = None) -> tuple[Plan, Domain]:
    """The models of a family by size, index 1 the smallest, and a plan that has one of them.

    Args:
        plan: its own model's shape is scaled unless ``family`` names another model.
        family: a name or path of a model document.

    Raises:
        PlanError: the model is given by its size only, there is no model of that name, or no size
            of its shape agrees with the plan's layout.
    """
    if family is not None:
        return _of_other(plan, family)
    if plan.model is None:
        raise PlanError(
            Fault(
                "largest-model scales a shape, and the model is given by its size only",
                plan.document.place(("model",)),
                "a model with layers, hidden and so on, or --family NAME",
            )
        )
    return plan, _domain(plan, plan.document.data["model"])


def _of_other(plan: Plan, family: str) -> tuple[Plan, Domain]:
    from planner import schema, source

    # As a plan's `model: NAME` would be read: a shipped name, or a path.
    document = source.load({"extends": family}, kind="model")
    model = schema.validate(document, "model").data
    if not model.get("layers"):
        raise PlanError(Fault(f"--family {family} has no shape to scale", None, "another model"))
    domain = _domain(plan, model)
    faults: Sequence[Fault] = ()
    last = domain.last or 1
    for index in sorted(range(1, min(last, 4 * domain.start) + 1), key=_distance(domain.start)):
        try:
            sized = _with(model, domain.changes(domain.value(index)))
            return variant(plan, {"model": sized}), domain
        except PlanError as error:
            faults = faults or error.faults
    raise PlanError(faults)


def _distance(start: int) -> Callable[[int], int]:
    return lambda index: abs(index - start)


def _with(model: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A model document with some keys (``model.layers``, …) changed."""
    changed: dict[str, Any] = {**model}
    for dotted, value in changes.items():
        *inner, last = dotted.split(".")[1:]
        node = changed
        for step in inner:
            node[step] = {**node[step]}
            node = node[step]
        node[last] = value
    return changed


def _domain(plan: Plan, model: Mapping[str, Any]) -> Domain:
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
        "model",
        "layers",
        lambda i: i * unit,
        lambda v: {"model.layers": v},
        max(1, round(Fraction(model["layers"], unit))),
        1,
        MOST_LAYERS // unit,
        f"width kept, layers in multiples of {unit}",
        True,
    )


def _scaled(plan: Plan, model: Mapping[str, Any]) -> Domain:
    heads, hidden = model["attention"]["heads"], model["hidden"]
    shared = model["attention"].get("kv_heads") or heads
    tensor, chunks = plan.get("parallelism.tensor"), _chunks(plan)
    kept = shared if shared < heads else 1
    # The fewest heads by which a model of this family can be wider.
    quantum = lcm(tensor, kept, heads // gcd(heads, hidden))
    widths, depths = Fraction(heads, quantum), Fraction(model["layers"], chunks)
    # Steps fine enough that width and depth do not both change in one, unless they change together.
    fine = 4 * max(1, round(widths), round(depths))

    def changes(index: Any) -> dict[str, Any]:
        scale = Fraction(index, fine)
        count = max(1, _round(scale * widths)) * quantum
        width = Fraction(hidden * count, heads)
        changed: dict[str, Any] = {
            "model.attention.heads": count,
            "model.hidden": int(width),
            "model.layers": max(1, _round(scale * depths)) * chunks,
        }
        if model["attention"].get("kv_heads") is not None:
            changed["model.attention.kv_heads"] = shared if shared < heads else count
        for key in WIDTHS:
            given = _at(model, key)
            if given:
                changed[f"model.{key}"] = _round(given * width / hidden / tensor) * tensor
        return changed

    return Domain(
        "model",
        "size",
        lambda i: i,
        changes,
        fine,
        1,
        fine * MOST_LAYERS // model["layers"],
        f"heads in multiples of {quantum}, layers in multiples of {chunks}; layers to hidden as "
        f"{model['layers']} to {hidden} within these steps; head size, feed-forward ratio"
        f"{', key/value heads' if shared < heads else ''} kept",
        True,
    )


def _round(value: Fraction) -> int:
    """To the nearest whole number, halves up, so that a larger scale is never rounded lower."""
    return floor(value + Fraction(1, 2))


def _at(model: Mapping[str, Any], dotted: str) -> Any:
    node: Any = model
    for step in dotted.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node
