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
from planner.questions.studies.points import COST, DAYS, DEVICES, MEMORY, USE, Array
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

    def line(self, study: Study, places: Sequence[Any]) -> Any:
        """The number of the line of some places along ``lines``, which may be arrays."""
        found: Any = 0
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
        name: _score(values.numbers[q], usable, largest) for name, (q, largest) in QUESTIONS.items()
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
            for (i,), best in _each(question, *_lowest(table, score, (dimension,))):
                rows[str(places[i])][3][question] = best
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


def _lowest(table: Rows, scores: Array, keep: tuple[int, ...]) -> tuple[Array, Array]:
    """At each place along some dimensions of a piece, the lowest score and the number in the study
    of the first point that has it, both as (…kept dimensions)."""
    study, shape = table.study, table.shape
    rest = [d for d in range(scores.ndim) if d not in keep]
    moved = scores.transpose((*keep, *rest))
    moved = moved.reshape(*moved.shape[: len(keep)], -1)
    first = moved.argmin(axis=-1)
    least = np.take_along_axis(moved, first[..., None], axis=-1)[..., 0]
    # Along what a score does not vary with, the first place is the first of equals.
    inner = dict(zip(rest, _unraveled(first, [scores.shape[d] for d in rest]), strict=True))
    along = np.indices([shape[d] for d in keep], sparse=True)
    inner |= dict(zip(keep, along, strict=True))
    points: Array = np.zeros((1,) * len(keep), dtype=np.int64)
    for dimension, length in enumerate(study.shape):
        points = points * length + inner[dimension] + table.ranges[dimension].start
    whole = tuple(shape[d] for d in keep)
    return np.broadcast_to(least, whole), np.broadcast_to(points, whole)


def _each(question: str, least: Array, points: Array) -> Iterator[tuple[tuple[int, ...], Best]]:
    """The best value and its point at each place that has one (``_lowest``)."""
    sign = -1 if QUESTIONS[question][1] else 1
    for index in np.ndindex(least.shape):
        if math.isfinite(least[index]):
            yield index, [sign * float(least[index]), int(points[index])]


def _unraveled(flat: Any, lengths: Sequence[int]) -> list[Any]:
    """The places along several dimensions of places in all of them together."""
    found = []
    for length in reversed(lengths):
        flat, along = np.divmod(flat, length)
        found.append(along)
    return found[::-1]


def _charts(found: Summary, table: Rows, scores: dict[str, Array]) -> None:
    study, ranges, shape = table.study, table.ranges, table.shape
    role = roles(study)

    def line(index: Sequence[int]) -> int:
        return int(role.line(study, [ranges[d][i] for d, i in zip(role.lines, index, strict=True)]))

    for question, score in scores.items():
        lines = role.lines if role.tasks else ()
        for index, best in _each(question, *_lowest(table, score, lines)):
            found.best.setdefault(str(line(index) if lines else 0), {})[question] = best
    if role.x is not None:
        for chart, question in (("days", "shortest run"), ("cost", "lowest cost")):
            lowest = _lowest(table, scores[question], (role.x, *role.lines))
            found.cells[chart] = {
                f"{ranges[role.x][index[0]]},{line(index[1:])}": best
                for index, best in _each(question, *lowest)
            }
    _fronts(found, table, scores, role)
    if role.layout is not None:
        memory = np.where(table.holds, table.values.numbers[MEMORY], np.nan)
        moved = np.moveaxis(memory, role.layout, 0).reshape(memory.shape[role.layout], -1)
        rows = np.broadcast_to(moved, (shape[role.layout], moved.shape[1]))
        for row, place in zip(rows, ranges[role.layout], strict=True):
            known = row[np.isfinite(row)]
            if len(known):
                found.memory[str(place)] = [float(known.min()), float(known.max())]


def _fronts(found: Summary, table: Rows, scores: dict[str, Array], role: Roles) -> None:
    """Of each line the points that no other one beats in cost and in days."""
    days, cost = scores["shortest run"], scores["lowest cost"]
    # Where days stay, the lowest cost beats the others.
    kept = tuple(d for d in range(days.ndim) if days.shape[d] > 1 or d in role.lines)
    lowest, numbers = _lowest(table, cost, kept)
    days = np.broadcast_to(
        days.squeeze(tuple(d for d in range(days.ndim) if d not in kept)), lowest.shape
    )
    both = np.isfinite(days) & np.isfinite(lowest)
    along = dict(zip(kept, np.indices(lowest.shape), strict=True))
    places = [along[d] + table.ranges[d].start for d in role.lines]
    lines = np.broadcast_to(role.line(table.study, places), both.shape)
    for line in np.unique(lines[both]).tolist():
        inside = both & (lines == line)
        several = lowest[inside], days[inside], numbers[inside]
        order = np.lexsort(several[::-1])
        costs, lengths, points = (array[order] for array in several)
        least = np.minimum.accumulate(lengths)
        best = np.flatnonzero(np.concatenate(([True], least[1:] < least[:-1])))
        found.front[str(line)] = _front(
            [[float(costs[p]), float(lengths[p]), int(points[p])] for p in best]
        )
