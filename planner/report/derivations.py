"""Derivations: for each quantity its formula, the numbers put in, the result, source and why.

Formulas stay boxes of planner.typeset; each template writes them in its own style.
"""

from __future__ import annotations

import re
from typing import Any

from planner.base.display import digits
from planner.book.quantity import KINDS
from planner.engine.evaluate import Entry
from planner.report.layout import SECTIONS, SHOWN
from planner.report.numbers import PLAIN, Data, clean, column, exactly, headline, shown
from planner.results.result import Quantity, Result
from planner.typeset import TEXT, Box, parse

SHORT = 50  # printed characters up to which formula and numbers share a line
MANY = 6  # values of one input that are written out
LINE = 76  # printed characters after which a long sum goes on in the next line


class Derivations:
    """All derivations of a result, in the order of the book, and the numbered sources."""

    def __init__(self, result: Result) -> None:
        self.result = result
        #: Numbered sources of the formulas, in the order of their first use.
        self.sources: dict[str, int] = {}
        self._anchors: set[str] = set()
        #: Under which derivation each instance of a quantity stands.
        self.headings: dict[str, str] = {}
        self.items = list(self._items())
        for item in self.items:
            if item.kind == "table":
                item.uses = grouped(list(item.used.values()))

    def _items(self) -> Any:
        tables: dict[Any, Data] = {}
        rows: dict[Any, Data] = {}  # by formula and what they say
        same: dict[Any, Data] = {}  # by formula and node: of one node, all is the same
        for quantity in self.result.quantities.values():
            if not quantity.entries:
                yield self._one(quantity)
                continue
            formula, one = quantity.chosen, (quantity.chosen, quantity.trace.body)
            if formula not in tables:
                tables[formula] = self._table(quantity)
                yield tables[formula]
            table = tables[formula]
            if one not in same:
                row = _instance(quantity, table)
                same[one] = rows.setdefault((formula, row.alike), row)
                if same[one] is row:
                    table.rows.append(row)
                table.known = max(table.known, quantity.kind, key=KINDS.index)
                table.used.update({used.key: used for used in quantity.uses})
                table.numbers |= not row.same
                table.formulas |= row.alike[0] != table.plain
            table.count += 1
            entry = " · ".join(place(entry) for entry in quantity.entries)
            same[one].entries.append(Data(id=quantity.id, text=entry))
            self.headings[quantity.id] = table.id

    def _head(self, quantity: Quantity) -> dict[str, Any]:
        """What each derivation begins with; the list of references holds each work once."""
        works = map(clean, re.split(r";(?=\s*[A-Z])(?![^()]*\))", quantity.source))
        return {
            "base": quantity.base,
            "title": headline(quantity.title),
            "known": quantity.kind,
            "why": clean(quantity.why, 2000),
            "cited": [(self.sources.setdefault(w, len(self.sources) + 1), w) for w in works],
        }

    def _one(self, quantity: Quantity) -> Data:
        """A quantity with its formula, its numbers and its value, below one another."""
        boxes = [box for box in quantity.boxes if box is not None]
        steps = [TEXT.write(box) for box in boxes]
        value, text = _value(quantity), _number(quantity.value)
        # The numbers may be the formula, or the value already where nothing is left to compute.
        if len(steps) > 1 and (steps[1] in (steps[0], "") or steps[1] == text):
            del steps[1], boxes[1]
        name = TEXT.write(quantity.symbol_name)
        return Data(
            kind="one",
            id=quantity.id,
            **self._head(quantity),
            name=quantity.symbol_name,
            plain=f"{name} = {steps[0]} = {exactly(quantity.value, quantity.unit)}",
            short=sum(map(len, steps)) + len(name) <= SHORT,
            rows=[(not i, chunk) for box in boxes for i, chunk in enumerate(broken(box))],
            value=value,
            terms=_terms(quantity),
            inputs=[
                Data(
                    name=parse(row.note.latex),
                    meaning=clean(row.note.meaning),
                    value=row.text,
                    origin=clean(row.given.origin) if row.stated else "",
                )
                for row in inputs_of(quantity)
            ],
            uses=grouped(quantity.uses),
            used_by=grouped(quantity.used_by),
        )

    def _table(self, quantity: Quantity) -> Data:
        """A formula that holds at several entries: as yet without rows."""
        formula, typesetter = quantity.chosen, self.result.typesetter
        assert formula is not None
        generic = typesetter.symbolic(formula.expression, None)
        where = ", ".join(f"{key}: {either(value)}" for key, value in formula.when.items())
        # The id is that of the quantity; of a second table the setting makes it unique.
        slug = "".join(c if c.isalnum() else "-" for c in where).strip("-")
        again = quantity.base in self._anchors and slug
        self._anchors.add(quantity.base)
        alone = ((s.id, table) for s in SECTIONS for table in s.beside if not table.one_unit)
        return Data(
            kind="table",
            id=f"{quantity.base}.{slug}" if again else quantity.base,
            **self._head(quantity),
            where=where,
            unit="value" if quantity.unit in PLAIN else quantity.unit,
            axis=" · ".join(entry.axis for entry in quantity.entries),
            name=typesetter.name(formula.quantity.symbol),
            generic=generic,
            plain=TEXT.write(generic),
            formulas=False,
            numbers=False,
            rows=[],
            count=0,
            used={},
            # Where its values stand alone, this leads there.
            shown=next((section for section, t in alone if quantity.base in t.columns), ""),
        )


