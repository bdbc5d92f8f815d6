"""Serving: time to the first token, and of each further one, by roofline with the cache."""

from dataclasses import replace

from planner.book.formulas.compute import NOTHING, OTHERS, SIDES, component_flops
from planner.book.formulas.layout import data, micro_batches, tokens
from planner.book.formulas.memory_cache import cache_block, cache_index
from planner.book.formulas.memory_states import weights_component
from planner.book.formulas.network import (
    exchange_latency,
    experts_exchange,
    experts_gather,
    fabric,
    link,
    send,
    waiting,
)
from planner.book.formulas.time_part import exchanges, forward
from planner.book.formulas.time_peak import peak, peak_16
from planner.book.language import *

POPE = "Pope et al. 2022 (arXiv 2211.05102), section 2"

serving = partial(estimate, mode="inference", assumed=False)
serving_time = partial(serving, unit="s")
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


#: Tokens of a step of decoding: of each sequence the last one, and those that a draft proposes.
rows = b * n_q

BALLS = "Raab & Steger 1998, Balls into bins, theorem 1"
#: Rows of the fullest of the e groups of experts, over an even share.
fullest = estimate(
    "time.decode.fullest",
    r"\gamma_{dec}",
    "rows of the device whose experts a step of decoding chooses most, over an even share",
    per="block",
    block="moe",
)
fullest.by("definition", expert="none").equals(1, "One device has all experts.")
fullest.by(BALLS, expert=DIVIDED).equals(
    1 + sqrt(2 * log(e) / (k * rows)),
    "Of rows thrown evenly into e bins, m = k b n_q on average, the fullest has about "
    "m + sqrt(2 m ln e).",
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
    1 - (1 - k / E) ** (rows * e * fullest),
    "Each of the b n_q tokens of e groups chooses k of E experts evenly; the expected share that "
    "at least one of them chose, on the fullest device.",
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

TILE = "NVIDIA, PTX ISA 9.0, wgmma: an instruction multiplies 64 rows"
products = estimate(
    "time.decode.products",
    "C_c",
    "FLOPs of one component in a step of decoding, over all tensor-parallel ranks",
    unit="FLOP",
    per="component",
    source=TILE,
)
products.where(routed=False).equals(
    maximum(rows, n_row) * component_flops,
    "Those of b n_q tokens; a kernel computes whole tiles of rows.",
)
products.where(routed=True).equals(
    maximum(rows * fullest, n_row * E * touched / (k * e)) * component_flops,
    "Those of the fullest device's rows, in whole tiles for each expert that some token chose.",
)

#: Blocks of one kernel.
ONES = ("embedding", "head", "projection", "matrix", "learned", "stream", *SIDES)
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

attend = seconds_of_block(
    "time.decode.attention",
    "t_dec,att",
    "attention of one token of a micro-batch over its cache",
    coefficient="FLOP",
)
_bandwidth = cached / (W * e_mem)
for _reading in ({"block": STATES}, {"block": "attention", "latent": False}):
    attend.by(ROOFLINE, **_reading).equals(
        _bandwidth, "Paged kernels read the cache as fast as others read weights."
    )
attend.by(
    f"{ROOFLINE}; DeepSeek-V2 (arXiv 2405.04434), section 2.1.2", block="attention", latent=True
).equals(
    maximum(
        _bandwidth,
        2 * n_q * a / t * (2 * r_kv + d_r) / (k_kv * (r_kv + d_r)) * cached / (peak_16 * e_16),
    ),
    "Keys and values are one; each of a rank's heads multiplies all of them by its query and by "
    "its weights, so that long caches wait for arithmetic where heads are many.",
)

launches = serving(
    "time.decode.kernels",
    "n_k",
    "kernels of one block in a step of decoding",
    per="block",
    source="vLLM 0.6.3, model_executor/models/llama.py, qwen2_moe.py and deepseek_v2.py",
)
_NORMS = Sum(1, "component", type="norm")
for _casts, _cast, _also in ((False, 0, ""), (True, 1, " Each product's input is cast.")):
    launches.where(casts=_casts, block="attention", latent=False).equals(
        6 + 2 * _cast + _NORMS,
        "Queries, keys and values in one product; their norms; positions; writing to the cache; "
        f"attention, in parts and their sum; the output.{_also}",
    )
    launches.where(casts=_casts, block="attention", latent=True).equals(
        9 + 3 * _cast + _NORMS,
        "Both compressions in one product; their norms; the queries; what multiplies queries and "
        "outputs in place of keys and values; positions; writing; attention and its sum; the "
        f"output.{_also}",
    )
    launches.where(casts=_casts, block="mlp").equals(
        3 + 2 * _cast, f"Both inputs in one product, the activation, the output.{_also}"
    )
    launches.where(casts=_casts, block="moe").equals(
        7 + 2 * _cast + Sum(1, "component", type="linear", routed=False),
        "The router and shared experts; the choice; sorting (2); two products of experts, the "
        f"activation between them, the sum.{_also}",
    )
launches.where(block="norm").equals(1, "One kernel adds the residual stream and normalises.")
launches.where(block=OTHERS).equals(8, "Two projections, convolution, gates, state and norm.")
launches.where(block=ONES).equals(1, "One kernel.")
launches.where(block=NOTHING).equals(0, "Nothing of it is decoded.")

_LINEAR = Sum(products, "component", type="linear")
#: Settings, and the parts that decode: towers run once, before the first token.
_DECODERS: tuple[tuple[Any, dict[str, bool]], ...] = (
    ("none", {}),
    (("trained", "frozen"), {"tower": False}),
)

stage_weights = sum_on_stage(Sum(read, "component"))
stage_bytes = of_stage(
    "time.decode.bytes",
    r"D_\sigma",
    "weights and cache that a step of decoding reads on a stage",
    unit="bytes",
).equals(
    stage_weights + sum_on_stage(Sum(cached, "block", remembers=True)),
    "Weights once for the whole batch; the cache of each sequence.",
)

stage_flops = of_stage(
    "time.decode.flops", r"C_\sigma", "products of a step of decoding on a stage", unit="FLOP"
)
stage = of_stage(
    "time.decode.stage",
    r"t_dec,\sigma",
    "one token of each sequence on one stage",
    unit="s",
    source=ROOFLINE,
    mode="inference",
)
for _towers, _decode in _DECODERS:
    stage_flops.where(towers=_towers).equals(
        sum_on_stage(_LINEAR, **_decode) / t,
        "Divided over the tensor-parallel ranks; experts stay as busy, for each device brings its "
        "tokens.",
    )
    stage.where(towers=_towers).equals(
        maximum(stage_weights / (W * e_mem), stage_flops / (peak * e_mm))
        + sum_on_stage(Sum(attend, "block", remembers=True))
        + t_gap * sum_on_stage(Sum(launches, "block"), **_decode),
        "Products of small batches wait for the weights, those of large ones for the arithmetic; "
        "attention reads the cache; and each kernel takes a while to begin and to end.",
    )


all_reduce = seconds(
    "time.decode.all_reduce",
    "t_ar",
    "all-reduce of the activations of a step's tokens over the tensor-parallel ranks",
    source="vLLM, distributed/device_communicators/custom_all_reduce.py; NCCL, graph/tuning.cc",
)
_volume = 2 * (t - 1) / t * k_a * rows * h
all_reduce.where(tensor="none").equals(0, "One device has nothing to exchange.")
all_reduce.where(tensor="node").equals(
    minimum(a_ar + x_ar * log2(t) + _volume / (link * e_ar), a_sw + _volume / link),
    "Small messages by the engine's own kernel, in which ranks read each other's memory; large "
    "ones by the collective library, which begins later and fills the link.",
)
all_reduce.where(tensor="nodes").equals(
    a_sw + 2 * log2(t / n_node) * a_net + _volume / link + 2 * k_a * rows * h / (n_node * fabric),
    "The collective library's: inside each node, and up and down a tree of nodes in which each "
    "device's network card sends its part.",
)

exchange = serving_time(
    "time.decode.exchange",
    "t_ex,dec",
    "exchanges of a step of decoding with tensor- and expert-parallel ranks",
    source="Patarasu & Yuan 2009, Bandwidth optimal all-reduce algorithms",
    coefficient="bytes",
)
_each = L_k * Sum(exchanges, "block")


def _of_step(name: str, symbol: str, whole: Quantity, hops: Operand | int) -> Quantity:
    """Declare an all-to-all of a step's tokens as of a micro-batch, but without the host waiting
    for the counts (CUDA graphs); ``hops`` to other devices are added if it has none itself."""
    found = seconds_of_block(name, symbol, f"{whole.title}, in a step of decoding")
    for formula in whole.formulas:
        none = dict.fromkeys((waiting.symbol, exchange_latency.symbol), 0 * b)
        few = formula.written.put({tokens.symbol: rows, e_a2a: e_a2a * e_few, **none})
        more = 0 if "all-gather" in formula.when.values() else hops
        found.formulas.append(replace(formula, quantity=found, written=few + more))
    return found


_there = _of_step(
    "time.decode.experts", "t_a2a,dec", experts_exchange, (e - 1) * a_link
) + _of_step("time.decode.gather", "t_ge,dec", experts_gather, 0)
for _towers, _decode in _DECODERS:
    _reduced = all_reduce * Sum(_each, "part", **_decode)
    exchange.where(experts=False, towers=_towers).equals(
        _reduced, "An all-reduce for each exchange of a layer."
    )
    exchange.where(experts=True, towers=_towers).equals(
        _reduced + Sum(L_k * Sum(2 * _there, "block", block="moe"), "part"),
        "As without experts; and tokens go to their experts and come back, with one hop to each of "
        "the other groups, and to each of the devices that share an expert.",
    )

sends = serving_time(
    "time.decode.sends",
    "t_send,dec",
    "sending a step's tokens through the stages",
    coefficient="bytes",
    source=f"{NARAYANAN}, section 4.1",
)
sends.where(pipeline="none").equals(0, "There is one stage.")
sends.where(pipeline="node").equals(
    (p - 1) * (k_a * rows * h / (t * link) + a_link),
    "p - 1 times b n_q h activations over the link, divided over the tensor-parallel ranks.",
)
sends.where(pipeline="nodes").equals(
    (p - 1) * (k_a * rows * h / (t * fabric) + a_net), "As inside a node, over the network."
)

ENGINES = "vLLM issues 6854 and 10634 (host time between steps of decoding)"
launched = serving_time(
    "time.decode.launches",
    "t_la,dec",
    "host time in which a step of decoding is launched kernel by kernel",
    source=ENGINES,
)
for _towers, _decode in _DECODERS:
    launched.where(towers=_towers).equals(
        t_hk * Sum(L_k * Sum(launches, "block"), "part", **_decode),
        "Of all layers; none where the engine replays a CUDA graph.",
    )
host = serving_time(
    "time.decode.host",
    "t_host,dec",
    "host time of a step of decoding that the device waits for",
    source=ENGINES,
).equals(
    t_stp + t_seq * b,
    "The engine reads the tokens of the last step and schedules the next, with some work for each "
    "sequence; none where it does so while the device decodes.",
)

decode = answer_time("time.decode_seconds", "t_dec", "time of one further token").equals(
    maximum(1, micro_batches / p)
    * (maximum(p * Max(stage, "stage") + exchange + sends, launched) + host),
    "The p stages one after another, the exchanges of all layers and the way between stages, or "
    "launching all of it if that takes longer; then the host. Where more micro-batches than stages "
    "are under way, each waits for its turn.",
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
