"""A real training step of a plan's model, scaled down to this machine, beside what the plan says.

The predicted side is an ordinary plan: the same document with fewer layers, one device and the
implementation `pytorch`. Nothing of it is computed here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner.base import resources
from planner.base.display import as_json, format_value
from planner.base.errors import Fault, PlanError
from planner.connect.compare import Row, table
from planner.connect.measure import expected, need_torch
from planner.connect.measure.jobs import Product
from planner.plans import hardware
from planner.plans import plan as plans
from planner.plans.document import Block, Model, Plan
from planner.results.result import evaluate

_SAID = resources.read_yaml(Path(__file__).with_suffix(".yaml"))
#: What a key of a block has that is off.
OFF = (None, False, 0, "none")
#: Steps that are timed, after one that is not.
STEPS = 5
#: Share of the free memory that a step may be predicted to take.
ROOM = Fraction(4, 5)
#: Seconds that all steps together may be predicted to take.
SECONDS = 60.0
#: How much longer the least that can run may take.
LONGER = 5
Tell = Callable[[str], None]


def step(
    full: Plan,
    *,
    device: str | None = None,
    layers: int | None = None,
    steps: int = STEPS,
    seconds: float = SECONDS,
    tell: Tell = lambda line: None,
) -> Beside:
    """Run training steps of a plan's model and put them beside the scaled-down plan.

    Args:
        full: the plan.
        device: cuda, cpu or mps; the best that is there unless given.
        layers: of the model that runs; as many as fit into memory and time unless given.
        steps: that are timed.
        seconds: that all steps together are predicted to take, where layers are not given.
        tell: called with a line about what happens.

    Raises:
        PlanError: PyTorch is missing, or no such step can run here.
    """
    torch = need_torch()
    from planner.connect.measure import engine, training

    check_supported(full)
    backend = engine.Engine(device)
    where, form = backend.where, hardware.FORMATS[full.get("training.precision")]
    product = Product(form, 1024, 1024, 1024)
    times = backend.times(product, 0)
    if not times:
        raise PlanError(Fault(f"no product in {form} runs on {where}", None, "another precision"))
    room = Room(where.type, seconds, training.free_memory(where), product.flops / min(times))
    small = scaled(full, layers, steps, room)
    batch, length = small.get("training.micro_batch"), small.get("training.sequence_length")
    layers, precision = small.get("model.layers"), small.get("training.precision")
    tell(f"{layers} layer{'s' * (layers > 1)}, {batch} × {length} tokens, {precision}, on {where}")
    try:
        found, remarks = training.run(small, where, steps, tell)
    except torch.OutOfMemoryError as error:
        fault = f"memory runs out: {str(error).splitlines()[0]}"
        raise PlanError(Fault(fault, None, "fewer --layers")) from None
    rows, notes = _beside(full, small, found, remarks)
    name = training.device_name(where)
    return Beside(small, name, str(torch.__version__), rows, notes)


# What can run ---------------------------------------------------------------------------------


def check_supported(plan: Plan) -> None:
    """Refuse what the decoder does not build.

    Raises:
        PlanError: every part of the model or run that it does not know.
    """
    if plan.model is None:
        where = plan.document.place(("model",))
        raise PlanError(Fault("a step needs the model's shape", where, "layers, hidden and so on"))
    faults: dict[Any, Fault] = {}  # what several blocks have is told once
    for key, value, instead in _refused(plan, plan.model):
        fault = f"measure --step cannot run {key} {_shown(value)}"
        where = plan.document.place(tuple(key.split(".")))
        faults.setdefault((key, instead), Fault(fault, where, instead))
    if faults:
        raise PlanError([*faults.values()])


def _shown(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _refused(plan: Plan, model: Model) -> Iterator[tuple[str, Any, str]]:
    """Keys with a value that it does not build or run, and what goes instead."""
    for key, known in _SAID["run"].items():
        if plan.get(key) not in known:
            yield key, plan.get(key), f"--set {key}={_shown(known[0])}"
    if plan.get("training.lora") is not None:
        yield "training.lora", "adapters", "--set training.lora=null"
    if plan.get("model.encoder") is not None:
        yield "model.encoder", "models", "a decoder"
    if plan.get("model.mtp"):
        yield "model.mtp", plan.get("model.mtp"), "--set model.mtp=0"
        return
    for block in (block for part in model.parts for block in part.blocks):
        for key, value in _unknown(block, plan.get("training.sequence_length")):
            yield key, value, "a plain decoder: attention, mlp or moe"


def _unknown(block: Block, length: int) -> Iterator[tuple[str, Any]]:
    values, built = block.values, _SAID["blocks"].get(block.kind)
    if built is None:
        yield f"model.{block.kind}", "blocks"
        return
    for key, value in values.items():
        if key not in built and value not in OFF and key != "decoder":
            yield f"model.{block.kind}.{key}", value
    if block.kind in ("mlp", "moe") and values["activation"] not in _SAID["activations"]:
        yield f"model.{block.kind}.activation", values["activation"]
    if block.kind == "attention":
        if values["value_head_dim"] != values["head_dim"]:
            yield "model.attention.value_head_dim", values["value_head_dim"]
        if (values.get("window") or length) < length:
            yield "model.attention.window", values["window"]


# The plan of what runs ------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """What a run may take: seconds for all steps, and bytes that are free; FLOP/s of a product here
    tell a step's time where the plan is for another device."""

    device: str
    seconds: float
    memory: int
    rate: float


