"""Options as the framework's own parser makes them, in a process of its own: for `import --run`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.base import files, resources
from planner.base.display import one_line
from planner.base.errors import Place, PlanError
from planner.connect.imports import commands
from planner.connect.imports.arguments import split_arguments
from planner.connect.imports.bases import read_base, read_beside
from planner.connect.imports.shell import MARKED, SBATCH, is_script

_TABLE = resources.load_beside(__file__)
RESOLVERS: Mapping[str, Mapping[str, Any]] = _TABLE["frameworks"]
PARSER_SECONDS = 300
LARGEST_ANSWER = 10_000_000  # bytes


def resolve_text(text: str, name: str, place: Place, changes: Sequence[str]) -> str:
    """Let a framework's parser read a script or a command; return a text of its values that can be
    read without it.

    Args:
        text: what is read.
        name: the framework, of ``RESOLVERS``.
        place: where faults are.
        changes: variables of a script and keys of the plan, as ``--set`` has them.

    Raises:
        PlanError: the framework is not installed or refuses an option, or a value is not in the
            script.
    """
    if name not in RESOLVERS:
        raise PlanError("--run is not for " + name, place, f"--from {', '.join(RESOLVERS)}")
    front, lines, row = list[str](), list[str](), dict(RESOLVERS[name])
    if name in commands.NEEDED and not is_script(text):
        words = split_arguments(text, place)
    else:
        variables = commands.split_changes(changes)[0]
        command, _, _, program, given = commands.select_commands(text, place, variables, name)[-1]
        words = [*given]
        if further := row.get("by", {}).get(program.plan.get("training.objective", "sft")):
            row["classes"] = [*row["classes"], further]
        front = [f"{key}={value}" for key, value in command.environment.items()]
        front += command.words[: len(command.words) - len(words)]
        lines = [f"#SBATCH {one}" for one in SBATCH.findall(text)]
    if unknown := {name for word in (*front, *words) for name in MARKED.findall(word)}:
        shown = ", ".join(f"${name.removeprefix('$')}" for name in sorted(unknown))
        raise PlanError(f"the script does not set {shown}", place, "--set NAME=VALUE")
    config = dict[str, Any]()
    if "--config" in words:
        at = words.index("--config")
        for file in words[at + 1 : at + 2]:  # beside the script, or where this runs
            config = read_beside(file, place) or read_base(file, "")
        del words[at : at + 2]
    resolved = _run_parser({"row": row, "words": words, "config": config}, place)["words"]
    return "\n".join([*lines, shlex.join([*front, *resolved])])


def _run_parser(asked: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Run a framework's parser in a process of its own.

    Args:
        asked: what it reads (``foreign.py``).
        place: where faults are.

    Raises:
        PlanError: it is not installed, or the parser ends with an error or takes too long.
    """
    name = asked["row"]["package"].partition(".")[0]
    program = Path(__file__).with_name("foreign.py")
    with tempfile.TemporaryDirectory() as folder:
        outside = {key: os.environ[key] for key in _TABLE["inherited"] if key in os.environ}
        environment = {**outside, **_TABLE["environment"], "HF_HOME": folder, "TMPDIR": folder}
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(program)],
                input=json.dumps(asked).encode(),
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=PARSER_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PlanError(f"{name}'s parser took over {PARSER_SECONDS} s", place) from None
    if done.returncode == 0 and len(done.stdout) < LARGEST_ANSWER:
        answer: dict[str, Any] = files.parse_json(done.stdout, place)
        return answer
    printed = ["no answer", *done.stderr.decode("utf-8", "replace").split("\n")]
    last = one_line([line for line in printed if line.strip()][-1])
    if f"No module named '{name}" in last:
        fault = f"{name} is not installed beside this program, or what it imports"
        raise PlanError(fault, place, "import without --run reads the file alone")
    raise PlanError(f"{name}'s own parser: {last[:300]}", place)
