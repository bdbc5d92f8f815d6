"""Formulas as people write them in a document: `cost.total / training.tokens * 1e9`.

A grammar of our own, never Python's: numbers (exact, with a unit where they have one: `5 GiB`),
names, + - * / ^ (or **), parentheses, and min, max, ceil, floor, sqrt, abs. A name stands for what
it names with its unit, so what is added or compared has one dimension, as in ``planner.base.units``
and with counts (tokens, devices, FLOP) left out; values are in base units (bytes, seconds, USD).
What is read is bounded: characters, parentheses, exponents, and names with own quantities spelled
out, so that exact numbers stay short.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from planner.base import units
from planner.base.errors import nearest
from planner.base.units import Dimension, Exact
from planner.book.expressions import Expression, Symbol, number, operation

LONGEST = 1000  # characters of a formula
DEEPEST = 40  # parentheses in each other
HIGHEST = 32  # an exponent
LARGEST = 100  # names, numbers and functions, powers and own quantities written out
FUNCTIONS = ("min", "max", "ceil", "floor", "sqrt", "abs")
_ONE = Dimension()
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII)
#: What follows a number: a unit such as GiB, TB/s or USD/h; no name that goes on.
_UNIT = re.compile(r"\s*(%|[A-Za-zµμ]+\d?[A-Za-z]*(?:/[A-Za-z]+)*)(?![\w.(\[])", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*(?:\[[^\]\n]*\])?", re.ASCII)
_SIGN = re.compile(r"\*\*|[-+*/^(),]")


class FormulaError(ValueError):
    """An error in a formula, at an offset into its text that counts from 0."""

    def __init__(
        self, message: str, at: int, allowed: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.at, self.allowed, self.hint = message, at, allowed, hint


class Term(NamedTuple):
    """A parsed part of a formula: its value in base units, its dimension, its size (how many names
    and numbers it has), and whether it uses rational arithmetic only."""

    tree: Expression
    dimension: Dimension
    size: int = 1
    rational: bool = True

    @property
    def nothing(self) -> bool:
        """Whether it is a plain 0, which may be added to a value of any unit."""
        return self.tree.op == "number" and not self.tree.data


#: What a name stands for; raises FormulaError for one that it does not know.
Names = Callable[[str, int], Term]


def measured(unit: str) -> tuple[Exact, Dimension]:
    """Return the size of a unit in base units, and its dimension without counts."""
    size, dimension = units.sized(unit)
    return size, dimension.without_counts()


def read(text: str, names: Names) -> Term:
    """Parse a formula.

    Raises:
        FormulaError: the first error.
    """
    if len(text) > LONGEST:
        raise FormulaError(f"a formula of {len(text)} characters", 0, f"at most {LONGEST}")
    return _Reader(text, names).whole()


class _Reader:
    """A recursive descent parser of one formula."""

    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names, self.at, self.depth = text, names, 0, 0

    def whole(self) -> Term:
        found = self.sum()
        if self.at < len(self.text):
            raise self.unexpected("+ - * / ^ and parentheses")
        return found

    def unexpected(self, allowed: str) -> FormulaError:
        """Return the error for the text at this position, with what is allowed instead."""
        rest = self.text[self.at :]
        if not rest:
            return FormulaError("the formula ends too soon", self.at, allowed)
        found = _NAME.match(rest) or _NUMBER.match(rest) or _SIGN.match(rest)
        what = f"'{found[0] if found else rest[0]}'"
        if not rest[0].isascii():  # letters of other alphabets look like these
            what += f" (U+{ord(rest[0]):04X})"
        return FormulaError(f"{what} has no meaning here", self.at, allowed)

    def sign(self, *wanted: str) -> str | None:
        """Accept one of some signs, if it is next."""
        start = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        found = _SIGN.match(self.text, start)
        self.at = start
        if found is None or found[0] not in wanted:
            return None
        self.at = found.end()
        return found[0]

    def close(self) -> None:
        if not self.sign(")"):
            raise self.unexpected("a closing parenthesis")
        self.depth -= 1

    def enter(self, at: int) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise FormulaError("parentheses nested too deeply", at, f"at most {DEEPEST}")

    # -- the grammar ----------------------------------------------------------------------------

    def sum(self) -> Term:
        terms = [self.product()]
        while sign := self.sign("+", "-"):
            at = _start(self.text, self.at)
            term = self.product()
            _alike(terms, term, at)
            terms.append(term if sign == "+" else _times(_number(-1), term))
            self.bound(terms, at)
        return _joined("add", terms) if len(terms) > 1 else terms[0]

    def product(self) -> Term:
        found = self.signed()
        while sign := self.sign("*", "/"):
            at = _start(self.text, self.at)
            other = self.signed()
            if sign == "/":
                if other.nothing:
                    raise FormulaError("division by zero", at)
                other = _power(other, -1)
            self.bound((found, other), at)
            found = _times(found, other)
        return found

    def signed(self) -> Term:
        minus = False
        while sign := self.sign("+", "-"):
            minus ^= sign == "-"
        found = self.power()
        return _times(_number(-1), found) if minus else found

    def power(self) -> Term:
        base = self.atom()
        if not self.sign("^", "**"):
            return base
        at = _start(self.text, self.at)
        exponent = self.exponent()
        value = exponent.tree.data
        if exponent.tree.op != "number" or exponent.dimension or abs(value) > HIGHEST:
            raise FormulaError("not an exponent", at, f"a number from -{HIGHEST} to {HIGHEST}")
        if base.nothing and value <= 0:
            raise FormulaError("division by zero" if value else "0^0 has no value", at)
        self.bound([base._replace(size=math.ceil(base.size * abs(value)))], at)
        return _power(base, value)

    def exponent(self) -> Term:
        """Parse an exponent: powers bind to the right, and the exponent may have a sign."""
        self.enter(self.at)
        found = self.signed()
        self.depth -= 1
        return found

    def atom(self) -> Term:
        start = _start(self.text, self.at)
        if self.sign("("):
            self.enter(start)
            inner = self.sum()
            self.close()
            return inner
        found = _NUMBER.match(self.text, start)
        if found:
            return self.number(start, found)
        found = _NAME.match(self.text, start)
        if found is None:
            raise self.unexpected("a number, a name or an opening parenthesis")
        name, self.at = found[0], found.end()
        if self.sign("("):
            return self.function(name, start)
        return self.names(name, start)

    def number(self, start: int, found: re.Match[str]) -> Term:
        """Parse a number with the unit that follows it."""
        self.at = found.end()
        try:
            value = Fraction(units.number(found[0]))
        except units.UnitError as error:
            raise FormulaError(error.message, start, error.allowed, error.hint) from None
        unit = _UNIT.match(self.text, self.at)
        if unit is None:
            return _number(value)
        name, self.at = unit[1], unit.end()
        if name in units.MAGNITUDES and name != "B":
            return _number(value * units.MAGNITUDES[name])
        while True:
            try:
                if name == "B":
                    raise units.UnitError("B is a byte or a billion", "1 byte, or 1e9")
                size, dimension = measured(name)
                return Term(number(value * size), dimension)
            except units.UnitError as error:
                above, divided, below = name.rpartition("/")
                if not divided:
                    at = unit.start(1)
                    raise FormulaError(error.message, at, error.allowed, error.hint) from None
                name, self.at = above, self.at - len(below) - 1  # what it is divided by is a name

    def function(self, name: str, start: int) -> Term:
        if name not in FUNCTIONS:
            allowed = f"functions are {', '.join(FUNCTIONS)}"
            raise FormulaError(
                f"'{name[:60]}' is not a function", start, allowed, nearest(name, FUNCTIONS)
            )
        self.enter(start)
        terms = [self.sum()]
        while self.sign(","):
            at = _start(self.text, self.at)
            term = self.sum()
            _alike(terms, term, at)
            terms.append(term)
            self.bound(terms, at)
        self.close()
        first = terms[0]
        if name in ("min", "max"):
            return _joined(name, terms) if len(terms) > 1 else first
        if len(terms) > 1:
            raise FormulaError(f"{name} of {len(terms)} values", start, "one value")
        if name == "sqrt":
            return _power(first, Fraction(1, 2))
        if name == "abs":
            return _joined("max", [first, _times(_number(-1), first)])
        if first.dimension:  # rounded in which unit?
            of = f"{name} of a value in {first.dimension}"
            raise FormulaError(of, start, "a plain number: divide by a unit, as in / 1 GiB")
        return first._replace(tree=operation(name, first.tree), size=first.size + 1)

    def bound(self, terms: Sequence[Term], at: int) -> None:
        """Check that the formula stays small when powers and own quantities are written out."""
        if sum(term.size for term in terms) > LARGEST:
            wrong = "too large when powers and own quantities are written out"
            raise FormulaError(wrong, at, f"at most {LARGEST} names and numbers")


def _start(text: str, at: int) -> int:
    """Skip spaces: return the offset of the next token."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _alike(terms: Sequence[Term], other: Term, at: int) -> None:
    """Check that values which are added or compared have one dimension."""
    first = next((term for term in terms if not term.nothing), other)
    if other.dimension != first.dimension and not other.nothing:
        here, there = (
            f"in {d}" if d else "without a unit" for d in (other.dimension, first.dimension)
        )
        raise FormulaError(f"a value {here} beside one {there}", at, "values of one unit")


