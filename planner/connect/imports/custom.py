"""Families whose classes live beside their weights, not in the library: all keys are given."""

from __future__ import annotations

from planner.connect.imports.config import Config, either, first, flag, need, whole
from planner.connect.imports.dense import LLAMA, QKV_BIAS
from planner.connect.imports.patterns import up_to
from planner.connect.imports.rows import LAYERNORM, Family, experts
from planner.connect.imports.sparse import MOE, SHARED


def _half_width(c: Config) -> int:
    """Qwen 1 writes the width of gate and up projection together."""
    return c.need("intermediate_size") // 2


def _groups(c: Config) -> int | None:
    return c.need("multi_query_group_num") if c.flag("multi_query_attention") else None


def _chat_bias(c: Config) -> bool:
    return bool(c.flag("add_bias_linear") or c.flag("add_qkv_bias"))


UNTIED = {"tied_embeddings": lambda c: bool(c.flag("tie_word_embeddings"))}

CUSTOM_FAMILIES: dict[str, Family] = {
    "baichuan": Family(
        traits={
            **LLAMA,
            **UNTIED,
            "max_sequence": first("max_position_embeddings", "model_max_length"),
        }
    ),
    "aquila": Family(traits={**LLAMA, **UNTIED}),
    "xverse": Family("aquila"),
    "Yi": Family("aquila"),
    "orion": Family("aquila", LAYERNORM),
    "internlm": Family("aquila", {"attention.bias": flag("bias")}),
    "internlm2": Family("internlm"),
    "minicpm": Family(
        traits={
            **LLAMA,
            "tied_embeddings": lambda c: c.flag("tie_word_embeddings") is not False,
        }
    ),
    "stablelm_epoch": Family("stablelm"),
    "deepseek": Family(
        traits={**MOE, **SHARED, **UNTIED},
        axes=(experts(up_to("first_k_dense_replace", "dense", "sparse")),),
        refused={"moe_layer_freq": (1, None)},
    ),
    "qwen": Family(
        "aquila",
        {
            **QKV_BIAS,
            "mlp.intermediate": _half_width,
            "attention.head_dim": whole("kv_channels"),
            "max_sequence": first("seq_length", "max_position_embeddings"),
            "mlp.activation": "silu",
        },
        refused={"no_bias": (True, None)},
    ),
    "chatglm": Family(
        "aquila",
        {
            "layers": need("num_layers"),
            "vocab": first("padded_vocab_size", "vocab_size"),
            "attention.head_dim": whole("kv_channels"),
            "attention.kv_heads": _groups,
            "attention.bias": _chat_bias,
            "attention.output_bias": flag("add_bias_linear"),
            "mlp.intermediate": need("ffn_hidden_size"),
            "mlp.bias": flag("add_bias_linear"),
            "mlp.activation": "silu",
            "max_sequence": whole("seq_length"),
            "norm": either("rmsnorm", "rmsnorm", "layernorm"),
            "final_norm": flag("post_layer_norm"),
        },
        refused={"apply_residual_connection_post_layernorm": (False, None)},
    ),
}
