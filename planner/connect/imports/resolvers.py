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
from planner.base.errors import Fault, Place, PlanError
from planner.connect.imports.arguments import split_arguments
from planner.connect.imports.commands import (
    NEEDED,
    SBATCH,
    VARIABLE,
    count_launched,
    is_command,
    select_commands,
    split_changes,
)
from planner.connect.imports.shell import FILE_ENDINGS, MARKED, ShellCommand, is_script

_TABLE = resources.read_yaml(Path(__file__).with_suffix(".yaml"))
RESOLVERS: Mapping[str, Mapping[str, Any]] = _TABLE["frameworks"]
SECONDS = 300
#: Bytes of a configuration and of an answer at most.
LARGEST_ANSWER = 10_000_000


def resolve_text(text: str, name: str, place: Place, changes: Sequence[str]) -> str:
    """Let a framework's parser read a script, a command or a file; return a text of its values that
    can be read without it.

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
        raise PlanError(Fault("--run is not for " + name, place, f"--from {', '.join(RESOLVERS)}"))
    if not is_command(text, place) and place.file != "arguments":
        answer = _run_parser(name, {"file": os.path.abspath(place.file)}, place)
        pairs = answer.get("options", {}).items()
        fields = {key.lstrip("-").replace("-", "_"): value for key, value in pairs}
        return json.dumps(answer.get("tree") or fields)
    front, lines, asked = list[str](), list[str](), dict[str, Any]()
    if name in NEEDED and not is_script(text):
        words = split_arguments(text, place)
    else:
        variables = split_changes(changes)[0]
        command, _, _, program, given = select_commands(text, place, variables, name)[-1]
        words = [*given]
        asked = {"objective": program.plan.get("training.objective", "sft")}
        front = [f"{key}={value}" for key, value in command.environment.items()]
        front += command.words[: len(command.words) - len(words)]
        lines = [f"#SBATCH {one}" for one in SBATCH.findall(text)]
    marked = (name for word in (*front, *words) for name in MARKED.findall(word))
    if unknown := [*dict.fromkeys(marked)]:
        shown = ", ".join(one if one.startswith("$") else f"${one}" for one in unknown)
        allowed = " ".join(f"--set {one}=…" for one in unknown if VARIABLE.fullmatch(one))
        raise PlanError(Fault(f"the script does not set {shown}", place, allowed or None))
    for at, word in enumerate(words):
        if words[max(at - 1, 0)] == "--config" and word.endswith(FILE_ENDINGS):
            files.read_text(word, LARGEST_ANSWER, place, "a configuration: text in UTF-8")
            words[at] = os.path.abspath(word)
    answer = _run_parser(name, {**asked, "words": words}, place)
    if "tree" in answer:
        processes = count_launched(front, ShellCommand(front, 0))
        return f"# Processes: {processes or 1}\n{json.dumps(answer['tree'])}"
    for option, value in answer["options"].items():
        listed = value if isinstance(value, list) else [] if value is True else [value]
        front += [option, *map(str, listed)]
    return "\n".join([*lines, shlex.join([*front, *answer["rest"]])])


def _run_parser(name: str, asked: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Run a framework's parser in a process of its own.

    Args:
        name: the framework.
        asked: the question, as foreign.py reads it.
        place: where faults are.

    Raises:
        PlanError: it is not installed, or the parser ends with an error or takes too long.
    """
    row = RESOLVERS[name]
    program = Path(__file__).with_name("foreign.py")
    with tempfile.TemporaryDirectory() as folder:
        outside = {key: os.environ[key] for key in _TABLE["inherited"] if key in os.environ}
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(program)],
                input=json.dumps({"row": row, "words": [], "objective": "sft", **asked}),
                cwd=folder,
                env={**outside, **_TABLE["environment"], "HF_HOME": folder, "TMPDIR": folder},
                capture_output=True,
                timeout=SECONDS,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PlanError(Fault(f"{name}'s parser took over {SECONDS} s", place)) from None
    if done.returncode == 0 and len(done.stdout) < LARGEST_ANSWER:
        answer: dict[str, Any] = files.parse_json(done.stdout, place)
        return answer
    last = one_line([*filter(str.strip, done.stderr.splitlines()), "no answer"][-2:][0])
    missing = f"No module named '{row['package'].partition('.')[0]}"
    if missing in last:
        fault = f"{name} is not installed beside this program, or what it imports"
        raise PlanError(Fault(fault, place, "import without --run reads the file alone"))
    raise PlanError(Fault(f"{name}'s own parser: {last[:300]}", place))
