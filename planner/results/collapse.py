"""Quantities expanded to the plan's basic symbols: the formulas under the plan's own choices.

Formulas are followed as the plan has them: the alternative that applies, the entry with the
maximum, each summand of a sum over entries; a rounding of a whole number is dropped. What the plan
makes equal becomes one symbol: the head size h/a where heads divide the width, 4h for a
feed-forward of four times the width, L/p for the layers of an even stage. Bytes of an element are
numbers, as in print; so is every 0, and every 1 outside the model and the usual degrees.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import Any

from planner.book import notation
from planner.book.canonical import to_canonical
from planner.book.expressions import Expression, Symbol
from planner.book.normal_form import Form, atom, make_constant, to_form
from planner.book.quantity import Notation
from planner.engine.evaluate import Absent, Entry, Evaluation, Key, Point
from planner.engine.lower import get_binding
from planner.typeset.boxes import Box, add_subscript, read_latex
from planner.typeset.typesetter import Typesetter

#: Quantities that papers give a letter, as they do to inputs; the vocabulary, where it is padded.
LETTERS = frozenset(("layout.data", "layout.micro_batches", "layout.vocabulary"))
#: Degrees and sizes that stay in a form though they are 1.
KEPT = frozenset((notation.b, notation.t, notation.p, notation.c, notation.e))
#: Keys of symbols that are shown as numbers: bytes of elements, whether something runs.
NUMBERS = (
    "training.bytes.", "time.dropout", "time.lora_dropout", "training.lora.dora", "time.rope",
)  # fmt: skip
#: Where others stay letters: quantities of the whole plan that are followed all the same, and
#: quantities with entries that are not.
FOLLOWED = ("layout.", "memory.activations.input_ranks", "memory.optimizer.per_parameter")
STAYING = ("memory.activations.part", "memory.activations.whole", "memory.activations.again")

Stops = Callable[[Key, int], bool]


class NoForm(Exception):
    """A quantity has no form in symbols: it is absent, or a name."""


def everywhere(key: Key, depth: int) -> bool:
    """Stop at no quantity but those that papers have letters for."""
    return False


def briefly(key: Key, depth: int) -> bool:
    """Stop at no quantity either, but refuse a form that is long, or has a root or a rounding."""
    return False


def at_letters(key: Key, depth: int) -> bool:
    """Stop at quantities of the whole plan, as N and t_step; expand those with entries."""
    return key[0] in STAYING or (not key[1] and not key[0].startswith(FOLLOWED))


#: Stops that do not depend on the depth.
SAME = (everywhere, briefly, at_letters)
#: Terms of a form that is read at a glance, and of those that it may be made of.
MOST_TERMS, LONG, MOST_SYMBOLS = 8, 24, 12


def is_brief(form: Form, most: int = MOST_TERMS) -> bool:
    """Decide whether a form is short and has plain symbols only."""
    plain = all(isinstance(each, Symbol) for each in form.atoms)
    return plain and len(form.terms) <= most and len(form.atoms) <= most + MOST_SYMBOLS - MOST_TERMS


class Collapse:
    """Forms of the quantities of one evaluation, with the values and names of their symbols."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.case = evaluation.case
        self._kept: dict[Any, Form | NoForm] = {}
        self._several: dict[Symbol, bool] = {}
        self.values: dict[Symbol, Any] = {}
        #: Names of symbols that apply to some entries only.
        self.names: dict[Symbol, Box] = {}
        #: The book, with the names of symbols that differ from entry to entry.
        self.book = copy(evaluation.book)
        self.book.notation = {**evaluation.book.notation}

    def expand_quantity(self, identifier: str, point: Point, stops: Stops = everywhere) -> Form:
        """Expand a quantity to a form.

        Args:
            identifier: of the quantity.
            point: its entries by axis.
            stops: decides which quantities are left as symbols; by default none that has a formula.

        Raises:
            NoForm: it is absent or a name, or needs such a quantity.
        """
        return self._expand_instance(identifier, point, stops, 0)

    def expand_tree(self, expression: Expression, point: Point, stops: Stops = everywhere) -> Form:
        """Expand an expression, such as a summand, to a form.

        Args:
            expression: a canonical tree.
            point: the entries by axis at which its symbols are resolved.
            stops: decides which quantities are left as symbols.

        Raises:
            NoForm: it needs a quantity that is absent or a name.
        """
        return self._expand_tree(expression, point, stops, 1)

    def derive_tree(self, identifier: str, point: Point, levels: int | None = None) -> Expression:
        """Derive a quantity in basic symbols.

        Args:
            identifier: of the quantity.
            point: its entries by axis.
            levels: of formulas that are put into its own; all by default.

        Raises:
            NoForm: it is absent or a name, or needs such a quantity.
        """
        found = self.expand_quantity(
            identifier, point, everywhere if levels is None else lambda _, depth: depth > levels
        )
        return found.to_tree(find_factor(found))

    def make_letter(self, identifier: str, point: Point) -> Symbol:
        """Make the symbol of a quantity, with its entries if it has some."""
        trace = self.evaluation.trace_quantity(identifier, point)
        quantity, entries = self.book.quantities[identifier], trace.key[1]
        if isinstance(trace.value, (Absent, str)):
            raise NoForm(identifier)
        if not entries:
            self.values[quantity.symbol] = trace.value
            return quantity.symbol
        note = Notation(quantity.symbol, quantity.title, quantity.latex, len(self.book.notation))
        return self._make_symbol(quantity.symbol, note, entries, trace.value)

    def _expand_instance(self, identifier: str, point: Point, stops: Stops, depth: int) -> Form:
        """Expand an instance of a quantity.

        Args:
            stops: decides where a quantity stays a symbol.
            depth: formulas that were put in above this one; 0 is the quantity itself, which never
                stops.

        Raises:
            NoForm: it is absent or a name.
        """
        trace = self.evaluation.trace_quantity(identifier, point)
        value, formula = trace.value, trace.chosen
        if isinstance(value, (Absent, str)) or formula is None:
            raise NoForm(identifier)
        if value == 0:
            return Form()
        if depth:
            if identifier == "layout.vocabulary" and value == self._get_bound(notation.V):
                return self._expand_input(notation.V, (), value)
            if identifier in LETTERS or stops(trace.key, depth):
                return atom(self.make_letter(identifier, trace.point))
        named = (trace.key, stops, depth if stops not in SAME else depth > 0)
        found = self._kept.get(named)
        if found is None:
            try:
                found = self._expand_tree(formula.expression, trace.point, stops, depth + 1)
            except NoForm as none:
                found = none
            self._kept[named] = found
        if isinstance(found, NoForm):
            raise found
        return found

    def _expand_tree(self, tree: Expression, point: Point, stops: Stops, depth: int) -> Form:
        """Expand an expression at a point: sums and products by the algebra of forms, the rest by
        ``leaf``."""
        evaluation = self.evaluation

        def leaf(part: Expression) -> Form | None:
            """Return the form of a part that is no sum or product: a symbol, a reduction, a
            rounding."""
            op = part.op
            if isinstance(part, Symbol):
                return self._expand_symbol(part, point, stops, depth)
            if op == "total":
                below = evaluation.entries(part.axis, point, part.where)
                total = Form()
                for each in below:
                    total += self._expand_tree(part.body, each, stops, depth)
                    if stops is briefly and len(total.terms) > LONG:
                        raise NoForm("it is long")
                return total
            if op in ("largest", "at_largest"):
                best = self.find_best(part, point)
                return self._expand_tree(part.body, best, stops, depth)
            if op == "which":
                raise NoForm("a name")
            if op in ("max", "min"):
                most: Any = max if op == "max" else min
                chosen = most(part.args, key=lambda one: evaluation.compute(one, point))
                return to_form(chosen, leaf)
            if op in ("ceil", "floor"):
                inner = evaluation.compute(part.args[0], point)
                if not isinstance(inner, float) and Fraction(inner).denominator == 1:
                    return to_form(part.args[0], leaf)
            return None

        try:
            form = to_form(tree, leaf)
            if stops is briefly and not is_brief(form, LONG):
                raise NoForm("it is long")
            return form
        except (Absent, ZeroDivisionError) as error:
            raise NoForm(str(error)) from None

    def find_best(self, fold: Expression, point: Point) -> Point:
        """Find the point of the largest value of a reduction, the first of equals."""
        evaluation = self.evaluation
        points = evaluation.entries(fold.axis, point, fold.where)
        return max(points, key=lambda below: evaluation.compute(fold.args[-1], below))

    def _expand_symbol(self, symbol: Symbol, point: Point, stops: Stops, depth: int) -> Form:
        """Expand a symbol: the formula of a quantity, a bound expression, or an input with its
        value."""
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            return self._expand_instance(identifier, point, stops, depth)
        scope = self.evaluation.find_scope(symbol, point)
        value = self.evaluation.find_binding(symbol, point)
        if isinstance(value, Expression):
            return self._expand_tree(
                to_canonical(value), self.evaluation.meant(scope, point), stops, depth
            )
        if isinstance(value, (Absent, str)):
            raise NoForm(str(symbol))
        return self._expand_input(symbol, scope, value)

    def _expand_input(self, symbol: Symbol, scope: tuple[Entry, ...], value: Any) -> Form:
        """Expand an input to a number, to what the plan makes it equal to, or to its symbol."""
        note = self.book.notation[symbol]
        if value == 0 or note.per in (("tensor",), ("component",), ("stage", "component")):
            if symbol == notation.copies_on_stage:
                return self._count_copies(scope, value)
            return make_constant(value)
        if (note.key or "").startswith(NUMBERS):
            return make_constant(value)
        alike = _ALIKE.get(symbol)
        same = alike(self, scope, value) if alike is not None else None
        if same is not None:
            return same
        if value == 1 and symbol not in KEPT and note.per != ("block",):
            return make_constant(1)
        if not self._has_variants(symbol):
            self.values[symbol] = value
            return atom(symbol)
        return atom(self._make_symbol(symbol, note, scope, value))

    def _make_symbol(
        self, symbol: Symbol, note: Notation, scope: tuple[Entry, ...], value: Any
    ) -> Symbol:
        """Make a symbol for some entries only."""
        path = ",".join(entry.path for entry in scope)
        named = Symbol(f"{symbol.name}[{path}]", positive=True)
        if named not in self.book.notation:
            name = read_latex(note.latex)
            for entry in scope:
                outer = entry.around.get("part", entry) if entry.axis == "block" else entry
                name = add_subscript(name, outer.name)
            self.book.notation[named] = note._replace(symbol=named)
            self.names[named] = name
        self.values[named] = value
        return named

    def _has_variants(self, symbol: Symbol) -> bool:
        """Decide whether entries bind a symbol to different values, so that each needs a name."""
        if symbol not in self._several:
            axes = (self.case.entries(axis) for axis in self.book.notation[symbol].per)
            entries = (entry for axis in axes for entry in axis)
            alone = [e.bindings[symbol] for e in entries if symbol in e.bindings]
            pairs = [v for (name, _, _), v in self.case.pair_values.items() if name is symbol]
            self._several[symbol] = len({*alone, *pairs}) > 1
        return self._several[symbol]

    def _get_bound(self, symbol: Symbol) -> Any:
        """Return what the plan binds a symbol to, None if it is absent."""
        value = self.case.bindings.get(symbol)
        return None if isinstance(value, Absent) else value

    def _match_head_size(self, scope: tuple[Entry, ...], value: Any) -> Form | None:
        """Return h/a if the heads divide the width."""
        block = scope or self._attention
        heads = get_binding(self.case, notation.a, block) if block else None
        if not isinstance(heads, int) or heads * value != self._get_bound(notation.h):
            return None
        return self._expand_input(notation.h, (), heads * value) / self._expand_input(
            notation.a, block, heads
        )

    def _match_kv_heads(self, scope: tuple[Entry, ...], value: Any) -> Form | None:
        """Return a if every query head has its own keys."""
        heads = get_binding(self.case, notation.a, scope)
        return self._expand_input(notation.a, scope, heads) if heads == value else None

    def _match_width(self, scope: tuple[Entry, ...], value: Any) -> Form | None:
        """Return 4h if the width is that."""
        hidden = self._get_bound(notation.h)
        if not hidden or value != 4 * hidden:
            return None
        return make_constant(4) * self._expand_input(notation.h, (), hidden)

    def _count_part(self, scope: tuple[Entry, ...], value: Any) -> Form | None:
        """Count a part: L if all layers are of one kind; 1 for the embedding or the head."""
        if not scope[0].settings["layers"]:
            return make_constant(value)
        layers = self._get_bound(notation.L)
        return self._expand_input(notation.L, (), layers) if value == layers and value > 1 else None

    def _count_on_stage(self, scope: tuple[Entry, ...], value: Any) -> Form:
        """Count the layers of a stage: L/p if stages are even."""
        part, stages = scope[1], self._get_bound(notation.p)
        count = get_binding(self.case, notation.L_k, (part,))
        if part.settings["layers"] and value * stages == count:
            whole = self._expand_input(notation.L_k, (part,), count)
            return whole / self._expand_input(notation.p, (), stages)
        return make_constant(value)

    def _in_flight(self, scope: tuple[Entry, ...], value: Any) -> Form:
        """Count layers times micro-batches in flight: p in 1F1B's first stage, m in GPipe."""
        held, part = get_binding(self.case, notation.layers_on_stage, scope), scope[1]
        if not held or not part.settings["layers"]:
            return make_constant(value)
        alive = Fraction(value, held)
        stages, chunks = self._get_bound(notation.p), self._get_bound(notation.v)
        p = self._expand_input(notation.p, (), stages)
        v = self._expand_input(notation.v, (), chunks)
        forms = [
            (Fraction(stages), p),
            (stages + Fraction(stages - 1, chunks), p + (p - make_constant(1)) / v),
        ]
        if self.case.settings.get("training.schedule") == "gpipe":
            forms.insert(0, (Fraction(self.evaluation.value("layout.micro_batches")),
                             atom(self.make_letter("layout.micro_batches", {}))))  # fmt: skip
        same = next((form for number, form in forms if number == alive), make_constant(alive))
        return self._count_on_stage(scope, held) * same

    def _count_recomputed(self, scope: tuple[Entry, ...], value: Any) -> Form:
        """Count those in flight that are recomputed: all of them, or a share."""
        alive = get_binding(self.case, notation.in_flight, scope)
        return make_constant(Fraction(value) / Fraction(alive)) * self._in_flight(scope, alive)

    def _count_copies(self, scope: tuple[Entry, ...], value: Any) -> Form:
        """Count the copies of a component on a stage: as many as of its layer."""
        stage, part = scope[0], scope[1].around["part"]
        held = get_binding(self.case, notation.layers_on_stage, (stage, part))
        return self._count_on_stage((stage, part), held) if value == held else make_constant(value)

    @cached_property
    def _attention(self) -> tuple[Entry, ...]:
        """The first block of attention, for sizes that the plan has once."""
        blocks = self.case.entries("block")
        return next(((block,) for block in blocks if notation.a in block.bindings), ())

    @cached_property
    def typesetter(self) -> Typesetter:
        """Boxes of forms, with symbols or with the numbers of the plan."""
        return _Written(self)

    def get_value(self, symbol: Symbol) -> Any:
        """Return the value of a symbol of a form, or of a published equation."""
        known = self.values.get(symbol)
        return self.evaluation.compute(symbol, {}) if known is None else known

    def build_box(self, tree: Expression, numbers: bool = False) -> Box:
        """Build the box of a form's expression."""
        return self.typesetter.box(tree, None, numbers)


