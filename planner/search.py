"""The best layouts of a plan, out of all valid ones.

Layouts whose layers keep the same tensors form a group; a group is evaluated over arrays, through
the same formulas as everything else (``compile.py``), a chunk at a time. What fits is ranked, and
the winners are evaluated again exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner import case, hardware, pipeline
from planner.compile import ArrayEvaluation, Column
from planner.document import Draft, Plan, Stage
from planner.errors import Fault, PlanError
from planner.evaluate import Case
from planner.layouts import Row, Space
from planner.plan import variant
from planner.quantity import BOOK
from planner.solve import Limit, evaluated, known

#: Layouts evaluated at once.
CHUNK = 65_536
FITS = "memory.headroom"
MEMORY = "memory.process"

Array = NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """One layout: what it changes in the plan, and what it gives."""

    changes: Mapping[str, Any]
    values: Mapping[str, Any]  # exact for the best, else as below
    approximate: Mapping[str, float]  # over arrays
    cleared: tuple[str, ...] = ()  # keys that go back to their defaults

    def of(self, plan: Plan) -> Plan:
        """A plan with this layout."""
        return variant(plan, {**dict.fromkeys(self.cleared), **self.changes})


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


@dataclass(eq=False)
class Group:
    """Layouts that differ in numbers and settings only, as places in rows and choices."""

    space: Space
    rows: list[Row]
    choices: list[tuple[Any, ...]]

    @property
    def size(self) -> int:
        return len(self.rows) * len(self.choices)

    def changes(self, place: int) -> dict[str, Any]:
        row, choice = divmod(place, len(self.choices))
        return self.space.changes(self.rows[row], self.choices[choice])

    # -- the case over arrays -----------------------------------------------------------------

    @cached_property
    def case(self) -> Case:
        """The case of the first layout: the others have the same entries."""
        whole = case.build(variant(self.space.plan, self.changes(0)))
        stages = whole.axes["stage"]
        assert isinstance(stages, tuple)
        kept = tuple(stages[i] for i in _fullest(stages_of(self.rows[0])))
        crossed = {key: value for key, value in whole.crossed.items() if key[1] in kept}
        return replace(whole, axes={**whole.axes, "stage": kept}, crossed=crossed)

    @cached_property
    def of_row(self) -> dict[str, Array]:
        """Numbers of the document that differ between rows, by key."""
        rows = self.rows
        degrees = np.array([row.degrees.values for row in rows], dtype=np.float64)
        keys = ("tensor", "pipeline", "context", "expert", "expert_tensor")
        columns = {f"parallelism.{key}": degrees[:, i] for i, key in enumerate(keys)}
        columns |= {
            "parallelism.data": np.array([row.degrees.data for row in rows], dtype=np.float64),
            "parallelism.virtual_pipeline": np.array([row.virtual for row in rows], np.float64),
            "training.micro_batch": np.array([row.micro_batch for row in rows], np.float64),
            "training.gradient_accumulation": np.array(
                [row.micro_batches for row in rows], np.float64
            ),
        }
        return columns

    def arrays(self, rows: slice) -> Case:
        """The case of some rows under every choice: what rows decide varies along the first axis,
        what choices decide along the second, so that most of the work is done once for each row."""
        bindings = dict(self.case.bindings)
        for note in BOOK.notation.values():
            column = self.of_row.get(note.key or "")
            if column is not None and not note.per:
                bindings[note.symbol] = _plain(column[rows, None])
        settings = {**self.case.settings}
        for name, deciding in self.settings_of_row.items():
            settings[name] = _one(Column(deciding.codes[rows, None], deciding.values))
        choices = np.arange(len(self.choices))[None, :]
        for index, name in enumerate(
            ("parallelism.sequence", "parallelism.zero", "training.recompute")
        ):
            settings[name] = _one(Column(choices, tuple(c[index] for c in self.choices)))
        lines, of_layout, varies = self.stages
        kinds = of_layout[rows]
        crossed = {
            key: _plain(lines[kinds if varies[place] else kinds[:, :1], place])
            for place, key in enumerate(self.case.crossed)
        }
        return Case(bindings, settings, self.case.axes, crossed)

    @cached_property
    def settings_of_row(self) -> dict[str, Column]:
        """Settings that differ between rows: those that a formula of the book asks for."""
        asked = {n for ds in BOOK.declarations.values() for d in ds for n in d.when}
        seen: dict[tuple[Any, ...], dict[str, Any]] = {}
        of_rows = []
        for row in self.rows:
            key = (row.degrees.values, row.virtual, row.schedule)
            if key not in seen:
                seen[key] = _settings(row)
            of_rows.append(seen[key])
        columns = {}
        for name in sorted(asked & set(self.case.settings)):
            if name in of_rows[0] and len({repr(s[name]) for s in seen.values()}) > 1:
                columns[name] = _column([settings[name] for settings in of_rows])
        return columns

    @cached_property
    def stages(self) -> tuple[Array, Array, Array]:
        """What the stages hold and keep: one line of numbers for each distinct pipeline, in the
        order of the case's crossed symbols; which of them each row has under each choice; and which
        symbols differ between choices."""
        lines: list[list[Any]] = []
        recomputes = list(dict.fromkeys(recompute for _, _, recompute in self.choices))
        seen: dict[tuple[Any, ...], list[int]] = {}
        of_rows = []
        for row in self.rows:
            key = (row.degrees.values[1], row.virtual, row.schedule, row.micro_batches)
            found = seen.get(key)
            if found is None:
                found = seen[key] = []
                for recompute in recomputes:
                    kept = (*key, recompute, row.degrees.plan.settings["training.implementation"])
                    if kept not in self.space.pipelines:
                        self.space.pipelines[kept] = _crossed(row, recompute, self.case)
                    found.append(len(lines))
                    lines.append(self.space.pipelines[kept])
            of_rows.append(found)
        numbers, of_recompute = np.array(lines, dtype=np.float64), np.array(of_rows)
        of_choice = [recomputes.index(recompute) for _, _, recompute in self.choices]
        places = of_recompute[:, of_choice]
        each = np.array(list(seen.values()))
        varies = (numbers[each[:, :1]] != numbers[each]).any(axis=(0, 1))
        return numbers, places, varies


def _settings(row: Row) -> dict[str, Any]:
    """The settings of a row: those of its degrees, and what its schedule decides."""
    plan = row.degrees.plan
    layout = {**plan.data["parallelism"], "virtual_pipeline": row.virtual}
    training = {**plan.data["training"], "schedule": row.schedule}
    data = {**plan.data, "parallelism": layout, "training": training}
    return {
        **plan.settings,
        "training.schedule": row.schedule,
        **hardware.settings(Draft(plan.document, data)),
    }


def _crossed(row: Row, recompute: str, first: Case) -> list[Any]:
    """The crossed symbols of a layout, in the order of the first one's case."""
    plan = row.degrees.plan
    layout = {**plan.data["parallelism"], "virtual_pipeline": row.virtual}
    training = {**plan.data["training"], "gradient_accumulation": row.micro_batches}
    settings = {**plan.settings, "training.schedule": row.schedule, "training.recompute": recompute}
    data = {**plan.data, "parallelism": layout, "training": training}
    parts, components = first.axes["part"], first.axes["component"]
    assert isinstance(parts, tuple) and isinstance(components, tuple)
    stages, crossed = case._stage_axis(replace(plan, data=data, settings=settings), parts)
    crossed.update(case.held_on_stages(stages, components, crossed))
    if first.settings["dummies"]:
        crossed.update(case.first_of_shape(stages, components, crossed))
    kept = {stages[i] for i in _fullest(stages_of(row))}
    return [value for key, value in crossed.items() if key[1] in kept]


