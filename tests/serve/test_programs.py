"""The planner for programs: what it answers is what the command line prints."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.cli import main
from planner.cli.commands import COMMANDS
from planner.serve.programs import DOCUMENTS, LEFT_OUT, OUTSIDE, TOOLS
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
PLAN = "llama70b_h100x1024"
TEXT = (ROOT / "presets" / f"{PLAN}.yaml").read_text("utf-8")
LAST = TEXT.count("\n") + 1
SEVEN = TEXT.replace("tensor: 4", "tensor: 7")
FOUR = ["time.training_days", "memory.total", "time.mfu", "cost.total"]


def printed(*words: str) -> Any:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main.main([*words, "--format=json"]) in (0, 1)
    return json.loads(out.getvalue())


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("tool", "body", "words"),
    [
        *read_data("serve")["answers_of_programs"],
        (
            "evaluate",
            {"plan": PLAN, "set": ["time.mfu=0.4"], "quantities": FOUR},
            ["report", PLAN, "--set=time.mfu=0.4", *(f"--only={one}" for one in FOUR)],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_is_the_command_lines(
    server: Any, tool: str, body: dict[str, Any], words: list[str]
) -> None:
    status, answer, _ = server.ask("POST", f"/v1/{tool}", body)
    assert status == 200, answer
    assert answer == printed(*words)


def test_a_document_is_an_object_a_text_or_a_name(server: Any) -> None:
    said = {}
    for kind, plan in {"name": PLAN, "text": TEXT, "object": yaml.safe_load(TEXT)}.items():
        status, answer, _ = server.ask("POST", "/v1/evaluate", {"plan": plan, "quantities": FOUR})
        assert status == 200
        assert set(answer["quantities"]) == set(FOUR)
        said[kind] = (answer["quantities"], answer["plan"]["fingerprint"], answer["verdict"])
    assert said["name"] == said["text"] == said["object"]


def test_a_few_quantities_are_those_of_all(server: Any) -> None:
    all_of_them = server.ask("POST", "/v1/evaluate", {"plan": TEXT})[1]["quantities"]
    few = server.ask("POST", "/v1/evaluate", {"plan": TEXT, "quantities": ["memory.", "mfu"]})[1]
    assert len(few["quantities"]) > 10
    for name, quantity in few["quantities"].items():
        assert quantity == {k: v for k, v in all_of_them[name].items() if k != "used_by"}
    assert set(few["quantities"]) - {"time.mfu"} == {
        name for name in all_of_them if re.fullmatch(r"memory\.[^[]*", name)
    }


def test_fields_are_those_of_the_whole_answer(server: Any) -> None:
    whole = server.ask("POST", "/v1/evaluate", {"plan": TEXT, "quantities": FOUR})[1]
    asked = {"plan": TEXT, "fields": ["verdict", "quantities.*.value", "quantities.*.interval"]}
    status, brief, _ = server.ask("POST", "/v1/evaluate", asked)
    assert status == 200 and [*brief] == ["verdict", "quantities"]
    assert brief["verdict"] == whole["verdict"] and len(json.dumps(brief)) < 2000
    assert {*FOUR} - {*brief["quantities"]} == {"memory.total"}  # others are headline quantities
    for name in {*FOUR} - {"memory.total"}:
        kept = {k: v for k, v in whole["quantities"][name].items() if k in ("value", "interval")}
        assert brief["quantities"][name] == kept
    few = server.ask("POST", "/v1/evaluate", {**asked, "quantities": ["parameters.total"]})[1]
    assert [*few["quantities"]] == ["parameters.total"]
    asked = {"plan": PLAN, "top": 2, "fix": ["parallelism.tensor=8"], "fields": ["best.set"]}
    assert [[*one] for one in server.ask("POST", "/v1/search", asked)[1]["best"]] == [["set"]] * 2


def test_the_text_of_an_error_stands_beside_settings(server: Any) -> None:
    """Its key has the name of one of the page's, whose bodies have other types."""
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
    text += "total capacity of 79.15 GiB of which 1.50 GiB is free."
    body = {"plan": yaml.safe_load(TEXT), "text": text, "set": {"training.micro_batch": 2}}
    status, answer, _ = server.ask("POST", "/v1/explain-oom", body)
    assert status == 200, answer


def test_an_answer_of_no_is_an_answer(server: Any) -> None:
    alone = {"parallelism.tensor": 1, "parallelism.pipeline": 1, "parallelism.sequence": False}
    body = {"plan": PLAN, "set": alone}
    status, answer, _ = server.ask("POST", "/v1/evaluate", body)
    assert status == 200 and answer["verdict"]["state"] == "no"
    asked = {"question": "longest-context", "with_layout": "own"}
    status, answer, _ = server.ask("POST", "/v1/solve", body | asked)
    assert status == 200 and answer["solved"] is False


@pytest.mark.parametrize(
    ("tool", "body", "place", "words"),
    [
        *read_data("serve")["faults_of_programs"],
        ("evaluate", {"plan": TEXT + "colour: red\n"}, f"plan.yaml:{LAST}:1", "colour"),
        ("evaluate", {"plan": SEVEN}, "plan.yaml:14:11", "heads"),
        ("search", {"plan": PLAN, "top": 10**12}, "", "at most 1000"),
    ],
)
def test_a_fault_has_its_place_and_what_is_allowed(
    server: Any, tool: str, body: dict[str, Any], place: str, words: str
) -> None:
    status, answer, _ = server.ask("POST", f"/v1/{tool}", body)
    assert status == 422, answer
    (fault, *_) = [one for one in answer["faults"] if words in one["message"]]
    assert fault["place"].startswith(place) if place else fault["place"] == ""


@pytest.mark.slow
def test_no_option_that_names_a_file_is_a_key() -> None:
    from planner.serve.programs import build_programs

    for tool in build_programs(COMMANDS, main.run_words).tools.values():
        flags = {option.flag for option in tool.options.values() if option.holds != "text"}
        for names, how in COMMANDS[tool.command].arguments:
            named = OUTSIDE.search(str(how.get("metavar"))) or names[-1][2:] in LEFT_OUT
            assert not (named and names[-1] in flags)
    everything = {
        names[-1].removeprefix("--")
        for command in TOOLS.values()
        for names, how in COMMANDS[command].arguments
        if OUTSIDE.search(str(how.get("metavar")))
    }
    assert everything == {"plan", "output", "templates", "apply", "plans", "snapshot", "text"}
    assert "plan" in DOCUMENTS
