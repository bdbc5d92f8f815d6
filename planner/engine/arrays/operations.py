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
from planner.engine.run import EXACT, FLOATS, SNAP, tidy

#: Rounding error of a sum of doubles, as a share of its terms.
ROUNDING = 1e-12


@dataclass(slots=True)
class State:
    """An evaluated node: a number, an array over a group, or the slot of a step."""

    mask: int = 0
    number: Any = None
    array: Any = None
    group: Group | None = None
    slot: int | None = None
    spread: dict[Group, Any] = field(default_factory=dict)  # the array at the places of others


#: One function of NumPy on nodes that are not all numbers (``Program.apply``).
Apply = Callable[[Callable[..., Any], Sequence[State]], State]
Operation = Callable[[Apply, list[State]], State]


def _number(plain: Callable[..., Any], numbers: Sequence[Any]) -> State:
    """Apply an operation to Python numbers; return NaN if it has no value or an operand is NaN."""
    if any(number != number for number in numbers):
        return State(number=math.nan)
    try:
        return State(number=tidy(plain(*numbers)))
    except (Absent, ArithmeticError, ValueError):
        return State(number=math.nan)


def _joined(function: Callable[..., Any], plain: Callable[[Sequence[Any]], Any]) -> Operation:
    """Make an operation on any number of nodes in any order: the cheapest are combined first."""

    def joined(apply: Apply, states: list[State]) -> State:
        numbers = [state.number for state in states if state.number is not None]
        arrays = [state for state in states if state.number is None]
        if len(arrays) > 2:
            arrays.sort(key=lambda state: math.inf if state.array is None else state.array.size)
        result = _number(lambda *given: plain(given), numbers) if numbers else arrays.pop(0)
        for state in arrays:
            result = apply(function, [result, state])
        return result

    return joined


def _of(name: str, function: Callable[..., Any]) -> Operation:
    """Make an operation on nodes in their order; on numbers, that of ``run.py`` of this name."""

    def of_numbers(*numbers: Any) -> Any:
        value = (FLOATS if float in map(type, numbers) else EXACT)[name](*numbers)
        return int(value) if name in ("ceil", "floor") else value

    def applied(apply: Apply, states: list[State]) -> State:
        numbers = [state.number for state in states]
        return apply(function, states) if None in numbers else _number(of_numbers, numbers)

    return applied


def _select(apply: Apply, states: list[State]) -> State:
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
        if kept and _exhaustive(apply, [condition for condition, _ in kept]):
            _, value = kept.pop()
    for condition, other in reversed(kept):
        if other is not value:
            value = apply(np.where, [condition, other, value])
    return value


def _exhaustive(apply: Apply, conditions: list[State]) -> bool:
    """Decide whether one of the conditions is true everywhere."""
    if any(condition.slot is not None for condition in conditions):
        return False
    either = conditions[0]
    for condition in conditions[1:]:
        either = apply(np.logical_or, [either, condition])
    return either.slot is None and bool(either.array.all())


def _pick(apply: Apply, states: list[State]) -> State:
    by, body = states[0], states[1]
    for other_by, other in zip(states[2::2], states[3::2], strict=True):
        if by.number is not None and other_by.number is not None:
            by, body = (other_by, other) if other_by.number > by.number else (by, body)
            continue
        better = apply(np.greater, [other_by, by])
        body = apply(np.where, [better, other, body])
        by = apply(np.maximum, [by, other_by])
    return body


def _within(apply: Apply, states: list[State]) -> State:
    """Keep a value in its range: beyond it by rounding, the end of the range; further, NaN."""
    value, terms, name = states
    low, high = name.number
    found = value.number

    def of_arrays(values: Any, terms: Any) -> Any:
        inside = np.clip(values, low, high)
        return np.where(np.abs(values - inside) <= ROUNDING * np.abs(terms), inside, np.nan)

    if found is None:
        return apply(of_arrays, [value, terms])
    inside = (low is None or found >= low) and (high is None or found <= high)
    return value if inside else State(number=math.nan)


def _finite(apply: Apply, states: list[State]) -> State:
    """Replace values that are not finite by NaN; numbers are finite."""
    if states[0].number is not None:
        return states[0]
    return apply(lambda x: np.where(np.isfinite(x), x, np.nan), states)


def _exp(values: Any) -> Any:
    found = np.exp(values)
    return np.where((found > 0) & np.isfinite(found), found, np.nan)


OPERATIONS: Mapping[str, Operation] = {
    "quantity": lambda _, states: states[0],
    "add": _joined(np.add, sum),
    "mul": _joined(np.multiply, math.prod),
    "max": _joined(np.maximum, max),
    "min": _joined(np.minimum, min),
    "and": _joined(np.logical_and, all),
    "div": _of("div", np.divide),
    "pow": _of("pow", np.power),
    "exp": _of("exp", _exp),
    "tanh": _of("tanh", np.tanh),
    "log": _of("log", lambda x: np.log(np.where(x > 0, x, np.nan))),
    "ceil": _of("ceil", lambda x: np.ceil(x - SNAP * np.abs(x))),
    "floor": _of("floor", lambda x: np.floor(x + SNAP * np.abs(x))),
    "finite": _finite,
    "select": _select,
    "pick": _pick,
    "within": _within,
}
