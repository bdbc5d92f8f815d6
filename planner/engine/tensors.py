"""From the lines of an implementation profile to entries of the axis ``tensor``.

A profile says how wide a tensor is, how many rows it has and how it is split by name. This is the
dictionary of those names; every entry gets the same one formula, ``memory.tensor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.base import resources
from planner.book import notation
from planner.book.expressions import make_number, maximum
from planner.book.formula_text import parse_formula, resolve_name
from planner.book.quantity import agrees
from planner.engine.evaluate import Entry
from planner.plans import kernels
from planner.plans.document import Block
from planner.plans.hardware import is_narrow
from planner.plans.model import WIDE

ONE = make_number(1)
#: Elements of a row, how many rows there are on one device before the split, and how many of the
#: longest micro-batch, by name.
WIDTHS, ROWS, OF_LONGEST = (
    {name: parse_formula(str(text), resolve_name).tree for name, text in table.items()}
    for table in resources.load_beside(__file__).values()
)
#: Of a projection that has an adapter, by its inputs and outputs; an identity is one of its inputs.
SIDES: Mapping[str, Callable[[Any, Any], Any]] = {
    "projection input": lambda n_in, n_out: n_in,
    "projection output": lambda n_in, n_out: n_out,
    "projection": lambda n_in, n_out: n_in * n_out,
    "identity": lambda n_in, n_out: n_in * n_in,
}
WIDTHS |= {name: side(notation.n_in, notation.n_out) for name, side in SIDES.items()}
#: Widths of tensors that have a row for each key.
OF_KEYS = (
    "key", "value", "keys of all heads", "values of all heads", "key and value", "kv heads",
)  # fmt: skip
#: How many devices share a tensor, beyond context parallelism, which divides the tokens.
RANKS = {"none": ONE, "tensor": notation.t, "sequence": notation.t, "expert tensor": notation.t_e}


def list_tensors(
    entry: Entry,
    block: Block,
    second: bool,
    profile: kernels.Profile,
    chosen: Mapping[str, Any],
) -> Iterator[Entry]:
    """Yield the saved tensors of one block, with their size and the ranks that share them.

    Each line of the profile applies under conditions: values of the block, its name, choices of the
    run, ``second``, and facts of the profile.

    Args:
        entry: of the block.
        block: its kind and values.
        second: whether it reads the same input as the block before it.
        profile: of the implementation, as ``kernels.load_profile`` reads it.
        chosen: as ``list_choices`` returns them.
    """
    facts = {
        **profile["facts"],
        **chosen,
        **_derive_facts(block.values, chosen),
        "name": block.name,
        "second": second,
        **block.values,
    }
    # A product keeps its input in its format, but for products that stay in 16 bit.
    cast = is_narrow(chosen["precision"]) and not block.values.get(WIDE)
    cast = cast and (block.kind != "norm" or block.values["cast"])
    # Words for the bytes of an element.
    sizes = {
        "activation": notation.k_a,
        "input": notation.k_x if cast else notation.k_a,
        "stream": 4 if chosen["wide_stream"] else notation.k_a,
        "logit": notation.k_z,
        "matrix": notation.k_c if chosen["sharded"] else notation.k_w,
    }
    # Projections of a prepared base give what they take, but attention casts it for its kernel.
    given = "stream" if chosen["prepared"] and block.kind in ("mlp", "moe") else "activation"
    kinds, all_rows = [block.kind], ROWS | OF_LONGEST if chosen["padded"] else ROWS
    if block.kind == "attention" and facts["context"]:
        kinds.append(f"attention by {chosen['exchange']}")
    if block.values.get("layer_scale") or block.values.get("scaled"):
        kinds.append("layer scale")
    # Of attention to a context the keys and values are kept where they are made, of its tokens.
    crosses, keys = block.values.get("crosses"), block.kind == "stream"
    kinds = ["attention"] if crosses and keys else kinds
    lines = [line for kind in kinds for line in profile["blocks"].get(kind, ())]
    lines = [line for line in lines if not crosses or (line["width"] in OF_KEYS) == keys]
    adapted = [one for one in chosen["adapted"] if one.parent is entry]
    for component in adapted:
        rows = "routed" if component.settings["split"] == "experts" else "tokens"
        split = "tensor" if component.settings["split"] == "row" else "none"
        own = {"beside": component, "rows": rows, "split": split}
        lines += [{**own, **line} for line in profile["blocks"]["adapter"]]
    lines += profile["blocks"]["adapters in turn"] if adapted else []
    for line in lines:
        beside = line.get("beside")
        facts["projection"] = beside and beside.name
        if not all(agrees(facts.get(key), wanted) for key, wanted in line.get("when", {}).items()):
            continue
        size = line.get("bytes", "activation" if beside else given)
        width, split = WIDTHS[line["width"]], line.get("split", "none")
        if line["width"] in SIDES:
            width, split = _measure_projection(line["width"], [beside] if beside else adapted)
        if split == "sequence" and not chosen["sequence"]:
            split = "none"
        # Of a module that is computed again; its first input stays.
        again = {line.get("module"), block.kind} & set(chosen["modules"])
        yield _make_tensor(
            f"{line['tensor']} of {beside.name}" if beside else line["tensor"],
            entry,
            line.get("moment", "kept"),
            "selective" if again else "no",
            all_rows[line.get("rows", "tokens")],
            line["times"] * width if line.get("times", 1) > 1 else width,
            sizes.get(size, size),
            RANKS[split],
        )


def _measure_projection(side: str, components: Sequence[Entry]) -> tuple[Any, str]:
    """Return how wide a side of a projection is, of the widest of some, and how it is split.

    Args:
        side: one of ``SIDES``.
        components: projections that have an adapter.
    """
    of = [one.bindings for one in components]
    sizes = [SIDES[side](each[notation.n_in], each[notation.n_out]) for each in of]
    divided = {"row": ("projection input", "projection"), "none": (), "experts": ()}
    split = components[-1].settings["split"]
    shared = side in divided.get(split, ("projection output", "projection"))
    return (sizes[0] if len(sizes) == 1 else maximum(*sizes)), "tensor" if shared else "none"


@lru_cache(maxsize=4096)
def _make_tensor(name: str, block: Entry, moment: str, recomputed: str, *size: Any) -> Entry:
    """Make the entry of a tensor: one per tensor and format, so that plans which keep it the same
    share its nodes."""
    symbols = (notation.rows_j, notation.width_j, notation.bytes_j, notation.ranks_j)
    bindings = dict(zip(symbols, size, strict=True))
    settings = {"moment": moment, "recomputed": recomputed}
    return Entry("tensor", name, name, block, bindings, settings)


def list_choices(settings: Mapping[str, Any], components: Iterable[Entry]) -> dict[str, Any]:
    """Return the choices of the run that decide which tensors are saved, by short names, and the
    ``components`` that have an adapter."""
    targets, lora = set(settings["targets"]), settings["lora"]
    casts = settings["copies"] and settings["parallelism.zero"] < 3
    # A frozen projection keeps no input; its adapter keeps that, or what dropout or a cast made.
    kept = "dropped" if lora and settings["training.lora.dropout"] else "cast" if casts else "plain"
    return {
        "attention": settings["training.attention"],
        "dropout": settings["training.dropout"] > 0,
        "loss": settings["training.loss"],
        "distilled": settings["teacher"],
        "shifted": settings["training.shifted_logits"],
        "casts_logits": settings["casts_logits"],
        "recompute": settings["training.recompute"],
        "precision": settings["training.precision"],
        "sequence": settings["parallelism.sequence"],
        "tensor": settings["parallelism.tensor"] > 1,
        "context": settings["parallelism.context"] > 1,
        "exchange": settings["parallelism.context_exchange"],
        "sharded": settings["parallelism.zero"] == 3,
        "padded": settings["padded"],
        "modules": settings["modules"],
        "pipeline": settings["parallelism.pipeline"] > 1,
        "prepared": lora and settings["training.lora.prepared"],
        "wide_stream": settings["wide_stream"]
        in (("prepared",) if settings["parallelism.zero"] == 3 else ("prepared", "autocast")),
        "adapted": [c for c in components if c.settings["adapted"]],
        "held": lora and settings["training.reentrant"] and settings["parallelism.zero"] == 3,
        "adapters": kept if lora else "none",
        "dora": lora and bool(settings["training.lora.dora"]),
        "casts_base": casts or settings["quantised"],
        "fused_norm": "norm" in settings["fused"],
        "fused_gate": "gate" in settings["fused"],
        "trains_norms": not lora or "norm" in settings["trained"],
        "keeps_input": not lora or bool(targets & {"query", "key", "value"}),
        "keeps_output": not lora or "output" in targets,
        "keeps_mlp_input": not lora or bool(targets & {"gate", "up"}),
        "keeps_mlp_output": not lora or "down" in targets,
        "keeps_head_input": not lora or "head" in targets or "head" in settings["trained"],
        "several": settings["training.micro_batch"] > 1,
        # Under autocast the residual stream is fp32 and each matmul casts its input by itself;
        # beside adapters it has the format of the frozen embedding.
        "autocast": casts and not lora,
        "positions": settings["model.positions"],
    }


def _derive_facts(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Derive facts from a block's values and the choices of the run."""
    narrow, learned = chosen["precision"] != "fp32", chosen["positions"] == "learned"
    fused = values.get("fused", False)
    return {
        "grouped": values.get("kv_heads") != values.get("heads"),
        "latent": values.get("kv_rank") is not None,
        "latent_query": values.get("query_rank") is not None,
        "compressed": values.get("compress") is not None,
        # Of blocks of keys, which MiniMax-M3 picks, there are too few to count.
        "picks": bool(values.get("index_heads")) and values.get("index_top_k") is not None,
        "grouped_output": values.get("output_groups") is not None,
        "shared": bool(values.get("shared_intermediate")),
        # Rotary embeddings make new queries and keys; the values stay a view of the fused output,
        # but for an eager product over several sequences, which needs them side by side.
        "own_value": not fused or learned or (chosen["several"] and chosen["attention"] == "eager"),
        # GPT-2's attention takes the softmax in the compute format, later models in fp32.
        "wide_softmax": narrow and not (fused and learned),
        "wide": chosen["autocast"] or values.get("offset"),
    }
