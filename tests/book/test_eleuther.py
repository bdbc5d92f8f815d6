"""The examples of the EleutherAI calculators' README: ours, theirs, why they differ.

Theirs: EleutherAI/cookbook, calc/, commits 02edb7e (README), 69516ad (parameters), 05c4066 (FLOPs),
069ae2e (memory). What their scripts compute is restated here as arithmetic, with their defaults
(vocabulary 51,200, sequence 2,048, 300e9 tokens).
"""

from __future__ import annotations

from typing import Any

import pytest

import planner
from tests.changed import result_of
from tests.conftest import read_data

V, S, T = 51_200, 2_048, 300 * 10**9


def evaluate(model: dict[str, Any]) -> Any:
    gpt = {
        "vocab": V,
        "max_sequence": S,
        "norm": "layernorm",
        "positions": "learned",
        "bias": True,
        "tied_embeddings": True,
    }
    return planner.load(
        {
            "model": {**gpt, **model},
            "cluster": {"accelerator": "a100-sxm-80gb", "devices": 1},
            "training": {"tokens": T, "sequence_length": S},
        }
    ).evaluate()


GPT3 = {"layers": 96, "hidden": 12_288, "attention": {"heads": 96}}
#: Fairseq-MoE 15B has experts in every second layer (Artetxe et al. 2021, arXiv 2112.10684).
FAIRSEQ = read_data("plans")["experts_of_switch"]


def their_parameters(layers: int, h: int, experts: int = 0, interval: int = 1) -> int:
    dense = layers if not experts else layers - layers // interval
    routed = 0 if not experts else layers // interval
    feed_forward = 8 * h * h * (dense + routed * experts)
    gating = routed * h * experts
    return h * V + h * S + 4 * layers * h * h + 13 * layers * h + feed_forward + gating


def test_gpt3_parameters_differ_by_the_final_norm() -> None:
    ours = evaluate(GPT3)["parameters.total"].value
    # Their "13 l h" is two norms (4 l h) and the biases of every linear layer (9 l h).
    assert ours - their_parameters(96, 12_288) == 2 * 12_288


def test_fairseq_moe_parameters_differ_by_the_expert_interval_and_the_biases_of_experts() -> None:
    ours = evaluate(FAIRSEQ)["parameters.total"].value
    # Their parameters script has experts in every layer by default, their FLOPs script in every
    # second one, as the model has: 29 billion instead of 15.
    assert round(their_parameters(12, 768, 512, 1) / 1e9) == 29
    theirs = their_parameters(12, 768, 512, 2)
    biases_of_further_experts = 6 * 511 * (4 * 768 + 768)
    assert ours - theirs == 2 * 768 + biases_of_further_experts
    assert round(ours / 1e9) == 15


def test_gpt3_flops_are_the_megatron_convention() -> None:
    result = evaluate(GPT3)
    layers, h = 96, 12_288
    # Their default counts a second forward pass (activation checkpointing), not of the logits.
    theirs = 4 * layers * T * (24 * h * h + 4 * S * h) + 6 * T * h * V
    assert result["compute.training_flops_megatron"].value == theirs
    assert result["compute.training_flops"].value * 4 == 3 * theirs + 6 * T * h * V


def test_fairseq_moe_flops_differ_by_the_router() -> None:
    result = evaluate(FAIRSEQ)
    layers, h, experts = 12, 768, 512
    their_gating = 2 * experts * h // 2  # for one token of one layer, instead of all
    theirs = 4 * layers * T * (24 * h * h + 4 * S * h) + 6 * T * h * V + their_gating
    router = 4 * (layers // 2) * 2 * h * experts * T
    assert result["compute.training_flops_megatron"].value - theirs == router - their_gating


@pytest.mark.parametrize("ratio", [1, 2, 8])
def test_the_ratio_of_key_value_heads_changes_both_projections(ratio: int) -> None:
    model = {**GPT3, "attention": {"heads": 96, "kv_heads": 96 // ratio}}
    result = evaluate(model)
    saved = 2 * 96 * (12_288**2 + 12_288) * (ratio - 1) // ratio
    assert evaluate(GPT3)["parameters.total"].value - result["parameters.total"].value == saved


#: Layers, hidden, heads, sequences per device, tensor-parallel size, devices.
MEMORY_EXAMPLES = {
    "Pythia 6.9B": (32, 4096, 32, 8, 2, 128),
    "Pythia 12B": (36, 5120, 40, 8, 4, 256),
    "the default 20B": (44, 6144, 64, 1, 1, 1),
}


def memory(name: str, recompute: str) -> Any:
    layers, h, heads, batch, tensor, devices = MEMORY_EXAMPLES[name]
    full = recompute == "full"
    return result_of(
        read_data("plans")["neox"],
        model={"layers": layers, "hidden": h, "attention": {"heads": heads}},
        cluster={"devices": devices},
        training={"micro_batch": batch, "recompute": recompute, "partition_activations": full},
        parallelism={"tensor": tensor, "sequence": recompute == "selective"},
    )


@pytest.mark.parametrize("name", MEMORY_EXAMPLES)
def test_memory_examples(name: str) -> None:
    layers, h, _, _, tensor, devices = MEMORY_EXAMPLES[name]
    result = memory(name, "full")
    ours = {part: result[f"memory.{part}"].value for part in ("weights", "gradients", "optimizer")}
    # Both ends of the model untied, 8 l h of norms: theirs leaves 5 of the 9 biases of a layer out.
    n = 2 * V * h + S * h + 8 * layers * h + 2 * h + 12 * layers * h * h
    assert result["parameters.total"].value - n == 5 * layers * h
    # Every rank of a tensor group holds positions, norms and the biases of row-parallel layers.
    whole = S * h + 6 * layers * h + 2 * h
    device = (n + 5 * layers * h - whole) // tensor + whole
    assert ours == {
        "weights": 2 * device,
        # Theirs are not divided by tensor parallelism: 25.6 GiB instead of 12.8 for 6.9B.
        "gradients": 4 * device,
        "optimizer": 12 * device // (devices // tensor),
    }
    assert round(4 * n / 2**30 / (4 * device / 2**30)) == tensor


@pytest.mark.parametrize("name", MEMORY_EXAMPLES)
def test_their_checkpointed_activations_are_selective_recomputation(name: str) -> None:
    layers, h, _, batch, tensor, _ = MEMORY_EXAMPLES[name]
    theirs = 34 * S * batch * h * layers // tensor
    selective = memory(name, "selective")["memory.activations.layer"].value
    assert selective * layers == theirs
    # What --checkpoint-activations does is full recomputation: a layer keeps its input alone.
    full = memory(name, "full")["memory.activations.layer"].value
    assert theirs == 17 * full * layers


def test_their_cache_holds_one_tensor_instead_of_two() -> None:
    layers, h, prompt, output = 44, 6144, S, 1
    result = planner.load(read_data("plans")["neox_serving"]).evaluate()
    theirs = 2 * h * layers * (prompt + output)
    (cache,) = (q.value for q in result.quantities.values() if q.base == "memory.cache.stage")
    assert cache == 2 * theirs
