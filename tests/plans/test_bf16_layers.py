"""Layers that stay in 16 bit under a narrower recipe: which they are, and what that changes.

Megatron-Core keeps the first and the last layers of a model so (first_last_layers_bf16,
num_layers_at_start_in_bf16, num_layers_at_end_in_bf16).
"""

from __future__ import annotations

import pytest

import planner
from planner.base.errors import PlanError
from planner.questions import loading
from tests.conftest import read_data

LAYERS = 32
H, F, KV = 4096, 14336, 8 * 128
WEIGHTS = 2 * H * H + 2 * H * KV + 3 * H * F  # of the products of one layer of Llama 3 8B
TIME, QUANTIZED = "time.step_seconds", "memory.buffers.quantized"


def plan(
    precision: str,
    first: int = 0,
    last: int = 0,
    narrow_logits: bool = False,
    micro_batch: int = 1,
    **layout: int,
) -> planner.Plan:
    changes = {"precision": precision, "bf16_layers": {"first": first, "last": last}}
    changes |= {"narrow_logits": narrow_logits, "micro_batch": micro_batch}
    keys = {f"training.{key}": value for key, value in changes.items()}
    keys |= {f"parallelism.{key}": value for key, value in layout.items()}
    return planner.load(read_data("plans")["narrow_layers"], set=keys)


def test_all_layers_in_16_bit_are_a_run_in_16_bit() -> None:
    wide = plan("bf16").evaluate()
    for precision in ("fp8", "mxfp8", "nvfp4"):
        for first, last in ((LAYERS, 0), (0, LAYERS), (20, LAYERS - 20)):
            found = plan(precision, first, last).evaluate()
            assert found[TIME].number == wide[TIME].number
            assert found["memory.total"].value == wide["memory.total"].value


def test_each_layer_in_16_bit_takes_longer_and_keeps_no_narrow_copy() -> None:
    """Of one stage, where all layers but the 16-bit ones are alike, each adds the same time; two
    sequences at a time, as launches take longer than the kernels of one on a host with Grace."""
    steps = [
        plan("mxfp8", first, last, micro_batch=2).evaluate()
        for first, last in ((0, 0), (1, 0), (1, 1), (3, 4))
    ]
    seconds = [float(found[TIME].number) for found in steps]
    each = seconds[1] - seconds[0]
    assert each > 0
    for count, taken in zip((0, 1, 2, 7), seconds, strict=True):
        assert taken == pytest.approx(seconds[0] + count * each, rel=1e-9)
    kept = [found[f"{QUANTIZED}[0]"].value for found in steps]
    # A row-wise and a column-wise copy of 33/32 bytes each.
    assert kept == [(LAYERS - count) * WEIGHTS * 33 / 16 for count in (0, 1, 2, 7)]


def test_they_lie_on_the_first_and_the_last_stage() -> None:
    found = plan("mxfp8", 2, 3, pipeline=4).evaluate()
    kept = [found[f"{QUANTIZED}[{stage}]"].value for stage in (0, 3)]
    assert kept == [(8 - count) * WEIGHTS * 33 / 16 for count in (2, 3)]


@pytest.mark.parametrize(
    ("precision", "bits"), [("bf16", 16), ("fp8", 8), ("mxfp8", 8 + 8 / 32), ("nvfp4", 4 + 8 / 16)]
)
def test_products_keep_their_inputs_as_they_were_cast(precision: str, bits: float) -> None:
    """TransformerEngine's LayerNormLinear and Linear save the quantized copy; the residual stream,
    queries, keys, values, the output of attention (which its kernel saves) and what the activation
    reads stay in 16 bit, the logarithms of sums and the deviations of both norms in 32 bit."""
    wide = 2 * H + H + 2 * KV + H + 2 * F
    cast = 2 * H + F
    each = 2 * wide + bits / 8 * cast + 4 * (32 + 2)
    assert plan(precision).evaluate()["memory.activations.layer"].value == 4096 * each


def test_kinds_of_layers_stay_apart() -> None:
    """DeepSeek-V3: three dense layers, then experts; the first four stay in 16 bit."""
    found = loading.load(read_data("plans")["narrow_experts"])
    assert found.model is not None
    held = {part.name: part.count for part in found.model.parts if "bf16" in part.name}
    assert held == {"dense-bf16": 3, "moe-bf16": 1}


def test_no_more_than_there_are() -> None:
    with pytest.raises(PlanError, match="30 first and 3 last of 32 layers"):
        plan("mxfp8", 30, 3)


@pytest.mark.parametrize("precision", ["bf16", "mxfp8"])
def test_logits_run_as_the_other_products_where_a_plan_says_so(precision: str) -> None:
    """Megatron-Core's fp8_output_proj. In 16 bit nothing is narrower."""

    def rates(narrow: bool) -> dict[str, float]:
        found = plan(precision, narrow_logits=narrow).evaluate()
        return {
            product.name: float(found.evaluation.value("time.product.rate", {"product": product}))
            for product in found.evaluation.case.axes["product"]
        }

    wide, narrow = rates(narrow=False), rates(narrow=True)
    same = dict.fromkeys(narrow, narrow["gate+up"])
    assert narrow == same
    assert (wide == same) is (precision == "bf16")
