"""Reports: what a reader, a browser, GitHub and a terminal may rely on."""

from __future__ import annotations

import base64
import json
import math
import re
import stat
import subprocess
import sys
import zlib
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import report as render
from planner.base import numbers
from planner.base.display import clean
from planner.base.errors import PlanError
from planner.base.numbers import format_column, format_digits, format_shares
from planner.plans import error_bands as bands
from planner.report.answer import answer_of
from planner.report.view import view_of
from planner.results import intervals
from planner.results.result import Result
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
LLAMA = "presets/llama70b_h100x1024.yaml"
as_text = cache(render.as_text)
to_html, to_markdown, to_json = (partial(as_text, kind=kind) for kind in ("html", "md", "json"))
PLANS = (LLAMA, "presets/mixtral8x7b_h100x1024.yaml", "presets/gpt2small_hgx-h100.yaml")
SHIPPED = sorted((ROOT / "presets").glob("*.yaml"))
SIZE_ONLY = read_data("plans")["a_size"]


@pytest.fixture(scope="module", params=[*PLANS, "size"])
def result(request: pytest.FixtureRequest) -> Result:
    return evaluate(SIZE_ONLY if request.param == "size" else request.param)


def evaluate(plan: Any = LLAMA, changes: Mapping[str, Any] = {}) -> Result:
    """The result of a plan with changes, evaluated once for all tests."""
    return evaluate_once(json.dumps([plan, changes]))


@cache
def evaluate_once(asked: str) -> Result:
    plan, changes = json.loads(asked)
    return planner.load(plan, changes).evaluate()


