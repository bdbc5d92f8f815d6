"""Lowest and highest value that published runs leave open to what a study records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.questions.studies.study import Study
from planner.results import intervals

Array = NDArray[Any]
NONE = (np.nan, np.nan)


def bounded(study: Study) -> tuple[str, ...]:
    """The recorded quantities that may have an interval."""
    return tuple(name for name in study.record if intervals.rests_on(name))


def needed(study: Study) -> tuple[str, ...]:
    """The quantities that intervals rest on."""
    names = (*bounded(study), intervals.PROCESS)
    return tuple(other for name in names for other in intervals.rests_on(name))


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

    @cache
    def shares(reading: str) -> tuple[Array, Array]:
        """How measured values compare with predicted ones, at the 5th and the 95th percentile, each
        as (dimension, …)."""
        several = [intervals.basis(reading, one) for one in settings]
        known = [NONE if b is None else (float(1 + b.low), float(1 + b.high)) for b in several]
        low, high = np.array([*known, NONE]).T
        return low[of_kind], high[of_kind]

    def other(name: str) -> Array:
        """Another quantity, as (dimension, …), 0 where it is absent."""
        return np.nan_to_num(numbers[name])

    found = {}
    for name in dict.fromkeys((*bounded(study), intervals.PROCESS)):
        value, (low, high) = numbers[name], shares(_reading(name))
        with np.errstate(invalid="ignore", divide="ignore"):
            found[f"{name}.low"], found[f"{name}.high"] = (
                np.where(np.isnan(value + low), np.nan, end)
                for end in intervals.bounds(name, value, other, low, high, np.minimum, np.maximum)
            )
    return found


def _reading(quantity: str) -> str:
    """A quantity whose measured values tell about another: all that rest on the time of a step have
    its shares."""
    if quantity == intervals.HEADROOM:
        return intervals.PROCESS
    return quantity if intervals.scales_with(quantity) == "memory" else "time.step_seconds"
