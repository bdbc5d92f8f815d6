"""The points of a piece of a study through the same formulas over arrays.

Dimensions of plain keys (formula_inputs.py) stay axes of the arrays. Along the others, each
combination is completed as a plan of its own; those that have the same entries are stacked along a
first axis.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Case
from planner.engine.tape import Tape
from planner.questions.studies import bounds
from planner.questions.studies.automatic import DECIDING, automatic, words
from planner.questions.studies.formula_inputs import LIMITED, PLAIN, SYMBOLS, rests_on
from planner.questions.studies.operations import over_arrays
from planner.questions.studies.points import Array, Values, exact, is_name, missing, wanted, why
from planner.questions.studies.study import Study

#: Completed plans kept, for studies whose plain dimensions turn slowest.
MOST_KEPT = 2048
Places = tuple[int, ...]


def able(study: Study) -> bool:
    """Whether a study can be evaluated over arrays: names are no numbers."""
    return not any(map(is_name, wanted(study)))


def plain(study: Study) -> tuple[bool, ...]:
    """Along which dimensions only plain keys change."""
    decides = rests_on(DECIDING) if study.searches else frozenset()

    varied = {key for axis in study.axes for key in axis.keys}

    def given(key: str) -> bool:
        around = {key.rsplit(".", steps)[0] for steps in range(key.count(".") + 1)}
        if varied & around:
            return True
        nodes: list[Any] = [base.data for base in study.bases]
        for step in key.split("."):
            nodes = [node.get(step) for node in nodes if isinstance(node, Mapping)]
        return any(node is not None for node in nodes)

    def alone(key: str, values: Sequence[Any]) -> bool:
        numbers = all(schema.is_number(None, value) for value in values)
        checked = key in LIMITED and given(LIMITED[key])
        return key in PLAIN and numbers and not checked and SYMBOLS[key] not in decides

    return tuple(
        all(
            axis.keys and all(alone(k, [c.changes.get(k) for c in axis.choices]) for k in axis.keys)
            for axis in axes
        )
        for axes in study.dimensions
    )


@dataclass(frozen=True, eq=False)
class Kind:
    """What plans that are evaluated together have in common."""

    tape: Tape
    absent: Mapping[str, str]  # why a quantity has no value


@dataclass(frozen=True, eq=False)
class Member:
    """One completed plan: the numbers that the operations of its kind begin with."""

    kind: Kind
    leaves: Sequence[Any]
    layout: str
    shares: Mapping[str, bounds.Shares]


class Members:
    """Completed plans of a study, and what they have in common."""

    def __init__(self, study: Study, quantities: Sequence[str]) -> None:
        self.study, self.quantities = study, quantities
        self.kinds: dict[Any, list[Kind]] = {}
        self.kept: OrderedDict[Places, Member | str] = OrderedDict()

    def at(self, places: Places) -> Member | str:
        """The plan at some places, or why there is none."""
        member = self.kept.get(places)
        if member is None:
            member = self.kept[places] = self._made(places)
            if len(self.kept) > MOST_KEPT:
                self.kept.popitem(last=False)
        return member

    def _made(self, places: Places) -> Member | str:
        try:
            plan = self.study.plan_at(places)
        except PlanError as error:
            return why(error)
        layout = words(plan) if automatic(self.study, places) else ""
        built = case.build(plan)
        shares = bounds.shares(self.study, built.settings)
        # Quantities that rest on what is not given are absent for all of a kind.
        known = tuple(not isinstance(value, Absent) for value in built.bindings.values())
        asked = tuple(built.settings.get(name) for name in _asked())
        several = self.kinds.setdefault((known, asked), [])
        for kind in several:
            leaves = kind.tape.values(built)
            if leaves is not None:
                return Member(kind, leaves, layout, shares)
        kind = self._kind(built)
        several.append(kind)
        leaves = kind.tape.values(built)
        assert leaves is not None
        return Member(kind, leaves, layout, shares)

    def _kind(self, built: Case) -> Kind:
        # What one plan lacks because of its numbers, below a division by zero, others may have.
        absent: dict[str, str] = {}
        return Kind(Tape(built, self.quantities, absent=absent), absent)


@lru_cache(maxsize=1)
def _asked() -> tuple[str, ...]:
    """The settings that some formula asks for."""
    return tuple(sorted({n for d in BOOK.formulas() for n in d.when}))


class Evaluator:
    """Evaluates pieces of one study; keeps what several pieces need."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.plain = plain(study)
        self.quantities = wanted(study)
        self.members = Members(study, self.quantities)
        self.stacked: tuple[tuple[range, ...], list[Places], list[_Stack], dict[int, str]] | None
        self.stacked = None

    def evaluate(self, ranges: Sequence[range]) -> Values:
        """The points of a piece."""
        slow = tuple(r if not p else range(1) for r, p in zip(ranges, self.plain, strict=True))
        if self.stacked is None or self.stacked[0] != slow:
            self.stacked = (slow, *self._stack(slow))
        _, combinations, stacks, refused = self.stacked
        fast = [r for r, p in zip(ranges, self.plain, strict=True) if p]
        shape = (len(combinations), *map(len, fast))
        numbers = {quantity: np.full(shape, np.nan) for quantity in self.quantities}
        valid = np.zeros(shape, dtype=bool)
        reasons = np.zeros(shape, dtype=np.int64)
        values = Values(numbers, valid, reasons)
        layouts = np.full(shape, "", dtype=object) if self.study.searches else None
        none = dict.fromkeys(bounds.readings(self.study), bounds.NONE)
        shares: list[Mapping[str, bounds.Shares]] = [none] * len(combinations)
        for place, text in refused.items():
            reasons[place] = values.reason(text)
        inputs = self._inputs(ranges)
        for stack in stacks:
            rows = np.array(stack.rows)
            valid[rows] = True
            stack.evaluate(inputs, numbers)
            for row, member in zip(stack.rows, stack.members, strict=True):
                shares[row] = member.shares
                if layouts is not None:
                    layouts[row] = member.layout
            self._explain(values, rows, stack.kind.absent, combinations, ranges)
        order = self._order()
        size = tuple(map(len, ranges))

        def flat(array: Array) -> Array:
            lengths = [len(r) for r in slow if r is not None]
            own = [n for n, p in zip(lengths, self.plain, strict=True) if not p]
            return array.reshape((*own, *map(len, fast))).transpose(order).reshape(size).ravel()

        def along(rows: Array) -> Array:
            return np.broadcast_to(rows.reshape(len(rows), *(1 for _ in fast)), shape)

        return Values(
            {name: flat(array) for name, array in numbers.items()},
            flat(valid),
            flat(reasons),
            values.texts,
            None if layouts is None else flat(layouts).tolist(),
            {
                reading: (flat(along(low)), flat(along(high)))
                for reading, (low, high) in bounds.stacked(self.study, shares).items()
            },
        )

    def _order(self) -> list[int]:
        """The axis of each dimension, where those that are not plain come first."""
        slow = [i for i, p in enumerate(self.plain) if not p]
        fast = [i for i, p in enumerate(self.plain) if p]
        axes = [*slow, *fast]
        return [axes.index(i) for i in range(len(self.plain))]

    def _stack(self, slow: Sequence[range]) -> tuple[list[Places], list[_Stack], dict[int, str]]:
        combinations = list(product(*slow))
        by_kind: dict[Kind, tuple[list[int], list[Member]]] = {}
        refused: dict[int, str] = {}
        for row, places in enumerate(combinations):
            member = self.members.at(places)
            if isinstance(member, str):
                refused[row] = member
            else:
                rows, members = by_kind.setdefault(member.kind, ([], []))
                rows.append(row)
                members.append(member)
        dimensions = sum(self.plain)
        stacks = [_Stack(kind, rows, ms, dimensions) for kind, (rows, ms) in by_kind.items()]
        return combinations, stacks, refused

    def _inputs(self, ranges: Sequence[range]) -> dict[Any, Any]:
        """The values of plain keys, each along the axis of its dimension."""
        found: dict[Any, Any] = {}
        count, axis = sum(self.plain), 0
        for axes, places, alone in zip(self.study.dimensions, ranges, self.plain, strict=True):
            if not alone:
                continue
            axis += 1
            shape = [1] * (count + 1)
            shape[axis] = len(places)
            for name in {key for one in axes for key in one.keys}:
                values = [latest(axes, place, name) for place in places]
                found[SYMBOLS[name]] = _column(values, shape)
        return found

    def _explain(
        self,
        values: Values,
        rows: Array,
        absent: Mapping[str, str],
        combinations: Sequence[Places],
        ranges: Sequence[range],
    ) -> None:
        """Say why recorded quantities are absent: as the arrays found, where that holds for all
        of a stack; else as the first such point of each combination says."""
        recorded = [name for name in self.study.record if name in values.numbers]
        lacking = np.zeros(values.valid[rows].shape, dtype=bool)
        partly = np.zeros(len(rows), dtype=bool)
        for name in recorded:
            holes = np.isnan(values.numbers[name][rows])
            lacking |= holes
            if name not in absent:
                partly |= holes.reshape(len(rows), -1).any(axis=1)
        if not lacking.any():
            return
        common = values.reason(missing(self.study, absent))
        for index, row in enumerate(rows.tolist()):
            code = common
            if partly[index]:
                first = np.argwhere(lacking[index])[0] if lacking.ndim > 1 else ()
                places = self._places(combinations[row], list(first), ranges)
                code = values.reason(
                    missing(self.study, exact(self.study, places, recorded).absent)
                )
            values.reasons[row] = np.where(lacking[index], code, 0)

    def _places(self, slow: Places, fast: list[Any], ranges: Sequence[range]) -> Places:
        return tuple(
            r[int(fast.pop(0))] if p else s
            for s, r, p in zip(slow, ranges, self.plain, strict=True)
        )


