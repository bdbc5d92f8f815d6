"""Layouts of a study through the graph of a search: what they are worth, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.plans import plan as plans
from planner.questions import loading
from planner.questions.search import structure
from planner.questions.studies import arrays, checking, layouts, study, work
from planner.questions.studies.points import Values, exact, missing, wanted
from planner.questions.studies.summary import Summary

PLANS = ("gpt3_a100x1024", "llama70b_h100x1024", "mixtral8x7b_h100x1024", "gpt2small_hgx-h100")
#: Values of keys of a layout, good and bad.
LAYOUT: dict[str, list[Any]] = {
    "parallelism.tensor": [1, 2, 3, 4, 8],
    "parallelism.pipeline": [1, 2, 3, 4, 8],
    "parallelism.virtual_pipeline": [1, 2, 3, 4],
    "parallelism.context": [1, 2, 4],
    "parallelism.expert": [1, 2, 4],
    "parallelism.expert_tensor": [1, 2, 4],
    "parallelism.zero": [0, 1, 2, 3],
    "parallelism.sequence": [True, False],
    "parallelism.replicate": [1, 2, 4],
    "parallelism.cut": ["even", "ends", "compute", None],
    "parallelism.context_exchange": ["ring", "gather", None],
    "parallelism.data": [8, 16, None],
    "training.micro_batch": [1, 2, 3, 4],
    "training.recompute": ["none", "selective", "full"],
    "training.schedule": ["1f1b", "interleaved", "gpipe", "zero-bubble", "dualpipe", None],
    "parallelism": [
        {"tensor": 2, "pipeline": 2},
        {"tensor": 4, "sequence": True},
        {"zero": 3},
        {"tensor": 2, "pipeline": 2, "stages": [7, 5]},
        "llama70b_h100x1024",
    ],
}
OTHERS: dict[str, list[Any]] = {
    "cluster.devices": [8, 16, 64, 1024],
    "training.global_batch": [32, 96, None],
    "training.sequence_length": [512, 2048],
    "training.precision": ["bf16", "fp8", "fp32"],
    "training.implementation": ["megatron", "pytorch", "transformers"],
    "training.distributed_optimizer": [True, None],
    "training.gradient_accumulation": [4, None],
    "training.mode": ["train", "inference"],
    "training.recompute_layers": [2, None],
    "model": ["llama2-7b", "gpt2-small", {"parameters": "7B"}],
}
NUMBERS: dict[str, list[Any]] = {
    "training.tokens": ["1T", "2T"],
    "cluster.price": ["1 USD/h", "2 USD/h", "3 USD/h"],
    "cluster.network.bandwidth": ["100 Gb/s", "400 Gb/s"],
    "time.mfu": [0.3, 0.4],
}
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
            **({} if assumed else {"time": {"mfu": None}}),
        },
        "axes": {name: axes[name] for name in order},
        "record": draw(st.lists(st.sampled_from(RECORD), min_size=1, max_size=5, unique=True)),
    }


def flat(array: Any, shape: tuple[int, ...]) -> Any:
    """An array over the points of a piece, which may be flat or broadcast: a value for each."""
    shaped = array if array.ndim == len(shape) else array.reshape(shape)
    return np.broadcast_to(shaped, shape).ravel()


def reasons(values: Values, shape: tuple[int, ...]) -> list[str]:
    return [values.texts[code] for code in flat(values.reasons, shape)]


def agree(one: Values, other: Values, shape: tuple[int, ...]) -> None:
    """The same points, with the same reasons and, but for rounding, the same numbers."""
    assert (flat(one.valid, shape) == flat(other.valid, shape)).all()
    assert reasons(one, shape) == reasons(other, shape)
    for quantity, wanted_numbers in other.numbers.items():
        found, expected = flat(one.numbers[quantity], shape), flat(wanted_numbers, shape)
        assert (np.isnan(found) == np.isnan(expected)).all(), quantity
        assert (
            np.nan_to_num(np.abs(found - expected)) <= 1e-9 * np.nan_to_num(np.abs(expected))
        ).all(), quantity


@pytest.fixture(autouse=True)
def any_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables however few the layouts."""
    monkeypatch.setattr(layouts, "LEAST", 1)
    monkeypatch.setattr(layouts, "LEAST_ALIKE", 0)


