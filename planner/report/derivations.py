"""Derivations: for each quantity its formula, the numbers put in, the result, source and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from html import escape
from types import SimpleNamespace
from typing import Any

from planner.base.display import THIN
from planner.book.quantity import KINDS
from planner.engine.evaluate import Entry
from planner.report.layout import SECTIONS, SHOWN
from planner.report.numbers import PLAIN, clean, column, exactly, headline, shown
from planner.results.result import Quantity, Result
from planner.typeset import HTML, LATEX, MATHML, TEXT, Box, Style
from planner.typeset.names import parse
from planner.typeset.styles import digits

__all__ = ["Derivations", "inputs_of"]

Data = SimpleNamespace
SHORT = 50  # printed characters up to which formula and numbers share a line
MANY = 6  # values of one input that are written out
LINE = 76  # printed characters after which a long sum goes on in the next line


class Derivations:
    """All derivations of a result, in the order of the book, and the numbered sources."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self._sources: dict[str, int] = {}
        self._anchors: set[str] = set()
        self.items = list(self._items())
        for item in self.items:
            if item.kind == "table":
                item.uses = grouped(list(item.used.values()))

    def _items(self) -> Any:
        tables: dict[Any, Data] = {}
        rows: dict[Any, Data] = {}  # by formula and what they say
        same: dict[Any, Data] = {}  # by formula and node: of one node, all is the same
        for quantity in self.result.quantities.values():
            if quantity.entries:
                formula, one = quantity.chosen, (quantity.chosen, quantity.trace.body)
                if formula not in tables:
                    tables[formula] = self._table(quantity)
                    yield tables[formula]
                table = tables[formula]
                if one not in same:
                    row = self._instance(quantity)
                    same[one] = rows.setdefault((formula, row.alike), row)
                    if same[one] is row:
                        table.rows.append(row)
                    table.known = max(table.known, quantity.kind, key=KINDS.index)
                    table.used.update({used.key: used for used in quantity.uses})
                    table.numbers |= not row.same
                    table.formulas |= row.symbolic.plain != table.generic.plain.partition(" = ")[2]
                table.count += 1
                entry = " · ".join(place(entry) for entry in quantity.entries)
                same[one].entries.append(Data(id=quantity.id, text=entry))
            else:
                yield self._one(quantity)

    @cached_property
    def sources(self) -> list[str]:
        """Numbered sources of the formulas, in the order of their first use."""
        return list(self._sources)

    def _cited(self, source: str) -> list[tuple[int, str]]:
        """The works of a source with their numbers; the list of references holds each once."""
        works = [clean(work) for work in re.split(r";(?=\s*[A-Z])(?![^()]*\))", source)]
        return [(self._sources.setdefault(work, len(self._sources) + 1), work) for work in works]

    # -- one quantity -------------------------------------------------------------------------

    def _head(self, quantity: Quantity) -> dict[str, Any]:
        return {
            "base": quantity.base,
            "title": headline(quantity.title),
            "known": quantity.kind,
            "why": clean(quantity.why, 2000),
            "cited": self._cited(quantity.source),
        }

    def _one(self, quantity: Quantity) -> Data:
        symbolic, numeric = quantity.boxes
        name = quantity.symbol_name
        formula, numbers = TEXT.write(symbolic), TEXT.write(numeric) if numeric else ""
        steps = [formula] if numbers in (formula, "") else [formula, numbers]
        boxes = [box for box in (symbolic, numeric) if box is not None][: len(steps)]
        value = self._value(quantity)
        # The numbers are the value already where nothing is left to compute.
        if steps[-1] == value.plain and len(steps) > 1:
            steps, boxes = steps[:-1], boxes[:-1]
        short = sum(map(len, steps)) + len(name.plain()) <= SHORT
        return Data(
            kind="one",
            id=quantity.id,
            **self._head(quantity),
            symbol=name.plain(),
            plain=f"{name.plain()} = {formula} = {value.text}",
            short=short,
            rows=lines(name, boxes, value),
            value=value,
            terms=self._terms(quantity),
            inputs=self._inputs(quantity),
            uses=grouped(quantity.uses),
            used_by=grouped(quantity.used_by),
        )

    def _value(self, quantity: Quantity) -> Data:
        """The value in full, in the three styles."""
        value, unit = quantity.value, quantity.unit
        upright = "" if unit in ("1", "–") else unit
        if isinstance(value, str):
            box = Box("words", (), clean(value))
            return Data(box=box, unit="", plain=clean(value), text=clean(value), rounded="")
        text, power = digits(value)
        return Data(
            box=Box("value", (), value),
            unit=upright,
            plain=TEXT.number(text, power),
            text=exactly(value, unit),
            rounded=self._rounded(quantity),
        )

    def _rounded(self, quantity: Quantity) -> str:
        """The value as summaries show it, where that says something else."""
        if isinstance(quantity.value, str):
            return ""
        text = shown(quantity.value, quantity.unit, quantity.declared.share)
        return "" if text == exactly(quantity.value, quantity.unit) else text

    def _terms(self, quantity: Quantity) -> Data | None:
        """The named summands, where the numbers alone would not say what they are."""
        formula = quantity.chosen
        if formula is None or formula.expression.op != "total":
            return None
        terms = quantity.terms
        if len(terms) < 2 or quantity.base in SHOWN:
            return None
        unit, texts = column([term.value for term in terms], quantity.unit)
        rows = [
            Data(label=clean(term.label), text=text, id=term.id)
            for term, text in zip(terms, texts, strict=True)
        ]
        return Data(unit=unit, rows=rows)

    def _inputs(self, quantity: Quantity) -> list[Data]:
        """The inputs in a formula, with who decided those that followed from no other choice."""
        return [
            Data(
                latex=parse(row.note.latex).latex(),
                html=parse(row.note.latex).html(),
                meaning=clean(row.note.meaning),
                value=row.text,
                origin=clean(row.given.origin) if row.given and row.given.kind != "derived" else "",
                key=row.given.key if row.given else "",
            )
            for row in inputs_of(quantity)
        ]

    # -- many instances -----------------------------------------------------------------------

    def _table(self, quantity: Quantity) -> Data:
        name = self.result.typesetter.name(quantity.chosen.quantity.symbol)  # type: ignore[union-attr]
        formula = quantity.chosen
        assert formula is not None
        generic = self.result.typesetter.symbolic(formula.expression, None)
        where = ", ".join(_setting(key, value) for key, value in formula.when.items())
        head = self._head(quantity)
        return Data(
            kind="table",
            id=self._anchor(quantity.base, where),
            **head,
            where=where,
            unit="value" if quantity.unit in PLAIN else quantity.unit,
            axis=" · ".join(entry.axis for entry in quantity.entries),
            symbol=name.plain(),
            generic=written(name, generic),
            formulas=False,
            numbers=False,
            rows=[],
            count=0,
            used={},
            shown=next(
                (s.id for s in SECTIONS for b in s.beside if quantity.base in b.columns), ""
            ),
        )

    def _anchor(self, base: str, where: str) -> str:
        """The id of a table: that of its quantity; of a second one the setting makes it unique."""
        name = base if base not in self._anchors or not where else f"{base}.{_slug(where)}"
        self._anchors.add(name)
        return name

    def _instance(self, quantity: Quantity) -> Data:
        symbolic, numeric = quantity.boxes
        value, text = quantity.value, _number(quantity.value)
        formula, numbers = styles(symbolic), styles(numeric) if numeric else None
        plain = numbers.plain if numbers else ""
        return Data(
            entries=[],
            value=text,
            symbolic=formula,
            numeric=numbers,
            flat=numeric is not None and flat(numeric),
            same=plain == text,
            alike=(formula.plain, plain, text) if value else (formula.plain, text),
        )


