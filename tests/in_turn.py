"""Many plans evaluated one after another, in less time than each by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.engine import instance
from planner.engine.evaluate import Evaluation
from planner.plans.document import Plan


class InTurn:
    """Evaluates plans exactly; each shares with the last what both have in common, which
    tests/engine/test_back_ends.py holds to evaluations that share nothing."""

    def __init__(self) -> None:
        self.last: Evaluation | None = None

    def evaluation(self, plan: Plan) -> Evaluation:
        self.last = Evaluation(instance.build(plan), like=self.last)
        return self.last

    def __call__(self, plan: Plan, quantities: Iterable[str]) -> dict[str, Any]:
        """As ``planner.engine.instance.evaluated``."""
        return self.evaluation(plan).get_values(quantities)
