"""The layouts of a study through the graph of a search.

Dimensions along which only the layout changes make rows of a table, those of plain keys are further
axes beside it. Which rows are plans is found by ``checking.py``; what the others are worth is the
search's own evaluation (planner.questions.search.spread). Each combination of the remaining
dimensions is a table of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.arrays.table import Codes, Group, Table
from planner.plans.document import Plan
from planner.plans.layout import AXES, FOLLOWS, INNER, KEYS, OUTER, OWN, OWN_CHOICE, RUN, at
from planner.plans.plan import begun, changed
from planner.questions.search.layouts import Degrees, Rows, Run, Space
from planner.questions.search.spread import Spread
from planner.questions.search.structure import DECIDING, asked
from planner.questions.studies import arrays, bounds
from planner.questions.studies.axes import LAYOUT, Axis
from planner.questions.studies.checking import MISSING, SECTIONS, Column, Drafts
from planner.questions.studies.operations import in_range
from planner.questions.studies.points import Array, Values, exact, missing, wanted, why
from planner.questions.studies.study import Study, in_order

#: Layouts of a combination that are worth a table; fewer are completed one by one.
LEAST = 128
#: Layouts of a combination that share a structure whatever piece they are in, at most; pieces of
#: more are large enough to have their own.
MOST_TOGETHER = 1 << 14
#: Layouts of a piece that share what no table tells apart, at least.
LEAST_ALIKE = 4

_, SCHEDULE, _ = RUN
SEQUENCE, REPLICAS, _ = OWN
DATA = "parallelism.data"
#: What a combination of degrees says.
OF_DEGREES = (*at(OUTER, INNER), DATA, *OWN_CHOICE)
#: What the layouts of a spread have in common whatever their kernels: one model, one batch, and the
#: entries of the axes.
SHARED = ("model", "training.global_batch", "training.lora", *DECIDING)
#: What the rows of a spread differ in, and what follows from that.
TOLD = (*KEYS, *FOLLOWS, "training.distributed_optimizer")


def along_layouts(study: Study) -> tuple[bool, ...]:
    """Along which dimensions only the layout changes."""
    return tuple(
        all(axis.keys and all(map(_of_layout, axis.keys)) for axis in axes)
        for axes in study.dimensions
    )


def _of_layout(key: str) -> bool:
    return key == LAYOUT or key.startswith(LAYOUT + ".") or key in KEYS


def able(study: Study) -> bool:
    """Whether a study has enough layouts for a table of them."""
    layouts = along_layouts(study)
    if study.searches or not arrays.able(study) or not any(layouts):
        return False
    keys = {
        inside: {key for one, axes in zip(layouts, study.dimensions, strict=True) if one is inside
                 for axis in axes for key in axis.keys}
        for inside in (False, True)
    }  # fmt: skip
    # A section that is set as a whole goes before the keys that another dimension sets in it.
    if LAYOUT in keys[True] and any(map(_of_layout, keys[False])):
        return False

    sizes = (n for n, one in zip(study.shape, layouts, strict=True) if one)
    return math.prod(sizes) >= LEAST


class Evaluator:
    """Evaluates pieces of one study."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.plain, self.layouts = arrays.plain(study), along_layouts(study)
        self.quantities = wanted(study)
        self._at: tuple[int, ...] | None = None  # the combination whose layouts share

    @cached_property
    def one_by_one(self) -> arrays.Evaluator:
        """For combinations whose layouts share too little."""
        return arrays.Evaluator(self.study)

    def evaluate(self, ranges: Sequence[range]) -> Values:
        """The points of a piece."""
        inner = [p or one for p, one in zip(self.plain, self.layouts, strict=True)]
        outer = [range(1) if one else r for r, one in zip(ranges, inner, strict=True)]
        parts = []
        for combination in product(*outer):
            places = [
                r if one else range(at, at + 1)
                for r, one, at in zip(ranges, inner, combination, strict=True)
            ]
            parts.append((places, self._of_one(places)))
        return parts[0][1] if len(parts) == 1 else self._joined(ranges, parts)

    def _of_one(self, ranges: Sequence[range]) -> Values:
        try:
            self._shared(ranges)
            found = _Layouts(self, ranges).values()
        except PlanError:  # the reason is that of every layout
            found = None
        return self.one_by_one.evaluate(ranges) if found is None else found

    def _shared(self, ranges: Sequence[range]) -> None:
        """Find what all layouts of a combination can share, before those of a piece are asked: one
        graph of formulas, where each few of the layouts would have their own.

        Raises:
            PlanError: what is wrong whatever the layout.
        """
        whole = [
            range(n) if one else r
            for n, one, r in zip(self.study.shape, self.layouts, ranges, strict=True)
        ]
        at = tuple(r.start for r, p, one in zip(ranges, self.plain, self.layouts, strict=True)
                   if not p and not one)  # fmt: skip
        if at == self._at or whole == list(ranges):
            return
        self._at = at
        layouts = _Layouts(self, whole)
        if layouts.size <= MOST_TOGETHER:
            layouts.share()

    def _joined(
        self, ranges: Sequence[range], parts: Sequence[tuple[Sequence[range], Values]]
    ) -> Values:
        shape = tuple(map(len, ranges))
        numbers = {quantity: np.full(shape, np.nan) for quantity in self.quantities}
        whole = Values(numbers, np.zeros(shape, dtype=bool), np.zeros(shape, dtype=np.int64))
        texts = {"": 0}
        shares = {
            reading: (np.full(shape, np.nan), np.full(shape, np.nan))
            for reading in bounds.readings(self.study)
        }
        for places, part in parts:
            at = tuple(
                slice(p.start - r.start, p.stop - r.start)
                for p, r in zip(places, ranges, strict=True)
            )
            inside = tuple(map(len, places))
            for quantity, array in part.numbers.items():
                numbers[quantity][at] = _shaped(array, inside)
            for reading, pair in part.shares.items():
                for whole_share, share in zip(shares[reading], pair, strict=True):
                    whole_share[at] = _shaped(share, inside)
            whole.valid[at] = _shaped(part.valid, inside)
            codes = np.array([texts.setdefault(text, len(texts)) for text in part.texts])
            whole.reasons[at] = _shaped(codes[part.reasons], inside)
        flat = {quantity: array.ravel() for quantity, array in numbers.items()}
        valid, reasons = whole.valid.ravel(), whole.reasons.ravel()
        of_points = {name: (low.ravel(), high.ravel()) for name, (low, high) in shares.items()}
        return Values(flat, valid, reasons, list(texts), shares=of_points)


