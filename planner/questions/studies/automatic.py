"""`parallelism: auto` in a study: which layout was found for a point, in words."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plans.document import Plan
from planner.plans.layout import KERNELS, KEYS, stated
from planner.plans.plan import chosen_by
from planner.questions.studies.study import Study

AUTO = "parallelism.auto"
#: What the choice of a layout rests on.
DECIDING = ("memory.headroom", "memory.process", "time.step_seconds")


def automatic(study: Study, places: Sequence[int]) -> bool:
    """Whether the layout of a point is found rather than given."""
    return bool(study.searches and study.value_at(places, AUTO))


def words(plan: Plan) -> str:
    """The layout of a plan in one cell of a table, without what is off."""
    searched = KERNELS in plan.derived and chosen_by(plan, KERNELS)
    keys = (*KEYS, KERNELS) if searched else KEYS
    return " ".join(
        f"{row.heading.replace(' ', '_').replace('-', '_')}={str(value).lower()}"
        for row, value in stated(plan.get, keys)
        if value != row.neutral or row.key == "training.micro_batch"
    )
