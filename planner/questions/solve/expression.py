"""Closed forms: the answer of an inverse question as an expression in symbols and in numbers.

The graph of the limit's quantity is evaluated over rational functions of the unknown, along the
branches taken at the answer. A coefficient is a number with an expression of quantities that do not
depend on the unknown. A result of first or second degree is solved for the unknown; roundings to
whole units are ignored. The root must lie where bisection found the answer; otherwise there is no
closed form, and the reason is raised.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import islice
from typing import Any

from planner.base.errors import PlanError
from planner.book.canonical import factor_tree
from planner.book.expressions import Expression, Symbol, make_in_order, make_number
from planner.book.quantity import Notation, Quantity
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation
from planner.engine.graph import LEAVES
from planner.engine.run import pick_operands
from planner.plans.plan import variant
from planner.questions.solve.solve import Answer
from planner.results.collapse import NoForm
from planner.typeset import LATEX, TEXT, Typesetter, add_subscript, read_latex

#: Plans from which it is inferred how inputs depend on the unknown.
POINTS = 4
#: Distances of these plans from the answer, in the order in which they are tried.
AWAY = [sign * step for n in range(9) for step in (n, 4**n) for sign in (1, -1)]
MOST_DEGREE = 2
#: Rank of symbols that are not in the book: they are printed after those that are.
LAST = 10**6


@dataclass(frozen=True)
class SolvedEquation:
    """An equation ``unknown = formula`` in symbols, with numbers, and its value."""

    unknown: str
    degree: int
    formula: str
    latex: str
    substituted: str
    value: Fraction
    where: tuple[tuple[str, str], ...]  # symbols of the formula that are not in the book


def derive_equation(answer: Answer) -> SolvedEquation:
    """Derive the closed form of an answer.

    Raises:
        NoForm: there is none, with the reason.
    """
    if answer.domain.key == "model":
        raise NoForm("width and depth change together, in steps")
    if answer.goal is not None or "layouts" in answer.extra:
        raise NoForm("it is found by trying values")
    return _Solver(answer).solve_unknown()


# rational functions of the unknown ----------------------------------------------------------


@dataclass(frozen=True)
class Coefficient:
    """A number and its expression in symbols, None where that needs entries of an axis. Two are
    equal if their numbers are."""

    value: Fraction
    symbols: Expression | None = field(compare=False)

    def combine(self, operation: Callable[[Any, Any], Any], other: Coefficient) -> Coefficient:
        """Add, multiply or divide two."""
        known = self.symbols is not None and other.symbols is not None
        symbols = operation(self.symbols, other.symbols) if known else None
        return Coefficient(operation(self.value, other.value), symbols)

    def __neg__(self) -> Coefficient:
        return self.combine(operator.mul, Coefficient(Fraction(-1), make_number(-1)))


Terms = Mapping[int, Coefficient]  # by power of the unknown
ONE: Terms = {0: Coefficient(Fraction(1), make_number(1))}


def _sum(a: Terms, b: Terms) -> Terms:
    found = dict(a)
    for power, term in b.items():
        found[power] = found[power].combine(operator.add, term) if power in found else term
    return {power: term for power, term in found.items() if term.value}


def _product(a: Terms, b: Terms) -> Terms:
    rows = (
        {p + q: one.combine(operator.mul, other) for q, other in b.items()} for p, one in a.items()
    )
    return reduce(_sum, rows, {})


class Ratio:
    """A rational function of the unknown; a denominator of one term is divided out."""

    def __init__(self, above: Terms, below: Terms = ONE) -> None:
        if len(below) == 1 and below is not ONE:
            ((power, by),) = below.items()
            above = {p - power: each.combine(operator.truediv, by) for p, each in above.items()}
            below = ONE
        self.above, self.below = above, below

    def __add__(self, other: Ratio) -> Ratio:
        if self.below == other.below:
            return Ratio(_sum(self.above, other.above), self.below)
        above = _sum(_product(self.above, other.below), _product(other.above, self.below))
        return Ratio(above, _product(self.below, other.below))

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(_product(self.above, other.above), _product(self.below, other.below))

    def __truediv__(self, other: Ratio) -> Ratio:
        return Ratio(_product(self.above, other.below), _product(self.below, other.above))


# the graph over them ------------------------------------------------------------------------


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "div": operator.truediv,
}


class _Solver:
    """Expresses each node that depends on the unknown as a rational function of it."""

    def __init__(self, answer: Answer) -> None:
        limit, holds, fails = answer.binding, answer.holds, answer.fails
        if limit is None or holds is None or fails is None:
            raise NoForm("no limit is reached")
        self.domain, self.limit, self.holds, self.fails = answer.domain, limit, holds, fails
        self.case = instance.build(holds.plan)
        self.evaluation = Evaluation(self.case)
        self.result = self.evaluation.instance(self.limit.quantity, {})
        self.evaluation.evaluate_node(self.result)
        self.nodes, self.values = self.evaluation.graph.nodes, self.evaluation.values
        key = self.domain.key
        note = next(
            (n for n in self.case.book.notation.values() if n.key == key and not n.per), None
        )
        self.unknown = TEXT.write(read_latex(note.latex if note else "x"))
        #: The book with names for coefficients of its quantities, and the values of these.
        self.book = copy(self.case.book)
        self.book.notation = {**self.book.notation}
        self.numbers: dict[Symbol, Any] = {}
        self.forms = self._fit_inputs()
        graph = self.evaluation.graph
        moved = graph.list_dependents(self.forms)
        for place in sorted(
            {*moved}.intersection(graph.list_needed([self.result])) - self.forms.keys()
        ):
            self.forms[place] = self._build_ratio(*self.nodes[place])

    def _fit_inputs(self) -> dict[int, Ratio]:
        """Fit a line in the unknown to each input that depends on it."""
        points = list(islice(self._yield_points(), POINTS))
        if len(points) < 3:
            raise NoForm("too few values make plans of the same formulas")
        found = {}
        for place in self.evaluation.graph.inputs:
            values = [evaluation.evaluate_node(place) for _, evaluation in points]
            if len({*values}) == 1:
                continue
            pairs = [(x, Fraction(v)) for (x, _), v in zip(points, values, strict=True)]
            (x0, v0), (x1, v1) = pairs[:2]
            slope = (v1 - v0) / (x1 - x0)
            if any(value != v0 + slope * (x - x0) for x, value in pairs):
                raise NoForm("it is a step function")
            line = ((0, v0 - slope * x0), (1, slope))
            found[place] = Ratio({power: Coefficient(v, make_number(v)) for power, v in line if v})
        return found

    def _yield_points(self) -> Iterator[tuple[Fraction, Evaluation]]:
        """Yield values of the unknown and their evaluations, as long as the graph is the same."""
        domain = self.domain
        for index in filter(domain.has, dict.fromkeys(self.holds.index + step for step in AWAY)):
            value = domain.value(index)
            with suppress(PlanError):
                built = instance.build(variant(self.holds.plan, domain.changes(value)))
                evaluation = self.evaluation.rerun(built, exact=True)
                if evaluation is not None:
                    yield Fraction(value), evaluation

    def _build_ratio(self, operation: str, arguments: tuple[int, ...]) -> Ratio:
        """Return the rational function of a node that depends on the unknown."""
        if operation in ("max", "min", "pick"):
            return self._get_ratio(self._pick_argument(operation, arguments))
        if operation in ("ceil", "floor"):
            return self._get_ratio(arguments[0])
        if operation == "quantity":
            return self._name_quantity(
                self._get_ratio(arguments[0]), *self.nodes[arguments[1]][1][0]
            )
        if operation in _ARITHMETIC:
            return reduce(_ARITHMETIC[operation], map(self._get_ratio, arguments))
        exponent = self.values[arguments[-1]]
        if operation != "pow" or not isinstance(exponent, int) or arguments[-1] in self.forms:
            raise NoForm("it is below a root or in an exponent")
        whole = reduce(operator.mul, [self._get_ratio(arguments[0])] * abs(exponent))
        return whole if exponent > 0 else Ratio(ONE) / whole

    def _pick_argument(self, operation: str, arguments: tuple[int, ...]) -> int:
        """Return the argument that a max, min or pick selects."""
        if operation == "pick":
            return pick_operands(operation, arguments, self.values)[-1]
        most = max if operation == "max" else min
        return most(arguments, key=self.values.__getitem__)

    def _get_ratio(self, place: int) -> Ratio:
        if place in self.forms:
            return self.forms[place]
        value = self.values[place]
        if isinstance(value, Absent):
            raise NoForm("a part of the formula is absent")
        return Ratio({0: Coefficient(Fraction(value), self._symbols(place))} if value else {})

    def _symbols(self, place: int) -> Expression | None:
        """Return a constant node's expression; None where it needs entries of an axis."""
        operation, arguments = self.nodes[place]
        if operation == "quantity":
            identifier, entries = self.nodes[arguments[1]][1][0]
            return None if entries else self.book.quantities[identifier].symbol
        if operation == "input":
            return None if arguments[1:] else arguments[0]
        if operation in LEAVES:
            return make_number(Fraction(self.values[place]))
        if operation == "pick":
            return self._symbols(self._pick_argument(operation, arguments))
        known = [each for each in map(self._symbols, arguments) if each is not None]
        if len(known) < len(arguments):
            return None
        return known[0] / known[1] if operation == "div" else make_in_order(operation, tuple(known))

    def _name_quantity(self, form: Ratio, identifier: str, entries: tuple[Any, ...]) -> Ratio:
        """Name a quantity: a constant by its own symbol, other ones by new symbols for their
        coefficients where these need entries of an axis."""
        quantity, polynomial = self.book.quantities[identifier], form.below is ONE
        if entries or (polynomial and form.above.keys() <= {0}):
            name = None if entries else quantity.symbol
            above = {power: replace(term, symbols=name) for power, term in form.above.items()}
            return Ratio(above, form.below)
        spelled = all(term.symbols for term in (*form.above.values(), *form.below.values()))
        if spelled or not polynomial or not form.above.keys() <= {0, 1, 2}:
            return form
        formula = quantity.choose_formula(self.case.settings.get)
        title, x = (formula or quantity).title, self.unknown
        words = (f"the part without {x}", f"per {x}", f"per {x} squared")
        return Ratio(
            {
                power: self._name(quantity, str(power), term.value, f"{title}: {words[power]}")
                for power, term in sorted(form.above.items())
            }
        )

    def _name(self, quantity: Quantity, index: str, value: Any, meaning: str) -> Coefficient:
        """Add a symbol to the book: that of a quantity with one more index."""
        symbol = Symbol(f"{quantity.id} {index}", positive=True)
        latex = LATEX.write(add_subscript(read_latex(quantity.latex), index))
        self.book.notation[symbol] = Notation(symbol, meaning, latex, LAST)
        self.numbers[symbol] = value
        return Coefficient(Fraction(value), symbol)

    # -- solving --------------------------------------------------------------------------------

    def solve_unknown(self) -> SolvedEquation:
        """Solve for the unknown at which the quantity equals its limit.

        Raises:
            NoForm: the degree is too high, or no root lies at the answer.
        """
        form, quantity = self.forms.get(self.result, Ratio({})), self.limit.quantity
        zero = form.above
        if zero and self.limit.value:
            bound, index = self.limit.value, "max" if self.limit.relation == "<=" else "min"
            first = self.book.quantities[quantity]
            limit = self._name(first, index, bound, f"{first.title}: the limit")
            zero = _sum(zero, _product({0: -limit}, form.below))
        if not zero:
            raise NoForm(f"{quantity} does not change here")
        least = min(0, *zero)  # no constant term where the limit is 0
        degree = max(zero) - least
        if degree > MOST_DEGREE:
            raise NoForm(f"{quantity} is of degree {degree} in it")
        nothing = Coefficient(Fraction(0), make_number(0))
        a, b, c = (zero.get(least + power, nothing) for power in (2, 1, 0))
        low, high = sorted((Fraction(self.holds.value), Fraction(self.fails.value)))
        for root in _solve_quadratic(a, b, c) if degree == 2 else _solve_linear(b, c):
            if low <= root.value <= high:  # where bisection found the answer
                if root.symbols is None:
                    raise NoForm(f"{quantity} reduces over more than one axis")
                return self._write_equation(degree, root.value, root.symbols)
        raise NoForm("roundings or another branch of the formula decide")

    def _write_equation(self, degree: int, value: Fraction, tree: Expression) -> SolvedEquation:
        bindings = {**self.case.bindings, **self.numbers}
        setter = Typesetter(Evaluation(replace(self.case, bindings=bindings), self.book))
        symbolic = setter.box(tree, {})
        named = [self.book.notation[symbol] for symbol in self.numbers if symbol in tree.symbols]
        return SolvedEquation(
            self.unknown,
            degree,
            TEXT.write(symbolic),
            LATEX.write(symbolic),
            TEXT.write(setter.box(tree, {}, numbers=True)),
            value,
            tuple((TEXT.write(read_latex(note.latex)), note.meaning) for note in named),
        )


