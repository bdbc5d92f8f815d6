"""Processes that compute: what they tell, when they end, what may wait."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("starlette")
from planner.serve import workers as serving
from planner.serve.workers import GROWN, MOST, Busy, Ended, Greedy, Workers

WORK = """
import os, time
from planner.base.progress import report_progress

def counts(folder, number, seconds):
    open(f"{folder}/{os.getpid()}", "w").close()
    for done in range(number):
        report_progress(f"{done} of {number}")
        time.sleep(seconds / number)
    return number, os.getpid()

def dies():
    os._exit(3)

def takes(size, held=[]):
    held.append(bytearray(size))
    return os.getpid()
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Functions that another process can import by name."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "work_of_a_test.py").write_text(WORK)
    sys.path.insert(0, str(folder))
    import work_of_a_test  # type: ignore[import-not-found]

    yield work_of_a_test
    sys.path.remove(str(folder))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


@contextlib.asynccontextmanager
async def workers(count: int, seconds: float, waiting: int) -> AsyncIterator[Workers]:
    one = Workers(count, seconds, waiting)
    try:
        yield one
    finally:
        one.close()


@pytest.mark.slow
def test_what_runs_is_told_at_most_five_times_a_second(work: ModuleType, tmp_path: Path) -> None:
    async def asked() -> tuple[list[Any], float]:
        async with workers(1, 20, 1) as pool:
            await pool.run(os.getpid)
            start = time.monotonic()
            told = [
                step async for step in pool.track_function(work.counts, str(tmp_path), 1000, 1.5)
            ]
            return told, time.monotonic() - start

    told, seconds = run(asked())
    assert told[-1][0] and told[-1][1][0] == 1000
    lines = [line for done, line in told if not done]
    assert 2 <= len(lines) <= 5 * seconds
    counts = [int(line.split(" of ")[0]) for line in lines]
    assert counts == sorted(counts)


def test_what_nobody_waits_for_ends_with_its_process(work: ModuleType, tmp_path: Path) -> None:
    """Else the one that asks next would wait for longer than ``run`` does."""

    async def asked() -> int:
        async with workers(1, 300, 1) as pool:
            task = asyncio.create_task(pool.run(work.counts, str(tmp_path), 10, 300))
            while not list(tmp_path.iterdir()):
                await asyncio.sleep(0.05)
            task.cancel()
            return await pool.run(os.getpid)  # its place is free again

    other = run(asked())
    (first,) = (int(path.name) for path in tmp_path.iterdir())
    assert other != first
    assert not Path(f"/proc/{first}").exists()


def test_what_is_short_ends_by_itself_and_leaves_its_process(
    work: ModuleType, tmp_path: Path
) -> None:
    async def asked() -> tuple[int, int]:
        async with workers(1, 60, 20) as pool:
            before = await pool.run(os.getpid)
            for _ in range(5):  # as a control that is moved on and on asks
                task = asyncio.create_task(pool.run(work.counts, str(tmp_path), 2, 0.1))
                await asyncio.sleep(0.05)
                task.cancel()
            return before, await pool.run(os.getpid)

    before, after = run(asked())
    assert before == after


def test_requests_that_wait_are_given_up_freely(work: ModuleType, tmp_path: Path) -> None:
    async def asked() -> None:
        async with workers(1, 60, 3) as pool:
            first = asyncio.create_task(pool.run(work.counts, str(tmp_path), 5, 1))
            await asyncio.sleep(0.1)
            for _ in range(20):
                waits = [asyncio.create_task(pool.run(os.getpid)) for _ in range(3)]
                await asyncio.sleep(0)
                with pytest.raises(Busy):
                    await pool.run(os.getpid)
                for one in waits:
                    one.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
            assert (await first)[0] == 5
            assert await pool.run(os.getpid)
            assert not pool.runs.total() and not pool.waits

    run(asked())


def test_what_takes_too_long_ends_and_the_next_is_answered(
    work: ModuleType, tmp_path: Path
) -> None:
    async def asked() -> None:
        async with workers(1, 1, 3) as pool:
            with pytest.raises(TimeoutError):
                await pool.run(work.counts, str(tmp_path), 10, 60)
            with contextlib.suppress(Busy):
                await pool.run(os.getpid)
            assert await pool.run(os.getpid)

    run(asked())


def test_a_process_that_dies_is_told_and_replaced(work: ModuleType) -> None:
    async def asked() -> None:
        async with workers(1, 20, 3) as pool:
            with pytest.raises(Ended):
                await pool.run(work.dies)
            assert await pool.run(os.getpid)

    run(asked())


def test_one_clients_questions_do_not_hold_up_anothers(work: ModuleType, tmp_path: Path) -> None:
    async def asked() -> tuple[int, int]:
        one = Workers(3, 60, 20, 10)
        with contextlib.closing(one):
            slow = [
                asyncio.create_task(one.run(work.counts, str(tmp_path), 1, 2.0, client="slow"))
                for _ in range(12)
            ]
            await asyncio.sleep(0)
            with pytest.raises(Greedy):
                await one.run(os.getpid, client="slow")
            await one.run(os.getpid, client="quick")
            ended = sum(task.done() for task in slow)
            for task in slow:
                task.cancel()
            return ended, one.runs["slow"]

    assert run(asked()) == (0, 2)


def test_with_one_process_clients_have_it_in_turn() -> None:
    async def asked() -> list[str]:
        order: list[str] = []

        async def one(pool: Workers, client: str) -> None:
            await pool.run(os.getpid, client=client)
            order.append(client)

        pool = Workers(1, 60, 50, 25)
        with contextlib.closing(pool):
            clients = [*"aaaaaaaa", *"bb", "c"]
            await asyncio.gather(*(one(pool, client) for client in clients))
        return order

    order = run(asked())
    assert order.index("c") <= 3 and [*"bb"] == [one for one in order[:6] if one == "b"]


def test_a_process_begins_on_demand_and_ends_when_it_has_no_question() -> None:
    others = {one.pid for one in multiprocessing.active_children()}  # that end

    def begun() -> int:
        return len({one.pid for one in multiprocessing.active_children()} - others)

    async def asked() -> tuple[int, int]:
        async with workers(4, 20, 3) as pool:
            pool.idle = 1
            none = begun()
            await pool.run(os.getpid)
            before = await pool.run(os.getpid)
            one = begun()
            while Path(f"/proc/{before}").exists():
                await asyncio.sleep(0.1)
            assert await pool.run(os.getpid) != before
            return none, one

    assert run(asked()) == (0, 1)


def test_a_process_that_has_grown_is_not_asked_again(work: ModuleType) -> None:
    async def asked() -> list[int]:
        async with workers(1, 20, 3) as pool:
            return [await pool.run(work.takes, size) for size in (10, GROWN, 10)]

    first, same, other = run(asked())
    assert first == same != other


def test_what_takes_too_much_memory_is_told(work: ModuleType) -> None:
    async def asked() -> None:
        async with workers(1, 20, 3) as pool:
            with pytest.raises(MemoryError):
                await pool.run(work.takes, 2 * MOST)  # whatever it had is free
            assert await pool.run(os.getpid)

    run(asked())


def test_a_system_without_a_fork_server_is_served(
    work: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    monkeypatch.setattr(serving, "MAKER", serving.choose_maker(["spawn"]))

    async def ask() -> Any:
        async with workers(1, 30, 4) as one:
            return await one.run(work.counts, str(tmp_path), 2, 0)

    number, process = run(ask())
    assert number == 2 and process != os.getpid()
