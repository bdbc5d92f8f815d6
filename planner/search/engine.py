"""The best layouts of a plan, out of all valid ones.

The layouts of a space (``layouts.py``) are one case over arrays (``spread.py``), evaluated through
the same formulas as everything else (``compile.py``, ``program.py``), a chunk at a time. What fits
is ranked, and the winners are evaluated again exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner import case
from planner.document import Plan
from planner.errors import Fault, PlanError
from planner.evaluate import Absent
from planner.limits import Limit, known
from planner.plan import variant
from planner.search.layouts import KERNELS, KEYS, Rows, Space
from planner.search.parts import taken_apart
from planner.search.selection import Best, ByChoice, Front, Item, Sample
from planner.search.spread import Spread
from planner.untraced import Untraced, evaluated

FITS = "memory.headroom"
MEMORY = "memory.process"
STEP = "time.step_seconds"
#: Where one answer is wanted soon, a space of more layouts is narrowed, step by step.
MOST = 3_000_000
NARROWER = (
    ("parallelism.replicate", (1,)),
    ("parallelism.expert_tensor", (1,)),
    ("training.micro_batch", (1, 2, 4, 8)),
    ("parallelism.context", (1, 2, 4, 8, 16)),
)

Array = NDArray[Any]
Progress = Callable[[int, int, float], None]

#: About how many layouts a picture shows.
POINTS = 300
#: So many of the best are evaluated exactly; of further ones the values over arrays are shown.
EXACT = 40


@dataclass(frozen=True)
class Layout:
    """One layout: what it changes in the plan, and what it gives."""

    changes: Mapping[str, Any]
    values: Mapping[str, Any]  # exact for the best, else as below
    approximate: Mapping[str, float]  # over arrays
    cleared: tuple[str, ...] = ()  # keys that go back to their defaults
    parts: Mapping[str, Any] = field(default_factory=dict)  # of what is made small (``parts.py``)

    def of(self, plan: Plan) -> Plan:
        """A plan with this layout."""
        return variant(plan, {**dict.fromkeys(self.cleared), **self.changes})

    def exactly(self, plan: Plan, by: str) -> Layout:
        """The layout with exact values, and the parts of ``by``."""
        values, found = _exactly(self.of(plan), tuple(self.values), by)
        return replace(self, values=values, parts=found)


@dataclass(frozen=True)
class Point:
    """One layout in a scatter plot."""

    memory: float  # bytes
    score: float  # in the unit of what is made small
    fits: bool
    front: bool = False


@dataclass(frozen=True)
class Choice:
    """The best layout with one value of one key; None where none fits."""

    key: str
    value: Any
    layout: Layout | None


@dataclass(frozen=True)
class Found:
    """The outcome of a search."""

    plan: Plan
    by: str
    size: int
    fitting: int
    best: tuple[Layout, ...]
    front: tuple[Layout, ...]  # no other layout is better in ``by`` and in memory
    own: Layout | None  # the plan's own layout, where it can be evaluated
    limits: tuple[Limit, ...] = ()
    varied: tuple[str, ...] = ()  # keys that took several values
    points: tuple[Point, ...] = ()
    nearest: Layout | None = None  # where nothing fits, the layout that lacks least memory
    choices: tuple[Choice, ...] = ()  # of each key that has several values


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some layouts of a space: places in ``rows``, and quantities over ZeRO stage, recomputation
    and rows; NaN where a quantity is absent."""

    plan: Plan
    space: int  # its number
    varied: Mapping[str, Any]
    rows: Rows
    start: int
    values: Mapping[str, Array]
    valid: Array

    @property
    def choices(self) -> tuple[list[tuple[str, Sequence[Any], Array]], ...]:
        """What is chosen along each axis: keys, their values, and which value each layout has."""
        length = self.valid.shape[2]
        *outer, along = self.rows.choices(slice(self.start, self.start + length))
        same = np.zeros(length, dtype=np.int64)
        return (*outer, along + [(key, (value,), same) for key, value in self.varied.items()])

    def changes(self, place: int) -> dict[str, Any]:
        """A layout, by its place in the flattened arrays, as changes of the plan."""
        zero, recompute, row = np.unravel_index(place, self.valid.shape)
        found = self.rows.changes(self.start + int(row), int(zero), int(recompute))
        return {**self.varied, **found}


