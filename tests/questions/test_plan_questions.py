"""Questions and requirements that a plan states: answered in every format, told by check and diff,
faults at their places."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import planner
from planner.questions.plan_questions import evaluate
from planner.report import as_text
from planner.results import result as results
from tests.conftest import RunCli, read_data

FAULTS = read_data("faults")

ROOT = Path(__file__).parents[2]
LARGEST = ROOT / "presets" / "largest_on_8xh100.yaml"
SMALL = """\
name: a small one
model: gpt2-small
cluster: {accelerator: h100-sxm-80gb, devices: 8}
training: {tokens: 10B, sequence_length: 1024, global_batch: 512, micro_batch: 8}
parallelism: {zero: 1}
"""


def written(folder: Path, more: str, name: str = "plan.yaml") -> Path:
    file = folder / name
    file.write_text(SMALL + more, "utf-8")
    return file


def answered(file: Path) -> Any:
    return planner.load(file).evaluate().questions


# facts and properties ------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lecture_s_forty_billion_parameters_are_answered_by_the_preset_named_after_them() -> (
    None
):
    """CS336, lecture 2: 8 H100s of 80e9 bytes over 4 + 4 + 4 + 4 bytes a parameter are 40e9; with
    all that else is on a device there are fewer."""
    by_bytes, real = answered(LARGEST).answers
    assert by_bytes.found.holds.value == 8 * 80 * 10**9 // (4 + 4 + 4 + 4) == 40 * 10**9
    assert by_bytes.found.fails.value == 40 * 10**9 + 1
    assert 20 * 10**9 < real.found.holds.number < 40 * 10**9
    result = planner.load(LARGEST).evaluate()
    for kind in ("text", "md", "html", "json"):
        said = " ".join(as_text(result, kind).split())
        assert "40,000,000,000 parameters" in said and "40,000,000,001 parameters" in said
        assert real.sentence.partition(":")[0] in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "key", "quantity", "limit", "step"),
    [
        ("{vary: training.micro_batch, until: memory.process <= 30 GiB}",
         "training.micro_batch", "memory.process", 30 * 2**30, None),
        ("{tokens-by-deadline: 12 h}", "training.tokens", "time.training_days", Fraction(1, 2),
         512 * 1024),
        ("{vary: model.layers, until: [headroom >= 40 GiB]}",
         "model.layers", "memory.headroom", 40 * 2**30, 1),
    ],
)  # fmt: skip
def test_an_answer_holds_and_the_next_value_does_not(
    question: str, key: str, quantity: str, limit: Any, step: int | None, tmp_path: Path
) -> None:
    """In the plan's own evaluation with the key set to either value."""
    file = written(tmp_path, f"questions: [{question}]\n")
    (answer,) = answered(file).answers
    holds, fails = answer.found.holds.value, answer.found.fails.value
    assert step is None or fails - holds == step
    at = [planner.load(file, {key: n}).evaluate()[quantity].number for n in (holds, fails)]
    inside = [value >= limit if quantity == "memory.headroom" else value <= limit for value in at]
    assert inside == [True, False]
    assert f"{fails:,}" in answer.sentence and "missed by" in answer.sentence


def test_a_plan_answers_what_the_command_line_answers(tmp_path: Path) -> None:
    asked = "{fewest-devices: {deadline: 1 days, margin: 5%, set: {training.precision: fp8}}}"
    (answer,) = answered(written(tmp_path, f"questions: [{asked}]\n")).answers
    plan = planner.load(written(tmp_path, ""), {"training.precision": "fp8"})
    found = plan.solve("fewest-devices", deadline="1 days", margin="5%")
    assert answer.found.holds.value == found.holds.value
    assert answer.found.limits == found.limits


@pytest.mark.slow
def test_every_question_is_answered_as_the_schema_of_results_says(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """\
questions:
  - largest-model: {with_layout: own}
  - largest-model-by-deadline: {deadline: 30 days, with_layout: own}
  - largest-batch
  - longest-context: {until: memory.process <= 1 GiB}
  - fewest-devices
  - tokens-by-deadline: 3
  - cheapest: {deadline: 30 days, accelerators: [h100-sxm-80gb]}
  - compute-optimal: 1e21 FLOP
  - compute-optimal: {}
  - vary: training.micro_batch
    until: headroom >= 5 GiB
    maximize: time.mfu
require: [fits, headroom >= 5 GiB, time.training_days: <= 1 h, {fits: 5%}]
""",
    )
    result = planner.load(file).evaluate()
    data = json.loads(as_text(result, "json"))
    jsonschema.validate(data, json.loads((ROOT / "schemas" / "result.schema.json").read_text()))
    solved = [answer["solved"] for answer in data["answers"]]
    assert solved == [True] * 3 + [False] + [True] * 6
    assert [one["holds"] for one in data["requirements"]] == [True, True, False, True]
    for kind in ("md", "html", "text"):
        as_text(result, kind)


