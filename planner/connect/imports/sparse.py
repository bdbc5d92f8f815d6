"""Families with mixtures of experts, and with latent attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.connect.imports.config import Config, Rule, either, first, flag, need, whole
from planner.connect.imports.dense import LLAMA, QK_HEAD, QKV_BIAS, SANDWICH
from planner.connect.imports.patterns import Axis, all_are, at, depth, every, listed, up_to
from planner.connect.imports.rows import (
    LAYERNORM,
    Family,
    experts,
    windows,
)

MLP_WORDS = {"dense": "dense", "sparse": "sparse"}


def _qwen_experts(c: Config) -> list[str]:
    """Every decoder_sparse_step-th layer, unless listed in mlp_only_layers."""
    step, dense = c.whole("decoder_sparse_step", 0) or 1, c.indices("mlp_only_layers") or []
    count = c.whole("num_experts", 0) or 0
    return [
        "sparse" if count > 0 and (i + 1) % step == 0 and i not in dense else "dense"
        for i in range(depth(c))
    ]


def _ernie_experts(c: Config) -> list[str]:
    start, end = c.whole("moe_layer_start_index", 0) or 0, c.get("moe_layer_end_index")
    step = c.whole("moe_layer_interval") or 1
    last = depth(c) - 1 if end in (None, -1) else c.need("moe_layer_end_index")
    return [
        "sparse" if (i + 1) % step == 0 and start <= i <= last else "dense" for i in range(depth(c))
    ]


def _llama4_windows(c: Config) -> list[str]:
    rope = c.each("no_rope_layers", depth(c))
    step = c.whole("no_rope_layer_interval") or 4
    return ["chunked" if (rope[i] if rope else (i + 1) % step) else "full" for i in range(depth(c))]


def _mimo_windows(c: Config) -> list[str]:
    return ["full" if i == 0 or (i + 1) % 6 == 0 else "sliding" for i in range(depth(c))]


def _mimo_window(c: Config) -> int | None:
    """MiMo's checkpoints count the keys before a query, without its own."""
    before = c.whole("sliding_window_size")
    return c.whole("sliding_window") if before is None else before + 1


def _indexers(c: Config) -> Sequence[str]:
    """GLM-5: layers that reuse the keys that an earlier layer's indexer picked have none."""
    given = c.words("indexer_types")
    if given is not None:
        return given
    pattern = c.get("index_topk_pattern")
    if isinstance(pattern, str):
        return ["full" if letter == "F" else "shared" for letter in pattern]
    step, skip = c.whole("index_topk_freq", 0) or 1, c.whole("index_skip_topk_offset", 0)
    skip = 2 if skip is None else skip
    return ["full" if max(i - skip + 1, 0) % step == 0 else "shared" for i in range(depth(c))]


def _one_topk(c: Config) -> int:
    """Hunyuan writes the experts per token once, or once for each layer."""
    value = c.get("moe_topk")
    if isinstance(value, list):
        if not value or any(item != value[0] for item in value):
            raise c.fault("moe_topk differs from layer to layer, which is not modelled")
        c.given["moe_topk"] = value[0]
    return c.need("moe_topk")


def _gemma4_windows(c: Config) -> list[str]:
    labels = list(every(6, "full", "sliding")(c))
    return [*labels[:-1], "full"]


def _gemma4_sharing(c: Config) -> list[str]:
    """Gemma 4: the last layers reuse the keys and values of an earlier one."""
    own = depth(c) - (c.whole("num_kv_shared_layers", 0) or 0)
    return ["own" if i < own else "reuse" for i in range(depth(c))]


def _gemma4_width(c: Config) -> int | None:
    return c.whole("hidden_size_per_layer_input", 0) or None


def _gemma4_blocks(c: Config) -> str | None:
    return "mlp+moe" if c.flag("enable_moe_block") else "mlp"


def _if_gemma4_moe(worth: Any) -> Rule:
    """A whole number of that key, or a constant, where its experts are switched on."""

    def rule(c: Config) -> Any:
        if not c.flag("enable_moe_block"):
            return None
        return c.need(worth) if isinstance(worth, str) else worth

    return rule


