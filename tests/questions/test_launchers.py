"""A search that keeps to what one framework can start."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.base.errors import PlanError
from planner.connect.exports import FORMATS, build_config
from planner.connect.exports.table import Elsewhere
from planner.plans import plan as plans
from planner.questions import loading
from planner.questions.search.engine import search
from planner.questions.search.layouts import KEYS, Space
from planner.report import searched
from tests.conftest import RunCli, leave_to_night, read_data
from tests.layouts import yield_layouts

PLAN: dict[str, Any] = read_data("plans")["launchers"]
SMALL: dict[str, Any] = read_data("plans")["open_on_four"]


def left_unsaid(plan: Any, framework: str) -> set[str]:
    """Keys of the layout that the launch configuration does not say, and no other place does."""
    unsaid = build_config(plan, framework).unsaid
    return {one.key for one in unsaid if one.key in KEYS and not isinstance(one.why, Elsewhere)}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "framework", leave_to_night(FORMATS, ["megatron", "torchtitan", "accelerate"])
)
def test_what_is_searched_is_what_the_export_says_whole(framework: str) -> None:
    plan, chance = loading.load(PLAN), random.Random(5)
    few = {"training.micro_batch": (1,), "parallelism.expert": (1, 8)}
    kept = {
        tuple(changes[key] for key in KEYS)
        for rows in Space(plan, few, launcher=framework).yield_blocks()
        for changes in yield_layouts(rows)
    }
    every = [changes for rows in Space(plan, few).yield_blocks() for changes in yield_layouts(rows)]
    assert 0 < len(kept) < len(every)
    there = [changes for changes in every if tuple(changes[key] for key in KEYS) in kept]
    for changes in (*chance.sample(every, 40), *chance.sample(there, 10)):
        started = tuple(changes[key] for key in KEYS) in kept
        unsaid = left_unsaid(plans.variant(plan, changes), framework)
        assert started == (not unsaid), (changes, unsaid)
    for values in kept:
        for key, lacking in LACKS[framework].items():
            assert values[KEYS.index(key)] not in lacking, (key, values)


def test_what_no_row_of_a_table_reads_is_not_started() -> None:
    """DeepSpeed's configuration has no key for how layers are cut into stages: 30 layers divide
    over 4 of them only with embedding and head counted, which its PipelineModule is not told."""
    model = {"extends": "llama2-7b", "layers": 30}
    plan = loading.load({**PLAN, "model": model})
    kept = {"parallelism.pipeline": (4,), "training.micro_batch": (1,)}

    def cuts(launcher: str | None) -> set[Any]:
        rows = Space(plan, kept, launcher=launcher).yield_blocks()
        return {changes["parallelism.cut"] for block in rows for changes in yield_layouts(block)}

    assert cuts(None) == cuts("megatron") == {None, "ends"}
    assert cuts("deepspeed") == {None}


@pytest.mark.slow
def test_a_pipeline_of_maxtext_divides_layers_and_micro_batches() -> None:
    """Its stages take equally many layers, and the micro-batches of a step fill them evenly."""
    training = {**PLAN["training"], "schedule": "gpipe", "global_batch": 96}
    plan, chance = (
        loading.load({**PLAN, "model": "llama3-8b", "training": training}),
        random.Random(3),
    )
    few = {"training.micro_batch": (1, 2), "training.schedule": ("gpipe",)}
    started = {
        tuple(changes[key] for key in KEYS)
        for rows in Space(plan, few, launcher="maxtext").yield_blocks()
        for changes in yield_layouts(rows)
    }
    every = [c for rows in Space(plan, few).yield_blocks() for c in yield_layouts(rows)]
    assert 0 < len(started) < len(every)
    for changes in chance.sample(every, 100):
        unsaid = left_unsaid(plans.variant(plan, changes), "maxtext")
        assert (tuple(changes[key] for key in KEYS) in started) == (not unsaid), changes


#: What the frameworks' own documentation says that they do not have.
LACKS: dict[str, dict[str, set[Any]]] = {
    "megatron": {"training.schedule": {"zero-bubble", "dualpipe", "gpipe"}},
    "megatron-bridge": {"training.schedule": {"zero-bubble", "dualpipe", "gpipe"}},
    "torchtitan": {"parallelism.zero": {1}},
    "deepspeed": {"parallelism.virtual_pipeline": {2, 4}, "parallelism.replicate": {2, 4, 8}},
    "nanotron": {"parallelism.virtual_pipeline": {2, 4}, "parallelism.zero": {2, 3},
                 "training.recompute": {"selective"}},
    "accelerate": {"parallelism.pipeline": {2, 4, 8}, "parallelism.expert": {2, 4, 8}},
    "transformers": {"parallelism.pipeline": {2, 4, 8}, "parallelism.expert": {2, 4, 8}},
    "trl": {"parallelism.pipeline": {2, 4, 8}, "parallelism.expert": {2, 4, 8}},
    "axolotl": {"parallelism.pipeline": {2, 4, 8}, "parallelism.expert": {2, 4, 8}},
    "llama-factory": {"parallelism.pipeline": {2, 4, 8}, "parallelism.expert": {2, 4, 8}},
    "maxtext": {"training.schedule": {"zero-bubble", "dualpipe"}},
}  # fmt: skip


@pytest.mark.slow
def test_its_own_kernels_run_where_the_plan_names_none() -> None:
    plan = loading.load({**SMALL, "parallelism": {"zero": 0}})
    found = search(plan, 2, launcher="torchtitan", margin="0")
    assert found.plain is not None and "that torchtitan can start" in searched.format_search(found)
    assert found.plain.of(plan).get("training.implementation") == "torchtitan"
    auto = {"auto": True, "for": "torchtitan", "margin": 0}
    chosen = loading.load({**SMALL, "parallelism": auto})
    assert chosen.get("training.implementation") == "torchtitan"
    assert not left_unsaid(chosen, "torchtitan")
    assert "torchtitan can start" in chosen.derived["parallelism.tensor"]


def test_modes_that_are_the_same_step_are_left_out_of_what_it_can_start() -> None:
    """With a fused attention kernel selective recomputation is the same step as none."""
    plan = loading.load(SMALL | {"parallelism": {"zero": 0}})
    found = search(plan, 3, launcher="accelerate", margin="0")
    assert found.same
    assert 0 < found.fitting <= found.size
    assert all(not left_unsaid(layout.of(plan), "accelerate") for layout in found.best)


@pytest.mark.slow
def test_a_framework_that_there_is_not_and_one_that_starts_nothing() -> None:
    with pytest.raises(PlanError, match="unknown framework megatronn"):
        search(loading.load(PLAN), launcher="megatronn")
    with pytest.raises(PlanError, match="accelerate can start none"):
        search(loading.load(PLAN), fixed={"parallelism.pipeline": 2}, launcher="accelerate")
    with pytest.raises(PlanError, match=r"parallelism\.for needs parallelism: auto"):
        loading.load({**PLAN, "parallelism": {"zero": 0, "for": "megatron"}})


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("layout", [{"parallelism": "auto"}, {}])
def test_options_of_the_plain_command_find_a_layout_as_keys_of_the_plan_do(
    layout: dict[str, Any], run_cli: RunCli, tmp_path: Path
) -> None:
    """And the command that a report says makes it again."""
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **layout}))
    options = ("--for", "torchtitan", "--margin", "0", "--format", "json")
    asked = json.loads(run_cli(str(path), *options).stdout)
    sets = [word for text in asked["plan"]["set"] for word in ("--set", text)]
    assert "parallelism.for=torchtitan" in sets and "parallelism.margin=0" in sets
    again = json.loads(run_cli(str(path), *sets, "--format", "json").stdout)
    assert asked == again
    assert asked["inputs"]["training.implementation"]["value"] == "torchtitan"


def test_a_framework_for_a_layout_that_is_spelled_out_is_a_fault(run_cli: RunCli) -> None:
    found = run_cli("presets/llama70b_h100x1024.yaml", "--for", "megatron")
    assert found.returncode == 2 and "this plan gives a layout" in found.stderr