def _fullest(stages: Sequence[Stage]) -> list[int]:
    """Without stages that hold the same as an earlier one and keep no more: uneven cuts repeat
    themselves."""
    kept: dict[tuple[Any, ...], list[int]] = {}
    for index, stage in enumerate(stages):
        same = kept.setdefault(tuple(sorted(stage.holds.items())), [])
        if not any(
            all(stages[i].alive.get(part, 0) >= count for part, count in stage.alive.items())
            for i in same
        ):
            same.append(index)
    return sorted(index for same in kept.values() for index in same)


def stages_of(row: Row) -> tuple[Stage, ...]:
    """The distinct pipeline stages of a row."""
    plan = row.degrees.plan
    assert plan.model is not None
    layout = {**plan.data["parallelism"], "virtual_pipeline": row.virtual}
    return pipeline.stages(
        plan.model, layout, row.schedule, row.micro_batches, plan.get("model.vocab")
    )


def _plain(column: Array) -> Any:
    """A column that holds one value throughout is that number, and stays exact."""
    first = column.flat[0]
    if not (column == first).all():
        return column
    return int(first) if float(first).is_integer() else Fraction(float(first))


def _one(column: Column) -> Any:
    """A column with one value throughout is that value."""
    values = {column.values[code] for code in np.unique(column.codes)}
    return values.pop() if len(values) == 1 else column


