"""How far predictions have been off: the interval of an estimated quantity, from published runs.

presets/efficiency/bands.yaml holds, for each kind of run (what runs, the generation of the
accelerator, and whose kernels), how measured times compare with predicted ones: the 5th and the
95th percentile of a run at a place that nobody measured, which adds the scatter between
laboratories to that within one; written by ``python -m benchmarks.time_bands``. A kind without
published runs is as wide as kinds of its workload lie apart.

presets/efficiency/memory.yaml holds the same for memory, by what was read (the allocator's peak or
cache, the process as the driver shows it) and what runs (all weights, experts, adapters, bytes on
the host), written by ``benchmarks.memory_accuracy --bands``.

presets/efficiency/practice.yaml holds how far the software that ran a published run lies from the
one that a plan of it gets where it names none, and the runs of the highest utilisation, written by
``benchmarks.practice --unstated``.

presets/efficiency/order.yaml holds how surely predicted times put layouts in order, written by
``benchmarks.order --order``.

``planner.results.intervals`` puts them around predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from planner.base import numbers, resources

DENSE, EXPERTS, LORA, INFERENCE, PATCHES = "dense", "experts", "lora", "inference", "patches"
ROLLOUT, LOGPROBS, UPDATES, STEP = "rl-rollout", "rl-logprobs", "rl-updates", "rl-step"
SCORES = "logprob", "reference", "forward", "value"
#: The error band of each phase of reinforcement learning; all else of it has that of the step.
PHASES = {
    **dict.fromkeys(("rl.rollout_seconds", "rl.prefill_seconds", "rl.decode_seconds"), ROLLOUT),
    **dict.fromkeys((f"rl.{one}_seconds" for one in SCORES), LOGPROBS),
    **dict.fromkeys(("rl.update_seconds", "rl.trainer_seconds"), UPDATES),
    "rl.step_seconds": STEP,
}
_WORDS = resources.load_preset("efficiency/words")
#: The workloads that have error bands of their own, in words.
TITLES: Mapping[str, str] = _WORDS["times"]
#: What the error bands of memory tell apart, in words; the first that holds counts.
HELD: Mapping[str, str] = _WORDS["memory"]
#: Quantities of memory that are off as much as another one, which is measured.
READ_AS = {"memory.needed": "memory.total"}
#: Stands for kinds without published runs, and for inference in memory.
REST = "other"


class Basis(NamedTuple):
    """An error band and the runs that it is from.

    Attributes:
        low: measured over predicted, less 1: the 5th percentile.
        high: the 95th percentile.
        rows: published runs of this very kind.
        sources: that measured them.
        kind: of run, in words.
        names: of the sources, where they are few.
        own: which runs of one's own rates were fitted to, in words; empty where published ones
            decide.
    """

    low: Fraction
    high: Fraction
    rows: int
    sources: int
    kind: str
    names: tuple[str, ...] = ()
    own: str = ""


class Order(NamedTuple):
    """How surely predicted times put two layouts in order, from pairs that one source measured.

    Attributes:
        close: distance up to which two layouts are not told apart, as a share of the faster one's
            time: at most three of four pairs were measured in the predicted order.
        distances: the share in order of pairs predicted up to a distance, and further than the one
            before; nearest first, of the last the distance is infinite.
    """

    close: float
    distances: tuple[tuple[float, float], ...]


@cache
def load_order() -> Order:
    """Return how surely predicted times put two layouts in order."""
    found = resources.load_preset("efficiency/order")
    shares = tuple((float(row["up_to"]), float(row["in_order"])) for row in found["distances"])
    return Order(float(found["close"]), shares)


def widen_band(band: Basis, row: Mapping[str, Any]) -> Basis:
    """Widen an error band by the spread of software that the plan leaves open: two independent
    factors, so that the reaches of their logarithms add up in quadrature.

    Args:
        band: of the software that the plan gets.
        row: of presets/efficiency/practice.yaml.
    """
    own, other = (
        [math.log1p(end) for end in (one["low"], one["high"])] for one in (band._asdict(), row)
    )
    middle, reach = sum(own + other) / 2, math.hypot(own[1] - own[0], other[1] - other[0]) / 2
    low, high = (round(Fraction(math.expm1(middle + side)), 2) for side in (-reach, reach))
    ends = " to ".join(numbers.text(row[end], style="change", digits=2) for end in ("low", "high"))
    kind = f"{band.kind}; {row['leaves_open']} not stated: {ends} (training.stack)"
    return band._replace(low=min(low, Fraction(0)), high=max(high, Fraction(0)), kind=kind)


def find_best_run(get: Callable[[str], Any]) -> Mapping[str, Any] | None:
    """Return the published run of the highest utilisation on at least as many devices as a plan
    has, of its architecture and number format; the largest where none has as many.

    Args:
        get: returns the value of a dotted key of the plan, None where there is none.
    """
    kind = get("cluster.accelerator.architecture"), get("training.precision")
    rows = resources.load_preset("efficiency/practice")["best"]  # the more devices the later
    rows = [row for row in rows if (row["architecture"], row["precision"]) == kind]
    more = (row for row in rows if row["devices"] >= get("cluster.devices"))
    return next(more, rows[-1] if rows else None)


@cache
def load_memory() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """Return the error bands of memory: ``measured`` on published runs, or ``counted`` by
    software."""
    return {name: tuple(rows) for name, rows in resources.load_preset("efficiency/memory").items()}


def classify_memory(get: Callable[[str], Any]) -> str:
    """Classify what a device holds: a key of ``HELD``, or ``REST`` in inference.

    Args:
        get: returns the value of a dotted key of the plan, None where there is none.
    """
    if get("training.mode") != "train":
        return REST
    base = get("training.lora.base")
    away = ("offload.activations", "offload.optimizer", "offload.parameters", "optimizer_paged")
    holds = {
        "offloaded": any(get(f"training.{key}") for key in away),
        "quantised": base not in (None, "bf16"),
        "adapters": base is not None,
        "experts": get("model.moe.experts") is not None,
        "all": True,
    }
    return next(name for name in HELD if holds[name])


def find_margin(get: Callable[[str], Any]) -> Fraction:
    """Return the default of ``memory.margin``: how far above their prediction live tensors may
    be, as a share of it (95th percentile of published measurements).

    Args:
        get: as for ``classify_memory``.
    """
    high = _find_memory_row("memory.total", get)["high"]
    return max(Fraction(str(high)), Fraction(0))


def _find_memory_row(base: str, get: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the row of a quantity of memory for what runs."""
    asked = READ_AS.get(base, base), classify_memory(get)
    rows = load_memory()["measured"]
    return next(row for row in rows if (row["quantity"], row["holds"]) == asked)


