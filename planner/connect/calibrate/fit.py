"""Rates fitted to measured steps: shipped values drawn to what runs say, by how much they say.

A rate is a share (of a peak, a bandwidth, a link) that runs sustain, or another fact of that kind.
All moves are of logarithms. A rate of one laboratory lies around the shipped one as a normal
variable (``Kind.between`` says how far laboratories are apart), the logarithm of a measured time
around the predicted one as one run lies from another of the same laboratory (``Kind.within``). The
fit is the most likely set of rates under both (maximum a posteriori), found by Gauss-Newton steps
with the exact derivatives of predicted time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.base import units
from planner.book.expressions import Symbol
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine import instance
from planner.engine.evaluate import Evaluation
from planner.engine.run import slopes
from planner.plans import hardware
from planner.plans.document import Plan

Array = NDArray[np.float64]
STEP = "time.step_seconds"
#: Rates that are fitted, at most; and the share of what rates explain below which one stays.
MOST, LEAST = 5, 0.01
#: What the scatter of all laboratories counts as beside that of one's own, in runs
#: (benchmarks/spread.py counts it as as many sources).
PRIOR = 2
#: Ends of an interval: 5 % of what is drawn lie above it, as many below.
SHARE = 0.05
NORMAL = NormalDist().inv_cdf(1 - SHARE)
#: Rounds in which the scatter of the runs is found, at most, and the change of it that is none.
ROUNDS, SAME = 8, 0.03
#: Gauss-Newton steps at most, and the move of a logarithm that is none.
STEPS, SETTLED = 8, 1e-4


def find_quantile(share: float, freedom: float) -> float:
    """Compute a quantile of Student's distribution (Abramowitz & Stegun 1964, 26.7.5)."""
    x = NormalDist().inv_cdf(share)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    return x + sum(term / freedom**power for power, term in enumerate(terms, start=1))


class Rate(NamedTuple):
    """A rate that predicted time rests on. Documents that state the same fact have the same rate.

    Attributes:
        name: its key in the ``efficiency`` of an accelerator.
        value: its value; a share of the datasheet's figure, or seconds.
        interval: the ends of its 90 % interval.
        rows: the measurements that it rests on, in words.
        least, most: the bounds that the schema gives it.
    """

    name: str
    value: float
    interval: tuple[float, float]
    rows: str
    least: float
    most: float

    @property
    def variance(self) -> float:
        """Compute the variance of the rate's logarithm from its interval."""
        low, high = self.interval
        low = low or self.value**2 / high  # as far below as above
        return (math.log(high / low) / 2 / NORMAL) ** 2


@dataclass(frozen=True)
class Run:
    """A measured step: what the book computes for it, over rates that can be moved.

    Attributes:
        name: what tables call it.
        evaluation: the plan, evaluated in floats.
        places: each rate with a symbol that it scales; a rate may have several.
        measured: seconds of a typical step.
    """

    name: str
    evaluation: Evaluation
    places: Sequence[tuple[Rate, Symbol]]
    measured: float

    def move_rates(self, factors: Mapping[Rate, float]) -> Evaluation:
        """Evaluate the run where rates are so many times what they are."""
        given = self.evaluation.case
        held = {symbol: factors.get(rate, 1.0) for rate, symbol in self.places}
        moved = {symbol: float(given.bindings[symbol]) * by for symbol, by in held.items()}
        there = replace(given, bindings={**given.bindings, **moved})
        return self.evaluation.rerun(there, False) or Evaluation(there, exact=False)

    def predict_step(self, factors: Mapping[Rate, float]) -> float:
        """Predict the time of a step, s, where rates are so many times what they are."""
        return float(self.move_rates(factors).value(STEP))

    def find_slopes(self, factors: Mapping[Rate, float]) -> tuple[float, dict[Rate, float]]:
        """Compute predicted seconds, and d log seconds / d log rate for each rate."""
        moved = self.move_rates(factors)
        seconds, place = float(moved.value(STEP)), moved.instance(STEP, {})
        found, rate_of = dict[Rate, float](), {symbol: rate for rate, symbol in self.places}
        for leaf, slope in slopes(moved.graph.nodes, moved.values, place).items():
            symbol = moved.graph.nodes[leaf][1][0]
            if symbol in rate_of:
                share = float(slope) * float(moved.values[leaf]) / seconds
                found[rate_of[symbol]] = found.get(rate_of[symbol], 0.0) + share
        return seconds, found


