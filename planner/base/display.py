"""Write text, YAML, JSON, CSV and tables of text; numbers are written by planner.base.numbers."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

from planner.base.numbers import plain_text

#: First characters of what spreadsheets run as a formula.
_FORMULA = frozenset("=+-@\t\r")

#: Control characters of terminals, and changes of text direction.
_STEERS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def quote_json(value: Any, indent: int | None = None) -> str:
    """Format a value as JSON, a text as YAML and TOML read it too; escape control characters."""
    if type(value) is int:  # most cells of tables
        return repr(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


#: Text that YAML reads as text without quotes, except for _WORDS.
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9 ./_+()-]*(?<! )")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def format_flow(value: Any, unit: str | None = None, bare: re.Pattern[str] | None = None) -> str:
    """Format a value as YAML in flow style. Quote a text only if YAML would not read it as text.

    Args:
        value: JSON data, or numbers in exact form.
        unit: follows a number, unless a bare number already means it (`1`, tokens, bytes).
        bare: text that matches as a whole is never quoted.
    """
    if isinstance(value, Mapping):
        inside = (f"{format_flow(str(k))}: {format_flow(v, bare=bare)}" for k, v in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_flow(item, bare=bare) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, Fraction, float)):
        text = plain_text(value)
        return f"{text} {unit}" if unit and unit not in ("1", "tokens", "bytes") else text
    text = str(value)
    if bare is not None and bare.fullmatch(text):
        return text
    return text if _BARE.fullmatch(text) and text.lower() not in _WORDS else quote_json(text)


def plain(value: Any) -> Any:
    """Convert a value to JSON types: a fraction that is no integer becomes a float."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def flatten(
    tree: Mapping[str, Any], joint: str = ".", before: str = "", lists: bool = False
) -> dict[str, Any]:
    """Flatten mappings in mappings to one.

    Args:
        tree: the outermost mapping.
        joint: what stands between a key and one inside it.
        before: what stands in front of all keys.
        lists: whether lists stay as they are, or are left out.
    """
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= flatten(value, joint, f"{before}{key}{joint}", lists)
        elif lists or not isinstance(value, list):
            found[f"{before}{key}"] = value
    return found


def as_json(tree: Any) -> str:
    """Format data as a JSON document."""
    return quote_json(plain(tree), indent=2) + "\n"


def columns(
    rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = ""
) -> list[str]:
    """Align rows of cells as lines of text, two spaces between columns.

    Args:
        rows: as many cells in each.
        right: indices of the columns that are aligned on the right.
        indent: text in front of each line.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def format_md_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Format rows of escaped cells as the lines of a table in Markdown.

    Args:
        rows: as many cells in each; the first has the heads of the columns.
        right: indices of the columns that are aligned on the right.
    """
    rule = ["--:" if place in right else "---" for place in range(len(rows[0]))]
    return [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]


def escape_cell(text: str) -> str:
    """Escape text for a cell of CSV: spreadsheets run what begins like a formula, and the
    apostrophe in front, which OWASP recommends, makes it text. Not for numbers."""
    return f"'{text}" if text[:1] in _FORMULA else text


def one_line(text: str) -> str:
    """Escape line breaks and all other unprintable characters of a text."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


_CONTROL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean(text: Any, most: int = 400) -> str:
    """Normalise text to one line of at most ``most`` characters, without control characters."""
    words = str(text)
    if not (words.isascii() and words.isprintable() and "  " not in words):  # few words
        words = "".join(
            " " if c.isspace() and c not in "\u202f\u2009\u00a0" else c
            for c in words
            if c.isspace() or unicodedata.category(c) not in _CONTROL
        )
        words = re.sub(r" +", " ", words)
    return cut(words.strip(), most)


def cut(text: str, most: int) -> str:
    """Cut a text to so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def thin(text: str) -> str:
    """Replace spaces by no-break spaces, so that a number and its unit stay on one line."""
    return text.replace(" ", "\u00a0")


def headline(words: str) -> str:
    """Normalise text and put its first letter in upper case."""
    words = clean(words)
    return words[:1].upper() + words[1:]
