"""A checkout of which a stranger made every file: no name in it begins a command of GitHub or a
block of a comment, none stands for standard input, none outside is told, and no report takes long
to be refused."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from planner.base import files
from planner.cli import main
from planner.documents import references
from planner.report.report import escape_md
from planner.review import branches, check, diff, reports, revisions
from planner.review.branches import PlanChange

PLAN = """\
name: small
model: gpt2-small
cluster: {accelerator: h100-sxm-80gb, devices: 8}
training: {tokens: 1B, sequence_length: 1024, global_batch: 64}
time: {mfu: 0.4}
"""
#: Whatever Python or Markdown takes for the end of a line.
ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


@pytest.mark.parametrize("command", ["check", "validate"])
@pytest.mark.parametrize("key", ["reports", "rates"])
def test_a_name_that_no_file_can_have_is_one_fault(
    checkout: Path, capfd: pytest.CaptureFixture[str], key: str, command: str
) -> None:
    name = "::warning::x\n::add-mask::y" + "a" * 300
    (checkout / "trainplan.yaml").write_text(f"{key}: [{json.dumps(name)}]\n")
    main.main([command, "--format", "github", "--root", ".", *["."] * (command == "validate")])
    said = capfd.readouterr()
    commands = [line for line in f"{said.out}{said.err}".splitlines() if "::" in line]
    assert all(c.startswith("::error file=trainplan.yaml,line=1,col=") for c in commands)
    assert commands or (key, command) == ("reports", "validate")


@pytest.mark.parametrize("how", ["github", "json", "text"])
def test_what_the_system_refuses_is_a_fault_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    def refused(options: Namespace) -> int:
        options.faults = how
        raise OSError(36, "File name too long", "x\n::add-mask::y")

    monkeypatch.setattr(main, "_run_handler", refused)
    monkeypatch.setattr(main, "_drop_output", lambda: None)
    assert main.main(["validate", "--format", "github", "."]) == 2
    said = capfd.readouterr()
    assert not [line for line in f"{said.out}{said.err}".splitlines() if line.startswith("::add")]
    assert said.err.count("\n") == (how == "text") and "name too long" in f"{said.out}{said.err}"


def test_no_document_names_standard_input(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither as a model of a plan, nor as what it extends, nor as the plan of a report."""
    assert main.main(["plan.yaml", "-o", "a.json"]) == 0
    report = json.loads((checkout / "a.json").read_text("utf-8"))
    report["plan"]["document"] = "-"
    (checkout / "a.json").write_text(json.dumps(report))
    (checkout / "-").write_text(PLAN)
    (checkout / "b.yaml").write_text(PLAN.replace("gpt2-small", '"-"'))
    (checkout / "c.yaml").write_text("extends: '-'\n" + PLAN)
    standard = io.TextIOWrapper(io.BytesIO(b"secret: 1\n"))
    monkeypatch.setattr(sys, "stdin", standard)
    main.main(["check", "--root", ".", "."])
    main.main(["validate", "--root", ".", "."])
    said = capsys.readouterr()
    assert standard.buffer.tell() == 0 and "secret" not in said.out + said.err
    assert "b.yaml:2:8: " in said.err and "c.yaml:1:10: " in said.err


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("block", ["# x", "- x", "1. x", "    x", "===", "---", "| a |", "> x"])
def test_words_in_markdown_stay_on_their_line(end: str, block: str) -> None:
    assert len(escape_md(f"name{end}{end}{block}{end}.yaml").splitlines()) == 1
    path = f"plans/a{end}{end}{block}.yaml"
    one = PlanChange("a.yaml", "new", path, (path,), summary="x")
    lines = branches.render_branches([one]).splitlines()
    assert not [line for line in lines if line.startswith(block)]
    assert sum("documents that changed" in line and line.endswith(".yaml.") for line in lines) == 1


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "text",
    ["<pre\n", "<p\n", "trainplan x; ", "python plan.py\n", "<", "](", "a 1 ", "\n", "#\n", "1,"],
)
def test_a_forged_report_is_read_in_time(tmp_path: Path, text: str) -> None:
    """A megabyte of whatever our patterns begin with, beside what a report ends with."""
    forged = text * (1_000_000 // len(text))
    file = tmp_path / "a.md"
    file.write_text(f"{forged}\npython plan.py a.yaml\ntrainplan 1; resolved input `ab`\n")
    fresh = [*(f"line {n}" for n in range(300)), f"{forged[:100_000]}2", "python plan.py a.yaml"]
    forged_lines = [part for line in fresh for part in (line, *forged[:3000].splitlines())]
    start = time.process_time()
    assert reports.read_claim(file) is not None
    reports.read_footer(file.read_text())
    check._compare_lines(file.read_text().splitlines(), fresh)
    check._compare_lines(forged_lines, fresh)
    assert time.process_time() - start < 4


def test_lines_beyond_a_report_are_told() -> None:
    fresh = [f"line {n}" for n in range(10)]
    kind, told = check._compare_lines([*fresh, *["more"] * 5000, "costs 7"], fresh)
    assert kind == "numbers" and check.LONGER * len(fresh) + 1001 in [line for line, _ in told]


def test_like_documents_are_found_in_time() -> None:
    start = time.process_time()
    assert branches._measure_match(["#"] * 50_000, ["#"] * 50_000 + ["x"]) > branches.ALIKE
    assert time.process_time() - start < 2


def test_names_outside_the_bound_are_not_listed(tmp_path: Path) -> None:
    """Where a checkout looks like this program its presets are its own, wherever links lead."""
    inside = tmp_path / "checkout"
    (tmp_path / "outside").mkdir()
    (inside / "presets").mkdir(parents=True)
    (tmp_path / "outside" / "secret.yaml").write_text("name: x\n")
    os.symlink(tmp_path / "outside", inside / "presets" / "models")
    assert references.preset_names("model", inside / "presets") == ["secret"]
    with files.restrict_reading(inside):
        assert references.preset_names("model", inside / "presets") == []


def test_a_link_that_no_system_makes_is_left_out(checkout: Path) -> None:
    def git(*words: str, given: bytes | None = None) -> str:
        who: Any = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(who, input=given, check=True, capture_output=True).stdout.decode()

    git("init", "--quiet")
    blob = git("hash-object", "-w", "--stdin", given=b"a\0b").strip()
    git("update-index", "--add", "--cacheinfo", f"120000,{blob},link.yaml")
    git("add", "plan.yaml")
    git("commit", "--quiet", "--message", "x")
    (checkout / "copy").mkdir()
    revisions.copy_tree("HEAD", checkout / "copy")
    assert [one.name for one in (checkout / "copy").iterdir()] == ["plan.yaml"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (10**400, f"1{'0' * 388}T"),
        (2e9, "2B"),
        (123_456_789 * 10**9, "123456.789T"),
        (1.5e308, "1.5e308"),
        (12 * 10**12, "12T"),
    ],
)
def test_an_input_of_any_size_is_told_exactly(value: float, told: str) -> None:
    """A report in JSON states what it likes."""
    assert diff._format_as_plan("training.tokens", value).replace(",", "") == told
