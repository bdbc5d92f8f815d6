"""A line that counts up while something takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["progress"]


def progress(of: str) -> Callable[[int, int, float], None] | None:
    """What shows how many of so many, such as ``layouts``, are done; None where standard error is
    no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int, seconds: float) -> None:
        end = "\n" if done >= total else ""
        print(f"\r{done:,} of {total:,} {of}, {seconds:.1f} s", end=end, file=sys.stderr)

    return show
