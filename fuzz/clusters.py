"""Clusters of this machine, Dask or Ray, whose workers can be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from planner.base.progress import send_progress
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
    patience["RAY_worker_niceness"] = "0"  # else workers are nicer than all else
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

    def hear(line: str) -> None:
        done, total = map(int, line.replace(",", "").removesuffix(" plans").split(" of "))
        if len(killed) < deaths and done > total * (1 + len(killed)) // (2 + deaths):
            alive = [worker for worker in workers() if worker not in killed]
            if alive:
                os.kill(alive[0], signal.SIGKILL)
                killed.append(alive[0])

    with send_progress(hear):
        run.sweep(studies.read_study(document), output, on=address)
    return killed
