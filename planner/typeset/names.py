r"""Names of symbols: the LaTeX of the notation table, also as MathML and as plain text.

The table writes LaTeX only. What it uses of it is a letter or word with subscripts, superscripts
and accents: ``M_{\mathrm{act}}^{\ell}``. Anything else is a fault of the table, not of a document.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import NamedTuple

__all__ = ["Name", "parse"]

_TOKEN = re.compile(r"\\[A-Za-z]+|\\[,;:! ]|[{}_^]|[0-9]+|\s+|.")
_LETTERS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "eta": "η",
    "theta": "θ",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "varphi": "φ",
    "chi": "χ",
    "psi": "ψ",
    "omega": "ω",
    "Delta": "Δ",
    "Sigma": "Σ",
    "Phi": "Φ",
    "Psi": "Ψ",
    "Omega": "Ω",
    "Lambda": "Λ",
    "ell": "ℓ",
}
_WORDS = {"max": "max", "min": "min"}
_SIGNS = {
    "star": "⋆",
    "ast": "∗",
    "prime": "′",
    "to": "→",
    "rightarrow": "→",
    "leftarrow": "←",
    "leftrightarrow": "↔",
    "updownarrow": "↕",
    "uparrow": "↑",
    "downarrow": "↓",
    "times": "×",
    "cdot": "·",
    "infty": "∞",
    "parallel": "∥",
    "circ": "∘",
    "dagger": "†",
    "cap": "∩",
    "perp": "⊥",
    "leq": "≤",
    "geq": "≥",
    "lt": "<",
    "gt": ">",
    "pm": "±",
    "ldots": "…",
}
_ACCENTS = {"hat": "^", "bar": "¯", "tilde": "~", "dot": "˙", "overline": "¯"}


class Name(NamedTuple):
    """A name as a tree: ``kind`` letter, word, number, sign, space, row, script or accent."""

    kind: str
    text: str = ""
    parts: tuple[Name | None, ...] = ()

    def with_subscript(self, word: str) -> Name:
        """The same with a further word in its subscript: of which entry it is."""
        more = Name("word", word)
        base, below, above = self.parts if self.kind == "script" else (self, None, None)
        if below is not None:
            more = Name("row", "", (below, Name("sign", ","), more))
        return Name("script", "", (base, more, above))

    def latex(self) -> str:
        match self.kind:
            case "word" if self.text in _WORDS:
                return f"\\{self.text}"
            case "word":
                return rf"\mathrm{{{_escaped(self.text)}}}"
            case "space":
                return r"\,"
            case "row":
                return "".join(_joined(part.latex() for part in self.parts if part))
            case "accent":
                (inner,) = self.parts
                return f"\\{self.text}{{{inner.latex() if inner else ''}}}"
            case "script":
                base, below, above = (part.latex() if part else "" for part in self.parts)
                return base + _script("_", below) + _script("^", above)
        return _LATEX_OF.get(self.text, self.text)

    def mathml(self) -> str:
        match self.kind:
            case "letter" | "word":
                return f"<mi>{escape(self.text)}</mi>"
            case "number":
                return f"<mn>{self.text}</mn>"
            case "sign":
                return f"<mo>{escape(self.text)}</mo>"
            case "space":
                return '<mspace width="0.17em"/>'
            case "row":
                return f"<mrow>{''.join(part.mathml() for part in self.parts if part)}</mrow>"
            case "accent":
                (inner,) = self.parts
                under = inner.mathml() if inner else ""
                return f'<mover accent="true">{under}<mo>{_ACCENTS[self.text]}</mo></mover>'
        base, below, above = (part.mathml() if part else "" for part in self.parts)
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        return f"<msub>{base}{below}</msub>" if below else f"<msup>{base}{above}</msup>"

    def html(self) -> str:
        """As HTML without MathML: letters as variables, scripts as such; accents are left out."""
        match self.kind:
            case "letter":
                return f"<var>{self.text}</var>"
            case "row" | "accent":
                return "".join(part.html() for part in self.parts if part)
            case "script":
                inner, index, power = self.parts
                if inner and index and not power and inner.kind == "letter" and index.slanted():
                    return f"<var>{inner.text}<sub>{index.plain()}</sub></var>"
                base, below, above = (part.html() if part else "" for part in self.parts)
                below, above = below and f"<sub>{below}</sub>", above and f"<sup>{above}</sup>"
                return base + below + above
        return escape(self.plain())

    def slanted(self) -> bool:
        """Whether it is made of letters alone."""
        return self.kind == "letter" or (
            self.kind == "row" and all(part is not None and part.slanted() for part in self.parts)
        )

    def plain(self) -> str:
        match self.kind:
            case "row":
                return "".join(part.plain() for part in self.parts if part)
            case "space":
                return " "
            case "accent":
                return "".join(part.plain() for part in self.parts if part)
            case "script":
                base, below, above = (part.plain() if part else "" for part in self.parts)
                return base + (f"_{below}" if below else "") + (f"^{above}" if above else "")
        return self.text


_LATEX_OF = {char: f"\\{name}" for name, char in (_LETTERS | _SIGNS).items()}


def _escaped(word: str) -> str:
    """A word inside LaTeX: names of entries come from documents and may hold anything."""
    kept = re.sub(r"[^\w .+-]", " ", word).replace("_", r"\_")
    return re.sub(r"\s+", r"\\ ", kept.strip()) or r"\ "


def _joined(parts: object) -> list[str]:
    out: list[str] = []
    for part in parts:  # type: ignore[attr-defined]
        # \ell followed by a letter needs a space between them.
        if out and re.search(r"\\[A-Za-z]+$", out[-1]) and part[:1].isalpha():
            out.append(" ")
        out.append(part)
    return out


def _script(mark: str, text: str) -> str:
    if not text:
        return ""
    return f"{mark}{text}" if len(text) == 1 else f"{mark}{{{text}}}"


@lru_cache(maxsize=4096)
def parse(latex: str) -> Name:
    """The tree of a symbol's LaTeX.

    Raises:
        ValueError: it uses LaTeX beyond names.
    """
    tokens = [token for token in _TOKEN.findall(latex) if not token.isspace()]
    tree = _row(tokens, latex)
    if tokens:
        raise ValueError(f"unbalanced braces in {latex}")
    return tree


def _row(tokens: list[str], latex: str) -> Name:
    parts: list[Name] = []
    while tokens and tokens[0] != "}":
        token = tokens.pop(0)
        if token in "_^":
            if not parts:
                raise ValueError(f"a script without a base in {latex}")
            script = _group(tokens, latex)
            base = parts.pop()
            inner, below, above = base.parts if base.kind == "script" else (base, None, None)
            below, above = (script, above) if token == "_" else (below, script)
            parts.append(Name("script", "", (inner, below, above)))
        else:
            parts.append(_atom(token, tokens, latex))
    return parts[0] if len(parts) == 1 else Name("row", "", tuple(parts))


def _group(tokens: list[str], latex: str) -> Name:
    if not tokens:
        raise ValueError(f"something is missing at the end of {latex}")
    token = tokens.pop(0)
    if token != "{":
        return _atom(token, tokens, latex)
    inner = _row(tokens, latex)
    if not tokens or tokens.pop(0) != "}":
        raise ValueError(f"unbalanced braces in {latex}")
    return inner


def _atom(token: str, tokens: list[str], latex: str) -> Name:
    if token == "{":
        tokens.insert(0, token)
        return _group(tokens, latex)
    if token.startswith("\\"):
        return _command(token[1:], tokens, latex)
    if token.isdigit():
        return Name("number", token)
    return Name("letter" if token.isalpha() else "sign", token)


def _command(name: str, tokens: list[str], latex: str) -> Name:
    if name in ("mathrm", "text", "mathit", "mathsf"):
        return _upright(_group(tokens, latex))
    if name in _ACCENTS:
        return Name("accent", name, (_group(tokens, latex),))
    if name in _LETTERS:
        return Name("letter", _LETTERS[name])
    if name in _WORDS:
        return Name("word", name)
    if name in _SIGNS:
        return Name("sign", _SIGNS[name])
    if name in (",", ";", ":", "!", " ", "quad"):
        return Name("space")
    raise ValueError(f"\\{name} is no part of a name, in {latex}")


def _upright(name: Name) -> Name:
    """Letters that stand beside each other become a word."""
    if name.kind in ("letter", "number"):
        return Name("word", name.text)
    if name.kind not in ("row", "script"):
        return name
    parts: list[Name | None] = []
    for part in name.parts:
        part = None if part is None else _upright(part)
        last = parts[-1] if parts else None
        if name.kind == "row" and part and last and part.kind == last.kind == "word":
            parts[-1] = Name("word", last.text + part.text)
        else:
            parts.append(part)
    if name.kind == "row" and len(parts) == 1 and parts[0]:
        return parts[0]
    return Name(name.kind, "", tuple(parts))
