"""What a framework runs in a plan's place: of the keys that its file says only nearly, the values
that the file says when it is read back, and both plans' totals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.base.display import one_line, plain
from planner.base.errors import PlanError
from planner.connect.exports.table import LaunchConfig, Nearly
from planner.connect.imports import launch
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.results.result import evaluate_plan
from planner.results.verdict import UNFIT

TOTALS = ("memory.total", "time.step_seconds")


def find_changes(plan: Plan, to: str, made: LaunchConfig) -> dict[str, Any]:
    """Find the keys of a plan that are others in its file, with the values there. A value that no
    key of ours has (a policy between two recompute modes) changes none, nor does what is said
    elsewhere.

    Args:
        plan: the plan.
        to: the framework.
        made: its file of the plan.

    Returns:
        Dotted keys with the values that the file says.
    """
    near = {each.key for each in made.unsaid if isinstance(each.why, Nearly)}
    if not near:
        return {}
    keys = launch.read_keys(made.text, to, plan)
    return {
        key: keys[key]
        for key in sorted(near & keys.keys())
        if str(keys[key]) != str(plain(plan.get(key)))
    }


def describe_run(plan: Plan, to: str, made: LaunchConfig) -> Iterator[str]:
    """Describe what runs in the plan's place beside the plan; nothing where the plan itself runs.

    Args:
        plan: the plan.
        to: the framework.
        made: its file of the plan.
    """
    changed = find_changes(plan, to, made)
    if not changed:
        return
    said = (f"{key} {value} for {plain(plan.get(key))}" for key, value in changed.items())
    yield one_line(f"as it will run: {', '.join(said)}")
    try:
        theirs, ours = evaluate_plan(variant(plan, changed)), evaluate_plan(plan)
    except PlanError as error:
        yield f"as it will run: no valid plan, {one_line(str(error.faults[0]))}"
        return
    for key in TOTALS:
        if key in theirs and key in ours:
            both = (one[key].text() for one in (theirs, ours))
            yield "{}: {} as it will run, {} as planned".format(key, *both)
    if theirs.verdict["fits"] is False and ours.verdict["fits"]:
        yield f"as it will run it {UNFIT}"