def _value(quantity: Quantity) -> list[Box]:
    """The value in full with its unit, and as summaries show it where that says something else."""
    value, unit = quantity.value, quantity.unit
    if isinstance(value, str):
        return [Box("words", (), clean(value))]
    boxes = [Box("value", (), value)]
    if unit not in ("1", "–"):
        boxes.append(Box("unit", (), unit))
    rounded = shown(value, unit, quantity.declared.share)
    if rounded != exactly(value, unit):
        boxes.append(Box("rounded", (), rounded))
    return boxes


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


def _instance(quantity: Quantity, table: Data) -> Data:
    """A row of a table: what a formula says at one entry."""
    symbolic, numeric = quantity.boxes
    text = _number(quantity.value)
    formula = table.plain if symbolic is table.generic else TEXT.write(symbolic)
    numbers = TEXT.write(numeric) if numeric else ""
    return Data(
        entries=[],
        value=text,
        symbolic=symbolic,
        numeric=numeric,
        plain=numbers if numeric is not None and numeric.flat else "",
        same=numbers == text,
        alike=(formula, numbers, text) if quantity.value else (formula, text),
    )


def inputs_of(quantity: Quantity) -> list[Data]:
    """The inputs in a formula, each once: its note, who decided it, and its values as text; inside
    a reduction one may have several."""
    found: dict[str, Data] = {}
    for note, value, given in quantity.symbols:
        row = found.setdefault(note.latex, Data(note=note, given=given, values=[]))
        row.values.append(_number(value))
    for row in found.values():
        row.stated = row.given is not None and row.given.kind != "derived"
        row.text = ", ".join(row.values[:MANY]) + (", …" if len(row.values) > MANY else "")
    return list(found.values())


def _number(value: Any) -> str:
    return clean(value) if isinstance(value, str) else TEXT.number(*digits(value))


def grouped(quantities: list[Quantity]) -> list[Data]:
    """Links to quantities; several instances of one are a single link to their table."""
    by_base: dict[str, list[str]] = {}
    for quantity in quantities:
        by_base.setdefault(quantity.base, []).append(quantity.id)
    names = {ids[0] if len(ids) == 1 else base: len(ids) - 1 for base, ids in by_base.items()}
    return [Data(id=name, text=name, more=more) for name, more in names.items()]


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
    lines: list[tuple[list[Box], list[bool]]] = []
    length = LINE + 1
    for part, minus in zip(box.parts, box.data, strict=True):
        size = len(TEXT.write(part)) + 3
        if length + size > LINE:
            lines.append(([], []))
            length = 0
        lines[-1][0].append(part)
        lines[-1][1].append(minus)
        length += size
    first, *others = (Box("sum", tuple(parts), tuple(signs)) for parts, signs in lines)
    return [first, *(box if box.data[0] else Box("carried", (box,)) for box in others)]
