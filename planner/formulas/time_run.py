"""The run around the step: interruptions, checkpoints, and what is left of the time."""

from sympy import sqrt

from planner.formulas.checkpoint import write
from planner.formulas.time import device_hours, training_days
from planner.notation import n
from planner.notation_hardware import n_fail, n_seen, t_res, t_seen
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
    "time.run_days",
    symbol=r"t_{\mathrm{cal}}",
    unit="days",
    title="days of the run with interruptions",
    source="definition",
    exact=False,
)
def run_days():
    """The days of training over the share of time that moves the run forward."""
    return training_days / goodput


@quantity(
    "time.run_device_hours",
    symbol=r"t_{\mathrm{dev,cal}}",
    unit="h",
    title="device hours of the run with interruptions",
    source="definition",
    exact=False,
)
def run_device_hours():
    """The device hours of training over the share of time that moves the run forward."""
    return device_hours / goodput
