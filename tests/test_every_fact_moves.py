"""Every key of a model, a cluster and an accelerator moves some number of a small plan, or is
listed with a reason; what is listed and moves a number fails too (tests/test_every_key_moves.py
tries the keys of a run and its layout)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest

import planner
from fuzz import documents, ranges
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.strategies import set_key
from tests.test_every_key_moves import NUMBERS, worth

Document = dict[str, Any]
SCALARS = tuple(name for name, first in BOOK.quantities.items() if not first.per)
ATTENTION, CROSS = "model.attention.", "model.cross_attention."
CHIP = "cluster.accelerator."
#: Keys that move no number, by pattern, with the reason.
STILL: dict[str, str] = {
    "*.name": "a name",
    "*.notes": "for readers",
    "*.sources": "where facts come from",
    f"{CHIP}*.rows": "what a rate rests on, printed beside it",
    f"{CHIP}*.interval": "how certain a rate is, printed beside it",
    f"{CHIP}*.accumulate": "tells rates of one datasheet apart",
    f"{CHIP}calibration.*": "the interval of times after a calibration (test_calibrate.py)",
    f"{CHIP}devices_per_board": "how a vendor counts; rates and memory are of one device",
    f"{CHIP}link.topology": "a torus counts by link.axes, all else by the bandwidth of a device",
    f"{CHIP}peaks.fp6.*": "a rate that vendors state, and no recipe of training uses",
    f"{CHIP}peaks.int8.*": "a rate that vendors state, and no recipe of training uses",
    f"{CHIP}peaks.tf32.*": "a rate that vendors state, and no recipe of training uses",
    f"{CROSS}global_every": "layers attend to the whole of another stack, or to a window of it",
    f"{CROSS}relative_buckets": "a bias by distance is of a stack's attention to itself",
    "model.rope_base": "exported; angles are as many whatever their base",
    "model.norm_epsilon": "exported; added whatever its size",
    "model.moe.activation": "no implementation keeps more of experts for one than for another",
    "model.moe.router_group*": "exported; which experts a token may choose, not how many",
}
#: Keys that move numbers in another test, by pattern, with the test.
ELSEWHERE: dict[str, str] = {
    "*.extends": "tests/documents/test_source.py",
    f"{CHIP}efficiency.alignment_8.value": "tests/book/test_laws_time.py",
    f"{CROSS}nope_dim": "tests/test_every_fact_moves.py",
    f"{CROSS}rope_dim": "tests/test_every_fact_moves.py",
    "model.parameters": "tests/book/test_scaling.py",
    f"{CHIP}matrix_unit.*": "tests/book/test_systolic.py",
    "cluster.slice": "tests/book/test_laws_network.py",
}
SHAPED: Document = {
    "name": "a shape",
    "model": ranges.SHAPE,
    "cluster": {
        "accelerator": {"extends": "h100-sxm-80gb"},
        "devices": 16,
        "devices_per_node": 8,
        "network": {"bandwidth": "400 Gb/s"},
        "storage": {"bandwidth": "50 GB/s"},
        "failures": {"count": 419, "devices": 16384, "period": "54 days"},
        "price": "2 USD/h",
        "carbon_intensity": "0.3 kg/kWh",
        "host_power": "500 W",
        "pue": 1.2,
    },
    "training": {
        "tokens": "1B", "sequence_length": 1024, "global_batch": 64, "micro_batch": 1,
    },
    "parallelism": {"tensor": 1, "zero": 1},
    "time": {"restart": "10 min"},
}  # fmt: skip
#: Layers wide enough that rates of devices, not launches, bound them.
WIDE: Document = {
    **SHAPED,
    "model": {"extends": "llama2-7b", "layers": 4},
    "training": {**SHAPED["training"], "sequence_length": 4096},
}
PATCHES: Document = {"model.vocab": None, "model.stem": [{"inputs": 16}]}
NODES: Document = {"cluster.devices": 64, "parallelism.tensor": 8}
SPLIT: Document = {"pod": 16, "oversubscription": 2, "bandwidth": "400 Gb/s"}
KINDS: Document = {"a": {"mlp": {"intermediate": 64}}, "b": None}
EXPERTS: Document = {
    "model": {"extends": "mixtral-8x7b", "layers": 4},
    "parallelism.expert": 8,
}
OFFSET: Document = {"training.implementation": "transformers", "training.precision": "bf16-pure"}
RATE: Document = {"value": 0.5, "rows": "none"}
PEAK: Document = {"value": "1 PFLOP/s", "convention": "dense"}
#: Rates that an accelerator states.
RATES = sorted({
    path.split(".")[1] for path in schema.list_key_paths("accelerator") if path.count(".") == 2
    and path.startswith("efficiency.")
})  # fmt: skip
#: What a key needs, or all keys that begin so, besides what fuzz/ranges.py gives them.
NEEDS: dict[str, Document] = {
    f"{ATTENTION}gate_bias": {f"{ATTENTION}output_gate": "full"},
    f"{ATTENTION}latent_": {ATTENTION[:-1]: ranges.LATENT},
    f"{ATTENTION}output_rank": {f"{ATTENTION}output_groups": 2, f"{ATTENTION}output_rank": 64},
    **{f"{ATTENTION}{name}": {f"{ATTENTION}qk_norm": "head"}
       for name in ("qk_norm_bias", "query_norm_weight", "value_norm")},
    f"{ATTENTION}relative_": {"model.positions": "relative", f"{ATTENTION}relative_buckets": 32},
    f"{CROSS}gate_bias": {f"{CROSS}output_gate": "full"},
    f"{CROSS}latent_": {CROSS[:-1]: ranges.LATENT},
    f"{CROSS}output_rank": {f"{CROSS}output_groups": 2, f"{CROSS}output_rank": 64},
    **{f"{CROSS}{name}": {f"{CROSS}qk_norm": "head"}
       for name in ("qk_norm_bias", "query_norm_weight", "value_norm")},
    f"{CROSS}relative_": {
        "model.positions": "relative",
        f"{CROSS}relative_buckets": 32,
        f"{ATTENTION}relative_buckets": 32,
    },
    f"{CROSS}global_every": {f"{CROSS}window": 64},
    "model.encoder.norm_offset": OFFSET,
    "model.norm_offset": OFFSET,
    "model.audio.kinds": {"model.audio.pattern": ["a", "b"]},
    "model.audio.pattern": {"model.audio.kinds": KINDS},
    "model.causal": {"training.sequence_length": 8192},
    "model.classifier.": {"model.classifier.labels": 2, "model.classifier.dense": True},
    "model.conditioning.each_layer": {"model.conditioning": {"rows": 4, "width": 512}},
    "model.context.attention_norm": {
        "model.streams": "none", "model.mixer": ["attention", "cross_attention"],
        "model.cross_attention": {"heads": 8},
    },
    "model.embedding_projection": {"model.embedding_dim": 128, "model.positions": "learned"},
    "model.encoder.cross_attention": {"model.encoder.mixer": ["attention", "cross_attention"]},
    **{f"model.encoder.{name}": {
        "model.encoder.mixer": name, f"model.encoder.{name}": ranges.MIXERS[name],
       } for name in ("delta_net", "lightning", "mamba", "recurrence", "short_conv")},
    "model.encoder.shared_norm": {"model.encoder.parallel": True},
    "model.kinds": {"model.delta_net": ranges.MIXERS["delta_net"]},
    "model.max_sequence": {"model.positions": "learned"},
    "model.moe.offset": {
        "model.moe.every": 2, "model.layers": 5, "model.mlp": {"intermediate": 4096},
    },
    "model.moe.router_group": {"model.moe.router_groups": 4, "model.moe.router_group_top_k": 2},
    "model.moe.shared_": {"model.moe.shared_experts": 1},
    "model.output": PATCHES,
    "model.pattern": {"model.kinds": KINDS},
    "model.shared_norm": {"model.parallel": True},
    "model.stem": PATCHES,
    "model.streams": {**PATCHES, "model.context": {"tokens": 64}},
    "model.vision.kinds": {"model.vision.pattern": ["a", "b"]},
    "model.vision.pattern": {"model.vision.kinds": KINDS},
    **{f"model.{name}": {"training.implementation": "pytorch", "model.mlp.gated": False}
       for name in ("mlp.activation", "moe.activation")},
    "cluster.link_domain": {
        "cluster.accelerator": {"extends": "gb200"}, "cluster.devices_per_node": 4,
        "parallelism.tensor": 8,
    },
    "cluster.network.": {**EXPERTS, **NODES, "cluster.network": SPLIT},
    "cluster.provider": {"cluster.price": None},
    f"{CHIP}calibration.": {f"{CHIP}calibration.name": "mine"},
    **{f"{CHIP}efficiency.{name}.": {f"{CHIP}efficiency.{name}": RATE}
       for name in RATES},
    f"{CHIP}efficiency.all_to_all": EXPERTS,
    f"{CHIP}efficiency.grouped": {**EXPERTS, "training.implementation": "megatron"},
    f"{CHIP}efficiency.attention.": {
        f"{CHIP}efficiency.attention": RATE, "training.implementation": "megatron",
    },
    f"{CHIP}efficiency.matmul_4bit": {
        CHIP[:-1]: {"extends": "b200-sxm-192gb"}, "training.precision": "nvfp4",
    },
    f"{CHIP}efficiency.matmul_8bit": {"training.precision": "fp8"},
    f"{CHIP}host_link": {"training.offload.optimizer": True, "training.offload.activations": 1},
    f"{CHIP}link.": NODES,
    f"{CHIP}link.axes": {
        CHIP[:-1]: {"extends": "tpu-v5p"}, "cluster.devices": 64, "cluster.devices_per_node": 4,
        "parallelism.tensor": 4,
    },
    f"{CHIP}link.switch": {"training.implementation": "megatron"},
    f"{CHIP}memory": {f"{CHIP}memory_usable": None},
    f"{CHIP}memory_bandwidth": {},
    f"{CHIP}memory_usable": {f"{CHIP}memory_usable": "70 GB"},
    f"{CHIP}network.": {
        **EXPERTS, **NODES, "cluster.network": "none", f"{CHIP}network": SPLIT,
    },
    **{f"{CHIP}peaks.{name}": {"training.precision": name} for name in ("fp16", "fp32", "fp8")},
    f"{CHIP}peaks.fp4.": {"training.precision": "nvfp4", f"{CHIP}peaks.fp4": PEAK},
    **{f"{CHIP}peaks.{name}.": {
        "training.precision": name, CHIP[:-1]: {"extends": "b200-sxm-192gb"},
       } for name in ("mxfp8", "mxfp4", "nvfp4")},
    **{f"{CHIP}peaks.{name}.": {f"{CHIP}peaks.{name}": PEAK} for name in ("fp6", "int8")},
    f"{CHIP}products": {"training.kernels": "2024-06"},
    f"{CHIP}prices": {"cluster.price": None, "cluster.provider": "lambda"},
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    **{f"model.{tower}.{key}": values for tower in ("audio", "vision") for key, values in (
        ("kinds", (KINDS, {"a": None, "b": None})),
        ("pattern", (["a"], ["b"])),
        ("projector", ([{"outputs": 512, "bias": True}],)),
        ("stem", ([{"inputs": 100}],)),
    )},
    "model.encoder.delta_net": ({"value_heads": 16},),
    "model.encoder.lightning": ({"heads": 4},),
    "model.encoder.mamba": ({"state": 32},),
    "model.encoder.recurrence": ({"width": 1024},),
    "model.encoder.short_conv": ({"kernel": 5},),
    "model.mlp.activation": ("relu", "silu", "gelu"),
    "model.moe.activation": ("relu", "silu", "gelu"),
    "model.pattern": (["a"], ["b"]),
    "cluster.provider": ("lambda", "coreweave"),
    f"{CHIP}products": (
        [{"format": "bf16", "rate": f"{rate} TFLOP/s", "date": date, "software": "one"}
         for rate, date in ((500, "2024-01"), (700, "2025-01"))],
    ),
    f"{CHIP}vendor": ("AMD",),
}  # fmt: skip


@cache
def leaves() -> tuple[str, ...]:
    """Keys of models, clusters and accelerators that hold no others."""
    found = [
        path for path in schema.list_key_paths("plan") if path.startswith(("model.", "cluster."))
    ]
    found = [path for path in found if not path.startswith(CHIP)]
    found += [CHIP + path for path in schema.list_key_paths("accelerator")]
    within = {path.rpartition(".")[0] for path in found}
    return tuple(path for path in found if path not in within)


def listed(key: str, table: dict[str, str]) -> str | None:
    return next((pattern for pattern in table if fnmatchcase(key, pattern)), None)


LAST: list[Evaluation] = []


def evaluation(document: Document) -> Evaluation | None:
    """A plan's evaluation, over the graph of the one before; None where it is no plan."""
    try:
        built = case.build(loading.load(document))
    except planner.PlanError:
        return None
    LAST[:] = [Evaluation(built, like=LAST[0] if LAST else None)]
    return LAST[0]


