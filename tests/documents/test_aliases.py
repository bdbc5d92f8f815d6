"""Names and words that people bring from elsewhere: understood, or suggested at their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

import planner
from planner.base import resources
from planner.base.errors import PlanError
from planner.cli import main as cli
from planner.documents import aliases, json_schema, quick, references, schema, source
from tests.conftest import ROOT, read_data
from tests.documents.test_all_faults import told

TABLE = resources.load_preset("aliases/names")
PLAN = read_data("documents")["plan_in_words"]


def plan(**changes: object) -> dict[str, object]:
    return {**PLAN, **changes}


# The table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["accelerator", "model"])
def test_an_alias_means_one_preset_that_ships_and_hides_none(kind: str) -> None:
    known = references.preset_names(kind)
    assert all(aliases.find_preset(kind, name, known) == name for name in known)
    for name, words in TABLE[kind].items():
        assert name in known
        assert [aliases.find_preset(kind, word, known) for word in words] == [name] * len(words)


def test_keys_of_the_table_are_keys_of_a_plan_and_no_word_means_two_of_them() -> None:
    words = [word for section in ("keys", "suggested") for word in TABLE[section].items()]
    assert all(schema.describe("plan", key) is not None for key, _ in words)
    spelled = [word for _, several in words for word in several]
    assert len(spelled) == len(set(spelled))
    top = set(json_schema.read_schema("plan")["properties"])
    assert top.isdisjoint(spelled), "a word hides a section of plans"


def test_suggested_values_are_allowed_where_they_are_suggested() -> None:
    for dotted, values in TABLE["values"].items():
        said = schema.describe("plan", f"{dotted}.0") or schema.describe("plan", dotted)
        assert said is not None
        for value in values:
            assert set(value.split(", ")) <= set(said["enum"]), dotted


# Names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "preset"),
    read_data("documents")["names_of_others"],
)
def test_a_name_is_understood_as_others_write_it(kind: str, name: str, preset: str) -> None:
    assert aliases.find_preset(kind, name, references.preset_names(kind)) == preset


#: Of which no weights are published there.
NOT_ON_THE_HUB = {
    *("fairseq-moe-15b", "opt-175b", "nemotron4-15b"),
    "dit-xl-2",
    *(n for n in references.preset_names("model") if "gpt3" in n),
}


def test_every_shipped_model_is_known_by_its_page_on_the_hub(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known, pages = references.preset_names("model"), aliases.on_the_hub()
    assert set(known) - set(pages.values()) == NOT_ON_THE_HUB
    for page, preset in pages.items():
        for name in (page, page.lower(), page.partition("/")[2]):
            meant = aliases.find_preset("model", name, known)
            assert meant == (name if name in known else preset), name
        assert source.load({"extends": page}, kind="model").get("layers")
    # In a plan, in --set, in one line of text, and as what is imported.
    page = "meta-llama/Llama-2-70b-hf"
    assert planner.load(plan(model=page)).plan.get("model.layers") == 80
    assert planner.load(plan(), set={"model": page}).plan.get("model.layers") == 80
    assert quick.parse_quick(f"{page} on 64 h100").plain()["model"] == "llama2-70b"
    assert cli.main(["import", page]) == 0
    printed = capsys.readouterr()
    assert "layers: 80" in printed.out
    assert cli.main(["import", "meta-lama/Llama-2-70b-hf"]) == 2
    assert "did you mean 'meta-llama/Llama-2-70b-hf'?" in capsys.readouterr().err
    with pytest.raises(PlanError, match="did you mean 'meta-llama/Llama-2-70b-hf'"):
        planner.load(plan(model="meta-lama/Llama-2-70b-hf"))


@pytest.mark.parametrize(
    "name", ["models/llama2-70b", "./llama2-70b", "mistralai/Mistral-7B-v0.3", "h100-dgx", ""]
)
def test_a_path_another_version_and_an_unknown_machine_are_no_names(name: str) -> None:
    for kind in ("accelerator", "model"):
        assert aliases.find_preset(kind, name, references.preset_names(kind)) is None


def test_a_cluster_is_so_many_devices_of_an_accelerator() -> None:
    found = planner.load(plan()).plan
    assert found.get("cluster.devices") == 64
    assert found.get("cluster.accelerator.name") == "NVIDIA H100 SXM5 80 GB"
    for text in ("1,024 x a100", "1024xa100", "1024 × A100", "1024 a100"):
        found = planner.load(plan(cluster=text), set={"cluster.devices_per_node": 16}).plan
        assert (found.get("cluster.devices"), found.get("cluster.devices_per_node")) == (1024, 16)


def test_a_model_by_its_name_on_the_hub_and_keys_by_those_of_other_programs() -> None:
    changes = {"model": "meta-llama/Llama-3.1-8B", "tp": 4, "seq_len": 2048, "mbs": 2}
    found = planner.load(plan(), set=changes).plan
    assert (found.get("model.max_sequence"), found.get("model.hidden")) == (131072, 4096)
    assert found.get("parallelism.tensor") == 4
    assert found.get("training.sequence_length") == 2048
    assert found.get("training.micro_batch") == 2
    assert found.document.find_origin(("parallelism", "tensor")).kind == "set"


def test_a_schema_alone_accepts_the_plans_that_ship() -> None:
    """As an editor that reads their first line does."""
    folder = resources.folder("schemas")
    read = {file.name: json.loads(file.read_text()) for file in folder.glob("*.json")}
    registry = Registry().with_resources(
        (name, Resource.from_contents(content, DRAFT7)) for name, content in read.items()
    )
    check = Draft7Validator(read["plan.schema.json"], registry=registry)
    for file in (ROOT / "presets").glob("*.yaml"):
        assert not list(check.iter_errors(yaml.safe_load(file.read_text()))), file.name
    assert not list(check.iter_errors(PLAN))


# Suggestions --------------------------------------------------------------------------------


def test_a_foreign_key_or_value_is_suggested_at_its_place(tmp_path: Path) -> None:
    lines = told(
        tmp_path,
        "model: llama2-7b\n"
        "cluster: {accelerator: h100, num_gpus: 8, devices: 8}\n"
        "training:\n"
        "  batch_size: 64\n"
        "  tp: 8\n"
        "  precision: bfloat16\n"
        "  lora: {rank: 8, targets: [q_proj, all-linear]}\n"
        "parallelism: {tp: 8}\n",
    )
    for line, place, hint in zip(
        lines,
        ("2:30", "4:3", "5:3", "6:14", "7:29", "7:37", "8:15"),
        (
            "devices",
            "global_batch",
            "parallelism.tensor",
            "bf16",
            "query",
            "query, key, value, output, gate, up, down",
            "tensor",
        ),
        strict=True,
    ):
        assert line.startswith(f"{place}: ") and line.endswith(f"did you mean '{hint}'?)"), line


def test_a_misspelt_name_gets_the_nearest_and_no_long_list(tmp_path: Path) -> None:
    rest = "training: {tokens: 1T}\n"
    near = (
        ("model: lama2-70b\ncluster: 8 x h100\n", "llama2-70b"),
        ("model: llama2-7b\ncluster: 8 x h100-dgx\n", "h100-sxm-80gb"),
        ("model: llama2-7b\ncluster: h100\n", "8 x h100"),
    )
    for text, hint in near:
        (line,) = told(tmp_path, text + rest)
        assert line.endswith(f"shows; did you mean '{hint}'?)") and len(line) < 160


@pytest.mark.parametrize("key", ["batch_size", "training.seq_len", "learning_rate"])
def test_what_could_mean_several_things_is_not_taken(key: str) -> None:
    with pytest.raises(PlanError, match="unknown key"):
        planner.load(plan(), set={key: 64})
