"""The plans that one question evaluates: the limits' quantities at each value of the unknown.

Plans that differ only in numbers share one graph (``Evaluation.rerun``), in floats. Values so near
to a limit that rounding could decide, and those of the answer, are computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.errors import PlanError
from planner.base.progress import report_progress
from planner.engine import instance
from planner.engine.evaluate import Absent, Case, Evaluation, Number
from planner.engine.run import simplify_value
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions.constraints import Limit
from planner.questions.domains import Domain

#: Invalid values that are skipped in search of the next valid one.
MOST_SKIPS = 64
#: A relative slack below this is computed exactly, because rounding could change its sign.
NEAR = 1e-9
#: A domain of at most this many values is tried in full.
FEW = 64
#: Graphs kept at once.
MOST_GRAPHS = 48
Evaluated = tuple[Plan, Mapping[str, Any]]


def broken(values: Mapping[str, Any], limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return the limits that some values of quantities violate."""
    return tuple(limit for limit in limits if not limit.is_met(values[limit.quantity]))


@dataclass(frozen=True)
class Probe:
    """A valid value of the unknown with the quantities of its plan.

    Attributes:
        index: its index in the domain.
        value: the value.
        number: by which values are compared: for models, their size.
        plan: the plan with this value.
        values: quantities by id.
        broken: the limits that it violates.
        exact: whether the quantities are exact, not in floats.
    """

    index: int
    value: Number
    number: Number
    plan: Plan
    values: Mapping[str, Any]
    broken: tuple[Limit, ...]
    exact: bool

    def slack(self, limit: Limit) -> Number:
        """Return how far the value is inside a limit, in the limit's unit; negative outside."""
        inside: Number = limit.compute_slack(self.values[limit.quantity])
        return inside

    def share(self, limit: Limit) -> float:
        """Return the slack as a share of the limit or of the value, whichever is larger."""
        return limit.compute_share(self.values[limit.quantity])

    def shortfall(self, limit: Limit) -> str:
        """Format by how much a limit is missed."""
        return limit.format_value(-self.slack(limit))


class Goal(NamedTuple):
    """A quantity to maximise or to minimise.

    Attributes:
        quantity: id of the quantity.
        sense: +1 to maximise, -1 to minimise.
    """

    quantity: str
    sense: int

    @property
    def word(self) -> str:
        """The word for the best value, in sentences."""
        return "largest" if self.sense == 1 else "smallest"

    def score_probe(self, probe: Probe) -> Number:
        """Return the score of a value: larger is better."""
        value: Number = self.sense * probe.values[self.quantity]
        return value

    def rank_probe(self, probe: Probe) -> tuple[bool, Number]:
        """Return a sort key: feasible values by score, above others by how little they miss."""
        if probe.broken:
            return False, min(map(probe.share, probe.broken))
        return True, self.score_probe(probe)


#: The last evaluations over one graph: the exact one (True) and the one in floats (False).
Last = dict[bool, Evaluation]


@lru_cache(maxsize=8)
def _get_recent(quantities: tuple[str, ...]) -> list[Last]:
    """Return the list of earlier evaluations of these quantities, the most recent first."""
    return []


class AsItIs:
    """Evaluates a value of the unknown: here it stands for one plan, with the plan's own layout.
    Subclasses try several layouts."""

    def __init__(self, quantities: Iterable[str]) -> None:
        """Reuse the graphs of earlier questions about the same quantities."""
        self.quantities = tuple(dict.fromkeys(quantities))
        self._graphs = _get_recent(self.quantities)

    def build_variants(self, plan: Plan, changes: Mapping[str, Any]) -> Sequence[Plan]:
        """Return the plans with some keys changed, at least one.

        Raises:
            PlanError: none of them is valid.
        """
        return (variant(plan, changes),)

    def evaluate_best(self, plans: Sequence[Plan], exact: bool) -> Evaluated:
        """Return the best plan and its quantities, in floats unless ``exact`` or floats fail.

        Raises:
            PlanError: a quantity cannot be computed.
        """
        (plan,) = plans
        built = instance.build(plan)
        if not exact:
            floats = self._find_evaluation(built, exact=False)
            with suppress(Absent, ArithmeticError):
                return plan, {name: simplify_value(floats.value(name)) for name in self.quantities}
        return plan, self._find_evaluation(built, exact=True).get_values(self.quantities)

    def _find_evaluation(self, built: Case, exact: bool) -> Evaluation:
        """Return an evaluation over a cached graph that fits, else over a new one."""
        for last in self._graphs:
            again = (last.get(exact) or last[not exact]).rerun(built, exact)
            if again is not None:
                last[exact] = again
                self._graphs.sort(key=lambda each: each is not last)  # likely the next one too
                return again
        made = Evaluation(built, exact=exact)
        for name in self.quantities:
            made.instance(name, {})
        self._graphs[:] = [{exact: made}, *self._graphs][:MOST_GRAPHS]
        return made


