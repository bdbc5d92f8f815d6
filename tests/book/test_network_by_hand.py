"""Each message of a step by hand: what it holds, over what it goes, how many hops it takes.

A node of 6 devices; collectives sustain 0.9 of 200 GB/s of both directions of the link, a hop
takes 2 us, and the switches 11 us for a whole exchange where they add up; of a network card 0.8
of 20 GB/s, a hop between nodes takes 9 us.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from planner.engine.evaluate import Evaluation
from tests.changed import evaluation_of
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["network_by_hand"]
HIDDEN, SIZE = PLAN["model"]["hidden"], 32
HEADS, GROUPS = PLAN["model"]["attention"].values()
LENGTH, BATCH = PLAN["training"]["sequence_length"], PLAN["training"]["micro_batch"]
SENT = 2 * LENGTH * BATCH * HIDDEN  # bytes of all tokens
LINK, CARD = Fraction(9, 10) * 100 * 10**9, Fraction(8, 10) * 20 * 10**9
INSIDE, BETWEEN = Fraction(2, 10**6), Fraction(9, 10**6)
NODE = PLAN["cluster"]["devices_per_node"]
SWITCHED = {"extends": "h100-sxm-80gb", "link.switch_latency": "11 us"}


def evaluation(devices: int = 6, *, switched: bool = False, **changes: Any) -> Evaluation:
    switches = {f"cluster.accelerator.{k}": v for k, v in SWITCHED.items()} if switched else {}
    return evaluation_of(PLAN, {"cluster.devices": devices, **switches, **changes})


@pytest.mark.parametrize(
    ("domain", "per_node", "joined"), [(72, 4, 72), (72, 8, 72), (64, 16, 64), (72, 16, 64)]
)
def test_a_link_may_join_the_devices_of_several_nodes(
    domain: int, per_node: int, joined: int
) -> None:
    """NVIDIA GB200 NVL72: 18 compute trays of 4 GPUs in one NVLink domain of 72. Whatever a node
    is, eight ranks exchange over the link; a group wider than all whole nodes of the domain leaves
    it, and then each device of a domain has its card."""
    link = {"bandwidth": "200 GB/s", "convention": "bidirectional", "latency": "2 us"}
    cluster = {
        "accelerator": {"extends": "a100-sxm-80gb", "link": {**link, "domain": domain}},
        "devices": 2 * joined,
        "devices_per_node": per_node,
        "network": {"bandwidth": "20 GB/s", "latency": "9 us"},
    }
    layout = {"tensor": 12, "sequence": True, "zero": 1}
    if joined % 12:
        layout = {"tensor": 4, "sequence": True, "zero": 1}
    ranks = int(layout["tensor"])
    e = evaluation(cluster=cluster, parallelism=layout, training__global_batch=joined * 12)
    assert e.value("network.tensor") == (
        Fraction(2 * (ranks - 1), ranks) * SENT / LINK + 2 * (ranks - 1) * INSIDE
    )
    assert e.value("network.data") == min(LINK, CARD * joined / ranks)
    apart = evaluation(
        cluster={**cluster, "link_domain": per_node},
        parallelism=layout,
        training__global_batch=joined * 12,
    )
    assert apart.value("network.data") == min(LINK, CARD * max(1, Fraction(per_node, ranks)))


@pytest.mark.parametrize(
    ("ranks", "algorithm_bandwidth"), [(4, 247), (5, 258), (6, 265), (7, 270), (8, 273)]
)
def test_switches_that_add_up_raise_the_rate_of_an_all_reduce(
    ranks: int, algorithm_bandwidth: int
) -> None:
    """all_reduce_perf on H100 (NVIDIA/nccl issue 1455): rings reach 365 to 370 GB/s of the link,
    whatever the number of devices; with NVLS GB/s of the values are reduced as listed. Within 3 %
    of what 0.85 of a ring's rate and (n+1)/n of the values on each link give."""
    link = {"bandwidth": "740 GB/s", "convention": "bidirectional", "latency": 0}
    e = evaluation(
        ranks,
        cluster__accelerator={"extends": "h100-sxm-80gb", "link": {**link, "switch_latency": 0}},
        cluster__devices_per_node=8,
        model={
            "layers": 1,
            "hidden": 840 * 32,
            "vocab": 840,
            "max_sequence": LENGTH,
            "attention": {"heads": 840, "head_dim": 32},
            "mlp": {"intermediate": 840},
        },
        parallelism={"tensor": ranks, "sequence": False, "zero": 0},
        time={"efficiency": {"link": 1}},
    )
    reduced = 2 * LENGTH * BATCH * 840 * 32 / float(e.value("network.tensor"))
    assert reduced == pytest.approx(algorithm_bandwidth * 1e9, rel=0.03)


