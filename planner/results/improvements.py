"""Plans near a plan that are better: changes that make one fit, and layouts that are faster.

Safe means that the 95th percentile fits, and what lies on the host (``_measure_slack``). Every
change is a plan of its own, evaluated like any other. If a plan is not safe, single changes that
make it so are ranked by the predicted time, even if the plan assumes a utilisation, or, without a
prediction, by how much they interfere: sharding states costs least, activation checkpointing costs
another forward pass, another optimizer changes the training. A safe plan gets faster safe layouts
by hill climbing: the result is better than the plan, not the best there is; ``plan.py search``
finds that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from planner.base.errors import PlanError
from planner.documents.stacks import KIND
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, KERNELS, KEYS
from planner.plans.plan import reset_derived, variant
from planner.results.inputs import find_origin
from planner.results.intervals import get_or_zero
from planner.results.moves import Move, evaluate_near, list_moves
from planner.results.verdict import FITS, SURE

PARTS = ("weights", "gradients", "optimizer", "activations", "buffers")
#: Free memory of the fullest device.
HEADROOM = "memory.headroom"
STEP, ADAPTERS = "time.step_seconds", "training.lora.rank"
SPEED, COST = "time.tokens_per_second", "cost.total"  # 0 where nothing predicts them
#: The most changes combined if no single one is enough.
TOGETHER = 2
#: The most changes that make a plan safe or a layout faster, and steps of hill climbing.
MOST_CHANGES, MOST_STEPS = 3, 4
#: Smallest relative gain of a step: predictions differ by more for other reasons.
WORTH = 0.01


def measure_stack(plan: Plan) -> list[tuple[str, Fraction]]:
    """Measure what the settings of a plan's stack, and those that a search chose of it, save: for
    each that a run may do without, what it would do then and by which share its step would be
    longer, the largest first."""
    base = Evaluation(instance.build(plan), exact=False)
    here, found = Fraction(base.get_values((STEP,))[STEP]), []
    for move in list_moves():
        chosen = move.key not in KEYS and move.key in (plan.searched or {}).get("vary", ())
        if move.otherwise and (chosen or find_origin(plan, move.key)[0] == KIND):
            for changes in move.yield_changes(plan):
                with suppress(PlanError, Absent):
                    evaluation = evaluate_near(base, variant(plan, changes), (STEP,), exact=False)
                    longer = Fraction(evaluation.get_values((STEP,))[STEP]) / here - 1
                    found.append((move.words, longer))
    return sorted((row for row in found if row[1] >= WORTH), key=lambda row: -row[1])


class Remedy(NamedTuple):
    """Changes of a plan, by dotted key, with their effect."""

    changes: Mapping[str, Any]
    headroom: float  # bytes left on the fullest device
    at_worst: float  # bytes left there at worst, none of them below zero
    slowdown: float | None  # predicted tokens per second of the plan over those with the changes;
    # None where nothing predicts them
    rank: int  # how much it interferes, low first
    cost: float  # of the run in USD; 0 where nothing predicts it

    def to_json(self) -> dict[str, Any]:
        return {
            "set": dict(self.changes),
            "headroom": self.headroom,
            "at_worst": self.at_worst,
            "slowdown": self.slowdown,
        }


#: Trials times parts of the model (embedding, layer kinds, head), several stages counted.
MOST_WORK = 120


class Advice(NamedTuple):
    """The missing memory, its largest part, and the changes that help (the cheapest first)."""

    missing: float  # bytes, at worst
    decides: str  # id of the quantity that is largest at the peak
    remedies: tuple[Remedy, ...]

    def to_json(self) -> dict[str, Any]:
        safer = [remedy.to_json() for remedy in self.remedies]
        return {"missing": self.missing, "decides": self.decides, "safer": safer}


def find_fixes(plan: Plan, lacking: float = 0) -> Advice | None:
    """Find the cheapest changes that make a plan safe.

    Args:
        plan: the plan.
        lacking: bytes that a run of the plan lacked, which a change must free besides.

    Returns:
        None if the plan is safe already, or if a model given by its size only does not decide that.
    """
    with suppress(PlanError):  # the hardware may lack what a prediction needs
        plan = variant(plan, {"time.mfu": None})  # so that changes are compared by prediction
    evaluation = Evaluation(instance.build(plan))
    try:
        headroom = _measure_slack(evaluation)
        parts = {f"memory.{part}": evaluation.value(f"memory.{part}") for part in PARTS}
    except Absent:
        return None
    if headroom >= 0 and not lacking:
        return None
    least = max(0.0, headroom + lacking)
    now = float(get_or_zero(SPEED, evaluation))
    found: list[Remedy] = []
    moves = [(move.frees, move) for move in list_moves() if move.frees is not None]
    candidates = [(rank, one) for rank, move in moves for one in move.yield_changes(plan)]
    # Each trial evaluates the whole model: one of many kinds on many distinct stages gets few.
    sizes = (evaluation.case.axes[name] for name in ("part", "stage"))
    kinds, stages = (0 if isinstance(axis, Absent) else len(axis) for axis in sizes)
    trials = MOST_WORK // max(kinds * (1 + stages // 4), 1)
    for size in range(1, TOGETHER + 1):
        for chosen in combinations(candidates, size):
            changes = {key: value for _, change in chosen for key, value in change.items()}
            two_values = len(changes) < sum(len(change) for _, change in chosen)  # for one key
            if two_values or any(one.changes.items() <= changes.items() for one in found):
                continue  # of what is enough, more is not tried
            trials -= 1
            if trials < 0:
                break
            remedy = _try_changes(evaluation, plan, changes, now, sum(rank for rank, _ in chosen))
            if remedy is not None and remedy.at_worst >= least:
                found.append(remedy)
        if len(found) >= MOST_CHANGES:
            break
    # All weights before adapters, one change before two; then by speed, or by how much they
    # interfere.
    found.sort(
        key=lambda one: (
            ADAPTERS in one.changes,
            len([value for value in one.changes.values() if value is not None]),
            one.rank if one.slowdown is None else one.slowdown,
            one.rank,
        )
    )
    decides = max(parts, key=lambda part: parts[part])
    return Advice(least - headroom, decides, tuple(found[:MOST_CHANGES]))


def _measure_slack(evaluation: Evaluation) -> float:
    """Return the bytes that are left at worst, on the device or the host; a plan is safe if they
    are not negative."""
    return float(min(evaluation.value(name) for name in (SURE, FITS)))


def _try_changes(
    like: Evaluation, plan: Plan, changes: Mapping[str, Any], now: float, rank: int
) -> Remedy | None:
    """Evaluate the plan with these changes; return None if it is invalid or not safe."""
    try:
        evaluation = evaluate_near(
            like, variant(plan, changes), (HEADROOM, FITS, SURE, SPEED, COST)
        )
        headroom = float(evaluation.value(HEADROOM))
        at_worst = float(evaluation.value(SURE))
    except (PlanError, Absent):
        return None
    if _measure_slack(evaluation) < 0:
        return None
    then = float(get_or_zero(SPEED, evaluation)) if now else 0.0
    cost = float(get_or_zero(COST, evaluation)) if then else 0.0
    return Remedy(dict(changes), headroom, at_worst, now / then if then else None, rank, cost)


class Nearby(NamedTuple):
    """A plan that differs in some keys of its layout, and its values of some quantities."""

    changes: Mapping[str, Any]  # by dotted key; None resets a key that the document sets
    plan: Plan
    values: Mapping[str, Any]

    @property
    def chosen(self) -> dict[str, Any]:
        """The keys that the layout differs in, without what follows from them."""
        keys = dict.fromkeys(move.key for move in list_faster() if move.key in self.changes)
        single = self.plan.get("parallelism.tensor") == 1
        return {k: self.changes[k] for k in keys if not (single and k == "parallelism.sequence")}


@cache
def list_faster() -> tuple[Move, ...]:
    """List the moves that may save time, in the order of the columns of a layout."""
    faster = [move for move in list_moves() if move.faster]
    return tuple(move for row in COLUMNS for move in faster if move.key == row.key)


def find_faster(
    plan: Plan, quantities: tuple[str, ...] = (), like: Evaluation | None = None
) -> list[Nearby]:
    """Find the fastest safe plan with one change, with two and with three, each faster than the one
    before; none if no nearby plan is faster, or if time is not predicted.

    Args:
        plan: a safe one whose time is predicted.
        quantities: further quantities to evaluate of each.
        like: an evaluation of the plan, whose graph is reused.
    """
    quantities = (STEP, FITS, SURE, *quantities)
    base = Evaluation(like.case if like else instance.build(plan), like=like, exact=False)
    try:
        here, best = Nearby({}, plan, base.get_values(quantities)), dict[int, Nearby]()
    except PlanError:
        return []
    tried, stands = set[frozenset[tuple[str, Any]]](), base
    for _ in range(MOST_STEPS):
        fastest, there = here, stands
        for changes, other in _yield_moves(plan, here):
            at_values = frozenset(changes.items())
            if at_values in tried:
                continue
            tried.add(at_values)
            with suppress(PlanError):
                evaluation = evaluate_near(stands, other, quantities, exact=False)
                if _measure_slack(evaluation) < 0:  # cheaper to evaluate, so it goes first
                    continue
                found = Nearby(changes, other, evaluation.get_values(quantities))
                many = len(found.chosen)
                if not 0 < many <= MOST_CHANGES:
                    continue
                if many not in best or found.values[STEP] < best[many].values[STEP]:
                    best[many] = found
                if found.values[STEP] < fastest.values[STEP]:
                    fastest, there = found, evaluation
        if fastest.values[STEP] > here.values[STEP] * (1 - WORTH):
            break
        here, stands = fastest, stands if there.sealed else there
    rows, before = list[Nearby](), base.value(STEP)
    for many in sorted(best):
        if best[many].values[STEP] <= before * (1 - WORTH):
            rows.append(best[many])
            before = best[many].values[STEP]
    return rows


def _yield_moves(plan: Plan, here: Nearby) -> Iterator[tuple[dict[str, Any], Plan]]:
    """Yield each plan one move from the current one, with its changes of the original plan."""
    for move in list_faster():
        for moved in move.yield_changes(here.plan):
            changes = {**here.changes, **reset_derived(plan), **moved}
            if moved[move.key] == plan.get(move.key):
                del changes[move.key]
            with suppress(PlanError):
                other = variant(plan, changes)
                if other.get(KERNELS) != plan.get(KERNELS):
                    changes[KERNELS] = plan.get(KERNELS)  # all else stays
                    other = variant(plan, changes)
                yield changes, other
                break  # the other values are further away
