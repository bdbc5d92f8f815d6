"""Folds over axes: one formula that holds for each part, stage or component, made into one value.

SymPy's own Sum wants a numeric index; ours runs over named entries (layer kinds, stages), so these
are small Expr classes that the evaluator, the compiler and the printers know.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr, Symbol, Tuple, ceiling, floor, log, sympify
from sympy import Max as _Max
from sympy import Min as _Min

from planner.book.settings import named


class Fold(Expr):  # type: ignore[misc]  # SymPy has no types
    """Base of the folds. args = (body, axis symbol, filter pairs…)."""

    is_commutative = True

    def __new__(cls, body: Any, axis: str, *rest: Any, **where: Any) -> Any:
        pairs = [Tuple(Symbol(k), Symbol(str(v))) for k, v in sorted(named(where).items())]
        return Expr.__new__(cls, sympify(body), Symbol(axis), *rest, *pairs)

    @property
    def body(self) -> Expr:
        return self.args[0]

    @property
    def axis(self) -> str:
        return str(self.args[1].name)

    @property
    def where(self) -> dict[str, str]:
        return {a.name: b.name for a, b in (p.args for p in self.args if isinstance(p, Tuple))}


class Total(Fold):
    """Sum of ``body`` over the entries of ``axis`` (those whose settings agree with ``where``)."""


class Largest(Fold):
    """Largest ``body`` over the entries of ``axis``."""


class AtLargest(Fold):
    """``body`` at the entry of ``axis`` where ``by`` is largest (the first of equals)."""

    def __new__(cls, body: Any, axis: str, by: Any, **where: Any) -> Any:
        return super().__new__(cls, body, axis, sympify(by), **where)

    @property
    def by(self) -> Expr:
        return self.args[2]


class Which(Fold):
    """The name of the entry of ``axis`` where ``body`` is largest (the first of equals)."""


def log2(value: Any) -> Expr:
    """The logarithm to the base of 2."""
    return log(value) / log(2)


def ceil(value: Any) -> Expr:
    """Round up, left unevaluated: SymPy would try to decide it symbolically, which is slow."""
    return ceiling(value, evaluate=False)


def whole(value: Any) -> Expr:
    """Round down, left unevaluated."""
    return floor(value, evaluate=False)


def largest(*values: Any) -> Expr:
    """The largest of some values, left unevaluated."""
    return _Max(*values, evaluate=False)


def smallest(*values: Any) -> Expr:
    """The smallest of some values, left unevaluated."""
    return _Min(*values, evaluate=False)
