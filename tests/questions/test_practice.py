"""Plans that name no software, and plans of published runs."""

from __future__ import annotations

from typing import Any

import pytest

from planner.base import units
from planner.documents.references import list_runs
from planner.questions.loading import load
from planner.questions.plan_questions import evaluate
from tests.conftest import read_data

RUNS = list_runs()


@pytest.mark.parametrize("stated, stack", read_data("practice")["stacks"])
def test_a_plan_without_software_gets_what_people_run(stated: dict[str, Any], stack: str) -> None:
    around = {"model": "llama3.2-1b", "training": {"sequence_length": 2048, "global_batch": 64}}
    assert load(around, stated).get("training.stack") == stack


@pytest.mark.slow
def test_a_newcomer_finds_the_days_of_deepseek_v3() -> None:
    """14.8T tokens took 2.664 million hours of 2,048 H800, 54 days (arXiv 2412.19437, table 1)."""
    training = {"tokens": "14.8T", "sequence_length": 4096, "global_batch": 15360}
    plan = load(
        {
            "model": "deepseek-v3",
            "cluster": "deepseek-h800x2048",
            "training": {**training, "precision": "fp8"},
            "parallelism": "auto",
        }
    )
    low, high = evaluate(plan)["time.training_days"].interval
    assert low <= 2.664e6 / 2048 / 24 <= high
    assert plan.get("parallelism.expert") > 8 and plan.get("parallelism.dispatcher") == "deepep"


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", RUNS)
def test_a_published_run_is_predicted(name: str) -> None:
    result = evaluate(load(name))
    for row in result.plan.document.get("measured"):
        quantity = result[row["quantity"]]
        ratio = float(quantity.number / units.parse(row["value"], quantity.unit))
        print(f"{name}: {row['quantity']} {ratio - 1:+.1%}")
        assert 1 / 2 < ratio < 2
