"""What the comparison of a study needs, gathered piece by piece: counts, the best point for each
question, and the best for each value of each axis. It stays small however many points there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.sweep.asked import COST, DAYS, DEVICES, MEMORY, USE
from planner.sweep.points import Array
from planner.sweep.study import Study
from planner.sweep.table import EXACT, Rows

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
        for name in ("points", "rows", "invalid", "outside", "fit", "unfit"):
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

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Summary:
        """What ``to_json`` made."""
        return cls(**data)


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
    shape = tuple(map(len, table.ranges))
    first = _first(study, table.ranges)
    fits = table.fits
    usable = table.holds & (fits != 0)
    found = Summary(
        points=len(values.valid),
        rows=int(table.kept.sum()),
        invalid=int((~values.valid).sum()),
        outside=int((values.valid & ~table.holds).sum()),
        fit=int((table.holds & (fits == 1)).sum()),
        unfit=int((table.holds & (fits == 0)).sum()),
    )
    codes, counts = np.unique(values.reasons[~values.valid], return_counts=True)
    found.reasons = {values.texts[c]: int(n) for c, n in zip(codes, counts, strict=True)}
    scores = {
        name: _score(values.numbers[q], usable, largest) for name, (q, largest) in QUESTIONS.items()
    }
    for dimension, places in enumerate(table.ranges):
        if study.shape[dimension] > MOST_PLACES:
            continue
        others = tuple(i for i in range(len(shape)) if i != dimension)
        held = table.holds.reshape(shape).sum(axis=others)
        fitting = usable.reshape(shape).sum(axis=others)
        one = len(values.valid) // len(places)
        rows: dict[str, list[Any]] = {
            str(p): [one, int(held[i]), int(fitting[i]), {}] for i, p in enumerate(places)
        }
        for question, score in scores.items():
            for i, place in _lowest(score.reshape(shape), (dimension,)):
                rows[str(places[i[0]])][3][question] = _value(
                    question, score[place], first, place, study, table.ranges
                )
        found.each[str(dimension)] = rows
    _charts(found, table, scores, first)
    for name in study.record:
        numbers = values.numbers[name]
        if numbers.dtype != object:
            there = numbers[table.kept & ~np.isnan(numbers)]
            found.whole[name] = bool(
                (np.rint(there) == there).all() and (np.abs(there) <= EXACT).all()
            )
    return found


def _score(numbers: Array, usable: Array, largest: bool) -> Array:
    """Smaller is better; infinite where there is nothing to compare."""
    score: Array = np.where(usable & np.isfinite(numbers), -numbers if largest else numbers, np.inf)
    return score


def _first(study: Study, ranges: Sequence[range]) -> list[int]:
    return [r.start for r in ranges]


def _value(
    question: str,
    score: float,
    first: list[int],
    place: int,
    study: Study,
    ranges: Sequence[range],
) -> Best:
    """The value of a score, and the number of its point in the study."""
    value = -float(score) if QUESTIONS.get(question, ("", False))[1] else float(score)
    return [value, _point(place, first, study, ranges)]


def _point(place: int, first: list[int], study: Study, ranges: Sequence[range]) -> int:
    inner = np.unravel_index(place, tuple(map(len, ranges))) if ranges else ()
    point = 0
    for length, start, offset in zip(study.shape, first, inner, strict=True):
        point = point * length + start + int(offset)
    return point


def _lowest(score: Array, keep: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """For each place along some dimensions the (flat) place of the lowest score, where there is
    one."""
    order = (*keep, *(i for i in range(score.ndim) if i not in keep))
    numbers = np.arange(score.size).reshape(score.shape).transpose(order)
    moved = score.transpose(order)
    heads = moved.shape[: len(keep)]
    flat, places = moved.reshape(*heads, -1), numbers.reshape(*heads, -1)
    lowest = flat.argmin(axis=-1)
    found = []
    for index in np.ndindex(*heads):
        at = (*index, lowest[index])
        if np.isfinite(flat[at]):
            found.append((tuple(map(int, index)), int(places[at])))
    return found


def _charts(found: Summary, table: Rows, scores: dict[str, Array], first: list[int]) -> None:
    study, ranges = table.study, table.ranges
    shape = tuple(map(len, ranges))
    role = roles(study)

    def line(index: Sequence[int]) -> int:
        return role.line(study, [ranges[d][i] for d, i in zip(role.lines, index, strict=True)])

    for question, score in scores.items():
        for index, place in _lowest(score.reshape(shape), role.lines if role.tasks else ()):
            best = _value(question, score[place], first, place, study, ranges)
            number = line(index) if role.tasks else 0
            found.best.setdefault(str(number), {})[question] = best
    if role.x is not None:
        for chart, question in (("days", "shortest run"), ("cost", "lowest cost")):
            score = scores[question]
            cells = found.cells.setdefault(chart, {})
            for index, place in _lowest(score.reshape(shape), (role.x, *role.lines)):
                cell = f"{ranges[role.x][index[0]]},{line(index[1:])}"
                cells[cell] = _value(question, score[place], first, place, study, ranges)
    _fronts(found, table, scores, first, role)
    if role.layout is not None:
        memory = np.where(table.holds, table.values.numbers[MEMORY], np.nan).reshape(shape)
        moved = np.moveaxis(memory, role.layout, 0).reshape(shape[role.layout], -1)
        for row, place in zip(moved, ranges[role.layout], strict=True):
            known = row[np.isfinite(row)]
            if len(known):
                found.memory[str(place)] = [float(known.min()), float(known.max())]


def _fronts(
    found: Summary, table: Rows, scores: dict[str, Array], first: list[int], role: Roles
) -> None:
    """Of each line the points that no other one beats in cost and in days."""
    study, ranges = table.study, table.ranges
    days, cost = scores["shortest run"], scores["lowest cost"]
    both = np.isfinite(days) & np.isfinite(cost)
    if not both.any():
        return
    grid = np.indices(tuple(map(len, ranges)))
    lines = np.zeros(len(days), dtype=np.int64)
    for dimension in role.lines:
        lines = lines * study.shape[dimension] + grid[dimension].ravel() + ranges[dimension].start
    for line in np.unique(lines[both]).tolist():
        places = np.flatnonzero(both & (lines == line))
        order = places[np.lexsort((days[places], cost[places]))]
        least = np.minimum.accumulate(days[order])
        best = order[np.concatenate(([True], least[1:] < least[:-1]))]
        found.front[str(line)] = _front(
            [[float(cost[p]), float(days[p]), _point(int(p), first, study, ranges)] for p in best]
        )
