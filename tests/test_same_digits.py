"""One quantity of one plan reads the same everywhere: the digits of a headline are a rounding of
the exact value, which the JSON holds."""

from __future__ import annotations

import asyncio
import contextlib
import html
import io
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.base import units
from planner.base.display import plain
from planner.cli import main
from planner.connect import compare
from planner.questions.constraints import parse_limit
from planner.questions.plan_questions import judge_limit
from planner.report import as_text, render_text
from planner.report.answer import answer_of
from planner.report.explain import explain
from planner.results.result import Quantity, Result
from planner.review import diff, writing
from planner.serve import page
from tests.conftest import ROOT, leave_to_night, read_data

HEADLINES = read_data("report")["headlines"]
QUICK = ("gpt2small_hgx-h100", "mixtral8x7b_h100x1024")
SHIPPED = sorted(path.stem for path in (ROOT / "presets").glob("*.yaml"))
#: A number as people read it, with its unit where it has one.
NUMBER = r"−?\d[\d,]*(?:\.\d+)?(?:e−?\d+)?"


@cache
def result_of(plan: str) -> Result:
    return planner.load(plan).evaluate()


def headlines(plan: str) -> list[Quantity]:
    result = result_of(plan)
    return [result[name] for name in HEADLINES if name in result]


def is_rounding(said: str, value: Any, unit: str) -> bool:
    """Whether a text is a value to half of its last digit; ``said`` has its unit."""
    number = re.match(NUMBER, said)
    assert number is not None, said
    digits, power, exponent = number[0].partition("e")
    decimals = len(digits.partition(".")[2])
    last = f"0.{'0' * (decimals - 1)}1" if decimals else "1"
    unit_of_last = said.replace(number[0], last + power + exponent, 1)
    read, half = (Fraction(units.parse(one, unit)) for one in (said, unit_of_last))
    return abs(read - Fraction(value)) <= half / 2


def number_of(quantity: Quantity) -> str:
    """The digits of its headline."""
    return quantity.text().partition(" ")[0]


