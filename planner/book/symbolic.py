"""Expressions as SymPy has them, and back: for their canonical form, and for closed forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy
from sympy import Add, Expr, Integer, Max, Min, Mul, Pow, Rational, Tuple, ceiling, floor

from planner.book.expressions import REDUCTIONS, Expression, Symbol, make_in_order, make_number


class Reduction(Expr):  # type: ignore[misc]  # SymPy has no types
    """SymPy's own Sum wants a numeric index; ours run over named entries (layer kinds, stages).
    args = (body, axis, what ``body`` is taken by, filter pairs…)."""

    is_commutative = True


#: SymPy orders by the names of classes, and so does print: ``AtLargest`` for ``at_largest``.
_REDUCTIONS: dict[str, Any] = {
    op: type(op.title().replace("_", ""), (Reduction,), {}) for op in sorted(REDUCTIONS)
}
_OPERATIONS: dict[str, Any] = {
    "add": Add,
    "mul": Mul,
    "pow": Pow,
    "exp": sympy.exp,
    "tanh": sympy.tanh,
    "log": sympy.log,
    "ceil": ceiling,
    "floor": floor,
    "max": Max,
    "min": Min,
}
_NAMES = {kind: op for op, kind in (_OPERATIONS | _REDUCTIONS).items()}
#: Operations whose arguments are sorted in print.
_ORDERED = frozenset(("add", "mul", "max", "min"))
#: Not evaluated by SymPy, which would be slow.
_AS_WRITTEN = frozenset(("ceil", "floor", "max", "min"))


def to_sympy(tree: Expression) -> Any:
    """Convert an expression to SymPy, which puts it in order."""
    if isinstance(tree, Symbol):
        return sympy.Symbol(tree.name, **({"positive": True} if tree.positive else {}))
    if tree.op == "number":
        return Rational(tree.data.numerator, tree.data.denominator)
    inner = [to_sympy(argument) for argument in tree.args]
    if tree.op in REDUCTIONS:
        pairs = [Tuple(sympy.Symbol(k), sympy.Symbol(v)) for k, v in tree.where.items()]
        body, *by = inner
        return _REDUCTIONS[tree.op](body, sympy.Symbol(tree.axis), *by, *pairs)
    if tree.op in _AS_WRITTEN:
        return _OPERATIONS[tree.op](*inner, evaluate=False)
    return _OPERATIONS[tree.op](*inner)


def from_sympy(made: Any) -> Expression:
    """Convert a SymPy expression of the operations above to a tree."""
    if isinstance(made, sympy.Symbol):
        return Symbol(made.name, positive=bool(made.is_positive))
    if isinstance(made, Integer):
        return make_number(int(made.p))
    if isinstance(made, Rational):
        return make_number(Fraction(int(made.p), int(made.q)))
    op = _NAMES.get(type(made))
    if op is None:
        raise TypeError(f"no expression for {type(made).__name__}: {made}")
    if op not in REDUCTIONS:
        if op in _ORDERED:
            for base in (each.base if isinstance(each, Pow) else each for each in made.args):
                if base.args and (op in ("max", "min") or not isinstance(base, Mul)):
                    from_sympy(base).text = str(base)
        return make_in_order(op, tuple(map(from_sympy, made.args)))
    body, axis, *rest = made.args
    bodies = [body, *(each for each in rest if not isinstance(each, Tuple))]
    pairs = tuple((k.name, v.name) for k, v in (p for p in rest if isinstance(p, Tuple)))
    return make_in_order(op, tuple(map(from_sympy, bodies)), (axis.name, pairs))
