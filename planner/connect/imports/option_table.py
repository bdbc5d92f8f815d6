"""What becomes of each option of a framework: read, harmless, named in the answer, or refused.

The tables are in the folder ``options``, one for each framework, with the defaults of one version;
trainers have theirs beside their rows. An option changes the plan if the export of that plan has it
again with the same value.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from planner.base import resources
from planner.base.display import format_flow, one_line
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.connect.exports import READ_TRAINERS, Framework, load_framework
from planner.connect.exports.rules import follow_rows, list_written
from planner.connect.exports.table import ExportDraft
from planner.connect.imports import trainers
from planner.connect.imports.families import list_model_options
from planner.connect.imports.python_file import Unread
from planner.plans.document import Plan


class OptionTable(NamedTuple):
    """The options of a framework that its rows do not write, as patterns of whole names.

    Attributes:
        version: the version that ``defaults`` are from.
        defaults: the value of each option that a file leaves out.
        read: options that a rule reads.
        harmless: options that change no number of a plan, by the reason.
        named: options that change little and have no key, by what they do.
        refused: options that are refused unless they have their default, by what they do.
        settable: options that are refused unless the key of the plan that they decide is set beside
            the file, by that key.
        program: of trainers with rows of their own, the pattern of a word that names it.
        sections: the sections that its configurations have.
        keys: the rows of keys of a plan (planner/connect/imports/tabled.py).
        implied: options that follow from others.
        parts: patterns of values, whose named groups are options too.
        launch: the commands that start it, the first whose ``when`` holds.
    """

    version: str
    defaults: Mapping[str, Any]
    read: tuple[str, ...] = ()
    harmless: Mapping[str, tuple[str, ...]] = {}
    named: Mapping[str, tuple[str, ...]] = {}
    refused: Mapping[str, tuple[str, ...]] = {}
    settable: Mapping[str, tuple[str, ...]] = {}
    program: str = ""
    sections: tuple[str, ...] = ()
    keys: tuple[Mapping[str, Any], ...] = ()
    implied: tuple[Mapping[str, Any], ...] = ()
    parts: Mapping[str, str] = {}
    launch: tuple[Mapping[str, Any], ...] = ()

    def classify(self, option: str) -> str:
        """Return the list that an option is in, or nothing."""
        lists = {"read": {"": self.read}, **{key: getattr(self, key) for key in REASONED}}
        found = (name for name, by in lists.items() if _match_reason(option, by) is not None)
        return next(found, "")

    def find_key(self, option: str) -> str | None:
        """Return the key of the plan that an option decides which can be set beside the file."""
        return _match_reason(option, self.settable) if self.classify(option) == "settable" else None


#: The lists that have reasons, in the order in which they are asked.
REASONED = ("refused", "settable", "named", "harmless")


def _match_reason(option: str, by_reason: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the reason of the first pattern of a list that matches an option."""
    found = (
        reason
        for reason, each in by_reason.items()
        if any(re.fullmatch(one, option) for one in each)
    )
    return next(found, None)


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
def load_options(name: str) -> OptionTable:
    """Load the table of a framework. Options that the rows of Megatron-LM's models read are among
    those that are read."""
    if name in READ_TRAINERS:
        return _make_table(load_framework(name))
    table = OptionTable(**resources.load_beside(__file__, f"options/{name}.yaml"))
    of_model = sorted(list_model_options()) if name == "megatron" else ()
    return table._replace(read=(*table.read, *map(re.escape, of_model)))


def _make_table(known: Framework) -> OptionTable:
    """Make the table of a trainer, whose patterns are of the beginnings of options."""
    by_key: dict[str | None, tuple[str, ...]] = {}
    for pattern, key in known.refused.items():
        by_key[key] = (*by_key.get(key, ()), f"(?:{pattern}).*")
    return OptionTable(
        version=known.version,
        defaults=known.defaults,
        harmless={"": tuple(f"(?:{one}).*" for one in known.besides)},
        named={"": tuple(f"(?:{one}).*" for one in known.named)},
        refused={"": by_key.pop(None, ())},
        settable={str(key): patterns for key, patterns in by_key.items()},
    )


def judge_file(
    given: Mapping[str, Any],
    defaults: Mapping[str, Any],
    plan: Plan,
    known: Framework,
    place: Place,
    names: Mapping[str, str] = {},
    fixed: Container[str] = (),
) -> list[str]:
    """List the options of a file that its plan has no key for, a line each: of those of its rows,
    what the export of the plan has is held against what the file has, or has by default.

    Args:
        given: the options that the file has; fields that stand for options of another framework
            are there beside these.
        defaults: the values of options that it leaves out.
        plan: the plan that was read from it.
        known: the framework.
        place: where faults are.
        names: how the file calls options of another framework.
        fixed: keys of the plan that were chosen beside the file.

    Raises:
        PlanError: an option has another value than in the export of the plan.
    """
    table, draft = load_options(known.name), ExportDraft(plan, known.name)
    follow_rows(draft, known.rows)
    again = {option: table.defaults.get(option) for option in list_written(known.rows)}
    left_out = {k: defaults[k] for k in draft.said if defaults.get(k) is not None}
    values, base = {**left_out, **given}, load_options("megatron") if known.options else None
    return judge_options(values, {**again, **draft.said}, table, given, place, names, base, fixed)


def judge_options(
    values: Mapping[str, Any],
    again: Mapping[str, Any],
    table: OptionTable,
    given: Container[str],
    place: Place,
    names: Mapping[str, str] = {},
    base: OptionTable | None = None,
    fixed: Container[str] = (),
) -> list[str]:
    """List options that are named or unknown, a line each.

    Args:
        values: the options with their values.
        again: the values that the plan gives them; of others it has the defaults.
        table: what becomes of each.
        given: those that the file itself has.
        place: where faults are.
        names: how the file calls options of another framework.
        base: the table of these.
        fixed: keys of the plan that were chosen beside the file.

    Raises:
        PlanError: an option is refused, or has another value than the plan gives it.
    """
    faults, named, unknown = [], [], []
    for option, value in values.items():
        of = base if base and option in names else table
        plan_has, kind = again.get(option, of.defaults.get(option)), of.classify(option)
        shown = names.get(option, option) or "the configuration"
        nothing = _is_nothing(value) and _is_nothing(plan_has)
        key = of.find_key(option)
        if nothing or is_equal(value, plan_has) or kind in ("read", "harmless") or key in fixed:
            continue
        if kind in ("refused", "settable") or (
            not kind and (option in again or option in of.defaults)
        ):
            left = "" if option in given else " by default"
            has = "without it" if plan_has is None else f"with {_format_value(plan_has)}"
            fault = f"{shown} is {_format_value(value)}{left}, which is not modelled"
            faults.append(
                Fault(fault, place, f"--set {key}=…" if key else f"as the plan is read: {has}")
            )
        elif option in given and kind:
            named.append(shown)
        elif option in given:
            near = nearest(option, [*of.defaults, *again]) or ""
            close = abs(len(near) - len(option)) < 2
            unknown.append(one_line(shown)[:60] + (f" (did you mean {near}?)" if close else ""))
    if faults:
        raise PlanError(faults)
    lines = {"not modelled": named, f"unknown to {table.version}": unknown}
    return [
        f"{what}: {', '.join(dict.fromkeys(options))}" for what, options in lines.items() if options
    ]


def _is_nothing(value: Any) -> bool:
    """Check whether a value leaves out what its option does."""
    return value in (None, False, [], {}) or trainers.is_same(value, "none")
