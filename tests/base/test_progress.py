"""The line that says what runs: late, in place, gone at the end, and only where it is wanted."""

from __future__ import annotations

import io
import sys
import time

import pytest

from planner.base import progress
from planner.cli.main import main

PLAN = "presets/gpt2small_hgx-h100.yaml"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "PERIOD", 0.01)


def until(said: str, stream: io.StringIO) -> None:
    end = time.monotonic() + 10
    while said not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.005)
    assert said in stream.getvalue()


def test_on_a_terminal_the_line_is_rewritten_and_gone_before_anything_else(
    quickly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Terminal()
    monkeypatch.setattr(sys, "stderr", both)
    monkeypatch.setattr(sys, "stdout", both)
    with progress.show_progress():
        progress.report_progress("1 of 2 \x1b[31mlayouts")
        until("1 of 2 \\x1b[31mlayouts, 0 s", both)
        progress.report_progress("2 of 2 layouts")
        until("2 of 2 layouts", both)
        print("an answer")
        time.sleep(0.05)
        print("that goes on")
    assert sys.stdout is both
    lines = both.getvalue().split("\n")
    assert lines[0].endswith("\r\x1b[Kan answer")
    assert lines[1:] == ["that goes on", ""], "nothing comes between the lines of an answer"


@pytest.mark.slow
def test_nothing_is_shown_in_a_pipe_unless_it_is_asked_for(
    quickly: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", PLAN]) == 0
    silent = capsys.readouterr()
    assert not silent.err
    assert main(["search", PLAN, "--progress"]) == 0
    told = capsys.readouterr()
    assert told.out == silent.out
    assert told.err and "\r" not in told.err


def test_what_is_soon_done_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.show_progress():
        progress.report_progress("soon done")
    assert not stream.getvalue()


def test_a_stage_that_fails_leaves_no_line(quickly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(KeyboardInterrupt), progress.show_progress():
        progress.report_progress("under way")
        until("under way", stream)
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r\x1b[K")
    assert sys.stderr is stream
