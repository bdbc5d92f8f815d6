"""Questions with a free layout: at each value of the unknown the best layout counts.

Most values are decided by known layouts: a value is feasible if one of them meets the limits. If
none does, the layout with the most slack is searched, which extends the answer furthest, in a part
of the space where that suffices. A search that finds none proves the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from typing import Any

from planner.base.errors import PlanError
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, KEYS
from planner.plans.plan import change_document, check_value, is_own_choice, use_utilisation, variant
from planner.questions.constraints import Limit
from planner.questions.domains import Domain, divisors
from planner.questions.healing import build_near_plan
from planner.questions.search.bounded_search import FEWER, ROOMIER, BoundedSearch, Options
from planner.questions.search.engine import describe_skipped, is_memory_only
from planner.questions.search.selection import Item
from planner.questions.solve.bounds import DEVICES, bound_degrees, bound_of
from planner.questions.solve.evaluations import AsItIs, Evaluated, Goal, Probe, Probes, broken
from planner.questions.solve.optimum import find_optimum
from planner.questions.solve.solve import Answer, find_direction, solve_domain
from planner.results.verdict import FITS

#: The quantity by which layouts that meet the limits are compared.
BY = "time.step_seconds"
#: How often new layouts may extend an answer until it is accepted as it is.
MOST_ROUNDS = 24
#: Searches of the whole space, after which only known layouts are used.
MOST_SEARCHES = 16
#: Values at which a layout is searched where no known one is feasible.
MOST_MISSES = 8
#: Values beyond an answer that are searched, and the largest domain that is listed for them.
MOST_FURTHER, MOST_LISTED = 40, 256
#: Settings with the fewest FLOPs of a step, whatever the kernels.
FEWEST = {"training.recompute": "none", "training.attention_count": "causal-window"}
LENGTH = "training.sequence_length"
#: Keys whose value layouts divide, and how far beyond an answer, as a share, values that more
#: layouts divide are tried too.
DIVIDED = ("training.global_batch", "model.layers")
ROUNDER = 1 / 8
Changes = Mapping[str, Any]
Ask = Callable[[BoundedSearch], Item | None]


class FreeLayout(AsItIs):
    """Evaluates a value with each known layout; searches add further ones. The first of the limits
    is that a plan fits.

    The best layout by ``by`` that meets the limits counts; while ``hasty``, the first that meets
    them. A probe has the quantities of the limits and of ``also``.
    """

    hasty = False
    #: Whether a few layouts have as much slack as any: where memory alone limits the size of a
    #: model, as replicas and larger micro-batches only add to it.
    few = False

    def __init__(
        self,
        limits: Sequence[Limit],
        also: Sequence[str] = (),
        by: str = BY,
        searches: int = 0,
        space: Options | None = None,
    ) -> None:
        """Begin without known layouts.

        Args:
            limits: what a plan must meet; the first is that it fits.
            also: further quantities that a probe has.
            by: the quantity by which layouts that meet the limits are compared.
            searches: how often the whole space may be searched.
            space: values that keys of a layout may have; the others are free.
        """
        self.limits, self.by = tuple(limits), by
        self.searches = searches  # of the whole space that are left
        self.shown = (*(limit.quantity for limit in limits), *also)
        super().__init__([*(limit.quantity for limit in limits), FITS, by, *also])
        self.scarce = is_memory_only(limits)  # whether memory is the only limit
        self.space = space or {}  # values that keys of a layout may have; the others are free
        self.known: list[Changes] = []
        self.narrowed: dict[str, tuple[Any, ...]] = {}  # to these values of keys, somewhere
        self._searches: dict[str, BoundedSearch] = {}
        self._at_best: Changes = {}  # no layout has a higher utilisation

    def build_variants(self, plan: Plan, changes: Changes) -> Sequence[Plan]:
        """Return the changed plan with each known layout; while searches are left, with a new
        layout alone, if one is found.

        Raises:
            PlanError: no valid plan was found.
        """
        found = []
        for layout in self.known:
            with suppress(PlanError):
                found.append(variant(plan, {**layout, **changes}))
        if not found:
            kept = {key: values[0] for key, values in self.space.items() if len(values) == 1}
            found = [find_valid_plan(plan, {**kept, "time.mfu": None, **changes})]
        if self.searches:
            self.searches -= 1
            base = found[0]
            # Where no layout keeps the limits, one that fits says by how much they are missed.
            new = self.find_fastest(base, changes) or self.find_fastest(base, changes, within=False)
            if new is not None:
                found = [variant(plan, {**new, **changes})]
        return found

    def evaluate_best(self, plans: Sequence[Plan], exact: bool) -> Evaluated:
        """Return the plan with the best layout and its quantities; while ``hasty``, the first plan
        that meets the limits."""
        found = []
        for plan in reversed(plans):  # the layout that was found last goes furthest
            found.append(super().evaluate_best((plan,), exact))
            if self.hasty and self._rank_layout(found[-1])[0]:
                break
        return max(found, key=self._rank_layout)

    def _rank_layout(self, found: Evaluated) -> tuple[bool, float, float]:
        """Return a sort key: layouts that meet the limits by ``by``, above others by how little
        they miss, as a share (all of a limit of 0) and in the limit's own unit."""
        values = found[1]
        missed = [(limit.compute_share(values[limit.quantity]), limit) for limit in self.limits]
        worst, tightest = min(missed, key=lambda pair: pair[0], default=(0.0, None))
        if worst >= 0 or tightest is None:
            return True, -float(values[self.by]), 0.0
        return False, worst, float(tightest.compute_slack(values[tightest.quantity]))

    def find_fastest(self, plan: Plan, changes: Changes, within: bool = True) -> Changes | None:
        """Find the best layout at a value of the unknown, and add it to the known ones.

        Args:
            plan: a valid plan with that value.
            changes: the changes that the value makes.
            within: whether the layout must meet the limits; otherwise it only has to fit.

        Returns:
            The changes of the layout; None where there is none.
        """
        return self.find_layout(plan, changes, lambda every: every.find_best(within))

    def extend_layouts(self, plan: Plan, changes: Changes) -> bool:
        """Decide whether a layout meets the limits; the one with the most slack is added to the
        known ones."""
        options = ROOMIER if self.few else None
        return self.find_layout(plan, changes, BoundedSearch.find_max_slack, options) is not None

    def is_possible(self, plan: Plan, changes: Changes) -> bool:
        """Decide whether a layout can meet the limits on time if its FLOPs run in ``time.floor``,
        their lower bound; True where that is unknown."""
        timed = [li for li in self.limits if li.scales_with == "time"]
        with suppress(PlanError):
            if timed and not self._at_best:
                plain = find_valid_plan(plan, {**FEWEST, "time.mfu": None})
                used, least = compute_values(plain, ("time.mfu", "time.floor")).values()
                self._at_best = {**FEWEST, **use_utilisation(Fraction(used) / Fraction(least))}
            best = find_valid_plan(plan, {**self._at_best, **changes})
            _, values = AsItIs(limit.quantity for limit in timed).evaluate_best((best,), False)
            return not broken(values, timed)
        return True

    def find_layout(
        self, plan: Plan, changes: Changes, ask: Ask, options: Options | None = None
    ) -> Changes | None:
        """Search a layout at a value of the unknown, and add it to the known ones.

        Args:
            plan: a valid plan with that value.
            changes: the changes that the value makes.
            ask: picks a layout of a search.
            options: values of keys to which the layouts are narrowed at first; None for all
                layouts.

        Returns:
            The changes of the layout; None where there is none.
        """
        try:
            found = self._get_search(plan, changes).run_question(ask, options)
            if found is None:
                return None
            layout = found[2].changes
            super().evaluate_best((variant(plan, {**layout, **changes}),), False)
        except PlanError:
            return None
        if layout not in self.known:
            self.known.append(layout)
        return layout

    def _get_search(self, plan: Plan, changes: Changes) -> BoundedSearch:
        """Return the search of the layouts at a value of the unknown.

        Raises:
            PlanError: none is valid.
        """
        key = repr(sorted(changes.items(), key=str))
        if key not in self._searches:
            fixed = {key: (plan.get(key),) for key in changes if key in KEYS}
            space = {**self.space, **fixed}
            if is_own_choice(plan, KERNELS) and any(KERNELS in layout for layout in self.known):
                plan = variant(plan, {KERNELS: None})  # a layout's; the question does not fix them
            fits, *others = self.limits
            self._searches[key] = BoundedSearch(plan, self.by, others, space, fits=fits)
            self.narrowed |= self._searches[key].walk.narrowed
        return self._searches[key]


