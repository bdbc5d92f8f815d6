"""Results as plain records, as a table in a notebook and as a data frame."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

import planner
from planner.results.notebook import COLUMNS, records
from planner.results.result import Result

PLAN = Path(__file__).resolve().parents[2] / "presets" / "gpt2small_hgx-h100.yaml"


@pytest.fixture(scope="module")
def result() -> Result:
    return planner.load(PLAN).evaluate()


def test_records_hold_every_quantity_exactly(result: Result) -> None:
    found = {row["id"]: row for row in records(result.quantities.values())}
    assert list(found) == list(result)
    assert found["parameters.total"]["value"] == 124_439_808  # Radford et al. 2019, as published
    assert all(tuple(row) == COLUMNS for row in found.values())


def test_a_data_frame_has_the_ids_as_index(result: Result) -> None:
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame.index) == list(result)
    assert frame.loc["parameters.total", "value"] == 124_439_808
    assert frame.loc["compute.training_flops", "unit"] == "FLOP"


class Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_notebook_shows_a_table(result: Result) -> None:
    page = Balance()
    page.feed(result._repr_html_())
    assert page.open == [] and "table" in page.seen
    assert "124,439,808" in result._repr_html_()


def test_a_hostile_name_is_text() -> None:
    name = "<script>alert(1)</script>"
    shown = planner.load(PLAN, {"name": name}).evaluate()._repr_html_()
    assert "<script" not in shown and "&lt;script&gt;" in shown
