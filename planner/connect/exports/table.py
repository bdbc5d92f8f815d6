"""A framework's table: how each key of a plan is said in its words, and what stays unsaid.

A key that no row of the table reads, and that the document gives, is reported as unsaid; so a new
key of the plan is never lost silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.base.display import one_line, plain
from planner.plans.document import Plan
from planner.plans.layout import FOLLOWING, KERNELS, at
from planner.plans.model import FURTHER

#: Sections of a plan that a launch configuration is about; the others are facts and assumptions.
SECTIONS = ("model", "training", "parallelism")
#: Keys of these sections that only describe.
DESCRIBING = ("model.name", "model.notes", "model.sources")


@dataclass(frozen=True)
class Unsaid:
    """A key of the plan that the framework has no words for, or only near ones."""

    key: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.key} {self.value}: {self.why}"


class Elsewhere(str):
    """Why a key stays unsaid where that hinders nothing: it is said in another place."""

    __slots__ = ()


@dataclass(frozen=True)
class Near:
    """The nearest that the framework can say, as a mapping of its keys, and how that differs."""

    keys: Mapping[str, Any]
    why: str


class Draft:
    """A configuration being made from a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.said: dict[str, Any] = {}
        self.unsaid: list[Unsaid] = []
        self.heard: set[str] = set()

    def get(self, key: str) -> Any:
        """The plan's value; the key counts as heard."""
        self.heard.add(key)
        return plain(self.plan.get(key))

    def say(self, keys: Mapping[str, Any]) -> None:
        self.said.update(keys)

    def cannot(self, key: str, why: str) -> None:
        self.heard.add(key)
        self.unsaid.append(Unsaid(key, shown(self.plan.get(key)), why))

    def rest(self) -> None:
        """What the document gives and no row has heard."""
        for key, value in given(self.plan):
            if not any(key == known or key.startswith(known + ".") for known in self.heard):
                self.unsaid.append(Unsaid(key, shown(value), "no key for it"))


Rule = Callable[[Draft], None]


@dataclass(frozen=True)
class Row:
    """One key of the plan.

    ``theirs`` alone takes the value as it is. With ``words`` each value has its word; without
    ``theirs`` the word is a mapping of their keys (an empty one where nothing needs saying).
    A value without a word is unsaid, for the reason ``why``.
    """

    ours: str
    theirs: str | None = None
    words: Mapping[Any, Any] | None = None
    why: str = "no key for it"

    def __call__(self, draft: Draft) -> None:
        value = draft.get(self.ours)
        if value is None:
            return
        if self.words is None:
            if self.theirs is None:
                draft.cannot(self.ours, self.why)
            else:
                draft.say({self.theirs: value})
            return
        word = self.words.get(value)
        if word is None:
            draft.cannot(self.ours, self.why)
            return
        if isinstance(word, Near):
            draft.cannot(self.ours, word.why)
            draft.say(word.keys)
        else:
            draft.say({self.theirs: word} if self.theirs else word)


def makes(table: Sequence[Row | Rule], plan: Plan) -> Draft:
    """The configuration that a table makes of a plan."""
    draft = Draft(plan)
    for row in table:
        row(draft)
    draft.rest()
    return draft


def given(plan: Plan) -> Iterator[tuple[str, Any]]:
    """The keys of a plan that somebody wrote; what a model's kinds differ in counts as one."""
    seen: set[str] = set()
    for path, _ in plan.document.walk():
        key = ".".join(step for step in path if isinstance(step, str))
        if key.startswith("model.kinds"):
            key = "model.kinds"
        written = plan.document.origin(path).kind != "default"
        if path[0] in SECTIONS and written and key not in seen and not key.startswith(DESCRIBING):
            seen.add(key)
            yield key, plan.get(key)


def shown(value: Any) -> str:
    """A value on one line of a comment, whatever a document made of it."""
    if isinstance(value, Mapping):
        return "(" + ", ".join(map(str, value)) + ")"
    if isinstance(value, bool):
        return "true" if value else "false"
    return one_line(str(plain(value)))


@dataclass(frozen=True)
class Config:
    """What an exporter made."""

    text: str
    said: Mapping[str, Any]
    unsaid: tuple[Unsaid, ...]
    by_hand: tuple[str, ...] = field(default=())


# Rules that several frameworks share ---------------------------------------------------------


def steps(theirs: str) -> Rule:
    """Optimizer steps of the run, the last one begun counted."""

    def rule(draft: Draft) -> None:
        tokens, batch, length = (
            draft.get(f"training.{key}") for key in ("tokens", "global_batch", "sequence_length")
        )
        if tokens and batch and length:
            draft.say({theirs: int(-(-tokens // (batch * length)))})

    return rule


def heard(*keys: str) -> Rule:
    """Keys that follow from others or change nothing in a launch configuration."""

    def rule(draft: Draft) -> None:
        draft.heard.update(keys)

    return rule


#: A configuration is of a training run, whoever makes it.
TRAINS = Row("training.mode", words={"train": {}}, why="the configuration is of a training run")
#: Which kernels a plan counts with is an assumption; what follows from others is no key.
FOLLOWS = heard(KERNELS, "training.distributed_optimizer", "training.output_tokens", *at(FOLLOWING))


def stack(draft: Draft) -> tuple[str, ...]:
    """The kind of each layer, without the modules that predict further tokens."""
    model = draft.plan.model
    if model is None:
        return ()
    return tuple(name for name in model.sequence if name != FURTHER)


def exchange(theirs: str, ring: str, gather: str) -> Rule:
    """How context-parallel ranks exchange keys and values, where there are several."""

    def rule(draft: Draft) -> None:
        way = draft.get("parallelism.context_exchange")
        if draft.get("parallelism.context") > 1:
            draft.say({theirs: {"ring": ring, "gather": gather}[way]})

    return rule


def elsewhere(section: str, why: str) -> Rule:
    """A whole section that is stated elsewhere than in a launch configuration."""

    def rule(draft: Draft) -> None:
        draft.heard.add(section)
        named = (draft.plan.get(f"{section}.{key}") for key in ("name", "parameters"))
        shown_as = next((str(name) for name in named if name is not None), "as given")
        draft.unsaid.append(Unsaid(section, one_line(shown_as), why))

    return rule


# Writing -------------------------------------------------------------------------------------


def nested(said: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as mappings in mappings."""
    tree: dict[str, Any] = {}
    for dotted, value in said.items():
        *around, last = dotted.split(".")
        node = tree
        for step in around:
            node = node.setdefault(step, {})
        node[last] = value
    return tree


def yaml_text(tree: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100))
