"""Named quantities: what each is, the formulas that give its value, and the book that has them all.

A quantity is one object, declared once with its id, unit and title; where other formulas use it,
its Python name stands for its symbol, like ``h`` or ``s``. Its formulas are stated below it, each
with its source, the settings under which it holds (``settings.py``), its value and a sentence::

    gathers = Quantity("time.part.gathers", "t_G", "gathering weights", unit="s", per="part")
    gathers.by(ZERO, zero=(0, 1, 2)).equals(0, "Every device holds its weights.")
    gathers.by(FSDP, zero=3, reshard=True).equals(
        3 * rings, "Weights are gathered for the forward and for the backward pass."
    )

A quantity of one formula is its declaration and that formula: ``Quantity(…).equals(…)``.
``per="part"`` says that it has one value for each part of the model (each layer kind, the
embedding, the head); the reductions of ``language.py`` make such values into one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from planner.base import numbers
from planner.book.canonical import to_canonical
from planner.book.expressions import REDUCTIONS, Expression, Operand, Symbol, to_expression
from planner.book.settings import expand_keywords

When = Mapping[str, Any]
#: Lowest and highest value that a quantity can have; None where there is no bound.
Range = tuple[int | None, int | None]
COUNTED: Range = (0, None)  # seconds, bytes, parameters, dollars: nothing is negative
SHARE: Range = (0, 1)
SIGNED: Range = (None, None)  # what is left of something may be less than nothing


class Notation(NamedTuple):
    """An input symbol: what it is called in papers, and which document key gives its value.

    ``key`` is the dotted key in the plan (``training.tokens``) or, for symbols with axes, the key
    inside the entry (``heads`` of a block); None for a symbol that the engine binds itself.
    ``cited``: who decided the value belongs to the source of what it enters, as with prices.
    ``kind`` is what a value that the document states is: ``exact`` for choices and for facts with
    a source, ``measured`` for what somebody read off, ``assumed`` for what it says about a run that
    has not been; ``neutral`` is a value that assumes nothing. ``only_formulas``: nothing else reads
    the key, so that plans which differ in it alone are completed once and evaluated together.
    """

    symbol: Symbol
    meaning: str
    latex: str
    rank: int
    key: str | None = None
    per: tuple[str, ...] = ()
    unit: str = "1"
    cited: bool = False
    kind: str = "exact"
    neutral: int | None = None
    only_formulas: bool = False

    @property
    def dotted(self) -> str | None:
        """The dotted key in the plan, which a block has below ``model``."""
        return f"model.{self.key}" if self.per == ("block",) else self.key


#: Further facts about a quantity.
FACTS = frozenset(("share", "short", "attribution", "scales_with", "reading", "beyond", "stacked"))


class Quantity(Operand):
    """What a quantity is, whichever of its formulas holds; in expressions, its symbol.

    ``unit`` is the unit of the value, ``coefficient`` the unit that the plain numbers in its
    formulas carry (the 2 of ``2*m*n`` is FLOP per multiply-add), so that dimensions can be checked.
    ``within`` is the range of its values, which the engine refuses to leave: from 0 up, unless it
    is a ``SHARE`` or ``SIGNED``. ``symbol`` is typed (``t_step``, see ``typeset_symbol``) or LaTeX;
    ``per`` names its axes. Further keywords are ``source``, which names paper, table and equation,
    ``exact``, and settings under which alone it has a value; its formulas may state any of source,
    title, exact and coefficient anew.

    What else is said of a quantity stands here too: ``share``, it prints as a percentage;
    ``short``, its title in a table, where the title is too long; ``attribution``, the work or the
    memory that it is counted under where a step or a device's memory is taken apart;
    ``scales_with``, how it moves with the time of a step (``time``, or ``rate``: it falls), so that
    published runs bound it; ``reading``, what published readings of memory read of it; ``beyond``,
    what it means that it is too small or too large for any number, or for its range; ``stacked``,
    that a stack in front of the decoder (a tower) has one of its own, since it rests on width,
    length and batch.
    """

    #: Whether a document defines it.
    own = False
    share = stacked = False
    short = attribution = scales_with = reading = beyond = ""

    def __init__(
        self,
        identifier: str,
        symbol: str,
        title: str,
        *,
        unit: str = "1",
        per: str = "",
        within: Range = COUNTED,
        book: Book | None = None,
        **said: Any,
    ) -> None:
        self.id, self.typed, self.title = identifier, symbol, title
        self.symbol = Symbol(identifier)
        self.unit, self.within, self.per = unit, within, tuple(per.split())
        self.formulas: list[Formula] = []
        self.__dict__.update({fact: said.pop(fact) for fact in FACTS & said.keys()})
        #: Defaults of its formulas.
        self.shared = {"title": title, "source": "", "exact": True, "coefficient": "1", **said}
        (BOOK if book is None else book).add_quantity(self)

    @cached_property
    def latex(self) -> str:
        """Its symbol in LaTeX."""
        return typeset_symbol(self.typed)

    def __repr__(self) -> str:
        return f"<{self.id}, in {self.unit or 'names'}, of {len(self.formulas)} formulas>"

    def text(self, value: Any, style: numbers.Style = "headline", full: bool = False) -> str:
        """Format a value as ``numbers.text`` does.

        Args:
            value: in the unit of the quantity.
            style: of ``numbers.text``; the headline of a ``share`` is a percentage.
            full: whether a headline has all digits of a count.
        """
        if self.share and style == "headline":
            style = "share"
        return numbers.text(value, self.unit, style, full=full)

    def by(self, source: str, **how: Any) -> Where:
        """Start a formula as ``where`` does, with a source: a paper, a program, a definition."""
        return self.where(source=source, **how)

    def where(self, **how: Any) -> Where:
        """Start a formula: the settings under which it applies, and what it overrides."""
        return Where(self, how)

    def equals(self, value: Any, why: str) -> Quantity:
        """Declare the only formula."""
        return self.where().equals(value, why)

    def choose_formula(self, settings: Callable[[str], Any]) -> Formula | None:
        """Return the formula that applies under these settings, or None."""
        found = [
            formula
            for formula in self.formulas
            if all(agrees(settings(name), wanted) for name, wanted in formula.when.items())
        ]
        if len(found) > 1:
            names = " and ".join(str(dict(formula.when)) for formula in found)
            raise TypeError(f"{self.id}: several formulas hold at once: {names}")
        return found[0] if found else None

    def explain_outside(self, value: Any) -> str | None:
        """Explain why a value is out of range; return None if it is in range, or is a name."""
        low, high = self.within
        if isinstance(value, str):
            return None
        if (low is None or value >= low) and (high is None or value <= high):
            return None
        allowed = f"{low} or more" if high is None else f"{low} to {high}"
        return self.beyond or (
            f"outside its range: {float(value):.6g} {self.unit}, where {allowed} is possible; "
            "please report the plan that gives it"
        )


class Where(NamedTuple):
    """A formula to be declared, with the settings under which it applies."""

    quantity: Quantity
    how: dict[str, Any]

    def equals(self, value: Any, why: str) -> Quantity:
        """Declare the formula by its value, and a sentence that explains each coefficient."""
        quantity, said = self.quantity, self.quantity.shared | self.how
        own = {name: said.pop(name) for name in ("title", "source", "exact", "coefficient")}
        quantity.formulas.append(
            Formula(quantity, expand_keywords(said), **own, why=why, written=to_expression(value))
        )
        return quantity


@dataclass(frozen=True, eq=False)
class Formula:
    """One formula of a quantity, which applies if the plan's settings match ``when``."""

    quantity: Quantity
    when: When
    title: str
    source: str
    exact: bool
    coefficient: str
    why: str
    written: Expression

    @property
    def id(self) -> str:
        """The id of its quantity."""
        return self.quantity.id

    @cached_property
    def expression(self) -> Expression:
        """Its canonical form; made at first use, since a plan needs only a part of the book."""
        return to_canonical(self.written)


