"""How fast collectives run: rates of link and network, ring and tree, hops.

A group that fits into one node uses its link. One that spans nodes uses all network cards that
its members in a node have; the link carries the rest.
"""

from collections.abc import Callable, Iterator
from itertools import product

from planner.book.formulas.layout import data, state_ranks, tokens
from planner.book.language import *

RING = "Patarasu & Yuan 2009, Bandwidth optimal all-reduce algorithms; Thakur et al. 2005"
NVLS = "NCCL, src/graph/tuning.cc: the faster of ring and NVLS (switches that add up and copy)"
TREE = "Sanders et al. 2009, Two-tree algorithms; NCCL 2.4"
MEGATRON = f"{NARAYANAN}, section 3.2"

rate = partial(estimate, unit="bytes/s")

link = rate(
    "network.link",
    r"\beta_\ell",
    "bandwidth of collectives inside a node, per device and direction",
)
link.by("datasheet; it adds both directions", link_convention="bidirectional").equals(
    e_link * B_link / 2,
    "Half of the printed figure is one direction, of which collectives sustain a share.",
)
link.by("datasheet; it prints one direction", link_convention="per-direction").equals(
    e_link * B_link, "The printed figure, of which collectives sustain a share."
)

TORUS = "Austin et al. 2025, How to Scale Your Model, TPUs and sharded matrices (torus)"


def _covered(stride: Operand | int, size: Operand) -> Iterator[tuple[str, Expression, Expression]]:
    """Yield, for each axis of a torus, over how many devices a group with this stride extends, and
    whether they form a whole ring (1) or a line (0)."""
    for axis, before, side in (("x", 1, n_X), ("y", n_X, n_Y), ("z", n_X * n_Y, n_Z)):
        covered = maximum(1, minimum(stride * size, before * side) / maximum(stride, before))
        yield axis, covered, maximum(0, covered - side + 1)


def _links(group: str, letter: str, stride: Operand | int, size: Operand) -> Expression:
    """Return how many of a device's torus links a group with this stride communicates over."""
    found: list[Quantity] = []
    for axis, covered, ring in _covered(stride, size):
        along = estimate(
            f"network.links.{group}.{axis}",
            rf"n_{{\lambda {letter} {axis}}}",
            f"links along the {axis} axis that {group}-parallel rings use",
            source=TORUS,
        )
        found.append(
            along.where(torus=True).equals(
                minimum(1, covered - 1) * (1 + ring),
                "None where the group does not extend along the axis; both where it fills it, a "
                "ring; one where it fills a part of it, a line, whose ends wait for all that "
                "passes the middle.",
            )
        )
    return maximum(1, sum(found[1:], 1 * found[0]))


ALL = "any two devices are joined by all links"
_RINGS = "Those along all axes, one at least, of two along each axis."
links_tensor = estimate(
    "network.links.tensor", r"\lambda_t", "share of the links that tensor-parallel rings use"
)
links_tensor.by(ALL, torus=False).equals(1, "All of them.")
links_tensor.by(TORUS, torus=True).equals(_links("tensor", "t", 1, t) / (2 * n_ax), _RINGS)
links_data = estimate(
    "network.links.data", r"\lambda_d", "share of the links that data-parallel rings use"
)
links_data.by(ALL, torus=False).equals(1, "All of them.")
links_next = estimate(
    "network.links.next", r"\lambda_1", "share of the links that a message to a neighbour uses"
)
links_next.by(ALL, torus=False).equals(1, "All of them.")
links_next.by(TORUS, torus=True).equals(1 / (2 * n_ax), "The one to the neighbour.")

fabric = rate(
    "network.fabric", r"\beta_f", "bandwidth of collectives between nodes, per device and direction"
)
fabric.by("cluster document", measured=False).equals(
    e_net * B_net,
    "The network card of a device, of which collectives sustain a share. A ring that follows the "
    "topology leaves a switch with one flow, so oversubscription above does not slow it.",
)
fabric.by("cluster document: a collective benchmark", measured=True, exact=True).equals(
    minimum(B_sus, B_net),
    "What collectives reached there, no more than the network card of a device.",
)

# -- tensor parallelism ------------------------------------------------------------------------

tensor = seconds(
    "network.tensor",
    "t_AR",
    "one tensor-parallel exchange of the residual stream",
    attribution="tensor-parallel exchange",
    stacked=True,
)
tensor.by(MEGATRON, tensor="none").equals(0, "One device has nothing to exchange.")

