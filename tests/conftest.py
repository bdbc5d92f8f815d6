"""What several tests share: the command line in this process and in one of its own, its options,
and how long a quick test may take."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from planner.base import resources
from planner.cli.main import main
from tests.browser import Browser, executable
from tests.forked import Forks

ROOT = Path(__file__).resolve().parent.parent
#: Seconds of processor time that a test may take which is not marked slow, on a machine that takes
#: so many seconds for ``measure_reference``.
QUICK, REFERENCE = 0.3, 0.0055
#: How much more one may take of a core that others use too, beside what the reference takes more.
CROWDED = 2
#: The folders that are held to it; what is not among them was not measured yet.
TIMED = ("base", "book", "cli", "typeset")

#: Files of few slow tests that take half a minute all the same.
LONG = ("test_site", "test_time_accuracy", "test_docs", "test_find", "test_memory_accuracy")

#: Shipped models of each kind that formulas and formats tell apart; the others are tried at night.
KINDS_OF_MODEL = (
    "bert-base", "deepseek-v3", "deepseek-v4-flash", "falcon-7b", "flux.1-dev", "gemma3n-e4b",
    "gpt-oss-20b", "gpt2-small", "jamba-52b", "kimi-linear-48b-a3b", "llama3-8b", "llama4-scout",
    "mixtral-8x7b", "qwen2.5-vl-7b", "t5-base",
)  # fmt: skip

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]

# The same examples each time, so that a change fails by what it changed; `make fuzz` draws others,
# fifty times as many, with `--hypothesis-profile=long`.
assert settings.default is not None
settings.register_profile("long", max_examples=30 * settings.default.max_examples, deadline=None)
settings.register_profile("fixed", max_examples=40, derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")
# As the program sets it for itself: a seventh of the tests' time would go into collections.
gc.set_threshold(600_000)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the night what a slow test says; ``LONG`` files come first, then those with most
    slow tests, so that none of several processes is left with one."""
    numbers: Counter[str] = Counter()
    for item in items:
        mark, name = item.get_closest_marker("slow"), item.nodeid.partition("[")[0]
        if mark and numbers[name] % mark.kwargs.get("every", 1):
            item.add_marker("nightly")
        numbers[name] += 1
    slow = Counter(
        item.path for item in items
        if item.get_closest_marker("slow") and not item.get_closest_marker("nightly")
    )  # fmt: skip
    items.sort(key=lambda item: (item.path.stem not in LONG, -slow[item.path]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Fail a quick test that takes longer than ``QUICK`` three times: what it sets up for others,
    as a module that nobody had imported, is there the second time."""
    is_quick = not any(map(item.get_closest_marker, ("slow", "nightly")))
    if not is_quick or item.path.parent.name not in TIMED:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(3):
        before = processor_time()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        seconds = processor_time() - before
        if seconds > QUICK:  # a slow or a crowded machine is not the test's fault
            seconds *= min(1, REFERENCE / measure_reference())
        if seconds <= CROWDED * QUICK or not all(report.passed for report in reports):
            break
    else:
        call = next(report for report in reports if report.when == "call")
        call.outcome = "failed"
        call.longrepr = f"{seconds:.2f} s of processor time: make it small or mark it slow"
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def processor_time() -> float:
    """Seconds that this process and the ones that it has waited for have computed."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_reference() -> float:
    """Seconds of processor time for a sum of 100,000 squares, the median of five."""
    taken = []
    for _ in range(5):
        before = processor_time()
        sum(number * number for number in range(100_000))
        taken.append(processor_time() - before)
    return sorted(taken)[2]


@cache
def read_data(name: str) -> Any:
    """Read a table of tests/data, which nobody changes."""
    return resources.read_yaml(ROOT / "tests" / "data" / f"{name}.yaml")


def leave_to_night(values: Iterable[Any], daily: Collection[Any]) -> list[Any]:
    """Return the values as parameters of a test, of which only the ``daily`` ones are tried before
    a change lands; a tuple is the values of several parameters."""
    rows = [(each, each if isinstance(each, tuple) else (each,)) for each in values]
    night = [pytest.mark.nightly]
    return [pytest.param(*row, marks=[] if each in daily else night) for each, row in rows]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the kept messages of tests/documents anew instead of comparing with them",
    )


@pytest.fixture(scope="session")
def run_cli() -> RunCli:
    """Run `plan.py ARGUMENT…` in this process, in the repository root unless `cwd` is given. The
    result has `returncode`, `stdout` and `stderr`; nothing is checked."""

    def run(
        *arguments: str | Path,
        cwd: Path = ROOT,
        stdin: str = "",
        env: Mapping[str, str] = {},
    ) -> subprocess.CompletedProcess[str]:
        words = list(map(str, arguments))
        bytes_of = [io.BytesIO(stdin.encode()), io.BytesIO(), io.BytesIO()]
        streams = [io.TextIOWrapper(each, "utf-8", newline="\n") for each in bytes_of]
        with (
            contextlib.chdir(cwd),
            mock.patch.dict(os.environ, env),
            mock.patch.object(sys, "argv", ["plan.py", *words]),
            mock.patch.object(sys, "stdin", streams[0]),
            contextlib.redirect_stdout(streams[1]),
            contextlib.redirect_stderr(streams[2]),
        ):
            try:
                status = main(words)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
        for stream in streams[1:]:
            stream.flush()
        texts = [each.getvalue().decode() for each in bytes_of[1:]]
        return subprocess.CompletedProcess(words, status, *texts)

    return run


@pytest.fixture(scope="session")
def run_process() -> Iterator[RunCli]:
    """As ``run_cli``, in a process of its own, where that is what is tested."""
    forks = Forks()

    def run(
        *arguments: str | Path,
        cwd: Path = ROOT,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        words = list(map(str, arguments))
        return forks.run(words, cwd, stdin, {**os.environ, **(env or {})})

    yield run
    forks.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium, one page after another; without one a test skips itself."""
    program = executable()
    if program is None:
        pytest.skip("there is no Chromium")
    made = Browser(program, tmp_path_factory.mktemp("profile"))
    yield made
    made.close()
