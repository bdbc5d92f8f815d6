"""Laws of traffic: what any collective on any shipped hardware obeys, and sums done by hand."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.base.errors import PlanError
from planner.book.notation import n
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.engine.run import slopes
from planner.questions import loading
from tests.changed import evaluation_of
from tests.conftest import leave_to_night, read_data
from tests.over_arrays import over_column

PLAN: dict[str, Any] = read_data("plans")["network"]
#: A link of 100 GB/s in each direction with hops of 1 us, a card of 10 GB/s with hops of 10 us.
ROUND: dict[str, Any] = read_data("book")["network_steps"]


def evaluation(**changes: Any) -> Evaluation:
    return evaluation_of(PLAN, changes)


def value(identifier: str, **changes: Any) -> float:
    return float(evaluation(**ROUND, **changes).value(identifier))


def largest(identifier: str, axis: str, **changes: Any) -> float:
    """The largest value over the entries of an axis, of those that have one."""
    e = evaluation(**{**ROUND, **changes})
    kind = "attention" if identifier == "network.context" else "moe"
    entries = [x for x in e.case.axes[axis] if x.settings.get("block") == kind]
    return max(float(e.value(identifier, {axis: x})) for x in entries)


# -- formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [1, 8])
def test_traffic_of_activations_is_linear_in_the_bytes_of_their_format(context: int) -> None:
    """Every exchange of activations: twice and four times the bytes, as much more time."""
    layout = {"tensor": 2, "sequence": True, "pipeline": 2, "context": context}

    def times(size: int) -> list[float]:
        given = {**ROUND, "parallelism": layout, "training__bytes": {"activation": size}}
        e = evaluation(**given)
        found = [float(e.value(i)) for i in ("network.tensor", "network.pipeline")]
        return [*found, largest("network.context", "block", **given)] if context > 1 else found

    one, two, four = times(1), times(2), times(4)
    for a, b, d in zip(one, two, four, strict=True):
        assert 0 < b - a == pytest.approx((d - b) / 2)


# -- groups that leave a node ------------------------------------------------------------------


# -- experts -----------------------------------------------------------------------------------

MOE: dict[str, Any] = {"model": "mixtral-8x7b"}


def exchange(**changes: Any) -> float:
    """The time of the bytes: without the hops of an all-to-all."""
    own = changes.get("parallelism", {}).get("dispatcher", "all-to-all") == "all-to-all"
    whole = {**MOE, **changes}
    hops = largest("network.experts.latency", "block", **whole) if own else 0
    return largest("network.experts", "block", **whole) - hops


def gather(**changes: Any) -> float:
    return largest("network.experts.gather", "block", **MOE, **changes)


#: In a graph the host waits for no row.
CAPTURED = {"training__cuda_graphs": "full"}


def test_experts_lie_on_the_devices_that_they_are_divided_over() -> None:
    """Mixtral at expert = tensor = 8 on nodes of 8: whole experts (expert_tensor 1) lie in one
    node, where 7 of 8 of the 2 copies of each of 4,096 / 8 tokens leave a device; divided as the
    other matrices they lie on 8 nodes."""
    layout = {"tensor": 8, "sequence": True, "expert": 8, "zero": 1}
    inside = exchange(parallelism={**layout, "expert_tensor": 1}, **CAPTURED)
    sent = 2 * (4096 / 8) * 4096 * 2 * 7 / 8
    assert inside == pytest.approx(sent / 100e9)
    assert gather(parallelism={**layout, "expert_tensor": 1}) == 0
    # There 7 of 8 of the copies leave a node: an all-to-all sends each copy by itself, "redundant
    # tokens during cross-node communication" that DeepEP removes (Megatron-Core, moe/README.md).
    across = exchange(parallelism={**layout, "expert_tensor": 8}, **CAPTURED)
    assert across == pytest.approx(2 * (4096 / 8) * 4096 * 2 * 7 / 8 / 10e9)
    # There, 8 devices share each expert: one of them lacks 7 of 8 parts of the rows, 2 x 4,096.
    rows = gather(parallelism={**layout, "expert_tensor": 8})
    assert rows == pytest.approx(2 * (2 * 4096) * 4096 * 7 / 8 / 100e9 + 7e-6)


@pytest.mark.parametrize(
    ("implementation", "size"), [("megatron", 4), ("torchtitan", 1), ("nanotron", 1)]
)
def test_an_expert_that_a_plan_leaves_open_is_divided_as_its_framework_does(
    implementation: str, size: int
) -> None:
    """Megatron-LM, training/arguments.py: expert_tensor_parallel_size is None means that of tensor
    parallelism; torchtitan, job_config.py: expert_tensor_parallel_degree: int = 1."""
    document = {**deepcopy(PLAN), **MOE, "parallelism": {"tensor": 4, "expert": 2}}
    document["training"]["implementation"] = implementation
    found = loading.load(document)
    assert found.get("parallelism.expert_tensor") == size
    assert found.derived["parallelism.expert_tensor"]
    assert loading.load({**document, "model": "llama2-7b", "parallelism": {"tensor": 4}}).get(
        "parallelism.expert_tensor"
    ) == 1  # fmt: skip


@pytest.mark.parametrize("dispatcher", ["all-to-all", "deepep"])
@pytest.mark.parametrize("expert", [4, 8])
@pytest.mark.parametrize("inner", [1, 2])
def test_uneven_routing_and_slots_lengthen_the_exchange_as_they_lengthen_the_work(
    dispatcher: str, expert: int, inner: int
) -> None:
    layout = {"tensor": 2, "expert": expert, "expert_tensor": inner, "dispatcher": dispatcher}
    one: dict[str, Any] = {"parallelism": layout, "cluster__devices_per_node": 4} | CAPTURED

    def seconds(**changes: Any) -> float:
        # The hop among devices that share an expert carries nothing.
        return exchange(**one, **changes) + gather(**one, **changes) - (inner - 1) * 1e-6

    even = seconds()
    assert seconds(training__expert_imbalance="1.5") == pytest.approx(1.5 * even)
    model = {"extends": "mixtral-8x7b", "moe": {"capacity_factor": "1.25"}}
    assert exchange(**one, model=model) == pytest.approx(1.25 * exchange(**one))


@pytest.mark.parametrize("dispatcher", ["all-to-all", "deepep"])
def test_tokens_that_leave_in_8_bit_and_return_in_16_take_three_quarters(dispatcher: str) -> None:
    """DeepSeek-AI 2024 (arXiv 2412.19437), section 3.3.3: dispatch in FP8, combine in BF16."""
    layout = {"expert": 8, "dispatcher": dispatcher}
    wide, narrow, less = (
        exchange(parallelism=layout, training__bytes=sizes, **CAPTURED)
        for sizes in ({"dispatch": 2}, {"dispatch": 1}, {"dispatch": 1, "combine": 1})
    )
    assert narrow == pytest.approx(3 / 4 * wide)
    assert less == pytest.approx(1 / 2 * wide)


@pytest.mark.parametrize("zero", [1, 3])
def test_weights_gathered_in_8_bit_take_half_of_16(zero: int) -> None:
    """torchtitan, docs/float8.md: enable_fsdp_float8_all_gather sends weights in float8."""
    layout = {"zero": zero}

    def seconds(gathered: int, reduced: int = 0) -> float:
        given = {"gather": gathered, "reduce": reduced}
        e = evaluation(**ROUND, parallelism=layout, training__bytes=given)
        parts = e.case.axes["part"]
        whole = sum(float(e.value("time.part.gathers", {"part": part})) for part in parts)
        return whole + float(e.value("time.data.gather"))

    nothing = seconds(0)
    assert seconds(1) - nothing == pytest.approx((seconds(2) - nothing) / 2)
    assert seconds(2) > nothing


# -- a step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["pytorch", "megatron"])
def test_sharded_gradients_are_reduced_after_each_micro_batch(implementation: str) -> None:
    """DeepSpeed, runtime/zero/stage_1_and_2.py: with partition_gradients a gradient is reduced
    where it arises, else at the boundary of accumulation: 8 micro-batches, 8 times the traffic."""

    link = {**ROUND["cluster__accelerator"]["link"], "latency": 0}
    flat = {
        "cluster__accelerator": {"extends": "h100-sxm-80gb", "link": link},
        "cluster__network": {"bandwidth": "10 GB/s", "latency": 0},
    }
    one, two = (
        float(
            evaluation(
                **{**ROUND, **flat},
                parallelism={"zero": zero},
                training__implementation=implementation,
            ).value("time.data.reduce")
        )
        for zero in (1, 2)
    )
    assert two == pytest.approx(8 * one)


def test_more_micro_batches_give_more_time_to_hide_what_each_reduces() -> None:
    """What shows of ZeRO-2's traffic for each micro-batch does not depend on how many there are."""
    one, many = (
        evaluation(
            parallelism={"zero": 2},
            training__implementation="pytorch",
            training__global_batch=64 * steps,
        )
        for steps in (1, 16)
    )
    gathered = {float(e.value("time.data.gather")) for e in (one, many)}
    assert len(gathered) == 1
    shown = [float(e.value("time.data")) for e in (one, many)]
    rest = shown[0] - (shown[1] - shown[0]) / 15
    assert 0 <= rest <= gathered.pop()


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_bubbles_are_those_of_the_papers(stages: int) -> None:
    """Of a forward pass F and a backward pass B of a stage, which holds the gradients of weights W:
    1F1B (p - 1)(F + B) (Narayanan et al. 2021), interleaved a v-th of it, ZB-H1 (p - 1)(F + B -
    2 W) (Qi et al. 2023) and DualPipe (p/2 - 1)(F + B + B - 3 W) (DeepSeek-AI 2024, table 2)."""
    free = {"bandwidth": "1e9 TB/s", "latency": 0}
    link = {**free, "convention": "bidirectional"}

    def bubble(schedule: str, virtual: int = 1) -> tuple[float, ...]:
        e = evaluation(
            cluster__accelerator={"extends": "h100-sxm-80gb", "link": link},
            cluster__network=free,
            training__schedule=schedule,
            parallelism={"pipeline": stages, "virtual_pipeline": virtual},
        )
        model, b, w = (
            float(e.value(f"time.model{pass_}")) / stages for pass_ in ("", ".backward", ".weights")
        )
        assert 0 < w < b / 2 and b / 2 < model < 2 * b
        return float(e.value("time.bubble")), model - b, b, w

    for schedule in ("1f1b", "gpipe"):
        found, f, b, w = bubble(schedule)
        assert found == pytest.approx((stages - 1) * (f + b))
    found, f, b, w = bubble("interleaved", 2)
    assert found == pytest.approx((stages - 1) * (f + b) / 2)
    found, f, b, w = bubble("zero-bubble")
    assert found == pytest.approx((stages - 1) * (f + b - 2 * w))
    found, f, b, w = bubble("dualpipe")
    assert found == pytest.approx((stages / 2 - 1) * (f + b + b - 3 * w))


