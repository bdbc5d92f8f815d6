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
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from planner.base import units
from planner.base.errors import nearest
from planner.base.units import Dimension, Exact
from planner.book.expressions import Expression, Symbol, apply_operation, make_number
from planner.book.quantity import BOOK, Notation

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
        """Keep the parts of the message.

        Args:
            message: what is wrong.
            at: index of the character at fault.
            allowed: what may be written.
            hint: the nearest right spelling.
        """
        super().__init__(message)
        self.message, self.at, self.allowed, self.hint = message, at, allowed, hint


class FormulaTerm(NamedTuple):
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
Names = Callable[[str, int], FormulaTerm]


def resolve_unit(unit: str) -> tuple[Exact, Dimension]:
    """Return the size of a unit in base units, and its dimension without counts."""
    size, dimension = units.measure_unit(unit)
    return size, dimension.drop_counts()


def parse_formula(text: str, names: Names) -> FormulaTerm:
    """Parse a formula.

    Raises:
        FormulaError: the first error.
    """
    if len(text) > LONGEST:
        raise FormulaError(f"a formula of {len(text)} characters", 0, f"at most {LONGEST}")
    return _FormulaParser(text, names).parse_whole()


class _FormulaParser:
    """A recursive descent parser of one formula."""

    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names, self.at, self.depth = text, names, 0, 0

    def parse_whole(self) -> FormulaTerm:
        """Parse the whole text; raise a FormulaError for what follows a formula."""
        found = self.parse_sum()
        if self.at < len(self.text):
            raise self.make_error("+ - * / ^ and parentheses")
        return found

    def make_error(self, allowed: str) -> FormulaError:
        """Return the error for the text at this position, with what is allowed instead."""
        rest = self.text[self.at :]
        if not rest:
            return FormulaError("the formula ends too soon", self.at, allowed)
        found = _NAME.match(rest) or _NUMBER.match(rest) or _SIGN.match(rest)
        what = f"'{found[0] if found else rest[0]}'"
        if not rest[0].isascii():  # letters of other alphabets look like these
            what += f" (U+{ord(rest[0]):04X})"
        return FormulaError(f"{what} has no meaning here", self.at, allowed)

    def accept_sign(self, *wanted: str) -> str | None:
        """Accept one of some signs, if it is next."""
        start = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        found = _SIGN.match(self.text, start)
        self.at = start
        if found is None or found[0] not in wanted:
            return None
        self.at = found.end()
        return found[0]

    def close_group(self) -> None:
        """Take a closing parenthesis; raise a FormulaError if there is none."""
        if not self.accept_sign(")"):
            raise self.make_error("a closing parenthesis")
        self.depth -= 1

    def open_group(self, at: int) -> None:
        """Count an opening parenthesis; raise a FormulaError beyond ``DEEPEST``."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise FormulaError("parentheses nested too deeply", at, f"at most {DEEPEST}")

    # -- the grammar ----------------------------------------------------------------------------

    def parse_sum(self) -> FormulaTerm:
        """Parse terms with signs between them, all of one dimension."""
        terms = [self.parse_product()]
        while sign := self.accept_sign("+", "-"):
            at = _find_token(self.text, self.at)
            term = self.parse_product()
            _check_dimensions(terms, term, at)
            terms.append(term if sign == "+" else _combine_factors(_wrap_number(-1), term))
            self.check_size(terms, at)
        return _combine_terms("add", terms) if len(terms) > 1 else terms[0]

    def parse_product(self) -> FormulaTerm:
        """Parse factors, from left to right."""
        found = self.parse_signed()
        while sign := self.accept_sign("*", "/"):
            at = _find_token(self.text, self.at)
            other = self.parse_signed()
            if sign == "/":
                if other.nothing:
                    raise FormulaError("division by zero", at)
                other = _raise_term(other, -1)
            self.check_size((found, other), at)
            found = _combine_factors(found, other)
        return found

    def parse_signed(self) -> FormulaTerm:
        """Parse a power with signs in front: ``-2^2`` is -4, as on paper."""
        minus = False
        while sign := self.accept_sign("+", "-"):
            minus ^= sign == "-"
        found = self.parse_power()
        return _combine_factors(_wrap_number(-1), found) if minus else found

    def parse_power(self) -> FormulaTerm:
        """Parse a base and its exponent, a plain number of at most ``HIGHEST``."""
        base = self.parse_atom()
        if not self.accept_sign("^", "**"):
            return base
        at = _find_token(self.text, self.at)
        exponent = self.parse_exponent()
        value = exponent.tree.data
        if exponent.tree.op != "number" or exponent.dimension or abs(value) > HIGHEST:
            raise FormulaError("not an exponent", at, f"a number from -{HIGHEST} to {HIGHEST}")
        if base.nothing and value <= 0:
            raise FormulaError("division by zero" if value else "0^0 has no value", at)
        self.check_size([base._replace(size=math.ceil(base.size * abs(value)))], at)
        return _raise_term(base, value)

    def parse_exponent(self) -> FormulaTerm:
        """Parse an exponent: powers bind to the right, and the exponent may have a sign."""
        self.open_group(self.at)
        found = self.parse_signed()
        self.depth -= 1
        return found

    def parse_atom(self) -> FormulaTerm:
        """Parse a number, a name, a function or a formula in parentheses."""
        start = _find_token(self.text, self.at)
        if self.accept_sign("("):
            self.open_group(start)
            inner = self.parse_sum()
            self.close_group()
            return inner
        found = _NUMBER.match(self.text, start)
        if found:
            return self.parse_number(start, found)
        found = _NAME.match(self.text, start)
        if found is None:
            raise self.make_error("a number, a name or an opening parenthesis")
        name, self.at = found[0], found.end()
        if self.accept_sign("("):
            return self.parse_function(name, start)
        return self.names(name, start)

    def parse_number(self, start: int, found: re.Match[str]) -> FormulaTerm:
        """Parse a number with the unit that follows it."""
        self.at = found.end()
        try:
            value = Fraction(units.parse_number(found[0]))
        except units.UnitError as error:
            raise FormulaError(error.message, start, error.allowed, error.hint) from None
        unit = _UNIT.match(self.text, self.at)
        if unit is None:
            return _wrap_number(value)
        name, self.at = unit[1], unit.end()
        if name in units.MAGNITUDES and name != "B":
            return _wrap_number(value * units.MAGNITUDES[name])
        while True:
            try:
                if name == "B":
                    raise units.UnitError("B is a byte or a billion", "1 byte, or 1e9")
                size, dimension = resolve_unit(name)
                return FormulaTerm(make_number(value * size), dimension)
            except units.UnitError as error:
                above, divided, below = name.rpartition("/")
                if not divided:
                    at = unit.start(1)
                    raise FormulaError(error.message, at, error.allowed, error.hint) from None
                name, self.at = above, self.at - len(below) - 1  # what it is divided by is a name

    def parse_function(self, name: str, start: int) -> FormulaTerm:
        """Parse the arguments of a function whose name was read.

        Args:
            name: as written.
            start: index of its first character.

        Raises:
            FormulaError: it is unknown, or takes other arguments.
        """
        if name not in FUNCTIONS:
            allowed = f"functions are {', '.join(FUNCTIONS)}"
            raise FormulaError(
                f"'{name[:60]}' is not a function", start, allowed, nearest(name, FUNCTIONS)
            )
        self.open_group(start)
        terms = [self.parse_sum()]
        while self.accept_sign(","):
            at = _find_token(self.text, self.at)
            term = self.parse_sum()
            _check_dimensions(terms, term, at)
            terms.append(term)
            self.check_size(terms, at)
        self.close_group()
        first = terms[0]
        if name in ("min", "max"):
            return _combine_terms(name, terms) if len(terms) > 1 else first
        if len(terms) > 1:
            raise FormulaError(f"{name} of {len(terms)} values", start, "one value")
        if name == "sqrt":
            return _raise_term(first, Fraction(1, 2))
        if name == "abs":
            return _combine_terms("max", [first, _combine_factors(_wrap_number(-1), first)])
        if first.dimension:  # rounded in which unit?
            of = f"{name} of a value in {first.dimension}"
            raise FormulaError(of, start, "a plain number: divide by a unit, as in / 1 GiB")
        return first._replace(tree=apply_operation(name, first.tree), size=first.size + 1)

    def check_size(self, terms: Sequence[FormulaTerm], at: int) -> None:
        """Check that the formula stays small when powers and own quantities are written out."""
        if sum(term.size for term in terms) > LARGEST:
            wrong = "too large when powers and own quantities are written out"
            raise FormulaError(wrong, at, f"at most {LARGEST} names and numbers")


def _find_token(text: str, at: int) -> int:
    """Skip spaces: return the offset of the next token."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _check_dimensions(terms: Sequence[FormulaTerm], other: FormulaTerm, at: int) -> None:
    """Check that values which are added or compared have one dimension."""
    first = next((term for term in terms if not term.nothing), other)
    if other.dimension != first.dimension and not other.nothing:
        here, there = (
            f"in {d}" if d else "without a unit" for d in (other.dimension, first.dimension)
        )
        raise FormulaError(f"a value {here} beside one {there}", at, "values of one unit")


