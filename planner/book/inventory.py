"""The inventory: what each block of a model is made of.

Each block kind states its components once, with widths as expressions in the notation's symbols.
Parameters, matmul FLOPs, saved tensors, communication and checkpoint size all derive from here.

A component has a type, which decides the formulas that hold for it:

linear   a matmul of n_in by n_out, with a bias where ``bias`` is set
table    n_in rows of n_out, looked up (embeddings)
norm     n_out weights, with biases where ``bias`` is set
vector   n_out further weights that no matmul uses
conv     a causal depthwise convolution of width n_in over n_out channels
core     attention's two products with itself: n_in = query/key width, n_out = value width
index    the indexer's product of queries and keys, n_in wide; its scores are weighed over n_out
scan     products of a linear attention or state space that use no weights

``split`` says how tensor parallelism cuts it: column (output), row (input), vocabulary, experts,
none (every rank holds all). ``copies`` is how many of it there are, ``applied`` how many a token
uses: an expert has E copies of which k are applied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import getmembers, isfunction
from typing import Any

from planner.book.expressions import Expression, ceil, make_number, minimum
from planner.book.notation import *

ONE = make_number(1)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a block: a matrix, a vector, or an operation without weights.

    Attributes:
        name: unique in its block.
        n_in: width of the input; of a convolution the kernel.
        n_out: width of the output.
        group: the line of a breakdown that it belongs to.
        split: how tensor parallelism divides it: none, column, row, vocabulary or experts.
        bias: whether a vector is added.
        type: linear, table, norm, vector, conv, core (attention), index or scan.
        copies: of the weights, such as experts.
        applied: copies that a token uses.
        shared: whether the weight is another component's, counted there.
        again: whether it lies beside that one on every stage, so that no copy is held.
        frozen: whether the loss sends it no gradient.
        scan: which algorithm a scan is.
        each: tokens that a key of a core or an index stands for.
        most: keys that a query meets at most; None for all.
        run: keys as kernels run them, where that is more.
        final: whether it is the last of its layer, and nothing keeps its output.
        side: its tokens, where they are not all of the sequence: ``decoder``; ``cross``, which meet
            the encoder's; ``first`` of each sequence; ``tower``, of a stack in front of the
            decoder.
    """

    name: str
    n_in: Expression
    n_out: Expression
    group: str
    split: str = "none"
    bias: bool = False
    type: str = "linear"
    copies: Expression = ONE
    applied: Expression = ONE
    shared: bool = False
    again: bool = False
    frozen: bool = False
    scan: str = ""
    each: Expression = ONE
    most: Expression | None = None
    run: Expression | None = None
    final: bool = False
    side: str = ""


Components = Iterator[Component]

#: Types of components that multiply matrices.
MATMULS = ("linear", "core", "index", "scan")


def _make_norm(name: str, width: Expression, bias: bool = False) -> Component:
    """Return a norm of a width; its weight counts as a vector."""
    return Component(name, ONE, width, "norm", type="norm", bias=bias)


def _make_vector(name: str, width: Expression, group: str, **more: Any) -> Component:
    """Return a vector of weights, such as a scale or a learned token."""
    return Component(name, ONE, width, group, type="vector", **more)


def _make_conv(
    kernel: Expression, channels: Expression, group: str, bias: bool = False
) -> Component:
    """Return a convolution along the sequence, one kernel for each channel, divided by channels."""
    return Component("convolution", kernel, channels, group, "column", bias, type="conv")