# -- HTML ---------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags, attributes and text of a page; complains about what does not nest."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr", "mspace"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []  # rows of cells by their tags
        self.feed(page)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(tag)
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack and self.stack[-1] == tag, f"</{tag}> closes {self.stack[-3:]}"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.words.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.mark.slow(every=5)
def test_html_is_one_safe_file(result: Result) -> None:
    text = to_html(result)
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "iframe", "object", "embed", "link", "form", "img", "base"}
    for tag, attributes in page.tags:
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            if key in ("src", "href", "xlink:href", "action"):
                assert re.match(r"#|https?://", value or ""), (tag, value)
    policy = next(m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in (policy["content"] or "")
    assert "url(http" not in text and "@import" not in text


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("plan", SHIPPED, ids=lambda path: path.stem)
def test_the_page_of_every_shipped_plan_is_light(plan: Path) -> None:
    assert len(to_html(evaluate(f"presets/{plan.name}")).encode()) < 390_000


@pytest.mark.slow(every=5)
def test_every_link_of_html_has_its_target_once(result: Result) -> None:
    from urllib.parse import unquote

    page = Page(to_html(result))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [a["href"] or "" for a in page.all("a") if "href" in a]
    targets = {unquote(link[1:]) for link in links if link.startswith("#")}
    assert targets <= set(ids), sorted(targets - set(ids))[:5]  # type: ignore[operator]
    assert {quantity.base for quantity in result.quantities.values()} <= set(ids)


def test_long_lines_of_numbers_stand_once(result: Result) -> None:
    """Of a formula that says the same of many entries, and says much, the numbers of one entry are
    enough to follow it; each row has its value."""
    from planner.report.derivations import Derivations

    for item in Derivations(result).items:
        for number, row in enumerate(item.rows if item.kind == "table" else ()):
            assert row.value
            assert not row.again or (number and row.symbolic == item.rows[0].symbolic)


def test_html_has_a_skeleton_that_can_be_read_aloud(result: Result) -> None:
    page = Page(to_html(result))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert page.all("html")[0]["lang"] == "en"
    # The HTML standard, 4.9.12.2: a header without a scope is that of its column where its row has
    # no data, else that of its row where its column has none.
    for rows in page.tables:
        for row in rows:
            for at, cell in enumerate(row):
                below = {other[at] for other in rows if at < len(other)}
                assert cell == "td" or set(row) == {"th"} or below == {"th"}
    assert {"main", "nav", "summary"} <= {tag for tag, _ in page.tags}
    named = [a for _, a in page.tags if a.get("role") in ("img", "region")]
    assert named and all(a.get("aria-labelledby") or a.get("aria-label") for a in named)
    pictures = [svg for svg in page.all("svg") if svg.get("role") != "img"]
    assert all(svg.get("aria-hidden") == "true" for svg in pictures)


# -- Markdown -----------------------------------------------------------------------------------


def without_maths(markdown: str) -> str:
    markdown = re.sub(r"```math\n.*?\n```", "", markdown, flags=re.S)
    markdown = re.sub(r"```\w*\n.*?\n```", "", markdown, flags=re.S)
    return re.sub(r"\$`[^`]*`\$", "m", markdown)


def test_markdown_is_what_github_renders(result: Result) -> None:
    text = to_markdown(result)
    for word in (r"\operatorname", r"\mbox", r"\phantom"):
        assert word not in text
    rest = without_maths(text)
    assert not re.search(r"(?<!\\)\$", rest), "a bare dollar"
    tags = set(re.findall(r"(?<![\\`(])<(/?\w+)", re.sub(r"`[^`]*`", "", rest)))
    assert tags <= {"details", "/details", "summary", "/summary", "https", "http", "br"}
    assert text.count("\n") <= 400
    assert rest.count("<details>") == rest.count("</details>") == rest.count("<summary>")
    assert all(after == "" for _, after in re.findall(r"(</summary>)\n(.*)", text))
    assert not re.search(r"^\s*\d{4}-\d\d-\d\d", text, re.M)


def test_markdown_tables_are_square(result: Result) -> None:
    width = None
    for line in without_maths(to_markdown(result)).splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert width is None or cells is None or cells == width, line
        width = cells


def test_what_markdown_names_as_a_quantity_is_one(result: Result) -> None:
    text = to_markdown(result)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == len(set(headings))
    table = text.split("\n## ")[0]
    named = re.findall(r"\| `([a-z_.]+)` \|$", table, re.M)
    assert named and all(name in result for name in named)
    derived = set(re.findall(r"(?m)^\| [^|]*`([a-z0-9_.]+)` \|", text.split("## Derivations")[1]))
    assert derived <= {quantity.base for quantity in result.quantities.values()}
    assert {i for i, q in result.quantities.items() if not q.entries and q.value} <= derived


def test_maths_blocks_balance(result: Result) -> None:
    for block in re.findall(r"```math\n(.*?)\n```", to_markdown(result), re.S):
        assert block.count("{") == block.count("}")
        assert block.count(r"\begin") == block.count(r"\end")
        assert "\n\n" not in block


# -- all of them --------------------------------------------------------------------------------


def one_screen(text: str) -> None:
    """At most 45 lines of 80 columns; only a word that is longer than a line leaves it."""
    lines = text.splitlines()
    assert len(lines) <= 45
    assert all(len(line) <= 80 or max(map(len, line.split())) > 70 for line in lines), text


def test_every_key_figure_is_in_the_json(result: Result) -> None:
    known = json.loads(to_json(result))["quantities"]
    figures = answer_of(result).numbers
    assert figures and all(figure.id in known for figure in figures)


@pytest.mark.slow
def test_one_changed_input_leaves_unrelated_lines_alone() -> None:
    before = to_markdown(evaluate()).splitlines()
    after = to_markdown(evaluate(LLAMA, {"cluster.price": "5 USD/h"}))
    changed = [line for line in after.splitlines() if line not in set(before)]
    assert changed
    words = r"USD|cost|price|--set|\\pi|fingerprint|resolved input|[Ss]tated|from the plan, "
    words += r"|^\| (\*\*This plan|`\w+ \S+→)"  # faster layouts, with what each costs
    related = re.compile(words)
    assert [line for line in changed if not related.search(line)] == []


def dependents(result: Result, key: str) -> set[str]:
    """The quantities that rest on an input, however deep."""
    found = {
        q.key
        for q in result.quantities.values()
        if any(note.key in (key, f"{key}.value") for note, _, _ in q.symbols)
    }
    waiting = list(found)
    while waiting:
        for user in result.used_by.get(waiting.pop(), []):
            if user.key not in found:
                found.add(user.key)
                waiting.append(user.key)
    return {q.id for q in result.quantities.values() if q.key in found}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("predicted", [False, True], ids=["assumed", "predicted"])
@pytest.mark.parametrize(("key", "value"), read_data("report")["changed_inputs"])
def test_one_changed_input_moves_only_what_rests_on_it(
    key: str, value: str, predicted: bool
) -> None:
    before, unchanged = shipped(predicted)
    common = {"time.mfu": "null"} if predicted else {}
    after = evaluate(LLAMA, {**common, key: value})
    allowed = dependents(before, key) | dependents(after, key)
    moved = {
        i
        for i in {*before.quantities, *after.quantities}
        if before[i].value != after[i].value or before[i].substituted != after[i].substituted
    }
    assert moved <= allowed, sorted(moved - allowed)[:5]
    # In the report, the derivations of all others stay as they are, byte for byte.
    old, new = derivations(unchanged), derivations(to_markdown(after))
    free = {before[i].base for i in allowed}
    assert {name for name in old if old[name] != new.get(name)} <= free


@cache
def shipped(predicted: bool) -> tuple[Result, str]:
    """A shipped plan with its Markdown."""
    found = evaluate(LLAMA, {"time.mfu": "null"} if predicted else {})
    return found, to_markdown(found)


def derivations(markdown: str) -> dict[str, str]:
    """The derivations of a report by the quantity."""
    rows = markdown.split("\n## Derivations\n")[1].splitlines()
    found = (re.match(r"\| [^|]*?`([a-z0-9_.]+)` \| (.*)", row) for row in rows)
    return {row[1]: row[2] for row in found if row}


def test_every_number_links_to_a_derivation_and_is_in_the_json(result: Result) -> None:
    """What a link before the derivations shows is the value of the quantity that it leads to."""
    from urllib.parse import unquote

    known = json.loads(to_json(result))["quantities"]
    worth = {identifier: [q["value"]] for identifier, q in known.items()}
    for quantity in known.values():  # a term may be a multiple of what it links to
        for term in quantity.get("terms", ()):
            worth.get(term.get("id"), []).append(term["value"])
    page = to_html(result).split('id="derivations">')[0]
    links = re.findall(r'<a href="#([^"]+)"[^>]*>([^<]+)</a>', page.split("<main")[1])
    links = [(target, text) for target, text in links if text != "why"]
    assert len(links) > 15
    for target, escaped in links:
        identifier, text = unquote(target), unescape(escaped)
        assert identifier in known, identifier
        if isinstance(known[identifier]["value"], str):
            assert text == clean(known[identifier]["value"])
        elif re.search(r"\d", text):
            assert any(says(text, value) for value in worth[identifier]), (text, identifier)


def says(text: str, value: float) -> bool:
    """Whether a rounded text with some prefix or unit of time is a value."""
    number = re.search(r"[\d.]+(e-?\d+)?", text.replace(",", "").replace("−", "-"))
    assert number is not None
    shown, exact = float(number[0]), abs(float(value))
    if "<" in text or not shown or not exact:
        return exact < 1e-2 if "<" in text else shown == exact
    units = [1000.0**i for i in range(-7, 8)] + [1024.0**i for i in range(-5, 6)]
    units += [100.0, 1 / 60, 1 / 3600, 1 / 86400, 24.0, 1 / 24, 24.0 * 60]
    return any(abs(shown / exact / unit - 1) < 0.015 for unit in units)


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=30))
def test_shares_add_up_as_printed(values: list[int]) -> None:
    printed = format_shares(values)
    if sum(values):
        assert sum(map(Fraction, printed)) == 100
        exact = [Fraction(value) * 100 / sum(values) for value in values]
        assert all(
            abs(Fraction(p) - e) < Fraction(1, 10) for p, e in zip(printed, exact, strict=True)
        )
    else:
        assert set(printed) == {"–"}


