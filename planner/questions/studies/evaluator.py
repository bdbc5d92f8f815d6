"""The points of a piece of a study as batches of plans.

Dimensions along which only inputs of formulas change (dimensions.py) stay axes of the arrays.
Along the others each place is a plan: where only layouts differ these are completed together
(checking.py), else one after another. Plans that can share a graph are one batch
(planner.questions.batch).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from planner.base.errors import PlanError
from planner.base.lockstep import Lockstep
from planner.base.recent import pause_caches
from planner.engine import instance
from planner.engine.arrays.table import Array, Codes, Group, Table
from planner.engine.evaluate import Absent
from planner.engine.in_turn import keep_graphs
from planner.plans.layout import AXES, FOLLOWS, KEYS, OWN, OWN_CHOICE, RUN
from planner.plans.plan import begin_plan, change_document
from planner.questions import loading
from planner.questions.batch import KIND, LANE, Batch
from planner.questions.batch_graph import (
    BatchGraph,
    Kind,
    collect_lanes,
    list_deciders,
    make_graph_key,
)
from planner.questions.batch_rows import INNER, OUTER, Crossed, Degrees, Rows, encode_values
from planner.questions.studies import points
from planner.questions.studies.axes import AUTO, LAYOUT, collect_keys
from planner.questions.studies.checking import MISSING, SECTIONS, Drafts, KeyColumn
from planner.questions.studies.dimensions import INPUTS, LAYOUTS, NUMBERS, classify_axes
from planner.questions.studies.points import LAYOUT_FOUND, REASON, Points
from planner.questions.studies.study import StudySpec, merge_changes, sort_changes

_, SCHEDULE, _ = RUN
SEQUENCE, REPLICAS, _ = OWN
#: Keys of a combination of degrees.
OF_DEGREES = (*OUTER, *INNER, "parallelism.data", *OWN_CHOICE)
#: Keys in which the plans of a kind differ, and keys that follow from these.
TOLD = (*KEYS, *FOLLOWS, "training.distributed_optimizer")
#: The fewest plans with other numbers that are completed together, also as a share of those left;
#: how often fewer may be; and how many are tried for whether any are.
FEWEST, LEAST_SHARE, MOST_FAILURES, SAMPLE = 8, 1 / 256, 2, 64
#: Keys that completing a plan expands to others, or refuses, before its checks.
SPELLED = ("parallelism.stages", "parallelism.margin", "parallelism.for")


class Evaluator:
    """Evaluates pieces of one study; caches the plans of the last piece."""

    def __init__(self, study: StudySpec) -> None:
        """Collect what a study needs at each point, numbers and names apart."""
        self.study, self.differences = study, classify_axes(study)
        self.names = tuple(filter(points.is_name, points.list_needed(study)))
        self.quantities = tuple(
            name for name in points.list_needed(study) if name not in self.names
        )
        self._plans: _Plans | None = None  # of the last piece

    @keep_graphs()
    def evaluate_points(self, ranges: Sequence[range]) -> Points:
        """Evaluate the points of a piece."""
        inputs = [one == INPUTS for one in self.differences]
        slow, fast = (
            [r if one is wanted else range(1) for r, one in zip(ranges, inputs, strict=True)]
            for wanted in (False, True)
        )
        plans = self._plans
        if plans is None or plans.ranges != slow:
            plans = self._plans = None  # freed before the next are made: memory stays flat
            plans = self._plans = _Plans(self, slow)
        values = _Values(plans, fast)
        for group in plans.groups:
            values.add_group(group)
        if self.names:
            values.add_names(self.names)
        # In the arrays here dimensions of plans come first, those of inputs last.
        order = np.argsort(inputs, kind="stable")
        lengths = [len(slow[axis]) for axis in order if not inputs[axis]]

        def over(array: Array) -> Array:
            """Return values (plans, …inputs) as (dimension, …)."""
            beside = array.shape[1:] or [1] * sum(inputs)
            found: Array = array.reshape((*lengths, *beside)).transpose(np.argsort(order))
            return found

        numbers = {name: over(array) for name, array in values.numbers.items()}
        of_kind = over(plans.of_kind)
        settings = [kind.case.settings for kind in plans.kinds]
        words = {**values.words, REASON: values.reasons}
        if self.study.searches:
            words[LAYOUT_FOUND] = plans.words
        return Points(
            self.study,
            ranges,
            numbers | points.compute_ends(self.study, numbers, settings, of_kind),
            {name: over(array) for name, array in words.items()},
            of_kind >= 0,
        )


class _Plans:
    """The plans of a piece, one for each place along the dimensions other than inputs; along those
    of inputs ``ranges`` has one place.

    Arrays have the shape (plans,).
    """

    def __init__(self, evaluator: Evaluator, ranges: Sequence[range]) -> None:
        """Complete the plans of a piece; where only layouts or numbers differ, together.

        Args:
            evaluator: the study, and what differs along each of its dimensions.
            ranges: the places of the piece along each dimension.
        """
        self.evaluator, self.study, self.ranges = evaluator, evaluator.study, ranges
        self.place_points(points.numbers_of(self.study, ranges).ravel())
        differ = evaluator.differences
        layouts = [n for n, one in enumerate(differ) if one in (LAYOUTS, NUMBERS)]
        complete = self._complete_numbers if NUMBERS in differ else self._complete_layouts
        rows = np.arange(self.size).reshape([len(r) for r in ranges])
        heads: Any = (
            [slice(None)] if n in layouts else range(len(r)) for n, r in enumerate(ranges)
        )
        for head in product(*heads):
            complete(rows[head].ravel(), layouts)

    def place_points(self, numbers: Array) -> None:
        """Begin with the first point of each plan, by its number in the study, (plans,)."""
        self.points, self.size = numbers, len(numbers)
        self.reasons = np.full(self.size, "", dtype=object)  # why there is no plan
        self.columns = {key: KeyColumn(np.zeros(self.size, dtype=np.int64)) for key in TOLD}
        self.kinds: list[Kind] = []
        self.of_kind = np.full(self.size, -1)  # of no plan
        self.of_lane = np.zeros(self.size, dtype=np.int64)  # of its kind
        self.words = np.full(self.size, "", dtype=object)  # layouts that were found

    # -- completing them ------------------------------------------------------------------------

    def _complete_numbers(self, rows: Array, along: Sequence[int]) -> None:
        """Complete plans that differ in numbers along some dimensions, as many at once as go the
        same way: those of one kind. Where few do, the rest is completed one by one."""
        failures, left = 0, rows
        while len(left) >= FEWEST and failures < MOST_FAILURES:
            run = Lockstep(len(left), len(left) // 2)
            self.follow_first(left, along, run)
            few = np.count_nonzero(run.active) < max(FEWEST, len(left) * LEAST_SHARE)
            failures += int(few)
            left = left[~run.active]
        for row in left.tolist():
            self._complete_plan(row)

    @pause_caches()  # which would keep numbers of one run for another
    def follow_first(self, rows: Array, along: Sequence[int], run: Lockstep) -> None:
        """Complete the plan of the first lane, for all lanes that stay active.

        Args:
            rows: the plans of all lanes, (lanes,).
            along: dimensions along which they differ.
            run: the run of the lanes; those whose plan is completed another way leave it.
        """
        row, changes = int(rows[run.first]), {}
        places = np.unravel_index(self.points[rows], self.study.shape)
        document = self.study.build_document(int(self.points[row]), along)
        try:
            for number in along:
                for axis in self.study.dimensions[number]:
                    values = [axis.choices[place].changes[axis.name] for place in places[number]]
                    changes[axis.name] = run.make_lanes(values)
            document = change_document(document, sort_changes(changes))
            several = instance.build(loading.complete_document(document))
            plan = self.study.build_plan(int(self.points[row]))
            case = instance.build(plan)
            lanes = collect_lanes(run, several, case)
        except PlanError as error:
            self.reasons[rows[run.active]] = run.write_texts(points.join_faults(error))
            return
        except (TypeError, ValueError, ArithmeticError):  # what lanes cannot go through
            run.active[:] = np.arange(len(rows)) == run.first
            self._complete_plan(row)
            return
        finally:
            run.ended = True
        inside = rows[run.active]
        self._store_kind(inside, Kind(plan, case, lanes, len(inside)))
        self.of_lane[inside] = np.arange(len(inside))

    def _complete_layouts(self, rows: Array, layouts: Sequence[int]) -> None:
        """Complete plans that differ in their layouts only, along some dimensions."""
        try:
            drafts = self._build_drafts(rows, layouts) if layouts else None
        except PlanError as error:  # whatever the layout
            self.reasons[rows] = points.join_faults(error)
            return
        if drafts is not None:
            self._store_drafts(rows, drafts)
            return
        for row in rows.tolist():
            self._complete_plan(row)

    def _complete_plan(self, row: int) -> None:
        """Complete a plan by itself, as a kind of its own."""
        try:
            plan = self.study.build_plan(int(self.points[row]))
        except PlanError as error:
            self.reasons[row] = points.join_faults(error)
            return
        stated = self.study.build_document(int(self.points[row])).data.get(LAYOUT) or {}
        if stated.get(AUTO):  # the layout is to be found
            self.words[row] = points.write_layout(plan)
        self._store_kind(np.array([row]), Kind(plan, instance.build(plan)))

    def _store_kind(self, rows: Array, kind: Kind) -> None:
        """Store a kind with one layout in the rows that it belongs to, (rows,)."""
        self.of_kind[rows] = len(self.kinds)
        self.kinds.append(kind)
        for key, column in self.columns.items():
            column.of_row[rows] = column.code(kind.plan.get(key))

    def _build_drafts(self, rows: Array, layouts: Sequence[int]) -> Drafts | None:
        """Complete layouts' drafts together; None where a layout is not written as plain keys."""
        document = self.study.build_document(int(self.points[rows[0]]), layouts)
        if not all(isinstance(document.data.get(name), Mapping) for name in SECTIONS):
            return None
        draft, model = begin_plan(document)
        drafts = Drafts(draft, model, len(rows))
        places = np.unravel_index(self.points[rows], self.study.shape)
        several = [(self.study.dimensions[number], number) for number in layouts]
        # A section before the keys inside it.
        for axes, number in sorted(several, key=lambda one: LAYOUT not in collect_keys(one[0])):
            ranged = self.ranges[number]
            choices = (merge_changes(axes, place) for place in ranged)
            changes = [_expand_changes(choice, document.data[LAYOUT]) for choice in choices]
            drafts.assign_changes(places[number] - ranged.start, changes)
        if any(isinstance(v, str) for key in SPELLED for v in drafts.get_column(key).values):
            return None
        drafts.run_steps()
        return drafts

    def _store_drafts(self, rows: Array, drafts: Drafts) -> None:
        """Store completed drafts in the rows that they belong to."""
        faults, of_faults = drafts.faults
        reasons = [points.join_faults(PlanError(several)) if several else "" for several in faults]
        self.reasons[rows] = np.array(reasons, dtype=object)[of_faults]
        for key, column in self.columns.items():
            own = drafts.get_column(key)
            codes = np.array([column.code(value) for value in own.values])
            column.of_row[rows] = codes[own.of_row]
        valid = np.flatnonzero(self.reasons[rows] == "")
        if not len(valid):
            return
        tell = [key for key in drafts.columns if key not in TOLD or key in OWN_CHOICE]
        table = Table(len(valid), {key: drafts.columns[key].encode_rows(valid) for key in tell})
        group = table.build_group(table.all.mask)
        self.of_kind[rows[valid]] = len(self.kinds) + group.of_rows
        for row in rows[valid][group.first].tolist():
            plan = self.study.build_plan(int(self.points[row]))
            self.kinds.append(Kind(plan, instance.build(plan)))

    # -- those that share a graph ---------------------------------------------------------------

    @cached_property
    def groups(self) -> list[_Group]:
        """The plans, grouped by the graph that they can share."""
        shapes, of_kinds = encode_values(
            map(make_graph_key, self.kinds), np.arange(len(self.kinds))
        )
        of_rows = np.append(of_kinds, -1)[self.of_kind]  # the last one is of no plan
        return [_Group(self, np.flatnonzero(of_rows == place)) for place in range(len(shapes))]


