"""One evaluated quantity: its value, what it rests on, and how it prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from planner.base.display import plain
from planner.book.expressions import REDUCTIONS, Expression, Symbol
from planner.book.quantity import KINDS, Formula, Notation
from planner.book.quantity import Quantity as Declared
from planner.engine.evaluate import (
    Absent,
    Entry,
    Evaluation,
    Key,
    Number,
    Point,
    Trace,
    Value,
    widen,
)
from planner.results import intervals
from planner.results.inputs import Input

if TYPE_CHECKING:
    from planner.typeset import Box, Typesetter
    from planner.typeset.styles import Style

__all__ = ["Quantity", "Term"]


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a quantity: what it is, what it is worth, the quantity it rests on."""

    label: str
    value: Value
    id: str | None = None


class Home(Protocol):
    """What a quantity asks of the result that it belongs to."""

    evaluation: Evaluation

    @property
    def predicted(self) -> Home | None: ...

    def get(self, identifier: str) -> Quantity | None: ...

    @property
    def inputs(self) -> dict[str, Input]: ...

    @property
    def used_by(self) -> dict[Key, list[Quantity]]: ...

    @property
    def typesetter(self) -> Typesetter: ...

    def quantity(self, base: str, point: Point) -> Quantity: ...

    def find(self, identifier: str) -> Quantity: ...


