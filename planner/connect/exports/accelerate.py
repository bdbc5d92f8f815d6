"""Accelerate: what no row of accelerate.yaml can say of a plan."""

from __future__ import annotations

from planner.connect.exports.table import Draft, Elsewhere, Row

SIZES = "parallelism_config.parallelism_config_"
EXCHANGE = Row(
    "parallelism.context_exchange",
    f"{SIZES}cp_comm_strategy",
    {"ring": "alltoall", "gather": "allgather"},
    several="parallelism.context",
)


def machines(draft: Draft) -> None:
    devices, node = (draft.plan.get(f"cluster.{key}") for key in ("devices", "devices_per_node"))
    draft.say(
        {
            "compute_environment": "LOCAL_MACHINE",
            "num_processes": devices,
            "num_machines": -(-devices // (node or devices)),
        }
    )


def sharding(draft: Draft) -> None:
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
            draft.cannot("training.recompute", Elsewhere("the training script decides it"))
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
    EXCHANGE(draft)
    if stage == 1:
        draft.cannot("parallelism.zero", "said as 2: gradients are divided too")
    if recompute == "selective":
        draft.cannot("training.recompute", "said as full: whole layers are recomputed")