# requirements --------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_does_not_hold_is_a_line_and_the_status(tmp_path: Path, run_cli: RunCli) -> None:
    days = planner.load(written(tmp_path, "")).evaluate()["time.training_days"].number
    file = written(
        tmp_path, "require:\n  - memory.headroom >= 5 GiB\n  - days <= 0.001\n  - fits\n"
    )
    done = run_cli(str(file))
    assert done.returncode == 1 and "Required: memory.headroom >= 5 GiB holds" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{file}:8:5: days <= 0.001 does not hold: time.training_days is ")
    (missed,) = (one for one in answered(file).requirements if not one.holds)
    assert missed.limit.compute_slack(missed.value) == Fraction(1, 1000) - days
    held = written(tmp_path, "require: [memory.headroom >= 5 GiB, fits: p95]\n")
    assert run_cli(str(held)).returncode == 0


def test_what_is_not_known_does_not_hold(tmp_path: Path) -> None:
    """Of a model that is given by its size only, what states take is no answer to whether it fits,
    and what a shape decides has no value."""
    file = written(tmp_path, "require: [fits, memory.activations <= 500 GiB]\n")
    found = planner.load(file, {"model": {"parameters": "1B"}}).evaluate().questions
    assert [one.holds for one in found.requirements] == [None, None]
    assert len(found.missed) == 2 and "is not known: " in str(found.missed[1])


# check and diff ------------------------------------------------------------------------------


@pytest.mark.slow
def test_check_tells_a_moved_answer_and_what_no_longer_holds(
    tmp_path: Path, run_cli: RunCli
) -> None:
    asks = "questions: [{{vary: model.layers, until: headroom >= 40 GiB}}]\n"
    asks += "require: [memory.headroom >= {} GiB]\n"
    file = written(tmp_path, asks.format(5))
    reports = [tmp_path / f"report.{end}" for end in ("md", "html", "json")]
    assert run_cli(str(file), *(word for r in reports for word in ("-o", str(r)))).returncode == 0
    assert run_cli("check", str(tmp_path)).returncode == 0
    file.write_text(file.read_text().replace("micro_batch: 8", "micro_batch: 4"), "utf-8")
    done = run_cli("check", str(tmp_path / "report.json"), "--all")
    assert done.returncode == 1 and "model.layers: " in done.stdout
    said = run_cli("diff", str(reports[2]), str(file)).stdout
    assert "answer model.layers: " in said
    file.write_text(SMALL + asks.format(500), "utf-8")
    run_cli(str(file), *(word for r in reports for word in ("-o", str(r))))
    done = run_cli("check", str(tmp_path))
    assert done.returncode == 1
    lines = [line for line in done.stdout.splitlines() if "does not hold" in line]
    assert len(lines) == 1 and lines[0].startswith(f"{file}:7:11: memory.headroom >= 500 GiB")
    assert "none drifted; 1 requirement not met" in done.stdout


# who answers ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_the_result_that_is_seen_answers(tmp_path: Path, run_cli: RunCli) -> None:
    """A search, a sweep and a question evaluate the plan without what it asks."""
    file = written(tmp_path, "questions: [largest-model]\nrequire: [days <= 0.001]\n")
    plan = planner.load(file)
    assert results.evaluate_plan(plan.plan).questions is None
    assert run_cli("search", str(file), "--top", "1").returncode == 0
    assert run_cli("solve", str(file), "largest-batch").returncode == 0
    study = tmp_path / "study.yaml"
    study.write_text(
        f"base: {{extends: {file.name}}}\naxes: {{training.micro_batch: [1, 2]}}\n", "utf-8"
    )
    done = run_cli("sweep", str(study), "-o", str(tmp_path / "out.csv"))
    assert done.returncode == 0, done.stderr


def test_a_plan_that_asks_nothing_imports_nothing_for_it() -> None:
    code = (
        "import sys, planner; planner.load('presets/cs336_70b_h100x1024.yaml').evaluate().verdict;"
        "print([m for m in sys.modules if m.startswith('planner.questions.solve')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_list_replaces_that_of_the_plan_that_is_extended(tmp_path: Path) -> None:
    written(tmp_path, "questions: [largest-model]\nrequire: [days <= 0.001]\n", "base.yaml")
    file = tmp_path / "own.yaml"
    file.write_text("extends: base\nquestions: [largest-batch]\nrequire: null\n", "utf-8")
    found = answered(file)
    assert [answer.name for answer in found.answers] == ["largest-batch"]
    assert found.requirements == ()
    changed = planner.load(file, {"questions": ["longest-context"], "require": ["fits"]})
    asked = changed.evaluate().questions
    assert [answer.name for answer in asked.answers] == ["longest-context"]
    assert [one.text for one in asked.requirements] == ["fits"]


@pytest.mark.slow
def test_a_name_is_text_in_every_format(tmp_path: Path) -> None:
    name = "<script>alert(1)</script> | *x*"
    file = written(tmp_path, f'questions: [{{largest-batch: {{name: "{name}"}}}}]\n')
    result = evaluate(planner.load(file).plan)
    assert "<script>alert" not in as_text(result, "html")
    assert "<script>alert" not in as_text(result, "md")


# bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    FAULTS["plan_questions"],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_its_place(
    more: str, said: str, tmp_path: Path, run_cli: RunCli
) -> None:
    file = written(tmp_path, more + "\n")
    done = run_cli(str(file))
    assert done.returncode == 2 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{file}:") and said in line
