"""Modules that predict further tokens (DeepSeek-AI 2024, arXiv 2412.19437, section 2.2)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.changed import merged
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["further_tokens"]
MODEL = PLAN["model"]
H, V, S = (MODEL[key] for key in ("hidden", "vocab", "max_sequence"))
F = MODEL["mlp"]["intermediate"]
LAYER = 4 * H * H + 3 * H * F  # matrices of a layer
JOINED = 2 * H * H  # the projection


def evaluation(modules: int, **changes: Any) -> Evaluation:
    devices = {"devices": changes.get("parallelism", {}).get("pipeline", 1)}
    own = {**changes, "model": {"mtp": modules, **changes.get("model", {})}}
    return Evaluation(case.build(loading.load(merged(PLAN, cluster=devices, **own))))


def difference(identifier: str, **changes: Any) -> Any:
    """What one module adds."""
    none, one = (evaluation(modules, **changes) for modules in (0, 1))
    return one.value(identifier) - none.value(identifier)


@pytest.mark.parametrize("tied", [False, True])
def test_weights_are_counted_once_and_products_each_time(tied: bool) -> None:
    model = {"tied_embeddings": tied}
    # Two norms before the projection, two in the layer, one before the head.
    weights = LAYER + JOINED + 5 * H
    assert difference("parameters.total", model=model) == weights
    assert difference("parameters.active", model=model) == weights
    assert difference("parameters.embedding", model=model) == 0
    assert difference("parameters.head", model=model) == 0
    # 2 FLOP for each weight, and of the head's; queries with all keys, scores with all values.
    forward = 2 * (LAYER + JOINED + V * H) + 2 * S * 2 * H
    assert difference("compute.forward_flops_per_token", model=model) == forward
    assert difference("compute.flops_per_token", model=model) == 3 * forward


def test_each_module_adds_the_same() -> None:
    totals = [evaluation(n).value("parameters.total") for n in (0, 1, 2, 3)]
    assert len({b - a for a, b in pairwise(totals)}) == 1


def weights_of_stages(modules: int, **changes: Any) -> list[Any]:
    """Weights of each distinct stage, in parameters of 2 bytes."""
    e = evaluation(modules, **changes)
    return [e.value("memory.weights.stage", {"stage": s}) / 2 for s in e.case.axes["stage"]]


def test_the_last_stage_holds_the_module_and_a_copy_of_the_embedding() -> None:
    layout = {"pipeline": 2, "stages": [2, 2]}
    first, last = weights_of_stages(0, parallelism=layout)
    layout = {"pipeline": 2, "stages": [2, 3]}
    assert weights_of_stages(1, parallelism=layout) == [
        first,
        last + LAYER + JOINED + 5 * H + V * H,
    ]


def test_both_ends_on_one_device_share_embedding_and_head() -> None:
    """DeepSeek-AI 2024, section 3.2.3."""
    dual = {"schedule": "dualpipe"}
    before = weights_of_stages(0, training=dual, parallelism={"pipeline": 2, "stages": [2, 2]})
    after = weights_of_stages(1, training=dual, parallelism={"pipeline": 2, "stages": [2, 3]})
    assert [b - a for a, b in zip(before, after, strict=True)] == [LAYER + JOINED + 5 * H]
    e = evaluation(1, training=dual, parallelism={"pipeline": 2, "stages": [2, 3]})
    assert e.value("time.tied") == 0


def test_the_head_takes_its_time_and_its_logits_once_more() -> None:
    for identifier in ("time.part.forward", "time.part.backward", "memory.activations.whole"):
        none, one = (
            next(
                float(e.value(identifier, {"part": part}))
                for part in e.case.axes["part"]
                if part.name == "head"
            )
            for e in map(evaluation, (0, 1))
        )
        assert one == pytest.approx(2 * none)


def test_serving_leaves_them_out() -> None:
    serving = {"training": {"mode": "inference", "output_tokens": 8}}
    assert difference("parameters.total", **serving) == 0
    assert difference("memory.total", **serving) == 0


@pytest.mark.parametrize(
    ("changes", "what"),
    read_data("faults")["further_tokens"],
)
def test_what_is_not_modelled_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(PlanError, match=what):
        evaluation(1, **changes)
