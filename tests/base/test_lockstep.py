"""Code that runs once for many numbers makes of each what it makes of that number alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.base.lockstep import EXACT, Lanes, Lockstep

OPERATIONS = (
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv,
    min, max, divmod,
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-50, 50), st.fractions(-9, 9, max_denominator=7), st.sampled_from((0, 1, 2, 8))
)


def run(code: Callable[[Any], Any], values: list[Any]) -> int:
    """Hold what some code makes of all values against what it makes of each, in as many runs as it
    has ways; return their number."""
    left, ways = values, 0
    while left:
        lockstep = Lockstep(len(left), len(left) // 2)
        ways += 1
        try:
            made = code(lockstep.make_lanes(left))
        except ZeroDivisionError:
            made = ZeroDivisionError
        lockstep.ended = True
        assert lockstep.active[lockstep.first]
        for place in lockstep.active.nonzero()[0]:
            try:
                wanted = code(left[place])
            except ZeroDivisionError:
                wanted = ZeroDivisionError
            assert _read(made, place) == wanted
        left = [left[place] for place in (~lockstep.active).nonzero()[0]]
    return ways


def _read(made: Any, place: int) -> Any:
    if isinstance(made, tuple):
        return tuple(_read(each, place) for each in made)
    return Fraction(int(made.above[place]), made.below) if isinstance(made, Lanes) else made


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(NUMBERS, min_size=1, max_size=12),
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), NUMBERS, st.booleans()), max_size=5),
    limit=NUMBERS,
)
def test_arithmetic_and_branches_are_those_of_each_number(
    values: list[Any], steps: list[Any], limit: Any
) -> None:
    def code(number: Any) -> Any:
        whole = number
        for operation, other, swap in steps:
            if isinstance(whole, tuple):
                whole = whole[0]
            whole = operation(other, whole) if swap else operation(whole, other)
            if not isinstance(whole, tuple) and whole > limit:
                whole = whole - number
        return whole

    try:
        run(code, values)
    except OverflowError:
        assume(False)


def test_branches_are_followed_by_the_lanes_that_go_there() -> None:
    def code(size: Any) -> str:
        if size % 8:
            return "odd"
        return "small" if size <= 64 else "large"

    assert run(code, list(range(1, 200))) == 3


@pytest.mark.parametrize(
    "code",
    [
        lambda x: {8: "eight"}.get(x, "another"),  # a hash
        lambda x: x in {8, 9},
        lambda x: ["layer"] * x,  # an index
        lambda x: f"{x:,}",
        lambda x: float(x) ** 0.5,
        int,
    ],
)
def test_what_an_array_cannot_do_is_done_with_one_number(code: Callable[[Any], Any]) -> None:
    assert run(code, [8, 9, 10, 8, 11]) == 4


def test_a_text_has_each_lane_s_number() -> None:
    lockstep = Lockstep(3, 0)
    lanes = lockstep.make_lanes([6, 7, 9])
    assert lanes % 3 == 0
    text = f"{lanes} tokens of {2 * lanes}, at most {lanes // 3}"
    assert lockstep.write_texts(text) == [
        "6 tokens of 12, at most 2",
        "9 tokens of 18, at most 3",
    ]
    assert lockstep.write_texts("none") == ["none", "none"]


def test_numbers_that_are_not_exact_in_an_array_are_refused() -> None:
    lockstep = Lockstep(2, 0)
    lanes = lockstep.make_lanes([1, 2**40])
    with pytest.raises(OverflowError):
        _ = lanes * 2**20
    with pytest.raises(OverflowError):
        lockstep.make_lanes([1, EXACT + 1])


def test_lanes_of_a_run_that_ended_equal_no_number() -> None:
    lockstep = Lockstep(2, 0)
    lanes = lockstep.make_lanes([8, 9])
    lockstep.ended = True
    assert lanes != 8 and lanes == lanes
