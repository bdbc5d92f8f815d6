"""Units: dimensions, and the exact reading of `15T`, `80 GiB`, `3.35 TB/s`, `30 days`.

Values are `int` where integral and `Fraction` otherwise, never floats. Bytes are bytes,
bandwidths are bytes/s, and a decimal prefix is a power of ten: GB is 10^9, GiB is 2^30.
A bare count takes k, M, G or B, T, P (powers of ten) or Ki, Mi, Gi, Ti (powers of two).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from planner.base import resources
from planner.base.errors import Place, PlanError, nearest
from planner.base.numbers import plain_text, scientific

Exact = int | Fraction

BASES = ("byte", "FLOP", "token", "parameter", "sequence", "device", "USD", "s", "J", "kgCO2e")
# What is counted rather than measured. A document may leave it out: 15T is 15T tokens.
_COUNTED = frozenset({"FLOP", "token", "parameter", "sequence", "device"})
# Dimensions in which a bare number is in the unit of the key. Elsewhere (power, energy,
# money, carbon) there is no default unit.
_PLAIN = frozenset({"1", "byte", "byte/s", "s", "1/s"})

LONGEST = 200  # characters of a quantity
LARGEST_EXPONENT = 400  # powers of ten
_MOST_BITS = LARGEST_EXPONENT * 10 // 3 * 2  # of a number that is given as one
# Of a value that a plan computes with. Products of a dozen such stay within what floats reach.
LARGEST: int = 10**30


class UnitError(ValueError):
    """A number or unit that cannot be read; `allowed` and `hint` may be None."""

    def __init__(self, message: str, allowed: str | None = None, hint: str | None = None) -> None:
        """Keep the parts of the message.

        Args:
            message: what is wrong, with the text in quotes.
            allowed: what may be written.
            hint: the whole quantity as it was probably meant.
        """
        super().__init__(message)
        self.message = message
        self.allowed = allowed
        self.hint = hint


@contextmanager
def name_faults(what: str, place: Place | None = None) -> Iterator[None]:
    """Raise the unit errors of the block as errors of a document.

    Args:
        what: what cannot be read, such as the option; it begins the message.
        place: where that was written.

    Raises:
        PlanError: a number or unit cannot be read.
    """
    try:
        yield
    except UnitError as error:
        raise PlanError(f"{what}: {error}", place, error.allowed, error.hint) from None


@dataclass(frozen=True, slots=True)
class Dimension:
    """A product of powers of the base units; `powers` is sorted and without zeros."""

    powers: tuple[tuple[str, Exact], ...] = ()

    @classmethod
    def from_powers(cls, **powers: Exact) -> Dimension:
        """Make a dimension from base units and their exponents: `Dimension.of(byte=1, s=-1)`."""
        for base in powers:
            if base not in BASES:
                raise KeyError(base)
        return cls(tuple(sorted((b, to_whole(p)) for b, p in powers.items() if p)))

    def __mul__(self, other: Dimension) -> Dimension:
        powers = dict(self.powers)
        for base, power in other.powers:
            powers[base] = powers.get(base, 0) + power
        return Dimension.from_powers(**powers)

    def __truediv__(self, other: Dimension) -> Dimension:
        return self * other**-1

    def __pow__(self, power: Exact) -> Dimension:
        return Dimension.from_powers(**{base: p * power for base, p in self.powers})

    def __bool__(self) -> bool:
        """False for a plain number."""
        return bool(self.powers)

    def drop_counts(self) -> Dimension:
        """Drop tokens, parameters, sequences, devices and FLOP from the dimension."""
        return Dimension(tuple(p for p in self.powers if p[0] not in _COUNTED))

    def __str__(self) -> str:
        def text(base: str, power: Exact) -> str:
            """Format a base unit; only a power below 1 needs parentheses."""
            return base if power == 1 else f"{base}^{power}" if power > 1 else f"{base}^({power})"

        above = [text(b, p) for b, p in self.powers if p > 0]
        below = [text(b, -p) for b, p in self.powers if p < 0]
        return "*".join(above or ["1"]) + "".join(f"/{unit}" for unit in below)


def parse_option(option: str, text: str, unit: str, allowed: str, least: Exact = 0) -> Fraction:
    """Parse the quantity of a command's option, which is above 0.

    Args:
        option: its name, such as ``--took``.
        text: as it was typed.
        unit: what the result counts.
        allowed: what may be typed, such as ``a time above 0, such as 60ms``.
        least: the smallest quantity, in that unit.

    Raises:
        PlanError: it is no such quantity, or a smaller one.
    """
    with name_faults(option):
        found = parse(text, unit)
    if found <= 0 or found < least:
        raise PlanError(f"{option} {text}", None, allowed)
    return Fraction(found)


def to_whole(value: Exact) -> Exact:
    """Return the number as an int if it is integral."""
    return value.numerator if value.denominator == 1 else value


#: Spellings of units, their prefixes, and what is said of each kind of quantity.
_TABLE = resources.load_beside(__file__)
MAGNITUDES: dict[str, Exact] = {name: int(Fraction(n)) for name, n in _TABLE["magnitudes"].items()}

_MISSPELT = {"K": "k", "m": "M", "b": "B", "t": "T", "g": "G"}

_ONE = Dimension()
_TIME = Dimension.from_powers(s=1)
_USD = Dimension.from_powers(USD=1)


def _build_units() -> dict[str, tuple[Exact, Dimension]]:
    """Build the table of every spelling of a unit with its size in base units and its dimension; a
    spelling with a prefix that exists stays."""
    units: dict[str, tuple[Exact, Dimension]] = {}
    for names, size, powers, *tables in _TABLE["units"]:
        one, dim = Fraction(size), Dimension.from_powers(**powers)
        for name in names.split():
            units[name] = (to_whole(one), dim)
            for table in tables:
                root = Fraction(2 if table == "binary" else 10)
                for prefix, power in _TABLE["prefixes"][table].items():
                    units.setdefault(prefix + name, (to_whole(one * root**power), dim))
    return units


_UNITS = _build_units()
_NAME = re.compile(r"([^\W\d_]+2?[^\W\d_]*|%|1)(?:\^\(?(-?\d{1,2})\)?)?")

#: Spaces that are allowed between the words of a quantity and around it.
_SPACES = " \t\r\n\u00a0\u2009\u202f"
_GAP, _SPACE = f"[{_SPACES}]*", f"[{_SPACES}]+"
_GROUP = "[,' \u00a0\u2009\u202f]"
_JOINT = f"{_GAP}[*·]{_GAP}"
_PARTS = re.compile(rf"({_GAP}\bper\b{_GAP}|{_GAP}/{_GAP}|{_JOINT}|(?<=[^\W\d_])[- ](?=[^\W\d_]))")
#: A denominator in parentheses: USD/(GPU h).
_WORD = r"(?!per\b)[^\W_]+"
_BELOW = re.compile(
    rf"/{_GAP}\(({_WORD}(?:(?:{_JOINT}|[ -]){_WORD})+)\)(?={_GAP}(?:$|/)|{_SPACE}per\b)"
)

#: How a unit is written: the dimensions of the names above and below the line; None of one that
#: has powers, or multiplies behind a division.
Form = tuple[tuple[Dimension, ...], tuple[Dimension, ...]]


@lru_cache(maxsize=1024)
def _parse_unit(text: str) -> tuple[Exact, Dimension, Form | None]:
    """Parse a unit expression such as `USD/h per device` into its size, dimension and form."""
    size: Exact = 1
    dim = _ONE
    divide, plain = False, True
    above: list[Dimension] = []
    below: list[Dimension] = []
    line = _BELOW.sub(lambda group: "/" + re.sub(_JOINT, "-", group[1]), text)
    for place, part in enumerate(_PARTS.split(line)):
        if place % 2:  # per device-hour: a hyphen or a space binds closer than the division
            mark = part.strip(_SPACES)
            plain &= mark not in ("*", "·") or not divide
            divide = mark in ("/", "per") or (divide and mark in ("", "-"))
            continue
        match = _NAME.fullmatch(part)
        if not match:
            raise UnitError(f"'{text}' is not a unit", "such as GiB, TB/s, TFLOP/s, days")
        name, power = match[1], int(match[2] or 1)
        if name not in _UNITS:
            folded = (unit for unit in _UNITS if unit.casefold() == name.casefold())
            close = next(folded, None) or nearest(name, _UNITS)
            raise UnitError(
                f"unknown unit '{name}'",
                "prefixes are k, M, G, T (powers of ten) or Ki, Mi, Gi, Ti (powers of two)",
                text.replace(name, close) if close else None,
            )
        one, its = _UNITS[name]
        power = -power if divide else power
        size = to_whole(size * Fraction(one) ** power)
        dim = dim * its**power
        plain &= match[2] is None and (name != "1" or not place)
        if its or name == "%":
            (below if divide else above).append(its)
    plain &= "%" not in text or text == "%"
    return size, dim, (_sort_dimensions(above), _sort_dimensions(below)) if plain else None


def _sort_dimensions(dims: Iterable[Dimension]) -> tuple[Dimension, ...]:
    """Sort dimensions, so that units with the same factors have the same form."""
    return tuple(sorted(dims, key=lambda dim: dim.powers))


def _list_dimensions(unit: str) -> list[Dimension]:
    """List the dimensions that a quantity of a unit may be written in."""
    target = _parse_unit(unit)[1]
    # Every price of a document is that of one device, whether or not it says so.
    priced = any(base == "USD" for base, _ in target.powers) and target != _USD
    of_device = [target / Dimension.from_powers(device=1)] if priced else []
    return [target, *([target.drop_counts()] if target.drop_counts() else []), *of_device]


@cache
def _list_forms(unit: str) -> frozenset[Form]:
    """List the forms in which the unit of a quantity may be written: base units above and below one
    line, or units that stand for a quotient, such as bps and W."""
    named = {dim for _, dim in _UNITS.values()}
    found = set[Form]()

    def add(above: tuple[Dimension, ...], below: tuple[Dimension, ...]) -> None:
        """Add a form, and those in which a unit of its own replaces a quotient of two of its
        units."""
        if (above, below) in found:
            return
        found.add((above, below))
        for place, lower in enumerate(below):
            others = below[:place] + below[place + 1 :]
            for at, upper in enumerate(above or (_ONE,)):
                if upper / lower in named:
                    add(_sort_dimensions((*above[:at], upper / lower, *above[at + 1 :])), others)

    for dim in _list_dimensions(unit):
        if all(isinstance(power, int) for _, power in dim.powers):
            each = [(Dimension.from_powers(**{base: 1}), int(power)) for base, power in dim.powers]
            above = [base for base, power in each for _ in range(power)] or [_ONE] * (not dim)
            add(
                _sort_dimensions(above),
                _sort_dimensions(base for base, power in each for _ in range(-power)),
            )
    return frozenset(found)


def measure_unit(text: str) -> tuple[Exact, Dimension]:
    """Parse a unit expression such as `USD/h per device` into its size in base units and dimension.

    Raises:
        UnitError: it is no unit.
    """
    return _parse_unit(text)[:2]


def find_dimension(unit: str) -> Dimension:
    """Return the dimension of a unit expression. Raises UnitError for an unknown unit."""
    return _parse_unit(unit)[1]


def _is_bytes(target: Dimension) -> bool:
    """Decide whether bytes are among the base units, so that B is a byte and not a billion."""
    return any(base == "byte" for base, _ in target.powers)


@cache
def _is_plain(target: Dimension) -> bool:
    """Decide whether a number without a unit is in the unit of the key."""
    return str(target.drop_counts()) in _PLAIN


#: A decimal number, whose digits may stand in groups, and its exponent.
NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE]([+-]?\d+))?", re.ASCII)
_SHARE = re.compile(r"([+-]?\d{1,18})/(\d{1,18})(?!\d)", re.ASCII)  # two thirds have no decimal
#: Digits in groups of three, as this program prints them.
GROUPED = re.compile(rf"[+-]?\d{{1,3}}(?:{_GROUP}\d{{3}})+(?![\d,_])", re.ASCII)


def parse_number(text: str) -> Exact:
    """Parse a decimal number such as `1e9`, `0.25` or `1_000` exactly.

    Raises:
        UnitError: not a number, not finite, too long, or beyond 10^±400.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise UnitError(f"a number of {len(text)} characters", f"at most {LONGEST}")
    if text.lstrip("+-.").casefold() in ("nan", "inf", "infinity"):
        raise UnitError(f"'{text}' is not a number", "a finite number")
    match = NUMBER.fullmatch(text)
    if not match or "._" in text:
        hint = re.sub(_GROUP, "", text) if GROUPED.fullmatch(text) else None
        raise UnitError(f"'{text}' is not a number", hint=hint)
    if "_" in text and re.search(r"_(?!\d)", text):
        raise UnitError(f"'{text}' is not a number", hint=text.replace("_", ""))
    if abs(int(match[1] or 0)) > LARGEST_EXPONENT:
        raise UnitError(f"'{text}' is out of range", f"up to 10^{LARGEST_EXPONENT}")
    return to_whole(Fraction(text.replace("_", "")))


