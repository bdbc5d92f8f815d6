"""Where pieces are worked on: in this process, in others, on a Dask or a Ray cluster.

An engine takes the numbers of pieces and gives the pieces back in that order. It never holds more
than a window of them, so that memory does not grow with the study.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from planner.errors import Fault, Place, PlanError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from planner.sweep.work import Job, Piece

S = TypeVar("S")
T = TypeVar("T")
Pieces = Generator["Piece", None, None]
Engine = Callable[["Job", range], Pieces]
#: Tasks under way for each worker.
AHEAD = 3
#: Pieces of one task on a cluster, at most, and tasks of that size that each worker gets, at least.
MOST, LEAST = 2, 2
#: How often a pool of processes is made anew after one of them died.
MOST_DEATHS = 5
#: Seconds until a cluster counts as not there.
PATIENCE = 20
#: Seconds within which a worker that can be reached has answered.
NEAR = 1


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chosen(workers: int | None, on: str | None) -> Engine:
    """The engine that the options ask for.

    Raises:
        PlanError: an address of no engine, or an engine that is not installed.
    """
    if on is None:
        count = cores() if workers is None else workers
        if count < 1:
            raise PlanError(Fault(f"--workers {count} does nothing", None, "at least 1"))
        return lambda job, numbers: local(job, numbers, count)
    if workers is not None:
        raise PlanError(
            Fault("--workers is for this machine, --on for a cluster", None, "one of them")
        )
    for scheme, engine in (("dask://", dask), ("ray://", ray)):
        if on.startswith(scheme) and len(on) > len(scheme):
            return lambda job, numbers: engine(job, numbers, on)
    raise PlanError(Fault(f"--on {on} is no engine", None, "dask://HOST:PORT or ray://HOST:PORT"))


def work(job: Job, number: int) -> Piece:
    """A piece. The scheduler of a cluster loads this module, and has no use for what works on it:
    numpy, sympy and the book of formulas, half a second during which all workers would wait."""
    from planner.sweep import work

    return work.work(job, number)


def work_on(job: Job, numbers: range) -> list[Piece]:
    """Several pieces, one after another."""
    return [work(job, number) for number in numbers]


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

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _JOB[:] = [job]


def _work(number: int) -> Piece:
    return work(_JOB[0], number)


def _pool(job: Job, numbers: range, workers: int) -> Pieces:
    from concurrent.futures import ProcessPoolExecutor

    # A forked worker has everything loaded; where there is no fork it starts afresh.
    way = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    if way == "fork":
        job.load()
    context = multiprocessing.get_context(way)
    with ProcessPoolExecutor(workers, context, _begin, (job,)) as pool:

        def submit(some: Sequence[int]) -> list[Future[Piece]]:
            return [pool.submit(_work, number) for number in some]

        try:
            for future in _ahead(submit, numbers, workers):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _ahead(
    submit: Callable[[Sequence[S]], Iterable[T]], tasks: Sequence[S], workers: int
) -> Iterator[T]:
    """What is submitted, in order; so many are under way, and no more are done and waiting. As many
    as there are workers are submitted at once, which costs a scheduler less than one by one."""
    under_way: deque[T] = deque()
    while tasks or under_way:
        room = workers * AHEAD - len(under_way)
        if tasks and room >= workers:
            under_way += submit(tasks[:room])
            tasks = tasks[room:]
        yield under_way.popleft()


# Clusters ---------------------------------------------------------------------------------------


def dask(job: Job, numbers: range, address: str) -> Pieces:
    """On a Dask cluster; its scheduler gives the work of a lost worker to another.

    Raises:
        PlanError: Dask is not installed, or the cluster does not answer or fails.
    """
    try:
        from distributed import Client
    except ImportError:
        raise PlanError(_missing("dask://", "dask")) from None
    try:
        client = Client(f"tcp://{address.removeprefix('dask://')}", timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise PlanError(_unreachable(address, error)) from None
    with client:
        # The job is a task of its own: it goes to each worker once, and is made again where a
        # worker is lost that had it. To the scheduler it is bytes.
        held = client.submit(_opened, pickle.dumps(job), pure=False, retries=MOST_DEATHS)
        workers = list(client.nthreads())
        # What workers send need not pass through the scheduler, where they can be reached.
        client.direct_to_workers = all(map(_answers, workers))

        def submit(some: Sequence[range]) -> list[Any]:
            """In their order, in which they are waited for: Dask's own is another for tasks that
            are submitted close to each other."""
            found: list[Any] = client.map(
                work_on, [held] * len(some), some,
                pure=False, retries=MOST_DEATHS, priority=-some[0].start,
            )  # fmt: skip
            return found

        count = max(1, len(workers))
        for future in _ahead(submit, _shares(job, numbers, count), count):
            try:
                pieces = future.result()
            except PlanError:
                raise
            except Exception as error:
                raise PlanError(_failed(address, error)) from error
            future.release()
            yield from pieces


def _shares(job: Job, numbers: range, workers: int) -> list[range]:
    """The pieces of each task. What a cluster does around a task costs as much for several pieces
    as for one; at the end, where workers would wait for each other, a piece is a task."""
    most = MOST if job.light else 1
    found = []
    while numbers:
        size = max(1, min(most, len(numbers) // (LEAST * workers)))
        found.append(numbers[:size])
        numbers = numbers[size:]
    return found


def _answers(address: str) -> bool:
    """Whether a connection to an address can be made."""
    scheme, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), NEAR).close()
    except (OSError, ValueError):
        return False
    return scheme == "tcp"


def _opened(job: bytes) -> Job:
    found: Job = pickle.loads(job)
    return found


def ray(job: Job, numbers: range, address: str) -> Pieces:
    """On a Ray cluster; a task whose worker is lost is run again.

    Raises:
        PlanError: Ray is not installed, or the cluster does not answer or fails.
    """
    try:
        import ray as engine
    except ImportError:
        raise PlanError(_missing("ray://", "ray")) from None
    try:
        engine.init(address, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise PlanError(_unreachable(address, error)) from None
    try:
        sent = engine.put(job)
        task = engine.remote(max_retries=MOST_DEATHS)(work)
        width = max(1, int(engine.cluster_resources().get("CPU", 1)))
        for future in _ahead(lambda some: [task.remote(sent, n) for n in some], numbers, width):
            try:
                piece = engine.get(future)
            except engine.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                raise (
                    cause if isinstance(cause, PlanError) else PlanError(_failed(address, error))
                ) from error
            yield piece
    finally:
        engine.shutdown()


def _missing(address: str, package: str) -> Fault:
    return Fault(f"--on {address} needs {package}", None, f"pip install 'trainplan[{package}]'")


def _unreachable(address: str, error: BaseException) -> Fault:
    said = str(error).strip().splitlines() or [type(error).__name__]
    return Fault(f"the cluster does not answer: {said[0]}", Place(f"--on {address}"))


def _failed(address: str, error: BaseException) -> Fault:
    said = str(error).strip().splitlines() or [""]
    return Fault(
        f"a worker failed: {type(error).__name__}: {said[0]}",
        Place(f"--on {address}"),
        "what is done is kept; the same command goes on",
    )
