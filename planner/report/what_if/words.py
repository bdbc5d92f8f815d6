"""Plain Python data, and expressions of the book, as JavaScript."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from planner.book.canonical import canonical
from planner.book.expressions import REDUCTIONS, Expression, Symbol
from planner.book.quantity import Book

__all__ = ["Formulas", "Untranslated", "identifier", "literal", "quoted"]

#: Names that Python allows and JavaScript does not.
RESERVED = frozenset(
    (
        "arguments",
        "await",
        "case",
        "catch",
        "const",
        "debugger",
        "default",
        "delete",
        "do",
        "enum",
        "eval",
        "export",
        "extends",
        "function",
        "instanceof",
        "interface",
        "let",
        "new",
        "null",
        "package",
        "private",
        "protected",
        "public",
        "static",
        "super",
        "switch",
        "this",
        "throw",
        "try",
        "typeof",
        "undefined",
        "var",
        "void",
        "$",
    )
)

#: Functions of expressions that JavaScript or our library has.
FUNCTIONS = {
    "ceil": "$.ceil",
    "floor": "$.floor",
    "exp": "$.exp",
    "tanh": "Math.tanh",
    "log": "Math.log",
    "max": "Math.max",
    "min": "Math.min",
}


class Untranslated(TypeError):
    """A formula, a rule or a value that has no JavaScript."""


def quoted(text: str) -> str:
    """A string literal that may stand inside a script element."""
    return json.dumps(text, ensure_ascii=True).replace("<", "\\u003c")


def identifier(name: str) -> str:
    return f"{name}_" if name in RESERVED else name


def literal(value: Any, other: Callable[[Any], str] | None = None) -> str:
    """Plain data: dictionaries become ``$.Dict``, lists, tuples and sets arrays, numbers doubles.

    ``other`` writes what is not plain data.

    Raises:
        Untranslated: a value that has no counterpart.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 2**53 else repr(float(value))
    if isinstance(value, Fraction):
        return repr(float(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = (f"[{literal(k, other)},{literal(v, other)}]" for k, v in value.items())
        return f"new $.Dict([{','.join(pairs)}])"
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return f"[{','.join(literal(item, other) for item in value)}]"
    if isinstance(value, (set, frozenset)):
        items = (literal(item, other) for item in sorted(value, key=str))
        return f"new $.Set_([{','.join(items)}])"
    if other is not None:
        return other(value)
    raise Untranslated(f"no JavaScript for {type(value).__name__}: {value!r}")


class Formulas:
    """Prints expressions as JavaScript over an evaluation ``e`` and a point ``p``, and remembers
    which quantities they use."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.used: dict[str, None] = {}
        self._shared: dict[str, str] = {}

    def bound(self, value: Any) -> str:
        """A symbol or an expression as a value that the rules pass on and the evaluation reads."""
        if isinstance(value, Expression):
            value = canonical(value)
        if isinstance(value, Symbol):
            if value in self.book.symbols:
                self.used[self.book.symbols[value]] = None
            return f"$.sym({quoted(value.name)})"
        if isinstance(value, Expression):
            text = f"$.expr((e,p)=>{self.write(value)})"
            return self._shared.setdefault(text, f"X[{len(self._shared)}]")
        raise Untranslated(f"no JavaScript for {type(value).__name__}: {value!r}")

    def shared(self) -> str:
        """The expressions that ``bound`` has given names to: many components have the same."""
        return f"const X=[{','.join(self._shared)}];"

    def write(self, node: Expression) -> str:
        """One expression; sums and products stand in parentheses."""
        if isinstance(node, Symbol):
            known = self.book.symbols.get(node)
            if known is not None:
                self.used[known] = None
                return f"e.value({quoted(known)},p)"
            return f"e.symbol({quoted(node.name)},p)"
        if node.op == "number":
            return _number(node.data)
        if node.op == "add":
            return f"({'+'.join(self.write(term) for term in node.args)})"
        if node.op == "mul":
            return self._product(node)
        if node.op == "pow":
            return self._power(node)
        if node.op in REDUCTIONS:
            return self._fold(node)
        return f"{FUNCTIONS[node.op]}({','.join(self.write(argument) for argument in node.args)})"

    def _product(self, node: Any) -> str:
        above: list[Expression] = []
        below: list[Expression] = []
        for factor in node.args:
            inverse = factor.op == "pow" and factor.args[1].data == -1
            (below if inverse else above).append(factor.args[0] if inverse else factor)
        text = "*".join(self.write(factor) for factor in above) or "1"
        for factor in below:
            text += f"/$.nonzero({self.write(factor)})"
        return f"({text})"

    def _power(self, node: Any) -> str:
        base, exponent = node.args
        if exponent.data == -1:
            return f"(1/$.nonzero({self.write(base)}))"
        if isinstance(exponent.data, int) and exponent.data < 0:
            return f"Math.pow($.nonzero({self.write(base)}),{self.write(exponent)})"
        return f"Math.pow({self.write(base)},{self.write(exponent)})"

    def _fold(self, node: Expression) -> str:
        name = "atLargest" if node.op == "at_largest" else node.op
        functions = "".join(f",p=>{self.write(body)}" for body in node.args)
        return f"e.{name}({quoted(node.axis)},{self.where(node)},p{functions})"

    def where(self, node: Expression) -> str:
        """The filter of a fold."""
        pairs = (f"{quoted(k)}:{quoted(v)}" for k, v in node.where.items())
        return f"{{{','.join(pairs)}}}"


def _number(value: int | Fraction) -> str:
    if isinstance(value, Fraction):
        return f"({literal(value.numerator)}/{literal(value.denominator)})"
    return f"({literal(value)})" if value < 0 else literal(value)
