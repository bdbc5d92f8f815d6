"""Evaluation of a graph: exactly, in floats, and backwards for derivatives.

Results are exact wherever a formula is rational: ints and Fractions, floats only below a root. A
node without a value is an Absent with its reason, as is every node that needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

from planner.engine.graph import LEAVES, Content, Graph, Number
from planner.engine.lower import Absent

#: Floats this close to a whole number, as a share, are that number before they are rounded.
SNAP = 1e-12
ZERO = "division by zero"
BEYOND = "a power of e in it is beyond all numbers"
#: The most bits of an exact power; beyond it is a float.
LONGEST = 2**20


def run_graph(
    graph: Graph,
    places: Iterable[int],
    values: list[Any],
    inputs: Callable[[int], Any],
    checked: Callable[[Any, Any], Any] | None = None,
) -> None:
    """Evaluate some nodes in their order.

    Args:
        values: of all nodes before them; results are stored there.
        inputs: returns the value of an input node.
        checked: maps a quantity's key and exact value to its final value; None to compute in
            floats.
    """
    nodes, steps = graph.nodes, FLOATS if checked is None else EXACT
    for place in places:
        operation, arguments = nodes[place]
        value: Any
        try:
            if operation == "mul":
                value = values[arguments[0]]
                for i in arguments[1:]:  # a Fraction times an int is quicker than an int times it
                    value = values[i] * value if type(value) is int else value * values[i]
            elif operation == "add":
                value = values[arguments[0]]
                for i in arguments[1:]:
                    value += values[i]
            elif operation == "quantity":
                value = values[arguments[0]]
                if checked is not None:
                    value = checked(nodes[arguments[1]][1][0], value)
            elif operation == "input":
                value = inputs(place)
            elif operation == "const":
                value = float(arguments[0]) if checked is None else arguments[0]
            elif operation in LEAVES:
                value = Absent(arguments[0]) if operation == "absent" else arguments[0]
            else:
                value = steps[operation](*[values[i] for i in arguments])
        except TypeError:
            needed = [values[i] for i in pick_operands(operation, arguments, values)]
            value = next((other for other in needed if type(other) is Absent), None)
            if value is None:
                raise
        except Absent as absent:
            value = absent.with_traceback(None)
        except (ArithmeticError, ValueError) as error:  # of floats, below a root
            value = Absent(f"its numbers cannot be computed with ({error.args[-1]})")
        values[place] = value


def pick_operands(operation: str, arguments: Sequence[int], values: Sequence[Any]) -> Sequence[int]:
    """Return the operands that an operation uses, in evaluation order.

    Args:
        operation: of a node that is no leaf.
        arguments: its operands.
        values: of all nodes.

    Returns:
        the divisor first, which may be 0; of bodies the picked one alone, none if a value that they
        are picked by is absent.
    """
    if operation == "div":
        return arguments[::-1]
    if operation == "pick":
        bys = arguments[0::2]
        if any(type(values[i]) is Absent for i in bys):
            return bys
        return (*bys, arguments[1::2][index_largest([values[i] for i in bys])])
    return arguments


def index_largest(compared: Sequence[Any]) -> int:
    """Return the index of the largest value, the first of equals."""
    if type(compared[0]) is Absent:
        raise compared[0]
    return compared.index(max(compared))


def simplify_value(value: Any) -> Any:
    """Convert a whole Fraction to an int; raise OverflowError if a float is not finite."""
    if type(value) is Fraction and value.denominator == 1:
        return value.numerator
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("beyond the range of floating-point numbers")
    return value


def _divide_values(above: Any, below: Any) -> Any:
    """Divide exactly; raise Absent for a divisor of 0 or an absent operand, the divisor's reason
    first."""
    if type(below) is Absent:
        raise below
    if below == 0:
        if type(above) is Absent:
            raise above
        raise Absent(ZERO)
    if isinstance(above, int) and isinstance(below, int):
        return Fraction(above, below) if above % below else above // below
    return above / below


def raise_power(base: Number, exponent: Number) -> Number:
    """Raise to a power; exact if the exponent is whole and the base exact."""
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        exponent = exponent.numerator
    elif isinstance(exponent, float) and isinstance(base, float) and exponent.is_integer():
        exponent = int(exponent)
    if not isinstance(exponent, int):
        if base < 0:
            raise Absent("the root of a negative number")
        root: float = float(base) ** float(exponent)
        return root
    if isinstance(base, (int, Fraction)) and base not in (-1, 0, 1):  # grows with each factor
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent) > LONGEST:
            base = float(base)
    if base == 0 and exponent < 0:
        raise Absent(ZERO)
    if exponent < 0 and isinstance(base, int):
        return Fraction(base) ** exponent
    whole: Number = base**exponent
    return whole


def _evaluate_exp(exponent: Number) -> float:
    """Compute an exponential; raise Absent where a float overflows or ends in 0."""
    try:
        found = math.exp(exponent)
    except OverflowError:
        found = 0.0
    if not found:
        raise Absent(BEYOND)
    return found


def _evaluate_log(value: Number) -> float:
    """Compute a natural logarithm; raise Absent for a number that is not positive."""
    if value <= 0:
        raise Absent("the logarithm of a number that is not positive")
    return math.log(value)


def _make_rounding(rounding: Callable[[float], int]) -> Callable[[Any], Any]:
    """Make a rounding of floats; a float within rounding error of a whole number is that number."""

    def round_near(value: Any) -> float:
        """Round a float, one that is whole but for its last digits to that number."""
        near = float(round(value))  # raises where it is not finite
        return near if abs(value - near) <= SNAP * abs(near) else float(rounding(value))

    return round_near


EXACT: Mapping[str, Callable[..., Any]] = {
    "div": _divide_values,
    "pow": raise_power,
    "exp": _evaluate_exp,
    "tanh": math.tanh,
    "log": _evaluate_log,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "ceil": lambda value: -int(-value // 1),
    "floor": lambda value: int(value // 1),
    "pick": lambda *pairs: pairs[1::2][index_largest(pairs[0::2])],
    "which": lambda *given: given[-1][index_largest(given[:-1])],
}
FLOATS = {**EXACT, "ceil": _make_rounding(math.ceil), "floor": _make_rounding(math.floor)}


def slopes(
    nodes: Sequence[Content],
    values: Sequence[Any],
    result: int,
    rounds: int = 0,
    ends: Container[int] = (),
) -> dict[int, Any]:
    """Compute the derivatives of one node by each input that it depends on, by the input's node.

    Exact if the values are. At a kink the derivative is that of the branch that is taken (of equals
    the first). Roundings to whole units have derivative 1.

    Args:
        values: of all nodes.
        result: the node to derive.
        rounds: a rounding to a whole number below this has derivative 0 instead.
        ends: nodes that count as inputs, however they are computed; the result does not.
    """
    found: dict[int, Any] = {result: 1}
    inputs: dict[int, Any] = {}
    waiting = [-result]  # the last first: by then all that rests on it has been passed
    while waiting:
        place = -heappop(waiting)
        slope, (operation, arguments) = found[place], nodes[place]
        if not slope:
            continue
        if operation == "input" or (place in ends and place != result):
            inputs[place] = slope
        elif operation not in LEAVES and not (
            operation in ("ceil", "floor") and abs(values[place]) < rounds
        ):
            for argument, part in _derive_operation(operation, arguments, values):
                if argument not in found:
                    found[argument] = 0
                    heappush(waiting, -argument)
                found[argument] += slope * part
    return inputs


def _derive_operation(
    operation: str, arguments: Sequence[int], values: Sequence[Any]
) -> Sequence[tuple[int, Any]]:
    """Return the derivatives of one operation by its arguments, without those that are 0."""
    first, *others = arguments
    value = values[first]
    if operation == "add":
        return [(argument, 1) for argument in arguments]
    if operation == "mul":
        return _derive_product(arguments, values)
    if operation == "div":
        below = values[others[0]]
        return [(first, raise_power(below, -1)), (others[0], -value * raise_power(below, -2))]
    if operation in ("max", "min"):
        inner = [values[argument] for argument in arguments]
        return [(arguments[inner.index(max(inner) if operation == "max" else min(inner))], 1)]
    if operation == "pick":
        return [(pick_operands(operation, arguments, values)[-1], 1)]
    if operation in ("ceil", "floor", "quantity"):
        return [(first, 1)]
    if operation == "exp":
        return [(first, math.exp(value))]
    if operation == "log":
        return [(first, 1 / value)]
    if operation == "tanh":
        return [(first, 1 - math.tanh(value) ** 2)]
    exponent = values[others[0]]
    parts = [(first, exponent * raise_power(value, exponent - 1))] if exponent else []
    if value > 0:
        parts.append((others[0], float(raise_power(value, exponent)) * math.log(value)))
    return parts


def _derive_product(arguments: Sequence[int], values: Sequence[Any]) -> Sequence[tuple[int, Any]]:
    """Compute, for each factor, the product of the others."""
    before, products = 1, []
    for argument in arguments:
        products.append(before)
        before = before * values[argument]
    after = 1
    for place in range(len(arguments) - 1, -1, -1):
        products[place] = products[place] * after
        after = after * values[arguments[place]]
    return list(zip(arguments, products, strict=True))
