"""Prints exact numbers for people: same rounding everywhere, no locale, no floats."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

Exact = int | Fraction
Steps = tuple[tuple[str, Exact], ...]

GROUP = ","  # between groups of three digits
_LONGEST = 13_000  # bits; beyond, a number is shown by its power of ten


#: How what a spreadsheet runs begins; the empty text is none of them.
_FORMULA = frozenset("=+-@\t\r")

#: What steers a terminal or turns the direction of what follows.
_STEERS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def quoted(value: Any, indent: int | None = None) -> str:
    """A value as JSON, a text also as YAML and TOML read it; what steers a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


#: Text that YAML reads as such without quotes, but for the words that it reads otherwise.
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9 ./_+()-]*(?<! )")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def flow(value: Any, unit: str | None = None, bare: re.Pattern[str] | None = None) -> str:
    """A value as YAML in flow style, a number with its unit; text is bare where YAML reads it as
    text, as what is like ``bare``, else in double quotes, which JSON and YAML share."""
    if isinstance(value, Mapping):
        inside = (f"{flow(str(k))}: {flow(v, bare=bare)}" for k, v in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(item, bare=bare) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, Fraction)):
        text = plain_text(value)
        return f"{text} {unit}" if unit and unit not in ("1", "tokens", "bytes") else text
    text = str(value)
    if bare is not None and bare.fullmatch(text):
        return text
    return text if _BARE.fullmatch(text) and text.lower() not in _WORDS else quoted(text)


def plain(value: Any) -> Any:
    """A value as JSON has it: a number that is not integral becomes a float."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def as_json(tree: Any) -> str:
    """A JSON document."""
    return quoted(plain(tree), indent=2) + "\n"


def columns(
    rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = ""
) -> list[str]:
    """Rows of cells as lines of text, one column below another; the numbers of columns that are
    aligned on the ``right``."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def cell(text: str) -> str:
    """Text in a cell of CSV. What begins like a formula is run by spreadsheets; the
    apostrophe in front, which OWASP recommends, makes it text. Numbers are no text."""
    return f"'{text}" if text[:1] in _FORMULA else text


