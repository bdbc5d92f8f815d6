"""Processes that compute for the server: what takes too long, or is no longer wanted, ends with the
process that works on it."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import tempfile
from collections.abc import AsyncGenerator, Callable
from ctypes import c_char
from multiprocessing.sharedctypes import RawArray
from typing import Any

from pebble import ProcessPool

from planner.base import progress
from planner.base.errors import PlanError
from planner.results.in_turn import in_turn

#: What is loaded once, by the process that makes the others, so that each of them begins at once.
LOADED = ("planner.serve.warm",)
#: Seconds between two looks at what a process tells.
PERIOD = 0.25
#: Seconds that a process has for what is no longer wanted, before it ends: to begin another one
#: takes longer than most answers.
GRACE = 0.5
#: Bytes of what is told.
WIDTH = 240

#: In a process: where it tells what runs, and what it keeps of the last plans.
_lines: Any = None
_kept = contextlib.ExitStack()


class Busy(Exception):
    """More is asked for than may wait, or what waited was not begun in time."""


#: What is said of a request that had no answer.
REASONS: dict[type[Exception], str] = {
    Busy: "the server is busy; ask again in a moment",
    TimeoutError: "this takes longer than a request may; a smaller question may do",
}


def _begin(lines: Any, folder: str) -> None:
    """What a process does first: it keeps where it tells what runs, and where its files lie, which
    go with the server where the process is ended. Most plans that it is asked for differ from the
    last ones in a key."""
    global _lines
    _kept.enter_context(in_turn())
    _lines, tempfile.tempdir = lines, folder


def _call(slot: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """What a function gives, or the faults of what it was given: they cross as plain data."""

    def hear(line: str) -> None:
        _lines[slot * WIDTH : (slot + 1) * WIDTH] = line.encode()[:WIDTH].ljust(WIDTH, b"\0")

    try:
        with progress.heard(hear):
            return True, function(*arguments)
    except PlanError as error:
        return False, error.faults


class Workers:
    """A pool of processes. What they tell on the way crosses in shared memory, where one that is
    ended while it writes holds up nobody.

    Args:
        count: how many processes.
        seconds: how long one request may take, and how long it may wait before.
        waiting: how many requests may wait for a process.
    """

    def __init__(self, count: int, seconds: float, waiting: int) -> None:
        self.count, self.seconds, self.most, self.asked = count, seconds, count + waiting, 0
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*LOADED])
        self._lines: Any = RawArray(c_char, count * WIDTH)
        self._folder = tempfile.TemporaryDirectory(prefix="trainplan-")
        # No more is handed to the pool than it has processes: what waits can be given up freely.
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(count):
            self._free.put_nowait(slot)
        self._pool = self._new()

    def _new(self) -> ProcessPool:
        begin = {"initializer": _begin, "initargs": (self._lines, self._folder.name)}
        return ProcessPool(self.count, context=self._context, **begin)  # type: ignore[arg-type]

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function in another process; raises what ``told`` does."""
        async with contextlib.aclosing(self.told(function, *arguments)) as steps:
            return [result async for _, result in steps][-1]

    async def told(
        self, function: Callable[..., Any], *arguments: Any
    ) -> AsyncGenerator[tuple[bool, Any]]:
        """(False, what runs) now and then, at last (True, the result). Where nobody waits for it
        any more, the function ends.

        Raises:
            PlanError: what it raised.
            Busy: too many requests wait already, or it waited too long.
            TimeoutError: it took too long.
        """
        if self.asked >= self.most:
            raise Busy
        self.asked += 1
        try:
            async with asyncio.timeout(self.seconds):
                slot = await self._free.get()
        except TimeoutError:
            self.asked -= 1
            raise Busy from None
        except asyncio.CancelledError:
            self.asked -= 1
            raise
        if not self._pool.active:  # a process of it was ended by the system
            self._pool = self._new()
        loop, ended, said = asyncio.get_running_loop(), asyncio.Event(), ""

        def done() -> None:
            self.asked -= 1
            self._free.put_nowait(slot)
            ended.set()

        def call_back(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the server ends
                loop.call_soon_threadsafe(done)

        self._lines[slot * WIDTH : (slot + 1) * WIDTH] = bytes(WIDTH)
        future = self._pool.schedule(_call, (slot, function, arguments), timeout=self.seconds)
        future.add_done_callback(call_back)
        try:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), PERIOD)
                line = self._lines[slot * WIDTH : (slot + 1) * WIDTH].rstrip(b"\0")
                if line != said and not ended.is_set():
                    said = line
                    yield False, line.decode(errors="replace")
        finally:
            if not future.done():
                loop.call_later(GRACE, future.cancel)
        good, result = future.result()
        if not good:
            raise PlanError(result)
        yield True, result

    def close(self) -> None:
        """End all processes."""
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()
        self._folder.cleanup()
