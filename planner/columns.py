"""Many plans that differ in the values of some keys, evaluated at once.

A study and a plot ask for the same quantities at thousands of points. ``evaluate`` takes a plan and
a column of values for each key that differs, one value for each point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.document import Plan
from planner.errors import PlanError
from planner.plan import variant
from planner.solve import evaluated, known

Array = NDArray[Any]


@dataclass(frozen=True)
class Points:
    """Quantities at many points, in the order of the columns."""

    plan: Plan
    columns: Mapping[str, Sequence[Any]]
    values: Mapping[str, Array]  # float64 in the unit of the quantity; NaN where there is none
    valid: Array  # False where the changed plan is none; its values are NaN

    def plan_at(self, place: int) -> Plan:
        """The plan of one point.

        Raises:
            PlanError: it is not valid, with the faults that say why.
        """
        return variant(self.plan, {key: column[place] for key, column in self.columns.items()})


def evaluate(plan: Plan, columns: Mapping[str, Sequence[Any]], quantities: Sequence[str]) -> Points:
    """Quantities of a plan at many values of some of its keys.

    Args:
        plan: what the points have in common.
        columns: dotted keys of the plan, each with one value for every point: numbers in the unit
            of the key (an int or a Fraction where it matters that they are exact), names, or None
            for the key's default. A key of a layout follows the same rules as in ``plan.variant``:
            what was derived is derived again.
        quantities: ids that hold for the whole plan.

    Raises:
        PlanError: an unknown key or quantity, columns of different lengths.
    """
    for quantity in quantities:
        known(quantity)
    sizes = {len(column) for column in columns.values()}
    if len(sizes) > 1:
        raise ValueError("columns of different lengths")
    size = sizes.pop() if sizes else 1
    values = {name: np.full(size, np.nan) for name in quantities}
    valid = np.zeros(size, dtype=bool)
    for place in range(size):
        try:
            changed = variant(plan, {key: column[place] for key, column in columns.items()})
        except PlanError:
            continue
        valid[place] = True
        for name in quantities:
            try:
                values[name][place] = float(evaluated(changed, [name])[name])
            except PlanError:
                continue
    return Points(plan, columns, values, valid)
