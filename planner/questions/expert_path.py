"""The path from a plan to what experts do: each change on the way, with what it is worth.

The nearest published run (presets/runs) and the stack that most people run (presets/practice) give
the practice, a search the layout. At each step the change is made that shortens the predicted step
most, or, as long as the plan does not fit, that frees most of what it lacks. A change that gains
less than ``WORTH``, or makes a plan that fits one that does not, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any, NamedTuple

from planner.base import numbers, resources
from planner.base.errors import PlanError
from planner.connect import exports
from planner.documents import stacks
from planner.documents.references import list_runs
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import STACK, Plan
from planner.plans.layout import KERNELS, KEYS, OF_PIPELINE, ROW
from planner.plans.plan import reset_derived, variant
from planner.questions import loading
from planner.questions.search.engine import MOST, search
from planner.questions.search.layouts import COMMON
from planner.questions.search.ranking import describe_scope
from planner.results.improvements import STEP, WORTH
from planner.results.intervals import get_or_zero
from planner.results.moves import evaluate_near
from planner.results.verdict import FITS

PEAK_BYTES, RUN_COST = "memory.process", "cost.total"
SCHEDULE_KEY, STARTED_BY = "training.schedule", "parallelism.for"
#: How far a run is that differs in one of these: as far as so many doublings of a size.
FAR_APART: Mapping[str, int] = resources.load_beside(__file__, "far_apart.yaml")
#: The sizes that are compared, in doublings; of the model its active parameters.
COMPARED_SIZES, ACTIVE_SIZE = ("cluster.devices", "training.sequence_length"), "parameters.active"

#: Keys by dotted key with their values; None resets a key.
ChangedKeys = Mapping[str, Any]


class Proposal(NamedTuple):
    """A change that may be made, and where it is from."""

    changes: ChangedKeys
    source: str


@dataclass(frozen=True)
class PathStep:
    """The plan after some changes.

    Attributes:
        changes: the last of them, by dotted key; none in the first step, the plan itself.
        source: where the last one is from.
        plan: with all of them.
        seconds: of its step.
        needed: bytes of the fullest device.
        lacking: bytes by which it does not fit.
        cost: of the run in USD; 0 where nothing predicts it.
    """

    changes: ChangedKeys
    source: str
    plan: Plan
    seconds: float
    needed: float
    lacking: float
    cost: float

    @cached_property
    def frameworks(self) -> tuple[str, ...]:
        """The frameworks that can start it."""
        found = []
        for name in exports.FORMATS:
            with suppress(PlanError):
                if not exports.build_config(self.plan, name).lost:
                    found.append(name)
        return tuple(found)

    def is_better(self, other: PathStep) -> bool:
        """Decide whether it fits better than another step, or as well and is faster."""
        faster = self.seconds <= other.seconds * (1 - WORTH)
        return self.lacking < other.lacking or (self.lacking == other.lacking and faster)


@dataclass(frozen=True)
class ExpertPath:
    """The path of a plan.

    Attributes:
        run: the name of the nearest published run.
        nearest: its plan.
        steps: the plan itself, then one step for each change.
        left: changes that gain nothing, each with the reason.
        unpublished: choices at the end of the path that no published run has, each with what is
            published.
    """

    run: str
    nearest: Plan
    steps: tuple[PathStep, ...]
    left: tuple[tuple[Proposal, str], ...]
    unpublished: tuple[tuple[str, str], ...]

    def merge_changes(self, number: int) -> dict[str, Any]:
        """Merge the changes of the first steps.

        Args:
            number: how many, from 1.

        Raises:
            PlanError: the path is shorter.
        """
        last = len(self.steps) - 1
        if not 1 <= number <= last:
            allowed = f"1 to {last}" if last else "this plan has no change that gains anything"
            raise PlanError(f"--apply {number}", None, allowed)
        return {k: v for step in self.steps[: number + 1] for k, v in step.changes.items()}


def find_expert_path(plan: Plan) -> ExpertPath:
    """Find the path of a plan.

    Raises:
        PlanError: a step of the plan cannot be predicted.
    """
    if plan.model is None or plan.settings["training.mode"] != "train" or plan.reinforced:
        place = plan.document.find_key_place(("model",))
        raise PlanError(
            "advise compares training steps", place, "a model with its shape, mode train"
        )
    if plan.get("time.mfu") is not None:
        plan = variant(plan, {"time.mfu": None})
    runs = {name: loading.load(name) for name in list_runs()}
    name = find_nearest_run(plan, runs)
    walk = _PathSearch(plan, [*_propose_stack(plan), *_propose_practice(plan, name, runs[name])])
    walk.take_best()
    walk.take_layout(runs[name])
    walk.take_best()
    last = walk.steps[-1].plan
    left = [(one, walk.explain(one)) for one in walk.pool if walk.is_open(one)]
    unpublished = list_unpublished(last, [*runs.values()])
    return ExpertPath(name, runs[name], tuple(walk.steps), tuple(left), tuple(unpublished))


def find_nearest_run(plan: Plan, runs: Mapping[str, Plan]) -> str:
    """Return the name of the published run that is nearest to a plan: in doublings of active
    parameters, devices and sequence length, and ``FAR_APART``. The plan itself is left out.
    """
    sections = ("model", "cluster", "training", "parallelism")

    def measure(run: Plan) -> tuple[bool, float]:
        """Return whether it is the plan itself, and how far it is."""
        sizes = zip(_list_compared_sizes(plan), _list_compared_sizes(run), strict=True)
        far = sum(abs(log2(a / b)) for a, b in sizes)
        apart = sum(by for key, by in FAR_APART.items() if _is_set(plan, key) != _is_set(run, key))
        return all(run.data[one] == plan.data[one] for one in sections), far + apart

    return min(runs, key=lambda name: measure(runs[name]))


def _list_compared_sizes(plan: Plan) -> list[float]:
    """List the sizes by which plans are compared."""
    active = instance.compute_values(plan, [ACTIVE_SIZE])[ACTIVE_SIZE]
    return [float(active), *(float(plan.get(key)) for key in COMPARED_SIZES)]


def _is_set(plan: Plan, key: str) -> Any:
    """Return the value of a key that has words, else whether it is given."""
    value = plan.get(key)
    return value if isinstance(value, str) else value is not None


def _propose_stack(plan: Plan) -> Iterator[Proposal]:
    """Propose the stack that most people run, for a plan that names another or none and no
    framework that must start it."""
    if plan.get(STARTED_BY) is not None:
        return
    row = stacks.choose_stack(lambda key: None if key in stacks.SOFTWARE else plan.get(key))
    if row is not None and plan.get(STACK) not in (row["stack"], row["stack"].partition("@")[0]):
        yield Proposal({STACK: row["stack"]}, f"{row['why']}, {row['date']}")


def _propose_practice(plan: Plan, name: str, run: Plan) -> Iterator[Proposal]:
    """Propose what a published run does otherwise than a plan."""
    (measured, *_) = run.document.get("measured")
    source = ", ".join(filter(None, (name, measured["source"], measured.get("date"))))
    for row in _list_practice():
        stated = {key: run.document.get_stated(key) for key in row["keys"]}
        changes = {k: v for k, v in stated.items() if v is not None and v != plan.get(k)}
        alike = row.get("alike")
        if changes and (alike is None or run.get(alike) == plan.get(alike)):
            yield Proposal(changes, source)


def _list_practice() -> Sequence[Mapping[str, Any]]:
    """List the rows of the keys that are practice."""
    rows: Sequence[Mapping[str, Any]] = resources.load_beside(__file__)
    return rows


class _PathSearch:
    """The search for the path of one plan: the steps so far, and the changes that are left."""

    def __init__(self, plan: Plan, pool: Sequence[Proposal]) -> None:
        self.plan, self.pool = plan, [*pool]
        self.changes: dict[str, Any] = {}
        self.base = Evaluation(instance.build(plan), exact=False)
        try:
            self.steps = [self._measure(plan, Proposal({}, ""), self.base)]
        except Absent as absent:
            raise PlanError(f"no step is predicted: {absent}") from None

    def _measure(self, plan: Plan, last: Proposal, evaluation: Evaluation) -> PathStep:
        """Measure a plan."""
        seconds, needed, left = (float(evaluation.value(one)) for one in (STEP, PEAK_BYTES, FITS))
        cost = float(get_or_zero(RUN_COST, evaluation))
        return PathStep(last.changes, last.source, plan, seconds, needed, max(0.0, -left), cost)

    def try_change(self, one: Proposal) -> PathStep:
        """Measure the plan with all changes so far and another one.

        Raises:
            PlanError: that is no valid plan.
        """
        if any(key in ROW for key in one.changes):
            one = one._replace(changes={**reset_derived(self.plan), **one.changes})
        made = variant(self.plan, {**self.changes, **one.changes})
        kernels = self.steps[-1].plan.get(KERNELS)
        if {KERNELS, STACK}.isdisjoint(one.changes) and made.get(KERNELS) != kernels:
            one = one._replace(changes={**one.changes, KERNELS: kernels})  # all else stays
            made = variant(self.plan, {**self.changes, **one.changes})
        names = (STEP, PEAK_BYTES, FITS, RUN_COST)
        try:
            return self._measure(made, one, evaluate_near(self.base, made, names, exact=False))
        except Absent as absent:
            raise PlanError(str(absent)) from None

    def _take(self, step: PathStep) -> None:
        """Add a step to the path."""
        self.changes |= step.changes
        self.steps.append(step)

    def take_best(self) -> None:
        """Make the changes of the pool, the best first, as long as one gains."""
        while self.pool:
            tried = []
            for place, one in enumerate(self.pool):
                with suppress(PlanError):
                    step = self.try_change(one)
                    tried.append((step.lacking, step.seconds, place, step))
            *_, place, best = min(tried, key=lambda row: row[:3], default=(0, 0, 0, self.steps[-1]))
            if not best.is_better(self.steps[-1]):
                return
            self._take(best)
            del self.pool[place]

    def take_layout(self, run: Plan) -> None:
        """Search the layouts under the practice so far, and take what the best one changes: key by
        key as long as each gains by itself, then the rest at once."""
        here = self.steps[-1]
        invalid = [one.changes for one in self.pool if not self._is_valid(one)]
        open_keys = {
            **{key: (here.plan.get(key), value) for row in invalid for key, value in row.items()},
            **stacks.list_open_values(here.plan.get),
            SCHEDULE_KEY: tuple(dict.fromkeys((*COMMON, run.get(SCHEDULE_KEY)))),
        }
        try:
            found = search(
                here.plan, 1, STEP, vary=open_keys, most=MOST, launcher=self.plan.get(STARTED_BY)
            )
        except PlanError:
            return
        layout = found.plain or found.nearest
        if layout is None:
            return
        kept = (*KEYS, KERNELS, *open_keys)
        target = {
            key: value
            for key, value in layout.changes.items()
            if key in kept and value != here.plan.get(key)
        }
        source = f"the best of {describe_scope(found)}"
        rest, self.pool = self.pool, _group_layout(target, source)
        self.take_best()
        left = {key: value for one in self.pool for key, value in one.changes.items()}
        if left:
            with suppress(PlanError):
                whole = self.try_change(Proposal(left, source))
                if whole.is_better(self.steps[-1]):
                    self._take(whole)
        self.pool = [*filter(self.is_open, rest)]

    def is_open(self, one: Proposal) -> bool:
        """Decide whether a change still changes something at the end of the path."""
        last = self.steps[-1].plan
        return any(last.get(key) != value for key, value in one.changes.items())

    def _is_valid(self, one: Proposal) -> bool:
        """Decide whether a change makes a valid plan."""
        with suppress(PlanError):
            self.try_change(one)
            return True
        return False

    def explain(self, one: Proposal) -> str:
        """Explain why a change is left out."""
        try:
            step, here = self.try_change(one), self.steps[-1]
        except PlanError as error:
            return error.faults[0].message
        if step.lacking > here.lacking:
            return "does not fit"
        return f"{numbers.text(step.seconds / here.seconds - 1, style='change')} step time"


def _group_layout(changes: ChangedKeys, source: str) -> list[Proposal]:
    """Group the changes of a layout: keys that refine another one, or go with a pipeline's stages,
    go with that one."""
    groups: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        row = ROW.get(key)
        name = key if row is None else row.refines or row.name
        name = "pipeline" if row is not None and row.place == OF_PIPELINE else name
        groups.setdefault(name, {})[key] = value
    return [Proposal(group, source) for group in groups.values()]


def list_unpublished(plan: Plan, runs: Sequence[Plan]) -> Iterator[tuple[str, str]]:
    """Yield the choices of a plan that no published run on accelerators of its vendor has: degrees
    that cut smaller pieces, and other values of a layout and of practice.

    Yields:
        The choice, and what is published instead.
    """
    vendor = plan.get("cluster.accelerator.vendor")
    known = [run for run in runs if run.get("cluster.accelerator.vendor") == vendor] or runs
    for row in ROW.values():
        degree, name = plan.get(row.key), row.heading
        if not row.size or degree in (None, row.neutral):
            continue
        piece = _measure_piece(plan, row.key)
        pieces = [
            (_measure_piece(run, row.key), run.name)
            for run in known
            if run.get(row.key) not in (None, row.neutral)
        ]
        least = min(pieces, default=None)
        if least is None or piece < least[0]:
            size = row.size.rpartition(".")[2]
            rest = "none" if least is None else f"at least {numbers.text(least[0])}, {least[1]}"
            yield f"{name} {degree} ({size} {numbers.text(piece)} on each)", rest
    keys = [key for key, row in ROW.items() if row.values]
    for key in dict.fromkeys((*keys, *(key for row in _list_practice() for key in row["keys"]))):
        value, others = plan.get(key), [run.get(key) for run in known]
        if isinstance(value, (str, int)) and value not in others:
            values = dict.fromkeys(str(one) for one in others if one is not None)
            yield f"{key.partition('.')[2]} {value}", ", ".join(values) or "none"


def _measure_piece(plan: Plan, key: str) -> float:
    """Return what one device has of the size that a degree divides; 0 for a size that is not
    known."""
    return float(plan.get(ROW[key].size) or 0) / float(plan.get(key))
