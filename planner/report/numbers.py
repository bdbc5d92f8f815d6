"""Numbers and words for people: rounded values, shares that add up, bars, harmless text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from planner.base import display
from planner.base.display import digits, exact_text, format_value, scientific, significant

Data = SimpleNamespace  # what templates read: plain data by name
GIB = 2**30
MILLI = Fraction(1, 1000)
PLAIN = ("1", "–", "")
Steps = tuple[tuple[str, int | Fraction], ...]
#: Units of a column, largest first; the largest value of a column picks one.
SCALES: dict[str, Steps] = {
    "bytes": (("TiB", 2**40), ("GiB", GIB), ("MiB", 2**20), ("KiB", 2**10)),
    "s": (("days", 86400), ("h", 3600), ("s", 1), ("ms", MILLI), ("µs", MILLI**2)),
    "FLOP": tuple((f"{name}FLOP", 1000 ** (6 - i)) for i, name in enumerate("EPTGM")),
}


def shown(value: Any, unit: str, share: bool = False) -> str:
    """A value with its unit, three digits, for a summary; `share` prints 0.5 as 50.0 %."""
    if isinstance(value, str):
        return clean(value)
    if share:
        return percent(Fraction(value))
    value = Fraction(value)
    if unit == "h" and value >= 1:
        name, size = scale(value, unit)
        return f"{significant(value / size, 3)} {name}"
    text = format_value(value, unit, short=unit in ("parameters", "tokens"))
    return f"−{text[1:]}" if text.startswith("-") else text


def scale(value: Any, unit: str) -> tuple[str, int | Fraction]:
    """The unit that ``shown`` prints a value in, and its size; device hours stay hours."""
    if unit == "h" and value >= 1:
        return ("million h", 10**6) if value >= 10**6 else ("h", 1)
    return display.scale(Fraction(value), unit)


def exactly(value: Any, unit: str) -> str:
    """A value in full with its unit; rounded to six digits where it has no short exact form."""
    if isinstance(value, str):
        return clean(value)
    text, power = digits(value)
    number = text if power is None else f"{text}e{power}"
    return number if unit in PLAIN else f"{number} {unit}"


def percent(share: Fraction) -> str:
    """With one decimal."""
    tenths = round(share * 1000)
    sign = "-" if tenths < 0 else ""
    return f"{sign}{abs(tenths) // 10}.{abs(tenths) % 10} %"


def thin(text: str) -> str:
    """A number whose unit does not leave it at the end of a line."""
    return text.replace(" ", "\u00a0")


def signed(change: Fraction) -> str:
    """A relative change: +10.0 %, −9.1 %."""
    return f"{'+' if change > 0 else '−'}{percent(abs(change))}"


def shares(values: Sequence[Any]) -> list[str]:
    """Percentages of the whole that add up to 100 as printed, by the largest remainder."""
    total = sum(Fraction(value) for value in values)
    if not total or any(value < 0 for value in values):
        return ["–"] * len(values)
    return [f"{part // 10}.{part % 10}" for part in apportioned(values, 1000)]


def apportioned(values: Sequence[Any], whole: int) -> list[int]:
    """Integers in the proportions of some values that add up to ``whole``, by the largest
    remainder; zeros where the values add up to 0."""
    total = sum(Fraction(value) for value in values)
    if not total:
        return [0] * len(values)
    exact = [Fraction(value) * whole / total for value in values]
    parts = [part.numerator // part.denominator for part in exact]
    order = sorted(range(len(values)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[: whole - sum(parts)]:
        parts[i] += 1
    return parts


def column(values: Sequence[Any], unit: str) -> tuple[str, list[str]]:
    """One unit for all values of a column, and their numbers in it."""
    numbers = [Fraction(value) for value in values]
    largest = max((abs(number) for number in numbers), default=Fraction(0))
    if unit not in SCALES and all(number.denominator == 1 for number in numbers):
        return unit, [exact_text(number) for number in numbers]
    name, size = next((step for step in SCALES.get(unit, ()) if largest >= step[1]), (unit, 1))
    return name, [_few(number / size) for number in numbers]


def _few(number: Fraction) -> str:
    """Three digits; small parts of a large whole keep two decimals."""
    if number == 0:
        return "0"
    if abs(number) >= 10**6:
        return scientific(number).replace("-", "−")
    if abs(number) < Fraction(1, 1000):
        return "<0.001" if number > 0 else ">−0.001"
    return significant(number, 3).replace("-", "−")


def bar(share: Fraction, cells: int = 20) -> str:
    """A bar of text."""
    full = max(0, min(cells, round(share * cells)))
    return "█" * full + "░" * (cells - full)


_CONTROL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean(text: Any, most: int = 400) -> str:
    """Words of a document on one line without control characters or changes of direction."""
    words = str(text)
    if not (words.isascii() and words.isprintable() and "  " not in words):  # few words
        words = "".join(
            " " if c.isspace() and c not in "\u202f\u2009\u00a0" else c
            for c in words
            if c.isspace() or unicodedata.category(c) not in _CONTROL
        )
        words = re.sub(r" +", " ", words)
    words = words.strip()
    return words if len(words) <= most else words[: most - 1] + "…"


def headline(words: str) -> str:
    """Words with a capital at the start."""
    words = clean(words)
    return words[:1].upper() + words[1:]
