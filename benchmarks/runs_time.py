"""Plan documents for rows that measure speed (runs.csv), made from each row's own columns.

What the columns mean in our words stands here; nothing here knows a row, a model or a source. What
a column leaves open is filled by the framework's default, which stands here too, with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from benchmarks import runs_memory
from benchmarks.runs_memory import LeftOut

Row = Mapping[str, str]
Document = dict[str, Any]

#: Whose kernels ran, by a piece of the framework's name; the first that fits.
IMPLEMENTATIONS = (
    ("TransformerEngine", "megatron"),
    ("Megatron-Bridge", "megatron"),
    ("Megatron-Core", "megatron"),
    ("NeMo", "megatron"),
    ("Megatron-DeepSpeed", "megatron-deepspeed"),
    ("Megatron", "megatron-2022"),
    ("nanotron", "nanotron"),
)
#: Frameworks that cut tensor-parallel exchanges up and run them beside the products by default.
OVERLAPPING = ("NeMo", "Megatron-Bridge")
#: What an all-reduce over several nodes was measured to reach, by the network's name: Gb/s of the
#: cards of a node, and its bus bandwidth. Omni-Path: four cards, NCCL over verbs without a plugin
#: (bigscience, experiments/bandwidth/all_reduce_bench-32gb-4n.txt).
SUSTAINED = {"Omni-Path": (400, 84.7)}
#: What is measured, and the quantity that says it.
QUANTITIES = {
    "step_time_s": "time.step_seconds",
    "tokens_per_s_per_gpu": "time.tokens_per_second_per_device",
    "tflops_per_gpu": "time.tflops_per_device",
    "mfu_pct": "time.mfu",
    "hfu_pct": "time.hfu",
    "train_days": "time.training_days",
    "total_train_gpu_hours": "time.device_hours",
}
#: GPT-2's vocabulary, padded: what Megatron's scripts take where a row does not say.
VOCABULARY = 51200


def source(row: Row) -> str:
    """A short name of the row's source: laboratory and accelerator or experiment, by its id."""
    kind = " experts" if row["num_experts"] else ""
    return "-".join(row["id"].split("-")[:2]) + kind


def whole(row: Row, column: str, default: int | None = None) -> int:
    text = row.get(column, "")
    if text:
        return int(float(text))
    if default is None:
        raise LeftOut(f"{column} is not published")
    return default


def implementation(row: Row) -> str:
    """Whose kernels ran. Fused attention under Megatron came with TransformerEngine."""
    for piece, name in IMPLEMENTATIONS:
        if piece in row["framework"]:
            fused = name == "megatron-2022" and row["flash_attention"] == "true"
            return "megatron" if fused else name
    return "pytorch"


def precision(row: Row) -> str:
    """The recipe; Megatron's scripts of 2022 say --fp16, and Volta has no other 16 bit."""
    text = row["precision"].lower()
    for name in ("nvfp4", "fp8", "fp16", "fp32"):
        if text.startswith(name):
            return name
    older = implementation(row) in ("megatron-2022", "megatron-deepspeed")
    return "fp16" if older and not text else "bf16"


def cluster(row: Row, devices: int) -> Document:
    """Nodes and network by the words of the notes on the interconnect."""
    notes = row["interconnect_notes"]
    found: Document = {"accelerator": row["accelerator"], "devices": devices}
    if not row["accelerator"]:
        raise LeftOut("the accelerator is not published")
    domain = re.search(r"NVL(\d+)|(\d+)-(?:chip|GPU)|DGX-(2)\b", notes)
    if domain and domain[3]:
        found["devices_per_node"] = 16
    elif domain:
        found["devices_per_node"] = int(domain[1] or domain[2])
    node = found.get("devices_per_node", 8)
    cards = re.search(r"(\d+)x(?: Omni-Path)? ?(\d+) Gb/s", notes)
    total = re.search(r"(\d+) Gb/s inter-node per node", notes)
    speed = int(cards[1]) * int(cards[2]) if cards else int(total[1]) if total else None
    reached = next((SUSTAINED[name] for name in SUSTAINED if name in notes), None)
    if reached and not speed:
        speed = reached[0]
    if speed:
        found["network"] = {"bandwidth": _per_device(speed, node)}
    if reached:
        found["network"]["sustained"] = _per_device(reached[1], node)
    return found


def _per_device(speed: float, node: int) -> str:
    """Gb/s of each device, of those that a node has."""
    return f"{speed / node:g} Gb/s"


def zero(row: Row) -> int:
    """The ZeRO stage by the words of the column; Megatron's recipes shard the optimizer."""
    text = row["zero_stage_or_fsdp"].lower()
    if "distributed optimizer" in text:
        return 1
    if not text:
        return 1 if implementation(row) == "megatron" else 0
    return runs_memory.zero(row)


def replicas(row: Row, group: int) -> int:
    """Replicas of hybrid sharding: `within 8 GPUs`, `FSDP 256 within slice`."""
    found = re.search(r"within (\d+)|FSDP (\d+) within", row["zero_stage_or_fsdp"])
    size = int(found[1] or found[2]) if found else group
    return group // size if size < group and group % size == 0 else 1


