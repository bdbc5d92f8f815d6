"""The what-if page: whatever its controls are set to, it shows the numbers of ``plan.py --set``."""

from __future__ import annotations

import json
import random
import re
import shlex
from base64 import b64encode
from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.book.quantity import BOOK
from planner.documents.source import preset_names
from planner.questions import loading
from planner.report import as_text, facts
from planner.report.what_if.rules import BUILTINS, Program, Untranslated, literal
from planner.results.result import Result, evaluate
from tests.browser import Browser, executable
from tests.conftest import ROOT, RunCli

CHROMIUM = executable()
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
PRESETS = ROOT / "presets"
#: A tower in front of the decoder.
TOWER = (
    "{layers: 2, hidden: 128, tokens: 64, merge: 4, attention: {heads: 4}, "
    "mlp: {intermediate: 256}, stem: [{inputs: 588}], projector: [{inputs: 512}]}"
)
#: A dense model in a pipeline at an assumed utilisation, and predicted step times: of experts over
#: many nodes, whose gradients are all-reduced, and of one node, with a tower.
PLANS: dict[str, list[str]] = {
    "llama70b_h100x1024": [
        "quantities.usd_per_btok.formula=cost.total / training.tokens * 1e9",
        "quantities.heads.formula=model.attention.heads / parallelism.tensor",
    ],
    "mixtral8x7b_h100x1024": ["time.mfu=null", "parallelism.zero=0"],
    "gpt2small_hgx-h100": ["time.mfu=null", "model.mtp=1", f"model.vision={TOWER}"],
}
MOVES = {  # how a control is moved: a slider to another position, a choice to another option
    "slider": "s.value = {to}; s.dispatchEvent(new Event('input', {{bubbles: true}}));",
    "choice": "c.selectedIndex = {to}; c.dispatchEvent(new Event('input', {{bubbles: true}}));",
    "text": "c.value = {to}; c.dispatchEvent(new Event('input', {{bubbles: true}}));",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    made = Browser(CHROMIUM, tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, made = tmp_path_factory.mktemp("pages"), {}
    for name, overrides in PLANS.items():
        made[name] = folder / f"{name}.html"
        result = evaluate(loading.load(PRESETS / f"{name}.yaml", overrides))
        made[name].write_text(as_text(result, "interactive"), "utf-8")
    return made


def move(browser: Browser, key: str, kind: str, to: Any) -> None:
    name = "set-" + key.replace(".", "-")
    action = MOVES[kind].format(to=json.dumps(to))
    browser.run(
        f"{{const c = document.getElementById('{name}'), "
        f"s = document.getElementById('{name}-slider'); {action}}}"
    )


def reset(browser: Browser) -> None:
    browser.run("document.querySelector('#what-if-controls button[type=reset]').click()")


def overrides(browser: Browser) -> list[str]:
    """What the page says is to be set for its numbers."""
    words = shlex.split(browser.run("document.getElementById('what-if-command').textContent"))
    return [text for word, text in pairwise(words) if word == "--set"]


def faults(browser: Browser) -> list[str]:
    return list(
        browser.run(
            "[...document.querySelectorAll('#what-if-faults:not([hidden]) li')]"
            ".map(item => item.textContent)"
        )
    )


def numbers(browser: Browser) -> dict[str, str]:
    """The numbers on the page in full, by id."""
    return dict(
        browser.run(
            "Object.fromEntries([...document.querySelectorAll('#what-if td.now[data-value]')]"
            ".map(cell => [cell.dataset.id, cell.dataset.value]))"
        )
    )


def check(browser: Browser, name: str) -> bool:
    """Hold the page against the planner with the overrides that the page names. Whether there is
    such a plan."""
    found = overrides(browser)
    try:
        result = evaluate(loading.load(PRESETS / f"{name}.yaml", found))
    except PlanError as error:
        told = " ".join(faults(browser))
        # The page stops at the first contradiction; the planner goes on to independent ones.
        assert any(fault.message in told for fault in error.faults), (found, told)
        return False
    assert not faults(browser), found
    same(result, numbers(browser), found)
    marked = browser.run(
        "Object.fromEntries([...document.querySelectorAll('#what-if td.now[data-value]')]"
        ".map(cell => [cell.dataset.id, cell.textContent.startsWith('~')]))"
    )
    assert marked == {
        i: isinstance(result[i].value, (int, float, Fraction)) and not result[i].exact
        for i in marked
    }
    bars(browser, result)
    ranges(browser, result)
    return True


def same(result: Result, shown: dict[str, str], found: list[str]) -> None:
    for identifier, first in BOOK.quantities.items():
        if first.per:
            continue
        quantity = result.find(identifier)
        if quantity.absent is not None:
            assert identifier not in shown, (found, identifier)
        elif isinstance(quantity.value, str):
            assert shown[identifier] == quantity.value, (found, identifier)
        else:
            assert float(shown[identifier]) == pytest.approx(
                float(quantity.value), rel=1e-9, abs=0
            ), (found, identifier)


def ranges(browser: Browser, result: Result) -> None:
    """What published runs leave open of a number on the page is what they leave of the result."""
    shown = browser.run(
        "Object.fromEntries([...document.querySelectorAll('#what-if tr[data-row]:not([hidden])')]"
        ".map(row => [row.dataset.row, [...row.querySelectorAll('.between')]"
        ".flatMap(cell => [cell.dataset.low, cell.dataset.high])]))"
    )
    held = 0
    for identifier, bounds in shown.items():
        found = result.find(identifier)
        # Of quantities of a plan's own the page tells none yet.
        interval = None if BOOK.quantities.get(identifier) is None else found.interval
        told = [float(bound) for bound in bounds if bound]
        assert told == pytest.approx([float(b) for b in interval or ()], rel=1e-9), identifier
        held += interval is not None
    assert held > 3


def bars(browser: Browser, result: Result) -> None:
    """The parts of the bars are the terms of the sums; bars of stages are their peaks."""
    parts = browser.run(
        "[...document.querySelectorAll('figure[data-bar=\"memory.total\"]:not([hidden]) li')]"
        ".map(item => [item.dataset.term, Number(item.dataset.value)])"
    )
    own = {t.id.split(".")[1]: float(t.value) for t in result["memory.total"].terms if t.id}
    for label, size in parts:
        if label in own:
            assert size == pytest.approx(own[label], rel=1e-9)
    assert {label for label, _ in parts} >= {label for label, size in own.items() if size}
    stages = browser.run(
        "[...document.querySelectorAll('figure[data-stages]:not([hidden]) li')]"
        ".map(item => [item.dataset.stage, Number(item.dataset.value)])"
    )
    for stage, peak in stages:
        assert peak == pytest.approx(float(result[f"memory.peak[{stage}]"].value), rel=1e-9)


def controls(page: Path) -> list[dict[str, Any]]:
    line = next(
        line for line in page.read_text("utf-8").splitlines() if line.startswith("const PAGE=")
    )
    return list(json.loads(line.removeprefix("const PAGE=").removesuffix(";"))["controls"])


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize(
    ("name", "share"), [("mixtral8x7b_h100x1024", 0.25), ("gpt2small_hgx-h100", 1)]
)  # of experts, and of one block for all layers; how far each control is moved
def test_every_control_moves_the_numbers_as_set_does(
    name: str, share: float, browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages[name])
    assert not browser.run("document.querySelector('#what-if fieldset').disabled")
    assert overrides(browser) == PLANS[name]
    result = evaluate(loading.load(PRESETS / f"{name}.yaml", PLANS[name]))
    same(result, numbers(browser), PLANS[name])
    valid = 0
    for control in controls(pages[name]):
        key, steps = control["key"], control["steps"]
        if control["options"]:
            kind, count = "choice", len(control["options"]) + bool(control["optional"])
        else:
            kind, count = "slider", len(steps)
        reset(browser)
        move(browser, key, kind, min(int(count * share), count - 1))
        moved = set(overrides(browser)) - set(PLANS[name])
        assert all(word.startswith(f"{key}=") for word in moved)
        valid += check(browser, name)
    assert valid > 7
    assert browser.problems == []


@pytest.mark.parametrize("name", PLANS)
def test_run_layout_accelerator_and_shape_have_controls(name: str, pages: dict[str, Path]) -> None:
    found = {control["key"]: control for control in controls(pages[name])}
    assert set(found) >= {
        "cluster.devices",
        "training.micro_batch",
        "training.sequence_length",
        "parallelism.tensor",
        "parallelism.pipeline",
        "parallelism.zero",
        "training.precision",
        "time.mfu",
        "cluster.price",
        "cluster.accelerator",
        "model.layers",
        "model.hidden",
        "model.attention.heads",
        "model.vocab",
    }
    assert set(found["cluster.accelerator"]["options"]) == set(preset_names("accelerator"))


@pytest.mark.slow
@needs_browser
def test_a_shape_that_cannot_be_says_what_the_planner_says(
    browser: Browser, pages: dict[str, Path]
) -> None:
    name = "llama70b_h100x1024"
    browser.open(pages[name])
    for key, value in (
        ("model.hidden", "8200"),
        ("model.attention.heads", "60"),
        ("model.attention.kv_heads", "7"),
        ("model.layers", "3"),
    ):
        reset(browser)
        move(browser, key, "text", value)
        assert not check(browser, name), key
    assert browser.problems == []


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("name", PLANS)
def test_several_controls_at_once(name: str, browser: Browser, pages: dict[str, Path]) -> None:
    random_ = random.Random(name)
    found = controls(pages[name])
    browser.open(pages[name])
    valid = 0
    for _ in range(5):
        reset(browser)
        for control in random_.sample(found, random_.randint(2, 5)):
            choices = control["options"] or control["steps"]
            kind = "choice" if control["options"] else "slider"
            move(browser, control["key"], kind, random_.randrange(len(choices)))
        valid += check(browser, name)
    assert valid > 0
    assert browser.problems == []


@pytest.mark.slow
@needs_browser
def test_an_impossible_layout_says_why_and_keeps_the_last_numbers(
    browser: Browser, pages: dict[str, Path]
) -> None:
    name = "llama70b_h100x1024"
    browser.open(pages[name])
    before = numbers(browser)
    for key, value, reason in (
        ("cluster.devices", "1000", "no multiple of tensor × pipeline × context"),
        ("parallelism.tensor", "3", "64 attention heads do not divide over tensor 3"),
        ("training.micro_batch", "0.5", "not allowed"),
        ("training.micro_batch", "many", "not a number"),
        ("time.mfu", "1.5", "not allowed"),
    ):
        reset(browser)
        move(browser, key, "text", value)
        assert reason in " ".join(faults(browser))
        assert browser.run("document.getElementById('what-if-results').className") == "stale"
        assert numbers(browser) == before
    reset(browser)
    assert faults(browser) == []
    assert browser.run("document.getElementById('what-if-results').className") == ""


@pytest.mark.slow
@needs_browser
def test_the_printed_command_gives_the_numbers(
    browser: Browser, pages: dict[str, Path], run_cli: RunCli
) -> None:
    name = "llama70b_h100x1024"
    browser.open(pages[name])
    move(browser, "cluster.price", "text", "3.25")
    move(browser, "training.tokens", "text", "1.5T")
    move(browser, "training.recompute", "choice", 2)
    move(browser, "parallelism.sequence", "choice", 1)
    move(browser, "time.mfu", "text", "0.45")
    words = shlex.split(browser.run("document.getElementById('what-if-command').textContent"))
    assert words[:2] == ["python", "plan.py"]
    assert set(words[3::2]) == {"--set"}
    assert set(words[4::2]) - set(PLANS[name]) == {
        "cluster.price=3.25 USD/h",
        "training.tokens=1500000000000",
        "training.recompute=full",
        "parallelism.sequence=false",
        "time.mfu=0.45",
    }
    made = json.loads(run_cli(*words[2:], "--format", "json").stdout)["quantities"]
    shown = numbers(browser)
    assert len(shown) > 50
    for identifier, text in shown.items():
        value = made[identifier]["value"]
        assert (
            text == value
            if isinstance(value, str)
            else float(text) == pytest.approx(float(Fraction(value)), rel=1e-9)
        )


@pytest.mark.slow
@needs_browser
def test_runs_of_one_s_own_decide_between_which_values(browser: Browser, tmp_path: Path) -> None:
    """Where the rates of a cluster were fitted to runs on one node, the page's intervals are those
    of the plan: theirs on one node, those of published runs on several."""
    band = "{name: my-cluster.yaml, dense: {node: {low: -0.1, high: 0.125, runs: 6}}}"
    name, own = "gpt2small_hgx-h100", f"cluster.accelerator.calibration={band}"
    page = tmp_path / "page.html"
    plan = loading.load(PRESETS / f"{name}.yaml", ["time.mfu=null", own])
    page.write_text(as_text(evaluate(plan), "interactive"), "utf-8")
    browser.open(page)
    widths = []
    for devices in (8, 16):
        move(browser, "cluster.devices", "text", str(devices))
        assert check(browser, name)
        step = evaluate(loading.load(PRESETS / f"{name}.yaml", overrides(browser)))[
            "time.step_seconds"
        ]
        widths.append(float(step.interval[1] / step.interval[0]))
    assert widths[0] == pytest.approx(1.125 / 0.9) and widths[1] > 1.6
    assert browser.problems == []


@pytest.mark.slow
@needs_browser
def test_beside_an_assumed_time_stands_what_is_predicted(
    browser: Browser, pages: dict[str, Path]
) -> None:
    name = "llama70b_h100x1024"
    browser.open(pages[name])
    move(browser, "time.use", "text", "assumed")
    for tokens, assumed in (("15T", ""), ("2T", "0.45"), ("2T", "0.95")):
        move(browser, "training.tokens", "text", tokens)
        move(browser, "time.mfu", "text", assumed)
        result = evaluate(loading.load(PRESETS / f"{name}.yaml", overrides(browser)))
        said = browser.run("document.querySelector('#what-if-verdict span').textContent")
        expected = result["time.training_days"].alternative
        assert expected is None or facts.with_interval(expected) in said
        for of in ("time.training_days", "time.tokens_per_second"):
            cell = browser.run(
                f"document.querySelector('#what-if [data-row=\"{of}\"] .between').textContent"
            )
            predicted = result[of].alternative
            assert (predicted is None) == (not assumed)
            if predicted is not None:
                assert cell == f"predicted {facts.with_interval(predicted)}"
    reset(browser)
    assert browser.problems == []


@pytest.mark.slow
@needs_browser
def test_an_assumed_utilisation_that_no_run_bears_out_is_warned_of_as_in_the_report(
    browser: Browser, pages: dict[str, Path]
) -> None:
    """Of 1,024 H100s no published run of a dense model of 70B uses 95 % or 20 %; half is usual."""
    name = "llama70b_h100x1024"
    browser.open(pages[name])
    move(browser, "time.use", "text", "assumed")
    for assumed, warned in (("0.95", True), ("0.5", False), ("0.2", True), ("", False)):
        move(browser, "time.mfu", "text", assumed)
        seen = browser.run(
            "[...document.querySelectorAll('#what-if .warn')]"
            ".filter(line => line.checkVisibility()).map(line => line.textContent)"
        )
        result = evaluate(loading.load(PRESETS / f"{name}.yaml", overrides(browser)))
        assert seen == [f"{words} ({of})" for of, words in facts.warnings(result)]
        assert len(seen) == warned, assumed
    assert browser.problems == []


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("given", [{"auto": True, "tensor": 2}])
def test_the_command_of_a_plan_that_leaves_its_layout_open_keeps_the_one_that_was_found(
    given: Any, browser: Browser, run_cli: RunCli, tmp_path: Path
) -> None:
    """Whatever is changed: a search for the changed plan could find another layout."""
    document, page = tmp_path / "open.json", tmp_path / "open.html"
    plan = {
        "model": "llama2-7b",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
        "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 512},
        "parallelism": given,
    }
    document.write_text(json.dumps(plan), "utf-8")
    assert run_cli(document, "-o", page, "--interactive").returncode == 0
    browser.open(page)
    assert overrides(browser)[0] == "parallelism.auto=false"
    for key, kind, to in (
        (None, "", None),
        ("cluster.devices", "text", "32"),
        ("training.sequence_length", "text", "32768"),
        ("training.recompute", "choice", 2),
        ("cluster.accelerator", "choice", 3),
    ):
        reset(browser)
        if key is not None:
            move(browser, key, kind, to)
        result = evaluate(loading.load(document, overrides(browser)))
        assert result.plan.searched is None
        same(result, numbers(browser), overrides(browser))


@pytest.mark.slow
@needs_browser
def test_a_link_carries_the_values(browser: Browser, pages: dict[str, Path]) -> None:
    name = "mixtral8x7b_h100x1024"
    browser.open(pages[name], "#what-if?training.micro_batch=2&parallelism.zero=2")
    moved = ["training.micro_batch=2", "parallelism.zero=2"]
    assert overrides(browser) == ["time.mfu=null", *moved]  # beside what the plan was made with
    assert check(browser, name)
    assert browser.run("document.getElementById('what-if-link').hash") == (
        "#what-if?training.micro_batch=2&parallelism.zero=2"
    )


@pytest.mark.slow
@needs_browser
def test_the_numbers_read_as_in_the_report(browser: Browser, pages: dict[str, Path]) -> None:
    """Rounded the same way: where nothing is changed, both columns say the same."""
    for page in pages.values():
        browser.open(page)
        rows = browser.run(
            "[...document.querySelectorAll('#what-if tr[data-row]:not([hidden])')].map(row => "
            "[row.dataset.row, row.querySelector('.planned').textContent, "
            "row.querySelector('.now').textContent])"
        )
        assert len(rows) > 50
        assert [row for row in rows if row[1] != row[2]] == []


@needs_browser
def test_the_library_has_what_the_translation_calls(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["llama70b_h100x1024"])
    known = set(browser.run("Object.keys($)"))
    assert known >= BUILTINS


def test_only_the_interactive_page_has_a_script(pages: dict[str, Path]) -> None:
    text = pages["llama70b_h100x1024"].read_text("utf-8")
    scripts = re.findall(r"(?s)<script>(.*?)</script>", text)
    assert len(scripts) == text.count("<script") == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1].replace("&#39;", "'")
    assert "default-src 'none'" in policy[1]
    assert not re.search(r"<(link|img|iframe)\b|\bfetch\(|XMLHttp|import\(", text)
    result = evaluate(loading.load(PRESETS / "llama70b_h100x1024.yaml"))
    assert "<script" not in as_text(result, "html")


@pytest.mark.slow
def test_a_hostile_name_does_not_leave_the_script() -> None:
    text = '</script><script>alert(1)</script> "\\ \u2028'
    assert "<" not in literal({text: [text]})
    hostile = evaluate(loading.load(PRESETS / "gpt2small_hgx-h100.yaml", [f"name={text}"]))
    assert as_text(hostile, "interactive").count("<script") == 1


@pytest.mark.slow
def test_interactive_goes_with_html(run_cli: RunCli, tmp_path: Path) -> None:
    plan = PRESETS / "gpt2small_hgx-h100.yaml"
    assert run_cli(plan, "--interactive").returncode == 2
    page = tmp_path / "page.html"
    assert run_cli(plan, "-o", page, "--interactive").returncode == 0
    assert "what-if-controls" in page.read_text("utf-8")


def refused() -> int:
    with open("nothing") as file:
        return len(file.read())


def ambiguous(rows: list[Any]) -> list[Any]:
    return [re for re in rows if re] if re.compile("") else []


def last_apart(rows: list[Any]) -> list[Any]:
    *first, last = rows
    return [first, last]


@pytest.mark.parametrize(
    ("function", "why"),
    [(refused, "With"), (ambiguous, "called re"), (last_apart, r"\*first")],
)
def test_what_the_translation_does_not_know_it_refuses(function: Any, why: str) -> None:
    function.__module__ = "planner.refused"
    with pytest.raises(Untranslated, match=why):
        Program({}).reference(function)


def translated(rows: list[int], *, of: int = 2) -> list[Any]:
    """Syntax that Python and JavaScript do not share."""
    first, *rest = same = rows
    try:
        rest[0] = sum(rest[1:]) // of
    except KeyError:
        rest = []
    rest += [row for row in reversed(rows[:3]) if 0 < row < 3]
    said = {row: f"{row} {row / 3:.3g} {str(row)!r}" for row in rest}
    further = translated([5, 6], of=3) if len(rows) > 2 else None
    return [first, rest, same, [*said.items()], isinstance(said, (list, dict)), further]


@pytest.mark.slow
@needs_browser
def test_a_translated_function_gives_what_python_gives(
    browser: Browser, pages: dict[str, Path]
) -> None:
    translated.__module__ = "planner.translated"
    made = Program({KeyError: "$.Never"})
    name = made.reference(translated)
    browser.open(pages["gpt2small_hgx-h100"])
    for rows in ([4, 1, 2, 7], [0, 2, 9]):
        found = browser.run(f"(()=>{{{made.text()};return {name}({json.dumps(rows)});}})()")
        assert found == json.loads(json.dumps(translated(rows)))
