"""Quantities of a plan as one list of operations, to be run again over other numbers.

A tape is what an evaluation did, written down: leaves (bound symbols) and constants, then sums,
products, powers, roundings and choices in an order in which each finds its arguments done. While
a change moves numbers only (not which formulas hold, nor which entries there are) the tape runs
over the changed plan's leaves, in floats for a question that tries hundreds of plans, exactly
for derivatives (``gradient.py``), in polynomials for closed forms (``polynomials.py``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from sympy import (
    Add,
    Integer,
    Max,
    Min,
    Mul,
    Pow,
    Rational,
    Symbol,
    ceiling,
    exp,
    floor,
    log,
    tanh,
)

from planner.book.quantity import agrees
from planner.book.reductions import AtLargest, Largest, Total, Which
from planner.engine.evaluate import Absent, Case, Entry, Evaluation, Point, widen

CONSTANT, LEAF, ADD, MUL, POW, EXP, TANH, LOG, CEIL, FLOOR, MAX, MIN, PICK = range(13)
#: Results of divisions this close to a whole number, as a share, are that number.
SNAP = 1e-12

#: What a leaf can be.
NUMBERS = frozenset((int, Fraction, float, bool))
#: Sets of leaves of which a tape remembers what rests on them.
MOST_MOVES = 16

Place = tuple[str, int]  # axis and position
Quantity = tuple[str, tuple[Place, ...]]

#: Operations whose arguments are simply those of the expression.
_FOLDED = {Add: ADD, Mul: MUL, Max: MAX, Min: MIN}
#: Functions of one number.
_OF_ONE = {exp: EXP, tanh: TANH, log: LOG}


class Leaf(NamedTuple):
    """A bound symbol: of the plan, of one entry or of a pair of entries; or a quantity at which a
    tape ends."""

    symbol: Symbol
    places: tuple[Place, ...]


class Node(NamedTuple):
    """One operation. ``arguments`` are earlier nodes; of PICK, what is compared and then, one for
    each, what is taken (None where it is absent); of POW, the base and, unless it is constant, the
    exponent. ``data`` is the constant, the leaf's number or the constant exponent."""

    operation: int
    arguments: tuple[int | None, ...] = ()
    data: Any = None


class Tape:
    """The operations behind some quantities of one case.

    Args:
        case: what is evaluated.
        quantities: the results.
        ends: quantities that are leaves, whatever they are made of. Their symbols are no symbols
            that a case binds, so that ``values`` has none for them.
        absent: takes why a quantity has no value, whatever the numbers, in the place of a result.

    Raises:
        Absent: a quantity that has no value, which one and why; with ``absent``, none.
    """

    def __init__(
        self,
        case: Case,
        quantities: Iterable[str],
        ends: Collection[str] = (),
        absent: dict[str, str] | None = None,
    ) -> None:
        recorder = _Recorder(case, ends)
        self.results: dict[str, int] = {}
        for name in quantities:
            try:
                self.results[name] = recorder.value(name)
            except Absent as error:
                if absent is None:
                    raise Absent(f"{name} cannot be computed: {error.reason}") from None
                absent[name] = error.reason
        self.nodes: list[Node] = recorder.nodes
        self.leaves: list[Leaf] = recorder.leaves
        #: Which node is the value of which quantity at which entries.
        self.quantities: dict[Quantity, int] = recorder.quantities
        self._frame = _Frame(case, recorder)
        self._last: dict[bool, tuple[list[Any], list[Any]]] = {}
        self._moved: dict[frozenset[int], list[int]] = {}

    def values(self, case: Case) -> list[Any] | None:
        """The numbers of the leaves in a case; None where another tape is needed for it."""
        return self._frame.leaves(case, self.leaves)

    def run(self, leaves: Sequence[Any], exact: bool = True) -> list[Any]:
        """The value of every node, exact where the leaves are; NaN below a division by zero.
        Not ``exact``, the numbers of the formulas are floats, as the leaves then are.

        Raises:
            ArithmeticError, ValueError: beyond the range of floating-point numbers.
        """
        return run(self.nodes if exact else self._rounded, leaves)

    def again(self, leaves: Sequence[Any], exact: bool) -> list[Any]:
        """As ``run``; only what rests on leaves that are not as they were the last time (of exact
        numbers, or of floats) is computed anew."""
        before, values = self._last.get(exact, ((), []))
        nodes = self.nodes if exact else self._rounded
        if not before:
            values = self.run(leaves, exact)
        else:
            moved = frozenset(
                number
                for number, (old, new) in enumerate(zip(before, leaves, strict=True))
                if old != new or type(old) is not type(new)
            )
            if moved not in self._moved:
                if len(self._moved) >= MOST_MOVES:
                    self._moved.clear()
                rest = self.dependent(moved)
                self._moved[moved] = [i for i, moves in enumerate(rest) if moves]
            values = list(values)
            _redo(nodes, self._moved[moved], values, leaves)
        self._last[exact] = (list(leaves), values)
        return values

    @cached_property
    def _rounded(self) -> list[Node]:
        """The nodes for floats, with which fractions are slow to compute."""
        return [
            Node(CONSTANT, (), float(node.data)) if node.operation == CONSTANT else node
            for node in self.nodes
        ]

    def dependent(self, leaves: Iterable[int]) -> list[bool]:
        """For each node whether it rests on one of these leaves (by number)."""
        moved, found = set(leaves), []
        for node in self.nodes:
            if node.operation == LEAF:
                found.append(node.data in moved)
            else:
                found.append(any(found[i] for i in node.arguments if i is not None))
        return found


