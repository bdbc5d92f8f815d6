"""Launch configurations: they say what the plan says, and name what they cannot say."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import launch_files
from fuzz import documents
from planner.base.errors import Place, PlanError
from planner.connect import exports
from planner.connect.exports import FORMATS, build_config, table
from planner.connect.exports.rules import CONDITIONS
from planner.connect.imports import python_file
from planner.documents import source
from planner.plans.document import Plan, merge_mappings
from planner.questions import loading
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
PLANS = sorted(
    path
    for path in (ROOT / "presets").glob("*.yaml")
    for said in [source.load(path)]
    # A layout that is found takes a search; a model without a shape has no launch configuration.
    if said.get("parallelism") != "auto" and said.get("model.parameters") is None
)
LLAMA = "presets/llama70b_h100x1024.yaml"
ALONE = ("parallelism.pipeline=1", "parallelism.virtual_pipeline=1")


def arguments(text: str) -> dict[str, str | bool]:
    """Megatron-LM's reading: options with a value or none, comments left out."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    words, read = shlex.split(kept), dict[str, str | bool]()
    for index, word in enumerate(words):
        if word.startswith("--"):
            following = words[index + 1] if index + 1 < len(words) else "--"
            read[word[2:]] = True if following.startswith("--") else following
    return read


def python(text: str, to: str) -> dict[str, Any]:
    """What a Python file says, but for where its names are from."""
    framework = exports.load_framework(to)
    found = python_file.read_python(text, Place("run"), framework.calls)
    frame = (
        {}
        if to == "torchtitan"
        else python_file.read_python(framework.frame.format(imports="", lines=""), Place("run"), ())
    )
    return {
        k: v
        for k, v in found.items()
        if k and not k.endswith(python_file.MODULE) and v != frame.get(k, ...)
    }


READERS: dict[str, Any] = {
    "megatron": arguments,
    "torchtitan": lambda text: python(text, "torchtitan"),
    "megatron-bridge": lambda text: python(text, "megatron-bridge"),
    "deepspeed": json.loads,
    "nanotron": yaml.safe_load,
    "maxtext": yaml.safe_load,
    **dict.fromkeys(
        ("accelerate", "transformers", "trl", "axolotl", "llama-factory"), yaml.safe_load
    ),
}


def flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            found[before + key] = value
    return found


@cache
def load(*changes: str, plan: str = LLAMA) -> Plan:
    return loading.load(ROOT / plan, changes)


def read(to: str, *changes: str, plan: str = LLAMA) -> dict[str, Any]:
    return flat(READERS[to](build_config(load(*changes, plan=plan), to).text))


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_file_reads_back_as_what_was_said(path: Path, to: str) -> None:
    made = build_config(loading.load(path), to)
    back = flat(READERS[to](made.text))
    said = {
        key: " ".join(table.format_args(value)) if to == "megatron" and value is not True else value
        for key, value in made.said.items()
    }
    assert back == flat(said)


# Where each framework writes the same fact.
TABLES = read_data("exports")
WHERE = TABLES["where"]


@pytest.mark.parametrize("key", WHERE)
@pytest.mark.parametrize("sizes", [(1, 8, 4), (2, 4, 2)], ids=str)
def test_frameworks_get_the_plans_own_quantities(key: str, sizes: tuple[int, int, int]) -> None:
    micro, tensor, pipeline = sizes
    changes = (
        f"training.micro_batch={micro}",
        f"parallelism.tensor={tensor}",
        f"parallelism.pipeline={pipeline}",
    )
    wanted = load(*changes).get(key)
    assert wanted is not None
    for to, theirs in WHERE[key].items():
        assert str(read(to, *changes)[theirs]) == str(wanted), (to, theirs)


def test_batch_sizes_agree_as_deepspeed_demands() -> None:
    said = read("deepspeed", "training.micro_batch=2")
    assert said["train_batch_size"] == (
        said["train_micro_batch_size_per_gpu"]
        * said["gradient_accumulation_steps"]
        * load("training.micro_batch=2").get("parallelism.data")
    )


# A change of the plan, by one key at a time, on one device, so that any layout stays possible.
CHANGES = TABLES["changes"]


