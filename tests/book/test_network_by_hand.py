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

from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading

HIDDEN, HEADS, GROUPS, SIZE = 1152, 36, 12, 32
LENGTH, BATCH = 432, 3
SENT = 2 * LENGTH * BATCH * HIDDEN  # bytes of all tokens
LINK, CARD = Fraction(9, 10) * 100 * 10**9, Fraction(8, 10) * 20 * 10**9
INSIDE, BETWEEN = Fraction(2, 10**6), Fraction(9, 10**6)
SWITCH = Fraction(11, 10**6)
NODE = 6


def evaluation(devices: int = 6, *, switched: bool = False, **changes: Any) -> Evaluation:
    link = {"bandwidth": "200 GB/s", "convention": "bidirectional", "latency": "2 us"}
    document: dict[str, Any] = {
        "model": {
            "layers": 12,
            "hidden": HIDDEN,
            "vocab": 5040,
            "max_sequence": LENGTH,
            "attention": {"heads": HEADS, "kv_heads": GROUPS},
            "mlp": {"intermediate": 3456},
        },
        "cluster": {
            "accelerator": {
                "extends": "h100-sxm-80gb" if switched else "a100-sxm-80gb",
                "link": {**link, "switch_latency": "11 us"} if switched else link,
            },
            "devices": devices,
            "devices_per_node": NODE,
            "network": {"bandwidth": "20 GB/s", "latency": "9 us"},
        },
        "training": {
            "tokens": "1B",
            "sequence_length": LENGTH,
            "global_batch": 4320,
            "micro_batch": BATCH,
            "implementation": "megatron",
        },
        "parallelism": {"zero": 0},
        "time": {"efficiency": {"link": "0.9", "network": "0.8"}},
    }
    for dotted, value in changes.items():
        section, _, key = dotted.partition("__")
        document[section] = {**document[section], key: value} if key else value
    return Evaluation(case.build(loading.load(document)))


def of_block(e: Evaluation, identifier: str, kind: str) -> Any:
    block = next(x for x in e.case.axes["block"] if x.settings["block"] == kind)
    return e.value(identifier, {"block": block})


@pytest.mark.parametrize("switched", [False, True])
@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_an_exchange_of_ranks_in_a_node(ranks: int, sequence: bool, switched: bool) -> None:
    """2 (t-1)/t of the values round a ring in 2 (t-1) hops; switches that add up and copy take
    fewer hops for gathering and for scattering, and less traffic for an all-reduce."""
    layout = {"tensor": ranks, "sequence": sequence and ranks > 1, "zero": 0}
    e = evaluation(ranks, switched=switched, parallelism=layout)
    hops = 2 * (ranks - 1) * INSIDE
    if switched and sequence:
        hops = 2 * min(hops / 2, SWITCH)
    expected = Fraction(2 * (ranks - 1), ranks) * SENT / LINK + hops if ranks > 1 else 0
    if switched and not sequence and ranks > 1:
        # NVLS: of its part a device gets one sum from the switch and sends it once, to be copied;
        # of the others' parts it sends its values. At 0.85 of the ring's rate on Hopper (NCCL).
        sent = Fraction(ranks - 1, ranks) + Fraction(2, ranks)
        expected = min(expected, sent * SENT / (LINK * Fraction(85, 100)) + SWITCH)
    assert e.value("network.tensor") == expected


@pytest.mark.parametrize("nodes", [2, 3, 6])
def test_an_exchange_of_ranks_over_nodes(nodes: int) -> None:
    """As a ring all passes over the six cards of a node, 2 (M-1) of 2 (t-1) hops between nodes;
    as a tree 2 (M-1)/M of the values do while a ring inside a node passes its share, and the way
    is 2 log2 M hops between nodes and a chain of 5 inside one, there and back."""
    ranks = NODE * nodes
    model = {"layers": 12, "hidden": HIDDEN, "vocab": 5040, "max_sequence": LENGTH}
    model |= {"attention": {"heads": HEADS, "kv_heads": HEADS}, "mlp": {"intermediate": 3456}}

    def found(sequence: bool) -> Any:
        layout = {"tensor": ranks, "sequence": sequence, "zero": 0}
        return evaluation(ranks, model=model, parallelism=layout).value("network.tensor")

    passed = Fraction(2 * (ranks - 1), ranks) * SENT
    ring = 2 * ((nodes - 1) * BETWEEN + (ranks - nodes) * INSIDE)
    assert found(True) == passed / min(LINK, CARD * NODE) + ring
    tree = 2 * (math.log2(nodes) * BETWEEN + (NODE - 1) * INSIDE)
    across = 2 * (1 - Fraction(1, nodes)) * SENT / (CARD * NODE)
    expected = max(passed / LINK, across) + min(float(ring), float(tree))
    assert float(found(False)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("tensor", "nodes"), [(1, 1), (2, 1), (2, 3), (3, 2), (6, 5), (1, 4)])
