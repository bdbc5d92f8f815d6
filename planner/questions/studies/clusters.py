"""Pieces on a Dask or a Ray cluster.

Schedulers load this module, which therefore loads little.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.base.errors import Fault, Place, PlanError
from planner.questions.studies.ahead import MOST_DEATHS, Pieces, ahead, ready, work

if TYPE_CHECKING:
    from planner.questions.studies.work import Job, Piece

#: Pieces of one task, at most, and tasks of that size that each worker gets, at least.
MOST, LEAST = 2, 2
#: Seconds until a cluster counts as not there.
PATIENCE = 20
#: Seconds within which a worker that can be reached has answered.
NEAR = 1


def work_on(job: Job, numbers: range) -> list[Piece]:
    """Several pieces, one after another."""
    return [work(job, number) for number in numbers]


class Dask:
    """A Dask cluster; its scheduler gives the work of a lost worker to another.

    As a context its workers load the program as soon as it is reached, each for itself.

    Raises:
        PlanError: Dask is not installed, or the cluster does not answer or fails.
    """

    def __init__(self, address: str, kind: str | None) -> None:
        self.address, self.kind = address, kind
        self._client: Any = None
        self._loading: list[Any] = []

    def __enter__(self) -> Dask:
        try:
            from distributed import Client
        except ImportError:
            raise PlanError(_missing("dask://", "dask")) from None
        try:
            place = f"tcp://{self.address.removeprefix('dask://')}"
            self._client = Client(place, timeout=PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            raise PlanError(_unreachable(self.address, error)) from None
        self._loading = [
            self._client.submit(ready, self.kind, workers=[worker], pure=False, priority=1)
            for worker in self._client.nthreads()
        ]
        return self

    def __exit__(self, *raised: object) -> None:
        self._loading = []
        self._client.close()
        self._client = None

    def __call__(self, job: Job, numbers: range) -> Pieces:
        client = self._client
        if client is None:  # reached for this study alone
            with Dask(self.address, job.kind) as reached:
                yield from reached(job, numbers)
            return
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
        for future in ahead(submit, _shares(job, numbers, count), count):
            try:
                pieces = future.result()
            except PlanError:
                raise
            except Exception as error:
                raise PlanError(_failed(self.address, error)) from error
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
        for future in ahead(lambda some: [task.remote(sent, n) for n in some], numbers, width):
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
