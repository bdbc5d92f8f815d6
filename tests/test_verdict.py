"""What is said to fit: by the prediction, and by how far published readings lie above it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import planner
from planner import PlanError
from planner.limits import Limit, fit_limit
from planner.result import Result
from tests.conftest import ROOT

PLAN = ROOT / "presets" / "llama70b_h100x1024.yaml"
SIZE = {
    "model": {"parameters": "7B"},
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
    "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 64},
    "parallelism": {"zero": 3},
}


def evaluated(**changes: Any) -> Result:
    return planner.load(PLAN, {key.replace("__", "."): v for key, v in changes.items()}).evaluate()


def with_capacity(capacity: int, margin: str = "20%") -> Result:
    return evaluated(cluster__accelerator__memory_usable=capacity, memory__margin=margin)


PROCESS = int(evaluated()["memory.process"].number)


@pytest.mark.parametrize(
    ("capacity", "state", "fits"),
    [
        (PROCESS - 1, "no", False),
        (PROCESS, "tight", True),
        (-(-PROCESS * 12 // 10) - 1, "tight", True),
        (-(-PROCESS * 12 // 10), "fits", True),
    ],
)
def test_a_plan_fits_is_tight_or_does_not_fit_to_the_byte(
    capacity: int, state: str, fits: bool
) -> None:
    result = with_capacity(capacity)
    assert result.verdict == {"fits": fits, "state": state, "reason": None}
    assert result["memory.at_worst"].number == -(-PROCESS * 12 // 10)
    assert result["memory.headroom_p95"].number == capacity - -(-PROCESS * 12 // 10)
    assert result["memory.headroom"].number == capacity - PROCESS


def test_without_a_shape_it_is_open_whether_it_fits_unless_the_states_alone_do_not() -> None:
    small = planner.load(SIZE).evaluate()
    assert small.verdict["state"] == "open"
    assert "shape" in small.verdict["reason"]
    large = planner.load(SIZE, {"model.parameters": "700B"}).evaluate()
    assert large.verdict == {"fits": False, "state": "no", "reason": None}


def test_the_interval_of_memory_ends_where_the_worst_case_is() -> None:
    for margin in (None, "30%"):
        result = evaluated(**({} if margin is None else {"memory__margin": margin}))
        process, headroom = result["memory.process"].interval, result["memory.headroom"].interval
        assert process is not None
        assert headroom is not None
        assert process[1] == result["memory.at_worst"].value
        assert headroom[0] == result["memory.headroom_p95"].value


def test_a_margin_in_words_is_a_limit() -> None:
    plan = planner.load(PLAN).plan
    capacity = Fraction(plan.get("cluster.accelerator.memory_usable"))
    assert fit_limit("p95", plan) == Limit("memory.headroom_p95", ">=", 0)
    assert fit_limit("0", plan) == fit_limit(" 0% ", plan) == Limit("memory.headroom", ">=", 0)
    assert fit_limit("5%", plan) == Limit("memory.process", "<=", capacity / Fraction(105, 100))
    assert fit_limit("0.05", plan) == fit_limit("5%", plan)


@pytest.mark.parametrize("text", ["p96", "-5%", "", "5 GiB", "tight"])
def test_anything_else_is_no_margin(text: str) -> None:
    with pytest.raises(PlanError, match="margin") as raised:
        fit_limit(text, planner.load(PLAN).plan)
    assert "p95, a share such as 5%, or 0" in str(raised.value)
