"""The controls of the what-if page and of the planner's page: which keys of a plan a reader moves,
and between which values.

What a control may hold comes from the schema; the steps of a slider, and the few sizes that stand
beside each other, are a choice of looks only, since any allowed number can be typed beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from planner.base import numbers, resources
from planner.base.display import clean, headline
from planner.documents import json_schema, schema, source
from planner.documents.yaml_nodes import Node
from planner.plans import layout
from planner.plans.document import Plan
from planner.plans.plan import NAMED, about
from planner.report.layout import Data

ACCELERATOR = "cluster.accelerator"
#: The sizes of a slider, or what they are by the value that a plan has.
Sizes = Sequence[Any] | Callable[[Any], Sequence[Any]]


@cache
def accelerators() -> Mapping[str, Mapping[str, Any]]:
    """Every preset as a plan holds it, by the name that ``--set cluster.accelerator=`` takes."""
    folder = resources.folder("presets") / "accelerators"
    return {
        name: schema.validate(
            source.load(folder / f"{name}.yaml", kind="accelerator"), "accelerator"
        ).data
        for name in source.preset_names("accelerator")
    }


def accelerator_of(plan: Plan) -> str | None:
    """The preset that a plan's accelerator is; None where it changes one or spells its own."""
    if any(key.startswith(f"{ACCELERATOR}.") for key, _ in plan.document.overrides):
        return None
    given = plan.document.data["cluster"]["accelerator"]
    return next((name for name, data in accelerators().items() if data == given), None)


def groups(plan: Plan) -> list[tuple[str, list[Data]]]:
    """The controls that mean something for a plan, by the title of their group."""
    accelerator, stated = accelerator_of(plan), plan.document.data["training"]
    found = {title: [_control(plan, *row) for row in rows] for title, rows in GROUPS.items()}
    found["Layout"] = _layout(plan)
    if accelerator is not None:
        devices = _control(plan, ACCELERATOR, "Accelerator")
        devices.value, devices.options = accelerator, tuple(accelerators())
        found["Run"].insert(0, devices)

    def holds(control: Data) -> bool:
        section, _, name = control.key.partition(".")
        if control.key in EITHER and stated.get(name) is None:
            return False
        if section == "model" and plan.get(control.key) is None:
            return False
        return control.value is not None or bool(control.optional)

    return [(title, [*filter(holds, controls)]) for title, controls in found.items()]


def _layout(plan: Plan) -> list[Data]:
    """The keys of the layout: first the numbers, then what is one of few, then switches."""
    model, given = plan.model, plan.document.data["parallelism"]
    layers = len(model.sequence) if model is not None else 1
    blocks = [block for part in (model.parts if model else ()) for block in part.blocks]
    experts = max((b.values["experts"] for b in blocks if b.kind == "moe"), default=1)
    steps: dict[str, Sequence[int]] = {
        layout.MATRICES: _powers(64),
        layout.LAYERS: [*_divisors(layers, 64), *_powers(min(layers, 64))],
        layout.CHUNKS: range(1, 11),
        layout.TOKENS: _powers(64),
        layout.EXPERTS: _divisors(experts, experts),
    }
    found = []
    for row in sorted(layout.ROWS, key=lambda row: (bool(row.values), row.neutral is False)):
        follows = row.place == layout.FOLLOWING and given.get(row.name) is None
        alone = row.divides == layout.EXPERTS and experts == 1
        if row.title and row.key.startswith("parallelism.") and not follows and not alone:
            sizes = None if row.values else steps.get(row.divides, _doubled)
            found.append(_control(plan, row.key, "", sizes))
    return found


