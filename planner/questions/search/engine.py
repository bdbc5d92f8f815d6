"""Find the best layouts of a plan, out of all valid ones.

The layouts of a space (``layouts.py``) are one batch (``questions/batch.py``), evaluated over
arrays, in chunks, by the same formulas as everything else. What fits is ranked, and the winners
are evaluated again exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from planner.base import numbers
from planner.base.errors import Fault, PlanError, collect_faults
from planner.base.notebook import Shown
from planner.base.numbers import exact_text
from planner.base.progress import report_progress
from planner.connect import exports
from planner.documents.stacks import ZERO, find_launcher, list_conditions, list_settable
from planner.engine import instance
from planner.engine.arrays.table import Array
from planner.engine.evaluate import Evaluation
from planner.engine.in_turn import evaluate_case, keep_graphs
from planner.engine.instance import compute_values
from planner.plans.document import STACK, Plan
from planner.plans.layout import FOLLOWS, KERNELS, KEYS, ROW, UNDIVIDED
from planner.plans.plan import build_trainer, change_document, is_own_choice, reset_derived, variant
from planner.plans.schedules import OWN
from planner.questions.batch import Batch
from planner.questions.constraints import (
    PREDICTED,
    Limit,
    check_batchable,
    fit_limit,
    margin_of,
    numeric,
)
from planner.questions.search import modes
from planner.questions.search.layouts import CUT, MICRO_BATCH, REPLICAS, SCHEDULE, Space, SpaceRows
from planner.questions.search.selection import Best, ByChoice, Front, Item, Plain, Sample
from planner.results.attribution import break_down
from planner.results.intervals import compute_interval
from planner.results.result import Result
from planner.results.timeline import simulate_seconds
from planner.results.verdict import FITS, SURE

HEADROOM = "memory.headroom"
MEMORY = "memory.process"
STEP = "time.step_seconds"
BATCHES, WHOLE_BATCH = "training.gradient_accumulation", "training.global_batch"
#: Quantities whose limits are limits on memory.
OF_MEMORY = frozenset({FITS, SURE, HEADROOM, MEMORY})
#: If one answer is needed soon, a larger space is narrowed, step by step.
MOST = 2_000_000
NARROWER: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (REPLICAS, (1,)),
    ("parallelism.expert_tensor", (1,)),
    ("training.micro_batch", (1, 2, 4, 8)),
    ("parallelism.context", (1, 2, 4, 8, 16)),
)

#: Approximate number of layouts in a chart.
POINTS = 1000
#: Number of the best that are evaluated exactly; further ones show the values over arrays.
EXACT = 20
#: Most forward passes, over all stages, of a step that is simulated.
PASSES = 2**15


@dataclass(frozen=True)
class Layout:
    """One layout of a plan with its values.

    Attributes:
        changes: what it sets, by dotted key of the plan.
        follows: keys whose values follow from these.
        values: quantities by id; exact for the best layouts, else as ``approximate``.
        approximate: quantities as computed over arrays, in floats.
        cleared: keys that go back to their defaults.
        evaluated: the evaluation and the minimised quantity; None if not evaluated exactly.
        made: the plan that was evaluated.
    """

    changes: Mapping[str, Any]
    follows: Mapping[str, Any]
    values: Mapping[str, Any]
    approximate: Mapping[str, float]
    cleared: tuple[str, ...] = ()
    evaluated: tuple[Evaluation, str] | None = field(default=None, compare=False, repr=False)
    made: Plan | None = field(default=None, compare=False, repr=False)

    @cached_property
    def parts(self) -> Mapping[str, Any]:
        """The parts of the minimised quantity; empty if not evaluated exactly."""
        return {} if self.evaluated is None else break_down(*self.evaluated)

    @cached_property
    def simulated(self) -> float | None:
        """Seconds of its step, simulated as events; None if it is not evaluated exactly, or has too
        many passes to simulate."""
        if self.evaluated is None or self.made is None:
            return None
        layout, batches = self.made.data["parallelism"], self.made.get(BATCHES)
        if layout["pipeline"] * layout["virtual_pipeline"] * batches > PASSES:
            return None
        return simulate_seconds(Result(self.made, self.evaluated[0]))

    def get(self, key: str) -> Any:
        """Return a key that the layout sets, or that follows from it; None for any other."""
        return self.changes.get(key, self.follows.get(key))

    def of(self, plan: Plan) -> Plan:
        """Return a plan with this layout."""
        return variant(plan, {**dict.fromkeys(self.cleared), **self.changes})

    @cached_property
    def interval(self) -> tuple[Any, Any] | None:
        """90 % interval of the minimised quantity from published runs; None without published runs
        to compare with, or if the layout is not evaluated exactly."""
        if self.evaluated is None:
            return None
        evaluation, by = self.evaluated
        return compute_interval(by, self.values[by], evaluation)

    def evaluate(
        self, plan: Plan, quantities: Iterable[str], by: str = "", exact: bool = True
    ) -> Layout:
        """Evaluate some quantities of the layout.

        Args:
            plan: the plan that the layout changes.
            quantities: ids of the quantities.
            by: the quantity whose evaluation is kept, for its parts; empty for none.
            exact: whether to compute exactly, not in floats.

        Returns:
            The layout with these values.
        """
        made = self.of(plan)
        values, evaluation = _evaluate_layout(made, quantities, exact)
        values = {**values, **self.values, **values}
        evaluated = (evaluation, by) if by else None
        return replace(self, values=values, evaluated=evaluated, made=made)


class Point(NamedTuple):
    """One layout in a scatter plot.

    Attributes:
        memory: memory in use on a device, in bytes.
        score: in the unit of the minimised quantity.
        fits: whether it fits as predicted and satisfies the limits.
        front: whether it is on the Pareto front.
    """

    memory: float
    score: float
    fits: bool
    front: bool = False


class BestByValue(NamedTuple):
    """The best layout with one value of a key that has several. The values of each key are in order
    of the minimised quantity, the smallest first.

    Attributes:
        key: the dotted key.
        value: one of its values; None for the default.
        layout: the best layout with this value; None if none fits.
    """

    key: str
    value: Any
    layout: Layout | None


@dataclass(frozen=True, repr=False)
class SearchResult(Shown):
    """The result of a search.

    Attributes:
        plan: the plan whose layouts were searched.
        by: the minimised quantity.
        size: how many layouts the result is about.
        fitting: how many of these fit with the margin and satisfy the limits.
        best: the best layouts, no two of them the same step.
        front: layouts that no other one beats in both ``by`` and memory.
        own: the plan's own layout; None where it cannot be evaluated.
        limits: what a layout must satisfy besides fitting.
        varied: keys that took several values.
        points: a sample of all layouts, for a scatter plot.
        nearest: if nothing fits, the layout that lacks least memory.
        choices: for each key with several values, the best layout with each.
        every: the number of all layouts, also of those that a narrowed search left out.
        same: recomputation modes left out, each with an equivalent mode (``Walk.same``).
        narrowed: the values of keys to which the search was narrowed.
        margin: the limit that a layout must satisfy in order to fit.
        plain: the layout to run, as ``selection.Plain`` selects it.
        launcher: the framework that can start the layouts.
        tight: whether none keeps the margin, so that those that fit as predicted are ranked.
    """

    plan: Plan
    by: str
    size: int
    fitting: int
    best: tuple[Layout, ...]
    front: tuple[Layout, ...]
    own: Layout | None
    limits: tuple[Limit, ...] = ()
    varied: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    nearest: Layout | None = None
    choices: tuple[BestByValue, ...] = ()
    every: int = 0
    same: Mapping[str, str] = field(default_factory=dict)
    narrowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    margin: Limit | None = None
    plain: Layout | None = None
    launcher: str | None = None
    tight: bool = False

    def __repr__(self) -> str:
        size = numbers.text(self.size)
        return f"<Found {size} layouts of {self.plan.name!r}, {len(self.best)} listed>"


def list_criteria(by: str, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Return the quantities that rank layouts: what is left, memory, the minimised and limited
    ones."""
    return tuple(dict.fromkeys((FITS, HEADROOM, MEMORY, by, *(limit.quantity for limit in limits))))