def inputs_of(quantity: Quantity) -> list[Data]:
    """The inputs in a formula, each once: its note, who decided it, and its values as text; inside
    a reduction one may have several."""
    found: dict[str, Data] = {}
    for note, value, given in quantity.symbols:
        row = found.setdefault(note.latex, Data(note=note, given=given, values=[]))
        row.values.append(_number(value))
    for row in found.values():
        row.text = ", ".join(row.values[:MANY]) + (", …" if len(row.values) > MANY else "")
    return list(found.values())


def _number(value: Any) -> str:
    return clean(value) if isinstance(value, str) else TEXT.number(*digits(value))


def grouped(quantities: list[Quantity]) -> list[Data]:
    """Links to quantities; several instances of one are a single link to their table."""
    by_base: dict[str, list[str]] = {}
    for quantity in quantities:
        by_base.setdefault(quantity.base, []).append(quantity.id)
    return [
        Data(
            id=ids[0] if len(ids) == 1 else base,
            text=ids[0] if len(ids) == 1 else base,
            more=len(ids) - 1,
        )
        for base, ids in by_base.items()
    ]


def place(entry: Entry) -> str:
    """An entry as a reader calls it: its title, or where it lies in the model."""
    return clean(entry.path if entry.parent or not entry.title else entry.title)


