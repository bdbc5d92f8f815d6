"""Implementation profiles: which tensors whose kernels keep, and the bytes of one parameter.

A profile is a fact sheet in presets/implementations; ``training.implementation`` names it. For
each kind of block it lists the tensors that stay until the backward pass and those that live only
at a moment of it. Every line has a width and rows by name (``planner.engine.tensors`` knows what
they stand for), so that a profile is read like a table and nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from planner.base import resources
from planner.plans import error_bands
from planner.plans.document import Draft, merge_mappings

Profile = Mapping[str, Any]
#: Bases beside which PEFT makes norms, embedding and head fp32.
PREPARED = ("int8", "nf4", "nf4-double")
#: Architectures for which PyTorch gives cuBLAS 32 MiB (at::cuda::getChosenWorkspaceSize).
WIDE_WORKSPACE = ("hopper", "blackwell", "blackwell-ultra")
WORKSPACE = "PyTorch's default: 32 MiB on Hopper and Blackwell, else 2 × 4 MiB + 8 × 16 KiB"


@lru_cache(maxsize=16)
def load_profile(name: str) -> Profile:
    """Load the profile of that name, merged over the one that it ``extends``.

    Raises:
        FileNotFoundError: no such profile ships (the schema's list of names is wrong).
    """
    profile: Profile = resources.load_preset(f"implementations/{name}")
    base = profile.get("extends")
    return merge_mappings(load_profile(base), profile) if base else profile


def fill_layout(draft: Draft) -> None:
    """Complete how the implementation cuts layers into stages and whether it divides an expert over
    tensor-parallel ranks."""
    implementation = draft.get("training.implementation")
    rules = load_profile(implementation)
    draft.default("parallelism.cut", rules["cut"], f"under {implementation}")
    size, why = 1, "an expert is whole on its device"
    if rules["experts"] == "tensor" and draft.get("model.moe") is not None:
        size, why = draft.get("parallelism.tensor"), f"equals tensor under {implementation}"
    draft.default("parallelism.expert_tensor", size, why)


def fill_kernels(draft: Draft) -> None:
    """Complete what the profile decides: bytes of the recipe, padding, context-parallel
    communication, usable memory, and the memory margin."""
    training = draft.get("training")
    implementation, precision = training["implementation"], training["precision"]
    profile, under = load_profile(implementation), f"under {implementation}"
    recipe: Mapping[str, int] = profile["recipes"][precision]
    held, why = recipe, f"{precision} {under}"
    if training["mode"] == "inference":
        # Weights in the compute format, and nothing that training needs.
        kept = {"weight": recipe["compute"], "compute": recipe["compute"]}
        held = {**dict.fromkeys(recipe, 0), **kept, "activation": recipe["activation"]}
        why = "nothing is trained"
    for key, size in held.items():
        draft.default(f"training.bytes.{key}", size, why)
    sizes = training["bytes"]
    if draft.get("training.lora") is not None:  # also where a move adds adapters
        draft.default("training.lora.dropout", 0, "none")
        draft.default("training.lora.originals", profile["originals"], under)
        joined = draft.get("training.lora.kernels") == "fused" or not profile["blocks"]["adapter"]
        if draft.default("training.lora.dora", False, "none") and joined:
            wrong = f"these kernels of adapters ({implementation}) have no magnitudes"
            draft.fault("training.lora.dora", wrong, "false, or kernels: separate of another")
        prepared = draft.default("training.lora.prepared", False, "the base stays as it is")
        if prepared and draft.get("training.lora.base") not in PREPARED:
            wrong = f"a base in {draft.get('training.lora.base')} is not prepared"
            draft.fault("training.lora.prepared", wrong, f"false, or base: {', '.join(PREPARED)}")
    if training.get("reference") == "held":
        draft.default("training.bytes.reference", sizes["weight"], "as a trained weight")
    draft.default("training.bytes.logit", 4, "the loss is computed in fp32")
    draft.default("training.bytes.cache", recipe["activation"], "as an activation")
    for key in ("dispatch", "combine"):
        draft.default(f"training.bytes.{key}", sizes["activation"], "as an activation")
    draft.default("training.bytes.gather", sizes["compute"], "as the matmuls take it")
    draft.default("parallelism.vocab_multiple", profile["vocabulary_multiple"], under)
    optimizer = training["optimizer"]
    for key, value in profile["optimizers"].get(optimizer, {}).items():
        draft.default(f"training.{optimizer}.{key}", value, f"under {optimizer}")
    if optimizer in profile["optimizers"]:
        draft.default("training.optimizer_matrices", profile["time"]["matrices"], under)
    fill_layout(draft)
    accelerator = draft.get("cluster.accelerator")
    kernel, why = "flash", "but for fp32"
    if precision == "fp32" and accelerator.get("matrix_unit") is None:
        vendor = profile["time"]["attention"] == "vendor"
        kernel, why = "eager" if vendor else "efficient", "FlashAttention has no kernel of fp32"
    draft.default("training.attention", kernel, why)
    draft.default("training.reentrant", profile["reentrant"], under)
    workspace = 2 * 2**12 * 2**10 + 8 * 2**4 * 2**10
    if accelerator.get("architecture") in WIDE_WORKSPACE:
        workspace = 32 * 2**20
    kernels = profile["time"]
    for key, fact in (("context_exchange", "context"), ("data_overlap", "overlap")):
        draft.default(f"parallelism.{key}", kernels[fact], under)
    draft.default("parallelism.send_overlap", kernels["sends"] == "beside", under)
    draft.default("training.expert_kernels", kernels["experts"], under)
    draft.default("training.permute_fusion", kernels["permute"] == "fused", under)
    for key in ("workspaces", "context", "pipeline_communicators", "buckets"):
        draft.default(f"memory.{key}", profile[key], under)
    channels = (accelerator.get("link") or {}).get("channels", 0)
    why = "of cluster.accelerator.link" if channels else "unknown for this link"
    draft.default("memory.channels", channels, why)
    draft.default("memory.allocator_share", Fraction(str(profile["allocator_share"])), under)
    margin = "calibrated: 95 % of published measurements are below"
    draft.default("memory.margin", error_bands.find_margin(draft.get), margin)
    draft.default("memory.workspace", workspace, WORKSPACE)
    memory = accelerator.get("memory")
    if memory is not None:
        why = "equals accelerator.memory"
        draft.default("cluster.accelerator.memory_usable", memory, why)
