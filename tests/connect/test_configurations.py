"""Configurations through the importer: counted to the digit, or refused in one line."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import planner
from benchmarks import counts
from fuzz import documents
from planner.base.errors import PlanError
from planner.cli import main as cli
from planner.connect import imports
from planner.connect.imports import families, hf, megatron, rules
from planner.plans.document import merge_mappings
from tests.conftest import read_data

FAULTS = read_data("faults")

DATA = Path(__file__).parents[1] / "data"
PRESETS = Path(__file__).parents[2] / "presets" / "models"
LLAMA = read_data("connect")["llama"]

# Counts of real software (tests/data/counts/README.md says how they were made).
COUNTED = [
    pytest.param(compare, case, id=f"{file}-{case['name']}-{case.get('seq', '')}")
    for file, compare, key in (
        ("params", counts.parameters, "models"),
        ("flops", counts.flops, "cases"),
    )
    for case in json.loads((DATA / "counts" / f"{file}.json").read_text("utf-8"))[key]
]


@pytest.mark.parametrize(("compare", "case"), COUNTED)
def test_every_count_of_the_real_implementation_is_met(compare: Any, case: Any) -> None:
    wrong = [found for found in compare(case) if found[1] != found[2]]
    assert not wrong


SAVED = json.loads((DATA / "counts" / "saved.json").read_text("utf-8"))["models"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in SAVED])
def test_a_file_that_the_library_saves_is_counted(row: dict[str, Any]) -> None:
    """Derived keys and all; with the head that its class has."""
    assert total(imports.import_config(row["config"])) == row["params_total"]


@pytest.mark.parametrize(
    ("change", "said"),
    read_data("connect")["refused_configurations"],
)
def test_a_class_or_a_derived_key_that_is_not_known_is_refused(
    change: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError, match=said):
        imports.import_config({**LLAMA, **change})


def test_a_row_that_is_like_several_keeps_the_classes_that_one_of_them_has() -> None:
    """Marian is like BART and has sinusoids besides; its class with a head is MarianMTModel."""
    rows = [
        row
        for row in SAVED + [p.values[1] for p in COUNTED]
        if row["config"].get("model_type") == "marian"
    ]
    config = {k: v for k, v in rows[0]["config"].items() if k != "architectures"}
    plain = imports.import_config(config)
    assert imports.import_config({**config, "architectures": ["MarianMTModel"]}) == plain
    assert imports.import_config({**config, "architectures": ["MarianModel"]})["head"] is False


def test_a_model_without_a_head_says_so() -> None:
    imported = hf.convert_config({**LLAMA, "architectures": ["LlamaModel"]})
    assert imported.document["head"] is False
    assert imported.notes == ["LlamaModel has no output head"]
    reward = {**LLAMA, "architectures": ["LlamaForSequenceClassification"]}
    whole = total(imports.import_config(LLAMA)) - 32000 * 4096
    assert total(imports.import_config({**reward, "id2label": {"0": "score"}})) == whole + 4096
    assert total(imports.import_config({**reward, "num_labels": 3})) == whole + 3 * 4096


def test_where_the_library_builds_more_than_is_published_the_import_says_so() -> None:
    """LongCat-Flash: gate matrices for 256 experts that compute nothing, in each of 28 layers."""
    imported = hf.convert_config({"model_type": "longcat_flash"})
    assert any("zero_expert_gates: false" in note for note in imported.notes)
    published = {
        **imported.document,
        "moe": {**imported.document["moe"], "zero_expert_gates": False},
    }
    more = 28 * 256 * 2 * 2048 * 6144
    assert total(imported.document) - total(published) == more
    assert total(published) == next(
        int(row["total"])
        for (row,) in (p.values for p in models())
        if row["preset"] == "longcat-flash"
    )


def test_the_counts_cover_every_family_of_the_library() -> None:
    rows = [case for _, case in (p.values for p in COUNTED)] + SAVED
    covered = {row["config"].get("model_type") for row in rows}
    classes = json.loads(Path(hf.__file__).with_name("classes.json").read_text("utf-8"))
    without = {  # text parts under names of their own, and classes that do not run
        name for name in classes["types"] if name.endswith("_text") or name == "dbrx"
    }
    assert set(classes["types"]) - covered - without == set()


# Layers of DeepSeek-V4, tokens, and FLOPs of a forward pass of that small model under PyTorch's
# counter (transformers 5.23, torch 2.13, attention eager, experts as batched products).
V4 = read_data("connect")["deepseek_v4"]


@pytest.mark.parametrize(("ratios", "tokens", "counted"), read_data("connect")["compressed_keys"])
def test_compressed_keys_take_the_flops_that_the_counter_counts(
    ratios: list[int], tokens: int, counted: int
) -> None:
    config = {**V4, "num_hidden_layers": len(ratios), "compress_ratios": ratios}
    assert forward_flops(config, tokens) == counted


# Small models of GLM-5.3 and Hy4 under the same counter, with the convolutions of delta attention
# left out: 2 * 72 * 4 FLOPs for each of the tokens and three in front of them.
DELTA = read_data("connect")["delta_attention"]
NEXT = {"index_kpool": 4, "linear_head_dim": 8, "linear_num_heads": 3}


@pytest.mark.parametrize(
    ("kind", "layers", "tokens", "counted"),
    [
        ("glm5_next_text", ["linear_attention dense full"], 256, 17385152 - 576 * 259),
        ("glm5_next_text", ["indexed_attention dense full"], 256, 29802496),
        (
            "glm5_next_text",
            ["indexed_attention dense full", "indexed_attention sparse shared"],
            250,
            59037000,
        ),
        (
            "glm5_next_text",
            ["linear_attention sparse full", "indexed_attention sparse full"],
            150,
            30556884 - 576 * 153,
        ),
        ("hy_v4", ["indexed_attention dense full"], 64, 6598656),
        (
            "hy_v4",
            [f"indexed_attention {mlp}" for mlp in ("dense full", "sparse full", "sparse shared")],
            100,
            32420800,
        ),
    ],
)
def test_pooled_indexers_and_streams_take_the_flops_that_the_counter_counts(
    kind: str, layers: list[str], tokens: int, counted: int
) -> None:
    names = ("layer_types", "mlp_layer_types", "indexer_types")
    lists = zip(*(layer.split() for layer in layers), strict=True)
    config = {**DELTA, "model_type": kind, "num_hidden_layers": len(layers)}
    config |= {name: list(words) for name, words in zip(names, lists, strict=True)}
    if kind == "hy_v4":
        config |= {"qk_rope_head_dim": 6, "architectures": ["HYV4ForCausalLM"]}
    else:
        config |= {**NEXT, "architectures": ["Glm5NextTextModel"]}
    assert forward_flops(config, tokens) == counted


def forward_flops(config: dict[str, Any], tokens: int) -> Any:
    plan = {
        "model": imports.import_config(config),
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
        "training": {"sequence_length": tokens, "global_batch": 1, "tokens": "1M"},
    }
    return planner.load(plan).evaluate()["compute.forward_flops_per_token"].value * tokens


def rules_of(said: Any) -> Iterator[str]:
    """The names of the rules that a value of a row holds."""
    if isinstance(said, list):
        yield from (name for item in said for name in rules_of(item))
    elif isinstance(said, dict):
        name = next(iter(said))
        yield name
        inner = [said[name], *(said.get(key) for key in ("then", "otherwise", "of"))]
        yield from (found for value in inner for found in rules_of(value))


def test_rows_of_families_say_keys_of_a_model_document_with_rules_that_there_are() -> None:
    said = yaml.safe_load(Path(hf.__file__).with_name("families.yaml").read_text("utf-8"))
    known = {".".join(path) for path, _ in documents.keys("model")}
    known.add("reuse")  # of a layer kind

    refused = {kind for kinds in families.REFUSALS.values() for kind in kinds}
    assert not said["families"].keys() & {*said["parts"], *refused}
    for kind in said["families"]:
        row = families.row(kind)
        traits = [row.traits, *(kinds for _, meaning in row.axes for kinds in meaning.values())]
        assert {key for each in traits for key in each} <= known, kind
        values = [value for each in traits for value in each.values() if isinstance(value, dict)]
        labels = [said for said, _ in row.axes]
        names = {name for value in values + labels for name in rules_of(value)}
        assert names <= rules.RULES.keys(), kind


# Configurations with all the keys that published files carry, and the published totals.
PUBLISHED = json.loads((DATA / "configurations.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.get("preset", case["config"]["model_type"])) for case in PUBLISHED],
)
def test_a_configuration_as_it_is_published_is_counted(case: dict[str, Any]) -> None:
    assert total(imports.import_config(case["config"])) == case["total"]


def models() -> list[Any]:
    text = (DATA / "models.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [pytest.param(row, id=row["preset"]) for row in rows]


@pytest.mark.parametrize("row", models())
def test_a_preset_has_its_published_parameters(row: dict[str, str]) -> None:
    from planner.book import formulas as _book  # noqa: F401  registers the quantities
    from planner.engine import evaluate
    from planner.engine import instance as case
    from planner.questions import loading

    plan = loading.load(
        {
            "model": row["preset"],
            "cluster": counts.DEVICE,
            "training": {"tokens": 1, "sequence_length": 1},
        }
    )
    found = evaluate.Evaluation(case.build(plan))
    assert found.value("parameters.total") == int(row["total"])
    assert found.value("parameters.active") == int(row["active"])


# Presets that are held against a published configuration as a whole, each with its source.
HELD = {case["preset"]: case for case in PUBLISHED if "preset" in case}
# What a class of the library may say of a model where its file is silent, or a count is blind to.
UNSEEN = ("attention.window", "attention.global_every", "attention.index_", "hyper", "pattern")


def loaded(model: Any) -> Any:
    return planner.load({"model": model, "cluster": counts.DEVICE, "training": {}}).plan


@pytest.mark.parametrize("preset", HELD)
def test_a_preset_is_its_published_configuration(preset: str) -> None:
    """Layer for layer: counts alone do not tell which layer is of which kind."""
    case = HELD[preset]
    assert case["source"]
    document = merge_mappings(imports.import_config(case["config"]), case.get("apart", {}))
    ours, published = loaded(preset), loaded(document)
    assert ours.model == published.model
    described = {"max_sequence", "norm_epsilon"} & document.keys()
    if ours.get("model.positions") == "rope":
        described |= {"rope_base"} & document.keys()
    for key in described:
        assert ours.get(f"model.{key}") == published.get(f"model.{key}"), key


def counted() -> set[str]:
    """Presets whose count of parameters somebody published."""
    cases = yaml.safe_load((DATA.parent / "cases" / "models.yaml").read_text("utf-8"))["cases"]
    plans = [case["plan"]["model"] for case in cases]
    listed = [row.values[0] for row in models()]
    return {plan["extends"] if isinstance(plan, dict) else plan for plan in plans} | {
        row["preset"] for row in listed if row["source"] == "published"
    }


def test_every_preset_is_held_against_what_others_published() -> None:
    """As a whole where only its class says what no count tells, or where nobody published a count;
    transformers of images are held in test_diffusion.py."""
    published = counted()
    texts = {path.stem: path.read_text("utf-8") for path in PRESETS.glob("*.yaml")}
    resting = {name: [*from_class(text)] for name, text in texts.items() if name not in HELD}
    assert not {name for name, keys in resting.items() if any(k.startswith(UNSEEN) for k in keys)}
    left = resting.keys() - published
    assert all("output" in yaml.safe_load(texts[name]) for name in left), left


def from_class(text: str) -> Iterator[str]:
    """Dotted keys of a model document whose comments say that its class says so."""
    block = ""
    for line in text.splitlines():
        key, colon, _ = line.partition(":")
        if colon and not line.startswith(" "):
            block = key
        if re.search("# the [a-z0-9_-]+ architecture$", line):
            yield key if key == block else f"{block}.{key.strip()}"


def test_enough_presets_ship_and_each_has_its_source() -> None:
    shipped = sorted(PRESETS.glob("*.yaml"))
    assert len(shipped) >= 60
    for path in shipped:
        text = path.read_text("utf-8")
        assert text.startswith("# yaml-language-server: $schema=../../schemas/model.schema.json\n")
        sources = yaml.safe_load(text).get("sources", [])
        whole = [source for source in sources if not source.get("keys")]
        assert whole, path.name
        for source in whole:
            assert source["text"].strip() and source["url"].startswith("https://"), path.name
    assert HELD.keys() <= {path.stem for path in shipped}


# What must be refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    FAULTS["configurations"],
)
def test_a_bad_configuration_gives_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        imports.import_config({**LLAMA, **changes})
    (line,) = str(caught.value).splitlines()
    assert line == message


def test_a_list_of_indexers_has_a_word_for_each_layer() -> None:
    glm = {"model_type": "glm_moe_dsa", "num_hidden_layers": 4}
    words = ["full", "shared", "shared", "shared"]
    made = imports.import_config({**glm, "indexer_types": [*words, "full"]})
    assert sum("index_heads" in kind.get("attention", {}) for kind in made["kinds"].values()) == 1
    with pytest.raises(PlanError, match="indexer_types names 3 of 4 layers"):
        imports.import_config({**glm, "indexer_types": words[:3]})


@pytest.mark.parametrize("config", [[], "llama", None, 7])
def test_a_configuration_is_a_mapping(config: Any) -> None:
    with pytest.raises(PlanError, match="a configuration is a mapping of keys"):
        imports.import_config(config)


def test_keys_of_training_and_generation_are_no_architecture() -> None:
    noise = read_data("connect")["llama_of_a_hub"]
    assert imports.import_config({**LLAMA, **noise}) == imports.import_config(LLAMA)


def test_rotary_base_and_epsilon_are_kept_for_launch_files() -> None:
    """Meta 2024, The Llama 3 herd of models, table 3: a base of 500,000."""
    given = {"rms_norm_eps": 1e-5, "rope_theta": 500000.0}
    plain = imports.import_config(LLAMA)
    kept = {"rope_base": 500000, "norm_epsilon": 1e-5}
    assert imports.import_config({**LLAMA, **given}) == {**plain, **kept}
    nested = {"rope_parameters": {"rope_theta": 500000.0}, "rms_norm_eps": 1e-5}
    assert imports.import_config({**LLAMA, **nested}) == {**plain, **kept}


def test_the_text_part_of_a_multimodal_configuration_is_imported() -> None:
    inner = {"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26}
    inner |= {"intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1}
    whole = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 7}}
    assert imports.import_config(whole) == imports.import_config(inner)
    del inner["model_type"]
    assert imports.import_config(whole)["hidden"] == 1152
    with pytest.raises(PlanError, match="model type 'gema3' is not known"):
        imports.import_config({**whole, "model_type": "gema3"})


@pytest.mark.parametrize(
    "key", ["num_experts_per_token", "use_parallel_residual", "qk_layernorm", "kv_lora_rank"]
)
def test_a_key_that_sounds_harmless_but_is_not_is_refused(key: str) -> None:
    with pytest.raises(PlanError, match=f"the key '{key}' is not modelled"):
        imports.import_config({**LLAMA, key: 2})


def test_the_document_says_only_what_is_not_a_default() -> None:
    assert imports.import_config(LLAMA) == read_data("connect")["megatron_arguments_model"]


# Through the command line --------------------------------------------------------------------


def run(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    status = cli.main(["import", str(path), *more])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_an_unusual_choice_names_the_key_it_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "attention_bias": True}))
    status, text, _ = run(path, capsys)
    assert status == 0
    assert "  bias: true  # attention_bias\n" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "config.json:1:1: not UTF-8 text (a configuration: text in UTF-8)"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested too deeply"),
        (b'{"model_type": "llama", "model_type": "gpt2"}', "duplicate key 'model_type'"),
        (b" " * 10_000_001, "the file is too large (at most 10 MB)"),
        (b'{"model_type": "llama", "vocab_size": NaN}', "vocab_size is 'NaN' (a whole number)"),
    ],
)
def test_an_unreadable_file_gives_one_line_and_exit_2(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    status, out, err = run(path, capsys)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(str(path))
    assert message in line


# Megatron-LM ---------------------------------------------------------------------------------

LLAMA3 = """
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm
    --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope
    --max-position-embeddings 8192 --seq-length 8192 --vocab-size 128256
    --micro-batch-size 1 --lr 3e-4 --bf16 --tensor-model-parallel-size 1