@dataclass(eq=False)
class Walk:
    """All layouts of a plan, chunk by chunk.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        quantities: what is evaluated.
        options: values that keys may have: keys of the layout (none: every valid value), or any
            other key of the plan, whose values are tried one after another.
        full: not only sensible layouts (``layouts.Space``).
        most: a larger space is narrowed to the first values of ``NARROWER``, as far as needed.

    Raises:
        PlanError: an unknown key, a value that it cannot have, no valid layout.
    """

    plan: Plan
    quantities: tuple[str, ...]
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    full: bool = False
    most: int | None = None

    def __post_init__(self) -> None:
        self.absent: dict[str, str] = {}
        self.spaces: list[tuple[Mapping[str, Any], Space]] = []
        self.given = frozenset(self.options)
        self._spreads: dict[int, Spread] = {}
        self._fill()
        for key, values in NARROWER:
            if self.most is not None and self.size > self.most and key not in self.options:
                self.options = {**self.options, key: values}
                self.spaces = [
                    (varied, space.narrowed(key, values)) for varied, space in self.spaces
                ]

    def _fill(self) -> None:
        if self.plan.model is None:
            raise PlanError(Fault("a search needs the shape of the model"))
        inner = {key: values for key, values in self.options.items() if key in KEYS and values}
        outer = {key: values for key, values in self.options.items() if key not in KEYS}
        free = {key for key, values in self.options.items() if key in KEYS and not values}
        faults: list[Fault] = []
        for combination in product(*outer.values()):
            varied = dict(zip(outer, combination, strict=True))
            try:
                changed = variant(self.plan, {**varied, "time.mfu": None}) if varied else self.plan
                space = Space(changed, inner, self.full or free)
                if space.size:
                    self.spaces.append((varied, space))
                else:
                    faults.append(Fault("no layout is valid: no schedule runs the micro-batches"))
            except PlanError as error:
                faults += error.faults
        if not self.spaces:
            raise PlanError(faults)

    @property
    def size(self) -> int:
        return sum(space.size for _, space in self.spaces)

    def __iter__(self) -> Iterator[Chunk]:
        for number, (_, space) in enumerate(self.spaces):
            for rows in space.blocks():
                yield from self.over(number, rows, self.quantities)

    def over(self, number: int, rows: Rows, *groups: tuple[str, ...]) -> Iterator[Chunk]:
        """Some rows of a space, by its number, with groups of quantities."""
        varied, space = self.spaces[number]
        spread = self._spreads.get(number)
        if spread is None:
            spread = self._spreads[number] = Spread(space)
        for quantities in groups:
            self.absent |= spread.structure.compiled(quantities).absent
        for part, values in spread.over(rows).chunks(*groups):
            yield Chunk(self.plan, number, varied, rows, part.start, values, rows.valid(part))


def search(
    plan: Plan,
    top: int = 10,
    by: str = STEP,
    fixed: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    *,
    limits: Sequence[Limit] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    full: bool = False,
    points: int = 0,
    choices: bool = False,
    most: int | None = None,
) -> Found:
    """The best layouts of a plan that fit into memory.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        top: how many of the best; the first forty of them are evaluated exactly.
        by: the quantity to make small, such as ``time.step_seconds`` or ``memory.process``.
        fixed: keys of the layout that keep a value, such as ``{"parallelism.tensor": 8}``.
        progress: called with layouts done, layouts in all, seconds passed.
        limits: further limits that a layout has to keep.
        vary: values that keys may have, of the layout (none: every valid value) or not
            (``training.precision``).
        full: every valid layout, also those that are never sensible (``layouts.Space``).
        points: about how many points of a scatter plot; 0 for none.
        choices: also the best layout for each value of each key.
        most: a larger space is narrowed (``NARROWER``).

    Raises:
        PlanError: no valid layout, an unknown quantity or key, a quantity that no layout has.
    """
    known(by)
    wanted = tuple(dict.fromkeys((FITS, MEMORY, by, *(limit.quantity for limit in limits))))
    options = {**{k: (v,) for k, v in (fixed or {}).items()}, **(vary or {})}
    walk, start = Walk(plan, wanted, options, full, most), time.perf_counter()
    best, front, nearest = Best(top), Front(), Best(1)
    sample, chosen = Sample(points, walk.size), ByChoice()
    done = fitting = 0
    seen_any = False
    for chunk in walk:
        score, memory, room = (chunk.values[name].ravel() for name in (by, MEMORY, FITS))
        there = chunk.valid.ravel() & np.isfinite(score)
        done += int(np.count_nonzero(chunk.valid))
        fits = there & (room >= 0)
        for limit in limits:
            fits &= holding(limit, chunk.values[limit.quantity].ravel())
        kept = np.flatnonzero(fits)
        seen_any = seen_any or bool(there.any())
        fitting += len(kept)
        best.add(score[kept], memory[kept], chunk.changes, kept)
        front.add(score[kept], memory[kept], chunk.changes, kept)
        if not fitting:
            short = np.flatnonzero(there)
            nearest.add(-room[short], score[short], chunk.changes, short)
        if points:
            sample.add(score, memory, there, fits)
        if choices:
            shape = chunk.valid.shape
            cubes = [column.reshape(shape) for column in (score, memory, fits)]
            chosen.add(cubes[0], cubes[1], cubes[2], chunk.choices, chunk.changes)
        if progress is not None:
            progress(done, walk.size, time.perf_counter() - start)
    if not seen_any:
        explain_absence(walk, by)
    exact = [
        layout_of(plan, item, (by, MEMORY), wanted if number < EXACT else (), by)
        for number, item in enumerate(best.items())
    ]
    exact.sort(key=lambda layout: (layout.values[by], layout.values[MEMORY]))
    edge = [layout_of(plan, item, (by, MEMORY)) for item in front.items()]
    shown = [Point(m, s, f) for s, m, f in sample.thinned()]
    if points:
        shown += [Point(x.values[MEMORY], x.values[by], True, True) for x in edge]
    close = [] if fitting else [layout_of(plan, item, (), wanted) for item in nearest.items()]
    return Found(
        plan,
        by,
        walk.size,
        fitting,
        tuple(exact),
        tuple(edge),
        _own(plan, wanted, by),
        tuple(limits),
        tuple(vary or ()),
        tuple(shown),
        close[0] if close else None,
        tuple(_choices(plan, chosen, by)),
    )


