"""Encoders, and encoder-decoders."""

from __future__ import annotations

from planner.connect.imports.config import Config, first, flag, need, text, whole
from planner.connect.imports.dense import PLAIN
from planner.connect.imports.patterns import Axis, depth
from planner.connect.imports.rows import Family

ENCODER = {
    **PLAIN,
    "positions": "learned",
    "norm_placement": "post",
    "embedding_norm": True,
    "final_norm": False,
    "token_types": whole("type_vocab_size", 0),
    "head": False,
    "causal": False,
    "pooler": True,
    "tied_embeddings": False,
}


def _gated(c: Config) -> bool:
    return (c.text("feed_forward_proj") or "").startswith("gated")


def _act(c: Config) -> str:
    return (c.text("feed_forward_proj") or "relu").removeprefix("gated-")


T5 = {
    "layers": first("num_decoder_layers", "num_layers"),
    "hidden": need("d_model"),
    "vocab": need("vocab_size"),
    "attention.heads": need("num_heads"),
    "attention.head_dim": need("d_kv"),
    "attention.relative_buckets": need("relative_attention_num_buckets"),
    "mlp.intermediate": need("d_ff"),
    "mlp.gated": _gated,
    "mlp.activation": _act,
    "positions": "relative",
    "mixer": ["attention", "cross_attention"],
    "tied_embeddings": True,  # the class ties them whatever the configuration says
    "encoder.layers": need("num_layers"),
}

BART = {
    "layers": need("decoder_layers"),
    "hidden": need("d_model"),
    "vocab": need("vocab_size"),
    "max_sequence": whole("max_position_embeddings"),
    "position_offset": 2,
    "attention.heads": need("decoder_attention_heads"),
    "mlp.intermediate": need("decoder_ffn_dim"),
    "mlp.activation": text("activation_function"),
    "norm": "layernorm",
    "norm_placement": "post",
    "bias": True,
    "positions": "learned",
    "mixer": ["attention", "cross_attention"],
    "embedding_norm": True,
    "final_norm": False,
    "tied_embeddings": flag("tie_word_embeddings"),
    "encoder.layers": need("encoder_layers"),
    "encoder.attention.heads": need("encoder_attention_heads"),
    "encoder.mlp.intermediate": need("encoder_ffn_dim"),
}
# The class holds its sinusoids as a parameter that is not trained.
SINUSOIDAL = {"position_offset": 0, "embedding_norm": False}


def _narrow(c: Config) -> int | None:
    width = c.whole("embedding_size")
    return None if width == c.need("hidden_size") else width


def _albert_layers(c: Config) -> list[str]:
    """ALBERT: one layer's weights are applied in all of them."""
    return ["first"] + ["again"] * (depth(c) - 1)


ENCODER_FAMILIES: dict[str, Family] = {
    "bert": Family(
        traits=ENCODER,
        refused={
            "add_cross_attention": (False, None),
            "position_embedding_type": ("absolute", None),
        },
    ),
    "roberta": Family("bert"),
    "camembert": Family("bert"),
    "xlm-roberta": Family("bert"),
    "electra": Family(
        "bert",
        {
            "pooler": False,
            "embedding_dim": _narrow,
            "embedding_projection": "all",
        },
    ),
    "distilbert": Family(
        "bert",
        {
            "pooler": False,
            "token_types": 0,
            "mlp.intermediate": need("hidden_dim"),
            "mlp.activation": text("activation"),
        },
    ),
    "t5": Family(traits=T5),
    "mt5": Family("t5"),
    "albert": Family(
        "bert",
        {
            "embedding_dim": _narrow,
            "embedding_projection": "all",
        },
        (Axis(_albert_layers, {"again": {"reuse": True}}),),
        refused={"inner_group_num": (1, None), "num_hidden_groups": (1, None)},
    ),
    "bart": Family(
        traits=BART,
        refused={
            "tie_word_embeddings": (True, None),
            "share_encoder_decoder_embeddings": (True, None),
        },
    ),
    "mbart": Family("bart", {"norm_placement": "pre", "final_norm": True}),
    "pegasus": Family("mbart", SINUSOIDAL),
    "marian": Family("bart", SINUSOIDAL),
    "blenderbot-small": Family("bart", {"position_offset": 0}),
    "blenderbot": Family("mbart", {"position_offset": 0, "embedding_norm": False}),
}
