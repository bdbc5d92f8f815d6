"""The case of all layouts of a space at once, and what each row of them binds its symbols to.

Layouts differ in numbers (degrees, micro-batches), in settings (schedule, ZeRO stage, whether a
group leaves its node), in what their pipeline stages hold, and in which tensors their layers keep.
A ``Spread`` has one case for all: settings that differ are ``Varying``, pipelines with fewer
distinct stages repeat one, and a tensor that some layouts keep is there under a condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.book.expressions import Symbol
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.arrays.program import CHUNK, Program, Values
from planner.engine.arrays.table import FLAGS, Codes, Table
from planner.engine.evaluate import Absent, Case
from planner.engine.graph import Content
from planner.plans import hardware
from planner.plans.document import Draft, Plan
from planner.plans.layout import AXES, DEGREES, KEPT, OUTER, OWN, ROW, RUN, at
from planner.questions.search.layouts import CUT, SCHEDULE, Degrees, Rows, Space
from planner.questions.search.pipelines import Pipelines
from planner.questions.search.structure import Wanted, asked, entries, structure

Array = NDArray[Any]
ZERO, RECOMPUTE = AXES
#: Settings that each row says itself.
OF_ROWS = (SCHEDULE, *OWN, *AXES)


@dataclass(frozen=True, eq=False)
class Kernels:
    """What follows from implementation and loss: a plan that has them, with its case."""

    plan: Plan
    case: Case


class Spread:
    """The layouts of a space as one case, a table for each block of rows, and their values."""

    def __init__(self, space: Space, absent: dict[str, str] | None = None) -> None:
        self.space = space
        #: Quantities that no layout has, with the reason, of those that were asked.
        self.absent: dict[str, str] = {} if absent is None else absent
        self.plan = space.plan
        self.axes = (len(space.zero), len(space.recompute))
        self._table: Table | None = None  # the last one
        self.worth: dict[Content, Any] = {}  # what leaves are in all of them
        kernels = self.of_degrees["kernels"].tolist()
        self.pipelines = Pipelines(space, [k.plan for k in self.kernels], kernels)
        names = [(d.implementation, d.loss) for d in space.degrees]
        self.names = tuple(dict.fromkeys(names))
        cases = {name: k.case for name, k in zip(self.names, self.kernels, strict=True)}
        named = tuple((self.names[place], *kept) for place, *kept in self.facts)
        assert self.plan.model is not None
        self.structure = structure(
            Wanted(self.plan.model, cases, self.varying, named, self.pipelines.slots)
        )
        made = self.structure.made
        # Where our stages, modes and facts are among the structure's.
        self.places = np.ix_(
            *([made.varying[axis].index(v) for v in self.varying[axis]] for axis in AXES),
            [made.facts.index(fact) for fact in named],
        )
        self.slots = self.pipelines.of_slots(made.slots)
        whole = self.structure.case
        self.lines = self.pipelines.lines(entries(whole, "part"), entries(whole, "component"))

    # -- what follows from implementation and loss --------------------------------------------

    @cached_property
    def kernels(self) -> tuple[Kernels, ...]:
        found = {}
        for degrees in self.space.degrees:
            key = (degrees.implementation, degrees.loss)
            if key not in found:
                plan = self.plan_of(degrees)
                found[key] = Kernels(plan, case.build(plan))
        return tuple(found.values())

    def plan_of(self, degrees: Degrees) -> Plan:
        """A plan with some degrees (``Space.plan_of``)."""
        return self.space.plan_of(degrees)

    @cached_property
    def of_degrees(self) -> Mapping[str, Array]:
        """Columns over combinations of degrees, as values; ``kernels`` as places."""
        degrees = self.space.degrees
        names = [(k.plan.settings["training.implementation"], k.plan.settings["training.loss"])
                 for k in self.kernels]  # fmt: skip
        columns = {
            f"parallelism.{name}": np.array([d.named[name] for d in degrees]) for name in DEGREES
        }
        columns["parallelism.data"] = np.array([d.data for d in degrees])
        columns["kernels"] = np.array([names.index((d.implementation, d.loss)) for d in degrees])
        return columns

    # -- settings -----------------------------------------------------------------------------

    @cached_property
    def replicas(self) -> tuple[int, ...]:
        return tuple(sorted({r for _, replicas, _ in self.space.crossed for r in replicas}))

    @cached_property
    def of_hardware(self) -> Mapping[str, tuple[Array, tuple[Any, ...]]]:
        """Settings that the hardware decides, over degrees and replicas, as codes and values; those
        that are the same everywhere left out."""
        shape = (len(self.space.degrees), len(self.replicas))
        names = [n for n in hardware.settings(self._draft(0, self.replicas[0])) if n in asked()]
        told: dict[tuple[Any, ...], int] = {}  # which of their combinations occur
        codes = np.zeros(shape, dtype=np.int64)
        for place in range(len(self.space.degrees)):
            for replicas in self.space.crossed[place][1]:
                found = hardware.settings(self._draft(place, replicas))
                key = tuple([found[name] for name in names])
                codes[place, self.replicas.index(replicas)] = told.setdefault(key, len(told))
        columns = dict(zip(names, zip(*told, strict=True), strict=True))
        kept = {name: tuple(dict.fromkeys(c)) for name, c in columns.items() if len(set(c)) > 1}
        return {
            name: (np.array([values.index(v) for v in columns[name]])[codes], values)
            for name, values in kept.items()
        }

    def _draft(self, place: int, replicas: int) -> Draft:
        """What hardware settings ask of a combination of degrees."""
        degrees = self.space.degrees[place]
        base = self.kernels[self.of_degrees["kernels"][place]].plan
        layout = {**base.data["parallelism"], **degrees.named}
        layout |= {"data": degrees.data, "replicate": replicas}
        return Draft(base.document, {**base.data, "parallelism": layout})

    @cached_property
    def of_kernels(self) -> Mapping[str, tuple[Any, ...]]:
        """Settings that differ between kernels, one value for each."""
        first, *others = (k.case.settings for k in self.kernels)
        return {
            name: (value, *(other[name] for other in others))
            for name, value in first.items()
            if name in asked()
            and name not in (*OF_ROWS, *self.of_hardware)
            and any(other[name] != value for other in others)
        }

    @cached_property
    def varying(self) -> Mapping[str, tuple[Any, ...]]:
        """Settings that differ between layouts, with their values in the order of the codes."""
        found: dict[str, tuple[Any, ...]] = {
            **{key: ROW[key].values for key in OWN if ROW[key].values},
            SCHEDULE: tuple(dict.fromkeys(s for _, s, _ in self.space.runs)),
            ZERO: self.space.zero,
            RECOMPUTE: self.space.recompute,
        }
        found |= {name: values for name, (_, values) in self.of_hardware.items()}
        found |= {name: tuple(dict.fromkeys(v)) for name, v in self.of_kernels.items()}
        return found

    @cached_property
    def facts(self) -> tuple[tuple[Any, ...], ...]:
        """What decides, of a row, which tensors are kept: kernels, and each of ``KEPT``, 2 where it
        is more."""
        found: dict[tuple[Any, ...], None] = {}
        for number, (place, (sequences, _, batches)) in enumerate(
            zip(self.of_degrees["kernels"].tolist(), self.space.crossed, strict=True)
        ):
            own = {
                "parallelism.sequence": set(sequences),
                "training.micro_batch": {min(size, 2) for size in batches[:, 1].tolist()},
            }
            values = (
                own[key] if key in own else (min(int(self.of_degrees[key][number]), 2),)
                for key in KEPT
            )
            found |= dict.fromkeys((place, *kept) for kept in product(*values))
        return tuple(found)

    # -- a block of rows ----------------------------------------------------------------------

    def over(self, rows: Rows) -> Over:
        """The table of some rows."""
        columns, values = self._columns(rows)
        rules = [rule for rule in self.rules if _known(rule, columns)]
        table = self._table = Table(len(rows), columns, rules, self._table)
        return Over(self, rows, table, _Leaves(self, values))

    def _columns(self, rows: Rows) -> tuple[dict[str, Codes], dict[str, Array]]:
        """The columns of a table, and what the codes of those that are numbers are worth."""
        columns: dict[str, Codes] = {}
        numbers: dict[str, Array] = {}

        def number(key: str, table: Array, places: Array) -> None:
            found, codes = np.unique(table, return_inverse=True)
            columns[key] = Codes(codes.ravel()[places], len(found))
            numbers[key] = found

        for key, table in self.of_degrees.items():
            number(key, table, rows.of_degrees)
        number(RUN[0], np.array([run[0] for run in self.space.runs]), rows.of_run)
        for key, column in rows.own.items():
            if ROW[key].values:
                columns[key] = Codes(column, len(ROW[key].values))
            else:
                number(key, *_coded(column))
        share = self.space.batch // self.of_degrees["parallelism.data"][rows.of_degrees]
        steps = share // rows.of_batch
        number("training.gradient_accumulation", *_coded(steps))
        schedules = self.varying[SCHEDULE]
        of_run = np.array([schedules.index(s) for _, s, _ in self.space.runs])
        cuts = [cut for _, _, cut in self.space.runs]
        several = list(dict.fromkeys(cuts))
        columns[CUT] = Codes(
            np.array([several.index(cut) for cut in cuts])[rows.of_run], len(several)
        )
        columns[SCHEDULE] = Codes(of_run[rows.of_run], len(schedules))
        replica = np.searchsorted(np.array(self.replicas), rows.of_replicate)
        for name, (codes, found) in self.of_hardware.items():
            columns[name] = Codes(codes[rows.of_degrees, replica], len(found))
        for name, found in self.of_kernels.items():
            codes = np.array([self.varying[name].index(value) for value in found])
            columns[name] = Codes(codes[columns["kernels"].of_row], len(self.varying[name]))
        self._stage_columns(rows, steps, columns)
        self._fact_columns(rows, columns)
        return columns, numbers

    @cached_property
    def further(self) -> Mapping[str, Array]:
        """Keys of plans besides the layout, with values that every row is crossed with: arrays of
        the axes of a program, each along one or more of those that follow the rows."""
        return {}

    @cached_property
    def beside(self) -> tuple[int, ...]:
        """The lengths of the further axes."""
        return np.broadcast_shapes(*(array.shape for array in self.further.values()))[3:]

    def stretches(self, rows: int) -> Iterator[slice]:
        """Rows in stretches whose arrays stay in a core's cache."""
        step = max(1, CHUNK // math.prod((*self.axes, *self.beside)))
        for start in range(0, rows, step):
            yield slice(start, min(start + step, rows))

    def _stage_columns(self, rows: Rows, steps: Array, columns: dict[str, Codes]) -> None:
        """Which of the distinct pipelines a row has."""
        of_degrees = self.of_degrees
        decide = (
            of_degrees["parallelism.pipeline"][rows.of_degrees],
            rows.of_run,
            steps,
            of_degrees["kernels"][rows.of_degrees],
        )
        found = Table(len(rows), {str(i): _codes(values) for i, values in enumerate(decide)})
        group = found.exact(found.all.mask)
        keys = zip(*(values[group.first].tolist() for values in decide), strict=True)
        shapes = self.pipelines.shapes
        of_group = np.array([shapes[self.pipelines.all[key]] for key in keys])
        columns["stages"] = Codes(of_group[group.of_rows], len(shapes))

    @cached_property
    def rules(self) -> list[tuple[tuple[str, ...], str]]:
        """Which columns follow from which others."""
        data, batch = "parallelism.data", "training.micro_batch"
        steps = "training.gradient_accumulation"
        outer = (*at(OUTER), data)
        found = [(tuple(n for n in outer if n != name), name) for name in outer]
        inner = (data, batch, steps)
        found += [(tuple(n for n in inner if n != name), name) for name in inner]
        degrees = {name: column[:, None] for name, column in self.of_degrees.items()}
        degrees["parallelism.replicate"] = np.array(self.replicas)[None, :]
        there = np.zeros((len(self.space.degrees), len(self.replicas)), dtype=bool)
        for place, (_, replicas, _) in enumerate(self.space.crossed):
            there[place, np.searchsorted(self.replicas, replicas)] = True
        flat = {name: np.broadcast_to(c, there.shape)[there] for name, c in degrees.items()}
        for name, (codes, _) in self.of_hardware.items():
            found.append((_determining(codes[there], flat), name))
        kernels = flat.pop("kernels")
        if not any(d.said for d in self.space.degrees):
            found.append((_determining(kernels, flat), "kernels"))
        found += [(("kernels",), name) for name in self.of_kernels]
        cuts = {k.plan.data["parallelism"]["cut"] for k in self.kernels}
        by_kernels = ("kernels",) if len(cuts) > 1 else ()
        found.append((("parallelism.pipeline", *RUN, steps, *by_kernels), "stages"))
        pipelines = list(self.pipelines.all)
        shapes = np.array([self.pipelines.shapes[lines] for lines in self.pipelines.all.values()])
        sizes = np.array([stages for stages, *_ in pipelines])
        if _follows(sizes, shapes):
            found.append((("stages",), "parallelism.pipeline"))
        facts = dict(zip(("kernels", *KEPT), np.array(self.facts, dtype=np.int64).T, strict=True))
        for number, (codes, _) in enumerate(self.patterns):
            found.append((_determining(codes, facts), f"tensors {number}"))
        return found

    def _fact_columns(self, rows: Rows, columns: dict[str, Codes]) -> None:
        """A column for each pattern: which of its distinct cases a row is."""
        coded = self.of_degrees["kernels"][rows.of_degrees]
        own = rows.own
        for key in KEPT:
            column = own[key] if key in own else self.of_degrees[key][rows.of_degrees]
            coded = coded * 2 + (column != ROW[key].neutral)
        size = len(self.kernels) << len(KEPT)
        places = np.zeros(size, dtype=np.int64)
        for place, (of_kernels, *kept) in enumerate(self.facts):
            at = int(of_kernels)
            for key, value in zip(KEPT, kept, strict=True):
                at = at * 2 + int(value != ROW[key].neutral)
            places[at] = place
        facts = places[coded]
        for number, (codes, cases) in enumerate(self.patterns):
            columns[f"tensors {number}"] = Codes(codes[facts], cases.shape[2])

    @cached_property
    def patterns(self) -> tuple[tuple[Array, Array], ...]:
        """For each pattern the code of each fact, and what the codes are worth."""
        found = []
        for whole in self.structure.patterns:
            pattern = whole[self.places]
            flat = pattern.reshape(-1, pattern.shape[2])
            cases, codes = np.unique(flat, axis=1, return_inverse=True)
            cases = cases.reshape(*pattern.shape[:2], -1).astype(np.float64)
            for axis in (0, 1):
                if (cases == cases.take([0], axis=axis)).all():
                    cases = cases.take([0], axis=axis)
            found.append((codes.ravel(), cases))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Over:
    """Some rows of a spread, with what their leaves are worth."""

    spread: Spread
    rows: Rows
    table: Table
    leaves: _Leaves
    programs: dict[tuple[str, ...], Program] = field(default_factory=dict)

    def program(self, quantities: tuple[str, ...]) -> Program:
        """Some quantities that share a graph, for these rows."""
        found = self.programs.get(quantities)
        if found is None:
            made = self.spread.structure.compiled(quantities)
            found = self.programs[quantities] = Program(
                made.graph, made.roots.values(), self.table, self.leaves, len(self.spread.beside)
            )
            self.spread.absent |= made.absent
        return found

    def chunks(self, *groups: tuple[str, ...]) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Quantities over ZeRO stage, recomputation and rows, some rows at a time; NaN where one is
        absent. Those of a group share a graph. Axes of ``further`` follow, of length 1 where a
        quantity does not vary along one."""
        for quantities in groups:
            self.program(quantities)
        for part in self.spread.stretches(len(self.rows)):
            values: dict[str, Array] = {}
            for quantities in groups:
                values |= self.values(quantities, part)
            yield part, values

    def values(self, quantities: tuple[str, ...], part: slice | Array) -> dict[str, Array]:
        """The quantities of a group for some of the rows, as ``chunks`` has them."""
        made = self.spread.structure.compiled(quantities)
        found = self.program(quantities).run(part, self.spread.axes)
        values = {name: found[node] for name, node in made.roots.items()}
        length = part.stop - part.start if isinstance(part, slice) else len(part)
        for name in made.absent:
            shape = (*self.spread.axes, length, *(1 for _ in self.spread.beside))
            values[name] = np.broadcast_to(np.nan, shape)
        return values


class _Leaves:
    """What the leaves of a graph are worth in a table."""

    def __init__(self, spread: Spread, numbers: Mapping[str, Array]) -> None:
        self.spread, self.numbers = spread, numbers
        self.keys = {note.symbol: note.key for note in BOOK.notation.values() if not note.per}

    def __call__(self, content: Content) -> Any:
        operation, arguments = content
        if operation == "input" and len(arguments) == 1:
            return self._of_plan(arguments[0])
        found = self.spread.worth.get(content)  # the same in every table
        if found is None:
            found = self.spread.worth[content] = self._of_spread(operation, arguments)
        return found

    def _of_spread(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        if operation == "is":
            return self._is(arguments[0], arguments[1:])
        if operation == "present":
            cases = self.spread.patterns[arguments[0]][1]
            return Values(f"tensors {arguments[0]}", cases)
        return self._on_stage(*self.spread.structure.lines[arguments])

    def _of_plan(self, symbol: Symbol) -> Any:
        key = self.keys[symbol] or ""
        if key in self.spread.further:
            return Values(None, self.spread.further[key])
        if key in self.numbers:
            return Values(key, self.numbers[key].astype(np.float64)[None, None, :])
        values = [kernels.case.bindings[symbol] for kernels in self.spread.kernels]
        if all(value == values[0] for value in values):
            return values[0]
        array = np.array([np.nan if isinstance(v, Absent) else float(v) for v in values])
        return Values("kernels", array[None, None, :])

    def _on_stage(self, slot: int, place: int) -> Values:
        array = self.spread.lines[:, self.spread.slots[:, slot], place]
        if (array == array[0]).all():
            array = array[:1]
        return Values("stages", array[None, :, :])

    def _is(self, name: str, wanted: tuple[Any, ...]) -> Any:
        if name not in self.spread.varying:
            return self.spread.kernels[0].case.settings[name] in wanted
        found = np.array([value in wanted for value in self.spread.varying[name]])
        if name == ZERO:
            return Values(None, found[:, None, None])
        if name == RECOMPUTE:
            return Values(None, found[None, :, None])
        return Values(name, found[None, None, :])


def _follows(target: Array, source: Array) -> bool:
    """Whether equal values of a source always come with equal values of a target."""
    found = np.full(int(source.max()) + 1, -1, dtype=np.int64)
    found[source] = target
    return bool((found[source] == target).all())


def _determining(target: Array, candidates: Mapping[str, Array]) -> tuple[str, ...]:
    """The fewest candidates from which a target follows; all of them where no two do."""
    coded = {name: _coded(values)[1] for name, values in candidates.items()}
    for name, codes in coded.items():
        if _follows(target, codes):
            return (name,)
    for one, other in combinations(coded, 2):
        if _follows(target, coded[one] * (coded[other].max() + 1) + coded[other]):
            return (one, other)
    return tuple(candidates)


def _known(rule: tuple[tuple[str, ...], str], columns: Mapping[str, Any]) -> bool:
    return rule[1] in columns and all(name in columns for name in rule[0])


def _coded(values: Array) -> tuple[Array, Array]:
    """The distinct values of a column of whole numbers, and the place of each row's."""
    if len(values) and values.min() >= 0 and values.max() < FLAGS * len(values):
        there = np.zeros(int(values.max()) + 1, dtype=np.int64)
        there[values] = 1
        return np.flatnonzero(there), (np.cumsum(there) - 1)[values]
    found, codes = np.unique(values, return_inverse=True)
    return found, codes.ravel()


def _codes(values: Array) -> Codes:
    found, codes = _coded(values)
    return Codes(codes, len(found))
