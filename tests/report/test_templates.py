"""Templates read plain data, call nothing of ours, and end: all that each of them is given is
walked, and what somebody's own template tries comes to nothing or to one line."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Template
from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS
from jinja2.sandbox import safe_range
from jinja2.utils import Namespace
from markupsafe import Markup

import planner
from benchmarks import book
from planner.base import resources, sandbox
from planner.base.errors import PlanError
from planner.cli.main import main
from planner.report import report
from planner.report.view import view_of
from planner.serve import find, page
from tests.conftest import processor_time, read_data

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = resources.folder("templates")
VALUES = (str, Markup, int, float, bool, Fraction, Decimal, type(None))
#: What of ours writes text in a template: of text, or of the boxes of a formula.
OURS = {"md", "code", "slug", "plain", "formula", "latex", "mathml", "html"}

SMALL = """\
name: small
model: {extends: gpt2-small}
cluster: {extends: hgx-h100, devices: 8, price: 2 USD/h}
training: {tokens: 10B, sequence_length: 1024, global_batch: 512}
"""
PLANS = {
    "asks": SMALL + "require: [memory.headroom >= 1 GiB]\n"
    "questions: [longest-context]\n",
    "assumes": SMALL + "time: {mfu: 0.4}\n",
    "serves": SMALL.replace("tokens: 10B,", "mode: inference,"),
    "experts": SMALL.replace("gpt2-small", "mixtral-8x7b").replace("devices: 8", "devices: 64"),
    "own": SMALL
    + "quantities:\n  half: {formula: memory.process / 2, unit: bytes, title: half of it}\n",
    "open": SMALL.replace("{extends: gpt2-small}", "{parameters: 1B}"),
}  # fmt: skip
STUDY = """\
base: {extends: SMALL}
axes: {training.tokens: [1B, 10B], cluster.devices: [8, 16], training.micro_batch: [1, 2]}
deadline: 30 days
"""


def names_of(value: Any) -> tuple[str, ...] | None:
    """The fields of a record, which is a frozen dataclass of ours, or of a named tuple."""
    if isinstance(value, sandbox.Record):
        assert type(value).__dataclass_params__.frozen  # type: ignore[attr-defined]
        return tuple(value.readable)
    return getattr(value, "_fields", None) if isinstance(value, tuple) else None


#: What each tuple has, and the names of one.
TUPLE = {"count", "index"}


def strangers(value: Any, path: str, seen: dict[int, Any]) -> Iterator[str]:
    """Where something is reached that is not plain data; what is ``seen`` is kept alive by it."""
    if type(value) in VALUES or id(value) in seen:
        return
    seen[id(value)] = value
    parts: Any = ()
    if type(value) is dict:
        parts = [(f"{path}[{key!r}]", one) for key, one in value.items()]
        parts += [(f"{path}, a key", key) for key in value]
    elif type(value) in (list, tuple):
        parts = [(f"{path}[]", one) for one in value]
    elif (names := names_of(value)) is not None:
        parts = [(f"{path}.{name}", getattr(value, name)) for name in names]
        further = {name for name in dir(type(value)) if name[0] != "_"} - {*names, *TUPLE}
        if further and not isinstance(value, sandbox.Record):  # of which templates have the fields
            yield f"{path}: {type(value).__name__}.{min(further)}"
    else:
        yield f"{path}: {type(value).__module__}.{type(value).__name__}"
    for where, one in parts:
        yield from strangers(one, where, seen)


Given = dict[str, list[tuple[dict[str, Any], Any]]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """By template what each rendering of it is given, with its environment."""
    found: Given = {}
    render = Template.render

    def noted(self: Template, *args: Any, **named: Any) -> str:
        found.setdefault(self.name or "", []).append((dict(*args, **named), self.environment))
        return render(self, *args, **named)

    monkeypatch.setattr(Template, "render", noted)
    return found


def hold(given: Given) -> None:
    """Nothing but plain data, Jinja's own and ``OURS`` is reached from what was rendered."""
    assert given
    found: set[str] = set()
    for name, renderings in given.items():
        for context, environment in renderings:
            for key, value in context.items():
                found.update(strangers(value, f"{name}: {key}", {}))
            assert environment.globals == {"range": safe_range, "namespace": Namespace}
            assert {
                n for n, f in environment.filters.items() if DEFAULT_FILTERS.get(n) is not f
            } <= OURS
            assert environment.tests == DEFAULT_TESTS
    assert found == set()


