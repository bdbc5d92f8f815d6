"""Numbers of other calculators beside ours: every difference is the sum of its named terms.

Their numbers are recorded facts (tests/data/coming_from, each file says how they were obtained);
ours are evaluated afresh.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from benchmarks import coming_from
from planner.connect.imports.families import SCRIPTS
from planner.documents import schema

SOURCES = coming_from.sources()
CASES = [
    pytest.param(source, case, id=f"{name}: {case['title']}")
    for name, source in SOURCES.items()
    for case in source["cases"]
]
#: What a unit that others print is of ours.
UNITS = {"GiB": 2**30, "B": 10**9, "GFLOPs": 10**9, "TFLOPs": 10**12, "days": 1}


@pytest.mark.parametrize(("source", "case"), CASES)
def test_a_difference_is_the_sum_of_its_terms(source: dict[str, Any], case: dict[str, Any]) -> None:
    for row in coming_from.compare(source, case):
        assert row.unexplained == 0, f"{row.what}: {row.theirs} there, {row.ours} here"
        # A term that comes to nothing explains nothing.
        assert all(amount for _, _, amount in row.terms)
        assert {name for name, _, _ in row.terms} <= source["differences"].keys()


@pytest.mark.parametrize(("source", "case"), CASES)
def test_what_is_recorded_exactly_is_what_was_printed(
    source: dict[str, Any], case: dict[str, Any]
) -> None:
    for row in case["compared"]:
        printed = re.fullmatch(r"([\d.]+) (\w+)", row.get("printed", ""))
        if printed:
            digits = len(printed[1].partition(".")[2])
            value = Fraction(row["value"]) / UNITS[printed[2]]
            assert float(round(value, digits)) == float(printed[1])


@pytest.mark.parametrize("name", SOURCES)
def test_every_input_is_a_key_and_every_difference_is_met(name: str) -> None:
    source = SOURCES[name]
    for _, here, *_ in source["inputs"]:
        assert not here or schema.describe("plan", here) is not None, here
    met = {term for case in source["cases"] for row in case["compared"] for term in _named(row)}
    assert met == source["differences"].keys()


def _named(row: dict[str, Any]) -> list[str]:
    because = row.get("because", {})
    return list(because) if isinstance(because, dict) else []


def test_every_flag_of_the_scripts_is_in_the_table() -> None:
    said = " ".join(there for there, *_ in SOURCES["eleuther"]["inputs"]).replace("_", "-")
    scripts = [about for name, about in SCRIPTS.items() if name.startswith("calc")]
    flags = {
        flag
        for about in scripts
        for flag in (*about["defaults"], *about["others"], *about["short"].values())
    }
    assert {flag for flag in flags if f"`--{flag}`" not in said} == set()


@pytest.mark.parametrize("formula", ["x", "h()", "h.real", "1.5 * h", "[h]", "__import__('os')"])
def test_a_term_is_arithmetic_over_names(formula: str) -> None:
    case = SOURCES["cs336"]["cases"][0]
    rows = [{"theirs": "x", "value": 0, "ours": "time.peak", "because": {"x": formula}}]
    with pytest.raises(ValueError, match="nothing that a term may name"):
        coming_from.compare({}, {**case, "compared": rows})
