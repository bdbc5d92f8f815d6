"""From times to rates: medians, spreads and fits, in floating point like the times themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from planner.connect.measure.expected import ProductTime
from planner.connect.measure.jobs import Collective, Product

#: Widths that are tried, relative to the calibrated one, and by how much a better one must agree.
WIDTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
BETTER = 0.02


@dataclass(frozen=True)
class Share:
    """A calibrated figure, what it rests on, and where 5 to 95 % of the evidence lie.

    Attributes:
        value: the figure.
        rows: the evidence, in words.
        interval: its 5th and 95th percentile; None for a single value.
        unit: s for seconds, else empty.
        remarks: comments to write above it.
    """

    value: float
    rows: str
    interval: tuple[float, float] | None = None
    unit: str = ""
    remarks: tuple[str, ...] = ()


def find_spread(samples: Sequence[float]) -> tuple[float, float]:
    """Find what 5 and 95 % of the samples lie below."""
    if len(samples) < 2:
        return samples[0], samples[0]
    cuts = quantiles(samples, n=20, method="inclusive")
    return cuts[0], cuts[-1]


def fit_products(
    times: Mapping[Product, Sequence[float]], expected: Mapping[Product, ProductTime]
) -> tuple[dict[Product, list[float]], float | None]:
    """Fit the rate of large products in every sample, with what small widths cost divided out: of
    the calibrated width and some others, take the one under which products of all sizes agree best,
    which comes second where it is not the calibrated one."""
    calibrated = next(iter(expected.values())).small_dimension
    typical = {job: median(found) for job, found in times.items()}
    tried = {
        width: {job: expected[job].rate(time, calibrated * width) for job, time in typical.items()}
        for width in WIDTHS
    }

    def disagreement(width: float) -> float:
        """Compare the fastest and the slowest rate that products have under a width."""
        found = tried[width].values()
        return max(found) / min(found) - 1 if min(found) > 0 else float("inf")

    # How uncertain the median time of one product is, typically, as a share of it.
    ends = {job: find_spread(found) for job, found in times.items()}
    noise = median(
        (ends[job][1] - ends[job][0]) / typical[job] / math.sqrt(len(found))
        for job, found in times.items()
    )
    best = min(WIDTHS, key=disagreement)
    if disagreement(1.0) - disagreement(best) < max(BETTER, noise):
        best = 1.0
    sustained = {
        job: [tried[best][job] * typical[job] / each for each in found]
        for job, found in times.items()
        if tried[best][job] > 0
    }
    return sustained, None if best == 1.0 else float(calibrated * best)


def fit_link(
    times: Mapping[Collective, Sequence[float]],
    volumes: Mapping[Collective, float],
    hops: Mapping[Collective, float],
) -> tuple[list[float], float] | None:
    """Fit what collectives sustain: bandwidth from the largest messages and latency from the
    smallest, each less the other's part.

    Args:
        times: seconds of each run, by collective.
        volumes: bytes over the link.
        hops: how often a message hops.

    Returns:
        Bytes/s in every sample of the largest messages, and seconds of a hop; None without a ring.
    """
    rings = [job for job in times if job.kind != "all-to-all"]
    if not rings:
        return None
    most, least = max(job.size for job in rings), min(job.size for job in rings)
    large = [job for job in rings if job.size == most]
    small = [job for job in rings if job.size == least]
    typical = {job: median(times[job]) for job in rings}
    rate, latency = float("inf"), 0.0
    for _ in range(20):
        latency = median(max(typical[job] - volumes[job] / rate, 0) / hops[job] for job in small)
        rest = {job: max(typical[job] - latency * hops[job], 1e-9) for job in large}
        rate = median(volumes[job] / rest[job] for job in large)
    samples = [
        volumes[job] / max(each - latency * hops[job], 1e-9) for job in large for each in times[job]
    ]
    return samples, latency
