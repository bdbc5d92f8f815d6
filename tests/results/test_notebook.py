"""Results as plain records and as a data frame; what a notebook shows of results and answers."""

from __future__ import annotations

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

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


class Page(HTMLParser):
    """What a page holds: its tags are closed in order, its text, its tables by rows."""

    EMPTY = frozenset(("br", "hr", "img"))

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag in self.EMPTY else [tag]
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def shown(thing: object) -> Page:
    """An object in a notebook: short, with nothing that reaches beyond it."""
    assert len(repr(thing)) < 120
    html = thing._repr_html_()  # type: ignore[attr-defined]
    assert len(html) < 40_000
    page = Page(html)
    # No rule, script or address: styles stand on their own elements and take the text's colour.
    assert not {"style", "script", "link", "img", "iframe"} & set(page.tags)
    assert {name for name, _ in page.attributes} <= {"style", "title", "role", "aria-label"}
    styles = " ".join(value or "" for name, value in page.attributes if name == "style")
    assert "url(" not in styles and "position:fixed" not in styles
    return page


def test_a_result_shows_its_verdict_memory_and_key_numbers_first(result: Result) -> None:
    page = shown(result)
    assert page.text.startswith("Fits GPT-2 small on one node of 8 H100s")
    ids = [row[-1] for row in page.rows]
    assert ids[1:4] == ["time.training_days", "cost.total", "memory.process"]
    assert page.rows[1][:2] == ["Training time", "73.8 min"]
    bar, table, fold = (page.tags.index(tag) for tag in ("div", "table", "details"))
    assert bar < table < fold
    assert "124,439,808" in result._repr_html_()  # exact, in the fold


def test_the_bar_is_as_long_as_the_memory_that_it_draws(result: Result) -> None:
    html = result._repr_html_() or ""
    widths = [float(width) for width in re.findall(r"left:[\d.]+%;width:([\d.]+)%", html)]
    share = result["memory.process"].number / result["memory.capacity"].number
    assert sum(widths) == pytest.approx(100 * float(share), abs=0.1)


def test_what_does_not_fit_says_so_first() -> None:
    page = shown(planner.load(PLAN, {"training.micro_batch": 4096, "training.global_batch": 32768})
                 .evaluate())  # fmt: skip
    assert page.text.startswith("Does not fit")


def test_a_search_shows_a_table_of_layouts() -> None:
    found = planner.load(PLAN).search(top=3)
    page = shown(found)
    (head, *rows) = page.rows
    assert {"step", "memory"} <= set(head)
    assert [row[0] for row in rows if row[0].isdigit()] == ["1", "2", "3"][: len(found.best)]
    assert all(re.match(r"[\d.]+ (s|ms)$", row[1]) for row in rows)


@pytest.mark.parametrize("question", ["largest-batch", "compute-optimal"])
def test_an_answer_shows_what_a_terminal_says(question: str) -> None:
    page = shown(planner.load(PLAN).solve(question))
    assert page.text.startswith(question) and "pre" in page.tags


def test_what_moves_a_number_is_shown_too() -> None:
    page = shown(planner.load(PLAN).sensitivity("time.training_days"))
    assert page.text.startswith("time.training_days")


def test_a_hostile_name_is_text() -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    page = shown(planner.load(PLAN, {"name": name, "model.name": name}).evaluate())
    assert "<script>alert(1)" in page.text


@pytest.mark.slow
def test_the_example_runs_cell_by_cell_and_shows_what_it_says() -> None:
    """docs/notebook.ipynb without a notebook: the value of each cell's last line is shown."""
    file = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"
    notebook = json.loads(file.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    values = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            *before, last = ast.parse("".join(cell["source"])).body
            assert isinstance(last, ast.Expr)
            exec(compile(ast.Module(before, []), str(file), "exec"), names)
            values.append(eval(compile(ast.Expression(last.value), str(file), "eval"), names))
    result, fact, *others = values
    assert fact[:2] == (8_030_261_248, "parameters")  # of the published weights
    for thing in (result, *others):
        assert shown(thing).text
