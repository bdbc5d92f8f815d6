"""A request for memory that failed, beside the plan: the tensor that it was for, where the memory
went that the plan did not count on, and the changes that free enough.

Of tables, text has the first MOST rows, without the columns DATA; data have MOST_FAILURES failures.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner.base import numbers
from planner.base.display import as_json, columns, one_line
from planner.base.errors import PlanError
from planner.connect.causes import explain_gap
from planner.connect.out_of_memory import ROWS, Failure, read_failures, read_snapshot
from planner.plans.document import Plan
from planner.report.answer import format_changes
from planner.report.elements import Table
from planner.report.report import render_md
from planner.results.allocations import Allocation, list_allocations
from planner.results.allocator import round_sizes
from planner.results.improvements import find_fixes
from planner.results.result import Result, evaluate_plan

MOST, MOST_FAILURES = 5, 100
DATA = ("rank", "quantity", "born", "set", "headroom", "at_worst")
Row = dict[str, Any]
Phases = Mapping[str, list[Allocation]]


def measure_gap(alive: list[Allocation], failure: Failure) -> Fraction:
    """Measure by how many bytes what is alive differs from the live tensors of a failure."""
    planned = sum((one.get_total() for one in alive), Fraction(0))
    return abs(planned - failure.sizes.get("live", planned))


def list_phases(result: Result) -> dict[str, list[Allocation]]:
    """List the tensors that are alive in each phase of a step; a parameter's master weight and each
    of its optimizer states are tensors of their own."""
    phases: dict[str, list[Allocation]] = {one.name: [] for one in result.list_entries("phase")}
    names, get = [*phases], result.plan.get
    state, held = get("training.bytes.state"), result["memory.optimizer.per_parameter"].number
    states = max(round((held + (get("training.bytes.master") or 0)) / state), 1) if state else 1
    for one in list_allocations(result):
        if one.role == "optimizer states":
            one = one._replace(copies=one.copies * states, bytes=one.bytes / states)
        for name in names[names.index(one.born) : names.index(one.freed) + 1]:
            phases[name].append(one)
    return phases


def match_request(result: Result, phases: Phases, failure: Failure) -> list[Row]:
    """Rank the planned tensors by how near they are to a request, as rows of a table.

    Args:
        result: of the plan.
        phases: of a step.
        failure: the request.

    Returns:
        Five, and all that are as near as the first, by ``rank``: the difference in size, 0 but for
        rounding where it is the same, then that of live tensors from those of the phase in which
        the tensor is born.
    """
    rows, wanted = dict[Any, Row](), failure.sizes.get("requested", Fraction(0))
    first, *_, last = (*phases, *phases)
    for entry in result.list_entries("phase"):
        gap = measure_gap(phases[entry.name], failure)
        for one in phases[entry.name]:
            sizes = (one.bytes, *round_sizes(one.bytes))
            same = any(abs(size - wanted) <= failure.rounding for size in sizes)
            difference, phase = Fraction(0) if same else wanted - one.bytes, entry.title
            if entry.name == first != one.freed:
                phase = "start" if one.freed == last else "forward pass"
            row: Row = {"tensor": f"{one.title} ({one.part})" if one.part else one.title}
            row |= {"bytes": one.bytes, "difference": difference, "phase": phase, "born": one.born}
            row |= {"quantity": one.quantity, "rank": (abs(difference), gap)}
            if one.born == entry.name:
                rows[row["tensor"], one.bytes, one.born] = row
    ranked = sorted(rows.values(), key=lambda row: row["rank"])
    return [row for at, row in enumerate(ranked) if at < MOST or row["rank"] == ranked[0]["rank"]]


def describe_request(failure: Failure, matches: list[Row]) -> str:
    """Describe what was asked for, and the planned tensors that are nearest to it."""
    wanted, live = (format_cell("", failure.sizes.get(name)) for name in ("requested", "live"))
    text = "A device" if failure.device is None else f"GPU {failure.device}"
    if "requested" not in failure.sizes:
        text += f" has {live} allocated; no failed request is known"
        return str(failure.form.get("says", text))
    text += f" has no room for {wanted}"
    if not matches:
        return f"{text}; {failure.form['says']}"
    ties = [row["tensor"] for row in matches if row["rank"] == matches[0]["rank"]]
    unlike = ", which no planned tensor has; the nearest is" if matches[0]["difference"] else ":"
    tensors = " or ".join(ties[:2]) + (f" or {len(ties) - 2} others" if ties[2:] else "")
    return f"{text}{unlike} {tensors}; phase: {matches[0]['phase']}"


def compare_parts(result: Result, sizes: Mapping[str, Fraction]) -> tuple[list[Row], str]:
    """Compare what a device has with the plan.

    Args:
        result: of the plan.
        sizes: of the failure, bytes.

    Returns:
        The rows of a table, and where most of the difference is, in words.
    """
    rows, gaps, more = list[Row](), {"": Fraction(0)}, {"": Fraction(0)}
    for name, part in ROWS["parts"].items():
        if name in sizes:
            planned = Fraction(result[part["quantity"]].number if "quantity" in part else 0)
            gaps[name] = sizes[name] - planned
            more[name] = gaps[name] * part.get("sign", 1) - gaps.get(part.get("inside", ""), 0)
            row = {"part": part["title"], "planned": planned, "run": sizes[name]}
            rows.append({**row, "difference": gaps[name]})
    largest = max(more, key=lambda name: more[name])
    means = ROWS["parts"].get(largest, {"means": "none that its sizes show"})["means"]
    process, capacity = (result[f"memory.{one}"].text() for one in ("process", "capacity"))
    reason = f"{result.plan.name} needs {process} of {capacity}; largest difference: {means}"
    causes = explain_gap(result, "memory.total", more["live"], 2) if largest == "live" else []
    return rows, "; ".join([reason.replace("SIZE", format_cell("", more[largest])), *causes])


def match_blocks(alive: list[Allocation], failure: Failure) -> Row:
    """Match the blocks of a snapshot with planned tensors of their size: first those that say what
    they are for, last those that say something else; return tables of what is planned, and of what
    is not."""
    left, rest = defaultdict[int, Counter[str]](Counter), Counter[tuple[int, str, str]]()
    roles = dict[str, Row]()
    for one in alive:
        row = roles.setdefault(one.role, {"for": one.role, "planned": 0, "run": 0})
        row["planned"] += one.get_total()
        left[round_sizes(one.bytes)[0]][one.role] += one.copies
    is_late = {one: not left[round_sizes(one[0])[0]][one[1]] for one in failure.blocks}
    for size, role, frame in sorted(failure.blocks, key=lambda one: (is_late[one], one[1])):
        same = left[round_sizes(size)[0]]
        if free := [planned for planned, count in same.items() if count]:
            best = role if role in free else free[0]
            same[best] -= 1
            roles[best]["run"] += size
        else:
            rest[size, role, frame] += 1
    heads = ("count", "each", "together", "for", "frame")
    rows = [(numbers.exact_text(n), one[0], one[0] * n, *one[1:]) for one, n in rest.items()]
    unplanned = [
        dict(zip(heads, row, strict=True)) for row in sorted(rows, key=lambda row: -row[2])
    ]
    return {"blocks": [*roles.values()], "blocks that are not planned": unplanned}


def diagnose(result: Result, phases: Phases, failure: Failure) -> Row:
    """Explain a failure beside the plan, as data with a list for each table."""
    is_tensor = "requested" in failure.sizes and "says" not in failure.form
    matches = match_request(result, phases, failure) if is_tensor else []
    rows, reason = compare_parts(result, failure.sizes)
    tree = {"program": failure.form["program"], "rank": failure.rank, "device": failure.device}
    tree |= {"place": str(failure.place), "text": describe_request(failure, matches)}
    tree |= {"reason": reason, "memory with the request": rows, "nearest planned tensors": matches}
    if failure.blocks:
        near = min(phases, key=lambda name: measure_gap(phases[name], failure))
        same = bool(matches) and not matches[0]["difference"]
        tree |= match_blocks(phases[matches[0]["born"] if same else near], failure)
    return tree


def explain_failure(plan: Plan, text: str | None, snapshot: str | None, form: str) -> str:
    """Explain why a run of a plan ran out of memory.

    Args:
        plan: what was planned.
        text: a file with the error.
        snapshot: a memory snapshot, where there is no text.
        form: text, md or json.

    Raises:
        PlanError: a file cannot be read, has no failure, or is of a run with more devices.
    """
    failures = read_failures(text) if text is not None else [read_snapshot(snapshot or "")]
    devices, result = plan.get("cluster.devices"), evaluate_plan(plan)
    for one in failures:
        if (one.rank or 0) >= (devices or math.inf):
            message = f"rank {one.rank} of a plan with {devices} devices"
            raise PlanError(message, one.place, "the plan of the run: cluster.devices")
    phases = list_phases(result)
    trees = [diagnose(result, phases, one) for one in failures[:MOST_FAILURES]]
    wanted, free = (failures[0].sizes.get(name, 0) for name in ("requested", "free"))
    advice = find_fixes(plan, lacking=max(float(wanted - free), 0))
    remedies = [one.to_json() for one in advice.remedies] if advice else None
    fixes = remedies and [
        {"change": format_changes(one["set"], plan.get), **one} for one in remedies
    ]
    data = {"plan": plan.name, "failures": trees, "changes that fit": fixes}
    return as_json(data) if form == "json" else render_failures(data, form)


def render_failures(tree: Row, form: str) -> str:
    """Render failures as text or md: the first with its tables, others in a line."""
    first, *others = tree["failures"]
    words = [f"{first['text']}.", f"{first['reason']}."]
    words += [f"{one['place']}: {one['text']}." for one in others[:MOST]]
    if tree["changes that fit"] == []:
        words += ["No change of one or two settings frees enough."]
    tables = list[Table]()
    for name, rows in {**first, "changes that fit": tree["changes that fit"]}.items():
        if isinstance(rows, list) and rows:
            heads = [head for head in rows[0] if head not in DATA]
            cells = [[format_cell(head, row[head]) for head in heads] for row in rows[:MOST]]
            tables.append(Table("", [name, *heads[1:]], cells))
    if form == "md":
        return render_md("out_of_memory.md.jinja", words=words, tables=tables)
    for table in tables:
        words += ["", *columns([list(map(str, row)) for row in (table.head, *table.rows)])]
    return "".join(f"{one_line(line)}\n" for line in words)


def format_cell(head: str, value: Any) -> str:
    """Format a cell of a table: text, bytes, a difference of bytes, or how much longer it takes."""
    if head == "slowdown" and value is not None:
        return numbers.text(Fraction(value) - 1, style="change")
    sign = "+" if head == "difference" and value > 0 else ""
    return sign + one_line(numbers.text(value, "bytes"))