#: Bytes that a ring passes through each device, of the activations of all tokens.
_passed_by_ranks = 2 * (t - 1) / t * k_a * tokens * h
tensor_hops = seconds("network.tensor_hops", r"\alpha_t", "hops of one tensor-parallel exchange")
tensor_hops.by(RING, tensor="node", switched=False).equals(
    2 * (t - 1) * a_link, "A ring takes t - 1 hops to add up, and as many to pass the sums on."
)
tensor_hops.by(NVLS, tensor="node", switched=True, sequence=True).equals(
    2 * minimum((t - 1) * a_link, a_sw),
    "An all-gather and a reduce-scatter, each as a ring of t - 1 hops or by the switches.",
)

_ring_over_nodes = 2 * ((t / n_node - 1) * a_net + (t - t / n_node) * a_link)
tensor_hops.by(RING, tensor="nodes", sequence=True).equals(
    _ring_over_nodes,
    "Of 2 (t-1) hops of a ring over M = t/n_node nodes, 2 (M-1) go from one to the next.",
)

_tree_over_nodes = 2 * (log2(t / n_node) * a_net + (n_node - 1) * a_link)
tensor_hops.by(TREE, tensor="nodes", sequence=False).equals(
    minimum(_ring_over_nodes, _tree_over_nodes),
    "The library takes what is faster for an all-reduce: a ring, or a tree over the M = t/n_node "
    "nodes, log2 M deep, with a chain inside each.",
)


def reduce_by_switches(volume: Operand, members: Operand) -> Expression:
    """Return the time of an all-reduce that the switches of the link carry out."""
    return (members + 1) / members * volume / (link * e_sw) + a_sw


for _alike in ({"switched": False}, {"switched": True, "sequence": True}):
    tensor.by(RING, tensor="node", **_alike).equals(
        _passed_by_ranks / (link * links_tensor) + tensor_hops,
        "A ring passes 2 (t-1)/t of n h activations through each device; an all-gather and a "
        "reduce-scatter (sequence parallelism) move the same as an all-reduce, and switches that "
        "add up or copy leave what a device must send for one, and receive for the other.",
    )
tensor.by(NVLS, tensor="node", switched=True, sequence=False).equals(
    minimum(
        _passed_by_ranks / link + 2 * (t - 1) * a_link, reduce_by_switches(k_a * tokens * h, t)
    ),
    "The library takes what is faster for an all-reduce: a ring, or the switches. Of these each "
    "device reads the sum of its part, one in t, for which all send theirs, and sends it once to "
    "be copied: (t+1)/t of the values leave it, not 2 (t-1)/t.",
)
tensor.by(TREE, tensor="nodes", sequence=False).equals(
    maximum(
        _passed_by_ranks / (link * links_tensor),
        2 * (1 - n_node / t) * k_a * tokens * h / (fabric * n_node),
    )
    + tensor_hops,
    "Across M = t/n_node nodes a tree sends 2 (M-1)/M of the values over the cards of a node, "
    "while the ring inside each node passes its share over the link.",
)
tensor.by(RING, tensor="nodes", sequence=True).equals(
    _passed_by_ranks / minimum(link * links_tensor, fabric * n_node) + tensor_hops,
    "All-gather and reduce-scatter run as rings, which cross the nodes with all that passes.",
)

# -- data parallelism --------------------------------------------------------------------------

shards = Quantity(
    "network.shards", r"g", "devices that a weight's states are divided over", source=SHARDED
).equals(
    data * c / r,
    "Data- and context-parallel ranks hold the same weights; r replicas each hold all shards.",
)

links_data.by(TORUS, torus=True).equals(_links("data", "d", t, shards) / (2 * n_ax), _RINGS)

group = rate(
    "network.data", r"\beta_d", "bandwidth of the data-parallel group, per device and direction"
)
group.by("a group of one device", shards="none").equals(
    e_mem * W, "A device alone exchanges nothing; what it would, stays in its memory."
)
group.by(RING, shards="node").equals(link * links_data, "The group lies inside one node.")
group.by(RING, shards="nodes").equals(
    minimum(link * links_data, fabric * maximum(1, minimum(n_node / t, shards))),
    "Its n_node/t members in a node, one at least, use a network card each; the link bounds them.",
)

