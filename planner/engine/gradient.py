"""Derivatives of a quantity by every input at once: a tape, run backwards.

Exact where the values are: ints and Fractions below sums and products, floats only below roots.
Where the formula has a kink, the derivative is that of the branch that holds (of equals the
first). Roundings to whole units are passed over, as if they were not there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from planner.engine.tape import (
    ADD,
    CEIL,
    CONSTANT,
    EXP,
    FLOOR,
    LEAF,
    LOG,
    MAX,
    MIN,
    MUL,
    PICK,
    TANH,
    Node,
    Tape,
    picked,
    power,
)


def gradient(tape: Tape, values: Sequence[Any], result: int, rounds: int = 0) -> dict[int, Any]:
    """The derivative of one node by each leaf that it rests on, by the leaf's number.

    Args:
        tape: the operations.
        values: of all its nodes, as ``tape.run`` gives them.
        result: the node to derive.
        rounds: a rounding to a whole number below it is a step, whose derivative is zero; larger
            ones are passed over.
    """
    slopes: list[Any] = [0] * (result + 1)
    slopes[result] = 1
    found: dict[int, Any] = {}
    for index in range(result, -1, -1):
        slope, node = slopes[index], tape.nodes[index]
        if not slope or node.operation == CONSTANT:
            continue
        if node.operation == LEAF:
            found[node.data] = found.get(node.data, 0) + slope
            continue
        if node.operation in (CEIL, FLOOR) and abs(values[index]) < rounds:
            continue
        for argument, part in _parts(node, values):
            slopes[argument] += slope * part
    return found


def _parts(node: Node, values: Sequence[Any]) -> list[tuple[int, Any]]:
    """The derivative of one operation by each of its arguments that matters."""
    operation = node.operation
    arguments: tuple[int, ...] = node.arguments  # type: ignore[assignment]
    if operation == ADD:
        return [(argument, 1) for argument in arguments]
    if operation == MUL:
        return _of_product(arguments, values)
    if operation in (MAX, MIN):
        inner = [values[argument] for argument in arguments]
        best = max(inner) if operation == MAX else min(inner)
        return [(arguments[inner.index(best)], 1)]
    if operation == PICK:
        taken = node.arguments[len(arguments) // 2 + picked(node, values)]
        return [] if taken is None else [(taken, 1)]
    if operation in (CEIL, FLOOR):
        return [(arguments[0], 1)]
    if operation == EXP:
        return [(arguments[0], math.exp(values[arguments[0]]))]
    if operation == LOG:
        return [(arguments[0], 1 / values[arguments[0]])]
    if operation == TANH:
        return [(arguments[0], 1 - math.tanh(values[arguments[0]]) ** 2)]
    return _of_power(node, arguments, values)


def _of_product(arguments: Sequence[int], values: Sequence[Any]) -> list[tuple[int, Any]]:
    """The product of the other factors, for each factor."""
    before, products = 1, []
    for argument in arguments:
        products.append(before)
        before = before * values[argument]
    after = 1
    for place in range(len(arguments) - 1, -1, -1):
        products[place] = products[place] * after
        after = after * values[arguments[place]]
    return list(zip(arguments, products, strict=True))


def _of_power(node: Node, arguments: Sequence[int], values: Sequence[Any]) -> list[tuple[int, Any]]:
    base = values[arguments[0]]
    exponent = node.data if len(arguments) == 1 else values[arguments[1]]
    parts = [(arguments[0], exponent * power(base, exponent - 1))] if exponent else []
    if len(arguments) > 1 and base > 0:
        parts.append((arguments[1], float(power(base, exponent)) * math.log(base)))
    return parts


def exact(value: Any) -> Fraction:
    """A derivative as a Fraction; a float as the fraction that it is."""
    return Fraction(value)
