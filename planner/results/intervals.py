"""The interval around a prediction: what published runs of its kind leave open.

The runs are those of ``planner.plans.error_bands``.

No interval crosses what physics allows: no step is faster than its FLOPs at the rate that large
products sustain, no memory is smaller than the states in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from planner.book.quantity import BOOK
from planner.engine.evaluate import Absent
from planner.engine.graph import LEAVES
from planner.plans import error_bands as bands

Value = int | Fraction | float
HEADROOM, PROCESS, WORST = "memory.headroom", "memory.process", "memory.at_worst"
#: Bytes on the fullest device that are counted exactly, and the least share of a step's time.
STATES, FLOOR = ("memory.weights", "memory.gradients", "memory.optimizer"), "time.floor"


def around(base: str, value: Value, evaluation: Any) -> tuple[Value, Value] | None:
    """Lowest and highest value that published runs leave open, of a value of the quantity of that
    name in an evaluation; None for one that no published run is held against."""
    found = basis(base, evaluation.case.settings)
    if found is None:
        return None
    return bounds(
        base, value, lambda name: known(name, evaluation), 1 + found.low, 1 + found.high, min, max
    )


def carried(base: str, evaluation: Any) -> tuple[Value, Value] | None:
    """Lowest and highest value of a quantity that a document defines, while those of the book that
    it is made of run through their intervals: all times together, and all memory together. Between
    the ends it is taken to rise or to fall. None where none of them has an interval, or where there
    is no value at an end."""
    ends: dict[int, tuple[str, tuple[Value, Value]]] = {}
    nodes, declared = evaluation.graph.nodes, evaluation.book.quantities
    inner, waiting = set[int](), [evaluation.instance(base, {})]
    while waiting:
        place = waiting.pop()
        operation, arguments = nodes[place]
        if operation == "quantity":
            name, entries = nodes[arguments[1]][1][0]
            if not declared[name].own:
                value = evaluation.worth(place)
                found = None if entries else _between(name, value, evaluation)
                if found is not None:
                    ends[place] = name, found
                continue
        if operation not in LEAVES and place not in inner:
            inner.add(place)
            waiting += arguments
    corners = product((False, True), repeat=2) if ends else ()
    values = []
    for slow, full in corners:
        at = {place: _end(name, found, slow, full) for place, (name, found) in ends.items()}
        values.append(evaluation.where(max(inner), sorted(inner), at))
    if not values or any(isinstance(value, Absent) for value in values):
        return None
    return min(values), max(values)


def _between(name: str, value: Any, evaluation: Any) -> tuple[Value, Value] | None:
    if isinstance(value, Absent | str):
        return None
    return around(name, value, evaluation)


def _end(name: str, between: tuple[Value, Value], slow: bool, full: bool) -> Value:
    """The end of an interval where a run is slow or fast, and memory full or not."""
    scaling = scales_with(name)
    high = (
        slow != (scaling == "rate") if scaling in ("time", "rate") else full != (name == HEADROOM)
    )
    return between[high]


def known(name: str, evaluation: Any) -> Value:
    """The value of a quantity, 0 where it is absent."""
    try:
        found: Value = evaluation.value(name)
    except Absent:
        return 0
    return found


def rests_on(base: str) -> tuple[str, ...]:
    """The other quantities that bound the interval of one; nothing where it never has one."""
    if base == HEADROOM:
        return PROCESS, *rests_on(PROCESS)
    scaling = scales_with(base)
    if scaling == "memory":
        return (*STATES, WORST) if base == PROCESS else STATES
    return (FLOOR,) if scaling else ()


def bounds(
    base: str,
    value: Any,
    other: Callable[[str], Any],
    low: Any,
    high: Any,
    smaller: Callable[[Any, Any], Any],
    larger: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """Lowest and highest value of a quantity: numbers, or arrays that broadcast to each other.

    Args:
        other: gives the value of each quantity of ``rests_on``, 0 where it is absent.
        low, high: how measured values compare with predicted ones, at the 5th and 95th percentile.
        smaller, larger: of two values.
    """
    if base == HEADROOM:
        process = other(PROCESS)
        least, most = bounds(PROCESS, process, other, low, high, smaller, larger)
        return value + process - most, value + process - least
    scaling = scales_with(base)
    if scaling == "memory":
        most = other(WORST) if base == PROCESS else value * high
        return smaller(value, larger(value * low, sum(other(name) for name in STATES))), most
    low = larger(low, other(FLOOR))
    return (value / high, value / low) if scaling == "rate" else (value * low, value * high)


def scales_with(base: str) -> str:
    """What published runs measure of a quantity: ``memory``, or the ``time`` that it grows with or
    is a ``rate`` of; empty where no run is held against it."""
    quantity = BOOK.quantities.get(base)  # None: a document defines it
    if quantity is None:
        return ""
    return "memory" if quantity.reading else quantity.scales_with


def basis(base: str, settings: Mapping[str, Any]) -> bands.Basis | None:
    """What the interval of a quantity rests on under a plan's settings; None where no published run
    is held against it: its time is assumed, or rests on no shape."""
    base = PROCESS if base == HEADROOM else base
    scaling = scales_with(base)
    if not scaling or not settings.get("model.shape"):
        return None
    if scaling == "memory":
        return bands.of_memory(base, BOOK.quantities[base].reading, settings)
    if settings.get("time.assumed", True):
        return None
    what = bands.workload(settings)
    architecture = settings.get("cluster.accelerator.architecture")
    return bands.calibrated(what, settings) or bands.kind(what, architecture)