def _solve_linear(b: Coefficient, c: Coefficient) -> list[Coefficient]:
    """Return the root of b x + c, with a positive divisor."""
    found = (-c).combine(operator.truediv, b) if b.value > 0 else c.combine(operator.truediv, -b)
    if found.symbols is None:
        return [found]
    return [replace(found, symbols=factor_tree(found.symbols))]


def _solve_quadratic(a: Coefficient, b: Coefficient, c: Coefficient) -> list[Coefficient]:
    """Return the roots of a x² + b x + c, in symbols with denominators cleared."""
    import sympy

    from planner.book.symbolic import from_sympy, to_sympy

    under = b.value**2 - 4 * a.value * c.value
    if under < 0:
        return []
    wide = under.numerator * under.denominator << 256
    root = Fraction(math.isqrt(wide), under.denominator << 128)
    values = [(sign * root - b.value) / (2 * a.value) for sign in (1, -1)]
    if a.symbols is None or b.symbols is None or c.symbols is None:
        return [Coefficient(value, None) for value in values]
    x = sympy.Symbol("x")
    whole = to_sympy(a.symbols) * x**2 + to_sympy(b.symbols) * x + to_sympy(c.symbols)
    cleared = sympy.Poly(sympy.fraction(sympy.together(whole))[0], x)
    first, second, third = (sympy.factor_terms(cleared.coeff_monomial(x**p)) for p in (2, 1, 0))
    under = sympy.sqrt(second**2 - 4 * first * third)
    roots = [(sign * under - second) / (2 * first) for sign in (1, -1)]
    trees = [from_sympy(to_sympy(from_sympy(root))) for root in roots]
    return list(map(Coefficient, values, trees))
