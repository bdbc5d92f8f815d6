"""Documents that nobody means well, over HTTP: each has an answer, on lines, in time."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("starlette")
from fuzz.served import HOSTILE, Server, differs, hurts, setting


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_document_has_an_answer(server: Server, number: int) -> None:
    document = HOSTILE[number]
    asked = {"plan": document, "quantity": "mfu"}
    paths = ("/v1/evaluate", "/v1/explain", "/page/answer", "/page/more", "/page/why")
    path = paths[number % len(paths)]
    given = {"text": document, "id": "time.mfu"} if path.startswith("/page") else asked
    assert hurts(server, path, given) is None


def test_there_are_fifty() -> None:
    assert len(HOSTILE) >= 50


@pytest.mark.slow
def test_random_settings_answer_as_the_command_line(server: Server) -> None:
    """A thousand of them: `python -m fuzz.served`."""
    random = Random(5)
    wrong = (differs(server, *setting(random)) for _ in range(15))
    assert [one for one in wrong if one] == []
