"""A plan of reinforcement learning: what it makes of itself, and what its phases obey."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.results.result import evaluate_plan
from tests.conftest import read_data

PLAN: dict[str, Any] = {
    "model": "llama3.1-8b",
    "cluster": {"extends": "h100x1024", "devices": 16},
    "training": {"mode": "rl", "sequence_length": 4096, "global_batch": 512, "micro_batch": 1},
    "parallelism": {"pipeline": 2, "zero": 1},
    "rl": {"prompts": 64, "samples": 32, "prompt_tokens": 150, "response_tokens": 979}
    | {"rollout": {"tensor": 1}},
}
PHASES = read_data("plans")["rl_phases"]


def evaluate(**changes: Any) -> Any:
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    return planner.load(PLAN, keys).evaluate()


def test_a_step_on_policy_is_the_sum_of_its_phases() -> None:
    result = evaluate(rl__reference=True)
    phases = [result[f"rl.{phase}_seconds"].value for phase in PHASES]
    assert result["rl.step_seconds"].value == pytest.approx(sum(phases))
    assert result["rl.idle_share"].value == 0


def test_the_trainer_packs_all_tokens_of_a_batch_on_its_own_devices() -> None:
    result = evaluate(rl__placement="split", rl__rollout__devices=8, rl__staleness=1)
    training = result.plan.data["training"]
    assert training["global_batch"] * training["sequence_length"] == pytest.approx(
        512 * 1129, 0.001
    )
    assert result.plan.get("cluster.devices") == 8
    sides = [result[f"rl.{side}_seconds"].value for side in ("rollout", "trainer", "sync")]
    assert result["rl.step_seconds"].value == pytest.approx(max(sides[:2]) + sides[2])
    assert min(result[f"rl.{side}_idle_share"].value for side in ("rollout", "trainer")) == 0


def test_more_responses_a_longer_one_and_fewer_slots_take_longer() -> None:
    base = evaluate()["rl.rollout_seconds"].value
    for changes in (
        {"rl__samples": 64},
        {"rl__response_tokens": 1500},
        {"rl__rollout__max_concurrency": 16},
        {"rl__rollout__memory_share": "0.25"},
    ):
        assert evaluate(**changes)["rl.rollout_seconds"].value > base


@pytest.mark.slow
def test_speculation_is_as_fast_as_published() -> None:
    """Leviathan et al. 2023, theorem 3.8: steps of the model alone over those with a draft whose
    step takes c of the model's, where few requests leave the device waiting for weights."""
    few = {"rl__rollout__max_concurrency": 4, "rl__rollout__step_overhead": 0}
    few |= {"rl__response_tokens": {"mean": 979, "spread": 0}}
    draft = {"draft_tokens": 3, "acceptance": 0.8, "draft": "llama3.2-1b"}
    alone, small = (evaluate(**few, model=name) for name in (PLAN["model"], draft["draft"]))
    both = evaluate(**few, rl__rollout__speculation=draft)
    model, c, found = (one["rl.decode_seconds"].value for one in (alone, small, both))
    assert both["rl.accepted_tokens"].value == pytest.approx(2.952)
    assert model / found == pytest.approx(2.952 / (1 + 3 * c / model), rel=0.02)
    assert both["rl.memory.sync"].value > alone["rl.memory.sync"].value


def test_a_framework_that_is_not_named_has_a_wider_interval() -> None:
    """Wider than each scatter of NeMo RL's releases, 4 to 22 % of one recipe's step."""
    plans = evaluate(), evaluate(training__stack="nemo-rl")
    found = [one["rl.step_seconds"] for one in plans]
    sizes = [one.interval[1] / one.interval[0] for one in found]
    assert sizes[0] > sizes[1] > 1.22


def test_a_cache_too_small_for_one_sequence_has_no_rollout() -> None:
    result = evaluate(rl__rollout__memory_share="0.2")
    assert "too small for one sequence" in result.absent["rl.step_seconds"]
    assert result.verdict["state"] == "no"


def test_an_engine_without_degrees_has_room_for_weights_and_as_much_cache() -> None:
    large = {"model": "qwen2.5-32b", "rl__rollout__tensor": None}
    assert evaluate(**large).plan.get("rl.rollout.tensor") == 4  # 65.5 GB of 51 GB a device
    assert evaluate(**large)["rl.step_seconds"].value > 0


def test_an_engine_divides_experts_over_tensor_parallel_devices_too() -> None:
    """As vLLM does: 4 experts-parallel ranks of 4 devices hold a quarter of the experts each."""
    plan = "presets/reinforcement/grpo_qwen3-30b-a3b_32xh100.yaml"
    held = [
        planner.load(plan, {"rl.rollout.tensor": 4, "rl.rollout.expert": expert}).evaluate()
        for expert in (1, 4, 16)
    ]
    sizes = [one["rl.memory.engine_weights"].value for one in held]
    experts = 48 * 128 * 3 * 2048 * 768 * 2  # bytes of Qwen3-30B-A3B's
    assert sizes[0] == sizes[1] and sizes[1] - sizes[2] == experts // 4 - experts // 16


