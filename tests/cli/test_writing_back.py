"""Answers and layouts are put into a plan's file, of which nothing else changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import planner
from planner.base.errors import PlanError
from planner.questions.write_back import write_values
from tests.conftest import ROOT, RunCli, read_data

SHIPPED = sorted((ROOT / "presets").glob("*.yaml"))
SMALL = """\
# ours
extends: gpt2small_hgx-h100
training:
  global_batch: 256    # sequences
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false")
    done = subprocess.run(
        ["git", *name, *words], cwd=folder, capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout


def committed(folder: Path, text: str, name: str = "plan.yaml") -> Path:
    (folder / name).write_bytes(text.encode())
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a plan")
    return folder / name


def changed_lines(folder: Path) -> list[str]:
    """The lines of git's diff that came and went."""
    lines = git(folder, "diff", "-U0").splitlines()
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_of_a_shipped_plan_only_the_changed_lines_change(path: Path, folder: Path) -> None:
    plan = committed(folder, path.read_text("utf-8"))
    was = planner.load(plan).plan.get("training.tokens")
    told = write_values("plan.yaml", {"training.tokens": was * 2})
    lines = changed_lines(folder)
    assert len(lines) == 2 and all("tokens:" in line for line in lines)
    assert told.splitlines()[0] == "plan.yaml" and "training.tokens: " in told
    assert planner.load(plan).plan.get("training.tokens") == was * 2
    assert write_values("plan.yaml", {"training.tokens": was * 2}) == "plan.yaml: nothing changes\n"
    write_values("plan.yaml", {"training.tokens": was})
    assert not changed_lines(folder)


@pytest.mark.slow
def test_solve_writes_in_place_or_a_copy(folder: Path, run_cli: RunCli) -> None:
    committed(folder, SMALL)
    asked = ("solve", "plan.yaml", "tokens-by-deadline", "--deadline", "2 days")
    done = run_cli(*asked, "-o", "copy.yaml", cwd=folder)
    assert done.returncode == 0 and "copy.yaml\n  training.tokens: " in done.stderr
    assert not changed_lines(folder)
    assert run_cli(*asked, "--write", cwd=folder).returncode == 0
    assert (folder / "plan.yaml").read_bytes() == (folder / "copy.yaml").read_bytes()
    (line,) = changed_lines(folder)  # what the plan extends says the rest
    assert line.startswith("+  tokens: ")
    again = run_cli(*asked, "--write", cwd=folder)
    assert again.stderr == "plan.yaml: nothing changes\n"


@pytest.mark.slow
def test_search_puts_its_layout_into_the_plan(folder: Path, run_cli: RunCli) -> None:
    plan = committed(folder, SMALL.replace("\n", "\r\n"))
    found = planner.load(plan).search(top=2)
    done = run_cli("search", "plan.yaml", "--apply", "plan.yaml", "--rank", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    applied = planner.load(plan)
    for key, value in found.best[1].changes.items():
        assert applied.plan.get(key) == value, key
    total = applied.evaluate()["memory.process"].value
    assert total == found.best[1].values["memory.process"]
    assert all(line.startswith("+") for line in changed_lines(folder))
    assert b"\n" not in plan.read_bytes().replace(b"\r\n", b"")


@pytest.mark.slow
def test_a_layout_that_was_open_is_spelled_out(folder: Path, run_cli: RunCli) -> None:
    text = SMALL + "parallelism: auto  # for now\n"
    plan = committed(folder, text.replace("extends: gpt2small_hgx-h100", OWN))
    done = run_cli("search", "plan.yaml", "--apply", "plan.yaml", "--rank=plainest", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "  # for now\n" in plan.read_text() and "auto" not in plan.read_text()
    assert "auto" not in planner.load(plan).plan.data["parallelism"]


OWN = """model: gpt2-small
cluster: 8 x h100-sxm-80gb"""


def test_what_a_plan_extends_is_taken_away_by_null(folder: Path) -> None:
    committed(folder, "extends: gpt3_a100x1024\nname: mine\n")
    write_values("plan.yaml", {"time.mfu": None})
    assert changed_lines(folder) == ["+time:", "+  mfu: null"]
    assert planner.load("plan.yaml").plan.get("time.mfu") is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *read_data("cli")["unwritable"],
        pytest.param(
            ("search", "plan.yaml", "--apply", "nix.yaml"), "no such file", marks=pytest.mark.slow
        ),
        pytest.param(
            ("search", "plan.yaml", "--apply", "plan.yaml", "--rank", "99"),
            "or simplest",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_written_is_one_line(
    words: tuple[str, ...], said: str, folder: Path, run_cli: RunCli
) -> None:
    committed(folder, SMALL)
    done = run_cli(*words, cwd=folder, stdin=SMALL)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert not changed_lines(folder) and len(list(folder.glob("*.yaml"))) == 1


def test_a_value_that_others_share_stays(folder: Path) -> None:
    text = SMALL.replace("256 ", "&b 256 ") + "  micro_batch: *b\n"
    committed(folder, text)
    with pytest.raises(PlanError):
        write_values("plan.yaml", {"training.global_batch": 512})
    write_values("plan.yaml", {"training.micro_batch": 4})
    assert changed_lines(folder) == ["-  micro_batch: *b", "+  micro_batch: 4"]


def test_an_answer_that_makes_no_valid_plan_is_not_written(folder: Path) -> None:
    committed(folder, SMALL)
    with pytest.raises(PlanError):
        write_values("plan.yaml", {"parallelism.tensor": 7})
    assert not changed_lines(folder)
