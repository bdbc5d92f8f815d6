"""A launch configuration being made: what a plan says, what is said of it, and what stays unsaid.

Each framework has a document in this folder, with a row for each key that it has words for; what a
row cannot say, a rule computes, a function by the name that a row gives. A key that no row hears
of, and that the plan gives, is reported as unsaid; so a new key of the plan is never lost silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import yaml

from planner.base.display import one_line, plain
from planner.documents import aliases, references, stacks
from planner.documents.source import expand_keys
from planner.plans.document import STACK, Block, Plan
from planner.plans.layout import ROW
from planner.plans.model import FURTHER
from planner.plans.plan import IDLE, about

#: Sections of a plan that a launch configuration is about; the others are facts and assumptions.
SECTIONS = ("model", "training", "parallelism", "rl")
#: Keys of these sections that only describe.
DESCRIBING = ("model.name", "model.notes", "model.sources")


@dataclass(frozen=True)
class Unsaid:
    """A key of the plan that the framework has no words for, or only near ones.

    Attributes:
        key: the dotted key.
        value: its value, on one line.
        why: the reason, an ``Elsewhere`` or a ``Nearly`` where the plan that runs is the same or
            almost.
    """

    key: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.key} {self.value}: {self.why}"


class Elsewhere(str):
    """Why a key stays unsaid where that hinders nothing: it is said in another place."""


class Nearly(str):
    """Why what is said of a key is not quite it."""


class ExportDraft:
    """A configuration being made from a plan.

    Attributes:
        plan: the plan.
        framework: the name of the framework that reads the configuration.
        said: options so far.
        unsaid: keys without an option so far.
        heard: keys that some row has read, also those with no option.
    """

    def __init__(self, plan: Plan, framework: str) -> None:
        self.plan = plan
        self.framework = framework
        self.said: dict[str, Any] = {}
        self.unsaid: list[Unsaid] = []
        self.heard: set[str] = set()

    def get(self, key: str) -> Any:
        """Return the plan's value and hear its key; ``layer.KIND.KEY`` is of the first block of a
        kind, and a stack has no month."""
        self.heard.add(key)
        if not key.startswith("layer."):
            # What one device alone has no use for is what its launch file says all the same.
            idle = self.plan.derived.get(key) == IDLE
            value = plain(self.plan.document.get(key) if idle else self.plan.get(key))
            return stacks.split_stack(value)[0] if key == STACK and value else value
        _, kind, name = key.split(".")
        return next((block.values.get(name) for block in self.list_blocks(kind)), None)

    def list_blocks(self, kind: str) -> list[Block]:
        """List the different blocks of a kind among the layers."""
        model = self.plan.model
        found: list[Block] = []
        for part in model.parts if model else ():
            found += [b for b in part.blocks if b.kind == kind and b not in found]
        return found

    def add_gap(self, key: str, why: str) -> None:
        """Report a key as unsaid, its value on one line whatever a document made of it. What the
        stack of a plan that names none sets is an assumption, and no gap; nor is what the framework
        does anyway."""
        self.heard.add(key)
        value = self.plan.get(key)
        changed = key in self.plan.document.changed
        assumed = not changed and all(self._is_of_stack(path) for path in (key, STACK))
        if assumed or (key in self.usual and self.usual[key] == plain(value)):
            return
        if isinstance(value, Mapping):
            shown = "(" + ", ".join(map(str, value)) + ")"
        elif isinstance(value, bool):
            shown = "true" if value else "false"
        else:
            shown = one_line(str(plain(value)))
        self.unsaid.append(Unsaid(key, shown, why))

    def _is_of_stack(self, key: str) -> bool:
        """Check whether the plan's stack decided a key."""
        return self.plan.document.find_origin(key.split(".")).kind == stacks.KIND

    @cached_property
    def usual(self) -> Mapping[str, Any]:
        """What the framework does where its file is silent, as its stack of the plan's month has it
        by dotted key; nothing where the plan names no stack, or the framework has none."""
        known, of_plan = references.preset_names(stacks.KIND), self.plan.get(STACK)
        name = aliases.find_preset(stacks.KIND, self.framework, known)
        if name is None or of_plan is None:
            return {}
        own = stacks.split_stack(of_plan)[0]
        if "engine" in (stack := stacks.load_stack(own)) and stack["extends"] == name:
            name = own  # the framework with another engine

        def get(key: str) -> Any:
            """Return what the plan states itself."""
            return None if self._is_of_stack(key) else plain(self.plan.document.get(key))

        settings = stacks.yield_settings("".join([name, *of_plan.partition("@")[1:]]), get)
        return {key: value for key, value in settings if value is not None}

    def add_rest(self) -> None:
        """Report what the plan gives and no row has heard; a model's kinds count as one key."""
        heard, seen, document = frozenset(self.heard), set(), self.plan.document
        given = [path for path, _ in document.walk_values()]
        stated = (path for path in given if document.find_origin(path).kind != "default")
        for path in (*stated, *self._yield_changed()):
            key = ".".join(step for step in path if isinstance(step, str))
            if key.startswith("model.kinds"):
                key = "model.kinds"
            describes = path[0] not in SECTIONS or key.startswith(DESCRIBING)
            if describes or key in seen:
                continue
            seen.add(key)
            if not any(key == known or key.startswith(known + ".") for known in heard):
                self.add_gap(key, "no key for it")

    def _yield_changed(self) -> Iterator[Sequence[str]]:
        """Yield the paths of what was changed in the plan's document to a value that does
        something, and of what a stack sets that was named so."""
        document = self.plan.document
        for key, given in document.changed.items():
            idle = ROW[key].neutral if key in ROW else about(key).get("default")
            if given and self.plan.get(key) != idle:
                yield key.split(".")
        if document.changed.get(STACK):
            settable = stacks.list_settable(document.get(STACK))
            yield from (key.split(".") for key in settable if document.get(key) is not None)


