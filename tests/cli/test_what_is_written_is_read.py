"""Whatever a command writes, every command reads: it validates, it says what was in memory, YAML
1.1 reads the same numbers and words, and it evaluates to the same digits."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import planner
from benchmarks import launch_files
from benchmarks.layouts import LAYOUTS
from fuzz import kills, lines
from planner.base import units
from planner.base.display import format_flow, plain, quote_json
from planner.cli.main import main
from planner.connect import imports
from planner.connect.exports import LAUNCHED, TRAINERS, build_config
from planner.connect.measure import machine
from planner.connect.measure import writing as measuring
from planner.documents import schema, source
from planner.documents import yaml_nodes as nodes
from planner.documents.editing import BARE, change_values
from planner.plans.document import Plan
from planner.questions import loading, write_back
from planner.report.resolved import format_resolved
from planner.serve import find, page
from tests.conftest import ROOT, leave_to_night, read_data
from tests.connect.test_eleuther import PYTHIA
from tests.connect.test_launch_files import LEFT
from tests.connect.test_measure import GPU, Ideal

SAVED = {
    row["name"]: row
    for row in json.loads((ROOT / "tests/data/counts/saved.json").read_text("utf-8"))["models"]
}
SHIPPED = sorted((ROOT / "presets").glob("*.yaml"))
DOCUMENTS = launch_files.read_documents()
#: Every so many of a long list are tried each time, the others at night.
FEW = 16


def sampled(names: Collection[str]) -> list[Any]:
    """Names as parameters of a test."""
    return leave_to_night(names, [*names][::FEW])


def exact(data: Any) -> Any:
    """Plain data whose floats are the numbers that their shortest text says."""
    if isinstance(data, Mapping):
        return {key: exact(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [exact(value) for value in data]
    return units.to_whole(Fraction(repr(data))) if isinstance(data, float) else data


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for step, value in pairs:
        if isinstance(value, (dict, list)):
            yield from leaves(value, f"{path}.{step}")
        else:
            yield f"{path}.{step}", value


def ours(text: str) -> Any:
    root = nodes.parse_yaml(text, "<written>")
    assert root is not None
    return root.plain()


def same_in_yaml(text: str) -> None:
    """YAML 1.1 (PyYAML) reads each number as a number that is equal, to the digits of a double, and
    each word as the same word."""
    theirs = dict(leaves(yaml.safe_load(text)))
    for path, value in leaves(ours(text)):
        other = theirs.pop(path)
        if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
            assert isinstance(other, (int, float)), path
            value, other = float(value), float(other)
        assert (type(other), other) == (type(value), value), path
    assert not theirs


def digits(plan: Any) -> dict[str, Any]:
    result = (plan if hasattr(plan, "evaluate") else planner.load(plan)).evaluate()
    return {name: result[name].value for name in result}


def written(path: Path, kind: str, memory: Any) -> None:
    """Hold what a command wrote against what it had in memory."""
    text = path.read_text("utf-8")
    assert main(["validate", str(path)]) == 0
    same_in_yaml(text)
    held = [
        schema.validate(source.load(one, kind=kind), kind).data
        for one in (str(path), source.expand_keys(memory))
    ]
    assert held[0] == held[1]


# The one writer -----------------------------------------------------------------------------------

NUMBERS = st.integers() | st.fractions(max_denominator=10**9) | st.floats(-1e30, 1e30)
WORDS = st.text(max_size=8) | st.sampled_from(
    ["1e-05", "1.5", "017", "0x1F", "0b1", "0o7", "1e5", "1E5", "12", "1.", "30 days", "80%", "1/3",
     "2.5 USD/h", "no", "On", "Y", "null", "True", "~", ".inf", "nan", "1:30", "2026-11-28", "=",
     "<<", "1_000", "15T", "1.0e-5", "7 %", "1..2", "1e", "0.0.0"]
)  # fmt: skip
KEYS = WORDS.filter(lambda word: word != "<<")  # which no document may have
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), DATA, max_size=4))
def test_what_is_written_in_flow_style_is_what_was_given(data: dict[str, Any]) -> None:
    for bare in (None, BARE):
        text = format_flow(data, bare=bare)
        assert shares(ours(text)) == shares(exact(data))
        same_in_yaml(text)


def shares(data: Any) -> Any:
    """Numbers that have no decimal are text in YAML, as in documents."""
    if isinstance(data, dict):
        return {key: shares(value) for key, value in data.items()}
    if isinstance(data, list):
        return [shares(value) for value in data]
    found = isinstance(data, Fraction) and format_flow(data)
    return found if found and "/" in found else data


@pytest.mark.slow
@given(
    st.sampled_from(sorted({"1", "tokens", "bytes", "bytes/s", "s", "Hz", "W", "USD/h", "FLOP/s"})),
    st.floats(1e-30, 1e30) | st.fractions(0, 10**6, max_denominator=10**6) | st.integers(0, 10**30),
)
def test_a_number_with_its_unit_is_read_as_that_number(unit: str, value: Any) -> None:
    assert units.parse(format_flow(value, unit), unit) == exact(value)


@pytest.mark.parametrize("text", ["a: 1\n", "a: 1\nb: {c: x}\n", "{a: 1, b: {c: 2}}", "a: 1\nb: c"])
@given(data=DATA)
def test_a_value_that_is_put_into_a_text_is_that_value(text: str, data: Any) -> None:
    made = change_values(text, "<text>", {"b.c": data})
    same_in_yaml(made)
    assert shares(ours(made)["b"]["c"]) == shares(exact(data))


# Models -------------------------------------------------------------------------------------------

#: What any model has digits in.
AROUND = {
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
    "training": {"sequence_length": 32, "global_batch": 4},
}
FIRST = "model: gpt2-small\ncluster: 8 x h100-sxm-80gb\ntraining: {sequence_length: 32}\n"


def as_model(path: Path, memory: Any) -> None:
    """Hold a model document that a command wrote against the mapping in memory."""
    written(path, "model", memory)
    assert digits({**AROUND, "model": str(path)}) == digits({**AROUND, "model": memory})


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", sampled(SAVED))
def test_an_imported_configuration(name: str, tmp_path: Path) -> None:
    """By the command, and dropped on the page."""
    row = SAVED[name]
    config_file = tmp_path / "config.json"
    config_file.write_text(json.dumps(row["config"]), "utf-8")
    model = tmp_path / "model.yaml"
    assert main(["import", str(config_file), "-o", str(model)]) == 0
    memory = imports.import_config(row["config"])
    head = {k: v for k, v in ours(model.read_text("utf-8")).items() if k in ("name", "notes")}
    as_model(model, {**head, **memory})
    if "architectures" in row["config"] or "model_type" in row["config"]:
        opened = page.open_file({"file": config_file.read_text("utf-8"), "text": FIRST})["text"]
        saved = tmp_path / "plan.yaml"
        saved.write_text(opened, "utf-8")
        written(saved, "plan", {**ours(FIRST), "model": {"name": head["name"], **memory}})


# Plans --------------------------------------------------------------------------------------------


def as_plan(path: Path, memory: Any) -> None:
    """Hold a plan that a command wrote against the one in memory."""
    text = path.read_text("utf-8")
    assert main(["validate", str(path)]) == 0
    same_in_yaml(text)
    assert digits(str(path)) == digits(memory)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("title", sampled(DOCUMENTS))
def test_an_export_that_is_imported_again(title: str, tmp_path: Path) -> None:
    plan = loading.load(DOCUMENTS[title])
    for name in (*LAUNCHED, *TRAINERS):
        exported = build_config(plan, name)
        if not exported.lost:
            import_again(plan, DOCUMENTS[title]["model"], name, exported.text, tmp_path)


def import_again(plan: Plan, model: str, name: str, text: str, folder: Path) -> None:
    """Hold what the command writes of a framework's file against what it reads in it."""
    file, back = folder / f"{name}.txt", folder / f"{name}.yaml"
    file.write_text(text, "utf-8")
    words, left = ["import", "--from", name, str(file), "-o", str(back)], []
    if name in TRAINERS:
        left = [f"{key}={plan.get(key)}" for key in LEFT.get(name, ())]
        left = [f"model={model}", "cluster.accelerator=h100-sxm-80gb", *left]
    words += [f"--set={one}" for one in left] if left else ["--plan"]
    assert main(words) == 0
    found = imports.import_file(str(file), name, plan=True, changes=left)
    memory = found.document
    written(back, "plan", memory)
    if "accelerator" in memory["cluster"]:  # of a launch file, which no one names one in
        as_plan(back, memory)


