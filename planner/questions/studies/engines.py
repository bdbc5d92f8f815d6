"""Where pieces are worked on: in this process, in others, on a cluster (``clusters.py``)."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from planner.base.errors import Fault, PlanError
from planner.questions.studies.ahead import MOST_DEATHS, Engine, Pieces, ahead, ready, work

if TYPE_CHECKING:
    from concurrent.futures import Future

    from planner.questions.studies.work import Job, Piece


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chosen(workers: int | None, on: str | Engine | None, kind: str | None = None) -> Engine:
    """The engine that the options ask for.

    Args:
        kind: of the table, as far as it is known.

    Raises:
        PlanError: an address of no engine.
    """
    if callable(on):
        return on
    if on is None:
        count = cores() if workers is None else workers
        if count < 1:
            raise PlanError(Fault(f"--workers {count} does nothing", None, "at least 1"))
        return lambda job, numbers: local(job, numbers, count)
    if workers is not None:
        raise PlanError(
            Fault("--workers is for this machine, --on for a cluster", None, "one of them")
        )
    from planner.questions.studies import clusters

    scheme, _, place = on.partition("://")
    if not place or scheme not in ("dask", "ray"):
        raise PlanError(
            Fault(f"--on {on} is no engine", None, "dask://HOST:PORT or ray://HOST:PORT")
        )
    if scheme == "dask":
        return clusters.Dask(on, kind)
    return lambda job, numbers: clusters.ray(job, numbers, on)


@contextlib.contextmanager
def reached(workers: int | None, on: str | None, kind: str | None) -> Iterator[Engine]:
    """As ``chosen``; where that is a Dask cluster, its workers load the program from now on, while
    the study is read.

    Raises:
        PlanError: an address of no engine, or a cluster that does not answer.
    """
    engine = chosen(workers, on, kind)
    with engine if isinstance(engine, contextlib.AbstractContextManager) else nullcontext():
        yield engine


# This machine -----------------------------------------------------------------------------------


def local(job: Job, numbers: range, workers: int) -> Pieces:
    """In this process, or in several where there is enough to do."""
    if min(workers, len(numbers)) <= 1:
        yield from map(job.work, numbers)
        return
    from concurrent.futures.process import BrokenProcessPool

    deaths = 0
    while numbers:
        try:
            for piece in _pool(job, numbers, min(workers, len(numbers))):
                numbers = numbers[1:]
                yield piece
        except BrokenProcessPool:
            deaths += 1
            if deaths > MOST_DEATHS:
                raise PlanError(
                    Fault(
                        "worker processes keep dying (killed, or out of memory)",
                        None,
                        "fewer --workers; what is done is kept, the same command goes on",
                    )
                ) from None


_JOB: list[Job] = []


def _begin(job: Job) -> None:
    import signal
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    Thread(target=_end_with_parent, daemon=True).start()
    _JOB[:] = [job]


def _end_with_parent() -> None:
    """Wait for the end of the process that made this one, and end too: nobody takes what is worked
    on here, and a forked worker would hold the lock of the table. Each worker has the other end of
    a pipe whose one end is closed with the parent, by whatever signal it dies."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(number: int) -> Piece:
    return work(_JOB[0], number)


def _pool(job: Job, numbers: range, workers: int) -> Pieces:
    from concurrent.futures import ProcessPoolExecutor

    # A forked worker has everything loaded; where there is no fork it starts afresh.
    way = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    if way == "fork":
        ready(job.kind)
    context = multiprocessing.get_context(way)
    with ProcessPoolExecutor(workers, context, _begin, (job,)) as pool:

        def submit(some: Sequence[int]) -> list[Future[Piece]]:
            return [pool.submit(_work, number) for number in some]

        try:
            for future in ahead(submit, numbers, workers):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