def list_attention(values: Values) -> Components:
    """Yield grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245); multi-head if a_kv =
    a."""
    yield from _list_latent(values) if values.get("kv_rank") else _list_projections(values)
    if values.get("compress"):
        yield from _list_compression(values)
    elif values.get("index_heads"):
        yield from _list_indexer(values) if values.get("kv_rank") else _list_block_index()
    gate = {"full": a * d_v, "head": a}.get(values["output_gate"])
    if gate is not None:
        yield Component("gate", h, gate, "attention", "column", values["gate_bias"])
    if values["differential"]:
        yield _make_vector("lambda", 4 * d_h, "attention")
    if values["sinks"]:
        yield _make_vector("sinks", a, "attention", split="column")
    if values.get("relative_each"):
        yield Component("distance", n_rel_own, a, "embedding", type="table")
    yield from list_core(values)
    if values["output_norm"]:
        yield _make_norm("output_norm", a * d_v)
    width = a * d_v
    if values.get("output_groups"):
        # Each group of heads has a matrix of its own.
        yield Component("output_down", a * d_v / g_o, g_o * r_o, "attention", "column")
        width = g_o * r_o
    yield Component("output", width, h, "attention", "row", values["output_bias"])


def list_core(values: Values) -> Components:
    """Yield the attention core alone, for streams of tokens that are projected separately."""
    # Differential attention runs the core once for each half of the values.
    runs = 2 if values["differential"] else 1
    core = Component("core", runs * a * d_h, runs * a * d_v, "attention scores", "column")
    picked = values.get("index_top_k") and not values.get("compress")
    most: Expression | None = k_i if picked else None
    run = most
    if values.get("window"):
        # From the first of a window to the end of a block of queries, in whole blocks: the last
        # query of a block of n sees w, the first w more than n - 1 before it.
        blocks = n_blk * (1 + ceil((w - 1) / n_blk))
        most, run = (minimum(w, k_i), minimum(blocks, k_i)) if picked else (w, blocks)
    yield replace(core, type="core", most=most, run=run)


def list_stream(values: Values) -> Components:
    """Yield the projections of one stream whose tokens share an attention core with others (Esser
    et al. 2024, arXiv 2403.03206, section 4), without the components in ``without``."""
    left = ("core", *values["without"])
    yield from (piece for piece in list_attention(values) if piece.name not in left)


def _list_queries(values: Values) -> Components:
    """Yield low-rank query projections with a norm (DeepSeek-V2, arXiv 2405.04434, eq. 12)."""
    yield Component("query_down", h, r_q, "attention", "none", values["latent_bias"])
    if values["latent_norm"]:
        yield _make_norm("query_latent_norm", r_q)
    yield Component("query_up", r_q, a * d_h, "attention", "column")


def _list_projections(values: Values) -> Components:
    """Yield the projections of attention: through a latent of each, or queries, keys and values."""
    bias, own = values["bias"], not values["shared_kv"]
    width = 2 * h if values.get("doubled") else h
    made = []
    if values.get("query_rank"):
        yield from _list_queries(values)
    else:
        made.append(("query", a * d_h, bias))
    if own:
        made.append(("key", a_kv * d_h, values["key_bias"]))
    if own and not values["value_from_key"]:
        made.append(("value", a_kv * d_v, bias))
    for name, out, biased in made:
        yield Component(name, width, out, "attention", "column", biased)
        if values.get("adapter_rank"):
            yield Component(f"{name}_adapter_down", width, r_aa, ADAPTERS)
            yield Component(f"{name}_adapter_up", r_aa, out, ADAPTERS, "column")
    if values["qk_norm"] != "none":
        each = values["qk_norm"] == "head"
        if values["query_norm_weight"]:
            yield _make_norm("query_norm", d_h if each else a * d_h, values["qk_norm_bias"])
        if own:
            yield _make_norm("key_norm", d_h if each else a_kv * d_h, values["qk_norm_bias"])
        if own and values["value_norm"]:
            yield _make_norm("value_norm", d_v if each else a_kv * d_v, values["qk_norm_bias"])


def _list_latent(values: Values) -> Components:
    """Yield multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): low-rank
    projections of queries, and of keys and values together; all heads share one rotary key."""
    if values.get("query_rank"):
        yield from _list_queries(values)
    else:
        yield Component("query", h, a * d_h, "attention", "column", values["bias"])
    yield Component("kv_down", h, r_kv + d_r, "attention", "none", values["latent_bias"])
    if values["latent_norm"]:
        yield _make_norm("kv_latent_norm", r_kv)
    yield Component("kv_up", r_kv, a * (d_n + d_v), "attention", "column")


