"""A converted document made short: common patterns as single keys, defaults left out; and written
as YAML: a line for each usual block, a commented line for each unusual key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

from planner.base.display import format_flow
from planner.base.errors import Fault, Place, PlanError
from planner.connect.imports.families import DOCUMENT
from planner.documents import schema, schema_files, source
from planner.documents.source import expand_keys, lookup
from planner.plans.plan import begin_plan

WIDTH = 96


def match_experts(labels: Sequence[str]) -> dict[str, int] | None:
    """Match layers with moe.first_dense_layers, every and offset; None if they do not fit."""
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


def match_windows(labels: Sequence[str]) -> int | None:
    """Match windowed layers with one full layer every so many (attention.global_every)."""
    step = labels.index("full") + 1
    fits = all((label == "full") == (i % step == step - 1) for i, label in enumerate(labels))
    return step if fits and step > 1 else None


def fold_pattern(sequence: Sequence[str]) -> list[str | dict[str, object]]:
    """Fold a sequence to a pattern that repeats to it, runs written as `{kind, count}`."""
    kinds = list(dict.fromkeys(sequence))
    # The shortest start that repeats: what follows it is a start too. A byte a layer and no copies,
    # so that a hundred thousand layers take no longer than they should.
    layers = bytes(map(kinds.index, sequence))
    rest = memoryview(layers)
    period = next(i for i in range(1, len(layers) + 1) if layers.startswith(rest[i:]))
    runs = ((name, len(list(run))) for name, run in groupby(sequence[:period]))
    return [name if count == 1 else {"kind": name, "count": count} for name, count in runs]


@contextmanager
def place_faults(place: Place | None, devices: str = "") -> Iterator[None]:
    """Place faults of a document that was made in what it was made of; one about devices names what
    sets them, as ``devices`` has it."""
    try:
        yield
    except PlanError as error:
        faults = []
        for one in error.faults:
            more = [one.allowed, devices if "devices" in one.message else None]
            allowed = "; ".join(filter(None, more)) or None
            faults.append(Fault(one.message, place, allowed, one.hint))
        raise PlanError(faults) from None


def fill_defaults(document: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
    """Fill in every default of a document and check it; faults are placed in the configuration."""
    with place_faults(place):
        read = schema.validate(source.load(expand_keys(document)), "model")
        draft, _ = begin_plan(replace(read, held={"model": read.data}))
    data: dict[str, Any] = draft.data["model"]
    return data


def drop_defaults(document: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
    """Drop what defaults say anyway; return mappings in mappings.

    All that could be a default is left out first; what then comes out different is put back."""
    fill_defaults(document, place)  # faults of the whole are the configuration's
    document = _drop_obvious(document)
    size, own = document.get("attention.head_dim"), set(DOCUMENT["written"])
    if size is not None and document["attention.heads"] * size != document["hidden"]:
        own.add("attention.head_dim")
    left = [
        key for key in document if key not in own and key.partition(".")[0] not in DOCUMENT["whole"]
    ]
    kept = {dotted: value for dotted, value in document.items() if dotted not in left}
    for _ in range(6):
        complete = fill_defaults(kept, place)
        wrong = [dotted for dotted in left if lookup(complete, dotted) != document[dotted]]
        if not wrong:
            return expand_keys(kept)
        kept |= {dotted: document[dotted] for dotted in wrong}
        left = [dotted for dotted in left if dotted not in wrong]
    return expand_keys(document)


def _drop_obvious(document: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what repeats the model's own bias, and a feed-forward block that goes without saying:
    blocks that no layer uses are not completed, so their defaults would not be seen."""
    bias = document.get("bias", False)
    made = {
        dotted: value
        for dotted, value in document.items()
        if value is not bias or not re.fullmatch(r"(?!conditioning)\w+\.bias", dotted)
    }
    mixed = any(dotted.startswith("moe.") for dotted in made)
    if made.get("feed_forward") == ("moe" if mixed else "mlp"):
        del made["feed_forward"]
    return made


def write_import(
    document: Mapping[str, Any],
    came_from: Mapping[str, tuple[str, ...]],
    family: str,
    kind: str = "model",
) -> str:
    """Write a document as YAML.

    Args:
        document: a document of that kind.
        came_from: for dotted keys, the configuration keys that gave them.
        family: what a key without such a source comes from.
        kind: model or plan.
    """

    def comment(dotted: str) -> str:
        name = dotted.removeprefix("model.")
        if any(f"{key}.".startswith(f"{name}.") for key in DOCUMENT["usual"]):
            return ""
        return "  # " + (", ".join(came_from.get(dotted, ())) or family)

    lines = [schema_files.make_schema_line(kind)]
    for key in _sort_keys(document, "order"):
        value = document[key]
        if key == "kinds":
            lines += ["kinds:", *(f"  {name}: {format_flow(kind)}" for name, kind in value.items())]
            continue
        if not isinstance(value, Mapping):
            lines.append(f"{key}: {format_flow(value)}{comment(key)}")
            continue
        keys = _sort_keys(value, "inner_order")
        line = f"{key}: {format_flow({inner: value[inner] for inner in keys})}"
        usual = all(f"{key}.{inner}" in DOCUMENT["usual"] for inner in keys)
        if len(line) <= WIDTH and (usual or key == "encoder"):
            lines.append(line + (comment(key) if key == "encoder" else ""))
        else:
            inside = (f"  {i}: {format_flow(value[i])}{comment(f'{key}.{i}')}" for i in keys)
            lines += [f"{key}:", *inside]
    return "\n".join(lines) + "\n"


def _sort_keys(keys: Iterable[str], order: str) -> list[str]:
    """Sort keys as documents have them, others behind as they come."""
    known = DOCUMENT[order]
    return sorted(keys, key=lambda key: known.index(key) if key in known else len(known))
