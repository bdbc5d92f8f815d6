"""What the plans of a batch share: one case for all of them, and the graph of its formulas.

Where entries bind different numbers in different plans, the number is an input. Tensors that only
some layouts keep have a condition: a mask over ZeRO stage, recomputation and whatever else decides
which tensors a layer keeps.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from planner.base.lockstep import Lanes, Lockstep
from planner.book import notation
from planner.book.expressions import Expression, Symbol
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine import instance
from planner.engine.arrays.graph import Compiled, compile_graph
from planner.engine.arrays.table import Array
from planner.engine.evaluate import Absent, Case, Entry
from planner.engine.lower import Varying
from planner.engine.tensors import list_choices
from planner.plans import kernels
from planner.plans.document import Model, Plan
from planner.plans.layout import AXES, KEPT

#: What decides which tensors a layer keeps: a kind, by its key, and the value of each key of
#: ``layout.KEPT``, capped at 2.
Keeping = tuple[Any, ...]
#: Settings about tensors that these and the axes set.
GIVEN = (*KEPT, *AXES)
#: Crossed symbols of a stage with each part, and with each component, in the order of a line.
OF_PART = (notation.layers_on_stage, notation.in_flight, notation.recomputed_in_flight)
OF_COMPONENT = (notation.copies_on_stage, notation.first_on_stage)
#: The axes whose entries follow from the model, or from an engine beside the trainer.
OF_MODEL = ("stack", "part", "block", "component", "product", "rung")
#: Settings that decide, besides the model, which entries the other axes have.
DECIDING = ("training.mode", "model.shape", "lora", "targets")


class Watched(dict[str, Any]):
    """A mapping that records in ``read`` which of its keys were read."""

    def __init__(self, values: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(values)
        self.read = read

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Refuse: a key that is missing would not be recorded."""
        raise NotImplementedError("what is watched is asked for by [], so that it is there")


@dataclass(frozen=True, eq=False)
class Kind:
    """Plans of a batch that differ only in their layouts: one of them, with its case.

    Attributes:
        plan: one of the plans.
        case: the instance of that plan.
        lanes: inputs that differ between the plans of the kind, each (lanes,), by symbol, or by
            symbol, axis and index of an entry.
        size: number of lanes.
    """

    plan: Plan
    case: Case
    lanes: Mapping[Any, Array] = field(default_factory=dict)
    size: int = 1

    @property
    def layers(self) -> Model:
        """The model, which has a shape."""
        assert self.plan.model is not None
        return self.plan.model

    @cached_property
    def absent(self) -> Mapping[Symbol, str]:
        """Inputs without a value, with the reason."""
        bound = self.case.bindings.items()
        return {symbol: value.reason for symbol, value in bound if isinstance(value, Absent)}


@dataclass(frozen=True, eq=False)
class Variety:
    """What a graph has to cover.

    Attributes:
        kinds: the kinds of plans, by key.
        varying: settings that differ between plans, with all their values.
        keeping: the combinations that decide which tensors a layer keeps.
        slots: distinct stages of the pipeline that has most.
        checked: whether values outside of their ranges become absent (``ArrayGraph``).
    """

    kinds: Mapping[Hashable, Kind]
    varying: Mapping[str, tuple[Any, ...]]
    keeping: tuple[Keeping, ...]
    slots: int
    checked: bool

    def values(self, name: str) -> tuple[Any, ...]:
        """Return all values that a setting has in some plan."""
        found = self.varying.get(name)
        if found is None:
            return tuple(kind.case.settings.get(name) for kind in self.kinds.values())
        return found


@dataclass(frozen=True, eq=False)
class BatchGraph:
    """What batches that can share a graph have in common.

    Attributes:
        variety: what the graph covers.
        case: the instance of all plans; what differs is an input or ``Varying``.
        read: settings that the choice of tensors reads.
        conditional: for each tensor that only some layouts keep, the index of its pattern.
        patterns: when a tensor is there, each as (zero, recompute, keeping).
        lines: for each crossed symbol with its stage and its part or component, the slot and the
            place in the slot's line.
    """

    variety: Variety
    case: Case
    read: frozenset[str]
    conditional: Mapping[Entry, int]
    patterns: tuple[Array, ...]
    lines: Mapping[tuple[Symbol, Entry, Entry], tuple[int, int]]
    _compiled: dict[tuple[str, ...], Compiled] = field(default_factory=dict)

    def compile_graph(self, quantities: tuple[str, ...]) -> Compiled:
        """Compile the graph of some quantities, once."""
        if quantities not in self._compiled:
            made = compile_graph(self.case, quantities, self.conditional, self.variety.checked)
            self._compiled[quantities] = made
        return self._compiled[quantities]

    @cached_property
    def place(self) -> Mapping[Entry, tuple[str, int]]:
        """The axis of each entry of the model, and its index there."""
        return {
            entry: (axis, place)
            for axis in OF_MODEL
            for place, entry in enumerate(self.case.entries(axis))
        }

    def can_cover(self, asked: Variety) -> bool:
        """Decide whether the graph covers a batch, which then distinguishes no more."""
        made = self.variety
        return (
            asked.slots <= made.slots
            and asked.checked == made.checked
            and asked.kinds.keys() <= made.kinds.keys()
            and asked.varying.keys() <= made.varying.keys()
            and all(set(asked.values(name)) <= set(said) for name, said in made.varying.items())
            and set(asked.keeping) <= set(made.keeping)
            and all(self._is_same_kind(made.kinds[key], kind) for key, kind in asked.kinds.items())
        )

    def _is_same_kind(self, one: Kind, other: Kind) -> bool:
        """Decide whether two kinds agree in the book, the model, the absent inputs and every
        setting that decides and does not vary."""
        names = {*list_deciders(), *self.read, *DECIDING} - self.variety.varying.keys()
        return (
            one.case.book is other.case.book  # else a name may have another definition
            and one.absent.keys() == other.absent.keys()
            and all(
                _sort(one.case.settings.get(name)) == _sort(other.case.settings.get(name))
                for name in names
            )
            and one.plan.model == other.plan.model
        )