def torus(shape: list[int], **layout: Any) -> Evaluation:
    """TPU v5e, 45 GB/s of each of four links one way, as the scaling book measures them."""
    devices = math.prod(shape)
    link = {"bandwidth": "180 GB/s", "convention": "per-direction", "latency": "1 us"}
    cluster = {
        "accelerator": {"extends": "tpu-v5e", "link": link},
        "devices": devices,
        "slice": shape,
    }
    return evaluation(
        cluster=cluster,
        parallelism={"zero": 1, **layout},
        time={"efficiency": {"link": 1}},
        training__global_batch=BATCH * devices,
    )


def test_a_ring_over_one_axis_of_a_torus_uses_two_of_its_links() -> None:
    """How to Scale Your Model, sharded matrices: an all-gather of bf16[2048, 8192] on a ring of 8
    TPU v5e takes 373 us, all bytes over 90 GB/s; over n axes it takes 1/n of that."""
    size = 2 * 2048 * 8192
    for shape, seconds in (([8, 1], 373e-6), ([1, 8], 373e-6), ([8, 8], 373e-6 / 2)):
        assert size / float(torus(shape).value("network.data")) == pytest.approx(seconds, rel=0.001)


@pytest.mark.parametrize(
    ("shape", "tensor", "links", "left"), read_data("book")["groups_on_a_torus"]
)
def test_groups_share_the_axes_of_a_torus(
    shape: list[int], tensor: int, links: int, left: int
) -> None:
    e = torus(shape, tensor=tensor, sequence=tensor > 1)
    assert e.value("network.links.tensor") == Fraction(links, 4)
    assert e.value("network.links.data") == Fraction(left, 4)


def test_a_torus_is_gone_half_round_both_ways() -> None:
    """1 us a hop: 16 x 16 devices are 8 + 8 hops apart at most, not 255."""
    assert float(torus([16, 16]).value("network.data_hops")) == pytest.approx(16e-6)


@pytest.mark.parametrize(
    ("pod", "slower"),
    [(None, 7), (6, 7), (12, 7 * Fraction(2, 3)), (18, 7 * Fraction(1, 3)), (24, 1), (3072, 1)],
)
def test_oversubscription_between_pods_slows_what_leaves_a_pod(
    pod: int | None, slower: Fraction
) -> None:
    """Llama 3 (Grattafiori et al. 2024, section 3.3.1): 1 to 7 between pods of 3,072, none within.
    Of 24 devices in 4 nodes that exchange tokens, a device reaches three nodes besides its own."""
    e = evaluation(
        24,
        model={
            "layers": 2,
            "hidden": HIDDEN,
            "vocab": 5040,
            "max_sequence": LENGTH,
            "attention": {"heads": HEADS, "kv_heads": GROUPS},
            "moe": {"experts": 24, "top_k": 2, "intermediate": 360},
        },
        parallelism={"expert": 24, "zero": 1},
        cluster__network={
            "bandwidth": "20 GB/s",
            "latency": "9 us",
            "oversubscription": 7,
            **({"pod": pod} if pod else {}),
        },
    )
    assert e.value("network.experts.crowded") == slower
