"""Points per second of a sweep, beside the rate of a search; its peak memory; two workers for one.

    python -m benchmarks.sweep [--points N] [--format csv|parquet] [--on dask] [--json FILE]

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
from planner import plan as plans
from planner.files import write_text

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


def on_dask(document: Path, output: Path, workers: int) -> dict[str, float]:
    """A sweep on a local Dask cluster of so many processes of one thread, the start of which is
    not part of it: seconds elapsed, and processor seconds of this process, which holds client and
    scheduler, as a share of those of one worker."""
    from distributed import Client, LocalCluster

    from planner.sweep import run
    from planner.sweep import study as studies

    read = studies.load(document)
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        before = client.run(time.process_time)
        start, own = time.perf_counter(), time.process_time()
        run.sweep(read, output, on=address)
        elapsed, own = time.perf_counter() - start, time.process_time() - own
        spent = [after - before[at] for at, after in client.run(time.process_time).items()]
    return {"elapsed": elapsed, "client_share": own / (sum(spent) / len(spent))}


def measure(points: int, kind: str, dask: bool) -> dict[str, Any]:
    """The figures of one study."""
    of_search = search.measure(plans.load(PLAN), 0)
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
        clusters = [on_dask(document, output, count) for count in (1, 2)] if dask else []
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
        "two_dask_workers": clusters[0]["elapsed"] / clusters[1]["elapsed"] if clusters else None,
        "dask_client_share": clusters[1]["client_share"] if clusters else None,
    }


def _size(document: dict[str, Any]) -> int:
    from planner.sweep import study as studies

    return studies.load(document).size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), default="csv")
    parser.add_argument("--on", choices=("dask",), help="two workers of a local cluster too")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    row = measure(options.points, options.format, options.on == "dask")
    print(f"{row['points']:,} points as {row['format']}")
    print(f"  sweep                {row['points_per_second']:>12,.0f}  points a second and core")
    print(f"  whole search         {row['search_per_second']:>12,.0f}  layouts a second and core")
    print(f"  ratio                {row['ratio']:>12.2f}")
    print(f"  layouts alone        {row['layouts_per_second']:>12,.0f}  points a second and core")
    print(f"  plans of their own   {row['plans_per_second']:>12,.0f}  points a second and core")
    print(f"  peak memory          {row['peak_bytes'] / 1e6:>12,.0f}  MB")
    print(f"  of a tenth           {row['peak_bytes_of_a_tenth'] / 1e6:>12,.0f}  MB")
    print(f"  two workers          {row['two_workers']:>12.2f}  times as fast as one")
    if row["two_dask_workers"] is not None:
        print(f"  two Dask workers     {row['two_dask_workers']:>12.2f}  times as fast as one")
        print(f"  client and scheduler {row['dask_client_share']:>12.0%}  of a worker's processor")
    if options.json:
        write_text(options.json, json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
