"""Fits the constants of predicted time to published runs, and says how firm they are.

``python -m benchmarks.calibrate --runs FILE`` takes the derivative of each run's predicted time by
each constant, and fits the constants to the mean absolute errors of the sources, each counted the
more the better its rows agree. It prints each constant with its interval (rows drawn again within
each source) and, for every source, the error with it and the error of a fit that never saw it;
``--markdown FILE`` rewrites that table between the markers of a page. The traffic of unfused
kernels stands as a factor of what the implementations' profiles say. It changes no constant: the
values are entered by hand, as facts, in presets/efficiency, presets/accelerators and
presets/implementations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import measured, tables
from planner.connect.calibrate import fit as fitting
from planner.connect.calibrate.fit import Rate
from planner.questions import loading

MARK = "calibrate"
#: Runs of one source that enter the fit, at most: the largest has hundreds of one kind.
MOST = 150
#: A source counts the more the better its rows agree among themselves, down to this error.
NOISE = 0.03
#: A source with fewer rows counts less.
ENOUGH = 5
#: How far a constant may move in one fit, as a logarithm.
REACH = 0.35


class Run(NamedTuple):
    """A published run over the constants that it rests on."""

    source: str
    step: fitting.Run


def published(file: Path) -> list[Run]:
    """Each run of the file whose plan leaves nothing open, by the value that it is judged by."""
    removed = offsets(file)
    rows = [
        row
        for row in measured.read(file)
        if row.quantity in measured.SPEED and (row.use == "yes" or row.group in removed)
    ]
    found, like = list[Run](), None
    for row, record in zip(rows, measured.compare(rows), strict=True):
        if not record["judged"] or "range" in record:
            continue
        run = fitting.run_of(loading.load(row.plan), 1.0, row.id, like)
        like, whole = run.evaluation, (1 + record["error"]) * (1 + record.get("removed", 0))
        bindings = run.evaluation.case.bindings
        places = [
            (rate, symbol)
            for rate, symbol in run.places
            # What rests on no run is no constant; unfused kernels are held against fused ones.
            if not rate.rows.startswith("none")
            or (rate.name == "elementwise" and bindings[symbol] != 1)
        ]
        step = replace(run, places=places, measured=run.predict_step({}) / whole)
        found.append(Run(row.group, step))
    return thinned(found)


def offsets(file: Path) -> set[str]:
    """Sources all of whose runs are judged after a common factor is removed."""
    rows = [row for row in measured.read(file) if row.quantity in measured.SPEED]
    return {row.group for row in rows} - {row.group for row in rows if row.use == "yes"}


def thinned(runs: list[Run]) -> list[Run]:
    """At most so many runs of one source, evenly spread."""
    kept = []
    for source in sorted({run.source for run in runs}):
        group = [run for run in runs if run.source == source]
        kept += group[:: max(1, -(-len(group) // MOST))]
    return kept


def solve(jacobian: Any, residual: Any, sources: Any, low: Any, high: Any, offset: set[str]) -> Any:
    """Moves of the log constants that minimise the mean absolute residual over sources
    (iteratively reweighted least squares with bounds)."""
    move = np.zeros(jacobian.shape[1])
    groups = {s: np.flatnonzero(sources == s) for s in sorted(set(sources))}
    ridge = np.full(len(move), 0.01 * len(groups))
    for _ in range(60):
        now = residual + jacobian @ move
        weight = np.zeros(len(now))
        for name, rows in groups.items():
            part = now[rows]
            if name in offset:
                part = part - np.median(part)
            noise = max(float(np.mean(np.abs(part))), NOISE)
            size = max(len(rows), ENOUGH)  # a source of few rows counts less
            weight[rows] = NOISE / noise / size / np.maximum(np.abs(part), 0.01)
        target = residual.copy()
        for name, rows in groups.items():
            if name in offset:  # a common factor of the source is free
                part = now[rows]
                target[rows] -= np.median(part)
        step = fitting.solve_squares(jacobian, target, weight, ridge, low, high)
        move = 0.5 * move + 0.5 * step
    return move


def errors(residual: Any, sources: Any, offset: set[str]) -> dict[str, float]:
    found = {}
    for name in sorted(set(sources)):
        part = residual[sources == name]
        part = part - np.median(part) if name in offset else part
        found[name] = float(np.mean(np.abs(np.exp(part) - 1)))
    return found


def fit(runs: Sequence[Run], offset: set[str], rounds: int) -> tables.Lines:
    """Prints the constants and the errors; returns the table of the errors."""
    sources = np.array([run.source for run in runs])
    steps = [run.step for run in runs]
    measured = np.log([step.measured for step in steps])
    rates = sorted({rate for step in steps for rate, _ in step.places})
    factors: Mapping[Rate, float] = dict.fromkeys(rates, 1.0)
    for round_ in range(rounds + 1):
        seconds, jacobian = fitting.derive_times(steps, rates, factors)
        residual = np.log(seconds) - measured
        found = errors(residual, sources, offset)
        dense = [error for name, error in found.items() if not name.endswith(" experts")]
        print(f"round {round_}: mean over dense sources {100 * np.mean(dense):.2f} %", flush=True)
        room = [(rate.least / rate.value / by, rate.most / rate.value / by)
                for rate, by in factors.items()]  # fmt: skip
        low, high = np.log(np.clip(np.transpose(room), *np.exp([-REACH, REACH])))
        if round_ < rounds:
            move = solve(jacobian, residual, sources, low, high, offset)
            by = np.exp(move) * np.array([*factors.values()])
            factors = dict(zip(rates, by.tolist(), strict=True))
    spread = resampled(jacobian, residual, sources, low, high, offset)
    print(f"\n{'constant':18s} {'value':>10s}  {'5 to 95 %':18s}  rests on")
    for i, (rate, by) in enumerate(factors.items()):
        value = rate.value * by
        a, b = value * np.exp(np.percentile(spread[:, i], [5, 95]))
        print(f"{rate.name:18s} {value:10.4g}  {f'{a:.4g} to {b:.4g}':18s}  {rate.rows}")
    rows = [("source", "fitted", "left out")]
    for name, error in found.items():
        rest = sources != name
        move = solve(jacobian[rest], residual[rest], sources[rest], low, high, offset)
        without = errors((residual + jacobian @ move)[~rest], sources[~rest], offset)[name]
        rows.append((name, f"{100 * error:.1f} %", f"{100 * without:.1f} %"))
    return rows


def resampled(
    jacobian: Any, residual: Any, sources: Any, low: Any, high: Any, offset: set[str]
) -> Any:
    """Moves of fits to rows drawn again with replacement, within each source."""
    random = np.random.default_rng(0)
    groups = [np.flatnonzero(sources == s) for s in sorted(set(sources))]
    moves = []
    for _ in range(60):
        rows = np.concatenate([random.choice(group, len(group)) for group in groups])
        moves.append(solve(jacobian[rows], residual[rows], sources[rows], low, high, offset))
    return np.array(moves)


def main() -> None:
    parser = tables.make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="fits, each at the last one's values")
    options = parser.parse_args()
    runs = [run for file in options.runs for run in published(file)]
    offset = {source for file in options.runs for source in offsets(file)}
    tables.publish(options, MARK, fit(runs, offset, options.rounds))


if __name__ == "__main__":
    main()
