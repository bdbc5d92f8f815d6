"""Launch files read back: what an export says is the plan that it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import launch_files
from planner.base.errors import Place, PlanError
from planner.connect import imports
from planner.connect.exports import config
from planner.connect.imports import launch
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.questions import loading
from planner.results.result import evaluate

#: What a run is, beside its layout.
RUN = ("tokens", "sequence_length", "global_batch", "micro_batch", "precision", "recompute")
NUMBERS = (
    "parameters.total",
    "memory.process",
    "time.step_seconds",
    "compute.model_flops_per_step",
)
#: Of a rule in one of them and of a plain key in the other.
FOLLOWS = ("parallelism.cut", "parallelism.stages")


def cases() -> list[Any]:
    return [
        pytest.param(plan, name, id=f"{name}: {said}")
        for said, plan in launch_files.plans()
        for name in imports.LAUNCHED
        if not config(plan, name).unsaid or not config(plan, name).lost
    ]


@pytest.mark.parametrize(("plan", "name"), cases())
def test_an_export_is_read_back_as_its_plan(plan: Plan, name: str) -> None:
    made = config(plan, name)
    document = launch.read(made.text, name, Place("run")).document
    assert document["cluster"]["devices"] == plan.get("cluster.devices")
    document["cluster"] = {"extends": "h100x1024", "devices": plan.get("cluster.devices")}
    back = loading.load(document)
    near = {each.key for each in made.unsaid}
    for key in (*(f"training.{one}" for one in RUN), *KEYS):
        if key == "training.tokens":  # whole steps are said, of which the last is begun
            step = plan.get("training.global_batch") * plan.get("training.sequence_length")
            assert 0 <= back.get(key) - plan.get(key) < step
        elif key not in near and key not in FOLLOWS:
            assert back.get(key) == plan.get(key), key
    first, second = evaluate(plan), evaluate(back)
    assert first["parameters.total"].number == second["parameters.total"].number
    activations = {one.get("model.mlp.activation") for one in (plan, back)}
    if not near and len(activations) == 1:  # one word for two kinds of GELU
        for one in NUMBERS:
            if one in first:
                assert first[one].value == second[one].value, one


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "megatron"),
        ("- 1\n- 2\n", "nanotron"),
        ("a: [", "nanotron"),
        ("--num-layers 4 --hidden-size 64 --num-attention-heads x --vocab-size 9", "megatron"),
        ("--num-layers 2 --tensor-model-parallel-size [1 --hidden-size 8", "megatron"),
        ("model: {model_config: {num_hidden_layers: -1}}\n", "nanotron"),
        ("parallelism: {tp: many, dp: 1, pp: 1}\n", "nanotron"),
        ("--pipeline-model-parallel-layout " + "(t|)*9999" * 900, "megatron"),
    ],
)
def test_hostile_launch_files_are_one_fault_a_line(text: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        launch.read(text, name, Place("run"))
    assert all("\n" not in str(fault) for fault in error.value.faults)


def test_a_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="--plan is of a launch file"):
        imports.read(str(tmp_path / "config.json"), "huggingface", plan=True)
