"""Time of experts against published measurements of exchanges, counts by hand, and laws."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.measured import changed
from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["experts"]
Changes = dict[str, Any]


def evaluation(changes: Changes) -> Evaluation:
    return Evaluation(case.build(loading.load(changed(PLAN, changes))))


def of_experts(quantity: str, changes: Changes) -> float:
    """The value of a quantity at the block of experts of the model's layers."""
    e = evaluation(changes)
    blocks = [b for b in e.case.axes["block"] if b.settings["block"] == "moe"]
    return float(e.value(quantity, {"block": blocks[0]}))


def layer(quantity: str, changes: Changes) -> float:
    e = evaluation(changes)
    parts = [part for part in e.case.axes["part"] if part.settings["experts"]]
    return float(e.value(quantity, {"part": parts[0]}))


# -- published measurements --------------------------------------------------------------------


def distinct(places: int) -> float:
    """In how many of so many places a token has one of 8 experts chosen at random."""
    return places * (1 - (1 - 1 / places) ** 8)


def routing(groups: int, kept: int) -> Changes:
    groups_of = {"router_groups": groups, "router_group_top_k": kept}
    return {"model": {"extends": "deepseek-v3", "moe": groups_of}}


@pytest.mark.parametrize(
    ("ranks", "dispatch", "narrow", "combine"),
    [(8, 764, 714, 737), (16, 707, 650, 666), (32, 642, 539, 605)],
)
def test_an_exchange_by_hybridep_takes_what_its_authors_measured(
    ranks: int, dispatch: float, narrow: float, combine: float
) -> None:
    """DeepEP, docs/README_Hybrid-EP.md: GB200, 32 multiprocessors, kernel time in 16 and 8 bit;
    4,096 tokens of 7,168 values. A rate counts all rows that a device gets, its own too."""
    got = 4096 * distinct(ranks) * 7168 / 1e9
    one = {**routing(1, 1), "training.cuda_graphs": "full", "parallelism.expert": ranks}
    wide = got * (2 / dispatch + 2 / combine) / 2  # the mean of there and back
    assert of_experts("network.experts", one) == pytest.approx(wide, rel=0.13)
    mixed = of_experts("network.experts", {**one, "training.bytes.dispatch": 1})
    assert mixed == pytest.approx(got * (1 / narrow + 2 / combine) / 2, rel=0.13)


H800 = {"accelerator": "h800-sxm-80gb", "devices": 64, "devices_per_node": 8}


