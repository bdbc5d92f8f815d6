"""What could explain that a run differs from its plan: each thing that a run may do otherwise
(planner/results/moves.yaml), with the prediction of a plan that does so."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

from planner.base.errors import PlanError
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.plan import variant
from planner.results.moves import evaluate_near, list_moves
from planner.results.result import Result

#: A cause that makes up less than this share of a difference explains nothing of it.
LEAST = Fraction(1, 4)
#: What is as large as a difference: within a half of it.
ALIKE = Fraction(3, 2)


class Cause(NamedTuple):
    """Something that a run may do otherwise, and by how much a quantity moves then.

    Attributes:
        says: the change in words.
        effect: how much the change adds to the quantity, in its unit; negative if it saves.
    """

    says: str
    effect: Fraction


def find_causes(result: Result, quantity: str, gap: Fraction) -> list[Cause]:
    """What moves a quantity as a run differs from it, that which moves it by nearly as much first.

    Args:
        result: of the plan, its time predicted.
        gap: measured less predicted, in the quantity's unit.
    """
    base = Evaluation(instance.build(result.plan), exact=False)
    here = base.get_values((quantity,))[quantity]
    found = []
    for move in (move for move in list_moves() if move.otherwise):
        for changes in move.yield_changes(result.plan):
            with suppress(PlanError, Absent, TypeError):
                other = variant(result.plan, changes)
                evaluation = evaluate_near(base, other, (quantity,), exact=False)
                effect = Fraction(evaluation.get_values((quantity,))[quantity]) - Fraction(here)
                share = effect / gap
                if share >= LEAST and (share <= ALIKE or move.scale):
                    found.append(Cause(move.words, effect))
    return sorted(found, key=lambda cause: max(cause.effect / gap, gap / cause.effect))


def explain_gap(result: Result, quantity: str, gap: Fraction, most: int = 3) -> list[str]:
    """Explain by changes of the plan why a run differs from its prediction.

    Args:
        result: the result of the plan, its time predicted.
        quantity: the id of the quantity.
        gap: measured less predicted, in the quantity's unit.
        most: the largest number of causes to list.

    Returns:
        A sentence for each cause, the nearest in size first; if there is none, one that no setting
        explains the gap.
    """
    declared, sign, would = result[quantity].declared, "−", "would save"
    if gap > 0:
        sign, would = "+", "would cost"
    lines, whole = [], f"{sign}{declared.text(abs(gap))}"
    for cause in find_causes(result, quantity, gap)[:most]:
        share, effect = cause.effect / gap, f"{sign}{declared.text(abs(cause.effect))}"
        if share * ALIKE < 1:
            lines.append(f"of {whole}, {cause.says} {would} {effect}")
        else:
            how = "less than" if share > ALIKE else "about what"
            lines.append(f"{whole} is {how} {cause.says} {would} ({effect})")
    if not lines:
        lines.append(f"no setting of the plan explains {whole}")
        if gap > 0 and declared.unit == "s":
            lines[0] += "; look for slow clocks, a slow device or link, data that comes late"
    return lines
