"""Families with state spaces, delta-nets, convolutions and recurrences."""

from __future__ import annotations

from collections.abc import Sequence

from planner.connect.imports.config import Config, Rule, either, first, flag, need, text, whole
from planner.connect.imports.dense import LLAMA, QK_HEAD
from planner.connect.imports.patterns import (
    Axis,
    Labels,
    all_are,
    at,
    depth,
    every,
    listed,
    period,
    up_to,
)
from planner.connect.imports.rows import (
    ATTENTION_WORDS,
    DECODER,
    DENSE,
    SPARSE,
    Family,
    experts,
    windows,
)
from planner.connect.imports.sparse import LATENT, MIXTRAL, MOE, listed_experts


def _head_dim(key: str, heads: str, inner: object) -> object:
    """The width of a Mamba head; `auto` is what the inner width leaves for each head."""

    def rule(c: Config) -> int:
        if c.get(key) == "auto":
            assert callable(inner)
            return int(inner(c)) // c.need(heads)
        return c.need(key)

    return rule


def _inner(c: Config) -> int:
    return c.need("mamba_expand") * c.need("hidden_size")


def _rank(key: str) -> object:
    def rule(c: Config) -> int | None:
        return None if c.get(key) == "auto" else c.whole(key)

    return rule


def _falcon_inner(c: Config) -> int:
    return c.whole("mamba_d_ssm") or _inner(c)


NEMOTRON = {"M": "linear", "*": "full", "-": "mlp", "E": "moe"}
NEMOTRON_WORDS = {**ATTENTION_WORDS, "mlp": "mlp", "moe": "moe"}


def _nemotron_layers(c: Config) -> Sequence[str]:
    labels, layers = _nemotron_labels(c), c.whole("num_hidden_layers")
    if layers is not None and layers != len(labels):
        raise c.fault(f"num_hidden_layers is {layers}, but {len(labels)} layers are named")
    return labels


def _nemotron_labels(c: Config) -> Sequence[str]:
    letters = c.text("hybrid_override_pattern")
    if letters is None:
        given = c.words("layers_block_type") or c.words("layer_types")
        given = given or ["linear_attention", "moe", "full_attention", "mlp"]
        unknown = [word for word in given if word not in NEMOTRON_WORDS]
        if unknown:
            raise c.fault(f"layers_block_type holds {unknown[0]!r}, which is not modelled")
        return [NEMOTRON_WORDS[word] for word in given]
    if not set(letters) <= set(NEMOTRON):
        raise c.fault(
            f"hybrid_override_pattern is {letters!r}",
            "the letters M (Mamba), * (attention), - (MLP) and E (experts)",
        )
    return [NEMOTRON[letter] for letter in letters]


def _kimi(inner: str, outer: str) -> Rule:
    """Kimi Linear: a key of the nested mapping of checkpoints, or of the configuration itself."""
    return lambda c: c.inner("linear_attn_config").whole(inner) or c.need(outer)


def _kimi_layers(c: Config) -> Sequence[str]:
    full = c.inner("linear_attn_config").indices("full_attn_layers")
    c.inner("linear_attn_config").indices("kda_layers")
    if full is not None:  # counted from 1
        return ["full" if i + 1 in full else "linear" for i in range(depth(c))]
    return ["full" if i and i % 4 == 0 else "linear" for i in range(depth(c))]


def _olmo_hybrid_layers(c: Config) -> Sequence[str]:
    labels = list(every(4, "full", "linear")(c))
    return labels if "full" in labels else [*labels[:-1], "full"]


def _blocks(key: str, words: dict[str, str]) -> Labels:
    """A list of words that is repeated over the layers."""

    def labels(c: Config) -> Sequence[str]:
        given = c.words(key) or []
        unknown = [word for word in given if word not in words]
        if unknown or not given:
            raise c.fault(f"{key} is not modelled: {given}", "one of: " + ", ".join(words))
        return [words[given[i % len(given)]] for i in range(depth(c))]

    return labels