def agrees(actual: Any, wanted: Any) -> bool:
    """Decide whether a setting has the wanted value, or one of several."""
    return (
        actual in wanted if isinstance(wanted, (tuple, list, set, frozenset)) else actual == wanted
    )


#: The certainty of a value, strongest first; that of a derived value is its weakest input's.
KINDS = ("exact", "measured", "estimate", "assumed")


class Book:
    """All quantities and input symbols, by id and by symbol."""

    def __init__(self) -> None:
        self.quantities: dict[str, Quantity] = {}
        self.notation: dict[Symbol, Notation] = {}
        self.symbols: dict[Expression, str] = {}

    def add_quantity(self, quantity: Quantity) -> None:
        """Add a quantity; raise a TypeError if its id is taken."""
        if quantity.id in self.quantities:
            raise TypeError(f"{quantity.id} is declared twice")
        self.quantities[quantity.id] = quantity
        self.symbols[quantity.symbol] = quantity.id

    def find_carrier(self, term: Expression, unit: str) -> str | None:
        """Return the quantity that a term of a sum in a unit equals or is a multiple of."""
        factors = term.args if term.op == "mul" else (term,)
        ids = [self.symbols[f] for f in factors if isinstance(f, Symbol) and f in self.symbols]
        if len(ids) > 1:  # of several, the one that is counted: m · t_m seconds are those of t_m
            ids = [i for i in ids if self.quantities[i].unit == unit]
        plainly = not any(f.op == "add" or f.op in REDUCTIONS for f in factors)
        return ids[0] if len(ids) == 1 and plainly else None

    def collect_inputs(self, quantities: Iterable[str]) -> set[str]:
        """Return some quantities and all quantities that they depend on in any plan."""
        found, waiting = set[str](), {*quantities}
        while waiting:
            found |= waiting
            formulas = (f for name in waiting for f in self.quantities[name].formulas)
            used = {symbol for formula in formulas for symbol in formula.written.symbols}
            waiting = {self.symbols[s] for s in used if s in self.symbols} - found
        return found

    def list_formulas(self) -> Iterator[Formula]:
        """Yield all formulas, in the order of their declaration."""
        for quantity in self.quantities.values():
            yield from quantity.formulas


