"""The run around the step: interruptions, checkpoints, and what is left of the time."""

from planner.book.formulas.checkpoint import stall, write
from planner.book.formulas.time import training_days
from planner.book.language import *

DALY = (
    "Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps "
    "(doi 10.1016/j.future.2004.11.016)"
)

days = partial(estimate, unit="days", scales_with="time")
by_daly = partial(estimate, source=DALY)
of_interval = partial(seconds, source=DALY)

between_failures = seconds(
    "time.between_failures",
    "t_MTBF",
    "mean time between interruptions of the run",
    source="interruptions counted on such a cluster (cluster.failures)",
    interrupted=True,
).equals(
    t_seen * n_seen / (n_fail * n),
    "Each device fails as often as those that were watched, and any of n stops the run.",
)

ratio = by_daly(
    "checkpoint.ratio",
    r"\rho_ckpt",
    "root of a checkpoint's stall over twice the time between interruptions",
).equals(
    minimum(1, sqrt(stall / (2 * between_failures))),
    "What the best interval is a series in. It holds below 1: where a checkpoint takes longer than "
    "twice the time between interruptions, the interval stays what it is there.",
)

_best = 2 * ratio - make_fraction(4, 3) * ratio**2 + make_fraction(2, 9) * ratio**3
interval = of_interval(
    "checkpoint.interval_seconds", "t_int", "best time of training between checkpoints"
).equals(
    maximum(between_failures * _best, write - stall),
    "Seldom enough to stand still little, often enough to lose little: the root of twice the "
    "product of both times and two terms of higher order. A checkpoint in the background is done "
    "before the next one begins.",
)

_half = tanh((interval + stall) / (2 * between_failures))
kept = of_interval(
    "checkpoint.kept_seconds",
    "t_kept",
    "training between two interruptions that all checkpoints but the first keep",
).equals(
    interval * (1 - _half) / (2 * _half),
    "An interval of training for each that passes with its checkpoint before the next interruption "
    "comes: on average 1/(e^y - 1) of them, with y for both over the time between interruptions. "
    "The tangent stands for it, 2 tanh(y/2) / (1 - tanh(y/2)) = e^y - 1, which few interruptions "
    "leave as exact.",
)

_first = minimum(interval, maximum(0, between_failures - kept))
_passed = exp(-(t_res + _first + write) / between_failures)
goodput = by_daly(
    "time.goodput",
    "g_run",
    "share of the time that moves the run forward",
    within=SHARE,
    finishes=True,
    beyond="the run cannot finish: interruptions (cluster.failures) come so often that no "
    "checkpoint is written between two of them",
).equals(
    _passed * minimum(1, (interval + kept) / between_failures),
    "Interruptions come at any time, also while a checkpoint is written and while the run is "
    "restarted; what is in the background then is lost too. After one, restart, the training up to "
    "the first checkpoint and its writing pass without another, or nothing is kept: e^-(sum of "
    "them over the time between interruptions). That training is an interval, or shorter where "
    "intervals wait for checkpoints in the background, so that the most is kept; and no less than "
    "0, which a difference of rounded numbers may be. Stragglers are not in it.",
)

straggler_days = days(
    "time.straggler_days",
    "t_slow",
    "days that stragglers add",
    source="Lin et al. 2025 (arXiv 2505.05713): a step waits for its slowest device",
).equals(
    training_days * x_slow,
    "The share by which slow devices lengthen the steps of all (cluster.stragglers).",
)

#: What checkpoints and interruptions take for each day of training.
_written = stall / interval
_lost = maximum(0, 1 / goodput - 1 - stall / interval)
checkpoint_days = days(
    "time.checkpoint_days", "t_wr", "days of standing still for checkpoints", source=DALY
)
failure_days = days("time.failure_days", "t_lost", "days lost to interruptions", source=DALY)
for _days, _share, _why in (
    (checkpoint_days, _written, "Training stands still once in each interval of training."),
    (failure_days, _lost, "What goodput leaves for them: work that is done again, and restarts."),
):
    _days.where(stragglers_given=False).equals(training_days * _share, _why)
    _days.where(stragglers_given=True).equals(
        (training_days + straggler_days) * _share,
        "As without stragglers, of days that are longer by them.",
    )

run_days = days(
    "time.run_days", "t_cal", "days of the run with interruptions", source="sum of its parts"
)
run_days.where(stragglers_given=False).equals(
    training_days + checkpoint_days + failure_days,
    "Training, checkpoints and what interruptions cost; the cluster states no share of stragglers "
    "(cluster.stragglers), which are not in it. It is training over goodput.",
)
run_days.where(
    stragglers_given=True, title="days of the run with interruptions and stragglers"
).equals(
    training_days + straggler_days + checkpoint_days + failure_days,
    "Training, waiting for stragglers, checkpoints and what interruptions cost.",
)

run_device_hours = estimate(
    "time.run_device_hours",
    "t_dev,cal",
    "GPU hours of the run with interruptions",
    unit="h",
    scales_with="time",
    source="definition",
).equals(24 * n * run_days, "Every device for the days of the run; a day has 24 hours.")

mixed_days = days(
    "time.mixed_days",
    "t_mix",
    "days of a run on spot devices first, then on demand",
    source="sum of its parts",
).equals(
    x_spot * run_days + (1 - x_spot) * training_days,
    "A share of the run (cluster.spot_share) with interruptions, the rest without.",
)
