"""Worker processes of the server: started on demand, ended when their time is over, when nobody
waits for the result, when they have grown or are idle; clients take turns."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from planner.base import progress
from planner.base.errors import PlanError
from planner.engine.in_turn import keep_graphs


def choose_maker(methods: Sequence[str]) -> Any:
    """Choose what starts processes: the fork server, which preloads modules for all workers, or
    where a system has none, as Windows, a new interpreter for each."""
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    maker = multiprocessing.get_context("forkserver")
    maker.set_forkserver_preload(["planner.serve.warm"])
    return maker


MAKER = choose_maker(multiprocessing.get_all_start_methods())
#: Seconds between two lines of what runs, and characters of one.
PERIOD, WIDTH = 0.25, 240
#: Seconds that a process has for what is no longer wanted, before it ends: to begin another one
#: takes longer than most answers.
GRACE = 0.5
#: Seconds without a question after which a process ends, and bytes of memory: beyond the first it
#: answers no other question, and more than the second beside what it begins with it never gets.
IDLE, GROWN, MOST = 60, 250 * 2**20, 2 * 2**30


class Busy(Exception):
    """More requests than may wait, or one that waited too long."""


class Greedy(Exception):
    """More waiting requests of one client than its share."""


class Ended(Exception):
    """A process ended during its work."""


#: The status of a request that had no answer, and what is said of it.
REASONS: dict[type[Exception], tuple[int, str]] = {
    Busy: (503, "the server is busy; ask again in a moment"),
    Greedy: (429, "too many of your requests are not answered yet; ask again in a moment"),
    TimeoutError: (504, "this takes longer than a request may; a smaller question may do"),
    MemoryError: (422, "this takes more memory than a request may; a smaller question may do"),
    Ended: (500, "the process that worked on this was ended; a smaller question may do"),
}


def _run_worker(pipe: Connection, folder: str, seconds: float, idle: float) -> None:
    """Answer requests: lines of progress as text, then whether the process ends after this, and the
    result or the exception. Most plans differ from the last ones in one key."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all
    tempfile.tempdir = folder  # which goes with the server where this process is ended
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        most = pages * resource.getpagesize() + MOST
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    hear = progress.send_progress(lambda line: pipe.send(line[:WIDTH]), PERIOD)
    with keep_graphs(), hear, contextlib.suppress(EOFError, OSError):
        grown = False
        while not grown and pipe.poll(idle):
            function, arguments = pipe.recv()
            signal.setitimer(signal.ITIMER_REAL, seconds)  # ends this process, whatever it does
            try:
                result, good = function(*arguments), True
            except Exception as error:  # faults cross as plain data
                result, good = error.faults if isinstance(error, PlanError) else error, False
            signal.setitimer(signal.ITIMER_REAL, 0)
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            grown = size * (1 if sys.platform == "darwin" else 1024) > GROWN
            pipe.send((grown, good, result))


class _Process:
    """A process and its pipe, used by one thread at a time."""

    def __init__(self, *how: Any) -> None:
        """Start a process; ``how`` are the arguments of ``_run_worker``, the last one its idle time
        in seconds."""
        self.pipe, other = MAKER.Pipe()
        with other:
            self.process = MAKER.Process(target=_run_worker, args=(other, *how), daemon=True)
            self.process.start()
        self.idle = how[-1] * 0.9
        self.until = 0.0  # time until which it waits for a request

    def call_function(self, function: Any, arguments: Any, tell: Callable[[str], Any]) -> Any:
        """Call a function in the process and wait for its result.

        Args:
            function: a function at the top of a module.
            arguments: passed as one tuple.
            tell: called with each line of progress.

        Returns:
            what the function returns.

        Raises:
            TimeoutError: the process exceeded its time and was ended.
            Ended: it ended otherwise. Or what the function raised.
        """
        self.until = 0.0
        try:
            self.pipe.send((function, arguments))
            while isinstance(said := self.pipe.recv(), str):
                tell(said)
        except (OSError, EOFError):
            self.process.join(GRACE)
            late = self.process.exitcode == -signal.SIGALRM
            raise TimeoutError if late else Ended from None
        grown, good, result = said
        if not grown:
            self.until = time.monotonic() + self.idle
        if not good:
            raise result if isinstance(result, Exception) else PlanError(result)
        return result

    def is_waiting(self) -> bool:
        """Decide whether the process takes another call: it is alive and will not end of itself at
        once."""
        return self.process.is_alive() and time.monotonic() < self.until


