"""What a laboratory gains that calibrates on a few of its runs, on published ones.

    python -m benchmarks.laboratories --runs FILE [--runs FILE …] [--own 6] [--draws 4]

Of each source with enough runs some are drawn, rates are fitted to them as ``plan.py calibrate``
does, and the others are predicted: mean error by shipped rates and by fitted ones, how many of them
lie in the interval of either, and how wide it is (upper over lower end). ``--markdown FILE``
rewrites the table between the markers of a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from random import Random
from statistics import fmean

from benchmarks import calibrate, tables
from planner.connect.calibrate import fit, laboratory
from planner.plans import error_bands as bands

MARK = "laboratories"
#: Runs that are left to be predicted, at least and at most.
LEAST, MOST = 4, 24


#: Of one run that was left to be predicted: its error (predicted over measured, less 1), whether it
#: lies in the interval, and how wide that is; each by shipped rates and by fitted ones.
Outcome = tuple[list[float], list[bool], list[float]]


def outcomes(runs: Sequence[fit.Run], own: int, draws: int) -> list[Outcome]:
    """Of runs of one laboratory, some of which it calibrates on."""
    rates, random, found = laboratory.list_rates(runs), Random(0), list[Outcome]()
    for _ in range(draws):
        drawn = random.sample(runs, min(len(runs), own + MOST))
        some, others = drawn[:own], drawn[own:]
        kinds = [laboratory.find_scatter(run.evaluation) for run in some]
        fitted = fit.fit_rates(some, kinds, rates)
        settings = [run.evaluation.case.settings for run in some]
        ours = {(b.workload, b.scale): b for b in laboratory.derive_bands(settings, kinds, fitted)}
        factors = {
            rate: exp(move) for rate, move in zip(fitted.rates, fitted.moves.tolist(), strict=True)
        }
        for run in others:
            said = run.evaluation.case.settings
            what = bands.workload(said)
            shipped = bands.find_time_band(what, said)
            published = float(shipped.low), float(shipped.high)
            band = ours.get((what, said["time.scale"])) or ours.get((what, "nodes"))
            ends = published, (band.low, band.high) if band else published
            off = [run.predict_step(by) / run.measured - 1 for by in ({}, factors)]
            inside = [
                low <= 1 / (1 + error) - 1 <= high
                for error, (low, high) in zip(off, ends, strict=True)
            ]
            width = [(1 + high) / (1 + low) for low, high in ends]
            found.append((off, inside, width))
    return found


def means(runs: Sequence[calibrate.Run], own: int, draws: int) -> dict[str, list[float]]:
    """Of each source with enough runs how many it has, then error, share inside and width by
    shipped rates, and by fitted ones."""
    found: dict[str, list[float]] = {}
    for source in sorted({run.source for run in runs}):
        steps = [run.step for run in runs if run.source == source]
        if len(steps) < own + LEAST:
            continue
        each = outcomes(steps, own, draws)
        found[source] = [len(steps)]
        for way in (0, 1):
            found[source] += [
                fmean(abs(error[way]) for error, _, _ in each),
                fmean(inside[way] for _, inside, _ in each),
                exp(fmean(log(width[way]) for _, _, width in each)),
            ]
    return found


def lines(found: Mapping[str, Sequence[float]]) -> list[tuple[str, ...]]:
    """A row for each source, and their mean."""
    head = ("source", "runs", "error", "calibrated", "inside", "calibrated", "width", "calibrated")
    body = [(source, f"{mean[0]:.0f}", *_cells(mean)) for source, mean in found.items()]
    several = [fmean(column) for column in zip(*found.values(), strict=True)]
    return [head, *body, (f"mean over {len(found)} sources", "", *_cells(several))]


def _cells(mean: Sequence[float]) -> tuple[str, ...]:
    _, error, inside, width, own_error, own_inside, own_width = mean
    shares = (f"{100 * share:.0f} %" for share in (inside, own_inside))
    errors = (f"{100 * share:.1f} %" for share in (error, own_error))
    return (*errors, *shares, f"{width:.2f}", f"{own_width:.2f}")


def main() -> None:
    parser = tables.make_parser(__doc__)
    parser.add_argument("--own", type=int, default=6, help="runs that are calibrated on")
    parser.add_argument("--draws", type=int, default=4, help="of such runs, from each source")
    options = parser.parse_args()
    runs = [run for file in options.runs for run in calibrate.published(file)]
    tables.publish(options, MARK, lines(means(runs, options.own, options.draws)))


if __name__ == "__main__":
    main()
