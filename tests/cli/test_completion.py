"""What is offered when Tab is pressed, asked as a shell asks; and that bash takes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from planner.base.errors import PlanError
from planner.cli.completion import SHELLS, build_script
from planner.cli.main import COMMANDS
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]


def test_completion_without_argcomplete_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    with pytest.raises(PlanError, match=r"completion needs argcomplete \(pip install"):
        build_script("bash")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_read_by_its_shell(shell: str, tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    text = build_script(shell)
    assert "trainplan" in text and "plan.py" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([shell, "-n", file], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def asked(line: str, cwd: Path) -> set[str]:
    """What the program answers a shell in which Tab is pressed at the end of a line."""
    pytest.importorskip("argcomplete")
    answer = cwd / "answer"
    told = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, ROOT / "plan.py"], cwd=cwd, env={**os.environ, **told})
    return {word.strip() for word in answer.read_text("utf-8").split("\n")} - {""}


#: A line, and what is offered at its end.
LINES = read_data("cli")["completion"]


@pytest.mark.parametrize(("line", "offered"), LINES)
def test_the_program_offers(line: str, offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").touch()
    assert asked(line, tmp_path) == {*offered}


def test_every_command_and_option_is_offered(tmp_path: Path) -> None:
    assert set(COMMANDS) <= asked("trainplan ", tmp_path)
    assert {"--top", "--by", "--set", "--root", "--debug"} <= asked("trainplan search --", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_offers_a_plan_file_and_what_a_command_takes(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    program = tmp_path / "trainplan"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "plan.py"} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(build_script("bash"), encoding="utf-8")
    ask = (
        "source ./script; COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_WORDBREAKS=$' =:';"
        "_python_argcomplete trainplan; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    for line, offered in (
        ("trainplan plan.yaml --format h", "html"),
        ("trainplan report plan.yaml --set model=gpt2-s", "gpt2-small"),
        ("trainplan pl", ""),  # bash itself offers files then
    ):
        done = subprocess.run(
            ["bash", "--norc", "-c", ask, "bash", line],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert done.stdout.strip() == offered, line
    assert "-o default" in build_script("bash")
