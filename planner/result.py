"""What a plan gives: every quantity with its value, its formula and how it was found.

``result["memory.total"]`` is a quantity; one with axes is named by its entry too, as in
``memory.activations.layer[moe]``. Values are exact (int, or Fraction, which becomes a decimal
number in JSON only). Formulas are printed when they are asked for: a summary never pays for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sympy import Add, Mul, Symbol, ceiling, floor

from planner import inputs as _inputs
from planner.document import Plan
from planner.errors import Fault, PlanError, nearest
from planner.evaluate import Absent, Entry, Evaluation, Key, Point, Trace, Value, widen
from planner.folds import AtLargest, Fold, Largest, Total
from planner.inputs import Input
from planner.quantity import Declaration, Notation
from planner.version import __version__

if TYPE_CHECKING:
    from planner.typeset import Box, Style, Typesetter

__all__ = ["Quantity", "Result", "Term", "evaluate"]


def evaluate(plan: Plan) -> Result:
    """The result of a plan. Nothing is computed before it is asked for."""
    from planner import case

    return Result(plan, Evaluation(case.build(plan)))


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a quantity: what it is, what it is worth, the quantity it rests on."""

    label: str
    value: Value
    id: str | None = None


class Result:
    """The quantities of one plan, by id."""

    def __init__(self, plan: Plan, evaluation: Evaluation) -> None:
        self.plan = plan
        self.evaluation = evaluation
        self._quantities: dict[Key, Quantity] = {}

    # -- access -------------------------------------------------------------------------------

    def __getitem__(self, identifier: str) -> Quantity:
        """The quantity of an id or of ``ID[ENTRY]``; its value is None where it is absent.

        Raises:
            KeyError: the book has no such quantity.
        """
        try:
            return self.find(identifier)
        except PlanError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, identifier: object) -> bool:
        try:
            return isinstance(identifier, str) and self.find(identifier).absent is None
        except PlanError:
            return False

    def __iter__(self) -> Iterator[str]:
        """The ids of all quantities that have a value, in the order of the book."""
        return iter(self.quantities)

    def __repr__(self) -> str:
        return f"<Result of {self.plan.name!r}>"

    def _repr_html_(self) -> str:
        """The quantities as a table, for notebooks."""
        from planner.notebook import html

        return html(self)

    def to_pandas(self) -> Any:
        """The quantities as a data frame with their ids as index.

        Raises:
            ImportError: pandas is not installed.
        """
        from planner.notebook import frame

        return frame(self)

    def get(self, identifier: str) -> Quantity | None:
        """The quantity, or None where it is unknown or absent."""
        if identifier not in self:
            return None
        return self.find(identifier)

    def find(self, identifier: str) -> Quantity:
        """As ``result[identifier]``, but an unknown id is a fault with a near spelling.

        Raises:
            PlanError: the book has no such quantity, or it has no such entry.
        """
        base, bracket, path = identifier.partition("[")
        known = self.evaluation.book.declarations
        if base not in known:
            raise PlanError(Fault(f"unknown quantity '{identifier}'", None,
                                  "see plan.py list quantities", nearest(base, known)))
        if bracket:
            return self.quantity(*self._instance(base, path.rstrip("]"), identifier))
        if known[base][0].per:
            names = [q.id for q in self.quantities.values() if q.base == base]
            some = f"one of {', '.join(names[:8])}" if names else "this plan uses none of it"
            raise PlanError(Fault(f"{base} holds per {', '.join(known[base][0].per)}", None, some))
        return self.quantity(base, {})

    def _instance(self, base: str, path: str, asked: str) -> tuple[str, Point]:
        """The id and the point of ``BASE[PATH]``. A quantity that folds another one over an axis,
        such as the largest over the layer kinds, stands for that one's entries too."""
        evaluation = self.evaluation
        per = evaluation.book.declarations[base][0].per
        if not per:
            declaration = self.quantity(base, {}).declaration
            fold = declaration.expression if declaration else None
            inner = fold.body if isinstance(fold, (Largest, Total, AtLargest)) else None
            identifier = evaluation.book.symbols.get(inner) if inner is not None else None
            if identifier is not None:
                return self._instance(identifier, path, asked)
            raise PlanError(Fault(f"{base} has no entries", None, base))
        point: Point = {}
        for axis, name in zip(per, path.split(","), strict=False):
            entries = evaluation.case.axes.get(axis, ())
            entries = () if isinstance(entries, Absent) else entries
            found = next((e for e in entries if name in (e.path, str(e.path))), None)
            if found is None:
                names = [e.path for e in entries]
                raise PlanError(Fault(f"unknown quantity '{asked}'", None,
                                      f"a {axis} such as {', '.join(names[:8])}",
                                      nearest(name, names)))
            point[axis] = found
        if len(point) < len(per):
            raise PlanError(Fault(f"unknown quantity '{asked}'", None,
                                  f"one entry each of {', '.join(per)}"))
        return base, point

    def quantity(self, base: str, point: Point) -> Quantity:
        """The quantity of an id at a point."""
        trace = self.evaluation.trace(base, point)
        per = self.evaluation.book.declarations[base][0].per
        key = (base, tuple(trace.point[axis] for axis in per))
        if key not in self._quantities:
            self._quantities[key] = Quantity(self, key, trace)
        return self._quantities[key]

    # -- everything ---------------------------------------------------------------------------

    @cached_property
    def _all(self) -> dict[Key, Quantity]:
        """Every id of the book without axes, and of those with axes what these rest on."""
        book = self.evaluation.book
        found: dict[Key, None] = {}
        stack = [self.quantity(base, {}) for base, (first, *_) in book.declarations.items()
                 if not first.per]
        while stack:
            quantity = stack.pop()
            if quantity.key not in found:
                found[quantity.key] = None
                stack += quantity.uses
        order = {base: i for i, base in enumerate(book.declarations)}
        place = {entry: i for axis in self.evaluation.case.axes.values()
                 if not isinstance(axis, Absent) for i, entry in enumerate(axis)}
        keys = sorted(found, key=lambda key: (order[key[0]], [place[e] for e in key[1]]))
        return {key: self._quantities[key] for key in keys}

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """Every quantity that has a value, by id, in the order of the book."""
        return {q.id: q for q in self._all.values() if q.absent is None}

    @cached_property
    def absent(self) -> dict[str, str]:
        """What has no value, with the reason."""
        return {q.id: q.absent for q in self._all.values() if q.absent is not None}

    @cached_property
    def inputs(self) -> dict[str, Input]:
        """Every resolved value by dotted key."""
        return {entry.key: entry for entry in _inputs.inputs(self.plan)}

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """Whether the plan fits into the memory of a device; None where that is unknown."""
        book = self.evaluation.book.declarations
        if "memory.headroom" not in book:
            return {"fits": None, "reason": "memory.headroom is not in the book"}
        headroom = self["memory.headroom"]
        if headroom.absent is not None:
            return {"fits": None, "reason": headroom.absent}
        return {"fits": bool(headroom.number >= 0), "reason": None}

    @cached_property
    def used_by(self) -> dict[Key, list[Quantity]]:
        """Which quantities rest on a quantity directly."""
        users: dict[Key, list[Quantity]] = {}
        for quantity in self._all.values():
            if quantity.absent is None:
                for used in quantity.uses:
                    users.setdefault(used.key, []).append(quantity)
        return users

    @cached_property
    def typesetter(self) -> Typesetter:
        from planner.typeset import Typesetter

        return Typesetter(self.evaluation)

    @property
    def document(self) -> str | None:
        """The plan file as it was named; None for a mapping or standard input."""
        file = self.plan.document.node.place.file
        if file.startswith("<"):
            return None
        path = Path(file)
        return path.name if path.is_absolute() else path.as_posix()

    def fingerprint(self) -> str:
        """A hash of the resolved input, the same wherever it is computed."""
        text = json.dumps([[i.key, _plain(i.value)] for i in self.inputs.values()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain data as schemas/result.schema.json describes it. Equal for equal input."""
        return {
            "version": __version__,
            "plan": {
                "name": self.plan.name,
                "document": self.document,
                "set": [f"{key}={text}" for key, text in self.plan.document.overrides],
                "fingerprint": self.fingerprint(),
            },
            "verdict": dict(self.verdict),
            "inputs": {
                entry.key: {"value": _plain(entry.value), "origin": entry.origin}
                for entry in self.inputs.values()
            },
            "quantities": {q.id: q.to_json() for q in self.quantities.values()},
            "absent": dict(self.absent),
        }


def _plain(value: Any) -> Any:
    """A value as JSON has it: a number that is not integral becomes a float."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class Quantity:
    """One evaluated quantity. What it prints is made when it is asked for."""

    def __init__(self, result: Result, key: Key, trace: Trace) -> None:
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
    def declaration(self) -> Declaration | None:
        """The formula that holds; None where none does."""
        return self.trace.declaration

    @property
    def _declared(self) -> Declaration:
        return self.trace.declaration or self.result.evaluation.book.declarations[self.base][0]

    @property
    def unit(self) -> str:
        return self._declared.unit

    @property
    def title(self) -> str:
        return self._declared.title

    @property
    def source(self) -> str:
        return self._declared.source

    @property
    def why(self) -> str:
        """What its formula says in words."""
        return self._declared.why

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
    def exact(self) -> bool:
        """False for an estimate, and for whatever rests on one."""
        return self._declared.exact and all(used.exact for used in self.uses)

    interval: tuple[Value, Value] | None = None

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
            if isinstance(bound, Absent) or hasattr(bound, "free_symbols"):
                continue
            dotted = f"model.{note.key}" if note.per == ("block",) else note.key
            found[(note.symbol, bound)] = (note, bound, result.inputs.get(dotted or ""))
        return sorted(found.values(), key=lambda item: item[0].rank)

    def _point(self, paths: Iterable[str]) -> Point:
        """The point whose entries have these paths."""
        axes = self.result.evaluation.case.axes.values()
        wanted = set(paths)
        found = {entry.axis: entry for axis in axes if not isinstance(axis, Absent)
                 for entry in axis if entry.path in wanted}
        return widen(found) if found else {}

    @property
    def used_by(self) -> list[Quantity]:
        """The quantities whose formulas use it."""
        return self.result.used_by.get(self.key, [])

    @cached_property
    def terms(self) -> list[Term]:
        """The summands of a sum: of its terms, or over the entries of a fold. Empty elsewhere."""
        expression = self.declaration.expression if self.declaration else None
        if self.absent is not None or expression is None:
            return []
        evaluation, point = self.result.evaluation, self.trace.point
        while isinstance(expression, (ceiling, floor)):
            expression = expression.args[0]
        if isinstance(expression, Total):
            below = evaluation.entries(expression.axis, point, expression.where)
            found = [
                Term(p[expression.axis].title or p[expression.axis].path,
                     evaluation.compute(expression.body, p), self._carrier(expression.body, p))
                for p in below
            ]
            return [term for term in found if term.value]
        if type(expression) is Add:
            return [self._summand(term) for term in self.result.typesetter.terms(expression)]
        return []

    def _summand(self, term: Any) -> Term:
        from planner.typeset import TEXT

        value = self.result.evaluation.compute(term, self.trace.point)
        carrier = self._carrier(term, self.trace.point)
        if carrier is not None:
            label = self.result.find(carrier).title
        else:
            label = TEXT.write(self.result.typesetter.symbolic(term, self.trace.point))
        return Term(label, value, carrier)

    def _carrier(self, term: Any, point: Point) -> str | None:
        """The quantity that a term is, or is a multiple of."""
        book = self.result.evaluation.book
        factors = term.args if type(term) is Mul else (term,)
        ids = [book.symbols[f] for f in factors if type(f) is Symbol and f in book.symbols]
        if len(ids) != 1 or any(isinstance(f, (Fold, Add)) for f in factors):
            return None
        per = book.declarations[ids[0]][0].per
        if any(axis not in point for axis in per):
            return None
        return self.result.quantity(ids[0], {axis: point[axis] for axis in per}).id

    # -- how it prints ------------------------------------------------------------------------

    @property
    def symbol(self) -> str:
        """Its symbol in plain text."""
        return str(self.symbol_name.plain())

    @cached_property
    def symbol_name(self) -> Any:
        """Its symbol as a typeset.Name, with the entry where there are several."""
        name = self.result.typesetter.name(self._declared.symbol)
        for entry in self.entries:
            axis = self.result.evaluation.case.axes[entry.axis]
            if not isinstance(axis, Absent) and len(axis) > 1:
                name = name.with_subscript(entry.name)
        return name

    @cached_property
    def boxes(self) -> tuple[Box, Box | None]:
        """Its formula with symbols, and with numbers in their places."""
        typesetter, declaration = self.result.typesetter, self.declaration
        if declaration is None:
            raise Absent(self.absent or "no formula holds")
        point = self.trace.point
        symbolic = typesetter.symbolic(declaration.expression, point)
        if self.absent is not None:
            return symbolic, None
        return symbolic, typesetter.numeric(declaration.expression, point)

    def print(self, style: Style, numbers: bool = False) -> str:
        """Its formula in a style of planner.typeset; empty where there is none."""
        if self.declaration is None:
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
        """Plain data; ``terms`` and ``interval`` only where there are any."""
        data: dict[str, Any] = {
            "value": _plain(self.value),
            "unit": self.unit,
            "symbol": self.symbol,
            "title": self.title,
            "formula": self.formula,
            "latex": self.latex,
            "substituted": self.substituted,
            "exact": self.exact,
            "source": self.source,
            "why": self.why,
            "uses": [used.id for used in self.uses],
            "used_by": [user.id for user in self.used_by],
        }
        if self.terms:
            data["terms"] = [
                {"label": t.label, "value": _plain(t.value)} | ({"id": t.id} if t.id else {})
                for t in self.terms
            ]
        if self.interval is not None:
            data["interval"] = [_plain(bound) for bound in self.interval]
        return data
