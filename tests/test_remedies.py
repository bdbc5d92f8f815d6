"""What the program proposes for a plan that does not fit does make it fit."""

import pytest

from planner import case
from planner.evaluate import Evaluation
from planner.plan import load, variant
from planner.remedies import remedies

PLAN = "presets/llama70b_h100x1024.yaml"


def headroom(plan):
    return float(Evaluation(case.build(plan)).value("memory.headroom"))


def test_a_plan_that_fits_needs_none():
    assert remedies(load(PLAN)) is None


def test_a_model_of_known_size_only_gets_none():
    document = {
        "model": {"parameters": "70B"},
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
        "training": {"tokens": "1T", "sequence_length": 2048},
    }
    assert remedies(load(document)) is None


@pytest.mark.parametrize(
    ("overrides", "decides"),
    [
        (["training.micro_batch=8", "training.recompute=none"], "memory.activations"),
        (["parallelism.pipeline=1", "parallelism.zero=0"], "memory.optimizer"),
    ],
)
def test_each_remedy_makes_the_plan_fit(overrides, decides):
    plan = load(PLAN, overrides)
    advice = remedies(plan)
    assert advice is not None
    assert advice.missing == -headroom(plan) > 0
    assert advice.decides == decides
    assert 1 <= len(advice.remedies) <= 3
    for remedy in advice.remedies:
        assert headroom(variant(plan, remedy.changes)) == remedy.headroom >= 0
    assert [one.rank for one in advice.remedies] == sorted(one.rank for one in advice.remedies)
