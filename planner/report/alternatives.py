"""Element 9: this plan beside its neighbours, and how far it goes one key at a time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from planner.base.display import flow
from planner.base.errors import PlanError
from planner.questions.sensitivity import Neighbour
from planner.questions.solve import questions
from planner.questions.solve.answers import value_text
from planner.report import facts
from planner.report.figures import scatter
from planner.report.layout import ALTERNATIVES, ANSWERS, STATUS, STEP
from planner.report.numbers import GIB, Data, clean, shown
from planner.results.result import Result


def alternatives(result: Result, neighbours: Sequence[Neighbour]) -> Data | None:
    """This plan and the plans one step away, side by side; their time is predicted."""
    tried = [(said(n.changes), n.result) for n in neighbours if n.result is not None]
    if not tried or "memory.process" not in result:
        return None
    own = result.predicted or result
    compared = [("This plan", own), *tried]
    rows = [_row(i, label, other) for i, (label, other) in enumerate(compared)]
    kept = [i for i, _ in enumerate(ALTERNATIVES) if any(row.cells[i] != "–" for row in rows)]
    for row in rows:
        row.cells = [row.cells[i] for i in kept]
    return Data(
        columns=[ALTERNATIVES[i][0] for i in kept],
        rows=rows,
        impossible=[
            Data(changes=said(entry.changes), reason=clean(entry.reason))
            for entry in neighbours
            if entry.reason is not None
        ],
        note="Time is predicted in every row, that of this plan too, whose utilisation is assumed."
        if own is not result
        else "",
        figure=_scatter([other for _, other in compared]),
        answers=_answers(result),
    )


def _row(number: int, label: str, result: Result) -> Data:
    """A plan by its number; the plan itself is 0, the numbers of the others are estimates."""
    found = [result.get(base) for _, base in ALTERNATIVES]
    status, word = STATUS[result.verdict["state"]]
    return Data(
        label=label,
        cells=["–" if q is None else facts.brief(q, True if number else None) for q in found],
        this=not number,
        word=word,
        status=status,
        mark=str(number or ""),
    )


def _scatter(compared: list[Result]) -> Data | None:
    """Memory against step time; None where time is not predicted."""
    dots = []
    for number, result in enumerate(compared):
        step, size = result.get(STEP), float(result["memory.process"].number) / GIB
        if step is not None:
            fits, mark = result.verdict["fits"] is not False, str(number or "")
            dots.append(Data(mark=mark, x=float(step.number), y=size, fits=fits, own=not number))
    limit = float(compared[0]["memory.capacity"].number) / GIB
    return scatter(dots, limit) if len(dots) > 1 else None


def _answers(result: Result) -> list[Data]:
    """Inverse questions that cost little, with both sides of their limit."""
    found = []
    for question, words in ANSWERS:
        try:
            answer = questions.ask(result.plan, question)
        except PlanError:
            continue
        holds, fails = answer.holds, answer.fails
        found.append(
            Data(
                words=words,
                key=answer.domain.key,
                value=value_text(answer, holds) if holds else "none fits",
                left=_left(holds.values if holds else {}),
                next=value_text(answer, fails) if fails else "–",
                short=_left(fails.values if fails else {}),
            )
        )
    return found


def _left(values: Any) -> str:
    left = values.get("memory.headroom_p95")
    return "–" if left is None else f"~{shown(Fraction(left), 'bytes')}"


def said(changes: dict[str, Any]) -> str:
    """Changes of a plan, as its document would say them."""
    return flow(changes)[1:-1]
