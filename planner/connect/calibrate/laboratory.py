"""One's own runs: read beside their plans, fitted, and what they leave open of further ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from planner.base import numbers
from planner.base.display import as_json, columns, one_line
from planner.base.errors import Fault, Place, PlanError
from planner.connect import compare
from planner.connect.calibrate.fit import (
    NORMAL,
    PRIOR,
    SHARE,
    STEP,
    Array,
    Fit,
    Rate,
    Run,
    RunScatter,
    find_quantile,
    fit_rates,
    run_of,
)
from planner.documents import schema
from planner.engine.evaluate import Absent, Evaluation
from planner.plans import error_bands
from planner.plans.document import Plan
from planner.plans.hardware import FORMATS
from planner.plans.plan import variant

#: Where the devices of a run are, in words.
SCALES = {"node": "on one node", "nodes": "on several nodes"}
#: A step that takes so many times what is predicted, or as little of it, is that of another plan.
FAR = 10
#: Layouts below which runs say little, whatever they say.
FEW = 3


class LoggedRun(NamedTuple):
    """A measured run: its plan, the log that it left, and seconds of its typical step.

    Attributes:
        plan: its plan.
        log: the name of the log file.
        seconds: the time of a typical step.
    """

    plan: Plan
    log: str
    seconds: Fraction

    @property
    def name(self) -> str:
        """Return plan and log as they were named; only the names of files named from the root."""
        document = self.plan.document.name or self.plan.document.node.place.file
        paths = map(Path, (document, self.log))
        return ", ".join(path.name if path.is_absolute() else path.as_posix() for path in paths)


class Band(NamedTuple):
    """The interval of measured over predicted time, less 1, for further runs of one kind.

    Attributes:
        workload, scale: the kind: the names of its entries in an accelerator's ``calibration``.
        low, high: the 5th and the 95th percentile.
        published: the same percentiles from published runs alone.
    """

    workload: str
    scale: str
    low: float
    high: float
    published: tuple[float, float]


@dataclass(frozen=True)
class Calibration:
    """The rates of one kind of devices, fitted to runs of one's own.

    Attributes:
        given: the runs.
        fit: the fitted rates.
        bands: the intervals of further runs, by kind of run.
    """

    given: tuple[LoggedRun, ...]
    fit: Fit
    bands: tuple[Band, ...]

    @property
    def measured(self) -> Array:
        """Return the seconds of each run's typical step (runs,)."""
        return np.array([float(run.seconds) for run in self.given])

    def compute_error(self, predicted: Array) -> float:
        """Compute the mean relative error of predicted seconds (runs,)."""
        return float(np.abs(predicted / self.measured - 1).mean())

    def list_predictions(self) -> Iterator[tuple[LoggedRun, dict[str, float]]]:
        """Yield each run with its predicted seconds by what predicted them."""
        for run, *seconds in zip(self.given, *self.fit.predictions.values(), strict=True):
            yield run, dict(zip(self.fit.predictions, map(float, seconds), strict=True))

    def list_errors(self) -> dict[str, float]:
        """Compute the mean relative error by what predicted."""
        return {way: self.compute_error(each) for way, each in self.fit.predictions.items()}

    def describe_runs(self, name: str) -> str:
        """Describe what the rates of a document of that name rest on."""
        return f"{_count_runs(len(self.given))}, {name}"


def _count_runs(count: int) -> str:
    """Format a number of runs, such as "2 runs of yours"."""
    return f"{count} run{'s' if count > 1 else ''} of yours"


def read_run(plan: Plan, log: str, warm_up: int | None = None) -> LoggedRun:
    """Read a run from its plan and its log; its time is predicted in any case.

    Args:
        plan: the plan of the run.
        log: the path of its log.
        warm_up: records left out at the start; as ``compare`` does unless given.

    Returns:
        The plan, the log and seconds of the typical step.

    Raises:
        PlanError: the log is none, holds no step time, or states another run than the plan.
    """
    if plan.get("time.mfu") is not None:
        plan = variant(plan, {"time.mfu": None})
    return LoggedRun(plan, log, compare.measure_step(plan, log, warm_up))


