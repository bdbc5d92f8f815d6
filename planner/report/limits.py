"""How far a plan goes: the largest batch, the longest context and the fewest devices that fit."""

from __future__ import annotations

from fractions import Fraction

from planner.base.display import exact_text
from planner.base.errors import PlanError
from planner.questions.solve import questions
from planner.report.layout import ANSWERS
from planner.results.result import Result


def limits(result: Result) -> str:
    """In words, one key changed, the layout as it is and memory the limit; empty where the plan
    itself does not fit, or where no question has an answer."""
    if result.verdict["state"] != "fits":
        return ""
    found = []
    for question, words in ANSWERS:
        try:
            answer = questions.ask(result.plan, question, with_layout="own")
        except PlanError:
            continue
        if answer.holds is None:
            continue
        said = words.format(exact_text(Fraction(answer.holds.number)))
        beyond = answer.fails
        found.append(
            said + (f" ({exact_text(Fraction(beyond.number))} does not fit)" if beyond else "")
        )
    return ", ".join(found)
