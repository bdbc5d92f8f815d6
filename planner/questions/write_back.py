"""Write an answer into a plan: change its keys, and nothing else of the file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.base import files
from planner.base.display import format_flow, one_line
from planner.base.errors import Place, PlanError
from planner.base.numbers import plain_text
from planner.documents import defaults, references, schema, source, yaml_nodes
from planner.documents.editing import change_values
from planner.documents.json_schema import is_number
from planner.documents.source import Document
from planner.documents.stacks import KIND
from planner.documents.team import Defaults
from planner.documents.yaml_nodes import Node
from planner.plans.document import STACK, Plan
from planner.plans.layout import CLEARED, KERNELS, KEYS, ROW
from planner.plans.plan import about, build_plan, set_auto_layout
from planner.questions import loading
from planner.questions.healing import CHOOSING
from planner.questions.solve.solve import Answer

if TYPE_CHECKING:
    from planner.questions.expert_path import ExpertPath
    from planner.questions.search.engine import Layout, SearchResult

Changes = Mapping[str, Any]


def expand_layout(get: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that spell a layout out; keys that follow, or that search for one, are
    None."""
    gone = (*CLEARED, *(f"parallelism.{key}" for key in CHOOSING))
    return {**dict(get), **dict.fromkeys(key for key in gone if key not in get)}


def of_searched(plan: Plan, layout: Layout) -> dict[str, Any]:
    """Return the keys of a layout of a search. If the plan leaves its layout open, add the software
    that was found for it, which all layouts of the search share."""
    return expand_layout({**_list_software(plan), **layout.changes})


def _list_software(plan: Plan) -> dict[str, Any]:
    """List what a plan whose layout was searched for runs beside the layout: kernels, the stack
    that it got as it names none, and what the search chose of that."""
    if plan.searched is None:
        return {}
    default = plan.document.find_origin(STACK.split(".")).kind == KIND
    chosen = [key for key in plan.searched["vary"] if key not in KEYS]
    return {key: plan.get(key) for key in (KERNELS, *([STACK] if default else []), *chosen)}


def list_ranked_keys(found: SearchResult, rank: str | None = None) -> dict[str, Any]:
    """Return the keys of one of the layouts of a search.

    Args:
        rank: counted from 1, the best; or ``simplest``.

    Raises:
        PlanError: the search has no such layout.
    """
    ranks: dict[str, Layout] = {str(n): one for n, one in enumerate(found.best, 1)}
    if found.plain is not None:
        ranks["simplest"] = ranks["plainest"] = found.plain
    if not ranks:
        raise PlanError("no layout fits, so none is written", None)
    if (rank or "1") not in ranks:
        allowed = f"1 to {len(found.best)}, or simplest; --top N ranks more"
        raise PlanError(f"--rank {rank}", None, allowed)
    return of_searched(found.plan, ranks[rank or "1"])


def list_answer_keys(plan: Plan, answer: Answer) -> dict[str, Any]:
    """Return the keys of an answer, with the layout if one was searched for, and with the ``--set``
    changes that applied."""
    assert answer.holds is not None
    changes = {key: yaml_nodes.parse_plain(text, "--set") for key, text in plan.document.overrides}
    if answer.question == "cheapest":
        changes |= answer.extra["offer"].keys
    family = answer.extra.get("family")
    if family and family != plan.document.find_node(("model",)).reference:
        changes["model"] = family
    changes |= answer.domain.changes(answer.holds.value)
    return changes | (_spell_layout(plan, answer.holds.plan) if "layouts" in answer.extra else {})


def _spell_layout(plan: Plan, made: Plan) -> dict[str, Any]:
    """Return the keys that spell out the layout that was found for a plan."""
    keys = {key: made.get(key) for key in KEYS if made.get(key) is not None}
    return expand_layout({**_list_software(plan), KERNELS: made.get(KERNELS), **keys})


def list_path_keys(path: ExpertPath, number: int) -> dict[str, Any]:
    """Return the keys of the first changes of a path, with the layout if the plan leaves it open.

    Raises:
        PlanError: the path has fewer changes.
    """
    changes, plan = path.merge_changes(number), path.steps[0].plan
    layout = {} if plan.searched is None else _spell_layout(plan, path.steps[number].plan)
    return {**layout, **changes}


def find_target(file: str, output: str | None = None) -> Path:
    """Return the plan's file, which is to be changed, or copied to an output.

    Raises:
        PlanError: it must not be changed, or the output must not be written.
    """
    path, name = references.locate_file(file, "plan")
    if output is None and (name or file == "-"):
        what = "a built-in plan" if name else "standard input"
        raise PlanError(f"{what} is read-only", Place(file), "solve -o FILE writes a copy")
    if output is not None:
        files.format_of(output, {".yaml": "plan", ".yml": "plan"}, "plan")
        with contextlib.suppress(OSError):
            if os.path.samefile(output, path):
                raise PlanError("this is an input", Place(output), "another file, or --write")
    return path


