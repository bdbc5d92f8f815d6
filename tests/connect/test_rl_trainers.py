"""Configurations of trainers by reinforcement learning, read as plans: those of others, by what
they say of their runs (tests/data/rl_files.yaml), and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import planner
from planner.base.errors import PlanError
from planner.connect.exports import SCRIPTED, TABLED, caveats
from planner.connect.exports.scripts import FOUND_BY_RUNNING, write_trainer_script
from planner.connect.imports import import_file, tabled
from planner.connect.imports.bases import flatten_options
from planner.connect.imports.option_table import load_options
from planner.documents import schema
from planner.documents.source import expand_keys
from tests.conftest import read_data

FILES, DATA = read_data("rl_files"), Path(__file__).parents[1] / "data"
VERL = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm"


def write(folder: Path, trainer: str, options: dict[str, Any]) -> str:
    """Write a configuration as its trainer takes it."""
    as_yaml = trainer in ("nemo-rl", "llm-foundry", "nemo-automodel", "olmo-core")
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
    document = import_file(path, row["trainer"]).document
    found = flatten_options(document)
    assert {key: found.get(key) for key in row["plan"]} == row["plan"]
    if "parameters" in row:
        assert planner.load(document).evaluate()["parameters.total"].value == row["parameters"]


OLMO = json.loads((DATA / "counts" / "olmo_core.json").read_text("utf-8"))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", OLMO["models"])
def test_a_model_of_olmo_core_has_its_own_count_or_is_refused(name: str, tmp_path: Path) -> None:
    row, config = OLMO["models"][name], {**OLMO["run"], "model": OLMO["models"][name]["model"]}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    if name in OLMO["refused"]:
        with pytest.raises(PlanError, match=OLMO["refused"][name]):
            import_file(str(tmp_path / "config.json"))
        return
    result = planner.load(import_file(str(tmp_path / "config.json")).document).evaluate()
    assert result["parameters.total"].value == row["parameters"]


@pytest.mark.parametrize("trainer", TABLED)
def test_every_row_writes_a_key_of_a_plan_and_no_list_takes_what_rows_read(trainer: str) -> None:
    table = load_options(trainer)
    assert table is not None
    keys = set(schema.list_key_paths("plan"))
    assert {row["key"] for row in table.keys} <= keys
    for row in table.keys:
        for option in tabled.list_row_options(row):
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


@pytest.mark.parametrize(("words", "wrong"), read_data("faults")["rl_trainers"])
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


def test_verl_divides_heads_where_its_degree_is_that_of_ulysses(tmp_path: Path) -> None:
    """verl/models/transformers/monkey_patch.py: all-to-alls before and after attention."""
    file, degree = tmp_path / "run.sh", "actor_rollout_ref.actor.ulysses_sequence_parallel_size"
    for size, way in ((4, "ulysses"), (1, None)):
        file.write_text(f"{VERL} actor_rollout_ref.model.path=Qwen/Qwen3-8B {degree}={size}\n")
        document = import_file(str(file), changes=["rl.steps=9"]).document
        assert document["parallelism"].get("context_exchange") == way
        written = write_trainer_script(planner.load(document).plan, "verl")
        assert written.said.get(degree, 1) == size
        assert "parallelism.context_exchange" not in {one.key for one in written.unsaid}


def draw_plan(random: Random) -> tuple[str, dict[str, Any]]:
    """Draw a trainer with scripts and changes of a plan, with what it has options for."""
    to = random.choice(SCRIPTED)
    layouts = [{"tensor": 2, "sequence": True, "pipeline": 2}, {"pipeline": 2}, {"tensor": 8}]
    split = {"rl.placement": "split", "rl.staleness": random.choice((0, 1, 2))}
    more = split if to == "nemo-rl" and random.random() < 0.5 else {}
    return to, more | {
        "model": random.choice(("llama3.1-8b", "qwen3-8b", "qwen3-30b-a3b")),
        "training.recompute": random.choice(("none", "full")),
        "parallelism": {"zero": 1, **random.choice(layouts)},
        "rl.prompts": random.choice((32, 64)),
        "rl.reference": random.random() < 0.5,
        "rl.response_tokens": {"mean": random.randint(200, 1500), "cap": 3000, "spread": 0.6},
        "rl.rollout.tensor": random.choice((1, 2, 4)),
        "rl.rollout.max_concurrency": random.choice((64, 256)),
    }


def read_again(plan: planner.Plan, to: str, folder: Path) -> planner.Plan:
    """Write the script of a plan and read it, with the cluster and what a run finds."""
    made = write_trainer_script(plan.plan, to)
    assert made.lost == ()
    (folder / "run.sh").write_text(made.text, "utf-8")
    held = {key: plan.plan.get(key) for key in FOUND_BY_RUNNING}
    found = import_file(str(folder / "run.sh"), to).document
    found["cluster"] = {"extends": "h100x1024", "devices": 16}
    return planner.load(found, {key: value for key, value in held.items() if value is not None})


@pytest.mark.slow
def test_what_is_written_is_read_with_the_same_numbers(tmp_path: Path) -> None:
    random = Random(46)
    for _ in range(6):
        to, changes = draw_plan(random)
        plan = planner.load("presets/reinforcement/grpo_llama3.1-8b_16xh100.yaml", changes)
        one, other = plan.evaluate(), read_again(plan, to, tmp_path).evaluate()
        for name in ("rl.step_seconds", "rl.memory.peak", "rl.memory.host", "memory.process"):
            assert one[name].value == other[name].value, (to, name, changes)


@pytest.mark.parametrize(
    ("to", "changes", "wrong"),
    read_data("connect")["without_option"],
)
def test_what_a_trainer_has_no_option_for_is_named(
    to: str, changes: dict[str, Any], wrong: str
) -> None:
    plan = planner.load("presets/reinforcement/grpo_llama3.1-8b_16xh100.yaml", changes)
    assert wrong in "; ".join(caveats(write_trainer_script(plan.plan, to).lost))


@pytest.mark.parametrize("to", SCRIPTED)
def test_rows_have_options_of_the_trainers_own_configuration(to: str) -> None:
    table, own = load_options(to), read_data("rl_options")[to]["options"]
    known = {f"{section}.{name}" for section, names in own.items() for name in names}
    for row in table.keys if table else ():
        options = {*tabled.list_row_options(row), *row.get("when", {}), *row.get("with", {})}
        assert {one for one in options if "." in one} <= known, row["key"]
