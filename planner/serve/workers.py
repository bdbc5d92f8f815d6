"""Processes that compute for the server: a request that takes too long, or whose page went away,
ends with the process that works on it."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from typing import Any

from pebble import ProcessPool

from planner.base.errors import PlanError


class Busy(Exception):
    """More is asked for than may wait."""


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """What a function gives, or the faults of what it was given: they cross as plain data."""
    try:
        return True, function(*arguments)
    except PlanError as error:
        return False, error.faults


class Workers:
    """A pool of processes.

    Args:
        count: how many processes.
        seconds: how long one request may take.
        waiting: how many requests may wait for a process.
    """

    def __init__(self, count: int, seconds: float, waiting: int) -> None:
        self.seconds, self.most, self.running = seconds, count + waiting, 0
        self._pool = ProcessPool(count, context=multiprocessing.get_context("forkserver"))

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function in another process.

        Raises:
            PlanError: what it raised.
            Busy: too many requests wait already.
            TimeoutError: it took too long.
        """
        if self.running >= self.most:
            raise Busy
        self.running += 1
        future = self._pool.schedule(_call, args=(function, arguments), timeout=self.seconds)
        try:
            done, result = await asyncio.wrap_future(future)
        finally:
            self.running -= 1
            future.cancel()  # type: ignore[no-untyped-call]  # where nobody waits for it any more
        if not done:
            raise PlanError(result)
        return result

    def close(self) -> None:
        """End all processes."""
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()
