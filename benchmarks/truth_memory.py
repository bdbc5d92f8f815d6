"""Plan documents for the cases of activations.json, activations_tp.json and memory.json.

The files hold what PyTorch's own hooks and trackers count. Each case becomes an ordinary plan
document from its own fields; what a field's value means in our words stands in the tables below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Case = Mapping[str, Any]
Document = dict[str, Any]

#: Layer families by the name of the implementation: norm, positions, feed-forward, projections.
LLAMA: Document = {
    "norm": "rmsnorm",
    "positions": "rope",
    "mlp": {"gated": True, "activation": "silu"},
}
GPT: Document = {
    "norm": "layernorm",
    "positions": "learned",
    "bias": True,
    "mlp": {"gated": False, "activation": "gelu"},
    "attention": {"fused": True},
}
FAMILIES: dict[str, Document] = {
    "llama": LLAMA,
    "qwen2": LLAMA,
    "qwen3": {**LLAMA, "attention": {"qk_norm": "head"}},
    "gemma": {**LLAMA, "norm_offset": True, "mlp": {"gated": True, "activation": "gelu_tanh"}},
    "gpt": GPT,
    "gpt2": {**GPT, "mlp": {"gated": False, "activation": "gelu_new"}},
    "gpt_neox": {**GPT, "positions": "rope", "parallel": True},
}


def _model(family: str, dims: Mapping[str, Any], length: int) -> Document:
    """A model document of a family with the case's shape."""
    base = FAMILIES[family]
    attention = {"heads": dims["a"], "kv_heads": dims["kv"], "head_dim": dims["hd"]}
    return {
        **base,
        "layers": dims.get("layers", 3),
        "hidden": dims["h"],
        "vocab": dims.get("vocab", 1000),
        "max_sequence": length,
        "attention": {**base.get("attention", {}), **attention},
        "mlp": {**base["mlp"], "intermediate": dims["ffn"]},
        "tied_embeddings": dims.get("tied", False),
    }


def _cluster(devices: int) -> Document:
    return {"accelerator": "h100-sxm-80gb", "devices": devices, "devices_per_node": devices}


def _implementation(name: str) -> tuple[str, str]:
    """Whose code, and the family: hf_llama is transformers' llama, plain_gpt plain PyTorch's."""
    code, _, family = name.partition("_")
    return {"hf": "transformers", "plain": "pytorch"}[code], family.removesuffix("_complex")


def activations(cases: Mapping[str, Any]) -> Iterator[tuple[str, Document, dict[str, int]]]:
    """Name, plan document and expected quantities of each case of activations.json."""
    for number, case in enumerate(cases["cases"]):
        code, family = _implementation(case["implementation"])
        dims = case["dims"]
        training = {
            "sequence_length": dims["s"],
            "micro_batch": dims["b"],
            "precision": "fp32" if case["dtype"] == "fp32" else "bf16-pure",
            "implementation": code,
            "attention": case["attention"],
            "dropout": str(case["dropout"]),
        }
        document = {
            "model": _model(family, dims, dims["s"]),
            "cluster": _cluster(1),
            "training": training,
        }
        name = f"{number} {case['implementation']} {case['attention']} {case['dtype']}"
        yield name, document, {"memory.activations.layer": case["layer_bytes"]}


def activations_tensor_parallel(
    cases: Mapping[str, Any],
) -> Iterator[tuple[str, Document, dict[str, int]]]:
    """The same for activations_tp.json, which was counted on fake CPU tensors."""
    for number, case in enumerate(cases["cases"]):
        dims = case["dims"]
        document = {
            "model": _model(case["kind"], dims, dims["s"]),
            "cluster": _cluster(case["tp"]),
            "training": {
                "sequence_length": dims["s"],
                "micro_batch": dims["b"],
                "precision": "fp32" if case["dtype"] == "fp32" else "bf16-pure",
                "implementation": "pytorch-cpu",
                "attention": case["attention"],
                "dropout": str(case["attn_dropout"]),
            },
            "parallelism": {"tensor": case["tp"], "sequence": case["sequence_parallel"]},
        }
        name = f"{number} {case['kind']} {case['attention']} tensor {case['tp']}"
        yield name, document, {"memory.activations.layer": case["layer_bytes_per_device"]}


def _precision(case: Case) -> str:
    if case["param_dtype"] == case["compute_dtype"]:
        return "fp32" if case["param_dtype"] == "fp32" else "bf16-pure"
    return str(case["compute_dtype"])


#: The attribution of the trackers, by the phase of a step in our words.
PHASES = {
    "the loss": "backward",
    "backward pass of a layer": "backward",
    "backward pass of the first layer": "backward",
    "end of the backward pass": "backward",
    "optimizer step": "optimizer",
}


def peaks(cases: Mapping[str, Any]) -> Iterator[tuple[str, Document, dict[str, Any]]]:
    """Name, plan document and expected quantities of each case of memory.json."""
    families = {"llama": "llama", "gpt2": "gpt2"}
    for number, case in enumerate(cases["cases"]):
        code = {"hf": "transformers", "plain": "pytorch"}[case["implementation"]]
        optimizer, _, kernel = case["optimizer"].partition("_")
        document = {
            "model": _model(families[case["model"].split("-")[0]], case["dims"], case["seq"]),
            "cluster": _cluster(case["world"]),
            "training": {
                "sequence_length": case["seq"],
                "micro_batch": case["micro_batch"],
                "precision": _precision(case),
                "implementation": f"{code}-cpu",
                "attention": "flash",
                "recompute": case["activation_checkpointing"],
                "optimizer": optimizer,
                "optimizer_kernel": kernel,
            },
            "parallelism": {
                "zero": 3 if case["strategy"] == "fsdp2" else 0,
                "reshard": case["reshard_after_forward"] is not False,
            },
            # Trackers see tensors only.
            "memory": {"workspace": 0},
        }
        yield (
            f"{number} {case['model']} {case['strategy']} {case['world']}",
            document,
            {
                "memory.weights": case["params_bytes_local"],
                "memory.gradients.stage": case["gradients_bytes_after_backward"],
                "memory.optimizer": case["optimizer_bytes_local"],
                "memory.total": case["peak_total_bytes"],
                "memory.phase": case["peak_phase"],
            },
        )


#: How to read each file.
CASES = {
    "activations.json": activations,
    "activations_tp.json": activations_tensor_parallel,
    "memory.json": peaks,
}
