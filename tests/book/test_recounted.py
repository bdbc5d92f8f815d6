"""Formulas worked out again in plain arithmetic, each from the values that it rests on, over plans
whose numbers have little in common: no two equal, few of them 1, hardly a power of two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from planner.book import notation
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation, Point, widen
from planner.questions import loading


class View:
    """A plan, or an entry of it: symbols of the notation as attributes, quantities by ``q``."""

    def __init__(self, evaluation: Evaluation, point: Point) -> None:
        self.evaluation, self.point = evaluation, widen(point)

    def __getattr__(self, name: str) -> float:
        symbol = getattr(notation, name)
        return float(self.evaluation.compute(symbol, self.point))

    def q(self, identifier: str) -> float:
        quantity = BOOK.quantities[identifier]
        per = ("stack",) if quantity.stacked and "stack" in self.point else quantity.per
        value = self.evaluation.value(identifier, {axis: self.point[axis] for axis in per})
        return float(value)

    def on(self, setting: str) -> Any:
        return self.evaluation.read_setting(setting, self.point)

    def below(self, axis: str, **settings: Any) -> Iterator[View]:
        """The entries of an axis in this one that have some settings."""
        # A block may work on other tokens than its part.
        narrowest = [one for name, one in self.point.items() if name != "stack"]
        for entry in self.evaluation.case.axes[axis]:
            lineage = list(entry.around.values())
            if all(any(one is other for other in lineage) for one in narrowest):
                view = View(self.evaluation, {axis: entry})
                if all(view.on(name.replace("_", " ")) == v for name, v in settings.items()):
                    yield view

    def total(self, axis: str, of: Callable[[View], float], **settings: Any) -> float:
        return sum(of(view) for view in self.below(axis, **settings))


Rule = Callable[[View], float]
#: The quantities that are worked out, by their id.
RULES: dict[str, Rule] = {}


def recounts(identifier: str) -> Callable[[Rule], Rule]:
    def keep(rule: Rule) -> Rule:
        RULES[identifier] = rule
        return rule

    return keep


# -- collectives: what passes over a link or a card, and how many hops it takes ------------------


@recounts("network.link")
def _(v: View) -> float:
    one_way = v.B_link / 2 if v.on("cluster.accelerator.link.convention") == "bidirectional" else (
        v.B_link
    )  # fmt: skip
    return v.e_link * one_way


@recounts("network.fabric")
def _(v: View) -> float:
    return min(v.B_sus, v.B_net) if v.on("network.measured") else v.e_net * v.B_net


def along(axis: str, stride: float, size: float, v: View) -> int:
    """Links along an axis of a torus over which members of a group send: both of a ring, one of a
    line, by where each of them lies."""
    sides = [int(side) for side in (v.n_X, v.n_Y, v.n_Z)]
    this = "xyz".index(axis)
    places = range(0, int(stride * size), int(stride))
    count = len({place // math.prod(sides[:this]) % sides[this] for place in places})
    return 0 if count == 1 else 2 if count == sides[this] else 1


for _axis in "xyz":
    recounts(f"network.links.tensor.{_axis}")(lambda v, axis=_axis: along(axis, 1, v.t, v))
    recounts(f"network.links.data.{_axis}")(
        lambda v, axis=_axis: along(axis, v.t, v.q("network.shards"), v)
    )


def links(v: View, group: str) -> float:
    if not v.on("time.torus"):
        return 1
    return max(1, sum(v.q(f"network.links.{group}.{axis}") for axis in "xyz")) / (2 * v.n_ax)


@recounts("network.links.tensor")
def _(v: View) -> float:
    return links(v, "tensor")


@recounts("network.links.data")
def _(v: View) -> float:
    return links(v, "data")


@recounts("network.links.next")
def _(v: View) -> float:
    return 1 / (2 * v.n_ax) if v.on("time.torus") else 1


@recounts("network.tensor_hops")
def _(v: View) -> float:
    """A ring of t goes round twice; over nodes some of its hops leave one."""
    where, sequence = v.on("time.tensor"), v.on("parallelism.sequence")
    if where == "node":
        once = (v.t - 1) * v.a_link
        if not v.on("time.switched"):
            return 2 * once
        return 2 * min(once, v.a_sw)  # to gather and to scatter
    nodes = v.t / v.n_node
    ring = 2 * (nodes - 1) * v.a_net + 2 * (v.t - nodes) * v.a_link
    tree = 2 * math.log2(nodes) * v.a_net + 2 * (v.n_node - 1) * v.a_link
    return ring if sequence else min(ring, tree)


@recounts("network.tensor")
def _(v: View) -> float:
    where = v.on("time.tensor")
    if where == "none":
        return 0
    size = v.k_a * v.s * v.b / v.c * v.h  # of the residual stream of all tokens
    link, card = v.q("network.link"), v.q("network.fabric") * v.n_node
    inside = 2 * size * (v.t - 1) / v.t / (link * v.q("network.links.tensor"))
    if where == "node" and v.on("time.switched") and not v.on("parallelism.sequence"):
        switches = size / v.t * (v.t + 1) / (link * v.e_sw) + v.a_sw
        return min(inside + 2 * (v.t - 1) * v.a_link, switches)
    if where == "node":
        sent = inside
    elif v.on("parallelism.sequence"):
        sent = max(inside, 2 * size * (v.t - 1) / v.t / card)
    else:
        nodes = v.t / v.n_node
        sent = max(inside, 2 * size * (nodes - 1) / nodes / card)
    return sent + v.q("network.tensor_hops")


@recounts("network.data")
def _(v: View) -> float:
    where, link = v.on("time.shards"), v.q("network.link") * v.q("network.links.data")
    if where == "none":
        return v.e_mem * v.W
    members = max(1, min(v.n_node / v.t, v.q("network.shards")))
    return link if where == "node" else min(link, v.q("network.fabric") * members)


@recounts("network.data_hops")
def _(v: View) -> float:
    where, g = v.on("time.shards"), v.q("network.shards")
    if where == "none":
        return 0
    if where == "node" and v.on("time.torus"):  # half way round each axis, as if of one length
        axes = max(1, v.q("network.links.data") * v.n_ax)
        return min(g - 1, axes * g ** (1 / axes) / 2) * v.a_link
    if where == "node":
        return min((g - 1) * v.a_link, *([v.a_sw] if v.on("time.switched") else [math.inf]))
    nodes = min(g, g * v.t / v.n_node)
    return (nodes - 1) * v.a_net + (g - nodes) * v.a_link


@recounts("network.reduce_hops")
def _(v: View) -> float:
    where, g = v.on("time.shards"), v.q("network.shards")
    switches = v.a_sw if v.on("time.switched") else math.inf
    if where == "none":
        return 0
    if where == "node":
        rings = 2 * v.q("network.data_hops") if v.on("time.torus") else 2 * (g - 1) * v.a_link
        return min(rings, switches)
    nodes = min(g, g * v.t / v.n_node)
    ring = 2 * ((nodes - 1) * v.a_net + (g - nodes) * v.a_link)
    inside = min(2 * (g / nodes - 1) * v.a_link, switches)
    return min(ring, 2 * math.log2(nodes) * v.a_net + inside)


@recounts("network.replicas")
def _(v: View) -> float:
    where = v.on("time.replicas")
    if where == "none":
        return v.e_mem * v.W
    cards = max(1, v.n_node / (v.q("network.shards") * v.t))
    link = v.q("network.link")
    return link if where == "node" else min(link, v.q("network.fabric") * cards)


@recounts("network.passed")
def _(v: View) -> float:
    """All but one of so many shares leave a device."""
    if v.on("split") != "experts":
        g = v.q("network.shards")
        return (1 - 1 / g) / v.q("network.data")
    owners, rate = v.q("layout.shards"), v.q("network.link") * v.q("network.links.data")
    if v.on("time.shards") == "nodes":
        rate = min(rate, v.q("network.fabric") * max(1, v.n_node / (v.e * v.t_e)))
    return (1 - 1 / owners) / rate


@recounts("network.experts.gather")
def _(v: View) -> float:
    where = v.on("time.expert_tensor")
    if where == "none" or v.on("parallelism.dispatcher") == "all-gather":
        return 0
    rows = v.s * v.b / v.c / v.t * v.k * v.q("network.experts.uneven")
    lacks = rows * v.h * (v.k_disp + v.k_comb) / 2 * (v.t_e - 1)
    if where == "node":
        return lacks / v.q("network.link") + (v.t_e - 1) * v.a_link
    nodes = v.t_e / v.n_node
    rate = min(v.q("network.link"), v.q("network.fabric") * v.n_node)
    return lacks / rate + (nodes - 1) * v.a_net + (v.t_e - nodes) * v.a_link


@recounts("network.experts.wait")
def _(v: View) -> float:
    fixed = v.on("training.cuda_graphs") == "full" or v.on("block.capped")
    return 0 if fixed else v.a_disp


@recounts("network.experts")
def _(v: View) -> float:
    where, dispatcher = v.on("time.expert"), v.on("parallelism.dispatcher")
    tokens, row = v.s * v.b / v.c / v.t, v.h * (v.k_disp + v.k_comb) / 2
    link, card, nodes = v.q("network.link"), v.q("network.fabric"), v.e * v.t_e / v.n_node
    if (where == "none" and dispatcher != "all-gather") or v.e * v.t_e == 1:
        return 0
    wait = v.q("network.experts.wait")
    if dispatcher == "all-gather":
        others = v.e * v.t_e - 1
        if v.on("time.gathering") == "node":
            return others * (tokens * row / link + v.a_link) + wait
        moved = others * tokens * row / min(link, card * v.n_node)
        between = nodes - 1
        return moved + between * v.a_net + (others - between) * v.a_link + wait
    tokens *= v.q("network.experts.uneven")

    def reached(places: float) -> float:
        """In how many places a token has an expert: k draws from those that it reaches."""
        return places * (1 - ((places - 1) / places) ** v.k)

    once = dispatcher in ("deepep", "hybridep")
    copies, share = v.k, v.e_a2a
    if once:
        copies, share = reached(v.q("network.reach.devices")), v.e_kl / v.e_link
    inside = tokens * row * copies * (v.e - 1) / v.e / link / share
    inside += tokens * copies * v.a_row if once else 0
    if v.on("time.torus") and not once:
        busiest = max(v.q(f"network.experts.cut.{axis}") for axis in "xyz")
        inside = tokens * row * v.k * busiest / (link / (2 * v.n_ax))
    if where == "node":
        return inside + wait
    away = tokens * row * (nodes - 1) / nodes * v.q("network.experts.crowded")
    if not once:
        return max(inside, away * v.k / card) + wait
    return max(inside, away * reached(v.q("network.reach.nodes")) / v.B_net / v.e_disp) + wait


def busiest_link(members: int, ring: bool) -> float:
    """Each of so many devices in a row sends one part to each of them: parts over one link."""
    load = [0.0] * members
    for here in range(members):
        for there in range(members):
            ahead = (there - here) % members
            if (not ring and there > here) or (ring and 0 < 2 * ahead < members):
                for hop in range(here, here + ahead):
                    load[hop % members] += 1 / members
            elif ring and 2 * ahead == members:  # as far both ways: half of it each
                for hop in range(here, here + ahead):
                    load[hop % members] += 0.5 / members
    return max(load)


for _axis in "xyz":

    @recounts(f"network.experts.cut.{_axis}")
    def _(v: View, axis: str = _axis) -> float:
        sides = [int(side) for side in (v.n_X, v.n_Y, v.n_Z)]
        this = "xyz".index(axis)
        places = range(0, int(v.t_e * v.e), int(v.t_e))
        members = len({place // math.prod(sides[:this]) % sides[this] for place in places})
        return 0 if members == 1 else busiest_link(members, members == sides[this])


@recounts("network.experts.crowded")
def _(v: View) -> float:
    """Of the other nodes those outside the pod are slower to reach."""
    nodes, pod = v.e * v.t_e / v.n_node, v.n_pod / v.n_node
    return max(1, v.o_net * max(0, nodes - pod) / (nodes - 1))


@recounts("network.context")
def _(v: View) -> float:
    heads = max(1, v.a_kv / v.t)
    size = v.s * v.b / v.c * heads * (v.d_h + v.d_v) * v.k_a
    link = v.q("network.link") * v.q("network.links.next")
    if v.on("time.context") == "node":
        return size / link + v.a_link
    return size / min(link, v.q("network.fabric")) + v.a_net


@recounts("network.pipeline")
def _(v: View) -> float:
    where = v.on("time.pipeline")
    if where == "none":
        return 0
    size = v.s * v.b / v.c * v.h * v.k_a / v.t
    near = size / v.q("network.link") / v.q("network.links.next") + v.a_link
    far = size / v.q("network.fabric") + v.a_net
    away = 0.0 if where == "node" else min(1, v.n / v.p / v.n_node)
    return away * far + (1 - away) * near


# -- one layer ---------------------------------------------------------------------------------

MIXERS = ("mamba", "delta_net", "short_conv", "recurrence", "rwkv", "lightning")


@recounts("time.elementwise.bytes")
def _(v: View) -> float:
    block = v.on("block")
    n = v.s * v.b / v.c
    stream = n * v.h / (v.t if v.on("parallelism.sequence") else 1)
    if block == "norm":
        # Where a condition scales it: read, scaled, shifted; and what follows is read and weighed.
        return stream * (v.k_a + v.k_a) * (3 if v.on("block.scaled") else 1)
    if block in ("positions", "pooler", "classifier", "stream"):
        return 0
    if block == "projection":
        return stream * 4 * v.k_a
    if block == "learned":
        return n * v.h * (v.k_a + v.k_a + v.k_a)
    if block == "matrix":
        return n * v.n_mat * (v.k_a * 2 * v.w_in + v.k_a * 2 * v.w_out)
    if block == "embedding":
        return n * v.h * v.k_a * v.n_emb
    if block == "head":
        logits = n * v.q("layout.vocabulary") / v.t
        fused = v.on("training.loss") in ("fused", "chunked")
        return logits * (4 * v.k_a if fused else v.k_a + 12)
    if block == "altup":
        # Read for the router, read, predicted, written, read, repeated, scaled, written.
        return 8 * n * (v.n_alt * v.h) * v.k_a
    if block == "hyper":
        # Twice: read for the norm, read for the mix; read, spread, and the sums written.
        return 2 * (2 + 3) * n * (v.n_hyp * v.h) * v.k_a
    if block == "laurel":
        return n * v.h * v.k_a * (2 + 3)
    # Two read, one written, and a mask of a byte.
    residual = stream * (v.k_a + v.k_a + v.k_a + v.p_drop)
    if block == "attention":
        # Queries and keys in two halves of 4 bytes, each read twice and written once; of latent
        # ones a part of each query and one key, and then keys and values of all heads are copied.
        if v.on("latent"):
            copied = n * v.a * (v.d_h + v.d_v) / v.t * v.k_a * 2
            return residual + v.p_rope * n * (v.a + 1) * v.d_r / v.t * 4 * 6 + copied
        turned = n * (v.a + v.a_kv) * v.d_h / v.t * 4 * 6
        return residual + v.p_rope * turned
    if block == "mlp":
        if v.on("block.lone"):
            return residual + n * (v.f + v.h) / v.t * v.k_a
        read = 2 + v.n_gates if v.on("block.gated") else 1
        return residual + n * v.f / v.t * v.k_a * (read + 1)
    if block == "moe":
        apart = v.on("training.expert_kernels") != "fused"
        activated = v.q("layout.routed") * v.f_e / v.t_e * apart + n * v.f_s / v.t
        biased = sum(1 for x in v.below("product", split="experts") if x.on("bias"))
        added = biased * v.q("layout.routed") * v.h * (v.on("training.expert_kernels") == "loop")
        return residual + (3 * activated + v.q("time.permutation") + 3 * added) * v.k_a
    if block == "per_layer_embedding":
        return residual + n * v.k_a * (2 * v.h + 5 * v.h_p)
    assert block in MIXERS
    return residual + v.n_mix * n * (2 * v.h) * v.k_a / v.t


@recounts("time.permutation")
def _(v: View) -> float:
    fused, dispatcher = v.on("training.permute_fusion"), v.on("parallelism.dispatcher")
    own, rows = v.s * v.b / v.c / v.t * v.h, v.q("layout.routed") * v.h
    if dispatcher == "all-gather":
        # Read and copied; read and written once each into all gathered tokens, or zeros first.
        return 2 * rows + (rows + own * v.e * v.t_e if fused else 3 * rows + own * v.e * v.t_e)
    if dispatcher == "all-to-all":
        there, sorted_, back = own + rows, 2 * rows, rows + own
        return there + 2 * sorted_ + back if fused else 2 * rows + 2 * sorted_ + 3 * rows + own
    places = v.q("network.reach.devices")
    come = own * v.t_e * places * (1 - (1 - 1 / places) ** v.k) * v.q("network.experts.uneven")
    return (come + rows) + (rows + come) if fused else 2 * rows + 3 * rows + come


def beside_work(v: View) -> bool:
    """Whether tokens travel to experts beside the work on another micro-batch."""
    return bool(v.on("time.experts_beside")) or v.on("training.schedule").startswith("dualpipe")


@recounts("time.exchange")
def _(v: View) -> float:
    if v.on("block") == "moe":
        if beside_work(v):
            return 0
        return 2 * v.q("network.experts") + 2 * v.q("network.experts.gather")
    whole = v.q("time.exchanges") * v.q("network.tensor")
    if not v.on("time.tensor_overlap"):
        return whole
    beside = v.total("product", lambda x: x.q("time.product.forward"))
    hidden = min(beside, whole / v.t * (v.t - 1))  # one of t pieces has nothing beside it
    return whole - hidden + v.c_ov * hidden


@recounts("time.exchange.again")
def _(v: View) -> float:
    if not (v.on("time.inputs_again") and v.on("parallelism.sequence")):
        return 0
    gathered = v.q("time.exchanges") * v.q("network.tensor") * 0.5
    hidden = min(gathered, v.total("product", lambda x: x.q("time.product.input")))
    return gathered - hidden + v.c_ov * hidden


@recounts("time.part.forward")
def _(v: View) -> float:
    return (
        v.total("product", lambda x: x.q("time.product.forward") + x.q("time.product.adapter"))
        + v.total(
            "block",
            lambda x: x.q("time.core.forward") + x.q("time.core.context"),
            block="attention",
        )
        + v.total("block", lambda x: x.q("time.elementwise") + x.q("time.exchange"))
    )


@recounts("time.part.backward")
def _(v: View) -> float:
    if v.on("fixed"):
        return 0
    return (
        v.total("product", lambda x: x.q("time.product.backward") + x.q("time.product.casts"))
        + v.total("product", lambda x: x.q("time.product.adapter_backward"))
        + v.total(
            "block",
            lambda x: x.q("time.core.backward") + x.q("time.core.context_backward"),
            block="attention",
        )
        + v.total("block", lambda x: x.q("time.elementwise")) * v.q_back
        + v.total("block", lambda x: x.q("time.exchange") + x.q("time.exchange.again"))
    )


@recounts("time.part.repeated")
def _(v: View) -> float:
    mode = v.on("training.recompute")
    if mode == "none" or (mode == "full" and not v.on("layers")):
        return 0
    if mode == "full":
        spared = v.total("product", lambda x: x.q("time.product.forward"), final=True)
        return v.q("time.part.forward") - v.on("training.early_stop") * spared
    if v.on("time.again.operations"):
        return v.total("product", lambda x: x.q("time.product.forward")) * 0.5 + v.total(
            "block", lambda x: x.q("time.elementwise")
        )
    return v.total("block", lambda x: x.q("time.block.again"))


@recounts("time.part.beside")
def _(v: View) -> float:
    if not beside_work(v):
        return 0
    mode = v.on("training.recompute")
    again = mode == "full" or (mode == "selective" and v.on("time.again.moe"))
    ways = v.total(
        "block", lambda x: x.q("network.experts") + x.q("network.experts.gather"), block="moe"
    )
    return ways * 2 * (3 if again else 2)


@recounts("time.part.passes")
def _(v: View) -> float:
    return sum(v.q(f"time.part.{name}") for name in ("forward", "backward", "repeated"))


@recounts("time.part.device")
def _(v: View) -> float:
    work = v.q("time.part.passes")
    if not beside_work(v):
        return work
    m, travel = v.q("layout.micro_batches"), v.q("time.part.beside")
    beside = travel * (m - 1) / m
    return max(work, beside) + v.f_disp * min(work, beside) + travel / m


@recounts("time.block.expert_launches")
def _(v: View) -> float:
    kernels, each = v.on("training.expert_kernels"), v.E / v.e
    if kernels != "loop":
        return {"grouped": 3, "fused": 2}[kernels]
    biased = sum(1 for x in v.below("product", split="experts") if x.on("bias"))
    return 1 + each * (2 + biased)


@recounts("time.product.cast_launches")
def _(v: View) -> float:
    """Of two inputs two kernels each, over three passes; only one comes to a fused product."""
    if not v.on("time.casts") or v.on("wide"):
        return 0
    kernels = v.on("training.expert_kernels") if v.on("split") == "experts" else ""
    return {"fused": 2, "loop": 4 * v.E / v.e if kernels else 0}.get(kernels, 4) / 3


@recounts("time.part.host")
def _(v: View) -> float:
    if not v.on("layers"):
        return v.n_ends * v.t_la * (v.on("training.cuda_graphs") != "full")
    passes = 1 if v.on("fixed") else 1 + 2 + (v.on("training.recompute") == "full")
    return passes * v.t_la * v.q("time.part.launches")


@recounts("time.part.launches")
def _(v: View) -> float:
    exchanges = v.total("block", lambda x: x.q("time.exchanges"))
    adapters = v.total("product", lambda x: x.q("time.product.adapter_launches"))
    graphs = v.on("training.cuda_graphs")
    experts = v.total(
        "block",
        lambda x: x.q("time.block.dispatch_launches") + x.q("time.block.expert_launches"),
        block="moe",
    )
    casts = {
        name: v.total("product", lambda x: x.q("time.product.cast_launches"), **where)
        for name, where in (("all", {}), ("experts", {"split": "experts"}))
    }
    if graphs != "none":
        return 0 if graphs == "full" else 2 + experts + casts["experts"]
    routers = 8 * sum(1 for _ in v.below("block", block="moe"))
    own = v.n_la + exchanges * (v.t - 1) / 2 + (v.c - 1) * v.n_ring + adapters / (1 + 2)
    return own + routers + experts + casts["all"]


@recounts("time.part.gathers")
def _(v: View) -> float:
    if v.on("parallelism.zero") < 3:
        return 0
    ways = 2 if v.on("parallelism.reshard") else 1  # weights forward, and backward once more
    weights = v.total("component", lambda x: stored(x, v.k_gat) * x.q("network.passed"))
    if v.on("fixed"):
        return weights + v.q("network.data_hops")
    trained = v.total("component", lambda x: x.q("parameters.trained") * x.q("network.passed"))
    return ways * weights + v.k_red * trained + (ways + 1) * v.q("network.data_hops")


def stored(v: View, size: float) -> float:
    """Bytes of a component's weights where they are gathered in so many bytes each: beside adapters
    the frozen ones go as they are stored, two bytes each, or what their format packs them into."""
    if not v.on("lora"):
        return size * v.q("parameters.device")
    packed = {"bf16": 2, "int8": 1, "nf4": 0.5 + 4 / 64, "nf4-double": 0.5 + 1 / 64 + 4 / 16384}
    each = packed[v.on("training.lora.base")] if v.on("hidden matrix") else v.k_a
    return size * v.q("parameters.trained") + each * v.q("parameters.device")


def launched(v: View) -> tuple[float, float]:
    """Host time of the launches of a layer's forward and of its backward pass."""
    if v.on("fixed"):
        return v.q("time.part.host"), 0
    again = v.on("layers") and v.on("training.recompute") == "full"
    passes = 4 if again else 3
    each = v.q("time.part.host") / passes
    return each, (passes - 1) * each


