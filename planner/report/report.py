"""Markdown and HTML from templates, in a sandbox that escapes all text unless told not to."""

from __future__ import annotations

import copy
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.base import files, resources
from planner.base.errors import Place, PlanError
from planner.base.sandbox import BOUNDS, make_apart, make_sandbox
from planner.base.version import __version__
from planner.typeset.boxes import Box, is_tall
from planner.typeset.styles import HTML, LATEX, MATHML, TEXT


def render_md(template: str, **given: Any) -> str:
    """Render Markdown from a template."""
    return _render_template(False, template, given)


def render_page(template: str, **given: Any) -> str:
    """Render a page from a template."""
    return _render_template(True, template, given)


def _strip_blanks(text: str) -> str:
    """Strip trailing space and repeated empty lines."""
    text = "\n".join([line.rstrip(" \t") for line in text.split("\n")])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip() + "\n"


#: Bytes of a template at most.
MAX_TEMPLATE = 1_000_000
#: The folder of custom templates, which take precedence.
_OWN: ContextVar[str | None] = ContextVar("templates", default=None)


@contextmanager
def use_templates(folder: str | Path) -> Iterator[None]:
    """Use the templates of a folder in place of the built-in ones of the same name.

    Raises:
        PlanError: there is no such folder.
    """
    if not Path(folder).is_dir():
        raise PlanError("no such folder", Place(str(folder)), "a folder of templates")
    with files.set_variable(_OWN, str(folder)):
        yield


def _render_template(escape: bool, template: str, given: Mapping[str, Any]) -> str:
    """Render a template; a custom one is rendered in a process of its own, with limits.

    Args:
        escape: whether to escape text for HTML; otherwise the result is Markdown.
        template: the name of the template in its folder.
        given: values by name, which the template reads.

    Raises:
        PlanError: a custom template has an error, at its line, or exceeds its limits.
    """
    folder, given = _OWN.get(), {"version": __version__, **given}
    if folder is None:
        return _fill_template(escape, template, given)
    given = copy.deepcopy(given)  # all fields are computed here
    made = make_apart(_render_custom, folder, escape, template, given)
    if isinstance(made, str):
        return made
    if made is None:
        raise PlanError("takes too much", Place(str(Path(folder, template))), BOUNDS)
    raise PlanError(made[2], Place(made[0], made[1]), "a Jinja template")


def _render_custom(folder: str, escape: bool, template: str, given: Mapping[str, Any]) -> Any:
    """Render a custom template.

    Args:
        folder: the user's folder of templates.
        escape, template, given: as for ``_render_template``.

    Returns:
        The text, or the error: file, line and message.
    """
    try:
        return _fill_template(escape, template, given, folder)
    except MemoryError:
        raise
    except Exception as error:
        at: tuple[str, int | None] = (str(Path(folder, template)), None)
        for frame, line in traceback.walk_tb(error.__traceback__):  # the innermost of theirs
            if files.is_within(frame.f_code.co_filename, folder):
                at = frame.f_code.co_filename, line
        at = getattr(error, "filename", None) or at[0], getattr(error, "lineno", None) or at[1]
        kind = "" if type(error).__module__.startswith("jinja2.") else f"{type(error).__name__}: "
        return *at, f"{kind}{error}"


def _fill_template(
    escape: bool, template: str, given: Mapping[str, Any], own: str | None = None
) -> str:
    """Render a template, without trailing space and repeated empty lines.

    Args:
        escape, template, given: as for ``_render_template``.
        own: a folder whose templates replace those built in; None for none.
    """
    text: str = _make_environment(escape, own).get_template(template).render(given)
    return _strip_blanks(text)


