"""Engines that evaluate pieces: this process, or an executor, which is several processes of this
machine, a Dask cluster, a Ray cluster, or any other ``concurrent.futures.Executor``.

Workers and the scheduler of a cluster load this module, which therefore loads little.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.base.errors import Place, PlanError

if TYPE_CHECKING:
    from planner.questions.studies.work import Job, StudyPiece

#: An executor, and how many pieces it evaluates at once.
Opened = tuple[Executor, int]
Pieces = Generator["StudyPiece", None, None]
Engine = Callable[["Job", Sequence[int]], Pieces]
#: Pieces in progress or waiting to be written, for each worker.
WINDOW = 3
#: How often work is started again after its process died.
MOST_DEATHS = 5
#: Seconds to wait for a cluster, and for Ray's, which starts a process for each client.
PATIENCE, BEGINNING = 20, 90


def choose_engine(workers: int | None, on: str | Executor | None) -> Engine:
    """Return the engine that the options select. It yields the pieces of a job in order and holds
    at most a window of them, so that memory does not grow with the study.

    Raises:
        PlanError: the address names no engine.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = own if workers is None else workers
    if count < 1:
        raise PlanError(f"--workers {count} does nothing", None, "at least 1")
    if isinstance(on, Executor):
        return partial(_on_executor, lambda _: contextlib.nullcontext((on, count)), "an executor")
    if on is None:
        return partial(_run_locally, workers=count)
    if workers is not None:
        raise PlanError("--workers and --on exclude each other", None, "one of them")
    scheme, _, place = on.partition("://")
    if not place or scheme not in CLUSTERS:
        raise PlanError(f"--on {on} is not an engine", None, "dask://HOST:PORT or ray://HOST:PORT")
    return partial(_on_executor, CLUSTERS[scheme], on)


def evaluate_piece(job: bytes, number: int) -> StudyPiece:
    """Evaluate a piece of a pickled job, which the worker caches between pieces."""
    with _ONE:
        if job not in _AT_HAND:
            _AT_HAND.clear()
            _AT_HAND[job] = pickle.loads(job)
        return _AT_HAND[job].run_piece(number)


#: The cached job of this process, for one thread at a time: a cluster may give a worker several.
_AT_HAND: dict[bytes, Job] = {}
_ONE = threading.Lock()


def _on_executor(
    opened: Callable[[str], contextlib.AbstractContextManager[Opened]],
    address: str,
    job: Job,
    numbers: Sequence[int],
) -> Pieces:
    """Evaluate pieces on an executor.

    Args:
        opened: opens the executor at an address.
        address: of a cluster; for an executor that is open already, a name for faults.
        job: the study.
        numbers: the pieces.

    Raises:
        PlanError: the cluster's package is not installed, it does not answer, or a worker fails.
    """
    engine, cluster, _ = address.partition("://")
    place = Place(f"--on {address}" if cluster else address)
    with contextlib.ExitStack() as stack:
        try:
            executor, workers = stack.enter_context(opened(address))
        except ModuleNotFoundError:
            fix = f"pip install '.[{engine}]'"
            raise PlanError(f"--on {engine}:// needs {engine}", None, fix) from None
        except MemoryError:
            raise
        except Exception as error:
            what = f"the cluster does not answer: {_summarise_error(error) or type(error).__name__}"
            raise PlanError(what, place) from None
        try:
            yield from _yield_in_order(executor, pickle.dumps(job), numbers, workers)
        except PlanError:
            raise
        except Exception as error:
            what = f"a worker failed: {type(error).__name__}: {_summarise_error(error)}"
            allowed = "what is done is kept; the same command goes on"
            raise PlanError(what, place, allowed) from error


def _yield_in_order(executor: Executor, job: bytes, numbers: Sequence[int], workers: int) -> Pieces:
    """Yield pieces in the order of their numbers, with at most ``WINDOW`` for each worker under
    way."""
    under_way: deque[Future[StudyPiece]] = deque()
    try:
        for number in numbers:
            under_way.append(executor.submit(evaluate_piece, job, number))
            if len(under_way) == workers * WINDOW:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:  # where the study is stopped
        for future in under_way:
            future.cancel()


