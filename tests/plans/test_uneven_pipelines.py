"""Layers that do not divide over the stages: layouts as Megatron-LM writes them, published cuts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.connect.exports import build_config
from planner.plans import pipeline
from planner.plans import plan as plans
from planner.questions import loading
from planner.questions.search.engine import search
from planner.questions.search.layouts import CUT, Space
from planner.report.answer import answer_of
from planner.results.result import evaluate_plan
from tests.conftest import read_data

#: Of Megatron-LM's documentation and functional tests, with what each stage holds, by hand.
PUBLISHED: dict[str, tuple[list[int], int]] = {
    "Et*3|(tt|)*29,m|L": ([3, *[2] * 29, 1, 0], 1),
    "Et*2|(tt|)*5t|tmL": ([2, *[2] * 5, 1, 2], 1),
    "Et*7|t*7mL": ([7, 8], 1),
    "Et*3|(tt|)*6tmL": ([3, *[2] * 6, 2], 1),
    "Et*3|(tt|)*6L": ([3, *[2] * 6, 0], 0),
    "Et|(tt|)*6mL": ([1, *[2] * 6, 1], 1),
    "E||t|L": ([0, 0, 1, 0], 0),
}


@pytest.mark.parametrize("text", PUBLISHED)
def test_a_published_layout_is_read_as_it_is_written(text: str) -> None:
    assert pipeline.parse_chunks(text) == PUBLISHED[text]


def unrolled(text: str) -> list[str]:
    """What the documentation says of repetition, as two replacements."""
    text = text.replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        text = re.sub(pattern, lambda found: found[1] * int(found[2]), text)
    return text.split("|")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.booleans())
def test_what_is_written_is_read_again(held: list[int], module: bool) -> None:
    further = int(module and sum(held) > 0)
    text = pipeline.write_chunks(held, further)
    assert text is not None and pipeline.parse_chunks(text) == (held, further)
    stages = unrolled(text)
    assert [stage.count("t") + stage.count("m") for stage in stages] == held
    flat = "".join(stages)
    assert flat == "E" + "t" * (sum(held) - further) + "m" * further + "L"


def test_modules_of_two_stages_are_not_written() -> None:
    assert pipeline.write_chunks([3, 2, 1], 2) is None
    assert pipeline.write_chunks([3, 1, 2], 2) == "Ettt|t|mmL"


@pytest.mark.parametrize(
    ("text", "said"),
    read_data("faults")["uneven_pipelines"],
)  # fmt: skip
def test_what_is_no_layout_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        pipeline.parse_chunks(text)


def document(model: Any, devices: int, **layout: Any) -> dict[str, Any]:
    return {
        "name": "uneven",
        "model": model,
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": devices, "devices_per_node": 8},
        "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 2048},
        "parallelism": layout,
    }


DEEPSEEK = {"extends": "deepseek-v3", "mtp": 1}
TEXT = "Et*3|(tt|)*29,m|L"


def test_a_plan_takes_the_layout_and_its_virtual_stages() -> None:
    """61 layers and a further-token module over 16 devices, two chunks each: the first has five
    layers, the last but one a module beside two layers, the last two layers and the loss."""
    plan = loading.load(document(DEEPSEEK, 256, pipeline=16, expert=8, zero=1, stages=TEXT))
    assert plan.get("parallelism.virtual_pipeline") == 2
    assert plan.get("training.schedule") == "interleaved"
    assert plan.derived["parallelism.virtual_pipeline"] == "as many as parallelism.stages says"
    assert plan.model is not None
    held = pipeline.build_stages(
        plan.model, plan.data["parallelism"], "interleaved", 64, plan.get("model.vocab")
    )
    layers = [
        sum(n for part, n in stage.holds.items() if part not in ("embedding", "head"))
        for stage in held
    ]
    assert layers[0] == 5 and layers[-2:] == [3, 2] and set(layers[1:-2]) == {4}
    assert held[0].holds["embedding"] == held[-1].holds["head"] == 1
    said = build_config(plan, "megatron").said
    assert pipeline.parse_chunks(said["pipeline-model-parallel-layout"]) == PUBLISHED[TEXT]
    assert "num-virtual-stages-per-pipeline-rank" not in said  # Megatron-LM takes one of them


@pytest.mark.parametrize(("changes", "said"), read_data("faults")["layout_of_another_model"])
def test_a_layout_of_another_model_is_refused_in_one_line(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as caught:
        loading.load(document(DEEPSEEK, 240 if "parallelism.pipeline" in changes else 256,
                            pipeline=16, expert=8, stages=TEXT), changes)  # fmt: skip
    assert len(caught.value.faults) == 1 and said in str(caught.value)


#: Layers, stages, and what the first, inner and last stages hold where embedding and head count as
#: a layer each: Qwen3-235B as Megatron-Bridge trains it, Llama 3 405B (arXiv 2407.21783, section
#: 3.3.2: a layer less on the first and on the last stage).
ENDS = {"qwen3-235b-a22b": (94, 16, 5, 6), "llama3.1-405b": (126, 16, 7, 8)}


@pytest.mark.parametrize("model", ENDS)
def test_published_cuts_of_layers_that_do_not_divide_are_searched(model: str) -> None:
    layers, stages, outer, inner = ENDS[model]
    plan = loading.load(document(model, 64, tensor=1))
    held = {"parallelism.pipeline": (stages,), "parallelism.tensor": (4,),
            "parallelism.context": (1,), "parallelism.expert": (1,),
            "parallelism.expert_tensor": (1,), "training.micro_batch": (1,)}  # fmt: skip
    space = Space(plan, held)
    cuts = {(run[2], run[0]) for run in space.runs if run[1] in ("1f1b", "interleaved")}
    chunks = (layers + 2) // stages
    assert cuts >= {(None, 1), ("ends", 1), ("ends", 2), ("ends", chunks)}
    found = plans.variant(plan, {"parallelism.pipeline": stages, CUT: "ends"})
    assert found.model is not None
    assert pipeline.divide_layers(found.model, found.data["parallelism"], 1) == [
        outer, *[inner] * (stages - 2), outer,
    ]  # fmt: skip
    said = build_config(found, "megatron").said
    assert said["decoder-first-pipeline-num-layers"] == outer


def test_deepseek_v3_over_sixteen_stages_is_searched_in_two_chunks_each() -> None:
    """61 layers and the module: with embedding and head 64, four a device."""
    plan = loading.load(document(DEEPSEEK, 16, expert=1))
    space = Space(plan, {"parallelism.pipeline": (16,), "training.recompute": ("full",)})
    runs = {run[:2] + run[2:] for run in space.runs}
    assert {(1, "1f1b", None), (1, "1f1b", "ends"), (2, "interleaved", "ends")} <= runs


def test_stages_that_a_stack_runs_only_in_chunks_are_searched_in_chunks() -> None:
    """Megatron-Bridge overlaps experts over stages with virtual stages alone (its comm_overlap.py);
    DeepSeek-V3 ran on 16 stages and experts over 64 devices (arXiv 2412.19437)."""
    plan = loading.load(document(DEEPSEEK, 1024, expert_overlap=True), {
        "training.stack": "megatron-bridge@2026-08",
    })  # fmt: skip
    space = Space(plan, {"parallelism.pipeline": (16,), "parallelism.expert": (64,)})
    assert space.degrees and space.runs and all(virtual > 1 for virtual, _, _ in space.runs)


def test_layers_that_divide_are_cut_one_way() -> None:
    space = Space(loading.load(document("llama2-70b", 16, zero=0)))
    assert space.crossed and {run[2] for run in space.runs} == {None}  # 80 layers over powers of 2


def test_an_uneven_cut_that_is_found_is_the_plan_that_is_evaluated() -> None:
    """Over arrays and one by one: the same step, to rounding."""
    plan = loading.load(document("qwen3-235b-a22b", 64, tensor=1))
    held = {"parallelism.tensor": 4, "parallelism.pipeline": 16, "parallelism.context": 1,
            "parallelism.expert": 4, "parallelism.expert_tensor": 1, CUT: "ends",
            "training.schedule": "interleaved"}  # fmt: skip
    found = search(plan, 3, fixed=held, margin="0")
    listed = found.best or (found.nearest,)
    for layout in listed:
        assert layout is not None and layout.changes[CUT] == "ends"
        for name, value in layout.approximate.items():
            if name in layout.values:
                assert float(layout.values[name]) == pytest.approx(value, rel=1e-9), name


#: Layers, pipeline and virtual stages as published, and what the first, the inner and the last
#: chunks hold: Llama 3.1 405B (Megatron-Bridge), Qwen3-235B (XTuner; Megatron-Bridge), DeepSeek-V3
#: (NeMo AutoModel). The last does not divide with both ends either.
PRINTED = {
    ("llama3.1-405b", 8, 8): (1, {2}, 1),
    ("llama3.1-405b", 16, 8): (0, {1}, 0),
    ("qwen3-235b-a22b", 32, 3): (0, {1}, 0),
    ("qwen3-235b-a22b", 8, 4): (2, {3}, 2),
    ("deepseek-v3", 8, 4): (1, {2}, 0),
}


@pytest.mark.parametrize(("model", "stages", "virtual"), PRINTED)
def test_virtual_stages_as_papers_print_them_are_cut_with_both_ends(
    model: str, stages: int, virtual: int
) -> None:
    told = document(model, 8 * stages, pipeline=stages, virtual_pipeline=virtual, tensor=1)
    if model == "deepseek-v3":
        told["model"] = {"extends": "deepseek-v3", "mtp": 0}
    plan = loading.load(told)
    assert plan.model is not None
    first, *inner, last = pipeline.divide_layers(plan.model, plan.data["parallelism"], 1)
    assert (first, {*inner}, last) == PRINTED[model, stages, virtual]
    assert first + sum(inner) + last == len(plan.model.sequence)
    said = [words for _, words, _ in answer_of(evaluate_plan(plan)).plan_line]
    assert "both ends counted as layers" in said
    ends = plans.variant(plan, {CUT: "ends"})
    assert pipeline.divide_layers(plan.model, ends.data["parallelism"], 1) == [first, *inner, last]