def test_a_column_has_one_unit() -> None:
    assert format_column([2**30, 2**29, 0], "bytes") == ("GiB", ["1.00", "0.500", "0"])
    assert format_column([12345678, 5], "parameters") == ("parameters", ["12,345,678", "5"])
    assert format_column([Fraction(1, 20)], "s") == ("ms", ["50.0"])
    assert numbers.text(Fraction(1, 3), style="share") == "33.3 %"


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("capacity", "fails"), [(51.1, False), (50.7, True)])
def test_a_tight_plan_tells_what_the_simulated_allocator_does(capacity: float, fails: bool) -> None:
    result = evaluate(LLAMA, {"cluster.accelerator.memory_usable": f"{capacity} GiB"})
    answer, section = answer_of(result), view_of(result).sections[0]
    assert (answer.status, section.id) == ("tight", "memory")
    assert section.note in answer.text and f"({result['memory.reserved'].text()} by" in section.note
    assert ("request that fails" in section.note) == fails


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "assumed"),
    [({}, True), ({"training.expert_imbalance": 1}, False), ({"parallelism.expert": 1}, False)],
)
def test_routing_that_no_plan_states_is_named_as_an_assumption(
    stated: dict[str, Any], assumed: bool
) -> None:
    line = answer_of(evaluate("mixtral8x7b_h100x1024", stated)).plan_line
    assert (("", "balanced routing", " assumed") in line) == assumed


