"""Plans evaluated one after another give what each gives by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.documents.references import preset_names
from planner.engine.in_turn import keep_graphs
from planner.questions import loading
from planner.report.answer import answer_of
from planner.results.result import Result, evaluate_plan
from tests.conftest import read_data

#: Changes of numbers, of formulas and of entries.
CHANGES: dict[str, list[Any]] = read_data("results")["changes_in_turn"]


def said(result: Result) -> Any:
    """All that a result and its first screen say."""
    first = answer_of(result)
    return result.to_json(), first.text, first.numbers, first.memory, first.step, first.plan_line


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("seed", [0, 1])
def test_each_is_what_it_is_by_itself(seed: int) -> None:
    chance, plans = random.Random(seed), list[Any]()
    names = preset_names("plan")
    with keep_graphs():
        while len(plans) < 12:
            changes = {k: chance.choice(CHANGES[k]) for k in chance.sample([*CHANGES], 2)}
            try:
                plan = loading.load(chance.choice(names), changes)
            except PlanError:
                continue
            result = evaluate_plan(plan)
            # Whatever is asked first.
            for identifier in chance.sample(["time.mfu", "memory.total", "cost.total"], 2):
                result.get(identifier)
            plans.append((plan, said(result), changes))
    for plan, found, changes in plans:
        assert found == said(evaluate_plan(plan)), (plan.name, changes)