@cache
def export_small(to: str, *changes: str) -> table.LaunchConfig:
    base = ("training.tokens=2B", "training.global_batch=512", "parallelism.zero=0")
    plan = "presets/gpt2small_hgx-h100.yaml"
    return build_config(load(*base, "parallelism.tensor=1", *changes, plan=plan), to)


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("change", CHANGES)
def test_no_change_of_a_plan_is_lost_silently(change: str, to: str) -> None:
    """What a framework has no key for is named, in the file or beside it."""
    before, after = export_small(to), export_small(to, change)
    if change.startswith("model.") and any(each.key == "model" for each in before.unsaid):
        return  # the model as a whole is named as stated elsewhere
    assert (before.text, before.unsaid) != (after.text, after.unsaid)


def test_a_key_that_no_table_knows_is_named() -> None:
    unsaid = {
        each.key for each in build_config(load("training.bytes.gradient=2"), "megatron").unsaid
    }
    assert unsaid == {"training.bytes.gradient"}


def test_defaults_of_megatron_that_differ_from_ours_are_written() -> None:
    """Dropout is 0.1 and the vocabulary is padded to 128 × tensor unless it is told otherwise."""
    said = read("megatron", "parallelism.vocab_multiple=1")
    assert (said["attention-dropout"], said["hidden-dropout"]) == ("0", "0")
    assert said["make-vocab-size-divisible-by"] == "1"


def test_llama_has_the_published_options() -> None:
    """The options of Megatron-LM's own Llama-2 70B conversion guide."""
    said = read("megatron")
    assert said["normalization"] == "RMSNorm"
    assert said["position-embedding-type"] == "rope"
    assert said["num-query-groups"] == "8"
    assert said["ffn-hidden-size"] == "28672"
    for flag in (
        "swiglu",
        "disable-bias-linear",
        "untie-embeddings-and-output-weights",
        "group-query-attention",
        "use-distributed-optimizer",
        "sequence-parallel",
    ):
        assert said[flag] is True, flag


def test_the_layers_with_experts_are_spelled_out() -> None:
    changes = ("model.moe.first_dense_layers=2", "model.mlp.intermediate=8192")
    said = read("megatron", *changes, plan="presets/mixtral8x7b_h100x1024.yaml")
    assert said["moe-layer-freq"] == "[0]*2+[1]*30"
    assert said["ffn-hidden-size"] == "8192" and said["moe-ffn-hidden-size"] == "14336"


def test_a_pipeline_of_torchtitan_takes_the_micro_batches_of_a_step_at_once() -> None:
    said = read("torchtitan", "training.micro_batch=2")
    accumulation = load("training.micro_batch=2").get("training.gradient_accumulation")
    assert said["training.local_batch_size"] == 2 * accumulation
    assert said["parallelism.pipeline_parallel_microbatch_size"] == 2


def test_modules_that_predict_further_tokens_stand_beside_the_layers() -> None:
    changes = ("model.mtp=2", "model.moe.first_dense_layers=2", "model.mlp.intermediate=8192")
    plan = "presets/mixtral8x7b_h100x1024.yaml"
    said = read("megatron", *changes, plan=plan)
    assert (said["num-layers"], said["mtp-num-layers"]) == ("32", "2")
    assert said["moe-layer-freq"] == "[0]*2+[1]*30"
    stages = ("parallelism.pipeline=2", "parallelism.stages=[16, 18]")
    assert "model.mtp" not in {
        e.key for e in build_config(load(*changes, *stages, plan=plan), "megatron").unsaid
    }
    assert "model.mtp" in {
        e.key for e in build_config(load(*changes, plan=plan), "nanotron").unsaid
    }


@pytest.mark.parametrize(("to", "theirs", "words"), read_data("exports")["context_exchange"])
def test_how_context_parallel_ranks_exchange_is_said_where_there_are_several(
    to: str, theirs: str, words: dict[str, str]
) -> None:
    for way, word in words.items():
        changes = (f"parallelism.context_exchange={way}", *ALONE)
        assert theirs not in read(to, *changes, "parallelism.context=1")
        assert read(to, *changes, "parallelism.context=2")[theirs] == word


def test_what_has_no_word_for_an_exchange_names_it() -> None:
    changes = ("parallelism.context=2", "parallelism.context_exchange=gather")
    for to in ("deepspeed", "nanotron"):
        unsaid = {each.key for each in build_config(load(*changes), to).unsaid}
        assert "parallelism.context_exchange" in unsaid