@pytest.mark.slow
@settings(
    max_examples=max(25, settings.default.max_examples // 4), deadline=None, derandomize=True,
    database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(studies())
def test_tables_of_layouts_agree_with_plans_completed_one_by_one(
    document: Mapping[str, Any],
) -> None:
    try:
        read = study.load(document)
    except PlanError:
        return
    if layouts.able(read) and read.size <= 600:
        ranges = [range(n) for n in read.shape]
        found = layouts.Evaluator(read).evaluate(ranges)
        agree(found, arrays.Evaluator(read).evaluate(ranges), read.shape)


MANY: dict[str, Any] = {
    "base": {"extends": "gpt3_a100x1024", "time": {"mfu": None}},
    "axes": {
        "parallelism.tensor": [1, 2, 4, 8],
        "training.tokens": ["1T", "2T"],
        "parallelism.pipeline": [1, 2, 4, 8, 16],
        "parallelism.virtual_pipeline": [1, 2, 3, 6],
        "training.micro_batch": [1, 2, 4],
        "training.recompute": ["none", "selective", "full"],
        "parallelism.zero": [0, 1, 2, 3],
        "training.schedule": ["1f1b", "interleaved", "gpipe", "dualpipe"],
    },
    "record": ["memory.process", "time.step_seconds", "cost.total", "energy.total"],
}


@pytest.mark.slow
def test_points_of_many_layouts_are_those_of_single_plans() -> None:
    read = study.load(MANY)
    assert layouts.able(read)
    found = layouts.Evaluator(read).evaluate([range(n) for n in read.shape])
    texts, valid = reasons(found, read.shape), 0
    are_plans = flat(found.valid, read.shape)
    numbers = {name: flat(array, read.shape) for name, array in found.numbers.items()}
    for point in range(0, read.size, 131):
        one = exact(read, read.places(point), wanted(read))
        assert bool(are_plans[point]) == (one.plan is not None)
        assert texts[point] == (one.reason or missing(read, one.absent))
        for quantity, value in one.values.items():
            assert numbers[quantity][point] == pytest.approx(float(value), rel=1e-9)
            valid += 1
    assert valid > 100 and not are_plans.all()


def test_a_few_plans_stand_for_many_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = study.load(MANY)
    completed = []
    complete = plans.complete
    monkeypatch.setattr(plans, "complete", lambda d: completed.append(d) or complete(d))  # type: ignore[func-returns-value]
    layouts.Evaluator(read).evaluate([range(n) for n in read.shape])
    assert read.size > 20_000 and 0 < len(completed) < 50


def test_layouts_whose_kernels_follow_from_their_degrees_share_a_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What kernels bring along (widths, efficiencies, how layers are cut) tells no layouts apart
    that their kernels do not."""
    document = {
        "base": {"extends": "gpt2small_hgx-h100", "time": {"mfu": None}},
        "axes": {
            "parallelism.tensor": [1, 2, 4],
            "parallelism.pipeline": [1, 2],
            "parallelism.zero": [0, 1, 2, 3],
            "training.micro_batch": [1, 2, 4],
            "training.recompute": ["none", "selective", "full"],
        },
        "record": ["time.step_seconds", "memory.process"],
    }  # fmt: skip
    groups: list[list[int]] = []
    alike = layouts._alike

    def told(drafts: Any, rows: Any) -> Any:
        kernels = {drafts.column("training.implementation").at(row) for row in rows.tolist()}
        assert kernels == {"megatron", "pytorch"}
        found = list(alike(drafts, rows))
        groups.append(list(map(len, found)))
        return found

    monkeypatch.setattr(layouts, "_alike", told)
    read = study.load(document)
    layouts.Evaluator(read).evaluate([range(n) for n in read.shape])
    assert len(groups) == 1 and len(groups[0]) == 1 and groups[0][0] > 50
    assert not layouts.of_kernels() & {
        "model",
        "training.global_batch",
        "training.recompute_layers",
    }


@pytest.mark.slow
def test_a_piece_is_the_same_whatever_was_evaluated_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "OVER_ARRAYS", 1500)
    job = work.Job.of(study.load(MANY), "csv")
    numbers = range(len(job.pieces))
    assert len(numbers) > 10
    pieces = [bytes(job.work(number).data) for number in numbers]
    again = [bytes(job.work(number).data) for number in reversed(numbers)]
    structure._KEPT.clear()
    assert pieces == again[::-1]
    assert pieces[3] == bytes(work.Job.of(study.load(MANY), "csv").work(3).data)


def test_a_step_is_run_once_for_each_combination_of_what_it_reads() -> None:
    draft, model = plans.begun(loading.load("presets/gpt3_a100x1024.yaml").document)
    rows = np.arange(24)
    columns = {}
    for key, values in (("training.micro_batch", [1, 2, 3]), ("parallelism.zero", [0, 1])):
        columns[key] = checking.Column(rows % len(values) if len(values) == 3 else rows // 12)
        for value in values:
            columns[key].code(value)
    drafts = checking.Drafts(draft, model, columns, len(rows))
    tried = []

    def step(given: plans.Draft) -> None:
        size = given.get("training", "micro_batch")
        tried.append(size)
        if size == 3:
            given.fault(("training", "micro_batch"), f"{size} is odd")
        given.data["training"]["gradient_accumulation"] = 12 // size

    drafts.run(step)
    assert sorted(set(tried)) == [1, 2, 3] and len(tried) <= 4
    assert drafts.valid.tolist() == [row % 3 != 2 for row in rows]
    steps = drafts.column("training.gradient_accumulation")
    assert [steps.at(row) for row in rows] == [(12, 6, 4)[row % 3] for row in rows]


@pytest.mark.parametrize(
    "document",
    [
        {**MANY, "record": ["memory.stage"]},  # a name
        {**MANY, "base": {**MANY["base"], "model": {"parameters": "7B"}}},  # no shape
        {"base": MANY["base"], "axes": {"parallelism": ["auto", {"tensor": 8}]}},
        {
            **MANY,
            "combine": "zip",
            "axes": {"parallelism.tensor": [1, 2], "model": ["llama2-7b", "gpt2-small"]},
        },
    ],
    ids=("a name", "no shape", "a layout to be found", "together with the model"),
)  # fmt: skip
def test_what_a_table_cannot_carry_is_evaluated_as_before(document: Mapping[str, Any]) -> None:
    axes = {name: values[:2] for name, values in document["axes"].items()}
    read = study.load({**document, "axes": axes})
    job = work.Job.of(read, None)
    assert Summary.from_json(job.work(0).summary).points > 0
    if layouts.able(read):
        ranges = [range(n) for n in read.shape]
        evaluator = layouts.Evaluator(read)
        agree(evaluator.evaluate(ranges), arrays.Evaluator(read).evaluate(ranges), read.shape)
        assert "one_by_one" in evaluator.__dict__