# -- terminal and files -------------------------------------------------------------------------


def test_the_summary_starts_with_the_answer(result: Result) -> None:
    text = render.render_text(result, colour=False)
    name = re.match(r"(?:FITS|TIGHT|DOES NOT FIT|NOT ENOUGH INPUT \(.*?\))  (.*)", text)
    assert name is not None and name[1].rstrip("…") in result.plan.name
    one_screen(text)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("plan", PLANS)
def test_a_predicted_time_shows_what_published_runs_leave_open(plan: str) -> None:
    result = evaluate(plan, {"time.mfu": "null"})
    low, high = (float(bound) for bound in result["time.step_seconds"].interval or ())
    what = "experts" if "mixtral" in plan else "dense"
    found = bands.find_time_band(what, result.evaluation.case.settings)
    markdown, html = to_markdown(result), " ".join(Page(to_html(result)).words)
    text = render.render_text(result, colour=False)
    for report in (markdown, html, text):
        line = re.search(r"One step\b.*?([\d.]+)–([\d.]+)", report, re.S)
        assert line, report[:500]
        thousand = 1000 if high < 1 else 1
        assert float(line[1]) == pytest.approx(low * thousand, rel=0.006)
        assert float(line[2]) == pytest.approx(high * thousand, rel=0.006)
    row = next(x for x in markdown.splitlines() if x.startswith("| Time of one step, and"))
    assert f"| {found.rows} | {found.sources} |" in row and "hopper" in row
    one_screen(text)


