"""Markdown and HTML from templates, in a sandbox that escapes what it is told to."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from planner.base import files, resources
from planner.base.errors import Fault, Place, PlanError
from planner.documents.source import Document
from planner.report.numbers import exactly, signed
from planner.typeset import HTML, LATEX, MATHML, TEXT, Box


def words(template: str, **given: Any) -> str:
    """Markdown from a template, without trailing space, at most one empty line in a row."""
    text = _rendered(False, template, given)
    text = "\n".join([line.rstrip(" \t") for line in text.split("\n")])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip() + "\n"


def page(template: str, **given: Any) -> str:
    """A page from a template, its style on one line and, where no script makes more, only for what
    is there, without empty lines, and without what HTML implies: end tags in tables and lists and
    of paragraphs, quotes around plain attributes (they weigh 8 %). One without a style is kept as
    it is."""
    text = _rendered(True, template, given)
    if "<style>" not in text or "</style>" not in text:
        return text
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
    text = re.sub(r"(<table>|<tbody>|</table></div>|<article[^>]*>|</h4>)\n", r"\1", text)
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


#: Bytes of a template at most.
MAX_TEMPLATE = 1_000_000
#: The folder of templates that are taken before ours.
_OWN: ContextVar[str | None] = ContextVar("templates", default=None)


@contextmanager
def templates_of(folder: str | Path | None) -> Iterator[None]:
    """Until the end, a template in a folder is taken in the place of ours of the same name.

    Raises:
        PlanError: there is no such folder, or it may not be read.
    """
    if folder is not None:
        if not files.inside(folder):
            raise files.outside(Place(str(folder)))
        if not Path(folder).is_dir():
            raise PlanError(Fault("no such folder", Place(str(folder)), "a folder of templates"))
    token = _OWN.set(None if folder is None else str(folder))
    try:
        yield
    finally:
        _OWN.reset(token)


@contextmanager
def of_team(document: Document) -> Iterator[None]:
    """Until the end, the templates that a document's team names in trainplan.yaml, unless others
    are asked for.

    Raises:
        PlanError: as for ``templates_of``.
    """
    team = document.defaults
    own: str | Path | None = _OWN.get()
    if own is None and team is not None:
        own = team.templates
    with templates_of(own):
        yield


def _rendered(escape: bool, template: str, given: Mapping[str, Any]) -> str:
    """What a template makes.

    Raises:
        PlanError: one of somebody's own has a fault, at its line.
    """
    folder = _OWN.get()
    try:
        text: str = _environment(escape, folder).get_template(template).render(**given)
        return text
    except Exception as error:
        from jinja2 import TemplateError

        if folder is None or isinstance(error, PlanError):
            raise
        at: tuple[str, int | None] = (str(Path(folder, template)), None)
        for frame, line in traceback.walk_tb(error.__traceback__):  # the innermost of theirs
            if files.below(frame.f_code.co_filename, folder):
                at = frame.f_code.co_filename, line
        at = getattr(error, "filename", None) or at[0], getattr(error, "lineno", None) or at[1]
        kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
        raise PlanError(Fault(f"{kind}{error}", Place(*at), "a Jinja template")) from None


@lru_cache(maxsize=4)
def _environment(escape: bool, own: str | None = None) -> Any:
    from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined, TemplateNotFound
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

    class Inside(FileSystemLoader):
        """Templates of a folder; what a link in it leads to outside is none."""

        def get_source(self, environment: Any, template: str) -> Any:
            path = Path(str(self.searchpath[0]), *template.split("/"))
            if not files.below(path, self.searchpath[0]) or not files.is_file(path):
                raise TemplateNotFound(template)
            place, wanted = Place(str(path)), "a template in UTF-8"
            text = files.read_text(path, MAX_TEMPLATE, place, wanted)
            return text, str(path), lambda: False  # it may change any time

    templates = resources.folder("templates")
    our_templates = FileSystemLoader(templates)
    environment = Sandbox(
        loader=our_templates if own is None else ChoiceLoader([Inside(own), our_templates]),
        bytecode_cache=_compiled(escape) if own is None else None,
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