def write_values(file: str, changes: Changes, output: str | None = None) -> str:
    """Put values into a plan's file, or into a copy of it, and return a line for each that changed.

    Args:
        file: as it was named; ``-`` is standard input.
        changes: plain data by dotted key, None to remove a key.
        output: of the copy; None changes the file itself.

    Returns:
        A line for the file, then one for each key that changed.

    Raises:
        PlanError: a shipped plan or standard input would be changed in place; the changed plan is
            invalid; a key cannot change alone.
    """
    path = find_target(file, output)
    shown, to = "<stdin>" if file == "-" else str(path), output or str(path)
    raw = files.read_bytes(path, yaml_nodes.MAX_BYTES)
    team = defaults.find_defaults(file)
    _open_plan(file, team)  # raises faults of the unchanged plan
    made, told = put_values(raw.decode("utf-8"), file, changes, shown, to, team)
    files.write_text(to, made)
    lines = [to if told else f"{to}: nothing changes", *(f"  {line}" for line in told)]
    return "".join(f"{one_line(line)}\n" for line in lines)


def put_values(
    text: str,
    document: str | Node,
    changes: Changes,
    shown: str,
    to: str | None = None,
    team: Defaults | None = None,
) -> tuple[str, list[str]]:
    """Change the values of some keys in the text of a plan, and as little else as possible.

    Args:
        text: the text of the plan.
        document: the plan of that text, as a path or a tree.
        changes: plain data by dotted key, None to remove a key.
        shown: name of the text in faults.
        to: name of the new text in faults; ``shown`` by default.
        team: the defaults of the plan's team.

    Returns:
        The new text, and a line ``key: old → new`` for each key that changed.

    Raises:
        PlanError: the changed plan is invalid; a key cannot change alone.
    """
    to, before = to or shown, _open_plan(document, team)
    stated = source.load(document, defaults=team)
    told = {
        key: format_setting(key, value)
        for key, value in changes.items()
        if value is not None or stated.has_value(key.split("."))
    }
    wanted, asked = _open_plan(document, team, told), dict[str, Any]()
    for key, value in told.items():
        around = any(key.startswith(f"{other}.") for other in asked)
        if around or wanted.get(key) != before.get(key):
            asked[key] = value
    for key in [k for k in asked if not stated.has_value(k.split(".")) and k in ROW]:
        shorter = {k: value for k, value in asked.items() if k != key}
        with contextlib.suppress(PlanError):
            without = set_auto_layout(_open_plan(document, team, shorter))
            if build_plan(without).data == build_plan(wanted).data:  # it has this value by default
                asked = shorter
    wanted = _open_plan(document, team, asked)
    gone = [key for key, value in asked.items() if value is None]
    made = change_values(text, shown, {k: v for k, v in asked.items() if v is not None}, gone)
    root = yaml_nodes.parse_yaml(made, to)
    assert root is not None
    # A removed key may be inherited from the document that the plan extends.
    back = [key for key in gone if _open_plan(root, team).get(key) != wanted.get(key)]
    if back:
        made = change_values(made, to, dict.fromkeys(back))
        root = yaml_nodes.parse_yaml(made, to)
        assert root is not None
    found = _open_plan(root, team)
    if found.data != wanted.data:
        key = _find_difference(found.data, wanted.data)
        what = f"{key} would have another value in the changed file"
        allowed = "no anchor that is used twice, and names that hold where the file lies"
        raise PlanError(what, before.find_key_place(key.split(".")), allowed)
    loading.complete_document(set_auto_layout(found))  # raises faults across keys
    return made, [
        f"{key}: {_show_setting(before, key)} → {_show_setting(found, key)}" for key in asked
    ]


def _open_plan(
    document: str | Node, team: Defaults | None, changes: Changes | None = None
) -> Document:
    """Read a plan, checked and completed by its schema."""
    return schema.validate(source.load(document, changes or {}, defaults=team), "plan")


def format_setting(key: str, value: Any) -> Any:
    """Format a value as somebody would write it: a number with its unit, many tokens as 1.5T."""
    if not is_number(value):
        return value
    said = about(key)
    unit = str(said.get("unit", "1"))
    if unit in ("tokens", "parameters"):
        for suffix, size in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
            if value >= size and (Fraction(value) * 1000 / size).denominator == 1:
                return f"{plain_text(Fraction(value) / size)}{suffix}"
    text = format_flow(value, unit)
    return value if text == format_flow(value) or "integer" in said.get("type", ()) else text


def _show_setting(document: Document, key: str) -> str:
    """Format the value of a key as the document writes it, or its default."""
    value = document.get(key)
    if document.has_value(key.split(".")):
        node = document.find_node(key.split("."))
        return node.reference or node.text or format_flow(value)
    return "not given" if value is None else format_flow(value)


def _find_difference(one: Any, other: Any) -> str:
    """Return the first dotted key in which two mappings differ."""
    for key in {**one, **other}:
        a, b = one.get(key), other.get(key)
        if a != b:
            both = isinstance(a, Mapping) and isinstance(b, Mapping)
            return f"{key}.{_find_difference(a, b)}" if both else str(key)
    return ""