def one_line(text: str) -> str:
    """Text that cannot leave its line, whatever a document holds."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def rounded(value: Exact, digits: int) -> Decimal:
    """`value` at so many significant digits, half to even."""
    exact, context = Fraction(value), Context(digits, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX)
    return context.divide(Decimal(exact.numerator), Decimal(exact.denominator))


def _fixed(value: Exact, decimals: int, separator: str = GROUP) -> str:
    """`value` with so many decimals, half to even, digits grouped from five on."""
    scaled = round(abs(Fraction(value)) * 10**decimals)
    whole, part = divmod(scaled, 10**decimals)
    text = f"{whole:,}".replace(",", separator) + (f".{part:0{decimals}d}" if decimals else "")
    return f"-{text}" if value < 0 and scaled else text


def significant(value: Exact, digits: int) -> str:
    """So many significant digits, written out, more where the whole part has more."""
    if value == 0:
        return "0"
    return _fixed(value, max(0, digits - 1 - rounded(value, digits).adjusted()))


def scientific(value: Exact, digits: int = 3) -> str:
    """`6.30e24`: one digit before the point."""
    if value == 0:
        return "0"
    return f"{rounded(value, digits):.{digits - 1}e}".replace("e+", "e")


def exact_text(value: Exact, separator: str = GROUP) -> str:
    """An exact number in full: `3,556,769,792`, `0.25`, `1/3`."""
    if type(value) is int and value.bit_length() <= _LONGEST:
        return f"{value:,}".replace(",", separator)
    value = Fraction(value)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LONGEST:
        return scientific(value)
    for decimals in range(21):
        if 10**decimals % value.denominator == 0:
            return _fixed(value, decimals, separator)
    return f"{exact_text(value.numerator, separator)}/{exact_text(value.denominator, separator)}"


def plain_text(value: Exact) -> str:
    """An exact number as a document would write it: `4096`, `0.25`, `1/3`."""
    return exact_text(value, "")


_RATES: Steps = (("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_COUNTS: Steps = (("T", 10**12), ("B", 10**9), ("M", 10**6))
#: Units that grow large, and what they are called then.
_LARGE: dict[str, Steps] = {
    "bytes": (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)),
    "bytes/s": tuple((f"{prefix}B/s", size) for prefix, size in _RATES),
    "FLOP/s": tuple((f"{prefix}FLOP/s", size) for prefix, size in _RATES),
    "W": tuple((f"{prefix}W", size) for prefix, size in _RATES),
    "USD": (("billion USD", 10**9), ("million USD", 10**6)),
    "kWh": (("TWh", 10**9), ("GWh", 10**6), ("MWh", 10**3)),
    "kgCO2e": (("MtCO2e", 10**9), ("ktCO2e", 10**6), ("tCO2e", 10**3)),
    "tokens/s": (("M tokens/s", 10**6), ("k tokens/s", 10**3)),
}
#: Of these, the ones that are rounded below, too.
_ROUNDED = frozenset(("USD", "kWh", "kgCO2e", "tokens/s"))
#: Units of a time that quantities have.
_SECONDS = {"s": 1, "h": 3600, "days": 86400}
#: Units of a time with the size of one, and of how many on it is used: seconds below two minutes.
_DURATIONS: tuple[tuple[str, Exact, int], ...] = (
    ("days", 86400, 2),
    ("h", 3600, 2),
    ("min", 60, 2),
    ("s", 1, 1),
    ("ms", Fraction(1, 10**3), 1),
    ("us", Fraction(1, 10**6), 1),
    ("ns", Fraction(1, 10**9), 0),
)


def format_value(value: Exact, unit: str = "1", digits: int = 3, short: bool = False) -> str:
    """A number with its unit, rounded for a summary.

    Args:
        value: exact, in `unit`.
        unit: as in planner.base.units.
        digits: significant digits.
        short: large counts as 70.6B instead of all digits.
    """
    if unit == "FLOP":
        return f"{scientific(value, digits)} FLOP"
    if unit in _SECONDS and not value:
        return "0 s"
    name, size = scale(value, unit, digits)
    if unit in _SECONDS or name != unit:
        return f"{significant(Fraction(value) / size, digits)} {name}"
    number = significant(value, digits) if unit in _ROUNDED else _count(value, digits, short)
    if number == "1" and unit.endswith("s") and unit != "s" and "/" not in unit:
        unit = unit.removesuffix("s")
    return number if unit in ("1", "–", "") else f"{number} {unit.replace('bytes/s', 'B/s')}"


def scale(value: Exact, unit: str, digits: int = 3) -> tuple[str, Exact]:
    """The unit that a value is printed in for a summary, and how large one of it is in ``unit``."""
    if unit in _SECONDS:
        seconds = abs(Fraction(value) * _SECONDS[unit])
        found = (
            (n, Fraction(o) / _SECONDS[unit]) for n, o, least in _DURATIONS if seconds >= least * o
        )
        return next(found, (unit, 1))
    parts = ((name, size) for name, size in _LARGE.get(unit, ()))
    large = (part for part in parts if abs(rounded(Fraction(value) / part[1], digits)) >= 1)
    return next(large, (unit, 1))


def _count(value: Exact, digits: int, short: bool) -> str:
    size = abs(Fraction(value))
    if short:
        for name, one in _COUNTS:
            if size >= one:
                return f"{significant(Fraction(value) / one, digits)}{name}"
    if size.denominator == 1 and size < 10**21:
        return exact_text(value)
    if size >= 10**21 or 0 < size < Fraction(1, 10**4):
        return scientific(value, digits)
    return significant(value, digits)


@lru_cache(maxsize=8192, typed=True)  # each number is written in several styles and places
def digits(value: Any) -> tuple[str, int | None]:
    """A number as digits and, where it is written with one, a power of ten.

    Integers are exact. Other values are exact where few decimals say them, else rounded to six
    digits. A large round number is written with its power of ten, which is exact too.
    """
    if type(value) is int and -(10**9) < value < 10**9:
        return exact_text(value), None
    exact = Fraction(value)
    if exact.denominator == 1 and isinstance(value, (int, Fraction)) and abs(exact) >= 10**9:
        mantissa, _, power_text = scientific(exact, 6).partition("e")
        if Fraction(mantissa) * 10 ** int(power_text) == exact:
            return _trimmed(mantissa), int(power_text)
    if exact.denominator == 1 and isinstance(value, (int, Fraction)):
        text = exact_text(exact)
        if len(text) <= 40:  # an integer that a line still holds in full
            return text, None
    else:
        text = exact_text(exact) if isinstance(value, Fraction) else "/"
        if "/" not in text and len(text) <= 14:
            return text, None
        power = rounded(exact, 6).adjusted()
        if -7 < power < 15:
            # One decimal at least, so that a rounded number does not look like an exact one.
            return _trimmed(significant(exact, max(6, power + 2))), None
    mantissa, _, power_text = scientific(exact, 6).partition("e")
    return _trimmed(mantissa), int(power_text or 0)


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
