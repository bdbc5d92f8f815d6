"""Hypothesis strategies for plans that are valid by construction, over the document space."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]
POWERS = st.sampled_from((1, 2, 4, 8))


@st.composite
def models(draw: st.DrawFn, heads_multiple: int = 1, layers_multiple: int = 1) -> Document:
    """A shape whose heads and layers divide by what the layout needs."""
    heads = heads_multiple * draw(st.sampled_from((1, 2, 3, 8)))
    groups = draw(st.sampled_from([g for g in (heads, heads_multiple) if heads % g == 0]))
    model: Document = {
        "name": "a shape", "layers": layers_multiple * draw(st.integers(1, 4)),
        "hidden": heads * draw(st.sampled_from((1, 16, 64))),
        "vocab": draw(st.sampled_from((1, 2, 257, 32_000, 10**6))),
        "attention": {"heads": heads, "kv_heads": groups},
        "mlp": {"gated": draw(st.booleans())},
        "norm": draw(st.sampled_from(("rmsnorm", "layernorm"))),
        "positions": draw(st.sampled_from(("rope", "alibi", "none"))),
        "bias": draw(st.booleans()), "tied_embeddings": draw(st.booleans()),
    }  # fmt: skip
    return model


@st.composite
def plans(draw: st.DrawFn) -> Document:
    """A dense model under tensor, pipeline, context and data parallelism, any recompute mode."""
    tensor, pipeline, data = draw(POWERS), draw(POWERS), draw(POWERS)
    context = draw(st.sampled_from((1, 1, 2)))
    micro, steps = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return {
        "name": "a plan",
        "model": draw(models(tensor, pipeline)),
        "cluster": {
            "extends": draw(st.sampled_from(("hgx-h100", "hgx-a100"))),
            "devices": tensor * pipeline * data * context,
            "price": draw(st.sampled_from(("0 USD/h", "2 USD/h"))),
        },
        "training": {
            "tokens": draw(st.sampled_from((1, 10**9, 15 * 10**12))),
            "sequence_length": draw(st.sampled_from((32, 128, 4096))),
            "micro_batch": micro,
            "global_batch": micro * steps * data,
            "recompute": draw(st.sampled_from(("none", "selective", "full"))),
            "precision": draw(st.sampled_from(("bf16", "fp32", "fp16"))),
        },
        "parallelism": {
            "tensor": tensor, "pipeline": pipeline, "context": context,
            "sequence": draw(st.booleans()) if tensor > 1 else False,
            "zero": draw(st.sampled_from((0, 1))),
        },
        "time": {"mfu": 0.4},
    }  # fmt: skip