MAMBA1 = {
    "layers": need("num_hidden_layers"),
    "hidden": need("hidden_size"),
    "vocab": need("vocab_size"),
    "tied_embeddings": flag("tie_word_embeddings"),
    "positions": "none",
    "mixer": "mamba",
    "feed_forward": "none",
    "mamba.version": 1,
    "mamba.state": need("state_size"),
    "mamba.inner": lambda c: int((c.number("expand") or 2) * c.need("hidden_size")),
    "mamba.conv_kernel": need("conv_kernel"),
    "mamba.conv_bias": flag("use_conv_bias"),
    "mamba.bias": flag("use_bias"),
    "mamba.dt_rank": _rank("time_step_rank"),
}
MAMBA2 = {
    "mamba.state": need("mamba_d_state"),
    "mamba.heads": need("mamba_n_heads"),
    "mamba.head_dim": _head_dim("mamba_d_head", "mamba_n_heads", _inner),
    "mamba.groups": need("mamba_n_groups"),
    "mamba.conv_kernel": need("mamba_d_conv"),
    "mamba.conv_bias": flag("mamba_conv_bias"),
    "mamba.bias": flag("mamba_proj_bias"),
    "mamba.chunk": whole("mamba_chunk_size"),
    "mamba.norm": True,
}
DELTA = {
    "delta_net.key_heads": need("linear_num_key_heads"),
    "delta_net.value_heads": need("linear_num_value_heads"),
    "delta_net.key_head_dim": need("linear_key_head_dim"),
    "delta_net.value_head_dim": need("linear_value_head_dim"),
    "delta_net.conv_kernel": need("linear_conv_kernel_dim"),
}
SHARED_EXPERT = {
    "moe.experts": need("num_experts"),
    "moe.intermediate": need("moe_intermediate_size"),
    "moe.shared_experts": 1,
    "moe.shared_gate": True,
    "moe.shared_intermediate": need("shared_expert_intermediate_size"),
}


def mixers(otherwise: object, linear: str, **more: object) -> Axis:
    """Attention layers among layers of another mixer, by ``layer_types``."""
    assert callable(otherwise)
    kinds = {"full": {"mixer": "attention"}, "linear": {"mixer": linear}}
    return Axis(listed("layer_types", otherwise, ATTENTION_WORDS), kinds)


QWEN_LAYERS = mixers(
    lambda c: every(c.whole("full_attention_interval") or 4, "full", "linear")(c), "delta_net"
)


def _qwen_next_experts(c: Config) -> list[str]:
    step, dense = c.whole("decoder_sparse_step", 0) or 1, c.indices("mlp_only_layers") or []
    count = c.whole("num_experts", 0) or 0
    return [
        "sparse" if count > 0 and (i + 1) % step == 0 and i not in dense else "dense"
        for i in range(depth(c))
    ]


GATED = {**QK_HEAD, "norm_offset": True, "attention.output_gate": "full", "mlp.bias": False}

