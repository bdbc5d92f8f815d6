"""Four ways to write boxes down: LaTeX for Markdown, MathML for HTML, plain text for terminals, and
text with marked names for the cells of HTML tables, where MathML would weigh a multiple."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from html import escape
from typing import Any

from planner.base.display import THIN, exact_text, rounded, scientific, significant
from planner.typeset.boxes import Box

__all__ = ["HTML", "LATEX", "MATHML", "TEXT", "Style", "digits"]

# How tightly a kind of box binds; an argument that binds less gets parentheses.
SUM, PRODUCT, SIGN, ATOM = range(4)
BINDS = {
    "sum": SUM,
    "negative": SUM,
    "total": SUM,
    "largest": SUM,
    "which": SUM,
    "at": ATOM,
    "product": PRODUCT,
    "fraction": PRODUCT,
    "power": SIGN,
}
NUMBERS = ("number", "value")
LONGEST = 40  # digits of an exact integer


@lru_cache(maxsize=8192, typed=True)  # each number is written in several styles and places
def digits(value: Any) -> tuple[str, int | None]:
    """A number as digits and, where it is written with one, a power of ten.

    Integers are exact. Other values are exact where few decimals say them, else rounded to six
    digits.
    """
    if type(value) is int and -(10**12) < value < 10**12:
        return exact_text(value), None
    exact = Fraction(value)
    if exact.denominator == 1 and isinstance(value, (int, Fraction)):
        text = exact_text(exact)
        if len(text) <= LONGEST:
            return text, None
    else:
        text = exact_text(exact) if isinstance(value, Fraction) else "/"
        if "/" not in text and len(text) <= 14:
            return text, None
        _, power = rounded(exact, 6)
        if -12 < power < 10:
            # One decimal at least, so that a rounded number does not look like an exact one.
            return _trimmed(significant(exact, max(6, power + 7))), None
    mantissa, _, power_text = scientific(exact, 6).partition("e")
    return _trimmed(mantissa), int(power_text or 0)


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


class Style:
    """Base of the styles: which arguments need parentheses, where a times sign is due."""

    def write(self, box: Box) -> str:
        """The markup of a box."""
        method: Any = getattr(self, f"_{box.kind}")
        return method(box)  # type: ignore[no-any-return]

    def _at_least(self, box: Box, level: int) -> str:
        """The markup of an argument, in parentheses where it binds less than `level`."""
        text = self.write(box)
        return self.parentheses(text) if self.binds(box) < level else text

    def _factor(self, box: Box, level: int = PRODUCT) -> str:
        return self._at_least(box, level)

    def binds(self, box: Box) -> int:
        if box.kind in NUMBERS:
            _, power = digits(box.data)
            return SUM if box.data < 0 else PRODUCT if power is not None else ATOM
        return BINDS.get(box.kind, ATOM)

    def _number(self, box: Box) -> str:
        return self.number(*digits(box.data))

    _value = _number

    def _negative(self, box: Box) -> str:
        return self.minus + self._at_least(box.parts[0], PRODUCT)

    def _sum(self, box: Box) -> str:
        out = []
        for i, (minus, part) in enumerate(zip(box.data, box.parts, strict=True)):
            sign = self.minus_between if minus else self.plus
            # A fold on the left would swallow what follows.
            open_ended = part.kind in ("total", "largest") and i < len(box.parts) - 1
            text = self._at_least(
                part,
                PRODUCT
                if minus or open_ended or part.kind == "sum" or (part.kind in NUMBERS and i)
                else SUM,
            )
            out.append((sign if i else self.minus if minus else "") + text)
        return "".join(out)

    def _product(self, box: Box) -> str:
        out: list[str] = []
        for i, part in enumerate(box.parts):
            last = i == len(box.parts) - 1 and part.kind in ("total", "largest")
            text = self._factor(part, SUM if last else PRODUCT)
            if out:
                before = box.parts[i - 1].kind
                first = part.parts[0] if part.kind in ("power", "fraction") else part
                due = first.kind in NUMBERS or before == "value"
                out.append(self.times if due else self.beside)
            out.append(text)
        return "".join(out)

    def _ceil(self, box: Box) -> str:
        return self.wrapped("⌈", self.write(box.parts[0]), "⌉")

    def _floor(self, box: Box) -> str:
        return self.wrapped("⌊", self.write(box.parts[0]), "⌋")

    def _max(self, box: Box) -> str:
        return self.called(box.kind, [self.write(part) for part in box.parts])

    _exp = _tanh = _ln = _min = _max

    plus = " + "
    carried = "+ "  # the same at the start of a line
    minus = "-"
    minus_between = " - "
    times = " × "
    beside = " "

    def number(self, text: str, power: int | None) -> str:
        raise NotImplementedError

    def parentheses(self, text: str) -> str:
        raise NotImplementedError

    def wrapped(self, left: str, text: str, right: str) -> str:
        raise NotImplementedError

    def called(self, name: str, arguments: list[str]) -> str:
        raise NotImplementedError


class _Latex(Style):
    times = r" \times "
    beside = r"\,"

    def number(self, text: str, power: int | None) -> str:
        text = text.replace(THIN, r"\,")
        return text if power is None else rf"{text} \times 10^{{{power}}}"

    def parentheses(self, text: str) -> str:
        return rf"\left({text}\right)"

    def _fraction(self, box: Box) -> str:
        above, below = (self.write(part) for part in box.parts)
        return rf"\frac{{{above}}}{{{below}}}"

    def wrapped(self, left: str, text: str, right: str) -> str:
        names = {"⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor"}
        return rf"\left{names[left]} {text} \right{names[right]}"

    def called(self, name: str, arguments: list[str]) -> str:
        return rf"\{name}\left({', '.join(arguments)}\right)"

    def _name(self, box: Box) -> str:
        return box.data.latex()  # type: ignore[no-any-return]

    def _words(self, box: Box) -> str:
        return self._upright(box.data)

    def _upright(self, words: str) -> str:
        kept = "".join(c if c.isalnum() or c in " .,:;()/+-" else " " for c in words)
        return rf"\text{{{kept}}}"

    def _power(self, box: Box) -> str:
        base, exponent = box.parts
        text = self._at_least(base, ATOM)
        # A name that carries a superscript already takes the power from outside.
        if base.kind == "name" and "^" in text:
            text = self.parentheses(text)
        return rf"{text}^{{{self.write(exponent)}}}"

    def _root(self, box: Box) -> str:
        return rf"\sqrt{{{self.write(box.parts[0])}}}"

    def _total(self, box: Box) -> str:
        return rf"\sum_{{{self._upright(box.data)}}} {self._at_least(box.parts[0], PRODUCT)}"

    def _largest(self, box: Box) -> str:
        return rf"\max_{{{self._upright(box.data)}}} {self._at_least(box.parts[0], PRODUCT)}"

    def _which(self, box: Box) -> str:
        return rf"\arg\max_{{{self._upright(box.data)}}} {self._at_least(box.parts[0], PRODUCT)}"

    def _at(self, box: Box) -> str:
        body, by = (self.write(part) for part in box.parts)
        return rf"\left[{body}\right]_{{\arg\max_{{{self._upright(box.data)}}} {by}}}"


class _MathML(Style):
    plus = "<mo>+</mo>"
    carried = '<mo form="infix">+</mo>'
    minus = '<mo form="prefix">−</mo>'
    minus_between = "<mo>−</mo>"
    times = "<mo>×</mo>"
    beside = '<mspace width=".2em"/>'

    def number(self, text: str, power: int | None) -> str:
        if text.startswith("-"):
            text, sign = text[1:], self.minus
        else:
            sign = ""
        number = f"{sign}<mn>{text}</mn>"
        if power is None:
            return f"<mrow>{number}</mrow>" if sign else number
        return f"<mrow>{number}<mo>×</mo><msup><mn>10</mn><mn>{power}</mn></msup></mrow>".replace(
            "<mn>-", "<mn>−"
        )

    def parentheses(self, text: str) -> str:
        return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>"

    def _fraction(self, box: Box) -> str:
        above, below = box.parts
        return f"<mfrac>{self._one(above)}{self._one(below)}</mfrac>"

    def _one(self, box: Box, level: int = SUM) -> str:
        """One element, where MathML counts its children."""
        text = self._at_least(box, level)
        bare = box.kind in ("sum", "product", "negative") and self.binds(box) >= level
        return f"<mrow>{text}</mrow>" if bare else text

    def wrapped(self, left: str, text: str, right: str) -> str:
        return f"<mrow><mo>{left}</mo>{text}<mo>{right}</mo></mrow>"

    def called(self, name: str, arguments: list[str]) -> str:
        inner = "<mo>,</mo>".join(arguments)
        return f"<mrow><mi>{name}</mi><mo>(</mo>{inner}<mo>)</mo></mrow>"

    def _name(self, box: Box) -> str:
        return box.data.mathml()  # type: ignore[no-any-return]

    def _words(self, box: Box) -> str:
        return f"<mtext>{escape(box.data)}</mtext>"

    def _power(self, box: Box) -> str:
        base, exponent = box.parts
        return f"<msup>{self._one(base, ATOM)}{self._one(exponent)}</msup>"

    def _root(self, box: Box) -> str:
        return f"<msqrt>{self.write(box.parts[0])}</msqrt>"

    def _under(self, sign: str, box: Box) -> str:
        index = f"<mtext>{escape(box.data)}</mtext>"
        body = self._at_least(box.parts[0], PRODUCT)
        return f"<mrow><munder>{sign}{index}</munder>{body}</mrow>"

    def _total(self, box: Box) -> str:
        return self._under("<mo>∑</mo>", box)

    def _largest(self, box: Box) -> str:
        return self._under("<mo>max</mo>", box)

    def _which(self, box: Box) -> str:
        return self._under("<mo>arg max</mo>", box)

    def _at(self, box: Box) -> str:
        body, by = (self.write(part) for part in box.parts)
        index = f"<mtext>{escape(box.data)}</mtext>"
        below = f"<mrow><munder><mo>arg max</mo>{index}</munder>{by}</mrow>"
        return f"<msub><mrow><mo>[</mo>{body}<mo>]</mo></mrow>{below}</msub>"


class _Text(Style):
    minus = "−"
    minus_between = " − "
    beside = " · "

    def number(self, text: str, power: int | None) -> str:
        text = text.replace("-", "−")
        return text if power is None else f"{text}e{power}"

    def parentheses(self, text: str) -> str:
        return f"({text})"

    def _fraction(self, box: Box) -> str:
        above, below = box.parts
        return f"{self._factor(above)} / {self._at_least(below, SIGN)}"

    def _factor(self, box: Box, level: int = PRODUCT) -> str:
        # The line of a fraction is not seen here: a / b is a factor in parentheses only.
        return super()._at_least(box, SIGN if box.kind == "fraction" else level)

    def wrapped(self, left: str, text: str, right: str) -> str:
        return f"{left}{text}{right}"

    def called(self, name: str, arguments: list[str]) -> str:
        return f"{name}({', '.join(arguments)})"

    def _name(self, box: Box) -> str:
        return box.data.plain()  # type: ignore[no-any-return]

    def _words(self, box: Box) -> str:
        return str(box.data)

    def _power(self, box: Box) -> str:
        base, exponent = box.parts
        return f"{self._at_least(base, ATOM)}^{self._at_least(exponent, ATOM)}"

    def _root(self, box: Box) -> str:
        return f"√({self.write(box.parts[0])})"

    def _total(self, box: Box) -> str:
        return f"Σ[{box.data}] {self._at_least(box.parts[0], PRODUCT)}"

    def _largest(self, box: Box) -> str:
        return f"max[{box.data}] {self._at_least(box.parts[0], PRODUCT)}"

    def _which(self, box: Box) -> str:
        return f"arg max[{box.data}] {self._at_least(box.parts[0], PRODUCT)}"

    def _at(self, box: Box) -> str:
        body, by = (self.write(part) for part in box.parts)
        return f"[{body}] where {by} is largest over {box.data}"


class _Html(_Text):
    beside = "\u2009"

    def number(self, text: str, power: int | None) -> str:
        text = text.replace("-", "−")
        return text if power is None else f"{text}e{power}".replace("-", "−")

    def _name(self, box: Box) -> str:
        return box.data.html()  # type: ignore[no-any-return]

    def _words(self, box: Box) -> str:
        return escape(str(box.data))

    def _power(self, box: Box) -> str:
        base, exponent = box.parts
        return f"{self._at_least(base, ATOM)}<sup>{self.write(exponent)}</sup>"

    def _under(self, sign: str, box: Box) -> str:
        body = self._at_least(box.parts[0], PRODUCT)
        return f"{sign}<sub>{escape(box.data)}</sub>\u2009{body}"

    def _total(self, box: Box) -> str:
        return self._under("∑", box)

    def _largest(self, box: Box) -> str:
        return self._under("max", box)

    def _which(self, box: Box) -> str:
        return self._under("arg max", box)

    def _at(self, box: Box) -> str:
        body, by = (self.write(part) for part in box.parts)
        return f"[{body}]<sub>arg max {escape(box.data)}: {by}</sub>"


LATEX = _Latex()
MATHML = _MathML()
TEXT = _Text()
HTML = _Html()
