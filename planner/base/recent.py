"""The last results of a function, kept for calls that ask the same again.

A question tries hundreds of plans that differ in one number: what does not rest on that number is
found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any


class Watched(dict[str, Any]):
    """A mapping that records in ``read`` which of its keys were read."""

    def __init__(self, values: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(values)
        self.read = read

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Refuse: a key that is missing would not be recorded."""
        raise NotImplementedError("what is watched is asked for by [], so that it is there")


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


def cache_last(most: int, watched: int | None = None) -> Callable[..., Any]:
    """Cache the last ``most`` results of a function, what it yields as a tuple. Of the mapping at
    index ``watched``, only keys that were read must be equal."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function of positional arguments. Arguments are compared by identity, then by
        ``==``."""
        kept: list[tuple[list[Any], dict[str, Any], Any]] = []

        @wraps(function)
        def call(*arguments: Any) -> Any:
            """Return a kept result of equal arguments, the newest first, or compute and keep
            one."""
            if _PAUSED:
                result = function(*arguments)
                return tuple(result) if isinstance(result, Iterator) else result
            given = list(arguments)
            values = {} if watched is None else given.pop(watched)
            for same, asked, result in kept:
                alike = all(a is b or a == b for a, b in zip(same, given, strict=True))
                if alike and all(values[name] == asked[name] for name in asked):
                    return result
            read: set[str] = set()
            if watched is not None:
                arguments = (*arguments[:watched], Watched(values, read), *arguments[watched + 1 :])
            result = function(*arguments)
            if isinstance(result, Iterator):
                result = tuple(result)
            kept[:] = [(given, {name: values[name] for name in read}, result), *kept[: most - 1]]
            return result

        return call

    return decorate
