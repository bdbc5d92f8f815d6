"""What the comparison of a study needs, gathered piece by piece: counts, the best point for each
question, and the best for each value of each axis. It stays small however many points there are.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from planner.base import files
from planner.questions.studies.points import COST, DAYS, DEVICES, MEMORY, REASON, USE, Array
from planner.questions.studies.study import Study
from planner.questions.studies.table import STATES, Rows

#: Questions by name: the quantity, and whether the least of it is the best (1) or the most (-1).
QUESTIONS: dict[str, tuple[str, int]] = {
    "shortest run": (DAYS, 1),
    "lowest cost": (COST, 1),
    "least memory": (MEMORY, 1),
    "highest MFU": (USE, -1),
}
#: The charts along x, and what each asks.
CHARTS = {"days": "shortest run", "cost": "lowest cost"}
#: Values of one dimension that are told apart.
MOST_PLACES = 128
#: Tasks, each with a best of its own.
MOST_TASKS = 24
#: Lines of a chart, reasons and points of a front that are kept.
MOST_LINES, MOST_REASONS, MOST_FRONT = 6, 64, 64

#: A score, the smaller the better, and the first point that has it.
Best = list[Any]


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
    # dimension -> place -> plans, valid, fit: how many; best: question -> best
    each: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    # chart -> "place of x, line" -> best
    cells: dict[str, dict[str, Best]] = field(default_factory=dict)
    # line -> [cost, days, point], nothing better in both
    front: dict[str, list[list[Any]]] = field(default_factory=dict)
    # place of the layout -> least and most: best by memory
    memory: dict[str, dict[str, Best]] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)

    def add(self, other: Summary) -> None:
        """Take in the piece that follows."""
        for name, theirs in vars(other).items():
            setattr(self, name, _merged(getattr(self, name), theirs))
        for text in [text for text in self.reasons if text != "others"][MOST_REASONS:]:
            self.reasons["others"] = self.reasons.get("others", 0) + self.reasons.pop(text)

    def to_json(self) -> str:
        """As text, which is what is sent and kept."""
        return json.dumps(vars(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """What ``to_json`` made."""
        return cls(**files.parse_json(text))


def _merged(mine: Any, theirs: Any) -> Any:
    """Mappings key by key; counts add up, of bests the better one stays, of equals the first."""
    if isinstance(theirs, dict):
        both = {key: _merged(mine[key], theirs[key]) for key in theirs if key in mine}
        return {**mine, **theirs, **both}
    if isinstance(theirs, bool):
        return mine and theirs
    if isinstance(theirs, int):
        return mine + theirs
    if isinstance(theirs[0], list):
        return _front([*mine, *theirs])
    return min(mine, theirs, key=itemgetter(0))


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
    study, values, fits = table.study, table.values, table.fits
    usable = table.holds & (fits != 0)
    found = Summary(
        points=math.prod(table.shape),
        rows=len(table),
        invalid=table.count(~values.valid),
        outside=table.count(values.valid & ~table.holds),
        fit=table.count(table.holds & (fits == 1)),
        tight=table.count(table.holds & (table.verdict == STATES.index("tight"))),
        unfit=table.count(table.holds & (fits == 0)),
        whole=table.whole,
    )
    reasons = np.where(values.valid, "", values.words[REASON])
    refused = Counter(np.broadcast_to(reasons, table.shape).ravel().tolist())
    refused.pop("", None)
    # In an order of their own: texts come in that in which rules were tried.
    found.reasons = dict(sorted(refused.items(), key=lambda reason: (-reason[1], reason[0])))
    scores = {
        question: _score(sign * values.numbers[quantity], usable)
        for question, (quantity, sign) in QUESTIONS.items()
    }
    for dimension in range(len(table.shape)):
        if study.shape[dimension] <= MOST_PLACES:
            found.each[str(dimension)] = _each(table, dimension, usable, scores)
    _charts(found, table, scores)
    return found


def _score(numbers: Array, usable: Array) -> Array:
    """What is small where it is good; infinite where there is nothing to compare."""
    score: Array = np.where(usable & np.isfinite(numbers), numbers, np.inf)
    return score


def _each(
    table: Rows, dimension: int, usable: Array, scores: dict[str, Array]
) -> dict[str, dict[str, Any]]:
    """At each place along a dimension how many points there are, and the best."""
    others = tuple(d for d in range(len(table.shape)) if d != dimension)
    counts = [
        np.count_nonzero(np.broadcast_to(true, table.shape), axis=others).tolist()
        for true in (True, table.holds, usable)
    ]
    found: dict[str, dict[str, Any]] = {
        str(place): {"plans": plans, "valid": valid, "fit": fit, "best": {}}
        for place, plans, valid, fit in zip(table.ranges[dimension], *counts, strict=True)
    }
    for question, score in scores.items():
        for (place,), best in _bests(table, score, (dimension,)):
            found[str(place)]["best"][question] = best
    return found


def _lowest(table: Rows, scores: Array, keep: Sequence[int]) -> tuple[Array, Array]:
    """At each place along some dimensions of a piece, the lowest score and the number in the study
    of the first point that has it, both as (…kept dimensions)."""
    shape = table.shape
    rest = [d for d in range(len(shape)) if d not in keep]

    def moved(array: Array) -> Array:
        """What is said of each point, (dimension, …), as (…kept dimensions, all others)."""
        over = np.broadcast_to(array, shape).transpose((*keep, *rest))
        return over.reshape(*over.shape[: len(keep)], -1)

    flat = moved(scores)
    first = flat.argmin(axis=-1)[..., None]
    least, points = (np.take_along_axis(a, first, axis=-1) for a in (flat, moved(table.numbers)))
    return least[..., 0], points[..., 0]


def _bests(
    table: Rows, scores: Array, keep: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Best]]:
    """The lowest score at each place of the study along some dimensions, where there is one."""
    least, points = _lowest(table, scores, keep)
    for index in np.ndindex(least.shape):
        if math.isfinite(least[index]):
            places = tuple(table.ranges[d][i] for d, i in zip(keep, index, strict=True))
            yield places, [float(least[index]), int(points[index])]


def _charts(found: Summary, table: Rows, scores: dict[str, Array]) -> None:
    study, role = table.study, roles(table.study)
    for question, score in scores.items():
        for places, best in _bests(table, score, role.lines if role.tasks else ()):
            line = role.line(study, places) if role.tasks else 0
            found.best.setdefault(str(line), {})[question] = best
    if role.x is not None:
        shown = (role.x, *role.lines)
        found.cells = {
            chart: {
                f"{x},{role.line(study, places)}": best
                for (x, *places), best in _bests(table, scores[question], shown)
            }
            for chart, question in CHARTS.items()
        }
    _fronts(found, table, scores, role)
    if role.layout is not None:
        for end, sign in (("least", 1), ("most", -1)):
            score = _score(sign * table.values.numbers[MEMORY], table.holds)
            for (place,), best in _bests(table, score, (role.layout,)):
                found.memory.setdefault(str(place), {})[end] = best


def _fronts(found: Summary, table: Rows, scores: dict[str, Array], role: Roles) -> None:
    """Of each line the points that no other one beats in cost and in days."""
    days, cost = scores["shortest run"], scores["lowest cost"]
    # Where days stay, the lowest cost beats the others.
    kept = [d for d in range(days.ndim) if days.shape[d] > 1 or d in role.lines]
    (days, _), (cost, points) = _lowest(table, days, kept), _lowest(table, cost, kept)
    places = dict(zip(kept, np.ix_(*(table.ranges[d] for d in kept)), strict=True))
    lines = role.line(table.study, [places[d] for d in role.lines])
    lines = np.where(np.isfinite(days) & np.isfinite(cost), lines, -1)
    for line in np.unique(lines[lines >= 0]).tolist():
        inside = lines == line
        several = cost[inside], days[inside], points[inside]
        order = np.lexsort(several[::-1])
        costs, lengths, numbers = (array[order] for array in several)
        sooner = np.diff(np.minimum.accumulate(lengths), prepend=np.inf) < 0
        both = zip(costs[sooner], lengths[sooner], numbers[sooner], strict=True)
        found.front[str(line)] = _front([[float(c), float(d), int(p)] for c, d, p in both])
