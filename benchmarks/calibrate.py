"""Fits the constants of predicted time to published runs, and says how firm they are.

``python -m benchmarks.calibrate --runs FILE`` writes down what the book computes for the plan
of each run as a graph, takes the sensitivity of each predicted time to each constant, and
fits the constants to the mean absolute errors of the sources, each counted the more the better its
rows agree. It prints each constant with its interval (rows drawn again within each source) and, for
every source, the error with it and the error of a fit that never saw it; ``--markdown FILE``
rewrites that table between the markers of a page. It changes no constant: the values are entered
by hand, as facts, in presets/efficiency, presets/accelerators and presets/implementations.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import measured, tables
from planner.book import notation
from planner.book.expressions import Symbol
from planner.engine.evaluate import Evaluation
from planner.plans import hardware

MARK = "calibrate"
#: Runs of one source that enter the fit, at most: the largest has hundreds of one kind.
MOST = 150
STEP = 1.02
#: A source counts the more the better its rows agree among themselves, down to this error.
NOISE = 0.03
#: A source with fewer rows counts less.
ENOUGH = 5
#: Constants that belong to no accelerator; the others are named by what they belong to.
SHARED = ("e_mem", "e_net", "hidden_t", "e_a2a", "d_min", "k_64", "t_la")
#: Shares of a peak or of a bandwidth cannot be above 1.
SHARES = ("e_mem", "e_net", "hidden_t", "e_a2a")


def family(accelerator: str) -> str:
    """Which accelerators share a calibrated matmul rate."""
    name = accelerator.split("-")[0]
    return {"gb200": "b200", "b300": "gb300", "h200": "h100", "h800": "h100"}.get(name, name)


def constants(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(constant, symbol) of everything fitted that a plan rests on."""
    name = family(document["cluster"]["accelerator"])
    found = [(symbol, symbol) for symbol in SHARED]
    # Switches of older links pass values on; later ones add them up on the way.
    found.append(("link of V100 and A100" if name in ("v100", "a100") else "link", "e_link"))
    if document["training"]["implementation"] in ("pytorch", "nanotron") and "time" not in document:
        found.append(("k_ew", "k_ew"))
    wide = "b200" if name == "gb300" else name
    found.append((f"matmul {wide}", "e_16"))
    format_of = hardware.FORMATS[document["training"]["precision"]]
    narrow = format_of in hardware.SHARES and name in ("b200", "gb300")
    found.append((f"matmul {name} 8-bit" if narrow else f"matmul {wide}", "e_mm"))
    vendor = document["training"]["implementation"] == "megatron" and wide in ("h100", "b200")
    found.append((f"attention {wide}" if vendor else "attention open", "e_att"))
    return found


class Run(NamedTuple):
    """A published run: what the book computes for it, over numbers that can be moved."""

    source: str
    evaluation: Evaluation  # in floats
    places: list[tuple[str, Symbol]]  # constant and the symbol that holds it
    measured: float  # seconds of a step

    def seconds(self, factors: Mapping[str, float]) -> float:
        """Predicted time of a step under factors on the constants."""
        moved = self.evaluation
        for name, symbol in self.places:
            factor = factors.get(name, 1.0)
            moved = moved.varied(symbol, float(moved.case.bindings[symbol]) * factor)
        return float(moved.value("time.step_seconds"))


def published(file: Path) -> list[Run]:
    """Each run of the file whose plan leaves nothing open, by the value that it is judged by."""
    removed = offsets(file)
    rows = [
        row
        for row in measured.read(file)
        if row.quantity in measured.SPEED and (row.use == "yes" or row.group in removed)
    ]
    plans, found = measured.Plans(), []
    for row, record in zip(rows, measured.compare(rows, plans), strict=True):
        if not record["judged"] or "range" in record:
            continue
        (evaluation,) = plans.allowed(row)
        seconds = float(evaluation.value("time.step_seconds"))
        floats = Evaluation(evaluation.case, exact=False)
        floats.value("time.step_seconds")
        asked = {floats.graph.nodes[place][1][0] for place in floats.graph.inputs}
        places = [(name, getattr(notation, symbol)) for name, symbol in constants(row.plan)]
        places = [(name, symbol) for name, symbol in places if symbol in asked]
        whole = (1 + record["error"]) * (1 + record.get("removed", 0))
        found.append(Run(row.group, floats, places, seconds / whole))
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


