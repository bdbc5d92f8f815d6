"""A study on Dask and on Ray whose workers are killed on the way, beside the plain route.

    python -m benchmarks.clusters [--points N] [--workers N] [--on dask] [--on ray] [--json FILE]

Needs the extras `dask` and `ray`. The study is that of `benchmarks.sweep`, and one of plans that
are evaluated one by one. On each cluster of this machine two workers are killed (`kill -9`) as
pieces arrive; the table must have the bytes of the one that a single process writes. Exit status 1
where it has not. tests/questions/test_sweep_engines.py does the same with a small study.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.sweep import study
from planner.base.files import write_text
from planner.questions.studies import run
from planner.questions.studies import study as studies

ROOT = Path(__file__).resolve().parent.parent
#: Workers that are killed.
DEATHS = 2
Workers = Callable[[], list[int]]


@contextlib.contextmanager
def dask(workers: int, threads: int = 1) -> Iterator[tuple[str, Workers]]:
    """A Dask cluster of some processes: its address, and the ids of those that are there now."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        yield address, lambda: [int(worker.pid) for worker in cluster.workers.values()]


@contextlib.contextmanager
def ray(workers: int) -> Iterator[tuple[str, Workers]]:
    """A Ray head with some workers, in processes of its own: as ``dask``.

    Raises:
        FileNotFoundError: the program `ray` is not there.
    """
    program = shutil.which("ray", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    if program is None:
        raise FileNotFoundError("the program ray is not there")
    client = _free_port(23001)
    command = [
        *(program, "start", "--head", "--block", f"--num-cpus={workers}"),
        *("--disable-usage-stats", f"--port={_free_port(26001)}"),
        *(f"--ray-client-server-port={client}", "--include-dashboard=false"),
        "--object-store-memory=100000000",
    ]
    # A machine that is busy begins a server slowly.
    patience = {"RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "90"}
    environment = {**os.environ, **patience, "PYTHONPATH": str(ROOT)}
    head = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while _free_port(client) == client and time.monotonic() < deadline:
            time.sleep(0.2)
        yield f"ray://127.0.0.1:{client}", ray_workers
    finally:
        os.killpg(head.pid, signal.SIGTERM)
        try:
            head.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)
            head.wait(20)


def _free_port(first: int) -> int:
    for port in range(first, first + 500):
        with socket.socket() as held:
            if held.connect_ex(("127.0.0.1", port)):
                return port
    raise OSError("no free port")


def ray_workers() -> list[int]:
    """The processes that work on our pieces, those at one first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if command.startswith((b"ray::work", b"ray::IDLE")):  # between two pieces
                found.append((command.startswith(b"ray::IDLE"), int(folder.name)))
    return [worker for _, worker in sorted(found)]


def swept(
    document: dict[str, Any], output: Path, address: str, workers: Workers, deaths: int = DEATHS
) -> list[int]:
    """A study on a cluster whose workers die as pieces arrive; gives the ids of those."""
    killed: list[int] = []

    def progress(done: int, total: int, seconds: float) -> None:
        if len(killed) < deaths and done > total * (1 + len(killed)) // (2 + deaths):
            alive = [worker for worker in workers() if worker not in killed]
            if alive:
                os.kill(alive[0], signal.SIGKILL)
                killed.append(alive[0])

    run.sweep(studies.read_study(document), output, on=address, progress=progress)
    return killed


def one_by_one(points: int) -> dict[str, Any]:
    """A study of about so many points, each a plan that is evaluated by itself."""
    steps = max(2, points // 12)
    return {
        "base": "gpt2small_hgx-h100",
        "limit": 2 * points,
        "record": ["memory.stage", "memory.process", "cost.total"],
        "axes": {
            "training.tokens": {"from": "1T", "to": "2T", "steps": steps},
            "training.micro_batch": [1, 2, 4],
            "cluster.devices": [2, 4, 8, 7],
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--on", action="append", choices=("dask", "ray"))
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows, clusters = [], {"dask": dask, "ray": ray}
    with tempfile.TemporaryDirectory() as folder:
        for name, document in (
            ("over arrays", study(options.points)),
            ("plan by plan", one_by_one(options.points // 250)),
        ):
            alone, start = Path(folder) / "alone.csv", time.perf_counter()
            run.sweep(studies.read_study(document), alone, workers=1)
            size, spent = studies.read_study(document).size, time.perf_counter() - start
            row = {"study": name, "points": size, "on": "one process", "seconds": spent}
            rows.append({**row, "sha256": _digest(alone), "killed": 0})
            for on in options.on or clusters:
                spread = Path(folder) / f"{on}.csv"
                with clusters[on](options.workers) as (address, workers):
                    start = time.perf_counter()
                    killed = swept(document, spread, address, workers)
                    spent = time.perf_counter() - start
                row = {"study": name, "points": size, "on": on, "seconds": spent}
                rows.append({**row, "sha256": _digest(spread), "killed": len(killed)})
            for row in rows[-1 - len(options.on or clusters) :]:
                print(*(f"{row[key]}" for key in row), sep="  ", flush=True)
    if options.json:
        write_text(options.json, json.dumps(rows, indent=2) + "\n")
    same = all(
        row["sha256"] == first["sha256"] and row["killed"] == DEATHS
        for first in rows if first["on"] == "one process"
        for row in rows if row["study"] == first["study"] and row["on"] != "one process"
    )  # fmt: skip
    print("the same bytes" if same else "NOT the same bytes, or nothing was killed")
    return 0 if same else 1


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
