"""Plans tried for one question: what the limits' quantities are at each value of the unknown.

Plans that differ in numbers only share one graph (``Evaluation.rerun``), in floats. Values so near
to a limit that rounding could decide, and those that an answer names, are computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any, NamedTuple

from planner.base.errors import Fault, PlanError
from planner.base.progress import tell
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Case, Evaluation, Number
from planner.engine.run import tidy
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions.constraints import Limit, shown
from planner.questions.domains import Domain

#: Values passed over in search of the next one that makes a valid plan.
MOST_SKIPS = 64
#: A slack that is a smaller share is computed exactly, for rounding could decide about it.
NEAR = 1e-9
#: A domain of no more values is tried in full.
FEW = 64
#: Graphs kept at once.
MOST_GRAPHS = 48
Evaluated = tuple[Plan, Mapping[str, Any]]


def broken(values: Mapping[str, Any], limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Those of some limits that quantities do not keep."""
    return tuple(limit for limit in limits if not limit.holds(values[limit.quantity]))


@dataclass(frozen=True)
class Probe:
    """One valid value of the unknown with what the quantities are there."""

    index: int
    value: Number
    number: Number  # what values are compared by: of models, their size
    plan: Plan
    values: Mapping[str, Any]  # quantity -> value
    broken: tuple[Limit, ...]
    exact: bool

    def slack(self, limit: Limit) -> Number:
        inside: Number = limit.slack(self.values[limit.quantity])
        return inside

    def share(self, limit: Limit) -> float:
        return limit.share(self.values[limit.quantity])

    def shortfall(self, limit: Limit) -> str:
        """By how much a limit is missed, in words."""
        return shown(-self.slack(limit), limit.unit)


class Goal(NamedTuple):
    """A quantity to make large (+1) or small (-1)."""

    quantity: str
    sense: int

    @property
    def word(self) -> str:
        return "largest" if self.sense == 1 else "smallest"

    def of(self, probe: Probe) -> Number:
        """What a value is worth: more is better."""
        value: Number = self.sense * probe.values[self.quantity]
        return value

    def rank(self, probe: Probe) -> tuple[bool, Number]:
        """Order by what holds first, then by worth; of what is broken, by how little."""
        if probe.broken:
            return False, min(map(probe.share, probe.broken))
        return True, self.of(probe)


#: The last evaluations that share a graph: exactly, and in floats.
Last = dict[bool, Evaluation]


@lru_cache(maxsize=8)
def _asked(quantities: tuple[str, ...]) -> list[Last]:
    """What questions about the same quantities evaluated, the last one first."""
    return []


