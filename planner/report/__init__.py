"""Writers of a result: terminal text, Markdown, HTML, JSON. None of them computes a quantity."""

from __future__ import annotations

import os
from pathlib import Path

from planner.base.display import as_json
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.base.files import write_text
from planner.results.result import Result

__all__ = ["as_text", "check_output", "html", "interactive", "json", "markdown", "text", "write"]

SUFFIXES = {
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".txt": "text",
}


def text(result: Result, colour: bool | None = None) -> str:
    """The summary for a terminal; coloured where standard output is one."""
    from planner.report.terminal import summary

    return summary(result, colour)


def markdown(result: Result) -> str:
    """The report as GitHub renders it."""
    from planner.report.report import view_of, words

    return words("report.md.jinja", view=view_of(result))


def html(result: Result) -> str:
    """The report as one file without scripts or requests."""
    from planner.report.report import page, view_of

    return page("report.html.jinja", view=view_of(result))


def interactive(result: Result) -> str:
    """The report with sliders: one file, whose script is part of it."""
    from planner.report.what_if.page import html as render

    return render(result)


def json(result: Result) -> str:
    """The result as schemas/result.schema.json describes it."""
    return as_json(result.to_json())


def as_text(result: Result, kind: str) -> str:
    """The result in one of the formats text, md, html, interactive, json."""
    writers = {"text": text, "md": markdown, "html": html, "interactive": interactive, "json": json}
    return writers[kind](result)


def check_output(path: str | Path, plan: str | Path) -> str:
    """The format that the ending of an output file picks; `-` is standard output, as text.

    Raises:
        PlanError: no format has that ending, or the file is the plan itself.
    """
    if str(path) == "-":
        return "text"
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise PlanError(
            Fault(
                f"no report has the ending '{suffix}'",
                Place(str(path)),
                "one of .md, .html, .json, .txt",
                nearest(suffix, SUFFIXES),
            )
        )
    if str(plan) != "-" and os.path.realpath(path) == os.path.realpath(plan):
        raise PlanError(Fault("this is the plan itself", Place(str(path)), "another file"))
    return SUFFIXES[suffix]


def write(result: Result, path: str | Path, sliders: bool = False) -> None:
    """Write a report atomically, in the format of its ending; `-` writes nothing.

    ``sliders`` makes an HTML report one that computes in the browser.

    Raises:
        PlanError: an unknown ending, or a place that cannot be written.
    """
    kind = check_output(path, "-")
    if kind == "html" and sliders:
        kind = "interactive"
    if str(path) != "-":
        write_text(path, text(result, colour=False) if kind == "text" else as_text(result, kind))