# -- what parts come to: sums and products flat, numbers together and first ---------------------


def _number(value: Exact) -> Term:
    return Term(number(value), _ONE)


def _flat(op: str, terms: Sequence[Term]) -> Iterator[Expression]:
    for term in terms:
        yield from term.tree.args if term.tree.op == op else (term.tree,)


def _joined(op: str, terms: Sequence[Term]) -> Term:
    """Combine some values into their sum, maximum or minimum."""
    parts = [*_flat(op, terms)]
    values = [part.data for part in parts if part.op == "number"]
    if op == "add":
        total = sum(values)
        parts = [part for part in parts if part.op != "number"]
        parts += [number(total)] if total or not parts else []
    elif len(values) == len(parts):
        parts = [number((max if op == "max" else min)(values))]
    tree = operation(op, *parts) if len(parts) > 1 else parts[0]
    dimension = next((term.dimension for term in terms if not term.nothing), terms[0].dimension)
    return Term(tree, dimension, sum(t.size for t in terms), all(t.rational for t in terms))


def _times(one: Term, other: Term) -> Term:
    factor, parts = Fraction(1), list[Expression]()
    for part in _flat("mul", (one, other)):
        if part.op == "number":
            factor *= part.data
        else:
            parts.append(part)
    if factor != 1 or not parts:
        parts.insert(0, number(factor))
    tree = operation("mul", *parts) if len(parts) > 1 else parts[0]
    dimension, size = one.dimension * other.dimension, one.size + other.size
    return Term(tree, dimension, size, one.rational and other.rational)


