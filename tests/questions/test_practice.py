"""Plans that name no software, and plans of published runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.base import units
from planner.cli import main as cli
from planner.connect import exports
from planner.documents import stacks
from planner.documents.references import list_runs
from planner.plans import error_bands
from planner.questions import write_back
from planner.questions.expert_path import find_expert_path, find_nearest_run, list_unpublished
from planner.questions.loading import load
from planner.questions.plan_questions import evaluate
from planner.questions.studies import study
from tests.conftest import leave_to_night, read_data

RUNS, PATHS = list_runs(), read_data("practice")["paths"]


@pytest.mark.parametrize("stated, stack", read_data("practice")["stacks"])
def test_a_plan_without_software_gets_what_people_run(stated: dict[str, Any], stack: str) -> None:
    around = {"model": "llama3.2-1b", "training": {"sequence_length": 2048, "global_batch": 64}}
    assert load(around, stated).get("training.stack") == stack


@pytest.mark.slow
def test_a_newcomer_finds_the_days_of_deepseek_v3() -> None:
    """14.8T tokens took 2.664 million hours of 2,048 H800, 54 days (arXiv 2412.19437, table 1)."""
    training = {"tokens": "14.8T", "sequence_length": 4096, "global_batch": 15360}
    plan = load(
        {
            "model": "deepseek-v3",
            "cluster": "deepseek-h800x2048",
            "training": {**training, "precision": "fp8"},
            "parallelism": "auto",
        }
    )
    low, high = evaluate(plan)["time.training_days"].interval
    assert low <= 2.664e6 / 2048 / 24 <= high
    assert plan.get("parallelism.expert") > 8 and plan.get("parallelism.dispatcher") == "deepep"


@pytest.mark.slow
def test_each_point_of_a_study_has_the_stack_of_its_own_plan() -> None:
    cluster = {"devices": 8, "devices_per_node": 8, "network": {"bandwidth": "50 GB/s"}}
    base = {"model": "llama3-8b", "cluster": {**cluster, "accelerator": "h100-sxm-80gb"}}
    devices = ["h100-sxm-80gb", "mi300x"]
    axes = {"cluster.accelerator": devices, "training.sequence_length": [4096]}
    record = ["time.step_seconds"]
    read = study.read_study({"name": "x", "base": base, "axes": axes, "record": record})
    for number, device in enumerate(devices):
        alone = load({**base, "cluster": {**cluster, "accelerator": device},
                      "training": {"sequence_length": 4096}})  # fmt: skip
        point = read.build_plan(number)
        assert point.get("training.stack") == alone.get("training.stack")
        assert point.data["parallelism"] == alone.data["parallelism"]


@pytest.mark.slow
@pytest.mark.parametrize("stated, tensor, context", read_data("practice")["degrees"])
def test_a_degree_that_nobody_ran_is_taken_only_where_no_other_fits(
    stated: dict[str, Any], tensor: int, context: int
) -> None:
    plan = load({"parallelism": "auto"}, stated)
    degrees = [plan.get(f"parallelism.{key}") for key in ("tensor", "context")]
    assert degrees == [tensor, context]
    told = plan.derived["parallelism.tensor"]
    assert ("nobody is known to have run" in told) == any(stacks.iter_untried(plan.get))


def test_the_best_published_run_has_as_many_devices() -> None:
    """175B on 1,024 A100: 141,306 tokens/s (NeMo Megatron 22.06) of 6 N + 12 l h s FLOPs each."""
    plan = {"cluster.accelerator.architecture": "ampere", "training.precision": "bf16"}
    best = {n: error_bands.find_best_run((plan | {"cluster.devices": n}).get)
            for n in (32, 64, 600, 1024, 9999)}  # fmt: skip
    assert [best[n]["run"] for n in (64, 1024)] == [
        "runs/llama-13b-a100",
        "runs/gpt3-175b-nemo-a100",
    ]
    flops = 141306 * (6 * 174.6e9 + 12 * 96 * 12288 * 2048)
    assert best[1024]["mfu"] == pytest.approx(flops / 1024 / 312e12, rel=0.02)
    # arXiv 2311.05610, table 3 (26.54 s), which counts the input embedding as products: 70.5 %.
    flops = 6 * (13.016e9 - 2 * 32000 * 5120 + 128000 * 5120) + 12 * 40 * 5120 * 2048
    assert best[64]["mfu"] == pytest.approx(2048 * 2048 / 26.54 * flops / 64 / 312e12, rel=0.01)
    assert all(best[n]["devices"] >= n for n in (32, 64, 600, 1024))
    shares = [best[n]["mfu"] for n in best]
    assert shares == sorted(shares, reverse=True)
    assert error_bands.find_best_run({"training.precision": "bf16"}.get) is None


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", RUNS)
def test_a_published_run_is_predicted(name: str) -> None:
    result = evaluate(load(name))
    assert not any(stacks.iter_untried(result.plan.get))  # presets/practice/layouts.yaml knows it
    for row in result.plan.document.get("measured"):
        quantity = result[row["quantity"]]
        ratio = float(quantity.number / units.parse(row["value"], quantity.unit))
        print(f"{name}: {row['quantity']} {ratio - 1:+.1%}")
        assert 1 / 2 < ratio < 2


@pytest.mark.slow
@pytest.mark.parametrize("plan", leave_to_night(PATHS, [PATHS[0], PATHS[-1]]))
def test_each_change_of_a_path_is_a_plan_that_is_better(plan: str, tmp_path: Path) -> None:
    """The plan that is written gives the step's numbers, and the frameworks named start it."""
    file = tmp_path / "plan.yaml"
    file.write_text(plan, "utf-8")
    path = find_expert_path(load(file))
    assert len(path.steps) > 1
    for number, (before, step) in enumerate(zip(path.steps, path.steps[1:], strict=False), 1):
        assert step.lacking < before.lacking or step.seconds < before.seconds
        out = str(tmp_path / f"{number}.yaml")
        if number < len(path.steps) - 1:
            write_back.write_values(str(file), write_back.list_path_keys(path, number), out)
        else:
            assert cli.main(["advise", str(file), "--apply", str(number), "-o", out]) == 0
        made = load(out)
        result = evaluate(made)
        assert float(result["time.step_seconds"].value) == pytest.approx(step.seconds, rel=1e-9)
        assert float(result["memory.process"].value) == pytest.approx(step.needed, rel=1e-9)
        for name in step.frameworks:
            assert not exports.build_config(made, name).lost


def test_what_a_run_does_is_published() -> None:
    runs = {name: load(name) for name in RUNS}
    for name, run in runs.items():
        assert not [*list_unpublished(run, [*runs.values()])]
        assert find_nearest_run(run, {name: run}) == name
    other = load("runs/qwen3-235b-a22b-h100", {"training.tokens": "7B"})
    assert find_nearest_run(other, runs) == "runs/qwen3-235b-a22b-h100"
    short = {"parallelism.context": 2, "training.sequence_length": 4096}
    (choice, published), *_ = list_unpublished(
        load("runs/llama3-70b-dgxc", short), [*runs.values()]
    )
    assert "context 2 (sequence_length 2,048 on each)" in choice and published


@pytest.mark.parametrize("words, said", read_data("practice")["refused"])
def test_advice_that_cannot_be_given(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["advise", *(word.replace("OUT", str(tmp_path)) for word in words)]) == 2
    out, error = capsys.readouterr()
    assert not out and said in error and len(error.splitlines()) == 1