def find_valid_plan(plan: Plan, changes: Changes) -> Plan:
    """Return a valid plan with these changes: with the plan's own layout, else with one near it.

    Raises:
        PlanError: none was found; with the faults of the plan's own layout.
    """
    values = {key: check_value(key, value) for key, value in changes.items()}
    return build_near_plan(change_document(plan.document, values), changes)


def solve_free(
    plan: Plan,
    domain: Domain,
    limits: tuple[Limit, ...],
    direction: int | None = None,
    *,
    layouts: FreeLayout | None = None,
    space: Options | None = None,
) -> Answer:
    """Solve for the last feasible value with a free layout.

    Args:
        plan: the plan in which the unknown varies.
        domain: the values of the unknown.
        limits: what a plan must meet; the first is that it fits.
        direction: +1 for the largest value, -1 for the smallest, None for the direction in which a
            limit comes nearer.
        layouts: layouts that are known to begin with; None for none.
        space: without ``layouts``, the values that keys of a layout may have.

    Returns:
        The answer, with the best layout at its values and notes on what was not searched.
    """
    also = (domain.measure,) if domain.rows else ()
    layouts = layouts or FreeLayout(limits, also, space=space)
    if not layouts.known and not layouts.scarce:
        # The fastest of a few that fit, or of all; where memory is the only limit, any layout.
        start = Probes(plan, domain, limits, evaluator=layouts).find_start()
        own = start.plan, domain.changes(start.value)
        if layouts.find_layout(*own, lambda few: few.find_best(within=False), FEWER) is None:
            layouts.find_fastest(*own, within=False)
    search = Probes(plan, domain, limits, evaluator=layouts)
    if direction is None:
        direction = find_direction(search, search.find_start())
    layouts.few = layouts.scarce and bool(domain.rows)
    proven: list[int] = []  # values at which no layout meets the limits
    for left in reversed(range(MOST_ROUNDS)):
        search.drop_infeasible()
        layouts.hasty = True
        answer = solve_domain(search, direction)
        edges: Sequence[Probe | None] = answer.beyond or (answer.fails,)
        if answer.holds is None:  # no known layout helps: search where the least is missed
            missed = sorted(search.known, key=lambda probe: -min(map(probe.share, probe.broken)))
            edges = missed[:MOST_MISSES]
        broken_ones = [edge.index for edge in edges if edge and edge.broken]
        others = islice(_yield_beyond(search, layouts, answer), MOST_FURTHER)
        moves_on = partial(_try_further, search, layouts, direction, proven)
        if left and any(map(moves_on, chain(broken_ones, others))):
            continue
        layouts.hasty = False
        if answer.holds is not None:
            answer = replace(answer, holds=_evaluate_best(search, layouts, answer.holds))
        if answer.fails is not None and answer.fails.broken:
            answer = replace(answer, fails=_evaluate_nearest(search, layouts, answer.fails))
        if answer.miss is not None:
            answer = replace(answer, miss=_evaluate_nearest(search, layouts, answer.miss))
        # The best layout at the answer may be feasible one step further.
        if not broken_ones or answer.fails is None or answer.fails.broken:
            break
    notes = answer.notes if left else (*answer.notes, f"the last of {MOST_ROUNDS} better answers")
    if more := [*_yield_beyond(search, layouts, answer)][MOST_FURTHER:]:
        notes = (*notes, f"{len(more)} values further on were asked of known layouts only")
    return _add_notes(replace(answer, notes=notes), plan, layouts)