#: Graphs kept for further batches over plans of the same kinds, and how many.
GRAPHS: list[BatchGraph] = []
MOST_KEPT = 8


def find_graph(asked: Variety, known: list[BatchGraph]) -> BatchGraph:
    """Return a known graph that covers the batch; else build one and add it to the known ones."""
    for graph in known:
        if graph.can_cover(asked):
            return graph
    made = _build_graph(asked)
    known[:] = [made, *known][:MOST_KEPT]
    return made


@cache
def list_deciders() -> frozenset[str]:
    """Return the settings that conditions of the book's formulas read."""
    return frozenset(n for d in BOOK.list_formulas() for n in d.when)


@cache
def collect_inputs(quantities: tuple[str, ...]) -> frozenset[str]:
    """Return some quantities and all quantities that they depend on in any plan."""
    return frozenset(BOOK.collect_inputs(quantities))


@cache
def find_switches() -> tuple[str, ...]:
    """Return the settings that decide which of two quantities depends on the other; a graph that
    covered both directions would have a cycle."""
    found: set[str] = set()
    for quantity in BOOK.quantities.values():
        for formula in quantity.formulas:
            used = [BOOK.symbols[s] for s in formula.expression.symbols if s in BOOK.symbols]
            if formula.when and any(quantity.id in collect_inputs((each,)) for each in used):
                found.update(formula.when)
    return tuple(sorted(found))


def make_graph_key(kind: Kind) -> Hashable:
    """Return what kinds that share a graph must have in common: which quantities and inputs exist,
    and the entries of the model's axes."""
    settings = kind.case.settings
    return (
        kind.case.book,
        frozenset(kind.absent),
        tuple(repr(settings.get(name)) for name in (*DECIDING, *find_switches())),
        _make_entry_key(tuple(kind.case.entries(axis) for axis in OF_MODEL)),
    )


@lru_cache(maxsize=64)
def _make_entry_key(axes: Sequence[Sequence[Entry]]) -> Hashable:
    """Return what must agree of each entry: path, stack, and all but the numbers it binds."""
    known, found, stacks = list_deciders(), [], (None, *axes[0])
    for entry in (entry for axis in axes for entry in axis):
        bound = [(s, None if schema.is_number(v) else v) for s, v in entry.bindings.items()]
        said = [(n, repr(v if n in known else _sort(v))) for n, v in entry.settings.items()]
        found.append((entry.path, stacks.index(entry.stack), *bound, *said))
    return tuple(found)


def _sort(value: Any) -> Any:
    """Reduce a number to what profiles test: whether it is above 0, and whether it is above 1."""
    return (value > 0, value > 1) if schema.is_number(value) else value


def _build_graph(asked: Variety) -> BatchGraph:
    """Build the graph of a batch."""
    kinds = list(asked.kinds.values())
    first = kinds[0].case
    bindings = dict(first.bindings)
    for kind in kinds:
        absent = [symbol for symbol, value in bindings.items() if isinstance(value, Absent)]
        bindings |= {symbol: kind.case.bindings[symbol] for symbol in absent}
    settings = {**first.settings, **{n: Varying(v) for n, v in asked.varying.items()}}
    axes: dict[str, Any] = {**first.axes, **_merge_entries(kinds)}
    lines: dict[tuple[Symbol, Entry, Entry], tuple[int, int]] = {}
    read: set[str] = set()
    patterns: list[Array] = []
    conditional: dict[Entry, int] = {}
    if kinds[0].plan.model is not None:
        stages = [Entry("stage", str(i), settings={"stage": True}) for i in range(asked.slots)]
        for slot, stage in enumerate(stages):
            places = [(symbol, stage, part) for symbol in OF_PART for part in axes["part"]]
            places += [(symbol, stage, c) for symbol in OF_COMPONENT for c in axes["component"]]
            lines |= {place: (slot, number) for number, place in enumerate(places)}
        axes["stage"] = tuple(stages)
        axes["tensor"], patterns, conditional = _collect_tensors(asked, axes["block"], read)
    whole = Case(bindings, settings, axes, lines, book=first.book)  # what varies may have any value
    decide = frozenset(read.difference(GIVEN))
    return BatchGraph(asked, whole, decide, conditional, tuple(patterns), lines)