def is_together(study: StudySpec, along: Sequence[int]) -> bool:
    """Decide whether any plans of a study are completed together, by a sample of them.

    Args:
        study: the study.
        along: dimensions along which numbers differ.

    Returns:
        Whether more than one plan of the sample goes the same way.
    """
    lengths = [study.shape[number] for number in along]
    rows = np.unique(np.linspace(0, math.prod(lengths) - 1, SAMPLE).astype(np.int64))
    places = np.zeros((len(study.shape), len(rows)), dtype=np.int64)
    places[list(along)] = np.unravel_index(rows, lengths)
    plans = _Plans(Evaluator(study), [range(0) for _ in study.shape])
    plans.place_points(np.asarray(np.ravel_multi_index(tuple(places), study.shape)))
    run = Lockstep(len(rows), len(rows) // 2)
    plans.follow_first(np.arange(len(rows)), along, run)
    return bool(np.count_nonzero(run.active) > 1)


def _expand_changes(changes: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Expand changes of a layout key by key, also where it is replaced as a whole."""
    found: dict[str, Any] = {}
    for key, value in sort_changes(changes).items():
        if key != LAYOUT:
            found[key] = MISSING if value is None else value
        elif value is not None:
            found |= {f"{key}.{name}": value.get(name, MISSING) for name in (*layout, *value)}
    return found


class _Group:
    """Plans of a piece that can share a graph, as the layouts of a batch: each is a row with a ZeRO
    stage and a mode of activation checkpointing. Arrays have the shape (plans of the group,)."""

    def __init__(self, plans: _Plans, rows: Array) -> None:
        """Encode the plans as rows of a batch.

        Args:
            plans: all plans of the piece.
            rows: indices of those of the group, (plans of the group,).
        """
        self.plans, self.rows = plans, rows
        self.graphs: list[BatchGraph] = []  # made for these
        of_kind = plans.of_kind[rows]
        columns = {key: column.encode_rows(rows) for key, column in plans.columns.items()}
        lanes = Codes(plans.of_lane[rows], max(plans.kinds[k].size for k in {*of_kind.tolist()}))
        self.table = Table(
            len(rows), {**columns, KIND: Codes(of_kind, len(plans.kinds)), LANE: lanes}
        )
        self.axes, crossed = [], []  # for each of ``AXES`` the index of each plan's value
        for key in AXES:
            places, codes = np.unique(columns[key].of_row, return_inverse=True)
            self.axes.append(codes.ravel())
            crossed.append(tuple(plans.columns[key].values[place] for place in places))
        self.zero, self.recompute = crossed
        own, of_runs = (*OF_DEGREES, KIND), self._group_rows(RUN)
        of_degrees, found = self._group_rows(own), self._group_rows((*own, *RUN, *OWN, LANE))
        self.of_rows, self.first = found.of_rows, found.first
        self.of_degrees, self.of_run = of_degrees.of_rows, of_runs.of_rows
        self.runs = tuple(self._read_values(RUN, of_runs.first))
        values = self._read_values(OF_DEGREES, of_degrees.first)
        self.degrees = tuple(map(self._build_degrees, of_kind[of_degrees.first].tolist(), values))

    def _group_rows(self, keys: Sequence[str]) -> Group:
        """Group the plans that agree in some keys."""
        return self.table.build_group(self.table.encode_mask(keys))

    def _read_values(self, keys: Sequence[str], rows: Array) -> list[Any]:
        """Return the values of some keys in some plans of the group, (rows,), a tuple for each."""
        columns = [self.plans.columns[key] for key in keys]
        return [tuple(column.at(row) for column in columns) for row in self.rows[rows].tolist()]

    def _build_degrees(self, number: int, values: Sequence[Any]) -> Degrees:
        """Build degrees from the values of ``OF_DEGREES``; ``number`` is the index of their
        kind."""
        *sizes, data, implementation, loss = values
        share = self.plans.kinds[number].plan.get("training.global_batch") // data
        return Degrees(tuple(sizes), data, share, implementation, loss, others=number)

    def get_kind(self, degrees: Degrees) -> Kind:
        """Return the kind of the plans with some degrees."""
        return self.plans.kinds[degrees.others]

    @cached_property
    def crossed(self) -> tuple[Crossed, ...]:
        """The settings with which each combination of degrees occurs. Pipelines are the same for
        equal stages and shares of the batch."""
        of_shares = defaultdict[Any, set[tuple[int, int]]](set)
        found = [
            (set[bool](), set[int](), of_shares[d.named["pipeline"], d.share, d.others])
            for d in self.degrees
        ]
        first = self._group_rows((*OF_DEGREES, KIND, *RUN, *OWN)).first  # whatever the lane
        columns = (column[self.of_rows[first]].tolist() for column in self.held.columns)
        for place, run, *own in zip(*columns, strict=True):
            sequences, replicas, pipelines = found[place]
            sequences.add(bool(own[0]))
            replicas.add(own[1])
            pipelines.add((run, own[2]))
        return tuple(
            (tuple(sorted(sequences)), tuple(sorted(replicas)), np.array(sorted(pipelines)))
            for sequences, replicas, pipelines in found
        )

    @cached_property
    def held(self) -> Rows:
        """The rows of the batch."""
        rows, own = self.rows[self.first], []
        for key in OWN:
            column = self.plans.columns[key]
            places, codes = np.unique(column.of_row[rows], return_inverse=True)
            own.append(np.array([column.values[place] for place in places], dtype=np.int64)[codes])
        found = self.of_degrees[self.first], self.of_run[self.first]
        columns = (*found, *own, self.plans.of_lane[rows])
        return Rows(self, *columns)

    def yield_deciders(self, batch: Batch) -> Iterator[Codes]:
        """Yield columns that may decide why a quantity is absent: which inputs are absent and why,
        then settings of the plans."""
        names, kinds = sorted(list_deciders()), self.plans.kinds
        given = [tuple(kind.absent.items()) for kind in kinds]
        settings = [tuple(kind.case.settings.get(name) for name in names) for kind in kinds]
        for values in (given, settings):
            found, codes = encode_values(values, self.table.columns[KIND].of_row)
            yield Codes(codes, len(found))
        for key in (SCHEDULE, SEQUENCE, *AXES, *OWN_CHOICE):
            yield self.table.columns[key]
        replicas = np.searchsorted(batch.replicas, self.held.of_replicate)[self.of_rows]
        for places, distinct in batch.of_hardware.values():
            yield Codes(places[self.of_degrees, replicas], len(distinct))


class _Values:
    """The values at the points of a piece, as (plans, …input dimensions), of length 1 along input
    dimensions that change nothing."""

    def __init__(self, plans: _Plans, fast: Sequence[range]) -> None:
        """Begin without values.

        Args:
            plans: the plans of the piece.
            fast: the places along each dimension of inputs; one place along the others.
        """
        self.plans, self.study, self.quantities = plans, plans.study, plans.evaluator.quantities
        differ = zip(fast, self.study.dimensions, plans.evaluator.differences, strict=True)
        #: The places along each dimension of inputs, with its axes.
        self.fast = [(places, axes) for places, axes, one in differ if one == INPUTS]
        #: The offset of a point from the first one of its plan, as (…input dimensions).
        self.further = points.numbers_of(self.study, fast).reshape([len(r) for r, _ in self.fast])
        narrow = (plans.size, *(1 for _ in self.fast))
        self.numbers = {quantity: np.full(narrow, np.nan) for quantity in self.quantities}
        self.words: dict[str, Array] = {}
        self.reasons = plans.reasons.reshape(narrow).copy()

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The values of input keys, as (1, 1, 1, …) with the input dimensions last."""
        found = {}
        for number, (places, axes) in enumerate(self.fast):
            changes = [merge_changes(axes, place) for place in places]
            along = [1] * (3 + len(self.fast))
            along[3 + number] = len(places)
            for key in changes[0]:
                values = [float(changed[key]) for changed in changes]
                found[key] = np.array(values).reshape(along)
        return found

    def add_group(self, group: _Group) -> None:
        """Evaluate plans that share a graph and store their values."""
        batch = Batch(group, further=self.inputs, graphs=group.graphs, checked=True)
        zero, recompute = group.axes
        for part, found in batch.evaluate_rows(group.held, tuple(self.quantities)):
            inside = np.flatnonzero((group.of_rows >= part.start) & (group.of_rows < part.stop))
            places = zero[inside], recompute[inside], group.of_rows[inside] - part.start
            for name, array in found.items():
                values = array[places]
                values[~np.isfinite(values)] = np.nan
                whole = self.numbers[name] = _widen_array(self.numbers[name], array.shape[3:])
                whole[group.rows[inside]] = values
        self._explain_absent(group, batch)

    def _explain_absent(self, group: _Group, batch: Batch) -> None:
        """Explain absent quantities: one point is evaluated for each combination of what may
        decide. Where all are absent everywhere for one reason, only absent inputs decide, else
        settings too; in both cases, which other quantities are absent."""
        rows = group.rows
        recorded = (name for name in self.study.record if name in self.numbers)
        holes = {name: np.isnan(self.numbers[name][rows]) for name in recorded}
        holes = {name: array for name, array in holes.items() if array.any()}
        if not holes:
            return
        first = self._evaluate_point((rows[0], *(0 for _ in self.fast)), holes)
        several = [*group.yield_deciders(batch)]
        if all(
            array.all() and batch.absent.get(name) == getattr(first[name], "reason", None)
            for name, array in holes.items()
        ):
            del several[1:]
        shape = (len(rows), *np.broadcast_shapes(*(array.shape[1:] for array in holes.values())))
        beside = math.prod(shape[1:])
        columns = [Codes(np.repeat(codes.of_row, beside), codes.count) for codes in several]
        for array in holes.values():
            columns.append(Codes(np.broadcast_to(array, shape).ravel().astype(np.int64), 2))
        whole = Table(math.prod(shape), {str(n): codes for n, codes in enumerate(columns)})
        told = whole.build_group(whole.all.mask)
        reasons = [
            points.explain_missing(self._evaluate_point((rows[row], *point), holes))
            for row, *point in zip(*np.unravel_index(told.first, shape), strict=True)
        ]
        self.reasons = _widen_array(self.reasons, shape[1:])
        self.reasons[rows] = np.array(reasons, dtype=object)[told.of_rows].reshape(shape)

    def add_names(self, names: Sequence[str]) -> None:
        """Evaluate quantities that are words, which arrays cannot hold, point by point."""
        shape = (self.plans.size, *self.further.shape)
        self.words = {name: np.full(shape, None, dtype=object) for name in names}
        self.reasons = _widen_array(self.reasons, shape[1:])
        for at in np.ndindex(*shape):
            if self.plans.of_kind[at[0]] >= 0:
                values = self._evaluate_point(at, self.study.record)
                self.reasons[at] = points.explain_missing(values)
                for name in names:
                    self.words[name][at] = None if type(values[name]) is Absent else values[name]

    def _evaluate_point(self, at: Sequence[int], quantities: Iterable[str]) -> dict[str, Any]:
        """Evaluate quantities at one point, an index of (plans, …input dimensions)."""
        row, *point = at
        plan = self.study.build_plan(int(self.plans.points[row] + self.further[tuple(point)]))
        return points.evaluate_point(plan, quantities)


def _widen_array(array: Array, beside: tuple[int, ...]) -> Array:
    """Widen an array (plans, …input dimensions) to the shape ``beside`` of the latter."""
    wide = np.broadcast_shapes(array.shape[1:], beside)
    return array if array.shape[1:] == wide else np.broadcast_to(array, (len(array), *wide)).copy()