def _yield_beyond(search: Probes, layouts: FreeLayout, answer: Answer) -> Iterator[int]:
    """Yield the values beyond an answer that a layout could reach in time, furthest first: limits
    may be met again at any of them.

    Args:
        search: the values of the domain; nothing is yielded if it is too large to list.
        layouts: decides by a lower bound of the time.
        answer: the answer so far.

    Yields:
        Indices of the domain.
    """
    domain, held = search.domain, answer.holds
    last = domain.first if domain.last is None else domain.last
    if domain.rows or domain.endless or last - domain.first > MOST_LISTED:
        return
    for index in range(domain.first, last + 1)[:: -answer.direction]:
        if held is not None and index == held.index:
            return
        if layouts.is_possible(search.plan, domain.changes(domain.value(index))):
            yield index


def _try_further(
    search: Probes, layouts: FreeLayout, direction: int, proven: list[int], edge: int
) -> bool:
    """Decide whether a layout is found that makes a value feasible, or a rounder one further on,
    which more layouts divide.

    Args:
        search: the values of the domain.
        layouts: the known layouts, which are extended.
        direction: +1 for larger values, -1 for smaller ones.
        proven: indices at which no layout meets the limits; each also decides all further values of
            its row. The value is added where nothing is found.
        edge: index of the value.
    """
    domain = search.domain
    rounder = _list_rounder(edge, direction) if domain.key in DIVIDED else []
    if domain.key == LENGTH:  # a multiple of a power of two; context ranks may be three or five
        devices = search.plan.get("cluster.devices")
        odd = divisors(devices // (devices & -devices))[1:]
        rounder = [(edge * direction // n + 1) * n * direction for n in odd]
    for index in (*rounder, edge):
        row = next((row for row in domain.rows if index in row), [index])
        probe = search.evaluate_index(index)
        if probe is None or any(row[0] <= value <= index for value in proven):
            continue
        if probe.broken and not layouts.extend_layouts(probe.plan, domain.changes(probe.value)):
            proven.append(index)
            continue
        search.drop_infeasible()
        search.evaluate_index(index)
        return True
    return False


def _evaluate_best(search: Probes, layouts: FreeLayout, probe: Probe) -> Probe:
    """Evaluate a value with the simplest of the nearly best layouts if that meets the limits, else
    with the best known one.

    Args:
        search: the values of the domain.
        layouts: the known layouts.
        probe: the feasible value.
    """
    changes = search.domain.changes(probe.value)
    plain = layouts.find_layout(probe.plan, changes, BoundedSearch.find_simplest)
    known = layouts.build_variants(search.plan, changes)
    chosen = known if plain is None else [variant(search.plan, {**plain, **changes})]
    meant, values = layouts.evaluate_best(chosen, True)
    if chosen is not known and broken(values, layouts.limits):
        meant, values = layouts.evaluate_best(known, True)
    return replace(probe, plan=meant, values={name: values[name] for name in layouts.shown})


def _evaluate_nearest(search: Probes, layouts: FreeLayout, probe: Probe) -> Probe:
    """Evaluate an infeasible value with the layout that comes nearest: of those known, and the best
    that fits or, if none fits, the one that exceeds memory least.

    Args:
        search: the values of the domain.
        layouts: the known layouts, which are extended.
        probe: the infeasible value.
    """
    plan, changes = probe.plan, search.domain.changes(probe.value)
    fits = layouts.extend_layouts if layouts.few else partial(layouts.find_fastest, within=False)
    if not fits(plan, changes):
        layouts.find_layout(plan, changes, lambda every: every.nearest.first)
    fresh = Probes(search.plan, search.domain, layouts.limits, evaluator=layouts)
    return fresh.evaluate_index(probe.index) or probe


def _list_rounder(index: int, direction: int) -> list[int]:
    """List the next multiples of 2, 4, 8, …, the last one first, not much further on."""
    powers = (2**place for place in range(1, index.bit_length() + 1))
    found = ((index * direction // power + 1) * power * direction for power in powers)
    return [*reversed(dict.fromkeys(i for i in found if abs(i - index) <= index * ROUNDER))]


def find_free_optimum(
    plan: Plan, domain: Domain, limits: tuple[Limit, ...], goal: Goal, space: Options
) -> Answer:
    """Find the best value with a free layout. The layout minimises the goal; for a goal to maximise
    it is the fastest.

    Args:
        plan: the plan in which the unknown varies.
        domain: the values of the unknown.
        limits: what a plan must meet; the first is that it fits.
        goal: what is maximised or minimised.
        space: values that keys of a layout may have.

    Returns:
        The best value with its neighbours.
    """
    by = goal.quantity if goal.sense == -1 else BY
    layouts = FreeLayout(limits, (goal.quantity,), by, MOST_SEARCHES, space)
    search = Probes(plan, domain, limits, evaluator=layouts)
    answer = _add_notes(find_optimum(search, goal), plan, layouts)
    if not layouts.searches:
        note = f"all layouts were searched at {MOST_SEARCHES} values, elsewhere those found there"
        answer = replace(answer, notes=(*answer.notes, note))
    return answer


def build_options(plan: Plan, devices: Plan, unbounded: bool = False) -> Options:
    """Build the values that keys of a free layout may have.

    Args:
        plan: what its ``parallelism: auto`` states replaces the bounds.
        devices: a plan on the devices that the bounds are for.
        unbounded: whether to lift the bounds.

    Returns:
        The values by dotted key; other keys are free.
    """
    kept = plan.searched or {}
    within = {} if unbounded else bound_degrees(devices)
    fixed = {key: (value,) for key, value in kept.get("fixed", {}).items()}
    varied = {key: tuple(values) for key, values in kept.get("vary", {}).items()}
    return {**within, **fixed, **varied}


def _add_notes(answer: Answer, plan: Plan, layouts: FreeLayout) -> Answer:
    """Add to an answer what was not searched, the bounds that restrict its layouts, and the number
    of known layouts."""
    notes = answer.notes
    if layouts.narrowed:
        notes = (*notes, describe_skipped(layouts.narrowed, layouts.scarce and not layouts.few))
    if layouts.space.keys() & bound_degrees(plan):
        made = answer.holds.plan if answer.holds else plan
        bounds = (bound_of(made, key) for key in bound_degrees(made))
        notes = (*notes, *(words for most, words in bounds if words and made.get(DEVICES) > most))
    if plan.settings["time.assumed"]:
        notes = (*notes, "utilisation is predicted for each layout, not taken from time.mfu")
    extra = {**answer.extra, "layouts": len(layouts.known), "narrowed": layouts.narrowed}
    return replace(answer, notes=notes, extra=extra)
