"""Plan documents for measured rows (runs.csv), made from each row's own columns.

What the columns mean in our words stands here; nothing here knows a row, a model or a source. The
framework's name says whose kernels ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from planner import case, plan
from planner.evaluate import Evaluation
from planner.quantity import BOOK

Row = Mapping[str, str]
Document = dict[str, Any]

#: Whose kernels ran, by a piece of the framework's name; the first that fits.
IMPLEMENTATIONS = (
    ("TransformerEngine", "megatron"),
    ("Megatron-Bridge", "megatron"),
    ("Megatron-DeepSpeed", "megatron-deepspeed"),
    ("Megatron", "megatron-2022"),
    ("nanotron", "nanotron"),
    ("LitGPT", "litgpt"),
    ("torchtitan", "torchtitan"),
    ("PyTorch", "pytorch"),
)
#: The quantity that a reading stands for, by what the column ``metric`` says; the first that fits.
READINGS = (
    ("allocated, first stage", "memory.peak"),
    ("allocated", "memory.total"),
    ("reserved", "memory.reserved"),
    ("process", "memory.process"),
)
GIB = 2**30


class LeftOut(Exception):
    """A row that cannot become a plan, with the reason."""


def implementation(row: Row) -> str:
    for piece, name in IMPLEMENTATIONS:
        if piece in row["framework"]:
            return name
    raise LeftOut(f"whose kernels ran is not known: {row['framework']}")


def _int(row: Row, column: str, default: int | None = None) -> int:
    text = row.get(column, "")
    if not text:
        if default is None:
            raise LeftOut(f"{column} is not published")
        return default
    return int(float(text))


def _true(row: Row, column: str) -> bool:
    return row.get(column, "").lower() == "true"


def open_heads(row: Row) -> list[int]:
    """Head counts that a row allows: the published one, else those with heads of 64 to 256."""
    if row["heads"]:
        return [_int(row, "heads")]
    hidden, tensor = _int(row, "hidden"), _int(row, "tp", 1)
    sizes = [size for size in range(64, 257) if hidden % size == 0]
    return [hidden // size for size in sizes if hidden // size % tensor == 0]


def model(row: Row, heads: int) -> Document:
    """The model document of a row."""
    gated = _true(row, "gated_mlp")
    attention: Document = {"heads": heads, "kv_heads": _int(row, "kv_heads", heads)}
    if row["head_dim"]:
        attention["head_dim"] = _int(row, "head_dim")
    document: Document = {
        "layers": _int(row, "layers"),
        "hidden": _int(row, "hidden"),
        "vocab": _int(row, "vocab"),
        "max_sequence": _int(row, "seq_len"),
        "attention": attention,
        "mlp": {
            "gated": gated,
            "intermediate": _int(row, "ffn_hidden"),
            "activation": "silu" if gated else "gelu",
        },
        "norm": "rmsnorm" if gated else "layernorm",
        "positions": "rope" if gated else "learned",
        "bias": not gated,
        "tied_embeddings": _true(row, "tied"),
    }
    if row["num_experts"]:
        _experts(row, document)
    return document


def _experts(row: Row, document: Document) -> None:
    """Experts, and what the notes say about latent attention, dense layers and shared experts."""
    notes = row["moe_notes"]
    document["moe"] = {
        "experts": _int(row, "num_experts"),
        "top_k": _int(row, "top_k"),
        "intermediate": _int(row, "ffn_hidden"),
    }
    shared = re.search(r"shared expert FFN (\d+)", notes)
    if shared:
        document["moe"].update(shared_experts=1, shared_intermediate=int(shared[1]))
    dense = re.search(r"layers? (\d+)(?:-(\d+))? dense with FFN (\d+)", notes)
    if dense:
        document["moe"]["first_dense_layers"] = int(dense[2] or dense[1]) + 1
        document["mlp"]["intermediate"] = int(dense[3])
    latent = re.search(r"q_lora (\d+), kv_lora (\d+), qk (\d+)\+(\d+), v (\d+)", notes)
    if latent:
        names = ("query_rank", "kv_rank", "nope_dim", "rope_dim", "value_head_dim")
        document["attention"].update(zip(names, map(int, latent.groups()), strict=True))
        document["attention"].pop("head_dim", None)


def zero(row: Row) -> int:
    """The ZeRO stage by the words of the column."""
    text = row["zero_stage_or_fsdp"].lower()
    stage = re.search(r"zero-?(\d)", text)
    if stage:
        return int(stage[1])
    return 3 if "fsdp" in text else 0


#: What a framework takes where a row does not say: sequences of an optimizer step.
GLOBAL_BATCH = {"litgpt": 16}
#: Adapters that a row leaves open: the paper's choice, and every projection.
ADAPTERS: tuple[list[str], ...] = (
    ["query", "value"],
    ["query", "key", "value", "output", "gate", "up", "down", "head"],
)


def documents(row: Row) -> list[Document]:
    """The plan documents of a row: one for each choice that its columns leave open.

    Raises:
        LeftOut: a column that a plan needs is not published.
    """
    tuned = re.match(r"(q?)lora fine-tuning", row["notes"])
    adapters = ADAPTERS if tuned else (None,)
    found = []
    for heads, targets, again in product(open_heads(row), adapters, open_recompute(row)):
        document = _document(row, heads, again)
        if targets and tuned:
            base = "nf4" if tuned[1] else "bf16"
            document["training"]["lora"] = {"rank": 8, "base": base, "targets": targets}
        found.append(document)
    return found


def open_recompute(row: Row) -> list[str]:
    """The recomputation that a row states by the first word of the column, else all that may be."""
    words = row["recompute"].split()
    if words:
        return [words[0]]
    return ["none"] if implementation(row) == "litgpt" else ["none", "full"]


def _document(row: Row, heads: int, recompute: str) -> Document:
    code = implementation(row)
    tensor, micro = _int(row, "tp", 1), _int(row, "micro_batch", 1)
    training: Document = {
        "sequence_length": _int(row, "seq_len"),
        "micro_batch": micro,
        "implementation": code,
        "precision": "bf16-pure" if "bf16-true" in row["notes"] else row["precision"] or "bf16",
        "recompute": recompute,
    }
    if row["grad_accum"]:
        training["gradient_accumulation"] = _int(row, "grad_accum")
    elif row["global_batch"]:
        training["global_batch"] = _int(row, "global_batch")
    elif code in GLOBAL_BATCH:
        training["global_batch"] = GLOBAL_BATCH[code]
    if row["flash_attention"] == "false" or code == "megatron-2022":
        training["attention"] = "eager"
    return {
        "model": model(row, heads),
        "cluster": {
            "accelerator": row["accelerator"] or "a100-sxm-80gb",
            "devices": _int(row, "num_gpus"),
            "devices_per_node": min(8, _int(row, "num_gpus")),
        },
        "training": training,
        "parallelism": {
            "tensor": tensor,
            "sequence": _true(row, "sp") and tensor > 1,
            "pipeline": _int(row, "pp", 1),
            "virtual_pipeline": _int(row, "virtual_pp", 1),
            "context": _int(row, "cp", 1),
            "expert": _int(row, "ep", 1),
            "zero": zero(row),
            "cut": "ends" if "embedding and head count as" in row["notes"] else _cut(code),
        },
    }


def _cut(code: str) -> str:
    return "compute" if code == "nanotron" else "even"


#: Columns ``measured_quantity`` that speak of memory.
QUANTITIES = (
    "peak_mem_gib",
    "model_state_mem_gib",
    "activation_mem_gib",
    "activation_mem_pct_of_tp_baseline",
)


def name(row: Row) -> str:
    """Who published the row."""
    words = re.split(r"[,(]| section| release| config_hub| old_bench| Figure", row["source"])[0]
    return words.strip()


def source(row: Row) -> str:
    """The heading under which a row's error counts: source, quantity read, precision of the run."""
    return f"{name(row)} {row['metric'].split(',')[0].split(' (')[0]} {row['precision']}"


def reading(row: Row) -> str:
    """The quantity that the row measures."""
    if row["measured_quantity"] == "model_state_mem_gib":
        return "memory.states"
    if row["measured_quantity"].startswith("activation"):
        return "memory.activations.layers"
    for piece, quantity in READINGS:
        if row["metric"].startswith(piece):
            return quantity
    raise LeftOut(f"what was read is not known: {row['metric']}")


def read(evaluation: Evaluation, quantity: str, row: Row) -> Fraction:
    """The value in the row's unit: GiB, or per cent of the same run without sequence parallelism
    and recomputation."""
    if row["measured_quantity"].endswith("baseline"):
        plain = {**row, "sp": "false", "recompute": "none"}
        base = Evaluation(case.build(plan.load(documents(plain)[0])))
        return (
            100
            * read(evaluation, quantity, {**row, "measured_quantity": ""})
            / read(base, quantity, {**row, "measured_quantity": ""})
        )
    if BOOK.declarations[quantity][0].per == ("stage",):  # published readings are the first stage's
        first = evaluation.case.axes["stage"][0]
        return Fraction(evaluation.value(quantity, {"stage": first})) / GIB
    return Fraction(evaluation.value(quantity)) / GIB
