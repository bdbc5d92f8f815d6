"""Collectives between processes: NCCL between GPUs, gloo between processes on a CPU."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from planner.base.errors import PlanError
from planner.connect.measure.devices import wait_for_device
from planner.connect.measure.jobs import Collective

#: Seconds after which processes that do not answer are given up.
PATIENCE = 120
SILENT = "--processes: the processes of collectives do not answer"


def run_jobs(
    jobs: Sequence[Collective], device: str, seconds: float
) -> dict[Collective, list[float]]:
    """Time some collectives several times over, each as the slowest of its processes sees it.

    Args:
        jobs: the collectives, of as many processes each.
        device: cuda or cpu.
        seconds: for all of them, about.

    Returns:
        Seconds of each run, by collective.

    Raises:
        PlanError: a process fails or does not answer.
    """
    end = time.monotonic() + seconds + PATIENCE
    with tempfile.TemporaryDirectory(prefix="measure-") as named:
        folder = Path(named)
        given = (jobs, device, seconds, folder)
        started = multiprocessing.spawn(_run_rank, given, jobs[0].processes, join=False)
        try:
            while not started.join(max(0, end - time.monotonic())):
                if time.monotonic() > end:
                    raise PlanError(SILENT)
        except (
            multiprocessing.ProcessRaisedException,
            multiprocessing.ProcessExitedException,
        ) as error:
            reason = str(error).strip().splitlines()[-1]
            raise PlanError(f"--processes: a process of collectives failed: {reason}") from None
        finally:
            for process in started.processes:
                process.kill()
        answer = json.loads((folder / "answer.json").read_text("utf-8"))
    return dict(zip(jobs, answer, strict=True))


def _run_rank(
    rank: int, jobs: Sequence[Collective], device: str, seconds: float, folder: Path
) -> None:
    """Run one process of several; that of rank 0 writes the times to ``answer.json``.

    Args:
        rank: its number.
        jobs: the collectives to time.
        device: cuda or cpu.
        seconds: the time for all of them.
        folder: where the processes meet and the answer is written.
    """
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what libraries say is not the answer
        os.dup2(silence, stream)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    gpu = device == "cuda"
    if gpu:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    backend, store = "nccl" if gpu else "gloo", (folder / "store").as_uri()
    dist.init_process_group(backend, store, rank=rank, world_size=jobs[0].processes)
    where = torch.device(device, rank) if gpu else torch.device(device)
    found = [_time_job(job, where, seconds / len(jobs)) for job in jobs]
    if rank == 0:
        (folder / "answer.json").write_text(json.dumps(found), "utf-8")
    dist.barrier()
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


def _time_job(job: Collective, where: Any, seconds: float) -> list[float]:
    """Time a collective, each time by its slowest process.

    Args:
        job: the collective.
        where: the device.
        seconds: the time to spend; 3 to 30 calls.

    Returns:
        Seconds of each call; none if the backend lacks the collective.
    """
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
        """Time one call in all processes together; return the longest time, s."""
        dist.barrier()
        wait_for_device(where)
        start = time.perf_counter()
        call()
        wait_for_device(where)
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
