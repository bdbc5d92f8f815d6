"""Each input of the llm_memory_visualizer calculator changes the terms that it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planner

PLAN = Path(__file__).parents[1] / "documents" / "valid" / "visualizer_every_input.yaml"
STATES = ("weights", "gradients", "optimizer")


def memory(**changes: Any) -> dict[str, Any]:
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    result = planner.load(
        PLAN, set={"parallelism.data": None, "parallelism.zero": 1, **overrides}
    ).evaluate()
    return {part: result[f"memory.{part}"].number for part in (*STATES, "activations", "buffers")}


@pytest.mark.parametrize(
    ("changes", "smaller", "equal"),
    [
        ({"parallelism__tensor": 4}, ("weights", "gradients", "activations"), ()),
        ({"parallelism__pipeline": 4}, ("weights", "gradients"), ()),
        ({"parallelism__context": 4}, ("activations",), ("weights", "gradients")),
        ({"parallelism__expert": 8}, ("weights", "gradients"), ("activations",)),
        ({"cluster__devices": 512}, ("optimizer",), ("weights", "gradients", "activations")),
        ({"cluster__devices": 512, "parallelism__zero": 3}, STATES, ()),
        ({"model__moe__experts": 8}, STATES, ()),
        ({"training__sequence_length": 4096}, ("activations",), STATES),
        ({"training__gradient_accumulation": 4}, (), STATES),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_a_larger_degree_makes_its_terms_smaller(
    changes: dict[str, Any], smaller: tuple[str, ...], equal: tuple[str, ...]
) -> None:
    before, after = memory(), memory(**changes)
    for part in smaller:
        assert after[part] < before[part], part
    for part in equal:
        assert after[part] == before[part], part


def test_a_strategy_divides_one_part_more_than_the_one_before() -> None:
    stages = [memory(parallelism__zero=stage) for stage in (0, 1, 2, 3)]
    divided = ("optimizer", "gradients", "weights")
    for before, after, part in zip(stages[:-1], stages[1:], divided, strict=True):
        assert after[part] < before[part], part


def test_checkpointing_keeps_less() -> None:
    kept = [memory(training__recompute=mode)["activations"] for mode in ("none", "full")]
    assert kept[1] < kept[0]


def test_the_reduce_format_changes_the_buffers_alone() -> None:
    wide, narrow = (memory(parallelism__zero=3, training__bytes__reduce=n) for n in (4, 2))
    assert narrow["buffers"] < wide["buffers"]
    assert narrow["weights"] == wide["weights"]


def test_a_capacity_factor_sets_the_slots_and_keeps_imbalance_out() -> None:
    def kept(factor: str | None, imbalance: int = 1) -> Any:
        changes: dict[str, Any] = {
            "training.expert_imbalance": imbalance,
            "training.recompute": "none",
        }
        if factor is not None:
            changes["model.moe.capacity_factor"] = factor
        result = planner.load(PLAN, set=changes).evaluate()
        return result["memory.activations.layer"].number

    assert kept("1") == kept(None)
    assert kept("1") < kept("1.25") < kept("2")
    assert kept("1.25", imbalance=2) == kept("1.25")
    assert kept(None, imbalance=2) > kept(None)
