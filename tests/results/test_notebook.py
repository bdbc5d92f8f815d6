"""Results as plain records and as a data frame; what a notebook shows of results and answers."""

from __future__ import annotations

import ast
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import planner
from planner.connect.compare import STEP
from planner.results.result import COLUMNS, Result

PLAN = Path(__file__).resolve().parents[2] / "presets" / "gpt2small_hgx-h100.yaml"


@pytest.fixture(scope="module")
def result() -> Result:
    return planner.load(PLAN).evaluate()


def test_a_data_frame_holds_every_quantity_exactly(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pandas is given, where it is installed or not."""

    class DataFrame(list[dict[str, Any]]):
        def __init__(self, rows: list[dict[str, Any]], **_: Any) -> None:
            super().__init__(rows)

        def set_index(self, name: str) -> dict[str, dict[str, Any]]:
            return {row[name]: row for row in self}

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=DataFrame))
    found = result.to_pandas()
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
    """What a page holds: its tags are closed in order, its attributes, its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(thing: object) -> Page:
    """An object in a notebook: short, in lines of a terminal, with nothing that reaches beyond."""
    assert len(repr(thing)) < 120
    html = thing._repr_html_()  # type: ignore[attr-defined]
    assert len(html) < 40_000
    page = Page(html)
    assert page.tags == ["pre"] and "\033" not in page.text  # columns stay whole, without colours
    assert {name for name, _ in page.attributes} == {"style"}
    styles = " ".join(value or "" for name, value in page.attributes if name == "style")
    assert "url(" not in styles and "position:fixed" not in styles
    return page


def test_a_result_shows_its_verdict_memory_and_key_numbers(result: Result) -> None:
    """As the terminal does: the verdict first, each bar with its id, at most 80 columns."""
    lines = shown(result).text.splitlines()
    assert lines[0] == "FITS  GPT-2 small on one node of 8 H100s"
    assert {line.split()[-1] for line in lines if line.strip()} >= {"memory.process", STEP}
    assert max(map(len, lines)) <= 80


def test_what_does_not_fit_says_so_first() -> None:
    page = shown(planner.load(PLAN, {"training.micro_batch": 4096, "training.global_batch": 32768})
                 .evaluate())  # fmt: skip
    assert page.text.startswith("DOES NOT FIT")


def test_a_search_shows_a_table_of_layouts() -> None:
    found = planner.load(PLAN).search(top=3)
    text = shown(found).text
    assert len(re.findall(r"(?m)^ *[123] .*\bm?s\b", text)) == len(found.best) == 3


@pytest.mark.parametrize("question", ["largest-batch", "compute-optimal"])
def test_an_answer_shows_what_a_terminal_says(question: str) -> None:
    assert shown(planner.load(PLAN).solve(question)).text.startswith(question)


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
