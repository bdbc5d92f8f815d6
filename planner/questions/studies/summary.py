"""What the comparison of a study needs, gathered piece by piece: counts, the best point for each
question, and the best for each value of each axis. It stays small however many points there are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from planner.questions.studies.axes import keys
from planner.questions.studies.points import (
    COST,
    DAYS,
    DEVICES,
    MEMORY,
    REASON,
    STATES,
    USE,
    Array,
    Points,
)
from planner.questions.studies.study import Study

#: Questions by name: the quantity, and whether the least of it is the best (1) or the most (-1).
QUESTIONS: dict[str, tuple[str, int]] = {
    "shortest run": (DAYS, 1),
    "lowest cost": (COST, 1),
    "least memory": (MEMORY, 1),
    "highest MFU": (USE, -1),
}
#: Keys that say what is to be done.
TASK = re.compile(r"model|training\.(tokens|sequence_length)$")
#: The charts along x, and what each asks.
CHARTS = {"days": "shortest run", "cost": "lowest cost"}
#: What else is asked of memory, of layout by layout.
ENDS = {"least": 1, "most": -1}
#: Along what a best is kept: each task, x with each line, each layout; and each dimension by its
#: number.
TASKS, ALONG_X, LAYOUTS = "tasks", "x", "layouts"
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
    # view -> places -> question -> best
    best: dict[str, dict[str, dict[str, Best]]] = field(default_factory=dict)
    # dimension -> place -> plans, valid, fit: how many
    each: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    # places of the lines -> [cost, days, point], nothing better in both
    front: dict[str, list[list[Any]]] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)

    def add(self, other: Summary) -> None:
        """Take in the piece that follows."""
        for name, theirs in vars(other).items():
            setattr(self, name, _merged(getattr(self, name), theirs))
        for text in [text for text in self.reasons if text != "others"][MOST_REASONS:]:
            self.reasons["others"] = self.reasons.get("others", 0) + self.reasons.pop(text)


def at(places: Iterable[int]) -> str:
    """Places along some dimensions, as a summary has them as a key."""
    return ",".join(map(str, places))


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
    tasks: tuple[int, ...]  # the lines where these are different tasks, each with a best of its own
    layout: int | None


def roles(study: Study) -> Roles:
    """Devices along x where they vary, else the longest row of numbers. What is to be done (plans,
    models, tokens) makes lines, for a best over different tasks says nothing; without such, the
    first words do. What changes the layout are layouts."""
    shown = [i for i, n in enumerate(study.shape) if 1 < n <= MOST_PLACES]
    changed = {i: keys(study.dimensions[i]) for i in shown}
    numeric = [i for i in shown if all(axis.numeric for axis in study.dimensions[i])]
    tasks = [i for i in shown if not changed[i] or any(map(TASK.match, changed[i]))]
    x = next((i for i in shown if DEVICES in changed[i]), None)
    if x is None:
        x = max(numeric, key=lambda i: (i not in tasks, study.shape[i]), default=None)
    apart = tuple(i for i in tasks if i != x)
    while apart and math.prod(study.shape[i] for i in apart) > MOST_TASKS:
        apart = apart[:-1]
    rest = [i for i in shown if i != x]
    words = [i for i in rest if i not in numeric]
    few = [i for i in rest if study.shape[i] <= MOST_LINES]
    lines = apart or tuple((words or few)[:1])
    layouts = [i for i in shown if any(k.startswith("parallelism") for k in changed[i])]
    others = [i for i in (*layouts, *lines) if i != x]
    return Roles(x, lines, apart, others[0] if others else None)


def summary(table: Points) -> Summary:
    """The facts of one piece."""
    study, fits = table.study, table.fits
    usable = table.holds & (fits != 0)
    found = Summary(
        points=math.prod(table.shape),
        rows=len(table),
        invalid=table.count(~table.valid),
        outside=table.count(table.valid & ~table.holds),
        fit=table.count(table.holds & (fits == 1)),
        tight=table.count(table.holds & (table.verdict == STATES.index("tight"))),
        unfit=table.count(table.holds & (fits == 0)),
        whole=table.whole,
    )
    reasons = np.where(table.valid, "", table.words[REASON])
    refused = Counter(np.broadcast_to(reasons, table.shape).ravel().tolist())
    refused.pop("", None)
    # In an order of their own: texts come in that in which rules were tried.
    found.reasons = dict(sorted(refused.items(), key=lambda reason: (-reason[1], reason[0])))
    scores = {
        question: _score(sign * table.numbers[quantity], usable)
        for question, (quantity, sign) in QUESTIONS.items()
    }
    role = roles(study)
    _keep_best(found, table, TASKS, role.tasks, scores)
    _keep_each(found, table, usable, scores)
    if role.x is not None:
        _keep_best(found, table, ALONG_X, (role.x, *role.lines), scores)
    if role.layout is not None:
        memory = table.numbers[MEMORY]
        ends = {end: _score(sign * memory, table.holds) for end, sign in ENDS.items()}
        _keep_best(found, table, LAYOUTS, (role.layout,), ends)
    _fronts(found, table, scores, role.lines)
    return found


def _score(numbers: Array, usable: Array) -> Array:
    """What is small where it is good; infinite where there is nothing to compare."""
    score: Array = np.where(usable & np.isfinite(numbers), numbers, np.inf)
    return score


def _keep_each(found: Summary, table: Points, usable: Array, scores: dict[str, Array]) -> None:
    """At each place along a dimension how many points there are, and the best of them."""
    told = {"plans": np.array(True), "valid": table.holds, "fit": usable}
    for dimension, places in enumerate(table.ranges):
        if table.study.shape[dimension] <= MOST_PLACES:
            counts = (
                np.count_nonzero(_along(table, true, (dimension,)), axis=-1).tolist()
                for true in told.values()
            )
            found.each[str(dimension)] = {
                str(place): dict(zip(told, several, strict=True))
                for place, *several in zip(places, *counts, strict=True)
            }
            _keep_best(found, table, str(dimension), (dimension,), scores)


def _along(table: Points, array: Array, keep: Sequence[int]) -> Array:
    """What is said of each point, (dimension, …), as (…kept dimensions, all others)."""
    rest = [d for d in range(len(table.shape)) if d not in keep]
    over = np.broadcast_to(array, table.shape).transpose((*keep, *rest))
    return over.reshape(*over.shape[: len(keep)], -1)


def _keep_best(
    found: Summary, table: Points, view: str, keep: Sequence[int], scores: dict[str, Array]
) -> None:
    """The lowest of each score at each place of the study along some dimensions, where there is
    one."""
    best, numbers = found.best.setdefault(view, {}), _along(table, table.of_study, keep)
    for question, score in scores.items():
        flat = _along(table, score, keep)
        first = flat.argmin(axis=-1)[..., None]
        # At each place the lowest score, and the number in the study of the first point with it.
        least, points = (np.take_along_axis(a, first, axis=-1)[..., 0] for a in (flat, numbers))
        for index in map(tuple, np.argwhere(np.isfinite(least)).tolist()):
            places = at(table.ranges[d][i] for d, i in zip(keep, index, strict=True))
            best.setdefault(places, {})[question] = [float(least[index]), int(points[index])]


def _fronts(
    found: Summary, table: Points, scores: dict[str, Array], lines: tuple[int, ...]
) -> None:
    """Of each line the points that no other one beats in cost and in days."""
    asked = scores["lowest cost"], scores["shortest run"], table.of_study
    cost, days, points = (_along(table, array, lines) for array in asked)
    there = np.isfinite(cost) & np.isfinite(days)
    for index in np.ndindex(there.shape[:-1]):
        several = [array[index][there[index]] for array in (cost, days, points)]
        order = np.lexsort(several[1::-1])
        sooner = np.diff(np.minimum.accumulate(several[1][order]), prepend=np.inf) < 0
        if len(order):
            places = at(table.ranges[d][i] for d, i in zip(lines, index, strict=True))
            kept = zip(*(array[order][sooner].tolist() for array in several), strict=True)
            found.front[places] = _front([list(point) for point in kept])
