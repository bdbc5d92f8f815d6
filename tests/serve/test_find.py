"""What the page finds is what the command line finds, and what it takes is in the text."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
from planner.base import numbers
from planner.documents import yaml_nodes
from planner.questions import loading
from planner.questions.expert_path import find_expert_path
from planner.questions.fit_table import evaluate_fit_table
from planner.report.fit_table import format_fit_table
from planner.results.result import evaluate_plan
from planner.serve import find, page
from tests.conftest import ROOT, RunCli, leave_to_night, read_data
from tests.serve.conftest import Server

#: A dense model on a node, and one of experts on eight; both with predicted times.
PLANS = read_data("serve")["plans_to_find"]
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(params=PLANS)
def text(request: pytest.FixtureRequest) -> str:
    return PLANS[request.param]


@pytest.fixture
def file(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def said(run_cli: RunCli, *words: str | Path) -> Any:
    return json.loads(run_cli(*words, "--format", "json").stdout)


def value(text: str, quantity: str) -> Any:
    return evaluate_plan(page.load_from_text(text))[quantity].value


@cache
def searched(text: str) -> dict[str, Any]:
    """The layouts that a page finds of a plan, once for all tests."""
    return find.answer_search({"text": text})


def message(found: dict[str, Any], field: str) -> str:
    """The only fault, which is told beside a field, on a line."""
    (fault,) = found["faults"]
    assert fault["field"] == field and "\n" not in fault["message"]
    return str(fault["message"])


# search --------------------------------------------------------------------------------------


@pytest.mark.slow(every=5)
def test_a_search_ranks_as_the_command_and_taking_a_layout_gives_its_numbers(
    text: str, file: Path, run_cli: RunCli
) -> None:
    best = said(run_cli, "search", file)["best"]
    found = searched(text)
    for rank, layout in enumerate(best):
        assert layout["set"].items() <= found["takes"][rank]["set"].items()
    for rank in (0, len(best) - 1):
        made = find.take_keys({"text": text, "set": found["takes"][rank]["set"]})["text"]
        for quantity in ("time.step_seconds", "memory.process"):
            exact = best[rank]["quantities"][quantity]
            assert float(value(made, quantity)) == pytest.approx(exact, rel=1e-12)
    assert all(f"{rank}</button>" in found["html"] for rank in range(1, 11))


@pytest.mark.slow(every=5)
def test_a_search_keeps_what_it_is_told_to(file: Path, run_cli: RunCli) -> None:
    file.write_text(PLANS["experts"])
    options = ["--fix", "parallelism.pipeline", "--by", "cost.total", "--margin", "5%"]
    words = ["--limit", "time.training_days<=70 days"]
    best = said(run_cli, "search", file, *options, *words)["best"]
    found = find.answer_search({
        "text": PLANS["experts"], "fixed": ["parallelism.pipeline"], "by": "cost.total",
        "margin": "5%", "limit": "time.training_days <= 70 days",
    })  # fmt: skip
    taken = [{k: v for k, v in one["set"].items() if v is not None} for one in found["takes"]]
    assert taken[: len(best)] == [layout["set"] for layout in best]
    assert {keys["parallelism.pipeline"] for keys in taken} == {2}


@pytest.mark.slow
def test_each_point_of_a_picture_is_taken_by_its_own_keys() -> None:
    found = find.answer_search({"text": PLANS["experts"], "textA": PLANS["experts"]})
    points = re.findall(
        r'role="?button"? .*?aria-label="([\d.,]+) s, ([\d.]+) GiB: .*?data-take="?(\d+)',
        found["html"],
    )
    assert len(points) > 30
    for seconds, gib, number in points[:: len(points) // 6]:
        made = find.take_keys({"text": PLANS["experts"], "set": found["takes"][int(number)]["set"]})
        assert f"{float(value(made['text'], 'time.step_seconds')):.3g}" == seconds
        assert f"{float(value(made['text'], 'memory.process')) / 2**30:.3g}" == gib
    assert re.search(r">A</text>", found["html"]) and re.search(r">B</text>", found["html"])


@pytest.mark.slow
def test_where_nothing_fits_the_nearest_layout_is_said_and_can_be_taken(
    tmp_path: Path, run_cli: RunCli
) -> None:
    text = (
        PLANS["experts"]
        .replace("devices: 64", "devices: 8")
        .replace("pipeline: 2\n", "pipeline: 1\n")
    )
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    nearest = run_cli("search", file).stdout
    found = find.answer_search({"text": text})
    assert "No layout fits." in found["html"] and "No layout fits." in nearest
    lacks = re.search(r"lacks ([\d.]+\s\w+)", nearest)
    assert lacks is not None and lacks[1].replace("\n", " ") in found["html"]
    assert (
        len(found["takes"]) == 1 and find.take_keys({"text": text, **found["takes"][0]})["changed"]
    )


def test_what_is_taken_leaves_comments_and_says_only_what_differs() -> None:
    made = find.take_keys(
        {"text": PLANS["dense"], "set": {"parallelism.zero": 1, "training.micro_batch": 32}}
    )
    assert made["text"].startswith(PLANS["dense"].rstrip("\n")[:60]) and "# eight" in made["text"]
    assert made["changed"] == ["parallelism.zero: 0 → 1"]


# questions -----------------------------------------------------------------------------------


TABLES = ("fit-table", "advise")
QUESTIONS = [(a,) for a in find.ASKED if a.option != "budget" and a.question not in TABLES]
SOON = [(one,) for (one,) in QUESTIONS if one.question in ("longest-context", "tokens-by-deadline")]


@pytest.mark.slow
@pytest.mark.parametrize("ask", leave_to_night(QUESTIONS, SOON), ids=lambda a: a.question)
def test_a_question_is_answered_as_by_the_command_and_taken(
    ask: find.Ask, tmp_path: Path, run_cli: RunCli
) -> None:
    text, file = PLANS["experts"], tmp_path / "plan.yaml"
    file.write_text(text)
    options = [f"--{ask.option}", ask.example] if ask.option else []
    answer = said(run_cli, "solve", file, ask.question, *options)
    found = find.answer_solve(
        {"text": text, "question": ask.question, ask.option or "deadline": ask.example}
    )
    run_cli("solve", file, ask.question, *options, "--write")
    taken = found["takes"][0]["set"]
    assert str(taken.pop("name")).startswith("Experts · ")  # the command keeps the plan's name
    made = find.take_keys({"text": text, "set": taken})["text"]
    assert made == file.read_text()
    plan = page.load_from_text(made)
    assert evaluate_plan(plan).hash_input() == evaluate_plan(loading.load(file)).hash_input()
    assert answer["solved"] and f"{ask.label.removesuffix(' …')}:</b>" in found["html"]


def test_a_budget_and_a_question_of_ones_own_are_answered(run_cli: RunCli, tmp_path: Path) -> None:
    text, file = PLANS["experts"], tmp_path / "plan.yaml"
    file.write_text(text)
    spent = find.answer_solve({"text": text, "question": "compute-optimal", "budget": "2M USD"})
    told = run_cli("solve", file, "compute-optimal", "--budget", "2M USD").stdout
    tokens = re.search(r"([\d.,]+[TB]) (?:of )?tokens", told)
    assert tokens is not None and tokens[1] in spent["html"] and spent["takes"] == []
    own = {"vary": "training.micro_batch", "until": "memory.process <= 70 GiB"}
    answer = said(run_cli, "solve", file, "--vary", own["vary"], "--until", own["until"])
    taken = find.answer_solve({"text": text, **own})["takes"][0]["set"]
    assert taken.pop("name").startswith("Experts · ")
    assert taken == answer["holds"]["set"]


@pytest.mark.slow
def test_what_the_devices_of_a_plan_train() -> None:
    text = "\n".join(
        ["model: gpt2-small", "cluster: {accelerator: t4, devices: 1, provider: modal}",
         "training: {sequence_length: 512, global_batch: 8, tokens: 1M, precision: fp16}",
         "parallelism: {}"]
    )  # fmt: skip
    html = find.answer_solve({"text": text, "question": "fit-table"})["html"]
    table = evaluate_fit_table("t4", 1, lengths=["512"])
    assert table.cells[1].row["cost.total"] and len(table.cells) == 27
    for cells in format_fit_table(table).splitlines()[6:8]:
        for number in re.findall(r"\d[\d.]+", cells.partition(" · ")[2]):
            assert number in html


@pytest.mark.slow
def test_each_change_that_experts_would_make_is_taken_with_those_above_it() -> None:
    text = "\n".join(
        ["model: llama3-8b", "cluster: 8 x h100", "parallelism: {tensor: 8, sequence: true}",
         "training: {sequence_length: 4096, global_batch: 64, implementation: megatron}"]
    )  # fmt: skip
    found, path = (
        find.answer_solve({"text": text, "question": "advise"}),
        find_expert_path(page.load_from_text(text)),
    )
    assert len(found["takes"]) == len(path.steps) - 1 > 1
    for take, step in zip(found["takes"], path.steps[1:], strict=True):
        made = page.load_from_text(find.take_keys({"text": text, "set": take["set"]})["text"])
        seconds = float(evaluate_plan(made)["time.step_seconds"].value)
        assert seconds == pytest.approx(step.seconds, rel=1e-9)
        assert numbers.text(step.seconds, "s") in found["html"]


# a chart -------------------------------------------------------------------------------------


@pytest.mark.slow(every=5)
def test_the_points_of_a_chart_are_the_numbers_of_the_plans(
    text: str, file: Path, run_cli: RunCli
) -> None:
    found = find.answer_chart(
        {"text": text, "quantity": "time.training_days", "key": "training.tokens"}
    )
    stated = [one["set"]["training.tokens"] for one in found["takes"]]
    assert len(stated) == len(found["points"]) == 7
    for tokens, point in [*zip(stated, found["points"], strict=True)][::3]:
        whole = said(run_cli, file, "--set", f"training.tokens={tokens}")
        exact = whole["quantities"]["time.training_days"]["value"]
        assert point["value"] == pytest.approx(exact, rel=1e-9)
        assert point["verdict"] == whole["verdict"]["state"]
    assert "this plan</text>" in found["html"]
    study = file.with_name("study.yaml")
    study.write_text(found["study"])
    table = file.with_name("out.csv")
    assert run_cli("sweep", study, "-o", table).returncode == 0
    assert len(table.read_text().splitlines()) == 1 + 7


def test_values_of_a_chart_may_be_grouped_as_the_page_prints_them() -> None:
    body = {"text": PLANS["experts"], "quantity": "Memory", "key": "cluster.devices"}
    plain = find.answer_chart({**body, "values": "1024, 2048"})
    grouped = find.answer_chart({**body, "quantity": "memory", "values": "1,024, 2,048"})
    assert [one["set"] for one in grouped["takes"]] == [one["set"] for one in plain["takes"]]
    assert [one["set"]["cluster.devices"] for one in plain["takes"]] == [1024, 2048]
    asked = find.call_function("chart", {**body, "values": "128,256"})["faults"][0]
    assert asked["field"] == "values" and "128256, or 128, 256" in asked["message"]


def test_a_chart_marks_what_does_not_fit_and_says_what_is_no_plan() -> None:
    body = {"text": PLANS["experts"], "quantity": "memory.process", "key": "cluster.devices"}
    found = find.answer_chart({**body, "values": "8, 16, 64, 65"})
    assert [one["verdict"] for one in found["points"]] == [None, "no", "fits", None]
    assert "k-no" in found["html"] and "Does not fit" in found["html"]
    assert "divide" in found["html"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "key", ["model", "cluster.accelerator", "training.recompute", "parallelism.sequence"]
)
def test_a_control_without_numbers_has_what_is_allowed(key: str) -> None:
    found = find.answer_chart({"text": PLANS["experts"], "quantity": "memory.process", "key": key})
    assert sum(one["value"] is not None for one in found["points"]) > 0
    assert len(found["takes"]) >= 2


# behind a number -----------------------------------------------------------------------------


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "quantity", ["time.mfu", "memory.activations", "parameters.total", "cost.total"]
)
def test_a_derivation_has_the_value_and_the_source_of_the_command(
    text: str, quantity: str, file: Path, run_cli: RunCli
) -> None:
    told = run_cli("explain", file, quantity, "--depth", "1").stdout
    if "absent" in told:
        pytest.skip("the plan has no price")
    found = find.answer_why({"text": text, "id": quantity})["html"]
    number = value(text, quantity)
    assert (
        numbers.text(
            number, evaluate_plan(page.load_from_text(text))[quantity].unit, "exact"
        ).split(" ")[0]
        in found
    )
    assert "<math>" in found or "=" in found
    source = re.search(r"source: (\w+)", told)
    assert source is None or source[1] in found


@pytest.mark.slow
def test_each_input_of_a_derivation_leads_to_its_own_and_to_its_line() -> None:
    text, seen, waiting = PLANS["experts"], set[str](), ["time.step_seconds"]
    while waiting and len(seen) < 40:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        found = find.answer_why({"text": text, "id": asked})
        assert "faults" not in found, (asked, found)
        waiting += re.findall(r'href="?#([\w.\-\[\]%]+)', found["html"])
    assert len(seen) == 40
    line = text.splitlines().index("  micro_batch: 1") + 1
    assert (
        f'data-line="{line}"'
        in find.answer_why({"text": text, "id": "training.micro_batch"})["html"]
    )


@pytest.mark.slow(every=5)
def test_a_report_is_that_of_the_plan_and_what_changed_is_what_diff_says(
    text: str, file: Path, run_cli: RunCli
) -> None:
    data = json.loads(find.answer_report({"text": text, "kind": "json"})["text"])
    assert data["quantities"] == said(run_cli, file)["quantities"]
    whole = find.answer_report({"text": text, "kind": "html"})
    assert "default-src 'none'" in whole["text"] and "<script" not in whole["text"]
    assert find.answer_report({"text": text, "kind": "trace"})["file"].endswith(".trace.json")
    other = file.with_name("other.yaml")
    other.write_text(text.replace("tokens: ", "tokens: 1"))
    told = " ".join(run_cli("diff", file, other).stdout.split())
    found = find.answer_diff({"textA": text, "text": other.read_text()})
    assert " ".join(found["sentence"].split()).partition(":")[2][:60] in told
    assert "training.tokens" in found["html"]


def test_the_lists_of_the_panel_have_the_quantities_and_the_keys() -> None:
    found = find.list_controls({"text": PLANS["dense"]})
    for word in ("time.training_days", "memory.process", "parallelism.tensor", "cluster.devices"):
        assert f'value="{word}"' in found["find"].replace(f"value={word}", f'value="{word}"')
    assert 'id="draw"' in found["chart"]
    assert "find" in find.list_controls({"text": ": : :"})


# what is wrong, and what is meant to do harm -------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body", "field", "words"),
    [
        *read_data("serve")["faults_of_fields"],
        ("chart", {"quantity": "time.mfu", "key": "k" * 400}, "key", "300"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_beside_its_field(
    name: str, body: dict[str, Any], field: str, words: str
) -> None:
    found = find.call_function(name, {"text": PLANS["dense"], **body})
    assert words in message(found, field) and "--" not in message(found, field)


def test_a_plan_that_is_none_is_told_with_its_line() -> None:
    for name in find.FUNCTIONS:
        *_, fault = find.call_function(name, {"text": "model: gpt2-small\nmodle: x\n"})["faults"]
        assert fault["line"] == 2 and "model" in fault["message"]
        assert "text" in message(find.call_function(name, {}), "")


@pytest.mark.slow
def test_names_that_are_meant_to_do_harm_do_none() -> None:
    text = PLANS["experts"].replace("name: Experts", f"name: {json.dumps(HOSTILE)}")
    text += f"quantities:\n  evil: {{formula: cost.total * 2, title: {json.dumps(HOSTILE)}}}\n"
    calls = [
        find.answer_search({"text": text, "textA": text}),
        find.answer_solve({"text": text, "question": "longest-context"}),
        find.answer_solve(
            {"text": text, "vary": "training.micro_batch", "until": "evil <= 9M USD"}
        ),
        find.answer_chart({"text": text, "quantity": "evil", "key": "training.tokens"}),
        find.answer_why({"text": text, "id": "evil"}),
        find.answer_diff({"textA": text, "text": text.replace("tokens: 2T", "tokens: 3T")}),
        find.list_controls({"text": text}),
        find.call_function("chart", {"text": text, "quantity": HOSTILE, "key": HOSTILE}),
        find.call_function("why", {"text": text, "id": HOSTILE}),
    ]
    for found in calls:
        for part in ("html", "find", "chart"):
            assert "<script" not in found.get(part, "")
    report = find.answer_report({"text": text, "kind": "html"})
    assert "<script" not in report["text"] and re.fullmatch(r"[\w\-.]+", report["file"])
    assert yaml_nodes.parse_yaml(calls[3]["study"], "study") is not None


# over HTTP -----------------------------------------------------------------------------------


def lines(server: Server, name: str, body: dict[str, Any]) -> list[Any]:
    status, raw, _ = server.ask("POST", f"/find/{name}", body)
    assert status == 200
    return [json.loads(line) for line in raw.decode().splitlines()]


@pytest.mark.slow
def test_a_search_tells_how_far_it_is_and_what_it_found(server: Server) -> None:
    *before, last = lines(server, "search", {"text": PLANS["experts"]})
    assert any(re.fullmatch(r"[\d,]+ of [\d,]+ layouts", line["progress"]) for line in before)
    exact = searched(PLANS["experts"])
    assert last["done"]["takes"] == json.loads(json.dumps(exact["takes"]))


@pytest.mark.slow
def test_work_whose_page_goes_away_ends_and_leaves_room(server: Server) -> None:
    text = PLANS["experts"].partition("parallelism")[0] + "parallelism: auto\n"
    values = ", ".join(str(8 * n) for n in range(8, 48))  # a search for each
    body = json.dumps(
        {"text": text, "quantity": "time.mfu", "key": "cluster.devices", "values": values}
    )
    seen = set[int]()
    for _ in range(3):  # one more than there are processes
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", "/find/chart", body)
        time.sleep(0.8)
        seen |= set(server.group())
        connection.close()
    assert lines(server, "report", {"text": PLANS["dense"], "kind": "json"})[-1]["done"]["text"]
    assert seen - set(server.group()), "no process ended"


@pytest.mark.slow
def test_nothing_is_read_from_the_machine_by_a_path_in_a_document(
    server: Server, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text(PLANS["dense"].replace("A node", "secret-name"))
    for path in (str(secret), os.path.relpath(secret, ROOT)):
        text = f"extends: {path}\ntraining: {{tokens: 1T}}\n"
        drawn = {"quantity": "time.mfu", "key": "training.tokens"}
        for name, body in (
            ("chart", drawn),
            ("report", {}),
            ("solve", {"question": "longest-context"}),
            ("search", {}),
        ):
            last = lines(server, name, {"text": text, **body})[-1]
            assert last["done"]["faults"] and "secret-name" not in json.dumps(last)
        answer = server.ask("POST", "/page/take", {"text": PLANS["dense"], "set": {"model": path}})[
            1
        ]
        assert answer["faults"] and "secret-name" not in json.dumps(answer)


@pytest.mark.slow
def test_fractions_cross_as_numbers(server: Server) -> None:
    text = PLANS["dense"] + "time: {mfu: 1/3, use: assumed}\n"
    last = lines(
        server, "chart", {"text": text, "quantity": "time.training_days", "key": "time.mfu"}
    )[-1]
    assert [
        Fraction(str(one["set"]["time.mfu"])).limit_denominator(50) for one in last["done"]["takes"]
    ][3] == Fraction(1, 3)