hops = seconds(
    "network.data_hops",
    r"\alpha_d",
    "hops of one gathering or scattering over the data-parallel group",
)
hops.by("a group of one device", shards="none").equals(0, "None: a device alone.")
hops.by(RING, shards="node", switched=False, torus=False).equals(
    (shards - 1) * a_link, "One hop to each other member."
)

#: Axes of a torus over which the group extends: it goes round all of them at once.
_axes = maximum(1, links_data * n_ax)
hops.by(TORUS, shards="node", switched=False, torus=True).equals(
    minimum(shards - 1, _axes * shards ** (1 / _axes) / 2) * a_link,
    "Over each of its axes half way round, both ways at once, as if these were of one length.",
)
hops.by(NVLS, shards="node", switched=True).equals(
    minimum((shards - 1) * a_link, a_sw),
    "The library takes what is faster: one hop to each other member, or one exchange with the "
    "switches, which add up and copy.",
)

#: Nodes over which the data-parallel group is spread: each member on its own, at most.
_nodes = minimum(shards, shards * t / n_node)
hops.by(RING, shards="nodes").equals(
    (_nodes - 1) * a_net + (shards - _nodes) * a_link,
    "A ring over g devices in M = g t/n_node nodes, at most g, passes M - 1 times from one node to "
    "the next and stays inside otherwise; libraries gather and scatter across nodes in rings.",
)

TUNER = "NCCL, src/graph/tuning.cc: the fastest of ring, tree and NVLS"

reduce_hops = seconds(
    "network.reduce_hops", r"\alpha_AR", "hops of one all-reduce over the data-parallel group"
)
reduce_hops.by("a group of one device", shards="none").equals(0, "None: a device alone.")
reduce_hops.by(RING, shards="node", switched=False).equals(
    2 * hops, "A ring adds up, and once more passes the sums on; trees inside a node are chains."
)
reduce_hops.by(TUNER, shards="node", switched=True).equals(
    minimum(2 * (shards - 1) * a_link, a_sw),
    "A ring, or one exchange with the switches, which add up and copy: what is faster.",
)

#: A tree over M nodes is log2 M deep; inside each its devices take a chain of hops.
_deep = 2 * log2(_nodes) * a_net
_chain = 2 * (shards / _nodes - 1) * a_link
reduce_hops.by(TUNER, shards="nodes", switched=False).equals(
    minimum(2 * hops, _deep + _chain),
    "A ring over all devices, or a tree over the M nodes, log2 M deep, with chains inside them: "
    "what is faster.",
)
reduce_hops.by(TUNER, shards="nodes", switched=True).equals(
    minimum(2 * hops, _deep + minimum(_chain, a_sw)),
    "As without switches that add up; inside a node these may take the place of chains.",
)

replicas = rate(
    "network.replicas",
    r"\beta_r",
    "bandwidth between the replicas of hybrid sharding, per device and direction",
)
replicas.by("a group of one device", replicas="none").equals(
    e_mem * W, "One replica exchanges nothing; what it would, stays in its memory."
)
replicas.by(RING, replicas="node").equals(link, "All replicas lie inside one node.")
replicas.by(RING, replicas="nodes").equals(
    minimum(link, fabric * maximum(1, n_node / (shards * t))),
    "A replica fills g t devices, so n_node/(g t) of them, one at least, lie in a node and use a "
    "network card each; the link bounds them.",
)

passed = estimate(
    "network.passed",
    r"\tau_c",
    "time in which a ring passes each byte of a component to those that share it",
    unit="s/bytes",
    source=RING,
    per="component",
)
passed.where(split=("none", "column", "row", "vocabulary")).equals(
    (shards - 1) / (shards * group),
    "All but one of g shares leave each device, at the bandwidth of its group.",
)
passed.where(split="experts", shards=("none", "node")).equals(
    (state_ranks - 1) / (state_ranks * link * links_data),
    "Fewer devices hold copies of an expert; they are in one node.",
)
passed.where(split="experts", shards="nodes").equals(
    (state_ranks - 1)
    / (state_ranks * minimum(link * links_data, fabric * maximum(1, n_node / (e * t_e)))),
    "Fewer devices hold copies of an expert, n_node/(e t_e) in each node, one at least, whose "
    "network cards they use.",
)

# -- expert parallelism ------------------------------------------------------------------------

