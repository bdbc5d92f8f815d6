"""The options and devices of the command that trains, of arguments or of a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from planner.base.errors import Place, PlanError
from planner.connect.exports import READ_TRAINERS, load_framework
from planner.connect.exports.rules import list_written
from planner.connect.imports.arguments import collect_arguments, parse_arguments, parse_word
from planner.connect.imports.bases import open_named, read_beside
from planner.connect.imports.option_table import load_options
from planner.connect.imports.shell import (
    FILE_ENDINGS,
    LAUNCHERS,
    MARKED,
    WORD,
    ShellCommand,
    is_script,
    list_commands,
    read_sbatch,
)
from planner.connect.imports.trainers import parse_changes, rename_option

#: What a command that trains has in any case, where its program may have any name.
NEEDED = {"megatron": ("--num-layers", "--hybrid-layer-pattern", "--hybrid-override-pattern")}
#: Not the sections of a plan.
VARIABLE = re.compile(r"(?!(?:model|cluster)$)[A-Za-z0-9_]+")
LAUNCHER_NUMBER = re.compile(r"(?:.*:)?([0-9]{1,9})")
LISTED_DEVICES = re.compile(r"(?:[\w.-]+:)?([0-9]{1,3}(?:,[0-9]{1,3})*)")
#: What a file of settings begins with, and no command.
SETTINGS = re.compile(r"\{|^[A-Za-z_][\w.]*:(\s|$)", re.MULTILINE)
OPTION = re.compile(r"(^|\s)--[A-Za-z]")


class TrainingProgram(NamedTuple):
    """A program that trains.

    Attributes:
        words: the pattern of its file, its module, or its command and the word after it.
        framework: whose options it takes.
        any: without one, the frameworks that may be named for it.
        options: options that it has where its command leaves them out.
        plan: keys of a plan that it decides.
        reads: keys of a plan by its own options.
        starts: whether it starts the processes of a run itself.
    """

    words: str
    framework: str = ""
    any: Sequence[str] = ()
    options: Mapping[str, Any] = {}
    plan: Mapping[str, Any] = {}
    reads: Mapping[str, str] = {}
    starts: bool = False


#: The programs that train.
TRAINING_PROGRAMS = tuple(TrainingProgram(**one) for one in LAUNCHERS["programs"])


class SplitCommand(NamedTuple):
    """A command at its program: what starts it, its name, and its own words."""

    command: ShellCommand
    launcher: Sequence[str]
    name: str
    program: TrainingProgram
    given: Sequence[str]


class TrainingCommand(NamedTuple):
    """The command that trains.

    Attributes:
        options: its options with their values, as ``parse_arguments``.
        devices: the devices that it is started on; None where it does not say so.
        lines: what was left out of it, a line each.
        program: the program.
        printed: the command in the script that prints how many processes there are.
    """

    options: dict[str, Any]
    devices: int | None
    lines: list[str]
    program: TrainingProgram = TrainingProgram("")
    printed: str = ""


def is_command(text: str, place: Place) -> bool:
    """Check whether a text is a command with options or a script, and no file of settings."""
    if place.file.endswith((".sh", ".bash", ".slurm", ".sbatch")) or text.startswith("#!"):
        return True
    endings = "|".join(map(re.escape, FILE_ENDINGS))
    named = OPTION.search(text) or re.search(rf"\S\s+\S+({endings})\s*$", text)
    return not SETTINGS.search(text) and named is not None


def find_framework(text: str, place: Place) -> str:
    """Find the framework of the programs that a script or a command starts.

    Raises:
        PlanError: none of its programs is known, or they are of several frameworks.
    """
    listed = list_commands(text, {}, place)
    found = (_split_program(one, "") for one in listed)
    names = sorted({one.program.framework for one in found if one and one.program.framework})
    words = {word for one in listed for word in one.words}
    by_mark = LAUNCHERS["marks"].items()
    names = names or [name for name, marks in by_mark if all(words & {*each} for each in marks)]
    if len(names) != 1:
        wrong = f"commands of {' and '.join(names)}" if names else "no program that is known"
        raise PlanError(wrong, place, "--from, whose options the command takes")
    return names[0]


def read_command(
    text: str,
    place: Place | None,
    variables: Mapping[str, str] = {},
    name: str = "megatron",
    fixed: Container[str] = (),
) -> TrainingCommand:
    """Read the command that trains.

    Args:
        text: arguments, or a script.
        place: where faults are.
        variables: what the environment and the arguments of a script have.
        name: the framework whose options they are.
        fixed: keys of the plan that are chosen beside it.

    Raises:
        PlanError: there is no such command, or a value of it is not in the script.
    """
    where, needed = place or Place("arguments"), NEEDED.get(name, ("",))
    if any(needed) and not is_script(text):
        return TrainingCommand(parse_arguments(text, place), None, [])
    trains = select_commands(text, where, variables, name)
    command, launcher, shown, program, given = trains[-1]
    at = where._replace(line=command.line)
    if re.search("|".join(LAUNCHERS["refused"]), shown):
        allowed = "a program that trains a decoder, in a loop of its framework"
        raise PlanError(f"{shown} is not read", at, allowed)
    sbatch = [f"{option}={value}" for option, value in read_sbatch(text).items() if value]
    lines = [] if len(trains) == 1 else [f"the last of {len(trains)} commands that train is read"]
    found = {**program.options, **collect_arguments(given)}
    deciding = _find_deciding(name, program, fixed)
    options, left_out = take_unknown(found, deciding, where)
    words = [*sbatch, *launcher, *(given if program.starts else ())]
    devices, unknown = _count_devices(words, command, program)
    if left_out := [*left_out, *unknown]:
        shown_names = ", ".join(dict.fromkeys(left_out))
        lines.append(f"left out, as the script does not set it: {shown_names}")
    if name in READ_TRAINERS:
        named = [one for one in given[:1] if one.endswith(FILE_ENDINGS)]
        named += [str(options.pop("config"))] if "config" in options else []
        beside: dict[str, Any] = {}
        for file in named:
            found_there = read_beside(file, where)
            if found_there is None:
                fault = f"{shown} takes its options from {file}, which is not read"
                raise PlanError(fault, at, f"plan.py import {file} --from {name}")
            beside |= found_there
        if any(one.rpartition("/")[2] == "accelerate" for one in launcher):
            started = {f"launch.{k}": v for k, v in collect_arguments(launcher).items()}
            started = {k: v for k, v in started.items() if not MARKED.search(str(v))}
            config = read_beside(started.get("launch.config-file"), where)
            if config is not None:
                del started["launch.config-file"]
                beside |= {f"launch.{k.rpartition('.')[2]}": v for k, v in config.items()}
                devices = devices or config.get("num_processes")
            options |= started
        options = dict(_parse_flag(*one) for one in open_named(options, where).items())
        options = {**open_named(beside, where), **options}
        if not program.framework:
            lines.insert(0, "the objective of this program is unknown: next token, an assumption")
        lines.insert(0, f"read as options of {name}" + (f", which {shown} takes" * bool(shown)))
    printed = next((one[1:] for one in unknown if one.startswith(("$$(", "$`"))), "")
    return TrainingCommand(options, devices, lines, program, printed)


def select_commands(
    text: str, place: Place, variables: Mapping[str, str], name: str
) -> list[SplitCommand]:
    """Select the commands of a script that train; the last one counts.

    Args:
        text: the script.
        place: where faults are.
        variables: what the environment and the arguments have.
        name: the framework.

    Raises:
        PlanError: there is none.
    """
    needed = NEEDED.get(name, ("",))
    split = [_split_program(one, name) for one in list_commands(text, variables, place)]
    trains = [
        one for one in split if one and any(word.startswith(needed) for word in one.command.words)
    ]
    trains = [one for one in trains if one.program.framework and not any(needed)] or trains
    if not trains:
        allowed = f"a command with {needed[0] or 'a program of ' + name}"
        allowed += ", whose options the script itself has"
        raise PlanError("no command that trains", place, allowed)
    return trains


def _parse_flag(option: str, value: Any) -> tuple[str, Any]:
    """Parse an option as Python's parsers take it: names with underscores, values as YAML has
    them, and `--no_x` for one that is not."""
    name = option.replace("-", "_")
    if name.startswith("no_") and value is True:
        return name.removeprefix("no_"), False
    return name, parse_word(value, option)


def split_changes(changes: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Split what ``--set`` has into variables of a script and keys of a plan, which have a dot."""
    pairs = [one.partition("=") for one in changes]
    variables = {name: value for name, sign, value in pairs if sign and VARIABLE.fullmatch(name)}
    rest = [one for one in changes if one.partition("=")[0] not in variables]
    return variables, parse_changes(rest)


