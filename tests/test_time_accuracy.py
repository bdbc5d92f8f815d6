"""Predicted step times against published runs: the page says what the program prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from benchmarks import time_accuracy, time_bands, time_totals
from planner import resources

DATA = Path(__file__).parent / "data" / "time_runs.csv"
HELD_OUT = Path(__file__).parent / "data" / "time_held_out.yaml"
PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"

#: Mean relative error that a source may have (runs of one laboratory or experiment).
BOUNDS = {
    "vtrain-multi": 0.06,
    "vtrain-single": 0.08,
    "megatron-2205": 0.03,
    "bloom-prestudy": 0.06,
    "foundry-a100": 0.065,
    "foundry-h100": 0.025,
    "dgxc-h100": 0.04,
    "bridge-b200": 0.06,
    "bridge-gb200": 0.06,
    "bridge-gb300": 0.08,
    "simumax-b200": 0.055,
    "internevo-7b": 0.07,
    "nanotron-tpscale": 0.04,
}


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return time_accuracy.compare(DATA)


@pytest.fixture(scope="module")
def held_out() -> list[time_totals.Total]:
    return list(time_totals.totals(HELD_OUT))


@pytest.fixture(scope="module")
def ratios(records: list[dict[str, Any]], held_out: list[time_totals.Total]) -> time_bands.Ratios:
    return time_bands.together(time_bands.of_rows(DATA, records), time_bands.of_totals(held_out))


@pytest.mark.parametrize("source", BOUNDS)
def test_each_source_keeps_its_bound(records: list[dict[str, Any]], source: str) -> None:
    errors = [abs(r["error"]) for r in records if r["source"] == source and "error" in r]
    assert len(errors) >= 3
    assert mean(errors) <= BOUNDS[source]
    assert sorted(errors)[int(0.9 * len(errors))] <= 0.2


def test_the_mean_over_sources_keeps_its_bound(records: list[dict[str, Any]]) -> None:
    means = [
        mean(abs(r["error"]) for r in group if "error" in r)
        for source, group in time_accuracy.by_source(records).items()
        if not source.endswith(" experts") and any("error" in r for r in group)
    ]
    assert mean(means) <= 0.07


def test_a_row_is_left_out_only_for_what_it_does_not_publish(
    records: list[dict[str, Any]],
) -> None:
    reasons = {r["left_out"] for r in records if "left_out" in r}
    assert all(reason.endswith("is not published") for reason in reasons), reasons


def test_the_page_is_current(records: list[dict[str, Any]]) -> None:
    page = PAGE.read_text("utf-8")
    table = time_accuracy.markdown(time_accuracy.lines(records))
    table = f"{table}\n\n{time_accuracy.ranges(records)}"
    assert time_accuracy.rewritten(page, table) == page


def test_the_bands_are_current(ratios: time_bands.Ratios) -> None:
    shipped = (resources.folder("presets") / "efficiency/bands.yaml").read_text("utf-8")
    assert time_bands.document(ratios) == shipped


def test_a_kind_rests_on_ten_rows_and_a_row_alone_weighs_little() -> None:
    steady = [1.0, 1.0, 1.0, 1.0, 1.1, 1.1]
    experts = {("c", True, "nodes"): {"y": steady}}
    few = {
        ("a", False, "nodes"): {"one": steady, "two": steady, "odd": [3.0]},
        ("a", False, "node"): {"one": steady},
        ("b", False, "nodes"): {"x": [2.0]},
    }
    found = time_bands.intervals({**few, **experts})
    dense = [(entry["architecture"], entry["scale"]) for entry in found if not entry["experts"]]
    assert dense == [("a", "any"), ("a", "nodes"), ("other", "any")]
    assert found[1]["rows"] == 13 and found[1]["high"] == 2.0  # 0.2 of 2.2 is above 5 %
    many = {f"source {number}": steady for number in range(4)}
    found = time_bands.intervals({("a", False, "nodes"): {**many, "odd": [3.0]}, **experts})
    assert found[0]["high"] == pytest.approx(0.1)


def test_a_source_is_judged_without_its_own_runs(
    ratios: time_bands.Ratios, held_out: list[time_totals.Total]
) -> None:
    inside = time_bands.foreseen(ratios, held_out)
    assert 0.8 * len(held_out) <= len(inside) < len(held_out)
    kind = ("hopper", True, "nodes")
    (alone,) = {total.source for total in held_out if total.kind == kind}
    assert alone in ratios[kind] and alone not in time_bands.without(ratios, alone)[kind]


def test_most_rows_lie_in_the_band_of_their_kind(records: list[dict[str, Any]]) -> None:
    from planner import bands

    def band(row: Mapping[str, str]) -> Mapping[str, Any]:
        architecture = time_bands.architecture(row["accelerator"])
        return bands.kind(architecture, bool(row["num_experts"]), by_id[row["id"]]["scale"])

    by_id = {r["id"]: r for r in records if "error" in r}
    inside = []
    for row in time_accuracy.rows(DATA):
        record = by_id.get(row["id"])
        if record is not None:
            slower = time_bands.slowness(row, record)
            inside.append(1 + band(row)["low"] <= slower <= 1 + band(row)["high"])
    assert sum(inside) / len(inside) >= 0.8


TOTALS = Path(__file__).parent / "data" / "time_totals.yaml"


@pytest.fixture(scope="module")
def totals() -> list[time_totals.Total]:
    return list(time_totals.totals(TOTALS))


def test_the_table_of_the_largest_runs_is_current(totals: list[time_totals.Total]) -> None:
    page = PAGE.read_text("utf-8")
    assert time_totals.rewritten(page, time_totals.table(totals)) == page


def test_runs_that_nothing_was_fitted_to_are_met(totals: list[time_totals.Total]) -> None:
    """The layout that fits best, of those that the source leaves open."""
    best = {total.run: min(map(abs, total.errors())) for total in totals}
    assert sum(error <= 0.15 for error in best.values()) / len(best) >= 0.5
    assert max(best.values()) <= 0.25
    assert best["Nemotron-4 340B on 1,536 H100"] <= 0.05
    assert best["BLOOM 176B on 384 A100"] <= 0.05  # on a network that was measured


def test_the_tables_of_held_out_runs_are_current(
    ratios: time_bands.Ratios, held_out: list[time_totals.Total]
) -> None:
    page = PAGE.read_text("utf-8")
    inside = time_bands.foreseen(ratios, held_out)
    for name, text in (
        (time_totals.SOURCES, time_totals.sources(held_out, inside)),
        (time_totals.RUNS, time_totals.runs(held_out, inside)),
    ):
        assert time_totals.rewritten(page, text, name) == page


def test_every_held_out_run_names_its_table_and_address(
    held_out: list[time_totals.Total],
) -> None:
    assert all(total.table and total.address.startswith("https://") for total in held_out)
    assert len({total.run + total.source + total.table for total in held_out}) > 40


def test_no_held_out_run_is_among_those_that_constants_were_fitted_to(
    held_out: list[time_totals.Total],
) -> None:
    fitted = {float(row["value"]) for row in time_accuracy.rows(DATA)}
    same = [total for total in held_out if total.published in fitted and total.published > 1000]
    assert not same, [total.run for total in same]


def test_half_of_the_held_out_runs_are_met_within_an_eighth(
    held_out: list[time_totals.Total],
) -> None:
    errors = sorted(abs(total.error()) for total in held_out)
    assert errors[len(errors) // 2] <= 0.12