def _choices(plan: Plan, chosen: ByChoice, by: str) -> Iterator[Choice]:
    """For the keys that have several values, the best layout with each, smallest ``by`` first."""
    for key, values in chosen.items().items():
        for value, item in values if len(values) > 1 else ():
            layout = None if item is None else layout_of(plan, item, (by, MEMORY))
            yield Choice(key, value, layout)


def scatter(
    plan: Plan,
    points: int = POINTS,
    by: str = STEP,
    fixed: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
) -> Found:
    """What a report shows of a search: the best five, what each choice costs, and ``points`` of a
    scatter plot of memory and ``by``: a sample of the layouts and the whole front, the same each
    time. ``own`` is the plan's layout. A large space is narrowed as for ``best``."""
    return search(plan, 5, by, fixed, vary=vary, points=points, choices=True, most=MOST)


def holding(limit: Limit, values: Array) -> Array:
    bound = float(limit.value)
    holds: Array = values <= bound if limit.relation == "<=" else values >= bound
    return holds


def layout_of(
    plan: Plan, item: Item, names: Sequence[str], exactly: Sequence[str] = (), by: str = ""
) -> Layout:
    """A layout that was selected, with exact values of some quantities."""
    *numbers, changes = item
    over_arrays = dict(zip(names, numbers, strict=False))
    shown = {k: v for k, v in changes.items() if v is not None}
    cleared = tuple(k for k, v in changes.items() if v is None)
    if not exactly:
        return Layout(shown, over_arrays, over_arrays, cleared)
    values, parts = _exactly(variant(plan, changes), exactly, by)
    return Layout(shown, values, over_arrays, cleared, parts)


def _exactly(plan: Plan, quantities: Sequence[str], by: str) -> tuple[dict[str, Any], Any]:
    """Quantities of a plan, and the parts of one of them.

    Raises:
        PlanError: one of them cannot be computed, with the reason.
    """
    evaluation = Untraced(case.build(plan))
    try:
        values = {name: evaluation.value(name) for name in quantities}
        return values, taken_apart(evaluation, by) if by else {}
    except Absent as absent:
        raise PlanError(Fault(absent.reason)) from None


def _own(plan: Plan, quantities: Sequence[str], by: str) -> Layout | None:
    """The plan's own layout, with time predicted as for the others."""
    try:
        values, parts = _exactly(variant(plan, {"time.mfu": None}), quantities, by)
    except PlanError:
        return None
    changes = {k: plan.get(k) for k in (*KEYS, KERNELS) if plan.get(k) is not None}
    return Layout(changes, values, {}, parts=parts)


def explain_absence(walk: Walk, by: str) -> None:
    """A quantity that no layout has: the reason."""
    reason = walk.absent.get(by)
    if reason is not None:
        raise PlanError(Fault(f"{by} cannot be computed: {reason}"))
    chunk = next(iter(walk))
    evaluated(variant(walk.plan, chunk.changes(int(np.flatnonzero(chunk.valid)[0]))), [by])