def scaled(full: Plan, layers: int | None, steps: int, room: Room) -> Plan:
    """The plan of what runs: one device, one micro-batch, and the layers that fit."""
    one = plans.variant(full, _one_device(full, room.device))
    most = len(one.model.sequence) if one.model else 0
    if layers is not None:
        if not 1 <= layers <= most:
            raise PlanError(Fault(f"--layers {layers}", None, f"1 to the model's {most}"))
        return _with_layers(one, layers)
    _check_least(full, _with_layers(one, 1), steps, room)

    def too_many(layers: int) -> bool:
        tried = _with_layers(one, layers)
        late = _takes(tried, room) * (steps + 1) > room.seconds
        return late or bool(expected.value(tried, "memory.total") > room.memory * ROOM)

    return _with_layers(one, 1 + bisect_left(range(2, most + 1), True, key=too_many))


def _check_least(full: Plan, least: Plan, steps: int, room: Room) -> None:
    """One layer fits, and is done before long."""
    smaller = "a smaller --set training.micro_batch, training.sequence_length or model"
    where = full.document.place(("model",))
    needs, takes = expected.value(least, "memory.total"), _takes(least, room)
    if needs > room.memory * ROOM:
        has = format_value(room.memory, "bytes")
        fault = f"a step of one layer takes {format_value(needs, 'bytes')}, of which {has} are free"
        raise PlanError(Fault(fault, where, smaller))
    if takes * (steps + 1) > room.seconds * LONGER:
        each = format_value(Fraction(takes), "s")
        fault = f"a step of one layer takes about {each} on {room.device}"
        raise PlanError(Fault(fault, where, f"{smaller}, or --layers 1"))


def _one_device(full: Plan, device: str) -> Mapping[str, Any]:
    """The changes that leave one device with one micro-batch of the plan."""
    layout = full.document.data.get("parallelism") or {}
    changes = {f"parallelism.{key}": None for key in layout} | _SAID["one_device"]
    changes["training.implementation"] = "pytorch-cpu" if device == "cpu" else "pytorch"
    changes["memory.workspaces"] = 0 if device == "cpu" else None  # cuBLAS's
    return {key: to for key, to in changes.items() if to is not None or full.get(key)}


def _with_layers(plan: Plan, layers: int) -> Plan:
    return plans.variant(plan, {"model.layers": layers})


def _takes(plan: Plan, room: Room) -> float:
    """Seconds of a step: predicted, or by its FLOPs at the rate of a product where that is more."""
    tokens = plan.get("training.micro_batch") * plan.get("training.sequence_length")
    flops = float(expected.value(plan, "compute.flops_per_token") * tokens)
    return max(float(expected.value(plan, "time.step_seconds") or 0), flops / room.rate)


# The table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """What was predicted for the scaled-down plan and what a run of it measured."""

    plan: Plan  # the scaled-down one
    device: str
    torch: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def _beside(
    full: Plan, small: Plan, found: Mapping[str, Any], remarks: Sequence[str]
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """What was measured beside the scaled-down plan's quantities, and notes on it."""
    result = evaluate(small)
    # Published runs are held against whole plans: their interval is not one of a few layers.
    rows = tuple(
        Row(result[identifier], Fraction(number), how, whole=False)
        for identifier, (number, how) in found.items()
    )
    layers, of = small.get("model.layers"), full.get("model.layers")
    notes = [f"{layers} of the model's {of} layers, one device, one micro-batch a step", *remarks]
    reasons = {row.quantity.absent for row in rows}
    notes += [f"not predicted: {reason}" for reason in sorted(filter(None, reasons))]
    accelerator = small.get("cluster.accelerator.name") or "the plan's accelerator"
    notes.append(f"predicted for {accelerator}")
    return rows, tuple(notes)


def text(found: Beside) -> str:
    """A table for a terminal."""
    head = (found.plan.name, f"{found.device}, PyTorch {found.torch}")
    return table(head, found.rows, found.notes, "predicted")


def data(found: Beside) -> str:
    """The rows as JSON, with the inputs of the scaled-down plan that decide."""
    keys = ("micro_batch", "sequence_length", "precision", "attention", "recompute")
    tree = {
        "plan": found.plan.name,
        "device": found.device,
        "torch": found.torch,
        "layers": found.plan.get("model.layers"),
        "training": {key: found.plan.get(f"training.{key}") for key in keys},
        "quantities": [row.to_json("predicted") for row in found.rows],
        "notes": found.notes,
    }
    return as_json(tree)