def is_memory_only(limits: Iterable[Limit]) -> bool:
    """Decide whether all limits are about memory; if so, “nothing fits” also holds with more
    replicas, which only add memory."""
    return all(limit.quantity in OF_MEMORY for limit in limits)


def describe_subset(narrowed: Mapping[str, Sequence[Any]]) -> str:
    """Describe to which layouts a search was narrowed."""
    several = (
        f"{key} {join_values(values, 'or') if len(values) < 17 else f'{values[0]} to {values[-1]}'}"
        for key, values in narrowed.items()
    )
    return f"only those with {join_values(several)}"


def join_values(values: Iterable[Any], last: str = "and") -> str:
    """Join values in a sentence: one, two and three."""
    *first, end = map(str, values)
    return f"{', '.join(first)} {last} {end}" if first else end


def describe_skipped(narrowed: Mapping[str, Sequence[Any]], proven: bool) -> str:
    """Describe what a narrowed search did not examine; ``proven``: if none of these fits, none
    does."""
    some = describe_subset(narrowed)
    said = f"where there are more than {exact_text(MOST)} layouts, {some} were searched"
    more = "what fails, fails with all" if proven else "what fails might hold with another"
    return f"{said}; {more}"


@dataclass(eq=False)
class Walk:
    """All layouts of a plan, in chunks.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        quantities: what is evaluated.
        options: values that keys may have: keys of the layout (empty: every valid value), or any
            other key of the plan, whose values are tried one after another.
        full: include layouts that are never sensible (``layouts.Space``).
        most: a larger space is narrowed to the values of ``NARROWER``, as far as needed.
        launcher: the framework that must be able to start a layout, with its own kernels unless the
            plan sets others; by default that of the plan's stack, if the plan has its kernels.

    Raises:
        PlanError: an unknown key, a value that it cannot have, no valid layout.
    """

    plan: Plan
    quantities: tuple[str, ...]
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    full: bool = False
    most: int | None = None
    launcher: str | None = None

    def __post_init__(self) -> None:
        self.absent: dict[str, str] = {}
        self.given = frozenset(self.options)
        usual = find_launcher(self.plan.get(STACK))
        if self.launcher is None and usual is not None:
            runs = exports.load_framework(usual).kernels == self.plan.get(KERNELS)
            self.launcher = usual if runs else None
        if self.launcher is not None and not is_own_choice(self.plan, KERNELS):
            kernels = exports.load_framework(self.launcher).kernels
            self.options = {**({KERNELS: (kernels,)} if kernels else {}), **self.options}
        self.spaces = self._build_spaces()
        self._batches: dict[Space, Batch] = {}
        #: Recomputation modes to skip, each with an equivalent mode; if keys of the plan have
        #: several values, it is equivalent for all of them.
        self.same: dict[str, str] = {}
        if not (self.full or modes.RECOMPUTE in self.options):
            first, *others = (modes.find_equivalents(s, self.quantities) for s in self.spaces)
            self.same = {m: by for m, by in first.items() if all(o.get(m) == by for o in others)}
        for space in self.spaces:
            space.recompute = tuple(mode for mode in space.recompute if mode not in self.same)
        #: Values of keys to which the layouts are narrowed.
        self.narrowed: dict[str, tuple[Any, ...]] = {
            key: values for space in self.spaces for key, values in space.limited.items()
        }
        self.limited = frozenset(self.narrowed)
        self.every = self.size
        for key, values in NARROWER:
            if self.most is not None and self.size > self.most and key not in self.options:
                self.narrowed[key] = values

    def narrow_layouts(self, options: Mapping[str, Sequence[Any]]) -> Walk:
        """Narrow the layouts to one of some values of each of some keys, except keys that were
        given.

        Raises:
            PlanError: none is left.
        """
        found = copy(self)
        further = {k: tuple(values) for k, values in options.items() if k not in self.given}
        found.narrowed = {**self.narrowed, **further}
        if not found.size:
            raise PlanError("no layout is valid")
        return found

    def widen_layouts(self) -> Walk | None:
        """Return the layouts to try if nothing fits: all but those with replicas, which only add
        memory; None if no others were left out."""
        kept = {REPLICAS, *self.limited}
        if not self.narrowed.keys() - kept:
            return None
        found = copy(self)
        found.narrowed = {k: values for k, values in self.narrowed.items() if k in kept}
        return found

    def _build_spaces(self) -> list[Space]:
        """Build one space of layouts for each combination of values of keys outside the layout.

        Raises:
            PlanError: the plan lacks the model's shape or the sequence length, or no space has a
                valid layout.
        """
        if self.plan.model is None:
            raise PlanError("a search needs the shape of the model")
        if self.plan.get("training.sequence_length") is None:
            raise PlanError("a search needs the length of a sequence", None,
                                  "training.sequence_length")  # fmt: skip
        inner = {key: values for key, values in self.options.items() if key in KEYS and values}
        outer = {key: values for key, values in self.options.items() if key not in KEYS}
        full = self.full or {k for k, values in self.options.items() if k in KEYS and not values}
        found: list[Space] = []
        faults: list[Fault] = []
        for combination in product(*outer.values()):
            varied = dict(zip(outer, combination, strict=True))
            with collect_faults(faults):
                changed = variant(self.plan, {**varied, "time.mfu": None}) if varied else self.plan
                for alike, options in split_stages(changed, inner):
                    with collect_faults(faults):
                        space = Space(alike, options, full, self.launcher, varied)
                        if space.size:
                            found.append(space)
                        else:
                            none = "no schedule runs the micro-batches"
                            if self.launcher is not None:
                                none = f"{self.launcher} can start none, or {none}"
                            faults.append(Fault(f"no layout is valid: {none}"))
        if not found:
            raise PlanError(faults)
        return found

    @property
    def size(self) -> int:
        """The number of layouts."""
        return sum(int(np.count_nonzero(rows.valid)) for rows in self.yield_rows())

    def yield_rows(self) -> Iterator[SpaceRows]:
        """Yield all rows, in the blocks of their spaces."""
        for space in self.spaces:
            for rows in space.yield_blocks():
                if len(found := rows.filter_rows(self.narrowed)):
                    yield found

    def __iter__(self) -> Iterator[SpaceRows]:
        for rows in self.yield_rows():
            yield from self.evaluate_rows(rows, self.quantities)

    def evaluate_rows(self, rows: SpaceRows, *groups: tuple[str, ...]) -> Iterator[SpaceRows]:
        """Yield stretches of some rows of a space with groups of quantities."""
        if rows.space not in self._batches:
            self._batches[rows.space] = Batch(rows.space, self.absent)
        for part, values in self._batches[rows.space].evaluate_rows(rows, *groups):
            yield rows.take(part, values)