class AsItIs:
    """Which plans a value of the unknown stands for, and what their quantities are: here each value
    is one plan, with the layout that it has."""

    def __init__(self, quantities: Iterable[str]) -> None:
        self.quantities = tuple(dict.fromkeys(quantities))
        self._graphs = _asked(self.quantities)

    def variants(self, plan: Plan, changes: Mapping[str, Any]) -> Sequence[Plan]:
        """The plans with some keys changed, at least one.

        Raises:
            PlanError: none of them is valid.
        """
        return (variant(plan, changes),)

    def values(self, plans: Sequence[Plan], exact: bool) -> Evaluated:
        """The plan that is meant, and its quantities: exactly, or in floats where these suffice.

        Raises:
            PlanError: a quantity cannot be computed.
        """
        (plan,) = plans
        built = case.build(plan)
        if not exact:
            floats = self._evaluation(built, exact=False)
            with suppress(Absent, ArithmeticError):
                return plan, {name: tidy(floats.value(name)) for name in self.quantities}
        return plan, self._evaluation(built, exact=True).values_of(self.quantities)

    def _evaluation(self, built: Case, exact: bool) -> Evaluation:
        """An evaluation of a case over a graph that holds for it."""
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
    """The values of one domain, probed on demand and remembered."""

    def __init__(
        self,
        plan: Plan,
        domain: Domain,
        limits: tuple[Limit, ...],
        also: Iterable[str] = (),
        evaluator: AsItIs | None = None,
    ) -> None:
        self.plan, self.domain, self.limits = plan, domain, limits
        measure = [domain.measure] if domain.rows else []
        self.evaluator = evaluator or AsItIs([*(li.quantity for li in limits), *also, *measure])
        self.probes: dict[int, Probe | None] = {}
        self.faults: dict[int, PlanError] = {}

    def probe(self, index: int) -> Probe | None:
        """What holds at an index; None outside the domain and where no valid plan results."""
        if index in self.probes or not self.domain.has(index):
            return self.probes.get(index)
        self.probes[index] = None
        tell(f"values of {self.domain.key} tried: {len(self.probes):,}")
        value = self.domain.value(index)
        try:
            plans = self.evaluator.variants(self.plan, self.domain.changes(value))
        except PlanError as error:
            self.faults[index] = error
            return None
        probe = self._evaluate(index, value, plans, exact=False)
        if any(abs(probe.share(limit)) < NEAR for limit in self.limits):
            probe = self._evaluate(index, value, plans, exact=True)
        self.probes[index] = probe
        return probe

    def _evaluate(self, index: int, value: Number, plans: Sequence[Plan], exact: bool) -> Probe:
        meant, values = self.evaluator.values(plans, exact)
        number = values[self.domain.measure] if self.domain.rows else value
        return Probe(index, value, number, meant, values, broken(values, self.limits), exact)

    def confirm(self, probe: Probe) -> Probe:
        """The same with exact values, which replace the estimates."""
        if not probe.exact:
            probe = self._evaluate(probe.index, probe.value, (probe.plan,), exact=True)
            self.probes[probe.index] = probe
        return probe

    def first_valid(self, indices: Iterable[int]) -> Probe | None:
        return next(filter(None, map(self.probe, indices)), None)

    def start(self) -> Probe:
        """The valid value nearest to the plan's own.

        Raises:
            PlanError: there is none near it; what is wrong with the nearest.
        """
        aim = self.domain.start
        found = self.nearest_valid(aim, aim - MOST_SKIPS, aim + MOST_SKIPS)
        if found is None:
            none = PlanError(Fault(f"no value of {self.domain.key}"))
            raise next(iter(self.faults.values()), none)
        return found

    def beyond(self, index: int, toward: int) -> Probe | None:
        """The first valid value from an index on, in one direction, not too far away."""
        return self.first_valid(index + toward * skip for skip in range(MOST_SKIPS))

    def end_of(self, row: Iterable[int]) -> Probe | None:
        """The first valid value of a row of the domain, not too far in."""
        return self.first_valid(islice(row, MOST_SKIPS))

    def nearest_valid(self, aim: int, low: int, high: int) -> Probe | None:
        """The valid value nearest to an index, strictly between two others."""
        low, high = sorted((low, high))
        near = (aim + sign * skip for skip in range(high - low) for sign in (1, -1))
        return self.first_valid(index for index in near if low < index < high)

    def all(self) -> bool:
        """Probe the whole domain where it is small; whether it is."""
        last = self.domain.last
        if last is None or last - self.domain.first >= FEW:
            return False
        for index in range(self.domain.first, last + 1):
            self.probe(index)
        return True

    def forget_broken(self) -> None:
        """Forget what broke a limit or was no valid plan: the evaluator knows more now."""
        self.probes = {i: p for i, p in self.probes.items() if p is not None and not p.broken}
        self.faults = {}

    @property
    def known(self) -> list[Probe]:
        return sorted((p for p in self.probes.values() if p), key=lambda p: p.index)


def narrow(
    search: Probes, inside: Probe, outside: Probe, limits: tuple[Limit, ...] = ()
) -> tuple[Probe, Probe]:
    """To neighbours among the valid values, of which one keeps the limits (the question's, or
    others) and one does not: by interpolation and by halves, in turns."""
    limits = limits or search.limits
    for halve in cycle((False, True)):
        width = outside.index - inside.index
        fails = broken(outside.values, limits)
        lines = (inside.slack(li) / (inside.slack(li) - outside.slack(li)) for li in fails)
        aim = inside.index + int(width / 2 if halve else min(lines) * width)
        probe = search.nearest_valid(aim, inside.index, outside.index)
        if probe is None:
            break
        inside, outside = (inside, probe) if broken(probe.values, limits) else (probe, outside)
    return inside, outside
