"""The controls of the what-if page: which keys of a plan a reader moves, and between which values.

What a control may hold comes from the schema; the steps of a slider are a choice of looks only,
since any allowed number can be typed beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planner.plans import layout
from planner.plans.document import Plan
from planner.plans.plan import about
from planner.report.what_if import accelerators

__all__ = ["Control", "groups"]


@dataclass(frozen=True)
class Control:
    """One key with its label. ``options`` are those of a choice; a number has ``steps``, the
    positions of its slider. An ``optional`` key can be left to its rule."""

    key: str
    label: str
    value: Any
    options: tuple[Any, ...] = ()
    steps: tuple[Any, ...] = ()
    unit: str = ""
    whole: bool = False
    least: Any = None
    above: Any = None
    most: Any = None
    optional: str = ""

    @property
    def id(self) -> str:
        return "set-" + self.key.replace(".", "-")


def groups(plan: Plan) -> list[tuple[str, list[Control]]]:
    """The controls that mean something for a plan, by the title of their group."""
    given = plan.document.data
    batch = [
        key
        for key in ("global_batch", "gradient_accumulation")
        if given["training"].get(key) is not None
    ]
    accelerator = accelerators.name_of(plan)
    run = [
        *(
            [Control(accelerators.KEY, "Accelerator", accelerator, tuple(accelerators.presets()))]
            if accelerator is not None
            else []
        ),
        _number(plan, "cluster.devices", "Devices", _doubled(plan.get("cluster.devices"), 6)),
        _number(plan, "training.tokens", "Training tokens", _tenths(plan.get("training.tokens"))),
        _number(
            plan,
            "time.mfu",
            "Assumed utilisation",
            [Fraction(i, 100) for i in range(5, 86)],
            optional="predicted",
        ),
        _number(
            plan,
            "cluster.price",
            "Price of a device hour, USD",
            [Fraction(i, 10) for i in range(2, 101)],
            optional="unknown",
        ),
    ]
    batches = [
        _number(plan, "training.micro_batch", "", _powers(64)),
        *(
            _number(
                plan,
                f"training.{key}",
                key.replace("_", " ").capitalize(),
                _doubled(plan.get(f"training.{key}"), 5),
            )
            for key in batch
        ),
        _number(plan, "training.sequence_length", "Sequence length, tokens", _powers(2**20, 256)),
    ]
    memory = [
        _choice(plan, "training.recompute"),
        _choice(plan, "training.precision", "Precision"),
        _choice(plan, "training.optimizer", "Optimizer"),
        _choice(plan, "training.schedule", optional="by the layout"),
    ]
    sections = (
        ("Run", run),
        ("Batch", batches),
        ("Layout", _layout(plan)),
        ("Choices", memory),
        ("Model", _shape(plan)),
    )
    return [
        (title, [c for c in controls if c.value is not None or c.optional])
        for title, controls in sections
    ]


def _layout(plan: Plan) -> list[Control]:
    """The keys of the layout: first the numbers, then what is one of few, then switches."""
    model, given = plan.model, plan.document.data["parallelism"]
    layers = len(model.sequence) if model is not None else 1
    blocks = [block for part in (model.parts if model else ()) for block in part.blocks]
    experts = max((b.values["experts"] for b in blocks if b.kind == "moe"), default=1)
    steps: dict[str, Iterable[int]] = {
        layout.MATRICES: _powers(64),
        layout.LAYERS: _pipeline(layers),
        layout.CHUNKS: range(1, 11),
        layout.TOKENS: _powers(64),
        layout.EXPERTS: _divisors(experts),
    }
    found = []
    for row in sorted(layout.ROWS, key=lambda row: (bool(row.values), row.neutral is False)):
        follows = row.place == layout.FOLLOWING and given.get(row.name) is None
        alone = row.divides == layout.EXPERTS and experts == 1
        if not row.title or not row.key.startswith("parallelism.") or follows or alone:
            continue
        if row.values:
            found.append(_choice(plan, row.key))
        else:
            sizes = steps.get(row.divides) or _doubled(plan.get(row.key), 6)
            found.append(_number(plan, row.key, "", sizes))
    return found


def _shape(plan: Plan) -> list[Control]:
    """The sizes of a model with a shape, where its document says or its rules give them."""
    if plan.model is None:
        return []
    sizes: list[tuple[str, str, tuple[Any, ...], str]] = [
        ("layers", "Layers", _ratios(plan.get("model.layers"), 2), ""),
        ("hidden", "Hidden size", _ratios(plan.get("model.hidden")), ""),
        ("attention.heads", "Attention heads", _ratios(plan.get("model.attention.heads")), ""),
        (
            "attention.kv_heads",
            "Key and value heads",
            _ratios(plan.get("model.attention.kv_heads")),
            "as many as heads",
        ),
        (
            "mlp.intermediate",
            "Feed-forward width",
            _ratios(plan.get("model.mlp.intermediate")),
            "by the hidden size",
        ),
        ("vocab", "Vocabulary", VOCABULARIES, ""),
    ]
    return [
        _number(plan, f"model.{key}", label, steps, optional)
        for key, label, steps, optional in sizes
        if plan.get(f"model.{key}") is not None
    ]


#: Of common tokenizers; the plan's own is added.
VOCABULARIES = (32000, 50304, 65536, 100352, 128256, 152064, 200064, 256000)
EIGHTHS = (2, 4, 6, 8, 10, 12, 16, 24, 32)


def _ratios(value: Any, least: int = 1) -> tuple[int, ...]:
    """From a quarter to four times, where it stays whole."""
    if not isinstance(value, int):
        return ()
    found = (value * eighth // 8 for eighth in EIGHTHS if value * eighth % 8 == 0)
    return tuple(size for size in found if size >= least)


def _choice(plan: Plan, key: str, label: str = "", optional: str = "") -> Control:
    said = about(key)
    options = tuple(said.get("enum") or (True, False))
    value = _value(plan, key, optional)
    # What a document states can be stated otherwise, but no override makes it unstated.
    label = label or layout.ROW[key].title
    return Control(key, label, value, options, optional=optional if value is None else "")


def _number(plan: Plan, key: str, label: str, steps: Iterable[Any], optional: str = "") -> Control:
    said = about(key)
    value = _value(plan, key, optional)
    least, most, above = (said.get(k) for k in ("minimum", "maximum", "exclusiveMinimum"))
    own = {value} if value is not None else set()
    kept = {
        step
        for step in {*steps, *own}
        if (least is None or step >= least) and (most is None or step <= most)
    }
    unit = said.get("unit", "1")
    kinds = said["type"] if isinstance(said["type"], list) else [said["type"]]
    return Control(
        key,
        label or layout.ROW[key].title,
        value,
        (),
        tuple(sorted(kept)),
        unit if "/" in unit else "",
        "integer" in kinds,
        least,
        above,
        most,
        optional,
    )


def _value(plan: Plan, key: str, optional: str) -> Any:
    """The value that holds; of an optional key the one that the document gives."""
    if not optional:
        return plan.get(key)
    node: Any = plan.document.data
    for step in key.split("."):
        node = (node or {}).get(step)
    return node


def _powers(most: int, least: int = 1) -> list[int]:
    return [2**i for i in range(24) if least <= 2**i <= most]


def _doubled(value: int, times: int) -> list[int]:
    """Halved and doubled so often, as long as it stays whole."""
    found = [value * 2**i for i in range(times + 1)]
    return found + [value // 2**i for i in range(1, times + 1) if value % 2**i == 0]


def _tenths(value: Any) -> list[Any]:
    """From a tenth to tenfold, twenty steps each, to two digits."""
    if value is None:
        return []
    found = []
    for i in range(-20, 21):
        size = float(value) * 10 ** (i / 20)
        found.append(int(float(f"{size:.1e}")))
    return found


def _divisors(value: int) -> list[int]:
    return [i for i in range(1, value + 1) if value % i == 0]


def _pipeline(layers: int) -> list[int]:
    return sorted(
        {i for i in range(1, min(layers, 64) + 1) if layers % i == 0}
        | {p for p in _powers(64) if p <= layers}
    )
