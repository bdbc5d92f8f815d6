"""What the comparison of a study needs, gathered piece by piece: counts, the best point for each
question, and the best for each value of each axis. It stays small however many points there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.base import files
from planner.questions.studies.compared import COST, DAYS, DEVICES, MEMORY, USE
from planner.questions.studies.points import Array
from planner.questions.studies.study import Study
from planner.questions.studies.table import STATES, Rows

#: Questions by name: the quantity, and whether the largest is the best.
QUESTIONS: dict[str, tuple[str, bool]] = {
    "shortest run": (DAYS, False),
    "lowest cost": (COST, False),
    "least memory": (MEMORY, False),
    "highest MFU": (USE, True),
}
#: Values of one dimension that are told apart.
MOST_PLACES = 128
#: Tasks, each with a best of its own.
MOST_TASKS = 24
#: Lines of a chart, reasons and points of a front that are kept.
MOST_LINES, MOST_REASONS, MOST_FRONT = 6, 64, 64

Best = list[Any]  # value and point


@dataclass
class Summary:
    """Mergeable facts of some pieces, in the order of the points."""

    points: int = 0
    rows: int = 0
    invalid: int = 0
    outside: int = 0  # valid, and beyond a limit of the study
    fit: int = 0
    tight: int = 0  # of those that fit, by the estimate alone
    unfit: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    # line -> question -> best
    best: dict[str, dict[str, Best]] = field(default_factory=dict)
    # dimension -> place -> points, within limits, fitting, and the best of each question
    each: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    # chart -> "place of x, line" -> best
    cells: dict[str, dict[str, Best]] = field(default_factory=dict)
    # line -> [cost, days, point], nothing better in both
    front: dict[str, list[list[Any]]] = field(default_factory=dict)
    # place of the layout -> least and most memory
    memory: dict[str, list[float]] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)

    def add(self, other: Summary) -> None:
        """Take in the piece that follows."""
        for name in ("points", "rows", "invalid", "outside", "fit", "tight", "unfit"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for text, count in other.reasons.items():
            key = text if text in self.reasons or len(self.reasons) < MOST_REASONS else "others"
            self.reasons[key] = self.reasons.get(key, 0) + count
        for line, questions in other.best.items():
            for question, best in questions.items():
                _better(self.best.setdefault(line, {}), question, best, QUESTIONS[question][1])
        for dimension, places in other.each.items():
            mine = self.each.setdefault(dimension, {})
            for place, counts in places.items():
                known = mine.setdefault(place, [0, 0, 0, {}])
                for index in range(3):
                    known[index] += counts[index]
                for question, best in counts[3].items():
                    _better(known[3], question, best, QUESTIONS[question][1])
        for chart, cells in other.cells.items():
            for cell, best in cells.items():
                _better(self.cells.setdefault(chart, {}), cell, best, False)
        for series, points in other.front.items():
            self.front[series] = _front([*self.front.get(series, []), *points])
        for place, (low, high) in other.memory.items():
            mine_low, mine_high = self.memory.get(place, [low, high])
            self.memory[place] = [min(low, mine_low), max(high, mine_high)]
        for name, whole in other.whole.items():
            self.whole[name] = self.whole.get(name, True) and whole

    def to_json(self) -> str:
        """As text, which is what is sent and kept."""
        return json.dumps(vars(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """What ``to_json`` made."""
        return cls(**files.parse_json(text))


def _better(known: dict[str, Best], key: str, best: Best, largest: bool) -> None:
    """Keep the better value; of equals the first point."""
    if key not in known or (best[0] > known[key][0] if largest else best[0] < known[key][0]):
        known[key] = best


def _front(points: list[list[Any]]) -> list[list[Any]]:
    """Of points [cost, days, …] those that no other one beats in both, by cost."""
    kept: list[list[Any]] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    if len(kept) <= MOST_FRONT:
        return kept
    step = (len(kept) - 1) / (MOST_FRONT - 1)
    return [kept[round(index * step)] for index in range(MOST_FRONT)]


@dataclass(frozen=True)
class Roles:
    """Which dimensions the charts show: along x, as lines, as layouts."""

    x: int | None
    lines: tuple[int, ...]
    tasks: bool  # lines are different tasks, each with a best of its own
    layout: int | None

    def line(self, study: Study, places: Sequence[int]) -> int:
        """The number of the line of some places along ``lines``."""
        found = 0
        for dimension, place in zip(self.lines, places, strict=True):
            found = found * study.shape[dimension] + place
        return found

    def places(self, study: Study, line: int) -> tuple[int, ...]:
        """The places of a line."""
        found = []
        for dimension in reversed(self.lines):
            line, place = divmod(line, study.shape[dimension])
            found.append(place)
        return tuple(reversed(found))

    def count(self, study: Study) -> int:
        """How many lines there are."""
        return math.prod(study.shape[dimension] for dimension in self.lines)


def roles(study: Study) -> Roles:
    """Devices along x where they vary, else the longest row of numbers. What is to be done (plans,
    models, tokens) makes lines, for a best over different tasks says nothing; without such, the
    first words do. What changes the layout are layouts."""
    shown = [i for i, n in enumerate(study.shape) if 1 < n <= MOST_PLACES]
    keys = {i: {k for axis in study.dimensions[i] for k in axis.keys} for i in shown}
    numeric = [i for i in shown if all(axis.numeric for axis in study.dimensions[i])]
    tasks = [i for i in shown if not keys[i] or any(map(_is_task, keys[i]))]
    x = next((i for i in shown if DEVICES in keys[i]), None)
    if x is None:
        x = max((i for i in numeric if i not in tasks), key=lambda i: study.shape[i], default=None)
    if x is None and numeric:
        x = max(numeric, key=lambda i: study.shape[i])
    lines = tuple(i for i in tasks if i != x)
    while lines and math.prod(study.shape[i] for i in lines) > MOST_TASKS:
        lines = lines[:-1]
    are_tasks = bool(lines)
    if not lines:
        rest = [i for i in shown if i != x]
        words = [i for i in rest if i not in numeric]
        few = [i for i in rest if study.shape[i] <= MOST_LINES]
        lines = tuple((words or few)[:1])
    layouts = [i for i in shown if any(k.startswith("parallelism") for k in keys[i])]
    others = [i for i in (*layouts, *lines) if i != x]
    return Roles(x, lines, are_tasks, others[0] if others else None)


def _is_task(key: str) -> bool:
    return key.startswith("model") or key in ("training.tokens", "training.sequence_length")


def summary(table: Rows) -> Summary:
    """The facts of one piece."""
    study, values = table.study, table.values
    fits = table.fits
    usable = table.holds & (fits != 0)
    found = Summary(
        points=table.size,
        rows=math.prod(table.grid),
        invalid=table.count(~values.valid),
        outside=table.count(values.valid & ~table.holds),
        fit=table.count(table.holds & (fits == 1)),
        tight=table.count(table.holds & (table.verdict == STATES.index("tight"))),
        unfit=table.count(table.holds & (fits == 0)),
    )
    reasons, valid = np.broadcast_arrays(values.reasons, values.valid)
    codes, counts = np.unique(reasons[~valid], return_counts=True)
    each = table.size // valid.size
    told = {values.texts[c]: int(n) * each for c, n in zip(codes, counts, strict=True)}
    # In an order of their own: texts come in that in which rules were tried.
    found.reasons = dict(sorted(told.items(), key=lambda reason: (-reason[1], reason[0])))
    scores = {
        name: _Scores(_score(values.numbers[q], usable, largest))
        for name, (q, largest) in QUESTIONS.items()
    }
    for dimension, places in enumerate(table.ranges):
        if study.shape[dimension] > MOST_PLACES:
            continue
        held = _along(table, table.holds, dimension)
        fitting = _along(table, usable, dimension)
        one = table.size // len(places)
        rows: dict[str, list[Any]] = {
            str(p): [one, held[i], fitting[i], {}] for i, p in enumerate(places)
        }
        for question, score in scores.items():
            for (i,), least, inner in score.lowest((dimension,), table.shape):
                rows[str(places[i])][3][question] = _value(question, least, inner, table)
        found.each[str(dimension)] = rows
    _charts(found, table, scores)
    found.whole = dict(table.whole)
    return found


def _score(numbers: Array, usable: Array, largest: bool) -> Array:
    """Smaller is better; infinite where there is nothing to compare."""
    score: Array = np.where(usable & np.isfinite(numbers), -numbers if largest else numbers, np.inf)
    return score


def _along(table: Rows, true: Array, dimension: int) -> list[int]:
    """At each place along a dimension, how many points something is true of."""
    others = tuple(i for i in range(true.ndim) if i != dimension)
    counts = true.sum(axis=others) * (table.size // table.shape[dimension])
    counts //= true.size // true.shape[dimension]
    return [int(n) for n in np.broadcast_to(counts, table.shape[dimension])]


def _value(question: str, score: float, inner: Sequence[int], table: Rows) -> Best:
    """The value of a score, and the number of its point in the study."""
    value = -score if QUESTIONS.get(question, ("", False))[1] else score
    return [value, _point(inner, table)]


def _point(inner: Sequence[int], table: Rows) -> int:
    """The number in the study of the point at some places of a piece."""
    point = 0
    for length, places, offset in zip(table.study.shape, table.ranges, inner, strict=True):
        point = point * length + places[offset]
    return point


class _Scores:
    """Scores over a piece, smaller is better, and where the lowest of them are."""

    def __init__(self, scores: Array) -> None:
        self.scores = scores
        self._tails: dict[int, _Reduced] = {scores.ndim: (scores, {})}

    def lowest(
        self, keep: tuple[int, ...], shape: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], float, tuple[int, ...]]]:
        """For each place along some dimensions of a piece, where there is one: the lowest score,
        and the places of the first point that has it."""
        last = max(keep, default=-1)
        least, inner = self._tail(last + 1)
        for dimension in reversed(range(last)):
            if dimension not in keep:
                least, inner = _without(least, inner, dimension)
        order = (*keep, *(i for i in range(least.ndim) if i not in keep))
        heads = tuple(shape[i] for i in keep)

        def listed(array: Array) -> list[Any]:
            moved = array.transpose(order)
            found = np.broadcast_to(moved.reshape(moved.shape[: len(keep)]), heads)
            return list(found.ravel().tolist())

        values, places = listed(least), {d: listed(found) for d, found in inner.items()}
        for number, index in enumerate(np.ndindex(*heads)):
            if math.isfinite(values[number]):
                point = [0] * least.ndim
                for dimension, place in zip(keep, index, strict=True):
                    point[dimension] = place
                for dimension, found in places.items():
                    point[dimension] = found[number]
                yield index, values[number], tuple(point)

    def _tail(self, first: int) -> _Reduced:
        """The lowest along one dimension and all that follow."""
        if first not in self._tails:
            self._tails[first] = _without(*self._tail(first + 1), first)
        return self._tails[first]


#: Scores that are left, and of each the place along every dimension that is gone. Along what a
#: score does not vary with, the first place is the first of equals, and not kept.
_Reduced = tuple[Array, dict[int, Array]]


def _without(least: Array, inner: dict[int, Array], dimension: int) -> _Reduced:
    """The first of the lowest along one dimension more; the dimensions after it go first, so that
    of equal scores the first point is left."""
    if least.shape[dimension] == 1:
        return least, inner
    first = least.argmin(axis=dimension, keepdims=True)
    inner = {d: np.take_along_axis(found, first, dimension) for d, found in inner.items()}
    return np.take_along_axis(least, first, dimension), {**inner, dimension: first}


def _unraveled(flat: Any, lengths: Sequence[int]) -> list[Any]:
    """The places along several dimensions of places in all of them together."""
    found = []
    for length in reversed(lengths):
        flat, along = np.divmod(flat, length)
        found.append(along)
    return found[::-1]


def _charts(found: Summary, table: Rows, scores: dict[str, _Scores]) -> None:
    study, ranges, shape = table.study, table.ranges, table.shape
    role = roles(study)

    def line(index: Sequence[int]) -> int:
        return role.line(study, [ranges[d][i] for d, i in zip(role.lines, index, strict=True)])

    for question, score in scores.items():
        for index, least, inner in score.lowest(role.lines if role.tasks else (), shape):
            number = line(index) if role.tasks else 0
            best = _value(question, least, inner, table)
            found.best.setdefault(str(number), {})[question] = best
    if role.x is not None:
        for chart, question in (("days", "shortest run"), ("cost", "lowest cost")):
            cells = found.cells.setdefault(chart, {})
            for index, least, inner in scores[question].lowest((role.x, *role.lines), shape):
                cell = f"{ranges[role.x][index[0]]},{line(index[1:])}"
                cells[cell] = _value(question, least, inner, table)
    _fronts(found, table, scores, role)
    if role.layout is not None:
        memory = np.where(table.holds, table.values.numbers[MEMORY], np.nan)
        moved = np.moveaxis(memory, role.layout, 0).reshape(memory.shape[role.layout], -1)
        rows = np.broadcast_to(moved, (shape[role.layout], moved.shape[1]))
        for row, place in zip(rows, ranges[role.layout], strict=True):
            known = row[np.isfinite(row)]
            if len(known):
                found.memory[str(place)] = [float(known.min()), float(known.max())]


def _fronts(found: Summary, table: Rows, scores: dict[str, _Scores], role: Roles) -> None:
    """Of each line the points that no other one beats in cost and in days."""
    days, cost = scores["shortest run"].scores, scores["lowest cost"].scores
    # Where days stay, the lowest cost beats the others.
    same = tuple(
        d for d in range(days.ndim) if days.shape[d] == 1 < cost.shape[d] and d not in role.lines
    )
    kept = tuple(d for d in range(cost.ndim) if d not in same)
    moved = cost.transpose((*kept, *same)).reshape(*(cost.shape[d] for d in kept), -1)
    cheapest = moved.argmin(axis=-1)
    cost = np.take_along_axis(moved, cheapest[..., None], axis=-1)[..., 0]
    heads = tuple(table.shape[d] if d in role.lines else 1 for d in kept)
    shape = np.broadcast_shapes(cost.shape, tuple(days.shape[d] for d in kept), heads)
    days, cost, cheapest = (
        np.broadcast_to(array, shape).ravel()
        for array in (days.reshape([days.shape[d] for d in kept]), cost, cheapest)
    )
    both = np.isfinite(days) & np.isfinite(cost)
    if not both.any():
        return
    inner: list[Array] = [np.zeros(len(days), dtype=np.int64)] * len(table.shape)
    for dimension, along in zip(kept, np.indices(shape), strict=True):
        inner[dimension] = along.ravel()
    for dimension, along in zip(
        same, _unraveled(cheapest, [table.shape[d] for d in same]), strict=True
    ):
        inner[dimension] = along
    points = np.zeros(len(days), dtype=np.int64)
    lines = np.zeros(len(days), dtype=np.int64)
    for dimension, length in enumerate(table.study.shape):
        number = inner[dimension] + table.ranges[dimension].start
        points = points * length + number
        if dimension in role.lines:
            lines = lines * length + number
    for line in np.unique(lines[both]).tolist():
        places: Array = np.flatnonzero(both & (lines == line))
        order = places[np.lexsort((points[places], days[places], cost[places]))]
        least = np.minimum.accumulate(days[order])
        best = order[np.concatenate(([True], least[1:] < least[:-1]))]
        found.front[str(line)] = _front(
            [[float(cost[p]), float(days[p]), int(points[p])] for p in best]
        )