def split_stages(
    plan: Plan, options: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[Plan, Mapping[str, Sequence[Any]]]]:
    """Yield a plan with the ZeRO stages under which its stack sets the same, and the values of the
    keys of a layout with these stages; a plan without such a stack as it is.

    Args:
        plan: the plan.
        options: for keys of a layout, the values that they may have.
    """
    stack = plan.get("training.stack")
    if stack is None or not any(ZERO in keys for keys in list_conditions(stack)):
        yield plan, options
        return
    told: dict[tuple[Any, ...], list[int]] = {}
    asked = options.get(ZERO, ROW[ZERO].values)
    if plan.get("cluster.devices") == 1:  # which shards nothing, but fetches weights under ZeRO-3
        asked = [stage for stage in asked if stage not in (1, 2)] or asked
    for stage in asked:
        document = change_document(plan.document, {ZERO: stage})
        told.setdefault(tuple(map(str, map(document.get, list_settable(stack)))), []).append(stage)
    own = tuple(map(str, map(plan.document.get, list_settable(stack))))
    start = {**reset_derived(plan), **UNDIVIDED, WHOLE_BATCH: plan.get(WHOLE_BATCH)}
    for settings, stages in told.items():
        alike = plan if settings == own else variant(plan, {**start, ZERO: stages[0]})
        yield alike, {**options, ZERO: tuple(stages)}


