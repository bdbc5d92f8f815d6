"""Recomputation modes that make the same step for a plan; a search evaluates only one of them.

A fused attention kernel recomputes its scores itself. If nothing else is to be recomputed,
selective recomputation takes as long as none, and keeps no more.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial

from planner.book.quantity import BOOK
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation, Point
from planner.engine.in_turn import evaluate_case
from planner.plans.layout import AXES
from planner.plans.plan import variant
from planner.questions.batch_graph import collect_inputs
from planner.questions.search.layouts import Space

_, RECOMPUTE = AXES
STEP = "time.step_seconds"
#: Memory that a layer keeps of a micro-batch, and that it needs while it is recomputed.
KEPT, AGAIN = "memory.activations.part", "memory.activations.again"


def find_equivalents(space: Space, quantities: Collection[str]) -> dict[str, str]:
    """Find the recomputation modes that a search can skip. An equivalent mode makes the same step
    and needs no more memory.

    Args:
        space: the layouts that are searched.
        quantities: what the search evaluates besides the time of a step.

    Returns:
        The modes to skip, each with its equivalent; of two equivalent modes the plan's own stays,
            else the first. Empty where activations are offloaded, or for quantities of the plan's
            own.
    """
    kernels = {(d.implementation, d.loss): d for d in space.degrees}
    plans = [space.build_plan(degrees) for degrees in kernels.values()]
    # Offloaded activations take time to travel to the host and back.
    if any(p.get("training.offload.activations") for p in plans):
        return {}
    if any(space.plan.book.quantities[name].own for name in quantities):
        return {}  # for these it is unknown whether more memory is better
    names = find_affected(tuple(q for q in (STEP, *quantities) if not q.startswith("memory.")))

    @cache
    def evaluate(mode: str, number: int) -> Evaluation:
        """Evaluate one of the plans under a mode."""
        return evaluate_case(instance.build(variant(plans[number], {RECOMPUTE: mode})))

    @cache
    def is_equivalent(mode: str, other: str) -> bool:
        """Decide whether a mode makes the same step and holds no more, with all kernels."""
        pairs = [(evaluate(mode, number), evaluate(other, number)) for number in range(len(plans))]
        return all(_has_same_value(name, *pair) for pair in pairs for name in names) and all(
            _is_no_larger(*pair) for pair in pairs
        )

    own = space.plan.get(RECOMPUTE)
    modes = sorted(space.recompute, key=lambda mode: mode != own)
    kept: list[str] = []
    for place, mode in enumerate(modes):
        later = (other for other in modes[place + 1 :] if not is_equivalent(mode, other))
        if not any(is_equivalent(other, mode) for other in (*kept, *later)):
            kept.append(mode)
    left = (mode for mode in space.recompute if mode not in kept)
    return {mode: next(one for one in kept if is_equivalent(one, mode)) for mode in left}


def find_affected(quantities: tuple[str, ...]) -> tuple[str, ...]:
    """Return the quantities, of some and all that they depend on, whose formulas the mode selects;
    memory is left out."""
    return tuple(
        identifier
        for identifier in sorted(collect_inputs(quantities))
        if not identifier.startswith("memory.")
        and any(RECOMPUTE in formula.when for formula in BOOK.quantities[identifier].formulas)
    )


def _has_same_value(identifier: str, one: Evaluation, other: Evaluation) -> bool:
    """Decide whether a quantity is the same under two modes: by the same formula, or in value.

    Args:
        identifier: id of the quantity, compared at all its points.
        one: the evaluation under one mode.
        other: the evaluation of the same plan under the other mode.
    """
    quantity = BOOK.quantities[identifier]
    for point, at in zip(_points(identifier, one), _points(identifier, other), strict=True):
        formula = quantity.choose_formula(partial(one.read_setting, point=point))
        if formula is quantity.choose_formula(partial(other.read_setting, point=at)):
            continue
        try:
            if one.value(identifier, point) != other.value(identifier, at):
                return False
        except Absent:
            return False
    return True


def _points(identifier: str, evaluation: Evaluation) -> list[Point]:
    """Return the points at which a quantity has a value."""
    points: list[Point] = [{}]
    for axis in BOOK.quantities[identifier].per:
        points = [below for point in points for below in evaluation.entries(axis, point, {})]
    return points


def _is_no_larger(one: Evaluation, other: Evaluation) -> bool:
    """Decide whether each layer keeps no more under a mode than under another, also while it is
    recomputed; then no stage needs more memory at any moment."""
    for point, at in zip(_points(KEPT, one), _points(KEPT, other), strict=True):
        if not one.read_setting("layers", point):
            continue
        kept, most = one.value(KEPT, point), other.value(KEPT, at)
        if kept > most or kept + one.value(AGAIN, point) > most + other.value(AGAIN, at):
            return False
    return True
