"""No quantity is printed outside its range: it is absent, and says so."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.expressions import Symbol
from planner.book.quantity import BOOK, COUNTED, SHARE, SIGNED, Book, Quantity
from planner.engine.evaluate import Absent, Case, Evaluation


def book(**more: Any) -> Book:
    """A book of one quantity, whose value is the symbol x."""
    found = Book()
    share = Quantity("a.share", symbol="a", unit="1", title="a share", book=found, **more)
    share.equals(Symbol("x"), "It is given.")
    return found


@pytest.mark.parametrize(
    ("within", "value", "allowed"),
    [
        (SHARE, Fraction(-1, 3), "0 to 1"),
        (SHARE, 1.5, "0 to 1"),
        (COUNTED, -12, "0 or more"),
        (COUNTED, -0.5, "0 or more"),
    ],
)
def test_a_value_outside_its_range_is_absent(within: Any, value: Any, allowed: str) -> None:
    evaluation = Evaluation(Case({Symbol("x"): value}, {}, {}), book(within=within))
    with pytest.raises(Absent, match=rf"outside its range: .*{float(value):.6g} 1.*{allowed}"):
        evaluation.value("a.share")


@pytest.mark.parametrize(
    ("within", "value"), [(SHARE, 0), (SHARE, 1), (COUNTED, 10**30), (SIGNED, -5)]
)
def test_a_value_at_the_ends_of_its_range_is_printed(within: Any, value: Any) -> None:
    evaluation = Evaluation(Case({Symbol("x"): value}, {}, {}), book(within=within))
    assert evaluation.value("a.share") == value


def test_only_what_is_left_of_something_may_be_negative() -> None:
    signed = {i for i, q in BOOK.quantities.items() if q.within == SIGNED}
    headrooms = {"memory.headroom", "memory.headroom_p95", "memory.host.headroom"}
    of_phases = {"rl.memory.headroom", "rl.memory.engine_headroom"}
    assert signed == {*headrooms, *of_phases, "memory.left"}