@lru_cache(maxsize=4)
def _make_environment(escape: bool, own: str | None = None) -> Any:
    """Make the sandbox of templates with its filters; cached.

    Args:
        escape: whether to escape text for HTML.
        own: a folder whose templates replace those built in; with one, nothing is cached on disk.
    """

    from jinja2 import ChoiceLoader, FileSystemLoader, TemplateNotFound

    class Inside(FileSystemLoader):
        """Templates of a folder; what a link in it leads to outside is none."""

        def get_source(self, environment: Any, template: str) -> Any:
            path = Path(str(self.searchpath[0]), *template.split("/"))
            if not files.is_within(path, self.searchpath[0]) or not files.is_file(path):
                raise TemplateNotFound(template)
            place, wanted = Place(str(path)), "a template in UTF-8"
            text = files.read_text(path, MAX_TEMPLATE, place, wanted)
            return text, str(path), lambda: False  # it may change any time

    our_templates = FileSystemLoader(resources.folder("templates"))
    environment = make_sandbox(
        loader=our_templates if own is None else ChoiceLoader([Inside(own), our_templates]),
        bytecode_cache=_get_byte_cache(escape) if own is None else None,
        autoescape=escape,
        lstrip_blocks=True,
    )
    environment.filters.update(
        md=escape_md, code=format_code, slug=make_anchor, plain=TEXT.write, formula=typeset_formula
    )
    environment.filters.update(latex=LATEX.write, mathml=MATHML.write, html=HTML.write)
    return environment


def _get_byte_cache(escape: bool) -> Any:
    """Return the cache of compiled templates, beside Python's own; None if caching is off."""
    from jinja2 import FileSystemBytecodeCache

    class Quiet(FileSystemBytecodeCache):
        """A cache that is left as it is where it cannot be written."""

        def dump_bytecode(self, bucket: Any) -> None:
            with suppress(OSError):
                super().dump_bytecode(bucket)

    folder = None if sys.dont_write_bytecode else resources.make_code_folder("markup")
    # Compiled templates depend on whether text is escaped.
    name = f"{'html' if escape else 'md'}-%s.cache"
    return None if folder is None else Quiet(str(folder), name)


#: The most characters of markup for MathML.
LONG = 450


def typeset_formula(box: Box, name: Box | None = None) -> str:
    """Format a formula as HTML, after the name of its result: MathML if it needs two lines and is
    not too long, else text, which is a third of the size."""
    if is_tall(box):
        equals = "" if name is None else f"{MATHML.write_bare(name)}<mo>=</mo>"
        text = f"<math>{equals}{MATHML.write_bare(box)}</math>"
        if len(text) < LONG:
            return text
    return ("" if name is None else f"{HTML.write(name)} = ") + HTML.write(box)


_SPECIAL = re.compile(r"[\\`*_\[\]|$~&<>]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BEGINS = re.compile(r"\A\s*(?=#|[-+] |\d+[.)] )")  # what would be a heading or a list


#: Text that GitHub links to a person or an issue.
_MENTION = re.compile(r"@(?=\w)|#(?=\d)|(?<=GH)-(?=\d)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)


def escape_md(text: object) -> str:
    """Escape text for Markdown, in a table cell too: no mention, no block."""
    words = " ".join(str(text).splitlines())
    words = _SPECIAL.sub(lambda c: _ENTITIES.get(c[0], f"\\{c[0]}"), words)
    words = _MENTION.sub("\\g<0>\u200b", words)
    return _BEGINS.sub(r"\g<0>\\", words)


def format_code(text: object) -> str:
    """Format any text as inline code, in a table cell too: a bar becomes a similar letter."""
    words = str(text).replace("|", "\u2223")
    fence = "`" * (max(map(len, re.findall("`+", words)), default=0) + 1)
    space = " " if words.startswith("`") or words.endswith("`") or not words.strip() else ""
    return f"{fence}{space}{words}{space}{fence}"


def make_anchor(heading: object) -> str:
    """Return the anchor that GitHub gives to a heading."""
    kept = re.sub(r"[^\w\- ]", "", str(heading).lower())
    return kept.replace(" ", "-")
