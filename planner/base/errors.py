"""A fault has a place, a message, what is allowed and a hint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.base.display import one_line

MOST = 50  # faults printed; after so many, checks may stop
LONGEST = 600  # characters of one message


class Place(NamedTuple):
    """Where something was written; line and column count from 1, or are unknown."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        known = [part for part in (self.file, self.line, self.column) if part is not None]
        return ":".join(map(str, known))

    @property
    def order(self) -> tuple[str, int, int]:
        """Sort key: file, then line, then column; an unknown line comes first."""
        return self.file, self.line or 0, self.column or 0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, on one line."""

    message: str
    place: Place | None = None
    allowed: str | None = None
    hint: str | None = None

    @classmethod
    def from_pool(
        cls, message: str, word: str, pool: Iterable[str], place: Place | None = None
    ) -> Fault:
        """Make the fault of a word that is not allowed.

        Args:
            message: what is wrong, which names the word.
            word: as it is written.
            pool: the words that are allowed; the hint is the nearest of them, if one is near.
            place: where the word is written.
        """
        pool = list(pool)
        return cls(message, place, "one of " + ", ".join(pool), nearest(word, pool))

    @property
    def words(self) -> str:
        """What is wrong, what is allowed and what was probably meant."""
        notes = [] if self.allowed is None else [self.allowed]
        if self.hint is not None:
            notes.append(f"did you mean '{self.hint}'?")
        text = _shrink_text(self.message) + (
            f" ({_shrink_text('; '.join(notes))})" if notes else ""
        )
        # A document may smuggle line breaks into a message; a fault stays one line.
        return one_line(text)

    def __str__(self) -> str:
        return self.words if self.place is None else f"{one_line(str(self.place))}: {self.words}"


def _shrink_text(text: str) -> str:
    """Shrink a text that is too long for a message, such as a quoted document."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 200]} … {text[-197:]}"


class PlanError(Exception):
    """One or more errors of a document, sorted by place; of many, the first and how many more."""

    faults: tuple[Fault, ...]

    def __init__(
        self,
        faults: str | Fault | Iterable[Fault],
        place: Place | None = None,
        allowed: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Sort the faults by place, drop equal ones, and keep the first ``MOST``.

        Args:
            faults: at least one; further ones become a last fault that counts them. A text is the
                message of the only fault.
            place, allowed, hint: of the only fault, as ``Fault`` has them.
        """
        if isinstance(faults, str):
            faults = Fault(faults, place, allowed, hint)
        found = [faults] if isinstance(faults, Fault) else list(faults)
        found.sort(key=lambda fault: (fault.place or Place("")).order)
        found = list(dict.fromkeys(found))
        if len(found) > MOST:
            more = Fault(f"and {len(found) - MOST} more errors", found[MOST].place)
            found[MOST:] = [more]
        self.faults = tuple(found)
        super().__init__("\n".join(map(str, self.faults)))

    def __reduce__(self) -> tuple[type[PlanError], tuple[tuple[Fault, ...]]]:
        return PlanError, (self.faults,)  # so that it travels from one process to another


@contextmanager
def show_files_alone() -> Iterator[None]:
    """Raise the errors of the block with places in files only, none in a document that was made."""
    try:
        yield
    except PlanError as error:
        shown = (fault.place is None or fault.place.file[:1] != "<" for fault in error.faults)
        pairs = zip(error.faults, shown, strict=True)
        raise PlanError([f if kept else replace(f, place=None) for f, kept in pairs]) from None


@contextmanager
def collect_faults(faults: list[Fault]) -> Iterator[None]:
    """Add the faults of the block to others, and go on behind it."""
    try:
        yield
    except PlanError as error:
        faults += error.faults


@contextmanager
def require_extra(what: str, extra: str, instead: str = "") -> Iterator[None]:
    """Raise a PlanError if the block imports a package that is missing.

    Args:
        what: what needs the package; the subject of the message.
        extra: of pyproject.toml, which installs it.
        instead: what to do otherwise, after the command that installs.

    Raises:
        PlanError: the package is not installed.
    """
    try:
        yield
    except ImportError as error:
        fix = f"pip install '.[{extra}]'{instead}"
        raise PlanError(f"{what} needs {error.name or extra}", None, fix) from None


def format_divisors(number: int, most: int = 1024) -> str:
    """List the divisors of a number up to a bound, as the text of what is allowed."""
    return "one of " + ", ".join(str(i) for i in range(1, min(number, most) + 1) if number % i == 0)


def nearest(word: str, pool: Iterable[str]) -> str | None:
    """Find the spelling in `pool` closest to `word`; None where none is close."""
    if len(word) > 100:
        return None
    from difflib import get_close_matches  # only ever needed on the way to an error

    names, word = {name.casefold(): name for name in pool}, word.casefold()
    begun = [name for name in names if len(word) > 2 and name.startswith(word)]
    found = get_close_matches(word, begun or names, n=1, cutoff=0 if begun else 0.6)
    return names[found[0]] if found else None
