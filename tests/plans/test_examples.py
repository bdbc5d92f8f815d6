"""Examples of a data set: padding, the tokens of a run, and the memory of the longest."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.plans.reinforcement import NORMAL, Lengths

PLAN: dict[str, Any] = {
    "model": "llama3.2-1b",
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
    "training": {"implementation": "pytorch", "sequence_length": 1024, "global_batch": 8}
    | {"micro_batch": 4, "examples": 5000, "epochs": 2},
}
LENGTHS = {"example_tokens": {"mean": 300, "cap": 1024, "spread": 0.8}}


def evaluate(**keys: Any) -> planner.Result:
    changes = {f"training.{key}": value for key, value in keys.items()}
    return planner.load(PLAN, changes).evaluate()


def test_the_longer_of_two_lognormal_lengths_has_its_closed_form() -> None:
    """The mean of the larger of two equal lognormal variables is twice their mean times the normal
    distribution at σ/√2 (Nadarajah and Kotz 2008, for the exponents of normal ones)."""
    lengths = Lengths(400, 40_000, 0.6)
    longer = 2 * 400 * NORMAL.cdf(0.6 / 2**0.5)
    assert lengths.compute_mean_longest(2) == pytest.approx(longer, 0.01)
    assert lengths.compute_mean_longest(1) == 400


@pytest.mark.parametrize(
    ("keys", "tokens"),
    [
        ({}, 10_000 * 1024),
        ({"epochs": None}, 5000 * 1024),
        ({"epochs": None, "tokens": 5000 * 256}, 5000 * 256),
        ({"objective": "dpo"}, 2 * 10_000 * 1024),
        ({**LENGTHS, "packed": True}, 10_000 * 300),
        ({**LENGTHS, "padding": "sequence_length"}, 10_000 * 1024),
        ({**LENGTHS, "micro_batch": 1}, 10_000 * 300),
    ],
)
def test_a_run_has_the_tokens_of_its_examples(keys: dict[str, Any], tokens: int) -> None:
    assert evaluate(**keys).plan.data["training"]["tokens"] == tokens


def test_time_is_that_of_the_average_micro_batch_and_memory_that_of_the_longest() -> None:
    padded = evaluate(**LENGTHS)
    average = padded.plan.data["training"]["sequence_length"]
    assert 300 < average < 1024
    assert padded["layout.padding"].value == 1 - Fraction(300, average)
    plain = {"examples": None, "epochs": None, "tokens": 10_000 * average}
    short, long = (evaluate(**plain, sequence_length=length) for length in (average, 1024))
    days, held = "time.training_days", "memory.process"
    assert padded[days].value == pytest.approx(float(short[days].value))
    assert padded[held].value == pytest.approx(float(long[held].value), 1e-4)
