"""Closed forms: the answer of an inverse question as an expression in symbols and in numbers.

The tape of the limit's quantity is run over rational functions of the unknown, along the branches
that hold at the answer. Where what comes out is of first or second degree, the limit is solved for
the unknown: in numbers from the function, in symbols from the book's formulas, in which only what
hangs on the unknown is spelled out. Roundings to whole units are passed over. The root has to lie
where bisection found the answer; else there is no closed form, and it is said why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import sympy
from sympy import QQ, Add, Mul, Pow, Rational, sqrt
from sympy.polys.fields import field

from planner.base.errors import PlanError
from planner.book.canonical import canonical
from planner.book.expressions import REDUCTIONS, Expression, Symbol
from planner.book.quantity import BOOK
from planner.book.symbolic import from_sympy, to_sympy
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation, Point
from planner.engine.graph import LEAVES
from planner.engine.run import operands
from planner.engine.tape import Tape
from planner.plans.plan import variant
from planner.questions.constraints import Limit
from planner.questions.solve.solve import Answer
from planner.typeset import LATEX, TEXT, Box, Name, Typesetter, parse

_FIELD, _X = field("x", QQ)
#: Plans that show how what the document gives follows from the unknown.
POINTS = 4
MOST_DEGREE = 2


@dataclass(frozen=True)
class ClosedForm:
    """``unknown = formula``, with its numbers, and what they come to."""

    unknown: str
    degree: int
    formula: str
    latex: str
    substituted: str
    value: Fraction
    where: tuple[tuple[str, str], ...]  # symbols of the formula that are not in the book


class NoForm(Exception):
    """There is no closed form, and why."""


class _Boundary(Exception):
    """A formula that is not spelled out further: a fold."""


def closed_form(answer: Answer) -> ClosedForm:
    """The closed form of an answer.

    Raises:
        NoForm: there is none, with the reason.
    """
    limit = answer.binding
    if answer.domain.key == "model":
        raise NoForm("width and depth change together, in steps")
    if answer.goal is not None or "layouts" in answer.extra:
        raise NoForm("it is found by trying values")
    if limit is None or answer.holds is None or answer.fails is None:
        raise NoForm("no limit binds")
    functions = _Functions(answer, limit)
    root = functions.root()
    try:
        return _Symbolic(functions, root).expression()
    except _Boundary:
        raise NoForm(f"the formula of {limit.quantity} folds over more than one axis") from None


class _Functions:
    """Every node of a tape as a rational function of the unknown."""

    def __init__(self, answer: Answer, limit: Limit) -> None:
        assert answer.holds is not None and answer.fails is not None
        self.answer, self.limit = answer, limit
        self.plan = answer.holds.plan
        built = case.build(self.plan)
        self.tape = Tape(built, [limit.quantity])
        self.evaluation = Evaluation(built)
        leaves = self.tape.values(built)
        assert leaves is not None
        self.values = self.tape.run(leaves)
        self.leaves = self._leaves(leaves)
        self.forms: dict[int, Any] = {}
        for index, (operation, arguments) in enumerate(self.tape.graph.nodes):
            form = self._form(index, operation, arguments)
            if form is not None and not _constant(form):
                self.forms[index] = form
        self.result = self.tape.results[limit.quantity]

    # -- how the leaves follow from the unknown -------------------------------------------------

    def _leaves(self, here: list[Any]) -> dict[int, Any]:
        """The leaves that change with the unknown, as functions of it."""
        points = list(self._points(here))
        if len(points) < 3:
            raise NoForm("too few values make plans of the same formulas")
        found = {}
        series = zip(*(leaves for _, leaves in points), strict=True)
        for place, values in zip(self.tape.inputs, series, strict=True):
            if any(value != values[0] for value in values):
                pairs = [(x, Fraction(v)) for (x, _), v in zip(points, values, strict=True)]
                found[place] = self._fitted(pairs)
        return found

    def _points(self, here: list[Any]) -> Iterator[tuple[Fraction, list[Any]]]:
        """Values of the unknown with the leaves of their plans, while the formulas are the same."""
        answer, domain = self.answer, self.answer.domain
        assert answer.holds is not None and answer.fails is not None
        yield Fraction(answer.holds.value), here
        start, way = answer.holds.index, 1 if answer.fails.index > answer.holds.index else -1
        near = [answer.fails.index]
        for step in range(1, 9):
            near += [start - way * step, answer.fails.index + way * step, start - way * 4**step]
        left = POINTS - 1
        for index in dict.fromkeys(near):
            outside = domain.last is not None and index > domain.last
            if index < domain.first or outside or not left:
                continue
            value = domain.value(index)
            try:
                leaves = self.tape.values(case.build(variant(self.plan, domain.changes(value))))
            except PlanError:
                continue
            if leaves is not None:
                left -= 1
                yield Fraction(value), leaves

    def _fitted(self, pairs: list[tuple[Fraction, Fraction]]) -> Any:
        """A leaf as a line through its values, or as a constant over the unknown."""
        (x0, v0), (x1, v1) = pairs[:2]
        slope = (v1 - v0) / (x1 - x0)
        if all(value == v0 + slope * (x - x0) for x, value in pairs):
            return _number(v0 - slope * x0) + _number(slope) * _X
        if all(value * x == v0 * x0 for x, value in pairs):
            return _number(v0 * x0) / _X
        raise NoForm("what the plan derives from it changes in steps")

    # -- the nodes ------------------------------------------------------------------------------

    def _form(self, index: int, operation: str, arguments: tuple[Any, ...]) -> Any:
        """The function of a node; None where it does not hang on the unknown."""
        if operation == "input":
            return self.leaves.get(index)
        if operation in LEAVES or not any(argument in self.forms for argument in arguments):
            return None
        if operation in ("max", "min"):
            values = [self.values[i] for i in arguments]
            return self._of(arguments[values.index((max if operation == "max" else min)(values))])
        if operation == "pick":
            return self._of(operands(operation, arguments, self.values)[-1])
        first, *others = map(self._of, arguments[:1] if operation == "quantity" else arguments)
        if operation in ("ceil", "floor", "quantity"):
            return first
        if operation == "div":
            return first / others[0]
        for other in others if operation in ("add", "mul") else ():
            first = first + other if operation == "add" else first * other
        if operation in ("add", "mul"):
            return first
        exponent = self.values[arguments[-1]]
        if operation != "pow" or not isinstance(exponent, int) or arguments[1] in self.forms:
            raise NoForm("it stands below a root or in an exponent")
        return first**exponent

    def _of(self, index: int) -> Any:
        form = self.forms.get(index)
        if form is None and isinstance(self.values[index], Absent):
            raise NoForm("a part of the formula is absent")
        return _number(Fraction(self.values[index])) if form is None else form

    # -- the limit --------------------------------------------------------------------------------

    @cached_property
    def degree(self) -> int:
        return int(max(power for (power,) in self._polynomial))

    @cached_property
    def _polynomial(self) -> dict[tuple[int], Any]:
        """Coefficients of what is zero where the quantity is its limit."""
        form = self.forms.get(self.result)
        if form is None:
            raise NoForm(f"{self.limit.quantity} does not change here")
        return dict(form.numer - _rational(Fraction(self.limit.value)) * form.denom)

    def root(self) -> Fraction:
        """The unknown at which the quantity is its limit, where bisection found the answer.

        Raises:
            NoForm: of a higher degree, or the root lies elsewhere.
        """
        if self.degree > MOST_DEGREE:
            raise NoForm(f"{self.limit.quantity} is of degree {self.degree} in it")
        a, b, c = (_fraction(self._polynomial.get((power,), 0)) for power in (2, 1, 0))
        roots = [-c / b] if not a else _quadratic(a, b, c)
        answer = self.answer
        assert answer.holds is not None and answer.fails is not None
        low, high = sorted((Fraction(answer.holds.value), Fraction(answer.fails.value)))
        slack = abs(high) / 10**6  # what roundings to whole units can move
        for root in roots:
            if low - slack <= root <= high + slack:
                return root
        raise NoForm("roundings or another branch of the formula decide")


def _quadratic(a: Fraction, b: Fraction, c: Fraction) -> list[Fraction]:
    under = b * b - 4 * a * c
    if under < 0:
        return []
    wide = under.numerator * under.denominator << 256
    root = Fraction(math.isqrt(wide), under.denominator << 128)
    return [(-b + root) / (2 * a), (-b - root) / (2 * a)]


def _constant(form: Any) -> bool:
    return bool(form.numer.is_ground and form.denom.is_ground)


def _number(value: Fraction) -> Any:
    return _FIELD(_rational(value))


def _rational(value: Fraction) -> Any:
    return QQ(value.numerator, value.denominator)


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.numerator), int(value.denominator)) if value else Fraction(0)


class _Symbolic:
    """The book's formulas, spelled out where they hang on the unknown."""

    def __init__(self, functions: _Functions, root: Fraction) -> None:
        self.functions, self.value = functions, root
        self.evaluation = functions.evaluation
        key = functions.answer.domain.key
        note = next((n for n in BOOK.notation.values() if n.key == key and not n.per), None)
        self.input = note.symbol if note else Symbol("unknown")
        self.unknown = to_sympy(self.input)
        self.names: dict[Symbol, Name] = {} if note else {self.input: parse("x")}
        self.numbers: dict[Symbol, Any] = {}
        self.meanings: dict[Symbol, str] = {}
        self.leaf_forms = {
            leaf.symbol: functions.leaves[place]
            for place, leaf in zip(functions.tape.inputs, functions.tape.leaves, strict=True)
            if place in functions.leaves and not leaf.places
        }

    def expression(self) -> ClosedForm:
        quantity = self.functions.limit.quantity
        whole, limit = self._spelled(quantity), self._limit()
        root = from_sympy(self._solved(whole, limit))
        setter = _Setter(self)
        symbolic = setter.symbolic(root, {})
        return ClosedForm(
            setter.name(self.input).plain(),
            self.functions.degree,
            TEXT.write(symbolic),
            LATEX.write(symbolic),
            TEXT.write(setter.numeric(root, {})),
            self.value,
            tuple((self.names[s].plain(), text) for s, text in self.meanings.items()),
        )

    def _limit(self) -> Any:
        """The limit: nothing where it is zero, else a symbol."""
        limit = self.functions.limit
        if not limit.value:
            return 0
        first = BOOK.quantities[limit.quantity]
        name = parse(first.latex).with_subscript("max" if limit.relation == "<=" else "min")
        return self._named(
            f"{limit.quantity} limit", name, limit.value, f"{first.title}: the limit"
        )

    def _named(self, label: str, name: Name, value: Any, meaning: str) -> Any:
        symbol = Symbol(label, positive=True)
        self.names[symbol], self.numbers[symbol], self.meanings[symbol] = name, value, meaning
        return to_sympy(symbol)

    # -- spelling out -----------------------------------------------------------------------------

    def _spelled(self, identifier: str) -> Any:
        node = self.functions.tape.quantities.get((identifier, ()))
        formula = BOOK.quantities[identifier].choose(lambda name: self.evaluation.setting(name, {}))
        assert formula is not None
        if node is not None and node not in self.functions.forms:
            return to_sympy(formula.quantity.symbol)
        try:
            return self._walked(formula.expression)
        except _Boundary:
            if node is None:
                raise
            return self._in_powers(identifier, formula, self.functions.forms[node])

    def _in_powers(self, identifier: str, formula: Any, form: Any) -> Any:
        """A quantity as a polynomial of the unknown with a symbol for each coefficient."""
        if not form.denom.is_ground:
            raise _Boundary
        below, total = _fraction(form.denom.coeff(1)), 0
        name, unknown = parse(formula.quantity.latex), _Setter(self).name(self.input).plain()
        for (power,), coefficient in sorted(dict(form.numer).items()):
            words = (f"the part without {unknown}", f"per {unknown}", f"per {unknown} squared")
            if power >= len(words):
                raise _Boundary
            symbol = self._named(
                f"{identifier} {power}",
                name.with_subscript(str(power)),
                _fraction(coefficient) / below,
                f"{formula.title}: {words[power]}",
            )
            total += symbol * self.unknown**power
        return total

    def _walked(self, expression: Any) -> Any:
        op = expression.op
        if isinstance(expression, Symbol):
            return self._symbol(expression)
        if op in REDUCTIONS:
            raise _Boundary
        inner = [self._walked(argument) for argument in expression.args]
        if op == "add":
            return self._gathered(inner)
        if op in ("mul", "pow"):
            return (Mul if op == "mul" else Pow)(*inner)
        if op not in ("ceil", "floor", "max", "min") or not any(map(self._moves, inner)):
            return to_sympy(expression)
        if op in ("ceil", "floor"):
            return inner[0]
        values = [self.evaluation.compute(argument, {}) for argument in expression.args]
        return inner[values.index(max(values) if op == "max" else min(values))]

    def _gathered(self, terms: list[Any]) -> Any:
        """A sum; what moves and stands in several terms stands in one, before the sum of its
        factors: t + f t is (1 + f) t."""
        factors: dict[Any, list[Any]] = {}
        for term in terms:
            moving = [a for a in (term.args if type(term) is Mul else (term,)) if self._moves(a)]
            one = moving[0] if len(moving) == 1 else term
            factors.setdefault(one, []).append(term / one)
        return Add(*(Mul(Add(*rest), one) for one, rest in factors.items()))

    def _symbol(self, symbol: Symbol) -> Any:
        identifier = BOOK.symbols.get(symbol)
        if identifier is not None:
            return self._spelled(identifier)
        form = self.leaf_forms.get(symbol)
        if form is None:
            bound = self.evaluation.bound(symbol, {})
            found = isinstance(bound, Expression)
            return self._walked(canonical(bound)) if found else to_sympy(symbol)
        if symbol is self.input:
            return self.unknown
        above, below = form.numer, form.denom
        return _polynomial(above, self.unknown) / _polynomial(below, self.unknown)

    def _moves(self, expression: Any) -> bool:
        return self.unknown in getattr(expression, "free_symbols", ())

    # -- solving ----------------------------------------------------------------------------------

    def _solved(self, whole: Any, limit: Any) -> Any:
        """The root in symbols: of what is linear in the unknown or in one over it as it stands, of
        the rest from its coefficients. Held against the root in numbers."""
        x, y = self.unknown, sympy.Symbol("inverse", positive=True)
        slope = whole.diff(x)
        turned = whole.subs(x, 1 / y)
        if not self._moves(slope):
            rest, slope = _plus(limit - whole.subs(x, 0)), _plus(slope)
            if slope.could_extract_minus_sign():
                rest, slope = -rest, -slope
            found = [rest / slope]
        elif y not in turned.diff(y).free_symbols:
            found = [turned.diff(y) / (limit - turned.subs(y, 0))]
        else:
            found = self._from_coefficients(whole - limit)
        for root in found:
            if self._agrees(root):
                return root
        raise NoForm("the formula in symbols has several branches")

    def _from_coefficients(self, zero: Any) -> list[Any]:
        from sympy import Poly, fraction, together

        poly = Poly(fraction(together(zero))[0], self.unknown)
        if poly.degree() > MOST_DEGREE:
            raise NoForm(f"it is of degree {poly.degree()} in symbols")
        a, b, c = (poly.coeff_monomial(self.unknown**power) for power in (2, 1, 0))
        if not a:
            return [-c / b]
        under = sqrt(b**2 - 4 * a * c)
        return [(under - b) / (2 * a), (-under - b) / (2 * a)]

    def _agrees(self, root: Any) -> bool:
        """Whether the root in symbols has the value of the one in numbers."""
        try:
            value = self.number(root)
        except (Absent, ArithmeticError):
            return False
        return bool(abs(value - self.value) <= abs(self.value) / 10**9)

    def number(self, expression: Any) -> Any:
        """The value of an expression in symbols of the book and in our own."""
        tree = from_sympy(expression).replaced(self.numbers)
        return self.evaluation.compute(tree, {})