def test_partial_rollouts_wait_for_no_longest_response() -> None:
    """Twice the responses take twice as long; with a tail at its end a rollout takes less."""
    split = {"rl__placement": "split", "rl__staleness": 1, "rl__rollout__devices": 8}
    for partial in (True, False):
        keys = {**split, "rl__rollout__max_concurrency": 64, "rl__rollout__partial": partial}
        one, two = (evaluate(**keys, rl__samples=n)["rl.decode_seconds"].value for n in (32, 64))
        assert two / one == pytest.approx(2, rel=0.001) if partial else two / one < 1.95


def test_weights_take_as_long_as_their_tensors_and_a_nodes_cards() -> None:
    """Llama 3.1 8B has 291 tensors (model.safetensors.index.json)."""
    slow, none = (evaluate(rl__sync_tensor_seconds=seconds) for seconds in (1, 0))
    assert slow["rl.sync_tensors"].value == 291
    assert slow["rl.sync_seconds"].value - none["rl.sync_seconds"].value == pytest.approx(291)


def test_the_host_holds_the_engines_weights_while_it_sleeps() -> None:
    """vLLM's first level of sleep keeps them there: 16.06 GB of Llama 3.1 8B in bf16, whole on each
    of 8 devices, beside the reference model's 8.03 GB of a device."""
    found = planner.load("presets/reinforcement/grpo_llama3.1-8b_16xh100.yaml").evaluate()
    assert found["rl.memory.host"].value == pytest.approx(8 * (16.06e9 + 8.03e9), rel=0.001)


def test_a_layout_is_found_for_the_trainer() -> None:
    found = planner.load({**PLAN, "parallelism": "auto"}).evaluate()
    assert found.verdict["state"] == "fits"
    assert found["rl.step_seconds"].value < evaluate()["rl.step_seconds"].value


def test_the_devices_that_balance_both_sides_leave_less_waiting() -> None:
    sides = {"rl__placement": "split", "rl__staleness": 1, "rl__response_tokens": 2000}
    sides |= {"rl__rollout__devices": 4, "parallelism__pipeline": 1}
    uneven = evaluate(**sides)
    many = round(uneven["rl.balanced_devices"].value)
    even = evaluate(**{**sides, "rl__rollout__devices": many})
    assert even["rl.idle_share"].value < uneven["rl.idle_share"].value / 2


@pytest.mark.slow
def test_the_split_that_is_found_is_as_fast_as_every_one_that_is_tried() -> None:
    own = {"placement": "split", "staleness": 1, "rollout": "auto"}
    found = planner.load({**PLAN, "parallelism": {}, "rl": {**PLAN["rl"], **own}}).evaluate()
    assert found.plan.get("rl.rollout.devices") == 8
    for devices in (2, 4, 8):
        tried = {"rl__placement": "split", "rl__staleness": 1, "rl__rollout__devices": devices}
        step = evaluate(**tried, parallelism__pipeline=1, rl__rollout__tensor=None)
        assert found["rl.step_seconds"].value <= step["rl.step_seconds"].value * (1 + 1e-9)


@pytest.mark.slow
def test_a_study_has_the_numbers_of_each_plan_alone() -> None:
    axes = {"cluster.devices": [8, 16], "rl.samples": [16, 32]}
    for row in planner.load_study({"base": PLAN, "axes": axes, "record": ["rl.step_seconds"]}):
        alone = evaluate(**{key.replace(".", "__"): row[key] for key in axes})
        assert row["rl.step_seconds"] == pytest.approx(alone["rl.step_seconds"].value)


def test_a_critic_of_another_size_and_a_reward_model_take_their_time() -> None:
    ppo = evaluate(rl__algorithm="ppo", rl__critic="llama3.2-1b", rl__reward="llama3.1-8b")
    alone = evaluate()
    assert 0 < ppo["rl.value_seconds"].value < ppo["rl.reward_seconds"].value
    assert ppo["rl.update_seconds"].value > alone["rl.update_seconds"].value
    assert alone["rl.memory.critic"].value == 0 < ppo["rl.memory.critic"].value


def test_critic_and_reward_model_have_one_output_in_place_of_the_vocabulary() -> None:
    """LlamaForSequenceClassification of one label (transformers): 128,256 rows of the head less,
    one more."""
    ppo = evaluate(rl__algorithm="ppo", rl__critic=True, rl__reward="llama3.1-8b").plan
    for role in ("critic", "reward"):
        count = evaluate_plan(ppo.others[role])["parameters.total"].number
        assert count == 8_030_261_248 - (128_256 - 1) * 4096


def test_padding_takes_longer_than_packing() -> None:
    padded = evaluate(training__packed=False, training__micro_batch=4)["rl.update_seconds"].value
    assert padded > 1.2 * evaluate()["rl.update_seconds"].value