@dataclass(frozen=True)
class LaunchConfig:
    """The file of a framework for a plan.

    Attributes:
        text: the file.
        said: its options.
        unsaid: keys of the plan that it has no option for.
        commented: whether comments in the text list these keys.
        environment: environment variables that it needs, with their values.
    """

    text: str
    said: Mapping[str, Any]
    unsaid: tuple[Unsaid, ...]
    commented: bool
    environment: Mapping[str, str]

    @property
    def lost(self) -> tuple[Unsaid, ...]:
        """List what the framework cannot do: what would run is another plan."""
        return tuple(each for each in self.unsaid if not isinstance(each.why, (Elsewhere, Nearly)))


def mark_experts(draft: ExportDraft) -> list[bool]:
    """Mark each layer that has experts, without the modules that predict further tokens."""
    model = draft.plan.model
    if model is None:
        return []
    has = {part.name: any(block.kind == "moe" for block in part.blocks) for part in model.parts}
    return [has[name] for name in model.sequence if name != FURTHER]


def write_config(form: str, said: Mapping[str, Any], head: str) -> str:
    """Write a configuration, after comments where its form has them.

    Args:
        form: flags, json or yaml.
        said: options by dotted keys.
        head: the comments.
    """
    if form == "flags":  # one option a line
        lines = [" ".join((f"--{key}", *format_args(value))) for key, value in said.items()]
        return head + "\n".join(lines) + "\n"
    tree = expand_keys(said)
    if form == "json":
        return json.dumps(tree, indent=2) + "\n"
    return head + str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100))


def format_args(value: Any) -> list[str]:
    """Format the arguments of an option: none of a flag; a list of words one by one, one of numbers
    and a pair as Python has them, without blanks."""
    if value is True:
        return []
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    return [to_literal(value).replace(" ", "") if isinstance(value, (list, tuple)) else str(value)]


def to_literal(value: Any) -> str:
    """Format a value in Python; long lists as runs: ``[0] * 3 + [1] * 58``."""
    if not isinstance(value, list) or not value:
        return repr(value)
    runs = [(one, len([*run])) for one, run in groupby(value)]
    if 2 * len(runs) >= len(value):
        return repr(value)
    return " + ".join(f"[{one!r}] * {n}" for one, n in runs)


#: A call, as the rows of a framework write one.
CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)")
#: What rows write and a plan never does: calls, and members of an enumeration.
WRITTEN = re.compile(rf"{CALL.pattern}|[A-Z]\w*\.\w+")
#: How a call ends that takes what stands below it as arguments.
OPEN = ("()", "[-1])")


def write_python(
    frame: str, imports: Mapping[str, str], written: Container[str], said: Mapping[str, Any]
) -> str:
    """Write a Python file: what is said as assignments to ``config``, below a call its arguments,
    unless the row has them. Only what a row writes is a call, never what a plan says.

    Args:
        frame: the text around, with ``imports`` and ``lines``.
        imports: modules by the name that is used.
        written: calls and members that rows write.
        said: options by dotted keys.
    """
    held = {
        key: value for key, value in said.items() if isinstance(value, str) and value in written
    }
    calls = {key for key, value in held.items() if CALL.fullmatch(value)}

    def call_of(key: str) -> str | None:
        """Find the nearest call that takes a key as an argument; None if there is none."""
        steps = key.split(".")
        above = (".".join(steps[:end]) for end in range(len(steps) - 1, 0, -1))
        found = next((one for one in above if one in calls), None)
        return found if found and said[found].endswith(OPEN) else None

    def worth(value: Any) -> str:
        """Write a value: calls and members of rows as they are, all else as a literal."""
        if isinstance(value, list) and any(isinstance(one, (str, list)) for one in value):
            return f"[{', '.join(map(worth, value))}]"
        return value if isinstance(value, str) and value in written else to_literal(value)

    def line(key: str) -> str:
        """Write the value of a key; a call with its arguments, on several lines if it is long."""
        call = CALL.fullmatch(said[key]) if key in calls else None
        if call is None:
            return worth(said[key])
        inner = [call[2]] * bool(call[2])
        inner += [f"{one.rpartition('.')[2]}={line(one)}" for one in said if call_of(one) == key]
        short = ", ".join(inner)
        broken = "".join(f"\n        {one}," for one in inner) + "\n    "
        return f"{call[1]}({short if len(short) < 80 else broken})"

    body = "\n".join(f"    config.{key} = {line(key)}" for key in said if call_of(key) is None)
    modules: dict[str, list[str]] = {}
    for name, module in sorted(imports.items()):
        if re.search(rf"\b{name}\b", f"{frame}{body}"):
            modules.setdefault(module, []).append(name)
    wanted = (f"from {each} import {', '.join(modules[each])}" for each in sorted(modules))
    return frame.format(imports="\n".join(wanted), lines=body) + "\n"


def walk_texts(said: Any) -> Iterator[str]:
    """Yield all text in the values of rows."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, (list, tuple, Mapping)):
        for inner in said.values() if isinstance(said, Mapping) else said:
            yield from walk_texts(inner)