def test_steps_cover_the_tokens() -> None:
    steps = read("nanotron")["tokens.train_steps"]
    per_step = 1024 * 4096
    assert (steps - 1) * per_step < 15 * 10**12 <= steps * per_step


@pytest.mark.parametrize("objective", ["sft", "dpo", "kto", "orpo", "reward"])
def test_only_what_learns_from_text_alone_is_packed(objective: str) -> None:
    """axolotl 0.19.0, utils/schemas/validation.py (check_sample_packing_w_rl, check_kto_config);
    of TRL 1.16.0 only SFTConfig has the key."""
    plan = "presets/fine_tuning/reward_llama3.1-8b_8xh100.yaml"
    said = read("axolotl", f"training.objective={objective}", plan=plan)
    assert ("sample_packing" in said) == (objective == "sft")
    assert (said.get("remove_unused_columns") is False) == (objective == "kto")
    assert ("rl" in said) == (objective not in ("sft", "reward"))
    said = read("trl", f"training.objective={objective}", plan=plan)
    assert ("packing" in said) == (objective == "sft")


def test_a_hostile_name_stays_in_its_comment() -> None:
    name = "x\n--finetune\n[job]\nevil: 1\r\u2028--save /"
    plan, clean = load(f"name={json.dumps(name)}"), load()
    assert plan.name == name
    for to in FORMATS:
        back, usual = (flat(READERS[to](build_config(each, to).text)) for each in (plan, clean))
        assert back.keys() == usual.keys(), to


