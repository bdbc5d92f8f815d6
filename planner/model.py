"""From a model document to its stack of layer kinds.

A model is a sequence of layer kinds; a kind is a short list of blocks: norms, mixers over tokens
and channel mixers (feed-forwards), each with its own widths. Common patterns are single keys
(``moe.every``, ``moe.first_dense_layers``, ``attention.window`` with ``attention.global_every``);
the uncommon ones name their kinds and spell the ``pattern`` out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.document import Block, Draft, Model, Part, Path

#: Keys of a model document that hold the shape of a block of that kind.
MIXERS = ("attention",)
FEED_FORWARDS = ("mlp", "moe")


def lower(draft: Draft, path: Path = ("model",)) -> Model | None:
    """The stack of a model document; None where only its size is given. Adds faults to draft."""
    data: dict[str, Any] = draft.get(*path)
    if data.get("parameters") is not None:
        if data.get("layers") is not None:
            draft.fault(
                (*path, "parameters"),
                "the model has a shape, so its parameters are counted",
                "either parameters or layers, hidden and so on",
            )
        return None
    kinds, sequence = _kinds(draft, path, data)
    parts = [_embedding(data)]
    for name, kind in kinds.items():
        title = f"{name} layers" if len(kinds) > 1 else "layers"
        parts.append(Part(name, title, sequence.count(name), _blocks(draft, path, kind)))
    parts.append(_head(data))
    return Model(tuple(parts), tuple(sequence))


def _kinds(draft: Draft, path: Path, data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Layer kinds by name (each a mapping like a model's) and the kind of each layer."""
    layers = data["layers"]
    if data.get("kinds"):
        return _spelled_out(draft, path, data, layers)
    moe, window = data.get("moe") or {}, (data.get("attention") or {}).get("window")
    every, first = moe.get("every", 1), moe.get("first_dense_layers", 0)
    offset = moe.get("offset")
    offset = every - 1 if offset is None else offset
    global_every = (data.get("attention") or {}).get("global_every")
    sequence, kinds = [], {}
    for layer in range(layers):
        names, kind = [], dict(data)
        if moe:
            routed = layer >= first and layer % every == offset % every
            names.append("moe" if routed else "dense")
            kind["feed_forward"] = "moe" if routed else "mlp"
        if window and global_every:
            wide = layer % global_every == global_every - 1
            names.append("global" if wide else "local")
            if wide:
                kind["attention"] = {**data["attention"], "window": None}
        name = "-".join(names) or "layer"
        kinds.setdefault(name, kind)
        sequence.append(name)
    if len(kinds) == 1:
        return {"layer": next(iter(kinds.values()))}, ["layer"] * layers
    return kinds, sequence


def _spelled_out(
    draft: Draft, path: Path, data: dict[str, Any], layers: int
) -> tuple[dict[str, Any], list[str]]:
    kinds = {}
    for name, changes in data["kinds"].items():
        kind = dict(data)
        for key, value in (changes or {}).items():
            old = kind.get(key)
            merge = isinstance(value, Mapping) and isinstance(old, Mapping)
            kind[key] = {**old, **value} if merge else value
        kinds[name] = kind
    pattern = data.get("pattern") or list(kinds)
    for index, name in enumerate(pattern):
        if name not in kinds:
            draft.fault((*path, "pattern", index), f"unknown layer kind {name!r}", _names(kinds))
    draft.finish()
    sequence = [pattern[i % len(pattern)] for i in range(layers)]
    return {k: v for k, v in kinds.items() if k in sequence}, sequence


def _names(pool: Any) -> str:
    return "one of: " + ", ".join(pool)


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _norm_bias(data: Mapping[str, Any]) -> bool:
    given = data.get("norm_bias")
    return data["norm"] == "layernorm" if given is None else given


def _norm(data: Mapping[str, Any], name: str) -> Block:
    return Block("norm", name, {"type": data["norm"], "bias": _norm_bias(data)})


