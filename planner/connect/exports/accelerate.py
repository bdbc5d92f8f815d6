"""Accelerate: what no row of accelerate.yaml can say of a plan."""

from __future__ import annotations

from typing import Any

from planner.connect.exports.table import Draft


def machines(draft: Draft) -> dict[str, Any]:
    devices, node = (draft.plan.get(f"cluster.{key}") for key in ("devices", "devices_per_node"))
    return {
        "compute_environment": "LOCAL_MACHINE",
        "num_processes": devices,
        "num_machines": -(-devices // (node or devices)),
    }


def undivided(draft: Draft) -> dict[str, Any]:
    several = draft.plan.get("cluster.devices") > 1
    return {"distributed_type": "MULTI_GPU" if several else "NO"}


def shards(draft: Draft) -> dict[str, Any]:
    size = draft.get("parallelism.data") // draft.get("parallelism.replicate")
    return {"parallelism_config.parallelism_config_dp_shard_size": size}
