"""A validated document as frozen dataclasses, with defaults that depend on other keys filled in.

The schema fills constant defaults; what depends on another key (key/value heads default to heads,
the feed-forward width to four times hidden) is filled here and marked as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.book.quantity import BOOK, Book
from planner.documents import schema, stacks
from planner.documents.source import Document, change_keys, lookup

STACK = "training.stack"


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a layer: ``kind`` names its components, ``values`` its shape and choices."""

    kind: str
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    stack: Stack | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """A stream of tokens with width, tokens and positions of its own.

    Attributes:
        name: unique in the model.
        tower: ``vision`` or ``audio``, whose items and tokens the run states; ``context`` beside
            the sequence; ``joint`` of both; one ``condition`` for each sequence; or its ``own``
            tokens inside a part that has others.
        hidden: width.
        positions: how tokens are placed, as in ``model.positions``.
        longest: rows of a table of positions.
        rows: for each token of an item.
        extra: rows of an item besides these.
        window: rows that are a sequence of their own; None for all of an item.
        queries: of an item, where not each of its rows is one.
        frozen: whether it is not trained.
        crosses: whether it is cross-attention: queries are the sequence's tokens.
        streams: with weights of their own, each launched by itself.
    """

    name: str
    tower: str
    hidden: int
    positions: str
    longest: int
    rows: Fraction = Fraction(1)
    extra: int = 0
    window: int | None = None
    queries: int | None = None
    frozen: bool = False
    crosses: bool = False
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """A layer kind, or the blocks before and after the layers (``embedding``, ``head``).

    Attributes:
        name: in ids, such as ``moe``.
        title: for people.
        count: layers of this kind.
        blocks: in the order of the forward pass.
        stack: the stream of its tokens, if that is not the decoder's.
        at: the end that it goes with, if it is no layer.
    """

    name: str
    title: str
    count: int
    blocks: tuple[Block, ...]
    stack: Stack | None = None
    at: str = ""

    @property
    def place(self) -> str:
        """``embedding`` or ``head`` of a part that is no layer, else the name of the layer kind."""
        return self.at or self.name


@dataclass(frozen=True, slots=True)
class Model:
    """A model of known shape: its parts, and the kind of each layer from first to last. ``front``
    names the parts of towers, each as often as it occurs; the first stage holds them."""

    parts: tuple[Part, ...]
    sequence: tuple[str, ...]
    front: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A run of equal pipeline stages, by its first: what it holds, how much is in flight.

    Attributes:
        index: of the first stage, from 0 on.
        last: index of the last of consecutive stages that hold the same.
        holds: layers by part.
        alive: layers times micro-batches whose activations are in memory at the peak, by part.
        of_run: the same of all stages of the run together.
    """

    index: int
    last: int
    holds: Mapping[str, int]
    alive: Mapping[str, int]
    of_run: Mapping[str, int]

    @property
    def name(self) -> str:
        """Its index, or the first and last index of equal stages in a row: ``1-6``."""
        return str(self.index) if self.index == self.last else f"{self.index}-{self.last}"


@dataclass(frozen=True, repr=False)
class Plan:
    """A complete plan, the input of the formulas.

    Attributes:
        name: for people.
        document: what was written, with places.
        data: the resolved tree with every default filled in; quantities in base units.
        model: None if the model is given by its size only.
        settings: what decides which formula applies, by dotted key.
        derived: why a key has its value, by dotted key.
        defaults: as ``derived``, also for keys that are given.
        searched: what the search that chose its layout kept.
        invalid: why the layout that the document gives is not valid.
        book: with the quantities that the document defines.
        others: the plans that go with that of a trainer in reinforcement learning, by role; or the
            teacher's.
    """

    name: str
    document: Document
    data: Mapping[str, Any]
    model: Model | None
    settings: Mapping[str, Any]
    derived: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    searched: Mapping[str, Any] | None = None
    invalid: str = ""
    book: Book = BOOK
    others: Mapping[str, Plan] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Plan {self.name!r}>"

    @property
    def reinforced(self) -> bool:
        """Whether it is the trainer's of a plan of reinforcement learning."""
        return "engine" in self.others

    def get(self, dotted: str) -> Any:
        """Return the value of a dotted key, None where it is not given."""
        return lookup(self.data, dotted)


def merge_mappings(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``own`` over ``base``; where both have a mapping, its keys one by one."""
    found = dict(base)
    for key, value in own.items():
        old = found.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        found[key] = {**old, **value} if both else value  # type: ignore[dict-item]
    return found


def copy_mappings(node: Any) -> Any:
    """Copy nested mappings so that keys can be filled in; lists are shared."""
    if not isinstance(node, dict):
        return node
    return {k: copy_mappings(v) if isinstance(v, dict) else v for k, v in node.items()}


class Unknown(dict[str, Any]):
    """Stands for a faulty value: using it raises LookupError."""

    def _stop_check(self, *_: Any, **__: Any) -> Any:
        """Raise a LookupError, which ends the check that reads the faulty value."""
        raise LookupError("a value that is faulty")

    __contains__ = __getitem__ = __iter__ = __len__ = __bool__ = __eq__ = __ne__ = _stop_check
    __str__ = __format__ = get = items = keys = values = _stop_check
    __hash__ = None


class Draft:
    """A plan being completed, with the reasons of derived values and the faults so far."""

    def __init__(self, document: Document, data: Any) -> None:
        self.document = document
        self.data = data
        self.derived: dict[str, str] = {}
        self.defaults: dict[str, str] = {}  # why each has its default, whoever states it
        self.faults: list[Fault] = []

    def get(self, dotted: str) -> Any:
        """Return the value of a dotted key, None where there is none so far."""
        return lookup(self.data, dotted)

    def default(self, dotted: str, value: Any, why: str) -> Any:
        """Fill in a key that is not given, and record why.

        Args:
            dotted: the key, with its sections.
            value: in the unit of the key.
            why: the rule, as inputs and the page print it.

        Returns:
            the value of the key, given or not.
        """
        node: Any = self.data
        steps = dotted.split(".")
        key = steps.pop()
        for step in steps:
            node = node.setdefault(step, {})
        if node.get(key) is None:
            node[key] = value
            self.derived[dotted] = why
        if node[key] == value:
            self.defaults[dotted] = why
        return node[key]

    def fault(
        self, dotted: str, message: str, allowed: str | None = None, against: str = ""
    ) -> None:
        """Record a fault; ``raise_faults`` raises all of them. If a stack decided one of the keys,
        that key goes back to its default instead, for what the plan states comes first, unless the
        stack does not run the default.

        Args:
            dotted: the key at fault, with its sections; a number in it is an index of a list.
            message: what is wrong.
            allowed: what may be written.
            against: another key that the value contradicts.
        """
        for key in filter(self._is_from_stack, (dotted, against)):
            default, stack = (schema.describe("plan", key) or {}).get("default"), self.get(STACK)
            if default in stacks.find_choices(stack).get(key, (default,)):
                self.data = change_keys(self.data, {key: default})
                return
            message += f", which training.stack {stack} sets"
        path = [int(step) if step.isdigit() else step for step in dotted.split(".")]
        self.faults.append(Fault(message, self.document.find_place(path), allowed))

    def _is_from_stack(self, dotted: str) -> bool:
        """Decide whether a key has the value that a stack set."""
        node = self.document.find_node(dotted.split("."))
        return node.origin.kind == stacks.KIND and node.plain() == self.get(dotted)

    def raise_faults(self) -> None:
        """Raise a PlanError if there are faults."""
        if self.faults:
            raise PlanError(self.faults)
