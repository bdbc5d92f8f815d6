"""A program of its own: a framework's parser reads options, and its values come back as JSON.

Standard input has one mapping: `row`, one of resolvers.yaml, `words`, the options of a command, and
`config`, the values of a file that it names.
Nothing of the planner is imported, no device is seen, and no socket connects.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any


def refuse_connection(*_: Any) -> None:
    """Refuse a connection.

    Raises:
        OSError: always.
    """
    raise OSError("no network here")


def find_object(path: str) -> Any:
    """Return what `package.module:name` names."""
    module, _, name = path.partition(":")
    return attrgetter(name)(importlib.import_module(module))


def parse_options(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Parse words over the values of a file with a framework's argparse parser.

    Returns:
        ``words``: those that are no default, by the longest name of each option, then what the
            parser does not know.
    """
    row = asked["row"]
    if "adds" in row:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        find_object(row["adds"])(parser)
    else:
        parser = find_object(row["parser"])([find_object(one) for one in row["classes"]])
    actions: dict[str, argparse.Action] = {}
    for action in parser._actions:  # values as words have them; what others require is no matter
        action.required, action.type, action.choices = False, None, None
        if action.option_strings and action.dest != "help":  # the first of those that set a value
            actions.setdefault(action.dest, action)
    defaults = {dest: action.default for dest, action in actions.items()}
    parser.set_defaults(**asked["config"])
    found, rest = parser.parse_known_args(asked["words"])
    resolved = list[str]()
    for dest, action in actions.items():
        value, names = getattr(found, dest, None), sorted(action.option_strings, key=len)
        if str(value) == str(defaults[dest]):
            continue
        if isinstance(action, argparse._StoreConstAction):
            value = value == action.const
        elif isinstance(action, argparse.BooleanOptionalAction):  # --x, --no-x
            names, value = names[: 1 if value else None], True
        listed = value if isinstance(value, list) else [value]
        resolved += [names[-1], *map(str, [] if value is True else listed)]
    return {"words": [*resolved, *rest]}


def answer_question() -> None:
    """Read one question, and print the answer behind a line of its own."""
    asked = json.loads(sys.stdin.read())
    unshare = getattr(os, "unshare", None)  # of Linux, since Python 3.12
    with contextlib.suppress(OSError):
        unshare and unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)  # type: ignore[attr-defined]
    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, refuse_connection)
    with contextlib.redirect_stdout(sys.stderr):
        answer = parse_options(asked)
    print(json.dumps(answer))


if __name__ == "__main__":
    answer_question()
