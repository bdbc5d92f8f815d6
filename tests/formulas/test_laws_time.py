"""Laws of time: more work never takes less, whatever the widths; and counts made by hand."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest

from planner import case, plan
from planner.evaluate import Evaluation

PLAN: dict[str, Any] = {
    "model": "llama2-7b",
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
    "training": {"tokens": "1B", "sequence_length": 4096, "global_batch": 64, "micro_batch": 1},
    "parallelism": {"zero": 1},
}


def evaluation(**changes: Any) -> Evaluation:
    """The plan with some dotted keys changed; a dot is written as two underscores."""
    document = deepcopy(PLAN)
    for dotted, value in changes.items():
        *around, last = dotted.split("__")
        node = document
        for step in around:
            node = node.setdefault(step, {})
        node[last] = value
    return Evaluation(case.build(plan.load(document)))


def step(**changes: Any) -> float:
    return float(evaluation(**changes).value("time.step_seconds"))


# -- attention windows -------------------------------------------------------------------------


def blocks_met(length: int, window: int, block: int) -> Fraction:
    """Keys of the blocks that a causal fused kernel visits for a query, on average: those that hold
    at least one key which at least one query of the block may see."""
    visited = 0
    for first in range(0, length, block):
        queries = range(first, first + block)
        seen = {key // block for q in queries for key in range(max(0, q - window + 1), q + 1)}
        visited += len(seen) * block * block
    return Fraction(visited, length)


@pytest.mark.parametrize("block", [4, 8])
def test_a_window_meets_the_blocks_that_a_kernel_visits(block: int) -> None:
    """Counted block by block, in blocks of 4 and 8 keys instead of 128."""
    length = 16 * block
    before = Fraction(0)
    for window in range(1, length + 1):
        found = evaluation(
            model={
                **deepcopy(SMALL),
                "max_sequence": length,
                "attention": {"heads": 4, "window": window},
            },
            training__sequence_length=length,
            time={"efficiency": {"attention_block": block}},
        )
        attention = next(e for e in found.case.axes["block"] if e.settings["block"] == "attention")
        keys = found.value("time.core.keys", {"block": attention})
        assert keys == blocks_met(length, window, block)
        assert keys >= before
        before = keys
    assert before == Fraction(length + block, 2)  # as without a window


SMALL: dict[str, Any] = {"layers": 2, "hidden": 256, "vocab": 512, "mlp": {"intermediate": 512}}


# -- more work ---------------------------------------------------------------------------------


def test_longer_sequences_of_experts_never_take_less_time() -> None:
    """Rows of an expert are seldom a multiple of 64; twice the tokens are twice the work."""
    times = [
        step(
            model="llama4-maverick",
            cluster__devices=512,
            parallelism={"tensor": 8, "expert": 16, "sequence": True, "zero": 1},
            training__global_batch=512,
            training__sequence_length=length,
        )
        for length in (1024, 2048, 4096, 8192)
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("accelerator", ["h100-sxm-80gb", "tpu-v5e"])
@pytest.mark.parametrize("key", ["mlp__intermediate", "vocab", "hidden"])
def test_a_wider_product_never_takes_less_time(accelerator: str, key: str) -> None:
    """Each width just around the multiples of 8 and 64; hidden sizes stay multiples of the heads'
    8, so that heads stay alike."""
    widths = range(448, 523) if key != "hidden" else range(448, 584, 8)
    before = 0.0
    for width in widths:
        more = {f"model__{key}": width}
        if key == "hidden":
            more["model__attention"] = {"heads": 8, "head_dim": 32}
        taken = step(
            model={**deepcopy(SMALL), "attention": {"heads": 8}, "max_sequence": 4096},
            cluster__accelerator=accelerator,
            parallelism__vocab_multiple=1,
            **more,
        )
        assert taken >= before
        before = taken


# -- recomputation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("implementation", "attention", "again"),
    [
        ("megatron", "flash", 1),  # Megatron-Core checkpoints its core, whichever kernel runs
        ("megatron", "eager", 1),
        ("megatron-2022", "eager", 1),  # Korthikanti et al. 2022, section 5
        ("megatron-2022", "flash", 0),  # its flash attention is called outside the checkpoint
        ("pytorch", "flash", 0),
    ],
)
def test_time_and_flops_agree_on_what_runs_again(
    implementation: str, attention: str, again: int
) -> None:
    found = evaluation(
        training__recompute="selective",
        training__implementation=implementation,
        training__attention=attention,
    )
    core = 4 * 4096 * 4096 * 32  # 4 s h of each of 32 layers: scores in full, and values
    assert found.value("compute.recomputed_flops_per_token") == again * core
    layer = next(e for e in found.case.axes["part"] if e.settings["layers"])
    block = next(e for e in found.case.axes["block"] if e.settings["block"] == "attention")
    repeated = found.value("time.part.repeated", {"part": layer})
    assert repeated == again * found.value("time.core.forward", {"block": block})


def test_whole_blocks_run_again_where_they_are_chosen() -> None:
    """A SwiGLU feed-forward of Llama-2 7B: three matrices of 4096 x 11008, 2 FLOP a weight."""
    found = evaluation(training__recompute="selective", training__recompute_modules=["mlp"])
    assert found.value("compute.recomputed_flops_per_token") == 32 * 2 * 3 * 4096 * 11008
