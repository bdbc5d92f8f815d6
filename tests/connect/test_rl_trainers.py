"""Configurations of trainers by reinforcement learning, read as plans: those of others, by what
they say of their runs (tests/data/rl_files.yaml), and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.connect.exports import TABLED
from planner.connect.imports import import_file, reinforcement
from planner.connect.imports.option_table import load_options
from planner.documents import schema
from planner.documents.source import expand_keys
from tests.conftest import read_data

FILES = read_data("rl_files")
VERL = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm"


def write(folder: Path, trainer: str, options: dict[str, Any]) -> str:
    """Write a configuration as its trainer takes it."""
    as_yaml = trainer in ("nemo-rl", "llm-foundry")
    file = folder / ("run.yaml" if as_yaml else "run.sh")
    flags = {"config_name"} | (set(options) if trainer == "openrlhf" else set())
    words = [
        f"{'--' if k in flags else ''}{k.replace('config_name', 'config-name')}={json.dumps(v)}"
        for k, v in options.items()
    ]
    program = "verl.trainer.main_ppo" if trainer == "verl" else "openrlhf.cli.train_ppo_ray"
    script = f"python3 -m {program} " + " ".join(words)
    file.write_text(json.dumps(expand_keys(options)) if as_yaml else script, "utf-8")
    return str(file)


def flatten(tree: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Mappings in mappings by dotted key."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        inner = isinstance(value, dict)
        found |= flatten(value, f"{before}{key}.") if inner else {f"{before}{key}": value}
    return found


@pytest.mark.parametrize("row", FILES, ids=lambda row: row["file"].rpartition("/")[2])
def test_files_of_others_are_read_or_refused_by_name(row: dict[str, Any], tmp_path: Path) -> None:
    path = str(tmp_path / "run.sh")
    if "script" in row:
        Path(path).write_text(row["script"], "utf-8")
    else:
        path = write(tmp_path, row["trainer"], row["options"])
    if "refused" in row:
        with pytest.raises(PlanError) as error:
            import_file(path, row["trainer"])
        assert row["refused"] in str(error.value)
        return
    found = flatten(import_file(path, row["trainer"]).document)
    assert {key: found.get(key) for key in row["plan"]} == row["plan"]


@pytest.mark.parametrize("trainer", TABLED)
def test_every_row_writes_a_key_of_a_plan_and_no_list_takes_what_rows_read(trainer: str) -> None:
    table = load_options(trainer)
    assert table is not None
    keys = set(schema.list_key_paths("plan"))
    assert {row["key"] for row in table.keys} <= keys
    for row in table.keys:
        for option in reinforcement._list_options(row):
            assert table.classify(option) != "refused", option


def test_a_base_is_read_first_and_what_it_says_is_not_listed(tmp_path: Path) -> None:
    base = {"policy": {"model_name": "Qwen/Qwen3-8B", "max_total_sequence_length": 4096}}
    base["policy"] |= {"precision": "bfloat16", "train_global_batch_size": 512}
    base |= {"grpo": {"num_prompts_per_step": 64}, "cluster": {"num_nodes": 1, "gpus_per_node": 8}}
    (tmp_path / "base.yaml").write_text(json.dumps({**base, "rubbish": 1}), "utf-8")
    over = tmp_path / "over.yaml"
    over.write_text("defaults: base.yaml\ncluster: {num_nodes: 2}\nnovel: {thing: 1}\n", "utf-8")
    found = import_file(str(over))
    assert found.document["cluster"]["devices"] == 16
    assert "unknown to NeMo RL of 2026-08-22 (7ea279abf): novel.thing" in found.said
    over.write_text("defaults: nowhere.yaml\npolicy: {}\n", "utf-8")
    with pytest.raises(PlanError, match=r"defaults names nowhere\.yaml, which is not there"):
        import_file(str(over))


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("algorithm.adv_estimator=magic", "adv_estimator is magic, which is not modelled .grpo"),
        ("actor_rollout_ref.rollout.multi_turn.enable=True", "multi_turn.enable is true, which"),
        ("actor_rollout_ref.model.path=nobody/nothing", "nobody/nothing is no known model"),
    ],
)
def test_what_is_not_modelled_is_one_line(words: str, wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"{VERL} actor_rollout_ref.model.path=Qwen/Qwen3-8B {words}\n", "utf-8")
    with pytest.raises(PlanError, match=wrong):
        import_file(str(file))


def test_lengths_are_assumed_or_set(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"{VERL} actor_rollout_ref.model.path=Qwen/Qwen3-8B\n", "utf-8")
    assumed = import_file(str(file))
    assert assumed.document["rl"]["response_tokens"] == {"mean": 256, "cap": 512}
    assert "no key says the mean of rl.response_tokens: half of its cap, an assumption" in (
        assumed.said
    )
    given = import_file(str(file), changes=["rl.response_tokens.mean=300"])
    assert given.document["rl"]["response_tokens"] == {"mean": 300, "cap": 512}