# -- hops --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 8, 9, 36, 72])
def test_a_switch_that_adds_up_takes_the_place_of_a_ring_where_it_is_faster(size: int) -> None:
    """NCCL, src/graph/tuning.cc: a ring takes 3.4 us a hop over NVLink, NVLS 25 us whatever the
    group's size; the tuner takes the smaller. 72 devices: 25 us, not 71 x 3.4 us."""
    cluster = {"accelerator": "gb200", "devices": size, "devices_per_node": 72}
    batch = {"training__global_batch": size * 8}
    ring = (size - 1) * 3.4e-6
    e = evaluation(cluster=cluster, parallelism={"zero": 1}, **batch)
    assert float(e.value("network.data_hops")) == pytest.approx(min(ring, 25e-6))
    old = {"extends": "gb200", "link": {"switch_reduces": False}}
    e = evaluation(cluster={**cluster, "accelerator": old}, parallelism={"zero": 1}, **batch)
    assert float(e.value("network.data_hops")) == pytest.approx(ring)


@pytest.mark.parametrize("name", ["gb200", "gb300", "h100-sxm-80gb", "a100-sxm-80gb", "mi300x"])
def test_more_devices_in_a_group_take_no_fewer_hops_and_move_no_fewer_bytes(name: str) -> None:
    """In all: a larger group passes more, whoever carries it out."""
    hops, moved = [0.0], [0.0]
    for size in (2, 4, 8, 16, 64):
        cluster = {"accelerator": name, "devices": size, "devices_per_node": 64}
        e = evaluation(cluster=cluster, parallelism={"zero": 1}, training__global_batch=512)
        hops.append(float(e.value("network.data_hops")))
        part = float(e.value("time.ring")) * float(e.value("network.data"))
        moved.append(part * size)
    assert hops == sorted(hops)
    assert moved == sorted(moved) and len(set(moved)) == len(moved)


