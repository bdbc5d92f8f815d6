"""How far predictions have been off: the interval of an estimated quantity, from published runs.

presets/efficiency/bands.yaml holds, for each kind of run (what runs, and the generation of the
accelerator), how measured times compare with predicted ones: the 5th and the 95th percentile of a
run at a place that nobody measured, which adds the scatter between laboratories to that within
one; written by ``python -m benchmarks.time_bands``. A kind without published runs is held against
all, and is wider.

presets/efficiency/memory.yaml holds the same for memory, by what was read (the allocator's peak or
cache, the process as the driver shows it), written by ``benchmarks.memory_accuracy --bands``.

``planner.results.intervals`` puts them around predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from planner.base import resources

DENSE, EXPERTS, LORA, INFERENCE, PATCHES = "dense", "experts", "lora", "inference", "patches"
#: What may run, as far as published runs tell it apart, in words.
TITLES = {
    DENSE: "training of dense models",
    EXPERTS: "training of mixtures of experts",
    LORA: "fine-tuning with LoRA",
    INFERENCE: "inference",
    PATCHES: "training of diffusion transformers",
}
#: Of these there are published runs; of the rest the least certain of dense models stand for them.
WORKLOADS = (DENSE, EXPERTS, LORA, INFERENCE)
#: Of no generation that constants were calibrated on.
REST = "other"


class Basis(NamedTuple):
    """What an interval rests on."""

    #: Measured over predicted, less 1.
    low: Fraction
    high: Fraction
    #: Published runs of this very kind, and the sources that measured them.
    rows: int
    sources: int
    #: The kind of run, in words.
    kind: str
    #: The sources' names, where they are few.
    names: tuple[str, ...] = ()
    #: Which runs of one's own rates were fitted to, in words; empty where published ones decide.
    own: str = ""


@cache
def kinds() -> tuple[Mapping[str, Any], ...]:
    """The kinds of runs with their bands."""
    return tuple(resources.preset("efficiency/bands")["kinds"])


@cache
def memory() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """``measured``: readings of published runs with their bands, ``counted``: by other software."""
    return {name: tuple(rows) for name, rows in resources.preset("efficiency/memory").items()}


def above() -> Fraction:
    """What a process may take beyond the prediction, as a share of it: 95th percentile of the
    published readings, the default of a plan's ``memory.margin``."""
    process = next(row for row in memory()["measured"] if row["quantity"] == "memory.process")
    return max(Fraction(str(process["high"])), Fraction(0))


def workload(settings: Mapping[str, Any]) -> str:
    """What runs."""
    if settings.get("training.mode", "train") != "train":
        return INFERENCE
    if settings.get("patches"):
        return PATCHES
    if settings.get("lora"):
        return LORA
    return EXPERTS if settings.get("experts") else DENSE


@cache
def row(what: str, architecture: str | None) -> Mapping[str, Any]:
    """The band of a kind of run: of its generation, else of those that no constant was calibrated
    on."""
    rows = {(row["workload"], row["architecture"]): row for row in kinds()}
    return rows.get((what, architecture)) or rows[what, REST]


@cache
def kind(what: str, architecture: str | None) -> Basis:
    """The interval of times of a kind of run."""
    found = row(what, architecture)
    known, of = found["architecture"] == architecture, TITLES[what]
    if known and architecture != REST:
        of = f"{of} on {architecture}"
    elif what not in (INFERENCE, PATCHES):
        of = f"{of} on accelerators without calibrated rates"
    return _basis(found, of)


def calibrated(what: str, settings: Mapping[str, Any]) -> Basis | None:
    """The interval of times of a plan on devices whose rates runs of one's own were fitted to
    (``plan.py calibrate``); None where no such run is like the plan. Runs on several nodes have
    groups inside a node too, the others none that leave it."""
    at = f"cluster.accelerator.calibration.{what}"
    for scale in (settings["time.scale"], "nodes"):
        runs = settings.get(f"{at}.{scale}.runs")
        if runs is not None:
            low, high = (settings[f"{at}.{scale}.{end}"] for end in ("low", "high"))
            name = settings["cluster.accelerator.calibration.name"]
            own = f"{runs} run{'s' if runs > 1 else ''} of yours"
            kind = f"{TITLES[what]}, calibrated on {own}, {name}"
            return Basis(low, high, runs, 1, kind, (), f"{own} ({name})")
    return None


def _basis(row: Mapping[str, Any], kind: str) -> Basis:
    low, high = (Fraction(str(row[key])) for key in ("low", "high"))
    sources = row["sources"]
    names = () if isinstance(sources, int) else tuple(sources)
    return Basis(low, high, row["rows"], len(names) or sources, kind, names)


def of_memory(base: str, reading: str, settings: Mapping[str, Any]) -> Basis:
    """The published readings of memory that an estimate is held against. They are of training
    runs; of inference there are none."""
    rows = {row["quantity"]: row for row in memory()["measured"]}
    if workload(settings) == INFERENCE:
        return _basis(rows[REST], f"{reading} in inference")
    return _basis(rows[base], reading)
