"""Launch files read back: what an export says is the plan that it came from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import launch_files
from planner.base.errors import Place, PlanError
from planner.connect import as_run, imports
from planner.connect.exports import LAUNCHED, READ_TRAINERS, TRAINERS, build_config
from planner.connect.exports.table import LaunchConfig
from planner.connect.imports import launch
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.plans.plan import IDLE, variant
from planner.questions import loading
from planner.results.result import evaluate_plan
from tests.conftest import RunCli, read_data

PUBLISHED = launch_files.DATA / "trainer_files.yaml"
#: What a run is, beside its layout.
RUN = ("tokens", "sequence_length", "global_batch", "micro_batch", "precision", "recompute")
NUMBERS = read_data("connect")["numbers_of_launch_files"]
#: Of a rule in one of them and of a plain key in the other.
FOLLOWS = ("parallelism.cut", "parallelism.stages")


#: A model of six layers, and the ends of a pipeline counted as a layer each.
SMALL = (
    "--num-layers 6 --hidden-size 64 --num-attention-heads 4 --vocab-size 512 --seq-length 64 "
    "--micro-batch-size 1 --global-batch-size 8 --disable-bias-linear"
)
APART = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"


DOCUMENTS = launch_files.read_documents()


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("title", DOCUMENTS)
def test_an_export_is_read_back_as_its_plan(title: str) -> None:
    plan = loading.load(DOCUMENTS[title])
    exported = {name: build_config(plan, name) for name in LAUNCHED}
    for name, made in exported.items():
        if not made.lost:
            check_launch_file(plan, name, made)


@pytest.mark.slow
def test_each_framework_exports_some_plans_without_a_loss() -> None:
    plans = [loading.load(document) for document in DOCUMENTS.values()]
    for name in (*LAUNCHED, *TRAINERS):
        assert sum(not build_config(plan, name).lost for plan in plans) >= 6, name


def check_launch_file(plan: Plan, name: str, made: LaunchConfig) -> None:
    """Check that the file of a framework, read back, is the plan that it was made of."""
    document = launch.read_launch(made.text, name, Place("run")).document
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
    first, second = evaluate_plan(plan), evaluate_plan(back)
    assert first["parameters.total"].number == second["parameters.total"].number
    activations = {one.get("model.mlp.activation") for one in (plan, back)}
    if len(activations) == 1:  # one word for two kinds of GELU
        ran = evaluate_plan(variant(plan, as_run.find_changes(plan, name, made)))
        for one in NUMBERS:
            if one in first:
                assert ran[one].value == second[one].value, one


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *read_data("faults")["launch_texts"],
        ("--pipeline-model-parallel-layout " + "(t|)*9999" * 900, "megatron"),
        (f"{SMALL} --pipeline-model-parallel-size many", "megatron"),
        (f"{SMALL} {APART} --pipeline-model-parallel-size 3", "megatron"),
        (f"{SMALL} {APART} --pipeline-model-parallel-size 999999999", "megatron"),
        ("config = " + "(" * 5000 + ")" * 5000, "torchtitan"),
        ("config = X()\nconfig.a = " + "-" * 30000 + "1", "torchtitan"),
        ("config = X()\x00", "torchtitan"),
        ("config = X()\n" + "config = X(a=config, b=config)\n" * 60, "torchtitan"),
        ("config = []\n" + "config = [config, config]\n" * 60, "torchtitan"),
        ("config = X()\nconfig.a = " + "[1] * 99999 * 99999", "megatron-bridge"),
        ("config = X()\nconfig.a = " + "[1] * 9 + " * 3000 + "[1]", "megatron-bridge"),
    ],
)
def test_hostile_launch_files_are_one_fault_a_line(text: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        launch.read_launch(text, name, Place("run"))
    assert all("\n" not in str(fault) for fault in error.value.faults)


#: What files of trainers leave to the script that trains, or to its model.
LEFT = {
    "deepspeed": ("training.sequence_length", "parallelism.pipeline", "parallelism.expert"),
    "accelerate": ("training.sequence_length", "training.global_batch"),
    "transformers": ("training.sequence_length",),
}


@pytest.mark.parametrize("title", DOCUMENTS)
def test_a_trainers_file_is_read_back_as_its_plan(title: str) -> None:
    plan = loading.load(DOCUMENTS[title])
    exported = {name: build_config(plan, name) for name in TRAINERS}
    for name, made in exported.items():
        if not made.lost:
            check_trainer_file(plan, DOCUMENTS[title]["model"], name, made)


def check_trainer_file(plan: Plan, model: str, name: str, made: LaunchConfig) -> None:
    """As ``check_launch_file``, of a trainer, whose file is read back with its model."""
    left = [f"{key}={plan.get(key)}" for key in LEFT.get(name, ())]
    chosen = [f"model={model}", "cluster.accelerator=h100-sxm-80gb", *left]
    back = loading.load(launch.read_trainer(made.text, name, Place("run"), chosen).document)
    near = tuple(each.key for each in made.unsaid)
    held = [each for each in KEYS if each not in FOLLOWS]
    keys = [*(f"training.{one}" for one in (*RUN, "optimizer", "loss")), *held]
    keys += ["training.lora.rank", "training.lora.targets", "training.lora.base"]
    keys += ["training.offload.optimizer", "cluster.devices"]
    for key in keys:
        if key == "training.tokens":
            step = plan.get("training.global_batch") * plan.get("training.sequence_length")
            assert back.get(key) is None or 0 <= back.get(key) - plan.get(key) < step
        elif not key.startswith((*near, "-")):
            assert back.get(key) == plan.get(key), key
    first, second = evaluate_plan(plan), evaluate_plan(back)
    assert first["parameters.total"].number == second["parameters.total"].number
    if not set(near) - {"model", *LEFT.get(name, ())} and name in ("axolotl", "llama-factory"):
        assert first["memory.process"].value == second["memory.process"].value


def published() -> list[Any]:
    rows = yaml.safe_load(PUBLISHED.read_text("utf-8"))
    return [pytest.param(row, id=row["source"]) for row in rows]


@pytest.mark.parametrize("row", published())
def test_a_published_file_of_a_trainer_is_read_or_refused_by_name(row: dict[str, Any]) -> None:
    text, chosen = json.dumps(row["says"]), ["model=llama3-8b", "training.sequence_length=2048"]
    chosen = chosen[: 1 if row["from"] in ("axolotl", "llama-factory") else 2]
    if "refused" in row:
        with pytest.raises(PlanError, match=f"^run: {re.escape(row['refused'])} is"):
            launch.read_trainer(text, row["from"], Place("run"), chosen)
        return
    back = loading.load(launch.read_trainer(text, row["from"], Place("run"), chosen).document)
    # A stage that one device alone has no use for stands in the document, not in what holds.
    idle = {key: back.document.get(key) for key in row["read"] if back.derived.get(key) == IDLE}
    assert {key: back.get(key) for key in row["read"]} | idle == row["read"]


def test_what_no_row_knows_is_told_by_its_name() -> None:
    text = "per_device_train_batch_size: 2\nfancy_new_option: 3\nlearning_rate: 1e-4\n"
    said = launch.read_trainer(text, "transformers", Place("run"), ["model=llama3-8b"]).said
    assert "unknown to transformers 5.23: fancy_new_option" in said


def test_that_nothing_divides_the_weights_is_told() -> None:
    told = "no key says parallelism.zero: whole copies, unless a file of its launcher divides them"
    chosen = ["model=llama3-8b", "cluster.devices=8"]
    for more, is_told in (("", True), ("fsdp: full_shard\n", False)):
        text = f"per_device_train_batch_size: 2\n{more}"
        said = launch.read_trainer(text, "transformers", Place("run"), chosen).said
        assert (told in said) == is_told


def test_a_precision_that_the_trainer_fills_in_is_no_precision_of_the_file() -> None:
    text = '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}'
    read = launch.read_trainer(text, "deepspeed", Place("run"), ["model=llama3-8b"])
    assert "precision" not in read.document["training"]
    assert "left to the trainer: bf16.enabled" in read.said


@pytest.mark.parametrize("name", READ_TRAINERS)
@pytest.mark.parametrize("text", read_data("faults")["trainer_files"])
def test_hostile_files_of_trainers_are_told_on_one_line(name: str, text: str) -> None:
    try:
        read = launch.read_trainer(text, name, Place("run"), ["model=gpt2-small"])
    except PlanError as error:
        assert all("\n" not in str(fault) for fault in error.faults)
    else:
        assert all("\n" not in line for line in read.said)


def test_a_trainers_file_needs_a_model_and_says_whose_weights_it_names(
    run_cli: RunCli, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("base_model: some/weights\nmicro_batch_size: 2\n", encoding="utf-8")
    done = run_cli("import", str(file), "--from", "axolotl")
    assert done.returncode == 2 and "some/weights is its weights (--set model=NAME" in done.stderr
    done = run_cli("import", str(file), "--from", "axolotl", "--set", "model=llama3-8b")
    assert done.returncode == 0 and "micro_batch: 2  # micro_batch_size" in done.stdout
    file.write_text("base_model: meta-llama/Meta-Llama-3-8B\nmicro_batch_size: 2\n")
    done = run_cli("import", str(file), "--from", "axolotl")  # a shipped model by its page
    assert done.returncode == 0 and "model: llama3-8b  # base_model" in done.stdout
    assert "unknown to" not in done.stderr
    file.write_text("model: llama3-8b\nbatch_size: 2\n")  # two keys that many have
    done = run_cli("import", str(file), "--set", "model=llama3-8b")
    assert done.returncode == 2 and "no framework is known by what the file" in done.stderr
    file.write_text('{"model_type": "gpt2"}')  # a model's configuration, whatever its name
    done = run_cli("import", str(file), "--set", "model=llama3-8b")
    assert done.returncode == 2 and "--set is only for launch files" in done.stderr


def test_a_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="--plan is only for launch files"):
        imports.import_file(str(tmp_path / "config.json"), "huggingface", plan=True)


REGISTRY = read_data("connect")["torchtitan_registry"]


def test_a_registry_of_torchtitan_is_read_by_its_flavors(tmp_path: Path) -> None:
    """The form of torchtitan 0.3, models/llama3/config_registry.py."""
    file = tmp_path / "config_registry.py"
    file.write_text(REGISTRY, "utf-8")
    document = imports.import_file(f"{file}:llama3_8b", "torchtitan", plan=True).document
    assert document["model"] == "llama3.1-8b"
    assert document["training"]["sequence_length"] == 8192
    assert document["training"]["micro_batch"] == document["training"]["global_batch"] == 8
    assert document["training"]["recompute"] == "full"
    assert document["parallelism"]["tensor"] == document["cluster"]["devices"] == 2
    with pytest.raises(PlanError, match="several configurations in it"):
        imports.import_file(str(file), "torchtitan", plan=True)
    with pytest.raises(PlanError, match="no function llama3_9b"):
        imports.import_file(f"{file}:llama3_9b", "torchtitan", plan=True)


@pytest.mark.parametrize(
    ("line", "wrong"),
    read_data("faults")["launch_rows"],
)
def test_what_a_row_needs_and_is_not_known_is_refused_by_name(line: str, wrong: str) -> None:
    text = f"config = X()\nconfig.model_spec = llama3.model_registry('8B')\n{line}\n"
    with pytest.raises(PlanError, match=wrong):
        launch.read_launch(text, "torchtitan", Place("run"))


def test_a_name_of_a_plan_is_no_code() -> None:
    """Whatever a plan is called, a Python file holds it as text."""
    for name in ('llama3.model_registry("debugmodel")', "exit()", "'); exit('", 'f("x")'):
        plan = loading.load({"extends": "llama70b_h100x1024", "name": name})
        made = build_config(plan, "torchtitan").text.splitlines()
        line = next(one for one in made if "flavor" in one)
        assert line.endswith(repr(name)) or name == 'llama3.model_registry("debugmodel")'


#: As Megatron-Bridge's own recipes are written (its recipes/llama/h100/llama3.py).
RECIPE = read_data("connect")["bridge_recipe"]


def recipe(precision: str = "bf16_mixed()", more: str = "") -> dict[str, Any]:
    text = RECIPE.replace("{precision}", precision).replace("{more}", f"    {more}")
    return launch.read_launch(text, "megatron-bridge", Place("recipe.py")).document


@pytest.mark.parametrize(
    ("said", "precision", "layers"),
    read_data("connect")["bridge_recipes"],
)
def test_a_recipe_of_megatron_bridge_is_read_with_its_model_of_the_hub(
    said: str, precision: str, layers: dict[str, int]
) -> None:
    document = recipe(said)
    assert document["model"] == "llama3.1-8b"  # by another name of its page
    training, layout = document["training"], document["parallelism"]
    assert (training["precision"], training.get("bf16_layers", {})) == (precision, layers)
    assert training["recompute"] == "selective" and training["global_batch"] == 512
    assert training["tokens"] == 300_000 * 512 * 8192  # its common start trains so many steps
    assert "dropout" not in training  # its converter decides it
    assert (layout["tensor"], layout["context"], layout["sequence"], layout["zero"]) == (
        4,
        2,
        True,
        1,
    )


@pytest.mark.parametrize(
    ("line", "wrong"),
    read_data("faults")["recipes"],
)
def test_what_a_recipe_says_and_is_not_read_is_refused_by_its_field(line: str, wrong: str) -> None:
    with pytest.raises(PlanError, match=wrong):
        recipe(more=line)


def test_changes_of_a_recipe_are_read_as_its_scripts_take_them(tmp_path: Path) -> None:
    """scripts/training/run_recipe.py takes KEY=VALUE, tutorials/recipes a YAML of the same."""
    changes = {
        "model": {
            **{"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 512},
            **{"seq_length": 128, "moe_layer_freq": [0, 1, 1, 1], "num_moe_experts": 8},
            **{"gated_linear_unit": True, "activation_func": "silu", "ffn_hidden_size": 256},
            **{"moe_token_dispatcher_type": "alltoall", "expert_model_parallel_size": 2},
        },
        "train": {"global_batch_size": 8, "micro_batch_size": 2},
    }
    file = tmp_path / "changes.yaml"
    file.write_text(yaml.safe_dump(changes), "utf-8")
    words = [
        f"{section}.{key}={json.dumps(value)}"
        for section, held in changes.items()
        for key, value in held.items()
    ]
    line = " ".join(f"'{word}'" for word in words)
    read = [
        imports.import_file(one, "megatron-bridge", plan=True).document for one in (str(file), line)
    ]
    assert read[0] == read[1]
    assert read[0]["model"]["moe"]["first_dense_layers"] == 1
    assert read[0]["parallelism"]["dispatcher"] == "all-to-all"
    assert read[0]["parallelism"]["expert_tensor"] == 1  # beside expert parallelism


@pytest.mark.parametrize(("said", "stages"), read_data("connect")["ends_as_layers"])
def test_ends_that_count_as_layers_take_one_each(said: str, stages: list[int] | None) -> None:
    """Megatron-Core's get_num_layers_to_build: embedding and loss count among the layers that are
    divided, and are taken off the first and the last stage."""
    read = launch.read_launch(f"{SMALL} {APART} {said}", "megatron", Place("run")).document
    assert read["parallelism"].get("stages") == stages
    fields = " ".join(
        f"model.{one.partition(' ')[0].replace('-', '_')}={one.partition(' ')[2].strip() or 'true'}"
        for one in f"{SMALL} {APART} {said}".split("--")
        if one and not one.startswith(("num-virtual", "micro", "global", "disable"))
    )
    more = "train.micro_batch_size=1 train.global_batch_size=8 model.add_bias_linear=false"
    if "virtual" in said:
        more += " model.virtual_pipeline_model_parallel_size=2"
    again = launch.read_launch(f"{fields} {more}", "megatron-bridge", Place("changes")).document
    assert again["parallelism"].get("stages") == stages


@pytest.mark.parametrize(
    ("targets", "model", "lost"), read_data("connect")["adapters_of_megatron_bridge"]
)
def test_adapters_of_megatron_bridge_stand_beside_joined_matrices(
    targets: list[str], model: str, lost: list[str]
) -> None:
    document = {**DOCUMENTS["adapters in 16 bit"], "model": model}
    document["training"] = {**document["training"], "lora": {"rank": 8, "targets": targets}}
    made = build_config(loading.load(document), "megatron-bridge")
    assert [each.key for each in made.lost] == lost


AXOLOTL = """base_model: NousResearch/Meta-Llama-3-8B
load_in_4bit: true
adapter: qlora
sequence_len: 4096
lora_r: 32
micro_batch_size: 2
gradient_accumulation_steps: 4
"""


def test_a_launch_file_stands_where_a_plan_does(run_cli: RunCli, tmp_path: Path) -> None:
    file, report = tmp_path / "run.yml", tmp_path / "run.md"
    file.write_text(AXOLOTL, encoding="utf-8")
    told = "no key says cluster.accelerator: an assumption"
    done = run_cli(str(file), "-o", str(report))
    assert done.returncode == 0 and "nf4" in done.stdout and told in done.stderr
    assert run_cli("check", str(report)).returncode == 0
    # What is set beside it comes before what it says.
    done = run_cli("explain", str(file), "training.micro_batch", "--set", "training.micro_batch=4")
    assert done.returncode == 0 and done.stdout.startswith("4 ")
    assert run_cli("validate", str(file)).returncode == 0
    assert "differ" not in run_cli("diff", str(file), str(file)).stderr
    # What it leaves open is asked for; what is no such file has the fault of a plan.
    file.write_text(AXOLOTL.replace("NousResearch/Meta-Llama-3-8B", "our/weights"), "utf-8")
    done = run_cli(str(file))
    assert done.returncode == 2 and "our/weights is its weights (--set model=NAME" in done.stderr
    assert run_cli(str(file), "--set", "model=llama3-8b").returncode == 0
    file.write_text("nodel: llama3-8b\ntraining: {tokens: 1B}\n", encoding="utf-8")
    done = run_cli(str(file))
    assert done.returncode == 2 and "did you mean 'model'?" in done.stderr


@pytest.mark.parametrize("row", read_data("torchtitan_toml"), ids=lambda row: row["source"])
def test_a_toml_file_of_torchtitan_is_read(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(row["text"], "utf-8")
    if "fault" in row:
        with pytest.raises(PlanError, match=re.escape(row["fault"])):
            imports.import_run(str(path), ["cluster.devices=64"])
        return
    read = imports.import_run(str(path), ["cluster.devices=64"])
    assert read is not None
    plan = loading.load(read.document)
    assert {key: plan.get(key) for key in row["read"]} == row["read"]
    assert not [line for line in read.said if line.startswith("unknown")]