@keep_graphs()
def search(
    plan: Plan,
    top: int = 10,
    by: str = STEP,
    fixed: Mapping[str, Any] | None = None,
    *,
    limits: Sequence[Limit] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    full: bool = False,
    points: int = 0,
    choices: bool = False,
    most: int | None = None,
    margin: str | None = None,
    launcher: str | None = None,
) -> SearchResult:
    """Find the best layouts of a plan that fit into memory, and the simplest near the best.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not. Of
            reinforcement learning its trainer alone is searched.
        top: how many of the best; the first twenty of them are evaluated exactly.
        by: the quantity to minimise, such as ``time.step_seconds`` or ``memory.process``.
        fixed: keys of the layout that keep a value, such as ``{"parallelism.tensor": 8}``.
        limits: further limits that a layout must satisfy.
        vary: values that keys may have, of the layout (empty: every valid value) or not
            (``training.precision``).
        full: include layouts that are never sensible (``layouts.Space``).
        points: about how many points of a scatter plot; 0 for none.
        choices: also the best layout for each value of each key.
        most: a larger space is cut (``NARROWER``), and the result's ``narrowed`` has its values.
            If none of these fits, all layouts are tried, and the result is about all.
        margin: memory safety margin of a layout (``constraints.fit_limit``). If no layout keeps it,
            those that fit as predicted are ranked, and the result is ``tight``.
        launcher: the framework that must be able to start a layout (``planner.connect.exports``),
            the one of the plan's stack by default.

    Returns:
        The best layouts, the Pareto front, the plan's own layout and the simplest near the best;
            without a layout that fits, the nearest.

    Raises:
        PlanError: no valid layout, an unknown quantity or key, a quantity that no layout has.
    """
    plan = build_trainer(plan)
    keeps = fit_limit(margin_of(plan, margin), plan)
    numeric(by, plan.book)
    for asked in (by, *(limit.quantity for limit in limits)):
        check_batchable(asked, plan.book)
    quantities = list_criteria(by, (*limits, keeps))
    held = {**(fixed or {})}
    if plan.get("training.padding") == "longest":  # the length of a sequence is of its micro-batch
        held.setdefault(MICRO_BATCH, plan.get(MICRO_BATCH))
    options = {**{k: (v,) for k, v in held.items()}, **(vary or {})}
    walk = searched = Walk(plan, quantities, options, full, most, launcher)
    ask = partial(_Selected, by, (*limits, PREDICTED), keeps, top, points, choices)
    found = ask(walk)
    wider = None if found.kept.count else walk.widen_layouts()
    if wider is not None:
        searched, found = wider, ask(wider)
    kept, proven = found.kept, not (found.kept.count or walk.limited) and is_memory_only(limits)
    own = None if plan.invalid else find_own_layout(plan, quantities, by)
    best = [make_layout(item, by, MEMORY) for item in kept.best.list_items()]
    for place, layout in enumerate(best[:EXACT]):
        best[place] = layout.evaluate(plan, quantities, by)
    plain = kept.plain.first and make_layout(kept.plain.first, by)
    if plain is not None:
        same = (layout for layout in best[:EXACT] if layout.changes == plain.changes)
        plain = next(same, None) or plain.evaluate(plan, quantities, by)
    front = [make_layout(item, by, MEMORY) for item in kept.front.list_items()]
    shown = [Point(m, s, f) for s, m, f in found.sample.yield_points()]
    if points:
        shown += [Point(x.values[MEMORY], x.values[by], True, True) for x in front]
    nearest = None if kept.count else found.nearest.first
    return SearchResult(
        plan=plan,
        by=by,
        size=walk.every if proven else searched.size,
        fitting=found.safe.count,
        best=tuple(sorted(best, key=lambda layout: (layout.values[by], layout.values[MEMORY]))),
        front=tuple(front),
        own=own,
        limits=tuple(limits),
        varied=tuple(vary or ()),
        points=tuple(shown),
        nearest=nearest and make_layout(nearest).evaluate(plan, quantities),
        choices=tuple(
            BestByValue(key, value, item and make_layout(item, by, MEMORY))
            for key, values in kept.chosen.list_items().items()
            for value, item in values
            if len(values) > 1
        ),
        every=walk.every,
        same=walk.same,
        narrowed={} if proven else searched.narrowed,
        margin=keeps,
        plain=plain,
        launcher=walk.launcher,
        tight=kept is found.tight and bool(kept.count),
    )


