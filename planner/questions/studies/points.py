"""The points of a study: what is asked of them, and what one is worth exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.plans.layout import KERNELS, KEYS, stated
from planner.plans.plan import chosen_by
from planner.questions.studies import bounds
from planner.questions.studies.study import Study

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
#: The key along which charts go, where it varies.
DEVICES = "cluster.devices"


@dataclass
class Values:
    """Quantities of the points of a piece, in arrays (dimension, …): an axis for each dimension of
    the study, as long as the piece's or of length 1."""

    numbers: dict[str, Array]  # of quantities and ends of intervals: float64, NaN where absent
    words: dict[str, Array]  # of quantities that are names, the layout found, the reason: objects
    valid: Array  # False where the values do not go together


def wanted(study: Study) -> tuple[str, ...]:
    """The quantities that a study needs at each point."""
    limits = (limit.quantity for limit in study.where)
    return tuple(dict.fromkeys((*study.record, *limits, *COMPARED, *bounds.needed(study))))


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


@dataclass(frozen=True)
class Point:
    """One point evaluated exactly."""

    plan: Plan | None  # None: the values do not go together
    values: Mapping[str, Any]
    absent: Mapping[str, str]  # why a quantity has no value
    reason: str = ""  # why there is no plan
    layout: str = ""
    settings: Mapping[str, Any] | None = None  # what formulas ask for


def exact(study: Study, places: Sequence[int], quantities: Sequence[str]) -> Point:
    """A point as the plan by itself would be evaluated."""
    try:
        plan = study.plan_at(places)
    except PlanError as error:
        return Point(None, {}, {}, why(error))
    evaluation = Evaluation(case.build(plan))
    values: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for quantity in quantities:
        try:
            values[quantity] = evaluation.value(quantity)
        except Absent as error:
            absent[quantity] = error.reason
    layout = words(plan) if study.searches_at(places) else ""
    return Point(plan, values, absent, "", layout, evaluation.case.settings)


def missing(study: Study, absent: Mapping[str, str]) -> str:
    """Why recorded quantities have no value, in one cell of a table."""
    by_reason: dict[str, list[str]] = {}
    for quantity in study.record:
        if quantity in absent:
            by_reason.setdefault(absent[quantity], []).append(quantity)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