@pytest.mark.slow
def test_the_prediction_and_its_interval_stand_beside_an_assumed_time() -> None:
    result = evaluate(LLAMA, {"time.mfu": 0.5, "time.use": "assumed"})
    free = evaluate(LLAMA, {"time.mfu": None})
    data, predicted = result.to_json()["quantities"], free.to_json()["quantities"]
    for base in ("time.step_seconds", "time.mfu", "time.training_days", "cost.total"):
        assert data[base]["kind"] == "assumed"
        assert data[base]["exact"] is False
        assert "interval" not in data[base]
        assert predicted[base]["kind"] == "estimate"
        assert data[base]["predicted"] == {
            key: predicted[base][key] for key in ("value", "interval")
        }
        assert "predicted" not in predicted[base]
    for label in ("One step", "Utilisation", "Training time", "Cost"):
        row = next(x for x in to_markdown(result).splitlines() if x.startswith(f"| {label}"))
        assert re.search(r"\*\*[\d.]+\*\* .*\| assumed; predicted: [\d.]+", row)
    days = free["time.training_days"]
    for report in (render.render_text(result, colour=False), to_markdown(result), to_html(result)):
        assert f"{float(days.number):.3g}" in report and "assumed" in report
    assert "Time of one step, and" not in to_markdown(result)


@pytest.mark.slow
def test_what_is_predicted_is_the_answer_unless_the_plan_asks_for_its_assumption() -> None:
    """A stated utilisation alone moves no answer: it is a note beside it."""
    stated = evaluate(LLAMA, {"time.mfu": 0.5})
    free = evaluate(LLAMA, {"time.mfu": None})
    used = evaluate(LLAMA, {"time.mfu": 0.5, "time.use": "assumed"})
    assert {i: q.value for i, q in stated.quantities.items()} == {
        i: q.value for i, q in free.quantities.items()
    }
    note, value = (side["time.training_days"] for side in (stated, used))
    assert note.alternative is not None and note.alternative.value == value.value
    assert stated.to_json()["quantities"]["cost.total"]["assumed"]["value"] == pytest.approx(
        float(used["cost.total"].number)
    )
    row = next(x for x in to_markdown(stated).splitlines() if x.startswith("| Training time"))
    assert re.search(r"\*\*[\d.]+\*\* .*\| [\d.]+–[\d.]+ \| assumed: [\d.]+", row)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("mfu", "outside"), [(0.95, True), (0.05, True), (None, False)])
def test_an_assumption_that_no_published_run_bears_out_is_a_warning(
    mfu: float | None, outside: bool
) -> None:
    low, high = evaluate(LLAMA, {"time.mfu": None})["time.mfu"].interval or (0, 0)
    used = {"time.use": "assumed"}
    middle = evaluate(LLAMA, {"time.mfu": float(low + high) / 2, **used})
    assert "is outside the 90 % interval" not in render.render_text(middle, colour=False)
    result = evaluate(LLAMA, {"time.mfu": mfu, **used})
    assert ("is outside the 90 % interval" in render.render_text(result, colour=False)) is outside
    assert ("is outside the 90 % interval" in to_html(result)) is outside


def test_an_estimate_of_memory_shows_what_published_runs_leave_open() -> None:
    result = evaluate()
    markdown = to_markdown(result)
    for base in ("memory.total", "memory.process"):
        asked = {"quantity": base, "holds": "all"}
        found = next(row for row in bands.load_memory()["measured"] if row.items() >= asked.items())
        low, high = result[base].interval or (0, 0)
        value = result[base].number
        states = ("memory.weights", "memory.gradients", "memory.optimizer")
        least = float(sum(result[name].number for name in states) / value) - 1
        assert (float(low / value - 1), float(high / value - 1)) == pytest.approx(
            (max(found["low"], least), found["high"])
        )
        title = result[base].title[1:].replace("_", r"\_")
        row = next(x for x in markdown.splitlines() if title in x and f"| {found['rows']} |" in x)
        assert all(source in row for source in found["sources"])
    process, headroom = result["memory.process"], result["memory.headroom"]
    assert process.interval and headroom.interval
    capacity = result["memory.capacity"].number
    assert headroom.interval == (capacity - process.interval[1], capacity - process.interval[0])
    data = json.loads(to_json(result))["quantities"]
    assert data["memory.process"]["interval"] == [float(bound) for bound in process.interval]


