"""Layouts near a plan's own that are faster and safe: one key changed, then two, then three.

A climb, not a search: from the plan the fastest safe step is taken, and again from there. What it
finds is better than the plan, not the best there is; ``plan.py search`` says what that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, ROW
from planner.plans.plan import follows_again, variant

STEP, SAFE = "time.step_seconds", "memory.headroom_p95"
#: What a step changes, and whether upwards: what can save time by itself. Dividing more and
#: computing again never do.
WAYS = {
    "parallelism.tensor": (False,),
    "parallelism.sequence": (True,),
    "parallelism.pipeline": (False, True),
    "parallelism.virtual_pipeline": (True,),
    "parallelism.context": (False,),
    "parallelism.expert": (False, True),
    "parallelism.zero": (False, True),
    "training.micro_batch": (True,),
    "training.recompute": (False,),
}
MOST_CHANGES, MOST_STEPS = 3, 4
#: A step that gains a smaller share is none: predictions differ by more for other reasons.
WORTH = 0.01
#: By what a degree is multiplied, the first that makes a valid plan.
FACTORS = (2, 3, 5)


class Nearby(NamedTuple):
    """A plan that differs in some keys of its layout, and what quantities are there."""

    changes: Mapping[str, Any]  # by dotted key; None where what the document gives follows again
    plan: Plan
    values: Mapping[str, Any]

    @property
    def chosen(self) -> dict[str, Any]:
        """The keys that the layout differs in, without what follows from them."""
        keys = (key for key in WAYS if key in self.changes)
        single = self.plan.get("parallelism.tensor") == 1
        return {k: self.changes[k] for k in keys if not (single and k == "parallelism.sequence")}


def faster(
    plan: Plan, quantities: tuple[str, ...] = (), like: Evaluation | None = None
) -> list[Nearby]:
    """The fastest safe plan found with one change, with two and with three, each faster than the
    one before; none where nothing near is, or where time is not predicted.

    Args:
        plan: a safe one whose time is predicted.
        quantities: what else is evaluated of each.
        like: an evaluation of it, whose graph serves again.
    """
    quantities = (STEP, SAFE, *quantities)
    base = Evaluation(like.case if like else case.build(plan), like=like, exact=False)
    try:
        here, best = Nearby({}, plan, base.values_of(quantities)), dict[int, Nearby]()
    except PlanError:
        return []
    tried, stands = set[frozenset[tuple[str, Any]]](), base
    for _ in range(MOST_STEPS):
        fastest, there = here, stands
        for changes, other in _steps(plan, here):
            at_values = frozenset(changes.items())
            if at_values in tried:
                continue
            tried.add(at_values)
            with suppress(PlanError):
                built = case.build(other)
                evaluation = stands.rerun(built, exact=False)
                evaluation = evaluation or Evaluation(built, like=stands, exact=False)
                if evaluation.value(SAFE) < 0:  # the lesser part of the work, so it goes first
                    continue
                found = Nearby(changes, other, evaluation.values_of(quantities))
                many = len(found.chosen)
                if not 0 < many <= MOST_CHANGES:
                    continue
                if many not in best or found.values[STEP] < best[many].values[STEP]:
                    best[many] = found
                if found.values[STEP] < fastest.values[STEP]:
                    fastest, there = found, evaluation
        if fastest.values[STEP] > here.values[STEP] * (1 - WORTH):
            break
        here, stands = fastest, stands if there.sealed else there
    rows, before = list[Nearby](), base.value(STEP)
    for many in sorted(best):
        if best[many].values[STEP] <= before * (1 - WORTH):
            rows.append(best[many])
            before = best[many].values[STEP]
    return rows


def _steps(plan: Plan, here: Nearby) -> Iterator[tuple[dict[str, Any], Plan]]:
    """The changes of the plan that are one step away from where the climb stands, and the plans."""
    stands, again = here.plan, follows_again(plan)
    for key, ways in WAYS.items():
        value = stands.get(key)
        if value is None:
            continue
        for up in ways:
            many = up and ROW[key].values == ()
            for after in [value * f for f in FACTORS] if many else [ROW[key].step(value, up)]:
                if after is None:
                    continue
                changes = {**here.changes, **again, key: after}
                if after == plan.get(key):
                    del changes[key]
                if key == "parallelism.tensor" and after == 1:
                    changes["parallelism.sequence"] = False  # it needs tensor parallelism
                if key == "parallelism.virtual_pipeline" and plan.document.get("training.schedule"):
                    changes["training.schedule"] = None
                with suppress(PlanError):
                    other = variant(plan, changes)
                    if other.get(KERNELS) != plan.get(KERNELS):
                        changes[KERNELS] = plan.get(KERNELS)  # all else stays
                        other = variant(plan, changes)
                    yield changes, other
                    break
