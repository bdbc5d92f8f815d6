"""Quantities that a document defines: the `quantities` of a plan, as a book of the plan's own.

A formula of a document becomes a formula like those of the book, below the names of its own. Plans
whose definitions are the same have one book, so that they share graphs; nothing that is kept for
one book serves another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.base import files, units
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.base.numbers import plain_text
from planner.book import formula_text
from planner.book.expressions import Expression, Symbol
from planner.book.formula_text import FormulaError, FormulaTerm
from planner.book.quantity import BOOK, SIGNED, Book, Formula, Notation, Quantity
from planner.documents import schema
from planner.documents.source import Document
from planner.documents.yaml_nodes import MAX_BYTES
from planner.plans.document import Draft

SECTION = "quantities"
#: Larger values cannot be reported: floats end there.
BEYOND = 10**300
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}", re.ASCII)
#: Sections whose numbers follow from a layout: of these, formulas take what the book has a symbol
#: for, since a search knows how these follow.
_OF_LAYOUT = ("training.", "parallelism.")


class Definition(NamedTuple):
    """One own quantity as a document has it."""

    name: str
    formula: str
    unit: str | None
    title: str
    description: str


class OwnQuantity(Quantity):
    """A quantity that a document defines; it may have any value that floats reach."""

    own = True

    def explain_outside(self, value: Any) -> str | None:
        """Explain why a value cannot be printed; any other value is in range."""
        size = abs(value)
        if size <= BEYOND and (not size or size * BEYOND >= 1):
            return None
        return "its value is beyond what a report can print (10^±300)"


class OwnFormula(Formula):
    """The formula of a document, in the order in which it was written."""

    @cached_property
    def expression(self) -> Expression:
        """The tree as it is written: the parser has put it in order."""
        return self.written


class Own(Book):
    """The book extended by the quantities of a document."""

    def __init__(self, definitions: tuple[Definition, ...]) -> None:
        super().__init__()
        self.definitions = definitions
        self.quantities = {**BOOK.quantities}
        self.notation = {**BOOK.notation}
        self.symbols = {**BOOK.symbols}

    def __reduce__(self) -> Any:
        return add_quantities, (self.definitions,)


class Wrong(Exception):
    """A fault of a definition: its name, which of its keys, and the error."""

    def __init__(self, name: str, key: str, error: FormulaError) -> None:
        super().__init__(name, key, error)
        self.name, self.key, self.error = name, key, error


def extend_book(draft: Draft) -> Book:
    """Return the book of a plan, extended by its own quantities; add their faults to the draft."""
    section = draft.get(SECTION)
    if not section:
        return BOOK
    definitions = []
    for name, said in section.items():
        if said is not None:
            formula, description = said["formula"], said.get("description")
            text = formula if isinstance(formula, str) else plain_text(formula)
            why = description or f"As {SECTION}.{name} of the plan says."
            title = said.get("title") or name.replace("_", " ")
            definitions.append(Definition(name, text, said.get("unit"), title, why))
    try:
        return add_quantities(tuple(definitions)) if definitions else BOOK
    except Wrong as wrong:
        draft.faults.append(_place_fault(wrong, draft.document))
        return BOOK


@lru_cache(maxsize=32)
def add_quantities(definitions: tuple[Definition, ...]) -> Book:
    """Extend the book by these quantities.

    Raises:
        Wrong: the first that is faulty.
    """
    made = Own(definitions)
    reader = _Definitions(made)
    for definition in definitions:
        if not _NAME.fullmatch(definition.name):
            allowed = "letters of a to z, digits and _, a letter first, at most 60"
            shown = definition.name[:60]
            raise Wrong(definition.name, "", FormulaError(f"'{shown}' is not a name", 0, allowed))
        if definition.name in {*BOOK.quantities, *formula_text.FUNCTIONS}:
            wrong = f"'{definition.name}' is a built-in name of formulas"
            raise Wrong(definition.name, "", FormulaError(wrong, 0, "another name"))
    for definition in definitions:
        reader.read_definition(definition.name)
    for definition in definitions:  # in the order of the document
        made.quantities[definition.name] = made.quantities.pop(definition.name)
    return made


class _Waits(Exception):
    """Raised where a formula names an own quantity that is not read yet."""

    def __init__(self, name: str, at: int) -> None:
        super().__init__(name, at)
        self.name, self.at = name, at


class _Definitions:
    """Reads definitions, each after those that it rests on."""

    def __init__(self, made: Own) -> None:
        self.made = made
        self.by_name = {one.name: one for one in made.definitions}
        self.terms: dict[str, FormulaTerm] = {}

    def read_definition(self, name: str) -> None:
        """Read a definition, and before it those that it depends on."""
        way = [name]
        while way:
            name = way[-1]
            try:
                if name not in self.terms:
                    self._parse_definition(self.by_name[name])
                way.pop()
            except _Waits as waits:
                if waits.name in way:
                    circle = " → ".join([*way[way.index(waits.name) :], waits.name])
                    error = FormulaError(f"a circle: {circle}", waits.at)
                    raise Wrong(name, "formula", error) from None
                way.append(waits.name)
            except FormulaError as error:
                raise Wrong(name, "formula", error) from None

    def _parse_definition(self, definition: Definition) -> None:
        """Parse a formula and add its quantity to the copy of the book.

        Raises:
            FormulaError: the formula is none, at its character.
            _Waits: it uses a quantity that is defined further down.
        """
        found = formula_text.parse_formula(definition.formula, self.resolve_name)
        name, unit = definition.name, self._choose_unit(definition, found)
        quantity = OwnQuantity(
            name, _format_upright(name), definition.title, unit=unit, within=SIGNED, book=self.made
        )
        formula = OwnFormula(
            quantity,
            {},
            definition.title,
            "the plan",
            found.rational,
            "1",
            definition.description,
            formula_text.convert_unit(found, unit),
        )
        quantity.formulas.append(formula)
        self.terms[name] = formula_text.make_term(
            quantity.symbol, unit, found.size + 1, found.rational
        )

    def _choose_unit(self, definition: Definition, found: FormulaTerm) -> str:
        """Return the given unit if the formula has its dimension; else derive a unit."""
        unit, constant = definition.unit, not found.tree.symbols
        if unit is None:
            return formula_text.find_unit(found.dimension)
        try:
            _, dimension = formula_text.resolve_unit(unit)
        except units.UnitError as error:
            wrong = FormulaError(error.message, 0, error.allowed, error.hint)
            raise Wrong(definition.name, "unit", wrong) from None
        if dimension != found.dimension and not (constant and found.nothing):
            has = str(found.dimension) if found.dimension else "no unit"
            message = f"unit '{unit}', but the formula gives {has}"
            allowed = f"such as {formula_text.find_unit(found.dimension)}"
            raise Wrong(definition.name, "formula", FormulaError(message, 0, allowed))
        return unit

    def resolve_name(self, name: str, at: int) -> FormulaTerm:
        """Resolve a name in a formula: an own quantity, one of the book, a key.

        Raises:
            FormulaError: nothing that is a number.
            _Waits: an own quantity that is not read yet.
        """
        if name in self.terms:
            return self.terms[name]
        if name in self.by_name:
            raise _Waits(name, at)
        quantity = BOOK.quantities.get(name)
        if quantity is not None:
            if not quantity.unit:
                raise FormulaError(f"{name} is a name, not a number", at)
            if quantity.per:
                axes = " and ".join(quantity.per)
                raise FormulaError(f"{name} has a value for each {axes}", at, "one of the plan")
            return formula_text.make_term(quantity.symbol, quantity.unit)
        return self._read_key(name, at)

    def _read_key(self, key: str, at: int) -> FormulaTerm:
        """Return the term of a number that the plan has under a key."""
        note = _map_notes().get(key)
        said = schema.describe("plan", key) if note is None and "." in key else None
        if note is None and said is None:
            pool = [
                *self.by_name,
                *(i for i, q in BOOK.quantities.items() if q.unit),
                *_map_notes(),
            ]
            ends = {each.rpartition(".")[2]: each for each in reversed(pool)}
            near = ends.get(key) or nearest(key, pool) or ends.get(nearest(key, ends) or "")
            allowed = "an own quantity, an id of plan.py list quantities, a key such as"
            raise FormulaError(f"unknown name '{key[:80]}'", at, f"{allowed} training.tokens", near)
        if note is None:
            assert said is not None
            kinds = [said["type"]] if isinstance(said.get("type"), str) else said.get("type", ())
            if not {"number", "integer"}.intersection(kinds) or key.startswith(_OF_LAYOUT):
                raise FormulaError(f"{key} is not a number", at)
            note = Notation(
                Symbol(key, positive=True),
                str(said.get("description", key)).rstrip(".").partition(".")[0].lower(),
                _format_upright(key.rpartition(".")[2]),
                len(self.made.notation),
                key,
                unit=str(said.get("unit", "1")),
            )
        if note.per:  # of one block; here of the model as a whole, where that says it
            symbol = Symbol(key, positive=True)
            note = note._replace(symbol=symbol, key=key, per=(), rank=len(self.made.notation))
        self.made.notation.setdefault(note.symbol, note)
        return formula_text.make_term(note.symbol, note.unit)


def _format_upright(name: str) -> str:
    """Format a name as upright LaTeX."""
    escaped = name.replace("_", r"\_")
    return rf"\mathrm{{{escaped}}}"


@lru_cache(maxsize=1)
def _map_notes() -> Mapping[str, Notation]:
    """Map the inputs that the book has symbols for by their keys in a plan; a symbol of the whole
    plan wins over one of a block."""
    found = {note.dotted: note for note in BOOK.notation.values() if note.per == ("block",)}
    found |= {note.key: note for note in BOOK.notation.values() if not note.per}
    return {key: note for key, note in found.items() if key is not None}


def _place_fault(wrong: Wrong, document: Document) -> Fault:
    """Return the fault of a definition at its place in the document, inside the text of the formula
    if it can be found there."""
    path = (SECTION, wrong.name, *([wrong.key] if wrong.key else []))
    error, place = wrong.error, document.find_place(path)
    label = ".".join(path[:2])
    if not wrong.key:
        place = document.find_key_place(path)
    elif wrong.key == "formula":
        text = document.find_node(path).value
        place = locate_character(place, str(text), error.at)
    return Fault(f"{label}: {error.message}", place, error.allowed, error.hint)


def locate_character(place: Place, text: str, at: int) -> Place:
    """Return the place of one character of a text. If the file differs from the text by more than
    spaces (a folded line of YAML) or is missing, return the place of the whole text.

    Args:
        place: where the text begins.
        text: as the document was read.
        at: index of the character in the text.
    """
    if place.line is None or place.column is None:
        return place
    written, start = "", 0
    with suppress(PlanError):
        lines = files.read_text(place.file, MAX_BYTES).split("\n")[place.line - 1 :]
        written = "\n".join(lines)[place.column - 1 :]
    if written[:1] in ("'", '"'):
        start = 1
    elif written[:1] in ("|", ">"):
        start = written.find("\n")
    for char in (c for c in text[:at] if not c.isspace()):
        start = _skip_spaces(written, start)
        if written[start : start + 1] != char:
            return place
        start += 1
    start = _skip_spaces(written, start) if at < len(text) else start
    before = written[:start]
    line = before.count("\n")
    column = len(before) - before.rfind("\n") if line else place.column + start
    return Place(place.file, place.line + line, column)


def _skip_spaces(text: str, at: int) -> int:
    """Skip spaces: return the index of the next other character."""
    return at + len(text[at:]) - len(text[at:].lstrip())
