"""Layouts of a study through the graph of a search: what they are worth, what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.engine.evaluate import Absent
from planner.plans import plan as plans
from planner.questions import loading
from planner.questions.batch_graph import GRAPHS
from planner.questions.studies import checking, evaluator, study, work
from planner.questions.studies.points import (
    Points,
    evaluate_point,
    explain_missing,
    is_name,
    join_faults,
    list_needed,
)
from tests.conftest import read_data

PLANS = ("gpt3_a100x1024", "llama70b_h100x1024", "mixtral8x7b_h100x1024", "gpt2small_hgx-h100")
#: Values of keys of a layout, good and bad.
LAYOUT: dict[str, list[Any]] = read_data("questions")["one_layout"]
OTHERS: dict[str, list[Any]] = read_data("questions")["other_layouts"]
NUMBERS: dict[str, list[Any]] = read_data("questions")["numbers_of_layouts"]
RECORD = [
    "parameters.total", "memory.process", "memory.activations", "memory.headroom", "cost.total",
    "time.step_seconds", "time.mfu", "time.hfu", "energy.total", "checkpoint.bytes",
]  # fmt: skip


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    """Small studies with axes of a layout and others."""
    axes: dict[str, Any] = {}
    for pool, least, most in ((LAYOUT, 2, 4), (OTHERS, 0, 2), (NUMBERS, 0, 2)):
        names = draw(
            st.lists(st.sampled_from(list(pool)), min_size=least, max_size=most, unique=True)
        )
        for name in names:
            indices = st.lists(st.sampled_from(range(len(pool[name]))), min_size=1, max_size=3)
            axes[name] = [pool[name][i] for i in dict.fromkeys(draw(indices))]
    order = draw(st.permutations(list(axes)))
    assumed = draw(st.booleans())
    return {
        "base": {
            "extends": draw(st.sampled_from(PLANS)),
            "time": {"use": "assumed"} if assumed else {"mfu": None},
        },
        "axes": {name: axes[name] for name in order},
        "record": draw(st.lists(st.sampled_from(RECORD), min_size=1, max_size=5, unique=True)),
    }


def agree(read: study.StudySpec, found: Points, points: Iterable[int]) -> int:
    """Some points are those of single plans, with the same reasons and, but for rounding, the same
    numbers; how many numbers these are."""

    def at(array: Any, point: int) -> Any:
        return np.broadcast_to(array, read.shape)[read.locate_point(point)]

    count = 0
    for point in points:
        values: dict[str, Any] = dict.fromkeys(list_needed(read))
        try:
            plan = read.build_plan(point)
        except PlanError as error:
            reason = join_faults(error)
        else:
            values = evaluate_point(plan, values)
            reason = explain_missing({name: values[name] for name in read.record})
        assert bool(at(found.valid, point)) == any(v is not None for v in values.values())
        assert at(found.words["reason"], point) == reason
        for quantity, value in values.items():
            number = at((found.words if is_name(quantity) else found.numbers)[quantity], point)
            if value is None or isinstance(value, Absent):
                assert number is None or np.isnan(number), quantity
            elif is_name(quantity):
                assert number == value
            else:
                count += 1
                whole = 1 if quantity.startswith("memory.") else None  # bytes are whole numbers
                assert number == pytest.approx(float(value), rel=1e-9, abs=whole), quantity
    return count


@pytest.mark.slow
@settings(
    max_examples=max(25, settings.default.max_examples // 4),
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(studies())
def test_points_of_any_study_are_those_of_plans_completed_one_by_one(
    document: Mapping[str, Any],
) -> None:
    try:
        read = study.read_study(document)
    except PlanError:
        return
    found = evaluator.Evaluator(read).evaluate_points([range(n) for n in read.shape])
    agree(read, found, range(0, read.size, max(1, read.size // 16)))


MANY: dict[str, Any] = read_data("questions")["many_layouts"]


@pytest.mark.slow
def test_points_of_many_layouts_are_those_of_single_plans() -> None:
    read = study.read_study(MANY)
    found = evaluator.Evaluator(read).evaluate_points([range(n) for n in read.shape])
    assert agree(read, found, range(0, read.size, 131)) > 100
    assert not found.valid.all()


def test_a_few_plans_stand_for_many_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = study.read_study(MANY)
    completed = []
    complete = plans.complete_plan
    monkeypatch.setattr(plans, "complete_plan", lambda d: completed.append(d) or complete(d))  # type: ignore[func-returns-value]
    evaluator.Evaluator(read).evaluate_points([range(n) for n in read.shape])
    assert read.size > 20_000 and 0 < len(completed) < 50


def graphs_of(document: Mapping[str, Any]) -> tuple[int, int]:
    """How many graphs the plans of a study have together, and how many kinds these are of."""
    read = study.read_study(document)
    evaluated = evaluator.Evaluator(read)
    found = evaluated.evaluate_points([range(n) for n in read.shape])
    agree(read, found, range(0, read.size, max(1, read.size // 12)))
    plans = evaluated._plans
    assert plans is not None
    return len(plans.groups), len(plans.kinds)


@pytest.mark.slow
def test_layouts_whose_kernels_follow_from_their_degrees_share_a_graph() -> None:
    """What kernels bring along (widths, efficiencies, how layers are cut) tells no layouts apart
    that their kernels do not: of each there is one plan."""
    document = read_data("questions")["study_of_layouts"]
    graphs, kinds = graphs_of(document)
    assert graphs == 1 and kinds <= 4  # megatron and pytorch, with their losses


@pytest.mark.slow
def test_models_of_one_build_and_accelerators_of_the_same_facts_share_a_graph() -> None:
    """Widths, depths, devices and their rates are columns; experts are further entries."""
    base = {"extends": "llama70b_h100x1024", "time": {"mfu": None}}
    axes = read_data("questions")["axes_of_kinds"]
    record = ["time.step_seconds", "memory.process", "parameters.total"]
    assert graphs_of({"base": base, "axes": axes, "record": record}) == (1, 16)
    layouts = {"parallelism.tensor": [1, 2], "parallelism.virtual_pipeline": [1]}
    models = {"model": ["llama2-7b", "mixtral-8x7b"], **layouts}
    assert graphs_of({"base": base, "axes": models, "record": record})[0] == 2


@pytest.mark.slow
def test_a_piece_is_the_same_whatever_was_evaluated_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "OVER_ARRAYS", 1500)
    job = work.Job(study.read_study(MANY), "csv")
    numbers = range(len(job.pieces))
    assert len(numbers) > 10
    pieces = [bytes(job.run_piece(number).data) for number in numbers]
    again = [bytes(job.run_piece(number).data) for number in reversed(numbers)]
    GRAPHS.clear()
    assert pieces == again[::-1]
    assert pieces[3] == bytes(work.Job(study.read_study(MANY), "csv").run_piece(3).data)


def test_a_step_is_run_once_for_each_combination_of_what_it_reads() -> None:
    draft, model = plans.begin_plan(loading.load("presets/gpt3_a100x1024.yaml").document)
    rows = np.arange(24)
    drafts = checking.Drafts(draft, model, len(rows))
    drafts.assign_changes(rows % 3, [{"training.micro_batch": size} for size in (1, 2, 3)])
    drafts.assign_changes(rows // 12, [{"parallelism.zero": stage} for stage in (0, 1)])
    tried = []

    def step(given: plans.Draft) -> None:
        size = given.get("training.micro_batch")
        tried.append(size)
        if size == 3:
            given.fault("training.micro_batch", f"{size} is odd")
        given.data["training"]["gradient_accumulation"] = 12 // size

    drafts.run_step(step)
    assert sorted(set(tried)) == [1, 2, 3] and len(tried) <= 4
    faults, of_rows = drafts.faults
    assert [not faults[place] for place in of_rows] == [row % 3 != 2 for row in rows]
    steps = drafts.get_column("training.gradient_accumulation")
    assert [steps.at(row) for row in rows] == [(12, 6, 4)[row % 3] for row in rows]


STUDIES = read_data("questions")["other_studies"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", STUDIES)
def test_studies_of_other_kinds_are_those_of_single_plans(name: str) -> None:
    own = STUDIES[name]
    document = {**MANY, **own, "base": {**MANY["base"], **own.get("base", {})}}
    document = {key: value for key, value in document.items() if value is not None}
    axes = {name: values[:2] for name, values in document["axes"].items()}
    read = study.read_study({**document, "axes": axes})
    job = work.Job(read, None)
    assert json.loads(job.run_piece(0).summary)["points"] > 0
    found = evaluator.Evaluator(read).evaluate_points([range(n) for n in read.shape])
    agree(read, found, range(0, read.size, max(1, read.size // 12)))