class _Kept:
    """The best of the layouts that fit."""

    def __init__(self, top: int, by: str, choices: bool) -> None:
        """Begin without layouts.

        Args:
            top: how many of the best to keep.
            by: the minimised quantity.
            choices: whether to keep the best layout for each value of each key.
        """
        self.count = 0
        self.best, self.front, self.plain = Best(top, by not in OF_MEMORY), Front(), Plain(by)
        self.choices, self.chosen = choices, ByChoice()

    def add_chunk(self, chunk: SpaceRows, score: Array, memory: Array, fits: Array) -> None:
        """Add the layouts of a chunk that fit.

        Args:
            chunk: the rows with their quantities.
            score: the minimised quantity, (zero, recompute, rows).
            memory: memory in use in bytes, (zero, recompute, rows).
            fits: which layouts fit, (zero, recompute, rows).
        """
        kept = np.flatnonzero(fits)
        self.count += len(kept)
        some, held = score.ravel()[kept], memory.ravel()[kept]
        for best in (self.best, self.front):
            best.add(some, held, chunk.build_setting, kept)
        self.plain.add_layouts(some, chunk, kept)
        if self.choices:
            self.chosen.add_layouts(score, memory, fits, chunk.choices, chunk.build_setting)


class _Selected:
    """The best of all layouts of a walk: of those that fit with a margin (``safe``); until there is
    one, of those that satisfy the limits alone (``tight``); until then, the ``nearest``.

    Raises:
        PlanError: no layout has the quantity to minimise.
    """

    def __init__(
        self,
        by: str,
        limits: Sequence[Limit],
        margin: Limit,
        top: int,
        points: int,
        choices: bool,
        walk: Walk,
    ) -> None:
        """Select from all layouts of a walk.

        Args:
            by: the quantity to minimise.
            limits: what a layout must satisfy without a margin.
            margin: the limit that it must satisfy in addition.
            top: how many of the best to keep.
            points: about how many points of a scatter plot to sample.
            choices: whether to keep the best layout for each value of each key.
            walk: the layouts.
        """
        self.safe, self.tight = (_Kept(top, by, choices) for _ in range(2))
        size = walk.size
        self.nearest, self.sample = Best(), Sample(points, size)
        done, some = 0, False
        for chunk in walk:
            score, memory = chunk.values[by], chunk.values[MEMORY]
            there = chunk.valid & np.isfinite(score) & np.isfinite(chunk.values[FITS])
            done += int(np.count_nonzero(chunk.valid))
            some = some or bool(there.any())
            fits = chunk.within(limits, there)
            least = chunk.values[margin.quantity]
            self.safe.add_chunk(chunk, score, memory, fits & margin.is_met(least))
            if not self.safe.count:
                self.tight.add_chunk(chunk, score, memory, fits)
            if not self.kept.count:
                short = np.flatnonzero(there)
                lacking = -chunk.of(FITS, short)
                self.nearest.add(lacking, chunk.of(MEMORY, short), chunk.build_setting, short)
            if points:
                self.sample.add(*(column.ravel() for column in (score, memory, there, fits)))
            report_progress(f"{numbers.text(done)} of {numbers.text(size)} layouts")
        if not some:
            explain_absence(walk, by)

    @property
    def kept(self) -> _Kept:
        """The best of the layouts that fit with a margin; if there are none, without."""
        return self.safe if self.safe.count else self.tight


