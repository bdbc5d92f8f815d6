"""Families whose layers are attention and a dense feed-forward block."""

from __future__ import annotations

from collections.abc import Sequence

from planner.connect.imports.config import Config, either, first, flag, need, text, whole
from planner.connect.imports.patterns import Axis, all_are, depth, every, listed
from planner.connect.imports.rows import DECODER, LAYERNORM, WINDOWS, Family, windows


def _windowed(c: Config) -> list[str]:
    """Qwen: with use_sliding_window, layers from max_window_layers on have the window."""
    start = c.whole("max_window_layers", 0) or 0
    on = c.flag("use_sliding_window") and c.whole("sliding_window", 0)
    return ["sliding" if on and i >= start else "full" for i in range(depth(c))]


def _no_rope_windows(c: Config) -> list[str]:
    """SmolLM3: with use_sliding_window, the layers without rotary positions have the window."""
    on = c.flag("use_sliding_window") and c.whole("sliding_window", 0)
    rope = c.each("no_rope_layers", depth(c))
    step = c.whole("no_rope_layer_interval") or 1
    has = rope or [int((i + 1) % step != 0) for i in range(depth(c))]
    return ["sliding" if on and not has[i] else "full" for i in range(depth(c))]


def _neo_windows(c: Config) -> list[str]:
    """GPT-Neo: attention_types [[[global, local], 12]] repeats a list so many times."""
    labels: list[str] = []
    try:
        for names, count in c.get("attention_types") or [[["global", "local"], 12]]:
            labels += list(names) * min(count, depth(c) + 1)
    except (TypeError, ValueError):
        raise c.fault("attention_types is malformed", "[[[global, local], 12]]") from None
    if len(labels) != depth(c):
        raise c.fault(f"attention_types names {len(labels)} of {depth(c)} layers")
    return ["sliding" if label == "local" else "full" for label in labels]


def _long_window(c: Config) -> int | None:
    """Phi-3: published long-context configurations write a window beyond the context for none."""
    window, longest = c.whole("sliding_window"), c.whole("max_position_embeddings")
    return None if window and longest and window >= longest else window


def _stepped(key: str) -> object:
    """Every so many layers, counted by ``key``, one has full attention; null or 0: all."""

    def labels(c: Config) -> Sequence[str]:
        if c.get("sliding_window") is None:
            return ["full"] * depth(c)
        pattern = c.get(key)
        if isinstance(pattern, str) and pattern:  # LLLG, repeated
            return [
                "full" if pattern[i % len(pattern)] == "G" else "sliding" for i in range(depth(c))
            ]
        return every(key, "full", "sliding")(c)

    return labels


def _mpt_positions(c: Config) -> str:
    """MPT: its attention has its own mapping; the class makes no table of positions."""
    attention = c.inner("attn_config")
    if attention.flag("qk_ln"):
        raise c.fault("mpt: attn_config.qk_ln is not modelled", "false")
    return "none" if attention.flag("alibi") is False else "alibi"


def _helium(c: Config) -> int | None:
    """Helium: the class makes its output projection as if the heads filled the hidden width."""
    width, heads, hidden = c.whole("head_dim"), c.need("num_attention_heads"), c.need("hidden_size")
    if width is not None and width * heads != hidden:
        raise c.fault(f"helium: {heads} heads of {width} are not hidden_size {hidden}")
    return width


def _falcon_kv(c: Config) -> int:
    if c.flag("new_decoder_architecture"):
        return c.whole("num_kv_heads") or c.need("num_attention_heads")
    return 1 if c.flag("multi_query") else c.need("num_attention_heads")


def _falcon_parallel(c: Config) -> bool:
    return bool(c.flag("new_decoder_architecture") or c.flag("parallel_attn"))


def _falcon_shared_norm(c: Config) -> bool:
    norms = c.whole("num_ln_in_parallel_attn", 0)
    if c.flag("new_decoder_architecture"):
        return norms == 1
    return bool(c.flag("parallel_attn"))


