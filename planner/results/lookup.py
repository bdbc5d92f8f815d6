"""Find quantities by their common names: ids, parts of ids, labels, symbols; and the key figures
of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain

from planner.base import resources
from planner.base.errors import PlanError
from planner.documents import aliases
from planner.results.result import Quantity, Result

#: The key figures of a plan: the label of each by its id.
LABELS = {name: label for label, name in resources.load_beside(__file__).items()}
MOST = 8  # candidates that are named


def is_pattern(asked: str) -> bool:
    """Decide whether a name is a prefix (``memory.``) or a pattern with ``*``."""
    return asked.endswith((".", "[")) or "*" in asked


def matching(result: Result, pattern: str) -> list[Quantity]:
    """List the quantities whose ids match a prefix or a pattern; those with entries only by name.

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
        raise PlanError(f"no quantity matches '{pattern}'", None, _ALL)
    return found


def select_quantities(result: Result, names: Sequence[str]) -> list[Quantity]:
    """List the quantities of some names or patterns, in their order and once each.

    Raises:
        PlanError: a name or a pattern has none, or a name has several.
    """
    found = (
        matching(result, name) if is_pattern(name) else [look_up(result, name)] for name in names
    )
    return list(dict.fromkeys(chain.from_iterable(found)))


_ALL = "see plan.py list quantities"


def find_input(result: Result, asked: str) -> str | None:
    """Return the key of the input with this key or symbol; None if a quantity may have the
    symbol."""
    if asked in result.inputs:
        return asked
    from planner.typeset.boxes import read_latex  # no summary needs it
    from planner.typeset.styles import TEXT

    quantities = result.quantities.values()
    if any(not one.entries and one.symbol == asked for one in quantities):
        return None
    for note in result.evaluation.book.notation.values():
        if note.dotted in result.inputs and TEXT.write(read_latex(note.latex)) == asked:
            return note.dotted
    return None


def look_up(result: Result, asked: str) -> Quantity:
    """Find the quantity of a name: by its id or an alias, else by a label or a symbol, the end of
    an id or words of it, its beginning, words of its title, at last in any order. Of several
    matches the only key figure is returned, else the only one with the fewest parts.

    Raises:
        PlanError: no quantity matches (with near spellings), or several do (with their ids).
    """
    base, _, _ = asked.partition("[")
    if base in result.evaluation.book.quantities:
        return result.find(asked)
    meant = aliases.find_quantities(asked)
    if meant:
        return result.find(next((name for name in meant if result.get(name)), meant[0]))
    wanted = _plain(asked)
    whole = [quantity for quantity in result.quantities.values() if not quantity.entries]
    by_symbol = [quantity for quantity in whole if quantity.symbol == asked]
    by_words = ([one for one in whole if called(one, wanted)] for called in _WAYS if wanted)
    for found in chain([by_symbol], by_words):
        # A match that is the prefix of all others is their whole.
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
            raise PlanError(f"several quantities are called '{asked}'", None, few)
    absent = [one for one in result.absent if f".{_plain(one)}".endswith(f".{wanted}")]
    return result.find(absent[0] if len(absent) == 1 else asked)  # an absent one says why


def _plain(words: str) -> str:
    """Normalise words: lower case, with spaces between them."""
    return " ".join(words.lower().replace("_", " ").replace("-", " ").split())


def _yield_names(quantity: Quantity) -> Iterator[str]:
    """Yield its label and its title."""
    yield LABELS.get(quantity.id, "")
    yield quantity.title


def _match_any_order(quantity: Quantity, wanted: str) -> bool:
    """Decide whether all words of a text are in one name of a quantity, in any order."""
    words = aliases.words_of(wanted)
    return bool(words) and any(words <= aliases.words_of(name) for name in _yield_names(quantity))


#: Ways to match, most reliable first; the first that matches decides.
_WAYS: tuple[Callable[[Quantity, str], bool], ...] = (
    lambda quantity, wanted: wanted in map(_plain, _yield_names(quantity)),
    lambda quantity, wanted: f".{_plain(quantity.id)}".endswith(f".{wanted}"),
    lambda quantity, wanted: f" {_plain(quantity.id).replace('.', ' ')}".endswith(f" {wanted}"),
    lambda quantity, wanted: _plain(quantity.id).startswith(wanted),
    lambda quantity, wanted: any(
        f" {wanted}" in f" {_plain(name)}" for name in _yield_names(quantity)
    ),
    _match_any_order,
)