MOE = {
    **LLAMA,
    "mlp.bias": False,
    "moe.experts": first("num_experts", "num_local_experts"),
    "moe.top_k": need("num_experts_per_tok"),
    "moe.intermediate": first("moe_intermediate_size", "intermediate_size"),
}
MIXTRAL = {
    **MOE,
    "attention.bias": False,
    "moe.experts": need("num_local_experts"),
    "moe.intermediate": need("intermediate_size"),
    "mlp.intermediate": None,
}


def _grouped(key: str) -> Rule:
    """Groups that a router chooses first: not where it is greedy over all experts."""

    def rule(c: Config) -> int | None:
        count = c.whole(key)
        return None if c.get("topk_method") == "greedy" else count

    return rule


SHARED = {
    "moe.experts": need("n_routed_experts"),
    "moe.router_groups": _grouped("n_group"),
    "moe.router_group_top_k": _grouped("topk_group"),
    "moe.shared_experts": whole("n_shared_experts", 0),
    "moe.intermediate": need("moe_intermediate_size"),
}
LATENT = {
    "attention.kv_heads": None,
    "attention.head_dim": None,
    "attention.query_rank": whole("q_lora_rank"),
    "attention.kv_rank": need("kv_lora_rank"),
    "attention.nope_dim": need("qk_nope_head_dim"),
    "attention.rope_dim": need("qk_rope_head_dim"),
    "attention.value_head_dim": whole("v_head_dim"),
    "attention.bias": False,
    "attention.latent_bias": flag("attention_bias"),
    "attention.output_bias": flag("attention_bias"),
}
INDEXER = {
    "attention.index_heads": need("index_n_heads"),
    "attention.index_head_dim": need("index_head_dim"),
    "attention.index_top_k": whole("index_topk"),
}
DENSE_FIRST = experts(up_to("first_k_dense_replace", "dense", "sparse"))
LISTED = experts(
    listed("mlp_layer_types", up_to("first_k_dense_replace", "dense", "sparse"), MLP_WORDS)
)


def listed_experts(otherwise: object) -> Axis:
    assert callable(otherwise)
    return experts(listed("mlp_layer_types", otherwise, MLP_WORDS))


