"""From the book's expressions to a graph: which formula applies, over which entries and inputs.

Each instance of a quantity is a node, so its derivation is a walk over nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from planner.base import resources
from planner.book.canonical import to_canonical
from planner.book.expressions import Expression, Symbol
from planner.book.quantity import BOOK, Book, Formula, agrees
from planner.engine.graph import LEAVES, Graph

SIZE_ONLY = "the model is given by its size only (model.parameters), not by its shape"
#: Reasons why no formula applies, by the setting that excludes it.
REASONS: Mapping[str, str] = resources.load_beside(__file__)


class Absent(Exception):
    """A quantity that cannot be computed, with its reason. It is never 0."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(eq=False)  # not frozen, which is slow to make, and a case has hundreds
class Entry:
    """One entry of an axis: a layer kind, a block in it, a component, a pipeline stage.

    Attributes:
        axis: such as ``part`` or ``stage``.
        name: unique among the entries with its parent.
        title: for people, where the name is not.
        parent: the entry that contains it.
        bindings: values of symbols inside this entry: a number, an expression (in symbols of this
            entry and of those around it) or an Absent.
        settings: what decides which formula applies.
        stack: a stream of tokens of its own, instead of that of its parent.
    """

    axis: str
    name: str
    title: str = ""
    parent: Entry | None = None
    bindings: Mapping[Symbol, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    stack: Entry | None = None

    @cached_property
    def path(self) -> str:
        """Its name behind those of its parents, with dots: unique on its axis."""
        return f"{self.parent.path}.{self.name}" if self.parent else self.name

    @cached_property
    def around(self) -> Point:
        """The entry and the entries that contain it, by axis, from the narrowest."""
        around = {self.axis: self, **(self.parent.around if self.parent else {})}
        return around if self.stack is None else {**around, "stack": self.stack}


Entries = tuple[Entry, ...]
Point = dict[str, Entry]  # axis -> entry
Key = tuple[str, tuple[Entry, ...]]  # id and the entries along its axes


@dataclass(eq=False)
class Case:
    """What the engine evaluates: the symbols, settings and axes of one plan.

    Attributes:
        bindings: values by symbol, in base units.
        settings: by dotted key.
        axes: entries by axis; an Absent for an axis that the plan does not decide.
        pair_values: values that two entries bind together, such as layers of a part on a stage.
        kinds: certainty of the inputs that are not exact.
        book: with the plan's own quantities, if it defines any.
    """

    bindings: Mapping[Symbol, Any]
    settings: Mapping[str, Any]
    axes: Mapping[str, tuple[Entry, ...] | Absent]
    pair_values: Mapping[tuple[Symbol, Entry, Entry], Any] = field(default_factory=dict)
    kinds: Mapping[Symbol, str] = field(default_factory=dict)
    book: Book = BOOK

    def entries(self, axis: str) -> tuple[Entry, ...]:
        """Return the entries of an axis; none if the plan does not decide it."""
        there = self.axes.get(axis, ())
        return () if isinstance(there, Absent) else there


@dataclass(frozen=True, eq=False)
class Varying:
    """A setting that differs between plans: the values that it can have."""

    values: tuple[Any, ...]


class Lowering:
    """Writes quantities of one case into a graph.

    Args:
        book: if it is not that of the case.
        case: settings may be ``Varying``; if one selects a formula, all candidates are lowered.
        graph: into which it writes.
        conditional: entries that only some plans have, with the key of the ``present`` node that
            tells which.
        like: another one, whose graph is extended: instances of quantities with the same formulas,
            entries and inputs in both cases are lowered once.
    """

    def __init__(
        self,
        case: Case,
        book: Book | None = None,
        graph: Graph | None = None,
        conditional: Mapping[Entry, int] | None = None,
        like: Lowering | None = None,
    ) -> None:
        self.case, self.book = case, book or case.book
        if like is not None and like.book is not self.book:
            like = None  # a name may mean something else there
        self.graph: Graph = (graph or Graph()) if like is None else like.graph
        self.conditional = conditional or {}
        self.nodes: dict[Key, int] = {}
        self.chosen: dict[Key, Formula] = {}
        self.asked: set[str] = set()  # settings
        self.sealed = False  # whether nothing is to be lowered any more
        self._anywhere: dict[Symbol, int] = {}  # nodes of symbols that mean the same everywhere
        self._index: dict[str, dict[Entry | None, list[Point]]] = {}
        #: Direct dependencies of each instance's formula: names of settings and of axes,
        #: symbols, and other instances, which come before it.
        self.rests: dict[Key, set[Any]] = {}
        self._resting: set[Any] = set()
        if like is not None:
            self._copy_instances(like)

    def count_changes(self, case: Case) -> int:
        """Count the structural differences from another case; fewer differences share more."""
        return sum(1 for _ in diff_structure(self.case, case, self.asked))

    def _copy_instances(self, like: Lowering) -> None:
        """Take over the instances that depend on nothing whose structure differs in this case."""
        assert not like.conditional and not self.conditional
        others: set[Any] = set(diff_structure(like.case, self.case, like.asked))
        axes = others.intersection(self.case.axes)
        gone = {e for a in axes for e in {*like.case.entries(a)}.difference(self.case.entries(a))}
        pairs = like.case.pair_values.keys() ^ self.case.pair_values.keys()
        others |= {symbol for symbol, _, _ in pairs}
        for key, rests in like.rests.items():
            identifier, entries = key
            if not (rests.isdisjoint(others) and gone.isdisjoint(entries)):
                others |= {key, self.book.quantities[identifier].symbol}
                continue
            self.nodes[key], self.rests[key] = like.nodes[key], rests
            if key in like.chosen:
                self.chosen[key] = like.chosen[key]
        self.asked |= like.asked

    def instance(self, identifier: str, point: Point) -> int:
        """Return the node of a quantity, at a point if it has axes."""
        quantity = self.book.quantities[identifier]
        per = quantity.per
        if quantity.stacked and "stack" in point:
            per = ("stack",)
        key = (identifier, tuple([point[axis] for axis in per]))
        found = self.nodes.get(key)
        if found is None:
            assert not self.sealed, f"{identifier} is not in the graph"
            around, self._resting = self._resting, set()
            wide = widen(dict(zip(per, key[1], strict=True)))
            found = self.graph.add_quantity(self._lower_choice(key, wide), key)
            self.rests[key], self._resting = self._resting, around
            self.nodes[key] = found
        self._resting.add(key)
        return found

    def _lower_choice(self, key: Key, point: Point) -> int:
        """Lower the formula that applies, or a selection if that depends on the plan."""
        identifier, reason = key[0], None
        cases: list[tuple[int, int]] = []
        for formula in self.book.quantities[identifier].formulas:
            conditions = self._list_conditions(formula.when, point)
            if conditions is None:
                continue
            if not conditions:
                self.chosen[key] = formula
                return self.lower_tree(formula.expression, point)
            node = self.lower_tree(formula.expression, point)
            if node in self.graph.lacking:
                reason = self.graph.lacking[node]
            else:
                cases.append((self.graph.add_and(conditions), node))
        if cases:
            return self.graph.add_select(cases)
        return self.graph.add_absent(reason or self._explain_absent(identifier, point))

    def _list_conditions(self, when: Mapping[str, Any], point: Point) -> Sequence[int] | None:
        """Return the conditions under which a formula applies; None if it never does."""
        conditions: list[int] = []
        for name, wanted in when.items():
            actual = self.read_setting(name, point)
            if isinstance(actual, Varying):
                agreeing = [value for value in actual.values if agrees(value, wanted)]
                if not agreeing:
                    return None
                if len(agreeing) < len(actual.values):
                    conditions.append(self.graph.add_node("is", name, *agreeing))
            elif not agrees(actual, wanted):
                return None
        return conditions

    def _explain_absent(self, identifier: str, point: Point) -> str:
        """Explain why no formula of an id applies: the settings that none of them accepts, or else
        the fewest that one of them rejects."""
        wrong = [
            {
                key
                for key, wanted in formula.when.items()
                if not agrees(self.read_setting(key, point), wanted)
            }
            for formula in self.book.quantities[identifier].formulas
        ]
        common = set.intersection(*wrong)
        if not common:  # a shape is what people can give most easily
            common = min(wrong, key=lambda keys: (len(keys), "model.shape" not in keys))
        keys = sorted(common)
        if "model.shape" in keys:
            return SIZE_ONLY
        for key in keys:
            if key in REASONS:
                return REASONS[key]
        choices = ", ".join(f"{key} {str(self.read_setting(key, point)).lower()}" for key in keys)
        return f"the book has no formula for {choices or 'this combination of choices'}"

    def read_setting(self, name: str, point: Point) -> Any:
        """Return a setting, of the narrowest entry that has it, else of the plan; record that it
        was read."""
        self.asked.add(name)
        self._resting.add(name)
        for entry in point.values():
            if name in entry.settings:
                return entry.settings[name]
        return self.case.settings.get(name)

    def entries(self, axis: str, point: Point, where: Mapping[str, str]) -> list[Point]:
        """List the points below a point along an axis.

        Args:
            axis: a name such as ``stage``.
            point: the entries around, by axis.
            where: settings that a point must have, as text.

        Raises:
            Absent: the plan does not decide the axis.
        """
        self._resting.add(axis)
        entries = self.case.axes[axis]
        if isinstance(entries, Absent):
            raise entries
        points = [{**point, **below} for below in self._list_below(axis, entries, point)]
        for name, wanted in where.items():
            points = [each for each in points if str(self.read_setting(name, each)) == wanted]
        return points

    def _list_below(self, axis: str, entries: tuple[Entry, ...], point: Point) -> Sequence[Point]:
        """List the points of an axis that lie below the narrowest entry of ``point``, and so below
        its parents; stacks are ignored, for a block may have other tokens than its part. Uses an
        index, for a model of many layer kinds has thousands of components."""
        index = self._index.get(axis)
        if index is None:
            index = self._index[axis] = {None: []}
            for entry in entries:
                for above in (None, *entry.around.values()):
                    index.setdefault(above, []).append(entry.around)
        every = index[None]
        axes = every[0] if every else {}
        lists = [
            index.get(entry, ())
            for entry in point.values()
            if entry.axis in axes and entry.axis != "stack"
        ]
        return min(lists, key=len, default=every)

    def find_scope(self, symbol: Symbol, point: Point) -> tuple[Entry, ...]:
        """Return what binds a symbol here: one entry, a pair of entries, or () for the plan."""
        if symbol not in self._of_entries:
            return ()
        for entry in point.values():
            if symbol in entry.bindings:
                return (entry,)
        note = self.book.notation.get(symbol)
        if note is not None and len(note.per) == 2:
            first, second = (point[axis] for axis in note.per)
            if (symbol, first, second) in self.case.pair_values:
                return first, second
        return ()

    @cached_property
    def _of_entries(self) -> frozenset[Symbol]:
        """The symbols that some entry or pair of entries binds."""
        entries = (entry for axis in self.case.axes for entry in self.case.entries(axis))
        alone = {symbol for entry in entries for symbol in entry.bindings}
        return frozenset(alone.union(symbol for symbol, _, _ in self.case.pair_values))

    def find_binding(self, symbol: Symbol, point: Point) -> Any:
        """Return what a symbol is bound to here: a number, a name, an expression or an Absent."""
        return self._read_binding(symbol, self.find_scope(symbol, point))

    def meant(self, scope: tuple[Entry, ...], point: Point) -> Point:
        """Return the point at which a bound expression's symbols are resolved: here, but for a
        stack at the plan, for its b is a multiple of the plan's b."""
        return {} if len(scope) == 1 and scope[0].axis == "stack" else point

    def _read_binding(self, symbol: Symbol, scope: tuple[Entry, ...]) -> Any:
        """Return what a symbol is bound to in a scope; an Absent that names the missing input."""
        if symbol in self.case.bindings or scope:
            return get_binding(self.case, symbol, scope)
        note = self.book.notation.get(symbol)
        return Absent(f"{note.meaning} is not given" if note else f"{symbol} is unknown")

    def lower_tree(self, tree: Expression, point: Point) -> int:
        """Return the node of a canonical expression at a point."""
        op = tree.op
        if op == "symbol":
            return self._lower_symbol(tree, point)  # type: ignore[arg-type]
        if op == "number":
            return self.graph.add_constant(tree.data)
        try:
            special = _SPECIAL.get(op)
            if special is not None:
                return special(self, tree, point)
            nodes = [self.lower_tree(argument, point) for argument in tree.args]
            if op == "add":
                return self.graph.add_sum(nodes)
            if op == "pow":
                return self.graph.add_power(*nodes)
            if op in ("max", "min"):
                return self.graph.add_extreme(op, nodes)
            return self.graph.add_node(op, *nodes)
        except Absent as absent:  # an axis that has no entries
            return self.graph.add_absent(absent.reason)
        except ZeroDivisionError:
            return self.graph.add_absent("division by zero")

    def _lower_symbol(self, symbol: Symbol, point: Point) -> int:
        """Return the node of a symbol: an instance of a quantity, a bound expression, or an input.
        What means the same at all points is looked up once."""
        self._resting.add(symbol)
        node = self._anywhere.get(symbol)
        if node is not None:
            return node
        identifier = self.book.symbols.get(symbol)
        if identifier is not None:
            quantity = self.book.quantities[identifier]
            node, alike = self.instance(identifier, point), not (quantity.per or quantity.stacked)
        else:
            scope = self.find_scope(symbol, point)
            found = self._read_binding(symbol, scope)
            if isinstance(found, Absent):
                node = self.graph.add_absent(found.reason)
            elif isinstance(found, Expression):
                node = self.lower_tree(to_canonical(found), self.meant(scope, point))
            else:
                node = self.graph.add_input(symbol, scope, found)
            alike = symbol not in self._of_entries and self.graph.nodes[node][0] in LEAVES
        if alike:
            self._anywhere[symbol] = node
        return node


def diff_structure(
    one: Case,
    other: Case,
    asked: Iterable[str],
    alike: Callable[[Entries, Entries], bool] | None = None,
) -> Iterator[Any]:
    """Yield the settings, axes and symbols in which two cases differ in structure. Other values of
    numbers do not count.

    Args:
        one: a case.
        other: another one.
        asked: names of the settings to compare; others decide nothing yet.
        alike: whether entries that are not equal may share a graph; none may by default.
    """
    yield from (n for n in asked if one.settings.get(n) != other.settings.get(n))
    for axis in reversed({**one.axes, **other.axes}):  # stages first: few, and often others
        some, others = one.axes.get(axis), other.axes.get(axis)
        if isinstance(some, tuple) and isinstance(others, tuple):
            if some != others and not (alike and alike(some, others)):
                yield axis
        elif get_structure(some) != get_structure(others):
            yield axis
    for symbol in {**one.bindings, **other.bindings}:
        value, changed = one.bindings.get(symbol), other.bindings.get(symbol)
        if value is not changed and get_structure(value) != get_structure(changed):
            yield symbol


def get_structure(value: Any) -> Any:
    """Return what decides how a symbol is lowered: a reason, an expression, or True (an input)."""
    if isinstance(value, Absent):
        return value.reason
    return value if value is None or isinstance(value, Expression) else True


def get_binding(case: Case, symbol: Symbol, scope: Sequence[Entry]) -> Any:
    """Return what a symbol is bound to.

    Args:
        case: of a plan.
        symbol: of the book's notation.
        scope: one entry, a pair of entries, or none for the plan itself.

    Returns:
        a number, a name, an expression or an Absent; None if nothing binds it there.
    """
    if not scope:
        return case.bindings.get(symbol)
    if len(scope) == 1:
        return scope[0].bindings.get(symbol)
    return case.pair_values.get((symbol, *scope))  # type: ignore[arg-type]


def widen(point: Point) -> Point:
    """Add the parents of its entries to a point: a component lies in a block, in a part."""
    wide: Point = {}
    for entry in point.values():
        wide = {**wide, **entry.around, **wide} if wide else entry.around
    return wide


def _lower_product(self: Lowering, tree: Expression, point: Point) -> int:
    """Lower a product, with factors of negative powers as divisors: whole numbers are divided
    once."""
    above, below = [], []
    for factor in tree.args:
        power = factor.args[1].data if factor.op == "pow" else None
        if power == -1 or (self.graph.inverts and isinstance(power, int) and power < 0):
            below += [self.lower_tree(factor.args[0], point)] * -power
        else:
            above.append(self.lower_tree(factor, point))
    return self.graph.add_product(above, below)


def _lower_sum(self: Lowering, tree: Expression, point: Point) -> int:
    """Lower a sum over an axis; the term of an entry that only some plans have is conditional."""
    terms = []
    for below in self.entries(tree.axis, point, tree.where):
        node, condition = self.lower_tree(tree.body, below), self.conditional.get(below[tree.axis])
        if condition is not None:
            node = self.graph.add_product([self.graph.add_node("present", condition), node])
        terms.append(node)
    return self.graph.add_sum(terms)


def _lower_max(self: Lowering, tree: Expression, point: Point) -> int:
    """Lower the maximum over an axis, the name of its entry, or another value at that entry."""
    points = self.entries(tree.axis, point, tree.where)
    if not points:
        raise Absent(f"there is no {tree.axis}")
    if any(below[tree.axis] in self.conditional for below in points):
        raise TypeError(f"the largest over entries of {tree.axis} that come and go")
    values = [self.lower_tree(tree.args[-1], below) for below in points]  # what is compared
    if tree.op == "largest":
        return self.graph.add_extreme("max", values)
    if tree.op == "at_largest":
        return self.graph.add_pick(values, [self.lower_tree(tree.body, below) for below in points])
    names = self.graph.add_node("name", tuple(below[tree.axis].title for below in points))
    return self.graph.add_node("which", *values, names)


#: Operations with a lowering of their own.
_SPECIAL: Mapping[str, Callable[[Lowering, Expression, Point], int]] = {
    "mul": _lower_product,
    "total": _lower_sum,
    "largest": _lower_max,
    "at_largest": _lower_max,
    "which": _lower_max,
}
