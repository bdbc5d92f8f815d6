"""Runs a graph of operations over the rows of a table.

Each node is evaluated once for each distinct combination of what it depends on; arrays have three
axes, two of choices that every row is crossed with, and the places of a group of rows. What tells
nearly all rows apart is left to a list of steps that runs chunk by chunk, in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.graph import Content, Graph
from planner.table import Group, Table

Array = NDArray[Any]
#: Results of divisions this close to a whole number, as a share, are that number.
SNAP = 1e-12
#: A group with more than this share of all rows is evaluated row by row.
WIDE = 0.25
#: Elements of the arrays of one chunk: a few of them fit into a core's cache.
CHUNK = 16_384


@dataclass(frozen=True, eq=False)
class Values:
    """What a leaf is worth: an array over both axes of choices and over the codes of a column
    (None: over no rows); the axes that it does not depend on have length 1."""

    column: str | None
    array: Array


@dataclass(slots=True)
class _State:
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


Leaf = Callable[[Content], Any]


class Program:
    """A graph over a table, with what few columns decide already evaluated."""

    def __init__(self, graph: Graph, roots: Iterable[int], table: Table, leaf: Leaf) -> None:
        self.table = table
        self.steps: list[tuple[Callable[..., Any], tuple[Any, ...], int]] = []
        self.slots = 0
        self._gathered: dict[int, int] = {}
        self._gathers: list[tuple[Array, Group, int]] = []
        self._graph, self._leaf = graph, leaf
        wide = table.size * WIDE
        self._narrow = wide if table.size > 4096 else math.inf
        roots = list(roots)
        with np.errstate(all="ignore"):
            states = self._evaluated(roots)
        self._roots = {root: states[root] for root in roots}
        self._frees = self._last_uses()

    # -- what few columns decide --------------------------------------------------------------

    def _evaluated(self, roots: Sequence[int]) -> dict[int, _State]:
        nodes = self._graph.nodes
        uses = _uses(nodes, roots)
        states: dict[int, _State] = {}
        for place in sorted(uses):
            operation, arguments = nodes[place]
            if operation in _LEAVES:
                states[place] = self._of_leaf(nodes[place])
                continue
            states[place] = _OPERATIONS[operation](self, [states[a] for a in arguments])
            for argument in arguments:
                uses[argument] -= 1
                if not uses[argument]:
                    del states[argument]
        return states

    def _of_leaf(self, content: Content) -> _State:
        operation, arguments = content
        value = arguments[0] if operation == "const" else self._leaf(content)
        if not isinstance(value, Values):
            return _State(number=value)
        array = value.array
        if value.column is None:
            first = array.flat[0]
            if (array == first).all():
                return _State(number=_plain(first))
            return _State(array=array)
        mask = self.table.bits[value.column]
        group = self.table.group(mask)
        codes = self.table.columns[value.column].of_row[group.first]
        return _State(mask, array=array[:, :, codes], group=group)

    def _place(self, mask: int) -> Group | None:
        """The group to evaluate at; None row by row."""
        group = self.table.group(mask)
        return group if group.count <= self._narrow else None

    def apply(self, function: Callable[..., Any], states: Sequence[_State]) -> _State:
        """One operation on nodes that are not all numbers."""
        mask = 0
        wide = False
        for state in states:
            mask |= state.mask
            wide |= state.slot is not None
        if not mask and not wide:
            return _State(array=function(*(_rowless(state) for state in states)))
        group = None if wide else self._place(mask)
        if group is None:
            slot = self._step(function, tuple(self._operand(state) for state in states))
            return _State(mask, slot=slot)
        arrays = []
        for state in states:
            if state.group is None:
                arrays.append(_rowless(state))
                continue
            arrays.append(self._at(state, group))
        return _State(mask, array=function(*arrays), group=group)

    def _at(self, state: _State, group: Group) -> Array:
        """An array at the places of a group that tells more apart than its own."""
        found: Array | None = state.spread.get(group)
        if found is None:
            assert state.group is not None
            places = self.table.places(state.group, group)
            found = state.array if places is None else state.array.take(places, axis=2)
            state.spread[group] = found
        return found

    # -- what is left to do for each chunk ----------------------------------------------------

    def _step(self, function: Callable[..., Any], operands: tuple[Any, ...]) -> int:
        slot = self.slots
        self.slots += 1
        self.steps.append((function, operands, slot))
        return slot

    def _operand(self, state: _State) -> Any:
        """A slot as ``(slot,)``, or what is the same for all rows."""
        if state.slot is not None:
            return (state.slot,)
        if state.group is None:
            return _rowless(state)
        found = self._gathered.get(id(state.array))
        if found is None:
            found = self._gathered[id(state.array)] = self._step(_take, (state.array, state.group))
        return (found,)

    def _last_uses(self) -> list[tuple[int, ...]]:
        """After each step, the slots that nothing needs any more."""
        kept = {state.slot for state in self._roots.values()}
        last: dict[int, int] = {}
        for place, (_, operands, slot) in enumerate(self.steps):
            last[slot] = place
            for operand in operands:
                if type(operand) is tuple:
                    last[operand[0]] = place
        frees: list[list[int]] = [[] for _ in self.steps]
        for slot, place in last.items():
            if slot not in kept:
                frees[place].append(slot)
        return [tuple(found) for found in frees]

    def run(self, rows: slice, axes: tuple[int, int]) -> dict[int, Array]:
        """The roots for some rows: arrays over both axes of choices and the rows."""
        slots: list[Any] = [None] * self.slots
        places: dict[Group, Array] = {}
        with np.errstate(all="ignore"):
            for (function, operands, slot), frees in zip(self.steps, self._frees, strict=True):
                if function is _take:
                    array, group = operands
                    found = places.get(group)
                    if found is None:
                        found = places[group] = group.of_rows[rows]
                    slots[slot] = array.take(found, axis=2)
                else:
                    slots[slot] = function(
                        *[slots[o[0]] if type(o) is tuple else o for o in operands]
                    )
                for free in frees:
                    slots[free] = None
        size = len(range(*rows.indices(self.table.size)))
        shape = (*axes, size)
        found_roots = {}
        for root, state in self._roots.items():
            if state.slot is not None:
                value = slots[state.slot]
            elif state.group is not None:
                value = state.array.take(state.group.of_rows[rows], axis=2)
            else:
                value = _rowless(state)
            found_roots[root] = np.broadcast_to(np.asarray(value, dtype=np.float64), shape)
        return found_roots


def _take(array: Array, group: Group) -> None:
    raise AssertionError("gathers are done by Program.run")


def _uses(nodes: Sequence[Content], roots: Sequence[int]) -> dict[int, int]:
    """How often each needed node is used; a root once more."""
    uses: dict[int, int] = {}
    waiting = list(roots)
    for root in roots:
        uses[root] = uses.get(root, 0) + 1
    seen = set(roots)
    while waiting:
        operation, arguments = nodes[waiting.pop()]
        if operation in _LEAVES:
            continue
        for argument in arguments:
            uses[argument] = uses.get(argument, 0) + 1
            if argument not in seen:
                seen.add(argument)
                waiting.append(argument)
    return uses


def _rowless(state: _State) -> Any:
    return state.array if state.number is None else _float(state.number)


def _float(number: Any) -> Any:
    return number if isinstance(number, (bool, np.bool_)) else float(number)


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    number = float(value)
    return int(number) if number.is_integer() else number


# -- operations -------------------------------------------------------------------------------


def _joined(
    program: Program, states: list[_State], function: Any, plain: Callable[[list[Any]], Any]
) -> _State:
    """An operation whose order does not matter: what is cheap first."""
    numbers = [state.number for state in states if state.number is not None]
    arrays = sorted((s for s in states if s.number is None), key=lambda state: state.cost)
    if not arrays:
        return _State(number=plain(numbers))
    result = arrays[0]
    if numbers:
        result = program.apply(function, [_State(number=plain(numbers)), result])
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


def _add(program: Program, states: list[_State]) -> _State:
    return _joined(program, states, np.add, lambda numbers: _tidy(sum(numbers)))


def _mul(program: Program, states: list[_State]) -> _State:
    return _joined(program, states, np.multiply, _product)


def _div(program: Program, states: list[_State]) -> _State:
    above, below = states
    if above.number is not None and below.number is not None:
        if not below.number:
            return _State(number=math.nan)
        if isinstance(above.number, float) or isinstance(below.number, float):
            return _State(number=above.number / below.number)
        return _State(number=_tidy(Fraction(above.number) / below.number))
    return program.apply(np.divide, states)


def _pow(program: Program, states: list[_State]) -> _State:
    base, exponent = states
    if base.number is not None and exponent.number is not None:
        try:
            return _State(number=_tidy(base.number**exponent.number))
        except ArithmeticError:
            return _State(number=math.nan)
    return program.apply(np.power, states)


def _sqrt(program: Program, states: list[_State]) -> _State:
    number = states[0].number
    if number is not None:
        return _State(number=math.sqrt(number) if number >= 0 else math.nan)
    return program.apply(np.sqrt, states)


def _ceil(program: Program, states: list[_State]) -> _State:
    number = states[0].number
    if number is not None:
        return _State(number=_rounded(number, math.ceil))
    return program.apply(lambda x: np.ceil(x - SNAP * np.abs(x)), states)


def _floor(program: Program, states: list[_State]) -> _State:
    number = states[0].number
    if number is not None:
        return _State(number=_rounded(number, math.floor))
    return program.apply(lambda x: np.floor(x + SNAP * np.abs(x)), states)


def _rounded(number: Any, rule: Callable[[Any], int]) -> Any:
    if isinstance(number, float):
        if not math.isfinite(number):
            return number
        near = round(number)
        number = near if abs(number - near) <= SNAP * abs(near) else number
    return rule(number)


def _max(program: Program, states: list[_State]) -> _State:
    return _joined(program, states, np.maximum, max)


def _min(program: Program, states: list[_State]) -> _State:
    return _joined(program, states, np.minimum, min)


def _and(program: Program, states: list[_State]) -> _State:
    return _joined(program, states, np.logical_and, all)


def _select(program: Program, states: list[_State]) -> _State:
    """The first value whose condition is true; NaN where none is."""
    pairs = list(zip(states[0::2], states[1::2], strict=True))
    kept: list[tuple[_State, _State]] = []
    for condition, value in pairs:
        if condition.number is None:
            kept.append((condition, value))
        elif condition.number:
            break
    else:
        value = _State(number=math.nan)
        if kept and _exhaustive(program, [condition for condition, _ in kept]):
            _, value = kept.pop()
    for condition, other in reversed(kept):
        if other is not value:
            value = program.apply(np.where, [condition, other, value])
    return value


def _exhaustive(program: Program, conditions: list[_State]) -> bool:
    """Whether one of the conditions is true everywhere."""
    if any(condition.slot is not None for condition in conditions):
        return False
    either = conditions[0]
    for condition in conditions[1:]:
        either = program.apply(np.logical_or, [either, condition])
        if either.slot is not None:
            return False
    return bool(either.array.all())


def _pick(program: Program, states: list[_State]) -> _State:
    by, body = states[0], states[1]
    for other_by, other in zip(states[2::2], states[3::2], strict=True):
        if by.number is not None and other_by.number is not None:
            by, body = (other_by, other) if other_by.number > by.number else (by, body)
            continue
        better = program.apply(np.greater, [other_by, by])
        body = program.apply(np.where, [better, other, body])
        by = program.apply(np.maximum, [by, other_by])
    return body


_LEAVES = frozenset(("const", "input", "is", "present"))
_OPERATIONS: Mapping[str, Callable[[Program, list[_State]], _State]] = {
    "add": _add,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "sqrt": _sqrt,
    "ceil": _ceil,
    "floor": _floor,
    "max": _max,
    "min": _min,
    "and": _and,
    "select": _select,
    "pick": _pick,
}
