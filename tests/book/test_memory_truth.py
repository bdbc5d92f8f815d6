"""Activations, states and peaks against what PyTorch's own hooks and trackers count.

The rows are a part of such counts (torch 2.13, transformers 5.23; saved_tensors_hooks, MemTracker
and FSDPMemTracker on fake tensors): every implementation and attention kind once.
"""

import json
from pathlib import Path

import pytest

from benchmarks import truth_memory
from benchmarks.memory_accuracy import value_of

DATA = Path(__file__).parent.parent / "data" / "memory_truth"


def _cases(file: str):
    make = truth_memory.CASES[file]
    for name, document, expected in make(json.loads((DATA / file).read_text("utf-8"))):
        yield pytest.param(document, expected, id=name)


@pytest.mark.parametrize(
    ("document", "expected"),
    [*_cases("activations.json"), *_cases("activations_tp.json")],
)
def test_a_layer_keeps_exactly_these_bytes(document, expected):
    for quantity, want in expected.items():
        assert value_of(document, quantity) == want


@pytest.mark.parametrize(("document", "expected"), [*_cases("memory.json")])
def test_states_are_exact_and_the_peak_is_found(document, expected):
    expected = {**expected}  # a test that was slow runs again
    phase = expected.pop("memory.phase")
    assert truth_memory.PHASES[value_of(document, "memory.phase")] == phase
    total = expected.pop("memory.total")
    assert abs(value_of(document, "memory.total") / total - 1) < 0.0001
    for quantity, want in expected.items():
        assert value_of(document, quantity) == want