def _list_indexer(values: Values) -> Components:
    """Yield DeepSeek sparse attention's indexer (DeepSeek-V3.2, arXiv 2512.02556): few narrow heads
    score all keys; the best k_i are attended to. It gets no gradient from the loss. A pooled key is
    weighted by a gate, with a bias for each position (GLM-5.3, transformers 5.23)."""
    yield Component("index_query", r_q, a_i * d_i, "indexer", frozen=True)
    yield Component("index_key", h, d_i, "indexer", frozen=True)
    yield replace(_make_norm("index_key_norm", d_i, True), group="indexer")
    yield Component("index_weights", h, a_i, "indexer", frozen=True)
    scores = Component("index_scores", a_i * d_i, a_i, "indexer", type="index", frozen=True)
    if values.get("index_pool"):
        yield Component("index_gate", h, d_i, "indexer", frozen=True)
        yield _make_vector("index_places", p_i * d_i, "indexer")
        scores = replace(scores, each=p_i)
    yield scores


def _list_compressor(name: str, width: Expression, overlap: bool, **more: Any) -> Components:
    """Yield a compressor of several tokens' keys into one, weighted by a gate with a bias for each
    position (DeepSeek-V4, transformers 5.23, modeling_deepseek_v4.py); overlapping ones are
    double."""
    both = 2 * width if overlap else width
    for part in ("key", "gate"):
        yield Component(f"{name}_{part}", h, both, **more)
    yield _make_vector(f"{name}_places", r_c * both, more["group"])
    yield replace(_make_norm(f"{name}_norm", width), group=more["group"])


def _list_compression(values: Values) -> Components:
    """Yield DeepSeek-V4's compressed keys, which are values too: each of a few tokens, with an
    indexer that selects among them, or each of many tokens, without one."""
    overlap = bool(values.get("index_heads"))
    yield from _list_compressor("compressed", d_h, overlap, group="compressed keys")
    if overlap:
        yield from _list_compressor("index", d_i, True, group="indexer", frozen=True)
        yield Component("index_query", r_q, a_i * d_i, "indexer", frozen=True)
        yield Component("index_weights", h, a_i, "indexer", frozen=True)
        scores = Component("index_scores", a_i * d_i, make_number(0), "indexer", frozen=True)
        yield replace(scores, type="index", each=r_c)
    core = Component("compressed_core", a * d_h, a * d_v, "attention scores", "column", each=r_c)
    yield replace(core, type="core", most=k_i if values.get("index_top_k") else None)


def _list_block_index() -> Components:
    """Yield MiniMax-M3's indexer (transformers 5.23, modeling_minimax_m3_vl.py): it reads the
    layer's input, scores a block of keys by its best key, and has no weights for its heads."""
    for name, width in (("index_query", a_i * d_i), ("index_key", d_i)):
        yield Component(name, h, width, "indexer", frozen=True)
        yield replace(_make_norm(f"{name}_norm", d_i), group="indexer")
    yield Component("index_scores", a_i * d_i, make_number(0), "indexer", type="index", frozen=True)


#: The group of projections that are a layer's own if layers share a block.
ADAPTERS = "adapters"
#: Gates beyond the first, each another matrix beside it.
FURTHER_GATES = tuple(f"gate_{place}" for place in range(2, 7))
#: What targets of adapters call a projection, where that is not its own name.
_TARGETS = {
    **dict.fromkeys(FURTHER_GATES, ("gate",)),
    **dict.fromkeys(("query_down", "query_up"), ("query",)),
    **dict.fromkeys(("kv_down", "kv_up"), ("key", "value")),
}


def name_targets(block: str, component: str) -> tuple[str, ...]:
    """List the targets of adapters that mean a component of a block of some kind."""
    return ("head",) if block == "head" else _TARGETS.get(component, (component,))