@pytest.mark.slow
def test_arguments_of_a_script(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    assert main(["import", "--from", "eleuther", PYTHIA, "-o", str(file)]) == 0
    as_plan(file, imports.import_file(PYTHIA, "eleuther").document)


LINES = read_data("cli")["written_lines"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("line", LINES)
def test_a_plan_that_quick_wrote_and_printed(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, printed = tmp_path / "plan.yaml", tmp_path / "printed.yaml"
    capsys.readouterr()
    assert main(["quick", line, "-o", str(file)]) in (0, 1)  # a deadline may be missed
    printed.write_text(capsys.readouterr().out.partition("\n# quick: ")[2].partition("\n")[2])
    for each in (file, printed):
        as_plan(each, planner.quick(line))


#: Questions whose answers are of each kind: whole, a share, a time, tokens, a model, a layout.
QUESTIONS = read_data("cli")["questions"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_an_answer_that_solve_wrote(words: list[str], tmp_path: Path) -> None:
    """In a copy of the plan, and taken on the page."""
    file, taken = tmp_path / "plan.yaml", tmp_path / "taken.yaml"
    plan = planner.load(kills.PLAN)
    assert main(["solve", kills.PLAN, *words, "-o", str(file)]) == 0
    given = words[1:] if words[0][:2] != "--" else words
    options = {name[2:]: value for name, value in zip(given[::2], given[1::2], strict=True)}
    question = None if given is words else words[0]
    answer = plan.solve(question, **options)
    as_plan(file, planner.api.Plan(answer.holds.plan))
    text = Path(kills.PLAN).read_text("utf-8")
    answered = find.answer_solve({"text": text, "question": question, **options})
    (take,) = json.loads(json.dumps(answered["takes"]))
    taken.write_text(page.write_keys(text, take["set"]), "utf-8")
    as_plan(taken, str(file))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("rank", ["1", "2", "simplest"])
def test_a_layout_that_search_applied(rank: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(Path(kills.PLAN).read_text("utf-8"), "utf-8")
    found = planner.load(file).search(top=2)
    assert main(["search", str(file), "--apply", str(file), "--rank", rank, "--top", "2"]) == 0
    layout = found.plain if rank == "simplest" else found.best[int(rank) - 1]
    changes = write_back.of_searched(found.plan, layout)
    as_plan(file, planner.load(kills.PLAN, {k: v for k, v in changes.items() if v is not None}))


def test_rates_that_calibrate_wrote(tmp_path: Path) -> None:
    """The times that it says the fitted rates predict are those that the document predicts."""
    words, _ = kills.prepare("calibrate", tmp_path)
    assert main(words) == 0
    file = tmp_path / "out.yaml"
    text = file.read_text("utf-8")
    assert main(["validate", str(file)]) == 0
    same_in_yaml(text)
    said = re.search(r"run.csv: (\S+ \S+), \S+ %, (\S+ %)", text)
    assert said is not None
    plan = {**ours(Path(kills.PLAN).read_text("utf-8")), "cluster": str(file)}
    predicted = float(digits(plan)["time.step_seconds"])
    measured, off = float(units.parse(said[1], "s")), float(units.parse(said[2]))
    assert predicted / measured - 1 == pytest.approx(off, abs=6e-4)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("backend", [Ideal(), Ideal(processes=4), Ideal(GPU)])
def test_an_accelerator_that_measure_wrote(backend: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(measuring.write_device(machine.measure_machine(backend)), "utf-8")
    written(file, "accelerator", ours(file.read_text("utf-8")))


def read_layouts() -> dict[str, Any]:
    """Plans that ship and layouts that were published."""
    data = yaml.safe_load(LAYOUTS.read_text("utf-8"))["layouts"]
    return {path.stem: ours(path.read_text("utf-8")) for path in SHIPPED} | {
        row["name"]: source.change_keys(row["plan"], {**row["given"], "name": row["name"]})
        for row in data
    }


PLANS = read_layouts()


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(PLANS))
def test_a_plan_that_was_printed_resolved(name: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    plan = planner.load(PLANS[name])
    file.write_text(format_resolved(plan.plan), "utf-8")
    as_plan(file, plan)


SHARES = read_data("cli")["shares"]


def test_numbers_without_a_decimal_are_printed_resolved(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    plan = planner.load(kills.PLAN, SHARES)
    file.write_text(format_resolved(plan.plan), "utf-8")
    as_plan(file, plan)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", ["md", "html", "json"])
def test_a_report_that_check_names(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anew it agrees; after the plan changed, the command that is named mends it."""
    monkeypatch.chdir(tmp_path)
    plan, report = Path("plan.yaml"), Path(f"report.{kind}")
    plan.write_text(format_resolved(planner.load(kills.PLAN, {"cluster.price": "50 USD/day"}).plan))
    assert main(["report", str(plan), "-o", str(report)]) == 0
    assert main(["check", "."]) == 0
    assert main(["search", str(plan), "--apply", str(plan), "--rank", "2"]) == 0
    capsys.readouterr()
    assert main(["check", "."]) == 1
    named = capsys.readouterr().out.partition(":")[0]
    assert named == str(report)
    assert main(["diff", named, str(plan)] if kind == "json" else ["check", named]) in (0, 1)
    said = re.search(r"plan\.py (\S+\.yaml[^<\n]*)", report.read_text("utf-8"))
    words = shlex.split(said[1]) if said else [str(plan)]
    assert main([*words, "-o", named]) == 0
    assert main(["check", named]) == 0


#: Charts of the page, which saves each as a study: values that it proposes, and that were typed.
CHARTS = read_data("cli")["charts"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("key", "values"), CHARTS)
def test_a_study_that_the_page_saved(key: str, values: str, tmp_path: Path) -> None:
    """And each of its points, taken into the plan."""
    study, table, plan = (tmp_path / name for name in ("study.yaml", "out.csv", "plan.yaml"))
    text = Path(kills.PLAN).read_text("utf-8").replace("10B", "10.1e9\n  dropout: 0.003")
    body = {"text": text, "quantity": "cost.total", "key": key, "values": values}
    made = json.loads(quote_json(plain(find.answer_chart(body))))
    study.write_text(made["study"], "utf-8")
    assert main(["validate", str(study)]) == 0
    same_in_yaml(made["study"])
    assert ours(made["study"])["base"] == ours(text)
    assert main(["sweep", str(study), "--workers", "1", "-o", str(table)]) == 0
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    for row, point, take in zip(rows, made["points"], made["takes"], strict=True):
        plan.write_text(page.write_keys(text, take["set"]), "utf-8")
        assert main(["validate", str(plan)]) == 0
        cost = float(digits(str(plan))["cost.total"])
        assert cost == pytest.approx(point["value"], rel=1e-12)
        assert float(row["cost.total"]) == pytest.approx(cost, rel=1e-6)


def test_every_command_that_writes_a_document_is_here() -> None:
    """The others write reports, tables, schemas, files of frameworks and a page; plans of advise
    are read in tests/questions/test_practice.py."""
    writers = {
        name
        for name, actions in lines.commands().items()
        if any(action.dest in ("output", "apply") for action in actions)
    }
    here = {"import", "quick", "solve", "search", "calibrate", "measure", "report", "export"}
    assert writers - here == {"advise", "compare", "sweep", "schema", "site"}
