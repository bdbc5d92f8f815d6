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
from tests.conftest import read_data

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
    read_data("book")["conventions"],
)
def test_each_convention_says_what_it_discounts(
    count: str, window: int | None, causal: bool, expected: int
) -> None:
    assert keys(count, 100, window, causal) == expected


@pytest.mark.parametrize(("count", "own"), [("full", 114 * 114), ("causal", 114 * 115 // 2)])
def test_encoder_and_decoder_each_multiply_their_own_tokens(count: str, own: int) -> None:
    """T5 small on 512 and 114 tokens, matrix by matrix. What the decoder attends to in the encoder
    is 512 tokens' keys and values; the encoder masks nothing."""
    run = {"sequence_length": 512, "decoder_sequence_length": 114, "attention_count": count}
    plan = loading.load({"model": "t5-small", "cluster": DEVICE, "training": run})
    hidden, wide, vocab, length, decoded = 512, 2048, 32128, 512, 114
    square, mlp, attend = hidden**2, 2 * hidden * wide, 2 * hidden  # scores, and sums of values
    encoder = length * (4 * square + mlp) + attend * length**2
    decoder = decoded * (4 * square + mlp) + attend * own
    cross = 2 * decoded * square + 2 * length * square + attend * decoded * length
    products = 6 * (encoder + decoder + cross) + decoded * hidden * vocab
    found = evaluate.Evaluation(case.build(plan)).value("compute.forward_flops_per_token")
    assert found * length == 2 * products