class Quantity:
    """One evaluated quantity. What it prints is made when it is asked for."""

    def __init__(self, result: Home, key: Key, trace: Trace) -> None:
        self.result = result
        self.key = key
        self.trace = trace

    def __repr__(self) -> str:
        shown = f"absent: {self.absent}" if self.absent is not None else f"{self.value} {self.unit}"
        return f"<{self.id} = {shown}>"

    # -- what was declared --------------------------------------------------------------------

    @property
    def base(self) -> str:
        """The id without the entry."""
        return self.key[0]

    @cached_property
    def id(self) -> str:
        entries = ",".join(entry.path for entry in self.key[1])
        return f"{self.base}[{entries}]" if entries else self.base

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.key[1]

    @property
    def chosen(self) -> Formula | None:
        """The formula that holds; None where none does."""
        return self.trace.chosen

    @property
    def declared(self) -> Declared:
        """What the book says of it, whichever formula holds."""
        return self.result.evaluation.book.quantities[self.base]

    @property
    def _formula(self) -> Formula:
        return self.trace.chosen or self.declared.formulas[0]

    @property
    def unit(self) -> str:
        return self.declared.unit

    @property
    def title(self) -> str:
        return self._formula.title

    @cached_property
    def source(self) -> str:
        """Where its formula comes from; with a price, also whose and of which day it is."""
        cited = [given.origin for note, _, given in self.symbols if note.cited and given]
        return ": ".join([self._formula.source, *dict.fromkeys(cited)])

    @property
    def why(self) -> str:
        """What its formula says in words."""
        return self._formula.why

    # -- what it is worth ---------------------------------------------------------------------

    @property
    def value(self) -> Value | None:
        """int where it is integral, else Fraction (float only below a root), or a name; None
        where the quantity is absent."""
        value = self.trace.value
        return None if isinstance(value, Absent) else value

    @property
    def number(self) -> Fraction:
        """The value as an exact number.

        Raises:
            Absent: it has none.
            TypeError: it is a name.
        """
        value = self.trace.value
        if isinstance(value, Absent):
            raise value
        if isinstance(value, str):
            raise TypeError(f"{self.id} is a name: {value}")
        return Fraction(value)

    @property
    def absent(self) -> str | None:
        """Why it has no value; None where it has one."""
        value = self.trace.value
        return value.reason if isinstance(value, Absent) else None

    @cached_property
    def kind(self) -> str:
        """How it is known, of ``quantity.KINDS``: as sure as its formula, and as the least sure of
        what it rests on."""
        known = self.result.evaluation.case.kinds
        inputs = [known[key[0]] for key in self.trace.uses if key[0] in known]
        own = "exact" if self._formula.exact else "estimate"
        return max((own, *inputs, *(used.kind for used in self.uses)), key=KINDS.index)

    @property
    def exact(self) -> bool:
        """Whether arithmetic alone gives it, from choices and from facts with a source."""
        return self.kind == "exact"

    @cached_property
    def interval(self) -> tuple[Number, Number] | None:
        """Lowest and highest value that published runs of the kind leave open, of a prediction."""
        return intervals.interval(self)

    @cached_property
    def predicted(self) -> Quantity | None:
        """What is predicted where an assumed utilisation stands; None where nothing else is."""
        other = self.result.predicted if self.kind == "assumed" else None
        found = other.get(self.id) if other is not None else None
        return found if found is not None and found.value != self.value else None

    # -- what it rests on ---------------------------------------------------------------------

    @cached_property
    def uses(self) -> list[Quantity]:
        """The quantities in its formula."""
        found = []
        for key in self.trace.uses:
            if isinstance(key[0], str):
                base, entries = key
                found.append(self.result.quantity(base, {e.axis: e for e in entries}))
        return found

    @cached_property
    def symbols(self) -> list[tuple[Notation, Value, Input | None]]:
        """The inputs in its formula: symbol, value, and who decided it."""
        result, evaluation = self.result, self.result.evaluation
        found: dict[tuple[Symbol, Value], tuple[Notation, Value, Input | None]] = {}
        for key in self.trace.uses:
            note = evaluation.book.notation.get(key[0]) if not isinstance(key[0], str) else None
            if note is None:
                continue
            bound = evaluation.bound(note.symbol, self._point(key[1:]))
            if isinstance(bound, (Absent, Expression)):
                continue
            dotted = f"model.{note.key}" if note.per == ("block",) else note.key
            found[(note.symbol, bound)] = (note, bound, result.inputs.get(dotted or ""))
        return sorted(found.values(), key=lambda item: item[0].rank)

    def _point(self, paths: Iterable[str]) -> Point:
        """The point whose entries have these paths."""
        axes = self.result.evaluation.case.axes.values()
        wanted = set(paths)
        found = {
            entry.axis: entry
            for axis in axes
            if not isinstance(axis, Absent)
            for entry in axis
            if entry.path in wanted
        }
        return widen(found) if found else {}

    @property
    def used_by(self) -> list[Quantity]:
        """The quantities whose formulas use it."""
        return self.result.used_by.get(self.key, [])

    @cached_property
    def terms(self) -> list[Term]:
        """The summands of a sum: of its terms, or over the entries of a fold. Empty elsewhere."""
        expression = self.chosen.expression if self.chosen else None
        if self.absent is not None or expression is None:
            return []
        evaluation, point = self.result.evaluation, self.trace.point
        while expression.op in ("ceil", "floor"):
            expression = expression.args[0]
        if expression.op == "total":
            below = evaluation.entries(expression.axis, point, expression.where)
            found = [
                Term(
                    p[expression.axis].title or p[expression.axis].path,
                    evaluation.compute(expression.body, p),
                    self._carrier(expression.body, p),
                )
                for p in below
            ]
            return [term for term in found if term.value]
        if expression.op == "add":
            return [self._summand(term) for term in self.result.typesetter.terms(expression)]
        return []

    def _summand(self, term: Any) -> Term:
        from planner.typeset import TEXT

        value = self.result.evaluation.compute(term, self.trace.point)
        carrier = self._carrier(term, self.trace.point)
        if carrier is not None:
            label = self.result.find(carrier).title
        elif term.op == "largest" and term.body in self.result.evaluation.book.symbols:
            book = self.result.evaluation.book
            label = f"the largest of: {book.quantities[book.symbols[term.body]].title}"
        else:
            label = TEXT.write(self.result.typesetter.symbolic(term, self.trace.point))
        return Term(label, value, carrier)

    def _carrier(self, term: Any, point: Point) -> str | None:
        """The quantity that a term is, or is a multiple of."""
        book = self.result.evaluation.book
        factors = term.args if term.op == "mul" else (term,)
        ids = [book.symbols[f] for f in factors if isinstance(f, Symbol) and f in book.symbols]
        if len(ids) > 1:  # of several, the one that is counted: m · t_m seconds are those of t_m
            ids = [i for i in ids if book.quantities[i].unit == self.unit]
        if len(ids) != 1 or any(f.op == "add" or f.op in REDUCTIONS for f in factors):
            return None
        per = book.quantities[ids[0]].per
        if any(axis not in point for axis in per):
            return None
        return self.result.quantity(ids[0], {axis: point[axis] for axis in per}).id

    # -- how it prints ------------------------------------------------------------------------

    @property
    def symbol(self) -> str:
        """Its symbol in plain text."""
        from planner.typeset import TEXT

        return TEXT.write(self.symbol_name)

    @cached_property
    def symbol_name(self) -> Box:
        """Its symbol as boxes, with the entry where there are several."""
        from planner.typeset import with_subscript

        name = self.result.typesetter.name(self.declared.symbol)
        for entry in self.entries:
            axis = self.result.evaluation.case.axes[entry.axis]
            if not isinstance(axis, Absent) and len(axis) > 1:
                name = with_subscript(name, entry.name)
        return name

    @cached_property
    def boxes(self) -> tuple[Box, Box | None]:
        """Its formula with symbols, and with numbers in their places."""
        typesetter, formula = self.result.typesetter, self.chosen
        if formula is None:
            raise Absent(self.absent or "no formula holds")
        point = self.trace.point
        symbolic = typesetter.symbolic(formula.expression, point)
        if self.absent is not None:
            return symbolic, None
        return symbolic, typesetter.numeric(formula.expression, point)

    def print(self, style: Style, numbers: bool = False) -> str:
        """Its formula in a style of planner.typeset; empty where there is none."""
        if self.chosen is None:
            return ""
        box = self.boxes[numbers]
        return style.write(box) if box is not None else ""

    @property
    def formula(self) -> str:
        """The right-hand side in plain text."""
        from planner.typeset import TEXT

        return self.print(TEXT)

    @property
    def substituted(self) -> str:
        """The same with numbers in the places of the symbols."""
        from planner.typeset import TEXT

        return self.print(TEXT, numbers=True)

    @property
    def latex(self) -> str:
        """The right-hand side in LaTeX."""
        from planner.typeset import LATEX

        return self.print(LATEX)

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``terms``, ``interval`` and ``predicted`` only where there are any."""
        data: dict[str, Any] = {
            "value": plain(self.value),
            "unit": self.unit,
            "symbol": self.symbol,
            "title": self.title,
            "formula": self.formula,
            "latex": self.latex,
            "substituted": self.substituted,
            "kind": self.kind,
            "exact": self.exact,
            "source": self.source,
            "why": self.why,
            "uses": [used.id for used in self.uses],
            "used_by": [user.id for user in self.used_by],
        }
        if self.terms:
            data["terms"] = [
                {"label": t.label, "value": plain(t.value)} | ({"id": t.id} if t.id else {})
                for t in self.terms
            ]
        if self.interval is not None:
            data["interval"] = [plain(bound) for bound in self.interval]
        if self.predicted is not None:
            data["predicted"] = {"value": plain(self.predicted.value)}
            if self.predicted.interval is not None:
                data["predicted"]["interval"] = [plain(end) for end in self.predicted.interval]
        return data
