"""Shell completion: static scripts for bash, zsh and fish, made from the argument parser.

A script holds the names of presets and quantities as they were when it was printed; nothing of the
program runs when Tab is pressed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("trainplan", "plan.py")

#: What stands for a file; everything else with a value is free text or has words.
FILES = {"plan", "files", "paths", "old", "new", "config", "log", "output", "study"}
FILES |= {"step", "accelerator"}


@dataclass(frozen=True)
class Argument:
    """One argument of a command: its options (none for a position) and what completes it."""

    options: tuple[str, ...]
    help: str
    takes: bool  # a value
    words: tuple[str, ...]
    file: bool
    many: bool


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.options)

    @property
    def positions(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.options)


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion script of a shell."""
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return writers[shell](tuple(commands(parser)))


def commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """The commands of a parser with their arguments."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                yield Command(name, helps.get(name, ""), tuple(map(_argument, sub._actions)))


def _argument(action: argparse.Action) -> Argument:
    source = WORDS.get(action.dest)
    words = tuple(map(str, action.choices)) if action.choices else source() if source else ()
    return Argument(
        tuple(action.option_strings),
        re.sub(r"\s+", " ", action.help or ""),
        action.nargs != 0,
        words,
        action.dest in FILES and not words,
        action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
    )


# Words ----------------------------------------------------------------------------------------


@cache
def keys() -> tuple[str, ...]:
    """What may follow --set: the keys of a plan, and the presets that a name may mean."""
    from planner.documents import source

    named = [
        f"{key}={name}"
        for key, kind in (
            ("model", "model"),
            ("cluster", "cluster"),
            ("cluster.accelerator", "accelerator"),
        )
        for name in source.preset_names(kind)
    ]
    return tuple(named + [f"{key}=" for key in _keys()])


def _keys() -> list[str]:
    """The dotted keys of the plan's own sections, with the values of a choice spelled out."""
    from planner.base import resources

    schema = resources.read_json(resources.folder("schemas") / "plan.schema.json")

    def walk(node: dict[str, Any], before: str) -> Iterator[str]:
        for name, inner in node.get("properties", {}).items():
            if "properties" in inner:
                yield from walk(inner, f"{before}{name}.")
            elif "$ref" not in inner:
                yield before + name

    return sorted(key for key in walk(schema, "") if "." in key)


@cache
def quantities() -> tuple[str, ...]:
    import planner.book.formulas  # noqa: F401  (registers the quantities)
    from planner.book.quantity import BOOK

    return tuple(sorted(BOOK.quantities))


def _accelerators() -> tuple[str, ...]:
    from planner.documents import source

    return tuple(source.preset_names("accelerator"))


def _questions() -> tuple[str, ...]:
    from planner.questions.solve.questions import NAMES

    return NAMES


def _layouts() -> tuple[str, ...]:
    from planner.questions.solve.questions import LAYOUTS

    return LAYOUTS


def _models() -> tuple[str, ...]:
    from planner.documents import source

    return tuple(source.preset_names("model"))


def _numeric() -> tuple[str, ...]:
    return tuple(_keys())


WORDS: dict[str, Callable[[], tuple[str, ...]]] = {
    "set": keys,
    "vary": _numeric,
    "maximize": quantities,
    "minimize": quantities,
    "family": _models,
    "accelerators": _accelerators,
    "with_layout": _layouts,
    "quantity": quantities,
    "question": _questions,
    "extends": _accelerators,
}


# bash -----------------------------------------------------------------------------------------

_BASH = """\
# bash completion of trainplan; load it with: source <(trainplan completion bash)
_trainplan() {{
    local line=${{COMP_LINE:0:COMP_POINT}} command=report first cur prev words= files= at=0 i
    local -a typed
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    cur=${{typed[${{#typed[@]}}-1]}} prev=${{typed[${{#typed[@]}}-2]}} first=${{typed[1]-}}
    COMPREPLY=()
    if (( ${{#typed[@]}} == 2 )); then
        words="{names} --help --version" files=1
    else
        case $first in {cases}) command=$first ;; esac
        for (( i = 2; i < ${{#typed[@]}} - 1; i++ )); do
            [[ ${{typed[i]}} == -* || ${{typed[i - 1]}} == -* ]] || (( at++ ))
        done
        [[ $command == report && $first != report ]] && (( at++ ))
        case $command in
{bodies}
        esac
    fi
    local IFS=$' \\t\\n'
    [[ -n $words ]] && COMPREPLY+=($(compgen -W "$words" -- "$cur"))
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        local IFS=$'\\n'
        COMPREPLY+=($(compgen -f -- "$cur"))
    fi
    # readline replaces what follows the last =, as that breaks words.
    if [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#"${{cur%"${{cur##*=}}"}}"}}")
    fi
    [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}}
complete -F _trainplan {programs}
"""