@recounts("time.part.busy.forward")
def _(v: View) -> float:
    return max(paired(v) * v.q("time.part.forward"), launched(v)[0])


@recounts("time.part.busy.backward")
def _(v: View) -> float:
    behind = v.q("time.part.backward") + v.q("time.part.repeated")
    return max(paired(v) * behind, launched(v)[1])


@recounts("time.part.busy.kept")
def _(v: View) -> float:
    """Nothing is computed again: twice the launches of a forward pass."""
    if v.on("fixed"):
        return 0.0
    return max(paired(v) * v.q("time.part.backward"), 2 * launched(v)[0])


@recounts("time.part.busy.weights")
def _(v: View) -> float:
    """What the backward pass takes longer than without gradients of weights, whose launches are as
    many as a forward pass has."""
    if v.on("lora") or v.on("fixed"):
        return 0.0
    behind = v.q("time.part.backward") + v.q("time.part.repeated")
    forward, backward = launched(v)
    rest = max(paired(v) * (behind - v.q("time.part.weights")), backward - forward)
    return max(paired(v) * behind, backward) - rest


def paired(v: View) -> float:
    """How much longer than its passes the device takes where exchanges travel beside them."""
    return v.q("time.part.device") / v.q("time.part.passes") if beside_work(v) else 1.0


@recounts("time.part.busy")
def _(v: View) -> float:
    return v.q("time.part.busy.forward") + v.q("time.part.busy.backward")


def shown_ways(v: View, *passes: str) -> float:
    """What passes leave to be seen of the way of activations to the host and back."""
    if not v.on("time.offload"):
        return 0
    way = v.f_off * v.q("memory.activations.part") / v.B_host
    return sum(max(0, way - v.q(each)) for each in passes)


@recounts("time.part.offload")
def _(v: View) -> float:
    return shown_ways(v, "time.part.busy.forward", "time.part.busy.backward")


def beside_gathers(v: View, busy: float) -> float:
    """Seconds of a layer that is at work so long, and of the gathers that it does not hide."""
    hidden = min(v.q("time.part.gathers"), busy)
    return busy + v.q("time.part.gathers") - hidden + v.c_ov * hidden


@recounts("time.part")
def _(v: View) -> float:
    return beside_gathers(v, v.q("time.part.busy")) + v.q("time.part.offload")


@recounts("time.part.kept")
def _(v: View) -> float:
    passes = ("time.part.busy.forward", "time.part.busy.kept")
    return beside_gathers(v, sum(map(v.q, passes))) + shown_ways(v, *passes)


# -- products ----------------------------------------------------------------------------------


def padded(v: View, width: float) -> float:
    """As wide as it runs: odd widths slowly, or filled up to the next 8 or 64; whole arrays."""
    if v.on("time.systolic"):
        return math.ceil(width / v.n_mxu) * v.n_mxu
    return min(
        width * v.k_64 * v.k_8, math.ceil(width / 8) * 8 * v.k_64, math.ceil(width / 64) * 64
    )


@recounts("time.product.columns")
def _(v: View) -> float:
    return padded(v, v.N_x)


@recounts("time.product.depth")
def _(v: View) -> float:
    return padded(v, v.K_x)


@recounts("time.product.rows_summed")
def _(v: View) -> float:
    return padded(v, v.q("time.product.rows"))


@recounts("time.product.half")
def _(v: View) -> float:
    if not v.on("time.tiles"):
        return v.d_min
    return v.d_min * (v.q("time.product.rate") / v.n_sm) / 1e12  # TFLOP/s of one multiprocessor


def wasted(v: View, rows: float, columns: float, depth: float, count: float, half: float) -> float:
    """Work of whole tiles on whole waves of multiprocessors over what is needed: the best way."""
    if not v.on("time.tiles"):
        return 1
    assert not v.on("time.systolic")
    needed = rows * columns
    ways = []
    for high, wide, pieces in (
        (128, 256, 1), (256, 128, 1), (128, 128, 1), (128, 128, 2), (128, 128, 4),
    ):  # fmt: skip
        tiles = math.ceil(rows / high) * math.ceil(columns / wide) * count * pieces
        waves = math.ceil(round(tiles / v.n_sm, 9))
        work = waves * v.n_sm * high * wide / (needed * count * pieces)
        small = v.k_128 if high == wide else 1
        ways.append(work * small * (depth + pieces * half) / (depth + half))
    return min(ways)


def cut(v: View) -> tuple[float, float]:
    """Products in one kernel, and the depth at which they run at half of their rate."""
    return v.q("time.product.count"), v.q("time.product.half")


def cut_by_experts(v: View) -> float:
    """Of experts' rows on each program of the device, one tile more for each end within them."""
    if not v.on("time.systolic") or v.on("split") != "experts":
        return 1
    count = v.q("time.product.count")
    tiles = v.q("time.product.rows") * count / v.n_prog / 128
    return (tiles + count - 1) / tiles


def taken(v: View, run: tuple[float, ...], plain: tuple[float, ...], waste: float) -> float:
    """Arithmetic at the rate that the depth allows, or the traffic of three matrices."""
    count, half = v.q("time.product.count"), v.q("time.product.half")
    rows, columns, depth = run
    flops = 2 * rows * columns * (depth + half) * count * waste * cut_by_experts(v)
    m, n, k = plain
    moved = (m * k + k * n + m * n) * count * v.k_x
    return max(flops / v.q("time.product.rate"), moved / (v.W * v.e_mem))


def shapes(v: View) -> tuple[float, float, float, float]:
    return (
        v.q("time.product.rows"), v.q("time.product.columns"),
        v.q("time.product.depth"), v.q("time.product.rows_summed"),
    )  # fmt: skip


@recounts("time.product.forward")
def _(v: View) -> float:
    m, n, k, _ = shapes(v)
    return taken(v, (m, n, k), (m, v.N_x, v.K_x), wasted(v, m, n, k, *cut(v)))


@recounts("time.product.input")
def _(v: View) -> float:
    m, n, k, _ = shapes(v)
    return taken(v, (m, k, n), (m, v.K_x, v.N_x), wasted(v, m, k, n, *cut(v)))


@recounts("time.product.weight")
def _(v: View) -> float:
    m, n, k, summed = shapes(v)
    return taken(v, (k, n, summed), (v.K_x, v.N_x, m), wasted(v, k, n, summed, *cut(v)))


@recounts("time.product.rate")
def _(v: View) -> float:
    grouped = v.q_grp if v.on("split") == "experts" else 1
    return grouped * (v.e_16 * v.q("time.peak_16") if v.on("wide") else v.e_mm * v.q("time.peak"))


