"""What all layouts of a space can share: one case for them all, and the graph of its formulas.

Tensors that only some layouts keep are entries under a condition: a pattern over ZeRO stage,
recomputation and *facts*, which are what a profile's lines can tell rows apart by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.base.recent import Watched
from planner.book.expressions import Symbol
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine import instance as case
from planner.engine.arrays.compile import Compiled, compiled
from planner.engine.evaluate import Absent, Case, Entry
from planner.engine.lower import Varying
from planner.plans import kernels as profiles
from planner.plans.document import Model
from planner.plans.layout import AXES, KEPT
from planner.questions.search.pipelines import OF_COMPONENT, OF_PART

Array = NDArray[Any]
Pairs = Mapping[tuple[Symbol, Entry, Entry], tuple[int, int]]
Fact = tuple[Any, ...]
Kernels = tuple[str, str]  # implementation and loss
#: What a fact and the axes say, of the settings that decide about tensors.
GIVEN = (*KEPT, *AXES)
#: What besides the model decides which entries the other axes have.
DECIDING = ("training.mode", "training.attention_count", "model.shape", "lora", "targets")
#: Structures kept for further searches over plans of the same kind.
MOST_KEPT = 8


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a graph has to hold for. ``cases`` are one for each set of kernels; ``facts`` decide
    which tensors a row keeps: its kernels, and each of ``layout.KEPT``, 2 where it is more;
    ``slots`` are the distinct stages of the pipeline that has most."""

    model: Model
    cases: Mapping[Kernels, Case]
    varying: Mapping[str, tuple[Any, ...]]
    facts: tuple[Fact, ...]
    slots: int

    def values(self, name: str) -> tuple[Any, ...]:
        """What a setting is in some layout."""
        found = self.varying.get(name)
        return tuple(c.settings.get(name) for c in self.cases.values()) if found is None else found


@dataclass(frozen=True, eq=False)
class Structure:
    """What spaces have in common that can share a graph."""

    made: Wanted
    case: Case
    read: frozenset[str]  # settings that decide about tensors
    conditional: Mapping[Entry, int]  # the pattern of each tensor that some layouts keep
    patterns: tuple[Array, ...]  # when a tensor is there: ZeRO stage, recomputation, fact
    lines: Pairs  # slot, and place in its line, of each crossed symbol
    _compiled: dict[tuple[str, ...], Compiled] = field(default_factory=dict)

    def compiled(self, quantities: tuple[str, ...]) -> Compiled:
        """The graph of some quantities."""
        found = self._compiled.get(quantities)
        if found is None:
            found = self._compiled[quantities] = compiled(self.case, quantities, self.conditional)
        return found

    def serves(self, wanted: Wanted) -> bool:
        """Whether the graph holds for a space: one that tells no more apart."""
        made = self.made
        return (
            wanted.slots <= made.slots
            and wanted.cases.keys() <= made.cases.keys()
            and wanted.varying.keys() <= made.varying.keys()
            and all(set(wanted.values(name)) <= set(said) for name, said in made.varying.items())
            and set(wanted.facts) <= set(made.facts)
            and all(self._alike(made.cases[k], c) for k, c in wanted.cases.items())
            and wanted.model == made.model
        )

    def _alike(self, one: Case, other: Case) -> bool:
        names = {*asked(), *self.read, *DECIDING} - self.made.varying.keys()
        return _absent(one) == _absent(other) and all(
            _kind(one.settings.get(name)) == _kind(other.settings.get(name)) for name in names
        )


_KEPT: list[Structure] = []


def structure(wanted: Wanted) -> Structure:
    """The structure of a space, made or found again."""
    for known in _KEPT:
        if known.serves(wanted):
            return known
    made = _made(wanted)
    _KEPT[:] = [made, *_KEPT[: MOST_KEPT - 1]]
    return made


@cache
def asked() -> frozenset[str]:
    """Settings that a formula of the book asks for."""
    return frozenset(n for d in BOOK.formulas() for n in d.when)


def _absent(found: Case) -> frozenset[Symbol]:
    return frozenset(s for s, value in found.bindings.items() if isinstance(value, Absent))


def _kind(value: Any) -> Any:
    """Of a number only what a profile asks of it: whether it is above 0, and above 1."""
    return (value > 0, value > 1) if schema.is_number(None, value) else value


