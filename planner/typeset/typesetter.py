"""Expressions as boxes, with symbols or with the numbers of an evaluation.

A box tree with symbols and one with numbers have the same shape, term by term, except that a fold
is spelled out in numbers: one term for each entry.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from planner.book.canonical import canonical
from planner.book.expressions import REDUCTIONS, Expression, Symbol, number, product
from planner.book.quantity import Book
from planner.engine.evaluate import Evaluation, Point
from planner.typeset.boxes import Box, parse
from planner.typeset.styles import LATEX, TEXT

IN_FULL = 3  # entries of a fold whose bodies are spelled out; of more, their values
PLURAL = {
    "part": "parts",
    "block": "blocks",
    "component": "components",
    "stage": "stages",
    "phase": "phases",
    "tensor": "tensors",
}


ONE = Box("number", (), 1)
HALF = Fraction(1, 2)
_FUNCTIONS = {name: name for name in ("ceil", "floor", "exp", "tanh", "max", "min")}
_FUNCTIONS["log"] = "ln"


class _Order:
    """The order of quantities, of terms and of factors in print, which depends on a book alone."""

    def __init__(self, book: Book) -> None:
        self.symbols = {symbol: i for i, symbol in enumerate(book.symbols)}
        self.terms: dict[Expression, list[Any]] = {}
        self.factors: dict[Expression, list[Any]] = {}


_order_of = lru_cache(maxsize=4)(_Order)


class Typesetter:
    """Boxes of the formulas of one evaluation, and styles to write them in."""

    text, latex = TEXT, LATEX

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.book = evaluation.book
        self._order = _order_of(self.book)

    def name(self, symbol: Symbol) -> Box:
        """The name of an input or of a quantity."""
        note = self.book.notation.get(symbol)
        if note is not None:
            return parse(note.latex)
        return parse(self.book.quantities[self.book.symbols[symbol]].latex)

    def symbolic(self, expression: Any, point: Point | None) -> Box:
        """The formula with symbols. Widths that the inventory binds to expressions are replaced
        by these; without a point (inside a fold) they keep their names."""
        return self._box(expression, point, False)

    def numeric(self, expression: Any, point: Point) -> Box:
        """The formula with a number in the place of each symbol.

        Raises:
            Absent: one of them has no value.
        """
        return self._box(expression, point, True)

    # -- the walk -----------------------------------------------------------------------------

    def _box(self, expression: Any, point: Point | None, numbers: bool) -> Box:
        op = expression.op
        if isinstance(expression, Symbol):
            return self._symbol(expression, point, numbers)
        if op == "mul":
            return self._product(expression, point, numbers)
        if op == "add":
            return self._sum(expression, point, numbers)
        if op == "pow":
            return self._power(expression, point, numbers)
        if op == "number":
            return _number(expression.data)
        if op in REDUCTIONS:
            return self._fold(expression, point, numbers)
        arguments = sorted(expression.args, key=self._rank)
        return Box(_FUNCTIONS[op], tuple(self._box(each, point, numbers) for each in arguments))

    def _symbol(self, symbol: Symbol, point: Point | None, numbers: bool) -> Box:
        if point is not None and symbol not in self.book.symbols:
            bound = self.evaluation.bound(symbol, point)
            if isinstance(bound, Expression):
                return self._box(canonical(bound), point, numbers)
        if not numbers:
            return Box("name", (self.name(symbol),))
        return _value(self.evaluation.symbol(symbol, point or {}))

    def _sum(self, expression: Any, point: Point | None, numbers: bool) -> Box:
        terms = []
        for term in self.terms(expression):
            minus = _is_negative(term)
            terms.append((minus, self._box(_negated(term) if minus else term, point, numbers)))
        return Box("sum", tuple(box for _, box in terms), tuple(minus for minus, _ in terms))

    def terms(self, expression: Any) -> list[Any]:
        """Terms as one would write them: positive ones first, products of more before those of
        fewer, quantities in the order of the book; a constant last, but before fractions."""
        known = self._order.terms
        if expression not in known:
            known[expression] = self._in_order(list(expression.args))
        return known[expression]

    def _in_order(self, terms: list[Any]) -> list[Any]:
        fractions = any(term.op == "mul" and any(_is_below(f) for f in term.args) for term in terms)
        others_negative = all(_is_negative(term) for term in terms if term.op != "number")

        def key(term: Any) -> tuple[Any, ...]:
            factors = term.args if term.op == "mul" else (term,)
            ranks = sorted(self._rank(factor) for factor in factors if factor.op != "number")
            if term.op == "number":
                return (0 if fractions or others_negative else 3,)
            return (2 if _is_negative(term) else 1, -len(ranks), ranks)

        return sorted(terms, key=key)

    def _rank(self, factor: Any) -> tuple[int, int, str]:
        base = factor.args[0] if factor.op == "pow" else factor
        if isinstance(base, Symbol):
            note = self.book.notation.get(base)
            if note is not None:
                return (1, note.rank, "")
            return (2, self._order.symbols.get(base, 0), "")
        if base.op == "number":
            return (0, 0, str(base.data))
        if base.op == "add":
            return (3, 0, base.text)
        return (5 if base.op in REDUCTIONS else 4, 0, base.text)

    def _product(self, expression: Any, point: Point | None, numbers: bool) -> Box:
        above: list[Box] = []
        below: list[Box] = []
        factors = self._order.factors.get(expression)
        if factors is None:
            factors = sorted(expression.args, key=self._rank)
            self._order.factors[expression] = factors
        for factor in factors:
            if _is_below(factor):
                base, exponent = factor.args
                box = self._box(_powered(base, exponent), point, numbers)
                _spread(box, below, above)
            else:
                _spread(self._box(factor, point, numbers), above, below)
        minus = False
        kept: list[list[Box]] = []
        for side in (above, below):
            rest = []
            for box in side:
                if box.kind == "number" and box.data == -1:
                    minus = not minus
                elif box is not ONE:
                    rest.append(box)
            kept.append(rest)
        top, bottom = (_row(side) for side in kept)
        box = Box("fraction", (top, bottom)) if kept[1] else top
        return Box("negative", (box,)) if minus else box

    def _power(self, expression: Any, point: Point | None, numbers: bool) -> Box:
        base, exponent = expression.args
        if _is_below(expression):
            inner = self._box(_powered(base, exponent), point, numbers)
            return Box("fraction", (ONE, inner))
        if exponent.data == HALF:
            return Box("root", (self._box(base, point, numbers),))
        return Box("power", (self._box(base, point, numbers), self._box(exponent, point, numbers)))

    # -- folds --------------------------------------------------------------------------------

    def _fold(self, fold: Expression, point: Point | None, numbers: bool) -> Box:
        if numbers and point is not None:
            return self._spelled_out(fold, point)
        body, index = self._box(fold.body, None, False), Box("words", (), _index(fold))
        if fold.op == "at_largest":
            return Box("at", (body, index, self._box(fold.by, None, False)))
        return Box(fold.op, (index, body))

    def _spelled_out(self, fold: Expression, point: Point) -> Box:
        """The fold with the numbers of each entry."""
        evaluation = self.evaluation
        if fold.op == "which":
            return Box("words", (), str(evaluation.compute(fold, point)))
        points = evaluation.entries(fold.axis, point, fold.where)
        if fold.op == "at_largest":
            best = max(points, key=lambda below: evaluation.compute(fold.by, below))
            return self._box(fold.body, best, True)
        if len(points) > IN_FULL:
            values = [evaluation.compute(fold.body, below) for below in points]
            boxes = [_value(value) for value in values if value or fold.op == "largest"]
        else:
            boxes = [self._box(fold.body, below, True) for below in points]
        if not boxes:
            return _number(0)
        if len(boxes) == 1:
            return boxes[0]
        if fold.op == "largest":
            return Box("max", tuple(boxes))
        flat: list[tuple[bool, Box]] = []
        for box in boxes:
            inner = zip(box.data, box.parts, strict=True) if box.kind == "sum" else [(False, box)]
            flat += inner
        return Box("sum", tuple(box for _, box in flat), tuple(minus for minus, _ in flat))


def _index(fold: Expression) -> str:
    """What a fold runs over, in words: `parts`, `components: core`."""
    words = []
    for key, value in fold.where.items():
        words.append({"True": key, "False": f"not {key}"}.get(value, value))
    axis = fold.axis if fold.op == "which" else PLURAL.get(fold.axis, fold.axis)
    return axis + (": " + ", ".join(words) if words else "")


def _number(value: Any) -> Box:
    """A number of the formula itself."""
    return ONE if value == 1 and isinstance(value, int) else Box("number", (), value)


def _value(value: Any) -> Box:
    """A number in the place of a symbol; it stays, even where it is 1."""
    return Box("words", (), value) if isinstance(value, str) else Box("value", (), value)


def _is_negative(term: Any) -> bool:
    first = term.args[0] if term.op == "mul" else term
    return first.op == "number" and bool(first.data < 0)


def _negated(term: Expression) -> Expression:
    """A term with a number before it that is below zero, without its sign."""
    if term.op == "number":
        return number(-term.data)
    first, *rest = term.args
    if first.data != -1:
        return product(number(-first.data), *rest)
    return rest[0] if len(rest) == 1 else product(*rest)


def _powered(base: Expression, exponent: Expression) -> Expression:
    """What stands below the line for a negative power."""
    opposite = _negated(exponent)
    return base if opposite.data == 1 else base**opposite


def _is_below(factor: Any) -> bool:
    """Whether a factor belongs below the line of a fraction."""
    return factor.op == "pow" and _is_negative(factor.args[1])


def _spread(box: Box, above: list[Box], below: list[Box]) -> None:
    """Sort a factor's own factors onto both sides of the line."""
    if box.kind == "product":
        for part in box.parts:
            _spread(part, above, below)
    elif box.kind == "fraction":
        _spread(box.parts[0], above, below)
        _spread(box.parts[1], below, above)
    elif box.kind == "number" and isinstance(box.data, Fraction) and abs(box.data.numerator) < 1000:
        above.append(_number(box.data.numerator))
        below.append(_number(box.data.denominator))
    else:
        above.append(box)


def _row(boxes: list[Box]) -> Box:
    if not boxes:
        return ONE
    return boxes[0] if len(boxes) == 1 else Box("product", tuple(boxes))
