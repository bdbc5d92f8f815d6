"""What an answer hangs on: how it moves with each fact, and what the next layouts would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.plans import plan as plans
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, ROW
from planner.questions.elasticity import Slopes, measures
from planner.results.result import Result

__all__ = ["Neighbour", "Sensitivity", "neighbours", "sensitivities"]

#: Keys of the measures that reports name: facts and prices, not the sizes of number formats.
SMOOTH = (
    "training.tokens",
    "time.",
    "cluster.price",
    "cluster.reserved_price",
    "cluster.pue",
    "cluster.carbon_intensity",
    "cluster.host_power",
    "cluster.accelerator.",
    "cluster.network.",
)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How a quantity moves with one input, by the key that sets it.

    ``elasticity``: 1 % more of the input is so many per cent of the quantity. ``change`` is the
    share by which it changes where the key is set to a tenth more.
    """

    key: str
    meaning: str
    change: Fraction
    elasticity: Fraction


def sensitivities(result: Result, target: str, most: int = 5) -> list[Sensitivity]:
    """The inputs that move `target` most; only those that are measures, not choices. Each change is
    that of a plan in which the input is set to a tenth more."""
    quantity = result.get(target)
    if quantity is None or not quantity.number:
        return []
    found: list[Sensitivity] = []
    for entry in measures(result.plan, Slopes(result.evaluation.case, target)):
        if len(found) == most:
            break
        if entry.key.startswith(SMOOTH):
            found.append(Sensitivity(entry.key, entry.meaning, entry.change, entry.elasticity))
    return found


@dataclass(frozen=True)
class Neighbour:
    """A plan one step away: the keys that differ, and its result; a reason where it is no plan.
    Its time is predicted, whatever utilisation the plan assumes."""

    changes: dict[str, Any]
    result: Result | None
    reason: str | None = None


#: What neighbours differ in, and whether one step up leaves less memory free (else more).
STEPS = {
    "training.micro_batch": True,
    "training.recompute": False,
    "parallelism.tensor": False,
    "parallelism.pipeline": False,
    "parallelism.zero": False,
}


def neighbours(result: Result, most: int = 4) -> list[Neighbour]:
    """Plans one step away: lighter ones where this one is not safe, else heavier ones first."""
    unsafe = result.verdict["state"] in ("no", "tight")
    found: list[Neighbour] = []
    for changes in _changes(result.plan, (False,) if unsafe else (True, False)):
        if len(found) == most:
            break
        try:
            other = plans.variant(result.plan, changes | _unassumed(result))
            if other.get(KERNELS) != result.plan.get(KERNELS):  # all else stays
                changes = changes | {KERNELS: result.plan.get(KERNELS)}
                other = plans.variant(result.plan, changes | _unassumed(result))
        except PlanError as error:
            found.append(Neighbour(changes, None, error.faults[0].message))
            continue
        found.append(Neighbour(changes, _untraced(other)))
    return found


def _untraced(plan: Plan) -> Result:
    """The values of a plan alone: of a neighbour nothing is derived."""
    return Result(plan, Evaluation(case.build(plan)))


def _unassumed(result: Result) -> dict[str, Any]:
    return {"time.mfu": None} if result.plan.get("time.mfu") is not None else {}


def _changes(plan: Plan, heavier: Iterable[bool]) -> Iterator[dict[str, Any]]:
    """One step each towards more memory (and, mostly, less time), or towards less of it."""
    for more, (key, up) in product(heavier, STEPS.items()):
        value = plan.get(key)
        after = None if value is None else ROW[key].step(value, up is more)
        if after is not None:
            # Sequence parallelism needs tensor parallelism beside it.
            alone = key == "parallelism.tensor" and after == 1
            yield {key: after} | ({"parallelism.sequence": False} if alone else {})
