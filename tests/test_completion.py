"""Completion scripts: in bash by asking a shell, in zsh and fish by what they hold."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from planner.cli.completion import SHELLS, commands, script
from planner.cli.main import COMMANDS, _parser
from planner.documents.source import preset_names

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = {shell: script(shell, _parser()) for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(shell: str) -> None:
    text = SCRIPTS[shell]
    for command in commands(_parser()):
        assert command.name in text
        for argument in command.options:
            for option in argument.options:
                assert (option.lstrip("-") if shell == "fish" else option) in text, option
    assert {command.name for command in commands(_parser())} == set(COMMANDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_presets_quantities_and_frameworks_are_completed(shell: str) -> None:
    for word in (
        *preset_names("model"),
        *preset_names("accelerator"),
        "memory.activations",
        "largest-model",
        "torchtitan",
        "training.tokens=",
    ):
        assert word in SCRIPTS[shell], word


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_read_by_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(SCRIPTS[shell], encoding="utf-8")
    done = subprocess.run([shell, "-n", file], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def bash(line: str, cwd: Path) -> set[str]:
    """What bash offers when Tab is pressed at the end of the line."""
    (cwd / "script").write_text(SCRIPTS["bash"], encoding="utf-8")
    ask = (
        "source ./script; COMP_LINE=$1 COMP_POINT=${#1}; _trainplan; printf '%s\\n' "
        '"${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", ask, "bash", line],
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n")) - {""}


def fish(line: str, cwd: Path) -> set[str]:
    """What fish offers when Tab is pressed at the end of the line."""
    (cwd / "script").write_text(SCRIPTS["fish"], encoding="utf-8")
    done = subprocess.run(
        ["fish", "--no-config", "-c", "source script; complete -C $argv[1]", line],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {offer.split("\t")[0] for offer in done.stdout.splitlines()} - {"script"}


#: An interactive zsh that completes a line and writes down what became of it.
_ZSH = """
PS1= ; unsetopt zle_bracketed_paste 2>/dev/null
autoload -Uz compinit && compinit -u -D
fpath=($PWD/functions $fpath); autoload -Uz _trainplan; compdef _trainplan trainplan
ask() { LBUFFER=$LINE; zle complete-word; print -r -- $LBUFFER >line; mv line done }
zle -N ask; bindkey '^T' ask
"""


def zsh(line: str, cwd: Path) -> set[str]:
    """What zsh offers when Tab is pressed at the end of the line, asked of an interactive shell.
    One offer completes the line, several are listed below it, each with its description."""
    import pty

    (cwd / "functions").mkdir()
    (cwd / "functions" / "_trainplan").write_text(SCRIPTS["zsh"], encoding="utf-8")
    (cwd / "rc").write_text(_ZSH, encoding="utf-8")
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd), "TERM": "dumb", "LINE": line},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    try:
        os.write(ours, b". ./rc; : > ready\n")
        for file, keys in (("ready", b"\x14"), ("done", b"")):
            deadline = time.monotonic() + 30
            while not (cwd / file).exists():
                assert time.monotonic() < deadline, (file, os.read(ours, 9999))
                time.sleep(0.05)
            if file == "ready":
                time.sleep(0.3)  # until the prompt stands
            os.write(ours, keys)
        os.set_blocking(ours, False)
        shown = os.read(ours, 1 << 16)
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
        os.close(theirs)
    completed = (cwd / "done").read_text("utf-8").rstrip("\n")
    if completed != line:
        return {completed.split()[-1].rstrip("/")}
    return set(re.findall(r"(?m)^([\w.-]+) +-- ", shown.decode(errors="replace")))


#: A line, and what every shell offers at its end.
LINES = [
    ("trainplan exp", {"explain", "export"}),
    ("trainplan export plan.yaml --to d", {"deepspeed"}),
    ("trainplan explain plan.yaml parameters.non", {"parameters.non_embedding"}),
    ("trainplan solve plan.yaml longest", {"longest-context"}),
    ("trainplan pl", {"plan.yaml"}),
    ("trainplan validate pl", {"plan.yaml"}),
    ("trainplan plan.yaml --for", {"--format"}),
    ("trainplan plan.yaml --format h", {"html"}),
    ("trainplan report plan.yaml --format h", {"html"}),
    ("trainplan report plan.yaml --set training.tok", {"training.tokens="}),
    ("trainplan completion f", {"fish"}),
    ("trainplan list mod", {"models"}),
]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["fish", "zsh"])
@pytest.mark.parametrize(("line", "offered"), LINES)
def test_the_other_shells_offer(shell: str, line: str, offered: set[str], tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "plan.yaml").touch()
    assert {"fish": fish, "zsh": zsh}[shell](line, tmp_path) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("trainplan exp", {"explain", "export"}),
        ("trainplan export --to d", {"deepspeed"}),
        ("trainplan export plan.yaml --to d", {"deepspeed"}),
        ("trainplan explain plan.yaml parameters.non", {"parameters.non_embedding"}),
        ("trainplan solve plan.yaml longest", {"longest-context"}),
        ("trainplan pl", {"plan.yaml"}),
        ("trainplan validate pl", {"plan.yaml"}),
        ("trainplan plan.yaml --for", {"--format"}),
        ("trainplan plan.yaml --format h", {"html"}),
        ("trainplan report plan.yaml --set training.tok", {"training.tokens="}),
        ("trainplan report plan.yaml --set model=gpt2-s", {"gpt2-small"}),
        ("trainplan completion f", {"fish"}),
        ("trainplan list mod", {"models"}),
    ],
)
def test_bash_offers(line: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").touch()
    assert bash(line, tmp_path) == offered
