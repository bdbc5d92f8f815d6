"""Names that attack the reader of a report: HTML in a real browser, Markdown by its structure."""

from __future__ import annotations

import html.parser
import json
import re
import shlex
import tempfile
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import planner
from planner import report as render
from planner.base.display import clean
from planner.base.errors import Place
from planner.connect import compare, exports
from planner.connect.exports import FORMATS
from planner.connect.imports import python_file
from planner.questions.studies import study as studies
from planner.questions.studies.run import StudyOutcome, sweep
from planner.results.result import Result
from tests.browser import Browser
from tests.conftest import leave_to_night, read_data
from tests.report.test_reports import Page, one_screen

HOSTILE = read_data("report")["hostile_names"]


#: Those that close an element, an attribute, a cell or a line, and all of them joined, which are
#: tried each time.
SOME = (*(HOSTILE[at] for at in (1, 5, 22, 35)), " ".join(HOSTILE))
SITE = "http://127.0.0.1:9"
#: Those that are tried one by one, with one device: a page of eight also lists layouts.
NARROW = {words.format(site=SITE) for words in HOSTILE} | {"few words"}


def pairs(each: str, *others: str) -> list[Any]:
    """A kind of page with a name: every name and some of them in one, all at once in the others."""
    daily = [*((each, words) for words in SOME), *((kind, SOME[-1]) for kind in others)]
    return leave_to_night(
        [*daily, *((each, words) for words in HOSTILE if words not in SOME)], daily
    )


def document(words: str) -> dict[str, object]:
    """A plan that puts hostile words wherever free text is taken. Where they are tried one by one,
    the model is a size: its report takes a fifth of the time, and all of them together are tried in
    one with all sections."""
    printed = "".join(c for c in words if c in "\n\r\t" or c.isprintable() or ord(c) > 159)
    model: dict[str, object] = {"name": words, "notes": words}
    model["sources"] = [{"text": words, "url": "https://example.com/"}]
    if words in NARROW:
        model["parameters"] = "100M"
    else:
        model["extends"] = "gpt2-small"
        model["kinds"] = {words: {}, "plain": {"mlp": {"intermediate": 1024}}}
    return {
        "name": words[:200], "notes": words, "model": model,
        "cluster": {"extends": "hgx-h100", "name": printed, "devices": 1 if words in NARROW else 8},
        "training": {"tokens": "1B", "sequence_length": 1024, "global_batch": 64},
        "time": {"mfu": 0.4, "use": "assumed"},
    }  # fmt: skip


@cache
def result_of(words: str) -> Result:
    """The result; a word that some key refuses (a name of layers, say) stays out of that key."""
    given = document(words)
    try:
        return planner.load(given).evaluate()
    except planner.PlanError:
        model = given["model"]
        assert isinstance(model, dict)
        model.pop("kinds", None)
        try:
            return planner.load(given).evaluate()
        except planner.PlanError:
            del model["sources"]
            return planner.load(given).evaluate()


