"""The interval around a prediction: what published runs of its kind leave open.

The runs are those of ``planner.plans.error_bands``.

No interval crosses what physics allows: no step is faster than its FLOPs at the rate that large
products sustain, no memory is smaller than the states in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from planner.book.notation_hardware import e_mm
from planner.book.quantity import BOOK
from planner.engine.evaluate import Absent
from planner.plans import error_bands as bands

Value = int | Fraction | float


def interval(quantity: Any) -> tuple[Value, Value] | None:
    """Lowest and highest value that published runs leave open, of a quantity of
    ``planner.results.evaluated``; None for one that no published run is held against."""
    if quantity.absent is not None or isinstance(quantity.value, str):
        return None
    return around(quantity.base, quantity.number, quantity.result.evaluation)


def around(base: str, value: Value, evaluation: Any) -> tuple[Value, Value] | None:
    """As ``interval``, of a value of the quantity of that name in an evaluation."""
    settings = evaluation.case.settings
    if base == "memory.headroom":
        process = evaluation.value("memory.process")
        bounds = around("memory.process", process, evaluation)
        if bounds is None:
            return None
        return value + process - bounds[1], value + process - bounds[0]
    found, scaling = basis(base, settings), scales_with(base)
    if found is None:
        return None
    low, high = 1 + found.low, 1 + found.high
    if scaling == "memory":
        most = evaluation.value("memory.at_worst") if base == "memory.process" else value * high
        return min(value, max(value * low, states(evaluation))), most
    low = max(low, fastest(evaluation))
    return (value / high, value / low) if scaling == "rate" else (value * low, value * high)


def scales_with(base: str) -> str:
    """What published runs measure of a quantity: ``memory``, or the ``time`` that it grows with or
    is a ``rate`` of; empty where no run is held against it."""
    quantity = BOOK.quantities[base]
    return "memory" if quantity.reading else quantity.scales_with


def basis(base: str, settings: Mapping[str, Any]) -> bands.Basis | None:
    """What the interval of a quantity rests on under a plan's settings; None where no published run
    is held against it."""
    scaling = scales_with(base)
    if scaling == "memory":
        return bands.of_memory(base, BOOK.quantities[base].reading, settings)
    return bands.of_settings(settings) if scaling else None


def states(evaluation: Any) -> Value:
    """Bytes on the fullest device that are counted exactly: weights, gradients, optimizer."""
    found: Value = 0
    for name in ("memory.weights", "memory.gradients", "memory.optimizer"):
        with suppress(Absent):
            found += evaluation.value(name)
    return found


def fastest(evaluation: Any) -> Fraction:
    """The least share of its predicted time that physics leaves to a step: its FLOPs (of attention
    those of the scores that are not masked) at the rate that large products sustain, and no more
    than the peak by any way to count. At most 1: a prediction is never called impossible."""
    if bands.workload(evaluation.case.settings) == bands.INFERENCE:
        return Fraction(0)
    least = [Fraction(0)]
    with suppress(Absent):
        least.append(Fraction(evaluation.value("time.hfu")))
        sustained = Fraction(evaluation.symbol(e_mm, {}))
        axis = evaluation.case.axes["convention"]
        done = next(entry for entry in axis if entry.name == "mfu-causal")
        least.append(
            Fraction(evaluation.value("time.utilisation", {"convention": done})) / sustained
        )
    return min(max(least), Fraction(1))