def run_of(plan: Plan, measured: float, name: str = "", like: Evaluation | None = None) -> Run:
    """Build the run of a plan, over all rates that it rests on but those that it states itself.

    Args:
        plan: the plan of the run.
        measured: seconds of its typical step.
        name: what tables call it; the plan's name unless given.
        like: an evaluation to share the graph with, if the structures agree.

    Returns:
        The run, evaluated in floats.
    """
    evaluation = Evaluation(instance.build(plan), like=like, exact=False)
    evaluation.value(STEP)
    nodes = evaluation.graph.nodes
    rests_on = evaluation.graph.list_needed([evaluation.instance(STEP, {})])
    asked = {nodes[place][1][0] for place in rests_on if nodes[place][0] == "input"}
    places, symbols = [], {note.key: note.symbol for note in BOOK.notation.values()}
    for key, (title, fact, _, _) in hardware.find_efficiency(plan).items():
        path = f"time.efficiency.{key}"
        symbol = symbols[path]
        if symbol in asked and path in plan.derived and evaluation.case.bindings[symbol]:
            places.append((_build_rate(title, path, fact), symbol))
    return Run(name or plan.name, evaluation, places, measured)


def _build_rate(name: str, path: str, fact: Mapping[str, Any]) -> Rate:
    """Build a rate from a fact of an accelerator.

    Args:
        name: its key in the ``efficiency`` of the accelerator.
        path: its key in a plan, from whose schema the bounds are read.
        fact: ``value``, ``interval`` if there is one, and ``rows``, as documents give them.
    """
    said = schema.describe("plan", path) or {}
    value, *ends = (
        float(units.parse(each, "s")) for each in (fact["value"], *(fact.get("interval") or ()))
    )
    low, high = ends or (value, value)
    least = float(said.get("minimum", 0))
    return Rate(name, value, (low, high), fact["rows"], least, float(said.get("maximum", math.inf)))


def solve_squares(
    jacobian: Array, residual: Array, weight: Array, precision: Array, low: Array, high: Array
) -> Array:
    """Minimise the weighted squares of ``residual + jacobian @ move`` (rows,) and those of the move
    itself, each times its precision (columns,), within bounds.

    Args:
        jacobian: derivatives (rows, columns).
        residual: what is left at no move (rows,).
        weight: of each row (rows,).
        precision: of each column's move (columns,).
        low: least moves (columns,).
        high: largest moves (columns,).

    Returns:
        The move (columns,).
    """
    move, free = np.zeros(jacobian.shape[1]), np.ones(jacobian.shape[1], bool)
    for _ in range(jacobian.shape[1] + 1):
        some = jacobian[:, free]
        target = residual + jacobian[:, ~free] @ move[~free]
        left = some.T @ (weight[:, None] * some) + np.diag(precision[free])
        move[free] = -np.linalg.solve(left, some.T @ (weight * target))
        beyond = free & ((move < low) | (move > high))
        if not beyond.any():
            break
        move, free = np.clip(move, low, high), free & ~beyond
    return move


@dataclass(frozen=True)
class RunScatter:
    """The scatter of published runs of one kind around their predictions.

    Attributes:
        within: the variance of the logarithm of the time within a laboratory.
        between: the same between laboratories.
        freedom: the degrees of freedom of these variances.
    """

    within: float
    between: float
    freedom: float


@dataclass(frozen=True)
class Fit:
    """The rates that the runs of a laboratory imply, and how well they predict these runs.

    Attributes:
        rates: the rates that were fitted.
        moves: (rates,) the logarithm of fitted over built-in value.
        prior: (rates,) the variance of that logarithm before the runs.
        covariance: (rates, rates) the covariance of the logarithms after the runs.
        before: (runs,) seconds predicted by the built-in rates.
        after: (runs,) seconds predicted by the fitted rates.
        without: (runs,) seconds predicted by a fit that leaves out all runs of the same plan.
        open: (runs,) the variance of the logarithm of each measured time around ``without``.
        noise: the variance within this laboratory over that within others, at least 1.
        layouts: the number of different plans among the runs.
    """

    rates: tuple[Rate, ...]
    moves: Array
    prior: Array
    covariance: Array
    before: Array
    after: Array
    without: Array
    open: Array
    noise: float
    layouts: int

    @property
    def predictions(self) -> dict[str, Array]:
        """Return predicted seconds (runs,) by what predicted them."""
        return {"shipped": self.before, "fitted": self.after, "left_out": self.without}

    def weigh_runs(self, place: int) -> float:
        """Compute the share of what is known of a rate that the runs contributed."""
        return float(1 - self.covariance[place, place] / self.prior[place])

    def find_rate(self, place: int, deviations: float = 0.0) -> float:
        """Compute a fitted rate, or so many standard deviations of its logarithm above it."""
        rate, deviation = self.rates[place], math.sqrt(self.covariance[place, place])
        value = rate.value * math.exp(float(self.moves[place]) + deviations * deviation)
        return min(max(value, rate.least), rate.most)


