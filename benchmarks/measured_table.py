"""Measured runs in a table (``.csv``): the columns that have one meaning, as rows of
``benchmarks.measured``.

Columns of prose (what stands in notes on experts, on the network, on how FLOPs are counted) are not
read: a row whose plan they decide is left out with that reason.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measured import Document, LeftOut

Cells = Mapping[str, str]

#: Whose kernels ran, by the framework's name.
IMPLEMENTATIONS = {
    "Megatron-Bridge (Megatron-Core)": "megatron",
    "NeMo (Megatron-Core)": "megatron",
    "Megatron-LM (commit 23e00ed) + TransformerEngine 2.11": "megatron",
    "Megatron-DeepSpeed": "megatron-deepspeed",
    "Megatron-LM": "megatron-2022",
    "Megatron-LM (2020)": "megatron-2022",
    "nanotron": "nanotron",
    "nanotron (2024)": "nanotron",
    "LitGPT": "litgpt",
    "InternEvo": "pytorch",
    "Composer/llm-foundry (PyTorch FSDP)": "pytorch",
}
#: What is sharded beside the model's own degrees.
SHARDED = {
    "none": 0,
    "ZeRO-0": 0,
    "ZeRO-1": 1,
    "distributed optimizer": 1,
    "distributed optimizer (ZeRO-1)": 1,
    "DDP + distributed optimizer": 1,
    "FSDP SHARD_GRAD_OP (ZeRO-2)": 2,
    "FSDP FULL_SHARD (ZeRO-3)": 3,
}
#: The quantity and its unit, by column ``measured_quantity``, and for memory by what was read.
SPEED = {
    "step_time_s": ("time.step_seconds", "s"),
    "tokens_per_s_per_gpu": ("time.tokens_per_second_per_device", "1/s"),
}
#: What stands in further columns is not read, yet is a value of its run.
IN_PROSE = {
    "tflops_per_gpu": "time.tflops_per_device",
    "mfu_pct": "time.mfu",
    "hfu_pct": "time.hfu",
    "train_days": "time.training_days",
    "total_train_gpu_hours": "time.device_hours",
    "peak_mem_gib": "memory.total",
}
READINGS = {
    "allocated, largest over ranks": "memory.total",
    "allocated, given in decimal GB and converted": "memory.total",
    "allocated, first stage": "memory.peak[0]",
    "reserved": "memory.reserved",
    "process (nvidia-smi), whole GB": "memory.process",
}
MODES = ("none", "selective", "full")


def rows(file: Path) -> Iterator[Document]:
    """Every row of a table, as a line of the newer form."""
    with file.open(newline="", encoding="utf-8") as lines:
        for cells in csv.DictReader(lines):
            yield _row(cells)


def _row(cells: Cells) -> Document:
    data: Document = {
        "id": cells["id"],
        "run": cells["id"].rstrip("abcdefgh"),
        "source": "-".join(part for part in cells["id"].split("-")[:2] if part[0].isalpha()),
        "kind": "experts" if cells["num_experts"] else "dense",
        "use": cells["use"],
        "quantity": {**IN_PROSE, **{key: name for key, (name, _) in SPEED.items()}}.get(
            cells["measured_quantity"], cells["measured_quantity"]
        ),
        "value": cells["value"],
        "unit": "",
        "publication": cells["source"],
        "url": cells["url"],
    }
    try:
        quantity, unit, value = _measured(cells)
        return {
            **data,
            "quantity": quantity,
            "unit": unit,
            "value": value,
            "plan": document(cells, speed=quantity.startswith("time.")),
        }
    except LeftOut as problem:
        return {**data, "left_out": str(problem)}


def _measured(cells: Cells) -> tuple[str, str, float]:
    kind, value = cells["measured_quantity"], float(cells["value"])
    if kind in SPEED:
        return *SPEED[kind], value
    if kind == "peak_mem_gib":
        return _known(cells, "metric", READINGS), "bytes", value * 2**30
    raise LeftOut(f"what {kind} counts stands in prose")


def _known(cells: Cells, column: str, names: Mapping[str, Any]) -> Any:
    text = cells.get(column, "")
    if not text:
        raise LeftOut(f"{column} is not published")
    if text not in names:
        raise LeftOut(f"{column} is in prose: {text}")
    return names[text]


def _int(cells: Cells, column: str, default: int | None = None) -> int:
    text = cells.get(column, "")
    if text:
        return int(float(text))
    if default is None:
        raise LeftOut(f"{column} is not published")
    return default


def document(cells: Cells, speed: bool) -> Document:
    """The plan document of a row of the table.

    Raises:
        LeftOut: a column that a plan needs is not published, or is prose.
    """
    if cells["num_experts"]:
        raise LeftOut("which layers have experts stands in prose (moe_notes)")
    devices, tensor = _int(cells, "num_gpus"), _int(cells, "tp", 1)
    if speed and devices > 8 and cells["interconnect_notes"]:
        raise LeftOut("the network is in prose (interconnect_notes)")
    if not cells["accelerator"]:
        raise LeftOut("accelerator is not published")
    gated = cells["gated_mlp"] == "true"
    heads = _int(cells, "heads")
    attention: Document = {"heads": heads, "kv_heads": _int(cells, "kv_heads", heads)}
    if cells["head_dim"]:
        attention["head_dim"] = _int(cells, "head_dim")
    training: Document = {
        "sequence_length": _int(cells, "seq_len"),
        "micro_batch": _int(cells, "micro_batch"),
        "implementation": _known(cells, "framework", IMPLEMENTATIONS),
        "recompute": _known(cells, "recompute", {mode: mode for mode in MODES}),
    }
    if not cells["precision"]:
        raise LeftOut("precision is not published")
    training["precision"] = cells["precision"]  # a format that no plan has is refused as one
    steps = "grad_accum" if cells["grad_accum"] else "global_batch"
    training[{"grad_accum": "gradient_accumulation"}.get(steps, steps)] = _int(cells, steps)
    if cells["flash_attention"] in ("true", "false"):
        training["attention"] = "flash" if cells["flash_attention"] == "true" else "eager"
    return {
        "name": cells["id"],
        "model": {
            "layers": _int(cells, "layers"),
            "hidden": _int(cells, "hidden"),
            "vocab": _int(cells, "vocab"),
            "max_sequence": _int(cells, "seq_len"),
            "attention": attention,
            "mlp": {
                "gated": gated,
                "intermediate": _int(cells, "ffn_hidden"),
                "activation": "silu" if gated else "gelu",
            },
            "norm": "rmsnorm" if gated else "layernorm",
            "positions": "rope" if gated else "learned",
            "bias": not gated,
            "tied_embeddings": cells["tied"] == "true",
        },
        "cluster": {
            "accelerator": cells["accelerator"],
            "devices": devices,
            "devices_per_node": min(8, devices),
        },
        "training": training,
        "parallelism": {
            "tensor": tensor,
            "sequence": cells["sp"] == "true" and tensor > 1,
            "pipeline": _int(cells, "pp", 1),
            "virtual_pipeline": _int(cells, "virtual_pp", 1),
            "context": _int(cells, "cp", 1),
            "zero": _known(cells, "zero_stage_or_fsdp", SHARDED),
        },
    }