HYBRID_FAMILIES: dict[str, Family] = {
    "mamba": Family(traits=MAMBA1),
    "falcon_mamba": Family(traits=MAMBA1),
    "mamba2": Family(
        traits={
            **{k: v for k, v in MAMBA1.items() if k != "mamba.dt_rank"},
            "mamba.version": 2,
            "mamba.heads": need("num_heads"),
            "mamba.head_dim": need("head_dim"),
            "mamba.groups": need("n_groups"),
            "mamba.chunk": whole("chunk_size"),
            "mamba.norm": True,
        }
    ),
    "jamba": Family(
        traits={
            **MOE,
            "attention.bias": False,
            "positions": "none",
            "moe.experts": need("num_experts"),
            "moe.intermediate": need("intermediate_size"),
            "attention.head_dim": None,
            "mamba.version": 1,
            "mamba.state": need("mamba_d_state"),
            "mamba.inner": _inner,
            "mamba.conv_kernel": need("mamba_d_conv"),
            "mamba.conv_bias": flag("mamba_conv_bias"),
            "mamba.bias": flag("mamba_proj_bias"),
            "mamba.dt_rank": _rank("mamba_dt_rank"),
            "mamba.inner_norms": True,
        },
        axes=(
            Axis(
                period("attn_layer_period", "attn_layer_offset", "full", "linear"),
                {"full": {"mixer": "attention"}, "linear": {"mixer": "mamba"}},
            ),
            experts(
                lambda c: (
                    period("expert_layer_period", "expert_layer_offset", "sparse", "dense")(c)
                    if c.need("num_experts") > 1
                    else ["dense"] * depth(c)
                )
            ),
        ),
        refused={"mamba_inner_layernorms": (True, None)},
    ),
    "bamba": Family(
        traits={
            **LLAMA,
            **MAMBA2,
            "attention.head_dim": None,
        },
        axes=(
            Axis(
                at("attn_layer_indices", "full", "linear"),
                {"full": {"mixer": "attention"}, "linear": {"mixer": "mamba"}},
            ),
        ),
    ),
    "granitemoehybrid": Family(
        traits={
            **MIXTRAL,
            **MAMBA2,
            "attention.bias": flag("attention_bias"),
            "attention.head_dim": None,
            "positions": lambda c: (
                "rope" if c.text("position_embedding_type") == "rope" else "none"
            ),
            "moe.experts": whole("num_local_experts", 0),
            "moe.shared_intermediate": whole("shared_intermediate_size", 0),
            "mlp.intermediate": lambda c: (
                None if c.whole("num_local_experts", 0) else c.need("shared_intermediate_size")
            ),
        },
        axes=(
            mixers(all_are("linear"), "mamba"),
            Axis(
                lambda c: ["moe" if c.whole("num_local_experts", 0) else "mlp"] * depth(c),
                {"moe": SPARSE, "mlp": DENSE},
            ),
        ),
    ),
    "falcon_h1": Family(
        traits={
            **LLAMA,
            **MAMBA2,
            "mixer": "attention+mamba",
            "mamba.inner": _falcon_inner,
            "mamba.output_bias": flag("projectors_bias"),
            "mamba.norm": flag("mamba_rms_norm"),
            "mamba.head_dim": _head_dim("mamba_d_head", "mamba_n_heads", _falcon_inner),
        }
    ),
    "nemotron_h": Family(
        traits={
            **MOE,
            "mlp.gated": False,
            "attention.bias": False,
            "tied_embeddings": False,
            "attention.head_dim": whole("head_dim"),
            "positions": "none",
            "layers": lambda c: len(_nemotron_layers(c)),
            "mlp.bias": flag("mlp_bias"),
            "mlp.activation": text("mlp_hidden_act"),
            "moe.experts": need("n_routed_experts"),
            "moe.bias": flag("mlp_bias"),
            "moe.intermediate": need("moe_intermediate_size"),
            "moe.latent": whole("moe_latent_size"),
            "moe.shared_experts": whole("n_shared_experts", 0),
            "moe.shared_intermediate": lambda c: (
                c.need("moe_shared_expert_intermediate_size")
                if c.whole("n_shared_experts", 0)
                else 0
            ),
            "mamba.state": need("ssm_state_size"),
            "mamba.heads": need("mamba_num_heads"),
            "mamba.head_dim": need("mamba_head_dim"),
            "mamba.groups": first("mamba_n_groups", "n_groups"),
            "mamba.conv_kernel": first("mamba_d_conv", "conv_kernel"),
            "mamba.conv_bias": lambda c: c.flag("mamba_conv_bias", c.flag("use_conv_bias")),
            "mamba.bias": flag("use_bias"),
            "mamba.norm": True,
            "mamba.chunk": first("mamba_chunk_size", "chunk_size"),
        },
        axes=(
            Axis(
                _nemotron_layers,
                {
                    "linear": {"mixer": "mamba", "feed_forward": "none"},
                    "full": {"mixer": "attention", "feed_forward": "none"},
                    "mlp": {"mixer": "none", "feed_forward": "mlp"},
                    "moe": {"mixer": "none", "feed_forward": "moe"},
                },
            ),
        ),
    ),
    "qwen3_5_text": Family(traits={**LLAMA, **DELTA, **GATED}, axes=(QWEN_LAYERS,)),
    "qwen3_5_moe_text": Family(
        traits={
            **MOE,
            **DELTA,
            **GATED,
            **SHARED_EXPERT,
            "mlp.intermediate": None,
        },
        axes=(QWEN_LAYERS,),
    ),
    "qwen3_next": Family(
        traits={**MOE, **DELTA, **GATED, **SHARED_EXPERT},
        axes=(QWEN_LAYERS, experts(_qwen_next_experts)),
    ),
    "minimax": Family(
        traits={
            **MIXTRAL,
            "lightning.heads": need("num_attention_heads"),
            "lightning.head_dim": whole("head_dim"),
            "lightning.chunk": whole("block_size"),
            "attention.window": whole("sliding_window"),
        },
        axes=(mixers(every(2, "linear", "full"), "lightning"),),
    ),
    "lfm2_moe": Family(
        traits={
            **DECODER,
            **QK_HEAD,
            "mlp.gated": True,
            "mlp.activation": "silu",
            "short_conv.kernel": whole("conv_L_cache"),
            "short_conv.bias": flag("conv_bias"),
            "moe.experts": need("num_experts"),
            "moe.top_k": need("num_experts_per_tok"),
            "moe.intermediate": need("moe_intermediate_size"),
            "attention.head_dim": None,
            "tied_embeddings": lambda c: c.flag("tie_embedding", c.flag("tie_word_embeddings")),
        },
        axes=(
            Axis(
                listed("layer_types", all_are("full"), {"full_attention": "full", "conv": "conv"}),
                {"full": {"mixer": "attention"}, "conv": {"mixer": "short_conv"}},
            ),
            experts(up_to("num_dense_layers", "dense", "sparse")),
        ),
    ),
    "kimi_linear": Family(
        traits={
            **MOE,
            **LATENT,
            "moe.top_k": need("num_experts_per_token"),
            "tied_embeddings": False,
            "moe.shared_experts": whole("num_shared_experts", 0),
            "positions": "none",
            "delta_net.key_heads": _kimi("num_heads", "linear_num_heads"),
            "delta_net.value_heads": _kimi("num_heads", "linear_num_heads"),
            "delta_net.key_head_dim": _kimi("head_dim", "linear_head_dim"),
            "delta_net.value_head_dim": _kimi("head_dim", "linear_head_dim"),
            "delta_net.gate_rank": _kimi("head_dim", "linear_head_dim"),
            "delta_net.conv_kernel": _kimi("short_conv_kernel_size", "linear_conv_kernel_dim"),
            "max_sequence": whole("model_max_length"),
        },
        axes=(
            mixers(_kimi_layers, "delta_net"),
            listed_experts(
                lambda c: [
                    "dense" if i < c.whole("first_k_dense_replace", 0, otherwise=1) else "sparse"
                    for i in range(depth(c))
                ]
            ),
        ),
    ),
    "recurrent_gemma": Family(
        traits={
            **LLAMA,
            "norm_offset": True,
            "mlp.bias": True,
            "attention.output_bias": True,
            "attention.head_dim": None,
            "mlp.intermediate": lambda c: c.need("intermediate_size") // 2,
            "mlp.activation": text("hidden_activation"),
            "recurrence.width": whole("lru_width"),
            "recurrence.heads": need("num_attention_heads"),
            "recurrence.conv_kernel": need("conv1d_width"),
            "attention.window": whole("attention_window_size"),
            "max_sequence": None,
        },
        axes=(
            Axis(
                _blocks("block_types", {"recurrent": "recurrent", "attention": "full"}),
                {
                    "recurrent": {"mixer": "recurrence"},
                    "full": {"mixer": "attention"},
                },
            ),
        ),
    ),
    "olmo_hybrid": Family(
        traits={
            **LLAMA,
            "mlp.bias": False,
            "delta_net.key_heads": first("linear_num_key_heads", "num_attention_heads"),
            "delta_net.value_heads": first("linear_num_value_heads", "num_attention_heads"),
            "delta_net.key_head_dim": lambda c: (
                c.whole("linear_key_head_dim")
                or (
                    3
                    * c.need("hidden_size")
                    // (4 * (c.whole("linear_num_key_heads") or c.need("num_attention_heads")))
                )
            ),
            "delta_net.value_head_dim": lambda c: (
                c.whole("linear_value_head_dim")
                or 2
                * (
                    c.whole("linear_key_head_dim")
                    or 3
                    * c.need("hidden_size")
                    // (4 * (c.whole("linear_num_key_heads") or c.need("num_attention_heads")))
                )
            ),
            "delta_net.conv_kernel": need("linear_conv_kernel_dim"),
        },
        axes=(
            Axis(
                listed("layer_types", _olmo_hybrid_layers, ATTENTION_WORDS),
                {
                    "full": {
                        "mixer": "attention",
                        "norm_placement": "output",
                        "attention.qk_norm": "full",
                    },
                    "linear": {"mixer": "delta_net"},
                },
            ),
        ),
    ),
}
__all__ = ["HYBRID_FAMILIES", "LATENT", "either", "windows"]
