"""Accelerate: the YAML file of `accelerate launch`, with FSDP 2 where weights are divided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.connect.exports.table import (
    FOLLOWS,
    TRAINS,
    Draft,
    Elsewhere,
    Near,
    Row,
    Rule,
    elsewhere,
    exchange,
    heard,
    nested,
    yaml_text,
)

TITLE = "Accelerate configuration"
SUFFIX = ".yaml"
KERNELS = "transformers"  # whose models its users launch
BY_HAND = ("machine_rank, main_process_ip and main_process_port where there are several machines",)
USE = "accelerate launch --config_file FILE …"

SCRIPT = Elsewhere("the training script decides it")
SIZES = "parallelism_config.parallelism_config_"


def _machines(draft: Draft) -> None:
    devices, node = (draft.plan.get(f"cluster.{key}") for key in ("devices", "devices_per_node"))
    draft.say(
        {
            "compute_environment": "LOCAL_MACHINE",
            "num_processes": devices,
            "num_machines": -(-devices // (node or devices)),
        }
    )


def _sharding(draft: Draft) -> None:
    stage, data = draft.get("parallelism.zero"), draft.get("parallelism.data")
    tensor, context = draft.get("parallelism.tensor"), draft.get("parallelism.context")
    copies, recompute = draft.get("parallelism.replicate"), draft.get("training.recompute")
    if not stage:
        several = draft.plan.get("cluster.devices") > 1
        draft.say({"distributed_type": "MULTI_GPU" if several else "NO"})
        for key, size in (("tensor", tensor), ("context", context)):
            if size > 1:
                draft.cannot(f"parallelism.{key}", "only beside divided weights (zero 2 or 3)")
        if recompute != "none":
            draft.cannot("training.recompute", SCRIPT)
        return
    draft.say(
        {
            "distributed_type": "FSDP",
            "fsdp_config.fsdp_version": 2,
            "fsdp_config.fsdp_reshard_after_forward": stage == 3,
            "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_config.fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_config.fsdp_activation_checkpointing": recompute != "none",
            f"{SIZES}dp_replicate_size": copies,
            f"{SIZES}dp_shard_size": data // copies,
            f"{SIZES}tp_size": tensor,
            f"{SIZES}cp_size": context,
        }
    )
    exchange(f"{SIZES}cp_comm_strategy", ring="alltoall", gather="allgather")(draft)
    if stage == 1:
        draft.cannot("parallelism.zero", "said as 2: gradients are divided too")
    if recompute == "selective":
        draft.cannot("training.recompute", "said as full: whole layers are recomputed")


TABLE: tuple[Row | Rule, ...] = (
    _machines,
    Row(
        "training.precision",
        "mixed_precision",
        {
            "bf16": "bf16",
            "fp16": "fp16",
            "fp8": "fp8",
            "fp32": "no",
            "bf16-pure": Near({"mixed_precision": "no"}, "load the model in bfloat16"),
        },
    ),
    _sharding,
    Row("parallelism.pipeline", words={1: {}}, why="no pipeline for training"),
    Row("parallelism.virtual_pipeline", words={1: {}}, why="no pipeline for training"),
    Row("parallelism.expert", words={1: {}}, why="experts are not divided"),
    Row("parallelism.expert_tensor", words={1: {}}, why="experts are not divided"),
    Row(
        "parallelism.sequence",
        words={False: {}},
        why=Elsewhere("the model's tensor plan decides it"),
    ),
    Row(
        "training.gradient_accumulation",
        words={1: {}},
        why=Elsewhere("Accelerator(gradient_accumulation_steps=…) in the training script"),
    ),
    *(
        Row(f"training.{key}", why=SCRIPT)
        for key in (
            "micro_batch",
            "sequence_length",
            "tokens",
            "optimizer",
            "attention",
            "dropout",
            "loss",
        )
    ),
    elsewhere("model", SCRIPT),
    # No pipeline, no schedule; the global batch follows from sizes said elsewhere.
    heard("training.schedule", "training.global_batch", "parallelism.vocab_multiple"),
    TRAINS,
    FOLLOWS,
)


def write(said: Mapping[str, Any], head: str) -> str:
    return head + yaml_text(nested(said))