def base(key: str) -> Document:
    """A plan with what a key needs."""
    found = deepcopy(WIDE if key.startswith("cluster.") else SHAPED)
    for table in (ranges.NEEDS, NEEDS):
        for start in sorted(filter(key.startswith, table), key=len):
            for name, value in table[start].items():
                if value == "none":  # a key that is left out
                    *around, last = name.split(".")
                    reduce(dict.__getitem__, around, found).pop(last)
                else:
                    set_key(found, name, deepcopy(value))
    return found


def values(key: str, document: Document) -> Iterator[Any]:
    """Some values that a key may have."""
    said = ranges.numeric().get(key) or schema.describe("plan", key) or {}
    yield from VALUES.get(key, ())
    yield from said.get("enum", ())
    if "boolean" in str(said.get("type")):
        yield from (True, False)
    if key in ranges.numeric():
        now = loading.load(document).get(key)
        for times in (2, Fraction(1, 2)):
            if isinstance(now, (int, Fraction)) and not isinstance(now, bool):
                whole = "integer" in str(said.get("type"))
                yield ranges.written(now * times // 1 if whole else now * times, said)
        yield from (documents.draw_one(ranges.typical(said), seed) for seed in range(3))
    yield from map(plainly, said.get("examples", ()))
    yield from (1, 2, 4, 8)


def plainly(value: Any) -> Any:
    """An example as a document has it."""
    if isinstance(value, dict):
        return {name: plainly(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plainly(inner) for inner in value]
    return float(value) if isinstance(value, Fraction) else value


def moved(key: str) -> bool | None:
    """Whether a value of a key moves a number; None where no value is taken."""
    document = base(key)
    plain, several = evaluation(document), list[Evaluation]()
    assert plain is not None, loading.load(document)
    for value in values(key, document):
        other = deepcopy(document)
        set_key(other, key, value)
        found = evaluation(other)
        if found is None:
            continue
        several.append(found)
        if any(worth(found, name) != worth(plain, name) for name in NUMBERS):
            return True
    for found in several:
        if any(worth(found, name) != worth(plain, name) for name in SCALARS):
            return True
    return False if several else None


def test_what_is_listed_exists() -> None:
    for pattern in (*STILL, *ELSEWHERE):
        assert any(fnmatchcase(key, pattern) for key in leaves()), pattern
    for start in (*NEEDS, *VALUES):
        assert any(key.startswith(start) for key in leaves()), start
    for file in ELSEWHERE.values():
        assert (Path(__file__).parents[1] / file).is_file(), file


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_every_fact_moves_a_number_or_is_listed(part: int) -> None:
    keys = [key for key in leaves() if not listed(key, STILL) and not listed(key, ELSEWHERE)]
    assert [key for key in keys[part::6] if not moved(key)] == []


@pytest.mark.slow
def test_what_is_listed_is_taken_and_moves_nothing() -> None:
    """One key of each pattern and each section, so that names are not tried a hundred times."""
    first = {(listed(key, STILL), key[:9]): key for key in leaves() if listed(key, STILL)}
    assert {key: moved(key) for key in first.values()} == dict.fromkeys(first.values(), False)


def test_parts_of_a_cross_attention_head_move_numbers_together() -> None:
    """Each alone would contradict the other and the size of a head."""
    plain = base(f"{CROSS}nope_dim")
    set_key(plain, f"{CROSS}head_dim", 96)
    found = []
    for nope, rope in ((80, 16), (64, 32)):
        set_key(plain, CROSS[:-1], {"nope_dim": nope, "rope_dim": rope, "kv_rank": 32})
        evaluated = evaluation(plain)
        assert evaluated is not None
        found.append(evaluated.value("parameters.total"))
    assert found[0] != found[1]
