"""The interface for programs: commands of the command line by name, their arguments as a JSON
object, their output as JSON.

All of it is derived from the command line's own table of commands: the keys of an object become the
words of a command, its documents files in an empty folder to which the command is bound, and its
output the answer.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from planner.base import files, resources
from planner.base.display import quote_json
from planner.base.errors import Fault, PlanError, collect_faults
from planner.documents import references, schema_files
from planner.report import layout

#: What the interface says beside commands and schemas.
WORDS = resources.load_beside(__file__, "openapi.yaml")
#: The addresses below /v1, and the tools of an assistant, by the commands that answer them; and
#: further tools of an assistant.
TOOLS: Mapping[str, str] = WORDS["tools"]
MORE: Mapping[str, str] = WORDS["more"]
#: A number, and values of a list, at most: a command line has no such bounds.
MOST = 1000
#: Keys with the text of a file, which a command names.
TEXTS = ("config", "log", "text")
#: Keys that some quantities have.
_RESULT = resources.read_json(schema_files.find_schema("result"))
QUANTITY_KEYS = _RESULT["definitions"]["quantity"]["properties"]
#: The fields of a result in short: the verdict, and of each quantity its value, unit, 90 % interval
#: and title.
BRIEF = ("verdict", *(f"quantities.*.{key}" for key in ("value", "unit", "interval", "title")))
#: Characters of an answer to an assistant at most, some 2,000 tokens.
MOST_SAID = 7000
LONG = ("solve", "search", "advise")
#: Keys with another name than on the command line.
NAMES = {"old": "a", "new": "b", "only": "quantities"}
#: Keys with a document, each the name of its file.
DOCUMENTS = ("plan", "a", "b")
#: Texts that an assistant may read whole, by the folder of their address: the words of the command
#: that prints one, but for its name, and the type of the text.
READABLE: Mapping[str, tuple[Sequence[str], str]] = WORDS["readable"]
SCHEME = "trainplan://"
#: What the terms mean; a document of docs, which a wheel carries.
GLOSSARY = {"uri": f"{SCHEME}glossary", "name": "glossary", "mimeType": "text/markdown"}
#: Options of a command line alone: how it prints, exits, and what it writes.
LEFT_OUT = frozenset(("format", "print", "require-fit", "write", "rank", "all", "apply", "run"))
#: Options that name files, folders or other machines, by what stands for their values in help.
OUTSIDE = re.compile(r"FILE|DIR|PATH|CONFIG|ADDRESS|\.yaml")
_DOCUMENT = "A plan: an object, its YAML as text, or the name of one that ships."


class Option(NamedTuple):
    """A key of the body of a request, and the option that it stands for.

    Attributes:
        key: in the body.
        flag: of the command line; None where its words stand alone.
        schema: JSON Schema of the value.
        required: whether a body must have it.
        holds: ``plan`` where the value is a plan, ``text`` where it is the text of a file,
            ``fields`` where it shortens the answer and is no word of the command.
    """

    key: str
    flag: str | None
    schema: dict[str, Any]
    required: bool
    holds: str | None = None

    @classmethod
    def from_argument(cls, names: Sequence[str], how: Mapping[str, Any]) -> Option | None:
        """Make the key for an argument of the command line; None for one that programs lack."""
        flag = names[-1] if names[-1].startswith("-") else None
        key = names[-1].removeprefix("--")
        outside = OUTSIDE.search(str(how.get("metavar")))
        if key in LEFT_OUT or (flag and outside and key not in TEXTS):
            return None
        key = NAMES.get(key, key.replace("-", "_"))
        text = str(how.get("help") or "").replace("%%", "%").removesuffix("; repeatable")
        schema: dict[str, Any] = {"description": text}
        if how.get("action") == "store_true":
            schema |= {"type": "boolean"}
        elif how.get("choices"):
            schema |= {"type": "string", "enum": list(how["choices"])}
        elif how.get("action") == "append":
            schema |= {"type": "array", "items": {"type": "string"}, "maxItems": MOST}
        elif how.get("type") in (int, float):
            whole = {"type": "integer", "maximum": MOST}
            schema |= whole if how["type"] is int else {"type": "number"}
        else:
            schema |= {"type": ["string", "number"]}
        holds = None
        if key in DOCUMENTS and how.get("action") != "store_true":
            schema, holds = {"description": _DOCUMENT, "type": ["object", "string"]}, "plan"
        elif key == "set":
            schema |= {"description": 'Other values of keys, such as {"training.tokens": "2T"}.'}
            schema |= {"type": ["object", "array"], "maxProperties": MOST}
        elif key in TEXTS and outside:
            schema = {"description": f"The text of the file: {text}", "type": "string"}
            holds = "text"
        needed = holds == "plan" or (flag is None and how.get("nargs") not in ("?", "*"))
        return cls(key, flag, schema, needed, holds)

    def yield_words(self, value: Any) -> Iterator[str]:
        """Yield the words of the command line for a value.

        Raises:
            PlanError: it has another type.
        """
        kinds = self.schema["type"]
        amount = len(value) if isinstance(value, list | dict) else value
        bounded = {"maximum", "maxItems"} & self.schema.keys()
        if bounded and isinstance(amount, int) and amount > MOST:
            raise PlanError(f"'{self.key}' has or is {amount}", None, f"at most {MOST}")
        if self.key == "set" and isinstance(value, dict):
            texts = {
                k: one if isinstance(one, str) else quote_json(one) for k, one in value.items()
            }
            value = [f"{key}={text}" for key, text in texts.items()]
        fits = {
            "boolean": isinstance(value, bool),
            "array": isinstance(value, list),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "number": isinstance(value, int | float) and not isinstance(value, bool),
            "string": isinstance(value, str),
        }
        if not any(fits.get(kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
            allowed = kinds if isinstance(kinds, str) else " or ".join(kinds)
            raise PlanError(f"'{self.key}' has another type", None, allowed)
        if isinstance(value, bool):
            yield from [str(self.flag)] * value
            return
        choices = self.schema.get("enum")
        if choices and value not in choices:
            raise PlanError(Fault.from_pool(f"'{self.key}' is '{value}'", str(value), choices))
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict | list | bool | None):
                raise PlanError(f"'{self.key}' has items of another type", None, "text")
            if self.flag is None and str(one).startswith("-"):
                raise PlanError(f"'{self.key}' begins with a dash", None, "text")
            yield str(one) if self.flag is None else f"{self.flag}={one}"


#: The key that shortens an answer.
FIELDS = Option("fields", None, WORDS["asked"]["fields"], False, "fields")


class Tool(NamedTuple):
    """A tool of the interface: its command, purpose and keys."""

    command: str
    help: str
    options: dict[str, Option]
    json: bool

    def build_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its keys."""
        return {
            "type": "object",
            "properties": {key: option.schema for key, option in self.options.items()},
            "required": [key for key, option in self.options.items() if option.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True, eq=False)
class Programs:
    """The tools by name, the names of texts by folder, and the function that runs the words of a
    command: it returns the exit status, prints the answer, and raises the faults."""

    tools: Mapping[str, Tool]
    texts: Mapping[str, Sequence[str]]
    status: Callable[[list[str]], int]

    def call_tool(self, name: str, body: Mapping[str, Any]) -> bytes:
        """Return the answer of a tool. The current folder is empty; documents are written there.

        Raises:
            PlanError: of a document, at its place in `plan.yaml`, or of a key.
        """
        tool, fields = self.tools[name], body.get(FIELDS.key)
        if fields is None:
            return self._run_command(tool, body, tool.json)[0].encode("utf-8", "replace")
        paths = [*FIELDS.yield_words(fields)]
        if name == "evaluate":
            body = {**body, "quantities": body.get("quantities") or layout.HEADLINE_IDS}
        answer = files.parse_json(self._run_command(tool, body, True)[0])
        return quote_json(select_fields(answer, paths)).encode("utf-8", "replace")

    def tell_assistant(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer an assistant as briefly as a person, for whom each word costs something.

        Returns:
            ``text``, what a terminal shows, of ``MOST_SAID`` characters at most; of `evaluate` also
                ``data``: the verdict, and value, unit and interval of the headline quantities or of
                those that are asked.

        Raises:
            PlanError: as ``call_tool``, or there is no such tool.
        """
        if name not in self.tools:
            raise PlanError(Fault.from_pool(f"no tool '{name}'", name, self.tools))
        text, data, fields = "", None, body.get(FIELDS.key)
        if name == "evaluate" or fields is not None:
            shown = {**body, FIELDS.key: [*BRIEF] if fields is None else fields}
            text = self.call_tool(name, shown).decode()
            data = files.parse_json(text)
        if fields is None and not (data and body.get("quantities")):
            text = "".join(self._run_command(self.tools[name], body, False))
        return {"text": _shorten_text(text), **({"data": data} if data else {})}

    def list_texts(self) -> list[dict[str, str]]:
        """List the texts that an assistant may read, each with its address, name and type."""
        printed = [
            {"uri": f"{SCHEME}{folder}/{name}", "name": f"{folder} {name}", "mimeType": kind}
            for folder, (_, kind) in READABLE.items()
            for name in self.texts[folder]
        ]
        return [*printed, GLOSSARY]

    def read_text(self, address: str, _: Mapping[str, Any]) -> dict[str, str]:
        """Return a text and its type by its address.

        Raises:
            PlanError: there is none.
        """
        if address == GLOSSARY["uri"]:
            text = resources.load_own_text(resources.folder("docs") / "glossary.md")
            return {"text": text, "mimeType": GLOSSARY["mimeType"]}
        folder, name = [*address.removeprefix(SCHEME).split("/", 1), ""][:2]
        if name not in self.texts.get(folder, ()):
            known = [row["uri"] for row in self.list_texts()]
            raise PlanError(Fault.from_pool(f"no text '{address}'", address, known))
        (command, *options), kind = READABLE[folder]
        return {"text": self._print(command, name, *options)[0], "mimeType": kind}

    def _run_command(self, tool: Tool, body: Mapping[str, Any], as_json: bool) -> tuple[str, str]:
        """Return what the command of a tool prints, and what it notes beside it."""
        words = [tool.command, *self._list_words(tool, body)]
        return self._print(*words, "--root=.", "--no-defaults", *["--format=json"] * as_json)

    def _print(self, *words: str) -> tuple[str, str]:
        """Return what the words of a command print, and what they note beside it."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            self.status([*words])
        return out.getvalue(), errors.getvalue()

    def _list_words(self, tool: Tool, body: Mapping[str, Any]) -> list[str]:
        """Return the words of a command for a body; its documents are written into the folder."""
        given = {key.replace("-", "_"): value for key, value in body.items()}
        faults = [
            Fault.from_pool(f"unknown key '{key}'", key, tool.options)
            for key in [key for key in given if key not in tool.options][:20]
        ]
        faults += [
            Fault(f"'{key}' is missing", None, option.schema["description"])
            for key, option in tool.options.items()
            if option.required and given.get(key) is None
        ]
        words: list[str] = []
        for key, option in tool.options.items():
            if given.get(key) is None or option.holds == "fields":
                continue
            with collect_faults(faults):
                value = given[key]
                if option.holds == "plan":
                    value = _name_file(key, value)
                elif option.holds == "text" and isinstance(value, str):
                    files.write_text(key, value)
                    value = key
                words += option.yield_words(value)
        if faults:
            raise PlanError(faults)
        return words


def build_programs(commands: Mapping[str, Any], status: Callable[[list[str]], int]) -> Programs:
    """Create the tools from a table of commands (with ``help`` and ``arguments`` of argparse
    each)."""
    tools = {}
    for name, command in {**TOOLS, **MORE}.items():
        options = (Option.from_argument(*argument) for argument in commands[command].arguments)
        kept = {option.key: option for option in options if option is not None}
        kept |= {FIELDS.key: FIELDS} if name in TOOLS else {}
        has_json = any("--format" in names for names, _ in commands[command].arguments)
        tools[name] = Tool(command, commands[command].help, kept, has_json)
    kinds = [how["choices"] for names, how in commands["schema"].arguments if "kind" in names]
    listed = tools["list"].options["what"].schema["enum"]
    texts = {"schema": kinds[0], "list": listed, "report": references.preset_names("plan")}
    return Programs(tools, texts, status)


def select_fields(data: Any, paths: Iterable[str], optional: Collection[str] = ()) -> Any:
    """Select the keys of some paths in data; of a list, in each of its items.

    Args:
        data: an answer, or a part of it.
        paths: keys with a dot between, `*` for any.
        optional: keys that may be missing.

    Raises:
        PlanError: a path leads to nothing.
    """
    below: dict[str, list[str]] = {}
    for path in paths:
        key, _, rest = path.partition(".")
        below.setdefault(key, []).append(rest)
    mappings = [
        one for one in (data if isinstance(data, list) else [data]) if isinstance(one, dict)
    ]
    if "" in below or not mappings:
        return data
    keys = dict.fromkeys(chain.from_iterable(mappings))
    if wrong := [one for one in below if one not in (*keys, "*", *optional)]:
        raise PlanError(Fault.from_pool(f"no field '{wrong[0]}'", wrong[0], keys))
    any_key, inner = below.get("*", []), QUANTITY_KEYS if "*" in below else ()
    wanted = {key: [*below.get(key, ()), *any_key] for key in keys if key in below or any_key}
    found = [
        {key: select_fields(one[key], wanted[key], inner) for key in one if key in wanted}
        for one in mappings
    ]
    return found if isinstance(data, list) else found[0]


def _shorten_text(text: str) -> str:
    """Return the first lines of a text, which then says how many it has more."""
    if len(text) <= MOST_SAID:
        return text
    kept = text[:MOST_SAID].rpartition("\n")[0]
    left = text.count("\n", len(kept)) - 1
    return f"{kept}\n… {left} lines more: ask for less, such as one quantity or one kind.\n"


def _name_file(key: str, document: Any) -> str:
    """Return the name of a document's file, which is written, or of a built-in plan.

    Raises:
        PlanError: no document and no such name.
    """
    if isinstance(document, str) and not re.search(r"[:\n]", document):
        known = references.preset_names("plan")
        if document in known:
            return document
        raise PlanError(
            Fault.from_pool(f"'{key}' is neither a document nor a built-in plan", document, known)
        )
    if not isinstance(document, dict | str):
        raise PlanError(f"'{key}' is not a plan", None, _DOCUMENT)
    text = document if isinstance(document, str) else quote_json(document, indent=2)
    files.write_text(f"{key}.yaml", text)
    return f"{key}.yaml"
