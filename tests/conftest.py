"""What several tests share: the command line as a process, and its options."""

from __future__ import annotations

import gc
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.forked import Forks

ROOT = Path(__file__).resolve().parent.parent

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]

# The same examples each time, so that a change fails by what it changed; `make fuzz` draws others,
# fifty times as many, with `--hypothesis-profile=long`.
assert settings.default is not None
settings.register_profile("long", max_examples=30 * settings.default.max_examples, deadline=None)
settings.register_profile("fixed", max_examples=40, derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")
# As the program sets it for itself: a seventh of the tests' time would go into collections.
gc.set_threshold(600_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with most slow tests come first, so that none of several processes is left with one."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the kept messages of tests/documents anew instead of comparing with them",
    )


@pytest.fixture(scope="session")
def run_cli() -> Iterator[RunCli]:
    """Run `plan.py ARGUMENT…` in a process of its own, in the repository root unless `cwd` is
    given. The result has `returncode`, `stdout` and `stderr`; nothing is checked."""
    forks = Forks()

    def run(
        *arguments: str | Path,
        cwd: Path = ROOT,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return forks.run(list(map(str, arguments)), cwd, stdin, os.environ | (env or {}))

    yield run
    forks.close()