def _column(values: Sequence[Any]) -> Column:
    places: dict[Any, int] = {}
    codes = np.array([places.setdefault(value, len(places)) for value in values])
    return Column(codes, tuple(places))


def groups(space: Space) -> Iterator[Group]:
    """The layouts of a space by which tensors and entries they have.

    Rows are told apart by whether a degree is above 1, and choices by whether weights are sharded
    or the residual stream is; what then turns out to have the same entries is joined again.
    """
    by_shape: dict[tuple[Any, ...], list[Row]] = {}
    counts: dict[tuple[Any, ...], int] = {}
    for row in space.rows:
        settings = row.degrees.plan.settings
        place = (
            row.degrees.values[1],
            row.virtual,
            row.schedule,
            row.micro_batches,
            settings["training.implementation"],
        )
        if place not in counts:
            counts[place] = len(_fullest(stages_of(row)))
        key = (
            counts[place],
            settings["training.implementation"],
            settings["training.loss"],
            *(degree > 1 for degree in row.degrees.values),
            row.micro_batch > 1,
        )
        by_shape.setdefault(key, []).append(row)
    joined: dict[Any, tuple[list[Row], list[tuple[Any, ...]]]] = {}
    for rows in by_shape.values():
        by_choice: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for choice in space.choices(rows[0].degrees.values[0]):
            by_choice.setdefault((choice[0], choice[1] == 3), []).append(choice)
        by_entries: dict[Any, list[tuple[Any, ...]]] = {}
        for choices in by_choice.values():
            found = Group(space, rows[:1], choices[:1]).case
            by_entries.setdefault(_entries(found), []).extend(choices)
        for entries, choices in by_entries.items():
            joined.setdefault((entries, tuple(choices)), ([], choices))[0].extend(rows)
    for rows, choices in joined.values():
        yield Group(space, rows, choices)


def _entries(found: Case) -> tuple[Any, ...]:
    """What must be the same for cases to be evaluated together: entries with their bindings and
    settings, and the settings that no document key gives."""
    axes = tuple(
        (
            axis,
            tuple(
                (
                    entry.path if axis != "stage" else "",
                    tuple(entry.bindings.items()),
                    tuple((key, repr(value)) for key, value in entry.settings.items()),
                )
                for entry in entries
            ),
        )
        for axis, entries in found.axes.items()
        if isinstance(entries, tuple)
    )
    own = tuple((key, repr(value)) for key, value in found.settings.items() if "." not in key)
    return axes, own, found.settings["training.implementation"], found.settings["training.loss"]


def evaluate(group: Group, rows: slice, quantities: Sequence[str]) -> dict[str, Array]:
    """Quantities of some rows of a group under each choice, one after another; NaN where absent."""
    evaluation = ArrayEvaluation(group.arrays(rows))
    shape = (len(range(*rows.indices(len(group.rows)))), len(group.choices))
    with np.errstate(all="ignore"):
        return {name: evaluation.array(name, shape).ravel() for name in quantities}


