"""All valid layouts of a plan, as columns of numbers and choices.

Which layouts are valid is asked of the plan's own checks, once for each thing that they can tell
apart: combinations of degrees; stages, schedule and micro-batches; sequence parallelism; replicas.
ZeRO stage and recomputation go with every row, so they are axes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress, islice, product
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.base.errors import Fault, PlanError
from planner.base.recent import recent
from planner.documents.source import with_values
from planner.engine import instance as case
from planner.plans import layout, pipeline
from planner.plans.document import Draft, Plan
from planner.plans.layout import KERNELS, KEYS, ROW
from planner.plans.plan import checked, chosen_by, devices_of, layout_draft, variant
from planner.questions.batch_graph import Kind
from planner.questions.batch_rows import INNER, OUTER, Crossed, Degrees, Rows, Run, chosen
from planner.questions.constraints import Limit
from planner.questions.domains import divisors
from planner.questions.search.launcher import Launcher

Array = NDArray[Any]
T = TypeVar("T")
#: A key, the values that it has, and of each place along an axis (places,) which it is.
Choices = tuple[str, Sequence[Any], Array]
VIRTUAL, SCHEDULE, CUT = layout.RUN
SEQUENCE, REPLICAS, MICRO_BATCH = layout.OWN
SCHEDULES = ROW[SCHEDULE].values
#: Those that launchers of training frameworks have, and people run; the plainest, the first first.
COMMON = ("1f1b", "interleaved")
#: GPipe takes as long as 1F1B and keeps more (Narayanan et al. 2021, section 2.2).
SENSIBLE = tuple(schedule for schedule in SCHEDULES if schedule != "gpipe")
#: What must not be kept from the plan that the search starts from.
NOT_KEPT = (*layout.CLEARED, SCHEDULE, *layout.OWN_CHOICE, "time.mfu")


class Setting(NamedTuple):
    """A layout: what it changes in a plan, and what follows from that."""

    changes: Mapping[str, Any]
    follows: Mapping[str, Any]


def starts(devices: int) -> Iterator[dict[str, int]]:
    """Layouts one of which is probably valid, for a search to start from: every combination of
    degrees that divide all devices, small ones first."""
    every = product(divisors(devices), repeat=len(OUTER))
    found = (degrees for degrees in every if devices % math.prod(degrees) == 0)
    for degrees in sorted(found, key=lambda d: (math.prod(d), d)):
        yield dict(zip(OUTER, degrees, strict=True))


def first_valid(make: Callable[[T], Plan], tried: Iterable[T]) -> Plan:
    """The plan that is made of the first of several things that makes a valid one.

    Raises:
        PlanError: none do; what is wrong with the first.
    """
    first: PlanError | None = None
    for one in tried:
        try:
            return make(one)
        except PlanError as error:
            first = first or error
    assert first is not None
    raise first


class Space:
    """The layouts of one plan.

    Args:
        plan: its model, cluster and batch stay; its layout does not.
        options: for keys of a layout, the values that they may have; a key that is left out takes
            every value that is valid and sensible.
        full: every valid value, sensible or not: schedules that lose against another in every
            respect, and replicas of every size; or the keys of which that holds.
        launcher: the framework that has to be able to start a layout.
        varied: keys of the plan that were given another value before, which each layout says too.

    Raises:
        PlanError: a key that no layout has, a value that it cannot have, or no valid layout.
    """

    def __init__(
        self,
        plan: Plan,
        options: Mapping[str, Sequence[Any]] | None = None,
        full: bool | Collection[str] = False,
        launcher: str | None = None,
        varied: Mapping[str, Any] | None = None,
    ) -> None:
        self.varied = varied or {}
        self.options = {key: tuple(values) for key, values in (options or {}).items()}
        self.launcher = None if launcher is None else Launcher(plan, launcher)
        self._started: dict[tuple[Any, ...], Array] = {}  # by what a launcher can tell apart
        self.full = (KEYS if full else ()) if isinstance(full, bool) else full
        for key in self.options:
            if key not in KEYS:
                raise PlanError(Fault.among(f"{key} is no choice of a layout", key, KEYS))
            for value in self.options[key]:
                checked(key, value)
        kept = {
            key: None
            for key in NOT_KEPT
            if key not in self.options and plan.document.data.get(key.split(".")[0]) is not None
            and not chosen_by(plan, key)
        }  # fmt: skip
        batch = plan.get("training.global_batch")
        self.plan = plan
        self.base: dict[str, Any] = {**kept, "training.global_batch": batch}
        self.batch = int(batch)
        self.start = {**self.base, **layout.UNDIVIDED}
        self.zero, self.recompute = (self.options.get(key, ROW[key].values) for key in layout.AXES)
        # Which layouts are valid rests on the model, on the plan's layout, training and memory, and
        # on how many devices there are and how many a link joins, not on which.
        document = plan.document.data
        self._known: dict[Any, Any] = _known(
            self.options, self.full, plan.model, document["parallelism"], document["training"],
            plan.data["model"], plan.data.get("memory"), devices_of(plan.data),
            plan.get("cluster.link_domain"),
        )  # fmt: skip
        #: Every combination of degrees that makes a valid plan.
        self.degrees: tuple[Degrees, ...] = self._once(("degrees",), self._valid_degrees)
        #: What each of these is crossed with: sequence parallelism, replicas, and pipelines with
        #: micro-batches; and the virtual stages, schedules and cuts that occur.
        self.crossed, self.runs = self._once(("crossed",), self._crossing)
        if self.launcher is not None:
            # Modes of recomputation and ZeRO stages with which it starts nothing are left out, so
            # that none of them stands for another.
            several = [rows.valid.any(axis=2) for rows in self.blocks()]
            if several and (there := np.any(several, axis=0)).any():
                self.zero = tuple(compress(self.zero, there.any(axis=1)))
                self.recompute = tuple(compress(self.recompute, there.any(axis=0)))

    def _once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What is known by a key, of this space or of one that rests on the same."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def plan_of(self, degrees: Degrees) -> Plan:
        """A plan with some degrees, and so with what follows from implementation and loss."""
        return variant(self.plan, {**self.start, **degrees.changes, **degrees.kernels})

    def kind(self, degrees: Degrees) -> Kind:
        """As ``plan_of``, with its case."""
        plan = self.plan_of(degrees)
        return Kind(plan, case.build(plan))

    # -- asking the plan's checks -------------------------------------------------------------

    def _draft(self, changes: Mapping[str, Any], whole: bool = True) -> Draft:
        """A layout that divides nothing but with some changes, with what is wrong with it; not the
        ``whole`` of it where only that is asked which the model divides by."""
        return layout_draft(self.plan, {**self.start, **changes}, whole)

    def _valid_degrees(self) -> tuple[Degrees, ...]:
        devices, faults = self.plan.get("cluster.devices"), dict[str, Fault]()

        def agrees(found: Iterable[Fault]) -> bool:
            """Whether there are no faults; these are noted."""
            several = [faults.setdefault(fault.message, fault) for fault in found]
            return not several

        experts = self.plan.get("model.moe.experts") or 1
        sizes: dict[str, tuple[int, ...]] = {}
        for key in (*OUTER, *INNER):
            free: tuple[int, ...] = (1,)
            if key in OUTER or experts > 1:
                free = divisors(experts if ROW[key].divides == layout.EXPERTS else devices)
            values = self.options.get(key, free)
            sizes[key] = tuple(v for v in values if agrees(self._indivisible(key, v)))
            if self.options.get(key) and not sizes[key]:  # of other keys nothing is asked
                raise PlanError([f for value in values for f in self._indivisible(key, value)][:3])
        found: list[Degrees] = []
        for outer in product(*(sizes[key] for key in OUTER)):
            if devices % math.prod(outer) and faults:
                continue
            divided = dict(zip(OUTER, outer, strict=True))
            draft = self._once(("outer", *outer), partial(self._draft, divided))
            if not agrees(draft.faults):
                continue
            data, training = draft.get("parallelism.data"), draft.get("training")
            for inner in product(*(self._alike(key, sizes[key], divided) for key in INNER)):
                # Experts divide over the devices of a stage, however these are divided otherwise.
                told = ("experts", divided["parallelism.pipeline"], *inner)
                changes = {**divided, **dict(zip(INNER, inner, strict=True))}
                if agrees(self._once(told, partial(self._draft, changes)).faults):
                    kernels = (training["implementation"], training["loss"])
                    found.append(Degrees((*outer, *inner), data, self.batch // data, *kernels))
        if not found:
            raise PlanError(list(faults.values())[:3] or Fault("no layout is valid", None))
        return (*found, *self._compared(found))

    def _compared(self, found: Sequence[Degrees]) -> Iterator[Degrees]:
        """Layouts without tensor or pipeline parallelism with the kernels that follow from these,
        where the plan does not say whose kernels run: else these would be compared, not layouts."""
        if not chosen_by(self.plan, KERNELS):
            for name in dict.fromkeys(degrees.implementation for degrees in found):
                for degrees in found:
                    one = degrees.named["tensor"] == degrees.named["pipeline"] == 1
                    if one and degrees.implementation != name:
                        yield replace(degrees, implementation=name, said=True)

    def _alike(
        self, key: str, sizes: tuple[int, ...], divided: Mapping[str, int]
    ) -> tuple[int, ...]:
        """Of the sizes of a degree those that go with others: of one that is like another sensibly
        1 and the same, as the matrices of an expert are divided as all others, or not at all."""
        like = ROW[key].like
        if not like or key in self.options:
            return sizes
        most = divided[like]
        return tuple(n for n in sizes if (n <= most if key in self.full else n in (1, most)))

    def _indivisible(self, key: str, value: int) -> list[Fault]:
        """What is wrong with one degree whatever the others are: it does not divide the model."""
        return self._once((key, value), lambda: self._draft({key: value}, False).faults)

    def _schedules(self, stages: int) -> Iterator[Run]:
        """Virtual stages, schedules and cuts that go together for a number of stages. Where layers
        do not divide, embedding and head may count as one each, as 94 layers over 16 stages are
        trained (Qwen3-235B) and 126 (Llama 3.1)."""
        model = self.plan.model
        assert model is not None
        free = SCHEDULES if SCHEDULE in self.full else SENSIBLE
        own = self.plan.document.data["parallelism"].get("cut")
        uneven = len(model.sequence) % stages > 0 or CUT in self.full
        for cut in self.options.get(CUT, tuple(dict.fromkeys((own, "ends" if uneven else own)))):
            layers = pipeline.counted(len(model.sequence), cut or self.plan.get(CUT), stages)
            for virtual in self.options.get(VIRTUAL, divisors(layers // stages)):
                for schedule in self.options.get(SCHEDULE, free):
                    if pipeline.suits(schedule, virtual) and (stages > 1 or schedule == "1f1b"):
                        yield virtual, schedule, cut

    def _batches(self, stages: int, share: int) -> Iterator[tuple[Run, int]]:
        """What a pipeline can run with a share of the batch, with the micro-batch."""
        sizes = self.options.get(MICRO_BATCH, divisors(share))
        for run in self._schedules(stages):
            for size in sizes:
                if share % size == 0 and self._can_run(stages, run, share // size):
                    yield run, size

    def _can_run(self, stages: int, run: Run, micro_batches: int) -> bool:
        """Whether there are layers for so many chunks, and a schedule can run that many
        micro-batches: the plan's own checks, only one of which asks how many they are."""
        model = self.plan.model
        assert model is not None

        def cut() -> Draft:
            chosen = {"parallelism.pipeline": stages, **dict(zip(layout.RUN, run, strict=True))}
            draft = self._draft(chosen, False)
            pipeline.check(draft, model)
            return draft

        def running() -> bool:
            steps = {"training.gradient_accumulation": micro_batches}
            draft = Draft(self.plan.document, with_values(known.data, steps))
            pipeline.check_schedule(draft, model)
            return not draft.faults

        known = self._once(("cut", stages, *run), cut)
        return not known.faults and self._once(("steps", stages, *run, micro_batches), running)

    def _sequences(self, degrees: Degrees) -> tuple[bool, ...]:
        """Whether the residual stream may be divided over the tensor-parallel ranks."""
        tensor, context = (degrees.named[name] for name in ("tensor", "context"))
        free = self.options.get(SEQUENCE, (False, True) if tensor > 1 else (False,))
        valid = partial(self._faultless, degrees, SEQUENCE, free)
        return self._once(("sequences", tensor, context), lambda: tuple(valid()))

    def _replicas(self, degrees: Degrees) -> tuple[int, ...]:
        """Replicas of hybrid sharding that have something left to divide: sensibly none, or as many
        as there are nodes, each with its shards behind one link."""
        tensor = degrees.named["tensor"]
        shards = degrees.data * degrees.named["context"]

        def valid() -> tuple[int, ...]:
            free = divisors(shards)[:-1] if self.zero != (0,) else ()
            options: tuple[int, ...] = self.options.get(REPLICAS, free or (1,))
            most = len(options)
            if REPLICAS not in (*self.full, *self.options):
                node = self.plan.get("cluster.link_domain")
                inside = [r for r in options if shards // r * tensor <= node]
                options, most = tuple(dict.fromkeys((1, *inside))), 1 if inside[:1] == [1] else 2
            return tuple(islice(self._faultless(degrees, REPLICAS, options), most))

        inner = (degrees.changes[key] for key in INNER)
        return self._once(("replicas", shards, tensor, *inner), valid)

    def _faultless(self, degrees: Degrees, key: str, values: Iterable[T]) -> Iterator[T]:
        """The values of a key that are valid with some degrees, which were checked with the neutral
        one."""
        for value in values:
            if value == ROW[key].neutral or not self._draft({**degrees.changes, key: value}).faults:
                yield value

    # -- the rows -----------------------------------------------------------------------------

    def _crossing(self) -> tuple[tuple[Crossed, ...], tuple[Run, ...]]:
        runs: dict[Run, int] = {}
        batches: dict[tuple[int, int], Array] = {}
        crossed: list[Crossed] = []
        for degrees in self.degrees:
            share = (degrees.named["pipeline"], degrees.share)
            if share not in batches:
                found = ((runs.setdefault(r, len(runs)), size) for r, size in self._batches(*share))
                batches[share] = np.fromiter(found, np.dtype((np.int64, 2)))
            crossed.append((self._sequences(degrees), self._replicas(degrees), batches[share]))
        return tuple(crossed), tuple(runs)

    @property
    def size(self) -> int:
        """How many layouts there are."""
        return sum(int(np.count_nonzero(rows.valid)) for rows in self.blocks())

    def starts(self, rows: SpaceRows) -> Array:
        """Which choices of some rows the launcher can start, as (zero, recompute, rows). Most rules
        ask of a degree whether it is above 1."""
        assert self.launcher is not None
        if self.launcher.of_sizes:
            told = np.stack(rows.columns)
        else:
            above = (tuple(n > 1 for n in degrees.values) for degrees in self.degrees)
            _, kinds = chosen(above, rows.of_degrees)
            told = np.stack((kinds, rows.of_run, rows.of_sequence, rows.of_replicate > 1))
        distinct, first, places = np.unique(told, axis=1, return_index=True, return_inverse=True)
        keys = [(*key, self.zero, self.recompute) for key in distinct.T.tolist()]
        for key, row in zip(keys, first.tolist(), strict=True):
            if key not in self._started:
                self._started[key] = self._can_start(rows, row)
        return np.stack([self._started[key] for key in keys], axis=2)[:, :, places.ravel()]

    def _can_start(self, rows: SpaceRows, row: int) -> Array:
        """Whether the launcher starts a row, over ZeRO stage and recomputation."""
        assert self.launcher is not None
        found = np.zeros(rows.shape[:2], dtype=bool)
        for zero, mode in np.ndindex(*found.shape):
            changes = rows.changes(int(np.ravel_multi_index((zero, mode, row), rows.shape)))
            chosen = {k: v for k, v in changes.items() if k in KEYS and v is not None}
            data = chosen["parallelism.data"] = self.degrees[rows.of_degrees[row]].data
            batch, micro = self.plan.get("training.global_batch"), chosen["training.micro_batch"]
            chosen["training.gradient_accumulation"] = batch // (data * micro)
            found[zero, mode] = self.launcher.starts(chosen)
        return found

    @cached_property
    def alone(self) -> tuple[bool, ...]:
        """Of which combinations of degrees no two devices hold the same weights, so that ZeRO has
        nothing to divide: each of its stages is the same step, and the first stands for all."""
        key = "parallelism.zero"
        if key in self.options or key in self.full:
            return (False,) * len(self.degrees)
        copies = ((d.named["context"], *self.following(d).values()) for d in self.degrees)
        return tuple(math.prod(several) == 1 for several in copies)

    def following(self, degrees: Degrees) -> dict[str, int]:
        """Sizes that follow from degrees: devices that hold the same part of the model, and of
        experts."""
        devices, named = self.plan.get("cluster.devices"), degrees.named
        return {
            f"parallelism.{name}": devices // math.prod(named[other] for other in over)
            for name, over in layout.QUOTIENTS.items()
            if name not in layout.AFTER_EXPERTS or self.plan.get("model.moe")
        }

    @cached_property
    def plain(self) -> Array:
        """Of each combination of degrees how many kinds of parallelism it has, their product, and
        whether its kernels are a choice, as (3, degrees)."""
        values = np.array([degrees.values for degrees in self.degrees])
        said = [degrees.said for degrees in self.degrees]
        return np.stack(((values > 1).sum(axis=1), values.prod(axis=1), said))

    def blocks(self, most: int = 65_536) -> Iterator[SpaceRows]:
        """All rows, about so many at a time."""
        made: dict[Any, Array] = {}  # of what many combinations of degrees are crossed with
        pieces: list[Array] = []
        first = rows = 0
        for place, (sequences, replicas, batches) in enumerate(self.crossed):
            key = (sequences, replicas, id(batches))
            if key not in made:
                lengths = len(sequences), len(replicas), len(batches)
                s, r, b = map(np.ravel, np.indices(lengths))
                run, size = batches[b].T
                own = np.array(sequences, dtype=np.int64)[s], np.array(replicas, dtype=np.int64)[r]
                made[key] = np.stack((run, *own, size))
            pieces.append(made[key])
            rows += made[key].shape[1]
            if rows >= most or place == len(self.crossed) - 1:
                several = [piece.shape[1] for piece in pieces]
                of_degrees = np.repeat(np.arange(first, place + 1), several)
                found = SpaceRows(self, of_degrees, *np.concatenate(pieces, axis=1))
                if self.launcher is not None and len(found):
                    found = found.take(np.flatnonzero(found.valid.any(axis=(0, 1))))
                if len(found):
                    yield found
                pieces, first, rows = [], place + 1, 0


@dataclass(frozen=True, eq=False)
class SpaceRows(Rows):
    """Rows of a space, with quantities where some were asked for."""

    space: Space
    #: Quantities as (zero, recompute, rows); NaN where one is absent.
    values: Mapping[str, Array] = field(default_factory=dict, kw_only=True)

    def take(self, places: Array | slice, values: Mapping[str, Array] | None = None) -> SpaceRows:
        """Some of the rows, by their places (rows,) or a stretch, with quantities of these."""
        columns = (column[places] for column in self.columns)
        return SpaceRows(self.space, *columns, values=values or {})

    def of(self, quantity: str, places: Array) -> Array:
        """A quantity of some layouts, by their places, both (layouts,)."""
        found: Array = self.values[quantity].ravel()[places]
        return found

    def within(self, limits: Iterable[Limit], kept: Array | None = None) -> Array:
        """Which layouts keep some limits, as (zero, recompute, rows), of those ``kept``, by
        default of all that are valid."""
        found = self.valid if kept is None else kept
        for limit in limits:
            found = found & limit.holds(self.values[limit.quantity])
        return found

    def having(self, options: Mapping[str, Sequence[Any]]) -> SpaceRows:
        """Those rows of which each of some degrees, or of what each layout says itself, has one of
        some values."""
        kept = np.full(len(self), True)
        for key, values in options.items():
            own = self.own.get(key)
            if own is None:
                own = np.array([d.changes[key] for d in self.space.degrees])[self.of_degrees]
            kept &= np.isin(own, values)
        return self.take(np.flatnonzero(kept))

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many ZeRO stages, modes of recomputation and rows there are. A layout is told by its
        place in the flattened arrays of this shape."""
        return len(self.space.zero), len(self.space.recompute), len(self)

    @cached_property
    def valid(self) -> Array:
        """Which choices each row may take, as (zero, recompute, rows): replicas need something that
        is sharded."""
        space = self.space
        found = np.array([stage > 0 for stage in space.zero])[:, None, None]
        found = found | (self.of_replicate == 1)
        if any(space.alone):
            found[1:] &= ~np.array(space.alone)[self.of_degrees]
        if space.launcher is not None:
            found = found & space.starts(self)
        return np.broadcast_to(found, self.shape)

    def plainness(self, places: Array) -> Array:
        """How plain layouts are, by their places, both (layouts,); a smaller number is plainer.

        What counts most stands first: how many kinds of parallelism there are; whether the
        schedule is a common one; virtual stages; the product of the degrees; the ZeRO stage; then
        the schedule, an even cut of the layers, how much is recomputed, whether a residual stream
        that could be divided is not, kernels of another implementation, the micro-batch.
        """
        space = self.space
        zero, recompute, rows = np.unravel_index(places, self.shape)
        of_degrees, of_run, replicas = (
            column[rows] for column in (self.of_degrees, self.of_run, self.of_replicate)
        )
        kinds, product_, said = (column[of_degrees] for column in space.plain)
        virtual, schedule, cut = np.array(
            [(virtual, SCHEDULES.index(name), cut is not None) for virtual, name, cut in space.runs]
        ).T[:, of_run]
        tensor = np.array([degrees.named["tensor"] > 1 for degrees in space.degrees])[of_degrees]
        mode = np.array([ROW[layout.AXES[1]].values.index(m) for m in space.recompute])[recompute]
        found: Array = kinds + (replicas > 1)  # six at most, 3 bits
        for bits, column in (
            (1, schedule >= len(COMMON)),
            (8, virtual),
            (19, product_ * replicas),
            (2, np.array(space.zero)[zero]),
            (3, schedule),
            (1, cut),
            (2, mode),
            (1, tensor & (self.of_sequence[rows] == 0)),
            (1, said),
            (12, self.of_batch[rows]),
        ):  # 53 bits, which a double holds too
            found = found << bits | np.minimum(column, (1 << bits) - 1)
        return found

    @property
    def choices(self) -> tuple[list[Choices], list[Choices], list[Choices]]:
        """What is chosen along each axis (ZeRO stage, recomputation, rows): keys, their values, and
        the place of each one's value among them, as (zero,), (recompute,) and (rows,)."""
        space, degrees, runs = self.space, self.space.degrees, self.space.runs
        along = {
            key: chosen((d.changes[key] for d in degrees), self.of_degrees)
            for key in (*OUTER, *INNER)
        }
        along[KERNELS] = chosen((d.implementation for d in degrees), self.of_degrees)
        for number, key in enumerate(layout.RUN):
            along[key] = chosen((run[number] for run in runs), self.of_run)
        for key, own in self.own.items():
            values, places = np.unique(own, return_inverse=True)
            along[key] = chosen((type(ROW[key].neutral)(v) for v in values), places)
        for key, value in space.varied.items():
            along[key] = chosen((value,), np.zeros(len(self), dtype=np.int64))
        zero, recompute = (
            list[Choices]([(key, options, np.arange(len(options)))])
            for key, options in zip(layout.AXES, (space.zero, space.recompute), strict=True)
        )
        return zero, recompute, [(key, *found) for key, found in along.items()]

    def changes(self, place: int) -> dict[str, Any]:
        """A layout by its place, as changes of the plan; None for a key that is to follow from the
        others."""
        space = self.space
        zero, recompute, row = np.unravel_index(place, self.shape)
        degrees, run = space.degrees[self.of_degrees[row]], space.runs[self.of_run[row]]
        values = {**degrees.changes, **dict(zip(layout.RUN, run, strict=True))}
        values |= zip(layout.AXES, (space.zero[zero], space.recompute[recompute]), strict=True)
        for key, column in self.own.items():
            values[key] = type(ROW[key].neutral)(column[row])
        own = {key: values[key] for key in KEYS}
        return {**space.varied, **space.base, **own, **degrees.kernels}

    def setting(self, place: int) -> Setting:
        """A layout by its place, with what follows from it where the plan leaves it open."""
        space, row = self.space, place % len(self)
        degrees = space.degrees[self.of_degrees[row]]
        found = {
            **space.following(degrees),
            "training.gradient_accumulation": degrees.share // int(self.of_batch[row]),
            **dict(zip(layout.OWN_CHOICE, (degrees.implementation, degrees.loss), strict=True)),
        }
        open_ones = space.base.keys() - degrees.kernels.keys()
        follows = {k: found[k] for k in layout.FOLLOWS if k in open_ones and k in found}
        return Setting(self.changes(place), follows)

    def all(self) -> Iterator[dict[str, Any]]:
        """Every layout, row after row."""
        for row, *choice in np.argwhere(np.moveaxis(self.valid, 2, 0)):
            yield self.changes(int(np.ravel_multi_index((*choice, row), self.shape)))


@recent(4)
def _known(*rests_on: Any) -> dict[Any, Any]:
    """What is known of a space, to be filled, for further ones that rest on the same."""
    return {}
