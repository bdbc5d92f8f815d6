"""Runs a graph of operations over the rows of a table.

Each node is evaluated once for each distinct combination of what it depends on. Arrays have three
axes: two of choices that are crossed with every row, and the places of a group of rows; further
axes, of values crossed with every row too, may follow. Nodes that differ in nearly all rows become
a list of steps that runs chunk by chunk, in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.engine.arrays.operations import OPERATIONS, State
from planner.engine.arrays.table import Array, Group, Table
from planner.engine.graph import LEAVES, Content, Graph

#: A group with more than this share of all rows is evaluated row by row.
WIDE = 0.25
#: Elements of the arrays of one chunk: a few of them fit into a core's cache.
CHUNK = 16_384


@dataclass(frozen=True, eq=False)
class Values:
    """The value of a leaf: an array (zero, recompute, codes, …) over both axes of choices and the
    codes of a column (None: no rows); axes on which it does not depend have length 1. The further
    axes of a program are either all there or all absent."""

    column: str | None
    array: Array


Leaf = Callable[[Content], Any]


class Program:
    """A graph over a table; nodes that depend on few columns are evaluated at once.

    Args:
        further: how many axes follow that of the rows.
    """

    def __init__(
        self, graph: Graph, roots: Iterable[int], table: Table, leaf: Leaf, further: int = 0
    ) -> None:
        """Write the program of a graph.

        Args:
            graph: with the nodes that the roots need.
            roots: nodes whose values are wanted for all rows.
            table: the rows, by columns.
            leaf: returns the value of a leaf, a number or an array by column.
            further: dimensions behind those of the rows, such as of seeds.
        """
        self.table, self._further = table, further
        #: Functions with their operands; the result of each has the slot of its index.
        self.steps: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._gathered: dict[int, int] = {}
        self._graph, self._leaf = graph, leaf
        self._narrow = table.size * WIDE if table.size > 4096 else math.inf
        with np.errstate(all="ignore"):
            states = self._evaluate_roots(frozenset(roots))
        self._roots = {root: self._get_operand(state) for root, state in states.items()}
        self._frees = self._list_last_uses()

    def _evaluate_roots(self, roots: Collection[int]) -> dict[int, State]:
        """Evaluate the roots; drop other nodes after their last use."""
        nodes, order = self._graph.nodes, self._graph.list_needed(roots)
        last = {a: p for p in order if nodes[p][0] not in LEAVES for a in nodes[p][1]}
        states: dict[int, State] = {}
        for place in order:
            operation, arguments = nodes[place]
            if operation in LEAVES:
                states[place] = self._make_leaf(nodes[place])
                continue
            states[place] = OPERATIONS[operation](self.apply, [states[a] for a in arguments])
            for argument in arguments:
                if last[argument] == place and argument not in roots:
                    states.pop(argument, None)
        return states

    def _make_leaf(self, content: Content) -> State:
        """Return the state of a leaf: a number, or an array over the distinct values of its
        column."""
        operation, arguments = content
        value = arguments[0] if operation in ("const", "name") else self._leaf(content)
        if not isinstance(value, Values):
            return State(number=value)
        array = value.array
        if array.ndim == 3:
            array = array.reshape(array.shape + (1,) * self._further)
        if value.column is None:
            first = array.item(0)
            if (array == first).all():
                whole = isinstance(first, float) and first.is_integer()
                return State(number=int(first) if whole else first)
            return State(array=array)
        mask = self.table.bits[value.column]
        group = self.table.find_group(mask)
        codes = self.table.columns[value.column].of_row[group.first]
        return State(mask, array=array[:, :, codes], group=group)

    def apply(self, function: Callable[..., Any], states: Sequence[State]) -> State:
        """Apply one operation to nodes that are not all numbers."""
        mask = 0
        wide = False
        for state in states:
            mask |= state.mask
            wide |= state.slot is not None
        if not mask and not wide:
            return State(array=function(*(_unpack_state(state) for state in states)))
        group = None if wide else self.table.find_group(mask)
        if group is None or group.count > self._narrow:
            slot = self._step(function, tuple(self._get_operand(state) for state in states))
            return State(mask, slot=slot)
        arrays = [self._expand_state(state, group) for state in states]
        return State(mask, array=function(*arrays), group=group)

    def _expand_state(self, state: State, group: Group) -> Any:
        """Expand a node to a group that distinguishes as many rows as its own, or more."""
        if state.group is None:
            return _unpack_state(state)
        if state.group is group:
            return state.array
        if group not in state.spread:
            places = self.table.map_places(state.group, group)
            state.spread[group] = state.array.take(places, axis=2)
        return state.spread[group]

    def _step(self, function: Callable[..., Any], operands: tuple[Any, ...]) -> int:
        """Append a function with its operands; return the slot of its result."""
        self.steps.append((function, operands))
        return len(self.steps) - 1

    def _get_operand(self, state: State) -> Any:
        """Return a slot as ``(slot,)``, or a value that all rows share."""
        if state.slot is not None:
            return (state.slot,)
        if state.group is None:
            return _unpack_state(state)
        found = self._gathered.get(id(state.array))
        if found is None:
            found = self._gathered[id(state.array)] = self._step(_take, (state.array, state.group))
        return (found,)

    def _list_last_uses(self) -> list[set[int]]:
        """List, for each step, the slots that are not needed after it."""
        needed = {operand[0] for operand in self._roots.values() if type(operand) is tuple}
        frees: list[set[int]] = []
        for place in range(len(self.steps) - 1, -1, -1):
            _, operands = self.steps[place]
            used = {place, *(operand[0] for operand in operands if type(operand) is tuple)}
            frees.append(used - needed)
            needed |= used
        return frees[::-1]

    def run_rows(self, rows: slice, axes: tuple[int, int]) -> dict[int, Array]:
        """Run the roots for some rows, in their order, as (zero, recompute, rows, …): then the
        further axes, of length 1 if a root does not vary along one."""
        slots: list[Any] = []
        places: dict[Group, Array] = {}
        with np.errstate(all="ignore"):
            for (function, operands), frees in zip(self.steps, self._frees, strict=True):
                if function is _take:
                    array, group = operands
                    found = places.get(group)
                    if found is None:
                        found = places[group] = group.of_rows[rows]
                    value = array.take(found, axis=2)
                else:
                    value = function(*[slots[o[0]] if type(o) is tuple else o for o in operands])
                slots.append(value)
                for free in frees:
                    slots[free] = None
        size = len(range(*rows.indices(self.table.size)))
        found_roots = {}
        for root, operand in self._roots.items():
            value = slots[operand[0]] if type(operand) is tuple else operand
            array = np.asarray(value, dtype=np.float64)
            beside = array.shape[3:] or (1,) * self._further
            found_roots[root] = np.broadcast_to(array, (*axes, size, *beside))
        return found_roots


def _take(array: Array, group: Group) -> None:
    """Mark a gather from a group to all rows in the list of steps."""
    raise AssertionError("gathers are done by Program.run")


def _unpack_state(state: State) -> Any:
    """Return the array of a state, or its number as NumPy takes it."""
    number = state.number
    if number is None:
        return state.array
    return number if isinstance(number, (bool, np.bool_)) else float(number)