@recounts("time.orthogonal")
def _(v: View) -> float:
    """Whole matrices, of which each device that shares them does its part, one at least."""
    if v.on("training.optimizer") not in ("muon", "soap"):
        return 0
    sharded = v.on("parallelism.zero") > 0

    def done(x: View) -> float:
        each = x.q("time.orthogonal.matrices") * x.q("time.orthogonal.matrix")
        return each / (x.q("layout.shards") if sharded else 1)

    found = View(v.evaluation, {}).below("component", matrix=True)
    one = max(x.q("time.orthogonal.matrix") for x in found)
    return max(fullest(v, done, matrix=True), one if sharded else 0)


@recounts("time.product.casts")
def _(v: View) -> float:
    """What is read and written, in bytes over the memory's rate."""
    count = v.q("time.product.count")
    if v.on("quantised"):
        if not v.on("hidden matrix"):
            return 0
        runs = 3 if v.on("training.recompute") == "full" else 2
        unpacked = v.q("memory.weights.frozen_bytes") + v.k_c
        moved = runs * unpacked * v.N_x * v.K_x
    elif not v.on("time.casts") or v.on("wide"):
        return 0
    else:  # of 2 bytes, into a copy for each further product, for inputs and gradients of outputs
        copies = 1 if v.on("lora") else 2
        cast = v.q("time.product.cast_width")
        moved = (2 * v.n_cast + copies * v.k_x) * v.q("time.product.rows") * cast
    return count * moved / (v.W * v.e_mem)


@recounts("memory.gradients.live")
def _(v: View) -> float:
    """Of the micro-batches before all of them; of the first those whose layers are done."""
    phase, whole = v.on("phase"), v.q("memory.gradients.stage")
    if phase == "serving":
        return 0
    if v.on("gradients") == "persistent" or phase == "step":
        return whole
    before = whole if v.q("layout.micro_batches") > 1 else 0
    sharded = v.on("parallelism.zero") == 3
    if phase == "loss" or (phase == "backward" and sharded):
        return before
    if phase == "gradients" and not sharded:
        return whole

    def of(part: View) -> float:
        return part.total("component", lambda x: x.q("memory.gradients.component"))

    head = sum(on_stage(v, of, part="head"))
    if phase == "backward":
        return max(before, head)
    layers = 0.0
    for part in View(v.evaluation, {}).below("part", layers=True):
        for x in part.below("component"):
            layers += held(v, x, "copies_on_stage") * x.q("memory.gradients.component")
    return max(before, layers if sharded else layers + head)


@recounts("memory.activations.live")
def _(v: View) -> float:
    """Everything at the loss; then layer after layer goes, the last one in full."""
    phase, parts = v.on("phase"), list(View(v.evaluation, {}).below("part"))

    def whole(part: View) -> float:
        return part.q("memory.activations.whole")

    table = sum(
        held(v, part, "in_flight") * whole(part) for part in parts if part.on("part") == "embedding"
    )
    one = max(on_stage(v, whole, layers=True), default=0)
    if phase == "loss":
        return v.q("memory.activations.stage")
    if phase == "backward":
        again = [part.q("memory.activations.again") for part in parts
                 if held(v, part, "recomputed_in_flight")]  # fmt: skip
        return v.q("memory.activations.layers") + table + max(again, default=0)
    return {"first": one + table, "gradients": table, "serving": one, "step": 0}[phase]


@recounts("memory.buffers.workspace")
def _(v: View) -> float:
    if not v.on("head_workspace"):
        return v.n_ws * v.M_work
    head = sum(on_stage(v, lambda part: 1, part="head"))
    streams = 0
    if v.on("experts"):
        streams = 4 if on_stage(v, lambda part: 1, experts=True) else 0
    return (1 + head + streams) * v.M_work


@recounts("time.block.again")
def _(v: View) -> float:
    block = v.on("block")
    if block == "attention":
        if not v.on("time.again.core_attention"):
            return 0
        return v.q("time.core.forward") + v.q("time.core.context")
    if block == "norm":
        return v.q("time.elementwise") if v.on("time.again.norm") else 0
    if block not in ("mlp", "moe"):
        return 0
    if v.on(f"time.again.{block}"):
        products = v.total("product", lambda x: x.q("time.product.forward"))
        products += v.total("product", lambda x: x.q("time.product.adapter"))
        return products + v.q("time.elementwise") + v.q("time.exchange")
    return v.q("time.elementwise") if v.on("time.again.activation") else 0


@recounts("time.product.bias")
def _(v: View) -> float:
    if not v.on("bias") or v.on("time.bias") == "fused":
        return 0
    values = v.q("time.product.rows") * v.N_x * v.q("time.product.count")
    return values * v.k_a / (v.W * v.e_mem)


# -- sharded states and the update -------------------------------------------------------------


@recounts("parameters.trained")
def _(v: View) -> float:
    if not v.on("lora"):
        return 0 if v.on("fixed") else v.q("parameters.device")
    if not v.on("adapted"):
        return 0
    first, second = v.k_l * v.n_in, v.k_l * v.n_out  # r of inputs, outputs of r
    return first / v.t + second if v.on("split") == "row" else first + second / v.t


@recounts("time.update")
def _(v: View) -> float:
    """Bytes read and written for each parameter, operation by operation."""
    optimizer, kernel = v.on("training.optimizer"), v.on("training.optimizer_kernel")
    weight, state, gradient = v.k_w + v.k_m, v.k_o, v.k_g
    once = weight + weight + v.q("memory.optimizer.each") * 2 + gradient
    one_kernel = kernel == "fused"
    adamw = (
        2 * weight  # decay
        + (2 + 1) * state  # first moment: read, written, and read for the mean
        + (2 + 3) * state  # second moment
        + 6 * state  # root, correction, offset
        + 2 * state + 2 * weight  # step
        + gradient
    )  # fmt: skip
    if optimizer in ("sgd", "adam-8bit"):
        return once
    hidden = v.on("hidden matrix")
    if optimizer == "soap" and v.on("matrix"):
        moments = (2 + 3) + (2 + 2 + 3) + (2 + 2)  # first, second with its square, root and offset
        return (2 + 3) * weight + (moments + 3 + 1) * state + gradient
    if optimizer == "muon" and hidden:
        if one_kernel:
            return once + 3 * v.k_c
        return 4 * weight + 5 * state + 2 * gradient + 5 * v.k_c
    if optimizer == "adafactor":
        if one_kernel:
            return once + gradient
        square, sums, product, scaled, step = 1 + 2, 1 + 1, 1 + 2, 1 + 2 + 2, 2 + 1
        passes = square + sums + product + scaled + step
        return 3 * weight + 2 * v.q("memory.optimizer.each") + passes * state + 2 * gradient
    if one_kernel:
        return once
    if optimizer == "sgd-momentum":
        return (2 + 2 + 1) * state + gradient + 2 * weight
    if optimizer == "lion":
        return 2 * weight + 6 * state + gradient + 2 * state + state + 2 * weight + (
            4 * state + gradient
        )  # fmt: skip
    return adamw


def held_matrix(v: View) -> tuple[float, float]:
    """Rows and columns on a rank, of projections side by side together."""
    return v.q("parameters.device_inputs"), v.q("parameters.device_outputs") * v.n_side


def undivided(v: View) -> tuple[float, float]:
    """The same of the matrix that tensor ranks divide."""
    rows, columns = held_matrix(v)
    split = v.on("split")
    wider = {"column": v.t, "experts": v.t_e}.get(split, 1)
    return rows * (v.t if split == "row" else 1), columns * wider


def spread(v: View) -> str:
    """What a rank does of a matrix, where there are others."""
    alone = v.on("time.tensor") == "none" or v.on("split") == "none"
    return "blockwise" if alone else v.on("training.muon.tensor_mode")


@recounts("time.orthogonal.square")
def _(v: View) -> float:
    mode = spread(v)
    if mode == "distributed":  # the sum over ranks has the side that they all have
        return held_matrix(v)[1 if v.on("split") == "row" else 0]
    return min(undivided(v) if mode == "duplicated" else held_matrix(v))


@recounts("time.orthogonal.size")
def _(v: View) -> float:
    return math.prod(undivided(v) if spread(v) == "duplicated" else held_matrix(v))


@recounts("time.orthogonal.exchange")
def _(v: View) -> float:
    mode = spread(v)
    if mode == "blockwise":
        return 0
    pace = v.q("network.link")
    if v.on("time.tensor") == "nodes":
        pace = min(pace, v.q("network.fabric") * v.n_node)
    whole, own = math.prod(undivided(v)), math.prod(held_matrix(v))
    nodes = v.t / v.n_node if v.on("time.tensor") == "nodes" else 1
    hops = (nodes - 1) * v.a_net + (v.t - nodes) * v.a_link
    if mode == "duplicated":
        return (whole - own) * v.k_o / pace + hops
    side = v.q("time.orthogonal.square")
    return v.n_ns * (2 * (1 - own / whole) * side * side * v.k_c / pace + 2 * hops)


@recounts("time.orthogonal.matrix")
def _(v: View) -> float:
    """Muon: iterations of X X', its square, and their sum times X. SOAP: five products with each
    basis, three more and a decomposition now and then."""
    if v.on("training.optimizer") == "soap":
        rows, columns = held_matrix(v)
        if not v.on("matrix"):
            return 0
        sides = [side for side in (rows, columns) if side <= v.s_basis]
        flops = sum(5 * 2 * rows * columns * side + 3 * 2 * side**3 / v.n_basis for side in sides)
        decomposed = sum(8 * side**3 / 3 for side in sides) / v.n_basis
        return flops / (v.e_16 * v.P_32) + decomposed / (v.e_qr * v.P_32)
    if not v.on("hidden matrix"):
        return 0
    share = 0.5 if v.on("training.muon.symmetric") else 1
    squares = v.q("time.orthogonal.gram") + v.q("time.orthogonal.squared")
    each = share * squares + v.q("time.orthogonal.applied")
    return v.n_ns * each + v.q("time.orthogonal.exchange")


def shape_of(v: View, name: str) -> tuple[float, float, float]:
    m = v.q("time.orthogonal.square")
    n = v.q("time.orthogonal.size") / m
    return {"gram": (m, m, n), "squared": (m, m, m), "applied": (m, n, m)}[name]


for _name in ("gram", "squared", "applied"):

    @recounts(f"time.orthogonal.{_name}_waste")
    def _(v: View, name: str = _name) -> float:
        return wasted(v, *shape_of(v, name), 1, v.q("time.core.half"))

    @recounts(f"time.orthogonal.{_name}")
    def _(v: View, name: str = _name) -> float:
        m, n, k = shape_of(v, name)
        flops = 2 * m * n * (k + v.q("time.core.half")) * v.q(f"time.orthogonal.{name}_waste")
        moved = (m * k + k * n + m * n) * v.k_c
        return max(flops / (v.e_16 * v.q("time.peak_16")), moved / (v.W * v.e_mem))


@recounts("memory.optimizer.basis_rows")
def _(v: View) -> float:
    side = held_matrix(v)[0]
    return side if side <= v.s_basis else 0


@recounts("memory.optimizer.basis_columns")
def _(v: View) -> float:
    side = held_matrix(v)[1]
    return side if side <= v.s_basis else 0


@recounts("time.bubble")
def _(v: View) -> float:
    stage, send, schedule = v.q("time.model") / v.p, v.q("network.pipeline"), (
        v.on("training.schedule")
    )  # fmt: skip
    both = v.q("time.model.backward") / v.p
    late = min(v.q("time.model.weights") / v.p, both / 2)  # what fills the gaps of the rest
    if schedule == "zero-bubble":
        forward, inputs = stage - both, both - late
        return (v.p - 1) * (forward + inputs - late + 2 * send)
    if schedule == "dualpipev":  # half stages, twice as many
        return (v.p - 1) * ((stage + both - 3 * late) / 2 + 2 * send)
    if schedule == "dualpipe":
        return (v.p / 2 - 1) * (stage + both - 3 * late + 2 * send)
    return (v.p - 1) * (stage / v.v + 2 * send)


@recounts("time.buckets")
def _(v: View) -> float:
    resident = v.q("time.parameters")
    if v.on("time.buckets") == "growing":
        return max(1, resident / max(40e6, 1e6 * v.q("network.shards")))
    if v.on("parallelism.zero") < 2:
        return max(1, resident * 2 / (25 * 2**20))
    return max(
        sum(held(stage, part, "layers_on_stage") for part in v.below("part"))
        for stage in v.below("stage")
    )


def held(stage: View, part: View, symbol: str) -> float:
    """What a stage holds of a part."""
    both = {**stage.point, **part.point}
    return float(stage.evaluation.compute(getattr(notation, symbol), both))


@recounts("time.data.reduce")
def _(v: View) -> float:
    stage, m = v.on("parallelism.zero"), passing(v)
    once = v.k_red * v.q("time.ring") + v.q("time.buckets") * v.q("network.data_hops")
    if stage == 0:
        return 2 * v.k_red * v.q("time.ring") + v.q("time.buckets") * v.q("network.reduce_hops")
    found = {1: once, 2: m * once, 3: 0.0}[stage]
    if v.on("time.replicas") != "none":
        found += 2 * (v.r - 1) / v.r * v.k_red * v.q("time.owned") / v.q("network.replicas")
    return found


@recounts("time.data.gather")
def _(v: View) -> float:
    if v.on("parallelism.zero") in (0, 3):
        return 0
    return v.k_gat * v.q("time.ring") + v.q("time.buckets") * v.q("network.data_hops")


@recounts("time.data")
def _(v: View) -> float:
    pieces, chunks = max(1, v.q("time.buckets") / v.v), v.v

    def shown(traffic: float, window: float, turns: float = 1) -> float:
        """As an account of what is sent when: nothing before it is ready, one at a time."""
        if v.on("training.schedule") not in ("interleaved", "own"):
            last = traffic / turns / pieces
            end = max(0, traffic - turns * window * (1 - 1 / pieces) - last) + last
        else:
            each, pace = traffic / chunks, window / chunks * min(v.p, v.q("layout.micro_batches"))
            over = (chunks - 1) * pace
            free = each + max((chunks - 2) * pace, (chunks - 2) * each)
            first_ready = over - (window / chunks) * (pieces - 1) / pieces
            sent = max(free, first_ready) + each
            end = max(sent - over, each / pieces)
        return end + v.c_ov * (traffic - end)

    reduce, gather = v.q("time.data.reduce"), v.q("time.data.gather")
    overlap, backward = v.on("parallelism.data_overlap"), v.q("time.backward")
    if overlap == "none":
        return reduce + gather
    forward = v.q("time.forward")
    if v.on("parallelism.zero") == 2:
        if v.on("training.schedule") == "interleaved":
            return of_whole(v, reduce, backward, passing(v)) + (of_whole(v, gather, forward, 1))
        return shown(reduce, backward, passing(v)) + shown(gather, forward)
    after = shown(gather, forward) if overlap == "all" else gather
    return shown(reduce, backward) + after


def of_whole(v: View, traffic: float, window: float, turns: float) -> float:
    pieces = max(1, v.q("time.buckets") / v.v)
    end = max(traffic - turns * window * (1 - 1 / pieces), traffic / (turns * pieces))
    return end + v.c_ov * (traffic - end)


@recounts("layout.passes")
def passing(v: View) -> float:
    """Of DualPipe's two directions each has layers of its own on every device."""
    ways = 2 if v.on("training.schedule") == "dualpipe" else 1
    return v.q("layout.micro_batches") / ways


@recounts("time.accumulation")
def _(v: View) -> float:
    if v.on("time.accumulation") == "fused":
        return 0
    sharded = v.on("parallelism.zero") >= 2
    parameters = v.q("time.owned") if sharded else v.q("time.parameters")
    each = v.k_c + v.k_g + v.k_g
    return passing(v) * each * parameters / (v.W * v.e_mem)


