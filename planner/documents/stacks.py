"""Stacks: what a framework of some month sets where a plan says nothing.

A stack is a document in presets/stacks. It lists releases with the month of each, the keys of a
plan that each decides, and their sources. ``training.stack: NAME`` takes all of them,
``NAME@YEAR-MONTH`` those up to that month; a later release overrides an earlier one, both override
the stack that theirs ``extends``, and the plan overrides all. What a stack cannot run is listed
with it, and refused by name. A plan that leaves its layout to the search and names no software gets
the stack of a row of presets/practice/stacks.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from planner.base import resources
from planner.base.display import one_line
from planner.base.errors import Place, PlanError, nearest
from planner.documents import aliases
from planner.documents.references import merge_nodes, preset_names, read_shipped
from planner.documents.yaml_nodes import Node, Origin, from_data

#: Most letters of a wrong name that a message repeats.
LONGEST = 60
#: Of nodes that a stack decided.
KIND = "stack"
#: Keys that name the software of a plan, or what must start it.
SOFTWARE = ("training.stack", "training.implementation", "parallelism.for")
ZERO = "parallelism.zero"
#: A condition that other keys state as well.
ACCUMULATION = "training.gradient_accumulation"
STATES_ACCUMULATION = ("cluster.devices", "training.global_batch", "training.micro_batch")
#: In the place of values: any.
GIVEN = "given"
#: Behind every month of a release; behind the end of every limit.
NEWEST, FOREVER = "9999-12", "9999-99"
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


def split_stack(text: str) -> tuple[str, str]:
    """Split ``NAME@YEAR-MONTH`` into name and month; without one it is behind every release."""
    name, _, month = text.partition("@")
    return name, month or NEWEST


@cache
def load_stack(text: str) -> Mapping[str, Any]:
    """Load the document of a stack as it is in a month; its ``name`` has the last release until
    then, its ``limits`` and ``choices`` those of then, also of what it ``extends``.

    Args:
        text: its name, or ``NAME@YEAR-MONTH``.
    """
    name, month = split_stack(text)
    stack: Mapping[str, Any] = resources.load_preset(f"stacks/{name}")
    below = [load_stack(f"{one}@{month}") for one in _list_stacks_below(stack)]
    dated = {
        name: (
            *(row for base in below for row in base[name]),
            *(
                one
                for one in stack.get(name, ())
                if one.get("since", "") <= month < one.get("until", FOREVER)
            ),
        )
        for name in ("limits", "choices")
    }
    versions = [one["version"] for one in stack["releases"] if one["since"] <= month]
    return {**stack, "name": f"{stack['name']} {versions[-1]}", **dated}


def merge_stack(root: Node) -> Node:
    """Merge a plan over what its stack sets; a plan without one stays as it is.

    Raises:
        PlanError: an unknown stack, no month, or one before the first release.
    """
    asked = root.find("training.stack")
    if asked is None or not isinstance(asked.value, str):
        return root
    name, at, month = asked.value.partition("@")
    known = preset_names(KIND)
    stack = aliases.find_preset(KIND, name, known)
    if stack is None:
        wrong, near = f"unknown stack '{one_line(name)[:LONGEST]}'", nearest(name, known)
        raise PlanError(wrong, asked.place, f"one of {', '.join(known)}", near)
    if at and not _MONTH.fullmatch(month):
        wrong = f"'{one_line(month)[:LONGEST]}' is not a month"
        raise PlanError(wrong, asked.place, f"{stack}@2026-06")
    if at and month < (first := load_stack(stack)["releases"][0]["since"]):
        raise PlanError(f"{stack} begins in {first}", asked.place, f"{stack}@{first} or later")
    own = root.entries
    entries = _merge_releases(stack + at + month, partial(_find_value, root)).entries
    full = replace(asked, value=stack + at + month)  # where an alias was typed
    training = replace(own["training"], value={**own["training"].entries, "stack": full})
    return replace(root, value=merge_nodes(entries, {**own, "training": training}))


def _merge_releases(text: str, get: Callable[[str], Any]) -> Node:
    """Merge what the releases of a stack set for a plan, the later over the earlier.

    Args:
        text: the stack, its name written out.
        get: returns what the plan states at a dotted key, None where it states nothing.
    """
    root = Node({}, Place(text), Origin(KIND, text))

    def find(key: str) -> Any:
        """Return what the plan states, what a release sets, or what follows from other keys."""
        value = get(key)
        value = _find_value(root, key) if value is None else value
        return _derive_accumulation(find) if value is None and key == ACCUMULATION else value

    for release in _iter_releases(text):
        where, plan = release.find("where"), release.find("plan")
        if plan is not None and (where is None or _matches(where.plain(), find)):
            root = replace(root, value=merge_nodes(root.entries, plan.entries))
    return root


@cache
def list_conditions(text: str) -> Sequence[frozenset[str]]:
    """List the keys that decide what a stack sets: of each release those of its conditions."""
    found = (one.find("where") for one in _iter_releases(text))
    conditions = (frozenset(one.entries if one else ()) for one in found)
    return [keys | set(STATES_ACCUMULATION if ACCUMULATION in keys else ()) for keys in conditions]


def yield_settings(text: str, get: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    """Yield every key that some release of a stack sets, with its value for a plan as written; None
    where the stack leaves it alone.

    Args:
        text: the stack, as ``training.stack`` has it.
        get: returns what the plan itself states at a dotted key, None where it states nothing.
    """
    root = _merge_releases(text, get)
    for key in list_settable(text):
        node = root.find(key)
        yield key, node and node.plain()


@cache
def list_settable(text: str) -> Sequence[str]:
    """List the keys that releases of a stack set to values."""
    plans = (release.find("plan") for release in _iter_releases(text))
    said = (pair for plan in plans if plan for pair in plan.walk())
    return sorted(
        {
            ".".join(map(str, path))
            for path, node in said
            if all(isinstance(step, str) for step in path)
            and path and node.value is not None and not isinstance(node.value, dict)
        }
    )  # fmt: skip


def choose_stack(get: Callable[[str], Any]) -> Mapping[str, Any] | None:
    """Choose the stack that most people run, for a plan that names no software: the first row of
    presets/practice/stacks.yaml that holds and can run what the plan states; None without one.

    Args:
        get: returns the value of a dotted key of the plan, None where there is none.
    """
    if any(get(key) is not None for key in SOFTWARE):
        return None
    devices, month = get("cluster.devices"), get("training.kernels")
    rows: Sequence[Mapping[str, Any]] = resources.load_preset("practice/stacks")
    for row in _iter_dated(rows, month):
        size = row.get("devices", 1) <= devices < row.get("below", devices + 1)
        fits = size and _matches(row.get("where", {}), get)
        if fits and not any(iter_faults(row["stack"], get)):
            return row
    return None


def iter_untried(get: Callable[[str], Any]) -> Iterator[tuple[str, str]]:
    """Yield the degrees of a plan that nobody is known to have run (presets/practice/layouts.yaml):
    the key, and what is known.

    Args:
        get: returns the value of a dotted key of the plan, None where there is none.
    """
    rows: Sequence[Mapping[str, Any]] = resources.load_preset("practice/layouts")
    first = {row["key"]: row for row in reversed(rows) if _matches(row.get("where", {}), get)}
    for key, row in first.items():
        degree, whole = get(key) or 1, get(row["of"]) if "of" in row else None
        known = (whole or 0) / degree >= row["least"] if "of" in row else degree in row["values"]
        if degree > 1 and not known:
            yield key, row["why"]


def _iter_dated(
    rows: Sequence[Mapping[str, Any]], month: str | None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that hold in a month, with the releases until then, or the first one of a
    stack that is younger; without a month those of today."""
    for row in rows:
        name, _, then = row["stack"].partition("@")
        if month is not None and month < then:
            then = max(month, load_stack(name)["releases"][0]["since"])
        if (month or NEWEST) < row.get("until", FOREVER):
            yield {**row, "stack": f"{name}@{then}", "date": min(row["date"], then)}


