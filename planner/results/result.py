"""The result of a plan: every quantity with its value, its formula and its derivation.

``result["memory.total"]`` is a quantity; one with axes is named by its entry too, as in
``memory.activations.layer[moe]``. Values are exact (int, or Fraction, which becomes a decimal
number in JSON only). Formulas are typeset on demand: a summary never pays for them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.base import numbers
from planner.base.display import clean, plain
from planner.base.errors import PlanError, nearest
from planner.base.notebook import Shown
from planner.base.progress import report_progress
from planner.base.version import __version__
from planner.book.expressions import Symbol
from planner.book.quantity import KINDS, Notation
from planner.engine.evaluate import Absent, Entry, Evaluation, Key, Number, Point, Trace, Value
from planner.engine.in_turn import evaluate_case
from planner.engine.lower import SIZE_ONLY, get_binding
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.results import intervals
from planner.results.inputs import Input, list_inputs
from planner.results.verdict import FITS, SURE, decide_state

if TYPE_CHECKING:
    import sympy

    from planner.results.collapse import Collapse
    from planner.results.improvements import Advice
    from planner.typeset.boxes import Box
    from planner.typeset.styles import Style
    from planner.typeset.typesetter import Typesetter


def evaluate_entry(plan: Plan, entry: Entry) -> Result:
    """Evaluate a plan with one entry alone on an axis, such as a matmul of any size."""
    from planner.engine import instance

    case = instance.build(plan)
    return Result(plan, Evaluation(replace(case, axes={**case.axes, entry.axis: (entry,)})))


def evaluate_plan(plan: Plan, like: Result | None = None) -> Result:
    """Evaluate a plan, on the graph of the result ``like`` if given. Values are computed on
    demand."""
    from planner.engine import instance

    report_progress(f"evaluating {plan.name}")
    built = instance.build(plan)
    return Result(plan, evaluate_case(built, like=None if like is None else like.evaluation))


COLUMNS = ("id", "value", "unit", "title", "symbol", "exact", "source")


class Result(Shown):
    """The quantities of one plan, by id."""

    def __init__(self, plan: Plan, evaluation: Evaluation) -> None:
        self.plan = plan
        self.evaluation = evaluation
        self._quantities: dict[Key, Quantity] = {}
        #: What its plan asks, answered (planner.questions.plan_questions); None of a plan that is
        #: evaluated for another question.
        self.questions: Any = None
        self.comparison: Any = None  # a planner.connect.compare.Comparison, beside the log of a run

    def __getitem__(self, identifier: str) -> Quantity:
        """Return the quantity of an id or of ``ID[ENTRY]``; its value is None if it is absent.

        Raises:
            KeyError: the book has no such quantity.
        """
        try:
            return self.find(identifier)
        except PlanError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, identifier: object) -> bool:
        return isinstance(identifier, str) and self.get(identifier) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of all quantities that have a value, in the order of the book."""
        return iter(self.quantities)

    def __repr__(self) -> str:
        return f"<Result of {self.plan.name!r}>"

    def to_pandas(self) -> Any:
        """Return the quantities as a data frame with their ids as index. Values are Python objects,
        as counts of FLOPs exceed 64 bits; ``frame.value.astype(float)`` converts numbers.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]

        listed = self.quantities.values()
        rows = [{name: plain(getattr(each, name)) for name in COLUMNS} for each in listed]
        return pandas.DataFrame(rows, columns=list(COLUMNS), dtype=object).set_index("id")

    def get(self, identifier: str) -> Quantity | None:
        """Return the quantity, or None if it is unknown or absent."""
        try:
            quantity = self.find(identifier)
        except PlanError:
            return None
        return quantity if quantity.absent is None else None

    def find(self, identifier: str) -> Quantity:
        """Find a quantity as ``result[identifier]`` does; a near spelling is suggested.

        Raises:
            PlanError: the book has no such quantity, or it has no such entry.
        """
        base, bracket, path = identifier.partition("[")
        known = self.evaluation.book.quantities
        if base not in known:
            unknown, allowed = f"unknown quantity '{identifier}'", "see plan.py list quantities"
            raise PlanError(unknown, None, allowed, nearest(base, known))
        if bracket:
            return self.get_quantity(*self._resolve_instance(base, path.rstrip("]"), identifier))
        if known[base].per:
            names = [q.id for q in self.quantities.values() if q.base == base]
            if not names and base.startswith("optimal."):
                names = [f"{base}[{entry.path}]" for entry in self.list_entries(known[base].per[0])]
            some = f"one of {', '.join(names[:8])}" if names else "this plan uses none of it"
            raise PlanError(f"{base} is per {', '.join(known[base].per)}", None, some)
        return self.get_quantity(base, {})

    def list_entries(self, axis: str) -> tuple[Entry, ...]:
        """Return the entries of an axis; none if the plan does not decide it."""
        return self.evaluation.case.entries(axis)

    def _resolve_instance(self, base: str, path: str, asked: str) -> tuple[str, Point]:
        """Return the id and the point of ``BASE[PATH]``. For a quantity that folds another one over
        an axis, such as the largest over layer kinds, those of that one."""
        book = self.evaluation.book
        per = book.quantities[base].per
        if not per and book.quantities[base].stacked:
            per = ("stack",)
        if not per:
            formula = self.get_quantity(base, {}).chosen
            fold = formula.expression if formula else None
            folds = fold is not None and fold.op in ("largest", "total", "at_largest")
            if fold is None or not folds or fold.body not in book.symbols:
                raise PlanError(f"{base} has no entries", None, base)
            return self._resolve_instance(book.symbols[fold.body], path, asked)
        point: Point = {}
        rest, unknown = f"{path},", f"unknown quantity '{asked}'"
        for axis in per:
            if not rest:
                break
            entries = {str(entry.path): entry for entry in self.list_entries(axis)}
            # A layer kind may have a comma in its name.
            begun = (name for name in entries if rest.startswith(f"{name},"))
            name = max(begun, key=len, default=rest.partition(",")[0])
            rest = rest[len(name) + 1 :]
            if name not in entries:
                allowed = f"a {axis} such as {', '.join(list(entries)[:8])}"
                raise PlanError(unknown, None, allowed, nearest(name, entries))
            point[axis] = entries[name]
        if len(point) < len(per):
            raise PlanError(unknown, None, f"one entry each of {', '.join(per)}")
        return base, point

    def get_quantity(self, base: str, point: Point) -> Quantity:
        """Return the quantity of an id at a point."""
        trace = self.evaluation.trace_quantity(base, point)
        if trace.key not in self._quantities:
            self._quantities[trace.key] = Quantity(self, trace)
        return self._quantities[trace.key]

    @cached_property
    def _all(self) -> dict[Key, Quantity]:
        """Every quantity of the book without axes, those of each convention and scaling law, and
        all that they use."""
        book = self.evaluation.book
        found: dict[Key, Quantity] = {}
        stack = []
        for base, declared in book.quantities.items():
            if not declared.per:
                stack.append(self.get_quantity(base, {}))
            # What laws say of a budget (``optimal.``) is made when it is asked for.
            elif declared.per in (("law",), ("convention",)) and not base.startswith("optimal."):
                (axis,) = declared.per
                said = (self.get_quantity(base, {axis: entry}) for entry in self.list_entries(axis))
                stack += [quantity for quantity in said if quantity.chosen is not None]
        while stack:
            quantity = stack.pop()
            if quantity.key not in found:
                found[quantity.key] = quantity
                stack += quantity.uses
        order = {base: i for i, base in enumerate(book.quantities)}
        axes = map(self.list_entries, self.evaluation.case.axes)
        place = {entry: i for axis in axes for i, entry in enumerate(axis)}
        keys = sorted(found, key=lambda key: (order[key[0]], [place[e] for e in key[1]]))
        return {key: found[key] for key in keys}

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """Every quantity that has a value, by id, in the order of the book."""
        return {q.id: q for q in self._all.values() if q.absent is None}

    @cached_property
    def absent(self) -> dict[str, str]:
        """The reasons of all quantities without a value, by id."""
        return {q.id: q.absent for q in self._all.values() if q.absent is not None}

    @cached_property
    def inputs(self) -> dict[str, Input]:
        """Every resolved value by dotted key."""
        return {entry.key: entry for entry in list_inputs(self.plan)}

    @cached_property
    def advice(self) -> Advice | None:
        """Changes that make a plan safe that does not fit, or only tightly; None if it fits."""
        if self.verdict["state"] not in ("no", "tight"):
            return None
        from planner.results.improvements import find_fixes

        return find_fixes(self.plan)

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """Whether the plan fits into the memory of a device: ``fits`` by what it needs, None if
        that is unknown, and ``state``, which includes the allocator's cache and the uncertainty.

        ``fits``: the 95th percentile of published measurements is within capacity; ``tight``: the
        live tensors and the runtime are, the percentile is not; ``no``: they are not, or the host
        has too little memory; ``open``: an input that decides is missing, such as the shape of a
        model given by its size.
        """
        left = self[FITS]
        if left.absent is not None:
            return {"fits": None, "state": "open", "reason": _name_missing(left.absent)}
        fits, shaped = bool(left.number >= 0), self.plan.model is not None
        safe = fits and shaped and self[SURE].number >= 0
        state = decide_state(fits, shaped, bool(safe))
        return {
            "fits": fits,
            "state": state,
            "reason": _name_missing(SIZE_ONLY) if state == "open" else None,
        }

    @cached_property
    def alternative(self) -> Result | None:
        """The same plan with its time predicted if this result assumes the plan's utilisation, and
        vice versa, for a note; None if there is one time only."""
        if self.plan.get("time.mfu") is None:
            return None
        use = "predicted" if self.assumes_utilisation else "assumed"
        other = evaluate_plan(variant(self.plan, {"time.use": use}), like=self)
        if other.assumes_utilisation == self.assumes_utilisation:
            return None  # nothing predicts it
        return other if "time.tokens_per_second" in other else None

    @property
    def assumes_utilisation(self) -> bool:
        """Whether the times follow from a utilisation that the plan assumes (``time.mfu``)."""
        return bool(self.plan.settings["time.assumed"])

    @cached_property
    def step_parts(self) -> dict[str, float]:
        """Seconds of a predicted step by part, largest first, to nine digits; only exposed time
        counts, so that they add up. Empty if time is assumed."""
        step = "time.step_seconds"
        if self.assumes_utilisation or step not in self:
            return {}
        from planner.results.attribution import break_down

        found = break_down(self.evaluation, step)
        order = sorted(found, key=lambda name: -found[name])
        return {name: float(f"{float(found[name]):.9g}") for name in order}

    def list_users(self, key: str) -> list[Quantity]:
        """List the quantities whose formulas have the input with a key."""
        notes = self.evaluation.book.notation.values()
        symbols = {note.symbol for note in notes if note.dotted == key}
        uses = ((q, q.trace.uses) for q in self.quantities.values())
        return [q for q, used in uses if any(one[0] in symbols for one in used)]

    @cached_property
    def used_by(self) -> dict[Key, list[Quantity]]:
        """The quantities that use a quantity directly, by its key."""
        users: dict[Key, list[Quantity]] = {}
        for quantity in self._all.values():
            if quantity.absent is None:
                for used in quantity.uses:
                    users.setdefault(used.key, []).append(quantity)
        return users

    @cached_property
    def typesetter(self) -> Typesetter:
        """Writes the formulas of this result; made at first use, since a summary prints none."""
        from planner.typeset.typesetter import Typesetter

        return Typesetter(self.evaluation)

    @cached_property
    def collapse(self) -> Collapse:
        """Forms of quantities in the plan's basic symbols."""
        from planner.results.collapse import Collapse

        return Collapse(self.evaluation)

    @cached_property
    def document(self) -> str | None:
        """The name of the plan's file or preset; None for a mapping or standard input."""
        file = self.plan.document.name or self.plan.document.node.place.file
        if file.startswith("<"):
            return None
        path = Path(file)
        return path.name if path.is_absolute() else path.as_posix()

    def hash_input(self) -> str:
        """Hash the resolved input; the hash is the same on every machine."""
        import hashlib  # which loads OpenSSL

        text = json.dumps([[i.key, plain(i.value)] for i in self.inputs.values()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self, only: Sequence[Quantity] | None = None) -> dict[str, Any]:
        """Return plain data as schemas/result.schema.json describes it. Equal for equal input.

        Args:
            only: the wanted quantities: a tenth of the work, without what needs all of them or
                other plans.
        """
        shown = self._all.values() if only is None else only
        data = {
            "version": __version__,
            "plan": {
                "name": self.plan.name,
                "document": self.document,
                "set": [f"{key}={text}" for key, text in self.plan.document.overrides],
                "fingerprint": self.hash_input(),
                **({"no_defaults": True} if self.plan.document.left_out else {}),
            },
            "verdict": dict(self.verdict),
            "inputs": {
                entry.key: {"value": plain(entry.value), "origin": entry.origin}
                for entry in self.inputs.values()
            },
            "quantities": {q.id: q.to_json(only is None) for q in shown if q.absent is None},
            "absent": {q.id: q.absent for q in shown if q.absent is not None},
        }
        if only is not None:
            return data
        if self.advice is not None:
            data["advice"] = self.advice.to_json()
        if self.step_parts:
            data["step_parts"] = dict(self.step_parts)
        if self.questions is not None:
            data |= self.questions.to_json()
        if self.comparison is not None:
            data["comparison"] = self.comparison.to_json()
        return data


def _name_missing(reason: str) -> str:
    """Name the input that a verdict lacks, by the reason of what is absent without it."""
    what, lacks, _ = reason.partition(" is not given")
    if reason == SIZE_ONLY:
        what, lacks = "model shape", SIZE_ONLY
    return f"memory: {what} missing" if lacks else f"memory: {reason}"


class Summand(NamedTuple):
    """One summand of a quantity: its label, its value, and the id of its quantity, if any."""

    label: str
    value: Value
    id: str | None = None


def label_uniquely(entries: Sequence[Entry]) -> list[str]:
    """Label the entries of an axis uniquely: equal labels are prefixed with their parents' names,
    as far out as necessary."""
    labels = [(entry.title or entry.path).replace("_", " ") for entry in entries]
    around = list(entries)
    while len(set(labels)) < len(labels):
        several = Counter(labels)
        for i, label in enumerate(labels):
            outer = around[i].parent
            if several[label] > 1 and outer is not None:
                mark = ": " if around[i] is entries[i] else " "
                labels[i], around[i] = f"{outer.name.replace('_', ' ')}{mark}{label}", outer
        if Counter(labels) == several:
            break
    return labels


#: The basis of times on an accelerator without calibrated rates.
DEFAULT_RATES = "default rates, which no run on this accelerator was held against"
#: Attributes that the JSON of a quantity always has.
SAID = (
    *("value", "unit", "symbol", "title", "formula", "latex", "substituted"),
    *("kind", "exact", "source", "why"),
)


def _resolve_note(note: Notation, scope: Sequence[Entry]) -> Notation:
    """Return what a symbol means in an entry: in a tower, its key is one of the tower."""
    stack = scope[0].around.get("stack") if scope else None
    if stack is None or not stack.title or note.key is None:
        return note
    inside = note.key.removeprefix("model.")
    prefix = "model." if inside != note.key else ""
    return note._replace(key=f"{prefix}{stack.title}.{inside}")


class Quantity:
    """One evaluated quantity. Its printed forms are made on demand."""

    def __init__(self, result: Result, trace: Trace) -> None:
        self.result, self.key, self.trace = result, trace.key, trace
        #: The id without the entry, and the entries.
        self.base, self.entries = trace.key
        #: Its declaration in the book, and the formula that applies, or None.
        self.declared = result.evaluation.book.quantities[self.base]
        self.chosen = trace.chosen
        self._formula = self.chosen or self.declared.formulas[0]
        value = trace.value
        #: int where it is integral, else Fraction (float only below a root), or a name; None where
        #: the quantity is absent, with the reason.
        self.value = None if isinstance(value, Absent) else value
        self.absent = value.reason if isinstance(value, Absent) else None
        #: The unit of the value; what the formula gives, and what it says in words.
        self.unit, self.title, self.why = self.declared.unit, self._formula.title, self._formula.why

    def __repr__(self) -> str:
        shown = f"absent: {self.absent}" if self.absent is not None else self.text("exact")
        return f"<{self.id} = {shown}>"

    def text(self, style: numbers.Style = "headline") -> str:
        """Format its value for people."""
        return clean(self.declared.text(self.value, style))

    @cached_property
    def id(self) -> str:
        """The id of the book, with the path of each entry: ``memory.activations.part[moe]``."""
        entries = ",".join(entry.path for entry in self.key[1])
        return f"{self.base}[{entries}]" if entries else self.base

    @cached_property
    def source(self) -> str:
        """The source of its formula; for a price, also its provider and date."""
        cited = [given.origin for note, _, given in self.symbols if note.cited and given]
        return ": ".join([self._formula.source, *dict.fromkeys(cited)])

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

    @cached_property
    def kind(self) -> str:
        """Its certainty, of ``quantity.KINDS``: the weakest of its formula and its inputs."""
        return KINDS[self.result.evaluation.find_certainty(self.trace.place)]

    @property
    def exact(self) -> bool:
        """Whether it follows by arithmetic alone from choices and from facts with a source."""
        return self.kind == "exact"

    @cached_property
    def interval(self) -> tuple[Number, Number] | None:
        """Ends of the 90 % interval of a prediction, from published runs of its kind."""
        if self.absent is not None or isinstance(self.value, str):
            return None
        if self.declared.own:
            return intervals.derive_interval(self.base, self.result.evaluation)
        return intervals.compute_interval(self.base, self.number, self.result.evaluation)

    @cached_property
    def assumption(self) -> str:
        """What an assumed value is based on; empty if it is not assumed, or a plan's own input."""
        result = self.result
        if self.kind != "assumed" or not self.declared.scales_with:
            return ""
        if result.assumes_utilisation:
            return "an assumed utilisation (time.mfu)"
        default = result.plan.defaults.get("time.efficiency.matmul", "")
        return DEFAULT_RATES if default.startswith("assumed:") else ""

    @cached_property
    def alternative(self) -> Quantity | None:
        """The same quantity by the plan's other time, assumed or predicted, if it differs."""
        if self.kind not in ("estimate", "assumed") or self.result.alternative is None:
            return None
        other = self.result.alternative.get(self.id)
        if other is None or "assumed" not in (self.kind, other.kind):
            return None
        return other if other.value != self.value else None

    @cached_property
    def uses(self) -> list[Quantity]:
        """The quantities in its formula."""
        result, keys = self.result, (key for key in self.trace.uses if isinstance(key[0], str))
        return [
            result._quantities.get(key) or result.get_quantity(key[0], {e.axis: e for e in key[1]})
            for key in keys
        ]

    @cached_property
    def symbols(self) -> list[tuple[Notation, list[Value], Input | None]]:
        """The inputs in its formula: symbol, its values (several inside a reduction), and their
        origin."""
        evaluation = self.result.evaluation
        found: dict[Symbol, list[Value]] = {}
        notes: dict[Symbol, Notation] = {}
        for symbol, *scope in (key for key in self.trace.uses if isinstance(key[0], Symbol)):
            values = found.setdefault(symbol, [])
            value = get_binding(evaluation.case, symbol, scope)
            values += [value] if value not in values else []
            notes.setdefault(symbol, _resolve_note(evaluation.book.notation[symbol], scope))
        given = self.result.inputs.get
        ordered = sorted(notes.values(), key=lambda note: note.rank)
        return [(note, found[note.symbol], given(note.dotted or "")) for note in ordered]

    @property
    def used_by(self) -> list[Quantity]:
        """The quantities whose formulas use it."""
        return self.result.used_by.get(self.key, [])

    @cached_property
    def terms(self) -> list[Summand]:
        """The summands of a sum: its terms, or one for each entry of a fold. Else empty."""
        expression = self.chosen.expression if self.chosen else None
        if self.absent is not None or expression is None:
            return []
        evaluation, point = self.result.evaluation, self.trace.point
        while expression.op in ("ceil", "floor"):
            expression = expression.args[0]
        if expression.op == "total":
            below = evaluation.entries(expression.axis, point, expression.where)
            labels = label_uniquely([p[expression.axis] for p in below])
            found = [
                Summand(
                    label, evaluation.compute(expression.body, p), self._id_of(expression.body, p)
                )
                for label, p in zip(labels, below, strict=True)
            ]
            return [term for term in found if term.value]
        if expression.op == "add":
            return [
                self._build_summand(term) for term in self.result.typesetter.sort_terms(expression)
            ]
        return []

    def _build_summand(self, term: Any) -> Summand:
        """Return one term of a sum: the label is the title of the quantity that it is a multiple
        of."""
        evaluation, typesetter = self.result.evaluation, self.result.typesetter
        book, point = evaluation.book, self.trace.point
        identifier = self._id_of(term, point)
        if identifier is not None:
            label = self.result.find(identifier).title
        elif term.op == "largest" and term.body in book.symbols:
            label = f"the largest of: {book.quantities[book.symbols[term.body]].title}"
        else:
            label = typesetter.text.write(typesetter.box(term, point))
        return Summand(label, evaluation.compute(term, point), identifier)

    def _id_of(self, term: Any, point: Point) -> str | None:
        """Return the id, with entry, of the quantity that a term equals or is a multiple of."""
        base = self.result.evaluation.book.find_carrier(term, self.unit)
        per = self.result.evaluation.book.quantities[base].per if base is not None else ()
        if base is None or any(axis not in point for axis in per):
            return None
        return self.result.get_quantity(base, point).id

    @property
    def symbol(self) -> str:
        """Its symbol in plain text."""
        return self.result.typesetter.text.write(self.symbol_name)

    @cached_property
    def symbol_name(self) -> Box:
        """Its symbol as boxes, with the entry where there are several."""
        from planner.typeset.boxes import add_subscript

        name = self.result.typesetter.make_name(self.declared.symbol)
        for entry in self.entries:
            if len(self.result.list_entries(entry.axis)) > 1:
                name = add_subscript(name, entry.name)
        return name

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Its formula with symbols and, if it has a value, with numbers instead; empty if no
        formula applies."""
        typesetter, formula, point = self.result.typesetter, self.chosen, self.trace.point
        if formula is None:
            return ()
        symbolic = typesetter.box(formula.expression, point)
        numeric = () if self.absent else (typesetter.box(formula.expression, point, numbers=True),)
        return symbolic, *numeric

    def print(self, style: Style, numbers: bool = False) -> str:
        """Write its formula in a style of planner.typeset; empty if there is none."""
        return style.write(self.boxes[numbers]) if len(self.boxes) > numbers else ""

    @property
    def formula(self) -> str:
        """The right-hand side in plain text."""
        return self.print(self.result.typesetter.text)

    @property
    def substituted(self) -> str:
        """The same with numbers instead of symbols."""
        return self.print(self.result.typesetter.text, numbers=True)

    @property
    def latex(self) -> str:
        """The right-hand side in LaTeX."""
        return self.print(self.result.typesetter.latex)

    @cached_property
    def expression(self) -> sympy.Expr:
        """The quantity in the plan's basic symbols (h, L, a, s, b, V, f, t, p, d, c …): reductions
        are resolved, the plan's own alternatives chosen, and what it makes equal is one symbol.
        Bytes of an element are numbers. Symbols are named as in plain text, and are positive.

        Raises:
            ValueError: it is absent or a name.
        """
        return self._to_sympy(None)

    def expand(self, levels: int = 1) -> sympy.Expr:
        """Expand its formula: put in the formulas of its quantities, so many levels deep; deeper
        ones stay symbols, named as in plain text. ``expression`` puts in all of them.

        Raises:
            ValueError: it is absent or a name, or the levels are negative.
        """
        if levels < 0:
            raise ValueError(f"levels: {levels} (0 or more)")
        return self._to_sympy(levels)

    def _to_sympy(self, levels: int | None) -> sympy.Expr:
        """Derive the quantity as a SymPy expression; ``levels`` as in ``Collapse.derive_tree``."""
        from planner.book.symbolic import to_sympy
        from planner.results.collapse import NoForm

        try:
            tree = self.result.collapse.derive_tree(self.base, self.trace.point, levels)
        except NoForm as none:
            raise ValueError(f"{self.id} has no form in symbols: {none}") from None
        collapse, text = self.result.collapse, self.result.typesetter.text
        names = {each: text.write(collapse.typesetter.make_name(each)) for each in tree.symbols}
        return to_sympy(tree.put({each: Symbol(name, True) for each, name in names.items()}))

    def to_json(self, users: bool = True) -> dict[str, Any]:
        """Return plain data; ``terms``, ``interval`` and the plan's other time (``assumed`` or
        ``predicted``) only if there are any; ``used_by`` only with ``users``, as it needs all
        quantities."""
        data = {name: plain(getattr(self, name)) for name in SAID}
        data["uses"] = [used.id for used in self.uses]
        if users:
            data["used_by"] = [user.id for user in self.used_by]
        if self.terms:
            data["terms"] = [
                {"label": t.label, "value": plain(t.value)} | ({"id": t.id} if t.id else {})
                for t in self.terms
            ]
        if self.interval is not None:
            data["interval"] = [plain(bound) for bound in self.interval]
        other = self.alternative
        if other is not None:
            name = "predicted" if self.result.assumes_utilisation else "assumed"
            data[name] = {"value": plain(other.value)}
            if other.interval is not None:
                data[name]["interval"] = [plain(end) for end in other.interval]
        return data
