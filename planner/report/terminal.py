"""The summary for a terminal: the verdict first, then the numbers that decide, one screen."""

from __future__ import annotations

import os
import sys
import unicodedata

from planner.base.display import columns
from planner.engine.evaluate import SIZE_ONLY
from planner.report.facts import advised, key_figures, layout, left_open, moved, verdict, warnings
from planner.report.layout import KEY_FIGURES
from planner.report.numbers import clean
from planner.results.result import Result

WIDTH = 100
MOST_MOVED = 3
COLOURS = {"ok": "32", "tight": "33", "bad": "31", "unknown": "36"}


def summary(result: Result, colour: bool | None = None) -> str:
    """At most one screen of text. Colour only where standard output is a terminal."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    paint, answer = wanted if colour is None else colour, verdict(result)
    colon = ":" if answer.sentence else ""
    lines = [_styled(_cut(clean(result.plan.name)), "1", paint)]
    word = answer.word + colon
    first, *further = _wrapped(word, answer.sentence)
    coloured = _styled(word, f"1;{COLOURS[answer.status]}", paint)
    lines += [coloured + first.removeprefix(word), *further]
    lines += _wrapped("  Layout:", layout(result))
    advice = advised(result)
    if advice is not None:
        lines += _wrapped("  To be safe:", advice.said)
        for changes, effect in advice.safer:
            lines += _wrapped("  -", f"{changes}: {effect}")
    figures = key_figures(result)
    told = [line for i, words in warnings(result) for line in _wrapped("!", f"{words} ({i})")]
    most = ", ".join(f"{row.short} {row.text}" for row in moved(result)[:MOST_MOVED])
    decides = [_cut(f"  days for 10 % more: {most}")] if most else []
    rows = []
    for figure in figures:
        value = figure.text if figure.text.startswith("~") else f" {figure.text}"
        between = f"({figure.interval}) " if figure.interval else ""
        rows.append((figure.label, value, between + figure.note))
    table = [_cut(line) for line in columns(rows, indent="  ")]
    for block in (table, told, decides + _spent(result), _absent_figures(result)):
        lines += ["", *block] if block else []
    if any(figure.kind != "exact" for figure in figures):
        lines += ["", "  ~ estimate; plan.py explain PLAN ID shows how any number is made"]
    if any(figure.interval for figure in figures):
        lines.append(f"  in parentheses: {left_open(result)}")
    return "\n".join(lines) + "\n"


def _spent(result: Result) -> list[str]:
    """What a predicted step is spent on, as many parts as a line holds."""
    lines: list[str] = []
    whole = sum(result.step_parts.values())
    for name, seconds in result.step_parts.items():
        before = f"{lines[0]}, " if lines else "  of a step: "
        line = f"{before}{name} {100 * seconds / whole:.0f} %"
        if _width(line) > WIDTH or seconds < whole / 100:
            break
        lines = [line]
    return lines


def _absent_figures(result: Result) -> list[str]:
    """What lacks a fact; not what has no formula under the plan's choices, nor what training takes
    where the plan serves."""
    if result.plan.settings["training.mode"] == "inference":
        return []
    return [
        _cut(f"  – {quantity.id}: {clean(quantity.absent)}")
        for quantity in (result[row.id] for row in KEY_FIGURES)
        if quantity.absent is not None
        and (quantity.chosen is not None or quantity.absent == SIZE_ONLY)
    ]


def _styled(text: str, code: str, paint: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if paint else text


def _wrapped(first: str, rest: str) -> list[str]:
    """A first word and what follows it, wrapped by words."""
    lines, line, width = [], first, _width(first)
    for word in rest.split(" "):
        if width + 1 + _width(word) > WIDTH:
            lines.append(line)
            line, width = f"  {word}", 2 + _width(word)
        elif word:
            line, width = f"{line} {word}", width + 1 + _width(word)
    return [*lines, line]


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _cut(text: str) -> str:
    """What a line holds of a text."""
    if _width(text) <= WIDTH:
        return text
    while _width(text) > WIDTH - 1:
        text = text[:-1]
    return text + "…"
