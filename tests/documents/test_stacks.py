"""Stacks (presets/stacks): every release makes a valid plan, and the plan's own keys come first."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from planner import PlanError
from planner.documents import stacks
from planner.documents.references import preset_names
from planner.documents.source import change_keys
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.search.engine import search
from planner.results.result import evaluate_plan

PAGED, STEP = "training.optimizer_paged", "training.optimizer_step"
SINGLE = {"cluster.devices": 1, "training.optimizer": "adam-8bit", "training.global_batch": 1}
RUN = {"tokens": "1B", "sequence_length": 2048, "micro_batch": 1}
RELEASES = [
    (name, release)
    for name in preset_names("stack")
    for release in stacks.load_stack(name)["releases"]
]


def _load(stack: str, **keys: object) -> Plan:
    training = {**RUN, "stack": stack}
    plan = {"model": "llama3-8b", "cluster": "8 x h100", "training": training, "parallelism": {}}
    return loading.load(plan, {key.replace("__", "."): value for key, value in keys.items()})


@pytest.mark.parametrize("name, release", RELEASES)
def test_a_release_sets_keys_where_the_plan_does_not(name: str, release: dict) -> None:
    """Each key of a release is a plan's, and a plan that gives it keeps its own."""
    given = {
        "training.lora": {"training.lora": {"rank": 8}},
        "model.moe": {"model": "mixtral-8x7b"},
        "training.teacher": {"training.objective": "distill", "training.teacher": "llama3-70b"},
    }
    where: dict[str, object] = {}
    for key, values in release.get("where", {}).items():
        where |= given[key] if values == stacks.GIVEN else {key: values[0]}
    if "training.lora.base" in where:
        where = {"training.lora.rank": 8, **where}
    if where.get("training.mode") == "rl":
        where |= {"rl.prompt_tokens": 100, "rl.response_tokens": 500}
    stack = f"{name}@{release['since']}"
    assert _load(stack, **where).get("training.stack") == stack
    assert (
        _load(stack, training__implementation="litgpt").get("training.implementation") == "litgpt"
    )


@pytest.mark.parametrize("name", preset_names("stack"))
def test_a_precision_that_is_left_out_is_the_one_that_it_becomes(name: str) -> None:
    found = _load(name)
    again = _load(name, training__precision=found.get("training.precision"))
    assert again.get("training.bytes") == found.get("training.bytes")


@pytest.mark.parametrize("name", preset_names("stack"))
def test_a_layout_is_found_for_each_stack(name: str) -> None:
    assert _load(name, parallelism="auto").searched is not None


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("adapters", [{}, {"rank": 16, "base": "nf4"}], ids=["full", "QLoRA"])
@pytest.mark.parametrize("stack", ["transformers-trainer", "deepspeed", "pytorch-fsdp2", "trl"])
def test_layouts_that_are_found_are_the_plans_that_say_them(stack: str, adapters: Any) -> None:
    """What the stack sets follows a layout: DeepSpeed's bytes under ZeRO-2, FSDP's under ZeRO-3."""
    training: Any = {"sequence_length": 2048, "global_batch": 16, "stack": stack}
    training |= {"lora": adapters} if adapters else {}
    cluster = {"accelerator": "a100-sxm-40gb", "devices": 8}
    base: Any = {"model": "llama3.1-8b", "cluster": cluster, "training": training}
    base["parallelism"] = {"zero": 3}
    for layout in search(loading.load(base), top=6).best:
        said = {k: v for k, v in layout.changes.items() if v is not None}
        alone = evaluate_plan(loading.load(change_keys(base, said)))
        for name in ("memory.process", "time.step_seconds"):
            assert float(alone[name].value) == pytest.approx(float(layout.values[name]))


@pytest.mark.parametrize(
    ("stack", "stated", "key", "value"),
    [
        ("unsloth", {"training.offload.layers": 4, "training.lora": {"rank": 8}},
         "training.offload.activations", Fraction(4, 32)),
        ("maxtext", {"training.distributed_optimizer": False}, "parallelism.zero", 0),
        ("torchtune", {"training.offload.optimizer": True, **SINGLE}, PAGED, False),
        ("torchtune", {**SINGLE, "training.gradient_accumulation": 1}, PAGED, True),
        ("torchtune", SINGLE, PAGED, True),
        ("torchtune", {**SINGLE, "training.global_batch": 2}, PAGED, False),
        ("torchtune", {"training.implementation": "megatron", **SINGLE}, STEP, "whole"),
    ],
)  # fmt: skip
def test_what_a_plan_states_comes_before_what_its_stack_sets(
    stack: str, stated: dict[str, object], key: str, value: object
) -> None:
    assert _load(stack, **stated).get(key) == value


def test_what_a_stack_must_have_is_refused_beside_what_contradicts_it() -> None:
    with pytest.raises(PlanError) as refused:
        _load("pytorch-fsdp2", training__distributed_optimizer=False)
    said = "training.distributed_optimizer", "zero 3, which training.stack pytorch-fsdp2 sets"
    assert all(words in str(refused.value) for words in said)


def test_releases_stand_in_the_order_of_months() -> None:
    for name in preset_names("stack"):
        months = [release["since"] for release in stacks.load_stack(name)["releases"]]
        assert months == sorted(months), name


def test_months_choose_releases() -> None:
    kernels = [
        _load(f"transformers-trainer@{month}").get("training.optimizer_kernel")
        for month in ("2023-06", "2024-01", "2025-09")
    ]
    assert kernels == ["loop", "foreach", "fused"]


def test_the_search_finds_only_what_the_stack_runs() -> None:
    found = _load("deepspeed", model="llama3-70b", cluster__devices=64, parallelism="auto")
    assert found.get("parallelism.pipeline") == 1 or found.get("parallelism.zero") < 2
    with_many = _load(
        "deepspeed",
        model="llama3-70b",
        cluster__devices=64,
        parallelism__zero=3,
        parallelism__auto=True,
    )
    assert with_many.get("parallelism.pipeline") == 1


@pytest.mark.parametrize(
    "stack, device, base, runs",
    [
        # bitsandbytes 0.50 has NVIDIA, AMD, Intel, Apple and Gaudi; MaxText 0.2.4 packs by Qwix.
        ("trl", "tpu-v6e", "nf4", False),
        ("trl", "tpu-v6e", "bf16", True),
        ("trl", "mi300x", "nf4", True),
        ("trl", "trainium2", "nf4", False),
        ("maxtext@2026-03", "tpu-v6e", "nf4", False),
        ("maxtext@2026-08", "tpu-v6e", "nf4", True),
        ("maxtext@2026-08", "tpu-v6e", "nf4-double", False),
        (None, "trainium2", "int8", False),
        (None, "tpu-v6e", "nf4", True),
    ],
)
def test_a_format_without_kernels_is_refused(
    stack: str | None, device: str, base: str, runs: bool
) -> None:
    training = {**RUN, "lora": {"rank": 8, "base": base}} | ({"stack": stack} if stack else {})
    plan = {"model": "llama3.2-1b", "cluster": f"1 x {device}", "training": training}
    if runs:
        assert loading.load(plan).get("training.lora.base") == base
    else:
        with pytest.raises(PlanError, match=f"base {base} (on|under) .*(kernels|packed|packs)"):
            loading.load(plan)