class _Written(Typesetter):
    """Typesets forms, whose symbols have no further definition."""

    def __init__(self, collapse: Collapse) -> None:
        super().__init__(collapse.evaluation)
        self.book, self._worth, self._names = collapse.book, collapse.get_value, collapse.names

    def make_name(self, symbol: Symbol) -> Box:
        """Return the name that the form gave to a symbol of several entries, or its usual name."""
        return self._names.get(symbol) or super().make_name(symbol)

    def _make_symbol(self, symbol: Symbol, point: Point | None, numbers: bool) -> Box:
        """Return the box of a symbol of a form, or of its value; it has no point to look anything
        up at."""
        if numbers:
            return Box("value", (), self._worth(symbol))
        return Box("name", (self.make_name(symbol),))


#: Symbols that the plan may make equal to others.
_ALIKE: dict[Symbol, Callable[[Collapse, tuple[Entry, ...], Any], Form | None]] = {
    notation.d_h: Collapse._match_head_size,
    notation.d_v: Collapse._match_head_size,
    notation.d_rot: Collapse._match_head_size,
    notation.a_kv: Collapse._match_kv_heads,
    notation.f: Collapse._match_width,
    notation.L_k: Collapse._count_part,
    notation.layers_on_stage: Collapse._count_on_stage,
    notation.in_flight: Collapse._in_flight,
    notation.recomputed_in_flight: Collapse._count_recomputed,
}


def find_factor(form: Form) -> Form | None:
    """Choose the common factor of a sum, or of most of it: the term in the highest power of the
    hidden size with the fewest symbols; without that size, the term that leaves the fewest symbols
    to read. Return None if none leaves fewer than the sum has."""
    if len(form.terms) < 2:
        return None

    def rank(monomial: Any) -> tuple[Any, ...]:
        """Order monomials: the highest power of the hidden size, then those of fewest symbols."""
        powers = dict(monomial)
        whole = sum(powers.values())
        return (-powers.get(notation.h, 0), len(powers), -whole, sorted(map(repr, powers)))

    first, *others = sorted(form.terms, key=rank)
    if any(base is notation.h for base, _ in first):
        others = []
    best, least = None, form.count_symbols()
    for monomial in (first, *others):
        lead = Form({monomial: 1})
        inside, outside = form.split_terms(lead)
        written = sum(part.count_symbols() for part in (lead, inside, outside))
        if len(inside.terms) > 1 and written < least:
            best, least = lead, written
    return best