def _opt_final_norm(c: Config) -> bool:
    return bool(c.flag("do_layer_norm_before")) and not c.flag("_remove_final_layer_norm")


def _narrow(key: str) -> object:
    """The embedding's width, where it differs from the hidden one."""

    def rule(c: Config) -> int | None:
        width = c.whole(key)
        return None if width == c.need("hidden_size") else width

    return rule


def _lfm_width(c: Config) -> int:
    """LFM2: the width of a SwiGLU with as many weights, rounded up to a multiple."""
    width = c.whole("block_ff_dim") or c.need("intermediate_size")
    if c.flag("block_auto_adjust_ff_dim", True):
        multiplier, step = c.number("block_ffn_dim_multiplier"), c.need("block_multiple_of")
        width = 2 * width // 3
        if multiplier is not None:
            width = int(multiplier * width)
        width = -(-width // step) * step
    return width


LLAMA = {
    **DECODER,
    "mlp.gated": True,
    "attention.bias": flag("attention_bias"),
    "mlp.bias": flag("mlp_bias"),
}
QK_HEAD = {"attention.qk_norm": "head"}
QKV_BIAS = {"attention.bias": True, "attention.output_bias": False}
UNGATED = {"mlp.gated": False}
SANDWICH = {"norm_placement": "sandwich"}
PLAIN = {**DECODER, **LAYERNORM, "bias": True, "mlp.gated": False}

DENSE_FAMILIES: dict[str, Family] = {
    "llama": Family(traits=LLAMA),
    "granite": Family("llama"),
    "helium": Family("llama", {"attention.output_bias": False, "attention.head_dim": _helium}),
    "cwm": Family("llama", axes=(windows(every(4, "full", "sliding", shift=0)),)),
    "hyperclovax": Family(
        "llama",
        {
            "norm_placement": either("use_post_norm", "sandwich", "pre"),
        },
    ),
    "iquestcoder": Family("llama"),
    # Text parts of multimodal models, under their own names.
    "qwen2_vl_text": Family("qwen2"),
    "qwen2_5_vl_text": Family("qwen2"),
    "qwen2_5_omni_text": Family("qwen2"),
    "qwen3_vl_text": Family("qwen3"),
    "glm4v_text": Family("glm4", {"attention.bias": True}),
    "diffllama": Family("llama", {"mlp.bias": False, "attention.differential": True}),
    "internlm3": Family(
        "llama",
        {
            "attention.bias": flag("qkv_bias"),
            "attention.output_bias": flag("attention_bias"),
        },
    ),
    "arcee": Family("llama", UNGATED),
    "jais2": Family("nemotron", {}),
    "nanochat": Family("llama", {"mlp.gated": False, "norm_weight": False}),
    "mistral": Family(
        "llama",
        {
            "attention.bias": False,
            "mlp.bias": False,
            "attention.window": whole("sliding_window"),
        },
    ),
    "ministral": Family("mistral", axes=(windows(all_are("sliding")),)),
    "ministral3": Family("mistral"),
    "qwen2": Family("llama", {**QKV_BIAS, "mlp.bias": False}, (windows(_windowed),)),
    "qwen3": Family(
        "qwen2",
        {
            "attention.bias": flag("attention_bias"),
            "attention.output_bias": flag("attention_bias"),
            **QK_HEAD,
        },
    ),
    "smollm3": Family("llama", axes=(windows(_no_rope_windows),)),
    "seed_oss": Family("llama", {"attention.output_bias": flag("attention_out_bias")}),
    "ernie4_5": Family(
        "llama",
        {
            "attention.bias": flag("use_bias"),
            "mlp.bias": flag("use_bias"),
        },
    ),
    "hunyuan_v1_dense": Family("llama", {"mlp.bias": False, **QK_HEAD}),
    "glm": Family("llama", {"attention.output_bias": False, "mlp.bias": False}),
    "glm4": Family("glm", SANDWICH),
    "gemma": Family(
        "llama",
        {
            "norm_offset": True,
            "mlp.bias": False,
            "mlp.activation": text("hidden_act"),
        },
    ),
    "gemma2": Family(
        "gemma",
        {**SANDWICH, "mlp.activation": text("hidden_activation")},
        (windows(every(2, "full", "sliding")),),
    ),
    "vaultgemma": Family("gemma2", {"norm_placement": "pre"}),
    "gemma3_text": Family(
        "gemma2", QK_HEAD, (windows(every("sliding_window_pattern", "full", "sliding")),)
    ),
    "phi3": Family(
        "llama",
        {
            "attention.bias": False,
            "mlp.bias": False,
            "attention.window": _long_window,
        },
    ),
    "exaone4": Family(
        "llama",
        {
            "attention.bias": False,
            "mlp.bias": False,
            "norm_placement": "output",
            **QK_HEAD,
        },
        (windows(_stepped("sliding_window_pattern")),),
    ),
    "olmo": Family("llama", {"mlp.bias": False, "norm": "layernorm", "norm_weight": False}),
    "olmo2": Family(
        "llama",
        {
            "mlp.bias": False,
            "norm_placement": "output",
            "attention.qk_norm": "full",
        },
    ),
    "olmo3": Family("olmo2", axes=(windows(every(4, "full", "sliding")),)),
    "apertus": Family(
        "llama",
        {
            **UNGATED,
            **QK_HEAD,
            "mlp.bias": False,
            "mlp.activation_parameters": lambda c: 2 if c.text("hidden_act") == "xielu" else 0,
        },
    ),
    "bitnet": Family(
        "llama",
        {
            "mlp.bias": False,
            "attention.output_norm": True,
            "mlp.inner_norm": True,
        },
    ),
    "nemotron": Family("llama", {**LAYERNORM, **UNGATED}),
    "persimmon": Family(
        traits={
            **PLAIN,
            "attention.qk_norm": either("qk_layernorm", "head", "none"),
            "attention.qk_norm_bias": flag("qk_layernorm"),
        }
    ),
    "starcoder2": Family(
        "llama",
        {
            **LAYERNORM,
            **UNGATED,
            "attention.bias": flag("use_bias"),
            "mlp.bias": flag("use_bias"),
            "attention.window": whole("sliding_window"),
        },
    ),
    "stablelm": Family(
        "llama",
        {
            **LAYERNORM,
            "mlp.bias": False,
            "attention.bias": flag("use_qkv_bias"),
            "attention.output_bias": False,
            "parallel": flag("use_parallel_residual"),
            "shared_norm": flag("use_parallel_residual"),
            "attention.qk_norm": either("qk_layernorm", "full", "none"),
        },
    ),
    "cohere": Family(
        "llama",
        {
            "norm": "layernorm",
            "norm_bias": False,
            "parallel": True,
            "shared_norm": True,
            "mlp.bias": False,
            "attention.qk_norm": either("use_qk_norm", "full", "none"),
        },
    ),
    "cohere2": Family(
        "cohere",
        {"attention.qk_norm": "none", "attention.head_dim": None},
        (windows(every("sliding_window_pattern", "full", "sliding")),),
    ),
    "phi": Family(
        traits={
            **PLAIN,
            "parallel": True,
            "shared_norm": True,
            "head_bias": True,
            "attention.qk_norm": either("qk_layernorm", "head", "none"),
            "attention.qk_norm_bias": flag("qk_layernorm"),
        }
    ),
    "gpt_neox": Family(
        traits={
            **PLAIN,
            "attention.bias": flag("attention_bias"),
            "parallel": flag("use_parallel_residual"),
        }
    ),
    "gptj": Family(
        traits={
            **PLAIN,
            "attention.bias": False,
            "parallel": True,
            "shared_norm": True,
            "head_bias": True,
            "mlp.intermediate": whole("n_inner"),
            "mlp.activation": text("activation_function"),
        }
    ),
    "codegen": Family("gptj"),
    "gpt2": Family(
        traits={
            **PLAIN,
            "positions": "learned",
            "mlp.intermediate": whole("n_inner"),
            "mlp.activation": text("activation_function"),
        },
        refused={"add_cross_attention": (False, None)},
    ),
    "gpt-sw3": Family("gpt2"),
    "gpt_bigcode": Family(
        "gpt2",
        {
            "attention.kv_heads": lambda c: 1 if c.flag("multi_query") else None,
        },
    ),
    "openai-gpt": Family(
        "gpt2",
        {
            "norm_placement": "post",
            "final_norm": False,
            "mlp.activation": text("afn"),
            "mlp.intermediate": None,
        },
    ),
    "gpt_neo": Family(
        "gpt2",
        {
            "layers": need("num_hidden_layers"),
            "attention.bias": False,
            "attention.output_bias": True,
            "mlp.intermediate": whole("intermediate_size"),
        },
        (Axis(_neo_windows, {**WINDOWS, "sliding": {"attention.window": whole("window_size")}}),),
    ),
    "opt": Family(
        traits={
            **PLAIN,
            "positions": "learned",
            "position_offset": 2,
            "bias": flag("enable_bias"),
            "mlp.intermediate": whole("ffn_dim"),
            "mlp.activation": text("activation_function"),
            "norm_placement": either("do_layer_norm_before", "pre", "post"),
            "final_norm": _opt_final_norm,
            "embedding_dim": _narrow("word_embed_proj_dim"),
            "norm_weight": flag("layer_norm_elementwise_affine"),
            "norm_bias": flag("layer_norm_elementwise_affine"),
        }
    ),
    "biogpt": Family(traits={**PLAIN, "positions": "learned", "position_offset": 2}),
    "xglm": Family(
        traits={
            **PLAIN,
            "positions": "sinusoidal",
            "mlp.intermediate": whole("ffn_dim"),
            "mlp.activation": text("activation_function"),
        },
        refused={"add_cross_attention": (False, None)},
    ),
    "bloom": Family(
        traits={
            **PLAIN,
            "positions": "alibi",
            "embedding_norm": True,
            "mlp.intermediate": None,
            "max_sequence": first("seq_length"),
            "mlp.activation": "gelu",
        }
    ),
    "falcon": Family(
        traits={
            **PLAIN,
            "bias": flag("bias"),
            "attention.kv_heads": _falcon_kv,
            "mlp.intermediate": whole("ffn_hidden_size"),
            "mlp.activation": text("activation"),
            "parallel": _falcon_parallel,
            "shared_norm": _falcon_shared_norm,
            "positions": either("alibi", "alibi", "rope"),
            "attention.head_dim": None,
        }
    ),
    "mpt": Family(
        traits={
            **DECODER,
            "norm": "layernorm",
            "norm_bias": False,
            "mlp.intermediate": None,
            "mlp.activation": "gelu",
            "positions": _mpt_positions,
            "attention.head_dim": None,
            "attention.kv_heads": None,
        },
        refused={"expansion_ratio": (4, None), "no_bias": (True, None)},
    ),
    "lfm2": Family(
        traits={
            **DECODER,
            "mlp.gated": True,
            "mlp.intermediate": _lfm_width,
            **QK_HEAD,
            "mlp.activation": "silu",
            "short_conv.kernel": whole("conv_L_cache"),
            "short_conv.bias": flag("conv_bias"),
            "attention.head_dim": None,
            "tied_embeddings": lambda c: c.flag("tie_embedding", c.flag("tie_word_embeddings")),
        }
    ),
}


def _lfm_layers(c: Config) -> Sequence[str]:
    full = c.indices("full_attn_idxs")
    return ["full" if full is None or i in full else "conv" for i in range(depth(c))]


CONV = Axis(
    listed("layer_types", _lfm_layers, {"full_attention": "full", "conv": "conv"}),
    {"full": {"mixer": "attention"}, "conv": {"mixer": "short_conv"}},
)
DENSE_FAMILIES["lfm2"] = Family(traits=DENSE_FAMILIES["lfm2"].traits, axes=(CONV,))
