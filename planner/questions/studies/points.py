"""What the points of a study are worth: exactly, one plan after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.questions.studies import bounds
from planner.questions.studies.automatic import automatic, words
from planner.questions.studies.compared import COMPARED
from planner.questions.studies.study import Study

Array = NDArray[Any]


@dataclass
class Values:
    """Quantities of the points of a piece. An array is flat, in the order of the points, or has
    the dimensions of the piece and broadcasts to it."""

    numbers: dict[str, Array]  # float64, NaN where absent; an array of objects for names
    valid: Array  # False where the values do not go together
    reasons: Array  # places in ``texts``; 0 where there is nothing to say
    texts: list[str] = field(default_factory=lambda: [""])
    layouts: list[str] | Array | None = None  # those that were found, where that was asked for
    # of each reading, how measured values compare with predicted ones (bounds.py)
    shares: Mapping[str, bounds.Shares] = field(default_factory=dict)

    def reason(self, text: str) -> int:
        """The place of a text."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)


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
    layout = words(plan) if automatic(study, places) else ""
    return Point(plan, values, absent, "", layout, evaluation.case.settings)


def evaluate(study: Study, ranges: Sequence[range]) -> Values:
    """The points of a piece, one by one."""
    quantities = wanted(study)
    size = math.prod(map(len, ranges))
    numbers = {
        q: np.full(size, None, dtype=object) if is_name(q) else np.full(size, np.nan)
        for q in quantities
    }
    into = Values(numbers, np.zeros(size, dtype=bool), np.zeros(size, dtype=np.int64))
    layouts = [""] * size
    shares = [dict.fromkeys(bounds.readings(study), bounds.NONE)] * size
    for index, places in enumerate(product(*ranges)):
        point = exact(study, places, quantities)
        into.valid[index] = point.plan is not None
        for quantity, value in point.values.items():
            numbers[quantity][index] = value
        into.reasons[index] = into.reason(point.reason or missing(study, point.absent))
        layouts[index] = point.layout
        if point.settings is not None:
            shares[index] = bounds.shares(study, point.settings)
    into.shares = bounds.stacked(study, shares)
    into.layouts = layouts if study.searches else None
    return into


def missing(study: Study, absent: Mapping[str, str]) -> str:
    """Why recorded quantities have no value, in one cell of a table."""
    by_reason: dict[str, list[str]] = {}
    for quantity in study.record:
        if quantity in absent:
            by_reason.setdefault(absent[quantity], []).append(quantity)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
