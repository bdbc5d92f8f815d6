"""The roofline (Williams et al. 2009), worked out by hand: what is computed over what must move."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from planner.engine.evaluate import Evaluation
from tests.book.test_time_by_hand import evaluation, first

#: Llama-2 7B (arXiv 2307.09288, table 1): products of a layer as rows of the weight by columns.
TOKENS, HIDDEN, WIDE, HEADS, WIDTH, VOCAB = 4096, 4096, 11008, 32, 128, 32_000
PRODUCTS = {
    "query+key+value": (HIDDEN, 3 * HIDDEN),
    "output": (HIDDEN, HIDDEN),
    "gate+up": (HIDDEN, 2 * WIDE),
    "down": (WIDE, HIDDEN),
    "head": (HIDDEN, VOCAB),
}


def product(depth: int, columns: int) -> tuple[int, int]:
    """FLOPs and bytes of a product of all tokens, each matrix moved once in bf16."""
    moved = TOKENS * depth + depth * columns + TOKENS * columns
    return 2 * TOKENS * depth * columns, 2 * moved


def core(keys: Fraction, context: int = 1, scores: int = 0) -> tuple[Fraction, Fraction]:
    """FLOPs and bytes of the attention of all heads: queries and outputs of the own tokens, keys
    and values of all, and scores that are moved so many times."""
    queries = TOKENS // context
    moved = 2 * HEADS * WIDTH * (queries + TOKENS) * 2 + 2 * scores * HEADS * queries * TOKENS
    return 2 * queries * keys * HEADS * (WIDTH + WIDTH), Fraction(moved)


def llama(**changes: Any) -> Evaluation:
    return evaluation(**{"model": {"extends": "llama2-7b"}, "parallelism": {"zero": 1}, **changes})


def test_products_of_a_layer_move_both_inputs_and_the_output() -> None:
    e = llama()
    for entry in e.case.axes["product"]:
        name = "head" if entry.parent.name == "head" else entry.name
        flops, moved = product(*PRODUCTS[name])
        assert e.value("roofline.product.flops", {"product": entry}) == flops
        assert e.value("roofline.product.intensity", {"product": entry}) == Fraction(flops, moved)


@pytest.mark.parametrize("context", [1, 2])
@pytest.mark.parametrize(("attention", "scores"), [("flash", 0), ("eager", 4)])
def test_scores_that_are_kept_are_moved_four_times(
    attention: str, scores: int, context: int
) -> None:
    """Written, read and written by the softmax, and read again; a fused kernel keeps them on chip.
    Ranks of a context have their own queries and meet all keys."""
    e = llama(training__attention=attention, parallelism={"context": context})
    keys = Fraction(TOKENS)
    if attention == "flash":
        keys = first(e, "compute.performed_keys", "component", type="core")
    flops, moved = core(keys, context, scores)
    assert first(e, "roofline.core.flops", "block", block="attention") == flops
    assert first(e, "roofline.core.intensity", "block", block="attention") == flops / moved


@pytest.mark.parametrize("attention", ["flash", "eager"])
def test_tensor_parallel_ranks_have_a_part_of_the_heads(attention: str) -> None:
    alone = llama(training__attention=attention)
    shared = llama(training__attention=attention, parallelism={"tensor": 4})
    names = ("roofline.core.flops", "roofline.core.intensity")
    one, four = (
        [first(e, name, "block", block="attention") for name in names] for e in (alone, shared)
    )
    assert four == [one[0] / 4, one[1]]


def test_the_intensity_of_a_model_is_its_work_over_its_traffic() -> None:
    """32 layers and the head; the ridge of an H100 is 989.5 TFLOP/s over 3.35 TB/s."""
    e = llama(training__attention="eager")
    layer = [*(product(*PRODUCTS[name]) for name in PRODUCTS if name != "head")]
    layer += [core(Fraction(TOKENS), scores=4)]
    both = [
        32 * sum(pair[part] for pair in layer) + product(*PRODUCTS["head"])[part] for part in (0, 1)
    ]
    assert e.value("roofline.intensity") == Fraction(both[0]) / Fraction(both[1])
    assert float(e.value("roofline.ridge")) == pytest.approx(989.5e12 / 3.35e12, rel=1e-3)