def fit_rates(runs: Sequence[Run], kinds: Sequence[RunScatter], allowed: Sequence[Rate]) -> Fit:
    """Fit the rates on which the times of runs depend most.

    What lies between two runs of a laboratory is mostly how far each layout is from the
    formulas, which several runs of one plan share: together they count as one run.

    Args:
        runs: measured runs.
        kinds: the scatter of published runs like each of them.
        allowed: the rates that may move.

    Returns:
        The fit, whose rates are at most ``MOST`` of those allowed.
    """
    before, jacobian = derive_times(runs, allowed, {})
    between = np.array([kind.between for kind in kinds])
    varies = np.array([rate.variance for rate in allowed]) + between.mean()
    explains = (jacobian**2).sum(axis=0) * varies
    order = np.argsort(-explains, kind="stable")[:MOST]
    chosen = [i for i in sorted(order) if explains[i] > LEAST * explains.sum()]
    rates = tuple(allowed[i] for i in chosen)
    # Rates of laboratories lie so far apart that the times of these runs do as published ones.
    shares = (jacobian[:, chosen] ** 2).sum(axis=1)
    apart = float(between.mean() / max(shares.mean(), 1e-9))
    prior = np.array([rate.variance for rate in rates]) + apart
    within = np.array([kind.within for kind in kinds])
    once = 1 / (before[:, None] == before).sum(axis=1)  # over the runs of each one's plan
    noise, last = 1.0, 1.0
    for _ in range(ROUNDS):
        found = _fit_once(runs, rates, prior, within * noise, before)
        off = np.log([run.measured for run in runs]) - np.log(found.without)
        # Which part of each miss is scatter of the run itself, expected (an EM step).
        part = within * noise / found.open
        scatter = (once * ((part * off) ** 2 / within + noise * (1 - part))).sum()
        last, noise = noise, max(1.0, float(PRIOR + scatter) / (PRIOR + found.layouts))
        if abs(noise - last) < SAME * noise:
            break
    return replace(found, noise=last)


def derive_times(
    runs: Sequence[Run], rates: Sequence[Rate], factors: Mapping[Rate, float]
) -> tuple[Array, Array]:
    """Predict the times of runs and differentiate them.

    Args:
        runs: measured runs.
        rates: the rates that move.
        factors: by how much each moves; one that is not named stays.

    Returns:
        Predicted seconds (runs,) and the derivatives of their logarithms (runs, rates).
    """
    found = [run.find_slopes(factors) for run in runs]
    rows = [[slopes.get(rate, 0.0) for rate in rates] for _, slopes in found]
    return np.array([seconds for seconds, _ in found]), np.array(rows)


def _fit_once(
    runs: Sequence[Run], rates: tuple[Rate, ...], prior: Array, noise: Array, before: Array
) -> Fit:
    """Fit rates for fixed variances, by Gauss-Newton steps within the bounds of the rates.

    Args:
        runs: measured runs.
        rates: the rates to fit.
        prior: (rates,) the variance of the logarithm of each.
        noise: (runs,) the variance of the logarithm of each measured time.
        before: (runs,) seconds predicted by the built-in rates; equal ones are of one plan, and
            together count as one run.

    Returns:
        The fit, with a ``noise`` of 1.
    """
    measured = np.log([run.measured for run in runs])
    with np.errstate(divide="ignore"):
        low = np.log([rate.least / rate.value for rate in rates])
    high = np.log([rate.most / rate.value for rate in rates])
    moves: Any = np.zeros(len(rates))
    alike = before[:, None] == before  # runs of one plan
    weight = 1 / noise / alike.sum(axis=1)
    for _ in range(STEPS):
        seconds, jacobian = derive_times(runs, rates, _map_factors(rates, moves))
        at_none, last = np.log(seconds) - measured - jacobian @ moves, moves
        moves = solve_squares(jacobian, at_none, weight, 1 / prior, low, high)
        if np.abs(moves - last).max(initial=0.0) < SETTLED:
            break
    without, open_ = [], []
    for place, run in enumerate(runs):
        rest = ~alike[place]
        others = jacobian[rest], at_none[rest], weight[rest]
        there = solve_squares(*others, 1 / prior, low, high)
        without.append(run.predict_step(_map_factors(rates, there)))
        own = jacobian[place]
        open_.append(noise[place] + own @ _find_covariance(others[0], others[2], prior) @ own)
    covariance = _find_covariance(jacobian, weight, prior)
    after = np.array([run.predict_step(_map_factors(rates, moves)) for run in runs])
    layouts = len(np.unique(before))
    left_out = np.array(without), np.array(open_)
    return Fit(rates, moves, prior, covariance, before, after, *left_out, 1.0, layouts)


def _map_factors(rates: Sequence[Rate], moves: Array) -> dict[Rate, float]:
    """Map rates to the factors that they change by."""
    return dict(zip(rates, np.exp(moves).tolist(), strict=True))


def _find_covariance(jacobian: Array, weight: Array, prior: Array) -> Array:
    """Compute the covariance of the logarithms of the rates, given the runs.

    Args:
        jacobian: (runs, rates) d log seconds / d log rate.
        weight: (runs,) the weight of each run, one over its variance.
        prior: (rates,) the variance of each logarithm before the runs.
    """
    said = jacobian.T @ (weight[:, None] * jacobian)
    return np.asarray(np.linalg.inv(said + np.diag(1 / prior)), np.float64)