class Probes:
    """The values of one domain, evaluated on demand and cached."""

    def __init__(
        self,
        plan: Plan,
        domain: Domain,
        limits: tuple[Limit, ...],
        also: Iterable[str] = (),
        evaluator: AsItIs | None = None,
    ) -> None:
        """Begin without evaluated values.

        Args:
            plan: the plan in which the unknown varies.
            domain: the values of the unknown.
            limits: limits whose quantities are evaluated.
            also: ids of further quantities to evaluate.
            evaluator: evaluates a value; by default with the plan's own layout.
        """
        self.plan, self.domain, self.limits = plan, domain, limits
        measure = [domain.measure] if domain.rows else []
        self.evaluator = evaluator or AsItIs([*(li.quantity for li in limits), *also, *measure])
        self.probes: dict[int, Probe | None] = {}
        self.faults: dict[int, PlanError] = {}

    def evaluate_index(self, index: int) -> Probe | None:
        """Evaluate the value at an index; None outside the domain and where the plan is invalid."""
        if index in self.probes or not self.domain.has(index):
            return self.probes.get(index)
        self.probes[index] = None
        report_progress(f"values of {self.domain.key} tried: {numbers.text(len(self.probes))}")
        value = self.domain.value(index)
        try:
            plans = self.evaluator.build_variants(self.plan, self.domain.changes(value))
        except PlanError as error:
            self.faults[index] = error
            return None
        probe = self._evaluate(index, value, plans, exact=False)
        if any(abs(probe.share(limit)) < NEAR for limit in self.limits):
            probe = self._evaluate(index, value, plans, exact=True)
        self.probes[index] = probe
        return probe

    def _evaluate(self, index: int, value: Number, plans: Sequence[Plan], exact: bool) -> Probe:
        """Evaluate the best of the plans of one value, exactly or in floats."""
        meant, values = self.evaluator.evaluate_best(plans, exact)
        number = values[self.domain.measure] if self.domain.rows else value
        return Probe(index, value, number, meant, values, broken(values, self.limits), exact)

    def evaluate_exact(self, probe: Probe) -> Probe:
        """Evaluate a value exactly and replace its estimate."""
        if not probe.exact:
            probe = self._evaluate(probe.index, probe.value, (probe.plan,), exact=True)
            self.probes[probe.index] = probe
        return probe

    def find_first_valid(self, indices: Iterable[int]) -> Probe | None:
        """Return the first valid value among some indices; None without one."""
        return next(filter(None, map(self.evaluate_index, indices)), None)

    def find_start(self) -> Probe:
        """Return the valid value nearest to the plan's own.

        Raises:
            PlanError: there is none near it; with the faults of the nearest.
        """
        aim = self.domain.start
        found = self.find_nearest(aim, aim - MOST_SKIPS, aim + MOST_SKIPS)
        if found is None:
            none = PlanError(f"no value of {self.domain.key}")
            raise next(iter(self.faults.values()), none)
        return found

    def beyond(self, index: int, toward: int) -> Probe | None:
        """Return the first valid value from an index on in one direction, within ``MOST_SKIPS``."""
        return self.find_first_valid(index + toward * skip for skip in range(MOST_SKIPS))

    def find_end(self, row: Iterable[int]) -> Probe | None:
        """Return the first valid value of a row of the domain, within ``MOST_SKIPS``."""
        return self.find_first_valid(islice(row, MOST_SKIPS))

    def find_nearest(self, aim: int, low: int, high: int) -> Probe | None:
        """Find the valid value nearest to an index.

        Args:
            aim: the index.
            low: one end, which is left out.
            high: the other end, which is left out; it may be the lower one.

        Returns:
            The value; None if none is valid between the ends.
        """
        low, high = sorted((low, high))
        near = (aim + sign * skip for skip in range(high - low) for sign in (1, -1))
        return self.find_first_valid(index for index in near if low < index < high)

    def evaluate_all(self) -> bool:
        """Evaluate the whole domain if it is small; return whether it is."""
        last = self.domain.last
        if last is None or last - self.domain.first >= FEW:
            return False
        for index in range(self.domain.first, last + 1):
            self.evaluate_index(index)
        return True

    def drop_infeasible(self) -> None:
        """Drop invalid and infeasible values: the evaluator knows more layouts now."""
        self.probes = {i: p for i, p in self.probes.items() if p is not None and not p.broken}
        self.faults = {}

    @property
    def known(self) -> list[Probe]:
        """The valid values evaluated so far, by index."""
        return sorted((p for p in self.probes.values() if p), key=lambda p: p.index)


def narrow_bounds(
    search: Probes, inside: Probe, outside: Probe, limits: tuple[Limit, ...] = ()
) -> tuple[Probe, Probe]:
    """Narrow a feasible and an infeasible value down to neighbours among the valid values, in turns
    by interpolation and by halves.

    Args:
        search: evaluates the values between.
        inside: a value that meets the limits.
        outside: a value that violates at least one of them.
        limits: those of the question by default.

    Returns:
        A feasible value and an infeasible one, without a valid value between them.
    """
    limits = limits or search.limits
    for halve in cycle((False, True)):
        width = outside.index - inside.index
        fails = broken(outside.values, limits)
        lines = (inside.slack(li) / (inside.slack(li) - outside.slack(li)) for li in fails)
        aim = inside.index + int(width / 2 if halve else min(lines) * width)
        probe = search.find_nearest(aim, inside.index, outside.index)
        if probe is None:
            break
        inside, outside = (inside, probe) if broken(probe.values, limits) else (probe, outside)
    return inside, outside
