r"""Formulas as boxes: the arrangement beside, above and below one another, before any markup.

The names of symbols are boxes as well, made from the LaTeX of the notation table. The table uses
letters or words with subscripts, superscripts and accents: ``M_{\mathrm{act}}^{\ell}``. Anything
else is an error of the table, not of a document.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html.entities import html5
from typing import Any, NamedTuple

_TOKEN = re.compile(r"\\mathrm\{(?:[^\W_]|\\_)+\}|\\[A-Za-z]+|[{}_^]|[0-9]+|\s+|.")
_GREEK = (
    "alpha beta gamma delta epsilon eta theta kappa lambda mu nu pi rho sigma tau phi chi psi "
    "omega Delta Sigma Phi Psi Omega Lambda ell"
)
LETTERS = {name: html5[f"{name};"] for name in _GREEK.split()} | {"varphi": "φ"}
WORDS = ("max", "min")
SIGNS = {"ast": "∗", "perp": "⊥"}
ACCENTS = {"hat": "^", "bar": "¯", "tilde": "~", "dot": "˙", "overline": "¯"}


class Box(NamedTuple):
    """One piece of a formula.

    ``kind``: number (of the formula), value (of a symbol), name, words, sum, negative, product,
    fraction, power, root, ceil, floor, exp, tanh, ln, max, min; total, largest and which (what a
    fold runs over, and its body), at (the body, what the fold runs over, what is largest there).
    In a name: letter, word, numeral, sign, row, those of ACCENTS, and script (the base, what stands
    below and above it, EMPTY where nothing does). In a derivation: carried (a sum that goes on in
    a line of its own), unit and rounded (behind a value).
    ``data`` is the number, the words, the letter, or the signs of the terms of a sum.
    """

    kind: str
    parts: tuple[Box, ...] = ()
    data: Any = None


#: Kinds that plain text shows as well as markup, and kinds that need more than one line.
FLAT = frozenset(("number", "value", "words", "sum", "carried", "negative", "product"))
TALL = frozenset(("fraction", "at"))


def is_flat(box: Box) -> bool:
    """Decide whether plain text shows a line of numbers as well as markup."""
    return box.kind in FLAT and all(map(is_flat, box.parts))


def is_tall(box: Box) -> bool:
    """Decide whether a formula needs more than a line."""
    return box.kind in TALL or any(map(is_tall, box.parts))


EMPTY = Box("row")
COMMANDS = {
    **{name: Box("letter", (), char) for name, char in LETTERS.items()},
    **{name: Box("sign", (), char) for name, char in SIGNS.items()},
    **{name: Box("word", (), name) for name in WORDS},
}


def add_subscript(name: Box, word: str) -> Box:
    """Add a word to the subscript of a name, for an entry."""
    base, below, above = name.parts if name.kind == "script" else (name, EMPTY, EMPTY)
    more = Box("word", (), word)
    if below != EMPTY:
        more = Box("row", (below, Box("sign", (), ","), more))
    return Box("script", (base, more, above))


@lru_cache(maxsize=4096)
def read_latex(latex: str) -> Box:
    """Parse the LaTeX of a symbol into boxes.

    Raises:
        ValueError: LaTeX beyond names.
    """
    tokens = [token for token in _TOKEN.findall(latex) if not token.isspace()]
    try:
        name = _parse_row(tokens)
    except LookupError as error:  # a missing operand or an unknown command
        raise ValueError(f"LaTeX beyond names: {latex} ({error})") from None
    if tokens:
        raise ValueError(f"unbalanced braces in {latex}")
    return name


def _parse_row(tokens: list[str]) -> Box:
    """Parse up to a closing brace, which is not consumed."""
    parts: list[Box] = []
    while tokens and tokens[0] != "}":
        if tokens[0] not in "_^":
            parts.append(_parse_group(tokens))
            continue
        mark, base = tokens.pop(0), parts.pop()
        inner, *scripts = base.parts if base.kind == "script" else (base, EMPTY, EMPTY)
        scripts["_^".index(mark)] = _parse_group(tokens)
        parts.append(Box("script", (inner, *scripts)))
    return parts[0] if len(parts) == 1 else Box("row", tuple(parts))


def _parse_group(tokens: list[str]) -> Box:
    """Parse one token, command or group in braces."""
    token = tokens.pop(0)
    if token == "{":
        inner = _parse_row(tokens)
        tokens.pop(0)
        return inner
    command, _, word = token.removesuffix("}").partition("{")
    if word:
        return Box("word", (), word.replace("\\_", "_"))
    if not command.startswith("\\"):
        kind = "numeral" if token.isdigit() else "letter" if token.isalpha() else "sign"
        return Box(kind, (), token)
    if command[1:] in ACCENTS:
        return Box(command[1:], (_parse_group(tokens),))
    return COMMANDS[command[1:]]
