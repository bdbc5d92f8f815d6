"""A real training step of a plan's model, scaled down to this machine, beside what the plan says.

The predicted side is an ordinary plan: the same document with fewer layers, one device and the
implementation `pytorch`. Nothing of it is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner import plan as plans
from planner.compare import Row
from planner.display import format_value
from planner.document import Plan
from planner.errors import Fault, PlanError
from planner.measure import need_torch, supported
from planner.measure.beside import Beside

#: Steps that are timed, after one that is not.
STEPS = 5
#: Share of the free memory that a step may be predicted to take.
ROOM = Fraction(4, 5)
#: Seconds that all steps together may be predicted to take.
SECONDS = 60.0
Tell = Callable[[str], None]


def step(
    path: str,
    overrides: Sequence[str] = (),
    *,
    accelerator: str | None = None,
    device: str | None = None,
    layers: int | None = None,
    steps: int = STEPS,
    seconds: float = SECONDS,
    tell: Tell = lambda line: None,
) -> Beside:
    """Run training steps of a plan's model and put them beside the scaled-down plan.

    Args:
        path: the plan document.
        overrides: as of ``--set``.
        accelerator: a document of ``measure -o`` in the place of the plan's own accelerator.
        device: cuda, cpu or mps; the best that is there unless given.
        layers: of the model that runs; as many as fit into memory and time unless given.
        steps: that are timed.
        seconds: that all steps together are predicted to take, where layers are not given.
        tell: called with a line about what happens.

    Raises:
        PlanError: PyTorch is missing, the plan is not valid, or no such step can run here.
    """
    need_torch()
    from planner.measure import training

    if accelerator is not None:
        overrides = [*overrides, f"cluster.accelerator={Path(accelerator).resolve()}"]
    full = plans.load(path, overrides)
    supported.check(full)
    where = training.device(device)
    small = scaled(full, str(where), layers, steps, seconds, training.free_memory(where))
    tell(_what(small, str(where)))
    found = training.run(small, where, steps, tell)
    return comparison(full, small, found)


def scaled(
    full: Plan, device: str, layers: int | None, steps: int, seconds: float, memory: int
) -> Plan:
    """The plan of what runs: one device, one micro-batch, and the layers that fit."""
    one = plans.variant(full, _one_device(full, device))
    most = len(one.model.sequence) if one.model else 0
    if layers is not None:
        if not 1 <= layers <= most:
            raise PlanError(Fault(f"--layers {layers}", None, f"1 to the model's {most}"))
        return _with_layers(one, layers)
    if _needs(_with_layers(one, 1)) > memory * ROOM:
        need = format_value(_needs(_with_layers(one, 1)), "bytes")
        raise PlanError(
            Fault(
                f"a step of one layer takes {need}, of which {device} has "
                f"{format_value(memory, 'bytes')} free",
                full.document.place(("model",)),
                "a smaller --set training.micro_batch, training.sequence_length or model",
            )
        )
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        tried = _with_layers(one, middle)
        takes = _takes(tried)
        fits = _needs(tried) <= memory * ROOM
        if fits and (takes is None or takes * (steps + 1) <= seconds):
            low = middle
        else:
            high = middle - 1
    return _with_layers(one, low)


def _one_device(full: Plan, device: str) -> Mapping[str, Any]:
    """The changes that leave one device with one micro-batch of the plan."""
    layout = full.document.data.get("parallelism") or {}
    changes: dict[str, Any] = {f"parallelism.{key}": None for key in layout}
    changes |= {
        "training.global_batch": None,
        "training.gradient_accumulation": None,
        "training.schedule": None,
        "training.distributed_optimizer": None,
        "training.recompute_layers": None,
        "training.loss": "full",
        "training.implementation": "pytorch-cpu" if device == "cpu" else "pytorch",
        "memory.workspaces": 0 if device == "cpu" else None,  # cuBLAS's
        "cluster.devices": 1,
        "cluster.devices_per_node": 1,
        "time.mfu": None,
    }
    return {key: value for key, value in changes.items() if value is not None or full.get(key)}


def _with_layers(plan: Plan, layers: int) -> Plan:
    return plans.variant(plan, {"model.layers": layers})


def _value(plan: Plan, identifier: str) -> Any:
    from planner.result import evaluate

    return evaluate(plan)[identifier].value


def _needs(plan: Plan) -> Any:
    return _value(plan, "memory.total")


def _takes(plan: Plan) -> Any:
    return _value(plan, "time.step_seconds")


def _what(plan: Plan, device: str) -> str:
    layers = plan.get("model.layers")
    batch, length = plan.get("training.micro_batch"), plan.get("training.sequence_length")
    return (
        f"{layers} layer{'s' * (layers > 1)}, {batch} × {length} tokens, "
        f"{plan.get('training.precision')}, on {device}"
    )


# The table ------------------------------------------------------------------------------------


def comparison(full: Plan, small: Plan, found: Any) -> Beside:
    """The rows of what was measured beside the scaled-down plan's quantities."""
    from planner.result import evaluate

    result = evaluate(small)
    rows = []
    for identifier, (value, how) in found.values.items():
        quantity = result[identifier]
        planned: Any = quantity.value
        planned = Fraction(planned) if isinstance(planned, float) else planned
        rows.append(Row(identifier, quantity.title, quantity.unit, planned, Fraction(value), how))
    layers, of = small.get("model.layers"), full.get("model.layers")
    notes = [f"{layers} of the model's {of} layers, one device, one micro-batch a step"]
    notes += found.notes
    reasons = {result[row.id].absent for row in rows if row.planned is None}
    notes += [f"not predicted: {reason}" for reason in sorted(filter(None, reasons))]
    accelerator = small.get("cluster.accelerator.name") or "the plan's accelerator"
    notes.append(f"predicted for {accelerator}")
    return Beside(small, found.device, found.torch, tuple(rows), tuple(notes))
