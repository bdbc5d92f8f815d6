"""The points of a study: what is asked of them, what one is worth by itself, and what published
runs leave open of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, KEYS, stated
from planner.plans.plan import chosen_by
from planner.questions.studies.study import Study
from planner.results import intervals

Array = NDArray[Any]
DAYS = "time.training_days"
COST = "cost.total"
MEMORY = "memory.process"
FITS, SURE = "memory.headroom", "memory.headroom_p95"
USE = "time.mfu"
#: The quantities that a comparison asks of every point, recorded or not.
COMPARED = (DAYS, COST, MEMORY, FITS, SURE, USE)
#: The texts of a point besides names: the layout that was found, and why something is absent.
LAYOUT_FOUND, REASON = "layout", "reason"
#: The interval of what has none.
NONE = (np.nan, np.nan)
#: The key along which charts go, where it varies.
DEVICES = "cluster.devices"


def wanted(study: Study) -> tuple[str, ...]:
    """The quantities that a study needs at each point, those that intervals rest on among them."""
    limits = (limit.quantity for limit in study.where)
    bases = (base for name in _bounded(study) for base in intervals.rests_on(name))
    return tuple(dict.fromkeys((*study.record, *limits, *COMPARED, *bases)))


def is_name(quantity: str) -> bool:
    """Whether the value of a quantity is a word rather than a number."""
    return not BOOK.quantities[quantity].unit


def why(error: PlanError) -> str:
    """The faults of a point in one cell of a table."""
    return "; ".join(fault.message for fault in error.faults)


def words(plan: Plan) -> str:
    """The layout of a plan in one cell of a table, without what is off."""
    searched = KERNELS in plan.derived and chosen_by(plan, KERNELS)
    keys = (*KEYS, KERNELS) if searched else KEYS
    return " ".join(
        f"{row.heading.replace(' ', '_').replace('-', '_')}={str(value).lower()}"
        for row, value in stated(plan.get, keys)
        if value != row.neutral or row.key == "training.micro_batch"
    )


def worth(plan: Plan, quantities: Iterable[str]) -> dict[str, Any]:
    """What some quantities of a plan are worth, by itself and exactly; an ``Absent`` with its
    reason where one has no value."""
    evaluation = Evaluation(case.build(plan))
    return {name: evaluation.worth(evaluation.instance(name, {})) for name in quantities}


def missing(values: Mapping[str, Any]) -> str:
    """Why quantities have no value, in one cell of a table."""
    by_reason: dict[str, list[str]] = {}
    for name, value in values.items():
        if isinstance(value, Absent):
            by_reason.setdefault(value.reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())


def bounded(study: Study) -> tuple[str, ...]:
    """The recorded quantities that may have an interval."""
    return tuple(name for name in study.record if intervals.rests_on(name))


def _bounded(study: Study) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*bounded(study), intervals.PROCESS)))


def ends(
    study: Study,
    numbers: Mapping[str, Array],
    settings: Sequence[Mapping[str, Any]],
    of_kind: Array,
) -> dict[str, Array]:
    """``ID.low`` and ``ID.high`` of memory in use and of what is recorded and may have an interval,
    as arrays (dimension, …); NaN where it has none.

    Args:
        numbers: the quantities, as (dimension, …); all broadcast to each other.
        settings: of each kind of plans.
        of_kind: which of these each plan is of, as (dimension, …); -1 of none.
    """

    def other(name: str) -> Array:
        """Another quantity, as (dimension, …), 0 where it is absent."""
        return np.nan_to_num(numbers[name])

    found = {}
    for name in _bounded(study):
        several = (intervals.basis(name, one) for one in settings)
        known = [NONE if b is None else (float(1 + b.low), float(1 + b.high)) for b in several]
        # How measured values compare with predicted ones, each as (dimension, …).
        low, high = np.array([*known, NONE]).T[:, of_kind]
        value = numbers[name]
        with np.errstate(invalid="ignore", divide="ignore"):
            found[f"{name}.low"], found[f"{name}.high"] = (
                np.where(np.isnan(value + low), np.nan, end)
                for end in intervals.bounds(name, value, other, low, high, np.minimum, np.maximum)
            )
    return found