@pytest.mark.parametrize(("ranks", "kept", "rate"), [(16, 2, 43), (32, 4, 57.5), (64, 4, 50.5)])
def test_an_exchange_by_deepep_takes_what_its_authors_measured(
    ranks: int, kept: int, rate: float
) -> None:
    """DeepEP, README (normal kernels): H800 with cards of 50 GB/s, 4,096 tokens of 7,168 values,
    8 experts on at most 4 nodes. A rate counts a row once for each node, its own too."""
    one = {**routing(ranks // 8, kept), "cluster": H800, "training.cuda_graphs": "full"}
    one |= {"parallelism.expert": ranks, "parallelism.dispatcher": "deepep"}
    got = 4096 * distinct(kept) * 7168 * 2
    assert of_experts("network.experts", one) == pytest.approx(got / (rate * 1e9), rel=0.12)


def test_in_a_node_deepep_reaches_what_its_authors_measured() -> None:
    """DeepEP, README: 153 and 158 GB/s at 8 devices, a device's own rows counted."""
    one = {**routing(1, 1), "cluster": H800, "training.cuda_graphs": "full"}
    found = of_experts("network.experts", {**one, "parallelism.dispatcher": "deepep"})
    assert found == pytest.approx(4096 * distinct(8) * 7168 * 2 / 155.5e9, rel=0.03)


# -- by hand -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "launches"),
    [
        # A layer 30; router 8, HybridEP 8; an activation and two products of each of 32 experts.
        ({}, 30 + 8 + 8 + 1 + 2 * 32),
        # Two inputs of each product are cast in three passes by two kernels each, of 5 products
        # of latent attention, 2 of the shared expert and 2 of each of 32 experts.
        ({"training.precision": "fp8"}, 30 + 8 + 8 + 1 + 2 * 32 + (7 + 2 * 32) * 4 / 3),
        ({"parallelism.expert": 64}, 30 + 8 + 8 + 1 + 2 * 4),
        ({"training.expert_kernels": "grouped"}, 30 + 8 + 8 + 3),
        ({"training.expert_kernels": "fused"}, 30 + 8 + 8 + 2),
        ({"parallelism.dispatcher": "all-to-all"}, 30 + 8 + 18 + 1 + 2 * 32),
        # Two graphs; what depends on how many rows an expert gets is launched.
        ({"training.cuda_graphs": "partial"}, 2 + 8 + 1 + 2 * 32),
        ({"training.cuda_graphs": "full"}, 0),
    ],
)
def test_launches_grow_with_the_experts_of_a_device_that_run_one_by_one(
    changes: Changes, launches: float
) -> None:
    assert layer("time.part.launches", changes) == pytest.approx(launches)


def test_what_travels_between_experts_is_as_wide_as_their_input() -> None:
    """Megatron-Core, moe/moe_layer.py: the latent projection runs before tokens are dispatched."""
    whole, quarter = (
        {"parallelism.expert": 8, "model": {"extends": "deepseek-v3", "moe": moe},
         "time.efficiency.dispatch_row": 0}
        for moe in ({}, {"latent": 7168 // 4})
    )  # fmt: skip
    wide, narrow, wait = (
        of_experts(key, one)
        for key, one in (("network.experts", whole), ("network.experts", quarter),
                         ("network.experts.wait", whole))
    )  # fmt: skip
    assert wide - wait == pytest.approx(4 * (narrow - wait))


def test_attention_in_8_bit_takes_a_fused_kernel() -> None:
    eager = {"training.attention": "eager", "training.attention_precision": "fp8"}
    with pytest.raises(PlanError, match="eager attention runs in 16 bit"):
        evaluation(eager)

    def core(precision: str) -> float:
        e = evaluation({"training.attention_precision": precision})
        block = next(b for b in e.case.axes["block"] if b.settings["block"] == "attention")
        return float(e.value("time.core.forward", {"block": block}))

    # Shah et al. 2024 (arXiv 2407.08608): 1.2 PFLOP/s over 740 TFLOP/s.
    assert core("16-bit") / core("fp8") == pytest.approx(1200 / 740, rel=0.02)


# -- laws --------------------------------------------------------------------------------------

#: What a switch turns off and on, and may never make a step slower.
FASTER: dict[str, tuple[Any, ...]] = read_data("book")["faster_experts"]
MODELS: dict[str, Changes] = {
    "deepseek-v3": {"parallelism.pipeline": 2, "parallelism.expert": 16},
    "qwen3-30b-a3b": {"training.micro_batch": 2},
    "mixtral-8x7b": {"parallelism.tensor": 2, "parallelism.expert_tensor": 2},
    "gpt-oss-20b": {"cluster": {**H800, "devices": 64}, "parallelism.expert": 32},
}
DISPATCHERS = ("all-to-all", "all-gather", "deepep", "hybridep")


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("model", "dispatcher"),
    [(m, DISPATCHERS[(n + k) % 4]) for n, m in enumerate(MODELS) for k in (0, 2)],
)
def test_no_fusion_capture_or_overlap_makes_a_step_slower(model: str, dispatcher: str) -> None:
    precision = "fp8" if dispatcher in ("deepep", "all-gather") else "bf16"
    base = {**MODELS[model], "model": model, "training.precision": precision}
    base["parallelism.dispatcher"] = dispatcher
    for key, values in FASTER.items():
        seconds = [
            round(float(evaluation({**base, key: value}).value("time.step_seconds")), 12)
            for value in values
        ]
        assert seconds == sorted(seconds, reverse=True), key


@pytest.mark.parametrize("micro_batches", [1, 2, 8])
def test_the_first_micro_batch_has_no_other_to_travel_beside(micro_batches: int) -> None:
    """Megatron-Core, combined_1f1b: with one micro-batch nothing is hidden."""
    one = {"training.global_batch": 64 * micro_batches, "training.cuda_graphs": "full"}
    apart, beside = (
        layer("time.part.device", {**one, "parallelism.expert_overlap": overlap})
        for overlap in (False, True)
    )
    travel = 4 * of_experts("network.experts", one)
    hidden = travel * (1 - 1 / micro_batches)
    assert apart - beside == pytest.approx(hidden * (1 - 20 / 132))


def test_uneven_routing_reaches_products_exchanges_and_memory_alike() -> None:
    """All wait for the fullest device: half as many rows again in each, but for an all-gather."""
    captured = {"training.cuda_graphs": "full"}
    even, uneven = (
        evaluation({**captured, "training.expert_imbalance": times}) for times in (1, 1.5)
    )

    def rows(e: Evaluation) -> dict[str, float]:
        products = {p.name: p for p in e.case.axes["product"]}
        kept = {t.name: t for t in e.case.axes["tensor"]}
        return {
            "product": e.value("time.product.rows", {"product": products["expert_down"]}),
            "memory": e.value("memory.tensor", {"tensor": kept["permuted tokens"]}),
        }

    before, after = rows(even), rows(uneven)
    assert {name: after[name] / before[name] for name in before} == dict.fromkeys(before, 1.5)

    def sent(dispatcher: str, times: float) -> float:
        one = {"parallelism.dispatcher": dispatcher, "training.expert_imbalance": times}
        own = dispatcher == "all-to-all"
        hops = of_experts("network.experts.latency", captured | one) if own else 0
        return of_experts("network.experts", captured | one) - hops

    exchanges = {
        dispatcher: sent(dispatcher, 1.5) / sent(dispatcher, 1)
        for dispatcher in ("all-to-all", "all-gather", "deepep", "hybridep")
    }
    assert exchanges == pytest.approx(
        {"all-to-all": 1.5, "all-gather": 1, "deepep": 1.5, "hybridep": 1.5}
    )


@pytest.mark.parametrize(("devices", "where"), [(64, "node"), (128, "nodes")])
def test_experts_within_a_rack_of_72_use_its_link(devices: int, where: str) -> None:
    """NVIDIA, GB200 NVL72: 18 trays of 4 devices are one NVLink domain."""
    one = {
        "cluster": {"accelerator": "gb200", "devices": 128, "devices_per_node": 4},
        "parallelism.expert": devices,
    }
    assert evaluation(one).case.settings["time.expert"] == where