def run(nodes: Sequence[Node], leaves: Sequence[Any]) -> list[Any]:
    """The value of every node of a tape for these leaves."""
    values: list[Any] = [None] * len(nodes)
    _redo(nodes, range(len(nodes)), values, leaves)
    return values


def _redo(
    nodes: Sequence[Node], places: Iterable[int], values: list[Any], leaves: Sequence[Any]
) -> None:
    """Compute some nodes in their order; most are sums, products and leaves, which need no call."""
    for place in places:
        operation, arguments, data = node = nodes[place]
        if operation == MUL:
            value = 1
            for i in arguments:
                value *= values[i]  # type: ignore[index]
        elif operation == ADD:
            value = 0
            for i in arguments:
                value += values[i]  # type: ignore[index]
        elif operation == LEAF:
            value = leaves[data]
        else:
            value = step(node, values)
        values[place] = value


def step(node: Node, values: Sequence[Any]) -> Any:
    """The value of a node that is no leaf, sum or product, those of its arguments being known."""
    operation, arguments = node.operation, node.arguments
    if operation == CONSTANT:
        return node.data
    if operation == PICK:
        body = arguments[len(arguments) // 2 + picked(node, values)]
        return math.nan if body is None else values[body]
    if operation == POW:
        exponent = node.data if len(arguments) == 1 else values[arguments[1]]  # type: ignore[index]
        return power(values[arguments[0]], exponent)  # type: ignore[index]
    if operation == EXP:
        return math.exp(values[arguments[0]]) or math.nan  # type: ignore[index]
    if operation == LOG:
        inner = values[arguments[0]]  # type: ignore[index]
        return math.log(inner) if inner > 0 else math.nan
    if operation == TANH:
        return math.tanh(values[arguments[0]])  # type: ignore[index]
    if operation == MAX:
        return max(values[i] for i in arguments)  # type: ignore[index]
    if operation == MIN:
        return min(values[i] for i in arguments)  # type: ignore[index]
    return rounded(operation, values[arguments[0]])  # type: ignore[index]


def picked(node: Node, values: Sequence[Any]) -> int:
    """Which of the compared arguments is largest, the first of equals."""
    compared = [values[i] for i in node.arguments[: len(node.arguments) // 2]]  # type: ignore[index]
    return compared.index(max(compared))


def power(base: Any, exponent: Any) -> Any:
    """Exact where the exponent is whole and the base exact; NaN for a division by zero."""
    if base == 0 and exponent < 0:
        return math.nan
    if not isinstance(exponent, int) and exponent == int(exponent):
        exponent = int(exponent)
    if isinstance(exponent, int):
        if exponent == -1 and isinstance(base, float):
            return 1 / base
        return base**exponent if isinstance(base, float) else Fraction(base) ** exponent
    return float(base) ** float(exponent)


def rounded(operation: int, value: Any) -> Any:
    """Up or down to a whole number; a float within rounding of a whole number is that number."""
    if isinstance(value, float):
        near = float(round(value))  # raises ValueError or OverflowError where it is not finite
        if abs(value - near) <= SNAP * abs(near):
            return near
        return float(math.ceil(value) if operation == CEIL else math.floor(value))
    return -int(-value // 1) if operation == CEIL else int(value // 1)


class _Recorder(Evaluation):
    """An evaluation whose values are nodes."""

    def __init__(self, case: Case, ends: Collection[str] = ()) -> None:
        super().__init__(case)
        self.ends = ends
        self.nodes: list[Node] = []
        self.leaves: list[Leaf] = []
        self.quantities: dict[Quantity, int] = {}
        self.asked: set[str] = set()
        self.expressions: dict[Leaf, Any] = {}
        self.places = _places(case)
        self._found: dict[Any, int | Absent] = {}
        self._nodes: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}

    # -- as in Evaluation, with nodes for values ----------------------------------------------

    def value(self, identifier: str, point: Point | None = None) -> Any:
        per = self.book.quantities[identifier].per
        entries = tuple(point[axis] for axis in per) if point else ()
        key = (identifier, entries)
        found = self._found.get(key)
        if found is None:
            try:
                found = self._chosen(identifier, widen(dict(zip(per, entries, strict=True))))
                self.quantities[identifier, tuple(self.places[e] for e in entries)] = found
            except Absent as absent:
                found = absent
            self._found[key] = found
        if isinstance(found, Absent):
            raise found
        return found

    def _chosen(self, identifier: str, point: Point) -> int:
        if identifier in self.ends:
            first = self.book.quantities[identifier]
            places = tuple(self.places[point[axis]] for axis in first.per)
            return self._leaf(Leaf(first.symbol, places))
        for declaration in self.book.quantities[identifier].formulas:
            for name, wanted in declaration.when.items():
                if not agrees(self.setting(name, point), wanted):
                    break
            else:
                return int(self.compute(declaration.expression, point))
        raise Absent(self._unanswered(identifier, point))

    def setting(self, name: str, point: Point) -> Any:
        self.asked.add(name)
        for entry in point.values():
            if name in entry.settings:
                return entry.settings[name]
        return self.case.settings.get(name)

    def symbol(self, symbol: Symbol, point: Point) -> Any:
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            return self.value(identifier, point)
        scope = self._scope(symbol, point)
        found = self._found.get((symbol, scope))
        if isinstance(found, int):
            return found
        bound = self.bound(symbol, point)
        if isinstance(bound, Absent):
            raise bound
        if isinstance(bound, str):
            raise Absent(f"{symbol} is a name")
        leaf = Leaf(symbol, tuple(self.places[entry] for entry in scope))
        if not isinstance(bound, (int, Fraction, float)):
            self.expressions[leaf] = bound
            return self.compute(bound, point)  # in symbols of other entries too
        node = self._found[symbol, scope] = self._leaf(leaf)
        return node

    def _leaf(self, leaf: Leaf) -> int:
        self.leaves.append(leaf)
        return self._node(LEAF, (), len(self.leaves) - 1)

    def _scope(self, symbol: Symbol, point: Point) -> tuple[Entry, ...]:
        """Where ``bound`` finds it: in one entry, in two crossed ones, or in the plan."""
        for entry in point.values():
            if symbol in entry.bindings:
                return (entry,)
        note = self.book.notation.get(symbol)
        if note is not None and len(note.per) == 2:
            first, second = (point[axis] for axis in note.per)
            if (symbol, first, second) in self.case.crossed:
                return first, second
        return ()

    def compute(self, expression: Any, point: Point) -> Any:
        kind = type(expression)
        if kind is Symbol:
            return self.symbol(expression, point)
        operation = _FOLDED.get(kind)
        if operation is not None:
            return self._node(operation, tuple([self.compute(a, point) for a in expression.args]))
        if kind is Pow:
            return self._power(expression, point)
        if expression.is_Number:
            return self._constant(expression)
        if kind is Total:
            points = self.entries(expression.axis, point, expression.where)
            return self._node(ADD, tuple([self.compute(expression.body, p) for p in points]))
        if kind is ceiling or kind is floor:
            inner = self.compute(expression.args[0], point)
            return self._node(CEIL if kind is ceiling else FLOOR, (inner,))
        if kind in _OF_ONE:
            return self._node(_OF_ONE[kind], (self.compute(expression.args[0], point),))
        if kind is Largest or kind is AtLargest:
            return self._peak(expression, point)
        if kind is Which:
            raise Absent("a name is no number")
        raise TypeError(f"no operation for {kind.__name__}: {expression}")

    def _constant(self, number: Any) -> int:
        """The node of a number of the formula, found by which object it is: the book keeps them."""
        found = self._numbers.get(id(number))
        if found is None:
            value = int(number.p) if isinstance(number, Integer) else Fraction(number.p, number.q)
            found = self._numbers[id(number)] = self._node(CONSTANT, (), value)
        return found

    def _power(self, expression: Any, point: Point) -> int:
        base, exponent = expression.args
        inner = self.compute(base, point)
        if isinstance(exponent, Integer):
            return self._node(POW, (inner,), int(exponent.p))
        if isinstance(exponent, Rational):
            return self._node(POW, (inner,), Fraction(exponent.p, exponent.q))
        return self._node(POW, (inner, self.compute(exponent, point)))

    def _peak(self, fold: Any, point: Point) -> int:
        points = self.entries(fold.axis, point, fold.where)
        if not points:
            raise Absent(f"there is no {fold.axis}")
        if type(fold) is Largest:
            return self._node(MAX, tuple(self.compute(fold.body, below) for below in points))
        compared = tuple(self.compute(fold.by, below) for below in points)
        taken: list[int | None] = []
        reason: Absent | None = None
        for below in points:
            try:
                taken.append(self.compute(fold.body, below))
            except Absent as absent:  # of no harm unless it is the one that is taken
                taken.append(None)
                reason = absent
        if reason is not None and not any(node is not None for node in taken):
            raise reason
        return self._node(PICK, (*compared, *taken))

    def _node(
        self, operation: int, arguments: tuple[int | None, ...] = (), data: Any = None
    ) -> int:
        if len(arguments) == 1 and operation in (ADD, MUL, MAX, MIN):
            assert arguments[0] is not None
            return arguments[0]
        key = (operation, arguments, data)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = len(self.nodes)
            self.nodes.append(Node(operation, arguments, data))
        return found


def _places(case: Case) -> dict[Entry, Place]:
    return {
        entry: (axis, index)
        for axis, entries in case.axes.items()
        if not isinstance(entries, Absent)
        for index, entry in enumerate(entries)
    }


class _Frame:
    """What must be as it was when a tape was recorded."""

    def __init__(self, case: Case, recorder: _Recorder) -> None:
        self.names = tuple(sorted(recorder.asked))
        self.settings = _settings(case.settings, self.names)
        self.expressions = recorder.expressions
        self.axes: dict[str, tuple[tuple[str, ...], list[Any]] | None] = {}
        for axis, entries in case.axes.items():
            if isinstance(entries, Absent):
                self.axes[axis] = None
                continue
            given = {name for entry in entries for name in entry.settings}
            names = tuple(name for name in self.names if name in given)
            self.axes[axis] = (names, _shape(entries, names, recorder.places))
        #: The entries of each axis that agreed last.
        self._same: dict[str, Any] = {a: case.axes[a] for a, known in self.axes.items() if known}

    def leaves(self, case: Case, leaves: Sequence[Leaf]) -> list[Any] | None:
        """The numbers of some leaves in another case; None where its frame is not this one."""
        if _settings(case.settings, self.names) != self.settings:
            return None
        if case.axes.keys() != self.axes.keys():
            return None
        for axis, known in self.axes.items():
            entries = case.axes[axis]
            if known is None or isinstance(entries, Absent):
                if known is not None or not isinstance(entries, Absent):
                    return None
            elif len(entries) != len(known[1]):
                return None
        new = [axis for axis, same in self._same.items() if case.axes[axis] is not same]
        places = _places(case) if new else {}
        for axis in new:  # cases of one model share most entries
            entries, known = case.axes[axis], self.axes[axis]
            assert not isinstance(entries, Absent) and known is not None
            if _shape(entries, known[0], places) != known[1]:
                return None
        for leaf, expression in self.expressions.items():
            if not leaf.places or any(axis in new for axis, _ in leaf.places):
                bound = _bound(case, leaf)
                if bound is not expression and bound != expression:
                    return None
        self._same = {axis: case.axes[axis] for axis in self._same}
        found = []
        for leaf in leaves:
            value = _bound(case, leaf)
            if type(value) not in NUMBERS:
                return None
            found.append(value)
        return found


def _settings(settings: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [settings.get(name) for name in names]


def _shape(
    entries: Sequence[Entry], names: Sequence[str], places: Mapping[Entry, Place]
) -> list[Any]:
    """Of each entry its parent, what it binds and what decides about it."""
    return [
        (
            None if entry.parent is None else places[entry.parent],
            tuple(entry.bindings),
            [entry.settings.get(name) for name in names],
        )
        for entry in entries
    ]


def _bound(case: Case, leaf: Leaf) -> Any:
    symbol, places = leaf
    if not places:
        return case.bindings.get(symbol)
    axis, index = places[0]
    entry = case.axes[axis][index]  # type: ignore[index]
    if len(places) == 1:
        return entry.bindings.get(symbol)
    axis, index = places[1]
    return case.crossed.get((symbol, entry, case.axes[axis][index]))  # type: ignore[index]