@pytest.mark.slow
def test_every_format_says_the_verdict_and_at_once_what_would_be_safe() -> None:
    """A device that holds the plan at worst, as predicted or without the allocator's cache only, or
    not at all."""
    process, needed = (evaluate()[f"memory.{name}"].number for name in ("process", "needed"))
    high = int(evaluate()["memory.at_worst"].number)
    for capacity, word, colour in (
        (high, "Fits", "32"),
        (high - 1, "Tight", "33"),
        (process, "Tight", "33"),
        (needed, "Tight", "33"),
        (needed - 1, "Does not fit", "31"),
    ):
        key = "cluster.accelerator.memory_usable"
        result = evaluate(LLAMA, {key: f"{capacity} B"})
        text, page = render.render_text(result, colour=True), to_html(result)
        assert f"\x1b[1;{colour}m{word.upper()}" in text
        assert f"<title>{word} · " in page
        assert f"**{word}.**" in to_markdown(result)
        advice = {"Tight": "To be safe", "Does not fit": "What would fit"}.get(word, "To be safe")
        for report in (text, page, to_markdown(result)):
            assert (advice in report) is (word != "Fits")
            for remedy in safe(result) if word != "Fits" else ():
                assert format_digits(Fraction(remedy.at_worst) / 2**30, 3) in report or any(
                    format_digits((capacity - Fraction(remedy.at_worst)) / 2**30, 3) in report
                    for _ in (0,)
                )
    icons = {icon_of(status) for status in ("ok", "tight", "bad", "unknown")}
    assert len(icons) == 4


def safe(result: Result) -> tuple[object, ...]:
    assert result.advice is not None
    return result.advice.remedies


def icon_of(status: str) -> str:
    """The drawing of a verdict."""
    from planner.report.report import _make_environment

    template = _make_environment(True).get_template("macros.html.jinja")
    return str(template.module.icon(status))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_what_no_published_run_is_like_says_so() -> None:
    """Of inference nobody published memory: it is held against training, wider, and says so. A
    model without a shape has no memory to compare."""
    trained = evaluate({**SIZE_ONLY, "model": "llama2-70b"})
    document = json.loads(json.dumps({**SIZE_ONLY, "model": "llama2-70b"}))
    document["training"]["mode"] = "inference"
    served = evaluate(document)
    low = {}
    for name, result in (("trained", trained), ("served", served)):
        total = result["memory.total"]
        found = intervals.find_basis("memory.total", result.evaluation.case.settings)
        assert total.interval is not None and found is not None
        assert (found.rows > 0) == (name == "trained")
        low[name] = found.low
    assert low["served"] < low["trained"]
    assert "none of its kind" in to_markdown(served).split("## Accuracy")[-1]
    sized = evaluate({**SIZE_ONLY, "model": {"parameters": "70B"}})
    assert sized["memory.process"].interval is None
    assert "## Accuracy" not in to_markdown(sized)


@pytest.mark.slow
def test_a_predicted_step_says_what_its_time_is_spent_on() -> None:
    """The parts add up to the step; the first is arithmetic at peak rate, whose share is the
    utilisation."""
    result = evaluate(LLAMA, {"time.mfu": "null"})
    parts, step = result.step_parts, float(result["time.step_seconds"].number)
    assert sum(parts.values()) == pytest.approx(step)
    assert parts["pipeline bubble"] == pytest.approx(float(result["time.bubble"].number))
    assert next(iter(parts)) == "matrix products"
    assert list(parts.values()) == sorted(parts.values(), reverse=True)
    table = to_markdown(result).split("| at peak rate |")[1].split("\n\n")[0].splitlines()
    seconds = [float(cell) for cell in re.findall(r"([\d.]+) s", table[2])]
    assert sum(seconds) == pytest.approx(step, rel=0.005)
    percentages = [Fraction(cell) for cell in re.findall(r"([\d.]+) %", table[3])]
    assert sum(percentages) == 100
    assert percentages[0] == Fraction(
        numbers.text(Fraction(result["time.mfu"].number), style="share")[:-2]
    )
    bubble = 100 * parts["pipeline bubble"] / step
    assert f"bubble {parts['pipeline bubble']:.4f} s ({bubble:.1f} %)" in render.render_text(result)
    assert result.to_json()["step_parts"] == parts
    assumed = evaluate(LLAMA, {"time.mfu": "0.5", "time.use": "assumed"})
    assert not assumed.step_parts and "One step, " not in render.render_text(assumed, colour=False)


