"""Quantities by what people call them: ids and their ends and beginnings, labels, symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain

from planner.base.errors import Fault, PlanError
from planner.results.figures import KEY_FIGURES
from planner.results.result import Quantity, Result

MOST = 8  # candidates that are named
LABELS = {row.id: row.label for row in KEY_FIGURES}


def is_pattern(asked: str) -> bool:
    """Whether it asks for all that begins so, or for all that a pattern with ``*`` fits."""
    return asked.endswith((".", "[")) or "*" in asked


def matching(result: Result, pattern: str) -> list[Quantity]:
    """The quantities whose ids begin so, or fit a pattern; those with entries by name only.

    Raises:
        PlanError: there is none.
    """
    wanted = pattern if "*" in pattern else f"{pattern}*"
    found = [
        quantity
        for quantity in result.quantities.values()
        if fnmatchcase(quantity.id.replace("[", "(").lower(), wanted.replace("[", "(").lower())
        and (not quantity.entries or "[" in pattern)
    ]
    if not found:
        raise PlanError(Fault(f"no quantity fits '{pattern}'", None, _ALL))
    return found


def called(result: Result, names: Sequence[str]) -> list[Quantity]:
    """The quantities that people call so, each name as for ``look_up`` or ``matching``, in their
    order and once each.

    Raises:
        PlanError: as these.
    """
    found = (
        matching(result, name) if is_pattern(name) else [look_up(result, name)] for name in names
    )
    return list(dict.fromkeys(chain.from_iterable(found)))


_ALL = "see plan.py list quantities"


def input_called(result: Result, asked: str) -> str | None:
    """The key of the input that is called so, by its key or its symbol; None where a quantity may
    be."""
    if asked in result.inputs:
        return asked
    from planner.typeset import TEXT, parse  # no summary needs it

    quantities = result.quantities.values()
    if any(not one.entries and one.symbol == asked for one in quantities):
        return None
    for note in result.evaluation.book.notation.values():
        if note.dotted in result.inputs and TEXT.write(parse(note.latex)) == asked:
            return note.dotted
    return None


def look_up(result: Result, asked: str) -> Quantity:
    """The quantity that people call so: by its id, else by a label or a symbol, the end of an id or
    words of it, its beginning, words of its title. Of several the only key figure is meant, else
    the only one of the fewest parts.

    Raises:
        PlanError: none is called so, with near spellings, or several are, with their ids.
    """
    base, _, _ = asked.partition("[")
    if base in result.evaluation.book.quantities:
        return result.find(asked)
    wanted = _plain(asked)
    whole = [quantity for quantity in result.quantities.values() if not quantity.entries]
    by_symbol = [quantity for quantity in whole if quantity.symbol == asked]
    by_words = ([one for one in whole if called(one, wanted)] for called in _WAYS if wanted)
    for found in chain([by_symbol], by_words):
        # What all others begin with is the whole of which they are parts.
        short = min(found, key=lambda one: len(one.id), default=None)
        figures = [quantity for quantity in found if quantity.id in LABELS]
        if short is not None and all(one.id.startswith(short.id) for one in found):
            return short
        level = min((one.id.count(".") for one in found), default=0)
        highest = [one for one in found if one.id.count(".") == level]
        if len(highest) == 1 and not figures:
            return highest[0]
        if len(figures) == 1:
            return figures[0]
        if found:
            names = [one.id for one in (figures or found)]
            more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
            few = f"one of {', '.join(names[:MOST])}{more}"
            raise PlanError(Fault(f"several quantities are called '{asked}'", None, few))
    absent = [one for one in result.absent if f".{_plain(one)}".endswith(f".{wanted}")]
    return result.find(absent[0] if len(absent) == 1 else asked)  # an absent one says why


def _plain(words: str) -> str:
    """Words without capitals, and with spaces between them."""
    return " ".join(words.lower().replace("_", " ").replace("-", " ").split())


def _names(quantity: Quantity) -> Iterator[str]:
    """Its label and its title."""
    yield LABELS.get(quantity.id, "")
    yield quantity.title


def _whole_name(quantity: Quantity, wanted: str) -> bool:
    return wanted in map(_plain, _names(quantity))


def _end(quantity: Quantity, wanted: str) -> bool:
    return f".{_plain(quantity.id)}".endswith(f".{wanted}")


def _words(quantity: Quantity, wanted: str) -> bool:
    return f" {_plain(quantity.id).replace('.', ' ')}".endswith(f" {wanted}")


def _beginning(quantity: Quantity, wanted: str) -> bool:
    return _plain(quantity.id).startswith(wanted)


def _in_name(quantity: Quantity, wanted: str) -> bool:
    return any(f" {wanted}" in f" {_plain(name)}" for name in _names(quantity))


#: From the surest way to the least sure; the first by which something is called so decides.
_WAYS: tuple[Callable[[Quantity, str], bool], ...] = (
    _whole_name,
    _end,
    _words,
    _beginning,
    _in_name,
)
