"""Completion in bash, zsh and fish, by argcomplete (extra: completion).

When Tab is pressed the shell runs the program, which answers with what its own parser, presets and
book of quantities allow at that place.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial

from planner.base import resources
from planner.base.errors import require_extra

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ["trainplan", "plan.py"]


def build_script(shell: str) -> str:
    """Return the script that a shell reads once to complete commands.

    Raises:
        PlanError: argcomplete is not installed.
    """
    with require_extra("completion", "completion"):
        import argcomplete
    code: str = argcomplete.shellcode(PROGRAMS, shell=shell)
    return code


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that requests completions at the cursor, and exit."""
    import argcomplete

    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for command in commands.choices.values():
        for action in command._actions:
            if action.dest in KNOWN:
                action.completer = partial(_list_values, action.dest)
            elif action.dest in ("plan", "plans"):
                action.completer = _list_plans
    # A plan file straight after the program's name needs no command.
    first, *rest = os.environ["COMP_LINE"].split(maxsplit=2)[1:] or [""]
    if rest and first not in commands.choices:
        parser = commands.choices["report"]
    argcomplete.autocomplete(parser)


#: Arguments that take a built-in document, and of which kinds.
PRESETS: Mapping[str, Sequence[str]] = resources.load_beside(__file__)
QUANTITIES = ("maximize", "minimize", "quantity")
KNOWN = (*PRESETS, *QUANTITIES, "question", "with_layout", "set", "vary", "precision")


def _list_plans(prefix: str, **_: object) -> Sequence[str]:
    """List files and the built-in plans."""
    from argcomplete.completers import FilesCompleter

    from planner.documents import references

    return [*references.list_plans(), *FilesCompleter()(prefix)]


def _list_values(argument: str, **_: object) -> Sequence[str]:
    """List the values that an argument may have."""
    from planner.documents import references, schema

    if argument in PRESETS:
        return [name for kind in PRESETS[argument] for name in references.preset_names(kind)]
    if argument in QUANTITIES:
        import planner.book.formulas  # noqa: F401  (registers the quantities)
        from planner.book.quantity import BOOK

        return sorted(BOOK.quantities)
    if argument == "precision":
        from planner.base import formats

        return [one.format for one in formats.sort_formats()]
    if argument in ("question", "with_layout"):
        from planner.questions.solve import questions

        return questions.NAMES if argument == "question" else questions.LAYOUTS
    # The dotted keys near the top of a plan that hold no others.
    known = schema.list_key_paths("plan")
    around = {key.rpartition(".")[0] for key in known}
    keys = [key for key in known if "." in key and key not in around]
    if argument == "vary":
        return keys
    named = {"model": "model", "cluster": "cluster", "cluster.accelerator": "accelerator"}
    presets = [f"{key}={n}" for key, kind in named.items() for n in references.preset_names(kind)]
    return [*presets, *(f"{key}=" for key in keys)]
