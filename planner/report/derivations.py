"""Derivations: the formula, numbers, result, source and explanation of each quantity.

Formulas stay boxes of planner.typeset; each template writes them in its own style.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from planner.base import numbers
from planner.base.display import clean, headline
from planner.base.numbers import PLAIN, format_column, split_digits
from planner.base.sandbox import Record
from planner.book.quantity import KINDS
from planner.engine.evaluate import Entry
from planner.report.elements import Link
from planner.report.facts import format_interval
from planner.report.layout import SECTIONS, SHOWN
from planner.results.closed_form import ClosedForm, derive_form
from planner.results.result import Quantity, Result
from planner.typeset.boxes import Box, is_flat, is_tall, read_latex
from planner.typeset.styles import TEXT

#: Prefixes of the keys of a plan that select a formula.
CHOSEN, MODE = ("training.", "parallelism."), ("training.mode",)
MANY = 6  # values of one input that are written out
LONG = 60  # printed characters of numbers beyond which only the first row of a table has them
LINE = 76  # printed characters after which a long sum goes on in the next line


class InputRow(Record):
    """An input of a formula.

    Attributes:
        symbol, key: its symbol, and the key of the plan; empty without one.
        name, meaning: what formulas print, and what it is.
        given: its values.
        value, origin: these as printed, and where they come from.
        stated: whether the plan states it.
    """

    symbol: str
    key: str
    name: Box
    meaning: str
    given: list[Any]
    value: str
    origin: str
    stated: bool


class InstanceRow(Record):
    """Instances of a formula with the same numbers.

    Attributes:
        entries: the instances, by what their entries are called.
        value: the value as printed.
        symbolic, numeric: the formula; ``symbolic`` is None of a zero.
        plain: the formula with numbers as text, if that is all there is to it.
        same: whether the numbers are the value already.
        again: whether the numbers are those of the first row in another guise.
    """

    entries: list[Link]
    value: str
    symbolic: Box | None
    numeric: Box
    plain: str
    same: bool
    again: bool


class Derivation(Record):
    """How a quantity is computed.

    Attributes:
        id, base: the anchor, and the quantity.
        title, why: what it is, and what explains the formula.
        cited: the sources, each with its number.
        known: how it is known.
        nothing: whether it is zero.
        name: its symbol.
        inputs: the inputs of the formula.
        uses: the quantities in it.
        kind: one, or table of several instances.

        Of one value:

        plain: all of it as text.
        closed: the closed form, if it adds to the formula.
        symbolic, put: the formula on its lines, and the numbers put in, if they add to it.
        value: the exact value, and the rounded one if it differs.
        terms: the unit, and the name, value and id of each summand, if the numbers are unclear.

        Of a table:

        where: the settings under which it applies.
        unit, axis: of the values, and what the entries are.
        generic: the formula with symbols.
        formulas, numbers: whether rows have formulas of their own on one line, and numbers.
        rows: the instances.
        shown: the section whose table has the values; empty without one.
    """

    id: str
    base: str
    title: str
    why: str
    cited: list[tuple[int, str]]
    known: str
    nothing: bool
    name: Box
    inputs: list[InputRow]
    uses: list[Link]
    kind: str
    plain: str = ""
    closed: ClosedForm | None = None
    symbolic: Sequence[Box] = ()
    put: Sequence[Box] = ()
    value: tuple[str, str] = ("", "")
    terms: tuple[str, list[tuple[str, str, str | None]]] | None = None
    where: str = ""
    unit: str = ""
    axis: str = ""
    generic: Box | None = None
    formulas: bool = False
    numbers: bool = False
    rows: Sequence[InstanceRow] = ()
    shown: str = ""


class Derivations:
    """The derivations of all quantities, or of one with all its instances, in the order of the
    book, and the numbered sources.

    Args:
        result: the result.
        only: the base of the one quantity to derive; None for all.

    Attributes:
        items: the derivations; instances that share a formula are one table.
    """

    def __init__(self, result: Result, only: str | None = None) -> None:
        self.result = result
        #: Numbered sources of the formulas, in the order of their first use.
        self.sources: dict[str, int] = {}
        #: The id of the derivation of each instance of a quantity, if it has another one.
        self.headings: dict[str, str] = {}
        instances: dict[Any, list[Quantity]] = {}  # of each formula, or the one without entries
        for quantity in result.quantities.values():
            if only not in (None, quantity.base):
                continue
            alike = quantity.chosen if quantity.entries else quantity.id
            instances.setdefault(alike, []).append(quantity)
        self.items: list[Derivation] = [
            self._derive_table(alike) if alike[0].entries else self._derive_one(alike[0])
            for alike in instances.values()
        ]

    def _build_head(self, quantities: Sequence[Quantity]) -> dict[str, Any]:
        """Return what each derivation has; number each cited work once."""
        quantity = quantities[0]
        other = quantity.alternative if quantity.result.assumes_utilisation else None
        note = f" Without the assumption {format_interval(other)} is predicted." if other else ""
        works = map(clean, re.split(r";(?=\s*[A-Z])(?![^()]*\))", quantity.source))
        return {
            "base": quantity.base,
            "title": headline(quantity.title),
            "why": clean(f"{quantity.why}{note}", 2000),
            "cited": [(self.sources.setdefault(w, len(self.sources) + 1), w) for w in works],
            "known": max((each.kind for each in quantities), key=KINDS.index),
            "nothing": all(each.value == 0 for each in quantities),
            "inputs": [row for each in quantities for row in describe_inputs(each)],
            "uses": group_links({used.key: used for q in quantities for used in q.uses}.values()),
        }

    def _derive_one(self, quantity: Quantity) -> Derivation:
        """Derive a quantity: formula, numbers and value as separate lines."""
        boxes = [*quantity.boxes]
        steps = [TEXT.write(box) for box in boxes]
        value, text = _format_exact(quantity), _typeset_value(quantity.value)
        # The numbers may be the formula, or the value already where nothing is left to compute.
        if len(steps) > 1 and (steps[1] in (steps[0], "") or steps[1] == text):
            del steps[1], boxes[1]
        name = TEXT.write(quantity.symbol_name)
        return Derivation(
            kind="one",
            id=quantity.id,
            **self._build_head([quantity]),
            name=quantity.symbol_name,
            plain=f"{name} = {steps[0]} = {quantity.text('exact')}",
            closed=pick_closed_form(quantity),
            symbolic=break_sum(boxes[0]),
            put=boxes[1:],
            value=value,
            terms=_list_summands(quantity),
        )

    def _derive_table(self, quantities: Sequence[Quantity]) -> Derivation:
        """Derive a formula at several entries: one row for all entries with the same numbers."""
        first, typesetter = quantities[0], self.result.typesetter
        formula = first.chosen
        assert formula is not None
        generic = typesetter.box(formula.expression, None)
        plain = TEXT.write(generic)
        chosen = ((k, v) for k, v in formula.when.items() if k.startswith(CHOSEN) and k not in MODE)
        # The id is that of the quantity; further tables of it are numbered.
        tables = len({at for at in self.headings.values() if at.partition("-")[0] == first.base})
        identifier = f"{first.base}-{tables + 1}" if tables else first.base
        said: dict[int, tuple[Any, InstanceRow]] = {}  # by node: of one node, all is the same
        rows: dict[Any, InstanceRow] = {}
        for quantity in quantities:
            node = quantity.trace.body
            if node not in said:
                said[node] = _build_instance(quantity, generic, plain)
            (alike, row), entry = said[node], " · ".join(map(label_entry, quantity.entries))
            rows.setdefault(alike, row).entries.append(Link(quantity.id, entry))
            self.headings[quantity.id] = identifier
        top, *others = rows.values()
        others = [
            replace(row, again=row.again and row.symbolic == top.symbolic is not None)
            for row in others
        ]
        alone = ((s.id, table) for s in SECTIONS for table in s.beside if not table.one_unit)
        return Derivation(
            kind="table",
            id=identifier,
            **self._build_head(quantities),
            where=", ".join(f"{key} {format_options(value)}" for key, value in chosen),
            unit="value" if first.unit in PLAIN else first.unit,
            axis=" · ".join(entry.axis for entry in first.entries),
            name=typesetter.make_name(formula.quantity.symbol),
            generic=generic,
            formulas=not is_tall(generic) and any(a[0] != plain for a, _ in said.values()),
            numbers=not all(row.same for _, row in said.values()),
            rows=[replace(top, again=False), *others],
            # The section whose table shows its values.
            shown=next((section for section, t in alone if first.base in t.columns), ""),
        )


def pick_closed_form(quantity: Quantity) -> ClosedForm | None:
    """Return the closed form of a quantity, if it adds to the formula: a published equation or
    named terms."""
    form = derive_form(quantity)
    if form is None or not (form.recognised or len(form.terms) > 1):
        return None
    texts = [numbers.text(term.value, "1", "exact") for term in form.terms]
    terms = (term._replace(value=text) for term, text in zip(form.terms, texts, strict=True))
    return form._replace(terms=tuple(terms))


def _format_exact(quantity: Quantity) -> tuple[str, str]:
    """Format the exact value with its unit, and the rounded value if it differs."""
    full = quantity.text("exact")
    if isinstance(quantity.value, str):
        return full, ""
    rounded = quantity.text()
    return full, rounded if rounded != full else ""


def _list_summands(quantity: Quantity) -> tuple[str, list[tuple[str, str, str | None]]] | None:
    """Return the unit and the named summands, if the numbers alone would be unclear."""
    formula, terms = quantity.chosen, quantity.terms
    folded = formula is not None and formula.expression.op == "total"
    if not folded or len(terms) < 2 or quantity.base in SHOWN:
        return None
    unit, texts = format_column([term.value for term in terms], quantity.unit)
    return unit, [
        (clean(term.label), text, term.id) for term, text in zip(terms, texts, strict=True)
    ]


def _build_instance(quantity: Quantity, generic: Box, plain: str) -> tuple[Any, InstanceRow]:
    """Build a row of a table of instances.

    Args:
        quantity: the instance.
        generic: the formula with symbols, as the head of the table has it.
        plain: the same as text.

    Returns:
        What is equal for rows to merge, and the row; ``again`` is whether the numbers are long.
    """
    symbolic, numeric = quantity.boxes
    text, figures = _typeset_value(quantity.value), TEXT.write(numeric)
    formula = plain if symbolic == generic else TEXT.write(symbolic)
    same = figures == text or not quantity.value
    row = InstanceRow(
        entries=[],
        value=text,
        symbolic=symbolic if quantity.value else None,
        numeric=numeric,
        plain=figures if is_flat(numeric) else "",
        same=same,
        again=len(figures) > LONG and not same,
    )
    return (formula, figures, text) if quantity.value else (plain, text), row


def describe_inputs(quantity: Quantity) -> list[InputRow]:
    """Return the inputs of a formula: name, meaning, values as text, origin, and whether a value
    was ``stated`` or derived."""
    return [
        InputRow(
            symbol=str(note.symbol),
            key=note.dotted or "",
            name=read_latex(note.latex),
            meaning=clean(note.meaning),
            given=values,
            value=", ".join(map(_typeset_value, values[:MANY]))
            + (", …" if len(values) > MANY else ""),
            origin=clean(given.origin) if given is not None else "",
            stated=given is not None and given.kind != "derived",
        )
        for note, values, given in quantity.symbols
    ]


def _typeset_value(value: Any) -> str:
    """Format a value: text as it is, a number to its significant digits."""
    return clean(value) if isinstance(value, str) else TEXT.format_number(*split_digits(value))


def group_links(quantities: Iterable[Quantity]) -> list[Link]:
    """Return links to quantities by symbol; several instances of one share a link to their
    table."""
    by_base: dict[str, list[Quantity]] = {}
    for quantity in quantities:
        by_base.setdefault(quantity.base, []).append(quantity)
    return [
        Link(
            id=base if alike[0].entries else alike[0].id,
            text=TEXT.write(alike[0].result.typesetter.make_name(alike[0].declared.symbol)),
        )
        for base, alike in by_base.items()
    ]


def label_entry(entry: Entry) -> str:
    """Return the label of an entry: its title, or its path in the model."""
    return clean(entry.path if entry.parent or not entry.title else entry.title)


def format_options(value: Any) -> str:
    """Format the values of a setting under which a formula applies."""
    values = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    return " or ".join(str(one).lower() if isinstance(one, bool) else str(one) for one in values)


def break_sum(box: Box) -> list[Box]:
    """Break a sum into lines of at most LINE characters, each before a sign."""
    if box.kind != "sum" or len(TEXT.write(box)) <= LINE:
        return [box]
    lines: list[list[tuple[Box, bool]]] = []
    length = LINE + 1
    for part, minus in zip(box.parts, box.data, strict=True):
        size = len(TEXT.write(part)) + 3
        if length + size > LINE:
            lines.append([])
            length = 0
        lines[-1].append((part, minus))
        length += size
    first, *others = (Box("sum", *zip(*line, strict=True)) for line in lines)
    return [first, *(box if box.data[0] else Box("carried", (box,)) for box in others)]
