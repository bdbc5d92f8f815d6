"""Questions whose layout is free: at each value of the unknown the best layout counts.

Most values are decided by a layout that is known already: where one of these keeps the limits, the
value holds. Only where none does is the whole space of layouts searched, so that a question costs a
few searches: one for each layout that moves the answer on, and the last one, which finds none and
proves the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from planner.document import Plan
from planner.domains import Domain, divisors
from planner.errors import PlanError
from planner.inverse.optimum import optimise
from planner.inverse.probes import AsItIs, Goal, Probe, Probes
from planner.inverse.solve import Answer, solve
from planner.limits import Limit
from planner.plan import variant
from planner.search.engine import FITS, MEMORY, Layout, best
from planner.search.layouts import DEGREES, FOLLOWS

#: What makes one layout better than another that keeps the limits too.
BY = "time.step_seconds"
#: Layouts that move an answer on until it is taken as it is.
MOST_ROUNDS = 24
#: Searches of the whole space until known layouts have to do.
MOST_SEARCHES = 16
#: Of these, where no known layout keeps the limits anywhere.
LAST_RESORT = 8
#: Keys that a layout decides; one that is varied keeps its value.
DECIDED = frozenset(
    {
        *(f"parallelism.{key}" for key in (*DEGREES, "virtual_pipeline", "zero", "sequence")),
        "training.micro_batch",
        "training.recompute",
        "training.schedule",
    }
)
Changes = Mapping[str, Any]


class Layouts:
    """The plans of a value are those with each layout that is known; ``searched`` finds others.

    As an evaluator it takes, of several layouts, the best by ``by`` of those that keep the limits;
    while it is ``hasty``, the first that does.
    """

    hasty = False

    def __init__(
        self, limits: Sequence[Limit], by: str, also: Sequence[str] = (), thorough: bool = False
    ) -> None:
        self.limits, self.by, self.thorough = tuple(limits), by, thorough
        self.known: list[Changes] = []
        self._left = MOST_SEARCHES
        self._exactly = AsItIs([*(limit.quantity for limit in limits), FITS, by, *also])

    def variants(self, plan: Plan, changes: Changes) -> Sequence[Plan]:
        found = []
        for layout in self.known:
            with suppress(PlanError):
                found.append(variant(plan, {**layout, **changes}))
        if self.thorough and self._left > 0:
            base = found[0] if found else any_layout(plan, {"time.mfu": None, **changes})
            # Where no layout keeps the limits, one that fits says by how much they are missed.
            new = self.searched(base, changes) or self.searched(base, changes, limits=())
            if new is not None:
                found = [variant(plan, {**_changes(new), **changes})]
            found = found or [base]
        return found or [any_layout(plan, {"time.mfu": None, **changes})]

    def values(self, plans: Sequence[Plan], exact: bool) -> tuple[Plan, Mapping[str, Any], bool]:
        found = []
        for plan in reversed(plans):  # what was found last goes furthest
            found.append(self._exactly.values((plan,), exact))
            if self.hasty and self._rank(found[-1])[0]:
                return found[-1]
        return max(found, key=self._rank)

    def _rank(self, found: tuple[Plan, Mapping[str, Any], bool]) -> tuple[bool, float]:
        values = found[1]
        worst = min((limit.share(values[limit.quantity]) for limit in self.limits), default=0.0)
        return (True, -float(values[self.by])) if worst >= 0 else (False, worst)

    @property
    def exhausted(self) -> bool:
        """Whether known layouts had to do because of too many searches."""
        return self._left <= 0

    def desperate(self) -> None:
        """No known layout helps anywhere: search at the values that are tried next."""
        self.thorough, self._left = True, LAST_RESORT

    def searched(
        self,
        plan: Plan,
        changes: Changes,
        by: str | None = None,
        limits: Sequence[Limit] | None = None,
    ) -> Layout | None:
        """The best layout that keeps the limits, from now on among the known ones; None where there
        is none."""
        fixed = {key: plan.get(key) for key in changes if key in DECIDED}
        self._left -= 1
        limits = self.limits if limits is None else limits
        further = [limit for limit in limits if limit.quantity != FITS]
        try:
            found = best(plan, by or self.by, further, fixed)
        except PlanError:
            return None
        if found is not None and _changes(found) not in self.known:
            self.known.append(_changes(found))
        return found


def _changes(layout: Layout) -> Changes:
    return {**dict.fromkeys(layout.cleared), **layout.changes}


def any_layout(plan: Plan, changes: Changes, devices: int | None = None) -> Plan:
    """Some valid plan with these changes, of ``devices`` devices where they change that.

    Raises:
        PlanError: none was found; what is wrong with the plan's own layout.
    """
    try:
        return variant(plan, changes)
    except PlanError as error:
        for layout in _simple(plan, changes.get("cluster.devices", devices)):
            try:
                return variant(plan, {**layout, **changes})
            except PlanError:
                continue
        raise error


def _simple(plan: Plan, devices: int | None) -> Iterator[Changes]:
    """Layouts of tensor and pipeline parallelism only."""
    devices = devices or plan.get("cluster.devices")
    given = plan.document.data["training"]
    follows = [k for k in FOLLOWS if k not in ("training.implementation", "training.loss")]
    ones = {f"parallelism.{key}": 1 for key in (*DEGREES, "virtual_pipeline", "replicate")}
    batch = {} if given.get("global_batch") else {"training.global_batch": None}
    for tensor, stages in product(divisors(devices)[:8], repeat=2):
        yield {
            **dict.fromkeys(follows),
            **ones,
            **batch,
            "training.micro_batch": 1,
            "parallelism.zero": 0,
            "parallelism.sequence": False,
            "parallelism.tensor": tensor,
            "parallelism.pipeline": stages,
        }


def solve_free(
    plan: Plan,
    domain: Domain,
    limits: tuple[Limit, ...],
    *,
    question: str = "",
    direction: int | None = None,
    extra: Mapping[str, Any] | None = None,
    also: Sequence[str] = (),
) -> Answer:
    """As ``solve.solve``, with the layout free; what fits into memory only. ``also`` names further
    quantities that the answer's plan shows."""
    limits = fitting(limits)
    layouts = Layouts(limits, BY, also)
    layouts.searched(plan, {}, limits=())
    layouts.hasty = True
    search = Probes(plan, domain, limits, evaluator=layouts)
    for _ in range(MOST_ROUNDS):
        search.keep_held()
        answer = solve(
            plan,
            domain,
            limits,
            question=question,
            direction=direction,
            extra=extra,
            search=search,
        )
        edge = answer.fails or answer.miss
        known = len(layouts.known)
        if edge is not None and edge.broken:
            # The layout with most room under the limit that binds goes furthest.
            layouts.searched(edge.plan, domain.changes(edge.value), _room(answer.binding))
        if len(layouts.known) == known:
            if answer.holds is not None or layouts.thorough:
                break
            layouts.desperate()
    layouts.thorough = layouts.hasty = False
    if answer.holds is not None:
        answer = replace(answer, holds=_fastest(layouts, plan, domain, answer.holds, also))
    if answer.fails is not None and answer.fails.broken:
        answer = replace(answer, fails=_nearest(layouts, plan, domain, answer.fails))
    if answer.miss is not None:
        answer = replace(answer, miss=_nearest(layouts, plan, domain, answer.miss))
    return _noted(answer, plan, len(layouts.known))


