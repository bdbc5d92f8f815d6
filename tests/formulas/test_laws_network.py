"""Laws of traffic: what any collective on any shipped hardware obeys, and sums done by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from planner import case, plan
from planner.evaluate import Evaluation

PLAN: dict[str, Any] = {
    "model": "llama2-7b",
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
    "training": {
        "tokens": "1T",
        "sequence_length": 4096,
        "global_batch": 512,
        "micro_batch": 1,
        "implementation": "megatron",
    },
}
#: A link of 100 GB/s in each direction with hops of 1 us, a card of 10 GB/s with hops of 10 us.
ROUND: dict[str, Any] = {
    "cluster__accelerator": {
        "extends": "h100-sxm-80gb",
        "link": {
            "bandwidth": "200 GB/s",
            "convention": "bidirectional",
            "latency": "1 us",
            "topology": "switch",
        },
    },
    "cluster__network": {"bandwidth": "10 GB/s", "latency": "10 us"},
    "time": {"efficiency": {"link": 1, "network": 1, "all_to_all": 1, "tensor_hidden": 0}},
}


def evaluation(**changes: Any) -> Evaluation:
    document = deepcopy(PLAN)
    for dotted, value in changes.items():
        *around, last = dotted.split("__")
        node = document
        for step in around:
            node = node.setdefault(step, {})
        node[last] = value
    return Evaluation(case.build(plan.load(document)))


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


def test_what_is_exchanged_in_32_bit_is_twice_what_16_bit_exchange() -> None:
    """4 bytes of each of 4,096 x 4,096 values, half of them twice round a ring of two."""
    layout = {"tensor": 2, "sequence": True}
    wide, narrow = (
        value("network.tensor", parallelism=layout, training__precision=p) for p in ("fp32", "bf16")
    )
    hops = 2 * 1e-6
    assert wide == pytest.approx(4 * 4096 * 4096 / 100e9 + hops)
    assert wide - hops == pytest.approx(2 * (narrow - hops))


# -- groups that leave a node ------------------------------------------------------------------


@pytest.mark.parametrize("sequence", [False, True])
def test_tensor_ranks_on_four_nodes_hop_between_them(sequence: bool) -> None:
    """32 ranks on 4 nodes of 8: of 2 x 31 hops 2 x 3 cross the network, and what leaves a node
    leaves it over 8 cards of 10 GB/s: a ring 31/32, a tree 3/4 of the values, both twice."""
    found = value("network.tensor", parallelism={"tensor": 32, "sequence": sequence})
    hops = 2 * (3 * 10e-6 + 28 * 1e-6)
    leaves = 2 * (31 / 32 if sequence else 3 / 4) * 2 * 4096 * 4096
    assert found == pytest.approx(max(leaves / 80e9, 2 * 31 / 32 * 2 * 4096**2 / 100e9) + hops)


def test_a_ring_of_ranks_that_are_each_on_a_node_of_their_own() -> None:
    """Tensor ranks fill two nodes of 8, so 4 data-parallel ranks lie on 4 nodes: 3 hops."""
    found = value("network.data_hops", parallelism={"tensor": 16, "zero": 1})
    assert found == pytest.approx(3 * 10e-6)
    assert value("network.data", parallelism={"tensor": 16, "zero": 1}) == 10e9


def test_replicas_inside_a_node_meet_over_its_link() -> None:
    """8 devices, 4 shards, 2 replicas: each device's quarter of the gradients, 4 bytes each, once
    over the link of 100 GB/s, for all-reduce of two is 2 x 1/2."""
    inside: dict[str, Any] = {
        "cluster__devices": 8,
        "parallelism": {"zero": 3, "replicate": 2},
        "training__implementation": "pytorch",
    }
    e = evaluation(**ROUND, **inside)
    quarter = 4 * float(e.value("parameters.total")) / 4
    assert float(e.value("time.data.reduce")) == pytest.approx(quarter / 100e9)
    # On 16 devices of two nodes, a node holds one replica of 8: a card for each of its devices.
    e = evaluation(**ROUND, **{**inside, "cluster__devices": 16})
    assert float(e.value("network.replicas")) == 10e9
    # A replica of 2 leaves room for four in a node, which use four cards.
    four = {"cluster__devices": 16, "parallelism": {"zero": 3, "replicate": 8}}
    assert float(evaluation(**ROUND, **{**inside, **four}).value("network.replicas")) == 40e9