def test_the_step_is_shown_down_to_the_layers_of_the_slowest_stage() -> None:
    result = evaluate(LLAMA, {"time.mfu": "null"})
    time = next(section for section in view_of(result).sections if section.id == "time")
    totals = [table.total[1].id for table in time.sums]
    assert totals[:2] == ["time.micro_batch", "time.stage[3]"]
    assert time.sums[1].title.endswith("stage 4 of 4")  # which holds the head
    step = result["time.step_seconds"]
    assert step.terms[0].id == "time.micro_batch"
    assert sum(term.value for term in step.terms) == pytest.approx(float(step.number))


@pytest.mark.slow
def test_each_form_says_first_how_the_work_is_divided() -> None:
    """The degrees that are said make all devices: 4 x 4 x 64 = 1,024."""
    result = evaluate()
    page = " ".join(Page(to_html(result)).words)
    for text in (render.render_text(result, colour=False), to_markdown(result), page):
        first = text[: text.index("5 to 95" if text.startswith("FITS") else "Training time")]
        sizes = dict(re.findall(r"(tensor|pipeline|context|data)\s+(\d+)", first))
        assert math.prod(map(int, sizes.values())) == 1024 and len(sizes) == 3


def test_how_far_a_plan_goes_is_said_with_the_next_value_that_does_not_fit() -> None:
    page = to_markdown(evaluate())
    said = re.search(r"([\d,]+) tokens of context \(([\d,]+) does not fit\)", page)
    assert said is not None
    for length, fits in zip(said.groups(), (True, False), strict=True):
        key = "training.sequence_length"
        longer = evaluate(LLAMA, {key: int(length.replace(",", ""))})
        assert (longer.verdict["state"] == "fits") is fits


def test_each_number_of_the_summary_says_how_it_is_known(result: Result) -> None:
    """An exact one says so, an estimate has its interval where published runs tell one, and each
    stands beside the id by which it is explained."""
    text = render.render_text(result, colour=False)
    table = text.split("\nMemory of the fullest device")[0].splitlines()
    rows = [line for line in table if line and line.split()[-1] in result]
    assert len(rows) > 2
    for line in rows:
        quantity = result[line.split()[-1]]
        assert (" exact " in line) is (quantity.kind == "exact"), line
        between = re.search(r"[\d.,]+–[\d.,]+", line)
        assert (between is not None) is (quantity.interval is not None), line


def test_a_precision_without_a_peak_is_one_warning_and_one_line() -> None:
    """V100's datasheet has rates of fp16 and fp32 alone (NVIDIA 2020, Tesla V100)."""
    document = read_data("plans")["on_v100"]
    words = " ".join(render.render_text(planner.load(document).evaluate(), colour=False).split())
    assert "states no peak of bf16, so no time is predicted; of fp32, fp16 it does" in words
    assert words.count("no peak of the training precision is known") == 1
    assert "time.step_seconds, time.tokens_per_second, time.mfu" in words