def sensitivities(run: Run, factors: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """Predicted seconds under given factors on the constants, and d log seconds / d log factor."""
    now = run.seconds(factors)
    slopes = {}
    for name in dict.fromkeys(name for name, _ in run.places):
        moved = run.seconds({**factors, name: factors.get(name, 1.0) * STEP})
        slopes[name] = float(np.log(moved / now) / np.log(STEP))
    return now, slopes


def solve(jacobian: Any, residual: Any, sources: Any, low: Any, high: Any, offset: set[str]) -> Any:
    """Moves of the log constants that minimise the mean absolute residual over sources
    (iteratively reweighted least squares with bounds)."""
    move = np.zeros(jacobian.shape[1])
    groups = {s: np.flatnonzero(sources == s) for s in sorted(set(sources))}
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
        design = jacobian
        for name, rows in groups.items():
            if name in offset:  # a common factor of the source is free
                part = now[rows]
                target[rows] -= np.median(part)
        ridge = 0.01 * len(groups)
        left = design.T @ (weight[:, None] * design) + ridge * np.eye(design.shape[1])
        step = -np.linalg.solve(left, design.T @ (weight * target))
        move = np.clip(0.5 * move + 0.5 * step, low, high)
    return move


def errors(residual: Any, sources: Any, offset: set[str]) -> dict[str, float]:
    found = {}
    for name in sorted(set(sources)):
        part = residual[sources == name]
        part = part - np.median(part) if name in offset else part
        found[name] = float(np.mean(np.abs(np.exp(part) - 1)))
    return found


def fit(runs: Sequence[Run], offset: set[str], rounds: int) -> str:
    """Prints the constants and the errors; returns the table of the errors."""
    sources = np.array([run.source for run in runs])
    measured = np.log([run.measured for run in runs])
    start = {
        name: float(run.evaluation.case.bindings[symbol])
        for run in runs
        for name, symbol in run.places
    }
    names = sorted(start)
    factors = dict.fromkeys(names, 1.0)
    for round_ in range(rounds + 1):
        results = [sensitivities(run, factors) for run in runs]
        residual = np.log([now for now, _ in results]) - measured
        jacobian = np.array([[slopes.get(name, 0.0) for name in names] for _, slopes in results])
        found = errors(residual, sources, offset)
        dense = [error for name, error in found.items() if not name.endswith(" experts")]
        print(f"round {round_}: mean over dense sources {100 * np.mean(dense):.2f} %", flush=True)
        low = np.full(len(names), -0.35)
        room = [1 / (start[n] * factors[n]) if _share(n) else np.inf for n in names]
        high = np.clip(np.log(np.maximum(room, 1.0)), 0.0, 0.35)
        if round_ < rounds:
            move = solve(jacobian, residual, sources, low, high, offset)
            factors = {n: factors[n] * float(np.exp(m)) for n, m in zip(names, move, strict=True)}
    spread = resampled(jacobian, residual, sources, low, high, offset)
    print(f"\n{'constant':24s} {'value':>10s}  5 to 95 %")
    for i, name in enumerate(names):
        value = start[name] * factors[name]
        a, b = value * np.exp(np.percentile(spread[:, i], [5, 95]))
        print(f"{name:24s} {value:10.4g}  {a:.4g} to {b:.4g}")
    rows = ["| source | fitted | left out |", "|---|--:|--:|"]
    for name, error in found.items():
        rest = sources != name
        move = solve(jacobian[rest], residual[rest], sources[rest], low, high, offset)
        without = errors((residual + jacobian @ move)[~rest], sources[~rest], offset)[name]
        rows.append(f"| {name} | {100 * error:.1f} % | {100 * without:.1f} % |")
    return "\n".join(rows)


def _share(name: str) -> bool:
    return name in SHARES or name.startswith(("matmul", "attention", "link"))


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="measured runs (.jsonl)")
    parser.add_argument("--rounds", type=int, default=3, help="fits, each at the last one's values")
    parser.add_argument("--markdown", type=Path, help="page whose table is rewritten")
    options = parser.parse_args()
    runs = published(options.runs)
    offset = offsets(options.runs)
    table = fit(runs, offset, options.rounds)
    print(f"\n{table}")
    if options.markdown:
        tables.rewrite(options.markdown, {MARK: table})


if __name__ == "__main__":
    main()
