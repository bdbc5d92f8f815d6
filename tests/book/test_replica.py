"""Memory of one whole replica, by hand: all devices of one copy of the model together."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from planner.questions import loading
from planner.results.result import Result, evaluate_plan

#: A plain decoder of 16 layers: a matrix of 4 h², one of 8 h², two norms without biases.
LAYERS, HIDDEN, VOCAB, LENGTH, BATCH = 16, 1024, 32768, 512, 64
SHAPE = {
    "layers": LAYERS,
    "hidden": HIDDEN,
    "vocab": VOCAB,
    "attention": {"heads": 8},
    "norm": "rmsnorm",
    "positions": "rope",
    "bias": False,
    "tied_embeddings": False,
}
PARAMETERS = LAYERS * (12 * HIDDEN**2 + 2 * HIDDEN) + 2 * VOCAB * HIDDEN + HIDDEN


def result(model: dict[str, Any] | None = None, **layout: Any) -> Result:
    training = {
        "tokens": "1B",
        "sequence_length": LENGTH,
        "global_batch": BATCH,
        "micro_batch": 1,
        "precision": "bf16",
        "implementation": "megatron",
    }
    training |= layout.pop("training", {})
    return evaluate_plan(
        loading.load(
            {
                "model": model or SHAPE,
                "cluster": {"accelerator": "h100", "devices": 16},
                "training": training,
                "parallelism": {"zero": 0, **layout},
            }
        )
    )


def value(of: Result, name: str) -> Fraction:
    return of[f"memory.replica.{name}"].number


@pytest.mark.parametrize("pipeline", [1, 2, 4, 8, 16])
def test_stages_together_hold_the_model_once(pipeline: int) -> None:
    """Megatron-LM's recipe: weights in 2 bytes, gradients in 4, master weights and two moments in
    4 bytes each (Megatron-LM, docs/source/api-guide/dist_optimizer.md: 18 bytes a parameter)."""
    found = result(pipeline=pipeline)
    assert found["layout.replica_devices"].value == pipeline
    sizes = [value(found, name) for name in ("weights", "gradients", "optimizer")]
    assert sizes == [2 * PARAMETERS, 4 * PARAMETERS, 12 * PARAMETERS]


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_tensor_ranks_hold_matrices_once_and_norms_each(tensor: int) -> None:
    norms = (2 * LAYERS + 1) * HIDDEN
    found = result(tensor=tensor, pipeline=2, sequence=tensor > 1)
    assert value(found, "weights") == 2 * (PARAMETERS - norms + tensor * norms)


@pytest.mark.parametrize(("zero", "divided"), [(1, "optimizer"), (2, "gradients"), (3, "weights")])
def test_as_many_replicas_as_data_ranks_hold_what_zero_divides_once(
    zero: int, divided: str
) -> None:
    found = result(zero=zero, pipeline=1, training={"implementation": "pytorch"})
    whole = value(result(pipeline=1, training={"implementation": "pytorch"}), divided)
    steps = 4 * (LAYERS * 8 + 3) if divided == "optimizer" else 0  # of each tensor, not divided
    assert 16 * (value(found, divided) - steps) == pytest.approx(float(whole - steps), rel=1e-6)


@pytest.mark.parametrize("pipeline", [1, 2, 4, 8, 16])
def test_a_stage_of_1f1b_keeps_one_micro_batch_less_than_the_one_before(pipeline: int) -> None:
    """Narayanan et al. 2021, section 2.2: stage i of p keeps p - i micro-batches of L/p layers, so
    p (p + 1) / 2 times L/p layers in all; the first one p token ids, the last one logits."""
    found = result(pipeline=pipeline, training={"schedule": "1f1b"})
    layer = found["memory.activations.layer"].number
    alive = Fraction(pipeline * (pipeline + 1), 2)
    ends = value(found, "activations") - layer * LAYERS / pipeline * alive
    ids = 8 * LENGTH * pipeline
    logits = found["memory.activations.whole[head]"].number
    assert ends == ids + logits


def test_a_single_device_is_its_own_replica() -> None:
    found = result(pipeline=1)
    for name in ("weights", "gradients", "optimizer"):
        assert value(found, name) == found[f"memory.{name}"].number
    parts = sum(value(found, n) for n in ("weights", "gradients", "optimizer", "activations"))
    assert value(found, "total") == parts


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zero-bubble", "dualpipe"])
def test_no_device_holds_more_than_the_replica_and_its_share_no_more_than_the_fullest(
    schedule: str,
) -> None:
    more = {"virtual_pipeline": 2} if schedule == "interleaved" else {}
    found = result(pipeline=4, tensor=2, training={"schedule": schedule}, **more)
    devices = found["layout.replica_devices"].number
    for name in ("weights", "optimizer", "gradients"):
        most = max(
            found[f"memory.{name}.stage[{stage.path}]"].number
            for stage in found.list_entries("stage")
        )
        assert most <= value(found, name) <= devices * most


def test_a_model_by_its_size_has_states_and_no_activations() -> None:
    found = result({"parameters": "7B"}, pipeline=4, zero=1)
    assert value(found, "weights") == 2 * 7 * 10**9
    assert value(found, "optimizer") == Fraction(12 * 7 * 10**9, 4)
    assert found["memory.replica.activations"].absent is not None
    assert value(found, "total") == (2 + 4 + 3) * 7 * 10**9


def test_a_served_replica_holds_weights_and_cache() -> None:
    """Keys and values of 2 h a layer and token in 2 bytes (Pope et al. 2022, section 2.1)."""
    serve = {"mode": "inference", "output_tokens": 64, "precision": "bf16", "tokens": None}
    found = result(tensor=2, training=serve)
    cache = value(found, "cache")
    assert value(found, "total") == value(found, "weights") + cache
    assert cache == 2 * found["memory.cache"].number
    assert found["memory.replica.gradients"].absent is not None