# This machine -----------------------------------------------------------------------------------


def _run_locally(job: Job, numbers: Sequence[int], workers: int) -> Pieces:
    """Evaluate pieces in this process, or in several where there are enough of them.

    Args:
        job: the study.
        numbers: the pieces.
        workers: the most processes.

    Raises:
        PlanError: worker processes keep dying.
    """
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    workers = min(workers, len(numbers))
    if workers <= 1:
        yield from map(job.run_piece, numbers)
        return
    # A forked worker has everything loaded; where there is no fork it starts afresh.
    way = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context, packed = multiprocessing.get_context(way), pickle.dumps(job)
    for _ in range(1 + MOST_DEATHS):
        with ProcessPoolExecutor(workers, context, _start_worker) as pool:
            try:
                for piece in _yield_in_order(pool, packed, numbers, workers):
                    numbers = numbers[1:]
                    yield piece
                return
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                if not isinstance(error, BrokenProcessPool):
                    raise
    what = "worker processes keep dying (killed, or out of memory)"
    raise PlanError(what, None, "fewer --workers; what is done is kept, the same command goes on")


def _start_worker() -> None:
    """Prepare a worker process: it ignores Ctrl-C, and ends with its parent."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    """Wait for the parent process to end, and exit too: the results would be lost, and a forked
    worker would hold the lock of the table. The parent holds one end of a pipe to each worker; it
    is closed with the parent, whatever signal ends that."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# Clusters ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_dask(address: str) -> Iterator[Opened]:
    """Open a Dask cluster, whose scheduler gives the work of a lost worker to another."""
    from distributed import Client

    with Client(f"tcp://{address.removeprefix('dask://')}", timeout=PATIENCE) as client:
        yield client.get_executor(pure=False, retries=MOST_DEATHS), max(1, len(client.nthreads()))


@contextlib.contextmanager
def _open_ray(address: str) -> Iterator[Opened]:
    """Open a Ray cluster; a task whose worker is lost is run again.

    Without free memory Ray's client waits forever for threads of its own that it could not start:
    when it connects, when that fails, when it disconnects and once more at exit.
    """
    import ray

    def connect() -> int:
        """Connect to the cluster and return its number of CPUs."""
        ray.init(address, log_to_driver=False)
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    workers = _call_within(BEGINNING, connect, ray.shutdown)
    try:
        yield _Ray(), workers
    finally:
        with contextlib.suppress(RuntimeError, TimeoutError):
            _call_within(PATIENCE, ray.shutdown, ray.shutdown)


def _call_within(seconds: float, call: Callable[[], Any], at_exit: Callable[..., Any]) -> Any:
    """Return the result of a call in a daemon thread.

    Args:
        seconds: how long to wait for it.
        call: the call.
        at_exit: its hook at exit, which is dropped if the call takes longer.

    Raises:
        TimeoutError: it takes longer.
    """
    found: Future[Any] = Future()

    threading.Thread(target=_set_future, args=(found, call), daemon=True).start()
    try:
        return found.result(seconds)
    except TimeoutError:
        atexit.unregister(at_exit)
        raise


def _set_future(found: Future[Any], call: Callable[[], Any]) -> None:
    """Set a future to the result or the error of a call, unless it was cancelled."""
    if found.set_running_or_notify_cancel():
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)


class _Ray(Executor):
    """An executor that submits Ray tasks."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call as a Ray task, again if its worker is lost."""
        import ray

        task = ray.remote(max_retries=MOST_DEATHS)(fn)
        theirs: Future[Any] = task.remote(*args, **kwargs).future()
        # Ray sets a future even if it was cancelled, which would fail.
        found: Future[Any] = Future()
        theirs.add_done_callback(lambda done: _set_future(found, done.result))
        return found


CLUSTERS = {"dask": _open_dask, "ray": _open_ray}


def _summarise_error(error: BaseException) -> str:
    """Return the first line of an error, with the last one where the first ends in a colon."""
    lines = str(error).strip().splitlines() or [""]
    return f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith(":") else lines[0]
