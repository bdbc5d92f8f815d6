"""What could explain that a run is not as its plan predicts: each thing that a run may do otherwise
(causes.yaml), with what the planner says of a plan that does so."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import resources
from planner.base.errors import PlanError
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.plans.plan import reset_derived, variant
from planner.results.result import Result

#: A cause that makes up less than this share of a difference explains nothing of it.
LEAST = Fraction(1, 4)
#: What is as large as a difference: within a half of it.
ALIKE = Fraction(3, 2)


class Cause(NamedTuple):
    """Something that a run may do otherwise, and by how much a quantity moves then."""

    says: str
    effect: Fraction  # in the unit of the quantity


def find_causes(result: Result, quantity: str, gap: Fraction) -> list[Cause]:
    """What moves a quantity as a run differs from it, that which moves it by nearly as much first.

    Args:
        result: of the plan, its time predicted.
        gap: measured less predicted, in the quantity's unit.
    """
    base = Evaluation(instance.build(result.plan), exact=False)
    here = base.get_values((quantity,))[quantity]
    found = []
    for row in _read_causes():
        changes = _list_changes(result.plan, row)
        if not changes:
            continue
        with suppress(PlanError, Absent, TypeError):
            other = variant(result.plan, {**reset_derived(result.plan), **changes})
            built = instance.build(other)
            evaluation = base.rerun(built, exact=False)
            evaluation = evaluation or Evaluation(built, like=base, exact=False)
            effect = Fraction(evaluation.get_values((quantity,))[quantity]) - Fraction(here)
            share = effect / gap
            if share >= LEAST and (share <= ALIKE or "scale" in row):
                found.append(Cause(row["says"], effect))
    return sorted(found, key=lambda cause: max(cause.effect / gap, gap / cause.effect))


@cache
def _read_causes() -> list[dict[str, Any]]:
    return list(resources.read_yaml(Path(__file__).with_suffix(".yaml")))


def _list_changes(plan: Plan, row: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a cause changes in a plan, none where it does so already."""
    changes = {key: value for key, value in row.get("set", {}).items() if plan.get(key) != value}
    for key, factor in row.get("scale", {}).items():
        value = plan.get(key)
        if isinstance(value, int | Fraction):
            changes[key] = value * Fraction(factor)
    return changes


def explain_gap(result: Result, quantity: str, gap: Fraction, most: int = 3) -> list[str]:
    """Sentences on what could explain that a run differs by so much, so many at most."""
    unit = result[quantity].unit
    sign = "+" if gap > 0 else "−"

    def amount(value: Fraction) -> str:
        return f"{sign}{result[quantity].declared.text(abs(value))}"

    lines = []
    for cause in find_causes(result, quantity, gap)[:most]:
        share, would = cause.effect / gap, "would cost" if gap > 0 else "would save"
        if share > ALIKE:
            lines.append(
                f"{amount(gap)} is less than {cause.says} {would} ({amount(cause.effect)})"
            )
        elif share * ALIKE >= 1:
            lines.append(
                f"{amount(gap)} is about what {cause.says} {would} ({amount(cause.effect)})"
            )
        else:
            lines.append(f"of {amount(gap)}, {cause.says} {would} {amount(cause.effect)}")
    if not lines:
        lines.append(f"no setting of the plan explains {amount(gap)}")
        if gap > 0 and unit == "s":
            lines[0] += "; look for slow clocks, a slow device or link, data that comes late"
    return lines
