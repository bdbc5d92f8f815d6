"""What an objective changes: counts of small models by the libraries that train for it."""

from __future__ import annotations

from typing import Any

import planner

SMALL: dict[str, Any] = {
    "model": {
        **{"layers": 3, "hidden": 64, "vocab": 1000, "norm": "rmsnorm", "positions": "rope"},
        "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16, "qk_norm": "head"},
        "mlp": {"gated": True, "intermediate": 160},
    },
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
    "training": {
        **{"tokens": 10**6, "sequence_length": 32, "global_batch": 4, "micro_batch": 4},
        **{"implementation": "pytorch", "recompute": "none"},
    },
}


def evaluate(**keys: Any) -> planner.Result:
    return planner.load(SMALL, {f"training.{key}": value for key, value in keys.items()}).evaluate()


def test_a_reward_model_has_one_output_in_place_of_the_vocabulary() -> None:
    """transformers 5.24.0, Qwen3ForSequenceClassification with num_labels 1, which TRL's
    RewardTrainer loads; torch's FlopCounterMode over 4 × 32 tokens, attention eager."""
    result = evaluate(objective="reward")
    assert result["parameters.total"].value == 193_632
    assert 128 * result["compute.forward_flops_per_token"].value == 36_192_256
    assert 128 * result["compute.flops_per_token"].value == 108_576_768


def test_an_embedding_model_is_a_reward_model_without_its_output() -> None:
    rewards, vectors = evaluate(objective="reward"), evaluate(objective="embed")
    assert rewards["parameters.total"].value - vectors["parameters.total"].value == 64


def test_adapters_of_a_reward_model_train_its_head_in_full() -> None:
    """PEFT 0.21.2, print_trainable_parameters: LoraConfig of task SEQ_CLS, rank 4. Adam has two
    numbers of each, and a step counter of each of 13 tensors."""
    lora = {"lora.rank": 4, "lora.targets": ["query", "value"]}
    result = evaluate(objective="reward", precision="fp32", **lora)
    assert result["memory.optimizer"].value == 8 * 2_752 + 13 * 4
