"""nanotron: what no row of nanotron.yaml can say of a plan."""

from __future__ import annotations

from typing import Any

from planner.connect.exports.table import Draft, with_experts

MODEL = "model.model_config"


def head_width(draft: Draft) -> None:
    heads, head = draft.get("model.attention.heads"), draft.get("model.attention.head_dim")
    if heads and head and heads * head != draft.get("model.hidden"):
        draft.cannot("model.attention.head_dim", "heads divide the hidden size")


def feed_forward(draft: Draft) -> dict[str, Any]:
    dense = draft.get("model.mlp.intermediate")
    if not draft.plan.get("model.moe"):
        return {f"{MODEL}.intermediate_size": dense} if dense else {}
    width, has = int(draft.get("model.moe.intermediate")), with_experts(draft)
    shared = draft.get("model.moe.shared_experts")
    config = {
        "num_experts": draft.get("model.moe.experts"),
        "top_k": draft.get("model.moe.top_k"),
        "layers": [-1] if all(has) else [index for index, one in enumerate(has) if one],
        "enable_shared_expert": bool(shared),
    }
    if shared and shared > 1:
        draft.cannot("model.moe.shared_experts", "one shared expert, as wide as the others")
    if dense not in (None, width) and not all(has):
        draft.cannot("model.moe.intermediate", "experts are as wide as the dense layers")
    return {f"{MODEL}.moe_config": config, f"{MODEL}.intermediate_size": width}
