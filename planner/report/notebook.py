"""The display of a result or an answer in a notebook: the text of the terminal, in columns."""

from __future__ import annotations

from html import escape
from typing import Any

from planner.questions import sensitivity
from planner.questions.search.engine import SearchResult
from planner.questions.solve import budgets, questions
from planner.questions.solve.budgets import Spending
from planner.questions.solve.solve import Answer
from planner.report import searched, terminal
from planner.results.result import Result

#: How each kind is written for a terminal.
WRITERS: dict[type, Any] = {
    Result: lambda result: terminal.format_summary(result, colour=False),
    SearchResult: lambda found: searched.WRITERS["text"](found, False),
    Answer: questions.text,
    Spending: budgets.text,
    sensitivity.Sensitivity: sensitivity.format_sensitivity,
}


def render_notebook(thing: Any) -> str:
    """Write an object as HTML whose columns stay whole; it takes the colours of the notebook."""
    write = WRITERS.get(type(thing), str)
    style = "white-space:pre;overflow-x:auto;padding:0;border:0;background:none;color:inherit"
    return f'<pre style="{style}">{escape(write(thing).strip(chr(10)))}</pre>'
