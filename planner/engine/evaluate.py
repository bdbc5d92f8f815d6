"""Exact evaluation: what a plan's quantities are worth, and the trace of how that was found.

Values are ints and Fractions to the end; floats enter only through roots and fractional powers of
estimates. The expressions are SymPy's, the arithmetic (``arithmetic.py``) is Python's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sympy import Symbol

from planner.book.quantity import BOOK, Book, Formula, agrees
from planner.engine.arithmetic import Absent as Absent
from planner.engine.arithmetic import Number as Number
from planner.engine.arithmetic import work

Value = int | Fraction | float | str

SIZE_ONLY = "the model is given by its size only (model.parameters), not by its shape"
#: Why no formula holds, by the setting that keeps it from it.
REASONS = {
    "run.interrupted": "no interruption was counted (cluster.failures.count is 0)",
    "run.finishes": "the run cannot finish: a restart (time.restart) takes more than eleven times "
    "the time between interruptions (cluster.failures)",
    "cluster.accelerator.peak.convention": "no peak of the training precision is known of the "
    "accelerator (cluster.accelerator.peaks)",
    "cluster.accelerator.peak_16.convention": "no 16-bit peak is known of the accelerator "
    "(cluster.accelerator.peaks)",
}


@dataclass(eq=False)  # not frozen, which is slow to make, and a case has hundreds
class Entry:
    """One entry of an axis: a layer kind, a block in it, a component, a pipeline stage.

    ``bindings`` gives symbols that hold inside this entry a value, an expression (in symbols of
    this entry and of those around it) or an Absent; ``settings`` decide which formula holds.
    """

    axis: str
    name: str
    title: str = ""
    parent: Entry | None = None
    bindings: Mapping[Symbol, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def path(self) -> str:
        return f"{self.parent.path}.{self.name}" if self.parent else self.name

    def lineage(self) -> Iterator[Entry]:
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent


Point = dict[str, Entry]  # axis -> entry
Key = tuple[str, tuple[Entry, ...]]  # id and the entries along its axes


@dataclass(eq=False)
class Case:
    """What the engine evaluates: bound symbols, settings and the entries of each axis."""

    bindings: Mapping[Symbol, Any]
    settings: Mapping[str, Any]
    axes: Mapping[str, tuple[Entry, ...] | Absent]
    crossed: Mapping[tuple[Symbol, Entry, Entry], Any] = field(default_factory=dict)
    kinds: Mapping[Symbol, str] = field(default_factory=dict)  # of inputs that are not exact


@dataclass(eq=False)
class Trace:
    """One evaluated quantity instance: its formula, its value and what it was made from."""

    declaration: Formula | None
    point: Point
    value: Value | Absent
    uses: dict[tuple[Any, ...], None] = field(default_factory=dict)


class Evaluation:
    """Evaluates quantities of one case on demand and remembers how."""

    def __init__(self, case: Case, book: Book = BOOK) -> None:
        self.case = case
        self.book = book
        self.traces: dict[Key, Trace] = {}
        self._stack: list[Trace] = []
        self._index: dict[str, dict[Entry | None, list[Point]]] = {}

    # -- quantities ---------------------------------------------------------------------------

    def trace(self, identifier: str, point: Point | None = None) -> Trace:
        """The evaluated instance of a quantity at a point (for quantities with axes)."""
        per = self.book.quantities[identifier].per
        point = point or {}
        try:
            key = (identifier, tuple(point[axis] for axis in per))
        except KeyError as missing:
            raise TypeError(f"{identifier} holds per {missing}, asked for without one") from None
        found = self.traces.get(key)
        if found is None:
            found = self._evaluate(identifier, dict(zip(per, key[1], strict=True)))
            self.traces[key] = found
        if self._stack:
            self._stack[-1].uses[key] = None
        return found

    def value(self, identifier: str, point: Point | None = None) -> Value:
        """The value of a quantity; raises Absent with the reason where there is none."""
        value = self.trace(identifier, point).value
        if isinstance(value, Absent):
            raise value
        return value

    def _evaluate(self, identifier: str, point: Point) -> Trace:
        point = widen(point)
        declaration = self.book.quantities[identifier].choose(
            lambda name: self.setting(name, point)
        )
        trace = Trace(declaration, point, 0)
        if declaration is None:
            trace.value = Absent(self._unanswered(identifier, point))
            return trace
        self._stack.append(trace)
        try:
            trace.value = _tidy(self.compute(declaration.expression, point))
            outside = declaration.quantity.outside(trace.value)
            if outside is not None:
                trace.value = Absent(outside)
        except Absent as absent:
            trace.value = absent
        except ArithmeticError as error:  # of floats, below a root
            trace.value = Absent(f"its numbers cannot be computed with ({error})")
        finally:
            self._stack.pop()
        return trace

    def _unanswered(self, identifier: str, point: Point) -> str:
        """Why none of the formulas of an id holds: the choices that all of them want otherwise, or
        the fewest that one of them does."""
        wrong = [
            {
                key
                for key, wanted in declaration.when.items()
                if not agrees(self.setting(key, point), wanted)
            }
            for declaration in self.book.quantities[identifier].formulas
        ]
        common = set.intersection(*wrong)
        if not common:  # a shape is what people can give most easily
            common = min(wrong, key=lambda keys: (len(keys), "model.shape" not in keys))
        keys = sorted(common)
        if "model.shape" in keys:
            return SIZE_ONLY
        for key in keys:
            if key in REASONS:
                return REASONS[key]
        choices = ", ".join(f"{key} {str(self.setting(key, point)).lower()}" for key in keys)
        return f"the book has no formula for {choices or 'this combination of choices'}"

    def setting(self, name: str, point: Point) -> Any:
        for entry in point.values():
            if name in entry.settings:
                return entry.settings[name]
        return self.case.settings.get(name)

    def entries(self, axis: str, point: Point, where: Mapping[str, str]) -> list[Point]:
        """The points below ``point`` along an axis, those that agree with ``where``."""
        entries = self.case.axes[axis]
        if isinstance(entries, Absent):
            raise entries
        points = []
        for below in self._below(axis, entries, point):
            if any(point.get(a) not in (None, e) for a, e in below.items()):
                continue
            merged = {**point, **below}
            if all(_text(self.setting(k, merged)) == v for k, v in where.items()):
                points.append(merged)
        return points

    def _below(self, axis: str, entries: tuple[Entry, ...], point: Point) -> Sequence[Point]:
        """Candidates: the lineages of those below the narrowest entry of the point. Found by
        index, for a model of many layer kinds has thousands of components."""
        index = self._index.get(axis)
        if index is None:
            index = self._index[axis] = {None: []}
            for entry in entries:
                lineage = {e.axis: e for e in entry.lineage()}
                for above in (None, *lineage.values()):
                    index.setdefault(above, []).append(lineage)
        every = index[None]
        axes = every[0] if every else {}
        lists = [index.get(entry, ()) for entry in point.values() if entry.axis in axes]
        return min(lists, key=len, default=every)

    # -- variations ---------------------------------------------------------------------------

    def varied(self, symbol: Symbol, value: Number) -> Evaluation:
        """The same case with another value of an input; what does not rest on it is kept."""
        bindings = {**self.case.bindings, symbol: value}
        other = Evaluation(replace(self.case, bindings=bindings), self.book)
        users: dict[Any, list[Key]] = {}
        moved: list[Key] = []
        for key, trace in self.traces.items():
            for used in trace.uses:
                if isinstance(used[0], str):
                    users.setdefault(used, []).append(key)
                elif used[0] == symbol:
                    moved.append(key)
        stale: set[Key] = set()
        while moved:
            key = moved.pop()
            if key not in stale:
                stale.add(key)
                moved.extend(users.get(key, ()))
        other.traces = {key: trace for key, trace in self.traces.items() if key not in stale}
        other._index = self._index
        return other

    # -- symbols and expressions --------------------------------------------------------------

    def bound(self, symbol: Symbol, point: Point) -> Any:
        """What a symbol is bound to here: a number, an expression or an Absent."""
        for entry in point.values():
            if symbol in entry.bindings:
                return entry.bindings[symbol]
        note = self.book.notation.get(symbol)
        if note is not None and len(note.per) == 2:
            pair = (symbol, point[note.per[0]], point[note.per[1]])
            if pair in self.case.crossed:
                return self.case.crossed[pair]
        if symbol in self.case.bindings:
            return self.case.bindings[symbol]
        where = f"{note.meaning} is not given" if note else f"{symbol} is unknown"
        return Absent(where)

    def symbol(self, symbol: Symbol, point: Point) -> Number:
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            return self.value(identifier, point)  # type: ignore[return-value]
        bound = self.bound(symbol, point)
        if self._stack:
            self._stack[-1].uses[(symbol, *sorted(e.path for e in point.values()))] = None
        if isinstance(bound, Absent):
            raise bound
        if isinstance(bound, (int, Fraction, float, str)):
            return bound  # type: ignore[return-value]
        return self.compute(bound, point)

    def compute(self, expression: Any, point: Point) -> Number:
        """The value of an expression at a point; exact wherever the expression is rational."""
        return work(expression)(self, point)  # type: ignore[no-any-return]


def widen(point: Point) -> Point:
    """A point with the parents of its entries: a component lies in a block, in a part."""
    wide: Point = {}
    for entry in point.values():
        for ancestor in entry.lineage():
            wide.setdefault(ancestor.axis, ancestor)
    return wide


def _text(value: Any) -> str:
    return str(value)


def _tidy(value: Any) -> Any:
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("beyond the range of floating-point numbers")
    return value