def collect_lanes(run: Lockstep, several: Case, case: Case) -> dict[Any, Array]:
    """Collect the inputs of a case that differ between the lanes of a run; lanes leave whose graph
    would be another one.

    Args:
        run: the run, not ended yet.
        several: the case of all lanes.
        case: that of the first lane.

    Returns:
        The values of the active lanes, (lanes,), by place as in ``Kind.lanes``.
    """
    values: dict[Any, Lanes] = {}
    settings = [several.settings]
    for axis in several.axes:
        pairs = zip(several.entries(axis), case.entries(axis), strict=True)
        for index, (entry, own) in enumerate(pairs):
            settings.append(entry.settings)
            for symbol, value in entry.bindings.items():
                if isinstance(value, Lanes):
                    values[symbol, axis, index] = value
                else:
                    assert value == own.bindings[symbol] or isinstance(value, Expression)
    for symbol, value in several.bindings.items():
        if isinstance(value, Lanes):
            values[symbol,] = value
    for name, value in (item for said in settings for item in said.items()):
        if isinstance(value, Lanes):
            _ = value.settle() if name in list_deciders() else (value > 0, value > 1)
    fixed = [value for (_, *place), value in values.items() if place and place[0] not in OF_MODEL]
    for value in (*fixed, *several.pair_values.values()):
        if isinstance(value, Lanes):
            value.settle()
    return {place: value.numbers[run.active] for place, value in values.items()}


def _merge_entries(kinds: Sequence[Kind]) -> dict[str, tuple[Entry, ...]]:
    """Merge the entries of the model's axes over several models; differing bindings vary."""
    found: dict[str, tuple[Entry, ...]] = {}
    new: dict[Entry | None, Entry] = {}
    cases = [kind.case for kind in kinds]
    varying = {place for kind in kinds for place in kind.lanes}
    for axis in OF_MODEL:
        if not cases[0].entries(axis):  # a model given by its size, or without towers
            continue
        merged = []
        for index, group in enumerate(zip(*(c.entries(axis) for c in cases), strict=True)):
            bindings: dict[Symbol, Any] = {}
            for symbol in group[0].bindings:
                values = tuple(entry.bindings[symbol] for entry in group)
                value, *others = dict.fromkeys(values)
                varies = others or (symbol, axis, index) in varying
                bindings[symbol] = Varying(values) if varies else value
            around = {key: getattr(group[0], key) for key in ("parent", "stack")}
            around = {key: new.get(entry, entry) for key, entry in around.items()}
            merged.append(replace(group[0], bindings=bindings, **around))
            new[group[0]] = merged[-1]
        found[axis] = tuple(merged)
    return found


def _collect_tensors(
    asked: Variety, blocks: Sequence[Entry], read: set[str]
) -> tuple[tuple[Entry, ...], list[Array], dict[Entry, int]]:
    """Collect the tensors that some layout keeps.

    Args:
        asked: the kinds, and the settings and combinations that decide what is kept.
        blocks: the blocks of the merged model; each tensor becomes part of one of these.
        read: collects the settings that are read.

    Returns:
        The tensors; one boolean mask (zero, recompute, keeping) for each condition; and the index
            of the mask of each tensor, without those that are always kept.
    """
    stages, modes = (asked.varying[axis] for axis in AXES)
    there: dict[tuple[Any, ...], tuple[Entry, Array]] = {}
    shape = (len(stages), len(modes), len(asked.keeping))
    for place, (key, *kept) in enumerate(asked.keeping):
        kind = asked.kinds[key]
        order = {block: number for number, block in enumerate(kind.case.entries("block"))}
        for zero, recompute in np.ndindex(*shape[:2]):
            given = zip(GIVEN, (*kept, stages[zero], modes[recompute]), strict=True)
            settings = Watched({**kind.case.settings, **dict(given)}, read)
            profile = kernels.load_profile(settings["training.implementation"])
            chosen = list_choices(settings, kind.case.entries("component"))
            found: Sequence[Entry] = instance.list_saved_tensors(
                kind.layers, tuple(order), profile, chosen
            )
            for entry in found:
                assert entry.parent is not None
                number = order[entry.parent]
                bound, said = entry.bindings.values(), entry.settings.values()
                told = (number, entry.name, tuple(bound), tuple(said))
                if told not in there:
                    if entry.parent is not blocks[number]:
                        entry = replace(entry, parent=blocks[number])
                    there[told] = (entry, np.zeros(shape, dtype=bool))
                there[told][1][zero, recompute, place] = True
    patterns: dict[bytes, tuple[int, Array]] = {}
    conditional = {
        entry: patterns.setdefault(pattern.tobytes(), (len(patterns), pattern))[0]
        for entry, pattern in there.values()
        if not pattern.all()
    }
    tensors = tuple(entry for entry, _ in there.values())
    return tensors, [pattern for _, pattern in patterns.values()], conditional
