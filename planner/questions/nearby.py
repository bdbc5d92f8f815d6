"""Layouts near a plan's own that are faster and safe: one key changed, then two, then three.

This is hill climbing, not a search: it repeatedly takes the fastest safe step. The result is better
than the plan, not the best there is; ``plan.py search`` finds that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from planner.base.errors import PlanError
from planner.engine import instance
from planner.engine.evaluate import Evaluation
from planner.plans.document import Plan
from planner.plans.layout import KERNELS
from planner.plans.plan import reset_derived, variant
from planner.results.moves import FASTER, evaluate_near

STEP, SAFE = "time.step_seconds", "memory.headroom_p95"
MOST_CHANGES, MOST_STEPS = 3, 4
#: Smallest relative gain of a step: predictions differ by more for other reasons.
WORTH = 0.01


class Nearby(NamedTuple):
    """A plan that differs in some keys of its layout, and its values of some quantities."""

    changes: Mapping[str, Any]  # by dotted key; None resets a key that the document sets
    plan: Plan
    values: Mapping[str, Any]

    @property
    def chosen(self) -> dict[str, Any]:
        """The keys that the layout differs in, without what follows from them."""
        keys = dict.fromkeys(move.key for move in FASTER if move.key in self.changes)
        single = self.plan.get("parallelism.tensor") == 1
        return {k: self.changes[k] for k in keys if not (single and k == "parallelism.sequence")}


def find_faster(
    plan: Plan, quantities: tuple[str, ...] = (), like: Evaluation | None = None
) -> list[Nearby]:
    """Find the fastest safe plan with one change, with two and with three, each faster than the one
    before; none if no nearby plan is faster, or if time is not predicted.

    Args:
        plan: a safe one whose time is predicted.
        quantities: further quantities to evaluate of each.
        like: an evaluation of the plan, whose graph is reused.
    """
    quantities = (STEP, SAFE, *quantities)
    base = Evaluation(like.case if like else instance.build(plan), like=like, exact=False)
    try:
        here, best = Nearby({}, plan, base.get_values(quantities)), dict[int, Nearby]()
    except PlanError:
        return []
    tried, stands = set[frozenset[tuple[str, Any]]](), base
    for _ in range(MOST_STEPS):
        fastest, there = here, stands
        for changes, other in _yield_moves(plan, here):
            at_values = frozenset(changes.items())
            if at_values in tried:
                continue
            tried.add(at_values)
            with suppress(PlanError):
                evaluation = evaluate_near(stands, other, quantities, exact=False)
                if evaluation.value(SAFE) < 0:  # cheaper to evaluate, so it goes first
                    continue
                found = Nearby(changes, other, evaluation.get_values(quantities))
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


def _yield_moves(plan: Plan, here: Nearby) -> Iterator[tuple[dict[str, Any], Plan]]:
    """Yield each plan one move from the current one, with its changes of the original plan."""
    for move in FASTER:
        for moved in move.yield_changes(here.plan):
            changes = {**here.changes, **reset_derived(plan), **moved}
            if moved[move.key] == plan.get(move.key):
                del changes[move.key]
            with suppress(PlanError):
                other = variant(plan, changes)
                if other.get(KERNELS) != plan.get(KERNELS):
                    changes[KERNELS] = plan.get(KERNELS)  # all else stays
                    other = variant(plan, changes)
                yield changes, other
                break  # the other values are further away