def written(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(PLANS[name])
    return path


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", PLANS)
def test_reports_are_given_plain_data(given: Given, tmp_path: Path, name: str) -> None:
    outputs = ("-o", str(tmp_path / "a.md"), "-o", str(tmp_path / "a.html"))
    assert main(["report", str(written(tmp_path, name)), *outputs]) == 0
    assert set(given) == {"report.md.jinja", "report.html.jinja"}
    hold(given)


@pytest.mark.slow
def test_every_template_is_given_plain_data(given: Given, tmp_path: Path) -> None:
    small = written(tmp_path, "asks")
    study = tmp_path / "study.yaml"
    study.write_text(STUDY.replace("SMALL", small.name))
    for words in (
        ("report", small, "-o", tmp_path / "a.html"),
        ("compare", small, "--step-time", "1s", "-o", tmp_path / "b.md", "-o", tmp_path / "b.html"),
        ("explain-oom", small, "--text", ROOT / "tests/data/logs/out_of_memory.log", "--format",
         "md"),
        ("search", small, "-o", tmp_path / "c.md", "-o", tmp_path / "c.html"),
        ("sweep", study, "-o", tmp_path / "d.csv", "-o", tmp_path / "d.md",
         "-o", tmp_path / "d.html"),
        ("fit-table", "--device", "t4", "--model", "qwen3-0.6b", "--format", "html"),
        *(("export", "llama70b_h100x1024", "--to", "torchtitan", "--job", job, "-o", tmp_path / job)
          for job in ("slurm", "kubernetes", "skypilot")),
    ):  # fmt: skip
        assert main(list(map(str, words))) == 0
    book.pages(), book.pages(mathml=True)
    text, other = small.read_text(), SMALL.replace("devices: 8", "devices: 16")
    page.render_shell(), page.render_style.__wrapped__()
    for name, body in (
        ("answer", {"textA": other}), ("diff", {"textA": other}), ("more", {}), ("search", {}),
        ("panel", {}), ("solve", {"question": "advise"}),
        ("solve", {"question": "largest-batch"}), ("why", {"id": "memory.total"}),
        ("chart", {"quantity": "memory.process", "key": "training.micro_batch"}),
    ):  # fmt: skip
        assert "faults" not in {**find.FUNCTIONS, **find.AT_ONCE}[name]({"text": text, **body})
    hold(given)
    # Every template that ships is among them, or is a part of one.
    every = {file.relative_to(TEMPLATES).as_posix() for file in TEMPLATES.rglob("*.jinja")}
    parts = re.compile(r'\{% (?:from|include|extends) "([^"]+)"')
    used = {part for name in every for part in parts.findall((TEMPLATES / name).read_text("utf-8"))}
    assert every == set(given) | used & every


@cache
def small_view() -> Any:
    view = view_of(planner.load({"extends": "gpt2small_hgx-h100"}).evaluate())
    return replace(view, derivations=view.derivations[:3])


def made_of(folder: Path, text: str, **more: Any) -> str:
    """What somebody's own template makes of a plan, which is copied where the text reads it."""
    (folder / "report.md.jinja").write_text(text)
    with report.use_templates(folder):
        view = small_view() if "view" in text else None
        return report.render_md("report.md.jinja", view=view, **more)


@pytest.mark.slow
def test_no_attribute_leads_out_of_plain_data() -> None:
    """Whatever attribute Python has, by a dot or in brackets, is plain or is none."""
    environment = report._make_environment(True)
    module = environment.get_template("macros.html.jinja").module
    values = (
        "a",
        Markup("a"),
        1,
        1.5,
        True,
        Fraction(1, 2),
        [1],
        (1,),
        {"a": 1},
        None,
        small_view(),
    )
    for value in (
        *values,
        module.link,
        module.cell,
        safe_range,
        Namespace,
    ):
        for name in {
            *dir(value),
            *dir(type(value)),
            "format",
            "__globals__",
            "__init__",
            "gi_frame",
        }:
            for reach in (environment.getattr, environment.getitem):
                found = reach(value, name)
                if isinstance(found, environment.undefined) or not list(strangers(found, "", {})):
                    continue
                kind = next(kind for kind in sandbox.METHODS if isinstance(value, kind))
                assert name in sandbox.METHODS[kind], (value, name, found)


class Plain(sandbox.Record):
    text: str
    method: Any
    _hidden: str = "seen by nobody"

    @sandbox.computed_field
    def made(self) -> str:
        return f"{self.text}, {len(self._hidden)}"

    @property
    def beside(self) -> str:
        return "a field is seen, nothing else"


def test_a_copy_of_a_record_has_what_templates_read_and_nothing_else() -> None:
    found = copy.deepcopy(Plain("seen", None))
    assert vars(found) == {"text": "seen", "method": None, "made": "seen, 14"}
    environment = report._make_environment(False)
    assert environment.from_string("{{ x.made }}").render(x=Plain("seen", None)) == found.made
    for name in ("_hidden", "readable", "__getstate__"):
        with pytest.raises(Exception, match=r"unsafe|no attribute"):
            environment.from_string(f"{{{{ x.{name} }}}}").render(x=Plain("seen", None))


@pytest.mark.parametrize("of", [Plain, lambda **given: type("Own", (), given)()])
def test_an_object_given_by_mistake_has_nothing(of: Callable[..., Any]) -> None:
    """What is no plain data has no attribute, and its methods cannot be had."""
    environment = report._make_environment(False)
    given = {"x": of(text="seen", method=print), "y": planner}
    text = environment.from_string("{{ x.text }}")
    if of is Plain:
        assert text.render(given) == "seen"
    else:
        with pytest.raises(Exception, match="unsafe"):
            text.render(given)
    with pytest.raises(Exception, match="unsafe" if of is Plain else "attribute"):
        environment.from_string("{{ x.beside }}").render(given)
    with pytest.raises(Exception, match="unsafe"):
        environment.from_string("{{ y.load }}").render(given)


ESCAPES = read_data("template_escapes")


@pytest.mark.parametrize("text", ESCAPES)
def test_what_a_template_tries_is_one_line(tmp_path: Path, text: str) -> None:
    import os

    own = tmp_path / "own"
    (own / "sub").mkdir(parents=True)
    (tmp_path / "secret.jinja").write_text("secret")
    (own / "link.jinja").symlink_to(tmp_path / "secret.jinja")
    (own / "out").symlink_to(tmp_path)
    os.mkfifo(own / "pipe")
    for name, leads in (("etc", "/etc"), ("zero", "/dev/zero"), ("loop", "loop")):
        (own / name).symlink_to(leads)
    with pytest.raises(PlanError) as caught:
        made_of(own, text.replace("MARK", str(tmp_path / "mark")))
    (fault,) = caught.value.faults
    assert str(fault).startswith(f"{own / 'report.md.jinja'}:1: ") and "\n" not in str(fault)
    assert "secret" not in fault.message.replace("secret.jinja", "")
    assert not (tmp_path / "mark").exists()


BOMBS = (
    "{% for a in range(10**9) %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{{ 'x' * 10**9 }}", "{{ 'x' * 10**11 }}", "{{ [1] * 10**10 }}", "{{ 10 ** (10 ** 9) }}",
    "{{ 'x' | center(10**10) }}", "{{ '%10000000000d' | format(1) }}", "{{ '%10000000000d' % 1 }}",
    "{{ [1] | batch(10**9, 'x') | list }}", "{{ ('x\\n' * 9**6) | indent(10**6) }}",
    "{% set n = namespace(t='x') %}{% for a in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
    "{% set n = namespace(t=[1]) %}{% for a in range(60) %}{% set n.t = [n.t, n.t] %}{% endfor %}"
    "{{ n.t }}",
    "{% set n = namespace(t='x') %}{% for a in range(60) %}{% set n.t = n.t.replace('x', 'xx') %}"
    "{% endfor %}",
    "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% include 'report.md.jinja' %}",
    "{% extends 'report.md.jinja' %}", "{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}",
    "{{ range(99999) | map('string') | map('center', 99999) | join }}",
    "{{ '(' * 9999 }}" + "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
)  # fmt: skip


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("text", BOMBS)
def test_a_template_ends_whatever_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    before = processor_time()
    with pytest.raises(PlanError) as caught:
        made_of(tmp_path, text)
    assert processor_time() - before < 15
    assert "\n" not in str(caught.value) and "report.md.jinja" in str(caught.value)


def test_a_template_of_ones_own_makes_its_text(tmp_path: Path) -> None:
    """Plain data is all there: text, numbers by id, records, macros of ours."""
    text = (
        "{% from 'macros.md.jinja' import said %}# {{ view.name | md }}\n"
        "{{ view.values['time.training_days'] | float | round(1) }}; "
        "{{ view.answer.memory.total }}; {{ said([('a', 'b')]) }} "
        "{% for x in range(2) %}{{ loop.index }}{% endfor %} \ud7ff\n"
    )
    made = made_of(tmp_path, text)
    days = float(
        planner.load({"extends": "gpt2small_hgx-h100"}).evaluate()["time.training_days"].value
    )
    assert f"\n{round(days, 1)}; {small_view().answer.memory.total}; **a** 12 \ud7ff\n" in made


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("words", [
    ("check", "--format", "github", "--root", "."), ("check", "."), ("report", "plan.yaml"),
    ("validate", "trainplan.yaml"), ("report", "plan.yaml", "--format", "md", "--root", "."),
])  # fmt: skip
def test_no_file_of_a_repository_chooses_templates(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "report.md.jinja").write_text("of a stranger")
    (tmp_path / "plan.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    assert main(["report", "plan.yaml", "-o", "plan.md"]) == 0
    (tmp_path / "trainplan.yaml").write_text("margin: 5%\ntemplates: own\n")
    capsys.readouterr()
    assert main([*words]) != 0
    out, err = capsys.readouterr()
    said = (out + err).replace("%2C", ",")
    assert "no file can choose templates" in said and "--templates DIR" in said
    assert ("stranger" not in said and "line=2" in said) or "trainplan.yaml:2:" in said
    assert len(err.splitlines()) <= 2


def test_templates_do_not_go_with_a_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "plan.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    assert main(["report", "plan.yaml", "--root", ".", "--templates", "own"]) == 2
    assert capsys.readouterr().err == "both --templates and --root (one of them)\n"
    for file in (ROOT / "action.yml", *(ROOT / "action").iterdir()):
        assert "--templates" not in file.read_text("utf-8")