def set_stack(root: Node, row: Mapping[str, Any]) -> Node:
    """Merge a plan over what the stack of a row sets.

    Args:
        root: of a plan that names no stack, its own names resolved.
        row: as ``choose_stack`` returns it.
    """
    origin = Origin(KIND, f"{row['why']}, {row['date']}")
    named = from_data({"training": {"stack": row["stack"]}}, root.place, origin)
    return merge_stack(replace(root, value=merge_nodes(root.entries, named.entries)))


def find_with_engine(name: str, engine: str) -> str | None:
    """Find the stack that runs another on an engine, as ``trl-deepspeed`` runs TRL; None if none
    does."""
    pair = {"extends": name, "engine": engine}.items()
    known = ((one, resources.load_preset(f"stacks/{one}")) for one in preset_names(KIND))
    return next((one for one, stack in known if pair <= stack.items()), None)


def find_launcher(text: str | None) -> str | None:
    """Return the framework whose launch files start a stack; None where none is named."""
    launcher: str | None = None if text is None else load_stack(text).get("launcher")
    return launcher


def find_choices(
    text: str | None, get: Callable[[str], Any] = lambda key: None
) -> dict[str, Sequence[Any]]:
    """Return the values that a stack runs, by dotted key; none without a stack.

    Args:
        text: the stack, as ``training.stack`` has it.
        get: returns the value of a dotted key that a limit may depend on, None for one that is not
            known; such a limit is left out.
    """
    found: dict[str, Sequence[Any]] = {}
    for limit in () if text is None else load_stack(text)["limits"]:
        key, values = limit["key"], limit["values"]
        if all(get(other) in wanted for other, wanted in limit.get("where", {}).items()):
            found[key] = [value for value in values if value in found.get(key, values)]
    return found


