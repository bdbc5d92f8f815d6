"""The planner for programs: commands of the command line by name, what they take as an object, what
they answer as JSON.

All follows from the table of commands that the command line itself is made of: the keys of an
object become the words of a command, documents in it files of an empty folder to which the command
is bound, and what it prints is the answer.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from planner.base import files
from planner.base.display import quoted
from planner.base.errors import Fault, PlanError
from planner.documents import source

#: The addresses below /v1, and the tools of an assistant, by the commands that answer them.
TOOLS = {
    **{"evaluate": "report", "solve": "solve", "search": "search"},
    **{"explain": "explain", "diff": "diff"},
}
#: What else an assistant may ask for.
MORE = {"quick": "quick", "list": "list"}
#: What is looked for at length.
LONG = ("solve", "search")
#: What is called otherwise than on the command line.
NAMES = {"old": "a", "new": "b", "only": "quantities"}
#: What holds a document; its file is called so.
DOCUMENTS = ("plan", "a", "b")
#: Options of a command line alone: how it prints, exits, and what it writes.
LEFT_OUT = frozenset(("format", "print", "interactive", "require-fit", "write", "rank", "all"))
#: Options that name files, folders or other machines, by what stands for their values in help.
OUTSIDE = re.compile(r"FILE|DIR|PATH|ADDRESS|\.yaml")
_DOCUMENT = "A plan: an object, its YAML as text, or the name of one that ships."


class Option(NamedTuple):
    """A key of an object."""

    key: str
    flag: str | None  # of the command line; none where its words stand alone
    schema: dict[str, Any]
    required: bool

    @classmethod
    def of(cls, names: Sequence[str], how: Mapping[str, Any]) -> Option | None:
        """What an argument of the command line is as a key; None for what programs do not say."""
        flag = names[-1] if names[-1].startswith("-") else None
        key = names[-1].removeprefix("--")
        if key in LEFT_OUT or (flag and OUTSIDE.search(str(how.get("metavar")))):
            return None
        key = NAMES.get(key, key.replace("-", "_"))
        text = str(how.get("help") or "").replace("%%", "%").removesuffix("; repeatable")
        schema: dict[str, Any] = {"description": text}
        if how.get("action") == "store_true":
            schema |= {"type": "boolean"}
        elif how.get("choices"):
            schema |= {"type": "string", "enum": list(how["choices"])}
        elif how.get("action") == "append":
            schema |= {"type": "array", "items": {"type": "string"}}
        elif how.get("type") in (int, float):
            schema |= {"type": "integer" if how["type"] is int else "number"}
        else:
            schema |= {"type": ["string", "number"]}
        if key in DOCUMENTS:
            schema = {"description": _DOCUMENT, "type": ["object", "string"]}
        elif key == "set":
            schema |= {"description": 'Other values of keys, such as {"training.tokens": "2T"}.'}
            schema |= {"type": ["object", "array"]}
        needed = key in DOCUMENTS or (flag is None and how.get("nargs") not in ("?", "*"))
        return cls(key, flag, schema, needed)

    def words(self, value: Any) -> Iterator[str]:
        """The words of the command line that a value is.

        Raises:
            PlanError: it is of another kind.
        """
        kinds = self.schema["type"]
        if self.key == "set" and isinstance(value, dict):
            value = [f"{key}={_scalar(one)}" for key, one in value.items()]
        fits = {
            "boolean": isinstance(value, bool),
            "array": isinstance(value, list),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "number": isinstance(value, int | float) and not isinstance(value, bool),
            "string": isinstance(value, str),
        }
        if not any(fits.get(kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
            allowed = kinds if isinstance(kinds, str) else " or ".join(kinds)
            raise PlanError(Fault(f"'{self.key}' is something else", None, allowed))
        if isinstance(value, bool):
            yield from [str(self.flag)] * value
            return
        choices = self.schema.get("enum")
        if choices and value not in choices:
            raise PlanError(Fault.among(f"'{self.key}' is '{value}'", str(value), choices))
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict | list | bool | None):
                raise PlanError(Fault(f"'{self.key}' holds something else", None, "text"))
            if self.flag is None and str(one).startswith("-"):
                raise PlanError(Fault(f"'{self.key}' begins with a dash", None, "text"))
            yield str(one) if self.flag is None else f"{self.flag}={one}"


def _scalar(value: Any) -> str:
    """A value as it stands behind `--set KEY=`."""
    return value if isinstance(value, str) else quoted(value)


class Tool(NamedTuple):
    """What programs may ask for: the command that answers, what it is for, what it takes."""

    command: str
    help: str
    options: dict[str, Option]
    json: bool

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what it takes."""
        return {
            "type": "object",
            "properties": {key: option.schema for key, option in self.options.items()},
            "required": [key for key, option in self.options.items() if option.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True, eq=False)
class Programs:
    """The tools by name, and what runs the words of a command: it returns the exit status, prints
    the answer, and raises the faults."""

    tools: Mapping[str, Tool]
    status: Callable[[list[str]], int]

    def call(self, name: str, body: Mapping[str, Any]) -> bytes:
        """What a tool answers. The current folder is empty; documents are written there.

        Raises:
            PlanError: of a document, at its place in `plan.yaml`, or of a key.
        """
        tool = self.tools[name]
        words = [tool.command, *self._words(tool, body)]
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            self.status([*words, "--root=.", "--no-defaults", *["--format=json"] * tool.json])
        return out.getvalue().encode("utf-8", "replace")

    def _words(self, tool: Tool, body: Mapping[str, Any]) -> list[str]:
        """A body as the words of a command; its documents are written into the folder."""
        given = {key.replace("-", "_"): value for key, value in body.items()}
        faults = [
            Fault.among(f"unknown key '{key}'", key, tool.options)
            for key in given
            if key not in tool.options
        ]
        faults += [
            Fault(f"'{key}' is missing", None, option.schema["description"])
            for key, option in tool.options.items()
            if option.required and given.get(key) is None
        ]
        words: list[str] = []
        for key, option in tool.options.items():
            if given.get(key) is None:
                continue
            try:
                words += [_file(key, given[key])] if key in DOCUMENTS else option.words(given[key])
            except PlanError as error:
                faults += error.faults
        if faults:
            raise PlanError(faults)
        return words


def programs(commands: Mapping[str, Any], status: Callable[[list[str]], int]) -> Programs:
    """The tools that a table of commands makes (``help`` and ``arguments`` of each, as argparse is
    told of them)."""
    tools = {}
    for name, command in {**TOOLS, **MORE}.items():
        options = (Option.of(*argument) for argument in commands[command].arguments)
        kept = {option.key: option for option in options if option is not None}
        has_json = any("--format" in names for names, _ in commands[command].arguments)
        tools[name] = Tool(command, commands[command].help, kept, has_json)
    return Programs(tools, status)


def _file(key: str, document: Any) -> str:
    """The name of a document's file, which is written, or of a plan that ships.

    Raises:
        PlanError: no document and no such name.
    """
    if isinstance(document, str) and not re.search(r"[:\n]", document):
        known = source.preset_names("plan")
        if document in known:
            return document
        raise PlanError(
            Fault.among(f"'{key}' is no document and no plan that ships", document, known)
        )
    if not isinstance(document, dict | str):
        raise PlanError(Fault(f"'{key}' is no plan", None, _DOCUMENT))
    text = document if isinstance(document, str) else quoted(document, indent=2)
    files.write_text(f"{key}.yaml", text)
    return f"{key}.yaml"