def _largest(values: Array) -> Any:
    return np.nanmax(np.abs(values))


def _shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """An array over the points of a piece, which may be flat or broadcast (``Values``)."""
    return array if array.ndim == len(shape) else array.reshape(shape)


class _Layouts:
    """The layouts of one combination of the other dimensions, each with all plain points."""

    def __init__(self, evaluator: Evaluator, ranges: Sequence[range]) -> None:
        self.study, self.ranges = evaluator.study, ranges
        self.plain, self.layouts = evaluator.plain, evaluator.layouts
        self.quantities = evaluator.quantities
        self.inner = [r for r, one in zip(ranges, self.layouts, strict=True) if one]
        self.further = [r for r, one in zip(ranges, self.plain, strict=True) if one]
        self.size = math.prod(map(len, self.inner))
        # Over the layouts and the plain dimensions, of length 1 along those that change nothing.
        shape = (self.size, *(1 for _ in self.further))
        self.numbers = {quantity: np.full(shape, np.nan) for quantity in self.quantities}
        self.reasons = np.zeros(shape, dtype=np.int64)
        self.valid = np.zeros(shape, dtype=bool)
        self.texts = {"": 0}
        self.shares: Mapping[str, bounds.Shares] = {}

    def values(self) -> Values | None:
        """What the points are worth; None where too few of the layouts are alike.

        Raises:
            PlanError: what is wrong whatever the layout.
        """
        drafts = self._drafts()
        if drafts is None or drafts.model is None:
            return None
        drafts.complete()
        self.valid = drafts.valid.reshape(self.valid.shape)
        texts = [why(PlanError(faults)) if faults else "" for faults in drafts.faults.values]
        codes = np.array([self._code(text) for text in texts])
        self.reasons = codes[drafts.faults.of_row].reshape(self.reasons.shape)
        groups = _groups(drafts)
        if groups is None:
            return None
        for group in groups:
            self._evaluate(drafts, group)
        return self._ordered()

    def share(self) -> None:
        """Make the structures that some of the layouts will find.

        Raises:
            PlanError: what is wrong whatever the layout.
        """
        drafts = self._drafts()
        if drafts is not None and drafts.model is not None:
            drafts.complete()
            for group in _groups(drafts) or ():
                _Spread(_Rows(drafts, group, self))

    def _code(self, text: str) -> int:
        """The place of a reason."""
        return self.texts.setdefault(text, len(self.texts))

    # -- which layouts are plans --------------------------------------------------------------

    def _drafts(self) -> Drafts | None:
        first = [r.start for r in self.ranges]
        chosen = {
            key: value
            for axes, place, inside in zip(self.study.dimensions, first, self.layouts, strict=True)
            for axis in axes
            for key, value in axis.choices[place].changes.items()
            if not inside
        }
        document = changed(self.study.base_at(first), in_order(chosen))
        if not all(isinstance(document.data.get(name), Mapping) for name in SECTIONS):
            return None
        draft, model = begun(document)
        return Drafts(draft, model, self._columns(document.data), self.size)

    def _columns(self, data: Mapping[str, Any]) -> dict[str, Column]:
        """The keys that the layouts change, as columns."""
        columns: dict[str, Column] = {}
        inside = [a for a, one in zip(self.study.dimensions, self.layouts, strict=True) if one]
        for pick in (_sections, _keys):  # a section before the keys inside it
            for number, (axes, places) in enumerate(zip(inside, self.inner, strict=True)):
                chosen = [pick(axes, place) for place in places]
                keys = dict.fromkeys(key for changes in chosen for key in changes or ())
                if pick is _sections and keys:
                    keys |= dict.fromkeys(f"{LAYOUT}.{name}" for name in data[LAYOUT])
                for key in keys:
                    if key not in columns:
                        columns[key] = Column(np.zeros(self.size, dtype=np.int64))
                        section, _, name = key.partition(".")
                        columns[key].code(data[section].get(name, MISSING))
                    column = columns[key]
                    codes = np.array([
                        -1 if c is None or (pick is _keys and key not in c)
                        else column.code(c.get(key, MISSING))
                        for c in chosen
                    ])[self._along(number)]  # fmt: skip
                    column.of_row = np.where(codes >= 0, codes, column.of_row)
        return columns

    def _along(self, number: int) -> Array:
        """The place of each layout along one of the dimensions of layouts."""
        lengths = [len(r) for r in self.inner]
        shape = [1] * len(lengths)
        shape[number] = lengths[number]
        return np.broadcast_to(np.arange(lengths[number]).reshape(shape), lengths).ravel()

    # -- what they are worth ------------------------------------------------------------------

    def _evaluate(self, drafts: Drafts, rows: Array) -> None:
        """Write what some layouts that share a spread are worth."""
        table = _Rows(drafts, rows, self)
        spread = _Spread(table)
        held = table.rows()
        zero, recompute = (table.codes[key] for key in AXES)
        settings = case.build(table.plan_of(table.space.degrees[0])).settings
        self.shares = bounds.shares(self.study, settings)
        order = np.argsort(table.of_rows, kind="stable")
        of_rows = table.of_rows[order]
        for part, found in spread.over(held).chunks(tuple(self.quantities)):
            first, last = np.searchsorted(of_rows, (part.start, part.stop))
            inside = order[first:last]
            places = zero[inside], recompute[inside], of_rows[first:last] - part.start
            for name, array in found.items():
                values = array[places]
                values[~np.isfinite(values)] = np.nan
                values = in_range(name, values, partial(_largest, values))
                whole = self.numbers[name] = _widened(self.numbers[name], array.shape[3:])
                whole[rows[inside]] = values
        self._explain(rows, table, spread)

    def _holes(self, name: str, rows: Array) -> Array:
        """Where a quantity of some layouts is absent."""
        array = self.numbers[name]
        found: Array = np.isnan(array if len(rows) == len(array) else array[rows])
        return found

    def _explain(self, rows: Array, table: _Rows, spread: Spread) -> None:
        """Say why recorded quantities are absent: once where no layout has one and for the same
        reason, else for each combination of settings and of what is absent."""
        holes = {name: self._holes(name, rows) for name in self.study.record}
        holes = {name: array for name, array in holes.items() if array.any()}
        if not holes:
            return
        recorded = list(holes)
        absent = spread.structure.compiled(tuple(self.quantities)).absent
        first = self._absent(int(rows[0]), (), recorded)
        if all(holes[name].all() and absent.get(name) == first.get(name) for name in recorded):
            self.reasons[rows] = self._code(missing(self.study, first))
            return
        shape = np.broadcast_shapes(*(array.shape for array in holes.values()))
        columns = {
            str(number): Codes(np.repeat(codes.of_row, math.prod(shape[1:])), codes.count)
            for number, codes in enumerate(table.settings(spread))
        }
        for name, array in holes.items():
            columns[name] = Codes(np.broadcast_to(array, shape).ravel().astype(np.int64), 2)
        whole = Table(math.prod(shape), columns)
        group = whole.exact(whole.all.mask)
        codes = []
        for row, *point in zip(*np.unravel_index(group.first, shape), strict=True):
            reasons = self._absent(int(rows[row]), point, recorded)
            codes.append(self._code(missing(self.study, reasons)))
        self.reasons = _widened(self.reasons, shape[1:])
        self.reasons[rows] = np.array(codes)[group.of_rows].reshape(shape)

    def _absent(
        self, layout: int, point: Sequence[int], quantities: Sequence[str]
    ) -> Mapping[str, str]:
        return exact(self.study, self.places(layout, point), quantities).absent

    def places(self, layout: int, point: Sequence[int] = ()) -> tuple[int, ...]:
        """A point of the study: one of the layouts, at some places along the plain dimensions, by
        default the first ones."""
        inner = list(np.unravel_index(layout, [len(r) for r in self.inner]))
        further = list(point or (0 for _ in self.further))
        return tuple(
            r[int(inner.pop(0))] if one else r[int(further.pop(0))] if alone else r.start
            for r, one, alone in zip(self.ranges, self.layouts, self.plain, strict=True)
        )

    def plain_values(self) -> dict[str, Array]:
        """The values of plain keys, each along the axis of its dimension, which follows those of a
        table."""
        found = {}
        dimensions = [a for a, one in zip(self.study.dimensions, self.plain, strict=True) if one]
        for number, (axes, places) in enumerate(zip(dimensions, self.further, strict=True)):
            shape = [1, 1, 1, *(1 for _ in dimensions)]
            shape[3 + number] = len(places)
            for key in {key for axis in axes for key in axis.keys}:
                values = [float(arrays.latest(axes, place, key)) for place in places]
                found[key] = np.array(values).reshape(shape)
        return found

    def _ordered(self) -> Values:
        """In the order of the study's dimensions."""
        one = [i for i, x in enumerate(self.layouts) if x]
        two = [i for i, x in enumerate(self.plain) if x]
        rest = [i for i in range(len(self.ranges)) if i not in one and i not in two]
        axes = [*one, *two, *rest]
        order = [axes.index(i) for i in range(len(axes))]
        layouts, others = [len(r) for r in self.inner], [1 for _ in rest]

        def over(array: Array) -> Array:
            return array.reshape((*layouts, *array.shape[1:], *others)).transpose(order)

        numbers = {name: over(array) for name, array in self.numbers.items()}
        shape = tuple(1 for _ in axes)
        shares = {
            reading: (np.full(shape, low), np.full(shape, high))
            for reading, (low, high) in self.shares.items()
        }
        valid, reasons = over(self.valid), over(self.reasons)
        return Values(numbers, valid, reasons, list(self.texts), shares=shares)


