"""A converted document made short: common patterns as single keys, defaults left out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from planner.base.errors import Fault, Place, PlanError
from planner.connect.imports.families import DOCUMENT
from planner.documents import schema, source
from planner.plans.document import Draft
from planner.plans.model import lower

NESTED = ("kinds", "encoder")


def put(document: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key; None leaves it out."""
    if value is None:
        return
    node = document
    *path, last = dotted.split(".")
    for step in path:
        node = node.setdefault(step, {})
    node[last] = value


def experts_rule(labels: Sequence[str]) -> dict[str, int] | None:
    """Dense and sparse layers as moe.first_dense_layers, every and offset; None if they are not."""
    sparse = [i for i, label in enumerate(labels) if label == "sparse"]
    step = sparse[1] - sparse[0] if len(sparse) > 1 else 1
    rest = sparse[0] % step
    for start in (0, sparse[0]):
        if all(
            (i >= start and i % step == rest) == (label == "sparse")
            for i, label in enumerate(labels)
        ):
            made = {"first_dense_layers": start, "every": step}
            return made if rest == step - 1 else {**made, "offset": rest}
    return None


def windows_rule(labels: Sequence[str]) -> int | None:
    """Windowed layers with one full layer every so many, as attention.global_every."""
    step = labels.index("full") + 1
    fits = all((label == "full") == (i % step == step - 1) for i, label in enumerate(labels))
    return step if fits and step > 1 else None


def _period(sequence: Sequence[str]) -> int:
    """The shortest start that repeats to the sequence (by the borders of all starts, so that a
    hundred thousand layers take no longer than they should)."""
    borders = [0] * len(sequence)
    for i in range(1, len(sequence)):
        border = borders[i - 1]
        while border and sequence[i] != sequence[border]:
            border = borders[border - 1]
        borders[i] = border + 1 if sequence[i] == sequence[border] else 0
    return len(sequence) - borders[-1]


def compressed(sequence: Sequence[str]) -> list[str | dict[str, object]]:
    """A pattern that repeats to the sequence, runs written as `{kind, count}`."""
    runs = ((name, len(list(run))) for name, run in groupby(sequence[: _period(sequence)]))
    return [name if count == 1 else {"kind": name, "count": count} for name, count in runs]


def filled(document: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
    """The document with every default, checked; faults are placed in the configuration."""
    try:
        read = schema.validate(source.load(document), "model")
        draft = Draft(read, copy.deepcopy(read.data))
        lower(draft, ())
        draft.finish()
    except PlanError as error:
        faults = [Fault(f.message, place, f.allowed, f.hint) for f in error.faults]
        raise PlanError(faults) from None
    data: dict[str, Any] = draft.data
    return data


def without_defaults(document: dict[str, Any], place: Place | None) -> dict[str, Any]:
    """The document less what its defaults say anyway.

    All that could be a default is left out first; what then comes out different is put back.
    """
    filled(document, place)  # faults of the whole are the configuration's
    document = _obvious(document)
    kept = copy.deepcopy(document)
    left = [dotted for dotted in _leaves(document) if _droppable(document, dotted)]
    for dotted in left:
        _drop(kept, dotted)
    for _ in range(6):
        complete = filled(kept, place)
        wrong = [dotted for dotted in left if _at(complete, dotted) != _at(document, dotted)]
        if not wrong:
            return kept
        for dotted in wrong:
            put(kept, dotted, _at(document, dotted))
        left = [dotted for dotted in left if dotted not in wrong]
    return document


def _obvious(document: Mapping[str, Any]) -> dict[str, Any]:
    """Less what repeats the model's own bias, and a feed-forward block that goes without saying:
    blocks that no layer uses are not completed, so their defaults would not be seen."""
    made = copy.deepcopy(dict(document))
    bias = made.get("bias", False)
    for value in made.values():
        if isinstance(value, dict) and value.get("bias") is bias:
            del value["bias"]
    if made.get("feed_forward") == ("moe" if made.get("moe") else "mlp"):
        del made["feed_forward"]
    return {key: value for key, value in made.items() if value != {}}


def _leaves(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        if key in NESTED or key in ("pattern", "name", "notes", "sources"):
            continue
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)
        else:
            yield key


def _droppable(document: Mapping[str, Any], dotted: str) -> bool:
    if dotted in DOCUMENT["written"] or dotted.startswith("delta_net."):
        return False
    if dotted == "attention.head_dim":
        attention = document["attention"]
        return bool(attention["heads"] * attention["head_dim"] == document["hidden"])
    return True


def _at(node: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _drop(document: dict[str, Any], dotted: str) -> None:
    key, _, inner = dotted.partition(".")
    if inner:
        del document[key][inner]
    if not inner or not document[key]:
        del document[key]