def fit_devices(given: Sequence[LoggedRun]) -> Calibration:
    """Fit the rates of the devices that runs ran on.

    Raises:
        PlanError: runs on several kinds of devices, on ones that are calibrated already, or whose
            time has no prediction.
    """
    faults = list(_check_runs(given))
    if faults:
        raise PlanError(faults)
    runs, kinds, like = list[Run](), list[RunScatter](), None
    for run in given:
        made = _predict_run(run, like)
        like = like or made.evaluation
        runs.append(made)
        kinds.append(find_scatter(made.evaluation))
    fit = fit_rates(runs, kinds, list_rates(runs))
    if not fit.rates:
        place = given[0].plan.document.find_place(("time", "efficiency"))
        raise PlanError("no rate is left to fit", place, "a plan with default rates")
    found = derive_bands([run.evaluation.case.settings for run in runs], kinds, fit)
    return Calibration(tuple(given), fit, tuple(found))


def _check_runs(given: Sequence[LoggedRun]) -> Iterator[Fault]:
    """Yield the faults of runs: inference plans, devices of another kind than the first run's,
    devices that are calibrated already."""
    key = "cluster.accelerator"
    first = given[0].plan.get(f"{key}.name")
    for plan in (run.plan for run in given):
        place = plan.document.find_place(tuple(key.split(".")))
        if plan.get("training.mode") != "train":
            where = plan.document.find_place(("training", "mode"))
            yield Fault("an inference plan has no step", where, "the plan of a training run")
        if plan.get(f"{key}.name") != first:
            wrong = f"this run is on {plan.get(f'{key}.name')}, the first one on {first}"
            yield Fault(one_line(wrong), place, "runs on one kind of accelerator")
        if plan.get(f"{key}.calibration") is not None:
            wrong = "these devices are calibrated already"
            yield Fault(wrong, place, "the cluster without it, and all runs at once")


def _predict_run(run: LoggedRun, like: Evaluation | None) -> Run:
    """Predict the step of a logged run.

    Args:
        run: the run.
        like: an evaluation to share the graph with, if the structures agree.

    Returns:
        The run with its rates.

    Raises:
        PlanError: its step cannot be predicted, or measured and predicted time differ by more than
            a factor of ``FAR``.
    """
    try:
        made = run_of(run.plan, float(run.seconds), run.name, like)
    except Absent as absent:
        place = run.plan.document.node.place
        wrong = f"{STEP} cannot be predicted: {absent.reason}"
        raise PlanError(wrong, Place(place.file), "a plan whose model has a shape") from None
    seconds = made.predict_step({})
    if not 1 / FAR <= made.measured / seconds <= FAR:
        took, planned = (numbers.text(Fraction(each), "s") for each in (run.seconds, seconds))
        wrong = f"a step took {took}, where its plan predicts {planned}"
        raise PlanError(wrong, Place(run.log), "the log of the plan's run, in the unit said")
    return made


def list_rates(runs: Sequence[Run]) -> list[Rate]:
    """List the rates of some runs that a document of an accelerator can hold, by name."""
    rates = {rate for run in runs for rate, _ in run.places}
    return sorted(r for r in rates if schema.describe("accelerator", f"efficiency.{r.name}"))


def find_scatter(evaluation: Evaluation) -> RunScatter:
    """Find how published runs of the kind of a run lie around their predictions."""
    settings = evaluation.case.settings
    row = error_bands.row(error_bands.workload(settings), settings)
    low, high, within = (float(row[key]) for key in ("low", "high", "within"))
    freedom = PRIOR + max(row["sources"] - 1, 0)
    whole = (math.log1p(high) - math.log1p(low)) / 2 / find_quantile(1 - SHARE, freedom)
    return RunScatter(within**2, max(whole**2 - within**2, 0.0), freedom)


