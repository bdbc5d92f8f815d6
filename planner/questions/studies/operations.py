"""A tape run over arrays: each operation for all points at once.

Numbers that all points share stay Python's, and exact; an operation costs the size of what its
arguments vary along, not the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.engine.tape import (
    ADD,
    CEIL,
    CONSTANT,
    EXP,
    LEAF,
    LOG,
    MAX,
    MIN,
    MUL,
    PICK,
    POW,
    SNAP,
    TANH,
    Node,
    step,
)

Array = NDArray[Any]


def over_arrays(nodes: Sequence[Node], leaves: Sequence[Any]) -> list[Any]:
    """The value of every node: a number, or an array that broadcasts with the others. NaN where a
    number cannot be computed with."""
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for node in nodes:
            values.append(_value(node, values, leaves))
    return values


def _value(node: Node, values: list[Any], leaves: Sequence[Any]) -> Any:
    operation = node.operation
    if operation == LEAF:
        return leaves[node.data]
    if operation == CONSTANT:
        return node.data
    arguments = [None if i is None else values[i] for i in node.arguments]
    if not any(isinstance(argument, np.ndarray) for argument in arguments):
        try:
            if operation in (ADD, MUL):
                return _combined(operation, arguments)
            return step(node, values)
        except (ArithmeticError, ValueError):
            return float("nan")
    if operation == PICK:
        return _picked(arguments)
    if operation == POW:
        return _power(arguments, node.data)
    if operation == EXP:
        found = np.exp(_number(arguments[0]))
        return np.where(np.isfinite(found) & (found > 0), found, np.nan)
    if operation == LOG:
        inner = _number(arguments[0])
        return np.log(np.where(inner > 0, inner, np.nan))
    if operation == TANH:
        return np.tanh(_number(arguments[0]))
    if operation in (MAX, MIN):
        return _joined(np.maximum if operation == MAX else np.minimum, arguments)
    if operation in (ADD, MUL):
        return _combined(operation, arguments)
    return _rounded(np.ceil if operation == CEIL else np.floor, arguments[0])


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, (int, Fraction)) else value


def _combined(operation: int, arguments: Sequence[Any]) -> Any:
    """Sums and products: exact over what is shared, then over arrays from the smallest on."""
    shared: Any = 0 if operation == ADD else 1
    arrays: list[Array] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            arrays.append(argument)
        elif operation == ADD:
            shared += argument
        else:
            shared *= argument
    if not arrays:
        return shared
    arrays.sort(key=np.size)
    total: Any = arrays[0]
    if operation == ADD:
        total = total + float(shared) if shared else total
        for array in arrays[1:]:
            total = total + array
    else:
        total = total * float(shared) if shared != 1 else total
        for array in arrays[1:]:
            total = total * array
    return total


def _joined(join: Any, arguments: Sequence[Any]) -> Any:
    total: Any = None
    for argument in arguments:
        total = _number(argument) if total is None else join(total, _number(argument))
    return total


def _power(arguments: Sequence[Any], exponent: Any) -> Any:
    base = _number(arguments[0])
    if len(arguments) > 1:
        exponent = arguments[1]
    if isinstance(exponent, int) and exponent == -1:
        found = 1.0 / base
    else:
        found = np.power(base, _number(exponent))
    return np.where(np.isfinite(found), found, np.nan)


def _picked(arguments: Sequence[Any]) -> Any:
    """What belongs to the largest, to the first of equals."""
    half = len(arguments) // 2
    best, taken = _number(arguments[0]), _or_nan(arguments[half])
    for compared, body in zip(arguments[1:half], arguments[half + 1 :], strict=True):
        better = np.asarray(_number(compared) > best)
        best = np.where(better, _number(compared), best)
        taken = np.where(better, _or_nan(body), taken)
    return taken


def _or_nan(value: Any) -> Any:
    return float("nan") if value is None else _number(value)


def _rounded(rounding: Any, value: Any) -> Array:
    near = np.rint(value)
    found: Array = np.where(np.abs(value - near) <= SNAP * np.abs(near), near, rounding(value))
    return found
