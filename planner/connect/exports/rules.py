"""How the rows of a framework's document are read: each says something of a plan in the words of
the framework, or hears of its keys.

A row is ``{KEY: option}``, or ``{KEY: {…}}`` with these:
    to          their key; alone it takes the value as it is
    words       a word for each value; without ``to`` the word is a mapping of their keys (an empty
                one where nothing needs saying), or holds what is ``near``, and ``why`` it differs
    only        the one value that goes without saying
    why         why a value without a word is unsaid, or said ``elsewhere``, which hinders nothing
    near        why what is said is not quite it
A row may stand under a condition, by itself or with others below ``rows``: that a key, or one of
some, is ``given`` and not 0, ``unless`` it is, that there are ``several`` or a ``single`` one, that
of two keys the values ``differ``, or that of the first is ``less``. Other rows name a ``rule`` with
its arguments, a ``section`` that is stated elsewhere, or what the framework ``hears`` of: keys that
follow from others, change nothing in a launch configuration, or are said by a rule; as a mapping,
by the key that they stand under.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import getmembers, isfunction
from math import prod
from typing import Any

from planner.base.display import one_line
from planner.connect.exports import megatron, nanotron, torchtitan
from planner.connect.exports.table import Draft, Elsewhere, Unsaid
from planner.plans.layout import FOLLOWING, KERNELS, at

Row = Mapping[str, Any]


def count(draft: Draft, to: str, of: Sequence[str]) -> dict[str, int]:
    """How many steps or samples, of the tokens that these sizes multiply to, the run has; the last
    one begun counts."""
    tokens, *sizes = (draft.get(f"training.{key}") for key in ("tokens", *of))
    return {to: int(-(-tokens // prod(sizes)))} if tokens and all(sizes) else {}


def quotient(draft: Draft, to: str, of: str, by: str) -> dict[str, int]:
    """One key of the plan divided by another, rounded up; 1 where there is no other."""
    whole = draft.get(of)
    return {to: -(-whole // (draft.get(by) or whole))}


#: The rules that rows name; what else such a row says are their arguments.
RULES: Mapping[str, Callable[..., Mapping[str, Any] | None]] = {
    "named": lambda draft, to: {to: one_line(str(draft.plan.name))},
    "says": lambda draft, **options: options,
    "count": count,
    "quotient": quotient,
    **{
        f"{module.__name__.rpartition('.')[2]}.{name}": rule
        for module in (megatron, nanotron, torchtitan)
        for name, rule in getmembers(module, isfunction)
    },
}
#: Under which values of a key, or of several, a row or a group of rows is heard.
CONDITIONS: Mapping[str, Callable[..., object]] = {
    "given": lambda *values: any(values),
    "unless": lambda *values: not any(values),
    "several": lambda value: value > 1,
    "single": lambda value: value == 1,
    "differ": operator.ne,
    "less": operator.lt,
}


def _holds(draft: Draft, name: str, about: str | Sequence[str]) -> object:
    keys = [about] if isinstance(about, str) else about
    return CONDITIONS[name](*map(draft.get, keys))


def follow(draft: Draft, rows: Iterable[Row]) -> None:
    """What rows say, one after another."""
    for row in rows:
        key, about = next(iter(row.items()))
        if "." in key:
            _say(draft, key, {"to": about} if isinstance(about, str) else about)
        elif key in CONDITIONS:
            if _holds(draft, key, about):
                follow(draft, row["rows"])
        elif key == "rule":
            options = {name: value for name, value in row.items() if name != key}
            draft.said |= RULES[about](draft, **options) or {}
        elif key == "section":
            draft.heard.add(about)
            names = (draft.plan.get(f"{about}.{key}") for key in ("name", "parameters"))
            shown = next((str(name) for name in names if name is not None), "as given")
            draft.unsaid.append(Unsaid(about, one_line(shown), _why(row)))
        elif isinstance(about, Mapping):
            draft.heard |= {f"{above}.{key}" for above, keys in about.items() for key in keys}
        else:
            draft.heard.update(about)


def _say(draft: Draft, key: str, row: Row) -> None:
    """One key of the plan; where its row stands under a condition, it counts as heard all the
    same."""
    value, to, words = draft.get(key), row.get("to"), row.get("words")
    if not all(_holds(draft, name, row[name]) for name in CONDITIONS if name in row):
        return
    if value is None:
        return
    said, why = {to: value} if to else {}, row.get("near") if to else _why(row)
    if "only" in row:
        words = {row["only"]: {}}
    if words is not None:
        word = words.get(value)
        if word is None:
            said, why = {}, _why(row)
        elif isinstance(word, Mapping) and "near" in word:
            said, why = word["near"], word["why"]
        else:
            said, why = {to: word} if to else word, None
    if why is not None:
        draft.cannot(key, why)
    draft.said |= said


def _why(row: Row) -> str:
    return Elsewhere(row["elsewhere"]) if "elsewhere" in row else row.get("why", "no key for it")


#: What holds of all: a configuration is of a training run, whoever makes it. Which kernels a plan
#: counts with is an assumption; what follows from others is no key.
OF_ALL: tuple[Row, ...] = (
    {"training.mode": {"only": "train", "why": "the configuration is of a training run"}},
    {
        "hears": [
            KERNELS,
            "training.distributed_optimizer",
            "training.output_tokens",
            *at(FOLLOWING),
        ]
    },
)