def parse(value: str | Fraction | float, unit: str = "1") -> Exact:
    """Parse a quantity of a document as an exact number of `unit`.

    Args:
        value: text such as `80 GiB`, or a number. A float counts as its shortest text.
        unit: what the result counts, such as `bytes`, `FLOP/s`, `USD/h`, `tokens` or `1`.

    Raises:
        UnitError: unreadable, of another dimension, or without a unit where one is needed.
    """
    if isinstance(value, (str, float)):
        return _parse_written(value, unit)
    return _check_number(value, unit)


def _check_number(value: object, unit: str) -> Exact:
    """Return a number that counts ``unit``, whole if it is; as ``parse`` raise for anything
    else."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        names = {bool: str(value).lower(), type(None): "nothing", list: "a list", dict: "a mapping"}
        raise UnitError(f"{names.get(type(value), 'this')} is not a quantity", describe_unit(unit))
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise UnitError("a number out of range", f"up to 10^{LARGEST_EXPONENT}")
    if value and not _is_plain(find_dimension(unit)):
        raise _lack_unit(plain_text(value), unit)
    return to_whole(value)


@lru_cache(maxsize=4096)
def _parse_written(value: str | float, unit: str) -> Exact:
    """Parse a quantity that is text, or a float as its shortest text, as ``parse`` does."""
    size, target, _ = _parse_unit(unit)
    amount, digits, rest = _split_amount(value, unit)
    if not rest:
        if amount and not _is_plain(target):
            raise _lack_unit(digits, unit)
        return amount
    written, dim, form = _parse_suffix(rest, digits, target, unit)
    if form not in _list_forms(unit):
        if dim in _list_dimensions(unit):
            raise UnitError(f"'{rest}' is not how such a unit is written", describe_unit(unit))
        other = rest.replace("FLOPs", "FLOP").replace("FLOPS", "FLOP") + "/s"
        is_rate = "FLOP" in rest and dim / _TIME == target
        raise UnitError(
            f"'{str(value).strip()}' is {_KINDS.get(dim, _NAMELESS)[0] or f'in {dim}'}",
            describe_unit(unit),
            f"{digits} {other}" if is_rate else None,
        )
    return to_whole(amount * Fraction(written) / size)


def _lack_unit(digits: str, unit: str) -> UnitError:
    """Return the error of a number without a unit."""
    return UnitError(f"{digits} has no unit", describe_unit(unit), f"{digits} {unit}")


def _split_amount(value: str | float, unit: str) -> tuple[Exact, str, str]:
    """Split a quantity into its number, the text of the number, and what follows it."""
    if isinstance(value, float):
        return parse_number(repr(value)), repr(value), ""
    text = value.strip(_SPACES).replace("\u2212", "-")
    if len(text) > LONGEST:
        raise UnitError(f"a quantity of {len(text)} characters", f"at most {LONGEST}")
    dollars = text.startswith("$") and "USD" in unit
    text = text[1:].lstrip(_SPACES) if dollars else text
    share = _SHARE.match(text)
    grouped = GROUPED.match(text)
    if grouped:  # as this program prints them: 2,306,778.1
        text = re.sub(_GROUP, "", grouped[0]) + text[grouped.end() :]
    match = share if share and int(share[2]) else NUMBER.match(text)
    if not match:
        raise UnitError(f"'{text}' is not a quantity", describe_unit(unit))
    rest = text[match.end() :].strip(_SPACES)
    if re.match(r",\d", rest):
        point = f"{match[0]}.{rest[1:]}"
        raise UnitError(
            f"'{text}' is not a quantity", "a decimal point, or groups of 3 digits", point
        )
    if dollars:
        size, slash, below = rest.partition("/")
        rest = f"{size} {'USD' + slash + below if slash else unit}".strip()
    amount = to_whole(Fraction(match[0])) if match is share else parse_number(match[0])
    return amount, match[0], rest


def _parse_suffix(
    rest: str, amount: str, target: Dimension, unit: str
) -> tuple[Exact, Dimension, Form | None]:
    """Parse what follows the number, a magnitude, a unit or both, into size, dimension and form."""
    if rest.startswith("1"):
        raise UnitError(f"'{rest}' is not a unit", describe_unit(unit))
    rest = f"1{rest}" if rest.startswith("/") else rest  # 10/s
    head, tail = (*re.split(_SPACE, rest, maxsplit=1), "")[:2]
    # 80 B is eighty bytes where bytes are wanted, and eighty billion elsewhere.
    bytes_wanted = _is_bytes(target)
    if not bytes_wanted and head in MAGNITUDES:
        if tail:
            if tail.startswith("1"):
                raise UnitError(f"'{rest}' is not a unit", describe_unit(unit))
            size, dim, form = _parse_unit(tail)
            return to_whole(MAGNITUDES[head] * Fraction(size)), dim, form
        if not target.drop_counts():
            return MAGNITUDES[head], _ONE, next(iter(_list_forms(unit)))
        hint = f"{amount} {head}{unit}" if unit.startswith("FLOP") else None
        raise UnitError(f"'{amount}{rest}' has no unit", describe_unit(unit), hint)
    meant = _MISSPELT.get(head)
    if meant and not target.drop_counts():
        raise UnitError(
            f"unknown suffix '{head}'",
            "k is 1000, Ki is 1024" if meant == "k" else "powers of ten are k, M, B, T",
            f"{amount}{meant}{rest[len(head) :]}",
        )
    try:
        return _parse_unit(rest)
    except UnitError as error:
        name = re.match(r"[^\W\d_]+", rest)
        if name and name[0] in MAGNITUDES:
            better = rest.replace(name[0], name[0] + "B", 1)
            hint = f"{amount} {better}" if bytes_wanted and name[0] + "B" in _UNITS else None
            raise UnitError(f"'{amount}{rest}' has no unit", describe_unit(unit), hint) from None
        hint = f"{amount} {error.hint}" if error.hint else None
        raise UnitError(error.message, describe_unit(unit), hint) from None


def check_range(value: Exact) -> None:
    """Raise a UnitError if a number is too large or too small to compute with."""
    size: Exact = value if value >= 0 else -value
    if size > LARGEST:
        raise UnitError("a number out of range", f"at most {scientific(LARGEST, 1)}")
    if size and size * LARGEST < 1:
        raise UnitError("a number out of range", f"0, or at least 1/{scientific(LARGEST, 1)}")


#: The name of each dimension, and what is allowed as a quantity of it.
_KINDS: dict[Dimension | None, tuple[str | None, str | None]] = {
    find_dimension(unit): (name, allowed) for unit, (name, allowed) in _TABLE["kinds"].items()
}
_NAMELESS = (None, None)


def describe_unit(unit: str) -> str:
    """Describe what may be written for this unit, with an example."""
    dim = find_dimension(unit)
    if dim and not dim.drop_counts():
        return f"a count of {unit}, such as 4096, 4M, 15T"
    example = _KINDS.get(dim, _NAMELESS)[1] or _KINDS.get(dim.drop_counts(), _NAMELESS)[1]
    return example or f"a quantity in {unit}"
