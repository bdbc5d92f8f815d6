"""Between which values an answer lies, where it rests on a predicted time.

Published runs say how far predictions have been off (``error_bands``). An answer that a limit on
time or cost holds back lies between those that the limit would have if every run took as long as
the slowest of them, and as short as the fastest: the same question with the limit moved by as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from planner.base.errors import PlanError
from planner.engine.evaluate import Number
from planner.questions.solve import families
from planner.questions.solve.evaluations import Probe, Probes
from planner.questions.solve.solve import Answer, solve
from planner.results.result import evaluate

Interval = tuple[Number, Number]
Ends = tuple[Probe | None, Probe | None]


def of_quantity(probe: Probe, quantity: str) -> Interval | None:
    """Lowest and highest value of a quantity that published runs leave open; None where it does not
    rest on a prediction of time."""
    declared = probe.plan.book.quantities[quantity]
    if not declared.scales_with and not declared.own:
        return None
    found = evaluate(probe.plan).find(quantity).interval
    return None if found is None else (Fraction(found[0]), Fraction(found[1]))


def of_answer(answer: Answer) -> Ends | None:
    """The answers at the two ends, the one for the slowest run first; None of an end at which no
    value keeps the limits. None where the answer does not rest on a predicted time."""
    holds = answer.holds
    if holds is None or answer.goal is not None:
        return None
    shares: dict[str, tuple[Fraction, Fraction]] = {}
    for limit in answer.limits:
        found, value = of_quantity(holds, limit.quantity), holds.values[limit.quantity]
        if found is not None and value:
            low, high = (Fraction(bound) / Fraction(value) for bound in found)
            scaling = limit.scales_with
            # What is long where a run is slow, is small where it is not.
            shares[limit.quantity] = (high, low) if scaling == "time" else (low, high)
    if not shares:
        return None
    slow, fast = (_moved(answer, {name: s[end] for name, s in shares.items()}) for end in (0, 1))
    return slow, fast


def _moved(answer: Answer, shares: Mapping[str, Fraction]) -> Probe | None:
    """The answer where quantities are so many times what is predicted, in the answer's layout."""
    assert answer.holds is not None
    limits = tuple(
        replace(limit, value=Fraction(limit.value) / shares.get(limit.quantity, 1))
        for limit in answer.limits
    )
    plan, domain = answer.holds.plan, replace(answer.domain, start=answer.holds.index)
    try:
        if domain.rows and "layouts" in answer.extra:  # of which the layout divides only some
            domain = families.of_plan(plan)[1].domain
        return solve(Probes(plan, domain, limits), answer.direction).holds
    except PlanError:
        return None
