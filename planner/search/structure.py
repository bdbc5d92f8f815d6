"""What all layouts of a space can share: one case for them all, and the graph of its formulas.

Tensors that only some layouts keep are entries under a condition: a pattern over ZeRO stage,
recomputation and *facts*, which are what a profile's lines can tell rows apart by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sympy import Symbol

from planner import case, schema
from planner import profile as profiles
from planner.arrays.compile import Compiled, Varying, compiled
from planner.evaluate import Absent, Case, Entry
from planner.search.layouts import Space
from planner.search.pipelines import OF_COMPONENT, OF_PART

Array = NDArray[Any]
Pairs = Mapping[tuple[Symbol, Entry, Entry], tuple[int, int]]
Fact = tuple[Any, ...]
#: Structures kept for further searches over plans of the same kind.
MOST_KEPT = 8


@dataclass(frozen=True, eq=False)
class Structure:
    """What spaces have in common that can share a graph."""

    key: tuple[Any, ...]
    case: Case
    compiled: Compiled
    patterns: tuple[Array, ...]  # when a tensor is there: ZeRO stage, recomputation, fact
    lines: Pairs  # slot, and place in its line, of each crossed symbol


_KEPT: list[Structure] = []


def structure(
    space: Space,
    cases: Sequence[Case],
    varying: Mapping[str, tuple[Any, ...]],
    facts: Sequence[Fact],
    slots: int,
    quantities: tuple[str, ...],
) -> Structure:
    """The structure of a space, made or found again.

    Args:
        space: its layouts.
        cases: the case of one layout for each set of kernels.
        varying: settings that differ between layouts, with their values.
        facts: what decides which tensors a row keeps: place in ``cases``, sequence parallelism, and
            whether tensor, context, pipeline and micro-batch are above 1.
        slots: distinct stages of the pipeline that has most.
        quantities: ids of what is evaluated.
    """
    settings = tuple(
        {k: _kind(v) for k, v in c.settings.items() if k not in varying} for c in cases
    )
    absent = tuple(
        frozenset(s for s, value in c.bindings.items() if isinstance(value, Absent)) for c in cases
    )
    key = (quantities, space.plan.model, settings, absent, dict(varying), tuple(facts), slots)
    for known in _KEPT:
        if known.key == key:
            return known
    made = _made(key, space, cases, varying, facts, slots, quantities)
    _KEPT[:] = [made, *_KEPT[: MOST_KEPT - 1]]
    return made


def _kind(value: Any) -> Any:
    """Of a number only what a profile asks of it: whether it is above 0, and above 1."""
    return (value > 0, value > 1) if schema.is_number(None, value) else value


def _made(
    key: tuple[Any, ...],
    space: Space,
    cases: Sequence[Case],
    varying: Mapping[str, tuple[Any, ...]],
    facts: Sequence[Fact],
    slots: int,
    quantities: tuple[str, ...],
) -> Structure:
    first = cases[0]
    bindings = dict(first.bindings)
    for other in cases[1:]:
        for symbol, value in other.bindings.items():
            if isinstance(bindings[symbol], Absent):
                bindings[symbol] = value
    settings = {**first.settings, **{n: Varying(v) for n, v in varying.items()}}
    stages = tuple(Entry("stage", str(i), settings={"stage": True}) for i in range(slots))
    tensors, patterns, conditional = _tensors(space, cases, facts)
    axes = {**first.axes, "stage": stages, "tensor": tensors}
    parts, components = entries(first, "part"), entries(first, "component")
    lines: dict[tuple[Symbol, Entry, Entry], tuple[int, int]] = {}
    for slot, stage in enumerate(stages):
        places = [(symbol, stage, part) for symbol in OF_PART for part in parts]
        places += [(symbol, stage, c) for symbol in OF_COMPONENT for c in components]
        lines |= {place: (slot, number) for number, place in enumerate(places)}
    whole = Case(bindings, settings, axes, dict.fromkeys(lines, 0))
    return Structure(key, whole, compiled(whole, quantities, conditional), patterns, lines)


def _tensors(
    space: Space, cases: Sequence[Case], facts: Sequence[Fact]
) -> tuple[tuple[Entry, ...], tuple[Array, ...], dict[Entry, int]]:
    """The tensors that any layout keeps, the patterns of when, and whose pattern is which (a tensor
    that is always kept has none)."""
    blocks = entries(cases[0], "block")
    there: dict[tuple[Any, ...], tuple[Entry, Array]] = {}
    shape = (len(space.zero), len(space.recompute), len(facts))
    for place, fact in enumerate(facts):
        seen: dict[Any, list[tuple[Any, ...]]] = {}
        told = _told_apart(cases[fact[0]])
        for zero, recompute in product(range(shape[0]), range(shape[1])):
            stage, mode = space.zero[zero], space.recompute[recompute]
            same = (stage == 3, mode if told else None)
            if same not in seen:
                seen[same] = []
                for entry in _kept(space, cases, blocks, fact, stage, mode):
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
    space: Space, cases: Sequence[Case], blocks: tuple[Entry, ...], fact: Fact, zero: int, mode: str
) -> list[Entry]:
    """The tensors that a layout keeps."""
    kernels, sequence, tensor, context, stages, several = fact
    settings = {
        **cases[kernels].settings,
        "parallelism.sequence": sequence,
        "parallelism.tensor": 1 + tensor,
        "parallelism.context": 1 + context,
        "parallelism.pipeline": 1 + stages,
        "parallelism.zero": zero,
        "training.micro_batch": 1 + several,
        "training.recompute": mode,
    }
    assert space.plan.model is not None
    profile = profiles.load(settings["training.implementation"])
    return list(case.kept_tensors(space.plan.model, blocks, profile, settings))


def _told_apart(found: Case) -> bool:
    """Whether a line of the profile depends on how much is recomputed."""
    blocks = profiles.load(found.settings["training.implementation"])["blocks"]
    return any("recompute" in line.get("when", {}) for block in blocks.values() for line in block)


def entries(found: Case, axis: str) -> tuple[Entry, ...]:
    """The entries of an axis that a model of known shape has."""
    there = found.axes[axis]
    assert isinstance(there, tuple)
    return there
