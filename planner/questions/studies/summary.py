"""What the comparison of a study needs, gathered piece by piece: counts, the best point for each
question, and the best for each value of each axis. It stays small however many points there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from planner.questions.studies.axes import keys
from planner.questions.studies.points import (
    COST,
    DEVICES,
    HOURS,
    MEMORY,
    REASON,
    STATES,
    USE,
    Array,
    Points,
)
from planner.questions.studies.study import DAYS, TASK, Study

#: Questions by name: the quantity, and whether the least of it is the best (1) or the most (-1).
QUESTIONS: dict[str, tuple[str, int]] = {
    "shortest run": (DAYS, 1),
    "lowest cost": (COST, 1),
    "least memory": (MEMORY, 1),
    "highest MFU": (USE, -1),
}
#: Along what a best is kept: each task; and each dimension by its number.
TASKS = "tasks"
#: How good a point is by its verdict, by the places of ``STATES``: what fits for sure comes first,
#: then what is open, what is tight, what does not fit. What is done in time comes before the rest.
RANKS = np.array([np.inf, 2, 6, 4, 0])
#: What a cell keeps of its best point besides its number.
DRAWN = (DAYS, COST, HOURS, MEMORY)
#: Cells that are told apart: so many points may be drawn.
MOST_CELLS = 2000
#: The score of what has none.
MOST = 1e300
#: Values of one dimension that are told apart.
MOST_PLACES = 128
#: Tasks, each with a best of its own.
MOST_TASKS = 24
#: Reasons that are kept.
MOST_REASONS = 64

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
    # places of the cells -> [[rank, score], point, verdict, *DRAWN], the best point of each
    cells: dict[str, Best] = field(default_factory=dict)
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
    return min(mine, theirs, key=itemgetter(0))


@dataclass(frozen=True)
class Roles:
    """Which dimensions a comparison shows: along x, each task by itself, as columns."""

    x: int | None
    tasks: tuple[int, ...]
    columns: int | None
    cells: tuple[int, ...]  # all that are told apart, these too, in the order of the dimensions


def roles(study: Study) -> Roles:
    """Devices along x where they vary, else the longest row of numbers, else any. What is to be
    done (plans, models, tokens) is a task, for a best over different ones says nothing; it is
    along x only where nothing else varies and there are many. What changes the layout makes
    columns, or what is left."""
    shown = [i for i, n in enumerate(study.shape) if 1 < n <= MOST_CELLS]
    changed = {i: keys(study.dimensions[i]) for i in shown}
    tasks = [i for i in shown if not changed[i] or any(map(TASK.match, changed[i]))]
    free = [i for i in shown if i not in tasks]
    if not free and math.prod(study.shape[i] for i in tasks) > MOST_TASKS:
        free = shown

    def sort(i: int) -> tuple[bool, bool, int]:
        numeric = all(axis.numeric for axis in study.dimensions[i])
        return DEVICES in changed[i], numeric, study.shape[i]

    x = max(free, key=sort, default=None)
    apart = tuple(i for i in tasks if i != x)
    while apart and math.prod(study.shape[i] for i in apart) > MOST_TASKS:
        apart = apart[:-1]
    rest = [i for i in shown if i != x and i not in apart]
    layouts = [i for i in rest if any(k.startswith("parallelism") for k in changed[i])]
    cells: list[int] = []
    for i in dict.fromkeys((*([] if x is None else [x]), *apart, *layouts, *rest)):
        if math.prod(study.shape[d] for d in (*cells, i)) <= MOST_CELLS:
            cells.append(i)
    columns = next(iter((*layouts, *rest)), None)
    return Roles(x, apart, columns if columns in cells else None, tuple(sorted(cells)))


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
    _keep_cells(found, table, role.cells)
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
    array = array.reshape(()) if array.size == 1 else array  # a study may be of one plan
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


def _keep_cells(found: Summary, table: Points, keep: Sequence[int]) -> None:
    """Of each cell the best point: of those of the first rank the cheapest, where nothing has a
    cost that of the fewest device-hours, of what does not fit the one with the least memory."""
    days, cost, hours, memory = (table.numbers[name] for name in DRAWN)
    rank = RANKS[table.verdict] + (days > table.deadline)
    paid = np.where(np.isfinite(cost), cost, np.where(np.isfinite(hours), hours, memory))
    score = np.nan_to_num(np.where(rank >= RANKS[STATES.index("no")], memory, paid), nan=MOST)
    ranks = _along(table, np.where(table.holds, rank, np.inf), keep)
    scores = np.minimum(_along(table, score, keep), MOST)
    first = np.where(ranks == ranks.min(axis=-1, keepdims=True), scores, np.inf).argmin(axis=-1)
    arrays = (table.of_study, table.verdict, days, cost, hours, memory)
    of_first = [
        np.take_along_axis(one, first[..., None], axis=-1)[..., 0]
        for one in (ranks, scores, *(_along(table, array, keep) for array in arrays))
    ]
    for index in map(tuple, np.argwhere(np.isfinite(of_first[0])).tolist()):
        rank, score, point, verdict, *numbers = (array[index].item() for array in of_first)
        shown = [n if math.isfinite(n) else None for n in numbers]
        places = at(table.ranges[d][i] for d, i in zip(keep, index, strict=True))
        found.cells[places] = [[rank, score], point, verdict, *shown]
