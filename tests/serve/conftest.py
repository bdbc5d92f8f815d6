"""A server as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")
from fuzz.served import Server, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as one:
        one.ask("POST", "/v1/evaluate", {}, seconds=120)  # to begin is not to answer
        yield one