def _name_matmuls(values: Values) -> tuple[str, ...]:
    """List the matmuls from the hidden size to the width of a feed-forward."""
    further = FURTHER_GATES[: values.get("further") or 0]
    return ("gate", *further, "up") if values["gated"] else ("up",)


def list_mlp(values: Values) -> Components:
    """Yield a feed-forward; gated: Shazeer 2020, arXiv 2002.05202; a ``lone`` single matrix with
    outputs reduced to the hidden width: maxout, Goodfellow et al. 2013, arXiv 1302.4389."""
    bias = values["bias"]
    for name in _name_matmuls(values):
        yield Component(name, h, f, "mlp", "column", bias)
    if values.get("adapter_rank"):
        outputs = len(_name_matmuls(values))
        yield Component("adapter_down", h, r_ma, ADAPTERS)
        yield Component("adapter_up", r_ma, outputs * f, ADAPTERS, "column")
    if values.get("receptance"):
        yield Component("receptance", h, h, "mlp")
        yield _make_vector("mix", 2 * h, "mlp")
    if values["activation_parameters"]:
        yield _make_vector("activation", n_act, "mlp")
    if values["inner_norm"]:
        yield _make_norm("inner_norm", f)
    if not values["lone"]:
        yield Component("down", f, h, "mlp", "row", values["output_bias"])


def list_moe(values: Values) -> Components:
    """Yield routed experts (Shazeer et al. 2017, arXiv 1701.06538) and shared experts."""
    bias, latent = values["bias"], bool(values.get("latent"))
    yield Component("router", h, E + E_0, "router", "none", values["router_bias"])
    if values["correction_bias"]:
        yield _make_vector("router_correction", E + E_0, "router")
    if values["router_scales"]:
        yield _make_vector("router_scale", h, "router", copies=n_rs, applied=n_rs)
    if values["expert_scales"]:
        yield _make_vector("expert_scale", E, "router")
    width = h_l if latent else h
    if latent:
        yield Component("latent_down", h, width, "experts")
    routed: dict[str, Any] = {"copies": E, "applied": k, "bias": bias}
    routed |= {"group": "experts", "split": "experts"}
    for name in _name_matmuls(values):
        yield Component(f"expert_{name}", width, f_e, **routed)
    yield Component("expert_down", f_e, width, **routed)
    if values.get("zero_expert_gates"):
        idle = {**routed, "copies": E_0, "applied": make_number(0), "bias": False}
        for name in _name_matmuls(values):
            yield Component(f"idle_{name}", width, f_e, **idle)
    if latent:
        yield Component("latent_up", width, h, "experts")
    shared_bias = values["shared_bias"]
    if values["shared_intermediate"]:
        for name in _name_matmuls(values):
            yield Component(f"shared_{name}", h, f_s, "shared experts", "column", shared_bias)
        yield Component("shared_down", f_s, h, "shared experts", "row", shared_bias)
        if values["shared_gate"]:
            yield Component("shared_expert_gate", h, ONE, "shared experts")


def list_mamba(values: Values) -> Components:
    """Yield a selective state space: Mamba (arXiv 2312.00752) and Mamba-2 (arXiv 2405.21060)."""
    second, bias, group = values["version"] == 2, values["bias"], "state space"
    inner, state = m_in, n_st
    shared, steps = (2 * g_m * state, a_m) if second else (make_number(0), make_number(0))
    yield Component("input", h, 2 * inner + shared + steps, group, "column", bias)
    yield _make_conv(k_conv, inner + shared, group, values["conv_bias"])
    if second:
        for name in ("decay", "skip", "step_bias"):
            yield _make_vector(name, a_m, group)
        yield Component("scan", inner, state, group, "column", type="scan", scan="mamba2")
        if values["norm"]:
            yield _make_norm("norm", inner)
    else:
        yield Component("selection", inner, r_dt + 2 * state, group, "row")
        if values["inner_norms"]:
            for name, width in (("step_norm", r_dt), ("input_norm", state), ("output_norm", state)):
                yield _make_norm(name, width)
        yield Component("step", r_dt, inner, group, "column", True)
        yield _make_vector("decay", inner * state, group)
        yield _make_vector("skip", inner, group)
        yield Component("scan", inner, state, group, "column", type="scan", scan="mamba1")
    yield Component("output", inner, h, group, "row", values["output_bias"])