def holds(number: str, words: str) -> bool:
    """Whether a text has a number, not only as a part of a longer one."""
    return bool(re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", words))


def printed(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main.main([*words]) in (0, 1)
    return out.getvalue().replace("\u00a0", " ")


def quick_surfaces(plan: str) -> Iterator[tuple[str, str, str]]:
    """Texts that have the headline of a quantity: the surface, the quantity and its words."""
    result = result_of(plan)
    place = result.plan.document.node.place
    lines = render_text(result, False).splitlines()
    for figure in answer_of(result).numbers:
        if figure.id in HEADLINES:
            yield "page", figure.id, f"{figure.number} {figure.unit}"
    shell = html.unescape(result._repr_html_() or "").splitlines()
    for one in headlines(plan):
        for surface, found in (("summary", lines), ("notebook", shell)):
            for line in found[:30]:
                if line.endswith(f" {one.id}") and not line.startswith("Memory of"):
                    yield surface, one.id, line
        yield "explain", one.id, explain(result, one.id).splitlines()[0]
        yield "Python", one.id, one.text()
        limit = parse_limit(f"{one.id}>={one.text()}", result.plan)
        yield (
            "require",
            one.id,
            judge_limit(result, one.id, place, limit).sentence,
        )
        yield "compare", one.id, compare.Row(one, Fraction(one.number), "log").list_cells()[1]


def other_surfaces(plan: str) -> Iterator[tuple[str, str, str]]:
    """The same of surfaces that take seconds: reports, sensitivities, differences, the page."""
    result = result_of(plan)
    markdown, shown = as_text(result, "md"), page_links(as_text(result, "html"))
    shown |= page_links(page.answer_plan({"text": planner_text(plan)})["html"])
    for one in headlines(plan):
        rows = [line for line in markdown.splitlines() if line.endswith(f"| `{one.id}` |")]
        yield from (("Markdown", one.id, row) for row in rows)
        yield from (("HTML", one.id, words) for i, words in shown if i == one.id)
        yield "sensitivity", one.id, printed("sensitivity", plan, one.id).splitlines()[0]


def planner_text(plan: str) -> str:
    return (ROOT / "presets" / f"{plan}.yaml").read_text("utf-8")


def page_links(source: str) -> set[tuple[str, str]]:
    """What links to a quantity say in HTML, with the unit behind them."""
    link = (
        r'<a href="?#(?:why=)?([\w.]+)"?[^>]*>([^<]*)</a>(?:<span class="?unit"?>([^<]*)</span>)?'
    )
    return {
        (i, html.unescape(f"{number} {unit}"))
        for i, number, unit in re.findall(link, source)
        if re.match(NUMBER, number)
    }


@pytest.mark.slow
@pytest.mark.parametrize("plan", QUICK)
def test_headlines_are_roundings_and_read_alike(plan: str) -> None:
    assert len(headlines(plan)) > 5
    for one in headlines(plan):
        assert is_rounding(one.text(), one.number, one.unit), one.text()
        assert is_rounding(one.text("exact"), one.number, one.unit), one.text("exact")
    seen = set[str]()
    for surface, name, words in quick_surfaces(plan):
        number = number_of(result_of(plan)[name])
        if name == "parameters.total" and surface == "require":
            number = f"{result_of(plan)[name].value:,}"
        assert holds(number, words.replace("\u00a0", " ")), (surface, name, number, words)
        seen.add(surface)
    assert len(seen) == 7


@pytest.mark.parametrize("plan", QUICK)
def test_json_holds_the_exact_value(plan: str) -> None:
    told = json.loads(as_text(result_of(plan), "json", HEADLINES))["quantities"]
    for one in headlines(plan):
        assert told[one.id]["value"] == plain(one.value)


@pytest.mark.parametrize("name", HEADLINES)
def test_a_difference_has_the_digits_of_a_headline(name: str) -> None:
    one, other = (result_of(plan)[name] for plan in QUICK)
    row = diff.ChangeRow(
        name, "quantity", one.title, one.unit, plain(one.value), plain(other.value)
    )
    before, after = (
        writing.format_line(row).removeprefix(f"{name}: ").partition(" (")[0].split(" → ")
    )
    for said, quantity in ((before, one), (after, other)):
        assert is_rounding(said, quantity.number, quantity.unit)
        assert said == quantity.text() or name == "parameters.total"


@pytest.mark.slow
@pytest.mark.parametrize("plan", leave_to_night(SHIPPED, QUICK))
def test_every_surface_of_every_plan(plan: str) -> None:
    seen = set()
    for surface, name, words in (*quick_surfaces(plan), *other_surfaces(plan)):
        quantity = result_of(plan)[name]
        numbers = {number_of(quantity), f"{quantity.value:,}" if quantity.exact else "none"}
        assert any(holds(one, words.replace("\u00a0", " ")) for one in numbers), (surface, words)
        seen.add(surface)
    assert seen >= {"page", "summary", "explain", "Markdown", "HTML", "sensitivity"}


@pytest.mark.slow
def test_answers_of_many_plans_round_what_their_json_holds() -> None:
    """A search and an inverse question, whose plans are others than the one that is named."""
    plan = QUICK[0]
    best = json.loads(printed("search", plan, "--format=json"))["best"][0]["quantities"]
    step = re.search(r"([\d.]+ \w?s) a step", " ".join(printed("search", plan).split()))
    assert step and is_rounding(step[1], best["time.step_seconds"], "s")
    asked = ("solve", plan, "--vary=training.tokens", "--until=cost.total<=1000 USD")
    held = json.loads(printed(*asked, "--format=json"))["holds"]
    line = next(one for one in printed(*asked).splitlines() if one.startswith("  holds"))
    tokens, cost = re.fullmatch(r"  holds +(.*? tokens) +cost\.total (.*)", line).groups()  # type: ignore[union-attr]
    assert is_rounding(tokens, held["value"], "tokens")
    assert is_rounding(cost, held["quantities"]["cost.total"], "USD")


#: Values of one key, each a point of a study and a request to a server.
BATCHES = (512, 1024)


def with_batch(batch: int) -> Result:
    return planner.load(QUICK[0], set={"training.global_batch": batch}).evaluate()


@pytest.mark.slow
def test_a_study_prints_the_digits_of_its_plans(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    axes = f"{{training.global_batch: [{', '.join(map(str, BATCHES))}]}}"
    study.write_text(f"{{base: {QUICK[0]}, axes: {axes}, record: [{', '.join(HEADLINES)}]}}")
    files = {end: tmp_path / f"out.{end}" for end in ("md", "html", "jsonl")}
    shown = printed("sweep", str(study), *(f"-o={file}" for file in files.values()))
    markdown, page_text = (files[end].read_text().replace("\u00a0", " ") for end in ("md", "html"))
    rows = [json.loads(line) for line in files["jsonl"].read_text().splitlines()]
    for batch, row in zip(BATCHES, rows, strict=True):
        result = with_batch(batch)
        for name in HEADLINES:
            assert row[name] == pytest.approx(float(result[name].value), rel=1e-12), name
        (line,) = (one for one in markdown.splitlines() if one.startswith(f"| {batch:,} sequ")
                   and one.count("|") == 9)  # fmt: skip
        cells = re.search(rf"<tr>\s*<th[^>]*>{batch:,} seq.*?</tr>", page_text, re.S)
        for name in ("time.training_days", "cost.total", "memory.process", "time.mfu"):
            assert f"| {result[name].text()} |" in line
        for name in ("time.training_days", "cost.total"):
            assert result[name].text() in " ".join(shown.split()) or batch != BATCHES[-1]
        assert cells is None or result["cost.total"].text().split()[0] in cells[0]


@pytest.mark.slow
def test_a_server_prints_the_digits_of_its_plans() -> None:
    pytest.importorskip("starlette")
    from fuzz.served import serving

    with serving() as server:
        for batch in BATCHES:
            result, given = with_batch(batch), {"training.global_batch": batch}
            asked = {"plan": QUICK[0], "set": given}
            status, told, _ = server.ask("POST", "/v1/evaluate", asked)
            assert status == 200
            for one in HEADLINES:
                assert told["quantities"][one]["value"] == plain(result[one].value)
                _, said, _ = server.ask("POST", "/v1/explain", {**asked, "quantity": one})
                assert said["quantity"]["value"] == plain(result[one].value)
            text = planner_text(QUICK[0]).replace("global_batch: 512", f"global_batch: {batch}")
            _, shown, _ = server.ask("POST", "/page/answer", {"text": text})
            links = page_links(shown["html"])
            headlines = {one.id: one for one in map(result.find, HEADLINES)}
            assert {i for i, _ in links} >= {"time.training_days", "cost.total", "memory.process"}
            for name, words in links:
                if name in headlines:
                    assert holds(number_of(headlines[name]), words), (name, words)


@pytest.mark.slow
def test_an_assistant_prints_the_digits_of_its_plans() -> None:
    pytest.importorskip("mcp")
    from tests.serve.test_mcp import asked

    changes = {"training.global_batch": BATCHES[-1]}
    about = {"plan": QUICK[0], "set": changes}
    words = (
        ("evaluate", {**about, "quantities": [*HEADLINES]}),
        *(("explain", {**about, "quantity": one}) for one in HEADLINES),
        ("quick", {"text": "gpt2-small on 8 h100, 10B tokens"}),
    )
    _, found = asyncio.run(asyncio.wait_for(asked(words), 120))
    assert not any(wrong for wrong, _ in found), found
    result = with_batch(BATCHES[-1])
    told = json.loads(found[0][1])["quantities"]
    for one, (_, said) in zip(HEADLINES, found[1:-1], strict=True):
        assert told[one]["value"] == plain(result[one].value)
        assert holds(number_of(result[one]), said), one
    line = planner.quick(words[-1][1]["text"]).evaluate()
    for name in ("time.training_days", "time.step_seconds", "parameters.total"):
        assert holds(number_of(line[name]), found[-1][1]), name