def test_the_summary_pays_for_no_report() -> None:
    code = (
        "import sys, planner\n"
        "from planner import report\n"
        f"report.render_text(planner.load({LLAMA!r}).evaluate(), colour=False)\n"
        "print([m for m in ('jinja2', 'planner.typeset', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_colour_only_where_it_is_wanted(run_cli) -> None:  # type: ignore[no-untyped-def]
    assert "\x1b" not in run_cli(LLAMA).stdout
    result = evaluate()
    plain, painted = (
        render.render_text(result, colour=False),
        render.render_text(result, colour=True),
    )
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain != painted


def test_no_color_wins_over_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    result = evaluate()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in render.render_text(result)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render.render_text(result)


@pytest.mark.slow
def test_the_ending_picks_the_format(tmp_path: Path) -> None:
    result = evaluate()
    for name, start in (
        ("a.md", "# "),
        ("a.html", "<!doctype html>"),
        ("a.json", "{"),
        ("a.txt", f"FITS  {result.plan.name}"),
    ):
        render.write_report(result, tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(start) and text.endswith("\n") and "\r" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.html",
        "a.json",
        "a.md",
        "a.txt",
    ]


@pytest.mark.slow
def test_an_old_report_is_replaced_or_kept_whole(tmp_path: Path) -> None:
    result = evaluate()
    target = tmp_path / "r.json"
    target.write_text("old")
    target.chmod(0o640)
    render.write_report(result, target)
    assert target.read_text().startswith("{")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    with pytest.raises(PlanError, match=r"missing.r\.md"):
        render.write_report(result, tmp_path / "missing" / "r.md")
    with pytest.raises(PlanError, match=r"\.pdf.*\.html"):
        render.write_report(result, tmp_path / "r.pdf")


@pytest.mark.slow
def test_the_command_line_writes_reports(run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = run_cli(LLAMA, "-o", tmp_path / "r.html", "-o", tmp_path / "r.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == to_html(evaluate())
    refused = run_cli(LLAMA, "-o", tmp_path / "r.docx", "-o", tmp_path / "s.md")
    assert refused.returncode == 2 and not (tmp_path / "s.md").exists()


# -- explain, resolved --------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_goes_down_to_the_inputs(run_cli) -> None:  # type: ignore[no-untyped-def]
    done = run_cli("explain", LLAMA, "time.training_days", "--depth", "all")
    assert done.returncode == 0, done.stderr
    for words in (
        "t_days",
        "time.tokens_per_second",
        "1.5e13",
        "llama70b_h100x1024.yaml:6",
        "A day has 86400 seconds.",
    ):
        assert words in done.stdout
    shallow = run_cli("explain", LLAMA, "training", "time", "--depth", "1")
    assert "time.training_days" in shallow.stdout
    assert "time.training_seconds" not in shallow.stdout
    assert run_cli("explain", LLAMA, "mfu", "--depth", "deep").returncode == 2


def test_explain_names_the_nearest_quantity(run_cli) -> None:  # type: ignore[no-untyped-def]
    done = run_cli("explain", LLAMA, "memory.activatoins")
    assert done.returncode == 2 and "memory.activations" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_the_resolved_plan_is_the_same_plan(run_cli, plan: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = run_cli(plan, "--print", "resolved")
    assert done.returncode == 0, done.stderr
    (tmp_path / "resolved.yaml").write_text(done.stdout, encoding="utf-8")
    again = planner.load(tmp_path / "resolved.yaml").evaluate().to_json()
    first = evaluate(plan).to_json()
    assert again["quantities"] == first["quantities"]


@pytest.mark.slow
def test_the_link_to_a_page_holds_the_plan() -> None:
    """As any inflating program reads it; a plan without an address has no link."""
    page = "https://plans.example.org/page/"
    result = evaluate(PLANS[2])
    linked = evaluate(PLANS[2], {"report.page": page})
    (address,) = re.findall(rf'href="?({page}[^ >"]*)', to_html(linked))
    held = address.removeprefix(f"{page}#p=")
    raw = base64.urlsafe_b64decode(held + "=" * (-len(held) % 4))
    (text,) = json.loads(zlib.decompress(raw, -zlib.MAX_WBITS))
    again = planner.load(yaml.safe_load(text)).evaluate()
    assert {i: q.value for i, q in again.quantities.items()} == {
        i: q.value for i, q in result.quantities.items()
    }
    assert page not in to_html(result)
