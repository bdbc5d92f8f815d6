"""The simulated allocator has PyTorch's rules, and its steps the book's phases."""

from collections import Counter
from itertools import accumulate
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings

import planner
from planner.base.errors import PlanError
from planner.questions import loading
from planner.results.allocations import find_fullest
from planner.results.allocator import Allocator, StepOrder, run_allocator
from planner.results.result import evaluate_plan
from tests import strategies
from tests.conftest import read_data

MIB = 2**20


@pytest.mark.parametrize("expandable", (False, True))
@pytest.mark.parametrize("row", read_data("allocator"))
def test_as_much_is_reserved_as_tests_of_pytorch_expect(row: Any, expandable: bool) -> None:
    allocator, before = Allocator(inf, expandable), "expandable" if expandable else "reserved"
    kept = allocator.allocate(row["request"])
    for _ in range(5):
        copy, added = (allocator.allocate(row["request"]) for _ in range(2))
        for pool, address, size in (copy, kept):
            pool.add(address, size)
        kept = added
    assert allocator.reserved == row[before] * MIB
    allocator.return_cache()
    assert allocator.reserved == row["expandable_returned" if expandable else "returned"] * MIB


def test_cached_segments_are_returned_before_a_request_fails() -> None:
    """The largest that is left is the device less what is in use; another stream gets it too."""
    allocator = Allocator(100 * MIB)
    kept, cached = allocator.allocate(40 * MIB), allocator.allocate(50 * MIB)
    cached[0].add(*cached[1:])
    assert allocator.allocate(62 * MIB) is None
    assert allocator.allocate(60 * MIB, "other") is not None
    assert kept is not None and allocator.most_reserved == allocator.reserved == 100 * MIB


def test_the_tensor_that_finds_no_room_is_named() -> None:
    result = planner.load("gpt2small_hgx-h100").evaluate()
    whole, failed = run_allocator(result)
    assert failed is None
    small, failed = run_allocator(result, 30 * 2**30)
    assert failed is not None and (failed.part, failed.born) == ("head", "loss")
    assert small.reserved <= 30 * 2**30 < small.reserved + failed.bytes <= whole.most_reserved


@pytest.mark.slow
@settings(max_examples=60)
@given(strategies.whole_plans())
def test_a_simulated_step_has_the_phases_of_the_book(document: strategies.Document) -> None:
    """In each phase what is alive is memory.live, never more than the peak; and memory.reserved,
    with the largest tensor (whose block a longer-lived one may have broken up) and a part-filled
    segment of each size, bounds what the allocator reserves."""
    try:
        result = evaluate_plan(loading.load(document))
        order, stage = StepOrder(result), find_fullest(result)
    except PlanError:  # no valid plan, or a model that is given by its size
        return
    value, changes, spans = result.evaluation.value, Counter[float](), [*order.list_spans()]
    for start, end, row in spans:
        changes[start] += row.bytes
        changes[end + 1] -= row.bytes
    alive = [*accumulate(changes[slot] for slot in range(2 * order.length))]
    if len(order.phases) > 1:
        for phase in order.phases:
            wanted = value("memory.live", {"stage": stage, "phase": phase})
            assert alive[order.length + order.begin[phase.name]] == wanted
    assert max(alive) == value("memory.peak", {"stage": stage})
    allocator, failed = run_allocator(result)
    largest = max(row.bytes for _, _, row in spans)
    assert failed is None and allocator.most_reserved >= max(alive)
    assert allocator.most_reserved <= value("memory.reserved") + largest + 2 * 20 * MIB
