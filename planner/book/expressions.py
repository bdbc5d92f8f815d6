"""Formulas as trees: symbols, numbers, operations and reductions, without SymPy.

A body is written with Python's operators and the functions below, and put in order by
``canonical.py``. Equal expressions are one object, so that identity is equality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

#: What formulas are written with.
__all__ = ["Expression", "Operand", "ceil", "exp", "floor", "maximum", "minimum"]
__all__ += ["make_fraction", "sqrt", "tanh"]
#: The reductions over the entries of an axis.
REDUCTIONS = frozenset(("total", "largest", "at_largest", "which"))
OPERATIONS = REDUCTIONS | {
    *("add", "mul", "pow", "exp", "tanh", "log", "ceil", "floor", "max", "min")
}


class Operand:
    """An operand of an expression: an expression, or an object with a ``symbol``."""

    symbol: Symbol

    def __add__(self, other: Any) -> Expression:
        return add(self, other)

    def __radd__(self, other: Any) -> Expression:
        return add(other, self)

    def __sub__(self, other: Any) -> Expression:
        return add(self, product(-1, other))

    def __rsub__(self, other: Any) -> Expression:
        return add(other, product(-1, self))

    def __mul__(self, other: Any) -> Expression:
        return product(self, other)

    def __rmul__(self, other: Any) -> Expression:
        return product(other, self)

    def __truediv__(self, other: Any) -> Expression:
        return product(self, power(other, -1))

    def __rtruediv__(self, other: Any) -> Expression:
        return product(other, power(self, -1))

    def __pow__(self, other: Any) -> Expression:
        return power(self, other)

    def __rpow__(self, other: Any) -> Expression:
        return power(other, self)

    def __neg__(self) -> Expression:
        return product(-1, self)


class Expression(Operand):
    """One operation. ``op`` is symbol, number or one of ``OPERATIONS``; ``data`` is the name of a
    symbol, the value of a number, or the axis of a reduction with the settings that its entries
    agree with. ``canonical`` is its canonical form, where that is known; ``text`` is SymPy's, by
    which print orders factors of one kind."""

    text = ""
    canonical: Expression | None = None
    op: str
    args: tuple[Expression, ...]
    data: Any

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, [*filter(None, [self.data]), *self.args]))})"

    def __reduce__(self) -> Any:
        return _make_unique, (self.op, self.args, self.data)

    @property
    def body(self) -> Expression:
        """The expression that is reduced."""
        return self.args[0]

    @property
    def by(self) -> Expression:
        """The expression whose maximum selects the entry at which ``body`` is evaluated."""
        return self.args[1]

    @property
    def axis(self) -> str:
        """The axis of a reduction."""
        return str(self.data[0])

    @cached_property
    def where(self) -> dict[str, str]:
        """The settings that entries must have."""
        return dict(self.data[1])

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """All symbols in the tree."""
        return frozenset(node for node in self.walk_tree() if isinstance(node, Symbol))

    def put(self, others: Mapping[Symbol, Expression]) -> Expression:
        """Substitute expressions for symbols."""
        if isinstance(self, Symbol):
            return others.get(self, self)
        return _make_unique(self.op, tuple(part.put(others) for part in self.args), self.data)

    def walk_tree(self) -> Iterator[Expression]:
        """Yield the expression and all below it, an operation before its arguments; equal parts
        each time."""
        yield self
        for argument in self.args:
            yield from argument.walk_tree()


class Symbol(Expression):
    """A name that stands for a value. Inputs are ``positive``, quantities may be anything."""

    def __new__(cls, name: str, positive: bool = False) -> Symbol:
        found = _make_unique("symbol", (), (name, positive))
        assert isinstance(found, Symbol)
        return found

    @property
    def name(self) -> str:
        """The name in formulas; the id of a quantity."""
        return str(self.data[0])

    @property
    def positive(self) -> bool:
        """Whether the value is above 0, which SymPy is told: roots and powers of products then
        simplify."""
        return bool(self.data[1])

    def __str__(self) -> str:
        return self.name


_EXPRESSIONS: dict[tuple[str, tuple[Expression, ...], Any], Expression] = {}


def _make_unique(op: str, args: tuple[Expression, ...], data: Any = None) -> Expression:
    """Return the only object for this operation and these arguments; make it if there is none."""
    key = (op, args, data)
    found = _EXPRESSIONS.get(key)
    if found is None:
        found = object.__new__(Symbol if op == "symbol" else Expression)
        found.op, found.args, found.data = key
        _EXPRESSIONS[key] = found
    return found


def make_number(value: int | Fraction) -> Expression:
    """Make an exact number.

    Raises:
        TypeError: the value is a float, which is not exact.
    """
    if type(value) is Fraction and value.denominator == 1:
        value = value.numerator
    if not isinstance(value, (int, Fraction)):
        raise TypeError(f"{value!r} is not exact: write an integer or a Fraction")
    return _make_unique("number", (), int(value) if isinstance(value, int) else value)


def to_expression(value: Any) -> Expression:
    """Return an expression unchanged, the symbol of an operand, or a number as an expression."""
    if isinstance(value, Expression):
        return value
    return value.symbol if isinstance(value, Operand) else make_number(value)


def apply_operation(op: str, *values: Any, data: Any = None) -> Expression:
    """Apply one of ``OPERATIONS`` to expressions, quantities or numbers."""
    return _make_unique(op, tuple(map(to_expression, values)), data)


add, product, power = (partial(apply_operation, op) for op in ("add", "mul", "pow"))
exp, tanh = partial(apply_operation, "exp"), partial(apply_operation, "tanh")
log = partial(apply_operation, "log")  # the natural logarithm
#: Each whole number that is next above or below; the largest and the smallest of some values.
ceil, floor = partial(apply_operation, "ceil"), partial(apply_operation, "floor")
maximum, minimum = partial(apply_operation, "max"), partial(apply_operation, "min")


def make_fraction(numerator: int, denominator: int) -> Expression:
    """Make an exact fraction."""
    return make_number(Fraction(numerator, denominator))


def sqrt(value: Any) -> Expression:
    """Take the square root, as a power."""
    return power(value, Fraction(1, 2))


def make_in_order(op: str, args: tuple[Expression, ...], data: Any = None) -> Expression:
    """Make an expression that is canonical already.

    Args:
        op: one of ``OPERATIONS``.
        args: in SymPy's canonical order, which is not checked.
        data: the axis of a reduction, with the settings of its entries.
    """
    found = _make_unique(op, args, data)
    found.canonical = found
    return found
