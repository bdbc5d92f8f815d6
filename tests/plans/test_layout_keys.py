"""The table of layout keys says what the schema says; sizes that follow are those of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.documents.schema import list_key_paths
from planner.plans import layout
from planner.plans.document import Plan
from planner.plans.plan import about, variant
from planner.questions.loading import load
from planner.questions.search import ranking
from planner.questions.search.engine import search
from planner.questions.solve import answers
from planner.questions.studies import points
from planner.results.result import evaluate_plan
from tests.conftest import read_data

MODEL = "mixtral-8x7b"
#: Keys of the schema's section that say how a layout is found or run, and divide nothing.
HOW = frozenset({
    "auto", "for", "margin", "context_exchange", "dispatcher", "expert_overlap", "reshard",
    "vocab_multiple", "tensor_overlap", "data_overlap", "send_overlap", "split_root",
})  # fmt: skip


def document(devices: int, model: str = MODEL, **degrees: int) -> dict[str, object]:
    return {
        "model": model,
        "cluster": {"accelerator": "h800-sxm-80gb", "devices": devices, "devices_per_node": 8},
        "training": {"sequence_length": 4096, "global_batch": devices * 4},
        "parallelism": degrees,
    }


@pytest.mark.parametrize("row", layout.ROWS, ids=lambda row: row.key)
def test_a_row_says_what_the_schema_says_of_its_key(row: layout.LayoutKey) -> None:
    said = about(row.key)
    if "default" in said:
        assert said["default"] == row.neutral
    if "enum" in said and row.values:
        assert set(row.values) <= set(said["enum"]) and row.neutral in row.values
    known = {other.name for other in layout.ROWS}
    assert {*row.over, *filter(None, [row.refines])} <= known
    assert not row.like or row.like in layout.ROW


def test_every_key_of_the_section_has_a_row_or_divides_nothing() -> None:
    keys = {
        path.split(".")[1] for path in list_key_paths("plan") if path.startswith("parallelism.")
    }
    there = {row.name for row in layout.ROWS if row.key.startswith("parallelism.")}
    assert there | HOW == keys and not there & HOW


def test_copies_of_experts_are_those_of_deepseek() -> None:
    """2,048 H800s, 16 stages, experts over 64 devices (DeepSeek-V3, arXiv 2412.19437, section
    3.2.1): two copies of each expert, 128 of all other weights of a stage."""
    plan = load({
        **document(2048, "deepseek-v3", pipeline=16, expert=64, zero=1),
        "training": {"sequence_length": 4096, "global_batch": 15360},
    })  # fmt: skip
    assert plan.get("parallelism.expert_data") == 2
    assert plan.get("parallelism.data") == 128


@pytest.mark.slow
@settings(max_examples=25)
@given(*(st.sampled_from(sizes) for sizes in
         ((1, 2, 4), (1, 2, 4), (1, 2), (1, 2, 4, 8), (1, 2), (1, 2))))  # fmt: skip
def test_copies_of_experts_are_counted_as_megatron_counts_them(
    tensor: int, pipeline: int, context: int, expert: int, inner: int, replicate: int
) -> None:
    """Megatron-Core's parallel_state.py: the world size over expert tensor, expert model and
    pipeline parallel size; and the book's shards of an expert, by tensor, context and data."""
    degrees = {"tensor": tensor, "pipeline": pipeline, "context": context, "expert": expert,
               "expert_tensor": inner, "replicate": replicate, "zero": 1}  # fmt: skip
    world = 128
    plan = load(document(world, **degrees))
    expected = world // (inner * expert * pipeline)
    assert plan.get("parallelism.expert_data") == expected
    shards = evaluate_plan(plan)["layout.shards[layer.moe.expert_up]"]
    assert shards.value is not None and shards.value * replicate == expected
    assert load(document(world, **degrees, expert_data=expected))


@pytest.mark.parametrize(("model", "said"), [
    (MODEL, "expert_data 3 × pipeline × expert × expert_tensor 16 is 48, not the 64 devices of the "
            "cluster (4)"),
    ("llama2-7b", "the model has no experts (left out)"),
])  # fmt: skip
def test_another_number_of_copies_is_a_fault_where_it_stands(
    tmp_path: Path, model: str, said: str
) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        f"model: {model}\n"
        "cluster: {accelerator: h100-sxm-80gb, devices: 64, devices_per_node: 8}\n"
        "training: {sequence_length: 4096, global_batch: 64}\n"
        "parallelism:\n"
        f"  pipeline: 4\n  expert: {4 if model == MODEL else 1}\n  expert_data: 3\n"
    )
    with pytest.raises(PlanError) as caught:
        load(path)
    (fault,) = caught.value.faults
    assert str(fault).endswith(f"plan.yaml:7:16: {said}")


@pytest.mark.parametrize(
    "tell", [ranking.name_layout, answers.summarise_layout, points.write_layout]
)
@pytest.mark.parametrize(("key", "value"), read_data("plans")["layouts_in_words"])
def test_layouts_that_differ_are_told_in_other_words(
    tell: Callable[[Plan], str], key: str, value: object
) -> None:
    """Whoever reads an answer can write the layout down again."""
    plan = load(document(64, tensor=2, pipeline=4, zero=1, expert_tensor=1))
    assert tell(variant(plan, {key: value})) != tell(plan)


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_a_table_tells_the_zero_stage_that_all_its_layouts_have(stage: int) -> None:
    plan = load(document(8, "llama2-7b"))
    found = search(plan, 3, fixed={"parallelism.zero": stage})
    head, *rows = ranking.build_ranking(found)[0]
    assert ("zero" in head) is (stage > 0)
    assert not stage or {row[head.index("zero")] for row in rows[:-1]} == {str(stage)}
