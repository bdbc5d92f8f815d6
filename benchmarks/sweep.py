"""Points per second of a sweep, beside the rate of a search; its peak memory; two workers for one.

    python -m benchmarks.sweep [--points N] [--format parquet|csv|jsonl] [--json FILE]

The study is GPT-3 on a cluster: layouts (some are not valid, some do not fit) times budgets of
tokens times prices. Each sweep is a process of its own with one worker; its processor time counts,
start-up and the writing of the table included, so that a busy machine does not change the figure
much. Memory is that of the whole process, for a tenth of the points and for all: flat where they
are alike. A second study has layouts alone, two quantities of each; in a third, neither plain keys
nor layouts change, so that every point is a plan of its own. The gain of two workers is in elapsed
time, so the machine must be idle for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import search
from planner.base.files import write_text
from planner.questions import loading

ROOT = Path(__file__).resolve().parent.parent
PLAN = "presets/gpt3_a100x1024.yaml"
LAYOUTS: dict[str, Any] = {
    "parallelism.tensor": [1, 2, 4, 8],
    "parallelism.pipeline": [1, 2, 4, 8, 16],
    "training.micro_batch": [1, 2, 4],
    "training.recompute": ["none", "selective", "full"],
    "parallelism.zero": [0, 1],
}
PRICES = 100


def study(points: int) -> dict[str, Any]:
    """A study of about so many points, most of them along plain axes."""
    layouts = 1
    for values in LAYOUTS.values():
        layouts *= len(values)
    budgets = max(2, round(points / layouts / PRICES))
    return {
        "name": "benchmark",
        "base": {"extends": "gpt3_a100x1024", "time": {"mfu": None}},
        "limit": 2 * points,
        "axes": {
            **LAYOUTS,
            "training.tokens": {"from": "100B", "to": "1T", "steps": budgets},
            "cluster.price": {"from": "1 USD/h", "to": "4 USD/h", "steps": PRICES},
        },
    }


def plans_alone() -> dict[str, Any]:
    """A study in which every point is a plan of its own."""
    axes = {
        "cluster.devices": {"from": 64, "to": 1536, "step": 64},
        "training.sequence_length": [512, 1024, 2048],
        "training.precision": ["bf16", "fp16", "fp32"],
        "training.global_batch": [768, 1536, 3072],
    }
    return {"base": study(1)["base"], "axes": axes}


def layouts_alone() -> dict[str, Any]:
    """A study of about 10^6 layouts, valid or not."""
    axes = {
        "parallelism.tensor": [1, 2, 4, 8],
        "parallelism.pipeline": [1, 2, 4, 8, 16, 32],
        "parallelism.context": [1, 2, 4, 8],
        "parallelism.virtual_pipeline": [1, 2, 3, 6],
        "training.micro_batch": [1, 2, 4, 8, 16, 32],
        "training.schedule": ["1f1b", "interleaved", "zero-bubble", "dualpipe"],
        "parallelism.sequence": [True, False],
        "parallelism.replicate": [1, 2, 4, 8],
        "parallelism.zero": [0, 1, 2, 3],
        "training.recompute": ["none", "selective", "full"],
    }
    record = ["memory.process", "time.step_seconds"]
    return {"base": study(1)["base"], "axes": axes, "record": record, "limit": 2_000_000}


def swept(document: Path, output: Path, *options: str) -> dict[str, float]:
    """One sweep in a process of its own: seconds elapsed and of processors, peak memory."""
    command = [sys.executable, str(ROOT / "plan.py"), "sweep", str(document), "-o", str(output)]
    start = time.perf_counter()
    child = subprocess.Popen([*command, *options], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"the sweep failed with status {status}")
    size = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "elapsed": time.perf_counter() - start,
        "seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": size,
    }


def measure(points: int, kind: str) -> dict[str, Any]:
    """The figures of one study."""
    with tempfile.TemporaryDirectory() as folder:
        document, output = Path(folder) / "study.yaml", Path(folder) / f"out.{kind}"

        def timed(data: dict[str, Any], *options: str) -> dict[str, float]:
            document.write_text(json.dumps(data), encoding="utf-8")
            return swept(document, output, *options)

        alone = plans_alone()
        of_plans = timed(alone, "--workers", "1")
        of_layouts = timed(layouts_alone(), "--workers", "1")
        tenth = timed(study(points // 10), "--workers", "1")
        whole = timed(study(points), "--workers", "1")
        two = timed(study(points), "--workers", "2")
    # Last: a process counts what the one that started it held before as its own peak memory.
    of_search = search.measure(loading.load(PLAN), 0)
    count = _size(study(points))
    return {
        "points": count,
        "format": kind,
        "points_per_second": count / whole["seconds"],
        "search_per_second": of_search["layouts_per_second"],
        "ratio": count / whole["seconds"] / of_search["layouts_per_second"],
        "layouts_per_second": _size(layouts_alone()) / of_layouts["seconds"],
        "plans_per_second": _size(alone) / of_plans["seconds"],
        "peak_bytes": whole["peak_bytes"],
        "peak_bytes_of_a_tenth": tenth["peak_bytes"],
        "two_workers": whole["elapsed"] / two["elapsed"],
        "seconds_of_one": whole["seconds"],
        "seconds_of_two": two["seconds"],
        "load": os.getloadavg()[0],
    }


def _size(document: dict[str, Any]) -> int:
    from planner.questions.studies import study as studies

    return studies.read_study(document).size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), default="parquet")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    row = measure(options.points, options.format)
    print(f"{row['points']:,} points as {row['format']}")
    print(f"  sweep                {row['points_per_second']:>12,.0f}  points a second and core")
    print(f"  whole search         {row['search_per_second']:>12,.0f}  layouts a second and core")
    print(f"  ratio                {row['ratio']:>12.2f}")
    print(f"  layouts alone        {row['layouts_per_second']:>12,.0f}  points a second and core")
    print(f"  plans of their own   {row['plans_per_second']:>12,.0f}  points a second and core")
    print(f"  peak memory          {row['peak_bytes'] / 1e6:>12,.0f}  MB")
    print(f"  of a tenth           {row['peak_bytes_of_a_tenth'] / 1e6:>12,.0f}  MB")
    print(f"  two workers          {row['two_workers']:>12.2f}  times as fast as one")
    print(
        f"  processor time       {row['seconds_of_two']:>12.2f}  s; of one worker alone "
        f"{row['seconds_of_one']:.2f}"
    )
    print(f"  load                 {row['load']:>12.2f}  of the machine, in the last minute")
    if options.json:
        write_text(options.json, json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