"""


def total(document: dict[str, Any]) -> int:
    from planner.book import formulas as _book  # noqa: F401  registers the quantities
    from planner.engine import evaluate
    from planner.engine import instance as case
    from planner.questions import loading

    plan = loading.load(
        {"model": document, "cluster": counts.DEVICE, "training": {"sequence_length": 1}}
    )
    return int(evaluate.Evaluation(case.build(plan)).value("parameters.total"))


def test_megatron_arguments_of_llama_3_count_as_its_checkpoint() -> None:
    assert total(megatron.read_megatron(LLAMA3)) == 8030261248


def test_megatron_arguments_of_deepseek_v3_count_as_its_checkpoint() -> None:
    arguments = """
        --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128
        --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128
        --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm --normalization RMSNorm --swiglu
        --disable-bias-linear --untie-embeddings-and-output-weights --no-position-embedding
        --num-experts 256 --moe-layer-freq ([0]*3+[1]*58) --moe-ffn-hidden-size 2048
        --moe-router-topk 8 --moe-shared-expert-intermediate-size 2048
        --moe-router-enable-expert-bias --vocab-size 129280 --max-position-embeddings 4096
        --moe-router-num-groups 8 --moe-router-group-topk 4
    """
    made = megatron.read_megatron(arguments)
    assert total(made) == 671026404352
    assert (made["moe"]["router_groups"], made["moe"]["router_group_top_k"]) == (8, 4)


def test_groups_of_a_router_are_imported() -> None:
    """DeepSeek-V3's router chooses 4 of 8 groups first; a greedy one chooses among all experts."""
    said = {"n_group": 8, "topk_group": 4, "n_routed_experts": 256}
    made = imports.import_config({"model_type": "deepseek_v3", **said})["moe"]
    assert (made["router_groups"], made["router_group_top_k"]) == (8, 4)
    greedy = {"model_type": "deepseek_v3", **said, "topk_method": "greedy"}
    assert "router_groups" not in imports.import_config(greedy)["moe"]
    none = {"model_type": "deepseek_v3", **said, "n_group": 1, "topk_group": 1}
    assert "router_groups" not in imports.import_config(none)["moe"]