@recounts("time.step_seconds")
def _(v: View) -> float:
    if v.on("time.assumed"):
        return v.B * v.s / v.q("time.tokens_per_second")
    parts = ("bubble", "accumulation", "data", "tied", "optimizer")
    return v.q("layout.micro_batches") * v.q("time.micro_batch") + sum(
        v.q(f"time.{part}") for part in parts
    )


@recounts("time.model")
def _(v: View) -> float:
    return sum(part.L_k * part.q("time.part") for part in v.below("part"))


@recounts("time.model.backward")
def _(v: View) -> float:
    return sum(
        part.L_k * part.q("time.part")
        * (1 - part.q("time.part.busy.forward") / part.q("time.part.busy"))
        for part in v.below("part")
    )  # fmt: skip


@recounts("time.model.weights")
def _(v: View) -> float:
    return sum(
        part.L_k * part.q("time.part") * part.q("time.part.busy.weights")
        / part.q("time.part.busy")
        for part in v.below("part")
    )  # fmt: skip


@recounts("time.part.weights")
def _(v: View) -> float:
    """What trains no weight has no gradient of one; a frozen product is passed without any."""
    if v.on("lora"):
        return 0.0
    return sum(
        x.q("time.product.weight") + x.q("time.product.bias")
        for x in v.below("product")
        if not x.on("frozen")
    )


@recounts("time.micro_batch")
def _(v: View) -> float:
    """Each chunk of the device gets its input from the stage before, and later its gradient from
    the one after."""
    sent = (v.v + v.v) * v.q("network.pipeline")
    if v.on("parallelism.send_overlap") and v.on("training.schedule") in (
        "interleaved", "dualpipe", "dualpipev", "own",
    ):  # fmt: skip
        sent *= v.c_ov  # beside another chunk's work
    return max(x.q("time.stage") for x in v.below("stage")) + sent


def slowest(v: View, passes: str) -> float:
    """A pass on the first of the slowest stages, layer by layer."""
    stages = v.below("stage")
    pace = max(stages, key=lambda x: x.q("time.stage"))
    return sum(held(pace, x, "layers_on_stage") * x.q(passes) for x in v.below("part"))


@recounts("time.forward")
def _(v: View) -> float:
    return slowest(v, "time.part.busy.forward")


@recounts("time.backward")
def _(v: View) -> float:
    return slowest(v, "time.part.busy.backward")


@recounts("time.elementwise")
def _(v: View) -> float:
    return v.q("time.elementwise.bytes") / (v.W * v.e_mem) * v.k_ew


@recounts("time.product.backward")
def _(v: View) -> float:
    if v.on("frozen"):
        return 0
    found = v.q("time.product.input")
    if not v.on("lora"):
        return found + v.q("time.product.weight") + v.q("time.product.bias")
    return found


@recounts("time.product.narrow")
def _(v: View) -> float:
    if not v.on("adapted"):
        return 0
    rows, rate, half = (v.q(f"time.product.{name}") for name in ("rows", "rate", "half"))
    found = 0.0
    for m, n, k in ((rows, v.k_l, v.K_x), (rows, v.N_x, v.k_l)):
        arithmetic = 2 * m * n * (k + half) / rate
        found += max(arithmetic, v.k_a * (m * k + k * n + m * n) / (v.W * v.e_mem))
    return found


@recounts("time.product.adapter")
def _(v: View) -> float:
    """Dropout: in, out, mask. Apart: scaled (in, out) and added (two in, one out); else one in."""
    if not v.on("adapted"):
        return 0
    apart = v.on("training.lora.kernels") == "separate"
    moved = v.k_a * v.N_x * (2 + 3 if apart else 1) + (v.k_a + v.k_a + 1) * v.K_x * v.p_lora
    return v.q("time.product.narrow") + moved * v.q("time.product.rows") / (v.W * v.e_mem)


@recounts("time.product.adapter_backward")
def _(v: View) -> float:
    if not v.on("adapted"):
        return 0
    apart = v.on("training.lora.kernels") == "separate"
    moved = v.k_a * (2 * v.N_x + 3 * v.K_x if apart else v.K_x)
    moved += (v.k_a + v.k_a + 1) * v.K_x * v.p_lora
    return 2 * v.q("time.product.narrow") + moved * v.q("time.product.rows") / (v.W * v.e_mem)


@recounts("time.product.adapter_launches")
def _(v: View) -> float:
    if not v.on("adapted"):
        return 0
    products, dropouts = 2 + 4, (1 + 1) * v.p_lora
    return products + dropouts + (2 + 2 if v.on("training.lora.kernels") == "separate" else 0)


@recounts("time.orthogonal.flops")
def _(v: View) -> float:
    """Each time X X^T, its square, and both with X, of m rows and n columns."""
    m = v.q("time.orthogonal.square")
    n = v.q("time.orthogonal.size") / m
    half = 2 if v.on("training.muon.symmetric") else 1
    return v.n_ns * 2 * ((m * n * m + m * m * m) / half + m * m * n)


@recounts("time.tokens_per_second")
def _(v: View) -> float:
    if not v.on("time.assumed"):
        return v.B * v.s / v.q("time.step_seconds")
    return v.mfu_assumed * v.n * v.q("time.peak") / v.q("compute.flops_per_token")


# -- serving -----------------------------------------------------------------------------------


@recounts("memory.cache.block")
def _(v: View) -> float:
    sequences = v.b * v.q("layout.micro_batches")
    block = v.on("block")
    if block == "attention":
        found = v.q("memory.cache.index")
        if v.on("latent"):
            return found + sequences * (v.s + v.s_o) * (v.r_kv + v.d_r) * v.k_kv
        tokens = min(v.w, v.s + v.s_o) if v.on("windowed") else v.s + v.s_o
        return found + sequences * tokens * max(1, v.a_kv / v.t) * (v.d_h + v.d_v) * v.k_kv
    if block == "rwkv":
        whole = 2 * v.h  # the token before, of both mixings
        return sequences * v.k_a * (whole + (v.w_rw + v.w_rw + v.w_rw) / v.t)
    window = v.total("component", lambda x: x.n_in * x.n_out, type="conv")
    state = {
        "mamba": lambda: v.m_in * v.n_st,
        "delta_net": lambda: v.a_dv * v.d_dk * v.d_dv,
        "recurrence": lambda: v.w_r,
        "short_conv": lambda: 0,
        "lightning": lambda: v.a_l * v.d_l * v.d_l,
    }[block]()
    return sequences * (state + window) / v.t * v.k_a


@recounts("time.prefill_seconds")
def _(v: View) -> float:
    parts = sum(x.L_k * x.q("time.part.forward") for x in v.below("part", head=False))
    return parts + (v.p - 1) * v.q("network.pipeline")


@recounts("time.prefill_tokens_per_second")
def _(v: View) -> float:
    under_way = min(v.q("layout.micro_batches"), v.p)
    return v.q("layout.data") * under_way * v.b * v.s / v.q("time.prefill_seconds")


@recounts("time.decode.touched")
def _(v: View) -> float:
    """An expert is left out by each of the tokens of all groups, one after another."""
    spared = 1.0
    for _token in range(int(v.b * v.e)):
        spared *= (v.E - v.k) / v.E
    return 1 - spared


@recounts("time.decode.cache")
def _(v: View) -> float:
    whole = v.q("memory.cache.block") / v.q("layout.micro_batches")
    if v.on("block") != "attention":
        return whole
    if v.on("picked"):  # each query reads the index of all tokens, and the tokens picked
        window = v.w if v.on("windowed") and not v.on("latent") else math.inf
        index = v.q("memory.cache.index") / v.q("layout.micro_batches")
        each = (whole - index) / min(window, v.s + v.s_o)
        places = [v.s + i for i in range(int(v.s_o) + 1)]  # in the cache, token by token
        between = list(pairwise(places)) or [(v.s, v.s)]
        picked = [(min(v.k_i, window, i) + min(v.k_i, window, j)) / 2 for i, j in between]
        before = [(i + j) / 2 / (v.s + v.s_o) for i, j in between]
        return (each * sum(picked) + index * sum(before)) / len(between)
    if not v.s_o:
        return whole
    # The tokens in the cache while each of the answer is made, half of the one that is made.
    if v.on("windowed") and not v.on("latent"):
        met = [(min(v.w, v.s + i) + min(v.w, v.s + i + 1)) / 2 for i in range(int(v.s_o))]
        return whole * sum(met) / len(met) / min(v.w, v.s + v.s_o)
    met = [v.s + i + 0.5 for i in range(int(v.s_o))]
    return whole * sum(met) / len(met) / (v.s + v.s_o)


@recounts("memory.cache.index")
def _(v: View) -> float:
    """A key for each token, or for as many as a pool has."""
    each = v.p_i if v.on("block.index_pool") else v.r_c if v.on("block.compress") else 1
    keys = (v.s + v.s_o) // each if v.on("block.index_heads") else 0
    return v.b * v.q("layout.micro_batches") * keys * (v.d_i if keys else 0) * v.k_kv


@recounts("time.decode.stage")
def _(v: View) -> float:
    read, done = v.q("time.decode.bytes"), v.q("time.decode.flops")
    return max(read / v.W / v.e_mem, done / v.q("time.peak") / v.e_mm)


@recounts("time.decode.hop")
def _(v: View) -> float:
    where = v.on("time.tensor")
    if where == "none":
        return 0
    size = v.b * v.h * v.k_a / v.t
    if where == "node":
        return v.a_link + size / v.q("network.link")
    return v.a_net + size / v.q("network.fabric")


@recounts("time.decode.exchange")
def _(v: View) -> float:
    rings = 0.0
    for part in v.below("part"):
        exchanges = part.total("block", lambda x: x.q("time.exchanges"))
        exchanges *= not part.on("tower")
        rings += part.L_k * exchanges * 2 * (v.t - 1) * v.q("time.decode.hop")
        for block in part.below("block", block="moe"):
            once = block.q("time.decode.experts") + block.q("time.decode.gather")
            rings += part.L_k * 2 * once
    return rings


@recounts("time.decode.sends")
def _(v: View) -> float:
    where = v.on("time.pipeline")
    if where == "none":
        return 0
    size = v.b * v.h * v.k_a / v.t
    once = (
        size / v.q("network.link") + v.a_link
        if where == "node"
        else size / v.q("network.fabric") + v.a_net
    )
    return (v.p - 1) * once


@recounts("time.decode_seconds")
def _(v: View) -> float:
    slowest = max(stage.q("time.decode.stage") for stage in v.below("stage"))
    turns = max(1, v.q("layout.micro_batches") / v.p)
    return turns * (v.p * slowest + v.q("time.decode.exchange") + v.q("time.decode.sends"))


@recounts("time.decode_tokens_per_second")
def _(v: View) -> float:
    each = v.b * v.q("layout.micro_batches")
    return each * v.q("layout.data") / v.q("time.decode_seconds")


@recounts("time.latency_seconds")
def _(v: View) -> float:
    return v.q("time.prefill_seconds") + v.s_o * v.q("time.decode_seconds")


@recounts("time.decode.component")
def _(v: View) -> float:
    if v.on("table") or v.on("tower"):
        return 0
    whole = v.q("memory.weights.component")
    return whole * v.q("time.decode.touched") if v.on("routed") else whole


@recounts("time.decode.bytes")
def _(v: View) -> float:
    def of(part: View) -> float:
        cache = part.total("block", lambda x: x.q("time.decode.cache"), remembers=True)
        return cache + part.total("component", lambda x: x.q("time.decode.component"))

    return sum(on_stage(v, of))


@recounts("time.decode.flops")
def _(v: View) -> float:
    def of(part: View) -> float:
        return part.total("component", lambda x: x.q("compute.component"), type="linear")

    return sum(on_stage(v, of, tower=False)) * v.b / v.t


@recounts("cost.million_input_tokens")
def _(v: View) -> float:
    hours = 1e6 / v.q("time.prefill_tokens_per_second") / 3600
    return hours * v.n * v.price


@recounts("cost.million_output_tokens")
def _(v: View) -> float:
    hours = 1e6 / v.q("time.decode_tokens_per_second") / 3600
    return hours * v.n * v.price


# -- attention cores ---------------------------------------------------------------------------


@recounts("time.product.rows")
def _(v: View) -> float:
    n, split = v.s * v.b / v.c, v.on("split")
    if split == "experts":
        return v.q("layout.routed") / (v.E / v.e)
    return n / v.t if split == "none" and v.on("parallelism.sequence") else n


@recounts("layout.routed")
def _(v: View) -> float:
    """Rows of each expert of all groups, on a device that has its share of the tokens."""
    even = v.s * v.b / v.c * v.k / v.E * v.t_e / v.t
    if v.on("block.capped"):
        return v.E * math.ceil(round(even * v.f_cap, 9))
    return v.E * v.gamma * math.ceil(round(even, 9))


def most(v: View) -> tuple[float, float]:
    """Tokens that a key stands for, and keys that a query meets at most by window or indexer."""
    block, name = (lambda key: v.on(f"block.{key}")), name_of(v)
    each, limits = 1.0, [math.inf]
    if name == "compressed_core" or (name == "index_scores" and block("compress")):
        each = v.r_c
    elif name == "index_scores" and block("index_pool"):
        each = v.p_i
    if name == "core" and block("window"):
        limits.append(v.w)
    if block("index_top_k") and name == ("compressed_core" if block("compress") else "core"):
        limits.append(v.k_i)
    return each, min(limits)


