"""Reductions over axes: one formula that holds for each part, stage or component, made into one
value; and, value by value, what formulas compare and round. Names are NumPy's: ``Max`` reduces an
axis, ``maximum`` compares values."""

from __future__ import annotations

from typing import Any

from planner.book.expressions import Expression, log, operation
from planner.book.notation import copies_on_stage, layers_on_stage
from planner.book.settings import named


def _reduction(op: str, bodies: tuple[Any, ...], axis: str, where: dict[str, Any]) -> Expression:
    pairs = tuple((name, str(value)) for name, value in sorted(named(where).items()))
    return operation(op, bodies, (axis, pairs))


def Sum(body: Any, axis: str, **where: Any) -> Expression:
    """Sum of ``body`` over the entries of ``axis`` (those whose settings agree with ``where``)."""
    return _reduction("total", (body,), axis, where)


def Max(body: Any, axis: str, **where: Any) -> Expression:
    """Largest ``body`` over the entries of ``axis``."""
    return _reduction("largest", (body,), axis, where)


def AtArgmax(body: Any, axis: str, by: Any, **where: Any) -> Expression:
    """``body`` at the entry of ``axis`` where ``by`` is largest (the first of equals)."""
    return _reduction("at_largest", (body, by), axis, where)


def Argmax(body: Any, axis: str, **where: Any) -> Expression:
    """The name of the entry of ``axis`` where ``body`` is largest (the first of equals)."""
    return _reduction("which", (body,), axis, where)


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


def ceil(value: Any) -> Expression:
    """Round up."""
    return operation("ceil", (value,))


def floor(value: Any) -> Expression:
    """Round down."""
    return operation("floor", (value,))


def maximum(*values: Any) -> Expression:
    """The largest of some values."""
    return operation("max", values)


def minimum(*values: Any) -> Expression:
    """The smallest of some values."""
    return operation("min", values)
