"""The controls of the what-if page: which keys of a plan a reader moves, and between which values.

What a control may hold comes from the schema; the steps of a slider are a choice of looks only,
since any allowed number can be typed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from planner.base import resources
from planner.documents import schema, source
from planner.plans import layout
from planner.plans.document import Plan
from planner.plans.plan import about
from planner.report.numbers import Data

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
        ("time.mfu", "Assumed utilisation", PERCENTS, "predicted"),
        ("cluster.price", "Price of a device hour, USD", DIMES, "as listed"),
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