def document(row: Row, recompute: str | None = None, dispatcher: str = "all-to-all") -> Document:
    """The plan document of a row, with what it may leave open.

    Raises:
        LeftOut: a column that a plan needs is not published.
    """
    code = implementation(row)
    tensor, pipeline, context = (whole(row, key, 1) for key in ("tp", "pp", "cp"))
    inner = tensor * pipeline * context
    devices = whole(row, "num_gpus")
    if row["dp"]:
        devices = inner * whole(row, "dp")
    data = devices // inner
    modern = code == "megatron"
    flash = row["flash_attention"] == "true" or (
        row["flash_attention"] != "false" and not code.startswith("megatron-")
    )
    training: Document = {
        "sequence_length": whole(row, "seq_len"),
        "micro_batch": whole(row, "micro_batch"),
        "global_batch": whole(row, "global_batch"),
        "implementation": code,
        "precision": precision(row),
        "recompute": recompute or (row["recompute"] or "none").split()[0],
        "attention": "flash" if flash else "eager",
        "dropout": "0" if flash else "0.1",
    }
    if modern:
        training["loss"] = "fused"
    if "Composer" in row["framework"]:
        # Its decoupled optimizers loop over tensors, an operation at a time.
        training["optimizer_kernel"] = "loop"
    if code == "pytorch" and row["zero_stage_or_fsdp"].startswith("ZeRO"):
        # Rajbhandari et al. 2020: 2 + 2 bytes and a master copy in the optimizer.
        training["bytes"] = {"weight": 2, "gradient": 2, "master": 4, "reduce": 2, "compute": 2}
    if "mixed-precision mode" in row["notes"]:
        # Composer's modes both reduced gradients in 16 bit (DEFAULT until October 2023, #2628).
        training["bytes"] = {"reduce": 2}
    if "(causal-halved attention)" in row["flops_convention_notes"]:
        training["attention_count"] = "causal"
    layout: Document = {
        "tensor": tensor,
        "sequence": tensor > 1 and (row["sp"] == "true" or (modern and not row["sp"])),
        "pipeline": pipeline,
        "virtual_pipeline": whole(row, "virtual_pp", 1),
        "context": context,
        "expert": whole(row, "ep", 1),
        "dispatcher": dispatcher,
        "zero": zero(row),
        "tensor_overlap": any(piece in row["framework"] for piece in OVERLAPPING),
    }
    many = replicas(row, data)
    if many > 1:
        layout["replicate"] = many
    layout |= cut(whole(row, "layers"), pipeline, layout["virtual_pipeline"])
    found = {
        "model": model(row),
        "cluster": cluster(row, devices),
        "training": training,
        "parallelism": layout,
    }
    if "JAX" in row["framework"]:
        # XLA fuses elementwise kernels and launches a whole step at once.
        found["time"] = {"efficiency": {"launches": 0, "elementwise": 1}}
    return found


def cut(layers: int, pipeline: int, virtual: int) -> Document:
    """Layers that do not divide over the stages: embedding and head take the place of one each."""
    chunks = pipeline * virtual
    if chunks == 1 or layers % chunks == 0:
        return {}
    if virtual == 1:
        return {"cut": "ends"}
    ends = [(layers + 2) * i // chunks for i in range(chunks + 1)]
    sizes = [b - a for a, b in pairwise(ends)]
    return {"stages": [sizes[0] - 1, *sizes[1:-1], sizes[-1] - 1]}


def model(row: Row) -> Document:
    """The model document of a row, with what the notes say of windows."""
    full = {**row, "vocab": row["vocab"] or str(VOCABULARY)}
    found = runs_memory.model(full, whole(row, "heads"))
    window = re.search(r"alternating full and (\d+)-token sliding", row["moe_notes"])
    if window:
        found["attention"].update(window=int(window[1]), global_every=2)
    return found


def left_open(row: Row) -> list[tuple[str | None, str]]:
    """Recompute modes and dispatchers that a row with experts leaves open: they decide its time."""
    if not row["num_experts"]:
        return []
    modes = (None,) if row["recompute"] else ("none", "full")
    known = "all-to-all dispatcher" in row["notes"]
    return list(product(modes, ("all-to-all",) if known else ("all-to-all", "deepep")))


def convention(row: Row, values: Mapping[str, Any]) -> Fraction | float:
    """FLOPs of one token as the row's source counts them, where its own count is not ours."""
    notes = row["flops_convention_notes"]
    stated = re.search(r"MFU = (?:about )?([\d.]+e\+?\d+) model FLOPs per (\d+)-token", notes)
    if stated:
        return float(stated[1]) / int(stated[2])
    if "8*N*tokens" in notes:
        # N is 12 L h^2: the rows that state TFLOP/s beside seconds leave the embedding out.
        return 8 * 12 * whole(row, "layers") * whole(row, "hidden") ** 2
    if re.search(r"96\*B|Megatron formula|recompute forward counted", notes):
        again = row["recompute"] == "full"
        return values["megatron"] if again else values["token"]  # type: ignore[no-any-return]
    if row["measured_quantity"] == "hfu_pct":
        return values["executed"]  # type: ignore[no-any-return]
    return values["token"]  # type: ignore[no-any-return]


def peak(row: Row) -> float | None:
    """The peak that the source divides by, in FLOP/s."""
    found = re.search(r"peak (?:about )?(\d+)e12", row["flops_convention_notes"])
    return float(found[1]) * 1e12 if found else None