def list_delta_net(values: Values) -> Components:
    """Yield a gated delta-net (Yang et al. 2024, arXiv 2412.06464) as in Qwen3-Next."""
    group = "delta net"
    keys, vals = a_dk * d_dk, a_dv * d_dv
    yield Component("query_key_value", h, 2 * keys + vals, group, "column")
    low_rank = values.get("gate_rank")
    if low_rank:
        for gate in ("output_gate", "decay_gate"):
            yield Component(f"{gate}_down", h, r_g, group)
            yield Component(f"{gate}_up", r_g, vals, group, "column")
    else:
        yield Component("output_gate", h, vals, group, "column")
        yield Component("decay_gate", h, a_dv, group, "column")
    yield Component("step", h, a_dv, group, "column")
    yield _make_conv(k_d, 2 * keys + vals, group)
    yield _make_vector("decay", a_dv, group)
    yield _make_vector("step_bias", vals if low_rank else a_dv, group)
    yield Component(
        "scan", keys, vals, group, "column", type="scan", scan="kda" if low_rank else "delta"
    )
    yield _make_norm("norm", d_dv)
    yield Component("output", vals, h, group, "row")


def list_short_conv(values: Values) -> Components:
    """Yield a gated short convolution (LFM2, arXiv 2511.23404): two gates and a convolution."""
    group, bias = "short convolution", values["bias"]
    yield Component("input", h, 3 * h, group, "column", bias)
    yield _make_conv(k_s, h, group, bias)
    yield Component("output", h, h, group, "row", bias)


def list_recurrence(values: Values) -> Components:
    """Yield a real-gated linear recurrence (De et al. 2024, arXiv 2402.19427, section 2.4)."""
    group, width, gates = "recurrence", w_r, a_r
    yield Component("input", h, width, group, "column", True)
    yield Component("side", h, width, group, "column", True)
    yield _make_conv(k_r, width, group, True)
    for name in ("input_gate", "recurrence_gate"):
        yield Component(
            name, width / gates, width / gates, group, "column", True, copies=gates, applied=gates
        )
    yield _make_vector("decay", width, group)
    yield Component("output", width, h, group, "row", True)


def list_rwkv(values: Values) -> Components:
    """Yield time mixing of RWKV-4 (Peng et al. 2023, arXiv 2305.13048, section 3.1)."""
    group, width = "recurrence", w_rw
    for name in ("key", "value", "receptance"):
        yield Component(name, h, width, group, "column")
    yield _make_vector("mix", 3 * h, group)
    yield _make_vector("decay", 2 * width, group, split="column")
    yield Component("output", width, h, group, "row")


def list_lightning(values: Values) -> Components:
    """Yield lightning attention with an output gate (MiniMax-01, arXiv 2501.08313, section 2.2)."""
    group, width = "linear attention", a_l * d_l
    yield Component("query_key_value", h, 3 * width, group, "column")
    yield _make_norm("norm", width)
    yield Component("output_gate", h, width, group, "column")
    yield Component("scan", width, width, group, "column", type="scan", scan="lightning")
    yield Component("output", width, h, group, "row")


def list_norm(values: Values) -> Components:
    """Yield a norm: RMSNorm (Zhang & Sennrich 2019) or, with biases, LayerNorm (Ba et al. 2016)."""
    if values["weight"]:
        width = h_e if values["narrow"] else h
        yield _make_norm("weight", 2 * width if values.get("doubled") else width, values["bias"])


