"""A graph run over arrays that broadcast: each operation for all points at once.

Numbers that all points share stay Python's, and exact; an operation costs the size of what its
arguments vary along, not the number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.book.quantity import BOOK
from planner.engine.arrays.operations import OPERATIONS, State
from planner.engine.graph import LEAVES
from planner.engine.tape import Tape

Array = NDArray[Any]
#: Of doubles that are a sum, as a share of its terms.
ROUNDING = 1e-12


class Broadcast:
    """What operations need to run over arrays of any shapes that agree."""

    def apply(self, function: Callable[..., Any], states: Sequence[State]) -> State:
        """One operation on nodes that are not all numbers."""
        return State(array=function(*[_array(state) for state in states]))


def over_arrays(tape: Tape, leaves: Sequence[Any]) -> list[Any]:
    """The value of every node of a tape: a number, or an array that broadcasts with the others. NaN
    where a number cannot be computed with, or a quantity is outside of its range."""
    given = dict(zip(tape.inputs, leaves, strict=True))
    states: list[State] = []
    program = Broadcast()
    nodes = tape.graph.nodes
    with np.errstate(all="ignore"):
        for place, (operation, arguments) in enumerate(nodes):
            if operation in LEAVES:
                value = given.get(place, arguments[0] if operation == "const" else np.nan)
                arrays = isinstance(value, np.ndarray)
                states.append(State(array=value) if arrays else State(number=value))
                continue
            found = OPERATIONS[operation](program, [states[i] for i in arguments])
            if operation in ("div", "pow") and found.number is None:
                found = State(array=np.where(np.isfinite(found.array), found.array, np.nan))
            elif operation == "quantity":
                value, name = arguments
                found = _checked(tape, nodes[name][1][0][0], value, states)
            states.append(found)
    return [state.array if state.number is None else state.number for state in states]


def in_range(name: str, values: Any, terms: Callable[[], Any]) -> Any:
    """Values of a quantity, NaN where they are outside of its range; beside it by rounding, the end
    of the range.

    Args:
        terms: how large they would be if nothing in them cancelled.
    """
    low, high = BOOK.quantities[name].within
    below, above = low is not None and values < low, high is not None and values > high
    if not (np.any(below) or np.any(above)):
        return values
    inside = np.clip(np.asarray(values, dtype=np.float64), low, high)
    return np.where(np.abs(values - inside) <= ROUNDING * terms(), inside, np.nan)


def _checked(tape: Tape, name: str, place: int, states: Sequence[State]) -> State:
    """A quantity, where it is in its range."""
    found = states[place]
    values = found.array if found.number is None else found.number
    kept = in_range(name, values, lambda: _terms(tape, place, states))
    return found if kept is values else State(array=kept)


def _terms(tape: Tape, place: int, states: Sequence[State]) -> Any:
    """How large a value would be if nothing in it cancelled."""
    operation, arguments = tape.graph.nodes[place]
    if operation in ("add", "mul", "max", "min"):
        rule = {"add": np.add, "mul": np.multiply}.get(operation, np.maximum)
        return reduce(rule, [_terms(tape, each, states) for each in arguments])
    if operation == "div":
        return _terms(tape, arguments[0], states) / np.abs(_array(states[arguments[1]]))
    return np.abs(_array(states[place]))


def _array(state: State) -> Any:
    return state.array if state.number is None else float(state.number)