def _wrap_number(value: Exact) -> FormulaTerm:
    """Return a number as a term without a unit."""
    return FormulaTerm(make_number(value), _ONE)


def _flatten_terms(op: str, terms: Sequence[FormulaTerm]) -> Iterator[Expression]:
    """Yield the operands of terms that are the operation themselves, other terms whole."""
    for term in terms:
        yield from term.tree.args if term.tree.op == op else (term.tree,)


def _combine_terms(op: str, terms: Sequence[FormulaTerm]) -> FormulaTerm:
    """Combine some values into their sum, maximum or minimum."""
    parts = [*_flatten_terms(op, terms)]
    values = [part.data for part in parts if part.op == "number"]
    if op == "add":
        total = sum(values)
        parts = [part for part in parts if part.op != "number"]
        parts += [make_number(total)] if total or not parts else []
    elif len(values) == len(parts):
        parts = [make_number((max if op == "max" else min)(values))]
    tree = apply_operation(op, *parts) if len(parts) > 1 else parts[0]
    dimension = next((term.dimension for term in terms if not term.nothing), terms[0].dimension)
    return FormulaTerm(tree, dimension, sum(t.size for t in terms), all(t.rational for t in terms))


def _combine_factors(one: FormulaTerm, other: FormulaTerm) -> FormulaTerm:
    """Multiply two terms: numbers together and first, dimensions and sizes added up."""
    factor, parts = Fraction(1), list[Expression]()
    for part in _flatten_terms("mul", (one, other)):
        if part.op == "number":
            factor *= part.data
        else:
            parts.append(part)
    if factor != 1 or not parts:
        parts.insert(0, make_number(factor))
    tree = apply_operation("mul", *parts) if len(parts) > 1 else parts[0]
    dimension, size = one.dimension * other.dimension, one.size + other.size
    return FormulaTerm(tree, dimension, size, one.rational and other.rational)


