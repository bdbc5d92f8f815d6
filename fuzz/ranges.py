"""Numbers of a plan, each drawn from what its schema says, and plans that have them: a random plan
of tests/strategies.py with what the number needs beside it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from copy import deepcopy
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz import documents
from fuzz.tree import block, from_data
from planner.base.resources import read_yaml
from tests.strategies import Document, set_key, whole_plans

#: Units of the schemas as documents write them, where these differ.
UNITS = {"bytes": "B", "bytes/s": "B/s", "kgCO2e/kWh": "kg/kWh", "1": ""}
COUNTED = ("tokens", "parameters", "sequences")
#: What a plan's number may be times its example.
FACTORS = (*map(Fraction, ("1/4", "1/2", "9/10", "1", "11/10", "2", "5")),)
#: Of an attention what no tower has, as the program says: latents and an index.
BESIDE_NONE = ("kv_rank", "index_heads", "index_pool")
_AMOUNT = re.compile(r"([0-9.]+) ?(.*)")


@cache
def numeric() -> dict[str, Any]:
    """What the schema says of each number of a plan, by dotted key."""
    found: dict[str, Any] = {}
    for path, said in documents.keys("plan"):
        if path[:2] == ("training", "schedule") or "calibration" in path:
            continue  # a table of one's own, and what a program writes
        if path[1:2] in (("vision",), ("audio",)) and path[-1] in BESIDE_NONE:
            continue
        kinds = said.get("type", ()) if isinstance(said, dict) else ()
        if {"number", "integer"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
            key = ".".join(path)
            found[key] = {**found.get(key, {}), **said}
    return found


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


@st.composite
def typical(draw: st.DrawFn, said: Any) -> Any:
    """A number near the example of a key."""
    listed = map(str, said.get("examples") or [said.get("default", said.get("minimum", 1))])
    amount, unit = draw(st.sampled_from([*filter(None, map(_AMOUNT.fullmatch, listed))])).groups()
    value = Fraction(amount) * draw(st.sampled_from(FACTORS))
    low, high = bounds(said)
    if "integer" in said.get("type", ()):
        value = Fraction(round(value))
    value = min(max(value, low), high * (100 if unit == "%" else 1))
    if unit == "%":
        return f"{float(value):g}%"
    number = int(value) if value.denominator == 1 else float(value)
    return f"{number} {unit}" if unit else number


_TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
#: Keys of a model are put into it.
SHAPE: Document = _TABLES["shape"]
LATENT: Document = _TABLES["latent"]
MIXERS: Document = _TABLES["mixers"]
EXPERTS: Document = _TABLES["experts"]
#: What a plan needs for a key, by how the key begins.
NEEDS: dict[str, Document] = {
    **_TABLES["needs"],
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


#: Numbers of exports, a rate that no format of training uses, lengths, which have a mean.
UNREAD = ("model.norm_epsilon", "cluster.accelerator.peaks.fp6.", "rl.prompt_", "rl.response_",
          "training.example_tokens", "training.epochs")  # fmt: skip
#: Numbers that may be anything their schema allows, whatever the others are.
FREE = (
    "cluster.price", "cluster.reserved_price", "cluster.pue", "cluster.host_power",
    "cluster.carbon_intensity", "cluster.stragglers", "cluster.storage.", "cluster.network.",
    "training.bytes.", "memory.margin", "memory.allocator_share", "memory.bucket", "memory.comm",
    "memory.other", "memory.workspace", "memory.context", "memory.pipeline", "time.",
)  # fmt: skip


@st.composite
def free_plans(draw: st.DrawFn) -> bytes:
    """A random plan as a document, with some numbers that may be anything."""
    document = draw(whole_plans())
    names = [key for key in numeric() if key.startswith(FREE)]
    for key in draw(st.lists(st.sampled_from(names), max_size=4)):
        bring(draw, document, key, True)
    return block(from_data(document)).encode()


@st.composite
def plans_with(draw: st.DrawFn, wanted: Sequence[str]) -> Document:
    """A random plan with what some numbers need beside them; one in two as plain as can be."""
    document, plain = draw(whole_plans()), draw(st.integers(0, 3))
    if plain < 2:
        hardware = {k: v for k, v in document["cluster"].items() if k != "devices"}
        document |= {"parallelism": {}, "cluster": {**hardware, "devices": 1}}
        document["training"] |= {"micro_batch": 1, "global_batch": 4, "schedule": "1f1b"}
    if plain == 0:
        document["training"] = {
            "tokens": "1B", "sequence_length": 1024, "global_batch": 4, "micro_batch": 1,
        }  # fmt: skip
    value = draw(st.sampled_from((True, False)))
    for key in wanted:
        bring(draw, document, key, value)
    set_key(document, "parallelism.auto", False)  # a search for each point of a grid takes long
    return document


def draw_plan(seed: Hashable, wanted: Sequence[str]) -> Document | None:
    """Draw a plan that has some numbers; None where no such plan was found."""
    import planner

    def has(document: Document) -> bool:
        try:
            found = planner.load(document).evaluate().inputs
        except planner.PlanError:
            return False
        return all(key in found or key.startswith((*FREE, *UNREAD)) for key in wanted)

    return documents.draw_one(plans_with(wanted), seed, has)


def bring(draw: st.DrawFn, document: Document, key: str, value: bool) -> None:
    """Put what a plan needs for a key into it, and a ``value`` of it."""
    needs = [NEEDS[start] for start in sorted(NEEDS, key=len) if key.startswith(start)]
    shaped = any(needed.startswith("model.") for needed in (key, *chain(*needs)))
    if shaped and "layers" not in document["model"]:
        document["model"] = deepcopy(SHAPE)
    if key == "model.parameters":
        document["model"] = {"parameters": "70B"}
    if key.startswith("cluster.accelerator.") and "extends" in document["cluster"]:
        devices = document["cluster"]["devices"]
        document["cluster"] = {"accelerator": "h100-sxm-80gb", "devices": devices}
    for needed, what in chain(*(each.items() for each in needs)):
        set_key(document, needed, deepcopy(what))
    if key.startswith("cluster.accelerator.efficiency."):
        set_key(document, key.removesuffix("value") + "rows", "none")
    if value:
        set_key(document, key, draw(typical(numeric()[key])))
