"""Plans that are valid by construction, so that most of them evaluate: degrees divide what they
divide, choices agree with each other, every other key is drawn from what its schema says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from fractions import Fraction
from functools import cache
from itertools import chain
from random import Random
from typing import Any

from fuzz import seeds
from fuzz.tree import block, from_data

Document = dict[str, Any]
#: Units of the schemas as documents write them, where these differ.
UNITS = {"bytes": "B", "bytes/s": "B/s", "kgCO2e/kWh": "kg/kWh", "1": ""}
COUNTED = ("tokens", "parameters", "sequences")
#: What a plan's number may be times its example.
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), 1, Fraction(11, 10), 2, 5)
#: Of an attention what no tower has, as the program says: latents and an index.
BESIDE_NONE = ("kv_rank", "index_heads", "index_pool")
_AMOUNT = re.compile(r"([0-9.]+) ?(.*)")


@cache
def numeric() -> dict[str, Any]:
    """What the schema says of each number of a plan, by dotted key."""
    found = {}
    for path, said in seeds.keys("plan"):
        if path[:2] == ("training", "schedule") or "calibration" in path:
            continue  # a table of one's own, and what a program writes
        if path[1:2] in (("vision",), ("audio",)) and path[-1] in BESIDE_NONE:
            continue
        kinds = said.get("type", ()) if isinstance(said, dict) else ()
        if {"number", "integer"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
            key = ".".join(path)
            found[key] = {**found.get(key, {}), **said}
    return found


@cache
def choices(section: str) -> dict[str, tuple[Any, ...]]:
    """The keys of a section that take one of several words, and these."""
    return {
        path[1]: tuple(said["enum"])
        for path, said in seeds.keys("plan")
        if len(path) == 2 and path[0] == section and "enum" in said
    }


def written(value: Any, said: Any) -> Any:
    """A number in the unit of its key, as a document writes it."""
    unit = said.get("unit", "1")
    unit = UNITS.get(unit, "" if unit in COUNTED else unit)
    if "string" not in said.get("type", ()):
        return int(value) if Fraction(value).denominator == 1 else float(value)
    whole = Fraction(value).denominator == 1
    if whole and not unit:
        return int(value)
    text = str(int(value)) if whole else repr(float(value))
    return f"{text} {unit}".strip()


def bounds(said: Any) -> tuple[Fraction, Fraction]:
    """The smallest and the largest number that a key takes; of any, 1e-30 and 1e30."""
    low, high = Fraction(said.get("minimum", 0)), Fraction(said.get("maximum", 10**30))
    if "exclusiveMinimum" in said:
        low = max(Fraction(said["exclusiveMinimum"]), Fraction(1, 10**30))
    if "exclusiveMaximum" in said:
        high = Fraction(said["exclusiveMaximum"]) * Fraction(999, 1000)
    return low, high


def typical(random: Random, said: Any) -> Any:
    """A number near the example of a key."""
    example = random.choice(said.get("examples") or [said.get("default", said.get("minimum", 1))])
    amount, unit = _AMOUNT.fullmatch(str(example)).groups()
    value = Fraction(amount) * random.choice(FACTORS)
    low, high = bounds(said)
    if said.get("type") == "integer" or "integer" in said.get("type", ()):
        value = Fraction(round(value))
    value = min(max(value, low), high * (100 if unit == "%" else 1))
    if unit == "%":
        return f"{float(value):g}%"
    if unit:
        return f"{int(value) if value.denominator == 1 else float(value)} {unit}"
    return int(value) if value.denominator == 1 else float(value)


# Models ------------------------------------------------------------------------------------


@cache
def shipped() -> dict[str, dict[str, Any]]:
    """Heads, layers and experts of each model that ships."""
    import planner

    found = {}
    for name in _names("models"):
        base = {"model": name, "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1}}
        training = {"tokens": 1, "sequence_length": 64, "global_batch": 1}
        plan = planner.load({**base, "training": training}).plan
        model = plan.document.data["model"]
        heads = (model.get("attention") or {}).get("heads") or 64
        found[name] = {
            "heads": heads,
            "layers": len(plan.model.sequence) if plan.model else 1,
            "experts": (model.get("moe") or {}).get("experts") or 0,
            "longest": model.get("max_sequence") or 4096,
        }
    return found


@cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in (seeds.ROOT / "presets" / folder).glob("*.yaml")))


def _model(random: Random) -> tuple[Any, dict[str, int]]:
    """A model of a plan, and what a layout must divide of it."""
    if random.random() < 0.55:
        name = random.choice(_names("models"))
        about = dict(shipped()[name])
        if random.random() < 0.2 and not about["experts"]:
            return {"extends": name}, about
        return name, about
    if random.random() < 0.05:
        return {"parameters": random.choice((1, 10**9, "70B", 10**15))}, {
            "heads": 64, "layers": 1, "experts": 0, "longest": 4096
        }  # fmt: skip
    heads = random.choice((1, 2, 8, 12, 16, 32, 64))
    kv = random.choice([d for d in (1, 2, 4, 8, 12, 16, 32, 64) if heads % d == 0])
    layers, longest = random.choice((1, 2, 3, 8, 24, 61)), random.choice((512, 4096, 131_072))
    model: Document = {
        "layers": layers, "hidden": heads * random.choice((1, 8, 64, 80, 128)),
        "vocab": random.choice((1, 257, 32_000, 50_257, 128_256)), "max_sequence": longest,
        "attention": {"heads": heads, "kv_heads": kv},
        "mlp": {"gated": random.random() < 0.6},
        "norm": random.choice(("rmsnorm", "layernorm")),
        "positions": random.choice(("rope", "learned", "alibi", "none")),
        "bias": random.random() < 0.3, "tied_embeddings": random.random() < 0.4,
    }  # fmt: skip
    if random.random() < 0.3:
        model["attention"]["window"] = random.choice((1, 128, 1000, 4096))
    if random.random() < 0.3:
        model["attention"]["head_dim"] = random.choice((1, 64, 96, 128, 256))
    if random.random() < 0.5:
        model["mlp"]["intermediate"] = random.choice((1, 1000, 1376, 4096, 14_336))
    experts = random.choice((0, 0, 4, 8, 64, 256))
    if experts:
        model["moe"] = {
            "experts": experts, "top_k": random.choice((1, 2, 4)),
            "intermediate": random.choice((1, 256, 1408, 2048)),
            "shared_experts": random.choice((0, 1)),
        }  # fmt: skip
        if layers > 2 and random.random() < 0.3:
            model["moe"]["first_dense_layers"] = 1
    return model, {"heads": heads, "layers": layers, "experts": experts, "longest": longest}


# Layouts and runs --------------------------------------------------------------------------


def _divisor(random: Random, number: int, most: int = 8) -> int:
    return random.choice([d for d in (1, 1, 1, 2, 3, 4, 8) if d <= most and number % d == 0])


def _run(random: Random, about: dict[str, int]) -> tuple[Document, Document, int]:
    """Training, layout and devices that agree with each other."""
    serves = random.random() < 0.12
    tensor, context = _divisor(random, about["heads"]), random.choice((1, 1, 1, 1, 2, 4))
    pipeline = random.choice([p for p in (1, 1, 1, 2, 4, 8) if p <= about["layers"]])
    expert = _divisor(random, about["experts"]) if about["experts"] else 1
    data = expert * random.choice((1, 1, 2, 4, 8))
    micro, rounds = random.choice((1, 1, 2, 3, 4, 16)), random.choice((1, 2, 4))
    layout: Document = {"tensor": tensor, "pipeline": pipeline, "context": context}
    if expert > 1:
        layout["expert"] = expert
        layout["expert_tensor"] = random.choice((1, tensor))
    if tensor > 1 and random.random() < 0.6:
        layout["sequence"] = True
    layout["zero"] = random.choice((0, 0, 1, 1, 1, 2, 3) if not serves else (0,))
    training: Document = {"tokens": random.choice((1, "1B", "300B", "15T"))}
    for name, ratio in (("1f1b", 0.2), ("gpipe", 0.2), ("zero-bubble", 0.2), ("dualpipe", 0.2)):
        if pipeline > 1 and not serves and random.random() < ratio:
            training["schedule"] = name
            break
    else:
        chunks = pipeline * 2
        if pipeline > 1 and about["layers"] % chunks == 0 and random.random() < 0.5:
            layout["virtual_pipeline"], training["schedule"] = 2, "interleaved"
    if pipeline > 1:
        rounds *= 2 * pipeline
    step = 2 * context * tensor
    length = random.choice((64, 500, 1024, 2048, 4096, 4096, 8192, 32_768))
    length = max(step, min(length, about["longest"]) // step * step)
    batch = data * micro * rounds
    training |= {"sequence_length": length, "micro_batch": micro, "global_batch": batch}
    if layout["zero"] == 3 and random.random() < 0.2:
        layout["reshard"] = False
    if data % 2 == 0 and expert == 1 and layout["zero"] and random.random() < 0.2:
        layout["replicate"] = 2
    if serves:
        training |= {"mode": "inference", "output_tokens": random.choice((0, 1, 100, 2048))}
    for key, words in choices("training").items():
        if key not in ("mode", "schedule") and random.random() < 0.35:
            training[key] = random.choice(words)
    if not serves and random.random() < 0.15:
        names = ("query", "key", "value", "output", "gate", "up", "down")
        training["lora"] = {
            "rank": random.choice((1, 16, 64)), "base": random.choice(("bf16", "int8", "nf4")),
            "targets": random.sample(names, random.choice((1, 2, 4))),
        }  # fmt: skip
    if random.random() < 0.1:
        share = random.choice((0, 0.5, 1))
        training["offload"] = {"activations": share, "optimizer": random.random() < 0.5}
    if about["experts"] and random.random() < 0.4:
        training["expert_imbalance"] = random.choice((1, 1.2, 3))
    if random.random() < 0.2:
        training["dropout"] = 0.1
    return training, layout, tensor * context * pipeline * data


def plan(random: Random) -> Document:
    """A plan: a model that ships or a shape, on any hardware, run in any way."""
    model, about = _model(random)
    training, layout, devices = _run(random, about)
    cluster: Document = {
        "accelerator": random.choice((*_names("accelerators"), *["h100-sxm-80gb"] * 20)),
        "devices": devices, "devices_per_node": random.choice((8, 8, 8, 4, 1, 72)),
        "network": {"bandwidth": "400 Gb/s"},
    }  # fmt: skip
    document = {
        "name": "a plan", "model": model, "cluster": cluster, "training": training,
        "parallelism": layout,
    }  # fmt: skip
    if random.random() < 0.7:
        cluster |= {
            "storage": {"bandwidth": "50 GB/s", "blocking": 0.1},
            "failures": {"count": 419, "devices": 16384, "period": "54 days"},
            "price": "2.5 USD/h", "carbon_intensity": "0.4 kg/kWh", "host_power": "575 W",
        }  # fmt: skip
        document["time"] = {"restart": "15 min"}
    free = [key for key in numeric() if key.startswith(FREE)]
    for key in random.sample(free, random.choice((0, 1, 2, 4))):
        put(document, key, typical(random, numeric()[key]))
    return document


#: What a plan needs for a key, by how the key begins. Keys of a model are put into SHAPE.
SHAPE: Document = {
    "layers": 4, "hidden": 512, "vocab": 32_000, "max_sequence": 131_072,
    "attention": {"heads": 8}, "mlp": {"gated": True},
}  # fmt: skip
LATENT = {"query_rank": 128, "kv_rank": 64, "nope_dim": 48, "rope_dim": 16}
MIXERS: Document = {
    "attention": {"heads": 8},
    "cross_attention": {"heads": 8, "head_dim": 64},
    "mamba": {"version": 2, "heads": 8, "head_dim": 64, "state": 16, "groups": 2},
    "delta_net": {"key_heads": 4, "value_heads": 8, "key_head_dim": 32, "value_head_dim": 64},
    "short_conv": {"kernel": 3},
    "recurrence": {"width": 512, "heads": 4},
    "rwkv": {"width": 512},
    "lightning": {"heads": 8, "head_dim": 64},
}
EXPERTS = {"experts": 8, "top_k": 2, "intermediate": 256}
_ENCODED = {"model.encoder": {"layers": 2}, "model.mixer": ["attention", "cross_attention"]}
#: A tower in front of the decoder.
_TOWER: Document = {
    "layers": 4, "hidden": 128, "tokens": 64, "merge": 4, "attention": {"heads": 4},
    "mlp": {"intermediate": 256}, "stem": [{"inputs": 588}], "projector": [{"inputs": 512}],
}  # fmt: skip
#: A model that reads patches, and one that works on a context beside them.
_PATCHES: Document = {"model.vocab": None, "model.stem": [{"inputs": 16}]}
_BOTH: Document = {**_PATCHES, "model.context": {"tokens": 64}, "model.streams": "double"}
NEEDS: dict[str, Document] = {
    "model.conditioning.": {**_PATCHES, "model.modulation": 6},
    "model.modulation": {**_PATCHES, "model.modulation": 6},
    "model.context.": _BOTH,
    "model.context_modulation": _BOTH,
    "training.context_tokens": _BOTH,
    **{
        key: {f"model.{tower}": _TOWER}
        for tower in ("vision", "audio")
        for key in (f"model.{tower}.", f"training.{tower}.")
    },
    "model.position_offset": {"model.positions": "learned"},
    "model.attention.relative_buckets": {"model.positions": "relative"},
    "model.attention.global_every": {"model.attention.window": 512},
    "model.cross_attention.": {**_ENCODED, "model.cross_attention": MIXERS["cross_attention"]},
    "model.moe.": {"model.moe": EXPERTS},
    "model.altup.": {"model.altup": {"inputs": 4}},
    "model.hyper.": {"model.hyper": {"inputs": 4}},
    "model.laurel.": {"model.laurel": {"rank": 64}},
    "model.per_layer_embedding.": {"model.per_layer_embedding": {"width": 64}},
    "model.encoder.": _ENCODED,
    "model.encoder.attention.relative_buckets": {"model.encoder.positions": "relative"},
    "model.encoder.attention.global_every": {"model.encoder.attention": {"window": 512}},
    "model.encoder.moe.": {"model.encoder.feed_forward": "moe", "model.encoder.moe": EXPERTS},
    "training.decoder_sequence_length": _ENCODED,
    "training.recompute_layers": {"training.recompute": "full"},
    "training.loss_chunks": {"training.loss": "chunked"},
    "training.output_tokens": {"training.mode": "inference"},
    "training.bytes.cache": {"training.mode": "inference"},
    "training.expert_imbalance": {"model.moe": EXPERTS},
    "training.bytes.dispatch": {"model.moe": EXPERTS},
    **{
        f"cluster.accelerator.peaks.{name}.": {
            "training.precision": name,
            f"cluster.accelerator.peaks.{name}": {"value": "1 PFLOP/s", "convention": "dense"},
        }
        for name in ("mxfp4", "nvfp4")  # few accelerators state these
    },
    "cluster.accelerator.matrix_unit.": {
        "cluster.accelerator.matrix_unit": {"width": 128, "programs": 2},
    },
    "training.lora.": {"training.lora": {"rank": 8, "targets": ["query", "value"]}},
    "parallelism.expert": {"model.moe": EXPERTS},
    "cluster.storage.": {"cluster.storage": {"bandwidth": "50 GB/s"}},
    "cluster.failures.": {
        "cluster.failures": {"count": 419, "devices": 16384, "period": "54 days"},
    },
    **{
        f"{model}.{name}.": {f"{model}.mixer": name, f"{model}.{name}": keys}
        for model in ("model", "model.encoder") for name, keys in MIXERS.items()
        if (model, name) != ("model", "cross_attention")
    },
    **{
        f"{model}.{name}.{start}": {f"{model}.{name}": keys}
        for model in ("model", "model.encoder") for name in ("attention", "cross_attention")
        for starts, keys in (
            (("query_rank", "kv_rank", "nope_dim", "rope_dim"), LATENT),
            (("index_",), {**LATENT, "index_heads": 4, "index_head_dim": 32, "index_top_k": 256}),
        ) for start in starts
    },
    **{
        f"{model}.{name}.{start}": {f"{model}.{name}.{key}": value for key, value in keys.items()}
        for model in ("model", "model.encoder", "model.vision", "model.audio")
        for name in ("attention", "cross_attention")
        for start, keys in (
            ("compress", {"query_rank": 64}),
            ("output_groups", {"output_groups": 2, "output_rank": 64}),
        )
    },
    **{
        f"{model}.mamba.{name}": {f"{model}.mamba": {"version": 1, "state": 16, name: value}}
        for model in ("model", "model.encoder")
        for name, value in (("inner", 1024), ("expand", 2), ("dt_rank", 32))
    },
}  # fmt: skip


def having(random: Random, wanted: Sequence[str]) -> Document | None:
    """A plan that has some numbers; None where no such plan was found."""
    import planner

    for attempt in range(24):
        document = plan(random)
        if attempt > 4:
            document["parallelism"] = {}
            document["cluster"]["devices"] = 1
            document["training"] |= {"micro_batch": 1, "global_batch": 4, "schedule": "1f1b"}
        if attempt > 8:
            document["training"] = {
                "tokens": "1B", "sequence_length": 1024, "global_batch": 4, "micro_batch": 1,
            }  # fmt: skip
        for key in wanted:
            bring(document, key, random, bool(attempt % 2))
        try:
            found = planner.load(document).evaluate().inputs
        except planner.PlanError:
            continue
        if all(key in found or key.startswith((*FREE, *UNREAD)) for key in wanted):
            return document
    return None


def bring(document: Document, key: str, random: Random, value: bool) -> None:
    """Put what a plan needs for a key into it, and a ``value`` of it."""
    needs = [NEEDS[start] for start in sorted(NEEDS, key=len) if key.startswith(start)]
    shaped = any(needed.startswith("model.") for needed in (key, *chain(*needs)))
    if shaped and "layers" not in document["model"]:
        document["model"] = deepcopy(SHAPE)
    if key == "model.parameters":
        document["model"] = {"parameters": "70B"}
    name = document["cluster"]["accelerator"]
    if key.startswith("cluster.accelerator.") and isinstance(name, str):
        document["cluster"]["accelerator"] = {"extends": name}
    for needed, what in chain(*(each.items() for each in needs)):
        put(document, needed, deepcopy(what))
    if key.startswith("cluster.accelerator.efficiency."):
        put(document, key.removesuffix("value") + "rows", "none")
    if value:
        put(document, key, typical(random, numeric()[key]))


def text(random: Random) -> bytes:
    """The same, as a document."""
    return block(from_data(plan(random))).encode()


#: Numbers of exports, and a rate that vendors state and no format of training uses.
UNREAD = ("model.norm_epsilon", "cluster.accelerator.peaks.fp6.")
#: Numbers that may be anything their schema allows, whatever the others are.
FREE = (
    "cluster.price", "cluster.reserved_price", "cluster.pue", "cluster.host_power",
    "cluster.carbon_intensity", "cluster.stragglers", "cluster.storage.", "cluster.network.",
    "training.bytes.", "memory.margin", "memory.allocator_share", "memory.bucket", "memory.comm",
    "memory.other", "memory.workspace", "memory.context", "memory.pipeline", "time.",
)  # fmt: skip


def put(document: Document, key: str, value: Any) -> None:
    """Write a value at a dotted key, mappings made on the way."""
    *around, last = key.split(".")
    node = document
    for step in around:
        node = node.setdefault(step, {})
    if isinstance(value, dict) and isinstance(node.get(last), dict):
        node[last] |= value
    else:
        node[last] = value
