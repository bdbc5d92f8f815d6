"""The types of the compiled package ``rpds`` that jsonschema and referencing use, in Python, for a
site, whose packages are all in Python (``planner.serve.site``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class HashTrieMap(Mapping[Any, Any]):
    """A mapping that never changes; its methods return a changed copy."""

    def __init__(self, *pairs: Any, **named: Any) -> None:
        """Make a map as ``dict`` does."""
        self._held = dict(*pairs, **named)

    @classmethod
    def convert(cls, pairs: Any) -> HashTrieMap:
        """Return a map of pairs; a map is returned as it is."""
        return pairs if isinstance(pairs, cls) else cls(pairs)

    def __getitem__(self, key: Any) -> Any:
        return self._held[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __hash__(self) -> int:
        return hash(frozenset(self._held.items()))

    def insert(self, key: Any, value: Any) -> HashTrieMap:
        """Return a copy with one more key."""
        return HashTrieMap({**self._held, key: value})

    def update(self, *pairs: Any, **named: Any) -> HashTrieMap:
        """Return a copy with the pairs as well."""
        return HashTrieMap({**self._held, **dict(*pairs, **named)})

    def discard(self, key: Any) -> HashTrieMap:
        """Return a copy without a key, which may be missing."""
        return HashTrieMap({one: value for one, value in self._held.items() if one != key})

    def remove(self, key: Any) -> HashTrieMap:
        """Return a copy without a key.

        Raises:
            KeyError: it is missing.
        """
        self._held[key]
        return self.discard(key)


class HashTrieSet(frozenset[Any]):
    """A set that never changes; its methods return a changed copy."""

    def insert(self, value: Any) -> HashTrieSet:
        """Return a copy with one more value."""
        return HashTrieSet({*self, value})

    def update(self, *several: Iterable[Any]) -> HashTrieSet:
        """Return a copy with the values as well."""
        return HashTrieSet(self.union(*several))

    def discard(self, value: Any) -> HashTrieSet:
        """Return a copy without a value, which may be missing."""
        return HashTrieSet(self - {value})

    def remove(self, value: Any) -> HashTrieSet:
        """Return a copy without a value.

        Raises:
            KeyError: it is missing.
        """
        if value not in self:
            raise KeyError(value)
        return self.discard(value)


class List(tuple[Any, ...]):
    """A list that never changes and grows at its front."""

    def push_front(self, value: Any) -> List:
        """Return a copy with a value before the others."""
        return List((value, *self))