@pytest.mark.parametrize("switched", [False, True])
def test_the_hops_of_a_data_parallel_group(tensor: int, nodes: int, switched: bool) -> None:
    """Of 6 M/t members 6/t lie in a node. A gathering passes every member once; an all-reduce is
    two such rings, or a tree over the nodes with chains in them, or the switches, whatever is
    fastest. All but one share of the values passes each, over as many cards as members lie in a
    node."""
    devices = NODE * nodes
    layout = {"tensor": tensor, "sequence": False, "zero": 0}
    e = evaluation(devices, switched=switched, parallelism=layout)
    members, inside = devices // tensor, NODE // tensor
    spread = nodes if inside > 1 or nodes > 1 else 1
    if nodes == 1:
        ring = (members - 1) * INSIDE
        gather = min(ring, SWITCH) if switched else ring
        reduce = min(2 * ring, SWITCH) if switched else 2 * ring
        rate = LINK
    else:
        gather = (spread - 1) * BETWEEN + (members - spread) * INSIDE
        chain = 2 * (inside - 1) * INSIDE
        tree = 2 * math.log2(spread) * BETWEEN + (min(chain, SWITCH) if switched else chain)
        reduce = min(float(2 * gather), float(tree))
        rate = min(LINK, CARD * inside)
    assert e.value("network.data_hops") == gather
    assert float(e.value("network.reduce_hops")) == pytest.approx(float(reduce), rel=1e-12)
    norm = next(x for x in e.case.axes["component"] if x.settings["split"] == "column")
    expected = Fraction(members - 1, members) / rate
    assert e.value("network.passed", {"component": norm}) == expected


@pytest.mark.parametrize(("context", "tensor"), [(3, 1), (2, 3), (18, 1), (4, 3)])
def test_keys_and_values_go_round_a_context_parallel_group(context: int, tensor: int) -> None:
    """A rank's tokens times the keys and values of its heads, a hop at a time."""
    ranks = context * tensor
    layout = {"context": context, "tensor": tensor, "sequence": False, "zero": 0}
    found = of_block(evaluation(ranks, parallelism=layout), "network.context", "attention")
    sent = Fraction(2 * BATCH * LENGTH, context) * Fraction(GROUPS, tensor) * 2 * SIZE
    wait, rate = (INSIDE, LINK) if ranks <= NODE else (BETWEEN, min(LINK, CARD))
    assert found == sent / rate + wait


@pytest.mark.parametrize(
    ("devices", "stages", "tensor", "away"),
    [
        (6, 3, 2, Fraction(0)),  # one node
        (12, 4, 3, Fraction(1, 2)),  # three ranks a stage: every other neighbour is elsewhere
        (12, 4, 1, Fraction(1, 2)),
        (18, 3, 6, Fraction(1)),  # a node a stage
        (24, 2, 6, Fraction(1)),  # two nodes a stage
    ],
)
def test_a_stage_sends_to_the_next(devices: int, stages: int, tensor: int, away: Any) -> None:
    """Each rank sends its share of the values; of neighbours n/p devices apart, n/(6 p) lie in
    another node."""
    layout = {"pipeline": stages, "tensor": tensor, "sequence": False, "zero": 0}
    e = evaluation(devices, parallelism=layout)
    sent = Fraction(SENT, tensor)
    expected = away * (sent / CARD + BETWEEN) + (1 - away) * (sent / LINK + INSIDE)
    assert e.value("network.pipeline") == expected


EXPERTS, CHOSEN = 24, 3


@pytest.mark.parametrize(
    ("devices", "expert", "shared"), [(6, 3, 1), (6, 3, 2), (12, 12, 1), (24, 6, 2), (24, 24, 1)]
)
def test_tokens_travel_to_their_experts(devices: int, expert: int, shared: int) -> None:
    """Of 3 copies of each token all but one in e leave the device, at 0.7 of what collectives
    sustain of the link; across M nodes all but one in M leave the node, over the card of their
    device. 30 us pass until the host knows how many rows come. Devices that share an expert gather
    each other's rows."""
    e = evaluation(
        devices,
        model={
            "layers": 12,
            "hidden": HIDDEN,
            "vocab": 5040,
            "max_sequence": LENGTH,
            "attention": {"heads": HEADS, "kv_heads": GROUPS},
            "moe": {"experts": EXPERTS, "top_k": CHOSEN, "intermediate": 768},
        },
        parallelism={"expert": expert, "tensor": shared, "expert_tensor": shared, "zero": 0,
                     "sequence": shared > 1},
        time={"efficiency": {"link": "0.9", "network": "0.8", "all_to_all": "0.7",
                             "dispatch_latency": "30 us"}},
    )  # fmt: skip
    own = Fraction(SENT, shared)  # ranks of a tensor share the tokens
    copies = own * CHOSEN * Fraction(expert - 1, expert) / (LINK * Fraction(7, 10))
    nodes = Fraction(expert * shared, NODE)
    if nodes > 1:
        copies = max(copies, own * CHOSEN * (1 - 1 / nodes) / CARD)
    assert of_block(e, "network.experts", "moe") == copies + Fraction(30, 10**6)
    gather = own * CHOSEN * (shared - 1) / LINK + (shared - 1) * INSIDE if shared > 1 else 0
    assert of_block(e, "network.experts.gather", "moe") == gather


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
    ("shape", "tensor", "links", "left"),
    [
        ([4, 4], 4, 2, 2),  # a ring of tensor-parallel ranks, and one across
        ([16, 16], 4, 1, 3),  # a line, and what is left of its axis beside a ring
        ([3, 4], 12, 4, 1),  # both rings; a device alone has nothing to exchange
        ([4, 4], 1, 1, 4),
    ],
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
