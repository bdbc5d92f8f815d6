"""How far predictions have been off: the interval of a predicted quantity, from published runs.

presets/efficiency/bands.yaml holds, for each kind of run (accelerator generation, dense or mixture
of experts), how measured step times compare with predicted ones: the 5th and the 95th percentile
over all rows, written by ``python -m benchmarks.time_accuracy --bands``. A generation without
published runs gets the band of none, which is wider.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        "cost.total",
        "cost.reserved",
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
FILE = "efficiency/bands.yaml"


@cache
def kinds() -> tuple[Mapping[str, Any], ...]:
    """The kinds of runs with their bands."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (resources.folder("presets") / FILE).read_text("utf-8")
    return tuple(yaml.load(text, Loader=loader)["kinds"])


def kind(architecture: str | None, experts: bool) -> Mapping[str, Any]:
    """The kind of a run: its generation's, else that of no generation."""
    wanted = [k for k in kinds() if k["experts"] == experts]
    own = [k for k in wanted if k["architecture"] == architecture]
    return (own or [k for k in wanted if k["architecture"] == "other"])[0]


def of_settings(settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The kind of the run that a plan's settings describe; None where its time is assumed."""
    if settings.get("time.assumed", True):
        return None
    return kind(settings.get("cluster.accelerator.architecture"), bool(settings.get("experts")))


def interval(quantity: Any) -> tuple[Value, Value] | None:
    """Lowest and highest value that published runs of the kind leave open, of a quantity of
    ``planner.evaluated``; None for one that is not predicted."""
    base = quantity.base
    if base not in LONGER and base not in SHORTER:
        return None
    found = of_settings(quantity.result.evaluation.case.settings)
    if found is None or quantity.absent is not None:
        return None
    low, high = (1 + Fraction(str(found[key])) for key in ("low", "high"))
    value = quantity.number
    return (value * low, value * high) if base in LONGER else (value / high, value / low)
