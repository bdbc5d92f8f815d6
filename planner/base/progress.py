"""What runs, on one line of standard error: ``report_progress`` sets it, the command line shows it.

Nothing is shown before ``PATIENCE`` seconds have passed. On a terminal the line is rewritten in
place and gone at the end, and before anything else is printed; elsewhere, where it is asked for, it
is a new line now and then.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from planner.base.display import one_line

PATIENCE = 2.0  # seconds before the first line
PERIOD = 0.2  # seconds between two looks
SELDOM = 5.0  # seconds between two lines where none is rewritten
WIDTH = 78
_ERASE = "\r\033[K"

_said = ""
_hear: Callable[[str], None] | None = None


def report_progress(line: str) -> None:
    """Report what runs now, such as ``1,200 of 49,347 layouts``."""
    global _said
    _said = line
    if _hear is not None:
        _hear(line)


@contextlib.contextmanager
def send_progress(by: Callable[[str], object], period: float = 0.0) -> Iterator[None]:
    """Send what is reported inside the block to ``by`` too, as to another process that shows it.

    Args:
        by: receives the lines.
        period: seconds in which at most one line is sent; 0 sends all.
    """
    global _hear
    last = 0.0

    def send_line(line: str) -> None:
        """Send a line unless another one was sent just before."""
        nonlocal last
        if time.monotonic() - last >= period:
            last = time.monotonic()
            by(line)

    before, _hear = _hear, send_line
    try:
        yield
    finally:
        _hear = before


@contextlib.contextmanager
def show_progress(asked: bool = False) -> Iterator[None]:
    """Show progress inside the block if standard error is a terminal or ``asked`` is set."""
    terminal = sys.stderr.isatty()
    if not terminal and not asked:
        yield
        return
    import threading

    streams, done = (sys.stdout, sys.stderr), threading.Event()
    line = _Line(sys.stderr, terminal)
    report_progress("")
    thread = threading.Thread(target=line.show_until, args=(done,), daemon=True)
    sys.stdout, sys.stderr = (_After(stream, line) for stream in streams)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sys.stdout, sys.stderr = streams
        line.clear_line()


class _Line:
    """The progress line on a stream."""

    def __init__(self, stream: TextIO, rewritten: bool) -> None:
        self.stream, self.rewritten = stream, rewritten
        self.start = time.monotonic()
        self.stands = False
        self.silent = ""  # the last report when something else was printed

    def show_until(self, done: Any) -> None:
        """Show the last report until a ``threading.Event`` is set."""
        wait = PATIENCE
        while not done.wait(wait):
            wait = PERIOD
            if _said and _said != self.silent:
                self.show_text(f"{_said}, {int(time.monotonic() - self.start)} s")
                wait = PERIOD if self.rewritten else SELDOM

    def show_text(self, text: str) -> None:
        """Write one line; on a terminal over the last one, cut to its width."""
        text = one_line(text)
        text = f"{_ERASE}{text[:WIDTH]}" if self.rewritten else f"{text}\n"
        self.stands = self.rewritten
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            self.stream.write(text)
            self.stream.flush()

    def clear_line(self) -> None:
        """Clear the line before anything else is printed, so that it breaks no answer."""
        self.silent = _said
        if self.stands:
            self.stands = False
            with contextlib.suppress(OSError, ValueError):
                self.stream.write(_ERASE)
                self.stream.flush()


class _After:
    """A stream that clears the progress line before it writes."""

    def __init__(self, stream: TextIO, line: _Line) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        """Write text, so that a progress line never stands in the middle of an answer."""
        self._line.clear_line()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
