"""The command line: runs the requested command and prints its faults."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.base import files, progress
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.cli.commands import BAD_INPUT, COMMANDS, OK, ROWS, format_faults, report_crash
from planner.cli.completion import answer_shell

#: Options of earlier versions, and what does the same now.
GONE: Mapping[str, str] = ROWS["gone"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after the program's name; None for those of this process.

    Returns:
        The exit status: 0 done, 1 a check or limit failed, 2 bad input, 70 an internal error, which
            is reported on one line, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run_command(arguments)
    except Exception as error:
        return report_crash(error, "--debug" in arguments)


def run_command(arguments: list[str]) -> int:
    """Run one command as ``main`` does, but raise internal errors."""
    options = argparse.Namespace()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks
        answer_shell(_build_parser())
    try:
        if not arguments:
            sys.stdout.write(ROWS["first"])
            return OK
        options = _parse_words(_add_report(arguments))
        return _run_handler(options)
    except BrokenPipeError:
        # The reader of a pipe went away (head, a closed pager): no fault of ours.
        _drop_output()
        return OK
    except (PlanError, OSError) as error:
        faults, how = getattr(error, "faults", ()), getattr(options, "faults", "text")
        if isinstance(error, OSError):
            faults = [Fault(str(error.strerror), Place(str(error.filename or "standard output")))]
            how = how if error.filename else "text"  # of a full disk behind standard output
        if how != "text":  # writing even "" would flush what a full disk refused
            sys.stdout.write(format_faults(faults, how))
        for fault in faults if how == "text" else ():
            print(fault, file=sys.stderr)
        if isinstance(error, OSError):
            _drop_output()
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130


def run_words(words: list[str]) -> int:
    """Run one command for a program that composes its words; return the exit status.

    Args:
        words: the command and its arguments.

    Raises:
        PlanError: bad input.
    """
    return _run_handler(_parse_words(words))


def _run_handler(options: argparse.Namespace) -> int:
    """Run the handler of the parsed command with the options that every command has, and print its
    text; return the exit status.

    Raises:
        PlanError: bad input.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(files.restrict_reading(options.root))
        stack.enter_context(progress.show_progress(options.progress))
        if options.no_defaults:
            from planner.documents import defaults

            stack.enter_context(defaults.ignore_defaults())
        if getattr(options, "templates", None):
            from planner.report.report import use_templates

            if options.root is not None:  # where whoever wrote the plans may not choose them
                raise PlanError("both --templates and --root", None, "one of them")
            stack.enter_context(use_templates(options.templates))
        options.status = run_words  # for a command that runs others
        done: int | str = options.handler(options)
    sys.stdout.write(done if isinstance(done, str) else "")
    sys.stdout.flush()
    return OK if isinstance(done, str) else done


def _parse_words(words: list[str]) -> argparse.Namespace:
    """Parse the words of a command, whose options may be anywhere between the others."""
    if not words or words[0] not in COMMANDS:  # --help, --version, or nothing
        return _build_parser().parse_args(words)
    parser = _Parser(prog=f"plan.py {words[0]}", description=COMMANDS[words[0]].help)
    COMMANDS[words[0]].add_args(parser)
    return parser.parse_intermixed_args(words[1:])


def _drop_output() -> None:
    """Replace standard output by the null device: no later write fails, not even at exit."""
    with contextlib.suppress(ValueError, OSError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _add_report(arguments: list[str]) -> list[str]:
    """Add the command ``report`` where a plan file follows the program's name directly."""
    rest: list[str] = list(arguments)
    lead: list[str] = []  # options of every command may stand before it
    while rest[:1] in (["--debug"], ["--progress"], ["--no-defaults"], ["--root"]):
        count = 2 if rest[0] == "--root" else 1
        lead, rest = lead + rest[:count], rest[count:]
    first = next((word for word in rest if not word.startswith("-") or word == "-"), None)
    if first is None or rest[0] in ("-h", "--help", "--version"):
        return rest
    if first in COMMANDS:
        return [rest[0], *lead, *rest[1:]]
    if not (first == "-" or os.path.splitext(first)[1] or os.sep in first or Path(first).exists()):
        _check_name(first)
    return ["report", *lead, *rest]


def _check_name(word: str) -> None:
    """Check that a word that is no command is the name of a plan or of a model.

    Raises:
        PlanError: it is not.
    """
    from planner.documents import references

    for kind in ("plan", "model"):
        with contextlib.suppress(PlanError):
            references.locate_file(word, kind)
            return
    allowed = "a plan file, a name that list plans or list models shows, or one of: "
    allowed += ", ".join(COMMANDS)
    names = [name for kind in ("plan", "model") for name in references.preset_names(kind)]
    near = nearest(word, [*COMMANDS, *names])
    raise PlanError(f"unknown command or plan {word}", None, allowed, near)


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors in the form of our other faults."""

    def error(self, message: str) -> Any:
        """Refuse the arguments.

        Raises:
            PlanError: always; an option of earlier versions with what replaces it.
        """
        for option in GONE.keys() & set(message.split()):
            raise PlanError(f"there is no {option} any more", None, GONE[option])
        raise PlanError(f"{self.prog}: {message}", None, f"see {self.prog} --help")


class _Version(argparse.Action):
    """Prints the versions, which are computed on demand only: they hash formulas and presets."""

    def __call__(self, *_: Any) -> None:
        from planner.base.version import format_versions

        print(format_versions())
        raise SystemExit(OK)


def _build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole program, with a subparser for each command."""
    parser = _Parser(
        prog="plan.py",
        description="Plan a training run of a large language model: parameters, FLOPs, memory, "
        "time and cost, each with its formula.",
        epilog="A plan file straight after the program's name needs no command: "
        "plan.py PLAN.yaml [-o report.md] [-o report.html] [--set KEY=VALUE]",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="program, formula set and preset set"
    )
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for name, command in COMMANDS.items():
        command.add_args(commands.add_parser(name, help=command.help, description=command.help))
    return parser
