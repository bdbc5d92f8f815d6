"""What frameworks' own kernels read and write beside a product, from their sources."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from planner.book import notation
from planner.engine.evaluate import Evaluation
from tests.changed import evaluation_of
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["layer_by_hand"]
HIDDEN, WIDE = PLAN["model"]["hidden"], PLAN["model"]["mlp"]["intermediate"]
HEADS, GROUPS = PLAN["model"]["attention"].values()
TOKENS = PLAN["training"]["sequence_length"] * PLAN["training"]["micro_batch"]
SIZE = HIDDEN // HEADS
RATE = Fraction(7, 10) * 3_350 * 10**9  # of memory, sustained
SHARES: dict[str, Any] = read_data("book")["shares_by_hand"]


def evaluation(model: dict[str, Any] | None = None, **changes: Any) -> Evaluation:
    whole = {"model": {**PLAN["model"], **(model or {})}, "time": {"efficiency": SHARES}}
    return evaluation_of({**PLAN, **whole}, changes)


def layer(e: Evaluation) -> dict[str, Any]:
    return {"part": next(x for x in e.case.axes["part"] if x.settings.get("layers"))}


def products(e: Evaluation, name: str, *pieces: str) -> list[Any]:
    entry = next(x for x in e.case.axes["product"] if x.name == name)
    return [e.value(f"time.product.{piece}", {"product": entry}) for piece in pieces]


def test_a_frozen_product_sends_back_the_gradient_of_its_input() -> None:
    lora = {"rank": 24, "targets": ["query"]}
    e = evaluation(training__lora=lora, parallelism={"zero": 0}, cluster__devices=1)
    for name in ("down", "query+key+value"):
        whole, into = products(e, name, "backward", "input")
        assert whole == into
    assert products(e, "down", "adapter", "adapter_backward", "adapter_launches") == [0, 0, 0]


@pytest.mark.parametrize("dropout", [0, 0.1])
@pytest.mark.parametrize(
    ("kernels", "forward", "back_out", "back_in", "launches"),
    # y += scale * B(A(drop(x))) as PyTorch runs it: A, B, mul and add forward; backward mul, two
    # products each for B and A, and the sum of two gradients. Or scale and sum inside of products,
    # which then read what they add to.
    [("separate", 2 + 3, 2, 3, 10), ("fused", 1, 0, 1, 6)],
)
def test_an_adapter_moves_and_launches_what_its_operations_do(
    kernels: str, forward: int, back_out: int, back_in: int, launches: int, dropout: float
) -> None:
    """Beside the down projection, values of 2 bytes; dropout has a mask of 1 byte and an access of
    in- and output each."""
    lora = {"rank": 24, "targets": ["down"], "kernels": kernels, "dropout": dropout}
    e = evaluation(training__lora=lora, parallelism={"zero": 0}, cluster__devices=1)
    pieces = "narrow", "adapter", "adapter_backward", "adapter_launches"
    narrow, there, back, started = products(e, "down", *pieces)
    # At the least both matrices' traffic: input and output, the rank's values, the weights.
    assert narrow >= 2 * (TOKENS * (WIDE + HIDDEN + 2 * 24) + 24 * (WIDE + HIDDEN)) / RATE
    dropped = 5 * TOKENS * WIDE / RATE if dropout else 0
    assert there - narrow == forward * 2 * TOKENS * HIDDEN / RATE + dropped
    moved = 2 * TOKENS * (back_out * HIDDEN + back_in * WIDE) / RATE
    assert back - 2 * narrow == moved + dropped
    assert started == launches + (2 if dropout else 0)
    layer = next(x for x in e.case.axes["part"] if x.settings["layers"])
    assert e.value("time.part.launches", {"part": layer}) == 17 + Fraction(started) / 3


@pytest.mark.parametrize(
    ("base", "kernels", "cloned"),
    # dequantize_4bit: the weight; with double quantization first its scales, then their mean is
    # added. AutoGPTQ shifts, casts, masks (weight and zeros), adds to zeros, subtracts, multiplies.
    [("nf4", 1, True), ("nf4-double", 3, True), ("int4", 9, False)],
)
def test_a_packed_weight_is_unpacked_by_the_kernels_of_its_library(
    base: str, kernels: int, cloned: bool
) -> None:
    """Forward, forward again and backward by bitsandbytes; AutoGPTQ keeps what it unpacked. PEFT
    clones what a 4-bit weight gives (tuners/lora/bnb.py)."""
    lora = {"rank": 24, "targets": ["down"]}
    run = {"training__implementation": "transformers", "training__recompute": "full"}
    run |= {"parallelism": {"zero": 0}, "cluster__devices": 1}
    plain = evaluation(**run, training__precision="bf16-pure", training__lora=lora)
    e = evaluation(**run, training__precision="bf16-pure", training__lora={**lora, "base": base})
    assert products(e, "down", "cast_launches") == [
        Fraction(kernels * (2 if base == "int4" else 3), 4)
    ]
    (there,), (usual,) = products(e, "down", "adapter"), products(plain, "down", "adapter")
    assert there - usual == (2 * 2 * TOKENS * HIDDEN / RATE if cloned else 0)


@pytest.mark.parametrize(
    ("implementation", "fused", "adapters", "columns"),
    # PEFT has an adapter for each of the model's modules; Megatron-LM's linear_qkv and GPT-2's
    # c_attn are one module, which gives all three.
    [
        ("transformers", False, 2, HIDDEN + GROUPS * SIZE),
        ("transformers", True, 1, HIDDEN + 2 * GROUPS * SIZE),
        ("megatron", False, 1, HIDDEN + 2 * GROUPS * SIZE),
    ],
)
def test_adapters_are_those_of_the_modules_that_they_stand_beside(
    implementation: str, fused: bool, adapters: int, columns: int
) -> None:
    lora = {"rank": 24, "targets": ["query", "value"]}
    own = {"heads": HEADS, "kv_heads": GROUPS, "fused": fused}
    run = {"training__implementation": implementation, "training__precision": "bf16-pure"}
    run |= {"training__lora": lora, "parallelism": {"zero": 0}, "cluster__devices": 1}
    e = evaluation({"attention": own}, **run)
    name = "query+key+value"
    narrow, there, back, started = products(
        e, name, "narrow", "adapter", "adapter_backward", "adapter_launches"
    )
    assert there - narrow == 5 * 2 * TOKENS * columns / RATE
    assert back - 2 * narrow == 2 * TOKENS * (2 * columns + 3 * adapters * HIDDEN) / RATE
    assert started == 10 * adapters


@pytest.mark.parametrize(
    ("accelerator", "date", "branches"), read_data("book")["branches_by_memory"]
)
def test_branches_cost_time_where_memory_is_fast(
    accelerator: str, date: str, branches: bool
) -> None:
    lora = {"rank": 24, "targets": ["down"], "base": "nf4"}
    run = {"training__stack": f"transformers-trainer@{date}", "training__lora": lora}
    own = {"cluster__accelerator": accelerator, "cluster__devices": 1, "parallelism": {}}
    e = evaluation(**own, **run, training__implementation="transformers", time={})
    (once,) = products(e, "down", "unpacked")
    traffic = Fraction(41, 16) * WIDE * HIDDEN / e.compute(notation.W * notation.e_mem, {})
    assert 1.36 < once / traffic < 2.07 if branches else once == traffic


@pytest.mark.parametrize(
    ("precision", "date", "reads", "bits"),
    [
        # MXFP8Quantizer: one kernel reads 2 bytes and writes two copies of 8 bits, each with 8 bits
        # for 32 of them (TransformerEngine, common/cast/mxfp8).
        ("mxfp8", "2026-08", 1, 2 * Fraction(8 * 33, 32)),
        # NVFP4Quantizer::quantize_impl: nvte_hadamard_transform_amax, the rows' cast, and the cast
        # of the transformed columns read the input; 4 bits twice, each with 8 bits for 16 of them.
        ("nvfp4", "2025-12", 3, 2 * Fraction(4 * 16 + 8, 16)),
        # From pull request 2555 (2026-02) on one kernel casts rows and transformed columns.
        ("nvfp4", "2026-08", 2, 2 * Fraction(4 * 16 + 8, 16)),
    ],
)
def test_casts_to_block_scaled_formats(
    precision: str, date: str, reads: int, bits: Fraction
) -> None:
    e = evaluation(
        training__kernels=date,
        training__precision=precision,
        training__implementation="megatron",
        cluster__accelerator="b200-sxm-192gb",
    )
    (cast,) = products(e, "query+key+value", "casts")
    columns = (HIDDEN + 2 * GROUPS * SIZE) // 5
    rate = RATE * Fraction(77, 10) / Fraction(335, 100)
    assert cast == (2 * reads + bits / 8) * TOKENS * (HIDDEN + columns) / rate


@pytest.mark.parametrize(("recompute", "times"), [("none", 2), ("full", 3)])
def test_packed_weights_are_read_and_written_wide_for_each_product(
    recompute: str, times: int
) -> None:
    """In 4 bits, with a scale of 8 bits for each 64 of them and one of 32 for each 256 of those."""
    lora = {"rank": 24, "targets": ["down"], "base": "nf4-double"}
    e = evaluation(
        training__lora=lora,
        training__recompute=recompute,
        parallelism={"zero": 0},
        cluster__devices=1,
    )
    (cast,) = products(e, "down", "casts")
    each = Fraction(1, 2) + Fraction(1, 64) + Fraction(4, 64 * 256) + 2
    assert cast == times * each * WIDE * HIDDEN / RATE