def test_modules_that_predict_further_tokens_are_imported() -> None:
    assert megatron.read_megatron(LLAMA3 + "--mtp-num-layers 2\n")["mtp"] == 2
    none = megatron.read_megatron(LLAMA3 + "--mtp-num-layers 0\n")
    assert none == megatron.read_megatron(LLAMA3)


def test_deepseek_v3_with_its_module_counts_as_its_checkpoint() -> None:
    """The published safetensors hold 684,531,386,000 values: the module's copies of embedding and
    head too; and 41,555,600 of them in 32 bits: a correction of the router for each expert of 59
    layers, and a scale for each block of 128 x 128 of 8-bit weights."""

    def blocks(*shape: int) -> int:
        return math.prod(-(-width // 128) for width in shape)

    attention = [(1536, 7168), (24576, 1536), (576, 7168), (32768, 512), (7168, 16384)]
    experts = 257 * 3 * blocks(7168, 2048)
    scales = 62 * sum(blocks(*shape) for shape in attention) + 59 * experts
    scales += 3 * 3 * blocks(7168, 18432)
    assert scales + 59 * 256 == 41_555_600
    counted = total({"extends": "deepseek-v3", "mtp": 1})
    assert counted + 2 * 129280 * 7168 + 41_555_600 == 684_531_386_000
    # 11.5 billion of them are the module's own (README_WEIGHTS.md).
    assert counted - total({"extends": "deepseek-v3"}) == pytest.approx(11.5e9, rel=0.01)


@pytest.mark.parametrize("count", [0, 1])
def test_modules_that_are_left_out_are_named(count: int, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "deepseek_v3", "num_nextn_predict_layers": count}))
    said = yaml.safe_load(imports.import_file(str(file)).text).get("notes")
    left = "num_nextn_predict_layers 1 is left out, as in transformers; mtp: 1 adds what it names"
    assert said == (left if count else None)


