"""What a row of the family tables is, and the traits that many families share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.connect.imports.config import Config, Trait, first, flag, need, text, whole
from planner.connect.imports.patterns import Axis, all_are, listed

Traits = Mapping[str, Trait]


@dataclass(frozen=True)
class Family:
    """One model type: the family that it resembles, and what differs from that one.

    ``traits`` gives dotted keys of the model document a constant or a rule over the
    configuration. ``axes`` say in which respects its layers differ. A key in ``refused`` changes
    the architecture in a way that is not modelled unless it has one of the values listed.
    """

    like: str | None = None
    traits: Traits = field(default_factory=dict)
    axes: tuple[Axis, ...] | None = None
    refused: Mapping[str, tuple[object, ...]] = field(default_factory=dict)


def head_dim(c: Config) -> int | None:
    """As given; where the class's own heads do not divide its width, the class rounds down."""
    given = c.whole("head_dim")
    if given is not None or {"hidden_size", "num_attention_heads"} <= set(c.given):
        return given
    hidden, heads = c.need("hidden_size"), c.need("num_attention_heads")
    return hidden // heads if hidden % heads else None


DECODER: Traits = {
    "layers": need("num_hidden_layers"),
    "hidden": need("hidden_size"),
    "vocab": need("vocab_size"),
    "max_sequence": first("max_position_embeddings", "max_seq_len"),
    "attention.heads": need("num_attention_heads"),
    "attention.kv_heads": whole("num_key_value_heads"),
    "attention.head_dim": head_dim,
    "mlp.intermediate": whole("intermediate_size"),
    "mlp.activation": text("hidden_act"),
    "tied_embeddings": flag("tie_word_embeddings"),
}

LAYERNORM: Traits = {"norm": "layernorm"}

ATTENTION_WORDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "linear",
    "conv": "conv",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "hybrid": "hybrid",
}

WINDOWS: Mapping[str, Traits] = {
    "sliding": {"attention.window": whole("sliding_window")},
    "full": {"attention.window": None},
    "chunked": {"attention.window": whole("attention_chunk_size")},
}


def windows(otherwise: object = None, **kinds: Traits) -> Axis:
    """Sliding or full attention by ``layer_types``; without it, as the class makes them."""
    rule = otherwise if callable(otherwise) else all_are("full")
    return Axis(listed("layer_types", rule, ATTENTION_WORDS), {**WINDOWS, **kinds})


DENSE: Traits = {"feed_forward": "mlp"}
SPARSE: Traits = {"feed_forward": "moe"}


def experts(labels: object) -> Axis:
    """Dense or mixture-of-experts layers, as the labels say."""
    assert callable(labels)
    return Axis(labels, {"dense": DENSE, "sparse": SPARSE})


def shared_width(count: str, width: str) -> object:
    """The rule: inner width of all shared experts together."""

    def rule(c: Config) -> int:
        return (c.whole(count, 0) or 0) * c.need(width)

    return rule