def _room(limit: Limit | None) -> str | None:
    """What to make small for most room under a limit."""
    if limit is None or limit.relation == ">=":
        return MEMORY if limit is not None and limit.quantity == FITS else None
    return limit.quantity


def _fastest(
    layouts: Layouts, plan: Plan, domain: Domain, probe: Probe, also: Sequence[str]
) -> Probe:
    """A value with the best of its layouts that keep the limits."""
    changes = domain.changes(probe.value)
    layouts.searched(probe.plan, changes)
    meant, values, _ = layouts.values(layouts.variants(plan, changes), exact=True)
    named = [limit.quantity for limit in layouts.limits]
    return replace(probe, plan=meant, values={name: values[name] for name in (*named, *also)})


def _nearest(layouts: Layouts, plan: Plan, domain: Domain, probe: Probe) -> Probe:
    """A value at which no layout keeps the limits, with the one that comes nearest: of those known,
    and the best of those that fit."""
    changes = domain.changes(probe.value)
    layouts.searched(probe.plan, changes, limits=())
    return Probes(plan, domain, layouts.limits, evaluator=layouts).probe(probe.index) or probe


def optimise_free(
    plan: Plan, domain: Domain, limits: tuple[Limit, ...], goal: Goal, *, question: str = ""
) -> Answer:
    """As ``optimum.optimise``, with the layout free; what fits into memory only. The layout is the
    one that makes the goal small; a goal to make large takes the fastest layout."""
    limits = fitting(limits)
    layouts = Layouts(limits, goal.quantity if goal.sense < 0 else BY, (goal.quantity,), True)
    answer = optimise(plan, domain, limits, goal, question=question, evaluator=layouts)
    answer = _noted(answer, plan, len(layouts.known))
    if layouts.exhausted:
        note = f"all layouts were searched at {MOST_SEARCHES} values, elsewhere those found there"
        answer = replace(answer, notes=(*answer.notes, note))
    return answer


def fitting(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    has = any(limit.quantity == FITS for limit in limits)
    return limits if has else (Limit(FITS, ">=", 0), *limits)


def _noted(answer: Answer, plan: Plan, layouts: int) -> Answer:
    notes = answer.notes
    if plan.get("time.mfu") is not None:
        notes = (*notes, "utilisation is predicted for each layout, not taken from time.mfu")
    return replace(answer, notes=notes, extra={**answer.extra, "layouts": layouts})