def _widened(array: Array, beside: tuple[int, ...]) -> Array:
    """An array over layouts and plain dimensions, which varies along more of these."""
    wide = np.broadcast_shapes(array.shape[1:], beside)
    return array if array.shape[1:] == wide else np.broadcast_to(array, (len(array), *wide)).copy()


def _sections(axes: Sequence[Axis], place: int) -> dict[str, Any] | None:
    """The layout that a place of a dimension sets as a whole, where it sets one."""
    for axis in axes:
        section = axis.choices[place].changes.get(LAYOUT)
        if section is not None:
            return {f"{LAYOUT}.{name}": value for name, value in section.items()}
    return None


def _keys(axes: Sequence[Axis], place: int) -> dict[str, Any]:
    """The keys that a place of a dimension sets."""
    return {
        key: MISSING if value is None else value
        for axis in axes
        for key, value in axis.choices[place].changes.items()
        if key != LAYOUT
    }


def _groups(drafts: Drafts) -> list[Array] | None:
    """The valid rows, in groups that share a spread; None where too few of them are alike."""
    rows = np.flatnonzero(drafts.valid)
    groups = list(_alike(drafts, rows)) if len(rows) else []
    return groups if len(groups) * LEAST_ALIKE <= len(rows) else None


def _alike(drafts: Drafts, rows: Array) -> Iterator[Array]:
    """Rows that differ only in what the rows of a spread may differ in."""
    codes = {
        key: Codes(column.of_row[rows], len(column.values))
        for key, column in drafts.columns.items()
    }
    table = Table(len(rows), codes)
    kernels = [key for key in OWN_CHOICE if key in codes]

    def follows(key: str) -> bool:
        known = table.exact(table.mask(kernels)).count
        return key in of_kernels() and table.exact(table.mask([*kernels, key])).count == known

    rest = [key for key in codes if key not in TOLD and not follows(key)]
    of_rows = table.exact(table.mask(rest)).of_rows
    for group in range(int(of_rows.max()) + 1):
        yield rows[of_rows == group]