exchanging = partial(seconds_of_block, attribution="expert-parallel exchange")
experts_exchange = exchanging(
    "network.experts", "t_a2a", "one exchange of tokens between experts, the mean of there and back"
)
EXCHANGED = ("all-to-all", "deepep", "hybridep")
experts_exchange.by(LEPIKHIN, expert="none", dispatcher=EXCHANGED).equals(
    0, "All experts are on the device."
)

#: Dispatchers whose kernels send a token once to each device.
ONCE = ("deepep", "hybridep")
KERNELS = (
    "DeepEP, README (normal kernels) and docs/README_Hybrid-EP.md; Megatron-Core, "
    "moe/token_dispatcher.py (flex)"
)
#: Nodes over which an expert-parallel group is spread.
NODES = e * t_e / n_node

LIMITED = f"{DEEPSEEK_V3}, section 2.1.2"


def _of_groups(members: Operand) -> Expression:
    """Return how many of ``members`` places g_r of G_r groups take; at least one for each group."""
    return minimum(members, maximum(members * g_r / G_r, g_r))


reach = of_experts(
    "network.reach.devices",
    r"e_{\mathrm{r}}",
    "devices of whose experts a token chooses",
    dispatcher=ONCE,
)
reach.by("definition", grouped=False).equals(e, "All of the expert-parallel group.")
reach.by(LIMITED, grouped=True).equals(_of_groups(e), "Those that hold the groups of the token.")

reach_nodes = of_experts(
    "network.reach.nodes",
    r"M_{\mathrm{r}}",
    "nodes of whose experts a token chooses",
    expert="nodes",
)
reach_nodes.by("definition", grouped=False).equals(
    NODES, "All over which the expert-parallel group is spread."
)
reach_nodes.by(LIMITED, grouped=True).equals(
    _of_groups(NODES),
    "Those that hold the groups of the token: routing that is limited to some nodes.",
)

uneven = of_experts(
    "network.experts.uneven",
    r"\gamma_a2a",
    "rows that travel to the experts of the fullest device, over an even share",
)
uneven.by("definition", capped=False).equals(
    gamma, "All wait for the device to which most rows travel."
)
uneven.by(CAPACITY, capped=True).equals(
    f_cap, "The slots of an expert travel, filled or not; what is beyond them is dropped before."
)

HOSTED = "DeepEP, docs/README_Hybrid-EP.md: times from Python less those of kernels and copies"
waiting = of_experts(
    "network.experts.wait",
    r"\alpha_x",
    "time of one exchange of no size, in which the host learns how many rows come",
    unit="s",
)
for _open in ({"capped": True}, {"capped": False, "cuda_graphs": "full"}):
    waiting.by(HOSTED, **_open).equals(0, "The host does not look: sizes are fixed.")
waiting.by(HOSTED, capped=False, cuda_graphs=("none", "partial")).equals(
    a_disp, "The host looks at how many rows came before it launches what follows."
)

ALLTOALL = "NCCL, ncclAllToAll: every rank sends each other rank its rows"
exchange_latency = of_experts(
    "network.experts.latency",
    r"\alpha_a2a",
    "time of an all-to-all of tokens of no size",
    unit="s",
    source=ALLTOALL,
    dispatcher="all-to-all",
    torus=False,
).equals(
    (e - 1) * a_link + a_meet,
    "One hop to each other rank; and ranks that come at different times wait for the last.",
)

#: Bytes of the hidden states that a device sends: tensor-parallel ranks share the tokens, and of
#: there and back each has its format.
_states = (k_disp + k_comb) / 2 * tokens * h_l / t
_of_rank = uneven * _states
_copies = _of_rank * k * (e - 1) / e


def places(reached: Operand) -> Expression:
    """Return the mean number of places, of ``reached`` ones, that have one of a token's k
    experts."""
    return reached * (1 - (1 - 1 / reached) ** k)


def _once(reached: Operand, members: Operand) -> Expression:
    """Return the volume if a token is sent once to each other place with one of its k experts."""
    return _of_rank * places(reached) * (1 - 1 / members)


def slow_between_pods(nodes: Operand) -> Expression:
    """Return the time of an all-to-all between nodes over that at the full rate of the network."""
    return maximum(1, o_net * maximum(0, (nodes - n_pod / n_node) / (nodes - 1)))


crowded = estimate(
    "network.experts.crowded",
    r"\omega_{\mathrm{a2a}}",
    "time of an exchange of tokens between nodes, over that at the full rate of the network",
    source="cluster document: oversubscription of the network between pods",
    expert="nodes",
).equals(
    slow_between_pods(NODES),
    "Of the M - 1 other nodes of the group those outside the pod are reached at the rate between "
    "pods, which oversubscription divides; all pairs of nodes talk at once.",
)


