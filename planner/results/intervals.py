"""The 90 % interval of a prediction, from published runs of its kind
(``planner.plans.error_bands``).

No interval crosses what physics allows: no step is faster than its FLOPs at the best matmul
efficiency, no memory is smaller than weights, gradients and optimizer states, and beyond what is
needed at worst the allocator keeps no more than a device holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from planner.book.quantity import BOOK
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.graph import LEAVES
from planner.plans import error_bands

Value = int | Fraction | float
HEADROOM, PROCESS = "memory.headroom", "memory.process"
#: What the allocator fills with its cache, and what bounds it.
KEPT, LIMITS = ("memory.reserved", PROCESS), ("memory.capacity", "memory.at_worst")
#: Bytes on the fullest device that are counted exactly, and the least share of a step's time.
STATES, FLOOR = ("memory.weights", "memory.gradients", "memory.optimizer"), "time.floor"


def compute_interval(base: str, value: Value, evaluation: Evaluation) -> tuple[Value, Value] | None:
    """Return the two ends of the 90 % interval of a value, in its unit; None if the quantity is
    compared with no published run.

    Args:
        base: id of the quantity.
        value: predicted.
        evaluation: of the plan, which has the other quantities that a bound needs.
    """
    found = find_basis(base, evaluation.case.settings)
    if found is None:
        return None
    return compute_bounds(
        base,
        value,
        lambda name: get_or_zero(name, evaluation),
        1 + found.low,
        1 + found.high,
        min,
        max,
    )


def derive_interval(base: str, evaluation: Evaluation) -> tuple[Value, Value] | None:
    """Return the ends of the interval of a quantity that a document defines, while the book's
    quantities in it run through their intervals: all times together, and all memory together. It is
    taken to be monotonic in between. None if none of them has an interval, or if there is no value
    at an end."""
    ends: dict[int, tuple[str, tuple[Value, Value]]] = {}
    nodes, declared = evaluation.graph.nodes, evaluation.book.quantities
    inner, waiting = set[int](), [evaluation.instance(base, {})]
    while waiting:
        place = waiting.pop()
        operation, arguments = nodes[place]
        if operation == "quantity":
            name, entries = nodes[arguments[1]][1][0]
            if not declared[name].own:
                value = evaluation.evaluate_node(place)
                known = not entries and not isinstance(value, Absent | str)
                found = compute_interval(name, value, evaluation) if known else None
                if found is not None:
                    ends[place] = name, found
                continue
        if operation not in LEAVES and place not in inner:
            inner.add(place)
            waiting += arguments
    corners = product((False, True), repeat=2) if ends else ()
    values = []
    for slow, full in corners:
        at = {place: _compute_end(name, found, slow, full) for place, (name, found) in ends.items()}
        values.append(evaluation.recompute_nodes(sorted(inner), at)[max(inner)])
    if not values or any(isinstance(value, Absent) for value in values):
        return None
    return min(values), max(values)


def _compute_end(name: str, between: tuple[Value, Value], slow: bool, full: bool) -> Value:
    """Return the end of an interval for a slow or fast run, and full or free memory."""
    scaling = find_measure(name)
    high = (
        slow != (scaling == "rate") if scaling in ("time", "rate") else full != (name == HEADROOM)
    )
    return between[high]


def get_or_zero(name: str, evaluation: Evaluation) -> Value:
    """Return the value of a quantity, 0 if it is absent."""
    try:
        found: Value = evaluation.value(name)
    except Absent:
        return 0
    return found


def list_bases(base: str) -> tuple[str, ...]:
    """List the other quantities that bound the interval of one; empty if it never has one."""
    if base == HEADROOM:
        return PROCESS, *list_bases(PROCESS)
    scaling = find_measure(base)
    if scaling == "memory":
        return (*STATES, *LIMITS) if base in KEPT else STATES
    return (FLOOR,) if scaling else ()


def compute_bounds(
    base: str,
    value: Any,
    other: Callable[[str], Any],
    low: Any,
    high: Any,
    smaller: Callable[[Any, Any], Any],
    larger: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """Compute the lowest and highest value of a quantity: numbers, or arrays that broadcast.

    Args:
        other: returns the value of another quantity that bounds it, 0 if it is absent.
        low, high: measured over predicted values, at the 5th and 95th percentile.
        smaller, larger: minimum and maximum of two values.
    """
    if base == HEADROOM:
        process = other(PROCESS)
        least, most = compute_bounds(PROCESS, process, other, low, high, smaller, larger)
        return value + process - most, value + process - least
    scaling = find_measure(base)
    if scaling == "memory":
        least = larger(value * low, sum(other(name) for name in STATES))
        most = value * high
        if base in KEPT:
            capacity, worst = (other(name) for name in LIMITS)
            # Without a device, whose capacity is 0 then, nothing bounds it.
            most = smaller(most, larger(larger(worst, capacity), most * (capacity == 0)))
        return smaller(value, least), most
    low = larger(low, other(FLOOR))
    if scaling == "time":
        return value * low, value * high
    # A convention may count more than is performed: no utilisation is shown above 1 for that.
    most = larger(value, 1) if BOOK.quantities[base].share else value / low
    return value / high, smaller(value / low, most)


def find_measure(base: str) -> str:
    """Return what published runs measure of a quantity: ``memory``, or the ``time`` that it grows
    with or is a ``rate`` of; empty if it is compared with no run."""
    quantity = BOOK.quantities.get(base)  # None: a document defines it
    if quantity is None:
        return ""
    return "memory" if quantity.reading else quantity.scales_with


def find_basis(base: str, settings: Mapping[str, Any]) -> error_bands.Basis | None:
    """Return the basis of the interval of a quantity under a plan's settings; None if it has none:
    its time is assumed, or the model has no shape."""
    base = PROCESS if base == HEADROOM else base
    scaling = find_measure(base)
    if not scaling or not settings.get("model.shape"):
        return None
    if scaling == "memory":
        return error_bands.find_memory_band(base, BOOK.quantities[base].reading, settings)
    if settings.get("time.assumed", True):
        return None
    what = error_bands.classify_time(base, settings)
    return error_bands.find_own_band(what, settings) or error_bands.find_time_band(what, settings)