def list_embedding(values: Values) -> Components:
    """Yield the token table; a narrower one is projected (Lan et al. 2019, arXiv 1909.11942)."""
    narrow = values.get("embedding_dim")
    width = h_e if narrow else h
    yield Component("token", V, width, "embedding", "vocabulary", type="table")
    if values["token_types"]:
        yield Component("token_type", n_seg, width, "embedding", type="table")
    if narrow:
        bias = values["embedding_projection"] == "all"
        yield Component("projection", width, h, "embedding projection", "none", bias)


def list_positions(values: Values) -> Components:
    """Yield a table of learned positions (Gehring et al. 2017), or of biases by distance (T5)."""
    if values["positions"] == "learned":
        width = h_e if values["narrow"] else h
        yield Component("position", s_max + s_off, width, "embedding", type="table")
    if values["positions"] == "relative":
        yield Component("distance", n_rel, a_rel, "embedding", type="table")


def list_per_layer_embedding(values: Values) -> Components:
    """Yield per-layer embeddings: one table for all layers, mixed into the output of each."""
    group = "per-layer embedding"
    if values["table"]:
        yield Component("token", V_p, L * h_p, "embedding", type="table")
        yield Component("projection", h, L * h_p, group)
        yield _make_norm("norm", h_p)
    else:
        yield Component("gate", h, h_p, group)
        yield Component("projection", h_p, h, group)
        yield _make_norm("norm", h)


def list_altup(values: Values) -> Components:
    """Yield alternating updates (Baykal et al. 2023, arXiv 2301.13310) as in Gemma 3n: a layer
    predicts each part of the residual stream from all parts and corrects them by its output; at
    both ends of the model every further part has a projection."""
    group, parts = "alternating updates", values["inputs"]
    if values["at"] == "ends":
        more = make_number(parts - 1)
        yield Component("projection", h, h, group, copies=more, applied=more)
        return
    yield _make_norm("router_norm", h)
    # Of the layer's input, and once more of its output.
    yield Component("router", h, n_alt, group)
    yield Component("router_again", h, n_alt, group, shared=True, again=True)
    yield Component("prediction", n_alt, n_alt**2, group)
    yield Component("mix", h, n_alt**2, group, type="scan", scan="mix")
    yield Component("correction", n_alt, n_alt, group)
    yield _make_vector("scale", h, group)


def list_hyper(values: Values) -> Components:
    """Yield hyper-connections (Zhu et al. 2024, arXiv 2409.19606) as in DeepSeek-V4: attention and
    feed-forward each read a mix of the parts of the residual stream, add their output to each part,
    and mix the parts by a matrix computed for each token; before the head the parts are merged."""
    group, mixed = "hyper-connections", values["mixed"]
    if values["at"] == "ends":
        yield Component("mapping", n_hyp * h, n_hyp, group)
        yield _make_vector("base", n_hyp + 1, group)
        return
    width = (2 + n_hyp) * n_hyp if mixed else 2 * n_hyp
    both: dict[str, Any] = {"copies": make_number(2), "applied": make_number(2)}
    yield Component("mapping", n_hyp * h, width, group, **both)
    yield _make_vector("base", width + (3 if mixed else 2), group, **both)
    if mixed:
        yield Component("mix", n_hyp * h, 2 * n_hyp, group, type="scan", scan="mix")


def list_laurel(values: Values) -> Components:
    """Yield a low-rank learned augmented residual (Menghani et al. 2024, arXiv 2411.07501)."""
    yield Component("left", h, r_la, "augmented residual")
    yield Component("right", r_la, h, "augmented residual")
    yield _make_norm("norm", h)


def list_head(values: Values) -> Components:
    """Yield the matrices behind the last layer; a tied output is the embedding's table."""
    width = h_e if values.get("embedding_dim") else h
    if values.get("embedding_dim") and not values["transform"]:
        yield Component("projection", h, width, "embedding projection")
    if values["transform"]:
        yield Component("transform", h, width, "head transform", "none", values["transform_bias"])
        yield _make_norm("transform_norm", width, values["norm_bias"])
    yield Component("output", width, V, "head", "vocabulary", values["bias"], shared=values["tied"])


