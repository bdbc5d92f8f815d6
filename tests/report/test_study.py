"""What the page of a study leads with, and that its charts show every plan and no label twice."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.base.errors import PlanError
from planner.report import chart, study
from tests.conftest import read_data

LLAMA = {"extends": "llama70b_h100x1024", "time": {"mfu": None}}
DEVICES = {"cluster.devices": {"from": 256, "to": 2048, "factor": 2}}


def cell(point: int, days: float, paid: float, state: int = study.FITS) -> study.Cell:
    return study.Cell((point,), True, point, state, days, paid, 1.0)


def cells(*points: tuple[float, float]) -> list[study.Cell]:
    return [cell(number, *point) for number, point in enumerate(points)]


def test_the_front_is_what_nothing_beats_in_both() -> None:
    many = cells((10, 1), (5, 2), (5, 3), (6, 2), (1, 9), (1, 10), (12, 1))
    assert [(one.days, one.paid) for one in study.find_front(many)] == [(10, 1), (5, 2), (1, 9)]


@pytest.mark.parametrize(("points", "best"), read_data("report")["knees"])
def test_the_knee_is_farthest_from_the_line_between_the_ends(
    points: Sequence[tuple[float, float]], best: tuple[float, float] | None
) -> None:
    found = study.find_knee(study.find_front(cells(*points)))
    assert (found and list(found.drawn)) == best


positive = st.floats(0.01, 1e6, allow_subnormal=False)


@given(
    st.lists(st.tuples(positive, positive), min_size=1, max_size=20),
    st.booleans(),
)
def test_labels_lie_inside_and_on_no_other(points: list[tuple[float, float]], far: bool) -> None:
    plane = chart.Plane(points, ("x", "y"))
    assert all(map(plane.is_inside, points))
    ends = {"start": 0.0, "middle": 0.5, "end": 1.0}
    labels = plane.place_labels([(point, str(n)) for n, point in enumerate(points)], far=far)
    boxes = [
        (one.x - wide * ends[one.look], one.y - chart.LINE, wide)
        for one in labels for wide in [chart.LETTER * len(one.text)]
    ]  # fmt: skip
    for (x, y, wide), (other, below, width) in combinations(boxes, 2):
        apart = x + wide <= other + 1e-6 or other + width <= x + 1e-6
        assert apart or abs(y - below) >= chart.LINE - 0.2
    assert all(x >= 0 and x + wide <= chart.WIDTH + 1e-6 for x, _, wide in boxes)
    assert labels and len({label.text for label in labels}) == len(labels)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20))
def test_ticks_are_inside_and_grow(points: list[tuple[float, float]]) -> None:
    axes = chart.Plane(points, ("x", "y")).axes
    for ticks, low, high in (
        (axes.x_ticks, axes.left, axes.right),
        ([*reversed(axes.y_ticks)], axes.top, axes.bottom),
    ):
        places = [at for at, _ in ticks]
        assert places == sorted(places) and all(low - 0.1 <= at <= high + 0.1 for at in places)


def swept(**document: Any) -> tuple[str, study.StudyView]:
    found = planner.load_study({"base": LLAMA, "axes": DEVICES, **document}).sweep()
    return " ".join(str(found).split()), study.build_study_view(found.outcome)


def test_every_plan_is_drawn_or_it_is_said_why_not() -> None:
    axes = {**DEVICES, "parallelism.tensor": [1, 4, 8], "training.micro_batch": [1, 2, 4]}
    _, view = swept(axes=axes)
    (task,) = view.tasks
    drawn = sum(path.count("M") for path in task.chart.marks.values())
    beyond = re.search(r"(\d+|One) that do", task.chart.said)
    missing = 0 if beyond is None else 1 if beyond[1] == "One" else int(beyond[1])
    rows = [row for row in planner.load_study({"base": LLAMA, "axes": axes}) if row["verdict"]]
    assert drawn + missing == len({(r["time.training_days"], r["cost.total"]) for r in rows})
    there = {(r["cluster.devices"], r["parallelism.tensor"]) for r in rows}
    cells = [one for table in task.tables for _, row, _ in table.rows for one in row]
    assert len(cells) == 4 * 3 and sum(look != "none" for _, _, look in cells) == len(there)


def test_without_a_plan_in_time_the_soonest_leads() -> None:
    text, _ = swept(deadline="1 day")
    assert text.startswith("No plan that fits meets 24 h; fastest: 2,048 × H100")


def test_a_limit_on_the_days_is_a_deadline() -> None:
    text, view = swept(where=["time.training_days <= 200 days"])
    assert text.startswith("Cheapest within 200 days: 1,024 × H100")
    assert math.isclose(view.tasks[0].deadline or 0, 200)


def test_where_nothing_fits_what_comes_nearest_says_what_it_needs() -> None:
    axes = {"cluster.devices": [16, 32], "parallelism": [{"zero": 0}, {"zero": 1}]}
    text, view = swept(axes=axes)
    needs = r"Nothing fits; nearest: 32 × H100 as zero 1, which needs "
    needs += r"([\d.,]+) ([GT])iB .*? of 79.2 GiB\."
    said = re.match(needs, text)
    assert said is not None, text
    assert float(said[1].replace(",", "")) * {"G": 1, "T": 1024}[said[2]] > 79.2
    assert "deadline" not in text and not view.tasks[0].facts


def test_what_is_only_tight_never_leads_before_what_fits() -> None:
    for task in swept(axes={**DEVICES, "parallelism.tensor": [2, 4, 8]})[1].tasks:
        states = {one.state for one in task.cells}
        assert study.TIGHT in states or study.NO in states
        assert task.answer.cell.state == study.FITS


@pytest.mark.parametrize(("deadline", "said"), read_data("report")["deadlines"])
def test_a_deadline_is_a_time_for_all_or_one_for_each_task(deadline: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        planner.load_study({"base": LLAMA, "axes": DEVICES, "deadline": deadline})