class Workers:
    """Processes, started on demand. The next client is the one with the fewest running, then the
    fewest served requests.

    Args:
        count: how many processes.
        seconds: limit of one request's run, and of its wait before.
        waiting: how many requests may wait for a process.
        each: how many of these may be one client's; it may use all processes but one.
    """

    def __init__(self, count: int, seconds: float, waiting: int, each: int | None = None) -> None:
        """Prepare the processes, none of which starts before the first call.

        Args:
            count: processes.
            seconds: that a call may take.
            waiting: calls that may wait.
            each: calls of one client that may wait; with it, a client never has all processes.
        """
        self.count, self.seconds, self.waiting = count, seconds, waiting
        self.each, self.share = each or waiting, max(1, count - 1) if each else count
        self.idle = IDLE
        self.waits: list[tuple[str, asyncio.Future[None]]] = []
        self.runs, self.served = Counter[str](), Counter[str]()  # by client
        self._folder = tempfile.TemporaryDirectory(prefix="trainplan-")
        self._threads = ThreadPoolExecutor(count)
        self._busy: list[_Process] = []
        self._idle: list[_Process] = []

    async def run(self, function: Callable[..., Any], *arguments: Any, client: str = "") -> Any:
        """Return the result of a function in another process, without its progress."""
        async with contextlib.aclosing(
            self.track_function(function, *arguments, client=client)
        ) as steps:
            return [result async for _, result in steps][-1]

    async def track_function(
        self, function: Callable[..., Any], *arguments: Any, client: str = ""
    ) -> AsyncGenerator[tuple[bool, Any]]:
        """Yield (False, progress) now and then, at last (True, result). The function ends if nobody
        waits for it any more.

        Raises:
            PlanError: of the function.
            Busy, Greedy: too many requests wait already, or it waited too long.
            TimeoutError, MemoryError: it exceeded its time or memory.
            Ended: its process was ended by the system.
        """
        await self._wait_for_turn(client)
        loop, steps = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        self._idle = [one for one in self._idle if one.is_waiting()]
        new = self._threads, partial(_Process, self._folder.name, self.seconds, self.idle)
        try:
            one = self._idle.pop() if self._idle else await loop.run_in_executor(*new)
        except BaseException as error:
            self._release_slot(client)
            if isinstance(error, OSError | EOFError):  # the system makes no further process
                raise Busy from None
            raise
        self._busy.append(one)

        def tell(line: str) -> None:
            """Pass a line of progress from a thread to the loop."""
            loop.call_soon_threadsafe(steps.put_nowait, line)

        def end_unfinished() -> None:
            """Kill the process of a call that nobody waits for."""
            if not work.done():
                one.process.kill()

        def done(_: object) -> None:
            """Give the process back and let the next call begin."""
            steps.put_nowait(None)
            work.exception()  # nobody may ask for it
            self._busy.remove(one)
            self._idle.append(one)
            self._release_slot(client)

        work = loop.run_in_executor(self._threads, one.call_function, function, arguments, tell)
        work.add_done_callback(done)
        try:
            while (line := await steps.get()) is not None:
                yield False, line
        finally:
            if not work.done():
                loop.call_later(GRACE, end_unfinished)
        yield True, work.result()

    async def _wait_for_turn(self, client: str) -> None:
        """Wait until a client may use a process; it must be released afterwards."""
        turn = client, asyncio.get_running_loop().create_future()
        self.waits.append(turn)
        self._start_next()
        try:
            if turn in self.waits and len(self.waits) > self.waiting:
                raise Busy
            if turn in self.waits and [one for one, _ in self.waits].count(client) > self.each:
                raise Greedy
            async with asyncio.timeout(self.seconds):
                await turn[1]
        except BaseException as error:
            if turn in self.waits:
                self.waits.remove(turn)
            else:
                self._release_slot(client)
            if isinstance(error, TimeoutError):
                raise Busy from None
            raise

    def _start_next(self) -> None:
        """Let the next call begin, of the client that has least: running first, served before that
        second."""
        waits = [one for one in self.waits if self.runs[one[0]] < self.share and not one[1].done()]
        if waits and self.runs.total() < self.count:
            turn = min(waits, key=lambda one: (self.runs[one[0]], self.served[one[0]]))
            self.waits.remove(turn)
            self.runs[turn[0]] += 1
            self.served[turn[0]] += 1
            turn[1].set_result(None)
        if not self.waits:
            self.runs, self.served = +self.runs, Counter()

    def _release_slot(self, client: str) -> None:
        """End a call of a client."""
        self.runs[client] -= 1
        self._start_next()

    def close(self) -> None:
        """End all processes."""
        for one in self._busy + self._idle:
            one.process.kill()
        self._threads.shutdown()
        self._folder.cleanup()
