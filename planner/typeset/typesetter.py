"""Expressions as boxes, with symbols or with the numbers of an evaluation.

A box tree with symbols and one with numbers have the same shape, term by term, except that a fold
is spelled out in numbers: one term for each entry.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from planner.base.numbers import round_digits
from planner.book.canonical import to_canonical
from planner.book.expressions import REDUCTIONS, Expression, Symbol, make_number, product
from planner.book.quantity import Book
from planner.engine.evaluate import Evaluation, Point
from planner.typeset.boxes import Box, read_latex
from planner.typeset.styles import LATEX, TEXT

IN_FULL = 3  # entries of a fold whose bodies are spelled out; of more, their values
ONE, MINUS_ONE = Box("number", (), 1), Box("number", (), -1)
HALF = Fraction(1, 2)


class Typesetter:
    """Maker of boxes for the formulas of one evaluation, with styles to write them."""

    text, latex = TEXT, LATEX

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.book = evaluation.book

    def make_name(self, symbol: Symbol) -> Box:
        """Return the name of an input or of a quantity."""
        note = self.book.notation.get(symbol)
        return read_latex((note or self.book.quantities[self.book.symbols[symbol]]).latex)

    def box(self, expression: Any, point: Point | None, numbers: bool = False) -> Box:
        """Return the layout of a formula, with symbols or with numbers in their place.

        Args:
            expression: a canonical tree. Widths that the inventory binds to expressions are
                replaced by these.
            point: the entries by axis; None inside a reduction, where symbols keep their names.
            numbers: whether symbols are replaced by their values.

        Raises:
            Absent: a needed value is absent.
        """
        op = expression.op
        if isinstance(expression, Symbol):
            return self._make_symbol(expression, point, numbers)
        if op == "mul" or _is_below(expression):
            return self._make_product(expression, point, numbers)
        if op == "add":
            signed = [(_is_negative(term), term) for term in self.sort_terms(expression)]
            boxes = (self.box(_drop_sign(t) if minus else t, point, numbers) for minus, t in signed)
            box = Box("sum", tuple(boxes), tuple(minus for minus, _ in signed))
            differs = numbers and point is not None and any(box.data)
            return _add_digits(box, self._count_lost(expression, point or {})) if differs else box
        if op == "pow":
            base, exponent = (self.box(each, point, numbers) for each in expression.args)
            root = expression.args[1].data == HALF
            return Box("root", (base,)) if root else Box("power", (base, exponent))
        if op == "number":
            return Box("number", (), expression.data)
        if op in REDUCTIONS:
            return self._make_fold(expression, point if numbers else None)
        arguments = (self.box(each, point, numbers) for each in _sort_args(self.book, expression))
        return Box("ln" if op == "log" else op, tuple(arguments))

    def _make_symbol(self, symbol: Symbol, point: Point | None, numbers: bool) -> Box:
        """Return the box of a symbol; of a width that the inventory binds to an expression, that of
        this.

        Args:
            point: the entries by axis; None where they vary, inside a reduction.
            numbers: whether the value stands for the symbol.

        Raises:
            Absent: its value is needed and absent.
        """
        if point is not None and symbol not in self.book.symbols:
            bound = self.evaluation.find_binding(symbol, point)
            if isinstance(bound, Expression):
                scope = self.evaluation.find_scope(symbol, point)
                return self.box(to_canonical(bound), self.evaluation.meant(scope, point), numbers)
        if not numbers:
            return Box("name", (self.make_name(symbol),))
        return _make_value(self.evaluation.compute(symbol, point or {}))

    def _count_lost(self, expression: Expression, point: Point) -> int:
        """Count the leading digits that cancel in a sum."""
        total, *terms = (
            abs(self.evaluation.compute(each, point)) for each in (expression, *expression.args)
        )
        return len(str(int(max(terms) / total))) - 1 if total else 0

    def sort_terms(self, expression: Any) -> tuple[Any, ...]:
        """Return the terms of a sum in the order of print."""
        return _sort_args(self.book, expression)

    def _make_product(self, expression: Any, point: Point | None, numbers: bool) -> Box:
        """Return the box of a product, a fraction where a factor has a negative power.

        Args:
            expression: a product, or such a power.
            point: the entries by axis; None inside a reduction.
            numbers: whether values stand for symbols.
        """
        above: list[Box] = []
        below: list[Box] = []
        factors = _sort_args(self.book, expression) if expression.op == "mul" else (expression,)
        for factor in factors:
            if _is_below(factor):
                base, opposite = factor.args[0], _drop_sign(factor.args[1])
                power = base if opposite.data == 1 else base**opposite
                _split_factors(self.box(power, point, numbers), below, above)
            else:
                _split_factors(self.box(factor, point, numbers), above, below)
        # Factors of one are not written, and a minus is in front.
        minus = (above + below).count(MINUS_ONE) % 2
        sides = ([box for box in side if box not in (ONE, MINUS_ONE)] for side in (above, below))
        top, bottom = (
            side[0] if len(side) == 1 else Box("product", tuple(side)) if side else ONE
            for side in sides
        )
        box = top if bottom == ONE else Box("fraction", (top, bottom))
        return Box("negative", (box,)) if minus else box

    def _make_fold(self, fold: Expression, point: Point | None) -> Box:
        """Return a fold with the numbers of its entries at a point; without one, with symbols."""
        evaluation = self.evaluation
        if point is None:
            body, index = self.box(fold.body, None, False), Box("words", (), _format_index(fold))
            if fold.op == "at_largest":
                return Box("at", (body, index, self.box(fold.by, None, False)))
            return Box(fold.op, (index, body))
        if fold.op == "which":
            return Box("words", (), str(evaluation.compute(fold, point)))
        points = evaluation.entries(fold.axis, point, fold.where)
        if fold.op == "at_largest":
            best = max(points, key=lambda below: evaluation.compute(fold.by, below))
            return self.box(fold.body, best, True)
        if len(points) > IN_FULL:
            values = [evaluation.compute(fold.body, below) for below in points]
            boxes = [_make_value(value) for value in values if value or fold.op == "largest"]
        else:
            boxes = [self.box(fold.body, below, True) for below in points]
        if not boxes:
            return Box("number", (), 0)
        if len(boxes) == 1:
            return boxes[0]
        if fold.op == "largest":
            return Box("max", tuple(boxes))
        flat: list[tuple[bool, Box]] = []
        for box in boxes:
            inner = zip(box.data, box.parts, strict=True) if box.kind == "sum" else [(False, box)]
            flat += inner
        return Box("sum", tuple(box for _, box in flat), tuple(minus for minus, _ in flat))


@lru_cache(maxsize=16384)
def _sort_args(book: Book, expression: Expression) -> tuple[Any, ...]:
    """Sort the arguments of an expression for print: quantities in the order of the book; in a sum,
    positive terms first, products of more factors before those of fewer, a constant last, but
    before fractions."""
    terms = expression.args
    if expression.op != "add":
        return tuple(sorted(terms, key=lambda factor: _rank_factor(book, factor)))
    fractions = any(term.op == "mul" and any(map(_is_below, term.args)) for term in terms)
    others_negative = all(_is_negative(term) for term in terms if term.op != "number")

    def key(term: Any) -> tuple[Any, ...]:
        """Rank a term: those with most factors first, a negative one later, a number where papers
        put it."""
        factors = term.args if term.op == "mul" else (term,)
        ranks = sorted(_rank_factor(book, factor) for factor in factors if factor.op != "number")
        if term.op == "number":
            return (0 if fractions or others_negative else 3,)
        return (2 if _is_negative(term) else 1, -len(ranks), ranks)

    return tuple(sorted(terms, key=key))


def _rank_factor(book: Book, factor: Any) -> tuple[int, int, str]:
    """Return the sort key of a factor: numbers, inputs, quantities, sums, functions, folds."""
    base = factor.args[0] if factor.op == "pow" else factor
    if isinstance(base, Symbol):
        note = book.notation.get(base)
        return (1, note.rank, "") if note is not None else (2, [*book.symbols].index(base), "")
    if base.op == "number":
        return (0, 0, str(base.data))
    return (3 if base.op == "add" else 5 if base.op in REDUCTIONS else 4, 0, base.text)


def _format_index(fold: Expression) -> str:
    """Format what a fold runs over: `parts`, `components: core`."""
    words = []
    for key, value in fold.where.items():
        words.append({"True": key, "False": f"not {key}"}.get(value, value))
    axis = fold.axis if fold.op == "which" else f"{fold.axis}s"
    return axis + (": " + ", ".join(words) if words else "")


def _make_value(value: Any) -> Box:
    """Make the box of a number in place of a symbol; it stays even if it is 1."""
    return Box("words", (), value) if isinstance(value, str) else Box("value", (), value)


def _add_digits(box: Box, more: int) -> Box:
    """Add ``more`` digits to the rounded values in a box."""
    parts = tuple(_add_digits(part, more) for part in box.parts) if more else box.parts
    if box.kind != "value" or not more or Fraction(round_digits(box.data, 12)) == box.data:
        return box._replace(parts=parts)
    return box._replace(data=round_digits(box.data, 6 + more))


def _is_negative(term: Any) -> bool:
    """Decide whether a term is printed with a minus."""
    first = term.args[0] if term.op == "mul" else term
    return first.op == "number" and bool(first.data < 0)


def _drop_sign(term: Expression) -> Expression:
    """Remove the sign of a term with a negative number first."""
    if term.op == "number":
        return make_number(-term.data)
    first, *rest = term.args
    if first.data != -1:
        return product(make_number(-first.data), *rest)
    return rest[0] if len(rest) == 1 else product(*rest)


def _is_below(factor: Any) -> bool:
    """Decide whether a factor belongs below the line of a fraction."""
    return factor.op == "pow" and _is_negative(factor.args[1])


def _split_factors(box: Box, above: list[Box], below: list[Box]) -> None:
    """Distribute the factors of a box over both sides of the line."""
    if box.kind == "product":
        for part in box.parts:
            _split_factors(part, above, below)
    elif box.kind == "fraction":
        _split_factors(box.parts[0], above, below)
        _split_factors(box.parts[1], below, above)
    elif box.kind == "number" and isinstance(box.data, Fraction) and abs(box.data.numerator) < 1000:
        above.append(Box("number", (), box.data.numerator))
        below.append(Box("number", (), box.data.denominator))
    else:
        above.append(box)
