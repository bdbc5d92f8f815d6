"""A study whose plans are completed together says of each what it says of it alone, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from planner.questions.studies import dimensions, evaluator, study, work
from planner.questions.studies.points import Points
from tests.conftest import read_data
from tests.questions.test_sweep_numbers import RECORD


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def load(base: Any, axes: dict[str, Any], record: Sequence[str] = RECORD[:4]) -> study.StudySpec:
    return study.read_study({"name": "x", "base": base, "axes": axes, "record": list(record)})


def evaluate(read: study.StudySpec) -> Points:
    return evaluator.Evaluator(read).evaluate_points([range(n) for n in read.shape])


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Evaluate a study with each plan completed by itself."""

    def evaluate_alone(read: study.StudySpec) -> Points:
        def classify(of: study.StudySpec) -> tuple[str, ...]:
            numbers, plans = dimensions.NUMBERS, dimensions.PLANS
            return tuple(plans if one == numbers else one for one in together(of))

        together = dimensions.classify_axes
        with monkeypatch.context() as context:
            context.setattr(evaluator, "classify_axes", classify)
            return evaluate(read)

    return evaluate_alone


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The points whose plans are completed, all ways."""
    found: list[int] = []
    build = study.StudySpec.build_plan
    monkeypatch.setattr(
        study.StudySpec, "build_plan", lambda self, point: found.append(point) or build(self, point)
    )
    return found


def compare(one: Points, other: Points, exact: bool = True) -> None:
    assert (one.valid == other.valid).all()
    for name, array in other.numbers.items():
        if exact:
            assert np.array_equal(*np.broadcast_arrays(one.numbers[name], array), equal_nan=True)
        np.testing.assert_allclose(one.numbers[name], array, rtol=1e-14)
    for name, texts in other.words.items():
        assert (one.words[name] == texts).all()


def list_values(value: int) -> list[int]:
    """List whole numbers around a value, many of which divide less."""
    base = max(1, value)
    return sorted({base * n // 2 for n in range(2, 16)} | {base + n for n in range(4)})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("gpt2small_hgx-h100", "training.sequence_length", 512),
        ("gpt2small_hgx-h100", "training.global_batch", 64),
        ("gpt2small_hgx-h100", "model.hidden", 768),
        ("gpt2small_hgx-h100", "model.attention.heads", 12),
        ("gpt2small_hgx-h100", "cluster.devices", 8),
        slow("llama70b_h100x1024", "training.sequence_length", 4096),
        slow("llama70b_h100x1024", "model.mlp.intermediate", 28672),
        slow("mixtral8x7b_h100x1024", "training.sequence_length", 4096),
        slow("mixtral8x7b_h100x1024", "model.moe.experts", 8),
        slow("mixtral8x7b_h100x1024", "model.layers", 32),
    ],
)
def test_a_number_means_the_same_together_and_alone(
    name: str, key: str, value: int, alone: Any
) -> None:
    read = load(name, {key: list_values(value)})
    assert dimensions.classify_axes(read) == (dimensions.NUMBERS,)
    compare(evaluate(read), alone(read), exact=key != "training.sequence_length")


def test_numbers_are_crossed_with_each_other_and_with_inputs(alone: Any) -> None:
    axes = read_data("questions")["axes_of_lanes"]
    read = load("gpt2small_hgx-h100", axes)
    compare(evaluate(read), alone(read), exact=False)


@pytest.mark.parametrize("key", ["training.sequence_length", "model.hidden", "model.vocab"])
def test_thousands_of_numbers_are_a_few_plans(key: str, completed: list[int]) -> None:
    read = load("llama70b_h100x1024", {key: {"from": 4096, "to": 516096, "step": 128}})
    points = evaluate(read)
    assert len(points) == read.size == 4001
    assert len(completed) <= 3


def test_a_refused_number_is_named_in_its_own_reason(completed: list[int]) -> None:
    batches = {"from": 64, "to": 575, "step": 1}
    read = load("llama70b_h100x1024", {"training.global_batch": batches})
    points = evaluate(read)
    told = points.words["reason"].tolist()
    assert told[1] == "global_batch 65 is not divisible by data 64 × micro_batch 1"
    assert told[-1] == "global_batch 575 is not divisible by data 64 × micro_batch 1"
    assert [place for place, text in enumerate(told) if not text] == [192, 448]  # an interleaving
    assert len(completed) <= 10


def test_numbers_that_take_ways_of_their_own_are_few_in_a_piece() -> None:
    read = load("llama70b_h100x1024", {"model.layers": {"from": 4, "to": 9000, "step": 1}})
    assert max(len(work.Job(read, None).pieces.list_ranges(0)[0]), 1) <= work.MOST_PLANS
