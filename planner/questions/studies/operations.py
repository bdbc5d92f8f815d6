"""A graph run over arrays that broadcast: each operation for all points at once.

Numbers that all points share stay Python's, and exact; an operation costs the size of what its
arguments vary along, not the number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.engine.arrays.operations import OPERATIONS, State
from planner.engine.graph import LEAVES
from planner.engine.tape import Tape

Array = NDArray[Any]


class Broadcast:
    """What operations need to run over arrays of any shapes that agree."""

    def apply(self, function: Callable[..., Any], states: Sequence[State]) -> State:
        """One operation on nodes that are not all numbers."""
        return State(array=function(*[_array(state) for state in states]))


def over_arrays(tape: Tape, leaves: Sequence[Any]) -> list[Any]:
    """The value of every node of a tape: a number, or an array that broadcasts with the others. NaN
    where a number cannot be computed with."""
    given = dict(zip(tape.inputs, leaves, strict=True))
    states: list[State] = []
    program = Broadcast()
    with np.errstate(all="ignore"):
        for place, (operation, arguments) in enumerate(tape.graph.nodes):
            if operation in LEAVES:
                value = given.get(place, arguments[0] if operation == "const" else np.nan)
                arrays = isinstance(value, np.ndarray)
                states.append(State(array=value) if arrays else State(number=value))
                continue
            found = OPERATIONS[operation](program, [states[i] for i in arguments])
            if operation in ("div", "pow") and found.number is None:
                found = State(array=np.where(np.isfinite(found.array), found.array, np.nan))
            states.append(found)
    return [state.array if state.number is None else state.number for state in states]


def _array(state: State) -> Any:
    return state.array if state.number is None else float(state.number)
