"""Fits the constants of predicted time to published runs, and says how firm they are.

``python -m benchmarks.calibrate --runs FILE`` evaluates the plan documents of all rows through the
book, takes the sensitivity of each predicted time to each constant, and fits the constants to the
mean absolute error over sources. It prints each constant with its interval (resampled sources) and,
for every source, the error with it and the error of a fit that never saw it. It changes no file:
the values are entered by hand, as facts, in presets/efficiency and presets/accelerators.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import runs_time, time_accuracy
from benchmarks.runs_memory import LeftOut
from planner import case, notation_hardware, plan
from planner.errors import PlanError
from planner.evaluate import Absent, Evaluation

#: Documents of one source that enter the fit, at most: the largest has hundreds of one kind.
MOST = 50
STEP = 1.02
#: A source counts the more the better its rows agree among themselves, down to this error.
NOISE = 0.03
#: Constant: symbol, and the accelerators and formats that it holds for (empty: all).
SHARED = ("e_mem", "e_link", "e_net", "hidden_t", "e_a2a", "d_min", "k_64", "t_la", "k_ew")
LIMITS = dict.fromkeys(
    ("matmul tpu", "matmul gb300 8-bit", "e_mem", "e_link", "e_net", "e_a2a"), 1.0
) | {"hidden_t": 0.9}


def family(accelerator: str) -> str:
    """Which accelerators share a calibrated matmul rate."""
    name = accelerator.split("-")[0]
    return {"gb200": "b200", "b300": "gb300", "h200": "h100", "h800": "h100"}.get(name, name)


def constants(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(constant, symbol) of everything fitted that a plan rests on."""
    name = family(document["cluster"]["accelerator"])
    precision = document["training"]["precision"]
    found = [(symbol, symbol) for symbol in SHARED if symbol != "k_ew"]
    if document["training"]["implementation"] in ("pytorch", "nanotron") and "time" not in document:
        found.append(("k_ew", "k_ew"))
    wide = "b200" if name == "gb300" else name
    found.append((f"matmul {wide}", "e_16"))
    if precision == "nvfp4":
        found += [(f"matmul {name} 8-bit", "e_mm"), ("4-bit to 8-bit", "e_mm")]
    elif precision == "fp8" and name in ("b200", "gb300"):
        found.append((f"matmul {name} 8-bit", "e_mm"))
    else:
        found.append((f"matmul {wide}", "e_mm"))
    vendor = document["training"]["implementation"] == "megatron"
    found.append(
        (f"attention {wide}" if vendor and wide in ("h100", "b200") else "attention open", "e_att")
    )
    return found


def documents(file: Path) -> list[tuple[str, str, dict[str, Any], float]]:
    """(source, id, document, measured seconds of a step) of each run."""
    found: dict[str, tuple[str, str, dict[str, Any], float]] = {}
    plans = time_accuracy.Plans()
    for row in time_accuracy.rows(file):
        stem = row["id"].rstrip("abcdefgh")
        if stem in found:
            continue
        try:
            document = runs_time.document(row)
            evaluation = plans.evaluation(document)
            value = time_accuracy.predicted(row, evaluation)
            ratio = value / float(row["value"])
            seconds = float(evaluation.value("time.step_seconds"))
        except (LeftOut, Absent, PlanError):
            continue
        true = seconds / ratio if row["measured_quantity"] == "step_time_s" else seconds * ratio
        found[stem] = (runs_time.source(row), row["id"], document, true)
    return thinned(list(found.values()))


