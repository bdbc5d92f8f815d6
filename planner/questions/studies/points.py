"""The points of a study: the quantities that they need, the values of one point by itself, their
intervals, and the points of a piece together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance
from planner.engine.arrays.table import Array
from planner.engine.evaluate import Absent
from planner.engine.in_turn import evaluate_case
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, KEYS, pick_shown
from planner.plans.plan import is_own_choice
from planner.questions.studies.study import DAYS, StudySpec
from planner.results import intervals
from planner.results.verdict import FITS, SURE, decide_state

COST = "cost.total"
HOURS = "time.device_hours"
MEMORY = "memory.process"
USE = "time.mfu"
#: The quantities that a comparison needs of every point, recorded or not.
COMPARED = (DAYS, COST, HOURS, MEMORY, FITS, SURE, USE)
#: The texts of a point besides names: the layout that was found, and why something is absent.
LAYOUT_FOUND, REASON = "layout", "reason"
#: The key on the x axis of charts, where it varies.
DEVICES = "cluster.devices"
#: Verdicts by code; None where there is no plan.
STATES = (None, "open", "no", "tight", "fits")
#: Codes by whether a point fits (unknown, no, yes), whether its model has a shape, and is safe.
_KNOWN = product((None, False, True), (False, True), (False, True))
_CODES = np.reshape([STATES.index(decide_state(*known)) for known in _KNOWN], (3, 2, 2))
#: Whole numbers up to here are exact in the arrays.
EXACT = 2**53


def list_needed(study: StudySpec) -> tuple[str, ...]:
    """List the quantities that a study needs at each point, those of intervals included."""
    limits = (limit.quantity for limit in study.where)
    bases = (base for name in (*list_bounded(study), MEMORY) for base in intervals.list_bases(name))
    return tuple(dict.fromkeys((*study.record, *limits, *COMPARED, *bases)))


def is_name(quantity: str) -> bool:
    """Decide whether the value of a quantity is a word, not a number; a plan's own are numbers."""
    return quantity in BOOK.quantities and not BOOK.quantities[quantity].unit


def join_faults(error: PlanError) -> str:
    """Join the faults of a point for one cell of a table."""
    return "; ".join(fault.message for fault in error.faults)


def write_layout(plan: Plan) -> str:
    """Format the layout of a plan for one cell of a table, without settings that are off."""
    searched = KERNELS in plan.derived and is_own_choice(plan, KERNELS)
    keys = (*KEYS, KERNELS) if searched else KEYS
    return " ".join(
        f"{row.heading.replace(' ', '_').replace('-', '_')}={str(value).lower()}"
        for row, value in pick_shown(plan.get, keys)
        if value != row.neutral or row.key == "training.micro_batch"
    )


def evaluate_point(plan: Plan, quantities: Iterable[str]) -> dict[str, Any]:
    """Evaluate some quantities of a plan, by itself and exactly; one without a value is an
    ``Absent`` with its reason."""
    evaluation = evaluate_case(instance.build(plan))
    return {name: evaluation.evaluate_node(evaluation.instance(name, {})) for name in quantities}


def explain_missing(values: Mapping[str, Any]) -> str:
    """Explain why quantities have no value, for one cell of a table."""
    by_reason: dict[str, list[str]] = {}
    for name, value in values.items():
        if isinstance(value, Absent):
            by_reason.setdefault(value.reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())


def list_bounded(study: StudySpec) -> tuple[str, ...]:
    """List the recorded quantities that may have an interval."""
    return tuple(name for name in study.record if intervals.list_bases(name))


def compute_ends(
    study: StudySpec,
    numbers: Mapping[str, Array],
    settings: Sequence[Mapping[str, Any]],
    of_kind: Array,
) -> dict[str, Array]:
    """Compute the ends of the intervals of memory in use and of recorded quantities that may have
    one.

    Args:
        study: the study, whose recorded quantities count.
        numbers: quantities by id, as (dimension, …); all broadcast to each other.
        settings: the settings of each kind of plans.
        of_kind: the kind of each plan, as (dimension, …); -1 for none.

    Returns:
        Arrays (dimension, …) by ``ID.low`` and ``ID.high``; NaN without an interval.
    """
    found, none = {}, (np.nan, np.nan)
    for name in dict.fromkeys((*list_bounded(study), MEMORY)):
        several = (intervals.find_basis(name, one) for one in settings)
        known = [none if b is None else (float(1 + b.low), float(1 + b.high)) for b in several]
        # Measured over predicted values at both ends, each as (dimension, …).
        low, high = np.array([*known, none]).T[:, of_kind]
        value = numbers[name]
        with np.errstate(invalid="ignore", divide="ignore"):
            both = intervals.compute_bounds(
                name, value, lambda n: np.nan_to_num(numbers[n]), low, high, np.minimum, np.maximum
            )
            for end, bound in zip(("low", "high"), both, strict=True):
                found[f"{name}.{end}"] = np.where(np.isnan(value + low), np.nan, bound)
    return found


