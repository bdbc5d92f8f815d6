"""What an answer hangs on: how it moves with each fact, and what the next layouts would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from typing import Any

from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.plans import plan as plans
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, ROW
from planner.questions.elasticity import Measure, Slopes, measures
from planner.results.result import Result

__all__ = ["Neighbour", "neighbours", "sensitivities"]

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


def sensitivities(result: Result, target: str, most: int = 5) -> list[Measure]:
    """The inputs that move `target` most; only those that are measures, not choices. Each change is
    that of a plan in which the input is set to a tenth more."""
    quantity = result.get(target)
    if quantity is None or not quantity.number:
        return []
    known, further = _measured(result, target)
    known += islice(further, max(0, most - len(known)))
    return known[:most]


@lru_cache(maxsize=1)
def _measured(result: Result, target: str) -> tuple[list[Measure], Iterator[Measure]]:
    """Those that are known, and those that come after them; a report and its summary share them."""
    found = measures(result.plan, Slopes(result.evaluation.case, target, result.evaluation))
    return [], (entry for entry in found if entry.key.startswith(SMOOTH))


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
    predicted = {"time.mfu": None} if result.plan.get("time.mfu") is not None else {}
    like = result.predicted or result  # time is predicted there too
    found: list[Neighbour] = []
    for changes in _changes(result.plan, (False,) if unsafe else (True, False)):
        if len(found) == most:
            break
        try:
            other = plans.variant(result.plan, changes | predicted)
            if other.get(KERNELS) != result.plan.get(KERNELS):  # all else stays
                changes = changes | {KERNELS: result.plan.get(KERNELS)}
                other = plans.variant(result.plan, changes | predicted)
        except PlanError as error:
            found.append(Neighbour(changes, None, error.faults[0].message))
            continue
        evaluation = Evaluation(case.build(other), like=like.evaluation)
        found.append(Neighbour(changes, Result(other, evaluation)))
    return found


def _changes(plan: Plan, heavier: Iterable[bool]) -> Iterator[dict[str, Any]]:
    """One step each towards more memory (and, mostly, less time), or towards less of it."""
    for more, (key, up) in product(heavier, STEPS.items()):
        value = plan.get(key)
        after = None if value is None else ROW[key].step(value, up is more)
        if after is not None:
            # Sequence parallelism needs tensor parallelism beside it.
            alone = key == "parallelism.tensor" and after == 1
            yield {key: after} | ({"parallelism.sequence": False} if alone else {})
