"""Reductions over axes: one formula that holds for each part, stage or component, made into one
value. Names are NumPy's: ``Max`` reduces an axis, ``maximum`` compares values."""

from __future__ import annotations

from functools import partial
from typing import Any

from planner.book.expressions import Expression, log, minimum, operation
from planner.book.notation import copies_on_stage, layers_on_stage
from planner.book.settings import named


def _reduction(op: str, body: Any, axis: str, *by: Any, **where: Any) -> Expression:
    """Over the entries of an axis, or those whose settings agree with ``where``."""
    pairs = tuple((name, str(value)) for name, value in sorted(named(where).items()))
    return operation(op, body, *by, data=(axis, pairs))


#: ``Sum(body, axis, **where)`` is the sum of a body over an axis, ``Max`` its largest value.
Sum, Max = partial(_reduction, "total"), partial(_reduction, "largest")
#: ``AtArgmax(body, axis, by)`` is the body where ``by`` is largest, at the first of equals.
AtArgmax = partial(_reduction, "at_largest")
#: ``Argmax(body, axis)`` is the name of the entry where the body is largest.
Argmax = partial(_reduction, "which")


def total_on_stage(body: Any, **where: Any) -> Expression:
    """What the parts of a stage (those that agree with ``where``) come to, each as often as the
    stage holds it."""
    return Sum(layers_on_stage * body, "part", **where)


def largest_on_stage(body: Any, **where: Any) -> Expression:
    """The largest of the parts that a stage holds."""
    return Max(minimum(1, layers_on_stage) * body, "part", **where)


def on_fullest_stage(body: Any, **where: Any) -> Expression:
    """What the components of a stage come to, each as often as it is held, where they are most."""
    return Max(Sum(copies_on_stage * body, "component", **where), "stage")


def log2(value: Any) -> Expression:
    """The logarithm to the base of 2."""
    return log(value) / log(2)