class Outline(html.parser.HTMLParser):
    """The elements and attributes of a page, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "action", "style", "content", "srcset", "formaction"):
                self.targets.add(f"{name}={value}")


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    return found


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("kind", "words"), pairs("html", "study html", "compared html"))
def test_a_name_adds_no_element_attribute_or_target(words: str, kind: str) -> None:
    words = words.format(site=SITE)
    plain = outline(page("few words" if words in NARROW else "plain words", kind))
    hostile = outline(page(words, kind))
    assert hostile.elements <= plain.elements
    assert hostile.attributes <= plain.attributes
    assert all(target.startswith('href="#') for target in hostile.targets - plain.targets)


@cache
def page(words: str, kind: str = "html") -> str:
    """A report; of a study or with a comparison where the kind says so."""
    what, _, form = kind.rpartition(" ")
    if what == "study":
        from planner.report import study as pages

        found = studied(words)
        return pages.format_study(found) if form == "text" else pages.render_study(found, form)
    if what == "compared":
        return render.as_text(compared(words), form)
    return render.as_text(result_of(words), kind)


@cache
def studied(words: str) -> StudyOutcome:
    """A study whose name, notes, plans and values are hostile words."""
    base = document(words)
    base["model"] = {"extends": "gpt2-small", "name": words}
    names = [words[:200], words[:190] + " again"]
    return sweep(
        studies.read_study({
            "name": words[:200], "notes": words, "base": base,
            "axes": {
                "model": [{"extends": "gpt2-small", "name": name} for name in names],
                "run": [{"name": name, "set": {"parallelism.tensor": 5**at}}
                        for at, name in enumerate(names)],
                "training.micro_batch": [1, 2],
            },
        }),
        workers=1,
    )  # fmt: skip


@cache
def compared(words: str) -> Result:
    """A plan beside a log of a hostile name, with a column and a unit of that name."""
    name = words.replace("/", "\u2215").replace("\0", "")[:80]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / f"{name}.csv"
        column = words.replace('"', '""').replace(";", "")  # which may part the columns
        log.write_text(f'step,step_time,"{column}"\n1,0.5,1\n2,0.5,"{column}"\n', "utf-8")
        plan = planner.load(document(words[:200]) | {"model": "gpt2-small"}).plan
        return compare.compare(plan, str(log), 0).result


@pytest.mark.slow
@pytest.mark.parametrize("words", leave_to_night(HOSTILE, SOME))
def test_a_name_steers_no_terminal_and_is_itself_elsewhere(words: str) -> None:
    words = words.format(site=SITE)
    result = result_of(words)
    text = render.render_text(result, colour=False)
    assert not {"\x1b", "\x07", "\u202e"} & {*text}
    one_screen(text)
    assert json.loads(render.as_text(result, "json"))["plan"]["name"] == words[:200]
    shown = clean(words[:200])
    assert not shown or shown in Page(page(words)).words
    first = page(words, "md").splitlines()[0]
    assert first.startswith("# " if shown else "#") and len(first) < 1000


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("kind", "words"), pairs("md", "study md", "compared md"))
def test_a_name_changes_no_structure_of_the_markdown(words: str, kind: str) -> None:
    words = words.format(site=SITE)
    text = page(words, kind)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    headings = [line for line in text.splitlines() if re.match(r"#{1,6} ", line)]
    assert rows, "the report has tables"
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = table.splitlines()
        wide = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(wide) == 1, lines
    text = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text)  # what is code is shown as it is
    text = re.sub(r"(?s)(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
    assert "<script" not in text.lower().replace("&lt;script", "")
    assert not re.search(r"(?<!\\)\]\(\s*javascript:", text)
    assert not re.search(r"(?<!\\)!\[[^\]]*(?<!\\)\]\(http", text)
    assert all(heading.strip("# ") for heading in headings)


def _read(text: str, form: str) -> object:
    """What the reader of a launch configuration makes of it, but for what is the name."""
    return _unnamed(_parsed(text, form))


def _unnamed(read: object) -> object:
    if isinstance(read, dict):
        named = {"description", "project", "run", "model_spec.flavor"}
        return {k: isinstance(v, str) if k in named else _unnamed(v) for k, v in read.items()}
    return read


def _parsed(text: str, form: str) -> object:
    if form == "megatron":
        lines = [line for line in text.split("\n") if not line.startswith("#")]
        return shlex.split("\n".join(lines), comments=True)
    if form in ("torchtitan", "megatron-bridge"):
        return python_file.read_python(text, Place("run"), ())
    return json.loads(text) if form == "deepspeed" else yaml.load(text, yaml.SafeLoader)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("form", FORMATS)
def test_a_name_changes_nothing_in_a_launch_configuration(form: str) -> None:
    """Nor does the shell that reads it run a word of it."""
    lines = ("a{end}evil: 1{end}--evil 1{end}[evil]{end}x = 1",)
    ends = ("\n", "\r", "\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", " ")
    words = [line.format(end=end) for line in lines for end in ends]
    words += [word.format(site=SITE) for word in HOSTILE]
    found = []
    for word in ("plain", *words):
        given = document(word[:200])
        given["model"] = {"extends": "gpt2-small", "name": word, "notes": word}
        given["cluster"] = {"extends": "hgx-h100", "name": word[:200], "devices": 1}
        found.append(_read(exports.build_config(planner.load(given).plan, form).text, form))
    assert found[0]
    for word, read in zip(words, found[1:], strict=True):
        assert read == found[0], word


class _Recorder(BaseHTTPRequestHandler):
    """Answers nothing of use and remembers what was asked for."""

    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(404)
        self.end_headers()

    do_POST = do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.browser
@pytest.mark.slow
def test_in_a_browser_nothing_runs_and_nothing_is_requested(
    browser: Browser, tmp_path: Path
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_port}"
    try:
        # The trap works: a page that does what reports must not do is noticed.
        trap = tmp_path / "trap.html"
        trap.write_text(f"<img src={site}/trap><script>document.title='PWNED'</script>")
        browser.open(trap)
        assert browser.run("document.title") == "PWNED"
        assert _Recorder.asked == ["/trap"]
        _Recorder.asked.clear()
        everything = " ".join(words.format(site=site) for words in HOSTILE)
        kinds = ("html", "study html", "compared html")
        pages = [page(everything, kind) for kind in kinds]
        for number, text in enumerate(pages):
            assert "Content-Security-Policy" in text
            # With the policy, and without it: escaping alone has to hold.
            for bare in (text, re.sub(r"<meta http-equiv=[^>]*>", "", text)):
                file = tmp_path / f"report{number}.html"
                file.write_text(bare, "utf-8")
                browser.open(file)
                assert browser.run("document.querySelector('h1') !== null")
                assert browser.run("document.title") != "PWNED"
        assert _Recorder.asked == []
    finally:
        server.shutdown()
