"""A configuration while it is read: typed access, class defaults, and what was read for what."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from planner.base import numbers
from planner.base.errors import Place, PlanError

Keys = Mapping[str, Any]
T = TypeVar("T", str, int)
LARGEST = 10**15  # nothing in a configuration is larger; a slip or an attack is


class Config:
    """The keys of one configuration under the names that its class uses inside.

    Every read is noted, so that keys nobody read can be judged; ``noted`` are the given ones that
    were read since it was emptied, so that a key of the document can name those it came from.
    """

    ABSENT = "the configuration has no key '{}'"

    def __init__(self, given: Keys, defaults: Keys, names: Keys, place: Place | None) -> None:
        self.type = str(given["model_type"])
        self.defaults = defaults
        self.place = place
        self.read: set[str] = set()
        self.noted: set[str] = set()
        self._inside = {outside: inside for inside, outside in names.items()}
        self._outside: dict[str, str] = dict(names)
        self.given: dict[str, Any] = {}
        for key, value in given.items():
            inside = self._inside.get(key, key)
            if inside in self.given and self.given[inside] != value:
                raise self.fault(f"{key} contradicts {inside}")
            self.given[inside] = value

    def fault(self, message: str, allowed: str | None = None) -> PlanError:
        """Make the error for a key, at the place of the file."""
        return PlanError(message, self.place, allowed)

    def name(self, key: str) -> str:
        """Return the key as the file spells it."""
        return self._outside.get(key, key)

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return the value of a key, else the class's default, else ``otherwise``."""
        key = self._inside.get(key, key)
        self.read.add(key)
        if key in self.given:
            self.noted.add(key)
            return self.given[key]
        return self.defaults.get(key, otherwise)

    def _read_typed(self, key: str, otherwise: Any, kinds: tuple[type, ...], allowed: str) -> Any:
        """Read the value of a key, of one of some types.

        Args:
            key: its name inside.
            otherwise: the value of an absent key.
            kinds: the types.
            allowed: these types in words, for the error.

        Returns:
            The value; None where it is absent or null.

        Raises:
            PlanError: it has another type.
        """
        value = self.get(key, otherwise)
        if value is not None and not _has_type(value, *kinds):
            raise self._refuse_value(key, value, allowed)
        return value

    def _refuse_value(self, key: str, value: Any, allowed: str) -> PlanError:
        """Make the error for a value, cut to 60 characters."""
        shown = repr(value) if isinstance(value, str) else str(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "…"
        return self.fault(f"{self.name(key)} is {shown}", allowed)

    def read_int(self, key: str, least: int = 1, otherwise: Any = None) -> int | None:
        """Read a whole number; None where the key is absent or null.

        Args:
            key: the key.
            least: the least that it can be; ``LARGEST`` is the most.
            otherwise: the value of an absent key that has no default.
        """
        value: int | None = self._read_typed(key, otherwise, (int,), "a whole number")
        if value is not None and not least <= value <= LARGEST:
            bound = f"at least {least}" if value < least else f"at most {numbers.text(LARGEST)}"
            raise self._refuse_value(key, value, bound)
        return value

    def need_int(self, key: str, least: int = 1) -> int:
        """Read a whole number that has to be there."""
        value = self.read_int(key, least)
        if value is None:
            raise self.fault(self.ABSENT.format(self.name(key)))
        return value

    def number(self, key: str) -> float | None:
        """Read a number above zero; None where the key is absent or null."""
        value: float | None = self._read_typed(key, None, (int, float), "a number")
        if value is not None and not 0 < value <= LARGEST:
            raise self._refuse_value(key, value, f"above 0, at most {numbers.text(LARGEST)}")
        return value

    def read_flag(self, key: str, otherwise: bool | None = None) -> bool | None:
        """Read true or false; None where the key is absent or null."""
        value: bool | None = self._read_typed(key, otherwise, (bool,), "true or false")
        return value

    def read_word(self, key: str) -> str | None:
        """Read a text; None where it is absent or null."""
        value: str | None = self._read_typed(key, None, (str,), "a word")
        return value

    def list_of(self, key: str, kind: type[T]) -> list[T] | None:
        """Read a list of words (str) or whole numbers (int); None where absent or null."""
        allowed = "a list of words" if kind is str else "a list of whole numbers"
        value = self._read_typed(key, None, (list, tuple), allowed)
        if value is not None and not all(_has_type(item, kind) for item in value):
            raise self._refuse_value(key, value, allowed)
        return None if value is None else list(value)

    def judge(
        self, known: Collection[str], harmless: Sequence[str], outer: str = "", inner: bool = False
    ) -> None:
        """Refuse the configuration if it has a key that nobody read and that may change a tensor.

        Args:
            known: further keys that change no tensor.
            harmless: patterns of such keys.
            outer: before keys of what holds this configuration.
            inner: whether these are judged elsewhere.
        """
        known, pattern = {"model_type", *self.read, *known}, re.compile("|".join(harmless))
        for key, value in self.given.items():
            plain = key.removeprefix(outer)
            empty = value is None or value is False or value in ("", 0, [], {})
            if empty or {key, plain} & known or pattern.search(plain) or (inner and plain != key):
                continue
            fault = f"the key {self.name(key)!r} is not modelled and could change the architecture"
            raise self.fault(f"{self.type}: {fault}", "remove it if it does not")

    def read_inner(self, key: str) -> Config:
        """Read a nested mapping as a part of this configuration."""
        value = self._read_typed(key, None, (Mapping,), "a mapping") or {}
        default = self.defaults.get(key)
        defaults = default if isinstance(default, Mapping) else {}
        inner = Config({"model_type": self.type, **value}, defaults, {}, self.place)
        inner.noted = self.noted
        return inner


def _has_type(value: Any, *kinds: type) -> bool:
    """Check whether a value has one of these types; true and false are no numbers."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
