r"""Formulas as boxes: what stands beside, above and below what, before any markup.

The names of symbols are boxes as well, made from the LaTeX of the notation table. What the table
uses of it is a letter or word with subscripts, superscripts and accents:
``M_{\mathrm{act}}^{\ell}``. Anything else is a fault of the table, not of a document.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html.entities import html5
from typing import Any, NamedTuple

_TOKEN = re.compile(r"\\[A-Za-z]+|[{}_^]|[0-9]+|\s+|.")
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
    In a name: letter, word, numeral, sign, row, accent, and script (the base, what stands
    below and above it, EMPTY where nothing does). In a derivation: carried (a sum that goes on in
    a line of its own), unit and rounded (behind a value).
    ``data`` is the number, the words, the letter, or the signs of the terms of a sum.
    """

    kind: str
    parts: tuple[Box, ...] = ()
    data: Any = None

    @property
    def flat(self) -> bool:
        """Whether plain text says a line of numbers as well as markup does."""
        kinds = ("number", "value", "words", "sum", "carried", "negative", "product")
        return self.kind in kinds and all(part.flat for part in self.parts)


EMPTY = Box("row")


def with_subscript(name: Box, word: str) -> Box:
    """A name with a further word in its subscript: of which entry it is."""
    base, below, above = name.parts if name.kind == "script" else (name, EMPTY, EMPTY)
    more = Box("word", (), word)
    if below != EMPTY:
        more = Box("row", (below, Box("sign", (), ","), more))
    return Box("script", (base, more, above))


@lru_cache(maxsize=4096)
def parse(latex: str) -> Box:
    """The boxes of a symbol's LaTeX.

    Raises:
        ValueError: it uses LaTeX beyond names.
    """
    tokens = [token for token in _TOKEN.findall(latex) if not token.isspace()]
    name = _row(tokens, latex)
    if tokens:
        raise ValueError(f"unbalanced braces in {latex}")
    return name


def _row(tokens: list[str], latex: str) -> Box:
    """What stands up to a closing brace, which stays."""
    parts: list[Box] = []
    while tokens and tokens[0] != "}":
        token = tokens.pop(0)
        if token not in "_^":
            parts.append(_atom(token, tokens, latex))
            continue
        if not parts:
            raise ValueError(f"a script without a base in {latex}")
        script, base = _group(tokens, latex), parts.pop()
        inner, below, above = base.parts if base.kind == "script" else (base, EMPTY, EMPTY)
        below, above = (script, above) if token == "_" else (below, script)
        parts.append(Box("script", (inner, below, above)))
    return parts[0] if len(parts) == 1 else Box("row", tuple(parts))


def _group(tokens: list[str], latex: str) -> Box:
    """What one command or script takes: a token, or what braces hold."""
    if not tokens:
        raise ValueError(f"something is missing at the end of {latex}")
    token = tokens.pop(0)
    if token != "{":
        return _atom(token, tokens, latex)
    inner = _row(tokens, latex)
    if not tokens or tokens.pop(0) != "}":
        raise ValueError(f"unbalanced braces in {latex}")
    return inner


def _atom(token: str, tokens: list[str], latex: str) -> Box:
    if token == "{":
        tokens.insert(0, token)
        return _group(tokens, latex)
    if not token.startswith("\\"):
        kind = "numeral" if token.isdigit() else "letter" if token.isalpha() else "sign"
        return Box(kind, (), token)
    name = token[1:]
    if name in ("mathrm", "text", "mathit", "mathsf"):
        return _upright(_group(tokens, latex))
    if name in ACCENTS:
        return Box("accent", (_group(tokens, latex),), name)
    for kind, known in (("letter", LETTERS), ("sign", SIGNS)):
        if name in known:
            return Box(kind, (), known[name])
    if name in WORDS:
        return Box("word", (), name)
    raise ValueError(f"{token} is no part of a name, in {latex}")


def _upright(name: Box) -> Box:
    """Letters that stand beside each other become a word."""
    if name.kind in ("letter", "numeral"):
        return Box("word", (), name.data)
    if name.kind not in ("row", "script"):
        return name
    parts: list[Box] = []
    for part in map(_upright, name.parts):
        if name.kind == "row" and parts and part.kind == parts[-1].kind == "word":
            parts[-1] = Box("word", (), parts[-1].data + part.data)
        else:
            parts.append(part)
    return parts[0] if name.kind == "row" and len(parts) == 1 else Box(name.kind, tuple(parts))
