"""What an objective changes: counts of small models by the libraries that train for it."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("implementation", "kept", "passing"), [("pytorch", 9, 4), ("transformers", 32, 24)]
)
def test_distillation_keeps_the_logits_of_both(
    implementation: str, kept: int, passing: int
) -> None:
    """Storages alive while PyTorch 2.14.1 runs torchtune 0.6.1's ForwardKLLoss beside the loss of
    the labels (13 bytes a logit kept, 25 at the peak, in bf16), and TRL 1.16.0's
    generalized_jsd_loss (36 and 68), less what the loss of the labels alone takes (4 and 12)."""
    of = {"implementation": implementation, "precision": "bf16-pure", "loss": "full"}
    small = {"model": {**SMALL["model"], "vocab": 50_257}}
    alone, taught = (
        planner.load({**SMALL, **small}, {f"training.{k}": v for k, v in keys.items()}).evaluate()
        for keys in (of, {**of, "objective": "distill", "teacher": "gpt2-small"})
    )
    for name, each in (("activations", kept), ("buffers", passing)):
        more = taught[f"memory.{name}"].value - alone[f"memory.{name}"].value
        assert more == each * 128 * 50_257
    teacher = planner.load({**SMALL, "model": "gpt2-small"}, {"training.recompute": "none"})
    read = teacher.evaluate()
    executed = "compute.executed_flops_per_token"
    assert taught[executed].value - alone[executed].value == (
        read["compute.forward_flops_per_token"].value
    )
    assert taught["memory.weights.teacher"].value == 2 * read["parameters.total"].value


def test_a_teacher_is_sharded_unless_each_device_holds_it_whole() -> None:
    """accelerate 1.15.0, prepare_model with evaluation_mode: FSDP shards no teacher."""
    keys = {"cluster.devices": 2, "parallelism.zero": 3, "training.objective": "distill"}
    keys |= {"model": "llama3.2-1b", "training.teacher": "llama3.1-8b", "training.micro_batch": 2}
    held = {}
    for whole in (True, False):
        plan = planner.load(SMALL, {**keys, "training.teacher_whole": whole})
        held[whole] = plan.evaluate()["memory.weights.teacher"].value
    assert held[True] == 2 * held[False]


def test_adapters_of_a_reward_model_train_its_head_in_full() -> None:
    """PEFT 0.21.2, print_trainable_parameters: LoraConfig of task SEQ_CLS, rank 4. Adam has two
    numbers of each, and a step counter of each of 13 tensors."""
    lora = {"lora.rank": 4, "lora.targets": ["query", "value"]}
    result = evaluate(objective="reward", precision="fp32", **lora)
    assert result["memory.optimizer"].value == 8 * 2_752 + 13 * 4
