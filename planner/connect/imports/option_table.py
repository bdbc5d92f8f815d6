"""What becomes of each option of a framework: read, harmless, named in the answer, or refused.

The tables are in the folder ``options``, one for each framework, with the defaults of one version.
An option changes the plan if the export of that plan has it again with the same value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import resources
from planner.base.display import format_flow, one_line
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.connect.exports import Framework
from planner.connect.exports.rules import follow_rows
from planner.connect.exports.table import ExportDraft
from planner.connect.imports import trainers
from planner.connect.imports.families import list_model_options
from planner.connect.imports.python_file import Unread
from planner.plans.document import Plan

FOLDER = Path(__file__).with_name("options")


class OptionTable(NamedTuple):
    """The options of a framework that its rows do not write, as patterns of whole names.

    Attributes:
        version: the version that ``defaults`` are from.
        defaults: the value of each option that a file leaves out.
        read: options that a rule reads.
        harmless: options that change no number of a plan, by the reason.
        named: options that change little and have no key, by what they do.
        refused: options that are refused unless they have their default, by what they do.
        program: of trainers by reinforcement learning, the pattern of a word that names it.
        sections: the sections that its configurations have.
        keys: the rows of keys of a plan (planner/connect/imports/reinforcement.py).
        implied: options that follow from others.
    """

    version: str
    defaults: Mapping[str, Any]
    read: tuple[str, ...] = ()
    harmless: Mapping[str, tuple[str, ...]] = {}
    named: Mapping[str, tuple[str, ...]] = {}
    refused: Mapping[str, tuple[str, ...]] = {}
    program: str = ""
    sections: tuple[str, ...] = ()
    keys: tuple[Mapping[str, Any], ...] = ()
    implied: tuple[Mapping[str, Any], ...] = ()

    def classify(self, option: str) -> str:
        """Return the list that an option is in: read, harmless, named, refused; else nothing."""
        lists = {"read": {"": self.read}, **{key: getattr(self, key) for key in REASONED}}
        found = (name for name, by in lists.items() if _match_any(option, by))
        return next(found, "")


#: The lists that have reasons, in the order in which they are asked.
REASONED = ("refused", "named", "harmless")


def _match_any(option: str, by_reason: Mapping[str, tuple[str, ...]]) -> bool:
    """Check whether a pattern of a list matches an option."""
    return any(re.fullmatch(one, option) for each in by_reason.values() for one in each)


def is_equal(given: Any, option: Any) -> bool:
    """Compare the value of an option with another one, numbers however they are written."""
    if trainers.is_same(given, option):
        return True
    try:
        return Fraction(str(given)) == Fraction(str(option))
    except (ValueError, ZeroDivisionError):
        return False


def _format_value(value: Any) -> str:
    """Format a value on one line of at most 60 characters."""
    shown = one_line(value.text if isinstance(value, Unread) else format_flow(value))
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


@cache
def load_options(name: str) -> OptionTable | None:
    """Load the table of a framework; None if it has none. Options that the rows of Megatron-LM's
    models read are among those that are read."""
    file = FOLDER / f"{name}.yaml"
    if not file.is_file():
        return None
    table = OptionTable(**resources.read_yaml(file))
    of_model = sorted(list_model_options()) if name == "megatron" else ()
    return table._replace(read=(*table.read, *map(re.escape, of_model)))


def judge_options(
    given: Mapping[str, Any],
    plan: Plan,
    known: Framework,
    table: OptionTable,
    names: Mapping[str, str],
    place: Place,
) -> list[str]:
    """List the options of a file that its plan has no key for, a line each.

    Args:
        given: the options that the file has; fields that stand for options of another framework
            are there beside these.
        plan: the plan that was read from it.
        known: the framework.
        table: its options.
        names: how the file calls options of another framework.
        place: where faults are.

    Raises:
        PlanError: an option has another value than in the export of the plan.
    """
    draft, base = ExportDraft(plan, known.name), load_options("megatron")
    follow_rows(draft, known.rows)
    by_name = any(option in given for option in known.models)  # which sets what has defaults
    defaults = {} if by_name or known.options else {**table.defaults, **known.defaults}
    # A flag that is left out, or a value that follows from others, is as the plan has it.
    left_out = {k: defaults[k] for k in draft.said if defaults.get(k) not in (None, False)}
    faults, named, unknown = [], [], []
    for option, value in {**left_out, **given}.items():
        of = base if base and option in names and known.options else table
        again = draft.said.get(option, of.defaults.get(option))
        kind = of.classify(option)
        shown = names.get(option, option) or "the configuration"
        nothing = value in (None, False) and again in (None, False)
        if nothing or is_equal(value, again) or kind in ("read", "harmless"):
            continue
        if kind == "named":
            named += [shown] if option in given else []
        elif kind == "refused" or option in draft.said or option in of.defaults:
            left = "" if option in given else " by default"
            plan_has = "without it" if again is None else f"with {_format_value(again)}"
            fault = f"{shown} is {_format_value(value)}{left}, which is not modelled"
            faults.append(Fault(fault, place, f"as the plan is read: {plan_has}"))
        else:
            near = nearest(option, of.defaults) or ""
            close = abs(len(near) - len(option)) < 2
            unknown.append(one_line(shown)[:60] + (f" (did you mean {near}?)" if close else ""))
    if faults:
        raise PlanError(faults)
    lines = {"not modelled": named, f"unknown to {table.version}": unknown}
    return [
        f"{what}: {', '.join(dict.fromkeys(options))}" for what, options in lines.items() if options
    ]