def _made(wanted: Wanted) -> Structure:
    first, *others = wanted.cases.values()
    bindings = dict(first.bindings)
    for other in others:
        for symbol, value in other.bindings.items():
            if isinstance(bindings[symbol], Absent):
                bindings[symbol] = value
    settings = {**first.settings, **{n: Varying(v) for n, v in wanted.varying.items()}}
    stages = tuple(Entry("stage", str(i), settings={"stage": True}) for i in range(wanted.slots))
    read: set[str] = set()
    tensors, patterns, conditional = _tensors(wanted, read)
    axes = {**first.axes, "stage": stages, "tensor": tensors}
    parts, components = entries(first, "part"), entries(first, "component")
    lines: dict[tuple[Symbol, Entry, Entry], tuple[int, int]] = {}
    for slot, stage in enumerate(stages):
        places = [(symbol, stage, part) for symbol in OF_PART for part in parts]
        places += [(symbol, stage, c) for symbol in OF_COMPONENT for c in components]
        lines |= {place: (slot, number) for number, place in enumerate(places)}
    whole = Case(bindings, settings, axes, dict.fromkeys(lines, 0))
    return Structure(wanted, whole, frozenset(read.difference(GIVEN)), conditional, patterns, lines)


def _tensors(
    wanted: Wanted, read: set[str]
) -> tuple[tuple[Entry, ...], tuple[Array, ...], dict[Entry, int]]:
    """The tensors that any layout keeps, the patterns of when, and whose pattern is which (a tensor
    that is always kept has none). ``read`` collects the settings that decide."""
    stages, modes = (wanted.varying[axis] for axis in AXES)
    blocks = entries(next(iter(wanted.cases.values())), "block")
    there: dict[tuple[Any, ...], tuple[Entry, Array]] = {}
    shape = (len(stages), len(modes), len(wanted.facts))
    for place, fact in enumerate(wanted.facts):
        seen: dict[Any, list[tuple[Any, ...]]] = {}
        told = _told_apart(wanted.cases[fact[0]])
        for zero, recompute in product(range(shape[0]), range(shape[1])):
            stage, mode = stages[zero], modes[recompute]
            same = (stage == 3, mode if told else None)
            if same not in seen:
                seen[same] = []
                for entry in _kept(wanted, blocks, fact, stage, mode, read):
                    bound, settings = entry.bindings.values(), entry.settings.values()
                    key = (entry.parent, entry.name, tuple(bound), tuple(settings))
                    there.setdefault(key, (entry, np.zeros(shape, dtype=bool)))
                    seen[same].append(key)
            for key in seen[same]:
                there[key][1][zero, recompute, place] = True
    patterns: dict[bytes, tuple[int, Array]] = {}
    conditional = {
        entry: patterns.setdefault(pattern.tobytes(), (len(patterns), pattern))[0]
        for entry, pattern in there.values()
        if not pattern.all()
    }
    order = {block: place for place, block in enumerate(blocks)}
    found = sorted((entry for entry, _ in there.values()), key=lambda e: order[e.parent])  # type: ignore[index]
    return tuple(found), tuple(pattern for _, pattern in patterns.values()), conditional


def _kept(
    wanted: Wanted, blocks: tuple[Entry, ...], fact: Fact, zero: int, mode: str, read: set[str]
) -> list[Entry]:
    """The tensors that a layout keeps."""
    kernels, *kept = fact
    given = (*kept, zero, mode)
    settings = {**wanted.cases[kernels].settings, **dict(zip(GIVEN, given, strict=True))}
    profile = profiles.load(settings["training.implementation"])
    return list(case.kept_tensors(wanted.model, blocks, profile, Watched(settings, read)))


def _told_apart(found: Case) -> bool:
    """Whether a line of the profile depends on how much is recomputed."""
    blocks = profiles.load(found.settings["training.implementation"])["blocks"]
    return any("recompute" in line.get("when", {}) for block in blocks.values() for line in block)


def entries(found: Case, axis: str) -> tuple[Entry, ...]:
    """The entries of an axis that a model of known shape has."""
    there = found.axes[axis]
    assert isinstance(there, tuple)
    return there
