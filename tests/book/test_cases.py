"""Published results as cases: tests/cases/*.yaml holds a plan, what it must give, and who says so.

An expectation is an exact number, or a mapping: ``value`` with ``decimals`` (digits after the
point) or ``significant`` digits as the source prints them, or with ``ratio_to`` another quantity.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.documents import references

CASES = Path(__file__).parents[1] / "cases"


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        for case in references.read_document(path).plain()["cases"]:
            found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


def rounded(value: Any, *, decimals: int | None = None, significant: int | None = None) -> str:
    number = Fraction(value)
    if significant is not None:
        return f"{float(number):.{significant - 1}e}"
    return f"{float(number):.{decimals}f}"


@pytest.mark.slow
@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any]) -> None:
    assert case["source"], "a case names its source"
    result = planner.load(case["plan"], set=case.get("set", {})).evaluate()
    for identifier, expected in case["expect"].items():
        value = result[identifier].value
        if isinstance(expected, dict):
            how = {k: int(v) for k, v in expected.items() if k in ("decimals", "significant")}
            assert rounded(value, **how) == rounded(expected["value"], **how), identifier
        else:
            assert value == expected, identifier