def list_cuts(
    declare: Callable[..., Quantity], name: str, letter: str, stride: Operand | int, size: Operand
) -> list[Quantity]:
    """Declare, for each axis of a torus, what the busiest link along it passes of what each device
    of a group with this stride sends evenly to all of the group."""
    found: list[Quantity] = []
    for axis, along, ring in _covered(stride, size):
        cut = declare(
            f"network.{name}.cut.{axis}",
            rf"\chi_{{{letter} {axis}}}",
            f"what the busiest link along the {axis} axis passes of what each device sends to all",
            source=TORUS,
        )
        found.append(
            cut.where(torus=True).equals(
                floor(along**2 / 4) / (along * (1 + ring)),
                "Half of c devices in a row send half of what they have to the other half: c/4 "
                "over the link in the middle of a line, over each of the two that divide a ring "
                "c/8.",
            )
        )
    return found


_cuts = list_cuts(of_experts, "experts", "e", t_e, e)
_across_nodes = _of_rank * k * (1 - 1 / NODES) * crowded / fabric
for _shape in (False, True):
    _passing = (
        2 * n_ax * _of_rank * k * maximum(*_cuts) / link if _shape else _copies / (link * e_a2a)
    )
    _latency = waiting if _shape else waiting + exchange_latency
    experts_exchange.by(
        TORUS if _shape else LEPIKHIN, expert="node", dispatcher="all-to-all", torus=_shape
    ).equals(
        _passing + _latency,
        "Rows pass from neighbour to neighbour, along all axes at once; the links in the middle of "
        "the longest pass most: the bisection, whatever each device could send by itself."
        if _shape
        else "Of k copies of each token all but 1/e leave the device, at an all-to-all's rate.",
    )
    experts_exchange.by(ALLTOALL, expert="nodes", dispatcher="all-to-all", torus=_shape).equals(
        maximum(_passing, _across_nodes) + _latency,
        "All but 1/M of k copies of each token leave the node over the network card of their "
        "device. All pairs of nodes talk at once, so an oversubscribed network slows them.",
    )

#: A token once to each other node, on a network that may be oversubscribed.
_across = _once(reach_nodes, NODES) * crowded
#: To each device once over the link, of whose datasheet these kernels reach a share of their own;
#: and what each row takes besides its bytes.
_over_link = _once(reach, e) / (link * e_kl / e_link) + a_row * uneven * tokens / t * places(reach)
experts_exchange.by(KERNELS, expert="node", dispatcher=ONCE).equals(
    _over_link + waiting,
    "Of M devices from which it chooses a token goes once to each that holds one of its k experts, "
    "M (1 - (1 - 1/M)^k) of them on average, by kernels that reach their own share of the link, "
    "and take a while for each row.",
)
experts_exchange.by(KERNELS, expert="nodes", dispatcher=ONCE).equals(
    maximum(_over_link, _across / (B_net * e_disp)) + waiting,
    "A token goes once to each node that holds one of its experts, and there once to each such "
    "device, by kernels that nearly fill a device's network card.",
)

GATHERED = "Megatron-Core, moe/token_dispatcher.py (MoEAllGatherTokenDispatcher)"
#: Devices that hold the experts of a layer once, and what each lacks of the tokens of all.
_members = e * t_e
_lacking = _states * (_members - 1)
experts_exchange.by(GATHERED, dispatcher="all-gather", gathering="none").equals(
    0, "One device has all tokens of its experts."
)
experts_exchange.by(GATHERED, dispatcher="all-gather", gathering="node").equals(
    _lacking / link + (_members - 1) * a_link + waiting,
    "Every token is gathered by all e t_e devices that hold the experts, whichever it chose, and "
    "their outputs are reduced and scattered: a ring passes all but its own tokens to each.",
)
experts_exchange.by(GATHERED, dispatcher="all-gather", gathering="nodes").equals(
    _lacking / minimum(link, fabric * n_node)
    + (NODES - 1) * a_net
    + (_members - NODES) * a_link
    + waiting,
    "As in a node; the ring crosses from node to node over all network cards of a node.",
)

