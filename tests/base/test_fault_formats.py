"""Faults for programs: what GitHub's runner and readers of SARIF and JSON find."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from planner.base import fault_formats
from planner.base.errors import Fault, Place
from planner.cli import main as cli

BROKEN = "model: llama2-70c\ncluster: {accelerator: h100-sxm-80gb, devices: 8}\ntraining: 3\n"
HOSTILE = ["a,b%: c.yaml", "a%0Ab.yaml", "::set-output name=x::y.yaml", "-o.yaml", "a\nb'\" .yaml"]


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as actions/runner reads them (ActionCommand.TryParseV2): a line, trimmed,
    that begins with ::, the name and properties up to the next ::, then the message."""
    found = []
    for line in text.splitlines():
        assert line.startswith("::") and "##[" not in line.partition("::")[0]
        head, _, data = line[2:].partition("::")
        name, _, rest = head.partition(" ")
        pairs = (pair.split("=", 1) for pair in rest.split(",") if pair)
        properties = {key.strip(): value for key, value in pairs}
        for coded, plain in (
            ("%0D", "\r"),
            ("%0A", "\n"),
            ("%3A", ":"),
            ("%2C", ","),
            ("%25", "%"),
        ):
            properties = {key: value.replace(coded, plain) for key, value in properties.items()}
        for coded, plain in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            data = data.replace(coded, plain)
        found.append((name, properties, data))
    return found


def faults_of(path: Path, how: str, capsys: pytest.CaptureFixture[str]) -> str:
    path.write_text(BROKEN)
    # A name that begins with a dash is no option.
    assert cli.main(["validate", "--format", how, f"./{path.name}"]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("name", HOSTILE)
def test_github_reads_each_fault_at_its_line_whatever_the_file_is_called(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands(faults_of(tmp_path / name, "github", capsys))
    assert [command for command, _, _ in found] == ["error"] * len(found)
    places = [(p["file"], p["line"], p["col"]) for _, p, _ in found]
    assert places == [(name, "1", "8"), (name, "3", "11")]
    assert "did you mean 'llama2-70b'?" in found[0][2]


@pytest.mark.parametrize("name", HOSTILE)
def test_sarif_names_the_file_by_a_relative_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = json.loads(faults_of(tmp_path / name, "sarif", capsys))
    of_sarif_2_1_0(log)
    places = [r["locations"][0]["physicalLocation"] for r in log["runs"][0]["results"]]
    for place in places:
        uri = place["artifactLocation"]["uri"]
        parts = urlsplit(uri)
        assert not (parts.scheme or parts.netloc or parts.query or parts.fragment)
        assert unquote(uri) == name and re.fullmatch(r"[\w.~%/'-]+", uri)
    assert [p["region"] for p in places] == [
        {"startLine": 1, "startColumn": 8},
        {"startLine": 3, "startColumn": 11},
    ]


def of_sarif_2_1_0(log: dict[str, Any]) -> None:
    """What the standard asks of the parts that are written here (OASIS SARIF 2.1.0, sections 3.13,
    3.14, 3.18, 3.19, 3.27, 3.28, 3.29, 3.30 and 3.49)."""
    assert set(log) <= {"$schema", "version", "runs"} and log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) <= {"tool", "results", "columnKind"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    driver = run["tool"]["driver"]
    assert set(driver) <= {"name", "semanticVersion", "rules"} and driver["name"]
    assert re.fullmatch(r"\d+\.\d+\.\d+([-+].*)?", driver["semanticVersion"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    for result in run["results"]:
        assert set(result) <= {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert isinstance(result["message"]["text"], str)
        for location in result.get("locations", []):
            (physical,) = location.values()
            assert list(location) == ["physicalLocation"] and "artifactLocation" in physical
            assert all(number >= 1 for number in physical.get("region", {}).values())


def test_json_has_the_form_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(faults_of(tmp_path / "a.yaml", "json", capsys))
    assert list(found) == ["faults"]
    places = [(f["place"], f["file"], f["line"], f["column"]) for f in found["faults"]]
    assert places == [("a.yaml:1:8", "a.yaml", 1, 8), ("a.yaml:3:11", "a.yaml", 3, 11)]
    assert all(f["message"] and "a.yaml" not in f["message"] for f in found["faults"])


@pytest.mark.parametrize(
    ("how", "empty"), [("github", "valid documents: 1\n"), ("json", '{\n  "faults": []\n}\n')]
)
def test_what_is_valid_has_no_faults(
    how: str, empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(Path(__file__).resolve().parents[2] / "presets" / "gpt2small_hgx-h100.yaml")
    assert cli.main(["validate", plan, "--format", how]) == cli.OK
    assert capsys.readouterr().out == empty


def test_what_is_no_file_stands_in_the_message() -> None:
    """An option of the command line is at no line of a file."""
    fault = Fault("unknown key 'x'", Place("--set training.x=1"))
    row = fault_formats.list_fault_rows([fault, Fault("out of place", None)])
    found = commands(fault_formats.format_github(row, fault_formats.RULES))
    assert [p.keys() for _, p, _ in found] == [{"title"}, {"title"}]
    assert found[0][2] == "--set training.x=1: unknown key 'x'" and found[1][2] == "out of place"
    log = json.loads(fault_formats.format_sarif(row, fault_formats.RULES))
    of_sarif_2_1_0(log)
    assert all("locations" not in result for result in log["runs"][0]["results"])


def test_a_document_cannot_smuggle_a_command_into_the_log() -> None:
    smuggled = "x\r\n::add-mask::y\u2028::set-output name=a::b"
    row = fault_formats.list_fault_rows(
        [Fault(smuggled, Place("a.yaml\n::stop-commands::t", 1, 1))]
    )
    text = fault_formats.format_github(row, fault_formats.RULES)
    assert text.count("\n") == 1 and text.startswith("::error ") and "\r" not in text
    assert len(commands(text)) == 1


def test_a_command_that_fails_at_once_answers_in_the_format_that_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["check", "nowhere", "--format", "json"]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    (fault,) = json.loads(out)["faults"]
    assert fault["place"] == "nowhere" and fault["message"] == "no such file or folder"
    assert err == ""
