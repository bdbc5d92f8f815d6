"""Intervals of answers that depend on a predicted time.

Published runs give the errors of predictions (``error_bands``). Where a limit on time or cost ends
an answer, the same question is solved again with the limit scaled by the error of the slowest and
of the fastest runs (5th and 95th percentile): its interval lies between these answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from planner.base.errors import PlanError
from planner.engine.evaluate import Number
from planner.questions.solve import families
from planner.questions.solve.evaluations import Probe, Probes
from planner.questions.solve.solve import Answer, solve_domain
from planner.results.result import evaluate_plan

Interval = tuple[Number, Number]
Ends = tuple[Probe | None, Probe | None]


def bound_quantity(probe: Probe, quantity: str) -> Interval | None:
    """Return the lowest and the highest value of a quantity by published runs; None where it does
    not depend on a predicted time."""
    declared = probe.plan.book.quantities[quantity]
    if not declared.scales_with and not declared.own:
        return None
    found = evaluate_plan(probe.plan).find(quantity).interval
    return None if found is None else (Fraction(found[0]), Fraction(found[1]))


def bound_answer(answer: Answer) -> Ends | None:
    """Return the answers at both ends, for the slowest run first; an end is None where no value is
    feasible. None where the answer does not depend on a predicted time."""
    holds = answer.holds
    if holds is None or answer.goal is not None:
        return None
    shares: dict[str, tuple[Fraction, Fraction]] = {}
    for limit in answer.limits:
        found, value = bound_quantity(holds, limit.quantity), holds.values[limit.quantity]
        if found is not None and value:
            low, high = (Fraction(bound) / Fraction(value) for bound in found)
            scaling = limit.scales_with
            # The slow end has the longest time, but the lowest rate.
            shares[limit.quantity] = (high, low) if scaling == "time" else (low, high)
    if not shares:
        return None
    slow, fast = (
        _solve_scaled(answer, {name: s[end] for name, s in shares.items()}) for end in (0, 1)
    )
    return slow, fast


def _solve_scaled(answer: Answer, shares: Mapping[str, Fraction]) -> Probe | None:
    """Solve again in the answer's layout, with quantities that are so many times the predicted."""
    assert answer.holds is not None
    limits = tuple(
        replace(limit, value=Fraction(limit.value) / shares.get(limit.quantity, 1))
        for limit in answer.limits
    )
    plan, domain = answer.holds.plan, replace(answer.domain, start=answer.holds.index)
    # Among those values that the layout divides evenly, the answer itself may not be.
    own = all(limit.is_met(answer.holds.values[limit.quantity]) for limit in limits)
    best = answer.holds if own else None
    try:
        if domain.rows and "layouts" in answer.extra:  # the layout divides only some values
            domain = families.build_family(plan)[1].domain
        found = solve_domain(Probes(plan, domain, limits), answer.direction).holds
    except PlanError:
        return best
    if best is None or found is None:
        return found or best
    return max(found, best, key=lambda probe: answer.direction * probe.number)
