"""The operations of a graph on nodes that are numbers or arrays over a group of rows.

Numbers stay Python's, and exact; what is an array is left to ``Arrays.apply``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np

from planner.engine.arrays.table import Group
from planner.engine.run import SNAP

#: The largest exponent of e whose power, and one over it, is a number.
LARGEST = math.log(sys.float_info.max)
#: Of doubles that are a sum, as a share of its terms.
ROUNDING = 1e-12


@dataclass(slots=True)
class State:
    """A node as far as it is evaluated: a number, an array over a group, or a slot of the steps."""

    mask: int = 0
    number: Any = None
    array: Any = None
    group: Group | None = None
    slot: int | None = None
    spread: dict[Group, Any] = field(default_factory=dict)  # the array at the places of others

    @property
    def cost(self) -> float:
        if self.number is not None:
            return 0
        return math.inf if self.array is None else self.array.size


class Arrays(Protocol):
    """What an operation needs of a program."""

    def apply(self, function: Callable[..., Any], states: Sequence[State]) -> State:
        """One operation on nodes that are not all numbers."""
        ...


Operation = Callable[[Arrays, list[State]], State]


def _joined(
    program: Arrays, states: list[State], function: Any, plain: Callable[[list[Any]], Any]
) -> State:
    """An operation whose order does not matter: what is cheap first."""
    numbers = [state.number for state in states if state.number is not None]
    arrays = [state for state in states if state.number is None]
    if len(arrays) > 2:
        arrays.sort(key=lambda state: state.cost)
    if not arrays:
        return State(number=plain(numbers))
    result = arrays[0]
    if numbers:
        result = program.apply(function, [State(number=plain(numbers)), result])
    for state in arrays[1:]:
        result = program.apply(function, [result, state])
    return result


def _product(numbers: list[Any]) -> Any:
    result: Any = 1
    for number in numbers:
        result *= number
    return _tidy(result)


def _tidy(number: Any) -> Any:
    if isinstance(number, Fraction) and number.denominator == 1:
        return number.numerator
    return number


def _add(program: Arrays, states: list[State]) -> State:
    return _joined(program, states, np.add, lambda numbers: _tidy(sum(numbers)))


def _mul(program: Arrays, states: list[State]) -> State:
    return _joined(program, states, np.multiply, _product)


def _div(program: Arrays, states: list[State]) -> State:
    above, below = states
    if above.number is not None and below.number is not None:
        if not below.number:
            return State(number=math.nan)
        if isinstance(above.number, float) or isinstance(below.number, float):
            return State(number=above.number / below.number)
        return State(number=_tidy(Fraction(above.number) / below.number))
    return program.apply(np.divide, states)


def _pow(program: Arrays, states: list[State]) -> State:
    base, exponent = states
    if base.number is not None and exponent.number is not None:
        try:
            return State(number=_tidy(base.number**exponent.number))
        except ArithmeticError:
            return State(number=math.nan)
    return program.apply(np.power, states)


def _of_one(plain: Callable[[Any], Any], function: Callable[..., Any]) -> Operation:
    """An operation with one argument, on a number and on an array."""

    def applied(program: Arrays, states: list[State]) -> State:
        number = states[0].number
        if number is not None:
            return State(number=plain(number))
        return program.apply(function, states)

    return applied


def _rounded(number: Any, rule: Callable[[Any], int]) -> Any:
    if isinstance(number, float):
        if not math.isfinite(number):
            return number
        near = round(number)
        number = near if abs(number - near) <= SNAP * abs(near) else number
    return rule(number)


def _max(program: Arrays, states: list[State]) -> State:
    return _joined(program, states, np.maximum, lambda numbers: _extreme(max, numbers))


def _min(program: Arrays, states: list[State]) -> State:
    return _joined(program, states, np.minimum, lambda numbers: _extreme(min, numbers))


def _extreme(rule: Callable[..., Any], numbers: list[Any]) -> Any:
    """One of some numbers; none where one of them is none, as of arrays."""
    return math.nan if any(number != number for number in numbers) else rule(numbers)


def _and(program: Arrays, states: list[State]) -> State:
    return _joined(program, states, np.logical_and, all)


def _select(program: Arrays, states: list[State]) -> State:
    """The first value whose condition is true; NaN where none is."""
    pairs = list(zip(states[0::2], states[1::2], strict=True))
    kept: list[tuple[State, State]] = []
    for condition, value in pairs:
        if condition.number is None:
            kept.append((condition, value))
        elif condition.number:
            break
    else:
        value = State(number=math.nan)
        if kept and _exhaustive(program, [condition for condition, _ in kept]):
            _, value = kept.pop()
    for condition, other in reversed(kept):
        if other is not value:
            value = program.apply(np.where, [condition, other, value])
    return value


def _exhaustive(program: Arrays, conditions: list[State]) -> bool:
    """Whether one of the conditions is true everywhere."""
    if any(condition.slot is not None for condition in conditions):
        return False
    either = conditions[0]
    for condition in conditions[1:]:
        either = program.apply(np.logical_or, [either, condition])
        if either.slot is not None:
            return False
    return bool(either.array.all())


def _pick(program: Arrays, states: list[State]) -> State:
    by, body = states[0], states[1]
    for other_by, other in zip(states[2::2], states[3::2], strict=True):
        if by.number is not None and other_by.number is not None:
            by, body = (other_by, other) if other_by.number > by.number else (by, body)
            continue
        better = program.apply(np.greater, [other_by, by])
        body = program.apply(np.where, [better, other, body])
        by = program.apply(np.maximum, [by, other_by])
    return body


def _within(program: Arrays, states: list[State]) -> State:
    """A value in its range; beside it by rounding, the end of the range, and else none."""
    value, terms, name = states
    low, high = name.number
    found = value.number
    if found is None:
        return program.apply(partial(_in_range, low, high), [value, terms])
    inside = (low is None or found >= low) and (high is None or found <= high)
    return value if inside else State(number=math.nan)


def _in_range(low: Any, high: Any, values: Any, terms: Any) -> Any:
    inside = np.clip(values, low, high)
    return np.where(np.abs(values - inside) <= ROUNDING * np.abs(terms), inside, np.nan)


def _where(there: Callable[[Any], Any], function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of numbers that has no value for some."""
    return lambda number: function(number) if there(number) else math.nan


OPERATIONS: Mapping[str, Operation] = {
    "quantity": lambda program, states: states[0],
    "add": _add,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "sqrt": _of_one(_where(lambda x: x >= 0, math.sqrt), np.sqrt),
    "exp": _of_one(
        _where(lambda x: abs(x) < LARGEST, math.exp),
        lambda x: np.where(np.abs(x) < LARGEST, np.exp(x), np.nan),
    ),
    "tanh": _of_one(math.tanh, np.tanh),
    "log": _of_one(_where(lambda x: x > 0, math.log), lambda x: np.log(np.where(x > 0, x, np.nan))),
    "ceil": _of_one(lambda x: _rounded(x, math.ceil), lambda x: np.ceil(x - SNAP * np.abs(x))),
    "floor": _of_one(lambda x: _rounded(x, math.floor), lambda x: np.floor(x + SNAP * np.abs(x))),
    "max": _max,
    "min": _min,
    "and": _and,
    "select": _select,
    "pick": _pick,
    "within": _within,
    "finite": _of_one(lambda x: x, lambda x: np.where(np.isfinite(x), x, np.nan)),
}