def _blocks(draft: Draft, path: Path, kind: dict[str, Any]) -> tuple[Block, ...]:
    """The blocks of one layer kind in the order of the forward pass."""
    mixers = _listed(kind.get("mixer", "attention"))
    feed_forwards = _listed(kind.get("feed_forward", "moe" if kind.get("moe") else "mlp"))
    if feed_forwards == ["none"]:
        feed_forwards = []
    placement = kind["norm_placement"]
    inner = [
        [Block(name, name, _shape(draft, path, kind, name)) for name in group]
        for group in (mixers, feed_forwards)
    ]
    if kind["parallel"]:
        before = [_norm(kind, "mixer_norm")]
        if not kind["shared_norm"]:
            before.append(_norm(kind, "mlp_norm"))
        return (*before, *inner[0], *inner[1])
    blocks: list[Block] = []
    for label, group in zip(("mixer", "mlp"), inner, strict=True):
        if not group:
            continue
        if placement in ("pre", "sandwich"):
            blocks.append(_norm(kind, f"{label}_norm"))
        blocks += group
        if placement != "pre":
            suffix = "_post_norm" if placement == "sandwich" else "_norm"
            blocks.append(_norm(kind, f"{label}{suffix}"))
    return tuple(blocks)


def _shape(draft: Draft, path: Path, kind: dict[str, Any], block: str) -> dict[str, Any]:
    """The values of a block with the defaults that depend on other keys."""
    values = dict(kind.get(block) or {})
    here = (*path, block)

    def default(key: str, value: Any, why: str) -> Any:
        if values.get(key) is None:
            values[key] = value
            if draft.get(*here) is not None or block == "mlp":
                draft.default((*here, key), value, why)
        return values[key]

    hidden = kind["hidden"]
    if block == "attention":
        heads = values["heads"]
        default("kv_heads", heads, "equals attention.heads")
        if values.get("head_dim") is None and hidden % heads:
            draft.fault((*here, "heads"), f"{heads} heads do not divide hidden {hidden}",
                        "a divisor of hidden, or head_dim given")
        default("head_dim", hidden // heads, "hidden / attention.heads")
        default("value_head_dim", values["head_dim"], "equals attention.head_dim")
        default("bias", kind["bias"], "equals model.bias")
        default("output_bias", values["bias"], "equals attention.bias")
        if heads % values["kv_heads"]:
            draft.fault((*here, "kv_heads"),
                        f"{values['kv_heads']} key/value heads do not divide {heads} heads",
                        "a divisor of attention.heads")
    if block in ("mlp", "moe"):
        default("bias", kind["bias"], "equals model.bias")
        default("gated", (kind.get("mlp") or {}).get("gated", False), "equals mlp.gated")
    if block == "mlp":
        expansion = values.get("expansion") or 4
        default("intermediate", int(expansion * hidden), f"{expansion} × hidden")
    if block == "moe":
        default("intermediate", (kind.get("mlp") or {}).get("intermediate") or 4 * hidden,
                "equals mlp.intermediate")
        default("shared_intermediate", values["shared_experts"] * values["intermediate"],
                "moe.shared_experts × moe.intermediate")
        if values["top_k"] > values["experts"]:
            draft.fault((*here, "top_k"),
                        f"a token cannot use {values['top_k']} of {values['experts']} experts",
                        f"1 to {values['experts']}")
    return values


def _embedding(data: Mapping[str, Any]) -> Part:
    values = {"positions": data["positions"]}
    return Part("embedding", "embedding", 1, (Block("embedding", "embedding", values),))


def _head(data: Mapping[str, Any]) -> Part:
    blocks = [_norm(data, "final_norm")] if data["final_norm"] else []
    values = {"tied": data["tied_embeddings"], "bias": data["head_bias"]}
    return Part("head", "head", 1, (*blocks, Block("head", "head", values)))