def list_open_values(get: Callable[[str], Any]) -> dict[str, Sequence[Any]]:
    """List the values of the keys that ``parallelism: auto`` chooses under a plan's stack.

    Args:
        get: returns the value of a dotted key of the plan, None where there is none.
    """
    text = get("training.stack")
    rows = () if text is None else load_stack(text)["choices"]
    return {row["key"]: row["values"] for row in rows if _matches(row.get("where", {}), get)}


def iter_faults(text: str | None, get: Callable[[str], Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what a plan asks that its stack, or any stack on its devices, cannot run: key, message,
    what is allowed.

    Args:
        text: the stack, as ``training.stack`` has it; None without one.
        get: returns the value of a dotted key of the plan, None where there is none.
    """
    limits = [(f"on {get('cluster.accelerator.name')}", resources.load_preset("practice/devices"))]
    if text is not None:
        stack = load_stack(text)
        limits.append((f"under {stack['name']}", stack["limits"]))
    for where, limit in ((where, limit) for where, rows in limits for limit in rows):
        key, values = limit["key"], limit["values"]
        held = all(get(other) in wanted for other, wanted in limit.get("where", {}).items())
        if held and get(key) is not None and get(key) not in values:
            wrong = f"{key.rpartition('.')[2]} {get(key)} {where}: {limit['why']}"
            yield key, wrong, ", ".join(str(value) for value in values)


def _iter_releases(text: str) -> Iterator[Node]:
    """Yield the releases of a stack, up to its month, after those of the stack that it extends."""
    name, month = split_stack(text)
    path = resources.folder("presets") / "stacks" / f"{name}.yaml"
    root = read_shipped(path, Origin(KIND, f"stack {name}"))
    for base in _list_stacks_below(root.plain()):
        yield from _iter_releases(f"{base}@{month}")
    for _, release in root.entries["releases"].iter_children():
        if str(release.entries["since"].value) <= month:
            yield release


def _list_stacks_below(stack: Mapping[str, Any]) -> list[str]:
    """List the stacks below one, of which a later one counts before an earlier one."""
    return [stack[key] for key in ("extends", "engine") if key in stack]


def _matches(where: Mapping[str, Any], get: Callable[[str], Any]) -> bool:
    """Decide whether a plan has what a condition lists: values, or any, by dotted key."""
    rows = ((get(key), wanted) for key, wanted in where.items())
    return all(v is not None and (w == GIVEN or v in w) for v, w in rows)


def _derive_accumulation(get: Callable[[str], Any]) -> int | None:
    """Return the micro-batches of a step on one device; None where a batch is not stated."""
    devices, whole, each = map(get, STATES_ACCUMULATION)
    sized = isinstance(whole, int) and isinstance(each, int) and each > 0
    return whole // each if devices == 1 and sized else None


def _find_value(root: Node, dotted: str) -> Any:
    """Return what a plan states at a dotted key, None where it states nothing."""
    node = root.find(dotted)
    return None if node is None else node.value
