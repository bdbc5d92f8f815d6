"""Default bounds: limits of an answer where memory and time would allow more.

Each is a row of ``BOUNDS``. The bound of a key ends the values that are tried, that of a degree the
layouts that are searched, that of a quantity is one more limit. No bound excludes a value of the
plan itself; an answer names the bound that ended it, and ``--unbounded`` lifts all bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from planner.base import resources
from planner.base.errors import PlanError
from planner.base.numbers import exact_text
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.plans.plan import variant
from planner.questions.domains import Domain, divisors
from planner.questions.solve.evaluations import broken
from planner.questions.solve.solve import Answer
from planner.results.result import Quantity, evaluate_plan

DAYS, DEVICES = "time.training_days", "cluster.devices"
MICRO_BATCH, BATCH = "training.micro_batch", "training.global_batch"
#: What an answer costs, by quantity.
COSTS = (DAYS, "cost.total", "time.mfu", "memory.process")
#: What it costs where a part of the run is on spot devices.
MIXED = ("time.mixed_days", *COSTS[1:])
#: By how many times a batch is enlarged to find one that meets limits.
TIMES = sorted(share * 2**power for power in range(9) for share in (2, 3))
BOUNDS = resources.load_preset("scaling/bounds")["bounds"]
LAYOUTS = [row["key"] for row in BOUNDS if row["key"] in KEYS]


def bound_of(plan: Plan, key: str) -> tuple[int, str]:
    """Return the bound of a key or a quantity with its description; 0 and "" without a bound. The
    bound of a key is at least the plan's own value, unless the key is a degree."""
    row: Mapping[str, Any] = next((row for row in BOUNDS if row["key"] == key), {"most": 0})
    most = row.get("most") if "most" in row else _compute_batch(plan, **row["critical"])
    most = plan.get(most) if isinstance(most, str) else most
    if not most:
        return 0, ""
    most = int(max(most, 0 if key in (*LAYOUTS, DAYS) else plan.get(key) or 0))
    return most, f"{row['words'].format(exact_text(most))}; plan.py solve --unbounded goes further"


def _compute_batch(plan: Plan, sequences: Any, exponent: Any, length: int) -> int:
    """Compute the critical batch, by a power law of the run's tokens.

    Args:
        plan: its tokens and its sequence length are read.
        sequences: the critical batch for one million tokens, in sequences of ``length``.
        exponent: the exponent of the law.
        length: tokens of such a sequence.

    Returns:
        The batch in sequences of the plan; 0 without tokens or a length.
    """
    millions, own = (plan.get("training.tokens") or 0) / 10**6, plan.get("training.sequence_length")
    return int(float(sequences) * float(millions) ** float(exponent) * length / own) if own else 0


def cut_domain(plan: Plan, domain: Domain) -> Domain:
    """Cut a domain at the bound of its key."""
    most, words = bound_of(plan, domain.key)
    values = range(domain.first, 1 + (domain.last or most)) if words else ()
    last = domain.first - 1 + bisect_right(values, most, key=lambda n: int(domain.value(n)))
    if last < domain.first or last == domain.last:
        return domain
    start = min(domain.start, last)
    return replace(domain, start=start, last=last, endless=False, bound=words)


def bound_degrees(plan: Plan) -> Mapping[str, tuple[int, ...]]:
    """Map each bounded degree to the values whose groups fill the bound in equal parts, for a free
    layout: those of another size cross it, as 5 devices of nodes of 8."""
    whole = {key: min(bound_of(plan, key)[0], plan.get(DEVICES)) for key in LAYOUTS}
    return {key: divisors(most) for key, most in whole.items()}


def evaluate_costs(plan: Plan) -> dict[str, Quantity]:
    """Evaluate days, cost, utilisation and memory of a plan; absent ones are left out."""
    mixed = plan.get("cluster.spot_share") not in (None, 1)
    found = map(evaluate_plan(plan).find, MIXED if mixed else COSTS)
    return {each.id: each for each in found if each.absent is None}


def suggest_batch(answer: Answer) -> str:
    """Name the micro-batch or the batch where it keeps devices from being more, and one that would
    meet the limits; empty where more devices with another one are no nearer to the limits."""
    miss, limit = answer.miss, answer.binding
    if miss is None or limit is None or answer.domain.key != DEVICES:
        return ""
    names = [one.quantity for one in answer.limits]
    for key, name in ((MICRO_BATCH, "micro-batch"), (BATCH, "batch")):
        own, (most, words) = int(miss.plan.get(key) or 0), bound_of(miss.plan, key)
        for times in TIMES:
            size = own * times if key == BATCH else own // times if own % times == 0 else 0
            more = {key: size, DEVICES: int(miss.value) * times}
            with suppress(PlanError):  # no such batch, or one that the layout does not divide
                values = compute_values(variant(miss.plan, more), names)
                if limit.compute_slack(values[limit.quantity]) <= miss.slack(limit):
                    break
                if not broken(values, answer.limits):
                    would = f"{exact_text(size)} on {exact_text(more[DEVICES])} devices would do"
                    would += f", but {words.partition(';')[0]}" if 0 < most < size else ""
                    return f"the {name} of {exact_text(own)} stands in the way: {would}"
    return ""
