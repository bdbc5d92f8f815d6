"""Questions whose layout is free: at each value of the unknown the best layout counts.

Most values are decided by a layout that is known already: where one of these keeps the limits, the
value holds. Where none does, a part of the space is searched for the layout that leaves most room,
which moves the answer on furthest; the whole space is searched where that part has none, until that
search too finds none and so proves the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from typing import Any

from planner.base.errors import PlanError
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, KEYS, OWN_CHOICE, UNDIVIDED
from planner.plans.plan import chosen_by, variant
from planner.questions.constraints import Limit
from planner.questions.domains import Domain, divisors
from planner.questions.search.bounded_search import FEWER, ROOMIER, BoundedSearch, Options
from planner.questions.search.engine import FITS, left_out, of_memory
from planner.questions.search.layouts import NOT_KEPT, first_valid, starts
from planner.questions.search.selection import Item
from planner.questions.solve.evaluations import AsItIs, Evaluated, Goal, Probe, Probes, broken
from planner.questions.solve.optimum import optimise
from planner.questions.solve.solve import Answer, nearer_way, solve

#: What makes one layout better than another that keeps the limits too.
BY = "time.step_seconds"
#: Layouts that are tried where the plan's own is not valid.
MOST_STARTS = 64
#: Layouts that move an answer on until it is taken as it is.
MOST_ROUNDS = 24
#: Searches of the whole space until known layouts have to do.
MOST_SEARCHES = 16
#: Values at which a layout is searched where no known one helps.
MOST_MISSES = 8
#: Values of a list beyond an answer that are searched, and how many a list may have.
MOST_FURTHER, MOST_LISTED = 40, 256
#: Of a step, the model FLOPs that any kernels compute.
FEWEST = {"training.recompute": "none", "training.attention_count": "causal-window"}
LENGTH = "training.sequence_length"
#: Keys whose value layouts divide, and how far beyond an answer rounder values are asked too, as a
#: share.
DIVIDED = ("training.global_batch", "model.layers")
ROUNDER = 1 / 8
Changes = Mapping[str, Any]
Ask = Callable[[BoundedSearch], Item | None]


class Layouts(AsItIs):
    """The plans of a value are those with each layout that is known; ``further`` finds others. The
    first of the limits is that a plan fits.

    Of several layouts it takes the best by ``by`` of those that keep the limits; while it is
    ``hasty``, the first that does. What an answer shows are the quantities of the limits, and those
    ``also`` asked for.
    """

    hasty = False
    #: Whether a few layouts leave as much room as any: where memory alone decides about the size of
    #: a model, as replicas and more sequences in a pass only add to it.
    few = False

    def __init__(
        self,
        limits: Sequence[Limit],
        also: Sequence[str] = (),
        by: str = BY,
        searches: int = 0,
        space: Options | None = None,
    ) -> None:
        self.limits, self.by = tuple(limits), by
        self.searches = searches  # of the whole space at values, until known layouts have to do
        self.shown = (*(limit.quantity for limit in limits), *also)
        super().__init__([*(limit.quantity for limit in limits), FITS, by, *also])
        self.scarce = of_memory(limits)  # whether memory is the only limit
        self.space = space or {}  # values that keys of a layout may have; the others are free
        self.known: list[Changes] = []
        self.narrowed: dict[str, tuple[Any, ...]] = {}  # to these values of keys, somewhere
        self._searches: dict[str, BoundedSearch] = {}
        self._at_best: Changes = {}  # no layout has a higher utilisation

    def variants(self, plan: Plan, changes: Changes) -> Sequence[Plan]:
        found = []
        for layout in self.known:
            with suppress(PlanError):
                found.append(variant(plan, {**layout, **changes}))
        if not found:
            kept = {key: values[0] for key, values in self.space.items() if len(values) == 1}
            found = [any_layout(plan, {**kept, "time.mfu": None, **changes})]
        if self.searches:
            self.searches -= 1
            base = found[0]
            # Where no layout keeps the limits, one that fits says by how much they are missed.
            new = self.fastest(base, changes) or self.fastest(base, changes, within=False)
            if new is not None:
                found = [variant(plan, {**new, **changes})]
        return found

    def values(self, plans: Sequence[Plan], exact: bool) -> Evaluated:
        found = []
        for plan in reversed(plans):  # what was found last goes furthest
            found.append(super().values((plan,), exact))
            if self.hasty and self._rank(found[-1])[0]:
                break
        return max(found, key=self._rank)

    def _rank(self, found: Evaluated) -> tuple[bool, float, float]:
        """Order by what keeps the limits, then by ``by``; of what keeps them not, by how little is
        missed, as a share, which against a limit of 0 is the whole, and in its own unit."""
        values = found[1]
        missed = [(limit.share(values[limit.quantity]), limit) for limit in self.limits]
        worst, tightest = min(missed, key=lambda pair: pair[0], default=(0.0, None))
        if worst >= 0 or tightest is None:
            return True, -float(values[self.by]), 0.0
        return False, worst, float(tightest.slack(values[tightest.quantity]))

    def fastest(self, plan: Plan, changes: Changes, within: bool = True) -> Changes | None:
        """The best layout of all that keeps the limits, or, of those that fit, whatever the limits;
        from now on among the known ones."""
        return self.find(plan, changes, lambda every: every.first(within))

    def further(self, plan: Plan, changes: Changes) -> bool:
        """Whether there is a layout that keeps the limits; it is known from now on. The one that
        leaves most room goes furthest."""
        options = ROOMIER if self.few else None
        return self.find(plan, changes, BoundedSearch.roomiest, options) is not None

    def possible(self, plan: Plan, changes: Changes) -> bool:
        """Whether a value leaves time enough to a layout whose FLOPs take as long as ``time.floor``
        says that they take at least; True where that is unknown."""
        timed = [li for li in self.limits if li.scales_with == "time"]
        with suppress(PlanError):
            if timed and not self._at_best:
                plain = any_layout(plan, {**FEWEST, "time.mfu": None})
                used, least = evaluated(plain, ("time.mfu", "time.floor")).values()
                self._at_best = {**FEWEST, "time.mfu": Fraction(used) / Fraction(least)}
            best = any_layout(plan, {**self._at_best, **changes})
            _, values = AsItIs(limit.quantity for limit in timed).values((best,), False)
            return not broken(values, timed)
        return True

    def find(
        self, plan: Plan, changes: Changes, ask: Ask, options: Options | None = None
    ) -> Changes | None:
        """A layout at a value of the unknown, of all or of those that have some values of keys,
        from now on among the known ones; None where there is none."""
        try:
            found = self._search(plan, changes).ask(ask, options)
            if found is None:
                return None
            layout = found[2].changes
            super().values((variant(plan, {**layout, **changes}),), False)
        except PlanError:
            return None
        if layout not in self.known:
            self.known.append(layout)
        return layout

    def _search(self, plan: Plan, changes: Changes) -> BoundedSearch:
        """The layouts at a value of the unknown.

        Raises:
            PlanError: none is valid.
        """
        key = repr(sorted(changes.items(), key=str))
        if key not in self._searches:
            fixed = {key: (plan.get(key),) for key in changes if key in KEYS}
            space = {**self.space, **fixed}
            if chosen_by(plan, KERNELS) and any(KERNELS in layout for layout in self.known):
                plan = variant(plan, {KERNELS: None})  # of a layout; the question leaves them open
            fits, *others = self.limits
            self._searches[key] = BoundedSearch(plan, self.by, others, space, fits=fits)
            self.narrowed |= self._searches[key].walk.narrowed
        return self._searches[key]


def any_layout(plan: Plan, changes: Changes) -> Plan:
    """Some valid plan with these changes: with the plan's own layout, else a plain one.

    Raises:
        PlanError: none was found; what is wrong with the plan's own layout.
    """
    devices = changes.get("cluster.devices") or plan.get("cluster.devices")
    cleared = {key: None for key in NOT_KEPT if key not in OWN_CHOICE} | UNDIVIDED
    given = plan.document.data["training"].get("global_batch")
    if not given:
        cleared["training.global_batch"] = None
    batch = changes.get("training.global_batch", given) or 0
    layouts = (
        {**cleared, **degrees}
        for degrees in starts(devices)
        if batch % (devices // math.prod(degrees.values())) == 0
    )
    tried = ({**layout, **changes} for layout in chain([{}], islice(layouts, MOST_STARTS)))
    return first_valid(partial(variant, plan), tried)


def solve_free(
    plan: Plan,
    domain: Domain,
    limits: tuple[Limit, ...],
    direction: int | None = None,
    *,
    layouts: Layouts | None = None,
) -> Answer:
    """As ``solve.solve``, with the layout free; the first limit is that a plan fits. ``layouts``
    are some that are known to begin with."""
    also = (domain.measure,) if domain.rows else ()
    layouts = layouts or Layouts(limits, also, space=space_of(plan))
    if not layouts.known and not layouts.scarce:
        # The fastest of a few that fit, or of all; where memory is the only limit, any layout.
        start = Probes(plan, domain, limits, evaluator=layouts).start()
        own = start.plan, domain.changes(start.value)
        if layouts.find(*own, lambda few: few.first(within=False), FEWER) is None:
            layouts.fastest(*own, within=False)
    search = Probes(plan, domain, limits, evaluator=layouts)
    if direction is None:
        direction = nearer_way(search, search.start())
    layouts.few = layouts.scarce and bool(domain.rows)
    proven: list[int] = []  # values at which no layout keeps the limits
    for left in reversed(range(MOST_ROUNDS)):
        search.forget_broken()
        layouts.hasty = True
        answer = solve(search, direction)
        edges: Sequence[Probe | None] = answer.beyond or (answer.fails,)
        if answer.holds is None:  # no known layout helps: search where the least is missed
            missed = sorted(search.known, key=lambda probe: -min(map(probe.share, probe.broken)))
            edges = missed[:MOST_MISSES]
        broken_ones = [edge.index for edge in edges if edge and edge.broken]
        others = islice(_further(search, layouts, answer), MOST_FURTHER)
        moves_on = partial(_moves_on, search, layouts, direction, proven)
        if left and any(map(moves_on, chain(broken_ones, others))):
            continue
        layouts.hasty = False
        if answer.holds is not None:
            answer = replace(answer, holds=_best(search, layouts, answer.holds))
        if answer.fails is not None and answer.fails.broken:
            answer = replace(answer, fails=_nearest(search, layouts, answer.fails))
        if answer.miss is not None:
            answer = replace(answer, miss=_nearest(search, layouts, answer.miss))
        # What is best at the answer may hold one step further.
        if not broken_ones or answer.fails is None or answer.fails.broken:
            break
    notes = answer.notes if left else (*answer.notes, f"the last of {MOST_ROUNDS} better answers")
    if more := [*_further(search, layouts, answer)][MOST_FURTHER:]:
        notes = (*notes, f"{len(more)} values further on were asked of known layouts only")
    return _with_notes(replace(answer, notes=notes), plan, layouts)


def _further(search: Probes, layouts: Layouts, answer: Answer) -> Iterator[int]:
    """Values beyond an answer that leave time enough, the furthest first, where they are listed:
    limits that break may hold again at any of them."""
    domain, held = search.domain, answer.holds
    last = domain.first if domain.last is None else domain.last
    if domain.rows or domain.endless or last - domain.first > MOST_LISTED:
        return
    for index in range(domain.first, last + 1)[:: -answer.direction]:
        if held is not None and index == held.index:
            return
        if layouts.possible(search.plan, domain.changes(domain.value(index))):
            yield index


def _moves_on(
    search: Probes, layouts: Layouts, direction: int, proven: list[int], edge: int
) -> bool:
    """Whether a layout is found that keeps the limits where no known one does, or, of what layouts
    divide, at a rounder value further on: more of them divide that. Where there is none, that is
    ``proven`` of the value, and with it of what lies further on in its row."""
    domain = search.domain
    rounder = _rounder(edge, direction) if domain.key in DIVIDED else []
    if domain.key == LENGTH:  # a multiple of a power of two; context ranks may be three or five
        devices = search.plan.get("cluster.devices")
        odd = divisors(devices // (devices & -devices))[1:]
        rounder = [(edge * direction // n + 1) * n * direction for n in odd]
    for index in (*rounder, edge):
        row = next((row for row in domain.rows if index in row), [index])
        probe = search.probe(index)
        if probe is None or any(row[0] <= value <= index for value in proven):
            continue
        if probe.broken and not layouts.further(probe.plan, domain.changes(probe.value)):
            proven.append(index)
            continue
        search.forget_broken()
        search.probe(index)
        return True
    return False


def _best(search: Probes, layouts: Layouts, probe: Probe) -> Probe:
    """A value with the plainest of the layouts nearly as good as the best where that keeps the
    limits, else with the best of those that are known."""
    changes = search.domain.changes(probe.value)
    plain = layouts.find(probe.plan, changes, BoundedSearch.plainest)
    known = layouts.variants(search.plan, changes)
    chosen = known if plain is None else [variant(search.plan, {**plain, **changes})]
    meant, values = layouts.values(chosen, True)
    if chosen is not known and broken(values, layouts.limits):
        meant, values = layouts.values(known, True)
    return replace(probe, plan=meant, values={name: values[name] for name in layouts.shown})


def _nearest(search: Probes, layouts: Layouts, probe: Probe) -> Probe:
    """A value at which no layout keeps the limits, with the one that comes nearest: of those
    known, and the best of those that fit, or where none does, the one that lacks least."""
    plan, changes = probe.plan, search.domain.changes(probe.value)
    fits = layouts.further if layouts.few else partial(layouts.fastest, within=False)
    if not fits(plan, changes):
        layouts.find(plan, changes, lambda every: every.nearest.first)
    fresh = Probes(search.plan, search.domain, layouts.limits, evaluator=layouts)
    return fresh.probe(probe.index) or probe


def _rounder(index: int, direction: int) -> list[int]:
    """The next numbers that two, four, … divide, the last one first, not much further on."""
    powers = (2**place for place in range(1, index.bit_length() + 1))
    found = ((index * direction // power + 1) * power * direction for power in powers)
    return [*reversed(dict.fromkeys(i for i in found if abs(i - index) <= index * ROUNDER))]


def optimise_free(plan: Plan, domain: Domain, limits: tuple[Limit, ...], goal: Goal) -> Answer:
    """As ``optimum.optimise``, with the layout free; the first limit is that a plan fits. The
    layout is the one that makes the goal small; a goal to make large takes the fastest layout."""
    by = goal.quantity if goal.sense == -1 else BY
    layouts = Layouts(limits, (goal.quantity,), by, MOST_SEARCHES, space_of(plan))
    search = Probes(plan, domain, limits, evaluator=layouts)
    answer = _with_notes(optimise(search, goal), plan, layouts)
    if not layouts.searches:
        note = f"all layouts were searched at {MOST_SEARCHES} values, elsewhere those found there"
        answer = replace(answer, notes=(*answer.notes, note))
    return answer


def space_of(plan: Plan) -> Options:
    """The layouts of a plan that leaves its own open: those that ``parallelism: auto`` asks; of any
    other plan all."""
    kept = plan.searched or {}
    fixed = {key: (value,) for key, value in kept.get("fixed", {}).items()}
    return {**fixed, **{key: tuple(values) for key, values in kept.get("vary", {}).items()}}


def _with_notes(answer: Answer, plan: Plan, layouts: Layouts) -> Answer:
    notes = answer.notes
    if layouts.narrowed:
        notes = (*notes, left_out(layouts.narrowed, layouts.scarce and not layouts.few))
    if plan.get("time.mfu") is not None:
        notes = (*notes, "utilisation is predicted for each layout, not taken from time.mfu")
    extra = {**answer.extra, "layouts": len(layouts.known), "narrowed": layouts.narrowed}
    return replace(answer, notes=notes, extra=extra)