# -- every shipped model -----------------------------------------------------------------------

MODELS = sorted(
    path.stem
    for path in (Path(__file__).parents[2] / "presets" / "models").glob("*.yaml")
    if "layers:" in path.read_text("utf-8") or "extends:" in path.read_text("utf-8")
)


def shipped(name: str, **layout: Any) -> Evaluation | None:
    """A model on 64 devices; None where the layout does not divide it."""
    model = loading.load({"model": name, "cluster": PLAN["cluster"], "training": {}}).data["model"]
    length = min(2048, model.get("max_sequence") or 2048)
    document = {
        "model": name,
        "cluster": PLAN["cluster"],
        "training": {
            "sequence_length": length,
            "global_batch": 256,
            "micro_batch": 1,
            "implementation": "megatron",
        },
        "parallelism": layout,
    }
    try:
        return Evaluation(case.build(loading.load(document)))
    except PlanError:
        return None


LAYOUTS: dict[str, dict[str, Any]] = read_data("book")["layouts_of_networks"]


#: Every third model in one of the layouts, every layout with several models.
PLACED = [(name, list(LAYOUTS)[n % len(LAYOUTS)]) for n, name in enumerate(MODELS[::3])]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("name", "layout"), leave_to_night(PLACED, PLACED[::4]))
def test_placements_conserve_devices_and_gather_what_was_sharded(name: str, layout: str) -> None:
    """Ranks of a component, devices that share it, stages and replicas make all devices; what a
    device owns, times those that share it, is what they gather."""
    degrees = LAYOUTS[layout]
    e = shipped(name, **degrees)
    if e is None:
        pytest.skip("the layout does not divide the model")
    tensor, stages, replicas = (degrees.get(k, 1) for k in ("tensor", "pipeline", "replicate"))
    for component in e.case.axes["component"]:
        at = {"component": component}
        owners = e.value("layout.shards", at)
        ranks = (
            degrees.get("expert", 1) * degrees.get("expert_tensor", tensor)
            if component.settings["split"] == "experts"
            else tensor
        )
        assert owners * ranks * replicas * stages == 64
        rate = float(e.value("network.passed", at))  # seconds for a byte of what is gathered
        assert rate >= 0 and (rate == 0) == (owners == 1)
    # The fullest stage owns as large a part of what it holds, between the fewest and most owners.
    held, kept = e.value("time.parameters"), e.value("time.owned")
    assert kept <= held
    sizes = [e.value("layout.shards", {"component": c}) for c in e.case.axes["component"]]
    assert held / max(sizes) <= kept <= held / min(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("name", leave_to_night(MODELS[::8], MODELS[::32]))
def test_half_the_replicas_own_half_as_much(name: str) -> None:
    """What memory shards, time updates and reduces: over twice the devices, half of it each."""
    few, many = shipped(name, zero=3, replicate=2), shipped(name, zero=3)
    if few is None or many is None:
        pytest.skip("the layout does not divide the model")
    assert few.value("time.parameters") == many.value("time.parameters")
    assert few.value("time.owned") == 2 * many.value("time.owned")


def test_the_depth_of_a_tree_is_the_same_in_floats_over_arrays_and_in_its_slopes() -> None:
    """2 (10 log2 M + 7) us over M = n/8 nodes: by n it changes by 20 us / (n ln 2)."""
    size: dict[str, Any] = {"parallelism": {"zero": 0}, "training__global_batch": 2**14}
    e = evaluation(**ROUND, cluster__devices=2048, **size)
    name, nodes = "network.reduce_hops", e.graph.nodes
    for exact in (True, False):
        value = Evaluation(e.case, exact=exact).value(name)
        assert value == pytest.approx(2 * (10e-6 * 8 + 7e-6))
    e.value(name)
    slope = slopes(nodes, e.values, e.instance(name, {}))
    assert slope[nodes.index(("input", (n,)))] == pytest.approx(20e-6 / (2048 * math.log(2)))
    found = over_column(e, name, n, np.array([512.0, 1024.0, 2048.0]))
    assert found == pytest.approx(2 * (10e-6 * np.array([6, 7, 8]) + 7e-6))