def list_projection(values: Values) -> Components:
    """Yield the projection of hidden state and next embedding (DeepSeek-V3, section 2.2, eq.
    21)."""
    inputs = 1 if values.get("lone") else 2
    yield Component("projection", inputs * h, h, "projection", "column")


def list_matrix(values: Values) -> Components:
    """Yield a matrix before or after a tower, with a norm on its input: patches as one matmul
    (Dosovitskiy et al. 2020, arXiv 2010.11929), projectors (Liu et al. 2023, arXiv 2310.03744)."""
    several: dict[str, Any] = {"copies": n_mat, "applied": n_mat}
    if values["norm"] != "none":
        yield replace(_make_norm("norm", w_nm, values["norm"] == "layernorm"), **several)
    group, split = values["group"], values["split"]
    yield Component("matrix", w_in, w_out, group, split, values["bias"], **several)


def list_learned(values: Values) -> Components:
    """Yield rows that are parameters: a class token (Dosovitskiy et al. 2020, arXiv 2010.11929)."""
    yield _make_vector("learned", n_lrn * h, "embedding")


def list_pooler(values: Values) -> Components:
    """Yield a dense layer on the first token (Devlin et al. 2018, arXiv 1810.04805)."""
    yield Component("pooler", h, h, "pooler", "none", True, side="first")


def list_classifier(values: Values) -> Components:
    """Yield a head over labels, on all tokens or one of each sequence (Devlin et al. 2018; a reward
    model has one label: Ouyang et al. 2022, arXiv 2203.02155)."""
    more: Any = {"group": "classifier", "side": "first" if values["tokens"] == "first" else ""}
    if values["dense"]:
        yield Component("dense", h, h, bias=values["dense_bias"], **more)
    if values["norm"]:
        yield _make_norm("norm", h, values["norm_bias"])
    yield Component("output", h, n_lab, bias=values["output_bias"], **more)


#: What yields the components of each kind of block, by the name behind ``list_``.
BLOCKS: Mapping[str, Callable[[Values], Components]] = {
    name.removeprefix("list_"): block
    for name, block in getmembers(sys.modules[__name__], isfunction)
    if name.startswith("list_")
}

#: Block kinds with a cache or a state in serving.
REMEMBERING = frozenset(
    {"attention", "mamba", "delta_net", "short_conv", "recurrence", "rwkv", "lightning"}
)


def list_components(kind: str, values: Values) -> Components:
    """Yield the components of a block; weights shared with another block are counted there."""
    side_norms = (f"side_norm_{place + 1}" for place in range(values.get("side_norms", 0)))
    pieces = BLOCKS["core" if values.get("joined") else kind]
    found = [*pieces(values), *(_make_norm(name, h) for name in side_norms)]
    if values.get("layer_scale"):
        found.append(_make_vector("layer_scale", h, "norm"))
    # Routed experts' output is weighed by the router, and a gate weighs the shared experts'.
    kept = kind == "norm" or (
        kind == "moe" and (not values["shared_intermediate"] or values["shared_gate"])
    )
    if values.get("last") and found[-1:] and found[-1].type == "linear" and not kept:
        found[-1] = replace(found[-1], final=True)
    if values.get("decoder"):
        cross = bool(values.get("cross"))
        # Cross-attention projects keys and values of the encoder's tokens, all else the decoder's.
        others = {"key": "", "value": "", "core": "cross"} if cross else {}
        found = [replace(c, side=others.get(c.name, "decoder")) for c in found]
    if values.get("tower"):
        still = bool(values.get("frozen"))
        found = [replace(c, side="tower", frozen=c.frozen or still) for c in found]
    if values.get("reused"):
        again = bool(values.get("again"))
        found = [
            c if c.group == ADAPTERS else replace(c, shared=True, bias=False, again=again)
            for c in found
        ]
    yield from found
