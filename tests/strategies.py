"""Hypothesis strategies for plans that are valid by construction, over the document space."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.conftest import read_data

PRESETS = Path(__file__).resolve().parent.parent / "presets"

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
        "time": {"mfu": 0.4, "use": "assumed"},
    }  # fmt: skip


@st.composite
def pipelined_plans(draw: st.DrawFn, schedule: str) -> Document:
    """A large model that ships under a schedule, which may refuse it."""
    stages, tensor, data = (draw(st.sampled_from(of)) for of in ((2, 4, 8, 16), (1, 4, 8),
                                                                 (1, 4, 16)))  # fmt: skip
    micro, rounds = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2, 4, 8)))
    chunks = {"interleaved": (2, 4), "dualpipev": (2,)}.get(schedule, (1,))
    models = ("gpt3-175b", "llama2-70b", "llama3-8b", "mixtral-8x7b", "deepseek-v3",
              "qwen3-30b-a3b")  # fmt: skip
    return {
        "name": "drawn",
        "model": draw(st.sampled_from(models)),
        "cluster": {
            "accelerator": draw(st.sampled_from(("a100-sxm-80gb", "h100-sxm-80gb", "gb200"))),
            "devices": stages * tensor * data, "devices_per_node": 8,
            "network": {"bandwidth": "400 Gb/s"},
        },
        "training": {
            "tokens": "1T", "sequence_length": 4096, "micro_batch": micro,
            "global_batch": stages * rounds * data * micro, "schedule": schedule,
            "recompute": draw(st.sampled_from(("none", "selective", "full"))),
        },
        "parallelism": {
            "pipeline": stages, "virtual_pipeline": draw(st.sampled_from(chunks)),
            "tensor": tensor, "sequence": tensor > 1, "tensor_overlap": tensor == 8,
            "zero": draw(st.sampled_from((0, 1, 1, 1, 2, 3))),
        },
    }  # fmt: skip


# Everything that ships, under everything that a schema lists ---------------------------------

#: Settings that are no choice of the schema, by key: what a person might write.
NUMBERS: dict[str, tuple[Any, ...]] = read_data("strategies")["numbers"]
SWITCHES = (
    "training.distributed_optimizer", "training.partition_activations", "training.early_stop",
    "training.offload.gradients", "parallelism.sequence", "parallelism.reshard",
    "parallelism.tensor_overlap", "parallelism.split_root",
)  # fmt: skip


@cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (PRESETS / folder).glob("*.yaml")))


@cache
def settings() -> dict[str, tuple[Any, ...]]:
    """Values to try for the keys of a run and of its layout."""
    schema = json.loads((PRESETS.parent / "schemas/plan.schema.json").read_text("utf-8"))
    found = {**NUMBERS, **dict.fromkeys(SWITCHES, (False, True))}
    for section in ("training", "parallelism"):
        whole = schema["definitions"].get(section) or schema["properties"][section]
        for key, said in whole["properties"].items():
            if "enum" in said:
                found[f"{section}.{key}"] = tuple(said["enum"])
    return found


@st.composite
def changes(draw: st.DrawFn, most: int = 6) -> dict[str, Any]:
    """Some keys of a plan with values, as `set` takes them."""
    found = settings()
    names = sorted({*found} - {"parallelism.for"})  # which goes with an open layout alone
    keys = draw(st.lists(st.sampled_from(names), max_size=most, unique=True))
    return {key: draw(st.sampled_from(found[key])) for key in keys}


@st.composite
def wide_plans(draw: st.DrawFn) -> tuple[Document, dict[str, Any]]:
    """A plan of any shipped model on any shipped hardware, and changes; not each is possible."""
    chosen = draw(changes())
    layout = {key: chosen.get(f"parallelism.{key}", 1) for key in
              ("tensor", "pipeline", "context", "expert", "replicate")}  # fmt: skip
    ranks = draw(POWERS) * layout["expert"] * layout["replicate"]
    micro, steps = chosen.get("training.micro_batch", 1), draw(st.sampled_from((1, 1, 3, 8)))
    hardware = draw(st.sampled_from(("accelerator", "extends")))
    folder = {"accelerator": "accelerators", "extends": "clusters"}[hardware]
    return {
        "name": "a plan",
        "model": draw(st.sampled_from(_names("models"))),
        "cluster": {
            hardware: draw(st.sampled_from(_names(folder))),
            "devices": layout["tensor"] * layout["pipeline"] * layout["context"] * ranks,
            "price": draw(st.sampled_from(("0 USD/h", "2 USD/h"))),
        },
        "training": {"tokens": 10**9, "sequence_length": 512,
                     "global_batch": micro * steps * ranks},
    }, chosen  # fmt: skip


@st.composite
def whole_plans(draw: st.DrawFn) -> Document:
    """The same as one document."""
    document, chosen = draw(wide_plans())
    for key, value in chosen.items():
        set_key(document, key, value)
    return document


def set_key(document: Document, key: str, value: Any) -> None:
    """Set a dotted key of a document; what a name stands for on the way to it is extended."""
    *around, last = key.split(".")
    node = document
    for step in around:
        if not isinstance(node.setdefault(step, {}), dict):
            node[step] = {"extends": node[step]}
        node = node[step]
    if isinstance(value, dict) and isinstance(node.get(last), dict):
        node[last] |= value
    else:
        node[last] = value
