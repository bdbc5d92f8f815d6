"""The options and devices of the command that trains, of arguments or of a script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import resources
from planner.base.errors import Fault, Place, PlanError
from planner.connect.imports.arguments import collect_arguments, parse_arguments
from planner.connect.imports.option_table import load_options
from planner.connect.imports.shell import MARKED, ShellCommand, is_script, list_commands
from planner.connect.imports.trainers import parse_changes

#: What a command that trains has in any case.
NEEDED = "--num-layers"
SBATCH = re.compile(r"^#SBATCH\s+(.*)$", re.MULTILINE)
#: Not the sections of a plan.
VARIABLE = re.compile(r"(?!(?:model|cluster)$)[A-Za-z0-9_]+")
LAUNCHER_NUMBER = re.compile(r"(?:.*:)?([0-9]{1,9})")


class TrainingCommand(NamedTuple):
    """The command that trains.

    Attributes:
        options: its options with their values, as ``parse_arguments``.
        devices: the devices that it is started on; None where it does not say so.
        lines: what was left out of it, a line each.
    """

    options: dict[str, Any]
    devices: int | None
    lines: list[str]


def read_command(
    text: str, place: Place | None, variables: Mapping[str, str] = {}
) -> TrainingCommand:
    """Read the command that trains.

    Args:
        text: arguments, or a script.
        place: where faults are.
        variables: what the environment and the arguments of a script have.

    Raises:
        PlanError: there is no such command, or a value of it is not in the script.
    """
    where = place or Place("arguments")
    if not is_script(text):
        return TrainingCommand(parse_arguments(text, place), None, [])
    found = list_commands(text, variables, where)
    trains = [one for one in found if any(word.startswith(NEEDED) for word in one.words)]
    if not trains:
        allowed = f"a command with {NEEDED}, whose options the script itself has"
        raise PlanError(Fault("no command that trains", where, allowed))
    words, program, given = _split_program(trains[-1], where)
    sbatch = [each for one in SBATCH.findall(text) for each in one.split()]
    usual = _load_launchers()["programs"].get(program, {})
    lines = [] if len(trains) == 1 else [f"the last of {len(trains)} commands that train is read"]
    options, left_out = _take_unknown({**usual, **collect_arguments(given)}, where)
    if left_out:
        lines.append(f"left out, as the script does not set it: {', '.join(left_out)}")
    return TrainingCommand(options, _count_devices([*sbatch, *words]), lines)


def split_changes(changes: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Split what ``--set`` has into variables of a script and keys of a plan, which have a dot."""
    pairs = [one.partition("=") for one in changes]
    variables = {name: value for name, sign, value in pairs if sign and VARIABLE.fullmatch(name)}
    rest = [one for one in changes if one.partition("=")[0] not in variables]
    return variables, parse_changes(rest)


@cache
def _load_launchers() -> Mapping[str, Any]:
    """Load the options of launchers."""
    found: Mapping[str, Any] = resources.read_yaml(Path(__file__).with_name("launchers.yaml"))
    return found


def _split_program(command: ShellCommand, place: Place) -> tuple[Sequence[str], str, Sequence[str]]:
    """Split a command at its program: the words before, its name, and its options.

    Raises:
        PlanError: the program trains no decoder.
    """
    words = command.words
    at = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    if at is None:
        return (), "", words
    program = "/".join(words[at].split("/")[-2:])
    if re.search("|".join(_load_launchers()["refused"]), program):
        where = place._replace(line=command.line)
        raise PlanError(Fault(f"{program} trains another kind of model", where, "pretrain_gpt.py"))
    return words[:at], words[at].rpartition("/")[2], words[at + 1 :]


def _count_devices(words: Iterable[str]) -> int | None:
    """Count the devices that a launcher's words say; None where they do not."""
    sizes, name, counted = dict[str, int](), "", _load_launchers()["options"]
    for word in words:
        if word.startswith("-"):
            name, _, word = word.lstrip("-").replace("_", "-").partition("=")
        number = LAUNCHER_NUMBER.fullmatch(word)
        for what, names in counted.items():
            if name in names and number:
                sizes[what] = int(number[1])
    if "devices_of_node" in sizes:
        return sizes["devices_of_node"] * sizes.get("nodes", 1)
    return sizes.get("devices")


def _take_unknown(found: Mapping[str, Any], place: Place) -> tuple[dict[str, Any], list[str]]:
    """Take what is not known out of options.

    Args:
        found: the options, with marked names of what the script does not set.
        place: where faults are.

    Returns:
        The options without it, and names that stood by themselves.

    Raises:
        PlanError: the value of an option that changes a plan is not known.
    """
    table, options = load_options("megatron"), dict[str, Any]()
    left_out, missing = list[str](), dict[str, str]()
    assert table is not None
    for option, value in found.items():
        parts = str(value).split()
        known = [one for one in parts if not MARKED.search(one)]
        names = [name for one in parts for name in MARKED.findall(one)]
        flag = table.defaults.get(option) is False
        if not names:
            options[option] = value
        elif known or flag:
            options[option] = " ".join(known) if known and not flag else True
            left_out += names
        elif option in table.defaults and table.classify(option) not in ("harmless", "named"):
            missing |= dict.fromkeys(MARKED.findall(parts[0]), option)
            left_out += [name for one in parts[1:] for name in MARKED.findall(one)]
    if missing:
        shown = ", ".join(f"${name} (--{option})" for name, option in missing.items())
        allowed = " ".join(f"--set {name}=…" for name in missing if name.isalnum() or "_" in name)
        raise PlanError(Fault(f"the script does not set {shown}", place, allowed or None))
    return options, [f"${name}" for name in dict.fromkeys(left_out)]
