"""Completion in bash, zsh and fish, by argcomplete (extra: completion).

When Tab is pressed the shell runs the program, which answers with what its own parser, presets and
book of quantities allow at that place.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

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
                action.completer = _completer(WORDS[action.dest])
    # A plan file straight after the program's name needs no command.
    first, *rest = os.environ["COMP_LINE"].split(maxsplit=2)[1:] or [""]
    if rest and first not in commands.choices:
        parser = commands.choices["report"]
    argcomplete.autocomplete(parser)


def _completer(words: Callable[[], tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    return lambda **_: words()


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


def quantities() -> tuple[str, ...]:
    import planner.book.formulas  # noqa: F401  (registers the quantities)
    from planner.book.quantity import BOOK

    return tuple(sorted(BOOK.quantities))


def _presets(kind: str) -> Callable[[], tuple[str, ...]]:
    """The names of one kind of preset."""

    def names() -> tuple[str, ...]:
        from planner.documents import source

        return tuple(source.preset_names(kind))

    return names


def _of_solve(what: str) -> Callable[[], tuple[str, ...]]:
    """What the module of inverse questions lists."""

    def names() -> tuple[str, ...]:
        from planner.questions.solve import questions

        found: tuple[str, ...] = getattr(questions, what)
        return found

    return names


WORDS: dict[str, Callable[[], tuple[str, ...]]] = {
    "set": keys,
    "vary": lambda: tuple(_keys()),
    "maximize": quantities,
    "minimize": quantities,
    "family": _presets("model"),
    "accelerators": _presets("accelerator"),
    "with_layout": _of_solve("LAYOUTS"),
    "quantity": quantities,
    "question": _of_solve("NAMES"),
    "extends": _presets("accelerator"),
}