def _split_program(command: ShellCommand, name: str) -> SplitCommand | None:
    """Split a command at its program; None where it has none.

    Args:
        command: the command.
        name: the framework; empty for any.
    """
    programs = [one for one in TRAINING_PROGRAMS if name in (one.framework, *one.any) or not name]
    programs = [one for one in programs if name or one.framework]
    words = command.words
    for at, word in enumerate(words):
        if len(word) > 200 or word.startswith("-"):
            continue
        folder, _, file = word.rpartition("/")
        pair = f"{file} {words[at + 1]}" if at + 1 < len(words) else ""
        for program in programs:
            spelled = (file, f"{folder.rpartition('/')[2]}/{file}", pair)
            found = next(filter(None, (re.fullmatch(program.words, one) for one in spelled)), None)
            if found is not None:
                of_pair = found[0] == pair
                shown = pair if of_pair else "/".join(word.split("/")[-2:])
                group = found[found.lastindex or 0]
                keys = {key: value or group for key, value in program.plan.items()}
                program = program._replace(plan=keys)
                return SplitCommand(command, words[:at], shown, program, words[at + 1 + of_pair :])
    bare = bool(words) and words[0].startswith("--")
    if not bare and name not in NEEDED:
        return None
    return SplitCommand(command, (), "", TrainingProgram(""), words)


