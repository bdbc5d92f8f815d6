"""The path from a plan to what experts do, for a terminal, as Markdown and as data."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from planner.base import numbers
from planner.base.display import as_json, clean, columns, format_flow, format_md_table, one_line
from planner.questions.expert_path import ExpertPath, PathStep
from planner.questions.write_back import format_setting
from planner.report.answer import format_changes
from planner.report.report import escape_md, render_page
from planner.report.sentences import wrap_text

#: Characters of the column of changes.
CHANGE_WIDTH = 34
_RIGHT = (2, 3, 4, 5)


def _list_path_rows(path: ExpertPath) -> list[list[str]]:
    """List the rows of the table with their head: the plan, then a row for each change."""
    head = ["#", "change", "step", "", "memory", "cost"]
    rows, before = [head], path.steps[0]
    for number, step in enumerate(path.steps):
        change = step.seconds / before.seconds - 1
        words = format_changes(step.changes, before.plan.get) if number else "your plan"
        rows.append(
            [
                str(number),
                clean(words),
                numbers.text(step.seconds, "s"),
                numbers.text(change, style="change", digits=2) if number else "",
                f"{'× ' if step.lacking else ''}{numbers.text(step.needed, 'bytes')}",
                numbers.text(step.cost, "USD") if step.cost else "–",
            ]
        )
        before = step
    return rows


def _list_explained_rows(path: ExpertPath) -> list[list[str]]:
    """List the rows of the table with their head, and where each change is from."""
    from_where = ["from", "", *(_explain_step(step) for step in path.steps[1:])]
    return [[*row, why] for row, why in zip(_list_path_rows(path), from_where, strict=True)]


def _list_settings(step: PathStep) -> list[str]:
    """List the ``--set`` options of a step's change."""
    texts = ((key, format_flow(format_setting(key, v))) for key, v in step.changes.items())
    return [
        f"--set {key}={text}" if " " not in text else f"--set '{key}={text}'" for key, text in texts
    ]


def _explain_nearest(path: ExpertPath) -> str:
    """Name the nearest published run and its source."""
    (measured, *_) = path.nearest.document.get("measured")
    source = ", ".join(filter(None, (measured["source"], measured.get("date"))))
    return f"Nearest published run: {path.run}, {clean(path.nearest.name)} ({clean(source)})."


def _explain_step(step: PathStep) -> str:
    """Say where a change is from, and which frameworks can start the plan."""
    names = ", ".join(step.frameworks)
    starts = (
        f"Started by {names}." if names else "No framework that plans are exported to starts it."
    )
    return f"From {clean(step.source)}. {starts}"


def _yield_notes(path: ExpertPath) -> Iterator[str]:
    """Yield what the table leaves out, and the choices that no published run has."""
    get = path.steps[-1].plan.get
    if path.left:
        rows = (f"{format_changes(one.changes, get)} ({why})" for one, why in path.left)
        yield f"Gains nothing here: {clean('; '.join(rows))}."
    for choice, published in path.unpublished:
        yield f"Nobody is known to have run {clean(choice)}; published: {clean(published)}."
    if any(step.lacking for step in path.steps):
        yield "× does not fit."


def format_expert_path(path: ExpertPath) -> str:
    """Format the path for a terminal."""
    head, *rows = _list_path_rows(path)
    table = [head]
    for number, change, *rest in rows:
        first, *more = textwrap.wrap(change, CHANGE_WIDTH, break_on_hyphens=False) or [""]
        table.append([number, first, *rest])
        table += [["", line, *[""] * len(rest)] for line in more]
    lines = [*wrap_text(_explain_nearest(path)), "", *columns(table, _RIGHT), ""]
    for place, step in [*enumerate(path.steps)][1:]:
        lines += wrap_text(_explain_step(step), f"{place}  ", "   ")
        lines += wrap_text(" ".join(_list_settings(step)), "   ")
    lines += [""] if len(path.steps) > 1 else []
    for note in _yield_notes(path):
        lines += wrap_text(note)
    if len(path.steps) > 1:
        lines += wrap_text("With the first N changes: plan.py advise PLAN --apply N -o FILE.yaml")
    return "".join(f"{one_line(line)}\n" for line in lines)


def render_expert_path(path: ExpertPath) -> str:
    """Render the path as Markdown."""
    rows = [[*map(escape_md, row)] for row in _list_explained_rows(path)]
    body = "\n".join(format_md_table(rows))
    notes = "".join(f"\n{escape_md(note)}\n" for note in _yield_notes(path))
    return f"{escape_md(_explain_nearest(path))}\n\n{body}\n{notes}"


def render_path_fragment(path: ExpertPath) -> str:
    """Render the path as a fragment of the page; each row can be taken with those above it."""
    head, *rows = _list_explained_rows(path)
    lead, notes = _explain_nearest(path), [*_yield_notes(path)]
    return render_page("serve/advised.jinja", lead=lead, head=head, rows=rows, notes=notes)


def encode_expert_path(path: ExpertPath) -> str:
    """Return the path as JSON."""
    steps = [
        {
            "set": dict(step.changes),
            "source": step.source,
            "frameworks": list(step.frameworks),
            "time.step_seconds": step.seconds,
            "memory.process": step.needed,
            "lacking": step.lacking,
            "cost.total": step.cost or None,
        }
        for step in path.steps
    ]
    left = [{"set": dict(one.changes), "reason": why} for one, why in path.left]
    unpublished = [{"choice": one, "published": what} for one, what in path.unpublished]
    return as_json({"run": path.run, "steps": steps, "left": left, "unpublished": unpublished})
