"""`parallelism: auto` in a study: which layout was found for a point, in words."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plans.document import Plan
from planner.plans.plan import KERNELS, chosen_by
from planner.questions.studies.study import Study

AUTO = "parallelism.auto"
#: What the choice of a layout rests on.
DECIDING = ("memory.headroom", "memory.process", "time.step_seconds")

#: What names a layout, in the order in which it is said, and the value that goes without saying.
SAID = (
    ("tensor", "parallelism.tensor", 1),
    ("pipeline", "parallelism.pipeline", 1),
    ("virtual", "parallelism.virtual_pipeline", 1),
    ("context", "parallelism.context", 1),
    ("expert", "parallelism.expert", 1),
    ("expert_tensor", "parallelism.expert_tensor", 1),
    ("zero", "parallelism.zero", 0),
    ("sequence", "parallelism.sequence", False),
    ("micro_batch", "training.micro_batch", None),
    ("recompute", "training.recompute", "none"),
    ("schedule", "training.schedule", "1f1b"),
)


def automatic(study: Study, places: Sequence[int]) -> bool:
    """Whether the layout of a point is found rather than given."""
    return bool(study.searches and study.value_at(places, AUTO))


def words(plan: Plan) -> str:
    """The layout of a plan in one cell of a table, without what is off."""
    said = [(name, plan.get(key), dull) for name, key, dull in SAID]
    if KERNELS in plan.derived and chosen_by(plan, KERNELS):  # the search has
        said.append(("kernels", plan.get(KERNELS), None))
    return " ".join(
        f"{name}={str(value).lower()}"
        for name, value, dull in said
        if value is not None and value != dull
    )