experts_gather = exchanging(
    "network.experts.gather",
    "t_ge",
    "gathering rows among the devices that share an expert, the mean of there and back",
    source="Liu et al. 2025 (arXiv 2504.14960), MoE parallel folding; Megatron-LM (all-to-all)",
)
experts_gather.where(dispatcher=EXCHANGED, expert_tensor="none").equals(
    0, "An expert is whole on its device."
)
experts_gather.by(GATHERED, dispatcher="all-gather").equals(
    0, "All devices that share an expert have gathered its tokens with all others."
)

#: Bytes that a device of t_e lacks of the rows that reach all of them: k copies of a token.
_of_expert = _of_rank * k * (t_e - 1)
experts_gather.where(block="moe", dispatcher=EXCHANGED, expert_tensor="node").equals(
    _of_expert / link + (t_e - 1) * a_link,
    "Rows are gathered among the t_e devices that share an expert, and its outputs reduced and "
    "scattered: of the rows of all of them a device has one in t_e.",
)
experts_gather.where(block="moe", dispatcher=EXCHANGED, expert_tensor="nodes").equals(
    _of_expert / minimum(link, fabric * n_node)
    + (t_e / n_node - 1) * a_net
    + (t_e - t_e / n_node) * a_link,
    "As in a node; what crosses from node to node uses all network cards of a node.",
)

# -- context parallelism -----------------------------------------------------------------------

#: Bytes of a rank's keys and values; a tensor-parallel rank has one head at least.
_keys_and_values = k_a * tokens * maximum(1, a_kv / t) * (d_h + d_v)
context = seconds_of_block(
    "network.context",
    "t_kv",
    "one hop of a rank's keys and values round its context-parallel group",
    source=RING,
)
context.where(context="node").equals(
    _keys_and_values / (link * links_next) + a_link,
    "Heads are divided over the tensor-parallel ranks, one at least. The group lies inside one "
    "node.",
)
context.where(context="nodes").equals(
    _keys_and_values / minimum(link * links_next, fabric) + a_net,
    "Heads are divided over the tensor-parallel ranks, one at least. All hops run at once, so the "
    "one between nodes sets the pace: a device's network card.",
)

ULYSSES = "Jacobs et al. 2023 (arXiv 2309.14509), section 3; DeepSpeed, ulysses_sp.py; verl"
heads = seconds_of_block(
    "network.heads",
    r"t_{\mathrm{head}}",
    "all-to-alls that give each context-parallel rank whole sequences of some heads, one way",
    context_exchange="ulysses",
)
#: Bytes of a rank's queries and outputs, and of its keys and values: a head at least for each rank.
_of_heads = k_a * tokens * (a / t + maximum(c, a_kv / t)) * (d_h + d_v)
_spread = minimum(c, c * t / n_node)
_heads_cuts = list_cuts(estimate, "heads", "c", t, c)
_heads_leave = _of_heads * (1 - 1 / _spread) * slow_between_pods(_spread) / fabric
for _shape, _reach in product((False, True), DIVIDED):
    _passing = 2 * n_ax * maximum(*_heads_cuts) / link if _shape else (1 - 1 / c) / (link * e_a2a)
    _slowest = maximum(_of_heads * _passing, _heads_leave if _reach == "nodes" else 0)
    heads.by(ULYSSES, context=_reach, torus=_shape).equals(
        _slowest + (0 if _shape else 4 * (c - 1) * a_link),
        "Of queries, keys, values and outputs all but 1/c leave the device, and all but 1/M the "
        "node; keys and values of fewer heads than ranks are repeated.",
    )

# -- pipeline ----------------------------------------------------------------------------------

send = seconds(
    "network.pipeline",
    "t_send",
    "sending the residual stream to the next stage",
    short="sending to the next stage",
    attribution="pipeline exchange",
    source=f"{NARAYANAN}, section 4.1 (scatter, send, gather)",
)
send.where(pipeline="none").equals(0, "There is one stage.")
_sent = k_a * tokens * h / t
send.where(pipeline="node").equals(
    _sent / (link * links_next) + a_link,
    "Each tensor-parallel rank sends its part of n h activations over the link.",
)

_elsewhere = minimum(1, n / (p * n_node))
send.where(pipeline="nodes").equals(
    _elsewhere * (_sent / fabric + a_net)
    + (1 - _elsewhere) * (_sent / (link * links_next) + a_link),
    "Each tensor-parallel rank sends its part of n h activations. Neighbours are n/p devices "
    "apart, so n/(p n_node) of them, at most all, lie in another node and use a network card.",
)