BOOK = Book()


def typeset_symbol(symbol: str) -> str:
    """Typeset a typed symbol in LaTeX: the letters of an index become upright words (``t_step``,
    ``M_act^{k}``), variable parts follow them; anything else is LaTeX already."""

    def upright(found: re.Match[str]) -> str:
        """Return a sub- or superscript in LaTeX: words upright, what varies in italics."""
        start, index, varies = found.groups()
        if not index.isdigit():
            index = ",".join(rf"\mathrm{{{word}}}" for word in index.split(","))
        return f"{start}{{{index}{varies}}}"

    return re.sub(r"([_^])([A-Za-z0-9,]{2,}?)((?:,[a-z]|,\\[a-z\\]+)?)(?=['_^]|$)", upright, symbol)


def symbol(
    name: str,
    meaning: str,
    key: str = "",
    *,
    under: str = "",
    letter: str = "",
    latex: str = "",
    per: str = "",
    **more: Any,
) -> Symbol:
    """Declare an input symbol of the book.

    Args:
        name: in formulas, such as ``d_h``.
        meaning: what it is called in reports.
        key: of the document, behind ``under``; none for a symbol that the engine binds.
        under: the start of the key, which several symbols share.
        letter: in LaTeX in place of the first part of the name; the rest is its index.
        latex: the whole symbol, where a letter and an index do not make it.
        per: axes, separated by spaces.
        more: further fields of ``Notation``.

    Raises:
        TypeError: the name is declared already.
    """
    made = Symbol(name, positive=True)
    if made in BOOK.notation:
        raise TypeError(f"symbol {name} is declared twice")
    first, underscore, index = name.partition("_")
    latex = typeset_symbol(latex or (letter or first) + underscore + index)
    BOOK.notation[made] = Notation(
        made, meaning, latex, len(BOOK.notation), under + key or None, tuple(per.split()), **more
    )
    return made
