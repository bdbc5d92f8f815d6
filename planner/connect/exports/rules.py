"""What the rows of a framework's document stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import getmembers, isfunction
from math import prod
from typing import Any

from planner.base.display import one_line
from planner.connect.exports import accelerate, megatron, nanotron, torchtitan
from planner.connect.exports.table import Draft, Elsewhere, Row, Rule, Unsaid
from planner.plans.layout import FOLLOWING, KERNELS, at


def count(draft: Draft, to: str, of: Sequence[str]) -> dict[str, int]:
    """How many steps or samples, of the tokens that these sizes multiply to, the run has; the last
    one begun counts."""
    tokens, *sizes = (draft.get(f"training.{key}") for key in ("tokens", *of))
    return {to: int(-(-tokens // prod(sizes)))} if tokens and all(sizes) else {}


#: The rules that rows name; what else such a row says are their arguments.
RULES: Mapping[str, Callable[..., Mapping[str, Any] | None]] = {
    "named": lambda draft, to: {to: one_line(str(draft.plan.name))},
    "count": count,
    **{
        f"{module.__name__.rpartition('.')[2]}.{name}": rule
        for module in (accelerate, megatron, nanotron, torchtitan)
        for name, rule in getmembers(module, isfunction)
    },
}
#: Under which value of a key a row or a group of rows is heard.
CONDITIONS: Mapping[str, Callable[[Any], object]] = {
    "given": bool,
    "unless": lambda value: not value,
    "several": lambda value: value > 1,
}


def rows(said: Sequence[Mapping[str, Any]]) -> Iterator[Rule]:
    """The rules that the rows of a document stand for: ``{KEY: option}``, ``{KEY: {to: …}}``, or
    one that hears of keys that need no saying, speaks for a section, names a rule, or holds rows
    that are heard where a key is ``given`` and not 0, ``unless`` it is, or for ``several``. The
    row of a key may name such a condition too."""
    for each in said:
        (key, about), *more = each.items()
        options = dict(more)
        if key == "hears":
            yield partial(_hear, about)
        elif key == "section":
            yield partial(_section, about, _reason(options))
        elif key == "rule":
            yield partial(RULES[about], **options)
        elif key in CONDITIONS:
            yield partial(_where, CONDITIONS[key], about, tuple(rows(options["rows"])))
        else:
            yield from _row(key, {"to": about} if isinstance(about, str) else dict(about))


def _row(key: str, about: dict[str, Any]) -> Iterator[Rule]:
    """The row of a key; where it stands under a condition, the key counts as heard all the same."""
    if "elsewhere" in about or "why" in about:
        about["why"] = _reason(about)
    if "only" in about:
        about["words"] = {about.pop("only"): {}}
    conditions = {name: about.pop(name) for name in CONDITIONS if name in about}
    row = Row(key, **about)
    if not conditions:
        yield row
    for name, other in conditions.items():
        yield partial(_hear, (key,))
        yield partial(_where, CONDITIONS[name], other, (row,))


def _reason(about: dict[str, Any]) -> str:
    elsewhere = about.pop("elsewhere", None)
    return str(about["why"]) if elsewhere is None else Elsewhere(elsewhere)


def _hear(keys: Sequence[str] | Mapping[str, Sequence[str]], draft: Draft) -> None:
    """Keys that follow from others, change nothing in a launch configuration, or are said by a
    rule; as a mapping, by the key that they stand under."""
    if isinstance(keys, Mapping):
        draft.heard.update(f"{above}.{key}" for above in keys for key in keys[above])
    else:
        draft.heard.update(keys)


def _section(section: str, why: str, draft: Draft) -> None:
    """A whole section that is stated elsewhere than in a launch configuration."""
    draft.heard.add(section)
    named = (draft.plan.get(f"{section}.{key}") for key in ("name", "parameters"))
    shown_as = next((str(name) for name in named if name is not None), "as given")
    draft.unsaid.append(Unsaid(section, one_line(shown_as), why))


def _where(holds: Callable[[Any], object], key: str, table: Sequence[Rule], draft: Draft) -> None:
    if holds(draft.get(key)):
        draft.follow(table)


#: What holds of all: a configuration is of a training run, whoever makes it. Which kernels a plan
#: counts with is an assumption; what follows from others is no key.
OF_ALL: tuple[Rule, ...] = (
    Row("training.mode", words={"train": {}}, why="the configuration is of a training run"),
    partial(
        _hear,
        (KERNELS, "training.distributed_optimizer", "training.output_tokens", *at(FOLLOWING)),
    ),
)
