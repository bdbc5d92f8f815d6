"""The cheapest devices, count and layout that train a plan's model by a deadline.

For each kind of device the smallest count that meets the limits is found with a free layout. More
devices lose efficiency and cost more; this is checked on the next counts. A kind is ruled out where
its cost at 100 % utilisation already exceeds the best cost; this reason is then printed in place of
a count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Any

from planner.base import numbers
from planner.base.errors import PlanError
from planner.documents import schema, stacks
from planner.engine.evaluate import Number
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.plans.plan import (
    apply_practice,
    check_value,
    use_utilisation,
    variant,
)
from planner.questions import domains
from planner.questions.constraints import Limit
from planner.questions.domains import Domain
from planner.questions.healing import build_near_plan, drop_auto_keys
from planner.questions.search.bounded_search import Options
from planner.questions.solve.evaluations import Goal, Probe, Probes
from planner.questions.solve.priced_devices import Offer, list_offers
from planner.questions.solve.solve import Answer
from planner.questions.solve.solve_with_layout import (
    FreeLayout,
    build_options,
    find_valid_plan,
    solve_free,
)

GOAL = Goal("cost.total", -1)
#: Devices at this multiple of the best cost are not examined further: another count, which layouts
#: divide better, costs at most a few percent less.
CLEARLY = Fraction(5, 4)


@dataclass(frozen=True)
class OfferResult:
    """The result of one kind of device.

    Attributes:
        offer: the devices at their price.
        answer: the count and layout; None where no count was searched, or none is valid.
        reason: why there is no answer, or which limit no count meets.
    """

    offer: Offer
    answer: Answer | None
    reason: str = ""

    @property
    def holds(self) -> Probe | None:
        """The feasible count of devices; None without one."""
        return None if self.answer is None else self.answer.holds

    @property
    def cost(self) -> Number | None:
        """The cost of training on that count, in USD; None without one."""
        return None if self.holds is None else self.holds.values[GOAL.quantity]


def find_cheapest(
    plan: Plan, limits: tuple[Limit, ...], names: Sequence[str] | None, unbounded: bool = False
) -> Answer:
    """Find the cheapest devices, count and layout that meet the limits.

    Args:
        plan: its model and its tokens are trained; its devices are one choice if they have a price.
        limits: what a plan must meet; the first is that it fits.
        names: accelerators or clusters to choose from, with or without ``=PRICE``; None for all
            built-in ones with a price.
        unbounded: whether to lift the default bounds (``bounds.BOUNDS``).

    Returns:
        The answer for the cheapest devices, or for those that come nearest to the limits; ``extra``
            has the result of every kind of device.

    Raises:
        PlanError: an accelerator is unknown or without a price; no kind of device is valid.
    """
    rows: list[OfferResult] = []
    least: Number = inf
    ranked = [(*_bound_cost(plan, offer), offer) for offer in list_offers(plan, names)]
    # Offers at an assumed price come last; one is chosen only where no other is valid.
    for base, floor, offer in sorted(ranked, key=lambda entry: (entry[2].assumed, entry[1])):
        if isinstance(base, PlanError):
            row = OfferResult(offer, None, base.faults[0].message)
        elif floor >= least:
            row = OfferResult(
                offer, None, f"{numbers.text(floor, 'USD')} even at 100 % utilisation"
            )
        else:
            space = build_options(plan, base, unbounded)
            row = _solve_offer(base, offer, limits, least, space)
            least = least if row.cost is None or offer.assumed else min(least, row.cost)
        rows.append(row)
    priced = [(row.answer, row.offer) for row in rows if row.answer is not None]
    if not priced:
        none = PlanError(rows[0].reason if rows else "no devices to choose from")
        raise next((base for base, _, _ in ranked if isinstance(base, PlanError)), none)
    real = [(answer, offer) for answer, offer in priced if not offer.assumed]
    answer, offer = max(real or priced, key=_rank_offer)
    extra = {**answer.extra, "rows": tuple(rows), "offer": offer}
    return replace(answer, question="cheapest", extra=extra)


def _rank_offer(priced: tuple[Answer, Offer]) -> tuple[bool, Number]:
    """Return a sort key: feasible offers by cost, above infeasible ones by how little they miss."""
    told = priced[0].holds or priced[0].miss
    assert told is not None
    return GOAL.rank_probe(told)


def _bound_cost(plan: Plan, offer: Offer) -> tuple[Plan | PlanError, Number]:
    """Return a valid plan on these devices, or its fault, and its cost at 100 % utilisation."""
    devices = -(-plan.get("cluster.devices") // offer.per_node) * offer.per_node
    try:
        base = _choose_software(plan, {**offer.keys, "cluster.devices": devices})
        cost = compute_values(variant(base, use_utilisation(1)), [GOAL.quantity])[GOAL.quantity]
    except PlanError as error:
        return error, inf
    return base, cost


def _choose_software(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """Return a valid plan on other devices, with the stack that is most used on them unless the
    plan names its software."""
    asked, kinds = plan.document, ("default", stacks.KIND)
    if plan.searched is None or asked.get_stated("training.stack", kinds) is not None:
        return find_valid_plan(plan, changes)
    kept = {key: asked.get(key) for key in asked.changed.keys() - KEYS if asked.changed[key]}
    kept |= {key: check_value(key, value) for key, value in changes.items()}
    bare = replace(asked, node=asked.node.drop_defaults(kinds), held=None, changed={})
    found = apply_practice(schema.validate(bare, "plan"), {**kept, "parallelism.auto": True})
    return build_near_plan(drop_auto_keys(found), changes)


def _solve_offer(
    base: Plan, offer: Offer, limits: tuple[Limit, ...], least: Number, space: Options
) -> OfferResult:
    """Find the fewest devices of an offer that meet the limits, or more where that is cheaper.

    Args:
        base: a valid plan on these devices.
        offer: the devices at their price.
        limits: what a plan must meet; the first is that it fits.
        least: the cost of the best other offer in USD; infinite without one.
        space: values that keys of a layout may have.
    """
    layouts = FreeLayout(limits, (GOAL.quantity,), space=space)
    try:
        domain = domains.make_count_domain(base, offer.sold)
        answer = solve_free(base, domain, limits, -1, layouts=layouts)
    except PlanError as error:
        return OfferResult(offer, None, error.faults[0].message)
    if answer.holds is None:
        limit, miss = answer.binding, answer.miss
        assert limit is not None and miss is not None
        return OfferResult(offer, answer, f"{limit} missed by {miss.shortfall(limit)}")
    if GOAL.score_probe(answer.holds) < -CLEARLY * least:
        return OfferResult(offer, answer)
    best, beside = _compare_counts(base, domain, answer, space)
    return OfferResult(offer, replace(answer, goal=GOAL, holds=best, fails=None, beside=beside))


def _compare_counts(
    base: Plan, domain: Domain, answer: Answer, space: Options
) -> tuple[Probe, tuple[Probe, ...]]:
    """Find the cheapest count from the fewest devices upwards.

    The next count is searched for its best layout; larger ones are tried with known layouts.

    Args:
        base: a valid plan on these devices.
        domain: the counts of devices.
        answer: the fewest devices that meet the limits.
        space: values that keys of a layout may have.

    Returns:
        The cheapest count, and the counts on both sides of it, all exact.
    """
    assert answer.holds is not None
    layouts = FreeLayout(answer.limits, (GOAL.quantity,), searches=1, space=space)
    search = Probes(base, domain, answer.limits, evaluator=layouts)
    first = answer.holds.index
    # The next counts above the fewest devices are priced too.
    more = [search.evaluate_index(first + step) for step in (1, 2, 4, 8)]
    best = max((answer.holds, *filter(None, more)), key=GOAL.rank_probe)
    if best is answer.holds:
        sides = filter(None, (answer.fails, more[0]))
        return search.evaluate_exact(best), tuple(map(search.evaluate_exact, sides))
    # A count beside it may be cheaper still once its own best layout is searched.
    layouts.searches = 2
    beside_it = (search.evaluate_index(best.index + step) for step in (-1, 1))
    near = [best, *filter(None, beside_it)]
    best, *beside = sorted(map(search.evaluate_exact, near), key=GOAL.rank_probe, reverse=True)
    return best, tuple(probe for probe in beside if abs(probe.index - best.index) == 1)
