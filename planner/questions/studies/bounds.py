"""Lowest and highest value that published runs leave open to what a study records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.questions.studies.study import Study
from planner.results import intervals

Array = NDArray[Any]
#: How measured values compare with predicted ones, at the 5th and the 95th percentile.
Shares = tuple[Any, Any]
NONE: Shares = (np.nan, np.nan)
#: All quantities that rest on the time of a step have its shares.
STEP = "time.step_seconds"


def bounded(study: Study) -> tuple[str, ...]:
    """The recorded quantities that may have an interval."""
    return tuple(name for name in study.record if intervals.rests_on(name))


def needed(study: Study) -> tuple[str, ...]:
    """The quantities that their intervals rest on."""
    return tuple(other for name in bounded(study) for other in intervals.rests_on(name))


def readings(study: Study) -> tuple[str, ...]:
    """Quantities, the shares of which are those of all."""
    return tuple(dict.fromkeys((intervals.PROCESS, *map(_reading, bounded(study)))))


def _reading(quantity: str) -> str:
    if quantity == intervals.HEADROOM:
        return intervals.PROCESS
    return quantity if intervals.scales_with(quantity) == "memory" else STEP


def shares(study: Study, settings: Mapping[str, Any]) -> dict[str, Shares]:
    """The shares of each of ``readings`` under a plan's settings; NaN where it has no interval."""
    found = {}
    for reading in readings(study):
        basis = intervals.basis(reading, settings)
        found[reading] = NONE if basis is None else (float(1 + basis.low), float(1 + basis.high))
    return found


def stacked(study: Study, plans: Sequence[Mapping[str, Shares]]) -> dict[str, Shares]:
    """The shares of several plans, each as arrays (plans,)."""
    found = {}
    for reading in readings(study):
        lows, highs = zip(*(plan[reading] for plan in plans), strict=True)
        found[reading] = np.array(lows), np.array(highs)
    return found


def ends(
    study: Study, numbers: Mapping[str, Array], of_readings: Mapping[str, Shares]
) -> dict[str, Array]:
    """``ID.low`` and ``ID.high`` of what is recorded and may have an interval; NaN where it has
    none. Arrays are (dimension, …), as of ``points.Values``, and broadcast to each other."""
    found = {}

    def other(name: str) -> Array:
        """Another quantity, as (dimension, …), 0 where it is absent."""
        return np.nan_to_num(numbers[name])

    for name in bounded(study):
        value, (low, high) = numbers[name], of_readings.get(_reading(name), NONE)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[f"{name}.low"], found[f"{name}.high"] = (
                np.where(np.isnan(value + low), np.nan, end)
                for end in intervals.bounds(name, value, other, low, high, np.minimum, np.maximum)
            )
    return found
