"""Predicted step times against published runs: the page says what the program prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

from benchmarks import time_accuracy, time_totals
from planner import resources

DATA = Path(__file__).parent / "data" / "time_runs.csv"
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


def test_the_bands_are_current(records: list[dict[str, Any]]) -> None:
    shipped = yaml.safe_load((resources.folder("presets") / "efficiency/bands.yaml").read_text())
    assert yaml.safe_load(time_accuracy.bands(DATA, records)) == shipped


def test_most_rows_lie_in_the_band_of_their_kind(records: list[dict[str, Any]]) -> None:
    from planner import bands

    def band(row: Mapping[str, str]) -> Mapping[str, Any]:
        architecture = time_accuracy.architecture(row["accelerator"])
        return bands.kind(architecture, bool(row["num_experts"]))

    by_id = {r["id"]: r for r in records if "error" in r}
    inside = []
    for row in time_accuracy.rows(DATA):
        record = by_id.get(row["id"])
        if record is not None:
            slower = time_accuracy.slowness(row, record)
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


HELD_OUT = Path(__file__).parent / "data" / "time_held_out.yaml"


@pytest.fixture(scope="module")
def held_out() -> list[time_totals.Total]:
    return list(time_totals.totals(HELD_OUT))


def test_the_tables_of_held_out_runs_are_current(held_out: list[time_totals.Total]) -> None:
    page = PAGE.read_text("utf-8")
    for name, text in (
        (time_totals.SOURCES, time_totals.sources(held_out)),
        (time_totals.RUNS, time_totals.runs(held_out)),
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


def test_most_held_out_runs_lie_in_the_interval_that_their_plan_prints(
    held_out: list[time_totals.Total],
) -> None:
    assert sum(total.inside() for total in held_out) >= 0.8 * len(held_out)
    errors = sorted(abs(total.error()) for total in held_out)
    assert errors[len(errors) // 2] <= 0.12
