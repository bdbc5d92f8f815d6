"""Serving: time to the first token, and of each further one, by roofline with the cache."""

from dataclasses import replace

from planner.book.formulas.compute import component_flops
from planner.book.formulas.layout import data, micro_batches, tokens
from planner.book.formulas.memory_cache import cache_block, cache_index
from planner.book.formulas.memory_states import weights_component
from planner.book.formulas.network import (
    experts_exchange,
    experts_gather,
    fabric,
    link,
    send,
    waiting,
)
from planner.book.formulas.time_part import exchanges, forward
from planner.book.formulas.time_peak import peak
from planner.book.language import *

POPE = "Pope et al. 2022 (arXiv 2211.05102), section 2"

serving = partial(estimate, mode="inference", assumed=False)
answer_time = partial(serving, unit="s", scales_with="time", source=POPE)
rate = partial(serving, unit="tokens/s", scales_with="rate", source=POPE, coefficient="tokens")
decoding = partial(in_bytes, exact=False, source=POPE)
of_stage = partial(estimate, source=POPE, per="stage")

prefill = answer_time("time.prefill_seconds", "t_pre", "time to the first token").equals(
    Sum(L_k * forward, "part", head=False) + (p - 1) * send,
    "The forward pass of all layers over the prompts of a micro-batch, through the p stages. "
    "Logits of the last position alone are too few to count.",
)

prefill_rate = rate(
    "time.prefill_tokens_per_second", "r_pre", "tokens of prompts read per second, all devices"
).equals(
    data * minimum(micro_batches, p) * b * s / prefill,
    "Each of the d replicas has m micro-batches of b prompts under way, one on each stage; those "
    "beyond the p stages wait.",
)


touched = estimate(
    "time.decode.touched",
    "f_exp",
    "share of the experts that a step of decoding reads",
    source="Rajbhandari et al. 2022 (arXiv 2201.05596), section 5.1",
    per="block",
    within=SHARE,
    block="moe",
).equals(
    1 - (1 - k / E) ** (b * e),
    "Each of the b tokens of e groups chooses k of E experts evenly; the expected share that at "
    "least one of them chose.",
)

read = decoding(
    "time.decode.component",
    r"D_c",
    "weights of one component that a step of decoding reads, on one device",
    per="component",
)
read.where(tower=True).equals(0, "Towers run once, before the first token.")
read.where(tower=False, table=True).equals(
    0, "Of a table only the rows of a few tokens are looked up."
)
read.where(tower=False, table=False, routed=False).equals(
    weights_component, "All of them, once for the whole batch, in the format that they are kept in."
)
read.where(tower=False, table=False, routed=True).equals(
    weights_component * touched, "Those of the experts that some token of the batch chose."
)

#: Blocks that keep a state of one size, however long the sequence is.
STATES = ("mamba", "delta_net", "recurrence", "rwkv", "short_conv", "lightning")

cached = decoding(
    "time.decode.cache",
    r"D_{kv}^{j}",
    "cache that decoding one token of a micro-batch reads of one block",
    per="block",
)
cached.where(block=STATES).equals(
    cache_block / micro_batches, "The whole state, which does not grow."
)

#: Of the answer's s_o tokens half are in the cache on average.
_written = (s + s_o / 2) / (s + s_o)


def _met(most: Operand) -> Expression:
    """Return the mean number of cached tokens that a query meets over the answer, at most ``most``:
    the initial ones and, of the g that the cache grows by, all but half of the first g."""
    grown = minimum(s_o, maximum(0, most - s))
    return minimum(most, s) + grown - grown**2 / (2 * maximum(1, s_o))


_of_all, _index = cache_block / micro_batches, cache_index / micro_batches
for _whole in ({"latent": True}, {"latent": False, "windowed": False}):
    cached.where(block="attention", picked=False, **_whole).equals(
        _of_all * _written, "On average over the answer, half of its s_o tokens are in the cache."
    )
    cached.where(block="attention", picked=True, **_whole).equals(
        (_of_all - _index) * _met(k_i) / (s + s_o) + _index * _written,
        "Of the tokens those that an indexer picks, as a window would have them; and its keys of "
        "all of them, with half of the answer's on average.",
    )
cached.where(block="attention", latent=False, windowed=True, picked=False).equals(
    _of_all * _met(w) / minimum(w, s + s_o),
    "The cache grows while the window is longer than what was read; on average over the answer it "
    "holds what it began with and, of the g tokens that it grows by, all but half of the first g.",
)
cached.where(block="attention", latent=False, windowed=True, picked=True).equals(
    (_of_all - _index) * _met(minimum(w, k_i)) / minimum(w, s + s_o) + _index * _written,
    "Of the window's tokens those that an indexer picks; and its keys of all tokens.",
)