def workload(settings: Mapping[str, Any]) -> str:
    """Classify the run: inference, patches, LoRA, experts or dense."""
    if settings.get("training.mode", "train") != "train":
        return INFERENCE
    if settings.get("patches"):
        return PATCHES
    if settings.get("lora"):
        return LORA
    return EXPERTS if settings.get("experts") else DENSE


def classify_time(quantity: str, settings: Mapping[str, Any]) -> str:
    """Classify a time: the phase of reinforcement learning that a quantity is of, else the run."""
    if quantity.startswith("rl."):
        return PHASES.get(quantity, STEP)
    return workload(settings)


#: What decides, besides the workload, which published runs a plan is like.
PAIR = ("cluster.accelerator.architecture", "training.implementation")


def row(what: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the error band of a workload for the architecture and the software of a plan, or the
    one of pairs that have no published runs."""
    pair = [settings.get(key) for key in PAIR]
    if what in PHASES.values():  # which differ by framework, on all accelerators
        pair = [REST, settings.get("training.stack")]
    return _find_row(what, *pair)


@cache
def _find_row(what: str, architecture: str | None, software: str | None) -> Mapping[str, Any]:
    """Return the error band of a workload on an architecture under some software."""
    rows: dict[Any, Mapping[str, Any]] = {
        (row["workload"], row["architecture"], row.get("software")): row
        for row in resources.load_preset("efficiency/bands")["kinds"]
    }
    return rows.get((what, architecture, software)) or rows[what, REST, None]


def find_time_band(what: str, settings: Mapping[str, Any]) -> Basis:
    """Return the interval of times of a workload on the architecture of a plan under its
    software."""
    found, of = row(what, settings), TITLES[what]
    if "software" in found:
        of = f"{of} on {found['architecture']}, {found['software']}".replace(f" on {REST}", "")
    elif what not in (INFERENCE, PATCHES, *PHASES.values()):
        of = f"{of} on other accelerators or software"
    band, open_part = _build_basis(found, of), settings.get("time.unstated")
    for spread in resources.load_preset("efficiency/practice")["unstated"]:
        if spread["leaves_open"] == open_part and what not in PHASES.values():
            return widen_band(band, spread)
    return band


def find_own_band(what: str, settings: Mapping[str, Any]) -> Basis | None:
    """Return the interval of times if the accelerator was calibrated on the user's own runs
    (``plan.py calibrate``); None where none of these is like the plan. Runs on several nodes also
    calibrate plans on one node, but not the reverse."""
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


def _build_basis(row: Mapping[str, Any], kind: str) -> Basis:
    """Return the band of one row of presets/efficiency.

    Args:
        row: with the lowest and highest error as shares, runs, and sources by name or number.
        kind: of run, in words.
    """
    low, high = (Fraction(str(row[key])) for key in ("low", "high"))
    sources = row["sources"]
    names = () if isinstance(sources, int) else tuple(sources)
    count = sources if isinstance(sources, int) else len(names)
    return Basis(low, high, row["rows"], count, kind, names)


def find_memory_band(base: str, reading: str, settings: Mapping[str, Any]) -> Basis:
    """Return the error band of a memory quantity, from published measurements of training runs.

    Args:
        base: id of the quantity.
        reading: what the measurements read, for the sentence about them.
        settings: of the plan; inference has no measurements.
    """
    row = _find_memory_row(base, settings.get)
    what = HELD.get(row["holds"], "inference")
    return _build_basis(row, f"{reading}, {what}")
