"""All valid layouts of a plan, as columns of numbers and choices.

The plan's own checks decide which layouts are valid, once for each case that they distinguish:
combinations of degrees; stages, schedule and micro-batches; sequence parallelism; replicas.
ZeRO stage and recomputation combine with every row, so they are axes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress, islice, product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from planner.base.errors import Fault, PlanError
from planner.base.recent import cache_last
from planner.documents import stacks
from planner.documents.source import change_keys
from planner.engine import instance
from planner.engine.arrays.table import Array
from planner.plans import layout, pipeline
from planner.plans.document import Draft, Plan
from planner.plans.layout import KERNELS, KEYS, ROW
from planner.plans.placement import IN_BACKWARD, STEP
from planner.plans.plan import build_draft, check_value, collect_devices, is_own_choice, variant
from planner.questions.batch_graph import Kind
from planner.questions.batch_rows import INNER, OUTER, Crossed, Degrees, Rows, Run, encode_values
from planner.questions.constraints import Limit
from planner.questions.domains import divisors
from planner.questions.search.launcher import Launcher

T = TypeVar("T")
#: A key, its values, and for each position along an axis (positions,) the index of the value.
Choices = tuple[str, Sequence[Any], Array]
VIRTUAL, SCHEDULE, CUT = layout.RUN
SEQUENCE, REPLICAS, MICRO_BATCH = layout.OWN
SCHEDULES = ROW[SCHEDULE].values
#: Schedules that training frameworks offer and people run; simplest first.
COMMON = ("1f1b", "interleaved")
#: GPipe takes as long as 1F1B and keeps more (Narayanan et al. 2021, section 2.2).
SENSIBLE = tuple(schedule for schedule in SCHEDULES if schedule != "gpipe")
#: Combinations of outer degrees that are tried; 100,000 devices have 2,000 with 128 heads.
MOST_DEGREES = 5000
#: Keys that must not be kept from the plan that the search starts from.
NOT_KEPT = (*layout.CLEARED, SCHEDULE, *layout.OWN_CHOICE, "time.mfu")


class Setting(NamedTuple):
    """A layout as keys of a plan.

    Attributes:
        changes: what it sets, by dotted key; None for keys that go back to their defaults.
        follows: keys whose values follow from these.
    """

    changes: Mapping[str, Any]
    follows: Mapping[str, Any]


class Space:
    """The layouts of one plan.

    Args:
        plan: its model, cluster and batch stay; its layout does not.
        options: for keys of a layout, the values that they may have; a key that is left out takes
            every value that is valid and sensible.
        full: include every valid value: schedules that are worse than another in every respect, and
            replicas of every size; or the keys for which to include them.
        launcher: the framework that must be able to start a layout.
        varied: keys of the plan that were changed before; each layout includes them.

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
        self.varied, self.plan = varied or {}, plan
        limits = self._find_limits({})
        runs = {key: values for key, values in limits.items() if key in KEYS}
        self.options = {key: tuple(values) for key, values in {**runs, **(options or {})}.items()}
        for key, values in runs.items():
            self.options[key] = tuple(v for v in self.options[key] if v in values) or tuple(values)
        self.launcher = None if launcher is None else Launcher(plan, launcher)
        self._started: dict[tuple[Any, ...], Array] = {}  # by what a launcher can distinguish
        self.full = (KEYS if full else ()) if isinstance(full, bool) else full
        for key in self.options:
            if key not in KEYS:
                raise PlanError(Fault.from_pool(f"{key} is not a layout key", key, KEYS))
            for value in self.options[key]:
                check_value(key, value)
        kept = {
            key: None
            for key in NOT_KEPT
            if key not in self.options and plan.document.data.get(key.split(".")[0]) is not None
            and not is_own_choice(plan, key)
        }  # fmt: skip
        batch = plan.get("training.global_batch")
        self.base: dict[str, Any] = {**kept, "training.global_batch": batch}
        self.batch = int(batch)
        first = {stacks.ZERO: min(self.options.get(stacks.ZERO, (0,)))}  # what a stack sets by it
        self.start = {**self.base, **layout.UNDIVIDED, **first}
        #: The ZeRO stages that layouts report, and the recomputation modes.
        self.stages, self.recompute = (
            self.options.get(key, ROW[key].values) for key in layout.AXES
        )
        #: Whether layers are fetched from the host, as ZeRO-3 alone does, also on one device.
        self.fetched = plan.get("training.offload.parameters") > 0
        if self.fetched:
            self.stages = (3,)
        # Which layouts are valid depends on the model, on the plan's layout, training and memory,
        # on the number of devices and on how many a link joins, not on the type of device.
        document = plan.document.data
        self._known: dict[Any, Any] = _get_cache(
            self.options, self.full, plan.model, document["parallelism"], document["training"],
            plan.data["model"], plan.data.get("memory"), collect_devices(plan.data),
            plan.get("cluster.link_domain"),
        )  # fmt: skip
        #: Every combination of degrees that makes a valid plan; keys with too many values to try
        #: them all, with those that were tried.
        self.degrees: tuple[Degrees, ...]
        self.limited: dict[str, tuple[int, ...]]
        self.degrees, self.limited = self._once(("degrees",), self._find_degrees)
        #: What each of these is crossed with: sequence parallelism, replicas, and pipelines with
        #: micro-batches; and the virtual stages, schedules and cuts that occur.
        self.crossed, self.runs = self._once(("crossed",), self._combine_degrees)
        if self.launcher is not None:
            # Recomputation modes and ZeRO stages with which nothing starts are left out, so that
            # none of them represents another.
            several = [rows.valid.any(axis=2) for rows in self.yield_blocks()]
            if several and (there := np.any(several, axis=0)).any():
                started = {*compress(self.said, there.any(axis=1))}
                self.stages = tuple(stage for stage in self.stages if stage in started)
                self.recompute = tuple(compress(self.recompute, there.any(axis=0)))

    def _once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return a cached value of this space or of one with the same inputs; else make it."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def build_plan(self, degrees: Degrees) -> Plan:
        """Build a plan with some degrees, and what follows from implementation and loss."""
        changes = {**degrees.changes, **self._find_run(degrees.named["pipeline"])}
        return variant(self.plan, {**self._start_from(changes), **degrees.kernels})

    def get_kind(self, degrees: Degrees) -> Kind:
        """Build a plan with some degrees, and its case."""
        plan = self.build_plan(degrees)
        return Kind(plan, instance.build(plan))

    # -- running the plan's checks ------------------------------------------------------------

    def _draft(self, changes: Mapping[str, Any], whole: bool = True) -> Draft:
        """Draft the undivided layout with some changes, with its faults; without ``whole``, check
        only what depends on the model's shape."""
        return build_draft(self.plan, self._start_from(changes), whole)

    def _start_from(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the undivided layout with some changes, and with one micro-batch if the plan adds
        no gradients up."""
        start = {**self.start, **changes}
        if self.plan.get(STEP) == IN_BACKWARD:
            shared = self.batch * math.prod(start[key] for key in OUTER)
            start[MICRO_BATCH] = max(1, shared // self.plan.get("cluster.devices"))
        return start

    def _find_degrees(self) -> tuple[tuple[Degrees, ...], dict[str, tuple[int, ...]]]:
        """Find the combinations of degrees that make a valid plan, and the degrees of which only
        some sizes were tried, with these.

        Raises:
            PlanError: no combination is valid; with the first faults.
        """
        devices, faults = self.plan.get("cluster.devices"), dict[str, Fault]()

        def accept(found: Iterable[Fault]) -> bool:
            """Record faults, and return whether there are none."""
            several = [faults.setdefault(fault.message, fault) for fault in found]
            return not several

        experts = self.plan.get("model.moe.experts") or 1
        sizes: dict[str, tuple[int, ...]] = {}
        for key in (*OUTER, *INNER):
            free: tuple[int, ...] = (1,)
            if key in OUTER or experts > 1:
                free = divisors(experts if ROW[key].divides == layout.EXPERTS else devices)
            values = self.options.get(key, free)
            sizes[key] = tuple(v for v in values if accept(self._check_degree(key, v)))
            if self.options.get(key) and not sizes[key]:  # others were not requested
                raise PlanError([f for value in values for f in self._check_degree(key, value)][:3])
        limited = dict[str, tuple[int, ...]]()
        while math.prod(len(sizes[key]) for key in OUTER) > MOST_DEGREES:
            most = max(OUTER, key=lambda key: len(sizes[key]))
            limited[most] = sizes[most] = sizes[most][: len(sizes[most]) // 2]
        found: list[Degrees] = []
        for outer in product(*(sizes[key] for key in OUTER)):
            if devices % math.prod(outer) and faults:
                continue
            divided = dict(zip(OUTER, outer, strict=True))
            divided |= self._find_run(divided["parallelism.pipeline"])
            draft = self._once(("outer", *outer), partial(self._draft, divided))
            if not accept(draft.faults):
                continue
            data, training = draft.get("parallelism.data"), draft.get("training")
            for inner in product(*(self._filter_sizes(key, sizes[key], divided) for key in INNER)):
                # Experts divide over all devices of a stage, whatever the other degrees are.
                told = ("experts", divided["parallelism.pipeline"], *inner)
                changes = {**divided, **dict(zip(INNER, inner, strict=True))}
                if accept(self._once(told, partial(self._draft, changes)).faults):
                    kernels = (training["implementation"], training["loss"])
                    found.append(Degrees((*outer, *inner), data, self.batch // data, *kernels))
        if not found:
            raise PlanError(list(faults.values())[:3] or Fault("no layout is valid", None))
        return (*found, *self._repeat_layouts(found)), limited

    def _repeat_layouts(self, found: Sequence[Degrees]) -> Iterator[Degrees]:
        """Yield layouts without tensor or pipeline parallelism again with the kernels of the
        others, unless the plan sets kernels: else kernels would be compared, not layouts."""
        if not is_own_choice(self.plan, KERNELS):
            for name in dict.fromkeys(degrees.implementation for degrees in found):
                for degrees in found:
                    one = degrees.named["tensor"] == degrees.named["pipeline"] == 1
                    if one and degrees.implementation != name:
                        yield replace(degrees, implementation=name, said=True)

    def _filter_sizes(
        self, key: str, sizes: tuple[int, ...], divided: Mapping[str, int]
    ) -> tuple[int, ...]:
        """Filter the sizes of a degree that is coupled to another one.

        An expert's matrices are sensibly divided like all others, or not at all: such a degree is 1
        or equals the other.

        Args:
            key: the degree.
            sizes: its possible sizes.
            divided: the outer degrees by key.

        Returns:
            All sizes where nothing couples the degree or its values were given; with ``full``,
                those up to the other degree.
        """
        like = ROW[key].like
        if not like or key in self.options:
            return sizes
        most = divided[like]
        return tuple(n for n in sizes if (n <= most if key in self.full else n in (1, most)))

    def _check_degree(self, key: str, value: int) -> list[Fault]:
        """Return the faults of a degree on its own: it does not divide the model or the
        sequence."""

        def find_faults() -> list[Fault]:
            """Check the degree alone, and the sequence that context parallelism divides."""
            draft = self._draft({key: value}, False)
            assert self.plan.model is not None
            pipeline.check_context(draft, self.plan.model)
            return draft.faults

        return self._once((key, value), find_faults)

    def _yield_runs(self, stages: int) -> Iterator[Run]:
        """Yield combinations of virtual stages, schedule and cut for a number of stages. If layers
        do not divide, embedding and head may count as one layer each, as 94 layers over 16 stages
        are trained (Qwen3-235B) and 126 (Llama 3.1)."""
        model = self.plan.model
        assert model is not None
        free = SCHEDULES if SCHEDULE in self.full else SENSIBLE
        own = self.plan.document.data["parallelism"].get("cut")
        uneven = len(model.sequence) % stages > 0 or CUT in self.full
        for cut in self.options.get(CUT, tuple(dict.fromkeys((own, "ends" if uneven else own)))):
            layers = pipeline.count_cut_layers(
                len(model.sequence), cut or self.plan.get(CUT), stages
            )
            for virtual in self.options.get(VIRTUAL, divisors(layers // stages)):
                limits = self._find_limits({VIRTUAL: virtual})
                if stages not in limits.get("parallelism.pipeline", (stages,)):
                    continue
                for schedule in self.options.get(SCHEDULE, free):
                    if pipeline.suits(schedule, virtual) and (stages > 1 or schedule == "1f1b"):
                        yield virtual, schedule, cut

    def _find_run(self, stages: int) -> dict[str, Any]:
        """Return the first pipeline of so many stages that the stack runs if it refuses a plain one
        (expert overlap of Megatron-Bridge needs virtual stages), else nothing."""
        plain = self._find_limits({VIRTUAL: 1}).get("parallelism.pipeline", (stages,))
        runs = iter(()) if stages in plain else self._yield_runs(stages)
        return dict(zip(layout.RUN, next(runs, ()), strict=False))

    def _batches(self, stages: int, share: int) -> Iterator[tuple[Run, int]]:
        """Yield the pipelines that can run a share of the batch, each with a micro-batch."""
        sizes = self.options.get(MICRO_BATCH, divisors(share))
        for run in self._yield_runs(stages):
            for size in sizes:
                if share % size == 0 and self._can_run(stages, run, share // size):
                    yield run, size

    def _can_run(self, stages: int, run: Run, micro_batches: int) -> bool:
        """Decide by the plan's own checks whether a pipeline can run.

        There must be layers for so many chunks, and a schedule that can run so many micro-batches;
        only the second check depends on their number.

        Args:
            stages: number of pipeline stages.
            run: virtual stages, schedule and cut.
            micro_batches: micro-batches of a step.
        """
        model = self.plan.model
        assert model is not None

        def cut() -> Draft:
            """Draft the pipeline and check that its layers divide over the chunks."""
            chosen = {"parallelism.pipeline": stages, **dict(zip(layout.RUN, run, strict=True))}
            draft = self._draft(chosen, False)
            pipeline.check_pipeline(draft, model)
            return draft

        def check_steps() -> bool:
            """Check that the schedule can run so many micro-batches."""
            steps = {"training.gradient_accumulation": micro_batches}
            draft = Draft(self.plan.document, change_keys(known.data, steps))
            pipeline.check_schedule(draft, model)
            return not draft.faults

        known = self._once(("cut", stages, *run), cut)
        return not known.faults and self._once(("steps", stages, *run, micro_batches), check_steps)

    def _list_sequences(self, degrees: Degrees) -> tuple[bool, ...]:
        """List the values of sequence parallelism that are valid with some degrees."""
        tensor, context = (degrees.named[name] for name in ("tensor", "context"))
        free = self.options.get(SEQUENCE, (False, True) if tensor > 1 else (False,))
        valid = partial(self._yield_valid, degrees, SEQUENCE, free)
        return self._once(("sequences", tensor, context), lambda: tuple(valid()))

    def _list_replicas(self, degrees: Degrees) -> tuple[int, ...]:
        """List the replicas of hybrid sharding that still shard something: sensibly one, or as many
        as there are nodes, with the shards of each behind one link."""
        tensor = degrees.named["tensor"]
        shards = degrees.data * degrees.named["context"]

        def valid() -> tuple[int, ...]:
            """List the sensible or requested numbers of replicas that pass the plan's checks."""
            options = self.options.get(REPLICAS, divisors(shards) if any(self.stages) else (1,))
            options = tuple(r for r in options if r == 1 or r < shards)
            most = len(options)
            if REPLICAS not in (*self.full, *self.options):
                node = self.plan.get("cluster.link_domain")
                inside = [r for r in options if shards // r * tensor <= node]
                options, most = tuple(dict.fromkeys((1, *inside))), 1 if inside[:1] == [1] else 2
            return tuple(islice(self._yield_valid(degrees, REPLICAS, options), most))

        inner = (degrees.changes[key] for key in INNER)
        return self._once(("replicas", shards, tensor, *inner), valid)

    def _yield_valid(self, degrees: Degrees, key: str, values: Iterable[T]) -> Iterator[T]:
        """Yield the values of a key that are valid with some degrees.

        Args:
            degrees: degrees that were checked already.
            key: a key of the layout.
            values: its possible values; the neutral one needs no check.
        """
        for value in values:
            if value == ROW[key].neutral or not self._draft({**degrees.changes, key: value}).faults:
                yield value

    # -- the rows -----------------------------------------------------------------------------

    def _combine_degrees(self) -> tuple[tuple[Crossed, ...], tuple[Run, ...]]:
        """Combine each set of degrees with sequence parallelism, replicas and pipelines; return
        these, and the pipelines that they refer to by index."""
        runs: dict[Run, int] = {}
        batches: dict[tuple[int, int], Array] = {}
        crossed: list[Crossed] = []
        for degrees in self.degrees:
            share = (degrees.named["pipeline"], degrees.share)
            if share not in batches:
                found = ((runs.setdefault(r, len(runs)), size) for r, size in self._batches(*share))
                batches[share] = np.fromiter(found, np.dtype((np.int64, 2)))
            crossed.append(
                (self._list_sequences(degrees), self._list_replicas(degrees), batches[share])
            )
        return tuple(crossed), tuple(runs)

    @property
    def size(self) -> int:
        """The number of layouts."""
        return sum(int(np.count_nonzero(rows.valid)) for rows in self.yield_blocks())

    def find_startable(self, rows: SpaceRows) -> Array:
        """Return which choices of some rows the launcher can start, as (zero, recompute, rows).
        Most rules test only whether a degree is above 1."""
        assert self.launcher is not None
        if self.launcher.of_sizes:
            told = np.stack(rows.columns)
        else:
            above = (tuple(n > 1 for n in degrees.values) for degrees in self.degrees)
            _, kinds = encode_values(above, rows.of_degrees)
            told = np.stack((kinds, rows.of_run, rows.of_sequence, rows.of_replicate > 1))
        distinct, first, places = np.unique(told, axis=1, return_index=True, return_inverse=True)
        keys = [(*key, self.stages, self.recompute) for key in distinct.T.tolist()]
        for key, row in zip(keys, first.tolist(), strict=True):
            if key not in self._started:
                self._started[key] = self._can_start(rows, row)
        return np.stack([self._started[key] for key in keys], axis=2)[:, :, places.ravel()]

    def _can_start(self, rows: SpaceRows, row: int) -> Array:
        """Return whether the launcher can start a row, as (zero, recompute)."""
        assert self.launcher is not None
        found = np.zeros(rows.shape[:2], dtype=bool)
        for zero, mode in np.ndindex(*found.shape):
            changes = rows.build_changes(int(np.ravel_multi_index((zero, mode, row), rows.shape)))
            chosen = {k: v for k, v in changes.items() if k in KEYS and v is not None}
            data = chosen["parallelism.data"] = self.degrees[rows.of_degrees[row]].data
            batch, micro = self.plan.get("training.global_batch"), chosen["training.micro_batch"]
            chosen["training.gradient_accumulation"] = batch // (data * micro)
            found[zero, mode] = self.launcher.can_start(chosen)
        return found

    @cached_property
    def alone(self) -> tuple[bool, ...]:
        """For each combination of degrees, whether no two devices hold the same weights; then ZeRO
        has nothing to shard, and all stages equal stage 0 unless layers are fetched."""
        copies = ((d.named["context"], *self.derive_sizes(d).values()) for d in self.degrees)
        return tuple(math.prod(several) == 1 and not self.fetched for several in copies)

    @property
    def stacked(self) -> Array:
        """Whether the plan's stack runs a combination of degrees under a ZeRO stage, as (zero,
        degrees)."""

        def find(stage: int) -> list[bool]:
            """List it for each combination of degrees."""
            limits = self._find_limits({stacks.ZERO: stage}).items()
            known = [(key, values) for key, values in limits if key in (*OUTER, *INNER)]
            return [all(d.changes[key] in values for key, values in known) for d in self.degrees]

        return self._once(("stacked", *self.said), lambda: np.array([*map(find, self.said)]))

    def _find_limits(self, known: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
        """Find what the plan's stack runs, by key, where the keys of the layout are known that are
        given."""

        def get(key: str) -> Any:
            """Return a value of the layout, or of the plan."""
            return known.get(key) if key in KEYS else self.plan.get(key)

        return stacks.find_choices(self.plan.get("training.stack"), get)

    @property
    def zero(self) -> tuple[int, ...]:
        """The ZeRO stages to evaluate: ``stages``, and 0 where it represents them."""
        return self.stages if 0 in self.stages or not any(self.alone) else (0, *self.stages)

    @property
    def said(self) -> tuple[int, ...]:
        """The ZeRO stages that layouts report, for each element of ``zero``."""
        return tuple(stage if stage in self.stages else self.stages[0] for stage in self.zero)

    def derive_sizes(self, degrees: Degrees) -> dict[str, int]:
        """Return the sizes that follow from degrees: devices that hold the same part of the model,
        and of the experts."""
        devices, named = self.plan.get("cluster.devices"), degrees.named
        return {
            f"parallelism.{name}": devices // math.prod(named[other] for other in over)
            for name, over in layout.QUOTIENTS.items()
            if name not in layout.AFTER_EXPERTS or self.plan.get("model.moe")
        }

    @cached_property
    def untried(self) -> Array:
        """For each combination of degrees, whether nobody is known to have run it, (degrees,)."""
        own = [{**one.changes, **one.kernels} for one in self.degrees]
        find = [partial(lambda key, kept: kept.get(key, self.plan.get(key)), kept=k) for k in own]
        return np.array([any(stacks.iter_untried(get)) for get in find])

    @cached_property
    def plain(self) -> Array:
        """For each combination of degrees: the number of kinds of parallelism, their product, and
        whether its kernels are a choice, as (3, degrees)."""
        values = np.array([degrees.values for degrees in self.degrees])
        said = [degrees.said for degrees in self.degrees]
        return np.stack(((values > 1).sum(axis=1), values.prod(axis=1), said))

    def yield_blocks(self, most: int = 65_536) -> Iterator[SpaceRows]:
        """Yield all rows, in blocks of about ``most``."""
        made: dict[Any, Array] = {}  # rows that many combinations of degrees share
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
    """Rows of a space, with evaluated quantities, if any.

    Attributes:
        space: the space that the indices refer to.
        values: quantities by id, as (zero, recompute, rows); NaN where one is absent.
    """

    space: Space
    values: Mapping[str, Array] = field(default_factory=dict, kw_only=True)

    def take(self, places: Array | slice, values: Mapping[str, Array] | None = None) -> SpaceRows:
        """Return some of the rows, by their indices (rows,) or a slice, with their quantities."""
        columns = (column[places] for column in self.columns)
        return SpaceRows(self.space, *columns, values=values or {})

    def of(self, quantity: str, places: Array) -> Array:
        """Return a quantity of some layouts, by their indices, both (layouts,)."""
        found: Array = self.values[quantity].ravel()[places]
        return found

    def within(self, limits: Iterable[Limit], kept: Array | None = None) -> Array:
        """Return which layouts satisfy some limits, as (zero, recompute, rows), out of ``kept``, by
        default all that are valid."""
        found = self.valid if kept is None else kept
        for limit in limits:
            found = found & limit.is_met(self.values[limit.quantity])
        return found

    def filter_rows(self, options: Mapping[str, Sequence[Any]]) -> SpaceRows:
        """Filter the rows in which each of some keys (degrees or own columns) has a given value."""
        kept = np.full(len(self), True)
        for key, values in options.items():
            own = self.own.get(key)
            if own is None:
                own = np.array([d.changes[key] for d in self.space.degrees])[self.of_degrees]
            kept &= np.isin(own, values)
        return self.take(np.flatnonzero(kept))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of ZeRO stages, recomputation modes and rows. A layout is identified by its index
        in the flattened arrays of this shape."""
        return len(self.space.zero), len(self.space.recompute), len(self)

    @cached_property
    def valid(self) -> Array:
        """Which choices each row may take, as (zero, recompute, rows): replicas require
        sharding."""
        space = self.space
        stages = np.array(space.zero)[:, None, None]
        found = (stages > 0) | (self.of_replicate == 1)
        alone = np.array(space.alone)[self.of_degrees]
        found = found & np.where(alone, stages == 0, np.isin(stages, space.stages))
        found = found & space.stacked[:, None, self.of_degrees]
        if space.launcher is not None:
            found = found & space.find_startable(self)
        return np.broadcast_to(found, self.shape)

    def find_untried(self, places: Array) -> Array:
        """Find which layouts nobody is known to have run, by their indices, both (layouts,)."""
        return np.asarray(self.space.untried[self.of_degrees[places % len(self)]])

    def score_simplicity(self, places: Array) -> Array:
        """Return the simplicity score of layouts, by their indices, both (layouts,); least is
        simplest.

        Most significant first: the number of kinds of parallelism; an uncommon schedule;
        the product of the degrees; virtual stages; the ZeRO stage; then the schedule, an uneven cut
        of the layers, how much is recomputed, whether a residual stream that could be divided is
        not, kernels of another implementation, the micro-batch.
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
            (19, product_ * replicas),
            (8, virtual),
            (2, np.array(space.said)[zero]),
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
        the index of the value at each position, as (zero,), (recompute,) and (rows,)."""
        space, degrees, runs = self.space, self.space.degrees, self.space.runs
        along = {
            key: encode_values((d.changes[key] for d in degrees), self.of_degrees)
            for key in (*OUTER, *INNER)
        }
        along[KERNELS] = encode_values((d.implementation for d in degrees), self.of_degrees)
        for number, key in enumerate(layout.RUN):
            along[key] = encode_values((run[number] for run in runs), self.of_run)
        for key, own in self.own.items():
            values, places = np.unique(own, return_inverse=True)
            along[key] = encode_values((type(ROW[key].neutral)(v) for v in values), places)
        for key, value in space.varied.items():
            one = tuple(value) if isinstance(value, list) else value
            along[key] = encode_values((one,), np.zeros(len(self), dtype=np.int64))
        zero, recompute = (
            list[Choices]([(key, *encode_values(options, np.arange(length)))])
            for key, options, length in zip(
                layout.AXES, (space.said, space.recompute), self.shape[:2], strict=True
            )
        )
        return zero, recompute, [(key, *found) for key, found in along.items()]

    def build_changes(self, place: int) -> dict[str, Any]:
        """Return a layout by its index as changes of the plan, None for keys that follow."""
        space = self.space
        zero, recompute, row = np.unravel_index(place, self.shape)
        degrees, run = space.degrees[self.of_degrees[row]], space.runs[self.of_run[row]]
        values = {**degrees.changes, **dict(zip(layout.RUN, run, strict=True))}
        values |= zip(layout.AXES, (space.said[zero], space.recompute[recompute]), strict=True)
        for key, column in self.own.items():
            values[key] = type(ROW[key].neutral)(column[row])
        own = {key: values[key] for key in KEYS}
        return {**space.varied, **space.base, **own, **degrees.kernels}

    def build_setting(self, place: int) -> Setting:
        """Return a layout by its index, with what follows from it unless the plan sets that."""
        space, row = self.space, place % len(self)
        degrees = space.degrees[self.of_degrees[row]]
        found = {
            **space.derive_sizes(degrees),
            "training.gradient_accumulation": degrees.share // int(self.of_batch[row]),
            **dict(zip(layout.OWN_CHOICE, (degrees.implementation, degrees.loss), strict=True)),
        }
        open_ones = space.base.keys() - degrees.kernels.keys()
        follows = {k: found[k] for k in layout.FOLLOWS if k in open_ones and k in found}
        return Setting(self.build_changes(place), follows)


@cache_last(4)
def _get_cache(*rests_on: Any) -> dict[Any, Any]:
    """Return the cache of all spaces with the same inputs, empty at first."""
    return {}
