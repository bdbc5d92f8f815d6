"""A configuration while it is read: typed access, class defaults, and what was read for what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from planner.base.errors import Fault, Place, PlanError

Rule = Callable[["Config"], Any]  # what a key of the model document is worth
Trait = Any  # a constant, or a Rule

LARGEST = 10**15  # nothing in a configuration is larger; a slip or an attack is


class Config:
    """The keys of one configuration under the names that its class uses inside.

    Every read is noted, so that keys nobody read can be judged, and a key of the document can
    name the keys that it came from.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        defaults: Mapping[str, Any],
        names: Mapping[str, str],
        place: Place | None = None,
    ) -> None:
        self.type = str(given["model_type"])
        self.defaults = defaults
        self.place = place
        self.read: set[str] = set()
        self._noting: list[set[str]] = []
        self._inside = {outside: inside for inside, outside in names.items()}
        self._outside = dict(names)
        self.given: dict[str, Any] = {}
        for key, value in given.items():
            inside = self._inside.get(key, key)
            if inside in self.given and self.given[inside] != value:
                raise self.fault(f"{key} contradicts {inside}")
            self.given[inside] = value

    def fault(self, message: str, allowed: str | None = None) -> PlanError:
        return PlanError(Fault(message, self.place, allowed))

    def name(self, key: str) -> str:
        """The key as the file spells it."""
        return self._outside.get(key, key)

    @contextmanager
    def noting(self) -> Iterator[set[str]]:
        """Collects the given keys that are read meanwhile."""
        keys: set[str] = set()
        self._noting.append(keys)
        try:
            yield keys
        finally:
            self._noting.pop()

    def get(self, key: str, otherwise: Any = None) -> Any:
        """The value of a key, else the class's default, else ``otherwise``."""
        key = self._inside.get(key, key)
        self.read.add(key)
        if key in self.given:
            for keys in self._noting:
                keys.add(key)
            return self.given[key]
        return self.defaults.get(key, otherwise)

    def whole(self, key: str, least: int = 1, otherwise: Any = None) -> int | None:
        """A whole number, or None where the key is absent or null."""
        value = self.get(key, otherwise)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "a whole number")
        if not least <= value <= LARGEST:
            bound = f"at least {least}" if value < least else f"at most {LARGEST:,}"
            raise self.fault(f"{self.name(key)} is {_shown(value)}", bound)
        return value

    def need(self, key: str, least: int = 1) -> int:
        """A whole number that has to be there."""
        value = self.whole(key, least)
        if value is None:
            raise self.fault(f"the configuration has no key '{self.name(key)}'")
        return value

    def flag(self, key: str, otherwise: bool | None = None) -> bool | None:
        """True, false, or None where the key is absent or null."""
        value = self.get(key, otherwise)
        if value is not None and not isinstance(value, bool):
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "true or false")
        return value

    def text(self, key: str, otherwise: str | None = None) -> str | None:
        value = self.get(key, otherwise)
        if value is not None and not isinstance(value, str):
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "a word")
        return value

    def words(self, key: str) -> list[str] | None:
        """A list of words, or None where the key is absent or null."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "a list of words")
        return list(value)

    def number(self, key: str, otherwise: float | None = None) -> float | None:
        """A number above zero, or None where the key is absent or null."""
        value = self.get(key, otherwise)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "a number")
        if not 0 < value <= LARGEST:
            bounds = f"above 0, at most {LARGEST:,}"
            raise self.fault(f"{self.name(key)} is {_shown(value)}", bounds)
        return value

    def each(self, key: str, layers: int) -> list[int] | None:
        """A list with a whole number for each layer, or None where the key is absent or null."""
        values = self.indices(key)
        if values and len(values) < layers:
            raise self.fault(f"{self.name(key)} names {len(values)} of {layers} layers")
        return values

    def indices(self, key: str) -> list[int] | None:
        """A list of layer indices, or None where the key is absent or null."""
        value = self.get(key)
        if value is None:
            return None
        whole = isinstance(value, (list, tuple)) and all(
            isinstance(v, int) and not isinstance(v, bool) for v in value
        )
        if not whole:
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "a list of whole numbers")
        return list(value)

    def inner(self, key: str) -> Config:
        """A nested mapping, read as a part of this configuration."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.fault(f"{self.name(key)} is {_shown(value)}", "a mapping")
        default = self.defaults.get(key)
        inner = Config(
            {"model_type": self.type, **(value or {})},
            default if isinstance(default, Mapping) else {},
            {},
            self.place,
        )
        inner._noting = self._noting
        return inner

    def unread(self) -> dict[str, Any]:
        return {key: value for key, value in self.given.items() if key not in self.read}


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def whole(key: str, least: int = 1) -> Rule:
    """The rule: the whole number of that key."""
    return lambda c: c.whole(key, least)


def need(key: str) -> Rule:
    """The rule: the whole number of that key, which has to be there."""
    return lambda c: c.need(key)


def flag(key: str) -> Rule:
    return lambda c: c.flag(key)


def unless(key: str) -> Rule:
    """The rule: the contrary of that flag."""
    return lambda c: not c.flag(key)


def text(key: str) -> Rule:
    return lambda c: c.text(key)


def either(key: str, yes: Any, no: Any) -> Rule:
    """The rule: one value where that flag is set, another where not."""
    return lambda c: yes if c.flag(key) else no


def first(*keys: str) -> Rule:
    """The rule: the whole number of the first of those keys that is there."""

    def rule(c: Config) -> int | None:
        found = [c.whole(key) for key in keys]
        return next((value for value in found if value is not None), None)

    return rule


def worth(trait: Trait, c: Config) -> Any:
    return trait(c) if callable(trait) else trait
