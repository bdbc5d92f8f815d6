"""What all tests of the fuzzer share."""

from __future__ import annotations

import pytest

from fuzz import watch


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that takes long is no fault of a test's: how long is the campaign's to judge."""
    monkeypatch.setattr(watch, "SLACK", 20)
