"""The arrangement of quantities in a report. Data only: a quantity that is not named here is shown
in the section of its prefix."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

#: What templates read: text, numbers, lists, mappings and other such data, by name.
Data = SimpleNamespace

#: Headline quantities in order; the first four are large.
NUMBERS = (
    ("Training time", "time.training_days"),
    ("Cost", "cost.total"),
    ("Memory, fullest device", "memory.process"),
    ("Utilisation (MFU)", "time.mfu"),
    ("One step", "time.step_seconds"),
    ("Throughput", "time.tokens_per_second"),
    ("Parameters", "parameters.total"),
    ("Compute", "compute.training_flops"),
    ("Energy", "energy.total"),
    ("GPU hours", "time.device_hours"),
)
SERVING = (
    ("Memory, fullest device", "memory.process"),
    ("First token", "time.prefill_seconds"),
    ("Each further token", "time.decode_seconds"),
    ("Tokens generated", "time.decode_tokens_per_second"),
    ("Cost of a million tokens", "cost.million_output_tokens"),
    ("Cache of keys and values", "memory.cache"),
    ("Parameters", "parameters.total"),
)

#: Parts of a step by the names of ``Result.step_parts``: the group of each and its short name.
PARTS_OF_STEP = {
    "matrix products": ("arithmetic", "matrix products"),
    "attention": ("arithmetic", "attention"),
    "recomputation": ("arithmetic", "recomputation"),
    "elementwise kernels": ("kernels", "elementwise"),
    "kernel launches": ("kernels", "launches"),
    "casts to the matmul format": ("kernels", "casts"),
    "gradient accumulation": ("kernels", "accumulation"),
    "optimizer": ("kernels", "update"),
    "tensor-parallel exchange": ("exposed communication", "tensor"),
    "data-parallel exchange": ("exposed communication", "data"),
    "sharded weights' exchange": ("exposed communication", "gathered weights"),
    "expert-parallel exchange": ("exposed communication", "expert"),
    "context-parallel exchange": ("exposed communication", "context"),
    "pipeline exchange": ("exposed communication", "pipeline"),
    "tied embeddings' exchange": ("exposed communication", "tied embeddings"),
    "offloading activations": ("exposed communication", "offload"),
    "pipeline bubble": ("idle", "bubble"),
}


def pick(source: object, names: Iterable[str]) -> Data:
    """Return some attributes of an object as data, each computed now."""
    return Data(**{name: getattr(source, name) for name in names})


def trim_key(key: str) -> str:
    """Shorten a key: drop the name of its section."""
    return key.removeprefix("parallelism.").removeprefix("training.").removeprefix("cluster.")


class Beside(NamedTuple):
    """A table with a row per entry of an axis and a column per quantity.

    Attributes:
        axis: the name of the axis.
        head: the head of the first column.
        caption: the title of the table.
        columns: the bases of the quantities.
        one_unit: whether all values have one unit, in the caption; otherwise each has its own.
    """

    axis: str
    head: str
    caption: str
    columns: tuple[str, ...]
    one_unit: bool = False


class Section(NamedTuple):
    """A section: sums as tables with bars, conventions side by side, then all other rows.

    Attributes:
        id: the anchor.
        title: its heading.
        prefixes: the first parts of the ids of its quantities.
        sums: bases whose terms are tables, for each of their instances.
        side_by_side: ids that count the same by different conventions; the first is the reference.
        first: ids of the rows at the top.
        beside: tables by the entries of an axis.
        told: label and id of each number in the section's head.
        open: whether pages show it unfolded.
    """

    id: str
    title: str
    prefixes: tuple[str, ...]
    sums: tuple[str, ...] = ()
    side_by_side: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    beside: tuple[Beside, ...] = ()
    told: tuple[tuple[str, str], ...] = ()  # label and id of numbers in the section's head
    open: bool = False


SECTIONS = (
    Section(
        "memory", "Memory", ("memory",),
        told=(("is fullest", "memory.stage"), ("live", "memory.total"),
              ("in the process", "memory.process"), ("free", "memory.headroom")), open=True,
        first=("memory.stage", "memory.phase", "memory.total", "memory.reserved", "memory.process",
               "memory.needed", "memory.capacity", "memory.headroom"),
        beside=(Beside("stage", "Stage", "By pipeline stage",
                       ("memory.weights.stage", "memory.gradients.stage", "memory.optimizer.stage",
                        "memory.activations.stage", "memory.cache.stage", "memory.peak"),
                       one_unit=True),),
    ),
    Section(
        "parameters-and-compute", "Parameters and compute", ("parameters", "compute"),
        told=(("", "parameters.total"), ("counted exactly", "compute.training_flops"),
              ("by 6ND", "compute.training_flops_6nd")),
        sums=("parameters.total", "parameters.layer", "compute.forward_flops_per_token",
              "compute.layer"),
        side_by_side=("compute.training_flops", "compute.training_flops_6nd",
                      "compute.training_flops_megatron", "compute.training_flops_palm"),
    ),
    Section(
        "time", "Time", ("time", "network", "roofline"),
        sums=("time.micro_batch", "time.stage", "time.run_days"), open=True,
        told=(("a step", "time.step_seconds"), ("", "time.tokens_per_second"),
              ("of the peak performed", "time.hfu")),
        first=("time.step_seconds", "time.tokens_per_second", "time.mfu", "time.hfu",
               "time.training_days"),
        beside=(Beside("convention", "What counts", "Utilisation by every convention",
                       ("time.utilisation", "time.utilisation_listed")),),
    ),
    Section(
        "compute-optimal", "Compute-optimal training", ("scaling", "optimal"),
        told=(("tokens a parameter", "scaling.tokens_per_parameter"), ("", "optimal.tokens"),
              ("", "optimal.parameters")),
        beside=(Beside("law", "Law", "Published scaling laws",
                       ("scaling.model_tokens", "scaling.ratio", "scaling.loss")),),
    ),
    Section("money-energy-storage", "Money, energy and storage", ("cost", "energy", "checkpoint"),
            told=(("", "cost.total"), ("of all devices", "time.device_hours"), ("", "energy.total"),
                  ("a checkpoint", "checkpoint.bytes"))),
)  # fmt: skip

#: Sums whose terms a section shows; their derivations omit them.
SHOWN = frozenset(base for section in SECTIONS for base in section.sums)

#: Titles of prefixes of ids, if not the word itself.
PREFIXES = {
    "checkpoint": "Checkpoints",
    "scaling": "Scaling laws",
    "optimal": "Compute-optimal training",
}


def get_prefix(identifier: str) -> str:
    """Return the first part of an id or a key."""
    return identifier.partition(".")[0]


def by_prefix(items: Iterable[Any]) -> list[tuple[str, str, list[Any]]]:
    """Group items by the prefix of their ids: prefix, title and items."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(get_prefix(item.id), []).append(item)
    return [(start, PREFIXES.get(start, start.capitalize()), g) for start, g in groups.items()]


#: What the range beside a prediction is.
BETWEEN = "90 % interval from published runs of this kind"

#: What sensitivities are about.
DAYS = "time.training_days"
STEP = "time.step_seconds"

#: Inverse questions that a report answers by itself: by name, with the words of the table.
ANSWERS = (
    ("largest-batch", "micro-batch {}"),
    ("longest-context", "{} tokens of context"),
    ("fewest-devices", "as few devices as {}"),
)
