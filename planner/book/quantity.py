"""Named quantities: the declaration of a formula, and the registry that finds it again.

A formula is written once, as the body of a function under ``@quantity``. After decoration the
function's name *is* the SymPy symbol of the quantity, so other formulas use it like ``h`` or ``s``;
a reference to something that does not exist is a NameError that linters see.

A formula can be stated once and hold many times: ``per=("part",)`` says that it has one value for
each part of the model (each layer kind, the embedding, the head). ``Total``, ``Largest`` and
``AtLargest`` (``folds.py``) fold such values into one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sympy import Expr, Symbol

from planner.base import resources

When = Mapping[str, Any]
#: Lowest and highest value that a quantity can have; None where there is no bound.
Range = tuple[int | None, int | None]
COUNTED: Range = (0, None)  # seconds, bytes, parameters, dollars: nothing is negative
SHARE: Range = (0, 1)
SIGNED: Range = (None, None)  # what is left of something may be less than nothing


@dataclass(frozen=True, eq=False)
class Notation:
    """An input symbol: what it is called in papers, and which document key gives its value.

    ``key`` is the dotted key in the plan (``training.tokens``) or, for symbols with axes, the key
    inside the entry (``heads`` of a block); None for a symbol that the engine binds itself.
    ``cited``: who decided the value belongs to the source of what it enters, as with prices.
    ``kind`` is what a value that the document states is: ``exact`` for choices and for facts with
    a source, ``measured`` for what somebody read off, ``assumed`` for what it says about a run that
    has not been; ``neutral`` is a value that assumes nothing.
    """

    symbol: Symbol
    latex: str
    unit: str
    meaning: str
    key: str | None = None
    per: tuple[str, ...] = ()
    rank: int = 0
    cited: bool = False
    kind: str = "exact"
    neutral: int | None = None


@dataclass(frozen=True, eq=False)
class Declaration:
    """One formula of one quantity, valid where the plan's settings agree with ``when``."""

    id: str
    symbol: Symbol
    latex: str
    unit: str
    title: str
    source: str
    exact: bool
    when: When
    per: tuple[str, ...]
    coefficient: str
    within: Range
    build: Callable[[], Any] = field(repr=False)
    why: str = ""

    @cached_property
    def expression(self) -> Expr:
        """The SymPy expression; built at first use, since a plan needs a part of the book only."""
        from sympy import sympify  # numbers only: a body may return a plain int

        return sympify(self.build())

    def outside(self, value: Any) -> str | None:
        """Why a value cannot be that of this quantity; None where it can, or is a name."""
        low, high = self.within
        if isinstance(value, str):
            return None
        if (low is None or value >= low) and (high is None or value <= high):
            return None
        allowed = f"{low} or more" if high is None else f"{low} to {high}"
        return (
            f"outside its range: {float(value):.6g} {self.unit}, where {allowed} is possible; "
            "please report the plan that gives it"
        )

    def holds(self, settings: Callable[[str], Any]) -> bool:
        return all(agrees(settings(name), wanted) for name, wanted in self.when.items())


def agrees(actual: Any, wanted: Any) -> bool:
    """Whether a setting is what a ``when`` asks for: the value, or one of several."""
    return actual in wanted if isinstance(wanted, (tuple, set, frozenset)) else actual == wanted


#: How a value is known, the surest first; what rests on several is as sure as the least sure.
KINDS = ("exact", "measured", "estimate", "assumed")


class Book:
    """All declarations and input symbols, by id and by symbol."""

    def __init__(self) -> None:
        self.declarations: dict[str, list[Declaration]] = {}
        self.notation: dict[Symbol, Notation] = {}
        self.symbols: dict[Symbol, str] = {}

    def add(self, declaration: Declaration) -> None:
        others = self.declarations.setdefault(declaration.id, [])
        for other in others:
            kept = (other.unit, other.per, other.within)
            if kept != (declaration.unit, declaration.per, declaration.within):
                raise TypeError(f"{declaration.id}: alternatives differ in unit, axes or range")
        others.append(declaration)
        self.symbols[declaration.symbol] = declaration.id

    def note(self, entry: Notation) -> Symbol:
        if entry.symbol in self.notation:
            raise TypeError(f"symbol {entry.symbol} is declared twice")
        self.notation[entry.symbol] = entry
        return entry.symbol

    def choose(self, identifier: str, settings: Callable[[str], Any]) -> Declaration | None:
        """The one declaration that holds under these settings; None where none does."""
        found = [d for d in self.declarations[identifier] if d.holds(settings)]
        if len(found) > 1:
            names = " and ".join(str(dict(d.when)) for d in found)
            raise TypeError(f"{identifier}: several formulas hold at once: {names}")
        return found[0] if found else None


BOOK = Book()


def quantity(
    identifier: str,
    *,
    symbol: str,
    unit: str,
    title: str,
    source: str,
    exact: bool = True,
    when: When | None = None,
    per: tuple[str, ...] = (),
    coefficient: str = "1",
    within: Range = COUNTED,
) -> Callable[[Callable[[], Any]], Symbol]:
    """Declare a quantity; the decorated name becomes its symbol.

    ``unit`` is the unit of the value, ``coefficient`` the unit that the plain numbers in the
    expression carry (the 2 of ``2*m*n`` is FLOP per multiply-add), so that dimensions can be
    checked. ``source`` names paper, table and equation. ``when`` maps settings to the value (or
    values) under which this formula holds. ``within`` is the range of its values, which the engine
    refuses to leave: from 0 up, unless it is a ``SHARE`` or ``SIGNED``. The docstring explains each
    coefficient in a clause.
    """

    def declare(build: Callable[[], Any]) -> Symbol:
        why = " ".join(_docstring(build).split())
        if not why:
            raise TypeError(f"{identifier}: a quantity explains itself in its docstring")
        declaration = Declaration(
            id=identifier,
            symbol=Symbol(identifier),
            latex=symbol,
            unit=unit,
            title=title,
            source=source,
            exact=exact,
            when=dict(when or {}),
            per=per,
            coefficient=coefficient,
            within=within,
            build=build,
            why=why,
        )
        BOOK.add(declaration)
        return declaration.symbol

    return declare


def _docstring(build: Callable[[], Any]) -> str:
    """What a formula says of itself. Under -OO Python compiles no docstrings; reports are the same
    bytes under every interpreter, so they are read from the source then."""
    if build.__doc__ is None and sys.flags.optimize > 1:
        code = build.__code__
        return _docstrings(code.co_filename).get(code.co_firstlineno, "")
    return build.__doc__ or ""


@cache
def _docstrings(file: str) -> Mapping[int, str]:
    """The docstrings of a module's functions, by the first line of each with its decorators."""
    import ast

    functions = (
        node
        for node in ast.walk(ast.parse(resources.read_text(Path(file))))
        if isinstance(node, ast.FunctionDef)
    )
    return {
        min([node.lineno, *(d.lineno for d in node.decorator_list)]): ast.get_docstring(node) or ""
        for node in functions
    }


def symbol(
    name: str,
    meaning: str,
    *,
    unit: str = "1",
    latex: str | None = None,
    key: str | None = None,
    per: tuple[str, ...] = (),
    cited: bool = False,
    kind: str = "exact",
    neutral: int | None = None,
) -> Symbol:
    """Declare an input symbol of the notation table."""
    entry = Notation(
        symbol=Symbol(name, positive=True),
        latex=latex or name,
        unit=unit,
        meaning=meaning,
        key=key,
        per=per,
        rank=len(BOOK.notation),
        cited=cited,
        kind=kind,
        neutral=neutral,
    )
    return BOOK.note(entry)