def latest(axes: Sequence[Any], place: int, key: str) -> Any:
    """The value of a key where several axes of one dimension may set it."""
    return [a.choices[place].changes[key] for a in axes if key in a.choices[place].changes][-1]


class _Stack:
    """Members of one kind as arrays along a first axis."""

    def __init__(self, kind: Kind, rows: list[int], members: list[Member], dimensions: int) -> None:
        self.kind, self.rows, self.members = kind, rows, members
        shape = [len(members)] + [1] * dimensions
        columns = zip(*(member.leaves for member in members), strict=True)
        self.leaves = [_column(column, shape) for column in columns]

    def evaluate(self, inputs: Mapping[Any, Any], numbers: Mapping[str, Array]) -> None:
        """Writes each quantity into its rows."""
        tape, leaves = self.kind.tape, list(self.leaves)
        for index, leaf in enumerate(tape.leaves):
            if not leaf.places and leaf.symbol in inputs:
                leaves[index] = inputs[leaf.symbol]
        values = over_arrays(tape, leaves)
        rows = np.array(self.rows)
        for name, node in tape.results.items():
            value = values[node]
            numbers[name][rows] = value if isinstance(value, np.ndarray) else _float(value)


def _column(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """Numbers along one axis; a number that all share stays one, and exact."""
    first = values[0]
    if all(value == first for value in values):
        return first
    return np.array([_float(value) for value in values]).reshape(shape)


def _float(value: Any) -> float:
    return float(value) if isinstance(value, (int, float, Fraction)) else float("nan")