def _bash(found: tuple[Command, ...]) -> str:
    bodies = []
    for command in found:
        lines = [f"        {command.name})", "            case $prev in"]
        for argument in command.options:
            if argument.takes:
                lines.append(f"            {'|'.join(argument.options)}) {_offer(argument)} ;;")
        options = " ".join(o for a in command.options for o in a.options)
        lines += [
            "            *)",
            f'                if [[ $cur == -* ]]; then words="{options}"',
            "                else case $at in",
        ]
        for index, argument in enumerate(command.positions):
            last = index == len(command.positions) - 1 and argument.many
            lines.append(f"                    {'*' if last else index}) {_offer(argument)} ;;")
        lines += ["                esac; fi ;;", "            esac ;;"]
        bodies.append("\n".join(lines))
    names = [command.name for command in found]
    return _BASH.format(
        names=" ".join(names),
        cases="|".join(names),
        bodies="\n".join(bodies),
        programs=" ".join(PROGRAMS),
    )


def _offer(argument: Argument) -> str:
    if argument.file:
        return "files=1"
    return f'words="{" ".join(argument.words)}"' if argument.words else ":"


# zsh ------------------------------------------------------------------------------------------


def _zsh(found: tuple[Command, ...]) -> str:
    lines = [
        "#compdef " + " ".join(PROGRAMS),
        "# zsh completion of trainplan; put it into a folder of $fpath as _trainplan",
        "_trainplan() {",
        "    local -a commands",
        "    commands=(",
    ]
    lines += [f"        {_quoted(f'{c.name}:{c.help}')}" for c in found]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe -t commands command commands",
        "        _files",
        "        return",
        "    fi",
        "    case $words[2] in",
    ]
    bare = next(command for command in found if command.name == "report")
    for command in (*(c for c in found if c is not bare), bare):
        # A plan file after the program needs no command.
        lines.append("    *)" if command is bare else f"    {command.name})")
        shift = "[[ $words[2] == report ]] && " if command is bare else ""
        lines.append(f"        {shift}{{ shift words; (( CURRENT-- )) }}")
        lines.append("        _arguments -S \\")
        lines += [f"            {spec} \\" for a in command.options for spec in _zsh_option(a)]
        for number, argument in enumerate(command.positions, 1):
            where = "*" if argument.many else str(number)
            text = _zsh_text(argument.help) or " "
            spec = _quoted(f"{where}:{text}:{_zsh_action(argument)}")
            lines.append(f"            {spec} \\")
        lines[-1] = lines[-1].removesuffix(" \\")
        lines.append("        ;;")
    lines += ["    esac", "}", '_trainplan "$@"']
    return "\n".join(lines) + "\n"


def _zsh_option(argument: Argument) -> Iterator[str]:
    for option in argument.options:
        star = "*" if argument.many else ""
        value = f":value:{_zsh_action(argument)}" if argument.takes else ""
        yield _quoted(f"{star}{option}[{_zsh_text(argument.help)}]{value}")


def _zsh_action(argument: Argument) -> str:
    if argument.file:
        return "_files"
    words = " ".join(word.replace(":", r"\:") for word in argument.words)
    return f"({words})" if words else " "


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# fish -----------------------------------------------------------------------------------------


def _fish(found: tuple[Command, ...]) -> str:
    lines = ["# fish completion of trainplan; put it into ~/.config/fish/completions"]
    for program in PROGRAMS:
        for command in found:
            lines.append(
                f"complete -c {program} -n 'test (count (commandline -poc)) -eq 1' "
                f"-a {command.name} -d {_fish_quoted(command.help)}"
            )
        for command in found:
            seen = f"__fish_seen_subcommand_from {command.name}"
            if command.name == "report":  # a plan file after the program needs no command
                others = " ".join(c.name for c in found if c is not command)
                several = "test (count (commandline -poc)) -gt 1"
                seen = f"{several}; and not __fish_seen_subcommand_from {others}"
            here = f"complete -c {program} -n '{seen}'"
            for argument in command.options:
                options = " ".join(
                    f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                    for option in argument.options
                )
                lines.append(
                    f"{here} {options}{_fish_value(argument)} -d {_fish_quoted(argument.help)}"
                )
            for argument in command.positions:
                if argument.words:
                    lines.append(f"{here} -a {_fish_quoted(' '.join(argument.words))}")
    return "\n".join(lines) + "\n"


def _fish_value(argument: Argument) -> str:
    if not argument.takes:
        return ""
    if argument.file:
        return " -rF"
    return f" -xa {_fish_quoted(' '.join(argument.words))}" if argument.words else " -x"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
