"""The run around the step: interruptions, checkpoints, and what is left of the time."""

from typing import Any

from sympy import sqrt

from planner.formulas.checkpoint import write
from planner.formulas.time import training_days
from planner.notation import n
from planner.notation_hardware import n_fail, n_seen, t_res, t_seen, x_slow
from planner.quantity import quantity

YOUNG = "Young 1974, A first order approximation to the optimum checkpoint interval; Daly 2006"


@quantity(
    "time.between_failures",
    symbol=r"t_{\mathrm{MTBF}}",
    unit="s",
    title="mean time between interruptions of the run",
    source="interruptions counted on such a cluster (cluster.failures)",
    exact=False,
)
def between_failures():
    """Each device fails as often as those that were watched, and any of n stops the run."""
    return t_seen * n_seen / (n_fail * n)


@quantity(
    "checkpoint.interval_seconds",
    symbol=r"t_{\mathrm{int}}",
    unit="s",
    title="best time between checkpoints",
    source=YOUNG,
    exact=False,
)
def interval():
    """Seldom enough to write little, often enough to lose little: the root of twice the product of
    writing time and time between failures."""
    return sqrt(2 * write * between_failures)


@quantity(
    "time.goodput",
    symbol=r"g_{\mathrm{run}}",
    unit="1",
    title="share of the time that moves the run forward",
    source=YOUNG,
    exact=False,
)
def goodput():
    """Less the writing of checkpoints, and for each interruption half an interval that is lost
    and the restart. Stragglers and loss spikes are not in it."""
    return 1 - write / interval - (interval / 2 + t_res) / between_failures


@quantity(
    "time.straggler_days",
    symbol=r"t_{\mathrm{slow}}",
    unit="days",
    title="days that stragglers add",
    source="Lin et al. 2025 (arXiv 2505.05713): a step waits for its slowest device",
    exact=False,
)
def straggler_days():
    """The share by which slow devices lengthen the steps of all (cluster.stragglers)."""
    return training_days * x_slow


CHECKPOINTS: dict[str, Any] = {
    "identifier": "time.checkpoint_days",
    "symbol": r"t_{\mathrm{wr}}",
    "unit": "days",
    "title": "days of writing checkpoints",
    "source": YOUNG,
    "exact": False,
}
FAILURES: dict[str, Any] = {
    "identifier": "time.failure_days",
    "symbol": r"t_{\mathrm{lost}}",
    "unit": "days",
    "title": "days lost to interruptions",
    "source": YOUNG,
    "exact": False,
}
RUN: dict[str, Any] = {
    "identifier": "time.run_days",
    "symbol": r"t_{\mathrm{cal}}",
    "unit": "days",
    "source": "sum of its parts",
    "exact": False,
}
SLOWED = {"time.stragglers_given": True}
EVEN = {"time.stragglers_given": False}


def _written(steps):
    return steps / goodput * write / interval


def _lost(steps):
    return steps / goodput * (interval / 2 + t_res) / between_failures


@quantity(**CHECKPOINTS, when=EVEN)
def checkpoint_days():
    """Of the days on the calendar, one writing in each interval."""
    return _written(training_days)


@quantity(**CHECKPOINTS, when=SLOWED)
def checkpoint_days_slowed():
    """As without stragglers, of days that are longer by them."""
    return _written(training_days + straggler_days)


@quantity(**FAILURES, when=EVEN)
def failure_days():
    """Of the days on the calendar, half an interval and a restart for each interruption."""
    return _lost(training_days)


@quantity(**FAILURES, when=SLOWED)
def failure_days_slowed():
    """As without stragglers, of days that are longer by them."""
    return _lost(training_days + straggler_days)


@quantity(**RUN, title="days of the run with interruptions", when=EVEN)
def run_days():
    """Training, checkpoints and what interruptions cost; the cluster states no share of stragglers
    (cluster.stragglers), which are not in it. It is training over goodput."""
    return training_days + checkpoint_days + failure_days


@quantity(**RUN, title="days of the run with interruptions and stragglers", when=SLOWED)
def run_days_slowed():
    """Training, waiting for stragglers, checkpoints and what interruptions cost."""
    return training_days + straggler_days + checkpoint_days + failure_days


@quantity(
    "time.run_device_hours",
    symbol=r"t_{\mathrm{dev,cal}}",
    unit="h",
    title="device hours of the run with interruptions",
    source="definition",
    exact=False,
)
def run_device_hours():
    """Every device for the days of the run; a day has 24 hours."""
    return 24 * n * run_days