def _control(
    plan: Plan, key: str, label: str = "", sizes: Sizes | None = None, optional: str = ""
) -> Data:
    """One key with its label: a choice of ``options``, or of some sizes a number, which has
    ``steps``, the positions of its slider: its own value and sizes that go with it. An ``optional``
    key can be left to its rule; its value is the one that the document gives."""
    said, own = about(key), plan.get(key)
    value = plan.document.get(key) if optional else own
    least, most, unit = said.get("minimum"), said.get("maximum"), said.get("unit", "")
    if callable(sizes):
        sizes = sizes(own) if own is not None else ()
    steps = () if sizes is None else sorted({*sizes, value} - {None})
    return Data(
        id="set-" + key.replace(".", "-"),
        key=key,
        label=label or layout.ROW[key].title,
        value=value,
        options=tuple(said.get("enum") or (True, False)) if sizes is None else (),
        steps=tuple(
            step
            for step in steps
            if (least is None or step >= least) and (most is None or step <= most)
        ),
        unit=unit if "/" in unit else "",
        whole="integer" in said.get("type", ""),
        least=least,
        above=said.get("exclusiveMinimum"),
        most=most,
        # What a document states can be stated otherwise, but no override makes a choice unstated.
        optional=optional if sizes is not None or value is None else "",
    )


def _powers(most: int, least: int = 1) -> list[int]:
    return [2**i for i in range(24) if least <= 2**i <= most]


