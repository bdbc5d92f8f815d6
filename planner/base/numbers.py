"""Write every number that people read: the same digits, units and signs everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Literal

from planner.base import resources

Exact = int | Fraction
Steps = tuple[tuple[str, Exact], ...]
Style = Literal["headline", "table", "exact", "change", "share"]

GROUP = ","  # between groups of three digits
GIB = 2**30
MILLI = Fraction(1, 1000)
COUNTS = ("parameters", "tokens")  # units whose headlines are short: 15.0T
PLAIN = ("1", "–", "")  # units that are not printed
_LONGEST = 13_000  # bits; beyond, a number is shown by its power of ten


def round_digits(value: Exact, digits: int) -> Decimal:
    """Round `value` to so many significant digits, half to even."""
    exact, context = Fraction(value), Context(digits, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX)
    return context.divide(Decimal(exact.numerator), Decimal(exact.denominator))


def format_fixed(value: Exact, decimals: int, separator: str = GROUP) -> str:
    """Format `value` with a fixed number of decimals, half to even.

    Args:
        value: minus zero has no sign.
        decimals: 0 for an integer without a point.
        separator: between groups of three digits, from four digits on.
    """
    scaled = round(abs(Fraction(value)) * 10**decimals)
    whole, part = divmod(scaled, 10**decimals)
    text = f"{whole:,}".replace(",", separator) + (f".{part:0{decimals}d}" if decimals else "")
    return f"-{text}" if value < 0 and scaled else text


def format_digits(value: Exact, digits: int) -> str:
    """Format `value` with so many significant digits, more where its whole part has more."""
    if value == 0:
        return "0"
    return format_fixed(value, max(0, digits - 1 - round_digits(value, digits).adjusted()))


def scientific(value: Exact, digits: int = 3) -> str:
    """Format `value` with one digit before the point: `6.30e24`."""
    if value == 0:
        return "0"
    return f"{round_digits(value, digits):.{digits - 1}e}".replace("e+", "e")


def exact_text(value: Exact, separator: str = GROUP) -> str:
    """Format an exact number in full: `3,556,769,792`, `0.25`, `1/3`."""
    if type(value) is int and value.bit_length() <= _LONGEST:
        return f"{value:,}".replace(",", separator)
    value = Fraction(value)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LONGEST:
        return scientific(value)
    for decimals in range(21):
        if 10**decimals % value.denominator == 0:
            return format_fixed(value, decimals, separator)
    return f"{exact_text(value.numerator, separator)}/{exact_text(value.denominator, separator)}"


def plain_text(value: Exact | float, digits: int | None = None) -> str:
    """Format a number as a document would write it, so that YAML 1.1 reads it as well: `4096`,
    `0.25`, `1/3`, `1.0e-30`. A float counts as its shortest text, or is rounded to ``digits``."""
    exact = Fraction(repr(float(value))) if isinstance(value, float) else value
    exact = exact if digits is None else Fraction(round_digits(exact, digits))
    text = exact_text(exact, "")
    short = round_digits(exact, 40)
    if "/" not in text or short != exact:
        return text
    mantissa, _, power = f"{short:e}".partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}e{power}"


_TABLE = resources.load_beside(__file__)


def _read_steps(rows: Mapping[str, object]) -> Steps:
    """Read units with their sizes, the largest first; a size is whole if it can be."""
    sizes = ((name, Fraction(str(size))) for name, size in rows.items())
    return tuple((name, int(size) if size.denominator == 1 else size) for name, size in sizes)


_COUNTS = _read_steps(_TABLE["counts"])
#: Units that grow large, and what they are called then.
_LARGE = {unit: _read_steps(rows) for unit, rows in _TABLE["large"].items()}
#: Of these, the ones that are rounded below, too.
_ROUNDED = frozenset(_TABLE["rounded"])
_SECONDS: Mapping[str, int] = _TABLE["seconds"]
#: Units of a time with the size of one, and of how many on it is used: seconds below two minutes.
_DURATIONS = [(name, Fraction(size), least) for name, size, least in _TABLE["durations"]]
#: Units of a column, largest first; the largest value of a column picks one.
SCALES = {unit: _read_steps(rows) for unit, rows in _TABLE["scales"].items()}


def text(
    value: Any, unit: str = "1", style: Style = "headline", digits: int = 3, full: bool = False
) -> str:
    """Write a number for people; "–" for None, names as they are.

    Args:
        value: in `unit`; a float counts as what it holds.
        unit: as in planner.base.units.
        style: `headline`, in the unit that reads best: 156 days, 53.0 GiB, 15.0T tokens;
            `table`, in `unit`, which stands above: 156, <0.001, 15.0T;
            `exact`, all digits, or six of a value that has no end: 168,372 s, 0.488535;
            `share`, as a percentage: 48.9 %; `change`, the same with its sign: −9.1 %.
        digits: significant digits.
        full: a headline has all digits of a count: 6,738,415,616 parameters.
    """
    if value is None or isinstance(value, str):
        return "–" if value is None else value
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    written, name = _split_unit(value, unit, style, digits, unit in COUNTS and not full)
    sign = "+" if style == "change" and value > 0 else ""
    return sign + written.replace("-", "−") + (f" {name}" if name not in PLAIN else "")


def _split_unit(value: Any, unit: str, style: Style, digits: int, short: bool) -> tuple[str, str]:
    """Return the digits of a number and the unit that follows them."""
    exact = Fraction(value)
    if style in ("share", "change"):
        return _format_percent(exact, digits), "%"
    if style == "exact":
        return format_compact(value), unit
    if style == "table":
        return _format_cell(exact, digits, short), ""
    if unit == "FLOP":
        return scientific(exact, digits), unit
    if unit in _SECONDS and not value:
        return "0", "s"
    name, size = choose_unit(exact, unit, digits)
    if unit in _SECONDS or name != unit:
        return format_digits(exact / size, digits), name
    number = (
        format_digits(exact, digits) if unit in _ROUNDED else _format_integer(exact, digits, short)
    )
    if number == "1" and unit.endswith("s") and unit != "s" and "/" not in unit:
        unit = unit.removesuffix("s")
    return number, unit.replace("bytes/s", "B/s")


def between(ends: Iterable[str], beside: str = "", to: str = "–") -> str:
    """Join the two written ends of an interval: 2.84–5.02 s; 59 s – 2 min if their units differ.

    Args:
        ends: the lower and the upper end, each with its unit.
        beside: the written value that they belong to; if all have its unit, the ends have none.
        to: text between them.
    """
    low, high = ends
    (least, _, own), (most, _, unit) = low.partition(" "), high.partition(" ")
    if own != unit:
        return f"{low} {to.strip()} {high}"
    return f"{least}{to}{most if unit == beside.partition(' ')[2] else high}"


def choose_unit(value: Any, unit: str, digits: int = 3) -> tuple[str, Exact]:
    """Return the unit of a headline, and its size in ``unit``. GPU hours stay hours.

    Args:
        value: in ``unit``.
        digits: significant digits that are printed: with three of them 1,023.9 MiB is 1.00 GiB.
    """
    if unit == "h" and abs(value) >= 1:
        return ("million h", 10**6) if abs(value) >= 10**6 else ("h", 1)
    if unit in _SECONDS:
        seconds = abs(Fraction(value) * _SECONDS[unit])
        found = (
            (n, Fraction(o) / _SECONDS[unit]) for n, o, least in _DURATIONS if seconds >= least * o
        )
        return next(found, (unit, 1))
    parts = ((name, size) for name, size in _LARGE.get(unit, ()))
    large = (part for part in parts if abs(round_digits(Fraction(value) / part[1], digits)) >= 1)
    return next(large, (unit, 1))


def _format_percent(share: Fraction, digits: int) -> str:
    """Format a share in per cent: one decimal; below one per cent two digits; near 100 % as many as
    tell it from 100 %. Differences below one millionth are ignored."""
    decimals = 1
    for near, least in ((abs(share), digits - 1), (abs(1 - abs(share)), 1)):
        if near >= MILLI**2:
            decimals = max(decimals, least - 1 - round_digits(near * 100, least).adjusted())
    return format_fixed(share * 100, decimals)


def _format_cell(number: Fraction, digits: int, short: bool) -> str:
    """Format a number for a cell: from a million on as 1.50e7, or with ``short`` as 15.0M."""
    if number == 0 or (short and abs(number) >= 10**6):
        return _format_integer(number, digits, short)
    if abs(number) >= 10**6:
        return scientific(number, digits)
    if abs(number) < MILLI:
        return "<0.001" if number > 0 else ">-0.001"
    return format_digits(number, digits)


def _format_integer(value: Exact, digits: int, short: bool) -> str:
    """Format a whole number in full below 10^21, another one with significant digits.

    Args:
        digits: significant digits.
        short: whether a count from a million on is written as 15.0M.
    """
    size = abs(Fraction(value))
    if short:
        for name, one in _COUNTS:
            if size >= one:
                return f"{format_digits(Fraction(value) / one, digits)}{name}"
    if size.denominator == 1 and size < 10**21:
        return exact_text(value)
    if size >= 10**21 or 0 < size < Fraction(1, 10**4):
        return scientific(value, digits)
    return format_digits(value, digits)


@lru_cache(maxsize=8192, typed=True)  # each number is written in several styles and places
def split_digits(value: Any) -> tuple[str, int | None]:
    """Split a number into its digits and, where it is written with one, a power of ten.

    Integers are exact. Other values are exact where few decimals say them, else rounded to six
    digits, but for a Decimal, which is rounded already. A large round number is written with its
    power of ten, which is exact too.
    """
    if type(value) is int and -(10**9) < value < 10**9:
        return exact_text(value), None
    exact = Fraction(value)
    if isinstance(value, Decimal):
        return exact_text(exact), None
    if exact.denominator == 1 and isinstance(value, (int, Fraction)) and abs(exact) >= 10**9:
        mantissa, _, power_text = scientific(exact, 6).partition("e")
        if Fraction(mantissa) * 10 ** int(power_text) == exact:
            return trim_zeros(mantissa), int(power_text)
    if exact.denominator == 1 and isinstance(value, (int, Fraction)):
        text = exact_text(exact)
        if len(text) <= 40:  # an integer that a line still holds in full
            return text, None
    else:
        text = exact_text(exact) if isinstance(value, Fraction) else "/"
        if "/" not in text and len(text) <= 14:
            return text, None
        power = round_digits(exact, 6).adjusted()
        if -7 < power < 15:
            # One decimal at least, so that a rounded number does not look like an exact one.
            return trim_zeros(format_digits(exact, max(6, power + 2))), None
    mantissa, _, power_text = scientific(exact, 6).partition("e")
    return trim_zeros(mantissa), int(power_text or 0)


def format_compact(value: Any) -> str:
    """Format a number by ``digits``: 0.488535, 15e12."""
    number, power = split_digits(value)
    return number if power is None else f"{number}e{power}"


def trim_zeros(number: str) -> str:
    """Strip zeros at the end of a number that was chosen: 15T, not 15.0T."""
    return re.sub(r"\.0+(?!\d)|(\.\d*[1-9])0+(?!\d)", r"\1", number)


def format_shares(values: Sequence[Any]) -> list[str]:
    """Format values as percentages of their sum that add up to 100, by the largest remainder."""
    total = sum(Fraction(value) for value in values)
    if not total or any(value < 0 for value in values):
        return ["–"] * len(values)
    return [f"{part // 10}.{part % 10}" for part in divide_whole(values, 1000)]


def divide_whole(values: Sequence[Any], whole: int) -> list[int]:
    """Divide ``whole`` into integers in the proportions of some values, by the largest remainder;
    return zeros where the values add up to 0."""
    total = sum(Fraction(value) for value in values)
    if not total:
        return [0] * len(values)
    exact = [Fraction(value) * whole / total for value in values]
    parts = [part.numerator // part.denominator for part in exact]
    order = sorted(range(len(values)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[: whole - sum(parts)]:
        parts[i] += 1
    return parts


def format_column(values: Sequence[Any], unit: str) -> tuple[str, list[str]]:
    """Format all values of a column in one unit; return the unit and the numbers."""
    numbers = [Fraction(value) for value in values]
    largest = max((abs(number) for number in numbers), default=Fraction(0))
    if unit not in SCALES and all(number.denominator == 1 for number in numbers):
        return unit, [exact_text(number) for number in numbers]
    name, size = next((step for step in SCALES.get(unit, ()) if largest >= step[1]), (unit, 1))
    return name, [text(number / size, style="table") for number in numbers]
