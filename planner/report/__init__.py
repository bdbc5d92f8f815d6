"""Writers of a result: terminal text, Markdown, HTML, JSON. None of them computes a quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner.base.display import as_json
from planner.base.files import format_of, write_text
from planner.base.progress import report_progress
from planner.results.result import Result

__all__ = ["SUFFIXES", "as_text", "render_text", "write_report"]

#: Formats by ending; the longest ending that matches wins.
SUFFIXES = {
    "trace.json": "trace",
    **dict.fromkeys((".md", ".markdown"), "md"),
    **dict.fromkeys((".html", ".htm"), "html"),
    ".json": "json",
    ".txt": "text",
}


def render_text(result: Result, colour: bool | None = None) -> str:
    """Return the summary for a terminal, coloured if standard output is one."""
    from planner.report.terminal import format_summary

    return format_summary(result, colour)


def as_text(result: Result, kind: str, only: Sequence[str] = ()) -> str:
    """Return a result as the text of one format.

    Args:
        result: the result; what it evaluates lazily is evaluated as far as the format needs it.
        kind: text (the summary of the terminal), md (GitHub Markdown), html (one file without
            scripts or requests), json (schemas/result.schema.json) or trace (one simulated step,
            for Perfetto).
        only: ids or patterns of the quantities to write; read for json alone, where none means all.

    Returns:
        The whole file as text.

    Raises:
        PlanError: a name or pattern in ``only`` matches no quantity.
    """
    if kind == "text":
        return render_text(result)
    if kind == "json":
        from planner.results.lookup import select_quantities

        return as_json(result.to_json(select_quantities(result, only) if only else None))
    if kind == "trace":
        from planner.report import trace

        return trace.format_trace(result)
    from planner.report.report import render_md, render_page
    from planner.report.view import view_of

    write = render_md if kind == "md" else render_page
    return write(f"report.{kind}.jinja", view=view_of(result))


def write_report(result: Result, path: str | Path) -> None:
    """Write a report atomically, in the format of the file's ending.

    Args:
        result: the result.
        path: the file; its ending, one of ``SUFFIXES``, selects the format.

    Raises:
        PlanError: an unknown ending, or a place that cannot be written.
    """
    kind = format_of(path, SUFFIXES, "report")
    report_progress(f"writing {path}")
    write_text(path, render_text(result, colour=False) if kind == "text" else as_text(result, kind))