def _doubled(value: int, times: int = 6) -> list[int]:
    """Halved and doubled so often, as long as it stays whole."""
    halves = [value // 2**i for i in range(1, times + 1) if value % 2**i == 0]
    return [value * 2**i for i in range(times + 1)] + halves


def _ratios(value: int) -> list[int]:
    """From a quarter to four times, where it stays whole."""
    return [value * i // 8 for i in (2, 4, 6, 8, 10, 12, 16, 24, 32) if value * i % 8 == 0]


def _tenths(value: int) -> list[int]:
    """From a tenth to tenfold, twenty steps each, to two digits."""
    return [int(float(f"{float(value) * 10 ** (i / 20):.1e}")) for i in range(-20, 21)]


def _divisors(value: int, most: int) -> list[int]:
    return [i for i in range(1, min(value, most) + 1) if value % i == 0]


#: Of common tokenizers; the plan's own is added.
VOCABULARIES = (32000, 50304, 65536, 100352, 128256, 152064, 200064, 256000)
#: Assumed utilisations, and prices of a device hour.
PERCENTS = [Fraction(i, 100) for i in range(5, 86)]
DIMES = [Fraction(i, 10) for i in range(2, 101)]
#: Keys of which a plan states one, and the other follows.
EITHER = ("training.global_batch", "training.gradient_accumulation")
#: What a reader moves beside the layout, by the title of its group: key, label, of a number the
#: sizes of its slider by the plan's own value, and what is said where it is left to its rule.
GROUPS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "Run": (
        ("cluster.devices", "Devices", _doubled),
        ("training.tokens", "Training tokens", _tenths),
        ("time.mfu", "Assumed utilisation", PERCENTS, "none"),
        ("time.use", "Time and cost as", None, "predicted"),
        ("cluster.price", "Price of a GPU hour, USD", DIMES, "as listed"),
    ),
    "Batch": (
        ("training.micro_batch", "", _powers(64)),
        ("training.global_batch", "Global batch", lambda value: _doubled(value, 5)),
        ("training.gradient_accumulation", "Gradient accumulation", lambda v: _doubled(v, 5)),
        ("training.sequence_length", "Sequence length, tokens", _powers(2**20, 256)),
    ),
    "Layout": (),
    "Choices": (
        ("training.recompute",),
        ("training.precision", "Precision"),
        ("training.optimizer", "Optimizer"),
        ("training.schedule", "", None, "by the layout"),
    ),
    "Model": (
        ("model.layers", "Layers", lambda value: [n for n in _ratios(value) if n > 1]),
        ("model.hidden", "Hidden size", _ratios),
        ("model.attention.heads", "Attention heads", _ratios),
        ("model.attention.kv_heads", "Key and value heads", _ratios, "as many as heads"),
        ("model.mlp.intermediate", "Feed-forward width", _ratios, "by the hidden size"),
        ("model.vocab", "Vocabulary", VOCABULARIES),
    ),
}

# -- the planner's page -----------------------------------------------------------------------

#: What stands first on the planner's page, by the title of its group; all other keys of the schema
#: are behind "More settings".
USUAL: dict[str, tuple[str, ...]] = {
    "Model": ("model", "model.moe.experts", "model.moe.top_k"),
    "Cluster": ("cluster", ACCELERATOR, "cluster.devices", "cluster.price"),
    "Run": (
        "training.tokens", "training.sequence_length", "training.global_batch",
        "training.micro_batch", "training.precision", "training.optimizer", "training.recompute",
    ),
    "Layout": (
        *(row.key for row in layout.ROWS if row.place in (layout.OUTER, layout.INNER)
          and row.title),
        "parallelism.sequence", "parallelism.zero", "training.schedule",
        "parallelism.virtual_pipeline",
    ),
}  # fmt: skip
#: What they are called, where no row of a table and no schema says it in few words.
_SAID = resources.read_yaml(Path(__file__).with_suffix(".yaml"))
LABELS = {
    **{row.key: row.heading.capitalize() for row in layout.ROWS if row.heading},
    **{key: rest[0] for rows in GROUPS.values() for key, *rest in rows
       if rest and rest[0] and key.startswith(("model.", "time."))},
    **_SAID["labels"],
}  # fmt: skip
#: Keys that no single value states, or that say only what others rest on; titles of sections.
LEFT_OUT = re.compile(
    r"training\.schedule\.|cluster\.accelerator\.calibration|(parallelism|questions|require)$"
    r"|.*\.(interval|rows|sources|extends)$|extends$"
)
TITLES: Mapping[str, str] = _SAID["titles"]
CHUNKS = "parallelism.virtual_pipeline"
#: How many sizes stand beside each other, and how long choices are that do.
SIZES, BESIDE, LETTERS = 5, 4, 20


@cache
def settings() -> Mapping[str, Data]:
    """Every key of the schema of plans that holds no mapping, by key: its label, what the schema
    says of it, how it is chosen (``kind``: named, segments, choice, sizes, field)."""
    found = {key: _setting(key) for key in ("model", "cluster", ACCELERATOR)}
    for key in _scalars("", json_schema.read("plan")):
        if key not in found and not LEFT_OUT.match(key):
            found[key] = _setting(key)
    return found


def _scalars(prefix: str, said: Any) -> Iterator[str]:
    """The keys below a schema that hold something else than a mapping."""
    if not isinstance(said, Mapping):
        return
    further = [said[word] for word in ("then", "else") if word in said]
    for part in (*said.get("allOf", ()), *said.get("anyOf", ()), *further):
        yield from _scalars(prefix, part)
    for name, inner in said.get("properties", {}).items():
        key, kinds, items = f"{prefix}{name}", inner.get("type", ()), inner.get("items")
        yield from _scalars(f"{key}.", inner)
        plain = not isinstance(items, Mapping) or items.get("type") != "object"
        if kinds != "object" and ("enum" in inner or kinds) and plain:
            yield key


def _setting(key: str) -> Data:
    said = about(key)
    section = ".".join(key.split(".")[:-1][:2])
    name = key.removeprefix(f"{section}.").replace(".", " ").replace("_", " ")
    options = tuple(said.get("enum") or ((False, True) if said.get("type") == "boolean" else ()))
    options = tuple(option for option in options if option is not None)
    words = [word(option) for option in options]
    few = 0 < len(words) <= BESIDE and sum(map(len, words)) <= LETTERS
    row = layout.ROW.get(key)
    sized = row is not None and row.place in (layout.OUTER, layout.INNER, layout.OF_PIPELINE)
    kind = "segments" if few else "choice" if options else "field"
    if key in NAMED:
        kind, options = "named", tuple(source.preset_names(NAMED[key]))
        words = [*options]
    elif not options and (sized or key == "training.micro_batch"):
        kind = "sizes"
    unit = said.get("unit", "")
    return Data(
        key=key, id="set-" + key.replace(".", "-"), section=section, kind=kind,
        label=LABELS.get(key) or headline(said.get("title") or name),
        help=clean(said.get("description", ""), 300), options=[*zip(options, words, strict=True)],
        unit="" if unit in ("1", "") else unit, share=said.get("maximum") == 1,
    )  # fmt: skip


def word(option: Any) -> str:
    """A choice as it is shown."""
    return "yes" if option is True else "no" if option is False else str(option)


def sections() -> list[tuple[str, list[Data]]]:
    """Every setting that is not among the usual ones, by the title of its section."""
    usual = {key for keys in USUAL.values() for key in keys}
    order = {"training": 0, "parallelism": 1, "memory": 2, "time": 3, "cluster": 4, "model": 5}
    found: dict[str, list[Data]] = {}
    for key, one in settings().items():
        if key not in usual:
            found.setdefault(one.section, []).append(one)
    ranked = sorted(found, key=lambda name: (order.get(name.partition(".")[0], 9), name))
    return [(_title(name), found[name]) for name in ranked]


def _title(section: str) -> str:
    words = TITLES.get(section)
    return words or headline(section.replace("_", " ").replace(".", ", "))


def shown_in(text: Node | None, plan: Plan | None, keys: Sequence[str]) -> dict[str, Data]:
    """What the controls of some keys show: the ``value`` that the text states, as it is written, or
    None; else what it is by rule (``rule``); of sizes those that stand beside each other; whether
    the plan has no use for the key (``idle``)."""
    experts = plan is None or plan.get("model.moe.experts") is not None
    found = {}
    for key in keys:
        one = settings()[key]
        value = _stated(text, key)
        rule = "" if plan is None else _by_rule(plan, one)
        own = plan.get(key) if plan is not None else None
        sizes = _few(plan, one, own) if one.kind == "sizes" and plan is not None else None
        idle = not experts and (key.startswith("model.moe.") or key.startswith("parallelism.exp"))
        found[key] = Data(value=value, rule=rule, sizes=sizes, idle=idle and value is None)
    return found


def _stated(text: Node | None, key: str) -> str | None:
    node = text
    for step in key.split("."):
        if node is None or not isinstance(node.value, dict):
            auto = node is not None and node.value == "auto"
            return "yes" if auto and key == "parallelism.auto" else None
        node = node.value.get(step)
    if node is not None and isinstance(node.value, dict):
        node = node.value.get("extends")
    if node is None or isinstance(node.value, dict):
        return None
    if isinstance(node.value, list):
        return "[" + ", ".join(str(each.plain()) for each in node.value) + "]"
    return word(node.value) if isinstance(node.value, bool) else str(node.text or node.value)


def _by_rule(plan: Plan, one: Data) -> str:
    """The value that a key has where the text does not state it, in words."""
    value = plan.get(one.key)
    if value is None or isinstance(value, Mapping):
        name = value.get("name") if isinstance(value, Mapping) else None
        return clean(name or "", 60)
    if isinstance(value, (list, tuple)):
        return clean(", ".join(map(str, value)), 60)
    if isinstance(value, (bool, str)):
        return clean(word(value), 60)
    return numbers.text(value, one.unit or "1").removesuffix(f" {one.unit}")


def _few(plan: Plan, one: Data, value: Any) -> list[Any]:
    """The sizes of a degree around the one that it has, few enough to stand beside each other."""
    row = next((row for row in _layout(plan) if row.key == one.key), None)
    steps = [*(row.steps if row is not None else _powers(64))]
    if one.key == CHUNKS:  # of which a stage has a whole number of layers
        pipeline = plan.get("parallelism.pipeline") or 1
        layers = len(plan.model.sequence) // pipeline if plan.model is not None else 1
        steps = _divisors(layers, layers)
    steps = sorted({*steps, value} - {None})
    place = steps.index(value) if value in steps else 0
    first = max(0, min(place - 2, len(steps) - SIZES))
    return steps[first : first + SIZES]
