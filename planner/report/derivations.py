"""Derivations: for each quantity its formula, the numbers put in, the result, source and why.

Formulas stay boxes of planner.typeset; each template writes them in its own style.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from planner.base.display import digits
from planner.book.quantity import KINDS
from planner.engine.evaluate import Entry
from planner.report.facts import brief, with_interval
from planner.report.layout import SECTIONS, SHOWN
from planner.report.numbers import PLAIN, Data, clean, column, exactly, headline
from planner.results.closed_form import ClosedForm, closed_form
from planner.results.result import Quantity, Result
from planner.typeset import TEXT, Box, parse

#: Of what decides which formula holds, the keys that a plan states.
CHOSEN, MODE = ("training.", "parallelism."), ("training.mode",)
MANY = 6  # values of one input that are written out
LONG = 60  # printed characters of numbers beyond which only the first row of a table has them
LINE = 76  # printed characters after which a long sum goes on in the next line


class Derivations:
    """All derivations of a result, or that of one quantity with all its instances, in the order of
    the book, and the numbered sources."""

    def __init__(self, result: Result, only: str | None = None) -> None:
        self.result = result
        #: Numbered sources of the formulas, in the order of their first use.
        self.sources: dict[str, int] = {}
        #: Under which derivation each instance of a quantity stands, where that is not its id.
        self.headings: dict[str, str] = {}
        instances: dict[Any, list[Quantity]] = {}  # of each formula, or the one without entries
        for quantity in result.quantities.values():
            if only not in (None, quantity.base):
                continue
            alike = quantity.chosen if quantity.entries else quantity.id
            instances.setdefault(alike, []).append(quantity)
        self.items = [
            self._table(alike) if alike[0].entries else self._one(alike[0])
            for alike in instances.values()
        ]

    def _head(self, quantity: Quantity) -> dict[str, Any]:
        """What each derivation begins with; the list of references holds each work once."""
        works = map(clean, re.split(r";(?=\s*[A-Z])(?![^()]*\))", quantity.source))
        return {
            "base": quantity.base,
            "title": headline(quantity.title),
            "why": clean(f"{quantity.why}{_predicted(quantity)}", 2000),
            "cited": [(self.sources.setdefault(w, len(self.sources) + 1), w) for w in works],
        }

    def _one(self, quantity: Quantity) -> Data:
        """A quantity with its formula, its numbers and its value, below one another."""
        boxes = [*quantity.boxes]
        steps = [TEXT.write(box) for box in boxes]
        value, text = _value(quantity), _number(quantity.value)
        # The numbers may be the formula, or the value already where nothing is left to compute.
        if len(steps) > 1 and (steps[1] in (steps[0], "") or steps[1] == text):
            del steps[1], boxes[1]
        name = TEXT.write(quantity.symbol_name)
        return Data(
            kind="one",
            nothing=quantity.value == 0,
            id=quantity.id,
            **self._head(quantity),
            known=quantity.kind,
            name=quantity.symbol_name,
            plain=f"{name} = {steps[0]} = {exactly(quantity.value, quantity.unit)}",
            closed=closed_of(quantity),
            symbolic=broken(boxes[0]),
            put=boxes[1:],
            value=value,
            terms=_terms(quantity),
            inputs=inputs_of(quantity),
            uses=grouped(quantity.uses),
        )

    def _table(self, quantities: Sequence[Quantity]) -> Data:
        """A formula that holds at several entries, with a row for all those where it says the
        same."""
        first, typesetter = quantities[0], self.result.typesetter
        formula = first.chosen
        assert formula is not None
        generic = typesetter.box(formula.expression, None)
        plain = TEXT.write(generic)
        chosen = ((k, v) for k, v in formula.when.items() if k.startswith(CHOSEN) and k not in MODE)
        # The id is that of the quantity; further tables of it are numbered.
        tables = len({at for at in self.headings.values() if at.partition("-")[0] == first.base})
        identifier = f"{first.base}-{tables + 1}" if tables else first.base
        said: dict[int, Data] = {}  # by node: of one node, all is the same
        rows: dict[Any, Data] = {}
        for quantity in quantities:
            node = quantity.trace.body
            if node not in said:
                said[node] = _instance(quantity, generic, plain)
            row, entry = said[node], " · ".join(map(place, quantity.entries))
            rows.setdefault(row.alike, row).entries.append(Data(id=quantity.id, text=entry))
            self.headings[quantity.id] = identifier
        top, *others = rows.values()
        for row in others:
            alike = row.symbolic is not None and row.symbolic == top.symbolic
            row.again = row.long and not row.same and alike
        alone = ((s.id, table) for s in SECTIONS for table in s.beside if not table.one_unit)
        return Data(
            kind="table",
            nothing=all(quantity.value == 0 for quantity in quantities),
            id=identifier,
            **self._head(first),
            known=max((quantity.kind for quantity in quantities), key=KINDS.index),
            where=", ".join(f"{key} {either(value)}" for key, value in chosen),
            unit="value" if first.unit in PLAIN else first.unit,
            axis=" · ".join(entry.axis for entry in first.entries),
            name=typesetter.name(formula.quantity.symbol),
            generic=generic,
            formulas=any(row.alike[0] != plain for row in said.values()),
            numbers=not all(row.same for row in said.values()),
            rows=[*rows.values()],
            inputs=[row for quantity in quantities for row in inputs_of(quantity)],
            uses=grouped({used.key: used for q in quantities for used in q.uses}.values()),
            # Where its values stand alone, this leads there.
            shown=next((section for section, t in alone if first.base in t.columns), ""),
        )


def closed_of(quantity: Quantity) -> ClosedForm | None:
    """The closed form of a quantity, where it says more than its formula: a published equation, or
    terms by name."""
    form = closed_form(quantity)
    return form if form is not None and (form.recognised or len(form.terms) > 1) else None


def _predicted(quantity: Quantity) -> str:
    """What is predicted of a quantity whose value rests on an assumed utilisation, in words."""
    free = quantity.predicted
    return f" Without the assumption {with_interval(free)} is predicted." if free else ""


def _value(quantity: Quantity) -> tuple[str, str]:
    """The value in full with its unit, and as summaries show it where that says something else."""
    full = exactly(quantity.value, quantity.unit)
    if isinstance(quantity.value, str):
        return full, ""
    rounded = brief(quantity, False)
    return full, rounded if rounded != full else ""


def _terms(quantity: Quantity) -> Data | None:
    """The named summands, where the numbers alone would not say what they are."""
    formula, terms = quantity.chosen, quantity.terms
    folded = formula is not None and formula.expression.op == "total"
    if not folded or len(terms) < 2 or quantity.base in SHOWN:
        return None
    unit, texts = column([term.value for term in terms], quantity.unit)
    rows = [
        Data(label=clean(term.label), text=text, id=term.id)
        for term, text in zip(terms, texts, strict=True)
    ]
    return Data(unit=unit, rows=rows)


def _instance(quantity: Quantity, generic: Box, plain: str) -> Data:
    """A row of a table: what a formula says at one entry, and what it says anywhere."""
    symbolic, numeric = quantity.boxes
    text, numbers = _number(quantity.value), TEXT.write(numeric)
    formula = plain if symbolic == generic else TEXT.write(symbolic)
    return Data(
        entries=[],
        value=text,
        symbolic=symbolic if quantity.value else None,
        numeric=numeric,
        plain=numbers if numeric.flat else "",
        same=numbers == text or not quantity.value,
        long=len(numbers) > LONG,
        again=False,
        alike=(formula, numbers, text) if quantity.value else (plain, text),
    )


def inputs_of(quantity: Quantity) -> list[Data]:
    """The inputs in a formula: name and meaning, values as text, who decided them, and whether that
    was ``stated`` or follows from other values."""
    return [
        Data(
            symbol=note.symbol,
            key=note.dotted or "",
            name=parse(note.latex),
            meaning=clean(note.meaning),
            given=values,
            value=", ".join(map(_number, values[:MANY])) + (", …" if len(values) > MANY else ""),
            origin=clean(given.origin) if given is not None else "",
            stated=given is not None and given.kind != "derived",
        )
        for note, values, given in quantity.symbols
    ]


def _number(value: Any) -> str:
    return clean(value) if isinstance(value, str) else TEXT.number(*digits(value))


def grouped(quantities: Iterable[Quantity]) -> list[Data]:
    """Links to quantities, each called by its symbol; several instances of one are a single link to
    their table."""
    by_base: dict[str, list[Quantity]] = {}
    for quantity in quantities:
        by_base.setdefault(quantity.base, []).append(quantity)
    return [
        Data(
            id=base if alike[0].entries else alike[0].id,
            text=TEXT.write(alike[0].result.typesetter.name(alike[0].declared.symbol)),
        )
        for base, alike in by_base.items()
    ]


def place(entry: Entry) -> str:
    """An entry as a reader calls it: its title, or where it lies in the model."""
    return clean(entry.path if entry.parent or not entry.title else entry.title)


def either(value: Any, mark: str = "") -> str:
    """The values of a setting under which a formula holds, each between two marks."""
    values = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    return " or ".join(
        f"{mark}{str(one).lower() if isinstance(one, bool) else one}{mark}" for one in values
    )


def broken(box: Box) -> list[Box]:
    """A sum as lines of at most LINE characters, broken before the sign that goes over it."""
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