def test_megatron_arguments_of_a_layout_change_no_weight() -> None:
    layout = "--context-parallel-size 2 --cp-comm-type all_gather\n"
    assert megatron.read_megatron(LLAMA3 + layout) == megatron.read_megatron(LLAMA3)


def test_padding_of_the_vocabulary_belongs_to_the_layout() -> None:
    padded = megatron.read_megatron(LLAMA3.replace("-size 1\n", "-size 8\n"))
    assert padded["vocab"] == 128256  # padding to 128 × 8 belongs to the layout
    assert megatron.read_megatron(LLAMA3)["vocab"] == 128256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no argument of the form --num-layers 32 in it"),
        ("--num-layers 32", "there is no argument --hidden-size"),
        (LLAMA3 + "--num-layers x", "--num-layers is 'x' (a whole number, at least 1)"),
        (
            LLAMA3 + "--mtp-use-repeated-layer",
            "--mtp-use-repeated-layer could change the architecture and is not modelled",
        ),
        (
            LLAMA3 + "--num-experts 8 --moe-layer-freq __import__",
            "--moe-layer-freq is '__import__' (2, or ([0]*3+[1]*58))",
        ),
        (LLAMA3 + "'", "not an argument list: No closing quotation"),
    ],
)
def test_bad_megatron_arguments_give_one_line(arguments: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        megatron.read_megatron(arguments)
    assert str(caught.value).splitlines()[0].startswith(message)


def test_experts_are_written_where_a_layer_has_some() -> None:
    """nemotron_h has defaults for experts, which a pattern without E has no use for."""
    sizes = {"model_type": "nemotron_h", "hidden_size": 256, "vocab_size": 512}
    for pattern, has in (("M-M*", False), ("MEM*", True)):
        document = hf.convert_config({**sizes, "hybrid_override_pattern": pattern}).document
        assert ("moe" in document) is has
