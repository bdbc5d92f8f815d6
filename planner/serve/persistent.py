"""The types of the compiled package ``rpds`` that jsonschema and referencing use, in Python, for a
site, whose packages are all in Python (``planner.serve.site``)."""

from __future__ import annotations

from typing import Any


class HashTrieMap(dict[Any, Any]):
    """A mapping that never changes; its methods return a changed copy."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    @classmethod
    def convert(cls, pairs: Any) -> HashTrieMap:
        """Return a map of pairs; a map is returned as it is."""
        return pairs if isinstance(pairs, cls) else cls(pairs)

    def insert(self, key: Any, value: Any) -> HashTrieMap:
        """Return a copy with one more key."""
        return HashTrieMap({**self, key: value})

    def remove(self, key: Any) -> HashTrieMap:
        """Return a copy without a key.

        Raises:
            KeyError: it is missing.
        """
        left = dict(self)
        del left[key]
        return HashTrieMap(left)


class HashTrieSet(frozenset[Any]):
    """A set that never changes; its methods return a changed copy."""

    def insert(self, value: Any) -> HashTrieSet:
        """Return a copy with one more value."""
        return HashTrieSet({*self, value})

    def discard(self, value: Any) -> HashTrieSet:
        """Return a copy without a value, which may be missing."""
        return HashTrieSet(self - {value})


class List(tuple[Any, ...]):
    """A list that never changes and grows at its front."""

    def push_front(self, value: Any) -> List:
        """Return a copy with a value before the others."""
        return List((value, *self))