def _count_devices(
    words: Iterable[str], command: ShellCommand, program: TrainingProgram
) -> tuple[int | None, list[str]]:
    """Count the devices that a command is started on.

    Args:
        words: the words that say so.
        command: the command, with its environment.
        program: its program.

    Returns:
        The devices, None where they are not said; names of what the script does not set.
    """
    sizes, name, unknown = dict[str, int](), "", list[str]()
    seen = next((v for k, v in command.environment.items() if k.endswith("DEVICES")), "")
    visible = seen.count(",") + 1 if LISTED_DEVICES.fullmatch(seen) else 0
    if program.starts:
        held = {k.replace("_", "-").lower(): v for k, v in command.environment.items()}
        words = [*(f"--{key}={value}" for key, value in held.items()), *words]
        each = held.get("nproc-per-node", "1")
        divided = program.framework in LAUNCHERS["divided"] and LAUNCHER_NUMBER.fullmatch(each)
        if divided and visible > int(divided[1]):
            fault = f"{visible} devices for {each} processes, which divide the model among them"
            raise PlanError(fault, Place("CUDA_VISIBLE_DEVICES"), "a process for each device")
    for word in words:
        if word.startswith("-"):
            name, _, word = word.lstrip("-").partition("=")
            name = name.replace("_", "-")
        number, listed = LAUNCHER_NUMBER.fullmatch(word), LISTED_DEVICES.fullmatch(word)
        for what, names in LAUNCHERS["options"].items():
            if name in names and what == "devices_of_node" and listed and "," in word:
                sizes[what] = listed[1].count(",") + 1
            elif name in names and number:
                sizes[what] = int(number[1])
            elif name in names:
                unknown += [f"${one}" for one in MARKED.findall(word)]
    if "devices_of_node" in sizes:
        return sizes["devices_of_node"] * sizes.get("nodes", 1), unknown
    names = {one.rpartition("/")[2] for one in command.words[:20]}
    if "devices" not in sizes and visible and names & {*LAUNCHERS["each_device"]}:
        return visible * sizes.get("nodes", 1), unknown
    return sizes.get("devices"), unknown


def count_launched(words: Iterable[str], command: ShellCommand) -> int | None:
    """Count the devices of the launcher in front of a program; None where it does not say so."""
    return _count_devices(words, command, TrainingProgram(""))[0]


def _find_deciding(
    name: str, program: TrainingProgram, fixed: Container[str]
) -> Callable[[str], bool | None]:
    """Return what tells whether an option changes a plan: None for one without a value."""
    table, is_trainer = load_options(name), name in READ_TRAINERS
    known = load_framework(name)
    means = {key for rule in known.also for key in rule["when"]}
    own = {**dict.fromkeys(known.models, "model"), **program.reads} if is_trainer else {}
    read = {*list_written(known.rows), *means} if is_trainer else {*table.defaults}

    def decide(option: str) -> bool | None:
        if is_trainer:
            option = rename_option(known, option.replace("-", "_"))
        elif table.defaults.get(option) is False:
            return None
        key, kind = own.get(option) or table.find_key(option), table.classify(option)
        if key:
            return key not in fixed
        return kind == "refused" or (option in read and kind not in ("harmless", "named"))

    return decide


def take_unknown(
    found: Mapping[str, Any], decides: Callable[[str], bool | None], place: Place
) -> tuple[dict[str, Any], list[str]]:
    """Take what is not known out of options.

    Args:
        found: the options, with marked names of what the script does not set.
        decides: whether an option changes a plan, None where it has no value.
        place: where faults are.

    Returns:
        The options without it, and names that stood by themselves.

    Raises:
        PlanError: the value of an option that changes a plan is not known.
    """
    options, left_out, missing = dict[str, Any](), list[str](), dict[str, str]()
    for option, value in found.items():
        parts = WORD.findall(str(value))
        known = [one for one in parts if not MARKED.search(one)]
        names = [name for one in parts for name in MARKED.findall(one)]
        role = decides(option) if names else False
        if not names:
            options[option] = value
        elif known or role is None:
            options[option] = " ".join(known) if known and role is not None else True
            left_out += names
        elif not role:  # which may be unknown to the framework's table too
            options[option] = "$" + names[0]
        else:
            missing |= dict.fromkeys(MARKED.findall(parts[0]), option)
            left_out += [name for one in parts[1:] for name in MARKED.findall(one)]
    if missing:
        shown = ", ".join(f"${name} (--{option})" for name, option in missing.items())
        allowed = " ".join(f"--set {name}=…" for name in missing if VARIABLE.fullmatch(name))
        raise PlanError(f"the script does not set {shown}", place, allowed or None)
    return options, [f"${name}" for name in dict.fromkeys(left_out)]
