"""Results in a notebook: the verdict, where memory goes, the numbers that decide, then the rest in
folds; searches, answers and studies as tables.

Every style stands on its own element and colours are those of the text or hold on light and dark,
so that nothing of the notebook changes its look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from planner.questions import sensitivity
from planner.questions.search.engine import Found
from planner.questions.solve import budgets, questions
from planner.questions.solve.budgets import Spending
from planner.questions.solve.solve import Answer as Solved
from planner.report import searched
from planner.report.answer import answer_of
from planner.report.facts import warnings
from planner.report.numbers import Data, clean
from planner.report.sentences import plain
from planner.report.study_api import Comparison
from planner.results import notebook
from planner.results.result import Result

#: Parts of memory and verdicts, in tones that are told apart on white and on black.
PARTS = {"weights": "#4a7fb8", "gradients": "#8db8dd", "optimizer": "#2f9287",
         "activations": "#dc9a3c", "buffers": "#b96b4f", "cache": "#dc9a3c",
         "allocator": "#a3abb5", "runtime": "#737d89"}  # fmt: skip
VERDICTS = {"ok": "#1f8a63", "tight": "#b06c00", "bad": "#cf3f30", "unknown": "#737d89"}
_QUIET = "opacity:.72"
_CELL = "padding:.15em 1.2em .15em 0;text-align:left;white-space:normal"
_NUMBER = "padding:.15em 1.2em .15em 0;text-align:right;font-variant-numeric:tabular-nums"


def html(thing: Any) -> str:
    """An object as a notebook shows it."""
    if isinstance(thing, Result):
        parts = _result(thing)
    elif isinstance(thing, Found):
        parts = _found(thing)
    elif isinstance(thing, Solved):
        parts = _text(questions.text(thing))
    elif isinstance(thing, Spending):
        parts = _text(budgets.text(thing))
    elif isinstance(thing, Comparison):
        parts = _text(str(thing))
    else:
        assert isinstance(thing, sensitivity.Sensitivity)
        parts = _text(sensitivity.text(thing))
    wide = "" if parts[-1].startswith("<pre") else "max-width:56em;"  # columns stay whole
    return f'<div style="{wide}line-height:1.45">{"".join(parts)}</div>'


def _result(result: Result) -> list[str]:
    answer = answer_of(result)
    colour = VERDICTS[answer.status]
    badge = f"background:{colour};color:#fff;padding:.1em .5em;border-radius:.25em;font-weight:600"
    parts = [
        f'<div><span style="{badge}">{escape(answer.word)}</span> '
        f"<b>{escape(clean(result.plan.name))}</b></div>",
        f'<div style="margin:.4em 0">{escape(answer.text)}</div>',
        *(f'<div style="color:{VERDICTS["tight"]}">{escape(words)} (<code>{escape(i)}</code>)</div>'
          for i, words in warnings(result)),
        _memory(answer.memory),
        _numbers(answer.numbers),
    ]  # fmt: skip
    every = notebook.html(result.quantities.values(), result.absent)
    return [*parts, _folded("All quantities of the whole plan", every)]


def _memory(bar: Data | None) -> str:
    """The memory of the fullest device as a bar, with its parts by name."""
    if bar is None:
        return ""
    drawn = "".join(
        f'<span title="{escape(f"{p.label} {p.text} GiB")}" style="position:absolute;top:0;'
        f'bottom:0;left:{p.x}%;width:{p.width}%;background:{PARTS[p.label]}"></span>'
        for p in bar.segments
    )
    line = "position:absolute;top:-3px;bottom:-3px;border-left:2px solid currentColor"
    drawn += f'<span title="{bar.capacity} GiB" style="{line};left:calc({bar.at}% - 2px)"></span>'
    around = "position:relative;height:1em;margin:.5em 0;background:rgba(128,128,128,.18)"
    names = " &ensp; ".join(
        f'<span style="white-space:nowrap"><span style="color:{PARTS[p.label]}">■</span> '
        f"{escape(p.label)} {escape(p.text)}</span>"
        for p in bar.segments
    )
    between = f" ({bar.between})" if bar.between else ""
    said = f"{bar.total} of {bar.capacity} GiB{between}; {bar.free_word.lower()} {bar.free}"
    return (
        f'<div role="img" aria-label="memory of the fullest device: {escape(said)}" '
        f'style="{around}">{drawn}</div><div>{escape(said)}</div>'
        f"<div>{names}</div>"
    )


def _numbers(rows: Iterable[Data]) -> str:
    """The numbers that decide, with what published runs leave open, and their ids."""
    lines = []
    for row in rows:
        between = f"{row.low}–{row.high}" if row.low else row.note or row.kind
        lines.append((row.label, f"{row.number} {row.unit}".strip(), between, row.id))
    return _table(("", "", "5 to 95 %", ""), lines, numbers=(1, 2), codes=(3,))


def _found(found: Found) -> list[str]:
    """The best layouts of a search, by what they change."""
    parts = [f"<div>{escape(plain(searched.lead(found)))}</div>"]
    table = searched.view(found).best
    if table is not None:
        rows = [
            (row.label, *(text for text, _ in row.answers), row.behind, row.differs)
            for row in table.body
        ]
        wide = len(table.answers) + 2
        head = ("", *table.answers, "", "what differs from the first")
        parts.append(_table(head, rows, numbers=range(1, wide)))
    return parts


def _text(words: str) -> list[str]:
    """An answer as a terminal has it: its first line, and the lines below with their columns."""
    first, _, rest = words.partition("\n")
    style = "margin:.5em 0;padding:0;border:0;background:none;color:inherit;white-space:pre;"
    style += "overflow-x:auto"
    return [f"<b>{escape(first)}</b>", f'<pre style="{style}">{escape(rest.strip(chr(10)))}</pre>']


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Iterable[int] = (),
    codes: Iterable[int] = (),
) -> str:
    right, ids = set(numbers), set(codes)

    def cell(tag: str, column: int, text: str) -> str:
        style = _NUMBER if column in right else _CELL
        quiet = f";{_QUIET};font-weight:normal" if tag == "th" or column in ids else ""
        inner = f"<code>{escape(text)}</code>" if column in ids and tag == "td" else escape(text)
        return f'<{tag} style="{style}{quiet}">{inner}</{tag}>'

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, i, text) for i, text in enumerate(cells))}</tr>"

    top = f"<thead>{line('th', head)}</thead>" if any(head) else ""
    body = "".join(line("td", row) for row in rows)
    return (
        f'<table style="border-collapse:collapse;margin:.5em 0">{top}<tbody>{body}</tbody></table>'
    )


def _folded(summary: str, inner: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"
