"""The summary for a terminal: the verdict first, then the numbers that decide, one screen."""

from __future__ import annotations

import os
import sys
import unicodedata

from planner.engine.evaluate import SIZE_ONLY
from planner.questions.sensitivity import sensitivities
from planner.report.facts import advised, key_figures, layout, verdict, warnings
from planner.report.layout import BETWEEN, DAYS
from planner.report.numbers import clean, signed
from planner.results.result import Result

__all__ = ["summary"]

WIDTH = 100
COLOURS = {"ok": "32", "tight": "33", "bad": "31", "unknown": "36"}


def summary(result: Result, colour: bool | None = None) -> str:
    """At most one screen of text. Colour only where standard output is a terminal."""
    paint = _wanted() if colour is None else colour
    name = _cut(clean(result.plan.name), WIDTH)
    answer = verdict(result)
    lines = [_bold(name, paint)]
    word = _coloured(answer.word, COLOURS[answer.status], paint)
    colon = ":" if answer.sentence else ""
    lines += _wrapped(word + colon, answer.word + colon, answer.sentence)
    lines += _wrapped("  Layout:", "  Layout:", layout(result))
    advice = advised(result)
    if advice is not None:
        lines += _wrapped("  To be safe:", "  To be safe:", advice.none or advice.most)
        for changes, effect in advice.safer:
            lines += _wrapped("  -", "  -", f"{changes}: {effect}")
    figures = key_figures(result)
    if figures:
        lines.append("")
        first = max(_width(figure.label) for figure in figures)
        values = [
            figure.text.replace("~", "", 1) if figure.estimate else figure.text
            for figure in figures
        ]
        second = max(map(_width, values))
        for figure, value in zip(figures, values, strict=True):
            mark = "~" if figure.estimate else " "
            between = f"({figure.interval}) " if figure.interval else ""
            line = f"  {_pad(figure.label, first)}  {mark}{_pad(value, second)}  {between}"
            line += figure.note
            lines.append(_cut(line.rstrip(), WIDTH))
    told = warnings(result)
    if told:
        lines.append("")
    for identifier, words in told:
        lines += _wrapped("!", "!", f"{words} ({identifier})")
    decides = [line for line in (_moved(result), _spent(result)) if line]
    if decides:
        lines += ["", *decides]
    missing = [identifier for identifier, reason in _absent_figures(result)]
    if missing:
        lines.append("")
        for identifier, reason in _absent_figures(result):
            lines.append(_cut(f"  – {identifier}: {clean(reason)}", WIDTH))
    if any(figure.estimate for figure in figures):
        lines += ["", "  ~ estimate; plan.py explain PLAN ID shows how any number is made"]
    if any(figure.interval for figure in figures):
        lines.append(f"  in parentheses: {BETWEEN}")
    return "\n".join(lines) + "\n"


def _moved(result: Result) -> str:
    """The inputs that move the days of training most."""
    moved = [
        f"{'.'.join(entry.key.removesuffix('.value').split('.')[-2:])} {signed(entry.change)}"
        for entry in sensitivities(result, DAYS, 3)
    ]
    return _cut("  days for 10 % more: " + ", ".join(moved), WIDTH) if moved else ""


def _spent(result: Result) -> str:
    """What a predicted step is spent on, as many parts as a line holds."""
    line = ""
    whole = sum(result.step_parts.values())
    for name, seconds in result.step_parts.items():
        more = f"{line}, " if line else "  of a step: "
        more += f"{name} {100 * seconds / whole:.0f} %"
        if _width(more) > WIDTH or seconds < whole / 100:
            break
        line = more
    return line


def _absent_figures(result: Result) -> list[tuple[str, str]]:
    """What lacks a fact; not what has no formula under the plan's choices, nor what training takes
    where the plan serves."""
    from planner.report.layout import KEY_FIGURES

    found: list[tuple[str, str]] = []
    if result.plan.settings["training.mode"] == "inference":
        return found
    for row in KEY_FIGURES:
        if row.id in result.evaluation.book.quantities:
            quantity = result[row.id]
            unused = quantity.chosen is None and quantity.absent != SIZE_ONLY
            if quantity.absent is not None and not unused:
                found.append((row.id, quantity.absent))
    return found


def _wanted() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _coloured(text: str, code: str, paint: bool) -> str:
    return f"\x1b[1;{code}m{text}\x1b[0m" if paint else text


def _bold(text: str, paint: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if paint else text


def _wrapped(first: str, plain: str, rest: str) -> list[str]:
    """A first word, whose width is that of ``plain``, and what follows it, wrapped by words."""
    lines, line, width = [], first, _width(plain)
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


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return text + "…"