def met(v: View, most_keys: float, each: float = 1) -> float:
    """Query by query, the keys whose last token is not after it."""
    if not v.on("block.sees").startswith("past"):
        return min(v.s // each, most_keys)
    return sum(min(query // each, most_keys) for query in range(1, int(v.s) + 1)) / v.s


@recounts("compute.attended_keys")
def _(v: View) -> float:
    if v.on("side") == "decoder":
        return (v.s_dec + 1) / 2
    each, limit = most(v)
    return met(v, limit, each)


@recounts("compute.performed_keys")
def _(v: View) -> float:
    """What the blocks hold that a kernel visits, where these divide the sequence: counted one by
    one."""
    size, sees = int(v.n_blk), v.on("block.sees")
    if v.on("side") == "decoder":
        own = v.s_dec if v.on("training.attention") == "eager" else (v.s_dec + size) / 2
        return min(v.s_dec, own)
    each, limit = most(v)
    if v.on("training.attention") == "eager":
        return v.s // each
    window = name_of(v) == "core" and "window" in sees
    if each > 1 or (v.on("block.index_top_k") and name_of(v) == "core"):
        limit = min(limit, v.s // each)
        half = (size - 1) * limit / v.s / 2 if sees.startswith("past") else 0
        return min(limit, met(v, limit, each) + half)
    if sees == "all":
        return v.s
    if v.s % size:  # the last block is not whole: on average as if it were
        seen = min(v.s, size * (1 + math.ceil((v.w - 1) / size))) if window else v.s
        return min(
            v.s,
            seen + size / 2 * seen / v.s - seen / v.s * seen / 2
            if (sees.startswith("past"))
            else seen,
        )
    blocks = range(int(v.s) // size)
    reach = v.w if window else v.s
    past = sees.startswith("past")
    back = math.ceil((reach - 1) / size)  # blocks before its own that a query sees into
    if not past:
        return min(v.s, size * (back + 1))
    return sum(min(place, back) + 1 for place in blocks) * size / len(blocks)


def name_of(v: View) -> str:
    return next(iter(v.point.values())).name


@recounts("time.core.rate")
def _(v: View) -> float:
    peak, kind = v.q("time.peak_16"), v.on("time.attention")
    if kind == "open":  # 1,024 multiply-adds a clock
        peak = min(peak, 2 * 1024 * v.n_sm * v.f_clk)
    faster = v.q_8 if v.on("training.attention_precision") == "fp8" else 1
    filled = min(1, (v.d_h / 128) ** v.x_head)
    if kind == "unknown" and v.on("time.systolic"):
        filled = (v.d_h + v.d_v) / (padded(v, v.d_h) + padded(v, v.d_v))
    return v.e_att * peak * filled * faster


def batched(v: View, m: float, n: float, k: float) -> float:
    """One product of each head of each sequence."""
    heads, half = v.b * v.a / v.t, v.q("time.core.half")
    n_run, k_run = padded(v, n), padded(v, k)
    waste = 1.0
    if v.on("time.tiles"):
        ways = []
        for high, wide, pieces in (
            (128, 256, 1), (256, 128, 1), (128, 128, 1), (128, 128, 2), (128, 128, 4),
        ):  # fmt: skip
            tiles = math.ceil(m / high) * math.ceil(n_run / wide) * heads * pieces
            work = math.ceil(round(tiles / v.n_sm, 9)) * v.n_sm * high * wide
            shallow = (k_run + pieces * half) / (k_run + half)
            small = v.k_128 if high == wide else 1
            ways.append(work / (m * n_run * heads * pieces) * small * shallow)
        waste = min(ways)
    done = 2 * m * n_run * heads * (k_run + half) * waste / (v.e_16 * v.q("time.peak_16"))
    moved = (m * k + k * n + m * n) * v.k_x * heads
    return max(done, moved / (v.W * v.e_mem))


@recounts("time.core.half")
def _(v: View) -> float:
    rate = v.e_16 * v.q("time.peak_16")
    return v.d_min * (rate / v.n_sm / 1e12 if v.on("time.tiles") else 1)


def elements(v: View) -> float:
    return v.b * v.a / v.t * v.s * v.s / v.c


@recounts("time.core.scores")
def _(v: View) -> float:
    moved = 2 * v.k_a + v.p_drop * (2 * v.k_a + 1)
    return elements(v) * moved / (v.W * v.e_mem)


@recounts("time.core.scores_backward")
def _(v: View) -> float:
    moved = 3 * v.k_a + v.p_drop * (2 * v.k_a + 1)
    return elements(v) * moved / (v.W * v.e_mem)


def scored(v: View, types: tuple[str, ...] = ("core", "index"), **which: Any) -> float:
    """FLOPs of a device: heads are shared, an indexer's tokens where the residual stream is."""
    done, tokens = 0.0, v.s * v.b / v.c
    for x in (x for kind in types for x in v.below("component", type=kind, **which)):
        shared = v.on("parallelism.sequence") or x.on("type") == "core"
        widths = (x.n_in + x.n_out) / (v.t if shared else 1)
        done += 2 * tokens * x.q("compute.performed_keys") * widths
    return done


@recounts("time.core.forward")
def _(v: View) -> float:
    if v.on("training.attention") == "eager":
        q = v.s / v.c
        return batched(v, q, v.s, v.d_h) + batched(v, q, v.d_v, v.s) + v.q("time.core.scores")
    return scored(v) / v.q("time.core.rate")


@recounts("time.core.backward")
def _(v: View) -> float:
    if v.on("training.attention") == "eager":
        q = v.s / v.c
        each = ((q, v.d_h, v.s), (v.s, v.d_h, q), (q, v.s, v.d_v), (v.s, v.d_v, q))
        return sum(batched(v, *shape) for shape in each) + v.q("time.core.scores_backward")
    done = scored(v, ("core",), frozen=False) * 5 / 2
    return done / v.q("time.core.rate") / v.e_back


@recounts("time.core.context")
def _(v: View) -> float:
    if v.on("time.context") == "none":
        return 0
    hop = v.q("network.context")
    if v.on("parallelism.context_exchange") == "gather":
        return (v.c - 1) * hop
    values = v.s * v.b / v.c * v.a / v.t * v.d_v * v.c
    summed = values * (v.k_a + 4 + 4) / (v.W * v.e_mem)
    return (v.c - 1) * max(0, hop - v.q("time.core.forward") / v.c) + summed


@recounts("time.core.context_backward")
def _(v: View) -> float:
    if v.on("time.context") == "none":
        return 0
    hop = v.q("network.context")
    if v.on("parallelism.context_exchange") == "gather":
        return 2 * (v.c - 1) * hop
    values = v.s * v.b / v.c * (v.a * v.d_h + v.a_kv * v.d_h + v.a_kv * v.d_v) / v.t * v.c
    summed = 3 * values * v.k_a / (v.W * v.e_mem)
    shown = max(0, 2 * hop - v.q("time.core.backward") / v.c)
    return (v.c - 1) * shown + hop + summed


# -- memory ------------------------------------------------------------------------------------


@recounts("memory.activations.part")
def _(v: View) -> float:
    mode = v.on("training.recompute")
    if mode == "full":
        ranks = v.q("memory.activations.input_ranks")
        streams = v.total("block", lambda x: x.n_alt, block="altup")
        streams = streams + v.total("block", lambda x: x.n_hyp, block="hyper") or 1
        return v.k_a * v.s * v.b / v.c * v.h * streams / ranks
    kept = v.total("tensor", lambda x: x.q("memory.tensor"), moment="kept")
    if mode == "none":
        return kept
    return sum(
        x.q("memory.tensor") for x in v.below("tensor", moment="kept") if x.on("recomputed") == "no"
    )


@recounts("memory.tensor")
def _(v: View) -> float:
    return v.rows_j * v.width_j / v.ranks_j * v.bytes_j


@recounts("memory.communicators")
def _(v: View) -> float:
    groups = sum(size > 1 for size in (v.n, v.q("layout.data"), v.t, v.c, v.e))
    return v.M_com * (groups + (v.n_pc if v.p > 1 else 0))


@recounts("memory.allocator")
def _(v: View) -> float:
    if not v.on("model.shape"):
        return 0
    total = v.q("memory.total")
    if v.on("training.mode") == "inference":
        return math.ceil(round(v.f_all * total, 6))
    blocks = max(stage.q("memory.blocks") for stage in v.below("stage"))
    return math.ceil(round(blocks + v.f_all * total - total, 4))


@recounts("memory.total")
def _(v: View) -> float:
    served = v.on("training.mode") == "inference"
    parts = ("cache",) if served else ("gradients", "optimizer")
    if not v.on("model.shape"):
        return math.ceil(sum(v.q(f"memory.{part}") for part in ("weights", *parts)))
    return math.ceil(
        sum(v.q(f"memory.{part}") for part in ("weights", *parts, "activations", "buffers"))
    )


@recounts("memory.live")
def _(v: View) -> float:
    states = ("weights", "optimizer") if v.on("training.mode") == "train" else ("weights", "cache")
    phases = ["memory.activations.live", "memory.buffers.live"]
    if v.on("training.mode") == "train":
        phases.append("memory.gradients.live")
    return sum(v.q(f"memory.{state}.stage") for state in states) + sum(map(v.q, phases))


@recounts("memory.buffers.live")
def _(v: View) -> float:
    kinds = {
        "loss": ("loss", "gathered"),
        "backward": ("layer", "gathered", "unpacked", "reduced"),
        "first": ("layer", "gathered", "unpacked", "reduced"),
        "gradients": ("gathered", "reduced"),
        "step": ("step",),
        "serving": (),
    }
    return sum(v.q(f"memory.buffers.{kind}") for kind in (*kinds[v.on("phase")], "constant"))


@recounts("memory.buffers.constant")
def _(v: View) -> float:
    kinds = ("dummies", "quantized", "buckets", "live_parameters", "workspace")
    return sum(v.q(f"memory.buffers.{kind}") for kind in kinds) + v.M_oth


@recounts("checkpoint.bytes")
def _(v: View) -> float:
    if not v.on("lora"):
        each = v.k_w + v.k_m + v.q("memory.optimizer.per_parameter")
        if v.on("towers") != "frozen":
            return v.q("parameters.total") * each
        return sum(
            part.L_k * x.q("parameters.component")
            * (v.k_w + (0 if part.on("fixed") else v.k_m + x.q("memory.optimizer.each")))
            for part in v.below("part") for x in part.below("component")
        )  # fmt: skip
    adapters = 0.0
    for part in v.below("part"):
        for x in part.below("component", adapted=True):
            pair = x.k_l * x.n_in + x.k_l * x.n_out
            each = x.k_w + x.k_m + x.q("memory.optimizer.each")
            adapters += part.L_k * x.copies * pair * each
    merged = v.on("training.lora.checkpoint") == "merged"
    return adapters + (v.q("parameters.total") * v.k_a if merged else 0)


# -- states of a component ---------------------------------------------------------------------


@recounts("parameters.component")
def _(v: View) -> float:
    """Each weight and bias of a copy."""
    kind, biases = v.on("type"), v.n_out if v.on("bias") else 0
    if v.on("shared"):
        return biases
    if kind in ("core", "index", "scan"):
        return 0
    if kind in ("norm", "vector"):
        return v.copies * (v.n_out + biases)
    weights = v.n_in * v.n_out + (biases if kind != "table" else 0)
    return weights * (v.copies if kind == "linear" else 1)


@recounts("memory.activations.stage")
def _(v: View) -> float:
    """Layers, and what embedding and head keep of each micro-batch in flight."""
    ends = sum(
        held(v, part, "in_flight") * part.q("memory.activations.whole")
        for part in View(v.evaluation, {}).below("part", layers=False)
    )
    return v.q("memory.activations.layers") + ends


@recounts("memory.activations.layers")
def _(v: View) -> float:
    found = 0.0
    for part in View(v.evaluation, {}).below("part", layers=True):
        alive, again = (held(v, part, f"{kind}in_flight") for kind in ("", "recomputed_"))
        found += again * part.q("memory.activations.part")
        found += (alive - again) * part.q("memory.activations.whole")
    if not v.on("time.offload"):
        return found
    there = [part.q("memory.activations.part") for part in View(v.evaluation, {}).below(
        "part", layers=True) if held(v, part, "layers_on_stage")]  # fmt: skip
    away = found * v.f_off
    return found - away + min(away, max(there, default=0))


@recounts("parameters.device")
def _(v: View) -> float:
    """What a tensor or expert rank holds of a matrix, in whole rows or columns of it."""
    whole, split = v.q("parameters.component"), v.on("split")
    if split == "none":
        return whole
    if split == "experts":
        return whole / v.e / v.t_e
    if split == "vocabulary":
        padded_rows = math.ceil(v.V / (v.g_V * v.t)) * v.g_V  # of one rank
        if v.on("shared"):
            return 0 if v.on("again") else v.n_in * v.n_out / v.V * padded_rows
        return whole / v.V * padded_rows
    bias = v.copies * v.n_out if split == "row" and v.on("bias") else 0
    return (whole - bias) / v.t + bias


@recounts("parameters.device_inputs")
def _(v: View) -> float:
    split = v.on("split")
    if split == "experts":
        return v.n_in if v.n_out == v.f_e else v.n_out
    if split == "vocabulary" and v.on("type") == "table":
        return v.q("layout.vocabulary") / v.t
    return v.n_in / v.t if split == "row" else v.n_in


@recounts("parameters.device_outputs")
def _(v: View) -> float:
    split = v.on("split")
    if split == "experts":
        return v.f_e / v.t_e
    if split == "vocabulary" and v.on("type") == "linear":
        return v.q("layout.vocabulary") / v.t
    return v.n_out / v.t if split == "column" else v.n_out


@recounts("memory.optimizer.each")
def _(v: View) -> float:
    """State bytes of one parameter, by the shapes that the states have."""
    name, state = v.on("training.optimizer"), v.k_o
    if name == "adam-8bit":
        return 2 + 2 * 4 / 256
    if name not in ("adafactor", "muon", "soap"):
        return {"adamw": 2, "sgd": 0, "sgd-momentum": 1, "lion": 1}[name] * state
    if name == "soap":
        rows, columns = held_matrix(v)
        sides = [side for side in (rows, columns) if side <= v.s_basis]
        squares = sum(2 * 4 * side * side for side in sides) if v.on("matrix") else 0
        values = v.q("parameters.device_inputs") * v.q("parameters.device_outputs")
        held = (values + v.q("parameters.device_biases")) * v.n_side if squares else 1
        return 2 * state + squares / held
    if not v.on("matrix" if name == "adafactor" else "hidden matrix"):
        return state if name == "adafactor" else 2 * state
    rows, columns = v.q("parameters.device_inputs"), v.q("parameters.device_outputs")
    biases = v.q("parameters.device_biases")
    kept = rows + columns + biases if name == "adafactor" else rows * columns + 2 * biases
    return kept * state / (rows * columns + biases)


@recounts("memory.optimizer.component")
def _(v: View) -> float:
    if v.on("training.offload.optimizer"):
        return 0
    each = v.k_m + v.k_G + v.q("memory.optimizer.each")
    shares = v.q("layout.shards") if v.on("parallelism.zero") else 1
    return v.q("parameters.trained") * each / shares


@recounts("memory.gradients.component")
def _(v: View) -> float:
    shares = v.q("layout.shards") if v.on("parallelism.zero") >= 2 else 1
    return v.q("parameters.trained") * v.k_g / shares


@recounts("memory.weights.component")
def _(v: View) -> float:
    whole = v.q("parameters.trained") * v.k_w + v.q("memory.weights.frozen")
    return whole / v.q("layout.shards") if v.on("parallelism.zero") == 3 else whole


@recounts("layout.shards")
def _(v: View) -> float:
    """Of all devices of a stage and replica those that hold the same."""
    stage = v.n / v.p / v.r
    return stage / (v.e * v.t_e) if v.on("split") == "experts" else stage / v.t


# -- stages ------------------------------------------------------------------------------------


def on_stage(stage: View, of: Callable[[View], float], **settings: Any) -> list[float]:
    """What the parts of a stage come to, as often as it holds them."""
    whole = View(stage.evaluation, {})
    found = []
    for part in whole.below("part", **settings):
        count = held(stage, part, "layers_on_stage")
        found += [of(part)] * round(count)
    return found


def fullest(v: View, of: Callable[[View], float], **settings: Any) -> float:
    """The stage on which some components come to most."""
    whole = View(v.evaluation, {})
    return max(
        sum(held(stage, x, "copies_on_stage") * of(x) for x in whole.below("component", **settings))
        for stage in whole.below("stage")
    )


@recounts("time.owned")
def _(v: View) -> float:
    return fullest(v, lambda x: x.q("parameters.trained") / x.q("layout.shards"))


@recounts("time.parameters")
def _(v: View) -> float:
    return fullest(v, lambda x: x.q("parameters.trained"))


@recounts("time.ring")
def _(v: View) -> float:
    return fullest(v, lambda x: x.q("parameters.trained") * x.q("network.passed"))


@recounts("time.optimizer")
def _(v: View) -> float:
    sharded = v.on("parallelism.zero") > 0

    def owned(x: View) -> float:
        return x.q("parameters.trained") / (x.q("layout.shards") if sharded else 1)

    if v.on("training.offload.optimizer"):
        node = min(v.n, v.n_host)  # devices that share the memory of a host

        def away(x: View) -> float:
            states = 2 * (v.k_w + v.k_m + x.q("memory.optimizer.each")) + v.k_g
            return v.k_g / v.B_host + v.k_c / v.B_host + states * node / v.B_dram

        return fullest(v, lambda x: owned(x) * away(x))
    update = fullest(v, lambda x: owned(x) * x.q("time.update")) / v.W / v.e_mem
    return update + v.q("time.orthogonal") + v.q("time.momentum")


@recounts("time.momentum")
def _(v: View) -> float:
    if v.on("training.optimizer") not in ("muon", "soap") or not v.on("parallelism.zero"):
        return 0
    if v.on("parallelism.zero") < 3 and v.on("training.optimizer_matrices") == "whole":
        return 0

    def share(x: View) -> float:  # of what gathering it on every device would pass
        return x.q("parameters.trained") * x.q("network.passed") / x.q("layout.shards")

    return v.k_c * fullest(v, share, hidden_matrix=True) + v.q("network.data_hops")


@recounts("time.tied")
def _(v: View) -> float:
    """Both ways at once: what the last stage holds passes once."""
    where = v.on("time.pipeline")
    if where == "none" or v.on("training.schedule").startswith("dualpipe"):
        return 0
    rate = v.q("network.link") if where == "node" else v.q("network.fabric")

    def copies(part: View) -> float:
        return part.total("component", lambda x: x.q("parameters.trained"), shared=True)

    return max(sum(on_stage(stage, copies)) for stage in v.below("stage")) * v.k_red / rate


@recounts("time.stage")
def _(v: View) -> float:
    if v.on("training.schedule") == "dualpipe":
        return sum(on_stage(v, lambda part: part.q("time.part"))) / 2
    found = sum(on_stage(v, lambda part: part.q("time.part")))
    if v.on("time.again.some"):
        for part in View(v.evaluation, {}).below("part"):
            alive, again = (held(v, part, f"{k}in_flight") for k in ("", "recomputed_"))
            spared = 1 - again / max(1, alive)
            layers = held(v, part, "layers_on_stage")
            found -= layers * spared * (part.q("time.part") - part.q("time.part.kept"))
    return found


@recounts("memory.buffers.gathered_part")
def _(v: View) -> float:
    return v.total("component", lambda x: stored(x, v.k_c), shared=False)


@recounts("memory.buffers.unpacked")
def _(v: View) -> float:
    if v.on("training.lora.base") in (None, "bf16"):
        return 0

    ranks = {"none": 1, "column": v.t, "row": v.t, "experts": v.t_e}

    def largest(part: View) -> float:
        hidden = part.below("component", hidden_matrix=True)
        return max(x.n_in * x.n_out / ranks[x.on("split")] for x in hidden)

    return v.k_c * max(on_stage(v, largest, layers=True))


@recounts("memory.optimizer.steps")
def _(v: View) -> float:
    tensors = 2 * v.on("adapted") if v.on("lora") else v.tensors_c
    return v.k_t * tensors


@recounts("memory.buffers.gathered")
def _(v: View) -> float:
    zero, phase = v.on("parallelism.zero"), v.on("phase")
    if phase == "step":
        return 0
    if zero < 3:
        if phase != "loss" or not v.on("copies"):
            return 0
        return sum(on_stage(v, lambda part: v.k_c * part.total(
            "component", lambda x: x.q("parameters.trained"), type="linear")))  # fmt: skip

    def gathered(**settings: Any) -> list[float]:
        return on_stage(v, lambda part: part.q("memory.buffers.gathered_part"), **settings)

    if phase == "gradients":  # that of the embedding, where it is trained

        def own(part: View) -> float:
            return part.total("component", lambda x: x.q("parameters.trained"), shared=False)

        return v.k_c * sum(on_stage(v, own, part="embedding"))
    if not v.on("parallelism.reshard") and phase != "first":
        return sum(gathered())
    layers = 2 if phase == "backward" else 1
    return sum(gathered(layers=False)) + layers * max(gathered(layers=True), default=0)


@recounts("memory.buffers.reduced")
def _(v: View) -> float:
    phase = v.on("phase")
    if v.on("parallelism.zero") < 3 or phase in ("loss", "step"):
        return 0

    def parameters(part: View, **settings: Any) -> float:
        return part.total("component", lambda x: x.q("parameters.trained"), **settings)

    ends = on_stage(v, lambda part: parameters(part, shared=False), layers=False)
    if phase == "gradients":
        return (v.k_c + v.k_red) * sum(ends)
    head = v.k_c * sum(on_stage(v, parameters, part="head"))
    matrices = on_stage(
        v, lambda p: max(x.q("parameters.trained") for x in p.below("component")), layers=True
    )
    found = head + v.k_c * max(matrices, default=0)
    if phase == "first":
        layers = on_stage(v, lambda part: parameters(part, shared=False), layers=True)
        found += v.k_red * max(layers, default=0)
    return found


@recounts("memory.buffers.step")
def _(v: View) -> float:
    kernel, whole = v.on("training.optimizer_kernel"), v.on("parallelism.zero") < 3
    if kernel == "fused":
        return 0

    def updated(x: View) -> float:
        return v.k_o * x.q("parameters.trained") / (1 if whole else x.q("layout.shards"))

    if kernel == "foreach":
        pieces = View(v.evaluation, {}).below("component")
        return sum(held(v, x, "copies_on_stage") * updated(x) for x in pieces)
    return max(on_stage(v, lambda part: max(map(updated, part.below("component")))))


@recounts("memory.buffers.quantized")
def _(v: View) -> float:
    if v.on("parallelism.zero") == 3:
        return 0
    layers = on_stage(
        v,
        lambda part: part.total(
            "component", lambda x: x.q("parameters.device"), type="linear", wide=False
        ),
        layers=True,
    )
    return v.k_quant * sum(layers)


# -- counts ------------------------------------------------------------------------------------


@recounts("compute.component")
def _(v: View) -> float:
    """A multiplication and an addition for each weight that a token uses, or each pair."""
    kind, side = v.on("type"), v.on("side")
    if side == "tower":
        share = v.x_tok
    else:
        share = 1 if not side else 1 / v.s if side == "first" else v.s_dec / v.s
    if kind == "linear":
        return (1 + 1) * v.applied * v.n_in * v.n_out * share
    if kind in ("core", "index"):
        return (1 + 1) * v.q("compute.keys") * (v.n_in + v.n_out) * share
    if v.on("scan") in ("mamba1", "mix"):
        return (1 + 1) * v.n_in * v.n_out
    if v.on("scan") == "mamba2":
        size = v.c_m
        chunks = math.ceil(v.s / size)
        inside = size * size * v.n_out * v.a_m + size * size * v.n_in  # C B', and scores x
        states = 2 * size * v.n_in * v.n_out  # into the state of a chunk, and out of it
        between = (chunks + 1) * (chunks + 1) * v.n_in * v.n_out
        return 2 * (chunks * (inside + states) + between) / v.s
    if v.on("scan") == "lightning":
        size, left, done = v.c_l, v.s, 0.0
        while left > 0:  # chunk by chunk, the last one shorter
            here = min(size, left)
            done += 2 * 2 * here * here * v.n_in + 2 * 2 * here * v.n_in * v.d_l
            left -= here
        return done / v.s
    chunks = math.ceil(v.s / v.c_d)
    pairs = v.c_d * v.c_d * (2 * v.d_dk + v.d_dv)  # keys with keys, queries with keys, values
    states = 3 * v.c_d * v.d_dk * v.d_dv
    return 2 * v.a_dv * chunks * (pairs + states) / v.s


@recounts("compute.component_backward")
def _(v: View) -> float:
    forward, kind = v.q("compute.component"), v.on("type")
    if v.on("frozen"):
        return 0
    if kind == "linear" and v.on("lora"):
        pair = 2 * v.k_l * (v.n_in + v.n_out) * v.applied
        pair *= v.x_tok if v.on("side") == "tower" else 1
        return forward + (1 + 2) * pair if v.on("adapted") else forward
    if kind == "scan" and v.on("scan") in ("delta", "kda"):
        state = 2 * v.a_dv * v.c_d * v.d_dk * v.d_dv  # one product with the state of a chunk
        chunks = math.ceil(v.s / v.c_d)
        solved = 2 * v.a_dv * chunks * v.c_d * v.c_d * (v.d_dk + v.d_dv)
        return 2 * forward + ((solved if v.on("scan") == "delta" else 0) - 4 * state) / v.s
    if kind == "scan" and v.on("scan") == "lightning":
        first, last = min(v.s, v.c_l), v.s - v.c_l * (math.ceil(v.s / v.c_l) - 1)
        return 2 * forward - (2 * first + 2 * 2 * last) * v.n_in * v.d_l / v.s
    return 2 * forward


@recounts("compute.layer")
def _(v: View) -> float:
    return v.total("component", lambda x: x.q("compute.component"), matmul=True)


@recounts("compute.training_flops_palm")
def _(v: View) -> float:
    cores = sum(
        part.L_k * part.total("component", lambda x: x.q("compute.component"), type="core")
        for part in v.below("part")
    )
    return v.T * (6 * v.q("parameters.active") + 3 * cores)


@recounts("compute.training_flops_megatron")
def _(v: View) -> float:
    layers = sum(p.L_k * p.q("compute.layer") for p in v.below("part", layers=True))
    ends = sum(p.q("compute.layer") for p in v.below("part", layers=False))
    return v.T * (4 * layers + 3 * ends)


@recounts("roofline.product.intensity")
def _(v: View) -> float:
    m, n, k = v.q("time.product.rows"), v.N_x, v.K_x
    return (m * n * k + m * n * k) / ((m * k + k * n + m * n) * v.k_c)


@recounts("roofline.core.intensity")
def _(v: View) -> float:
    n, widths = v.s * v.b / v.c, v.d_h + v.d_v
    if v.on("training.attention") != "eager":
        return scored(v, ("core",)) * v.t / (v.k_a * n * (v.a + v.c * v.a_kv) * widths)
    scores = v.b * v.a * (v.s / v.c) * v.s
    moved = n * (v.a + v.c * v.a_kv) * widths + 4 * scores
    return 2 * n * v.s * v.a * widths / (v.k_a * moved)


@recounts("roofline.product.flops")
def _(v: View) -> float:
    count = v.q("time.product.count")
    return (1 + 1) * v.q("time.product.rows") * v.N_x * v.K_x * count


@recounts("roofline.product.bytes")
def _(v: View) -> float:
    m, n, k = v.q("time.product.rows"), v.N_x, v.K_x
    return sum(v.k_c * x * y * v.q("time.product.count") for x, y in ((m, k), (k, n), (m, n)))


def at_peak(v: View) -> float:
    rate = v.q("time.peak_16") if v.on("wide") else v.q("time.peak")
    return v.q("roofline.product.flops") / rate


@recounts("roofline.product.arithmetic")
def _(v: View) -> float:
    return at_peak(v)


@recounts("roofline.product.traffic")
def _(v: View) -> float:
    return v.q("roofline.product.bytes") / v.W


@recounts("roofline.product.seconds")
def _(v: View) -> float:
    return max(at_peak(v), v.q("roofline.product.bytes") / v.W)


@recounts("roofline.product.utilisation")
def _(v: View) -> float:
    return at_peak(v) / v.q("time.product.forward")


@recounts("roofline.core.flops")
def _(v: View) -> float:
    if v.on("training.attention") != "eager":
        return scored(v, ("core",))
    pairs = v.s * v.b / v.c * v.s * v.a / v.t
    return (1 + 1) * pairs * v.d_h + (1 + 1) * pairs * v.d_v


@recounts("roofline.intensity")
def _(v: View) -> float:
    done = moved = 0.0
    for part in v.below("part"):
        kernels = [(x, "product") for x in part.below("product")]
        kernels += [(x, "core") for x in part.below("block", block="attention")]
        for x, kind in kernels:
            flops = x.q(f"roofline.{kind}.flops")
            done += part.L_k * flops
            moved += part.L_k * flops / x.q(f"roofline.{kind}.intensity")
    return done / moved


@recounts("compute.convolution")
def _(v: View) -> float:
    """One output more for each place at which kernel and padded sequence overlap."""
    return (1 + 1) * v.n_in * v.n_out * (v.s + (v.n_in - 1)) / v.s


@recounts("compute.convolution_backward_flops_per_token")
def _(v: View) -> float:
    found = 0.0
    for part in v.below("part"):
        for x in part.below("component", type="conv"):
            once = x.q("compute.convolution")
            found += part.L_k * (once + once * x.n_out)
    return found


@recounts("compute.training_flops")
def _(v: View) -> float:
    each = v.q("compute.forward_flops_per_token") + v.q("compute.backward_flops_per_token")
    return each * v.T


@recounts("time.run_device_hours")
def _(v: View) -> float:
    return v.q("time.run_days") * 24 * v.n


@recounts("time.run_days")
def _(v: View) -> float:
    """The days of training, longer by slow devices, over what interruptions leave."""
    days = v.q("time.training_days")
    if v.on("time.stragglers_given"):
        days *= 1 + v.x_slow
    return days / v.q("time.goodput")


@recounts("roofline.ridge")
def _(v: View) -> float:
    return v.q("time.peak") / v.W


@recounts("time.mfu")
def _(v: View) -> float:
    done = v.q("time.tokens_per_second_per_device") * v.q("compute.model_flops_per_token")
    return done / v.q("time.peak")


def of_scores(v: View, per: Callable[[View], float]) -> float:
    """What a token's scores come to more than they are counted, by how many keys a query meets."""
    found = 0.0
    for part in v.below("part"):
        for x in (x for kind in ("core", "index") for x in part.below("component", type=kind)):
            counted = x.q("compute.component") + x.q("compute.component_backward")
            passes = 1 if x.on("frozen") else 3
            once = x.q("compute.component") / x.q("compute.keys") if x.q("compute.keys") else 0
            found += part.L_k * (once * passes * per(x) - counted)
    return found


@recounts("compute.attended_flops_per_token")
def _(v: View) -> float:
    counted = v.q("compute.flops_per_token")
    if not v.on("model.shape"):
        return counted
    return counted + of_scores(v, lambda x: x.q("compute.attended_keys"))


@recounts("compute.model_flops_per_token")
def _(v: View) -> float:
    counted = v.q("compute.flops_per_token")
    if not v.on("model.shape"):
        return counted
    causal = v.on("training.attention_count") in ("causal", "causal-window")

    def asked(x: View) -> float:
        if causal:
            return x.q("compute.attended_keys")
        if x.on("side") == "decoder":
            return x.s_dec
        each, limit = most(x)
        return min(x.s // each, limit)

    return counted + of_scores(v, asked)


@recounts("compute.performed_flops_per_token")
def _(v: View) -> float:
    """Fused kernels multiply twice forward and five times backward, others four times."""
    if not v.on("model.shape"):
        return v.q("compute.executed_flops_per_token")
    back, found = 4 if v.on("training.attention") == "eager" else 5, 0.0
    for part in v.below("part"):
        for x in part.below("component", matmul=True):
            forward, again = x.q("compute.component"), x.q("compute.reruns")
            done = forward + again * forward + x.q("compute.component_backward")
            if x.on("type") in ("core", "index"):
                pair = forward / 2 / x.q("compute.keys") if x.q("compute.keys") else 0
                products = 2 + 2 * again + (0 if x.on("frozen") else back)
                done = products * pair * x.q("compute.performed_keys")
            found += part.L_k * done
    return found


@recounts("time.hfu")
def _(v: View) -> float:
    done = v.q("time.tokens_per_second_per_device") * v.q("compute.performed_flops_per_token")
    return done / v.q("time.peak")


@recounts("compute.recomputed_flops_per_token")
def _(v: View) -> float:
    mode, found = v.on("training.recompute"), 0.0
    if mode == "none":
        return 0
    if not v.on("model.shape"):
        return v.q("compute.forward_flops_per_token")
    for part in v.below("part", layers=True):
        if part.on("fixed"):
            continue
        if mode == "full":
            last = part.total("component", lambda x: x.q("compute.component"), final=True)
            found += part.L_k * (part.q("compute.layer") - v.on("training.early_stop") * last)
        elif v.on("time.again.operations"):
            products = part.total("component", lambda x: x.q("compute.component"), type="linear")
            found += part.L_k * products * 0.5
        else:
            for block in part.below("block"):
                kind = block.on("block")
                if kind == "attention" and v.on("time.again.core_attention"):
                    for x in ("core", "index"):
                        found += part.L_k * block.total(
                            "component", lambda x: x.q("compute.component"), type=x
                        )
                elif kind in ("mlp", "moe") and v.on(f"time.again.{kind}"):
                    found += part.L_k * block.total(
                        "component", lambda x: x.q("compute.component"), matmul=True
                    )
    return found


@recounts("time.utilisation")
def _(v: View) -> float:
    return v.q("time.tokens_per_second") * v.C_conv / v.n / v.q("time.peak")


@recounts("time.floor")
def _(v: View) -> float:
    """No more than the peak, nor than large products sustain without the scores that are masked."""
    needed = v.q("compute.attended_flops_per_token") / v.q("compute.model_flops_per_token")
    return min(1, max(v.q("time.hfu"), v.q("time.mfu") * needed / v.e_mm))


@recounts("energy.expected")
def _(v: View) -> float:
    busy = min(1, v.q("time.hfu") / v.e_own)
    watts = v.idle_power + (v.power - v.idle_power) * busy
    hours = v.q("time.device_hours")
    hosts = hours * v.host_power / 1000 if v.on("energy.hosts_given") else 0
    site = v.pue if v.on("energy.pue_given") else 1
    return (hours * watts / 1000 + hosts) * site


# -- plans -------------------------------------------------------------------------------------

LINK = {"bandwidth": "210 GB/s", "convention": "per-direction", "latency": "1.7 us"}
#: Ten devices in a node, with a slow card each.
CLUSTER: dict[str, Any] = {
    "accelerator": {"extends": "a100-sxm-80gb", "link": LINK},
    "devices": 60,
    "devices_per_node": 10,
    "price": "3 USD/h",
    "network": {"bandwidth": "11 GB/s", "latency": "13 us", "oversubscription": 1.3},
}
#: An indexer that reads the layer's input, and what it picks.
PICKED = {"index_heads": 3, "index_head_dim": 11, "index_top_k": 130}
DENSE: dict[str, Any] = {
    "layers": 6,
    "hidden": 420,
    "vocab": 1003,
    "max_sequence": 9000,
    "attention": {"heads": 30, "kv_heads": 10, "head_dim": 14},
    "mlp": {"intermediate": 1170, "gated": True},
}
#: Patches with conditions, and a context that layers work on as well, or that they read.
PATCHES: dict[str, Any] = {
    **{key: said for key, said in DENSE.items() if key != "vocab"},
    "bias": True,
    "stem": [{"inputs": 48, "bias": True}],
    "output": [{"outputs": 96}],
    "context": {"tokens": 77, "stem": [{"inputs": 130}, {"bias": True}]},
    "conditioning": {
        "width": 210,
        "matrices": [{"inputs": 64}, {"inputs": 30, "rows": 2}],
        "rows": 11,
        "output": 2,
    },
}
STREAMS = {
    "double": {"streams": "double", "modulation": 6, "attention": {"qk_norm": "head"}},
    "single": {"streams": "joint", "modulation": 3, "parallel": True},
    "last": {"streams": "last", "modulation": 6, "context_modulation": 2},
}
#: A stack in front of the layers, with windows, a projector that is divided, and all that is rare.
TOWER: dict[str, Any] = {
    "layers": 3,
    "hidden": 210,
    "tokens": 120,
    "class_tokens": 1,
    "merge": 4,
    "attention": {"heads": 15},
    "mlp": {"intermediate": 330},
    "kinds": {"window": {"attention": {"window": 33}}, "full": None},
    "layer_scale": True,
    "embedding_norm": True,
    "pool": True,
    "output_rows": 1,
    "stem": [{"inputs": 99, "rows": 2}, {"inputs": 630, "bias": True}],
    "projector": [
        {"inputs": 840, "outputs": 375, "norm": "layernorm", "norm_width": 210, "bias": True},
        {"bias": True},
    ],
}
TIED: dict[str, Any] = {**DENSE, "tied_embeddings": True}
EXPERTS: dict[str, Any] = {
    **DENSE,
    "moe": {"experts": 30, "top_k": 3, "intermediate": 330, "shared_experts": 1},
}


def plan(model: Any, layout: dict[str, Any], training: dict[str, Any], **more: Any) -> Any:
    cluster = {**CLUSTER, **more.pop("cluster", {})}
    run = {"tokens": "1B", "sequence_length": 660, "global_batch": 180, "micro_batch": 3}
    return {
        "name": "odd", "model": model, "cluster": cluster, "training": {**run, **training},
        "parallelism": layout, **more,
    }  # fmt: skip


SERVED: dict[str, Any] = {"mode": "inference", "output_tokens": 37, "tokens": None}
SWITCHED = {"accelerator": {"extends": "gb200"}, "devices_per_node": 10}
PLANS: dict[str, dict[str, Any]] = {
    "rings over nodes": plan(TIED, {"tensor": 5, "pipeline": 2, "zero": 0}, {"loss": "full"}),
    "trees over nodes": plan(
        {**DENSE, "attention": {"heads": 60, "head_dim": 14}},
        {"tensor": 20, "zero": 1}, {"loss": "vocab-parallel", "dropout": 0.1},
    ),
    "sequences over nodes": plan(
        {**DENSE, "attention": {"heads": 60, "head_dim": 14}},
        {"tensor": 20, "sequence": True, "pipeline": 3, "virtual_pipeline": 2, "zero": 2},
        {"schedule": "interleaved", "recompute": "full"},
    ),
    "chunks in turn": plan(
        {**DENSE, "layers": 12},
        {"pipeline": 3, "virtual_pipeline": 2, "zero": 1, "data_overlap": "gradients",
         "send_overlap": True},
        {"implementation": "pytorch"},
    ),
    "a ring of keys": plan(
        DENSE, {"tensor": 2, "context": 3, "sequence": True, "zero": 1, "tensor_overlap": True},
        {"recompute": "selective", "optimizer": "muon", "implementation": "megatron"},
    ),
    "ranks that share heads of keys": plan(
        {**DENSE, "attention": {"heads": 60, "kv_heads": 10, "head_dim": 14}},
        {"tensor": 20, "context": 3, "zero": 1}, {},
    ),
    "keys over nodes": plan(
        DENSE, {"context": 30, "zero": 3}, {"optimizer": "lion", "global_batch": 60},
    ),
    "replicas": plan(
        DENSE, {"tensor": 2, "zero": 1, "replicate": 6},
        {"optimizer": "sgd-momentum", "micro_batch": 2, "optimizer_kernel": "foreach"},
    ),
    "replicas of layers": plan(
        DENSE, {"zero": 3, "replicate": 6, "reshard": False},
        {"optimizer": "adafactor", "recompute": "full", "offload": {"activations": 0.7}},
        time={"host_link": "0.3 GB/s"},
    ),
    "states on the host": plan(
        {**DENSE, "bias": True}, {"tensor": 5, "zero": 2},
        {"offload": {"optimizer": True}, "recompute": "full", "recompute_layers": 2},
    ),
    "whole states on the host": plan(
        DENSE, {"zero": 0}, {"offload": {"optimizer": True}, "attention_count": "causal"},
        cluster={"host_power": "130 W", "pue": 1.17, "accelerator": "h100-sxm-80gb"},
    ),
    "one tensor at a time": plan(
        DENSE, {"tensor": 5, "zero": 1},
        {"optimizer_kernel": "loop", "precision": "fp8", "recompute": "full",
         "bf16_layers": {"first": 2}},
        cluster={"accelerator": {"extends": "h100-sxm-80gb", "link": LINK}},
    ),
    "replicas in a node": plan(DENSE, {"zero": 2, "replicate": 3}, {"global_batch": 18},
                               cluster={"devices": 6, "devices_per_node": 6}),
    "alone": plan(TIED, {"pipeline": 3, "zero": 0}, {"schedule": "zero-bubble",
                  "global_batch": 21, "optimizer": "muon", "optimizer_kernel": "fused"},
                  cluster={"devices": 3, "devices_per_node": 3}),
    "experts": plan(
        EXPERTS, {"tensor": 2, "expert": 5, "expert_tensor": 2, "pipeline": 2, "zero": 1},
        {"optimizer": "adamw", "optimizer_kernel": "foreach", "expert_imbalance": 1.2},
    ),
    "experts in eight bits": plan(
        {**EXPERTS, "layers": 12}, {"expert": 5, "pipeline": 3, "virtual_pipeline": 2, "zero": 1},
        {"precision": "fp8", "schedule": "interleaved"},
        cluster={"accelerator": {"extends": "h100-sxm-80gb", "link": LINK}},
    ),
    "experts over nodes": plan(
        EXPERTS, {"expert": 30, "zero": 2}, {"optimizer": "adam-8bit", "micro_batch": 1},
    ),
    "experts of some groups": plan(
        {**EXPERTS, "moe": {**EXPERTS["moe"], "router_groups": 6, "router_group_top_k": 2}},
        {"expert": 30, "zero": 3, "dispatcher": "deepep"}, {},
    ),
    "experts in a node": plan(
        EXPERTS, {"expert": 5, "dispatcher": "deepep", "zero": 3}, {"optimizer": "sgd"},
        cluster={"devices": 10},
    ),
    "tokens gathered in a node": plan(
        EXPERTS, {"expert": 5, "dispatcher": "all-gather", "zero": 1},
        {"implementation": "megatron", "cuda_graphs": "partial", "recompute": "selective",
         "recompute_modules": ["moe"]},
    ),
    "tokens gathered over nodes": plan(
        {**EXPERTS, "moe": {**EXPERTS["moe"], "bias": True}},
        {"tensor": 2, "expert_tensor": 2, "expert": 15, "dispatcher": "all-gather", "zero": 1},
        {"expert_kernels": "loop", "permute_fusion": True, "bytes": {"dispatch": 1}},
    ),
    "experts in graphs": plan(
        EXPERTS, {"expert": 5, "dispatcher": "hybridep", "expert_overlap": True, "zero": 1},
        {"implementation": "megatron", "precision": "fp8", "cuda_graphs": "full",
         "expert_kernels": "fused", "attention_precision": "fp8", "recompute": "selective",
         "recompute_modules": ["moe"], "bytes": {"combine": 3}},
        cluster={"accelerator": {"extends": "h100-sxm-80gb", "link": LINK}},
    ),
    "experts of latent attention": plan(
        {**EXPERTS, "attention": {"heads": 6, "kv_rank": 130, "query_rank": 170, "nope_dim": 50,
                                  "rope_dim": 20, "value_head_dim": 60}},
        {"expert": 15, "dispatcher": "hybridep", "expert_overlap": True, "zero": 1},
        {"implementation": "megatron", "permute_fusion": False, "expert_imbalance": 1.3,
         "micro_batch": 1},
    ),
    "experts as one product": plan(
        EXPERTS, {"expert": 5, "dispatcher": "hybridep", "zero": 1},
        {"precision": "fp8", "expert_kernels": "grouped"},
        cluster={"accelerator": {"extends": "h100-sxm-80gb", "link": LINK}},
    ),
    "experts beside": plan(
        EXPERTS, {"expert": 15, "expert_overlap": True, "zero": 1}, {"recompute": "selective"},
    ),
    "experts beside once more": plan(
        EXPERTS, {"expert": 15, "expert_overlap": True, "zero": 1}, {"recompute": "full"},
    ),
    "tokens gathered by nobody": plan(
        EXPERTS, {"dispatcher": "all-gather", "zero": 1},
        {"cuda_graphs": "full", "expert_kernels": "fused", "permute_fusion": False},
    ),
    "an expert over nodes": plan(
        {**EXPERTS, "attention": {"heads": 60, "head_dim": 14}},
        {"tensor": 20, "expert_tensor": 20, "expert": 3, "zero": 1}, {},
    ),
    "two pipes": plan(
        EXPERTS, {"pipeline": 6, "expert": 5, "zero": 1},
        {"schedule": "dualpipe", "micro_batch": 1, "optimizer_kernel": "foreach",
         "optimizer": "muon"},
    ),
    "switches": plan(DENSE, {"tensor": 5, "zero": 0}, {"dropout": 0.1}, cluster=SWITCHED),
    "switches and sequences": plan(
        DENSE, {"tensor": 5, "sequence": True, "zero": 1}, {}, cluster=SWITCHED
    ),
    "switches alone": plan(
        DENSE, {"tensor": 2, "zero": 0}, {}, cluster={**SWITCHED, "devices": 10}
    ),
    "switches and shards": plan(
        DENSE, {"tensor": 2, "zero": 1}, {}, cluster={**SWITCHED, "devices": 10}
    ),
    "adapters": plan(
        DENSE, {"tensor": 5, "zero": 1},
        {"lora": {"rank": 7, "targets": ["query", "value", "output", "up", "down"]},
         "precision": "fp8"},
    ),
    "gathered matrices": plan(
        {**EXPERTS, "attention": {"heads": 60, "head_dim": 14}},
        {"tensor": 20, "expert_tensor": 20, "expert": 3, "zero": 1},
        {"optimizer": "muon", "muon": {"tensor_mode": "duplicated"}},
    ),
    "spread matrices": plan(
        {**EXPERTS, "attention": {"heads": 60, "head_dim": 14}},
        {"tensor": 20, "expert_tensor": 20, "expert": 3, "zero": 1},
        {"optimizer": "muon", "muon": {"tensor_mode": "distributed"}},
    ),
    "gathered in a node": plan(
        DENSE, {"tensor": 5, "zero": 3},
        {"optimizer": "muon", "muon": {"tensor_mode": "duplicated", "symmetric": True}},
    ),
    "spread in a node": plan(
        DENSE, {"tensor": 5, "zero": 0},
        {"optimizer": "muon", "muon": {"tensor_mode": "distributed", "iterations": 7}},
    ),
    "parts of matrices": plan(
        DENSE, {"tensor": 5, "zero": 1}, {"optimizer": "muon", "optimizer_matrices": "parts"}
    ),
    "tiles that nobody knows": plan(
        DENSE, {"zero": 1}, {"optimizer": "muon"},
        cluster={"accelerator": {"extends": "trainium1", "link": LINK}},
    ),
    "half of a square": plan(
        DENSE, {"zero": 1},
        {"optimizer": "muon", "muon": {"symmetric": True}, "attention": "eager"},
        cluster={"accelerator": {"extends": "trainium1", "link": LINK}},
    ),
    "experts on a torus": plan(
        EXPERTS, {"expert": 10, "zero": 3},
        {"precision": "fp8", "bf16_layers": {"first": 1, "last": 1}},
        cluster={"accelerator": "tpu-v7x", "devices_per_node": 60, "slice": [5, 6, 2]},
    ),
    "experts along a line": plan(
        EXPERTS, {"expert": 30, "zero": 1}, {},
        cluster={"accelerator": {"extends": "tpu-v5p", "link": {**LINK, "domain": 10}},
                 "slice": [5, 2, 1]},
    ),
    "bases": plan(
        {**DENSE, "bias": True}, {"tensor": 5, "zero": 1},
        {"optimizer": "soap", "soap": {"frequency": 7, "largest_side": 600}},
    ),
    "bases apart": plan(
        EXPERTS, {"zero": 0},
        {"optimizer": "soap", "optimizer_kernel": "foreach", "implementation": "pytorch"},
    ),
    "a measured network": plan(
        "falcon-h1-7b", {"zero": 1}, {"optimizer": "adafactor", "optimizer_kernel": "foreach"},
        cluster={"network": {"bandwidth": "11 GB/s", "latency": "13 us", "sustained": "7 GB/s"}},
    ),
    "kept scores": plan(
        {**DENSE, "mlp": {"intermediate": 1170, "gated": False}, "bias": True},
        {"tensor": 2, "context": 2, "zero": 1},
        {"attention": "eager", "dropout": 0.1, "loss": "chunked", "precision": "fp32",
         "implementation": "pytorch"},
    ),
    "one matrix": plan(
        {**DENSE, "mlp": {"intermediate": 1260, "linears": 1}}, {"tensor": 2, "zero": 1}, {}
    ),
    "gates": plan({**DENSE, "mlp": {"intermediate": 1170, "linears": 5}}, {"zero": 1}, {}),
    "a ring in a node": plan(
        DENSE, {"context": 5, "context_exchange": "ring", "zero": 1},
        {"sequence_length": 12_800, "recompute": "selective"},
    ),
    "a ring over nodes": plan(
        {**DENSE, "attention": {"heads": 30, "kv_heads": 10, "head_dim": 70, "window": 1300}},
        {"context": 20, "context_exchange": "ring", "zero": 1}, {"sequence_length": 12_800},
    ),
    "gathered keys": plan(
        {**DENSE, "attention": {"heads": 30, "head_dim": 140, "window": 1300}, "causal": False},
        {"context": 5, "context_exchange": "gather", "zero": 1}, {"sequence_length": 12_800},
    ),
    "an order of its own": plan(
        DENSE, {"pipeline": 2, "virtual_pipeline": 3, "zero": 1},
        {"schedule": {"extends": "interleaved"}},
    ),
    "slots": plan(
        {**EXPERTS, "moe": {**EXPERTS["moe"], "capacity_factor": 1.3}},
        {"expert": 5, "zero": 1}, {"schedule": "1f1b"},
    ),
    "another vendor": plan(
        {**DENSE, "bias": True},
        {"tensor": 5, "pipeline": 2, "virtual_pipeline": 2, "zero": 1},
        {"schedule": "dualpipev", "attention": "eager", "recompute": "full"},
        cluster={"accelerator": {"extends": "tpu-v5e", "link": LINK}, "slice": [10, 6]},
    ),
    "adapters and weights": plan(
        DENSE, {"zero": 1},
        {"lora": {"rank": 7, "targets": ["query", "up"], "checkpoint": "merged"},
         "optimizer_kernel": "foreach"},
    ),
    "a lion": plan(DENSE, {"zero": 0}, {"optimizer": "lion", "optimizer_kernel": "foreach"}),
    "stages of half a node": plan(
        {**DENSE, "layers": 12}, {"pipeline": 12, "zero": 0}, {},
        memory={"other": 3_000_000_001, "allocator_share": 0.07},
    ),
    "replicas of half a node": plan(
        {**TIED, "bias": True, "head_bias": True}, {"zero": 2, "replicate": 12},
        {"optimizer": "muon", "implementation": "pytorch"},
    ),
    "a packed base": plan(
        DENSE, {"tensor": 5, "zero": 1},
        {"lora": {"rank": 7, "targets": ["query", "down"], "base": "int8", "kernels": "fused",
                  "dropout": 0.1}, "recompute": "full"},
    ),
    "sharded adapters": plan(
        DENSE, {"tensor": 5, "zero": 3},
        {"lora": {"rank": 7, "targets": ["query", "down"], "base": "nf4"},
         "optimizer_kernel": "foreach"},
    ),
    "one tensor of a shard after the other": plan(
        DENSE, {"tensor": 5, "zero": 3, "reshard": False}, {"optimizer_kernel": "loop"}
    ),
    "modules": plan(
        DENSE, {"tensor": 5, "zero": 1},
        {"recompute": "selective", "recompute_modules": ["mlp", "norm"]},
    ),
    "modules of experts": plan(
        EXPERTS, {"expert": 5, "zero": 1},
        {"recompute": "selective", "recompute_modules": ["moe", "core_attention"]},
    ),
    "an activation of experts": plan(
        EXPERTS, {"expert": 5, "zero": 1},
        {"recompute": "selective", "recompute_modules": ["activation"]},
    ),
    "an activation": plan(
        DENSE, {"zero": 1}, {"recompute": "selective", "recompute_modules": ["activation"]}
    ),
    "interruptions": plan(
        DENSE, {"zero": 1}, {"tokens": "90B"},
        cluster={"failures": {"count": 419, "devices": 16384, "period": "54 days"},
                 "storage": {"bandwidth": "7 GB/s"}, "stragglers": 0.03},
    ),
    "interruptions alone": plan(
        DENSE, {"zero": 1}, {"tokens": "90B"},
        cluster={"failures": {"count": 419, "devices": 16384, "period": "54 days"},
                 "storage": {"bandwidth": "7 GB/s"}},
    ),
    "a size computed again": plan(
        {"parameters": 7_000_000_000}, {"zero": 1}, {"recompute": "full"}
    ),
    "up to the last tensor": plan(
        DENSE, {"zero": 1}, {"recompute": "full", "early_stop": True, "optimizer": "sgd"}
    ),
    "a packed base that is kept": plan(
        DENSE, {"tensor": 5, "zero": 1},
        {"lora": {"rank": 7, "targets": ["query", "down"], "base": "nf4-double"}},
    ),
    "decays of channels": plan(
        {**DENSE, "mixer": "delta_net", "delta_net": {
            "key_heads": 6, "value_heads": 6, "key_head_dim": 28, "value_head_dim": 35,
            "conv_kernel": 3, "gate_rank": 21,
        }}, {"zero": 1}, {"sequence_length": 700},
    ),
    "an indexer": plan(
        {"extends": "deepseek-v3.2", "layers": 4}, {"zero": 3}, {"sequence_length": 700},
    ),
    "an encoder": plan(
        "t5-small", {"zero": 1}, {"sequence_length": 260, "decoder_sequence_length": 130},
    ),
    "served states": plan(
        {**DENSE, "mixer": "recurrence", "recurrence": {"width": 630, "heads": 5}}, {},
        {**SERVED, "global_batch": 360},
    ),
    "served heads": plan(
        {**DENSE, "mixer": "lightning", "lightning": {"heads": 6, "head_dim": 70}}, {},
        {**SERVED, "global_batch": 360},
    ),
    "served mixing": plan(
        {**DENSE, "mixer": "rwkv", "rwkv": {"width": 630}, "mlp": {"receptance": True}}, {},
        {**SERVED, "global_batch": 360},
    ),
    "several streams": plan(
        {**DENSE, "altup": {"inputs": 3}, "laurel": {"rank": 24},
         "per_layer_embedding": {"width": 48}}, {"zero": 1}, {"recompute": "full"},
    ),
    "compressed keys": plan(
        {**DENSE, "hyper": {"inputs": 3},
         "attention": {**DENSE["attention"], "query_rank": 33, "compress": 7, "index_heads": 3,
                       "index_head_dim": 11, "index_top_k": 40, "output_groups": 1,
                       "output_rank": 19}},
        {"zero": 1}, {"recompute": "full"},
    ),
    "pooled keys": plan(
        {**DENSE, "hyper": {"inputs": 3, "averaged": True}, "positions": "none",
         "attention": {"heads": 6, "kv_rank": 130, "query_rank": 170, "nope_dim": 50, "rope_dim": 0,
                       "index_heads": 3, "index_head_dim": 11, "index_pool": 7, "index_top_k": 70}},
        {"zero": 1}, {"recompute": "full"},
    ),
    "picked keys": plan(
        {**DENSE, "attention": {**DENSE["attention"], **PICKED}},
        {"tensor": 5, "zero": 1, "sequence": True},
        {"recompute": "selective", "attention_count": "causal-window"},
    ),
    "picked keys of a window": plan(
        {**DENSE, "attention": {**DENSE["attention"], **PICKED, "window": 300}},
        {"zero": 1}, {"recompute": "selective", "recompute_modules": ["mlp"]},
    ),
    "served picked keys": plan(
        {**DENSE, "attention": {**DENSE["attention"], **PICKED}}, {"tensor": 5},
        {**SERVED, "global_batch": 360},
    ),
    "served picked keys of a window": plan(
        {**DENSE, "attention": {**DENSE["attention"], **PICKED, "window": 300}}, {"tensor": 5},
        {**SERVED, "global_batch": 360},
    ),
    "served pooled keys": plan(
        {**DENSE, "attention": {"heads": 30, "kv_rank": 130, "query_rank": 170, "nope_dim": 50,
                                "rope_dim": 10, "index_heads": 3, "index_head_dim": 11,
                                "index_pool": 7, "index_top_k": 70}}, {"tensor": 5},
        {**SERVED, "global_batch": 360},
    ),
    "a tower": plan(
        {**DENSE, "vision": TOWER}, {"tensor": 5, "zero": 1},
        {"recompute": "selective", "vision": {"items": 3, "tokens": 90}, "optimizer": "adamw"},
    ),
    "a frozen tower": plan(
        {**DENSE, "vision": TOWER}, {"zero": 3},
        {"recompute": "full", "vision": {"items": 3, "frozen": True}},
    ),
    "a frozen tower kept": plan(
        {**DENSE, "audio": TOWER}, {"zero": 3, "reshard": False, "tensor": 5},
        {"recompute": "selective", "audio": {"frozen": True}, "implementation": "torchtitan"},
    ),
    "a frozen tower in stages": plan(
        {**DENSE, "vision": TOWER}, {"pipeline": 2, "zero": 1},
        {"recompute": "full", "vision": {"frozen": True}, "implementation": "transformers",
         "early_stop": True},
    ),
    "a frozen tower in modules": plan(
        {**DENSE, "vision": TOWER}, {"tensor": 5, "zero": 1},
        {"recompute": "selective", "recompute_modules": ["mlp"], "vision": {"frozen": True}},
    ),
    "two streams": plan(
        {**PATCHES, "kinds": STREAMS}, {"tensor": 5, "zero": 1},
        {"recompute": "full", "early_stop": True},
    ),
    "two streams kept": plan(
        {**PATCHES, "kinds": STREAMS}, {"zero": 3},
        {"implementation": "pytorch", "context_tokens": 90, "precision": "fp8"},
    ),
    "a context": plan(
        {**PATCHES, "mixer": ["attention", "cross_attention"], "modulation_rows": 6,
         "context": {"tokens": 60, "attention_norm": "layernorm"}},
        {"tensor": 5, "zero": 1}, {"recompute": "selective", "attention": "eager"},
    ),
    "adapters beside a tower": plan(
        {**DENSE, "vision": TOWER}, {"zero": 1},
        {"lora": {"rank": 7, "targets": ["query", "down"]}, "implementation": "pytorch"},
    ),
    "adapters beside a frozen tower": plan(
        {**DENSE, "vision": TOWER}, {"zero": 1},
        {"lora": {"rank": 7, "targets": ["query"]}, "vision": {"frozen": True}},
    ),
    "served experts with a tower": plan(
        {**EXPERTS, "vision": TOWER}, {"expert": 5, "tensor": 2, "pipeline": 2},
        {**SERVED, "global_batch": 135},
    ),
    "served with a tower": plan(
        {**DENSE, "vision": TOWER}, {"tensor": 5}, {**SERVED, "global_batch": 36}
    ),
    "both sides": plan(
        "bert-base", {"tensor": 2, "zero": 1},
        {"sequence_length": 500, "implementation": "megatron-2022", "global_batch": 90},
    ),
    "operations": plan(
        {**DENSE, "mtp": 1}, {"tensor": 5, "zero": 3},
        {"recompute": "selective", "implementation": "torchtitan"},
    ),
    "an assumption": plan(DENSE, {"zero": 1}, {}, time={"mfu": 0.37, "use": "assumed"}),
    "a size": plan({"parameters": 7_000_000_000}, {"tensor": 2, "zero": 1}, {}),
    "served": plan(DENSE, {"tensor": 5, "pipeline": 3}, {**SERVED, "global_batch": 132}),
    "served over nodes": plan(
        {**DENSE, "attention": {"heads": 60, "kv_heads": 10, "head_dim": 14, "window": 680}},
        {"tensor": 20}, {**SERVED, "global_batch": 27},
    ),
    "served experts": plan(
        EXPERTS, {"expert": 5, "tensor": 2, "expert_tensor": 2, "pipeline": 2},
        {**SERVED, "global_batch": 135},
    ),
    "served a token": plan(
        {**DENSE, "attention": {"heads": 30, "kv_heads": 10, "head_dim": 14, "window": 680}},
        {"tensor": 5}, {**SERVED, "output_tokens": 1, "global_batch": 36},
    ),
    "served in a node": plan(
        DENSE, {"pipeline": 2}, {**SERVED, "global_batch": 9, "micro_batch": 1},
        cluster={"devices": 6, "devices_per_node": 6},
    ),
    **{
        f"served {model}": plan(model, {}, {**SERVED, "global_batch": 120, "micro_batch": 2})
        for model in ("jamba-52b", "qwen3-next-80b-a3b", "lfm2-1.2b", "deepseek-v3")
    },
}  # fmt: skip

#: Formulas that a rule was held to, by quantity.
HELD: dict[str, set[int]] = {}
TRIED: set[str] = set()


def evaluation(name: str) -> Evaluation:
    return Evaluation(case.build(loading.load(PLANS[name])))


@pytest.mark.parametrize("name", PLANS)
def test_each_formula_is_what_plain_arithmetic_makes_of_what_it_rests_on(name: str) -> None:
    e = evaluation(name)
    TRIED.add(name)
    for identifier, rule in RULES.items():
        quantity = BOOK.quantities[identifier]
        views = [View(e, {})]
        for axis in quantity.per:
            entries = e.case.axes[axis]
            entries = () if isinstance(entries, Absent) else entries
            views = [View(e, {**view.point, axis: x}) for view in views for x in entries]
        for view in views:
            formula = quantity.choose_formula(view.on)
            if formula is None:
                continue
            try:
                value = view.q(identifier)
            except Absent:
                continue
            HELD.setdefault(identifier, set()).add(quantity.formulas.index(formula))
            assert value == pytest.approx(rule(view), rel=1e-9, abs=1e-300), (identifier, name)


def test_no_formula_is_left_out() -> None:
    if PLANS.keys() != TRIED:
        pytest.skip("asked of all plans together")
    missing = [
        (identifier, dict(formula.when))
        for identifier in RULES
        for number, formula in enumerate(BOOK.quantities[identifier].formulas)
        if number not in HELD.get(identifier, ())
    ]
    assert not missing
