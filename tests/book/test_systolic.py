"""Devices whose matrix units are systolic arrays, on a torus: against times that others measured of
kernels alone, and by hand.

Times are those of tuned kernels that openxla/tokamax ships (data/autotuning, August 2026): the
fastest of each table, of one TensorCore; a TPU7x chip has two.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.engine.evaluate import Evaluation
from tests.changed import evaluation_of
from tests.conftest import read_data

DENSE: dict[str, Any] = read_data("plans")["systolic"]


def evaluation(accelerator: Any, model: dict[str, Any], **changes: Any) -> Evaluation:
    document: dict[str, Any] = {
        "model": model,
        "cluster": {"accelerator": accelerator, "devices": 64, "devices_per_node": 64},
        "training": read_data("plans")["systolic_training"],
        "parallelism": {"zero": 3},
    }
    return evaluation_of(document, changes)


def block(e: Evaluation, kind: str) -> Any:
    return next(b for b in e.case.axes["block"] if b.settings["block"] == kind)


def of_core(e: Evaluation, way: str) -> float:
    return float(e.value(f"time.core.{way}", {"block": block(e, "attention")}))


# -- attention ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accelerator", "cores", "way", "heads", "width", "length", "batch", "milliseconds"),
    read_data("book")["systolic_attention"],
)
def test_attention_takes_what_tuned_kernels_took(
    accelerator: str, cores: int, way: str, heads: int, width: int, length: int, batch: int,
    milliseconds: float,
) -> None:  # fmt: skip
    """Arrays are 128 wide up to v5p, 256 from v6e on: heads that are narrower take as long."""
    model = {**DENSE, "hidden": 2048, "attention": {"heads": heads, "head_dim": width}}
    e = evaluation(
        accelerator, model, training__sequence_length=length, training__micro_batch=batch * cores,
        training__global_batch=batch * cores * 64,
    )  # fmt: skip
    assert of_core(e, way) * 1e3 == pytest.approx(milliseconds, rel=0.18)


def test_a_head_takes_as_long_as_one_that_fills_the_array() -> None:
    """Cloud TPU documentation: 256 x 256 multiply-accumulators from v6e on, 128 x 128 before."""

    def time(accelerator: str, width: int) -> float:
        attention = {"heads": 32, "head_dim": width}
        return of_core(evaluation(accelerator, {**DENSE, "attention": attention}), "forward")

    for accelerator, whole in (("tpu-v4", 128), ("tpu-v5p", 128), ("tpu-v6e", 256)):
        assert time(accelerator, whole // 2) == pytest.approx(time(accelerator, whole))
        assert time(accelerator, whole + 8) == pytest.approx(2 * time(accelerator, whole))


# -- products ----------------------------------------------------------------------------------


def products(e: Evaluation, split: str) -> dict[str, float]:
    """Seconds of the three products of each weight, over which the memory is no limit."""
    parts = ("forward", "input", "weight")
    return {
        p.name: sum(float(e.value(f"time.product.{part}", {"product": p})) for part in parts)
        for p in e.case.axes["product"]
        if p.settings["split"] == split
    }


@pytest.mark.parametrize(
    ("accelerator", "cores", "experts", "chosen", "hidden", "wide", "tokens", "milliseconds"),
    read_data("book")["systolic_groups"],
)
def test_grouped_products_take_what_tuned_kernels_took(
    accelerator: str, cores: int, experts: int, chosen: int, hidden: int, wide: int, tokens: int,
    milliseconds: tuple[float, ...],
) -> None:  # fmt: skip
    moe = {"experts": experts, "top_k": chosen, "intermediate": wide}
    e = evaluation(
        accelerator, {**DENSE, "hidden": hidden, "moe": moe},
        training__micro_batch=tokens * cores // 4096, training__global_batch=tokens * cores // 64,
    )  # fmt: skip
    (down,) = [t for name, t in products(e, "experts").items() if name == "expert_down"]
    assert down * 1e3 == pytest.approx(sum(milliseconds), rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ["tpu-v5p", "tpu-v6e", "tpu-v7x"])
def test_wider_and_longer_never_takes_less_time(accelerator: str) -> None:
    moe = {"experts": 8, "top_k": 2, "intermediate": 1408}

    def times(**sizes: Any) -> tuple[float, float]:
        """Seconds of a step, and of the products of experts alone."""
        model = {
            **DENSE,
            "hidden": sizes.get("hidden", 1024),
            "attention": {"heads": 8, "head_dim": sizes.get("head", 128)},
            "moe": {**moe, "intermediate": sizes.get("wide", 1408), "experts": sizes.get("n", 8)},
        }
        length = sizes.get("length", 1024)
        e = evaluation(accelerator, model, training__sequence_length=length)
        return float(e.value("time.step_seconds")), sum(products(e, "experts").values())

    for name, values in (
        ("hidden", (1000, 1024, 1032, 1152, 1280, 1536)),
        ("head", (64, 72, 96, 128, 136, 192, 256, 264)),
        ("wide", (1400, 1408, 1416, 1536, 1544)),
        ("length", (16, 64, 72, 504, 512, 1000, 1024, 2048)),
        ("n", (2, 4, 8, 16, 64)),
    ):
        for found in zip(*(times(**{name: value}) for value in values), strict=True):
            assert list(found) == sorted(found), name


# -- what is computed again --------------------------------------------------------------------


def test_stopping_early_spares_the_last_product_of_a_layer() -> None:
    """Of a gated feed-forward the third product, as FLOPs are counted (torch's early stop; what
    jax.checkpoint runs again is what is used)."""

    def repeated(early: bool, model: Any = DENSE) -> float:
        e = evaluation(
            "a100-sxm-80gb", model, training__recompute="full", training__early_stop=early
        )
        layer = next(p for p in e.case.axes["part"] if p.settings["layers"])
        down = [p for p in e.case.axes["product"] if p.name == "down"]
        spared = sum(float(e.value("time.product.forward", {"product": p})) for p in down)
        return float(e.value("time.part.repeated", {"part": layer})) + early * spared

    assert repeated(True) == pytest.approx(repeated(False))
    moe = {**DENSE, "moe": {"experts": 8, "top_k": 2, "intermediate": 1408}}
    assert repeated(True, moe) == pytest.approx(repeated(False, moe))  # weighed by the router


# -- exchanges between experts on a torus ------------------------------------------------------

WHOLE = {"time__efficiency": {"link": 1}}


def exchange(accelerator: Any, shape: list[int], experts: int, **changes: Any) -> float:
    """Seconds of one exchange, and bytes that a device sends in it, itself included."""
    devices = math.prod(shape)
    e = evaluation(
        accelerator, {**DENSE, "moe": {"experts": 512, "top_k": 4, "intermediate": 1024}},
        cluster__devices=devices, cluster__devices_per_node=devices, cluster__slice=shape,
        parallelism={"zero": 1, "expert": experts}, training__global_batch=devices,
        training__cuda_graphs="full", **WHOLE, **changes,
    )  # fmt: skip
    return float(e.value("network.experts", {"block": block(e, "moe")}))


SENT = 4 * 2 * 4096 * 4096


@pytest.mark.parametrize(("accelerator", "bisection"), [("tpu-v5e", 1.6e12), ("tpu-v6e", 3.2e12)])
def test_experts_all_over_a_pod_exchange_over_its_bisection(
    accelerator: str, bisection: float
) -> None:
    """Google Cloud documentation, bisection bandwidth of a pod of 16 x 16: half of the devices send
    half of their rows to the other half."""
    found = exchange(accelerator, [16, 16], 256)
    assert found == pytest.approx(128 * SENT / 2 / bisection)


@pytest.mark.parametrize("side", [4, 8, 16])
def test_an_all_to_all_round_a_ring_takes_a_quarter_of_gathering_as_much(side: int) -> None:
    """How to Scale Your Model, sharded matrices: of a ring of two links both ways."""
    gathered = side * SENT / (2 * 50e9)  # of four links of 50 GB/s each way
    assert exchange("tpu-v5e", [side, 2], side) == pytest.approx(gathered / 4)


def test_a_torus_that_is_nearer_to_a_cube_never_slows_an_exchange() -> None:
    for shapes in (
        ([64, 1, 1], [32, 2, 1], [16, 4, 1], [8, 8, 1], [8, 4, 2], [4, 4, 4]),
        ([512, 1, 1], [64, 8, 1], [16, 8, 4], [8, 8, 8]),
    ):
        found = [exchange("tpu-v5p", shape, math.prod(shape)) for shape in shapes]
        assert found == sorted(found, reverse=True)
    line = exchange("tpu-v5p", [8, 4, 2], 4)  # of four devices in a row of eight
    assert exchange("tpu-v5p", [4, 4, 4], 4) == pytest.approx(line / 2)  # their ring is closed
    assert exchange("tpu-v5p", [4, 4, 8], 4) == exchange("tpu-v5p", [4, 4, 4], 4)
