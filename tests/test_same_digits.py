"""One quantity of one plan reads the same everywhere: the digits of a headline are a rounding of
the exact value, which the JSON holds."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import planner
from planner.base import units
from planner.base.display import plain
from planner.cli import main
from planner.connect import compare
from planner.questions.constraints import parse_limit
from planner.questions.plan_questions import outcome
from planner.report import as_text, text
from planner.report.answer import Answer
from planner.report.explain import explain
from planner.results.result import Quantity, Result
from planner.review import diff, writing
from planner.serve import page
from tests.conftest import ROOT

HEADLINES = (
    "parameters.total",
    "memory.process",
    "time.step_seconds",
    "time.training_days",
    "time.mfu",
    "cost.total",
    "energy.total",
)
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
    lines = text(result, False).splitlines()
    for figure in Answer(result).numbers:
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
            outcome(result, one.id, place, limit).sentence,
        )
        yield "compare", one.id, compare.Row(one, Fraction(one.number), "log").cells()[1]


def other_surfaces(plan: str) -> Iterator[tuple[str, str, str]]:
    """The same of surfaces that take seconds: reports, sensitivities, differences, the page."""
    result = result_of(plan)
    markdown, shown = as_text(result, "md"), page_links(as_text(result, "html"))
    shown |= page_links(page.answer({"text": planner_text(plan)})["html"])
    for one in headlines(plan):
        rows = [line for line in markdown.splitlines() if line.endswith(f"| `{one.id}` |")]
        yield from (("Markdown", one.id, row) for row in rows)
        yield from (("HTML", one.id, words) for i, words in shown if i == one.id)
        yield "sensitivity", one.id, printed("sensitivity", plan, one.id).splitlines()[0]


def planner_text(plan: str) -> str:
    return (ROOT / "presets" / f"{plan}.yaml").read_text("utf-8")


def page_links(source: str) -> set[tuple[str, str]]:
    """What links to a quantity say in HTML, with the unit behind them."""
    link = r'<a href="?#([\w.]+)"?[^>]*>([^<]*)</a>(?:<span class="?unit"?>([^<]*)</span>)?'
    return {
        (i, html.unescape(f"{number} {unit}"))
        for i, number, unit in re.findall(link, source)
        if re.match(NUMBER, number)
    }


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
    row = diff.Row(name, "quantity", one.title, one.unit, plain(one.value), plain(other.value))
    before, after = writing.line(row).removeprefix(f"{name}: ").partition(" (")[0].split(" → ")
    for said, quantity in ((before, one), (after, other)):
        assert is_rounding(said, quantity.number, quantity.unit)
        assert said == quantity.text() or name == "parameters.total"


@pytest.mark.slow
@pytest.mark.parametrize("plan", SHIPPED)
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