def _power(base: Term, exponent: Exact) -> Term:
    """Raise a term to a power; compute it if the base is a number and the result exact."""
    whole = exponent.denominator == 1
    tree = base.tree
    if tree.op == "number" and whole:
        tree = number(Fraction(tree.data) ** exponent.numerator)
    elif exponent != 1:
        tree = operation("pow", tree, exponent)
    size = max(base.size + (not whole), math.ceil(base.size * abs(Fraction(exponent))))
    return Term(tree, base.dimension**exponent, size, base.rational and whole)


def named(symbol: Symbol, unit: str, size: int = 1, rational: bool = True) -> Term:
    """Make the term of a symbol that has a unit."""
    one, dimension = measured(unit)
    return Term(_times(_number(one), Term(symbol, _ONE)).tree, dimension, size, rational)


def converted(term: Term, unit: str) -> Expression:
    """Convert a value from base units to a unit."""
    return _times(term, _number(1 / Fraction(measured(unit)[0]))).tree


#: Units of values for which no unit is stated.
_UNITS = ("1", "bytes", "bytes/s", "s", "1/s", "USD", "W", "kWh", "kgCO2e", "USD/h", "USD/kWh")


def unit_of(dimension: Dimension) -> str:
    """Return a unit of a dimension."""
    return next((unit for unit in _UNITS if measured(unit)[1] == dimension), str(dimension))