@dataclass(frozen=True)
class Points:
    """The points of a piece, and which of them the table keeps.

    Arrays are (dimension, …), of length 1 along dimensions that change nothing; they broadcast to
    the shape of the piece.

    Attributes:
        study: the study.
        ranges: the places of the piece along each dimension.
        numbers: quantities and ends of intervals by name, float64; NaN where absent.
        words: texts by name: quantities that are names, the layout found, the reason.
        valid: False where the values of a point do not go together.
    """

    study: StudySpec
    ranges: Sequence[range]
    numbers: dict[str, Array]
    words: dict[str, Array]
    valid: Array

    @cached_property
    def holds(self) -> Array:
        """Which points are valid, and within the limits of the study, as (dimension, …)."""
        holds = self.valid
        for limit in self.study.where:
            with np.errstate(invalid="ignore"):
                holds = holds & limit.is_met(self.numbers[limit.quantity])
        return holds

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of places along each dimension."""
        return tuple(map(len, self.ranges))

    @cached_property
    def kept(self) -> Array:
        """Which points the table keeps, as (dimension, …) in full: those within the limits, and
        with their reason those that are no plan, unless the study drops them."""
        kept = self.holds | ~self.valid if self.study.keep_invalid else self.holds
        return np.broadcast_to(kept, self.shape)

    def __len__(self) -> int:
        return self.count_points(self.kept)

    def flatten_values(self, array: Array) -> Array:
        """Flatten the values of points, (dimension, …), to the rows (rows,) of the table."""
        found: Array = np.broadcast_to(array, self.shape)[self.kept]
        return found

    def count_points(self, true: Array) -> int:
        """Count the points of the piece at which ``true``, (dimension, …), is true."""
        return int(np.count_nonzero(np.broadcast_to(true, self.shape)))

    @cached_property
    def of_study(self) -> Array:
        """The numbers of the points in the study, as (dimension, …) in full."""
        return numbers_of(self.study, self.ranges)

    @cached_property
    def fits(self) -> Array:
        """1 where it fits, 0 where it does not, -1 where that is unknown, as (dimension, …)."""
        left = self.numbers[FITS]
        return np.where(np.isnan(left), -1, left >= 0).astype(np.int8)

    @cached_property
    def verdict(self) -> Array:
        """The indices into ``STATES``, as (dimension, …), by ``decide_state``."""
        safe = self.numbers[SURE] >= 0
        shaped = ~np.isnan(self.numbers[f"{MEMORY}.low"])  # a model of a size alone has none
        indices = np.broadcast_arrays(self.fits + 1, shaped.astype(int), safe.astype(int))
        return np.where(self.valid, _CODES[tuple(indices)], 0)

    @cached_property
    def deadline(self) -> Array:
        """Days within which a point is to be done, (dimension, …); infinite without a deadline."""
        days = np.array([float(one) for one in self.study.deadlines] or [np.inf])
        chosen = days[self.ranges[0]] if len(days) > 1 else days
        return chosen.reshape(-1, *[1] * (len(self.shape) - 1)) if self.shape else chosen

    @cached_property
    def whole(self) -> dict[str, bool]:
        """For each recorded number whether all its values in the table are exact integers."""
        numbers = [name for name in self.study.record if not is_name(name)]
        kept = {name: self.flatten_values(self.numbers[name]) for name in numbers}
        return {n: bool((is_whole(held) | np.isnan(held)).all()) for n, held in kept.items()}


def numbers_of(study: StudySpec, ranges: Sequence[range]) -> Array:
    """Return the study's numbers of the points at places along each dimension, (dimension, …)."""
    return np.asarray(np.ravel_multi_index(np.ix_(*ranges), study.shape))


def is_whole(numbers: Array) -> Array:
    """Return which numbers, of any shape, are exact integers."""
    found: Array = (np.rint(numbers) == numbers) & (np.abs(numbers) <= EXACT)
    return found
