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
        ("import os\nos.system('true')\n", "torchtitan"),
        ("config = " + "(" * 5000 + ")" * 5000, "torchtitan"),
        ("config = X()\nconfig.a = " + "-" * 30000 + "1", "torchtitan"),
        ("config = X()\nconfig.model_spec = llama3.model_registry('9T')", "torchtitan"),
        ("config = X()\nconfig.training.seq_len = 4 * 1024", "torchtitan"),
        ("config = X()\nif a:\n    config.training.seq_len = 4096", "torchtitan"),
        ("config = X(training=T(seq_len=[]), optimizer=Lion())", "torchtitan"),
        ("def a():\n    return X()\ndef b():\n    return X()\n", "torchtitan"),
        ("def a():\n    return a()\n", "torchtitan"),
        ("config = X()\x00", "torchtitan"),
        ("config = X()\n" + "config = X(a=config, b=config)\n" * 60, "torchtitan"),
        ("config = []\n" + "config = [config, config]\n" * 60, "torchtitan"),
    ],
)
def test_hostile_launch_files_are_one_fault_a_line(text: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        launch.read(text, name, Place("run"))
    assert all("\n" not in str(fault) for fault in error.value.faults)


def test_a_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="--plan is of a launch file"):
        imports.read(str(tmp_path / "config.json"), "huggingface", plan=True)


REGISTRY = """
from . import model_registry

def process(sample):
    return sample["text"]

def llama3_debugmodel() -> Trainer.Config:
    model_spec = model_registry("debugmodel")
    config = Trainer.Config(model_spec=model_spec, training=TrainingConfig(local_batch_size=8))
    return config

def llama3_8b() -> Trainer.Config:
    config = llama3_debugmodel()
    config.model_spec = model_registry("8B", attn_backend="flex")
    config.parallelism = ParallelismConfig(tensor_parallel_degree=2)
    config.training.seq_len = 8192
    if os.environ.get("FAST"):
        config.compile.enable = True
    config.activation_checkpoint = FullAC.Config()
    return config
"""


def test_a_registry_of_torchtitan_is_read_by_its_flavors(tmp_path: Path) -> None:
    """The form of torchtitan 0.3, models/llama3/config_registry.py."""
    file = tmp_path / "config_registry.py"
    file.write_text(REGISTRY, "utf-8")
    document = imports.read(f"{file}:llama3_8b", "torchtitan", plan=True).document
    assert document["model"] == "llama3.1-8b"
    assert document["training"]["sequence_length"] == 8192
    assert document["training"]["micro_batch"] == document["training"]["global_batch"] == 8
    assert document["training"]["recompute"] == "full"
    assert document["parallelism"]["tensor"] == document["cluster"]["devices"] == 2
    with pytest.raises(PlanError, match="several configurations in it"):
        imports.read(str(file), "torchtitan", plan=True)
    with pytest.raises(PlanError, match="no function llama3_9b"):
        imports.read(f"{file}:llama3_9b", "torchtitan", plan=True)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("config.training.seq_len = 2 * 4096", r"run:3: training.seq_len is no literal: 2 \* 4096"),
        ("config.optimizer = OptimizersContainer.Config(param_groups=[])", "optimizer is Optimi"),
        (
            "config.parallelism.pipeline_parallel_degree = 2\n"
            "config.parallelism.pipeline_parallel_schedule = 'DualPipeV'",
            "schedule is DualPipeV",
        ),
    ],
)
def test_what_a_row_needs_and_is_not_known_is_refused_by_name(line: str, wrong: str) -> None:
    text = f"config = X()\nconfig.model_spec = llama3.model_registry('8B')\n{line}\n"
    with pytest.raises(PlanError, match=wrong):
        launch.read(text, "torchtitan", Place("run"))


def test_a_name_of_a_plan_is_no_code() -> None:
    """Whatever a plan is called, a Python file holds it as text."""
    for name in ('llama3.model_registry("debugmodel")', "exit()", "'); exit('", 'f("x")'):
        plan = loading.load({"extends": "llama70b_h100x1024", "name": name})
        made = config(plan, "torchtitan").text.splitlines()
        line = next(one for one in made if "flavor" in one)
        assert line.endswith(repr(name)) or name == 'llama3.model_registry("debugmodel")'
