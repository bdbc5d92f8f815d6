"""Completion in bash, zsh and fish, by argcomplete (extra: completion).

When Tab is pressed the shell runs the program, which answers with what its own parser, presets and
book of quantities allow at that place.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from planner.base.errors import Fault, PlanError

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ["trainplan", "plan.py"]


def script(shell: str) -> str:
    """What a shell has to read once.

    Raises:
        PlanError: argcomplete is not installed.
    """
    try:
        import argcomplete
    except ImportError:
        fix = "pip install 'trainplan[completion]'"
        raise PlanError(Fault("completion needs argcomplete", None, fix)) from None
    code: str = argcomplete.shellcode(PROGRAMS, shell=shell)
    return code


def offer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks what may stand at the cursor, and end."""
    import argcomplete

    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for command in commands.choices.values():
        for action in command._actions:
            if action.dest in WORDS:
                action.completer = lambda words=WORDS[action.dest], **_: words()
    # A plan file straight after the program's name needs no command.
    first, *rest = os.environ["COMP_LINE"].split(maxsplit=2)[1:] or [""]
    if rest and first not in commands.choices:
        parser = commands.choices["report"]
    argcomplete.autocomplete(parser)


def _presets(kind: str) -> tuple[str, ...]:
    from planner.documents import source

    return tuple(source.preset_names(kind))


def _keys() -> tuple[str, ...]:
    """The dotted keys near the top of a plan that hold no others."""
    from planner.documents import schema

    known = schema.paths("plan")
    around = {key.rpartition(".")[0] for key in known}
    return tuple(key for key in known if "." in key and key not in around)


def _settings() -> tuple[str, ...]:
    """What may follow --set: the keys of a plan, and the presets that a name may mean."""
    named = {"model": "model", "cluster": "cluster", "cluster.accelerator": "accelerator"}
    choices = [f"{key}={name}" for key, kind in named.items() for name in _presets(kind)]
    return (*choices, *(f"{key}=" for key in _keys()))


def _quantities() -> tuple[str, ...]:
    import planner.book.formulas  # noqa: F401  (registers the quantities)
    from planner.book.quantity import BOOK

    return tuple(sorted(BOOK.quantities))


def _of_solve(what: str) -> tuple[str, ...]:
    """What the module of inverse questions lists."""
    from planner.questions.solve import questions

    return tuple(getattr(questions, what))


#: What may stand in the place of each argument.
WORDS: dict[str, Callable[[], tuple[str, ...]]] = {
    "set": _settings,
    "vary": _keys,
    "maximize": _quantities,
    "minimize": _quantities,
    "family": lambda: _presets("model"),
    "accelerators": lambda: _presets("accelerator"),
    "with_layout": lambda: _of_solve("LAYOUTS"),
    "quantity": _quantities,
    "question": lambda: _of_solve("NAMES"),
    "extends": lambda: _presets("accelerator"),
}