def scatter(plan: Plan, points: int = POINTS, by: str = STEP, **options: Any) -> SearchResult:
    """Search what a report shows: the best five, the cost of each choice, and points of a scatter
    plot of memory and the minimised quantity. A large space is narrowed.

    Args:
        plan: the plan whose layouts are searched.
        points: about how many points: a reproducible sample of the layouts, and the whole front.
        by: the quantity to minimise.
        options: further options of a search.

    Returns:
        The result, with the plan's layout as ``own``.
    """
    return search(plan, 5, by, points=points, choices=True, most=MOST, **options)


def make_layout(item: Item, *names: str) -> Layout:
    """Make a layout from a selected item, with names for its numbers."""
    *numbers, (changes, follows) = item
    over_arrays = dict(zip(names, numbers, strict=False))
    shown = {k: v for k, v in changes.items() if v is not None}
    cleared = tuple(k for k, v in changes.items() if v is None)
    return Layout(shown, follows, over_arrays, over_arrays, cleared)


def _evaluate_layout(
    plan: Plan, quantities: Iterable[str], exact: bool = True
) -> tuple[dict[str, Any], Evaluation]:
    """Evaluate quantities of a plan.

    Args:
        plan: a plan with its layout.
        quantities: ids of the quantities.
        exact: whether to compute exactly, not in floats.

    Returns:
        The values by id, and the evaluation.

    Raises:
        PlanError: one of them cannot be computed, with the reason.
    """
    evaluation = evaluate_case(instance.build(plan), exact)
    return evaluation.get_values(quantities), evaluation


