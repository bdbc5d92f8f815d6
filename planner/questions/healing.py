"""Find the nearest valid plan where a key that somebody changed contradicts others: these follow.

Keys are reset to defaults until some plan is valid, least important first; then each takes the
valid value nearest to its own, most important first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice, product
from typing import Any, NamedTuple

from planner.base.errors import Fault, PlanError
from planner.documents.source import Document
from planner.plans import plan
from planner.plans.document import Plan
from planner.plans.layout import CLEARED, KEYS, ROW, RUN, filter_keys
from planner.questions.domains import divisors, yield_starts

DEVICES, BATCH, MICRO_BATCH = "cluster.devices", "training.global_batch", "training.micro_batch"
LENGTH, LONGEST = "training.sequence_length", "model.max_sequence"
OUTER = filter_keys("outer")
#: Keys that may change, least important first: those of the layout, and all. The last two always
#: have a value.
LAYOUT = (*reversed(RUN), *CLEARED, *(key for key in reversed(KEYS) if key not in RUN))
ALL = (*LAYOUT, BATCH, LENGTH, LONGEST, DEVICES)
ROUNDS, MOST_STARTS, MOST_SIZES = 3, 4000, 4
#: Keys of a layout that control the search for it.
CHOOSING = ("auto", "margin", "for")


class Followed(NamedTuple):
    """A key that was no longer valid.

    Attributes:
        key: the dotted key.
        before: its value in the document; None where it had none.
        after: its value in the valid plan.
        why: the fault because of which it changed.
    """

    key: str
    before: Any
    after: Any
    why: str


class _Healing:
    """The search for valid values of some keys of one document; ``own`` has their own values."""

    def __init__(self, document: Document, held: Collection[str], among: Iterable[str]) -> None:
        """Read the own values of the keys that may change.

        Args:
            document: one that conforms to the schema.
            held: keys that stay, with all keys inside them.
            among: keys that may change, least important first.
        """
        layout = document.data.get("parallelism") or {}
        self.document = drop_auto_keys(document) if layout.get("auto") else document
        self.faults = self.find_faults({})
        stay = tuple(f"{key}." for key in held)
        self.own = {k: document.get(k) for k in among if not f"{k}.".startswith(stay)}

    def find_faults(self, changes: Mapping[str, Any]) -> tuple[Fault, ...]:
        """Return the faults of the document with some changes; None stands for a key's default."""
        values = {k: plan.about(k).get("default") if v is None else v for k, v in changes.items()}
        try:
            plan.build_plan(plan.change_document(self.document, values))
        except PlanError as error:
            return error.faults
        return ()

    def near(self, key: str, changes: Mapping[str, Any]) -> list[Any]:
        """List the values that a key may have besides its own, the nearest first."""

        def now(other: str) -> Any:
            """Return the present value of another key, or its default; 1 without either."""
            value = changes[other] if other in changes else self.document.get(other)
            return value or plan.about(other).get("default") or 1

        own, row = self.own[key], ROW.get(key)
        refined = f"parallelism.{row.refines}" if row and row.refines else ""
        words = row is not None and (key in CLEARED or isinstance(row.neutral, (str, bool)))
        if row is not None and (words or row.values or (refined and now(refined) == 1)):
            return [None, *row.values] if not refined or now(refined) > 1 else [None]
        of_stages, found = math.prod(map(now, OUTER)), divisors(now(DEVICES))
        if key == DEVICES:
            found = tuple(of_stages * size for size in divisors(now(BATCH)))
        elif key == BATCH:
            one = max(now(DEVICES) // of_stages, 1) * now(MICRO_BATCH)
            every = one, one * now("parallelism.pipeline")
            found = tuple(n * max(1, (own or 1) // n + up) for n in every for up in (0, 1))
        elif key in (LENGTH, LONGEST):
            found = (now(LONGEST if key == LENGTH else LENGTH),)
        elif key == MICRO_BATCH:
            found = divisors(now(BATCH))
        elif key == RUN[0]:
            found = tuple(range(1, 2 * (own or 1) + 1))
        return sorted({*found} - {own}, key=lambda value: abs(math.log(value / (own or 1))))

    def release_keys(self) -> dict[str, Any]:
        """Find some valid plan in which the least important keys have their defaults.

        Raises:
            PlanError: there is none.
        """
        changes, two = dict[str, Any](), [{RUN[0]: 2}] if RUN[0] in self.own else []
        for key in (key for key in self.own if key not in (LONGEST, DEVICES)):
            changes[key] = None
            sized = [k for k in (LONGEST, BATCH, DEVICES) if k in self.own and key not in RUN]
            others = ({k: size} for k in sized for size in self.near(k, changes)[:MOST_SIZES])
            for tried, also in product(chain([{}], others), ({}, *two)):
                if not self.find_faults(made := {**changes, **tried, **also}):
                    return made
        for degrees in islice(yield_starts(self.document.get(DEVICES)), MOST_STARTS):
            tried = {**changes, **{key: degrees[key] for key in OUTER if key in self.own}}
            if not self.find_faults(tried):
                return tried
        raise PlanError(self.faults)

    def restore_keys(self, changes: dict[str, Any]) -> list[Followed]:
        """Move each key of a valid plan as near to its own value as the others allow, and return
        the keys that stay changed."""
        why = dict[str, str]()
        for key in [*reversed([*changes])] * ROUNDS:
            for value in (self.own[key], *self.near(key, changes)):
                faults = () if value == changes[key] else self.find_faults({**changes, key: value})
                if not faults:
                    changes[key] = value
                    break
                why.setdefault(key, faults[0].message)
        moved = {k: v for k, v in changes.items() if v != self.own[k]}
        after = {k: plan.about(k).get("default") if v is None else v for k, v in moved.items()}
        first = self.faults[0].message
        return [Followed(k, self.own[k], after[k], why.get(k, first)) for k in moved]


def heal(document: Document, held: Collection[str], among: Iterable[str] = ALL) -> list[Followed]:
    """Find the keys that have to change so that a document is a valid plan.

    Args:
        document: one that conforms to the schema.
        held: keys that stay as they are.
        among: keys that may change, least important first.

    Returns:
        Each such key with its value before and after; none if the document is a valid plan.

    Raises:
        PlanError: no values of these make a valid plan; the faults are those of the document.
    """
    healing = _Healing(document, held, among)
    return healing.restore_keys(healing.release_keys()) if healing.faults else []


def build_near_plan(document: Document, held: Collection[str] = ()) -> Plan:
    """Build the plan of a document that spells its layout out; if that layout is invalid, a valid
    plan near it, with the fault in ``Plan.invalid``.

    Raises:
        PlanError: no layout makes a valid plan; the faults are those of the document.
    """
    try:
        return plan.build_plan(document)
    except PlanError:
        followed = heal(document, held, LAYOUT)
    healed = plan.build_plan(
        plan.change_document(document, {one.key: one.after for one in followed})
    )
    return replace(healed, invalid=followed[0].why)


def drop_auto_keys(document: Document) -> Document:
    """Return the document without the keys that leave its layout to the search."""
    entries = dict(document.node.value)  # type: ignore[arg-type]
    layout = dict(entries["parallelism"].value)  # type: ignore[arg-type]
    for key in CHOOSING:
        layout.pop(key, None)
    entries["parallelism"] = replace(entries["parallelism"], value=layout)
    # The data decides: it may have changed since the nodes were read.
    closed = document.change_keys({f"parallelism.{key}": None for key in CHOOSING})
    return replace(closed, node=replace(document.node, value=entries))
