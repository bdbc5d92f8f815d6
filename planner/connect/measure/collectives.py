"""Collectives between processes: NCCL between GPUs, gloo between processes on a CPU.

Each process is a Python of its own that is told its part on the command line and answers in JSON;
so it works from a script, a notebook and an installed command alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.connect.measure.jobs import Collective

#: Seconds after which processes that do not answer are given up.
PATIENCE = 120
WORK = "from planner.connect.measure.collectives import work; work()"


def run(jobs: Sequence[Collective], device: str, seconds: float) -> dict[Collective, list[float]]:
    """Seconds of each of some collectives, as the slowest of their processes sees it, several times
    over; all share `seconds`.

    Raises:
        PlanError: a process fails or does not answer.
    """
    count = jobs[0].processes
    here = str(Path(__file__).resolve().parents[3])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory(prefix="measure-") as folder:
        started: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(count):
                told = json.dumps([rank, device, seconds, folder, [astuple(job) for job in jobs]])
                with (Path(folder) / f"{rank}.txt").open("wb") as said:
                    process = subprocess.Popen(
                        [sys.executable, "-c", WORK, told],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=said,
                        env=environment,
                        start_new_session=True,  # an interruption reaches us, who end them
                    )
                started.append(process)
            _wait(started, seconds, Path(folder))
        finally:
            for process in started:
                process.kill()
                process.wait()
        answer = json.loads((Path(folder) / "answer.json").read_text("utf-8"))
    return dict(zip(jobs, answer, strict=True))


def _wait(started: Sequence[subprocess.Popen[bytes]], seconds: float, folder: Path) -> None:
    end = time.monotonic() + seconds + PATIENCE
    while any(process.poll() is None for process in started):
        if any(process.poll() for process in started):
            break
        if time.monotonic() > end:
            raise PlanError(Fault("--processes: the processes of collectives do not answer"))
        time.sleep(0.05)
    for rank, process in enumerate(started):
        if process.poll():
            said = (folder / f"{rank}.txt").read_text("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else f"exit status {process.returncode}"
            raise PlanError(Fault(f"--processes: a process of collectives failed: {reason}"))


# -- in each process ---------------------------------------------------------------------------


def work() -> None:
    """One process of several: takes its part from the command line; the first one answers."""
    import torch
    import torch.distributed as dist

    rank, device, seconds, folder, given = json.loads(sys.argv[1])
    jobs = [Collective(*job) for job in given]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    gpu = device == "cuda"
    if gpu:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=(Path(folder) / "store").as_uri(),
        rank=rank,
        world_size=jobs[0].processes,
    )
    where = torch.device(device, rank) if gpu else torch.device(device)
    found = [_timed(job, where, seconds / len(jobs)) for job in jobs]
    if rank == 0:
        (Path(folder) / "answer.json").write_text(json.dumps(found), "utf-8")
    dist.barrier()
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


def _timed(job: Collective, where: Any, seconds: float) -> list[float]:
    import torch
    import torch.distributed as dist

    size = max(job.size // 4 // job.processes, 1) * job.processes
    whole, other = (torch.zeros(size, device=where) for _ in range(2))
    part = torch.zeros(size // job.processes, device=where)
    parts = list(whole.chunk(job.processes))
    call: Callable[[], Any] = {
        "all-reduce": lambda: dist.all_reduce(whole),
        "all-gather": lambda: dist.all_gather(parts, part),
        "all-to-all": lambda: dist.all_to_all_single(other, whole),
    }[job.kind]

    def once() -> float:
        dist.barrier()
        if where.type == "cuda":
            torch.cuda.synchronize(where)
        start = time.perf_counter()
        call()
        if where.type == "cuda":
            torch.cuda.synchronize(where)
        slowest = torch.tensor([time.perf_counter() - start], device=where)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return float(slowest.item())

    # A collective that the backend lacks fails at the first call, in every process alike.
    try:
        call()
    except (RuntimeError, NotImplementedError, ValueError):
        return []
    again = torch.tensor([max(3.0, min(30.0, seconds / max(once(), 1e-6)))], device=where)
    dist.broadcast(again, 0)
    return [once() for _ in range(int(again.item()))]