stage_bytes = of_stage(
    "time.decode.bytes",
    r"D_\sigma",
    "weights and cache that a step of decoding reads on a stage",
    unit="bytes",
).equals(
    sum_on_stage(Sum(read, "component")) + sum_on_stage(Sum(cached, "block", remembers=True)),
    "Weights once for the whole batch; the cache of each sequence.",
)

stage_flops = of_stage(
    "time.decode.flops", r"C_\sigma", "products of a step of decoding on a stage", unit="FLOP"
)
_LINEAR = Sum(component_flops, "component", type="linear")
for _products, _towers in (
    (sum_on_stage(_LINEAR), "none"),
    (sum_on_stage(_LINEAR, tower=False), ("trained", "frozen")),
):
    stage_flops.where(towers=_towers).equals(
        b * _products / t,
        "Those of b tokens, divided over the tensor-parallel ranks; experts stay as busy, for each "
        "device brings its tokens.",
    )

stage = of_stage(
    "time.decode.stage",
    r"t_dec,\sigma",
    "one token of each sequence on one stage",
    unit="s",
    source=ROOFLINE,
).equals(
    maximum(stage_bytes / (W * e_mem), stage_flops / (peak * e_mm)),
    "Small batches wait for the memory, large ones for the arithmetic. Kernels are taken as "
    "launched together (CUDA graphs).",
)


hop = seconds(
    "time.decode.hop",
    "t_hop",
    "one hop of a token's exchange, and its share of b h activations",
    source="cluster document",
)
hop.where(tensor="none").equals(0, "One device has nothing to exchange.")
hop.where(tensor="node").equals(a_link + k_a * b * h / (t * link), "Over the link of the node.")
hop.where(tensor="nodes").equals(
    a_net + k_a * b * h / (t * fabric),
    "Over the network, which sets the pace of a ring that leaves the node.",
)

exchange = serving(
    "time.decode.exchange",
    "t_ex,dec",
    "exchanges of a step of decoding with tensor- and expert-parallel ranks",
    unit="s",
    source="Patarasu & Yuan 2009, Bandwidth optimal all-reduce algorithms",
    coefficient="bytes",
)
_each = L_k * Sum(exchanges, "block")
_RING = "A ring of 2 (t-1) hops for each exchange of a layer: a token's is too small for bandwidth."


def _of_step(name: str, symbol: str, whole: Quantity, hops: Operand | int) -> Quantity:
    """Declare an all-to-all of b tokens as of a micro-batch, but without the host waiting for the
    counts (CUDA graphs); ``hops`` to other devices are added if it has none itself."""
    found = seconds_of_block(name, symbol, f"{whole.title}, in a step of decoding")
    for formula in whole.formulas:
        few = formula.written.put({tokens.symbol: 1 * b, waiting.symbol: 0 * b})
        more = 0 if "all-gather" in formula.when.values() else hops
        found.formulas.append(replace(formula, quantity=found, written=few + more))
    return found


_there = _of_step(
    "time.decode.experts", "t_a2a,dec", experts_exchange, (e - 1) * a_link
) + _of_step("time.decode.gather", "t_ge,dec", experts_gather, 0)
for _exchanges, _towers in (
    (Sum(_each, "part"), "none"),
    (Sum(_each, "part", tower=False), ("trained", "frozen")),
):
    _hops = 2 * (t - 1) * hop * _exchanges
    exchange.where(experts=False, towers=_towers).equals(_hops, _RING)
    exchange.where(experts=True, towers=_towers).equals(
        _hops + Sum(L_k * Sum(2 * _there, "block", block="moe"), "part"),
        "As without experts; and tokens go to their experts and come back, with one hop to each of "
        "the other groups, and to each of the devices that share an expert.",
    )

sends = seconds(
    "time.decode.sends",
    "t_send,dec",
    "sending a step's tokens through the stages",
    source=f"{NARAYANAN}, section 4.1",
)
sends.where(pipeline="none").equals(0, "There is one stage.")
sends.where(pipeline="node").equals(
    (p - 1) * (k_a * b * h / (t * link) + a_link),
    "p - 1 times b h activations over the link, divided over the tensor-parallel ranks.",
)
sends.where(pipeline="nodes").equals(
    (p - 1) * (k_a * b * h / (t * fabric) + a_net), "As inside a node, over the network."
)

decode = answer_time("time.decode_seconds", "t_dec", "time of one further token").equals(
    maximum(1, micro_batches / p) * (p * Max(stage, "stage") + exchange + sends),
    "The p stages one after another, the exchanges of all layers and the way between stages; where "
    "more micro-batches than stages are under way, each waits for its turn.",
)

decode_rate = rate(
    "time.decode_tokens_per_second", "r_dec", "tokens generated per second, all devices"
).equals(
    data * micro_batches * b / decode,
    "Each of the d replicas has m micro-batches of b sequences under way.",
)

latency = answer_time("time.latency_seconds", "t_lat", "time of a whole answer").equals(
    prefill + s_o * decode, "The first token, then each of the rest."
)