SPARSE_FAMILIES: dict[str, Family] = {
    "mixtral": Family(traits={**MIXTRAL, "attention.window": whole("sliding_window")}),
    "phimoe": Family(
        "mixtral",
        {
            **LAYERNORM,
            "attention.bias": flag("attention_bias"),
            "head_bias": flag("lm_head_bias"),
            "bias": False,
        },
    ),
    "minimax_m2": Family("mixtral", {"attention.qk_norm": "full", "attention.window": None}),
    "olmoe": Family(
        traits={
            **MIXTRAL,
            "attention.bias": flag("attention_bias"),
            "attention.qk_norm": "full",
            "moe.experts": first("num_experts", "num_local_experts"),
        }
    ),
    "flex_olmo": Family("olmoe", {"norm_placement": "output"}),
    "granitemoe": Family(traits={**MIXTRAL, "attention.bias": flag("attention_bias")}),
    "granitemoeshared": Family(
        "granitemoe",
        {
            "moe.shared_intermediate": whole("shared_intermediate_size", 0),
        },
    ),
    "gpt_oss": Family(
        traits={
            **MIXTRAL,
            "attention.bias": flag("attention_bias"),
            "attention.sinks": True,
            "moe.top_k": first("num_experts_per_tok", "experts_per_token"),
            "moe.bias": True,
            "moe.router_bias": True,
        },
        axes=(windows(every(2, "full", "sliding")),),
    ),
    "qwen2_moe": Family(
        traits={
            **MOE,
            **QKV_BIAS,
            "attention.bias": flag("qkv_bias"),
            "attention.head_dim": None,
            "moe.shared_experts": 1,
            "moe.shared_gate": True,
            "moe.shared_intermediate": need("shared_expert_intermediate_size"),
        },
        axes=(experts(_qwen_experts),),
    ),
    "qwen3_moe": Family(
        traits={
            **MOE,
            **QK_HEAD,
            "attention.window": lambda c: (
                c.whole("sliding_window") if c.flag("use_sliding_window") else None
            ),
        },
        axes=(experts(_qwen_experts),),
    ),
    "qwen3_vl_moe_text": Family("qwen3_moe"),
    "mellum": Family(
        traits={**MOE, **QK_HEAD}, axes=(windows(), listed_experts(all_are("sparse")))
    ),
    "dots1": Family(
        traits={**MOE, **SHARED, **QK_HEAD},
        axes=(
            windows(
                lambda c: [
                    "sliding"
                    if c.whole("sliding_window") and i >= (c.whole("max_window_layers", 0) or 0)
                    else "full"
                    for i in range(depth(c))
                ]
            ),
            DENSE_FIRST,
        ),
    ),
    "glm4_moe": Family(
        traits={
            **MOE,
            **SHARED,
            "attention.output_bias": False,
            "attention.qk_norm": either("use_qk_norm", "head", "none"),
        },
        axes=(DENSE_FIRST,),
    ),
    "glm4v_moe_text": Family("glm4_moe"),
    "solar_open": Family(
        "glm4_moe", {"attention.qk_norm": "none", "mlp.intermediate": None}, axes=()
    ),
    "hy_v3": Family(
        traits={
            **MOE,
            **QK_HEAD,
            "moe.shared_experts": whole("num_shared_experts", 0),
            "mlp.bias": flag("mlp_bias"),
            "moe.shared_bias": flag("mlp_bias"),
        },
        axes=(listed_experts(lambda c: ["dense"] + ["sparse"] * (depth(c) - 1)),),
    ),
    "exaone_moe": Family(
        traits={
            **MOE,
            **QK_HEAD,
            "attention.bias": False,
            "moe.shared_experts": whole("num_shared_experts", 0),
        },
        axes=(
            windows(
                lambda c: (
                    every("sliding_window_pattern", "full", "sliding")(c)
                    if c.whole("sliding_window")
                    else ["full"] * depth(c)
                )
            ),
            LISTED,
        ),
    ),
    "afmoe": Family(
        traits={
            **MOE,
            **QK_HEAD,
            **SANDWICH,
            "attention.output_gate": "full",
            "attention.gate_bias": False,
            "moe.shared_experts": whole("num_shared_experts", 0),
            "moe.correction_bias": True,
        },
        axes=(
            windows(every("global_attn_every_n_layers", "full", "sliding")),
            experts(up_to("num_dense_layers", "dense", "sparse")),
        ),
    ),
    "mimo_v2_flash": Family(
        traits={
            **MOE,
            **SHARED,
            "moe.shared_experts": 0,
            "attention.output_bias": False,
            "attention.value_head_dim": whole("v_head_dim"),
        },
        axes=(
            windows(
                _mimo_windows,
                sliding={
                    "attention.window": _mimo_window,
                    "attention.sinks": True,
                    "attention.kv_heads": lambda c: 2 * c.need("num_key_value_heads"),
                },
            ),
            listed_experts(lambda c: ["dense"] + ["sparse"] * (depth(c) - 1)),
        ),
    ),
    "ernie4_5_moe": Family(
        traits={
            **MOE,
            "attention.bias": flag("use_bias"),
            "mlp.bias": flag("use_bias"),
            "moe.shared_bias": flag("use_bias"),
            "head_bias": flag("use_bias"),
            "moe.experts": need("moe_num_experts"),
            "moe.top_k": need("moe_k"),
            "moe.intermediate": need("moe_intermediate_size"),
            "moe.correction_bias": True,
            "moe.shared_experts": whole("moe_num_shared_experts", 0),
        },
        axes=(experts(_ernie_experts),),
    ),
    "hunyuan_v1_moe": Family(
        traits={
            **MOE,
            **QK_HEAD,
            "moe.experts": need("num_experts"),
            "moe.top_k": _one_topk,
            "moe.intermediate": need("intermediate_size"),
            "moe.shared_experts": 1,
        }
    ),
    "llama4_text": Family(
        traits={
            **MOE,
            "mlp.intermediate": need("intermediate_size_mlp"),
            "moe.experts": need("num_local_experts"),
            "moe.intermediate": need("intermediate_size"),
            "moe.shared_experts": 1,
        },
        axes=(
            windows(_llama4_windows),
            experts(
                at(
                    "moe_layers",
                    "sparse",
                    "dense",
                    every("interleave_moe_layer_step", "sparse", "dense"),
                )
            ),
        ),
    ),
    "cohere2_moe": Family(
        traits={
            **MOE,
            "norm": "layernorm",
            "norm_bias": False,
            "parallel": True,
            "shared_norm": True,
            "moe.shared_experts": whole("num_shared_experts", 0),
        },
        axes=(
            windows(every("sliding_window_pattern", "full", "sliding")),
            listed_experts(all_are("sparse")),
        ),
        refused={"num_shared_experts": (0, None), "first_k_dense_replace": (0, None)},
    ),
    "gemma4_text": Family(
        "gemma3_text",
        {
            "norm_offset": False,
            "attention.bias": flag("attention_bias"),
            "feed_forward": _gemma4_blocks,
            "per_layer_embedding.width": _gemma4_width,
            "per_layer_embedding.vocab": lambda c: (
                c.whole("vocab_size_per_layer_input") if _gemma4_width(c) else None
            ),
            "moe.experts": _if_gemma4_moe("num_experts"),
            "moe.top_k": _if_gemma4_moe("top_k_experts"),
            "moe.intermediate": _if_gemma4_moe("moe_intermediate_size"),
            "moe.router_scales": _if_gemma4_moe(1),
            "moe.expert_scales": _if_gemma4_moe(True),
            "moe.side_norms": _if_gemma4_moe(2),
            "mlp.side_norms": _if_gemma4_moe(1),
        },
        (
            windows(
                _gemma4_windows,
                full={
                    "attention.window": None,
                    "attention.head_dim": lambda c: c.whole("global_head_dim", otherwise=512),
                    "attention.kv_heads": lambda c: (
                        c.whole("num_global_key_value_heads")
                        if c.flag("attention_k_eq_v")
                        else None
                    ),
                    "attention.value_from_key": lambda c: c.flag("attention_k_eq_v") or None,
                },
            ),
            Axis(
                _gemma4_sharing,
                {
                    "own": {},
                    "reuse": {
                        "attention.shared_kv": True,
                        "mlp.intermediate": lambda c: (
                            2 * c.need("intermediate_size")
                            if c.flag("use_double_wide_mlp")
                            else None
                        ),
                    },
                },
            ),
        ),
        refused={"per_layer_config": (None,)},
    ),
    "dbrx": Family(
        traits={
            **LLAMA,
            "norm": "layernorm",
            "norm_bias": False,
            "attention.bias": False,
            "mlp.bias": False,
            "mlp.intermediate": None,
            "mlp.activation": "silu",
            "attention.head_dim": None,
            "attention.kv_heads": lambda c: c.inner("attn_config").need("kv_n_heads"),
            "moe.experts": lambda c: c.inner("ffn_config").need("moe_num_experts"),
            "moe.top_k": lambda c: c.inner("ffn_config").need("moe_top_k"),
            "moe.intermediate": lambda c: c.inner("ffn_config").need("ffn_hidden_size"),
        }
    ),
    "youtu": Family("llama", LATENT),
    "minicpm3": Family(
        "youtu",
        {
            "attention.value_head_dim": lambda c: (
                c.whole("v_head_dim") or c.need("hidden_size") // c.need("num_attention_heads")
            ),
        },
    ),
    "deepseek_v3": Family(
        traits={**MOE, **SHARED, **LATENT},
        axes=(DENSE_FIRST,),
        refused={"moe_layer_freq": (1, None)},
    ),
    "deepseek_v2": Family(
        "deepseek_v3",
        {
            "mlp.bias": flag("mlp_bias"),
            "moe.shared_bias": flag("mlp_bias"),
        },
    ),
    "glm4_moe_lite": Family(
        "deepseek_v3", axes=(listed_experts(lambda c: ["dense"] + ["sparse"] * (depth(c) - 1)),)
    ),
    "deepseek_v32": Family("deepseek_v3", INDEXER, axes=(LISTED,)),
    "glm_moe_dsa": Family(
        "deepseek_v3",
        axes=(
            LISTED,
            Axis(_indexers, {"full": INDEXER, "shared": {"attention.index_heads": None}}),
        ),
    ),
}
