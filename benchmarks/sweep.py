"""Points per second of a sweep, beside the rate of a search; its peak memory; two workers for one.

    python -m benchmarks.sweep [--points N] [--format parquet|csv|jsonl]
                              [--on dask [--pairs N] [--share S]] [--json FILE]

The study is GPT-3 on a cluster: layouts (some are not valid, some do not fit) times budgets of
tokens times prices. Each sweep is a process of its own with one worker; its processor time counts,
start-up and the writing of the table included, so that a busy machine does not change the figure
much. Memory is that of the whole process, for a tenth of the points and for all: flat where they
are alike. A second study has layouts alone, two quantities of each; in a third, neither plain keys
nor layouts change, so that every point is a plan of its own. The gain of two workers is in elapsed
time, so the machine must be idle for it.

A cluster of two workers is four processes: client and scheduler work too. On two cores they take
turns with the workers. ``--share 0.5`` holds each worker to half a core, by Linux's control groups
and as root, so that the other two have a core of their own, as they have on a cluster.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
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


def on_dask(
    document: Path, output: Path, workers: int, share: float | None = None
) -> dict[str, float]:
    """A sweep on a Dask cluster of so many processes of one thread: seconds elapsed, and processor
    seconds of one worker, of this process, the client, and of the scheduler's. The start of the
    cluster is not part of it, nor that its workers load the program, which they do while the study
    is read. Dask's own settings are as they come, its profiler of workers included.

    Args:
        share: of a core that each worker has at most.
    """
    from distributed import Client

    from planner.questions.studies import outputs, run
    from planner.questions.studies import study as studies
    from planner.questions.studies.engines import reached

    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe()
    cluster = processes.Process(target=_cluster, args=(workers, there))
    cluster.start()
    try:
        address = here.recv()
        with Client(address) as client, ExitStack() as held:
            client.run(importlib.import_module, "planner.questions.studies.work")
            for pid in client.run(os.getpid).values() if share else ():
                held.enter_context(_held(pid, share))
            on = address.replace("tcp://", "dask://")
            engine = held.enter_context(reached(None, on, outputs.table(str(output))))
            read = studies.load(document)  # while workers load the rest, as the command does it

            def spent() -> tuple[float, float, float]:
                of_workers = client.run(time.process_time).values()
                of_scheduler = client.run_on_scheduler(time.process_time)
                return time.process_time(), of_scheduler, sum(of_workers) / workers

            before, start = spent(), time.perf_counter()
            run.sweep(read, output, on=engine)
            elapsed, after = time.perf_counter() - start, spent()
        here.send("done")
    finally:
        cluster.join()
    client_s, scheduler_s, worker_s = (b - a for a, b in zip(before, after, strict=True))
    return {
        "elapsed": elapsed,
        "worker": worker_s,
        "client": client_s,
        "scheduler": scheduler_s,
    }


def of_pairs(pairs: Sequence[Sequence[dict[str, float]]]) -> dict[str, Any]:
    """Sweeps on one worker and on two, in turns: the gain in elapsed time by the fastest of each
    and by the medians, and the least processor seconds of each process."""
    one, two = zip(*pairs, strict=True)

    def of(sweeps: Sequence[dict[str, float]], name: str, choose: Any = min) -> float:
        return float(choose(sweep[name] for sweep in sweeps))

    processes = ("worker", "client", "scheduler")
    return {
        "two_dask_workers": of(one, "elapsed") / of(two, "elapsed"),
        "two_dask_workers_median": of(one, "elapsed", median) / of(two, "elapsed", median),
        "less_for_each_of_two": of(one, "worker") / of(two, "worker"),
        "of_one": {name: of(one, name) for name in processes},
        "of_two": {name: of(two, name) for name in processes},
    }


@contextmanager
def _held(pid: int, share: float) -> Iterator[None]:
    """A process held to a share of a core, in stretches of 20 ms."""
    root = Path("/sys/fs/cgroup")
    old = (root / "cpu").is_dir()  # version 1 has a tree for each resource
    group = (root / "cpu" if old else root) / f"benchmark-{pid}"
    period = 20_000
    quota = round(share * period)
    try:
        group.mkdir()
        if old:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {period}")
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise SystemExit(f"--share needs root and control groups of processors ({error})") from None
    try:
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _cluster(workers: int, pipe: Any) -> None:
    """A cluster in a process of its own, until something comes through the pipe."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        pipe.send(cluster.scheduler_address)
        pipe.recv()


def measure(points: int, kind: str, dask: int, share: float | None = None) -> dict[str, Any]:
    """The figures of one study, with so many pairs of sweeps on Dask clusters, whose workers have
    a share of a core each."""
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
        pairs = [[on_dask(document, output, count, share) for count in (1, 2)] for _ in range(dask)]
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
        "dask": of_pairs(pairs) if pairs else None,
        "load": os.getloadavg()[0],
    }


def _size(document: dict[str, Any]) -> int:
    from planner.questions.studies import study as studies

    return studies.load(document).size


def _print_dask(found: dict[str, Any]) -> None:
    median_s = found["two_dask_workers_median"]
    print(f"  two Dask workers     {found['two_dask_workers']:>12.2f}  times as fast as one")
    print(f"  by the medians       {median_s:>12.2f}")
    print(f"  each of them         {found['less_for_each_of_two']:>12.2f}  times less to do")
    for name, one in found["of_one"].items():
        two = found["of_two"][name]
        print(f"  {name:<20} {two:>12.2f}  s of a processor; with one worker {one:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), default="parquet")
    parser.add_argument("--on", choices=("dask",), help="two workers of a local cluster too")
    parser.add_argument("--pairs", type=int, default=3, help="of sweeps on one worker and on two")
    parser.add_argument("--share", type=float, help="of a core that each worker has at most")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    pairs = options.pairs if options.on == "dask" else 0
    row = measure(options.points, options.format, pairs, options.share)
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
    if row["dask"] is not None:
        _print_dask(row["dask"])
    print(f"  load                 {row['load']:>12.2f}  of the machine, in the last minute")
    if options.json:
        write_text(options.json, json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