def find_own_layout(plan: Plan, quantities: Sequence[str], by: str) -> Layout | None:
    """Evaluate the plan's own layout, with time predicted as for other layouts.

    Args:
        plan: the plan; an assumed utilisation does not count.
        quantities: ids of what is evaluated.
        by: the minimised quantity.

    Returns:
        The layout; None if the plan without its assumed utilisation is invalid or lacks a quantity.
    """
    try:
        made = variant(plan, {"time.mfu": None})
        values, evaluation = _evaluate_layout(made, quantities)
    except PlanError:
        return None
    open_ones = [key for key in FOLLOWS if not is_own_choice(plan, key)]
    changes, follows = (
        {k: plan.get(k) for k in keys if plan.get(k) is not None} for keys in (KEYS, open_ones)
    )
    if plan.document.data["parallelism"].get("cut") is None:
        changes.pop(CUT, None)
    if changes.get(SCHEDULE) == OWN:  # its table is in the plan
        follows[SCHEDULE] = changes.pop(SCHEDULE)
    return Layout(changes, follows, values, {}, evaluated=(evaluation, by), made=made)


def explain_absence(walk: Walk, by: str) -> None:
    """Explain why no layout has the quantity that ranks, or the headroom.

    Raises:
        PlanError: with the reason, if one is known.
    """
    for name in (by, FITS):
        if name in walk.absent:
            raise PlanError(f"{name} cannot be computed: {walk.absent[name]}")
    chunk = next(iter(walk))
    compute_values(variant(walk.plan, chunk.build_changes(int(np.argmax(chunk.valid)))), [by])
