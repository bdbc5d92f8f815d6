"""Limits of a plan: the largest batch, the longest context and the fewest devices that fit."""

from __future__ import annotations

from fractions import Fraction

from planner.base.errors import PlanError
from planner.base.numbers import exact_text
from planner.questions.solve import questions
from planner.report.layout import ANSWERS
from planner.results.result import Result
from planner.results.verdict import UNFIT


def describe_limits(result: Result) -> str:
    """Describe the limits of this layout with memory as the bound, one key changed at a time; empty
    if the plan does not fit or no question has an answer."""
    if result.verdict["state"] != "fits":
        return ""
    found = []
    for question, words in ANSWERS:
        try:
            answer = questions.ask(result.plan, question, with_layout="own", unbounded=True)
        except PlanError:
            continue
        if answer.holds is None:
            continue
        said, beyond = words.format(exact_text(Fraction(answer.holds.number))), answer.fails
        more = f" ({exact_text(Fraction(beyond.number))} {UNFIT})" if beyond else ""
        found.append(said + more)
    return ", ".join(found)
