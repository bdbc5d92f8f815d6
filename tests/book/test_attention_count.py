"""Conventions of counting attention: each equals the sum over queries that its words describe."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.counts import DEVICE
from planner.book import formulas as _book  # noqa: F401  registers the quantities
from planner.engine import evaluate
from planner.engine import instance as case
from planner.questions import loading

MODEL: dict[str, Any] = {"layers": 2, "hidden": 32, "vocab": 64, "attention": {"heads": 4}}


def keys(count: str, sequence: int, window: int | None, causal: bool = True) -> Fraction:
    attention = {"heads": 4} if window is None else {"heads": 4, "window": window}
    plan = loading.load(
        {
            "model": {**MODEL, "attention": attention, "causal": causal},
            "cluster": DEVICE,
            "training": {"sequence_length": sequence, "attention_count": count},
        }
    )
    found = evaluate.Evaluation(case.build(plan))
    (point,) = found.entries("component", {}, {"type": "core"})
    return Fraction(found.value("compute.keys", point))  # type: ignore[arg-type]


@settings(max_examples=20)
@given(sequence=st.integers(1, 300), window=st.integers(1, 300))
def test_causal_windows_count_each_query_by_the_keys_it_meets(sequence: int, window: int) -> None:
    met = [min(query, window) for query in range(1, sequence + 1)]
    assert keys("causal-window", sequence, window) == Fraction(sum(met), sequence)


@settings(max_examples=10)
@given(sequence=st.integers(1, 300))
def test_causal_attention_meets_itself_and_what_is_before(sequence: int) -> None:
    met = range(1, sequence + 1)
    assert keys("causal", sequence, None) == Fraction(sum(met), sequence)
    assert keys("causal-window", sequence, None) == Fraction(sum(met), sequence)


@pytest.mark.parametrize(
    ("count", "window", "causal", "expected"),
    [
        ("full", None, True, 100),
        ("full", 10, True, 100),
        ("causal", None, False, 100),  # an encoder masks nothing
        ("causal", 10, False, 100),
        ("window", None, True, 100),
        ("window", 10, True, 10),
        ("window", 10, False, 10),
        ("causal-window", 10, False, 10),
        ("window", 1000, True, 100),  # a window longer than the sequence cuts nothing
    ],
)
def test_each_convention_says_what_it_discounts(
    count: str, window: int | None, causal: bool, expected: int
) -> None:
    assert keys(count, 100, window, causal) == expected
