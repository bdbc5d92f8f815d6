"""Recomputation modes that are one and the same step for a plan, of which a search asks one.

A fused attention kernel computes its scores again by itself. Where nothing else is to be computed
again, selective recomputation then takes as long as none, and keeps no more.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial

from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation, Point
from planner.plans.layout import AXES
from planner.plans.plan import variant
from planner.questions.batch_graph import below
from planner.questions.search.layouts import Space

_, RECOMPUTE = AXES
STEP = "time.step_seconds"
#: What a layer keeps of a micro-batch, and what of it there is while it is computed again.
KEPT, AGAIN = "memory.activations.part", "memory.activations.again"


def equivalent_modes(space: Space, quantities: Collection[str]) -> dict[str, str]:
    """Modes that a search need not ask, each with the one that is the same step and holds no more;
    of two that hold the same, the plan's own is asked, else the first.

    Args:
        quantities: what is asked of the layouts besides the time of a step.
    """
    kernels = {(d.implementation, d.loss): d for d in space.degrees}
    plans = [space.plan_of(degrees) for degrees in kernels.values()]
    # What is kept takes time where it travels to the host and back.
    if any(p.get("training.offload.activations") for p in plans):
        return {}
    if any(space.plan.book.quantities[name].own for name in quantities):
        return {}  # whether more memory is better is not known of these
    names = resting(tuple(q for q in (STEP, *quantities) if not q.startswith("memory.")))

    @cache
    def under(mode: str, number: int) -> Evaluation:
        like = under(modes[0], number) if mode != modes[0] else None
        return Evaluation(case.build(variant(plans[number], {RECOMPUTE: mode})), like=like)

    @cache
    def stands_for(mode: str, other: str) -> bool:
        """Whether a mode is the same step as another and holds no more, whatever the kernels."""
        pairs = [(under(mode, number), under(other, number)) for number in range(len(plans))]
        return all(_agree(name, *pair) for pair in pairs for name in names) and all(
            _holds_no_more(*pair) for pair in pairs
        )

    own = space.plan.get(RECOMPUTE)
    modes = sorted(space.recompute, key=lambda mode: mode != own)
    kept: list[str] = []
    for place, mode in enumerate(modes):
        later = (other for other in modes[place + 1 :] if not stands_for(mode, other))
        if not any(stands_for(other, mode) for other in (*kept, *later)):
            kept.append(mode)
    left = (mode for mode in space.recompute if mode not in kept)
    return {mode: next(one for one in kept if stands_for(one, mode)) for mode in left}


def resting(quantities: tuple[str, ...]) -> tuple[str, ...]:
    """The quantities, of all that some rest on, between whose formulas the mode decides; those of
    memory left out."""
    return tuple(
        identifier
        for identifier in sorted(below(quantities))
        if not identifier.startswith("memory.")
        and any(RECOMPUTE in formula.when for formula in BOOK.quantities[identifier].formulas)
    )


def _agree(identifier: str, one: Evaluation, other: Evaluation) -> bool:
    """Whether a quantity is the same under two modes: by the same formula, or in value."""
    quantity = BOOK.quantities[identifier]
    for point, at in zip(_points(identifier, one), _points(identifier, other), strict=True):
        formula = quantity.choose(partial(one.setting, point=point))
        if formula is quantity.choose(partial(other.setting, point=at)):
            continue
        try:
            if one.value(identifier, point) != other.value(identifier, at):
                return False
        except Absent:
            return False
    return True


def _points(identifier: str, evaluation: Evaluation) -> list[Point]:
    """Where a quantity holds."""
    points: list[Point] = [{}]
    for axis in BOOK.quantities[identifier].per:
        points = [below for point in points for below in evaluation.entries(axis, point, {})]
    return points


def _holds_no_more(one: Evaluation, other: Evaluation) -> bool:
    """Whether each layer keeps no more under a mode than under another, nor while it is computed
    again; then no stage holds more at any moment."""
    for point, at in zip(_points(KEPT, one), _points(KEPT, other), strict=True):
        if not one.setting("layers", point):
            continue
        kept, most = one.value(KEPT, point), other.value(KEPT, at)
        if kept > most or kept + one.value(AGAIN, point) > most + other.value(AGAIN, at):
            return False
    return True