@cache
def of_kernels() -> frozenset[str]:
    """Keys and sections that a spread takes from a plan with the implementation and the loss of a
    row: what a case binds, what formulas ask for, and how layers are cut into stages."""
    bound = (note.key for note in BOOK.notation.values() if note.key and not note.per)
    found = set[str]()
    for key in (*bound, *asked()):
        section, _, name = key.partition(".")
        found.add(f"{section}.{name.partition('.')[0]}" if section in SECTIONS else section)
    return frozenset(found.difference(SHARED))


class _Rows:
    """Layouts as the rows of a space, which they need not fill."""

    def __init__(self, drafts: Drafts, rows: Array, layouts: _Layouts) -> None:
        self.layouts, self.count = layouts, len(rows)
        self.values: dict[str, list[Any]] = {}
        columns = {}
        for key in TOLD:
            column = drafts.column(key)
            self.values[key] = column.values
            columns[key] = Codes(column.of_row[rows], len(column.values))
        self.table = Table(len(rows), columns)
        self.codes: dict[str, Array] = {}  # of ZeRO stage and recomputation
        crossed = []
        for key in AXES:
            places, codes = np.unique(columns[key].of_row, return_inverse=True)
            self.codes[key] = codes.ravel()
            crossed.append(tuple(self.values[key][place] for place in places))
        of_degrees, of_runs = self._group(OF_DEGREES), self._group(RUN)
        found = self._group((*OF_DEGREES, *RUN, *OWN))
        self.of_rows = found.of_rows
        self.first = found.first  # for each row of the space a layout
        self.of_degrees, self.of_run = of_degrees.of_rows, of_runs.of_rows
        degrees = tuple(
            Degrees(
                tuple(int(self._at(key, row)) for key in at(OUTER, INNER)),
                int(self._at(DATA, row)),
                self._at("training.implementation", row),
                self._at("training.loss", row),
            )
            for row in of_degrees.first.tolist()
        )
        self._plans = dict(zip(degrees, rows[of_degrees.first].tolist(), strict=True))
        runs = tuple(tuple(self._at(key, row) for key in RUN) for row in of_runs.first.tolist())
        plan = self.plan_of(degrees[0])
        self.space = _Space(plan, crossed, degrees, runs, self._crossed(plan, degrees))

    def _group(self, keys: Sequence[str]) -> Group:
        return self.table.exact(self.table.mask(keys))

    def _at(self, key: str, row: int) -> Any:
        return self.values[key][self.table.columns[key].of_row[row]]

    def _own(self, key: str) -> Array:
        """A column of the space's rows, as values."""
        values = np.array(self.values[key], dtype=object)
        found: Array = values[self.table.columns[key].of_row[self.first]].astype(np.int64)
        return found

    def _crossed(
        self, plan: Plan, degrees: Sequence[Degrees]
    ) -> tuple[tuple[tuple[bool, ...], tuple[int, ...], Array], ...]:
        """What each combination of degrees occurs with. Pipelines are the same for equal stages
        and shares of the batch."""
        of_degrees = self.of_degrees[self.first].tolist()
        sequence, replicate, batch = (self._own(key).tolist() for key in OWN)
        sequences = _by_first(of_degrees, sequence)
        replicas = _by_first(of_degrees, replicate)
        whole = int(plan.get("training.global_batch"))
        shares = [(d.values[1], whole // d.data) for d in degrees]
        runs = zip(self.of_run[self.first].tolist(), batch, strict=True)
        batches = _by_first([shares[place] for place in of_degrees], runs)
        return tuple(
            (
                tuple(map(bool, sequences[place])),
                tuple(replicas[place]),
                np.array(batches[share], dtype=np.int64),
            )
            for place, share in enumerate(shares)
        )

    def plan_of(self, degrees: Degrees) -> Plan:
        """The plan of one layout with some degrees."""
        layouts = self.layouts
        return layouts.study.plan_at(layouts.places(self._plans[degrees]))

    def rows(self) -> Rows:
        """The rows of the space."""
        own = (self._own(key) for key in OWN)
        return Rows(self.space, self.of_degrees[self.first], self.of_run[self.first], *own)

    def settings(self, spread: Spread) -> Iterator[Codes]:
        """What may decide why a quantity is absent: settings of the layouts."""
        for key in (SCHEDULE, SEQUENCE, *AXES, *OWN_CHOICE):
            yield self.table.columns[key]
        replicas = np.searchsorted(spread.replicas, self._own(REPLICAS))[self.of_rows]
        for codes, values in spread.of_hardware.values():
            yield Codes(codes[self.of_degrees, replicas], len(values))


def _by_first(first: Iterable[Any], second: Iterable[Any]) -> dict[Any, list[Any]]:
    """Of distinct pairs, the second ones in order, by the first."""
    found: dict[Any, list[Any]] = {}
    for one, other in sorted(set(zip(first, second, strict=True))):
        found.setdefault(one, []).append(other)
    return found


class _Space(Space):
    """Layouts that are given, in the place of all that are valid."""

    def __init__(
        self,
        plan: Plan,
        crossed_with: Sequence[tuple[Any, ...]],
        degrees: tuple[Degrees, ...],
        runs: tuple[Run, ...],
        crossed: tuple[tuple[tuple[bool, ...], tuple[int, ...], Array], ...],
    ) -> None:
        self.plan = plan
        self.batch = int(plan.get("training.global_batch"))
        self.zero, self.recompute = crossed_with
        self.degrees, self.runs, self.crossed = degrees, runs, crossed


class _Spread(Spread):
    """What some layouts are worth, over plain keys too."""

    def __init__(self, rows: _Rows) -> None:
        self.given = rows
        super().__init__(rows.space)

    @cached_property
    def further(self) -> Mapping[str, Array]:
        return self.given.layouts.plain_values()

    def plan_of(self, degrees: Degrees) -> Plan:
        return self.given.plan_of(degrees)
