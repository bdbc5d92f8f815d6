"""Megatron-LM: what no row of megatron.yaml can say of a plan."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from planner.connect.exports.table import Draft, with_experts
from planner.plans import pipeline

Options = dict[str, Any]


def window(draft: Draft) -> Options:
    """Of our window of so many tokens one is the token itself."""
    width = draft.get("model.attention.window")
    return {"window-size": f"({width - 1},0)"} if width else {}


def feed_forward(draft: Draft, activations: dict[str, Options]) -> Options:
    blocks = draft.blocks("mlp") + draft.blocks("moe")
    if not blocks:
        return {}
    kinds = {(b.values["gated"], b.values["activation"]) for b in blocks}
    gated, activation = sorted(kinds)[-1]
    name = f"{'gated ' * gated}{activation}"
    word = activations.get(name)
    if len(kinds) > 1:
        draft.cannot("model.moe.activation", "experts have the activation of the dense layers")
    if word is None:
        draft.cannot("model.mlp.activation", f"no option for {name}")
    # The width of a dense layer is asked for even where there is none.
    return {"ffn-hidden-size": blocks[0].values["intermediate"], **(word or {})}


def biases(draft: Draft) -> Options:
    if not draft.get("model.layers"):
        return {}
    draft.heard.add("model.attention.key_bias")
    bias, query, *rest = (
        draft.get(f"model.{key}")
        for key in ("bias", "attention.bias", "attention.output_bias", "mlp.bias", "moe.bias")
    )
    inner = {each for each in rest if each is not None} or {bias}
    query = bias if query is None else query
    if inner == {False}:
        return {"disable-bias-linear": True} | ({"add-qkv-bias": True} if query else {})
    if inner != {True} or not query:
        draft.cannot("model.bias", "linears have biases all or none, but for query, key and value")
    return {}


def norm_bias(draft: Draft) -> None:
    norm, bias = draft.get("model.norm"), draft.get("model.norm_bias")
    if None not in (norm, bias) and bias != (norm == "layernorm"):
        draft.cannot("model.norm_bias", "LayerNorm has biases, RMSNorm has none")


def layers_with_experts(draft: Draft) -> Options:
    """``[0]*3+[1]*58``: the expression that the option takes."""
    layers = [int(one) for one in with_experts(draft)]
    if all(layers) or not any(layers):
        return {}
    runs = [(value, len(list(run))) for value, run in groupby(layers)]
    text = "+".join(f"[{value}]*{count}" for value, count in runs)
    return {"moe-layer-freq": text if len(runs) <= 8 else str(layers).replace(" ", "")}


def cut(draft: Draft) -> Options:
    """Layers that do not divide evenly: the ends said apart where that is enough, else the whole
    layout. Further-token modules stand on the last stage unless a layout says more."""
    model, further = draft.plan.model, draft.get("model.mtp") or 0
    size, chunks = draft.get("parallelism.pipeline"), draft.get("parallelism.virtual_pipeline")
    draft.heard |= {"parallelism.stages", "parallelism.cut"}
    if model is None or size * chunks == 1:
        return {}
    layout, vocab = draft.plan.data["parallelism"], draft.plan.get("model.vocab")
    held = pipeline.chunks(model, layout, vocab)
    plain = [*held[:-1], held[-1] - further]
    if plain[-1] >= 0 and len(set(plain)) == 1:
        return {}
    if plain[-1] >= 0 and chunks == 1 and len(plain) > 2 and len(set(plain[1:-1])) == 1:
        return {
            "decoder-first-pipeline-num-layers": plain[0],
            "decoder-last-pipeline-num-layers": plain[-1],
        }
    text = pipeline.written(held, further)
    if text is None:
        draft.cannot("parallelism.stages", "one stage holds all modules of model.mtp")
        return {}
    draft.said.pop("num-virtual-stages-per-pipeline-rank", None)  # which follow from it
    return {"pipeline-model-parallel-layout": text}
