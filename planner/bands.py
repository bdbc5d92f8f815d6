"""How far predictions have been off: the interval of an estimated quantity, from published runs.

presets/efficiency/bands.yaml holds, for each kind of run (accelerator generation, dense or mixture
of experts, one node or several), how measured step times compare with predicted ones: the 5th and
the 95th percentile over all rows, written by ``python -m benchmarks.time_bands``. A generation
without published runs gets the band of none, which is wider.

presets/efficiency/memory.yaml holds the same for memory, by what was read (the allocator's peak,
the process as the driver shows it), written by ``python -m benchmarks.memory_accuracy --bands``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from planner import resources

Value = int | Fraction | float

#: Predicted quantities that grow with the time of a step, and those that fall with it.
LONGER = frozenset(
    {
        "time.step_seconds",
        "time.training_seconds",
        "time.training_days",
        "time.device_hours",
        "time.run_days",
        "time.run_device_hours",
        "time.straggler_days",
        "time.checkpoint_days",
        "time.failure_days",
        "cost.total",
        "cost.reserved",
        "cost.run",
        "energy.devices",
        "energy.hosts",
        "energy.computers",
        "energy.total",
        "energy.carbon",
    }
)
SHORTER = frozenset(
    {
        "time.tokens_per_second",
        "time.tokens_per_second_per_device",
        "time.mfu",
        "time.hfu",
        "time.tflops_per_device",
    }
)
#: Of no generation, and of any scale.
REST, ANY = "other", "any"
FILE = "efficiency/bands.yaml"
MEMORY = "efficiency/memory.yaml"


def _read(file: str) -> Mapping[str, Any]:
    read: Mapping[str, Any] = resources.read_yaml(resources.folder("presets") / file)
    return read


@cache
def kinds() -> tuple[Mapping[str, Any], ...]:
    """The kinds of runs with their bands."""
    return tuple(_read(FILE)["kinds"])


@cache
def memory() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """``measured``: readings of published runs with their bands, ``counted``: by other software."""
    return {name: tuple(rows) for name, rows in _read(MEMORY).items()}


def above() -> Fraction:
    """What a process may take beyond the prediction, as a share of it: 95th percentile of the
    published readings, the default of a plan's ``memory.margin``."""
    process = next(row for row in memory()["measured"] if row["quantity"] == "memory.process")
    return max(Fraction(str(process["high"])), Fraction(0))


def kind(architecture: str | None, experts: bool, scale: str = ANY) -> Mapping[str, Any]:
    """The kind of a run, of those that ship."""
    return chosen(kinds(), architecture, experts, scale)


def chosen(
    among: Iterable[Mapping[str, Any]], architecture: str | None, experts: bool, scale: str
) -> Mapping[str, Any]:
    """The kind of a run: of its generation and scale (node, nodes), else of its generation at any
    scale, else that of no generation."""
    found = {(k["architecture"], k["scale"]): k for k in among if k["experts"] == experts}
    tried = ((architecture, scale), (architecture, ANY), (REST, ANY))
    return next(found[key] for key in tried if key in found)


def of_settings(settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The kind of the run that a plan's settings describe; None where its time is assumed."""
    if settings.get("time.assumed", True):
        return None
    return kind(
        settings.get("cluster.accelerator.architecture"),
        bool(settings.get("experts")),
        settings["time.scale"],
    )


def of_memory(base: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The readings that an estimate of memory is held against; None where it rests on none: they
    are of training runs of models with a shape."""
    if settings.get("training.mode") != "train" or not settings.get("model.shape"):
        return None
    return next((row for row in memory()["measured"] if row["quantity"] == base), None)


def interval(quantity: Any) -> tuple[Value, Value] | None:
    """Lowest and highest value that published runs leave open, of a quantity of
    ``planner.evaluated``; None for one that no published run is held against."""
    if quantity.absent is not None:
        return None
    base, settings = quantity.base, quantity.result.evaluation.case.settings
    if base == "memory.headroom":
        process = quantity.result.find("memory.process")
        bounds = interval(process)
        if bounds is None:
            return None
        capacity = quantity.number + process.number
        return capacity - bounds[1], capacity - bounds[0]
    found = of_memory(base, settings) if base.startswith("memory.") else None
    if found is None and base in (*LONGER, *SHORTER):
        found = of_settings(settings)
    if found is None:
        return None
    low, high = (1 + Fraction(str(found[key])) for key in ("low", "high"))
    value = quantity.number
    if base == "memory.process":  # a plan may state its own margin
        return value * low, quantity.result.find("memory.at_worst").number
    return (value / high, value / low) if base in SHORTER else (value * low, value * high)
