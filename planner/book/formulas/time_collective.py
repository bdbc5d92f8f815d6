"""One collective over a group of devices: the time that plans predict for those of their groups.

Bytes are counted as nccl-tests counts them: what each rank reduces, what all ranks have gathered,
what each rank sends in an all-to-all, what the first rank sends.
"""

from planner.book.formulas.network import (
    ALLTOALL,
    NVLS,
    RING,
    TORUS,
    TUNER,
    fabric,
    hops,
    link,
    links_data,
    links_next,
    list_cuts,
    reduce_by_switches,
    reduce_hops,
    shards,
    slow_between_pods,
)
from planner.book.language import *

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "p2p")
#: Those that a ring passes once.
ONCE_ROUND = ("all-gather", "reduce-scatter")
BROADCAST = "NCCL, src/device/broadcast.h: a ring in pieces"
P2P = "NCCL, ncclSend and ncclRecv: one message"
NCCL_TESTS = "nccl-tests, doc/PERFORMANCE.md (bus bandwidth)"

seconds_of_collective = partial(seconds, per="collective")
_group_nodes = shards / n_node

hop_latency = seconds_of_collective(
    "network.collective.latency", r"\alpha_X", "time of a collective of no size"
)
on_link = seconds_of_collective(
    "network.collective.link", r"t_{\ell,X}", "bytes of a collective on the link inside a node"
)
on_network = seconds_of_collective(
    "network.collective.network", r"t_{f,X}", "bytes of a collective on the network between nodes"
)

hop_latency.by(TUNER, operation="all-reduce", shards=DIVIDED).equals(
    reduce_hops, "The hops of an all-reduce over the group: what is faster."
)
hop_latency.by(RING, operation=(*ONCE_ROUND, "broadcast", "all-to-all"), shards=DIVIDED).equals(
    hops, "The hops once round the group, or one exchange with the switches."
)
hop_latency.by(P2P, operation="p2p", shards="node").equals(a_link, "One hop over the link.")
hop_latency.by(P2P, operation="p2p", shards="nodes").equals(a_net, "One hop over the network.")

#: Bytes that pass each device.
_others_share = (shards - 1) / shards * D_X
_RING_VOLUMES = {
    "all-reduce": (2 * _others_share, "Each device passes all but its own share twice."),
    **dict.fromkeys(ONCE_ROUND, (_others_share, "Each device passes all but its own share once.")),
    "broadcast": (1 * D_X, "Each device receives all bytes, and passes them on piece by piece."),
}
for _operation, (_volume, _why) in _RING_VOLUMES.items():
    _source = BROADCAST if _operation == "broadcast" else RING
    on_link.by(_source, operation=_operation, shards=DIVIDED).equals(
        _volume / (link * links_data), _why
    )
    on_network.by(_source, operation=_operation, shards="nodes").equals(
        _volume / (fabric * n_node),
        f"{_why} A ring crosses from node to node over all network cards of a node.",
    )
on_link.by(P2P, operation="p2p", shards="node").equals(
    D_X / (link * links_next), "All bytes pass the link once."
)
on_link.by(P2P, operation="p2p", shards="nodes").equals(0, "The receiver lies in another node.")
on_network.by(P2P, operation="p2p", shards="nodes").equals(
    D_X / fabric, "All bytes pass the network card of a device."
)
on_link.by(ALLTOALL, operation="all-to-all", shards=DIVIDED, torus=False).equals(
    _others_share / (link * e_a2a),
    "All but what a device keeps leaves it, at the rate of an all-to-all.",
)
_group_cuts = list_cuts(partial(estimate, per="collective"), "collective", "X", 1, shards)
on_link.by(TORUS, operation="all-to-all", shards=DIVIDED, torus=True).equals(
    2 * n_ax * D_X * maximum(*_group_cuts) / link,
    "The links in the middle of the longest axis pass most: the bisection.",
)
on_network.by(ALLTOALL, operation="all-to-all", shards="nodes").equals(
    (1 - 1 / _group_nodes) * D_X * slow_between_pods(_group_nodes) / fabric,
    "All but 1/M of the bytes leave the node over the network card of their device. All pairs of "
    "nodes talk at once, so an oversubscribed network slows them.",
)

collective = seconds_of_collective("network.collective.seconds", "t_X", "time of a collective")
collective.by("a group of one device", shards="none").equals(0, "A device alone waits for nobody.")
_AFTER_HOPS = "Its bytes pass after the hops."
collective.by(RING, shards="node", operation=OPERATIONS[1:]).equals(
    on_link + hop_latency, _AFTER_HOPS
)
collective.by(RING, shards="node", operation="all-reduce", switched=False).equals(
    on_link + hop_latency, _AFTER_HOPS
)
collective.by(NVLS, shards="node", operation="all-reduce", switched=True).equals(
    minimum(on_link + 2 * (shards - 1) * a_link, reduce_by_switches(D_X, shards)),
    "The library takes what is faster: a ring, or the switches, to which each device sends its "
    "bytes once, and the sums of its share once more.",
)
collective.by(RING, shards="nodes").equals(
    maximum(on_link, on_network) + hop_latency,
    "What takes longer of link and network, which work at once, after the hops.",
)

bus_rate = estimate(
    "network.collective.rate",
    r"\beta_X",
    "bus bandwidth of a collective",
    unit="bytes/s",
    per="collective",
    source=NCCL_TESTS,
)
for _operations, _share in (
    (("all-reduce",), 2 * _others_share),
    ((*ONCE_ROUND, "all-to-all"), _others_share),
    (("broadcast", "p2p"), 1 * D_X),
):
    bus_rate.where(operation=_operations, shards=DIVIDED).equals(
        _share / collective,
        "What a ring would pass through each device, over the time: comparable with the bandwidth "
        "of the hardware, whatever the size of the group.",
    )
