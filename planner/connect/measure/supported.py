"""Which models and runs a plain PyTorch decoder can be built and trained for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.plans.document import Block, Plan

#: Values of a block that the decoder builds; all others must be off.
BUILT: Mapping[str, frozenset[str]] = {
    "embedding": frozenset({"embedding_projection"}),
    "positions": frozenset({"positions", "heads"}),
    "norm": frozenset({"type", "weight", "bias", "offset", "last"}),
    "attention": frozenset(
        {
            "heads",
            "kv_heads",
            "head_dim",
            "value_head_dim",
            "bias",
            "key_bias",
            "output_bias",
            "fused",
            "qk_norm",
            "qk_norm_bias",
            "sees",
            "window",
            "global_every",
            "latent_bias",
            "latent_norm",
            "gate_bias",
            "last",
        }
    ),
    "mlp": frozenset(
        {"activation", "gated", "intermediate", "expansion", "linears", "bias", "last"}
    ),
    "moe": frozenset(
        {
            "experts",
            "top_k",
            "router_groups",  # say which experts, not how many: the step is the same
            "router_group_top_k",
            "intermediate",
            "gated",
            "bias",
            "shared_bias",
            "router_bias",
            "activation",
            "shared_experts",
            "shared_intermediate",
            "first_dense_layers",
            "every",
            "offset",
            "last",
        }
    ),
    "head": frozenset({"tied", "bias", "transform_bias", "norm_bias"}),
}
ACTIVATIONS = (
    "gelu",
    "gelu_new",
    "gelu_tanh",
    "gelu_pytorch_tanh",
    "gelu_fast",
    "quick_gelu",
    "silu",
    "relu",
    "relu2",
)
#: Keys of the run, what a step can have, and what to set instead.
RUN: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "training.mode": (("train",), "train"),
    "training.optimizer": (("adamw",), "adamw"),
    "training.precision": (("fp32", "bf16", "fp16", "bf16-pure"), "bf16"),
    "training.attention": (("flash", "efficient", "eager"), "flash"),
    "training.recompute": (("none", "selective", "full"), "none"),
    "model.positions": (("learned", "rope", "none"), "rope"),
    "model.head": ((True,), "true"),
    "model.pooler": ((False,), "false"),
}
OFF = (None, False, 0, "none")


def check(plan: Plan) -> None:
    """Refuse what the decoder does not build.

    Raises:
        PlanError: every part of the model or run that it does not know.
    """
    if plan.model is None:
        where = plan.document.place(("model",))
        raise PlanError(Fault("a step needs the model's shape", where, "layers, hidden and so on"))
    faults = list(_faults(plan))
    if faults:
        raise PlanError(faults)


def _faults(plan: Plan) -> Iterator[Fault]:
    def fault(key: str, value: Any, instead: str) -> Fault:
        shown = str(value).lower() if isinstance(value, bool) else value
        return Fault(
            f"measure --step cannot run {key} {shown}",
            plan.document.place(tuple(key.split("."))),
            instead,
        )

    for key, (known, instead) in RUN.items():
        if plan.get(key) not in known:
            yield fault(key, plan.get(key), f"--set {key}={instead}")
    if plan.get("training.lora") is not None:
        yield fault("training.lora", "adapters", "--set training.lora=null")
    if plan.get("model.encoder") is not None:
        yield fault("model.encoder", "models", "a decoder")
    if plan.get("model.mtp"):
        yield fault("model.mtp", plan.get("model.mtp"), "--set model.mtp=0")
        return
    assert plan.model is not None
    seen = set()
    for part in plan.model.parts:
        for block in part.blocks:
            for key, value in _unknown(block, plan.get("training.sequence_length")):
                if key not in seen:
                    seen.add(key)
                    yield fault(key, value, "a plain decoder: attention, mlp or moe")


def _unknown(block: Block, length: int) -> Iterator[tuple[str, Any]]:
    values, built = block.values, BUILT.get(block.kind)
    if built is None:
        yield f"model.{block.kind}", "blocks"
        return
    for key, value in values.items():
        if key not in built and value not in OFF and key != "decoder":
            yield f"model.{block.kind}.{key}", value
    if block.kind in ("mlp", "moe") and values["activation"] not in ACTIVATIONS:
        yield f"model.{block.kind}.activation", values["activation"]
    if block.kind == "attention":
        if values["value_head_dim"] != values["head_dim"]:
            yield "model.attention.value_head_dim", values["value_head_dim"]
        if (values.get("window") or length) < length:
            yield "model.attention.window", values["window"]