def _polynomial(element: Any, unknown: Any) -> Any:
    terms = dict(element).items()
    return sum((Rational(_fraction(c)) * unknown**p for (p,), c in terms), Rational(0))


def _plus(expression: Any) -> Any:
    """The same with factors such as -1 - f as 1 + f, their sign before the product."""
    terms = []
    for term in Add.make_args(expression):
        factors = []
        for factor in Mul.make_args(term):
            if isinstance(factor, Add) and all(a.could_extract_minus_sign() for a in factor.args):
                factors += [-1, -factor]
            else:
                factors.append(factor)
        terms.append(Mul(*factors))
    return Add(*terms)


class _Setter(Typesetter):
    """Sets symbols that are not in the book, too."""

    def __init__(self, symbolic: _Symbolic) -> None:
        super().__init__(symbolic.evaluation)
        self.names, self.numbers = symbolic.names, symbolic.numbers

    def name(self, symbol: Symbol) -> Name:
        return self.names[symbol] if symbol in self.names else super().name(symbol)

    def _symbol(self, symbol: Symbol, point: Point | None, numbers: bool) -> Box:
        if symbol not in self.names:
            return super()._symbol(symbol, point, numbers)
        if not numbers:
            return Box("name", (), self.names[symbol])
        value = self.numbers[symbol]
        return Box("value", (), value)