def search(
    plan: Plan,
    top: int = 10,
    by: str = "time.step_seconds",
    fixed: Mapping[str, Any] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> Found:
    """The best layouts of a plan that fit into memory.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        top: how many of the best.
        by: the quantity to make small, such as ``time.step_seconds`` or ``memory.process``.
        fixed: keys of the layout that keep a value, such as ``{"parallelism.tensor": 8}``.
        progress: called with layouts done, layouts in all, seconds passed.

    Raises:
        PlanError: no valid layout, an unknown quantity, or one that no layout has.
    """
    known(by)
    if plan.model is None:
        raise PlanError(Fault("a search needs the shape of the model", None))
    space, start = Space(plan, fixed), time.perf_counter()
    wanted = tuple(dict.fromkeys((FITS, MEMORY, by)))
    best: list[tuple[float, float, Group, int]] = []
    front: list[tuple[float, float, Group, int]] = []
    done = fitting = 0
    seen_any = False
    for group in groups(space):
        step = max(1, CHUNK // len(group.choices))
        for first in range(0, len(group.rows), step):
            values = evaluate(group, slice(first, first + step), wanted)
            places = first * len(group.choices) + np.arange(len(values[by]))
            seen_any |= bool(np.isfinite(values[by]).any())
            fits = np.flatnonzero((values[FITS] >= 0) & np.isfinite(values[by]))
            fitting += len(fits)
            score, memory = values[by][fits], values[MEMORY][fits]
            order = fits[np.lexsort((memory, score))]
            best += [
                (float(values[by][i]), float(values[MEMORY][i]), group, int(places[i]))
                for i in order[:top]
            ]
            front += [
                (float(values[by][i]), float(values[MEMORY][i]), group, int(places[i]))
                for i in _front(order, values[MEMORY])
            ]
            done += len(places)
            if progress is not None:
                progress(done, space.size, time.perf_counter() - start)
        best = sorted(best, key=lambda item: item[:2])[:top]
        front = _merged(front)
    if not seen_any:
        _explain_absence(space, by)
    exact = [_exact(plan, item, wanted) for item in best]
    exact.sort(key=lambda layout: (layout.values[by], layout.values[MEMORY]))
    return Found(
        plan,
        by,
        space.size,
        fitting,
        tuple(exact),
        tuple(_over_arrays(item, wanted) for item in front),
        _own(plan, space, wanted),
    )


def best(
    plan: Plan,
    by: str = "time.step_seconds",
    limits: Sequence[Limit] = (),
    fixed: Mapping[str, Any] | None = None,
) -> Layout | None:
    """The one best layout of a plan that fits into memory and keeps some limits.

    Args:
        plan: its model, cluster and batch stay; its layout and an assumed utilisation do not.
        by: the quantity to make small.
        limits: further limits that the layout has to keep.
        fixed: keys of the layout that keep a value.

    Returns:
        The layout with exact values of ``by``, ``memory.headroom``, ``memory.process`` and of each
        limit's quantity; ``layout.of(plan)`` is the plan. None where no layout fits and keeps the
        limits.

    Raises:
        PlanError: no valid layout, an unknown quantity, or one that no layout has.
    """
    found = search(plan, 100_000 if limits else 1, by, fixed)
    for layout in found.best:
        values = evaluated(layout.of(plan), [limit.quantity for limit in limits])
        if all(limit.holds(values[limit.quantity]) for limit in limits):
            return replace(layout, values={**layout.values, **values})
    return None


def _own(plan: Plan, space: Space, quantities: Sequence[str]) -> Layout | None:
    """The plan's own layout, with time predicted as for the others."""
    changes = {key: plan.get(key) for key in space.changes(space.rows[0], (False, 0, "none"))}
    try:
        values = evaluated(variant(plan, {"time.mfu": None}), quantities)
    except PlanError:
        return None
    return Layout({k: v for k, v in changes.items() if v is not None}, values, {})


def _front(order: Array, memory: Array) -> list[int]:
    """Of layouts from the fastest on, those that need less memory than all before."""
    if not len(order):
        return []
    lowest = np.minimum.accumulate(memory[order])
    first = np.concatenate(([True], lowest[1:] < lowest[:-1]))
    return [int(i) for i in order[first]]


def _merged(front: list[tuple[float, float, Group, int]]) -> list[tuple[float, float, Group, int]]:
    kept: list[tuple[float, float, Group, int]] = []
    for item in sorted(front, key=lambda item: item[:2]):
        if not kept or item[1] < kept[-1][1]:
            kept.append(item)
    return kept


def _explain_absence(space: Space, by: str) -> None:
    """A quantity that no layout has: the reason of the first one."""
    row = space.rows[0]
    changes = space.changes(row, space.choices(row.degrees.values[0])[0])
    evaluated(variant(space.plan, changes), [by])


def _over_arrays(item: tuple[float, float, Group, int], quantities: Sequence[str]) -> Layout:
    score, memory, group, place = item
    values = {quantities[-1]: score, MEMORY: memory}
    changes = group.changes(place)
    shown = {k: v for k, v in changes.items() if v is not None}
    return Layout(shown, values, values, tuple(k for k, v in changes.items() if v is None))


def _exact(plan: Plan, item: tuple[float, float, Group, int], quantities: Sequence[str]) -> Layout:
    score, memory, group, place = item
    changes = group.changes(place)
    values = evaluated(variant(plan, changes), quantities)
    shown = {k: v for k, v in changes.items() if v is not None}
    cleared = tuple(k for k, v in changes.items() if v is None)
    return Layout(shown, values, {quantities[-1]: score, MEMORY: memory}, cleared)
