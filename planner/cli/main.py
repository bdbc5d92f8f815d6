"""The command line: which command is asked for, and how its faults are told."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.base import files, progress
from planner.base.errors import Fault, PlanError, nearest
from planner.cli.commands import BAD_INPUT, COMMANDS, OK, broken, faults_text

#: What the program's name alone prints.
FIRST = """\
Plans a training run of a large language model: does it fit, how long does it take, what does it
cost, each number with its formula.

  plan.py quick "llama3-8b on 64 h100, 2T tokens"         an answer from a line of text
  plan.py llama70b_h100x1024 -o report.html               the summary of a plan, and its report
  plan.py search llama70b_h100x1024                       the fastest layouts that fit

plan.py list shows what ships, plan.py COMMAND --help what a command takes, plan.py --help all
commands.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 done, 1 does not hold, 2 bad input, 70 a fault of
    the program, told on one line)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments)
    except Exception as error:
        return broken(error, "--debug" in arguments)


def run(arguments: list[str]) -> int:
    """As ``main``, but a fault of the program itself is raised."""
    options = argparse.Namespace()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks
        from planner.cli.completion import offer

        offer(_parser())
    try:
        if not arguments:
            sys.stdout.write(FIRST)
            return OK
        options = _parsed(_with_command(arguments))
        return _done(options)
    except PlanError as error:
        how = getattr(options, "faults", "text")
        if how != "text":
            sys.stdout.write(faults_text(error.faults, how))
            return BAD_INPUT
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader of a pipe went away (head, a closed pager): no fault of ours.
        _discard()
        return OK
    except OSError as error:  # a full disk behind standard output
        print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        _discard()
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130


def status(words: list[str]) -> int:
    """Run one command, for a program that makes its words; returns the exit status.

    Raises:
        PlanError: bad input.
    """
    return _done(_parsed(words))


def _done(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        stack.enter_context(files.within(options.root))
        stack.enter_context(progress.shown(options.progress))
        if options.no_defaults:
            from planner.documents import defaults

            stack.enter_context(defaults.left_out())
        if getattr(options, "templates", None):
            from planner.report.report import templates_of

            stack.enter_context(templates_of(options.templates))
        options.status = status  # for a command that runs others
        done: int | str = options.handler(options)
    sys.stdout.write(done if isinstance(done, str) else "")
    sys.stdout.flush()
    return OK if isinstance(done, str) else done


def _parsed(words: list[str]) -> argparse.Namespace:
    """The options of a command, which may stand anywhere between its other words."""
    if not words or words[0] not in COMMANDS:  # --help, --version, or nothing
        return _parser().parse_args(words)
    command = COMMANDS[words[0]]
    parser = _Parser(prog=f"plan.py {words[0]}", description=command.help)
    command.configure(parser)
    return parser.parse_intermixed_args(words[1:])


def _discard() -> None:
    """Nothing more can be written to standard output, at exit least of all."""
    with contextlib.suppress(ValueError, OSError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_command(arguments: list[str]) -> list[str]:
    """A plan file straight after the program's name needs no command."""
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
        _plan_known(first)
    return ["report", *lead, *rest]


def _plan_known(word: str) -> None:
    """A word that is no command is the name of a plan.

    Raises:
        PlanError: it is not.
    """
    from planner.documents import source

    with contextlib.suppress(PlanError):
        source.located(word, "plan")
        return
    allowed = f"a plan file, a name that list plans shows, or one of: {', '.join(COMMANDS)}"
    near = nearest(word, [*COMMANDS, *source.preset_names("plan")])
    raise PlanError(Fault(f"unknown command or plan {word}", None, allowed, near))


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors in the form of our other faults."""

    def error(self, message: str) -> Any:
        raise PlanError(Fault(f"{self.prog}: {message}", None, f"see {self.prog} --help"))


class _Version(argparse.Action):
    """The versions are worked out only when asked for: they hash formulas and presets."""

    def __call__(self, *_: Any) -> None:
        from planner.base.version import full

        print(full())
        raise SystemExit(OK)


def _parser() -> argparse.ArgumentParser:
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
        command.configure(commands.add_parser(name, help=command.help, description=command.help))
    return parser