def _raise_term(base: FormulaTerm, exponent: Exact) -> FormulaTerm:
    """Raise a term to a power; compute it if the base is a number and the result exact."""
    whole = exponent.denominator == 1
    tree = base.tree
    if tree.op == "number" and whole:
        tree = make_number(Fraction(tree.data) ** exponent.numerator)
    elif exponent != 1:
        tree = apply_operation("pow", tree, exponent)
    size = max(base.size + (not whole), math.ceil(base.size * abs(Fraction(exponent))))
    return FormulaTerm(tree, base.dimension**exponent, size, base.rational and whole)


def make_term(symbol: Symbol, unit: str, size: int = 1, rational: bool = True) -> FormulaTerm:
    """Make the term of a symbol, converted to base units.

    Args:
        unit: of the symbol's value.
        size: names and numbers of the formula that the symbol stands for.
        rational: whether its value is exact.

    Raises:
        UnitError: there is no such unit.
    """
    one, dimension = resolve_unit(unit)
    return FormulaTerm(
        _combine_factors(_wrap_number(one), FormulaTerm(symbol, _ONE)).tree,
        dimension,
        size,
        rational,
    )


@cache
def _map_notation() -> Mapping[str, Notation]:
    """Map the names of symbols to what the notation says of them."""
    return {note.symbol.name: note for note in BOOK.notation.values()}


def resolve_name(name: str, at: int) -> FormulaTerm:
    """Return the term of a symbol or a quantity of the book, in formulas of our own tables.

    Args:
        name: of the symbol, or the id of the quantity.
        at: where it stands in the formula.
    """
    found = _map_notation().get(name) or BOOK.quantities[name]
    return make_term(found.symbol, found.unit)


def convert_unit(term: FormulaTerm, unit: str) -> Expression:
    """Convert a value from base units to a unit."""
    return _combine_factors(term, _wrap_number(1 / Fraction(resolve_unit(unit)[0]))).tree


#: Units of values for which no unit is stated.
_UNITS = ("1", "bytes", "bytes/s", "s", "1/s", "USD", "W", "kWh", "kgCO2e", "USD/h", "USD/kWh")


def find_unit(dimension: Dimension) -> str:
    """Return a unit of a dimension."""
    return next((unit for unit in _UNITS if resolve_unit(unit)[1] == dimension), str(dimension))
