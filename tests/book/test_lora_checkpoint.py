"""What a checkpoint of adapters weighs, by arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from tests.conftest import read_data

LLAMA: dict[str, Any] = read_data("plans")["checkpointed_adapters"]


def size(changes: dict[str, Any]) -> int:
    found = planner.load(LLAMA, set=changes).evaluate()["checkpoint.bytes"].value
    assert isinstance(found, int)
    return found


#: Llama-2 70B: 80 layers, queries 8,192 to 8,192 and values 8,192 to 1,024, rank 16.
ADAPTERS = 80 * 16 * ((8192 + 8192) + (8192 + 1024))


@pytest.mark.parametrize(
    ("implementation", "weight"),
    [("megatron", 2 + 4), ("pytorch", 4)],  # bf16 and a master copy; fp32 alone
)
def test_a_checkpoint_of_adapters_holds_the_adapters(implementation: str, weight: int) -> None:
    """Two fp32 moments of AdamW for each parameter of the adapters, and its weights."""
    changes: dict[str, Any] = {"training.implementation": implementation}
    if implementation == "pytorch":
        changes["parallelism.tensor"] = 1
    assert size(changes) == ADAPTERS * (weight + 8)
    assert ADAPTERS * (weight + 8) < 10**9
    assert size({**changes, "training.optimizer": "sgd"}) == ADAPTERS * weight


def test_merged_weights_are_saved_where_that_is_asked_for() -> None:
    merged = size({"training.lora.checkpoint": "merged"})
    assert merged == ADAPTERS * 14 + 2 * 68_976_648_192


def test_without_adapters_all_is_saved() -> None:
    assert size({"training.lora": None}) == 68_976_648_192 * 14


@pytest.mark.parametrize("optimizer", ["adamw", "adam-8bit", "lion", "muon", "adafactor"])
def test_every_optimizer_has_one(optimizer: str) -> None:
    assert 0 < size({"training.optimizer": optimizer}) <= ADAPTERS * 14


#: Of Llama-2 70B: 32,000 × 8,192 weights of the embedding and as many of the head; two norms of
#: each of 80 layers and the last one, of 8,192 weights each.
TABLE, NORMS = 32_000 * 8192, 161 * 8192


@pytest.mark.parametrize(
    ("trained", "whole", "products"),
    [(["head"], TABLE, TABLE), (["embedding", "head", "norm"], 2 * TABLE + NORMS, TABLE)],
)
def test_modules_trained_beside_adapters_count_as_without_adapters(
    trained: list[str], whole: int, products: int
) -> None:
    """Weights in fp32 for 16 bit, gradients and two moments in fp32, and the product for the
    gradient of the head's weight; a checkpoint holds them with their moments."""
    alone = {**LLAMA, "parallelism": {"tensor": 1}}
    changes: dict[str, Any] = {"training.implementation": "pytorch"}
    before = planner.load(alone, set=changes).evaluate()
    after = planner.load(alone, set={**changes, "training.lora.trained": trained}).evaluate()

    def more(name: str) -> Any:
        return after[name].value - before[name].value

    assert more("memory.weights") == (4 - 2) * whole
    assert more("memory.gradients.most") == 4 * whole
    tensors = {1: 1, 3: 163}[len(trained)]
    assert more("memory.optimizer") == 8 * whole + 4 * tensors
    assert more("compute.flops_per_token") == 2 * products
    assert more("checkpoint.bytes") == (4 + 8) * whole


@pytest.mark.parametrize(("trained", "held", "whole"), read_data("book")["modules_beside_a_copy"])
def test_peft_keeps_a_module_beside_the_copy_that_it_trains(
    trained: list[str], held: int, whole: int
) -> None:
    """Bytes of all parameters and parameters with gradients as peft 0.21.2 with torch 2.14.1 has
    them: LlamaForCausalLM in bf16, adapters of rank 8 at q_proj and v_proj, and modules_to_save."""
    sizes = {"layers": 2, "hidden": 256, "attention": {"heads": 4, "kv_heads": 2}}
    plan = {
        "model": {"extends": "llama2-7b", **sizes, "mlp": {"intermediate": 688}},
        "cluster": {"accelerator": "a100-sxm-80gb", "devices": 1},
        "training": {"implementation": "transformers", "precision": "bf16-pure", "global_batch": 1,
                     "lora": {"rank": 8, "trained": trained}},
        "parallelism": {"zero": 0},
    }  # fmt: skip
    assert planner.load(plan).evaluate()["memory.weights"].value == held
    without = planner.load(plan, set={"training.lora.originals": False}).evaluate()
    assert held - without["memory.weights"].value == 2 * (whole - 14_336)


def test_a_tied_head_goes_with_the_embedding_and_none_is_trained_twice() -> None:
    tied = {**LLAMA, "model": "gpt2-small", "parallelism": {"tensor": 1},
            "training": {**LLAMA["training"], "sequence_length": 1024}}  # fmt: skip
    before, after = (
        planner.load(tied, set={"training.lora.targets": ["query"], **more}).evaluate()
        for more in ({}, {"training.lora.trained": ["embedding"]})
    )
    flops = "compute.flops_per_token"
    assert after[flops].value - before[flops].value == 2 * 50_257 * 768
    with pytest.raises(planner.PlanError, match="head has an adapter already"):
        twice = {"training.lora.targets": ["head"], "training.lora.trained": ["head"]}
        planner.load(LLAMA, set=twice)