@pytest.mark.parametrize("to", FORMATS)
def test_rows_of_a_framework_are_about_keys_of_a_plan(to: str) -> None:
    """A misspelt key would be heard of by no plan, and what it says would be lost."""
    known = {".".join(path) for path, _ in documents.keys("plan")}
    known |= {f"model.{'.'.join(path)}" for path, _ in documents.keys("model")}
    latent = load(
        "model=deepseek-v3", *ALONE
    ).model  # with all kinds of attention's and experts' keys
    assert latent is not None
    blocks = [block for part in latent.parts for block in part.blocks]
    known |= {f"layer.{block.kind}.{key}" for block in blocks for key in block.values}
    said = yaml.safe_load((Path(exports.__file__).parent / f"{to}.yaml").read_text("utf-8"))

    def below(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            yield row
            yield from below(row.get("rows", []))

    rows = list(below(said["rows"]))
    options = [about for row in rows for about in row.values() if isinstance(about, dict)]
    named = {key for row in rows if "rule" not in row for key in row if "." in key}
    for about in (each[key] for each in rows + options for key in CONDITIONS if key in each):
        named |= {about} if isinstance(about, str) else set(about)
    assert named and named <= known


def test_an_unknown_framework_is_a_fault_with_its_nearest() -> None:
    with pytest.raises(PlanError, match="did you mean 'megatron'"):
        build_config(load(), "megatrn")


@pytest.mark.parametrize(("to", "plan", "keys"), TABLES["cannot_start"])
def test_what_a_framework_cannot_start_is_named(
    to: str, plan: dict[str, Any], keys: list[str]
) -> None:
    around = {"cluster": {"accelerator": "h100-sxm-80gb", "devices": 8}, "parallelism": {"zero": 3}}
    made = build_config(loading.load(merge_mappings(around, plan)), to)
    assert [one.key for one in made.lost] == keys


def test_a_plan_that_a_framework_cannot_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.cli import main as cli

    file, plan = tmp_path / "fsdp.yaml", "llama70b_h100x1024"
    asked = ["export", plan, "--to", "accelerate", "-o", str(file)]
    assert cli.main(asked) == 1 and not file.exists()
    said = capsys.readouterr().err
    assert "parallelism.pipeline 4" in said and "no pipeline for training" in said
    assert "--force writes the rest" in said and "training script" not in said
    assert cli.main([*asked, "--force"]) == 0 and file.exists()


DOCUMENTS = launch_files.read_documents()


@pytest.mark.parametrize("title", DOCUMENTS)
def test_widths_of_experts_are_those_of_the_plan(title: str) -> None:
    """huggingface/nanotron, config/models_config.py, MoEConfig: experts and the shared expert have
    widths of their own beside that of dense layers."""
    plan = loading.load(DOCUMENTS[title])
    said = build_config(plan, "nanotron").said
    experts = "model.model_config.moe_config."
    if plan.get("model.moe.experts") is None:
        assert not any(key.startswith(experts) for key in said)
        return
    assert said[f"{experts}moe_intermediate_size"] == plan.get("model.moe.intermediate")
    assert said[f"{experts}enable_shared_expert"] == bool(plan.get("model.moe.shared_intermediate"))


@pytest.mark.parametrize("title", DOCUMENTS)
def test_arguments_of_megatron_go_together(title: str) -> None:
    """Its validation: a routing bias stands beside scores by sigmoid, FSDP has a checkpoint format
    of its own, positions reach as far as sequences."""
    said = build_config(loading.load(DOCUMENTS[title]), "megatron").said
    if said.get("moe-router-enable-expert-bias"):
        assert said["moe-router-score-function"] == "sigmoid"
    assert ("use-megatron-fsdp" in said) == (said.get("ckpt-format") == "fsdp_dtensor")
    assert said["max-position-embeddings"] >= said["seq-length"]
    assert ("moe-router-pre-softmax" in said) == (said.get("moe-router-topk") == 1)
    if "first-last-layers-bf16" in said:
        assert said.get("fp8-recipe") in ("tensorwise", "mxfp8")


def test_experts_exchange_rows_as_the_plan_says_and_not_by_default() -> None:
    """megatron/core/transformer/transformer_config.py: moe_token_dispatcher_type is allgather."""
    plan = "presets/mixtral8x7b_h100x1024.yaml"
    assert read("megatron", plan=plan)["moe-token-dispatcher-type"] == "alltoall"
    assert read("megatron-bridge", plan=plan)["model.moe_token_dispatcher_type"] == "alltoall"
    assert "moe-token-dispatcher-type" not in read("megatron")


def test_options_are_fields_of_a_recipe() -> None:
    """scripts/translate_mlm_to_bridge.py of Megatron-Bridge says the same of these options."""
    said = read("megatron-bridge", plan="presets/mixtral8x7b_h100x1024.yaml")
    assert said["model.num_moe_experts"] == 8 and said["model.activation_func"] == "silu"
    assert said["model.gated_linear_unit"] is True and said["model.add_bias_linear"] is False
    assert said["model.seq_length"] == said["dataset.seq_length"]
    assert said["ddp.use_distributed_optimizer"] is said["optimizer.use_distributed_optimizer"]
    latent = read("megatron-bridge", "model=deepseek-v3", *ALONE)
    assert latent["model"] == "MLAModelProvider()" and latent["model.multi_latent_attention"]
    assert latent["model.moe_layer_freq"] == [0] * 3 + [1] * 58


def test_layers_that_are_cut_by_weight_are_said_stage_by_stage() -> None:
    changes = (
        "parallelism.pipeline=2",
        "parallelism.virtual_pipeline=1",
        "parallelism.cut=compute",
    )
    said = read("torchtitan", *changes, "model=llama3-8b")
    parts = said["parallelism.module_fqns_per_model_part"]
    first, last = (sum("layers." in module for module in part) for part in parts)
    assert first > last and first + last == 32  # the last stage has the head


def test_what_is_nearly_said_is_evaluated_as_it_will_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """torchtitan divides gradients where weights are gathered once a step (ZeRO 2)."""
    from planner.cli import main as cli
    from planner.connect import as_run
    from planner.plans.plan import variant
    from planner.results.result import evaluate_plan

    asked = ["export", "llama70b_h100x1024", "--to", "torchtitan", "-o", str(tmp_path / "run.py")]
    changes = ["training.recompute=full", "parallelism.virtual_pipeline=1"]
    assert cli.main([*asked, *(word for one in changes for word in ("--set", one))]) == 0
    said = capsys.readouterr().err.splitlines()
    assert "torchtitan: as it will run: parallelism.zero 2 for 1" in said
    totals = [line for line in said if line.endswith("as planned")]
    assert [line.split(": ")[1] for line in totals] == ["memory.total", "time.step_seconds"]
    plan = load(*changes)
    assert as_run.find_changes(plan, "torchtitan", build_config(plan, "torchtitan")) == {
        "parallelism.zero": 2
    }
    first, second = (evaluate_plan(one) for one in (plan, variant(plan, {"parallelism.zero": 2})))
    assert second["memory.total"].number < first["memory.total"].number
    assert not list(as_run.describe_run(plan, "megatron", build_config(plan, "megatron")))
