"""The operations of a graph on nodes that are numbers or arrays over a group of rows.

Numbers stay Python's, and exact; arrays are left to ``Program.apply``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.engine.arrays.table import Group
from planner.engine.lower import Absent
from planner.engine.run import EXACT, FLOATS, SNAP, simplify_value

#: Rounding error of a sum of doubles, as a share of its terms.
ROUNDING = 1e-12


@dataclass(slots=True)
class State:
    """An evaluated node: a number, an array over a group, or the slot of a step.

    Attributes:
        mask: bits of the columns that it depends on; 0 for a number.
        number: the same in all rows, exact where it can be.
        array: values; its third axis runs over the places of the group.
        group: the places of the array.
        slot: index of the step that computes it, chunk by chunk of rows.
        spread: the array at the places of other groups, as far as it was asked for.
    """

    mask: int = 0
    number: Any = None
    array: Any = None
    group: Group | None = None
    slot: int | None = None
    spread: dict[Group, Any] = field(default_factory=dict)


#: One function of NumPy on nodes that are not all numbers (``Program.apply``).
Apply = Callable[[Callable[..., Any], Sequence[State]], State]
Operation = Callable[[Apply, list[State]], State]


def _apply_numbers(plain: Callable[..., Any], numbers: Sequence[Any]) -> State:
    """Apply an operation to Python numbers; return NaN if it has no value or an operand is NaN."""
    if any(number != number for number in numbers):
        return State(number=math.nan)
    try:
        return State(number=simplify_value(plain(*numbers)))
    except (Absent, ArithmeticError, ValueError):
        return State(number=math.nan)


def _make_reduction(
    function: Callable[..., Any], plain: Callable[[Sequence[Any]], Any]
) -> Operation:
    """Make an operation on any number of nodes in any order: the cheapest are combined first."""

    def combine(apply: Apply, states: list[State]) -> State:
        """Reduce numbers exactly first, then arrays, small ones first: most steps then stay
        small."""
        numbers = [state.number for state in states if state.number is not None]
        arrays = [state for state in states if state.number is None]
        if len(arrays) > 2:
            arrays.sort(key=lambda state: math.inf if state.array is None else state.array.size)
        result = _apply_numbers(lambda *given: plain(given), numbers) if numbers else arrays.pop(0)
        for state in arrays:
            result = apply(function, [result, state])
        return result

    return combine


def _make_operation(name: str, function: Callable[..., Any]) -> Operation:
    """Make an operation on nodes in their order; on numbers, that of ``run.py`` of this name."""

    def of_numbers(*numbers: Any) -> Any:
        """Apply the exact operation, or that of floats if an operand is one."""
        value = (FLOATS if float in map(type, numbers) else EXACT)[name](*numbers)
        return int(value) if name in ("ceil", "floor") else value

    def apply_in_order(apply: Apply, states: list[State]) -> State:
        """Apply the operation to operands whose order matters."""
        numbers = [state.number for state in states]
        return apply(function, states) if None in numbers else _apply_numbers(of_numbers, numbers)

    return apply_in_order


def _select_value(apply: Apply, states: list[State]) -> State:
    """Select the value of the first true condition, NaN if there is none."""
    pairs = list(zip(states[0::2], states[1::2], strict=True))
    kept: list[tuple[State, State]] = []
    for condition, value in pairs:
        if condition.number is None:
            kept.append((condition, value))
        elif condition.number:
            break
    else:
        value = State(number=math.nan)
        if kept and _is_exhaustive(apply, [condition for condition, _ in kept]):
            _, value = kept.pop()
    for condition, other in reversed(kept):
        if other is not value:
            value = apply(np.where, [condition, other, value])
    return value


def _is_exhaustive(apply: Apply, conditions: list[State]) -> bool:
    """Decide whether one of the conditions is true everywhere."""
    if any(condition.slot is not None for condition in conditions):
        return False
    either = conditions[0]
    for condition in conditions[1:]:
        either = apply(np.logical_or, [either, condition])
    return either.slot is None and bool(either.array.all())


def _pick_body(apply: Apply, states: list[State]) -> State:
    """Pick the body at the largest ``by``, row by row; at the first of equal ones."""
    by, body = states[0], states[1]
    for other_by, other in zip(states[2::2], states[3::2], strict=True):
        if by.number is not None and other_by.number is not None:
            by, body = (other_by, other) if other_by.number > by.number else (by, body)
            continue
        better = apply(np.greater, [other_by, by])
        body = apply(np.where, [better, other, body])
        by = apply(np.maximum, [by, other_by])
    return body


def _clamp_value(apply: Apply, states: list[State]) -> State:
    """Keep a value in its range: beyond it by rounding, the end of the range; further, NaN."""
    value, terms, name = states
    low, high = name.number
    found = value.number

    def of_arrays(values: Any, terms: Any) -> Any:
        """Clamp values to the range where they leave it by rounding; return NaN where by more."""
        inside = np.clip(values, low, high)
        return np.where(np.abs(values - inside) <= ROUNDING * np.abs(terms), inside, np.nan)

    if found is None:
        return apply(of_arrays, [value, terms])
    inside = (low is None or found >= low) and (high is None or found <= high)
    return value if inside else State(number=math.nan)


def _replace_infinite(apply: Apply, states: list[State]) -> State:
    """Replace values that are not finite by NaN; numbers are finite."""
    if states[0].number is not None:
        return states[0]
    return apply(lambda x: np.where(np.isfinite(x), x, np.nan), states)


def _compute_exp(values: Any) -> Any:
    """Compute the exponential; return NaN where it over- or underflows, as the exact engine
    does."""
    found = np.exp(values)
    return np.where((found > 0) & np.isfinite(found), found, np.nan)


OPERATIONS: Mapping[str, Operation] = {
    "quantity": lambda _, states: states[0],
    "add": _make_reduction(np.add, sum),
    "mul": _make_reduction(np.multiply, math.prod),
    "max": _make_reduction(np.maximum, max),
    "min": _make_reduction(np.minimum, min),
    "and": _make_reduction(np.logical_and, all),
    "div": _make_operation("div", np.divide),
    "pow": _make_operation("pow", np.power),
    "exp": _make_operation("exp", _compute_exp),
    "tanh": _make_operation("tanh", np.tanh),
    "log": _make_operation("log", lambda x: np.log(np.where(x > 0, x, np.nan))),
    "ceil": _make_operation("ceil", lambda x: np.ceil(x - SNAP * np.abs(x))),
    "floor": _make_operation("floor", lambda x: np.floor(x + SNAP * np.abs(x))),
    "finite": _replace_infinite,
    "select": _select_value,
    "pick": _pick_body,
    "within": _clamp_value,
}
