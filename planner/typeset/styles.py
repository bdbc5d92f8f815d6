"""Four ways to write boxes down: LaTeX for Markdown, MathML for HTML, plain text for terminals, and
text with marked names for the cells of HTML tables, where MathML would weigh a multiple."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from typing import Any

from planner.base import resources
from planner.base.numbers import GROUP, split_digits
from planner.typeset.boxes import ACCENTS, EMPTY, LETTERS, SIGNS, WORDS, Box

# How tightly a kind of box binds; an argument that binds less gets parentheses.
SUM, QUOTIENT, PRODUCT, SIGN, ATOM = range(5)
BINDS = {
    **dict.fromkeys(("sum", "negative", "total", "largest", "which"), SUM),
    **dict.fromkeys(("product", "fraction"), PRODUCT),
    "power": SIGN,
}
NUMBERS = ("number", "value")
#: By style, the pattern of each kind of box, which takes its parts or its text.
_PATTERNS = resources.load_beside(__file__)


class Style:
    """A markup for boxes, with its parentheses and times signs.

    A box is written by the method of its kind, or else by its pattern, which takes its parts, or
    the text of a box without parts; without a pattern they are written as they are.
    """

    patterns: Mapping[str, str]
    #: How tightly the parts of a kind have to bind, where a sum needs parentheses among them.
    levels: Mapping[str, tuple[int, ...]] = {
        "power": (ATOM, SUM),
        **dict.fromkeys(("total", "largest", "which"), (SUM, QUOTIENT)),
    }
    binding: Mapping[str, int] = BINDS
    plus = " + "
    minus = "-"
    minus_between = " - "
    times = " × "
    beside = " "
    comma = ", "

    def write(self, box: Box) -> str:
        """Return the markup of a box."""
        method: Any = getattr(self, f"_{box.kind}", None)
        if method is not None:
            return method(box)  # type: ignore[no-any-return]
        pattern = self.patterns.get(box.kind, "%s")
        if not box.parts:
            return pattern % self.escape_text(box.data)
        levels = self.levels.get(box.kind, (SUM,) * len(box.parts))
        return pattern % tuple(map(self._wrap_box, box.parts, levels))

    def escape_text(self, words: Any) -> str:
        """Escape words for the markup."""
        return str(words)

    def format_number(self, text: str, power: int | None) -> str:
        """Format digits, with a power of ten if there is one."""
        text = text.replace("-", "−")
        return text if power is None else f"{text}e{power}"

    def find_level(self, box: Box) -> int:
        """Return how tightly the markup of a box binds."""
        if box.kind in NUMBERS:
            text, power = split_digits(box.data)
            return SUM if text[0] == "-" else PRODUCT if power is not None else ATOM
        return self.binding.get(box.kind, ATOM)

    def _wrap_box(self, box: Box, level: int) -> str:
        """Return the markup of an argument, in parentheses if it binds less than `level`."""
        text, loose = self.write(box), level > SUM and self.find_level(box) < level
        return self.patterns["parentheses"] % text if loose else text

    def _number(self, box: Box) -> str:
        """Write digits, and a power of ten where the number is long."""
        return self.format_number(*split_digits(box.data))

    _value = _number

    @lru_cache(maxsize=8192)  # noqa: B019  (styles stay; each name stands in many formulas)
    def _name(self, box: Box) -> str:
        """Write the box that a name is made of, a letter with its scripts."""
        return self.write(box.parts[0])

    def _row(self, box: Box) -> str:
        """Write boxes side by side."""
        return "".join(map(self.write, box.parts))

    def _negative(self, box: Box) -> str:
        """Write a minus and what follows it, sums in parentheses."""
        return self.minus + self._wrap_box(box.parts[0], QUOTIENT)

    def _sum(self, box: Box) -> str:
        """Write terms with signs between them; each binds as tightly as its place needs."""
        out = []
        for i, (minus, part) in enumerate(zip(box.data, box.parts, strict=True)):
            sign = self.minus_between if minus else self.plus
            # A fold on the left would swallow what follows.
            open_ended = part.kind in ("total", "largest") and i < len(box.parts) - 1
            closed = minus or open_ended or part.kind == "sum" or (part.kind in NUMBERS and i)
            text = self._wrap_box(part, QUOTIENT if closed else SUM)
            out.append((sign if i else self.minus if minus else "") + text)
        return "".join(out)

    def _product(self, box: Box) -> str:
        """Write factors side by side, with a sign where two numbers would run together."""
        out: list[str] = []
        for i, part in enumerate(box.parts):
            last = i == len(box.parts) - 1 and part.kind in ("total", "largest")
            if out:
                before = box.parts[i - 1].kind
                first = part.parts[0] if part.kind in ("power", "fraction") else part
                due = first.kind in NUMBERS or before == "value"
                out.append(self.times if due else self.beside)
            out.append(self._wrap_box(part, SUM if last else PRODUCT))
        return "".join(out)

    def _max(self, box: Box) -> str:
        """Write a function with its arguments in parentheses."""
        return self.patterns["called"] % (box.kind, self.comma.join(map(self.write, box.parts)))

    _exp = _tanh = _ln = _min = _max


class _Latex(Style):
    """LaTeX, as GitHub and KaTeX render it between dollar signs."""

    times = r" \times "
    beside = r"\,"
    patterns: Mapping[str, str] = {
        **_PATTERNS["latex"],
        **{name: rf"\{name}{{%s}}" for name in ACCENTS},
    }
    commands: Mapping[str, str] = {char: f"\\{name}" for name, char in (LETTERS | SIGNS).items()}

    def escape_text(self, words: Any) -> str:
        """Escape words; digits of a group keep their comma, without the space that LaTeX puts
        behind it."""
        escaped = words.replace("%", r"\%").replace("_", r"\_")
        escaped = re.sub(r"(?<=\d),(?=\d{3})", "{,}", escaped)
        return self.commands.get(words) or escaped.replace("−", "-").replace(" ", r"\ ")

    def format_number(self, text: str, power: int | None) -> str:
        """Format digits, with the power of ten that they are times."""
        text = text.replace(GROUP, "{,}")
        return text if power is None else rf"{text} \times 10^{{{power}}}"

    def _words(self, box: Box) -> str:
        """Write words upright; characters that could end the group become spaces."""
        kept = "".join(c if c.isalnum() or c in " .,:;()/+-" else " " for c in box.data)
        return rf"\text{{{kept}}}"

    def _power(self, box: Box) -> str:
        """Write a power, its base in parentheses unless it is one letter."""
        base, exponent = box.parts
        text = self._wrap_box(base, ATOM)
        # A name with a superscript gets parentheses before its power.
        if base.kind == "name" and "^" in text:
            text = self.patterns["parentheses"] % text
        return rf"{text}^{{{self.write(exponent)}}}"

    def _word(self, box: Box) -> str:
        """Escape the name of an entry, which comes from a document and may hold anything."""
        if box.data in WORDS:
            return f"\\{box.data}"
        kept = re.sub(r"[^\w .+-]", " ", box.data).replace("_", r"\_")
        spaced = re.sub(r"\s+", r"\\ ", kept.strip()) or r"\ "
        return rf"\mathrm{{{spaced}}}"

    def _row(self, box: Box) -> str:
        """Write boxes side by side, apart from a command in front of a letter."""
        text = ""
        for part in map(self.write, box.parts):
            # \ell followed by a letter needs a space between them.
            apart = re.search(r"\\[A-Za-z]+$", text) and part[:1].isalpha()
            text += f" {part}" if apart else part
        return text

    def _script(self, box: Box) -> str:
        """Write a letter with what stands below and above it, in braces if longer than one
        character."""
        base, *scripts = map(self.write, box.parts)
        for mark, text in zip("_^", scripts, strict=True):
            base += f"{mark}{text}" if len(text) == 1 else f"{mark}{{{text}}}" if text else ""
        return base


class _MathML(Style):
    """MathML Core, which browsers render without a script."""

    plus = "<mo>+</mo>"
    minus = '<mo form="prefix">−</mo>'
    minus_between = "<mo>−</mo>"
    times = "<mo>×</mo>"
    beside = ""  # factors stand side by side, as in papers
    comma = "<mo>,</mo>"
    patterns: Mapping[str, str] = {
        **_PATTERNS["mathml"],
        **{k: f'<mover accent="true">%s<mo>{a}</mo></mover>' for k, a in ACCENTS.items()},
    }

    def escape_text(self, words: Any) -> str:
        """Escape words for markup."""
        return escape(words)

    def format_number(self, text: str, power: int | None) -> str:
        """Format digits as one element, with the power of ten that they are times."""
        sign = self.minus if text.startswith("-") else ""
        number = f"{sign}<mn>{text.removeprefix('-')}</mn>"
        if power is None:
            return f"<mrow>{number}</mrow>" if sign else number
        return f"<mrow>{number}<mo>×</mo><msup><mn>10</mn><mn>{power}</mn></msup></mrow>".replace(
            "<mn>-", "<mn>−"
        )

    def write_bare(self, box: Box) -> str:
        """Return the markup without an enclosing row, which the context implies."""
        mathml, depth = self.write(box), 0
        for tag in re.finditer(r"<(/?)mrow>", mathml):
            depth += -1 if tag[1] else 1
            if depth == 0:
                whole = mathml.startswith("<mrow>") and tag.end() == len(mathml)
                return mathml[6:-7] if whole else mathml
        return mathml

    def _write_one(self, box: Box, level: int = SUM) -> str:
        """Return one element, where MathML counts its children."""
        text = self._wrap_box(box, level)
        bare = box.kind in ("sum", "product", "negative") and self.find_level(box) >= level
        return f"<mrow>{text}</mrow>" if bare else text

    def _fraction(self, box: Box) -> str:
        """Write numerator and denominator, each as one element."""
        levels = self.levels.get(box.kind, (SUM, SUM))
        return self.patterns[box.kind] % tuple(map(self._write_one, box.parts, levels))

    _power = _fraction

    def _row(self, box: Box) -> str:
        """Write boxes side by side as one element."""
        return f"<mrow>{super()._row(box)}</mrow>"

    def _script(self, box: Box) -> str:
        """Write a letter with what stands below and above it; an empty place has no element."""
        base, below, above = ("" if part == EMPTY else self.write(part) for part in box.parts)
        tag = f"m{'sub' if below else ''}{'sup' if above else ''}"
        return f"<{tag}>{base}{below}{above}</{tag}>"


class _PlainText(Style):
    """Plain text for terminals, JSON and search: one line, Unicode signs."""

    minus = "−"
    minus_between = " − "
    beside = " · "
    patterns: Mapping[str, str] = _PATTERNS["text"]
    levels: Mapping[str, tuple[int, ...]] = {
        **Style.levels,
        "power": (ATOM, ATOM),
        "fraction": (PRODUCT, SIGN),
    }
    # The line of a fraction is not seen here: a / b is a factor in parentheses only.
    binding: Mapping[str, int] = {**BINDS, "fraction": QUOTIENT}

    def _at(self, box: Box) -> str:
        """Write a value at the entry where another one is largest, in words."""
        body, index, by = map(self.write, box.parts)
        return f"[{body}] where {by} is largest over {index}"

    def _script(self, box: Box) -> str:
        """Write a letter with `_` and `^` before what stands below and above it."""
        base, below, above = map(self.write, box.parts)
        return base + (f"_{below}" if below else "") + (f"^{above}" if above else "")


class _Html(_PlainText):
    """Letters as variables, scripts as HTML; accents are left out."""

    beside = "\u2009"
    patterns: Mapping[str, str] = {**_PATTERNS["text"], **_PATTERNS["html"]}
    levels: Mapping[str, tuple[int, ...]] = {**_PlainText.levels, "power": (ATOM, SUM)}

    def escape_text(self, words: Any) -> str:
        """Escape words for markup."""
        return escape(str(words))

    def format_number(self, text: str, power: int | None) -> str:
        """Format digits, with the power of ten that they are times."""
        text = text.replace("-", "−")
        return text if power is None else f"{text}·10<sup>{str(power).replace('-', '−')}</sup>"

    def _at(self, box: Box) -> str:
        """Write a value with the maximum that picks it as an index."""
        return "[{}]<sub>arg max {}: {}</sub>".format(*map(self.write, box.parts))

    def _script(self, box: Box) -> str:
        """Write a letter with what stands below and above it; slanted where all of it is one
        symbol."""
        base, index, _ = box.parts
        text, below, above = map(self.write, box.parts)
        if base.kind == "letter" and index != EMPTY and _is_slanted(index):
            text, below = f"<i>{base.data}<sub>{TEXT.write(index)}</sub></i>", ""
        for tag, script in (("sub", below), ("sup", above)):
            text += f"<{tag}>{script}</{tag}>" if script else ""
        return text

    def _row(self, box: Box) -> str:
        """Write boxes side by side; slanted where all of it is one symbol."""
        slanted = box != EMPTY and _is_slanted(box)
        return f"<i>{TEXT.write(box)}</i>" if slanted else super()._row(box)


def _is_slanted(name: Box) -> bool:
    """Decide whether a name is made of letters alone."""
    return name.kind == "letter" or (name.kind == "row" and all(map(_is_slanted, name.parts)))


LATEX = _Latex()
MATHML = _MathML()
TEXT = _PlainText()
HTML = _Html()
