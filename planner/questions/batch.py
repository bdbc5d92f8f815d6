"""Evaluate many plans as one batch: the rows share a graph, and what differs is a column.

Layouts differ in numbers (degrees, micro-batches), in settings (schedule, ZeRO stage, whether a
group spans nodes), in what their pipeline stages hold, and in which tensors their layers keep.
Plans that differ in anything else form *kinds*; one plan is built for each kind. A ``Batch`` has
one case for all rows (``batch_graph.py``): settings that differ are ``Varying``, pipelines with
fewer distinct stages repeat one, and a tensor that only some layouts keep has a condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from planner.base.errors import PlanError
from planner.book.expressions import Symbol
from planner.engine.arrays.program import CHUNK, Program, Values
from planner.engine.arrays.table import Array, Codes, Table
from planner.engine.evaluate import Absent, Entry
from planner.engine.graph import Content
from planner.plans import hardware, schedules
from planner.plans.document import Draft
from planner.plans.layout import AXES, DEGREES, KEPT, OWN, ROW, RUN
from planner.questions.batch_graph import GRAPHS, BatchGraph, Variety, find_graph, list_deciders
from planner.questions.batch_pipelines import Pipelines
from planner.questions.batch_rows import Layouts, Rows, encode_values

ZERO, RECOMPUTE = AXES
SEQUENCE, REPLICAS, MICRO_BATCH = OWN
_, SCHEDULE, _ = RUN
#: Settings that each row sets itself.
OF_ROWS = (SCHEDULE, *OWN, *AXES)
#: The column of a plan's kind: what it is besides its layout; and that of the lanes of all kinds.
KIND, LANE = "kind", "lane"


class Batch:
    """Layouts as one case, a table for each block of rows, and their values.

    Args:
        layouts: the rows.
        absent: collects, with the reason, the requested quantities that no layout has.
        further: values of keys outside the layout that every row is crossed with: arrays
            (1, 1, 1, …), each along one or more of the axes that follow the rows.
        graphs: graphs to reuse; a new one is added. Which is used affects how numbers are rounded.
        checked: whether values outside of their ranges become absent (``ArrayGraph``).
    """

    def __init__(
        self,
        layouts: Layouts,
        absent: dict[str, str] | None = None,
        further: Mapping[str, Array] | None = None,
        graphs: list[BatchGraph] = GRAPHS,
        checked: bool = False,
    ) -> None:
        self.layouts, self.further = layouts, further or {}
        self.absent: dict[str, str] = {} if absent is None else absent
        self.axes = (len(layouts.zero), len(layouts.recompute))
        #: Lengths of the further axes.
        self.beside = np.broadcast_shapes(*(array.shape for array in self.further.values()))[3:]
        self.worth: dict[Content, Any] = {}  # values of leaves that are the same in all tables
        every = np.arange(len(layouts.degrees))
        keys, of_degrees = encode_values((degrees.kind for degrees in layouts.degrees), every)
        self.kind_of: list[int] = of_degrees.tolist()
        first = (layouts.degrees[self.kind_of.index(place)] for place in range(len(keys)))
        kinds = {degrees.kind: layouts.get_kind(degrees) for degrees in first}
        self.kinds = tuple(kinds.values())
        for kind in self.kinds:
            if kind.plan.settings[SCHEDULE] == schedules.OWN:
                wrong = "searches and studies support built-in schedules only"
                place = kind.plan.document.find_place(("training", "schedule"))
                raise PlanError(wrong, place, "a name, or evaluate this plan alone")
        #: Index of each kind's first lane among those of all.
        self.first_lane = np.cumsum([0, *(kind.size for kind in self.kinds)])
        self.shaped = self.kinds[0].plan.model is not None
        self.pipelines = Pipelines(layouts, self.kinds, self.kind_of) if self.shaped else None
        named = tuple((keys[place], *kept) for place, *kept in self.keeping)
        shapes = [*self.pipelines.shapes] if self.pipelines else []
        # Number of distinct stages of the pipeline that has most.
        slots = len(max(shapes, key=len, default=()))
        variety = Variety(kinds, self.varying, named, slots, checked)
        self.graph = find_graph(variety, graphs)
        made = self.graph.variety
        # Indices of our stages, modes and tensor conditions among the graph's.
        self.places = np.ix_(
            *([made.varying[axis].index(v) for v in self.varying[axis]] for axis in AXES),
            [made.keeping.index(keeping) for keeping in named],
        )
        if self.pipelines:
            #: The line of each slot, as (shapes, slots); one with fewer stages repeats them.
            self.slots = np.stack([np.resize(shape, made.slots) for shape in shapes])
            self.lines = self.pipelines.build_lines()

    @cached_property
    def of_degrees(self) -> Mapping[str, Array]:
        """Columns (degrees,) of the combinations of degrees: values, and the index of the kind."""
        degrees = self.layouts.degrees
        columns = {
            f"parallelism.{name}": np.array([d.named[name] for d in degrees]) for name in DEGREES
        }
        columns["parallelism.data"] = np.array([d.data for d in degrees])
        columns[KIND] = np.array(self.kind_of)
        return columns

    # -- settings -----------------------------------------------------------------------------

    @cached_property
    def replicas(self) -> tuple[int, ...]:
        """Distinct numbers of replicas, in increasing order."""
        return tuple(sorted({r for _, replicas, _ in self.layouts.crossed for r in replicas}))

    @cached_property
    def pairs(self) -> Array:
        """Indices of the combinations of degrees and of replicas that occur, as (2, pairs)."""
        every = enumerate(self.layouts.crossed)
        found = [(place, self.replicas.index(n)) for place, (_, some, _) in every for n in some]
        return np.array(found).T

    @cached_property
    def of_hardware(self) -> Mapping[str, tuple[Array, tuple[Any, ...]]]:
        """Settings that depend on the hardware, as codes (degrees, replicas) and values; settings
        that equal the first kind's everywhere are left out."""
        settings = []
        for place, replicas in self.pairs.T.tolist():
            degrees, base = self.layouts.degrees[place], self.kinds[self.kind_of[place]].plan
            layout = {**base.data["parallelism"], **degrees.named}
            layout |= {"data": degrees.data, "replicate": self.replicas[replicas]}
            draft = Draft(base.document, {**base.data, "parallelism": layout})
            settings.append(hardware.pick_settings(draft))
        places = np.zeros((len(self.layouts.degrees), len(self.replicas)), dtype=np.int64)
        places[tuple(self.pairs)] = np.arange(len(settings))
        names = dict.fromkeys(name for one in settings for name in one if name in list_deciders())
        found = {name: encode_values((one.get(name) for one in settings), places) for name in names}
        of_kind = self.kinds[0].case.settings  # without replicas
        return {
            name: (at, tuple(values))
            for name, (values, at) in found.items()
            if values != [of_kind.get(name)]
        }

    @cached_property
    def following(self) -> Mapping[str, tuple[str, Array]]:
        """Settings that one column determines: the column, and the index of the setting's value for
        each of the column's codes."""
        columns = {key: table[self.pairs[0]] for key, table in self.of_degrees.items()}
        columns[REPLICAS] = self.pairs[1]
        found = {
            name: (KIND, encode_values(values, np.arange(len(values)))[1])
            for name, values in self.of_kinds.items()
        }
        for name, (codes, _) in self.of_hardware.items():
            for key, column in columns.items():
                both = np.stack((column, codes[tuple(self.pairs)]))
                distinct, told = np.unique(both, axis=1)
                if len(np.unique(distinct)) == len(distinct):
                    found[name] = key, told
                    break
        return found

    @cached_property
    def of_kinds(self) -> Mapping[str, tuple[Any, ...]]:
        """Settings that differ between kinds, with one value per kind."""
        settings = [kind.case.settings for kind in self.kinds]
        others = list_deciders() - {*OF_ROWS, *self.of_hardware}
        names = dict.fromkeys(name for one in settings for name in one if name in others)
        found = {name: tuple(one.get(name) for one in settings) for name in names}
        return {name: values for name, values in found.items() if len(set(values)) > 1}

    @cached_property
    def varying(self) -> Mapping[str, tuple[Any, ...]]:
        """Settings that differ between layouts, with their values in the order of the codes."""
        found: dict[str, tuple[Any, ...]] = {
            **{key: ROW[key].values for key in OWN if ROW[key].values},
            SCHEDULE: tuple(dict.fromkeys(s for _, s, _ in self.layouts.runs)),
            ZERO: self.layouts.zero,
            RECOMPUTE: self.layouts.recompute,
        }
        found |= {name: values for name, (_, values) in self.of_hardware.items()}
        found |= {name: tuple(dict.fromkeys(v)) for name, v in self.of_kinds.items()}
        return found

    @cached_property
    def keeping(self) -> tuple[tuple[Any, ...], ...]:
        """What decides which tensors a row keeps: its kind, and each of ``KEPT``, capped at 2.
        Empty for models without a shape."""
        found: dict[tuple[Any, ...], None] = {}
        for number, (sequences, _, batches) in enumerate(self.layouts.crossed):
            said: dict[str, Any] = {key: table[number] for key, table in self.of_degrees.items()}
            said |= {SEQUENCE: sequences, MICRO_BATCH: batches[:, 1]}
            values = (np.unique(np.minimum(said[key], 2)).tolist() for key in KEPT)
            found |= dict.fromkeys(product((self.kind_of[number],), *values))
        return tuple(found) if self.shaped else ()

    # -- a block of rows ----------------------------------------------------------------------

    def evaluate_rows(
        self, rows: Rows, *groups: tuple[str, ...]
    ) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Evaluate quantities of some rows, in stretches that fit a core's cache.

        Args:
            rows: the rows to evaluate.
            groups: ids of quantities; those of a group share a graph.

        Yields:
            A stretch of the rows and its quantities by id, each as (zero, recompute, rows, …) with
                the further axes last; NaN where a quantity is absent. Along a further axis on which
                it does not vary, a quantity has length 1.
        """
        columns, numbers = self._build_columns(rows)
        table = Table(len(rows), columns)
        leaf, beside = partial(self._compute_leaf, numbers), np.ones_like(self.beside)
        graphs = [self.graph.compile_graph(quantities) for quantities in groups]
        programs = [
            Program(found.graph, found.roots.values(), table, leaf, len(beside)) for found in graphs
        ]
        for found in graphs:
            self.absent |= found.absent
        step = max(1, CHUNK // math.prod((*self.axes, *self.beside)))
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            values: dict[str, Array] = {}
            for found, program in zip(graphs, programs, strict=True):
                roots = program.run_rows(part, self.axes)
                values |= {name: roots[node] for name, node in found.roots.items()}
                shape = (*self.axes, part.stop - part.start, *beside)
                values |= dict.fromkeys(found.absent, np.broadcast_to(np.nan, shape))
            yield part, values

    def _build_columns(self, rows: Rows) -> tuple[dict[str, Codes], dict[str, Array]]:
        """Build the columns of a table, and the values that codes of numeric columns stand for."""
        columns = {SEQUENCE: Codes(rows.of_sequence, len(ROW[SEQUENCE].values))}
        numbers: dict[str, Array] = {}
        virtual, replicas = np.array([run[0] for run in self.layouts.runs]), np.array(self.replicas)
        replica = np.searchsorted(replicas, rows.of_replicate)
        share = np.array([degrees.share for degrees in self.layouts.degrees])
        steps, every = share[rows.of_degrees] // rows.of_batch, np.arange(len(rows))
        # Indices (rows,) into tables (values,), which may have duplicates.
        for key, table, places in (
            *((key, table, rows.of_degrees) for key, table in self.of_degrees.items()),
            (RUN[0], virtual, rows.of_run),
            (REPLICAS, replicas, replica),
            (MICRO_BATCH, rows.of_batch, every),
            ("training.gradient_accumulation", steps, every),
        ):
            numbers[key], codes = np.unique(table, return_inverse=True)
            columns[key] = Codes(codes.ravel()[places], len(numbers[key]))
        for place, key in enumerate(RUN[1:], start=1):
            found, codes = encode_values((run[place] for run in self.layouts.runs), rows.of_run)
            columns[key] = Codes(codes, len(found))
        for name, (of_pairs, values) in self.of_hardware.items():
            if name not in self.following:
                columns[name] = Codes(of_pairs[rows.of_degrees, replica], len(values))
        if rows.of_lane is not None:
            first = self.first_lane[np.array(self.kind_of)[rows.of_degrees]]
            columns[LANE] = Codes(first + rows.of_lane, int(self.first_lane[-1]))
        if self.pipelines:
            said = {k: table[rows.of_degrees] for k, table in self.of_degrees.items()} | rows.own
            coded = Table(len(rows), columns)
            names = ("parallelism.pipeline", *RUN, "training.gradient_accumulation", KIND)
            decide = (said["parallelism.pipeline"], rows.of_run, steps, said[KIND])
            columns["stages"] = _encode_columns(coded, names, decide, self.pipelines.places)
            kept = (np.minimum(said[key], 2) for key in KEPT)
            keeping = {one: place for place, one in enumerate(self.keeping)}
            columns["keeping"] = _encode_columns(coded, (KIND, *KEPT), (said[KIND], *kept), keeping)
        return columns, numbers

    # -- values of the leaves of its graph ----------------------------------------------------

    def _compute_leaf(self, numbers: Mapping[str, Array], content: Content) -> Any:
        """Return the value of a leaf of the graph in one table.

        Args:
            numbers: the distinct values of each numeric column of the table, (values,), by key.
            content: operation and arguments of the leaf.

        Returns:
            A number, or an array with the column whose codes index it.
        """
        operation, arguments = content
        if operation == "input" and content not in self.worth:
            self._add_lanes(content)
        if operation == "input" and len(arguments) == 1 and content not in self.worth:
            key = self.graph.case.book.notation[arguments[0]].key or ""
            if key in self.further:
                return Values(None, self.further[key])
            if key in numbers:
                return Values(key, numbers[key].astype(np.float64)[None, None, :])
        if content not in self.worth:  # the same in every table
            self.worth[content] = self._compute_shared(operation, arguments)
        return self.worth[content]

    def _add_lanes(self, content: Content) -> None:
        """Add the value of an input to those that all tables share, if it differs between the lanes
        of some kind."""
        symbol, *scope = content[1]
        place = (symbol, *(x for entry in scope for x in self.graph.place.get(entry, ())))
        if any(place in kind.lanes for kind in self.kinds):
            values = zip(self.kinds, self._list_bound(symbol, scope), strict=True)
            found = [kind.lanes.get(place, np.full(kind.size, float(v))) for kind, v in values]
            self.worth[content] = Values(LANE, np.concatenate(found)[None, None, :])

    def _list_bound(self, symbol: Symbol, scope: Sequence[Entry]) -> list[Any]:
        """List what a symbol is bound to in each kind, or in an entry of its model."""
        bound = [kind.case.bindings for kind in self.kinds]
        for entry in scope:  # one of the model, if any
            name, number = self.graph.place[entry]
            bound = [kind.case.entries(name)[number].bindings for kind in self.kinds]
        return [bindings[symbol] for bindings in bound]

    def _compute_shared(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        """Compute the value of a leaf that is the same in every table."""
        if operation == "is":
            return self._test_setting(arguments[0], arguments[1:])
        if operation == "present":
            pattern = self.graph.patterns[arguments[0]][self.places]
            return self._make_values("keeping", pattern.astype(np.float64))
        if arguments in self.graph.lines:
            slot, place = self.graph.lines[arguments]
            return self._make_values("stages", self.lines[None, :, self.slots[:, slot], place])
        symbol, *scope = arguments
        values = self._list_bound(symbol, scope)
        value, *others = dict.fromkeys(values)
        if not others:
            return value
        array = np.array([np.nan if isinstance(v, Absent) else float(v) for v in values])
        several = self.first_lane[-1] > len(array)  # one column for all: sums are in one order
        array = np.repeat(array, np.diff(self.first_lane)) if several else array
        return Values(LANE if several else KIND, array[None, None, :])

    def _make_values(self, column: str, array: Array) -> Values:
        """Return an array (zero, recompute, codes) as values of a column, with length 1 along an
        axis on which it does not vary."""
        for axis, _ in enumerate(self.axes):
            if not np.ptp(array, axis=axis).any():
                array = array.take([0], axis=axis)
        return Values(column, array)

    def _test_setting(self, name: str, wanted: tuple[Any, ...]) -> Any:
        """Return whether a setting has one of some values, as a constant or by row."""
        if name not in self.varying:
            return self.kinds[0].case.settings.get(name) in wanted
        found = np.array([value in wanted for value in self.varying[name]])
        if name == ZERO:
            return Values(None, found[:, None, None])
        if name == RECOMPUTE:
            return Values(None, found[None, :, None])
        if name in self.following:
            name, places = self.following[name]
            found = found[places]
        return Values(name, found[None, None, :])


def _encode_columns(
    table: Table, names: Sequence[str], said: Sequence[Array], places: Mapping[tuple[Any, ...], int]
) -> Codes:
    """Encode the combinations of some values as one column of codes.

    Args:
        table: the rows; the values depend only on its columns ``names``.
        names: columns of the table, which decide the values.
        said: the values to combine, each (rows,).
        places: the code of each combination of values.

    Returns:
        The code of each row, (rows,).
    """
    group = table.build_group(table.encode_mask(names))
    keys = zip(*(column[group.first].tolist() for column in said), strict=True)
    found = np.array([places[key] for key in keys])[group.of_rows]
    return Codes(found, len({*places.values()}))
