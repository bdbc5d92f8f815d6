"""The last results of a function, kept for calls that ask the same again.

A question tries hundreds of plans that differ in one number: what does not rest on that number is
found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

#: Whether calls are neither looked up nor kept: an entry for each caller that asked for that.
_PAUSED: list[None] = []


@contextmanager
def pause_caches() -> Iterator[None]:
    """Bypass the caches of ``cache_last``: what is computed inside is of no use outside."""
    _PAUSED.append(None)
    try:
        yield
    finally:
        _PAUSED.pop()


def cache_last(most: int) -> Callable[..., Any]:
    """Cache the last ``most`` results of a function, what it yields as a tuple."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function of positional arguments. Arguments are compared by identity, then by
        ``==``."""
        kept: list[tuple[Sequence[Any], Any]] = []

        @wraps(function)
        def call(*arguments: Any) -> Any:
            """Return a kept result of equal arguments, the newest first, or compute and keep
            one."""
            for given, result in () if _PAUSED else kept:
                if all(a is b or a == b for a, b in zip(given, arguments, strict=True)):
                    return result
            result = function(*arguments)
            if isinstance(result, Iterator):
                result = tuple(result)
            if not _PAUSED:
                kept[:] = [(arguments, result), *kept[: most - 1]]
            return result

        return call

    return decorate
