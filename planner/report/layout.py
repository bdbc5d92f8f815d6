"""Which quantity stands where in a report. Data only: what the book has and this does not name is
shown all the same, in the section of its prefix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A key figure: its label, its quantity, and a second quantity in words around it."""

    label: str
    id: str
    of: str | None = None  # "of …", such as the capacity
    beside: tuple[tuple[str, str], ...] = ()  # further quantities, with the words before them


KEY_FIGURES = (
    Row("Parameters", "parameters.total", beside=(("active", "parameters.active"),)),
    Row("Training compute", "compute.training_flops",
        beside=(("6ND", "compute.training_flops_6nd"),)),
    Row("Memory per device", "memory.process", of="memory.capacity"),
    Row("Cache of keys and values", "memory.cache"),
    Row("Time of one step", "time.step_seconds"),
    Row("Throughput", "time.tokens_per_second",
        beside=(("per device", "time.tokens_per_second_per_device"),)),
    Row("Model FLOPs utilisation", "time.mfu"),
    Row("Time to the first token", "time.prefill_seconds"),
    Row("Time of one further token", "time.decode_seconds"),
    Row("Tokens generated", "time.decode_tokens_per_second"),
    Row("Cost of a million tokens", "cost.million_output_tokens",
        beside=(("of prompts", "cost.million_input_tokens"),)),
    Row("Training time", "time.training_days", beside=(("on all devices", "time.device_hours"),)),
    Row("Cost", "cost.total"),
    Row("Energy", "energy.total", beside=(("", "energy.carbon"),)),
)  # fmt: skip


class Beside(NamedTuple):
    """A table with a row for each entry of an axis, and a column for each of some quantities."""

    axis: str
    head: str
    caption: str
    columns: tuple[str, ...]
    one_unit: bool = False  # which the caption says; else each value says its own


class Section(NamedTuple):
    """Elements 5 to 8: sums as tables with bars, conventions side by side, then all other rows."""

    id: str
    title: str
    prefixes: tuple[str, ...]
    sums: tuple[str, ...] = ()  # quantities, or all instances, as the tables of their terms
    side_by_side: tuple[str, ...] = ()  # ways to count the same; the first one is the measure
    first: tuple[str, ...] = ()  # rows that lead the table
    beside: tuple[Beside, ...] = ()  # what stands beside each other by the entries of an axis


SECTIONS = (
    Section(
        "memory", "Memory", ("memory",),
        sums=("memory.total",),
        first=("memory.stage", "memory.phase", "memory.total", "memory.reserved", "memory.process",
               "memory.capacity", "memory.headroom"),
        beside=(Beside("stage", "Stage", "By pipeline stage",
                       ("memory.weights.stage", "memory.gradients.stage", "memory.optimizer.stage",
                        "memory.activations.stage", "memory.cache.stage", "memory.peak"),
                       one_unit=True),),
    ),
    Section(
        "parameters-and-compute", "Parameters and compute", ("parameters", "compute"),
        sums=("parameters.total", "parameters.layer", "compute.forward_flops_per_token",
              "compute.layer"),
        side_by_side=("compute.training_flops", "compute.training_flops_6nd",
                      "compute.training_flops_megatron", "compute.training_flops_palm"),
    ),
    Section(
        "time", "Time", ("time", "network", "roofline"),
        sums=("time.step_seconds", "time.micro_batch", "time.stage", "time.run_days"),
        first=("time.step_seconds", "time.tokens_per_second", "time.mfu", "time.hfu",
               "time.training_days"),
        beside=(Beside("convention", "What counts", "Utilisation by every convention",
                       ("time.utilisation", "time.utilisation_listed")),),
    ),
    Section(
        "compute-optimal", "Compute-optimal training", ("scaling", "optimal"),
        beside=(Beside("law", "Law", "What published scaling laws say",
                       ("scaling.model_tokens", "scaling.ratio", "scaling.loss")),),
    ),
    Section("money-energy-storage", "Money, energy and storage", ("cost", "energy", "checkpoint")),
)  # fmt: skip

#: Sums that a section shows term by term, so that their derivations need not.
SHOWN = frozenset(base for section in SECTIONS for base in section.sums)

#: What the prefix of an id is called, where it is not the word itself.
PREFIXES = {
    "checkpoint": "Checkpoints",
    "scaling": "Scaling laws",
    "optimal": "Compute-optimal training",
}


def prefix(identifier: str) -> str:
    """How an id or a key begins."""
    return identifier.partition(".")[0]


def by_prefix(items: Iterable[Any]) -> list[tuple[str, str, list[Any]]]:
    """What has ids by how they begin: each prefix, what it is called, and those that have it."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(prefix(item.id), []).append(item)
    return [(start, PREFIXES.get(start, start.capitalize()), g) for start, g in groups.items()]


#: Groups of the inputs by how their keys begin; the last one takes all others.
INPUT_GROUPS = {
    "model": "Model",
    "cluster": "Cluster",
    "training": "Training",
    "parallelism": "Layout",
    "": "Further",
}

#: What the range beside a prediction is.
BETWEEN = "what published runs of this kind leave open, 5th to 95th percentile"

#: What sensitivities are about.
DAYS = "time.training_days"
STEP = "time.step_seconds"

#: What the parts of a step are.
APART = (
    "What nothing hides of each kind of work: its time, times the step's derivative by it. A step "
    "is made of times by sums, maxima and roots of powers, so these add up to it."
)

#: Columns of the table of alternatives.
ALTERNATIVES = (
    ("Memory per device", "memory.process"),
    ("Left", "memory.headroom"),
    ("Step", "time.step_seconds"),
    ("Days", DAYS),
    ("Cost", "cost.total"),
)

#: Inverse questions that a report answers by itself: by name, with the words of the table.
ANSWERS = (
    ("largest-batch", "Largest micro-batch"),
    ("longest-context", "Longest context"),
    ("fewest-devices", "Fewest devices"),
)


#: How each state of a verdict looks (its colour and icon) and what it is called.
STATUS = {
    "fits": ("ok", "Fits"),
    "tight": ("tight", "Tight"),
    "no": ("bad", "Does not fit"),
    "open": ("unknown", "Open"),
}
