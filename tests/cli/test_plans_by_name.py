"""A plan that ships is asked for by its name, from any folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner.documents.references import list_plans
from tests.conftest import ROOT, read_data

NAMES = list_plans()


def trainplan(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The program, run as it is installed: from a folder that is no checkout."""
    return subprocess.run(
        [sys.executable, "-m", "planner", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_what_its_file_means(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = planner.load(name).evaluate().to_json()
    monkeypatch.chdir(ROOT)
    by_file = planner.load(ROOT / "presets" / f"{name}.yaml").evaluate().to_json()
    assert by_name["plan"].pop("document") == name
    assert by_file["plan"].pop("document") == f"presets/{name}.yaml"
    assert by_name == by_file


def test_a_file_that_is_there_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt3_a100x1024.yaml").write_text("extends: gpt2small_hgx-h100\nname: mine\n")
    plan = planner.load("gpt3_a100x1024")
    assert plan.name == "mine"
    assert plan.evaluate().document == "gpt3_a100x1024.yaml"
    (tmp_path / "gpt2small_hgx-h100").mkdir()  # a folder is no plan
    assert planner.load("gpt2small_hgx-h100").evaluate().document == "gpt2small_hgx-h100"


@pytest.mark.slow
def test_every_command_that_takes_a_plan_takes_a_name(tmp_path: Path) -> None:
    name = "gpt2small_hgx-h100"
    for words in (
        (name,),
        ("report", name),
        ("validate", name),
        ("explain", name, "time.mfu"),
        ("solve", name, "longest-context"),
        ("export", name, "--to", "megatron"),
        ("diff", name, "gpt3_a100x1024"),
        ("--progress", name, "--set", "training.tokens=1B"),
    ):
        done = trainplan(tmp_path, *words)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout


@pytest.mark.slow
def test_a_report_of_a_name_is_checked_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    outputs = ("-o", "reports/r.md", "-o", "reports/r.json")
    assert trainplan(tmp_path, "gpt2small_hgx-h100", *outputs).returncode == 0
    said = json.loads((tmp_path / "reports" / "r.json").read_text())["plan"]["document"]
    assert said == "gpt2small_hgx-h100"
    done = trainplan(tmp_path, "check", "reports")
    assert (done.returncode, done.stdout) == (0, "2 reports, none drifted\n")


@pytest.mark.parametrize(("words", "said"), read_data("faults")["mistyped_names"])
def test_a_mistyped_name_is_one_line_with_the_nearest(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = trainplan(tmp_path, *words)
    assert done.returncode == 2 and not done.stdout
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_list_plans_shows_the_names(tmp_path: Path) -> None:
    shown = [line.split()[0] for line in trainplan(tmp_path, "list", "plans").stdout.splitlines()]
    assert shown == NAMES


def test_a_name_is_read_whatever_root_says(tmp_path: Path) -> None:
    done = trainplan(tmp_path, "--root", ".", "gpt2small_hgx-h100")
    assert done.returncode == 0, done.stderr
