"""Writers of a result: terminal text, Markdown, HTML, JSON. None of them computes a quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner.base.display import as_json
from planner.base.files import format_of, write_text
from planner.base.progress import tell
from planner.results.result import Result

__all__ = ["SUFFIXES", "as_text", "text", "write"]

#: Formats by ending; the longest ending that matches wins.
SUFFIXES = {
    "trace.json": "trace",
    **dict.fromkeys((".md", ".markdown"), "md"),
    **dict.fromkeys((".html", ".htm"), "html"),
    ".json": "json",
    ".txt": "text",
}


def text(result: Result, colour: bool | None = None) -> str:
    """Return the summary for a terminal, coloured if standard output is one."""
    from planner.report.terminal import summary

    return summary(result, colour)


def as_text(result: Result, kind: str, only: Sequence[str] = ()) -> str:
    """Return the result as text, md (GitHub Markdown), html (one file without scripts or requests),
    json (schemas/result.schema.json; with `only`,
    those quantities) or trace (a simulated step, for Perfetto)."""
    if kind == "text":
        return text(result)
    if kind == "json":
        from planner.results.lookup import called

        return as_json(result.to_json(called(result, only) if only else None))
    if kind == "trace":
        from planner.report import trace

        return trace.text(result)
    from planner.report.report import page, words
    from planner.report.view import view_of

    view = view_of(result).to_data(drawn=kind == "html")
    return (
        words("report.md.jinja", view=view)
        if kind == "md"
        else page("report.html.jinja", view=view)
    )


def write(result: Result, path: str | Path) -> None:
    """Write a report atomically, in the format of the file's ending.

    Raises:
        PlanError: an unknown ending, or a place that cannot be written.
    """
    kind = format_of(path, SUFFIXES, "report")
    tell(f"writing {path}")
    write_text(path, text(result, colour=False) if kind == "text" else as_text(result, kind))
