"""Committed reports as files: which files are reports, of which plan, and their claims.

A report names its plan and its overrides: in JSON under ``plan``, in Markdown and HTML by the
command under "Reproduce".
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import files, resources
from planner.base.errors import Place, PlanError
from planner.documents import references
from planner.documents.json_schema import accepts
from planner.questions import loading
from planner.questions.plan_questions import attach_questions
from planner.results.result import Result, evaluate_plan

#: How a report ends: with the fingerprint of its input.
MARK = re.compile(r"(?:^|<p[^>\n]{0,40}>)trainplan ([^;\n]+);[^\n]*resolved input", re.MULTILINE)
_INPUT = re.compile(rf"{MARK.pattern} (?:<code>|`)([0-9a-f]+)", re.MULTILINE)
WRITTEN = "a .md, .html or .json written with -o"
_COMMAND = re.compile(r"^(?:<pre[^>\n]*>)?(python plan\.py [^\n]*?)(?:</pre>|$)", re.MULTILINE)


class Claim(NamedTuple):
    """The plan and options that a report names in its footer.

    Attributes:
        plan: path or name.
        overrides: `KEY=VALUE`, in order.
        log: of the run compared with the plan.
        warm_up: steps of the log that are left out.
        step_time: given instead of a log.
        no_defaults: whether a team's defaults were left out.
    """

    plan: str
    overrides: tuple[str, ...]
    log: str | None = None
    warm_up: int | None = None
    step_time: str | None = None
    no_defaults: bool = False


class Stated(NamedTuple):
    """The program that wrote a report, and the fingerprint of its input."""

    version: str
    fingerprint: str


def is_result(data: Any, report: bool = False) -> bool:
    """Decide whether data has everything that a comparison reads, of any version of the program;
    for a ``report``, also its provenance."""
    said = resources.load_beside(__file__, "results.yaml")
    if not accepts(said["result"], data) or (report and not accepts(said["report"], data)):
        return False
    values = [one["value"] for key in ("quantities", "inputs") for one in data[key].values()]
    values += data.get("step_parts", {}).values()
    return all(math.isfinite(value) for value in values if isinstance(value, float))


def make_error(name: str | Path) -> PlanError:
    """Return the error that a named file is no report."""
    return PlanError("this is not a trainplan report", Place(str(name)), WRITTEN)


def read_claim(path: Path) -> Claim | None:
    """Read the plan and options that a file names; None if it is no report."""
    try:
        content = files.read_text(path, files.MAX_JSON)
        if path.suffix == ".json":
            data = files.parse_json(content)
            if not is_result(data, report=True):
                return None
            made, beside = data["plan"], data.get("comparison") or {}
            told, log = beside.get("format") == "step time", beside.get("log")
            of_run = (None, None, log) if told else (log, beside.get("warm_up"), None)
            changes = tuple(made.get("set", ()))
            document, left_out = str(made.get("document")), bool(made.get("no_defaults"))
            return Claim(document, changes, *of_run)._replace(no_defaults=left_out)
    except PlanError:
        return None
    commands = _COMMAND.findall(content)
    if not commands or not MARK.search(content):
        return None
    command = commands[-1] if path.suffix == ".md" else unescape(commands[-1])
    try:
        words = shlex.split(command)[2:]
    except ValueError:
        return None
    words = words[1:] if words[:1] == ["compare"] else words
    if not words:
        return None
    given: dict[str, list[str]] = {}
    for flag, value in pairwise(words):
        given.setdefault(flag, []).append(value)
    flags = ("--step-time", "--log", "--warm-up")
    told, log, warm_up = (given.get(flag, [None])[0] for flag in flags)
    number = int(warm_up) if warm_up is not None and re.fullmatch("[0-9]{1,9}", warm_up) else None
    changes = tuple(given.get("--set", ()))
    return Claim(words[0], changes, log, number, told, "--no-defaults" in words)


def read_footer(content: str) -> Stated:
    """Read the version and the fingerprint at the end of a report in Markdown or HTML."""
    return Stated(*(_INPUT.findall(content) or [("", "")])[-1])


def find_named(report: Path, name: str, here: Path = Path()) -> Path | None:
    """Find a file that a report names.

    Args:
        report: path of the report.
        name: relative to ``here`` or to any folder around the report, or of a built-in plan.
        here: looked in first.

    Returns:
        a path, or the name of the built-in plan; None if there is neither.
    """
    for base in (here, *report.parents):
        if files.is_file(base / name):
            return base / name
    return Path(name) if name in references.preset_names("plan") else None


def evaluate_claim(
    report: Path, claim: Claim, here: Path = Path(), presets: Path | None = None
) -> Result:
    """Evaluate the plan of a report today, as the report names it.

    Args:
        report: path of the report.
        claim: the command in its footer.
        here: folder that relative paths start from, before those around the report.
        presets: folder of built-in documents, if it is not the program's own.

    Raises:
        PlanError: the plan no longer exists, or is no longer valid.
    """
    found_plan = find_named(report, claim.plan, here) or claim.plan
    team = False if claim.no_defaults else None
    plan = loading.load(found_plan, claim.overrides, presets=presets, team=team)
    if claim.step_time is not None:
        from planner.connect import compare

        result = compare.compare_step(plan, claim.step_time).result
    elif claim.log is None:
        result = evaluate_plan(plan)
    else:
        from planner.connect import compare

        found = compare.compare(
            plan, find_named(report, claim.log, here) or claim.log, claim.warm_up
        )
        result = found.result
        result.comparison = replace(found, log=claim.log)
    result.document = claim.plan
    return attach_questions(result)