def derive_bands(
    settings: Sequence[Mapping[str, Any]], kinds: Sequence[RunScatter], fit: Fit
) -> Iterator[Band]:
    """Derive the intervals of further runs from how far the fits without a run missed it.

    Args:
        settings: of each run.
        kinds: the scatter of published runs like each of them.
        fit: the fit of all runs.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for place, said in enumerate(settings):
        found.setdefault((error_bands.workload(said), said["time.scale"]), []).append(place)
    for (what, scale), places in sorted(found.items()):
        kind, said = kinds[places[0]], settings[places[0]]
        shipped = error_bands.find_time_band(what, said)
        published = float(shipped.low), float(shipped.high)
        size = math.sqrt(float(fit.open[places].mean()))
        reach = find_quantile(1 - SHARE, kind.freedom + fit.layouts) * size
        low, high = math.expm1(-reach), math.expm1(reach)
        if fit.noise == 1:  # nothing that these runs do is a surprise after the published ones
            low, high = max(low, published[0]), min(high, published[1])
        yield Band(what, scale, low, high, published)


# Tables ---------------------------------------------------------------------------------------


def render_fit(found: Calibration) -> str:
    """Render the runs, the rates and the intervals of further runs as tables for a terminal."""
    of = found.given[0].plan.get("cluster.accelerator.name") or "one kind of accelerator"
    lines = [f"{_count_runs(len(found.given))} on {of}", "", *_format_runs(found), ""]
    lines += [*_format_rates(found.fit), ""]
    for band in found.bands:
        own, others = (
            " to ".join(numbers.text(end, style="change") for end in ends)
            for ends in ((band.low, band.high), band.published)
        )
        lines.append(
            f"- {error_bands.TITLES[band.workload]} {SCALES[band.scale]}: further runs lie within "
            f"{own} of the prediction (5th to 95th percentile); published runs leave {others} open"
        )
    lines += [f"- {note}" for note in list_notes(found)]
    return "".join(one_line(line) + "\n" for line in lines)


def _format_runs(found: Calibration) -> list[str]:
    """Format each run's step as measured and as predicted in three ways, with the errors."""
    rows: list[Sequence[str]] = [
        ("run", "measured", "shipped rates", "", "fitted", "", "left out", "")
    ]
    for run, predicted in found.list_predictions():
        cells = [run.name, numbers.text(run.seconds, "s")]
        for seconds in predicted.values():
            change = numbers.text(seconds / float(run.seconds) - 1, style="change")
            cells += [numbers.text(seconds, "s"), change]
        rows.append(cells)
    errors = (("", numbers.text(each, style="share")) for each in found.list_errors().values())
    rows.append(["mean error", "", *(cell for pair in errors for cell in pair)])
    return columns(rows, right=range(1, 8))


def _format_rates(fit: Fit) -> list[str]:
    """Format the fitted rates as a table, with 90 % intervals and the share that the runs
    contributed."""
    rows = [("rate", "shipped", "fitted", "5 to 95 %", "said by runs", "meaning")]
    for place, rate in enumerate(fit.rates):
        ends = (*(fit.find_rate(place, by) for by in (-NORMAL, 0, NORMAL)), rate.value)
        unit = "s" if rate.name == "launch" else "1"
        low, own, high, shipped = (numbers.text(end, unit) for end in ends)
        said = numbers.text(fit.weigh_runs(place), style="share")
        row = (rate.name, shipped, own, f"{low} to {high}", said, describe_rate(rate))
        rows.append(row)
    return columns(rows, right=(1, 2, 4))


def list_notes(found: Calibration) -> Iterator[str]:
    """List what a reader should know of the fit."""
    count, fit = len(found.given), found.fit
    if fit.layouts < FEW:
        yield (
            "few layouts cannot tell how far each is from the formulas from what a laboratory's "
            "rates are: intervals stay wide; runs of one plan count as one, other plans say more"
        )
    if fit.noise > 1 and count > 1:
        off = np.abs(np.log(fit.without / found.measured))
        times = numbers.text(math.sqrt(fit.noise), digits=2)
        yield (
            f"these runs scatter {times} times as much as those of other "
            "laboratories, so each says less, and intervals are wider; farthest from what the "
            f"others say is {found.given[int(off.argmax())].name}"
        )
    if count > 1 and found.compute_error(fit.without) > found.compute_error(fit.before):
        yield "left out, the runs are predicted worse than by shipped rates: they do not agree"


def describe_rate(rate: Rate) -> str:
    """Describe a rate in the first words of its description in the schema."""
    base, _, last = rate.name.rpartition("_")
    form = last if last in FORMATS.values() else ""
    said = schema.describe("accelerator", f"efficiency.{base if form else rate.name}") or {}
    text = str(said.get("description", "")).partition(":")[0].rstrip(".")
    return f"{text}, {form}" if form else text


def dump_fit(found: Calibration) -> str:
    """Format the same as JSON."""
    fit = found.fit
    tree = {
        "runs": [
            {"run": run.name, "measured": run.seconds, **predicted}
            for run, predicted in found.list_predictions()
        ],
        "mean_error": found.list_errors(),
        "rates": [
            {
                "key": f"cluster.accelerator.efficiency.{rate.name}",
                "shipped": rate.value,
                "fitted": fit.find_rate(place),
                "interval": [fit.find_rate(place, -NORMAL), fit.find_rate(place, NORMAL)],
                "said_by_runs": fit.weigh_runs(place),
            }
            for place, rate in enumerate(fit.rates)
        ],
        "further_runs": [band._asdict() for band in found.bands],
        "notes": list(list_notes(found)),
    }
    return as_json(tree)
