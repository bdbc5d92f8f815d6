"""The same formulas as a graph of operations, which ``program.py`` runs over arrays.

A case is evaluated with nodes of a graph in the places of numbers. Numbers that a plan's document
gives are inputs, so that one graph serves all plans of the same structure; settings and entries
that differ between plans are conditions. Where a setting decides between formulas, each is in the
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

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

from planner.book.reductions import AtLargest, Fold, Largest, Total, Which
from planner.engine.arrays.graph import Graph
from planner.engine.evaluate import REASONS, Absent, Case, Entry, Evaluation, Point, widen


@dataclass(frozen=True, eq=False)
class Varying:
    """A setting that differs between plans: the values that it can have."""

    values: tuple[Any, ...]

    def agreeing(self, wanted: Any) -> tuple[Any, ...]:
        """Those of its values that are the wanted one, or one of them."""
        several = isinstance(wanted, (tuple, set, frozenset))
        return tuple(v for v in self.values if (v in wanted if several else v == wanted))


@dataclass(frozen=True, eq=False)
class Compiled:
    """A graph, and where quantities are in it; a quantity that no plan has is left out."""

    graph: Graph
    roots: Mapping[str, int]
    absent: Mapping[str, str] = field(default_factory=dict)  # quantity -> reason


def compiled(
    case: Case, quantities: Sequence[str], conditional: Mapping[Entry, int] | None = None
) -> Compiled:
    """The graph of some quantities of a case.

    Args:
        case: settings may be ``Varying``; numbers of the document and crossed symbols are inputs.
        quantities: ids that hold for the whole plan.
        conditional: entries that are there in some of the plans only, each with a key; it is the
            key of the node ``present`` that says in which.
    """
    tracer = Tracer(case, conditional or {})
    roots, absent = {}, {}
    for name in quantities:
        try:
            roots[name] = tracer.value(name)
        except Absent as reason:
            absent[name] = reason.reason
    return Compiled(tracer.graph, roots, absent)


class Tracer(Evaluation):
    """Evaluates a case with nodes of a graph for numbers."""

    def __init__(self, case: Case, conditional: Mapping[Entry, int]) -> None:
        super().__init__(case)
        self.graph = Graph()
        self.conditional = conditional
        self.found: dict[Any, Any] = {}

    def value(self, identifier: str, point: Point | None = None) -> Any:
        per = self.book.quantities[identifier].per
        entries = () if point is None else tuple(point[axis] for axis in per)
        key = (identifier, entries)
        found = self.found.get(key)
        if found is None:
            wide = widen(dict(zip(per, entries, strict=True)))
            try:
                found = self._choice(identifier, wide)
            except Absent as absent:
                found = absent.with_traceback(None)  # what is kept must not keep callers' frames
            except ArithmeticError as error:
                found = Absent(f"its numbers cannot be computed with ({error})")
            self.found[key] = found
        if isinstance(found, Absent):
            raise Absent(found.reason)
        return found

    def _choice(self, identifier: str, point: Point) -> int:
        """The formula that holds, or for each plan the one that holds for it."""
        cases: list[tuple[int, int]] = []
        for declaration in self.book.quantities[identifier].formulas:
            conditions = self._conditions(declaration.when, point)
            if conditions is None:
                continue
            try:
                node = self.compute(declaration.expression, point)
            except (Absent, ZeroDivisionError) as error:
                if not conditions:
                    raise
                reason = error.with_traceback(None)
                continue
            if not conditions:
                return node
            cases.append((self.graph.both(conditions), node))
        if not cases:
            asked = {name for d in self.book.quantities[identifier].formulas for name in d.when}
            why = [REASONS[n] for n in asked & REASONS.keys() if self.setting(n, point) is False]
            raise locals().get("reason") or Absent(
                why[0] if why else "no formula in the book holds for this plan's settings"
            )
        return self.graph.select(cases)

    def _conditions(self, when: Mapping[str, Any], point: Point) -> list[int] | None:
        """What has to be true of a plan for a formula to hold; None where it never does."""
        conditions = []
        for name, wanted in when.items():
            actual = self.setting(name, point)
            if isinstance(actual, Varying):
                agreeing = actual.agreeing(wanted)
                if not agreeing:
                    return None
                if len(agreeing) < len(actual.values):
                    conditions.append(self.graph.node("is", name, *agreeing))
            elif not (
                actual in wanted
                if isinstance(wanted, (tuple, set, frozenset))
                else actual == wanted
            ):
                return None
        return conditions

    def symbol(self, symbol: Symbol, point: Point) -> int:
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            found: int = self.value(identifier, point)
            return found
        for entry in point.values():
            if symbol in entry.bindings:
                return self._bound(entry.bindings[symbol], point)
        note = self.book.notation.get(symbol)
        if note is not None and len(note.per) == 2:
            pair = (symbol, point[note.per[0]], point[note.per[1]])
            if pair in self.case.crossed:
                return self.graph.node("input", *pair)
        bound = self.bound(symbol, point)
        if isinstance(bound, Absent):
            raise Absent(bound.reason)
        if hasattr(bound, "free_symbols"):
            return self._bound(bound, point)
        return self.graph.node("input", symbol)

    def _bound(self, bound: Any, point: Point) -> int:
        if isinstance(bound, Absent):
            raise Absent(bound.reason)
        if isinstance(bound, (int, float, Fraction)):
            return self.graph.const(bound)
        return self.compute(bound, point)

    def compute(self, expression: Any, point: Point) -> int:
        kind = type(expression)
        if kind is Symbol:
            return self.symbol(expression, point)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, expression, point)
        if isinstance(expression, Integer):
            return self.graph.const(int(expression.p))
        if isinstance(expression, Rational):
            return self.graph.const(Fraction(expression.p, expression.q))
        raise TypeError(f"no evaluation for {kind.__name__}: {expression}")

    def below(self, fold: Fold, point: Point) -> list[tuple[Point, int | None]]:
        """The points that a fold runs over, with the condition under which each is there."""
        return [
            (p, self.conditional.get(p[fold.axis]))
            for p in self.entries(fold.axis, point, fold.where)
        ]


def _add(self: Tracer, expression: Any, point: Point) -> int:
    return self.graph.add([self.compute(term, point) for term in expression.args])


def _mul(self: Tracer, expression: Any, point: Point) -> int:
    above, below = [], []
    for factor in expression.args:
        if type(factor) is Pow and isinstance(factor.args[1], Integer) and factor.args[1].p < 0:
            below += [self.compute(factor.args[0], point)] * -int(factor.args[1].p)
        else:
            above.append(self.compute(factor, point))
    return self.graph.mul(above, below)


def _pow(self: Tracer, expression: Any, point: Point) -> int:
    base, exponent = (self.compute(argument, point) for argument in expression.args)
    return self.graph.power(base, exponent)


def _total(self: Tracer, fold: Total, point: Point) -> int:
    terms = []
    for below, condition in self.below(fold, point):
        node = self.compute(fold.body, below)
        if condition is not None:
            node = self.graph.mul([self.graph.node("present", condition), node])
        terms.append(node)
    return self.graph.add(terms)


def _largest(self: Tracer, fold: Largest, point: Point) -> int:
    return self.graph.extreme("max", _bodies(self, fold, [fold.body], point)[0])


def _at_largest(self: Tracer, fold: AtLargest, point: Point) -> int:
    return self.graph.pick(*_bodies(self, fold, [fold.by, fold.body], point))


def _bodies(self: Tracer, fold: Fold, bodies: Sequence[Any], point: Point) -> list[list[int]]:
    below = self.below(fold, point)
    if not below:
        raise Absent(f"there is no {fold.axis}")
    if any(condition is not None for _, condition in below):
        raise TypeError(f"the largest over entries of {fold.axis} that come and go")
    return [[self.compute(body, p) for p, _ in below] for body in bodies]


def _which(self: Tracer, fold: Which, point: Point) -> int:
    raise Absent("names are not evaluated over arrays")


def _of_one(operation: str) -> Callable[[Tracer, Any, Point], int]:
    def handler(self: Tracer, expression: Any, point: Point) -> int:
        return self.graph.node(operation, self.compute(expression.args[0], point))

    return handler


def _extreme(operation: str) -> Callable[[Tracer, Any, Point], int]:
    def handler(self: Tracer, expression: Any, point: Point) -> int:
        values = [self.compute(argument, point) for argument in expression.args]
        return self.graph.extreme(operation, values)

    return handler


_HANDLERS: Mapping[type, Callable[[Tracer, Any, Point], int]] = {
    Add: _add,
    Mul: _mul,
    Pow: _pow,
    Max: _extreme("max"),
    Min: _extreme("min"),
    ceiling: _of_one("ceil"),
    floor: _of_one("floor"),
    exp: _of_one("exp"),
    tanh: _of_one("tanh"),
    log: _of_one("log"),
    Total: _total,
    Largest: _largest,
    AtLargest: _at_largest,
    Which: _which,
}