def _setting(key: str, value: Any) -> str:
    words = " or ".join(map(str, value)) if isinstance(value, (tuple, set, frozenset)) else value
    return f"{key}: {str(words).lower() if isinstance(words, bool) else words}"


def _slug(words: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in words).strip("-")


def flat(box: Box) -> bool:
    """Whether plain text says a line of numbers as well as markup does."""
    kinds = ("number", "value", "words", "sum", "negative", "product")
    return box.kind in kinds and all(map(flat, box.parts))


class Printed(Data):
    """Data of which some is written when it is asked for: a report asks for its own style."""

    def __init__(self, made: Mapping[str, Callable[[], str]], **given: Any) -> None:
        super().__init__(**given)
        self._made = made

    def __getattr__(self, name: str) -> str:
        if name.startswith("_") or name not in self._made:
            raise AttributeError(name)
        text = self._made[name]()
        setattr(self, name, text)
        return text


def styles(box: Box) -> Data:
    """One formula as the cells of tables hold it."""
    by_style = {"latex": LATEX, "html": HTML, "plain": TEXT}
    return Printed({name: partial(style.write, box) for name, style in by_style.items()})


def written(name: Any, box: Box) -> Data:
    """`name = formula` in the three styles."""
    return Printed(
        {
            "latex": lambda: f"{name.latex()} = {LATEX.write(box)}",
            "mathml": lambda: f"{bare(name.mathml())}<mo>=</mo>{bare(MATHML.write(box))}",
            "plain": lambda: f"{name.plain()} = {TEXT.write(box)}",
        }
    )


def lines(name: Any, boxes: list[Box], value: Data) -> list[Data]:
    """The rows of a derivation: what stands left of the sign, the sign, what stands right.

    A sum longer than a line is broken before the plus that goes over it.
    """
    rows: list[Data] = []
    for box in boxes:
        for i, chunk in enumerate(broken(box)):
            left = not rows
            made = {
                "latex": partial(_chunk, LATEX, chunk, i),
                "mathml": partial(_marked, chunk, i),
                "plain": partial(_chunk, TEXT, chunk, i),
            }
            rows.append(
                Printed(
                    made,
                    left=left,
                    latex_left=name.latex() if left else "",
                    mathml_left=name.mathml() if left else "",
                    sign="=" if i == 0 else "",
                )
            )
    latex, mathml = LATEX.write(value.box), bare(MATHML.write(value.box))
    if value.unit:
        latex += rf"\ {_upright(value.unit)}"
        mathml += f'<mspace width=".3em"/><mtext>{value.unit}</mtext>'
    if value.rounded:
        latex += rf" = {_upright(value.rounded)}".replace("mathrm", "mathbf")
        mathml += f'<mo>=</mo><mtext class="b">{value.rounded}</mtext>'
    rows.append(
        Data(
            left=False,
            latex_left="",
            mathml_left="",
            sign="=",
            latex=latex,
            mathml=mathml,
            plain=value.text,
        )
    )
    return rows


def _upright(words: str) -> str:
    """A unit or a rounded value in LaTeX."""
    escaped = words.replace("%", r"\%").replace("_", r"\_").replace(THIN, r"\,")
    return r"\mathrm{" + escaped.replace("−", "-").replace(" ", r"\ ") + "}"


def bare(mathml: str) -> str:
    """MathML without the one row around all of it, which its place implies."""
    depth = 0
    for tag in re.finditer(r"<(/?)mrow>", mathml):
        depth += -1 if tag[1] else 1
        if depth == 0:
            whole = mathml.startswith("<mrow>") and tag.end() == len(mathml)
            return mathml[6:-7] if whole else mathml
    return mathml


def _chunk(style: Style, box: Box, place: int) -> str:
    """One line of a broken sum; all but the first begin with their sign."""
    text = style.write(box)
    if place and not box.data[0]:
        return style.carried + text
    return text


def _marked(box: Box, place: int) -> str:
    """The same in MathML; a line that has numbers only needs no marks, which weigh the most."""
    if flat(box):
        return f"<mtext>{escape(_chunk(TEXT, box, place))}</mtext>"
    return bare(_chunk(MATHML, box, place))


def broken(box: Box) -> list[Box]:
    """A sum as lines of at most LINE characters."""
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
    return [Box("sum", tuple(parts), tuple(signs)) for parts, signs in lines]
