"""The facts of a study's comparison, collected piece by piece: counts, and the best point for each
question, for each value of each axis too. Their size does not grow with the points."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from planner.engine.arrays.table import Array
from planner.questions.studies.axes import collect_keys
from planner.questions.studies.points import (
    COST,
    DEVICES,
    HOURS,
    MEMORY,
    REASON,
    STATES,
    USE,
    Points,
)
from planner.questions.studies.study import DAYS, TASK, StudySpec

#: Questions by name: the quantity, and whether its minimum (1) or its maximum (-1) is best.
QUESTIONS: dict[str, tuple[str, int]] = {
    "shortest run": (DAYS, 1),
    "lowest cost": (COST, 1),
    "least memory": (MEMORY, 1),
    "highest MFU": (USE, -1),
}
#: The view whose best points are those of each task; other views are dimensions by number.
TASKS = "tasks"
#: The rank of a point by its verdict, in the order of ``STATES``: first what fits, then open, tight
#: and what does not fit. Missing the deadline adds 1.
RANKS = np.array([np.inf, 2, 6, 4, 0])
#: Quantities that a cell keeps of its best point.
DRAWN = (DAYS, COST, HOURS, MEMORY)
#: The most cells, and so the most points of a chart.
MOST_CELLS = 2000
#: The score of a point without one.
MOST = 1e300
#: The most values of a dimension that have counts and best points of their own.
MOST_PLACES = 128
#: The most tasks with best points of their own.
MOST_TASKS = 24
#: The most reasons that are kept apart.
MOST_REASONS = 64

#: A score, the smaller the better, and the first point that has it.
Best = list[Any]


@dataclass
class Summary:
    """Mergeable facts of some pieces, in the order of the points.

    Attributes:
        points: number of points.
        rows: those that the table keeps.
        invalid: those whose values do not go together.
        outside: those that are valid, and beyond a limit of the study.
        fit: those that fit.
        tight: of those that fit, those that do so by the estimate alone.
        unfit: those that do not fit.
        reasons: for each reason, how many points are invalid because of it.
        best: for each view, for each place, for each question: the best score and its point.
        each: for each dimension, for each place: how many points there are, how many of them are
            valid and within the limits, and how many of these fit or may fit.
        cells: for the places of each cell, its best point: rank and score, number, verdict, and the
            quantities of ``DRAWN``.
        whole: for each recorded number, whether all its values are exact integers.
    """

    points: int = 0
    rows: int = 0
    invalid: int = 0
    outside: int = 0
    fit: int = 0
    tight: int = 0
    unfit: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    # view -> places -> question -> best
    best: dict[str, dict[str, dict[str, Best]]] = field(default_factory=dict)
    # dimension -> place -> plans, valid, fit: how many
    each: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    # places of the cells -> [[rank, score], point, verdict, *DRAWN], the best point of each
    cells: dict[str, Best] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)

    def merge_summary(self, other: Summary) -> None:
        """Merge the summary of the next piece into this one."""
        for name, theirs in vars(other).items():
            setattr(self, name, _merge_facts(getattr(self, name), theirs))
        for text in [text for text in self.reasons if text != "others"][MOST_REASONS:]:
            self.reasons["others"] = self.reasons.get("others", 0) + self.reasons.pop(text)


def join_places(places: Iterable[int]) -> str:
    """Join places along some dimensions to a key of a summary."""
    return ",".join(map(str, places))


def _merge_facts(mine: Any, theirs: Any) -> Any:
    """Merge mappings key by key: add counts, keep the better of two bests, the first of equals."""
    if isinstance(theirs, dict):
        both = {key: _merge_facts(mine[key], theirs[key]) for key in theirs if key in mine}
        return {**mine, **theirs, **both}
    if isinstance(theirs, bool):
        return mine and theirs
    if isinstance(theirs, int):
        return mine + theirs
    return min(mine, theirs, key=itemgetter(0))


@dataclass(frozen=True)
class Roles:
    """What the dimensions of a comparison show, each by its index.

    Attributes:
        x: the dimension along the x axis; None without one.
        tasks: dimensions whose places are tasks of their own.
        columns: the dimension of the columns; None without one.
        cells: dimensions that have cells, these included, in order.
    """

    x: int | None
    tasks: tuple[int, ...]
    columns: int | None
    cells: tuple[int, ...]


def choose_roles(study: StudySpec) -> Roles:
    """Choose what each dimension shows. Along x: devices where they vary, else the longest row of
    numbers, else any. A dimension that defines the task (plans, models, tokens) is a task, as a
    best over several tasks means nothing; it is along x only where nothing else varies and there
    are many. Columns are what changes the layout, or what is left."""
    shown = [i for i, n in enumerate(study.shape) if 1 < n <= MOST_CELLS]
    changed = {i: collect_keys(study.dimensions[i]) for i in shown}
    tasks = [i for i in shown if not changed[i] or any(map(TASK.match, changed[i]))]
    free = [i for i in shown if i not in tasks]
    if not free and math.prod(study.shape[i] for i in tasks) > MOST_TASKS:
        free = shown

    def sort(i: int) -> tuple[bool, bool, int]:
        """Return a sort key: devices, then numbers, then the longest dimension."""
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


def summarise_piece(table: Points) -> Summary:
    """Compute the facts of one piece."""
    study, fits = table.study, table.fits
    usable = table.holds & (fits != 0)
    found = Summary(
        points=math.prod(table.shape),
        rows=len(table),
        invalid=table.count_points(~table.valid),
        outside=table.count_points(table.valid & ~table.holds),
        fit=table.count_points(table.holds & (fits == 1)),
        tight=table.count_points(table.holds & (table.verdict == STATES.index("tight"))),
        unfit=table.count_points(table.holds & (fits == 0)),
        whole=table.whole,
    )
    reasons = np.where(table.valid, "", table.words[REASON])
    refused = Counter(np.broadcast_to(reasons, table.shape).ravel().tolist())
    refused.pop("", None)
    # Sorted, as texts come in the order in which rules were tried.
    found.reasons = dict(sorted(refused.items(), key=lambda reason: (-reason[1], reason[0])))
    scores = {}  # small where it is good; infinite where there is nothing to compare
    for question, (quantity, sign) in QUESTIONS.items():
        numbers = sign * table.numbers[quantity]
        scores[question] = np.where(usable & np.isfinite(numbers), numbers, np.inf)
    role = choose_roles(study)
    _keep_best(found, table, TASKS, role.tasks, scores)
    _keep_each(found, table, usable, scores)
    _keep_cells(found, table, role.cells)
    return found


def _keep_each(found: Summary, table: Points, usable: Array, scores: dict[str, Array]) -> None:
    """Count the points at each place along a dimension, and keep the best of them.

    Args:
        found: the summary to extend.
        table: the points of the piece.
        usable: which points are valid, within limits, and fit or may fit, (dimension, …).
        scores: for each question the score of each point, the smaller the better, (dimension, …).
    """
    told = {"plans": np.array(True), "valid": table.holds, "fit": usable}
    for dimension, places in enumerate(table.ranges):
        if table.study.shape[dimension] <= MOST_PLACES:
            counts = (
                np.count_nonzero(_move_axes(table, true, (dimension,)), axis=-1).tolist()
                for true in told.values()
            )
            found.each[str(dimension)] = {
                str(place): dict(zip(told, several, strict=True))
                for place, *several in zip(places, *counts, strict=True)
            }
            _keep_best(found, table, str(dimension), (dimension,), scores)


def _move_axes(table: Points, array: Array, keep: Sequence[int]) -> Array:
    """Return the values of points with some dimensions first and all others flattened.

    Args:
        table: the points of the piece.
        array: the values, (dimension, …).
        keep: the dimensions that stay.

    Returns:
        The values as (…kept dimensions, all others).
    """
    rest = [d for d in range(len(table.shape)) if d not in keep]
    array = array.reshape(()) if array.size == 1 else array  # a study may be of one plan
    over = np.broadcast_to(array, table.shape).transpose((*keep, *rest))
    return over.reshape(*over.shape[: len(keep)], -1)


def _keep_best(
    found: Summary, table: Points, view: str, keep: Sequence[int], scores: dict[str, Array]
) -> None:
    """Keep the lowest of each score at each place of the study along some dimensions, where there
    is one.

    Args:
        found: the summary to extend.
        table: the points of the piece.
        view: the key in the summary.
        keep: the dimensions.
        scores: for each question the score of each point, (dimension, …); infinite where there is
            nothing to compare.
    """
    best, numbers = found.best.setdefault(view, {}), _move_axes(table, table.of_study, keep)
    for question, score in scores.items():
        flat = _move_axes(table, score, keep)
        first = flat.argmin(axis=-1)[..., None]
        # At each place the lowest score, and the number in the study of the first point with it.
        least, points = (np.take_along_axis(a, first, axis=-1)[..., 0] for a in (flat, numbers))
        for index in map(tuple, np.argwhere(np.isfinite(least)).tolist()):
            places = join_places(table.ranges[d][i] for d, i in zip(keep, index, strict=True))
            best.setdefault(places, {})[question] = [float(least[index]), int(points[index])]


def _keep_cells(found: Summary, table: Points, keep: Sequence[int]) -> None:
    """Keep the best point of each cell: of those of the first rank the cheapest, without costs that
    of the fewest GPU hours; where none fits, the one with the least memory.

    Args:
        found: the summary to extend.
        table: the points of the piece.
        keep: the dimensions that have cells.
    """
    days, cost, hours, memory = (table.numbers[name] for name in DRAWN)
    rank = RANKS[table.verdict] + (days > table.deadline)
    paid = np.where(np.isfinite(cost), cost, np.where(np.isfinite(hours), hours, memory))
    score = np.nan_to_num(np.where(rank >= RANKS[STATES.index("no")], memory, paid), nan=MOST)
    ranks = _move_axes(table, np.where(table.holds, rank, np.inf), keep)
    scores = np.minimum(_move_axes(table, score, keep), MOST)
    first = np.where(ranks == ranks.min(axis=-1, keepdims=True), scores, np.inf).argmin(axis=-1)
    arrays = (table.of_study, table.verdict, days, cost, hours, memory)
    of_first = [
        np.take_along_axis(one, first[..., None], axis=-1)[..., 0]
        for one in (ranks, scores, *(_move_axes(table, array, keep) for array in arrays))
    ]
    for index in map(tuple, np.argwhere(np.isfinite(of_first[0])).tolist()):
        rank, score, point, verdict, *numbers = (array[index].item() for array in of_first)
        shown = [n if math.isfinite(n) else None for n in numbers]
        places = join_places(table.ranges[d][i] for d, i in zip(keep, index, strict=True))
        found.cells[places] = [[rank, score], point, verdict, *shown]