def thinned(runs: list[Any]) -> list[Any]:
    """At most so many runs of one source, evenly spread."""
    kept = []
    for source in sorted({run[0] for run in runs}):
        group = [run for run in runs if run[0] == source]
        step = max(1, -(-len(group) // MOST))
        kept += group[::step]
    return kept


def sensitivities(task: tuple[dict[str, Any], dict[str, float]]) -> tuple[float, dict[str, float]]:
    """Predicted seconds under given factors on the constants, and d log seconds / d log factor."""
    document, factors = task
    base = case.build(plan.load(document))
    pairs = constants(document)

    def seconds(factors: Mapping[str, float]) -> float:
        bindings = dict(base.bindings)
        for name, symbol in pairs:
            key = getattr(notation_hardware, symbol)
            if isinstance(bindings.get(key), (int, float, Fraction)):
                bindings[key] = float(bindings[key]) * factors.get(name, 1.0)
        return float(Evaluation(replace(base, bindings=bindings)).value("time.step_seconds"))

    now = seconds(factors)
    slopes = {}
    for name in dict.fromkeys(name for name, _ in pairs):
        moved = {**factors, name: factors.get(name, 1.0) * STEP}
        slopes[name] = float(np.log(seconds(moved) / now) / np.log(STEP))
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
            share = 0.35 if name.endswith(" experts") and "simumax" not in name else 1.0
            noise = max(float(np.mean(np.abs(part))), NOISE)
            weight[rows] = share * NOISE / noise / len(rows) / np.maximum(np.abs(part), 0.01)
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


def fit(runs: Sequence[Any], offset: set[str], rounds: int, pool: Any) -> None:
    sources = np.array([run[0] for run in runs])
    measured = np.log([run[3] for run in runs])
    factors: dict[str, float] = {}
    names: list[str] = []
    start: dict[str, float] = {}
    for document in (run[2] for run in runs):
        plan_ = case.build(plan.load(document))
        for name, symbol in constants(document):
            key = getattr(notation_hardware, symbol)
            if name == "4-bit to 8-bit":
                start[name] = 0.81
            elif name.endswith("8-bit") and document["training"]["precision"] == "nvfp4":
                start.setdefault(name, float(plan_.bindings[key]) / 0.81)
            elif isinstance(plan_.bindings.get(key), (int, float, Fraction)):
                start[name] = float(plan_.bindings[key])
    names = sorted(start)
    factors = dict.fromkeys(names, 1.0)
    for round_ in range(rounds + 1):
        results = pool.map(sensitivities, [(run[2], factors) for run in runs], chunksize=8)
        residual = np.log([now for now, _ in results]) - measured
        jacobian = np.array([[slopes.get(name, 0.0) for name in names] for _, slopes in results])
        found = errors(residual, sources, offset)
        dense = [e for s, e in found.items() if not s.endswith(" experts") or "simumax" in s]
        print(f"round {round_}: mean over sources {100 * np.mean(dense):.2f} %", flush=True)
        low = np.full(len(names), -0.35)
        high = np.array(
            [
                min(0.35, np.log(LIMITS.get(n, np.inf) / (start[n] * factors[n]) + 1e-12))
                for n in names
            ]
        )
        high = np.maximum(high, 0.0)
        if round_ < rounds:
            move = solve(jacobian, residual, sources, low, high, offset)
            factors = {n: factors[n] * float(np.exp(m)) for n, m in zip(names, move, strict=True)}
    spread = resampled(jacobian, residual, sources, low, high, offset)
    print(f"\n{'constant':24s} {'value':>10s}  5 to 95 %")
    for i, name in enumerate(names):
        value = start[name] * factors[name]
        a, b = value * np.exp(np.percentile(spread[:, i], [5, 95]))
        print(f"{name:24s} {value:10.4g}  {a:.4g} to {b:.4g}")
    print(f"\n{'source':24s} {'fitted':>8s} {'left out':>9s}")
    for name, error in found.items():
        rest = sources != name
        move = solve(jacobian[rest], residual[rest], sources[rest], low, high, offset)
        without = errors((residual + jacobian @ move)[~rest], sources[~rest], offset)[name]
        print(f"{name:24s} {100 * error:7.1f} % {100 * without:7.1f} %")


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
    parser.add_argument("--runs", type=Path, required=True, help="CSV file of measured runs")
    parser.add_argument("--rounds", type=int, default=3, help="fits, each at the last one's values")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    runs = documents(options.runs)
    offset = {
        runs_time.source(row) for row in time_accuracy.rows(options.runs) if row["use"] == "offset"
    }
    with Pool(options.jobs) as pool:
        fit(runs, offset, options.rounds, pool)


if __name__ == "__main__":
    main()
