"""Markdown and HTML from templates, in a sandbox that escapes what it is told to."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from planner.base import resources
from planner.report.numbers import exactly, signed
from planner.typeset import HTML, LATEX, MATHML, TEXT, Box


def words(template: str, **given: Any) -> str:
    """Markdown from a template, without trailing space, at most one empty line in a row."""
    text = _environment(False).get_template(template).render(**given)
    text = "\n".join([line.rstrip(" \t") for line in text.split("\n")])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip() + "\n"


def page(template: str, **given: Any) -> str:
    """A page from a template, its style on one line and, where no script makes more, only for what
    is there, without empty lines, and without what HTML implies: end tags in tables and lists and
    of paragraphs, quotes around plain attributes (they weigh 8 %)."""
    text = _environment(True).get_template(template).render(**given)
    head, style, rest = re.split(r"(?s)(?<=<style>)(.*?)(?=</style>)", text, maxsplit=1)
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    style = re.sub(r"\s*([{};,])\s*|\n\s*|(?<=:) ", r"\1", style)
    body, script, rest = rest.partition("<script>")
    body = _PARAGRAPH.sub("", _IMPLIED.sub("", body))
    from jinja2.utils import url_quote

    linked = set(re.findall(r'href="#([^"]*)"', body))
    body = _ROW.sub(lambda row: row[0] if url_quote(row[2]) in linked else row[1], body)
    body = re.sub("<a>(.*?)</a>", r"\1", body)
    if not script:
        there = {word for words in _CLASSES.findall(body) for word in words.split()}
        style = _RULE.sub(lambda rule: rule[0] if _may_fit(rule[1], there) else "", style)
    body = _QUOTES.sub(lambda quoted: f"={quoted[1]}", body)  # quicker than a pattern with \1
    text = head + style + body + script + rest
    text = re.sub(r"(<table>|<tbody>|<article[^>]*>|</h4>)\n", r"\1", text)
    return re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"


#: End tags that the next tag implies; text of documents is escaped and holds none.
_IMPLIED = re.compile(
    r"</(?:td|th|tr|li|thead|tbody)>(?=\s*</?(?:td|th|tr|li|thead|tbody|tfoot|table|ul|ol)\b)"
    r"|</caption>\s*(?=<thead>)"
)
#: The id of a row or of a word in it: an instance of a quantity. It goes where nothing leads to it.
_ROW = re.compile(r'(<(?:tr|a)) id="([^"]*\[[^"]*)"')
#: Quotation marks in text are escaped, so that these are of attributes.
_QUOTES = re.compile(r'="([\w.#%:+\-\[\],]+)"(?=[\s>])')
_PARAGRAPH = re.compile(
    r"</p>(?=\s*<(?:(?:article|details|div|figure|footer|h[1-6]|ol|p|pre|section|ul)\b"
    r"|/(?:article|details|figcaption|footer|header|section)>))"
)
_CLASSES = re.compile(r'class="([^"]*)"')
_RULE = re.compile(r"([^{}]+)\{[^{}]*\}")


def _may_fit(selectors: str, there: set[str]) -> bool:
    """Whether one of a rule's selectors may fit, given the classes that there are."""
    each = selectors.split(",") if "(" not in selectors else [""]
    return any(there.issuperset(re.findall(r"\.([A-Za-z][\w-]*)", one)) for one in each)


@lru_cache(maxsize=2)
def _environment(escape: bool) -> Any:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            """Of plain data, and of where a loop stands, without the long way to the rule."""
            if type(obj) is SimpleNamespace and attribute in obj.__dict__:
                return obj.__dict__[attribute]
            if type(obj) is LoopContext and attribute[0] != "_":
                return getattr(obj, attribute)
            return super().getattr(obj, attribute)

    environment = Sandbox(
        loader=FileSystemLoader(resources.folder("templates")),
        bytecode_cache=_compiled(escape),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(md=escaped, code=code, slug=slug, plain=TEXT.write, signed=signed)
    environment.filters.update(latex=LATEX.write, mathml=MATHML.write, html=HTML.write)
    environment.filters.update(formula=formula, tall=tall, exactly=exact)
    return environment


def _compiled(escape: bool) -> Any:
    """Compiled templates, kept as Python keeps compiled modules; not at all where nothing may be
    written."""
    from jinja2 import FileSystemBytecodeCache

    class Quiet(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Any) -> None:
            with suppress(OSError):
                super().dump_bytecode(bucket)

    folder = resources.cache() / "templates"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if sys.dont_write_bytecode:
        return None
    # What is compiled hangs on whether text is escaped.
    return Quiet(str(folder), f"{'html' if escape else 'md'}-%s.cache")


#: What does not stand on one line, and how much markup is read at a glance.
TALL = frozenset(("fraction", "at"))
LONG = 450


def formula(box: Box, name: Box | None = None) -> str:
    """A formula, behind what it gives, as HTML: MathML where it takes more than a line, unless it
    is so long that nobody sees its fractions at once; else text, which weighs a third."""
    if tall(box):
        equals = "" if name is None else f"{MATHML.bare(name)}<mo>=</mo>"
        text = f"<math>{equals}{MATHML.bare(box)}</math>"
        if len(text) < LONG:
            return text
    return ("" if name is None else f"{HTML.write(name)} = ") + HTML.write(box)


def exact(value: Any) -> str:
    """A number in full, without a unit."""
    return exactly(value, "1")


def tall(box: Box) -> bool:
    """Whether a formula takes more than a line."""
    return box.kind in TALL or any(map(tall, box.parts))


_SPECIAL = re.compile(r"[\\`*_\[\]|$~&<>]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BEGINS = re.compile(r"\A\s*(?=#|[-+] |\d+[.)] )")  # what would be a heading or a list


def escaped(text: object) -> str:
    """Words in running Markdown or in a table cell, taken literally."""
    words = _SPECIAL.sub(lambda c: _ENTITIES.get(c[0], f"\\{c[0]}"), str(text))
    return _BEGINS.sub(r"\g<0>\\", words)


def code(text: object) -> str:
    """Inline code that holds any text, in a table cell too: a bar is written as one there."""
    words = str(text).replace("|", "\u2223")
    fence = "`" * (max(map(len, re.findall("`+", words)), default=0) + 1)
    space = " " if words.startswith("`") or words.endswith("`") or not words.strip() else ""
    return f"{fence}{space}{words}{space}{fence}"


def slug(heading: object) -> str:
    """The anchor that GitHub gives to a heading."""
    kept = re.sub(r"[^\w\- ]", "", str(heading).lower())
    return kept.replace(" ", "-")
