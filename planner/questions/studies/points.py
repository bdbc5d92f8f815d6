"""The points of a study: what is asked of them, and what one is worth by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
