"""Committed reports held against what their plans give today. Nothing is written.

A report names its plan and its overrides: in JSON under ``plan``, in Markdown and HTML by the
command under "How to reproduce". It is rendered again and compared: lines that agree but for their
digits are moved numbers, all others moved wording.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from planner import report as render
from planner.base import files
from planner.base.display import one_line
from planner.base.errors import Fault, Place, PlanError
from planner.connect import compare as measured
from planner.documents import references
from planner.questions import loading
from planner.results.result import evaluate
from planner.review.diff import compare, is_result, line

#: Folders that hold the files of programs, not reports.
SKIPPED = frozenset((".git", ".hg", ".svn", ".tox", ".nox", "node_modules", "__pycache__"))
#: What lies in a folder that is a virtual environment.
ENVIRONMENT = "pyvenv.cfg"
KINDS = (".md", ".html", ".json")
WRITTEN = "a .md, .html or .json written with -o"
#: How a report ends: with the fingerprint of its input.
_MARK = re.compile(r"^(?:<p[^>]*>)?trainplan [^;\n]+;[^\n]*resolved input", re.MULTILINE)
_INPUT = re.compile(
    r"^(?:<p[^>]*>)?trainplan ([^;\n]+);[^\n]*resolved input (?:<code>|`)([0-9a-f]+)", re.MULTILINE
)
_COMMAND = re.compile(r"^(?:<pre[^>]*>)?(python plan\.py [^\n]*?)(?:</pre>)?$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:[\u202f\u2009,]\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
#: Numbers that say nothing but where a source stands in the list at the end.
_REFERENCE = re.compile(r"#s\d+\b|\\?\[\d+\\?\]|^\d+\. |<li id=s\d+>")
_BAR = re.compile("[█░]+")
#: Values that differ by less, as a share, are the same: the last digits of floats.
ROUNDING = 1e-12
#: Differences shown for each report.
MOST = 12


class Finding(NamedTuple):
    """One report: ``same``, or how it drifted, with the first differences as lines; ``cause`` says
    whether the plan changed since, or the program."""

    path: str
    kind: str  # same | numbers | wording | lost | invalid | missing (of a plan without a report)
    details: tuple[str, ...] = ()
    cause: str = ""

    @property
    def drift(self) -> bool:
        return self.kind != "same"


class Claim(NamedTuple):
    """What a report says of itself."""

    plan: str
    overrides: tuple[str, ...]
    log: str | None = None  # of the run that stands beside the plan
    warm_up: int | None = None


def check(paths: Sequence[Path] = (), plans: Sequence[Path] = ()) -> list[Finding]:
    """Every report under the paths, evaluated anew; below the current folder without paths.

    Args:
        paths: reports and folders of reports.
        plans: plans and folders of plans, each of which must have a report among them.

    Raises:
        PlanError: a path does not exist, a file named outright is no report, or there is no report
            below the paths.
    """
    found, covered = [], set()
    for path, named in _files(paths or (Path(),), KINDS):
        claim = read(path)
        if claim is None:
            if named:
                raise PlanError(Fault("this is no report of trainplan", Place(str(path)), WRITTEN))
            continue
        found.append(_compare(path, claim))
        file = _find(path, claim.plan)
        if file is not None:
            covered.add(file.resolve())
    for plan, named in _files(plans, references.ENDINGS):
        if (named or references.is_plan(plan)) and plan.resolve() not in covered:
            found.append(Finding(str(plan), "missing"))
    if paths and not found:
        raise PlanError(Fault("no reports found", Place(" ".join(map(str, paths))), WRITTEN))
    return found


def _files(paths: Sequence[Path], endings: tuple[str, ...]) -> Iterator[tuple[Path, bool]]:
    """The files of some paths, with whether each was named outright: those named, and below folders
    those of some endings that can be read, in order; what belongs to version control, packages and
    virtual environments is left out."""
    for path in paths:
        if not path.exists():
            raise PlanError(Fault("no such file or folder", Place(str(path))))
        if not path.is_dir():
            with files.opened(path, files.MAX_JSON):  # told where it cannot be read
                pass
            yield path, True
        for base, folders, names in os.walk(path):  # which finds nothing below a file
            here = Path(base)
            if ENVIRONMENT in names and here != path:
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            for name in sorted(names):
                if name.endswith(endings) and files.is_file(here / name):
                    yield here / name, False


def text(findings: Sequence[Finding]) -> str:
    """One line for each report, the differences below it, the verdict last."""
    said = {
        "same": "unchanged",
        "numbers": "numbers moved",
        "wording": "wording moved, numbers agree",
        "lost": "its plan is gone",
        "missing": "no report of this plan",
        "invalid": "its plan is no longer valid",
    }
    lines = []
    for finding in findings:
        cause = f"; {finding.cause}" if finding.cause else ""
        lines.append(f"{finding.path}: {said[finding.kind]}{cause}")
        lines += [f"  {detail}" for detail in finding.details]
    drifted = sum(finding.drift for finding in findings)
    missing = sum(finding.kind == "missing" for finding in findings)
    verdict = f"{len(findings) - missing} reports, {drifted - missing or 'none'} drifted"
    verdict += f"; {missing} plans without a report" if missing else ""
    lines.append(verdict if findings else "no reports found")
    return "".join(one_line(line) + "\n" for line in lines)


# finding reports ---------------------------------------------------------------------------


def read(path: Path) -> Claim | None:
    """What a file says of the plan that made it; None where it is no report."""
    try:
        content = files.read_text(path, files.MAX_JSON)
        if path.suffix == ".json":
            data = files.parse_json(content)
            if not is_result(data, report=True):
                return None
            made, beside = data["plan"], data.get("comparison") or {}
            of_run = beside.get("log"), beside.get("warm_up")
            return Claim(str(made.get("document")), tuple(made.get("set", ())), *of_run)
    except PlanError:
        return None
    commands = _COMMAND.findall(content)
    if not commands or not _MARK.search(content):
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
    log, warm_up = (given.get(flag, [None])[0] for flag in ("--log", "--warm-up"))
    number = int(warm_up) if warm_up is not None and re.fullmatch("[0-9]{1,9}", warm_up) else None
    return Claim(words[0], tuple(given.get("--set", ())), log, number)


# comparing ---------------------------------------------------------------------------------


def _compare(path: Path, claim: Claim) -> Finding:
    for name in (claim.plan, claim.log):
        if name is not None and _find(path, name) is None:
            return Finding(str(path), "lost", (f"{name} does not exist",))
    try:
        fresh = _render(path, claim)
    except PlanError as error:
        return Finding(str(path), "invalid", tuple(map(str, error.faults[:MOST])))
    old = files.read_text(path, files.MAX_JSON)
    if old == fresh:
        return Finding(str(path), "same")
    inputs: list[str] = []  # that changed; only results tell
    # The version of the program and the fingerprint of the input that a report states.
    if path.suffix == ".json":
        before, after = files.parse_json(old), files.parse_json(fresh)
        rows = compare(before, after, everything=True)
        inputs = [row.id for row in rows if row.kind == "input"]
        stated = [
            (str(r.get("version")), str(r["plan"].get("fingerprint"))) for r in (before, after)
        ]
        kind, details = _compare_results(before, after)
    else:
        stated = [(_INPUT.findall(report) or [("", "")])[-1] for report in (old, fresh)]
        kind, details = _compare_lines(old.splitlines(), fresh.splitlines())
    more = len(details) - MOST
    told = (*details[:MOST], *([f"and {more} more"] if more > 0 else []))
    return Finding(str(path), kind, told, _cause(stated[0], stated[1], inputs))


def _cause(before: tuple[str, str], after: tuple[str, str], keys: Sequence[str]) -> str:
    """Whether the plan changed since a report was written, or the program that wrote it."""
    (old, input_before), (new, input_now) = before, after
    program = f"the program changed ({old} → {new})" if old != new else ""
    if input_before == input_now:
        return f"the plan is as it was, {program or 'the program or the report changed'}"
    some = [*keys[:3], *([f"{len(keys) - 3} more"] if len(keys) > 3 else [])]
    more = f" ({', '.join(some)})" if keys else ""
    return f"the plan or what it names changed{more}" + (f", and {program}" if program else "")


def _find(report: Path, plan: str) -> Path | None:
    """The plan as named, from here or from any folder around the report."""
    for base in (Path(), *report.parents):
        if files.is_file(base / plan):
            return base / plan
    return None


def _render(report: Path, claim: Claim) -> str:
    """The report as it would be written today, naming its plan as the old one does."""
    plan = loading.load(_find(report, claim.plan) or claim.plan, claim.overrides)
    if claim.log is None:
        result = evaluate(plan)
    else:
        found = measured.compare(plan, _find(report, claim.log) or claim.log, claim.warm_up)
        result = found.result
        result.comparison = replace(found, log=claim.log)
    result.document = claim.plan
    return render.as_text(result, report.suffix.lstrip("."))


def _compare_results(old: Any, new: Any) -> tuple[str, list[str]]:
    """Two results in JSON: quantities whose values moved, came or went, else wording."""
    moved = [line(row) for row in compare(old, new, precision=ROUNDING)]
    beside = ((side.get("comparison") or {}).get("quantities", ()) for side in (old, new))
    before, after = ({row["id"]: row["measured"] for row in rows} for rows in beside)
    moved += [
        f"{key} measured: {before.get(key)} → {after.get(key)}"
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]
    if moved:
        return "numbers", moved
    changed = [
        f"{key}: {part}"
        for key in old["quantities"]
        for part in old["quantities"][key]
        if old["quantities"][key][part] != new["quantities"].get(key, {}).get(part)
    ]
    return "wording", changed or ["layout or provenance only"]


def _compare_lines(old: list[str], new: list[str]) -> tuple[str, list[str]]:
    """Two reports as lines: numbers that moved in a line, and lines of other words."""
    numbers: list[str] = []
    wording: list[str] = []
    plain_old, plain_new = ([_REFERENCE.sub("", line) for line in lines] for lines in (old, new))
    masked_old, masked_new = (
        [_BAR.sub("=", _NUMBER.sub("0", line)) for line in lines]
        for lines in (plain_old, plain_new)
    )
    matcher = SequenceMatcher(None, masked_old, masked_new, autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        before, after = plain_old[a:b], plain_new[c:d]
        if what == "equal":
            for number, (one, other) in enumerate(zip(before, after, strict=True), a + 1):
                if one != other and not _MARK.search(other):
                    numbers.append(f"line {number}: {_moved(one, other)}")
            continue
        moved = f"line {a + 1}: {_short(old[a:b])} → {_short(new[c:d])}"
        # Numbers that go with wording: both say something new, so both are told.
        figures = (_NUMBER.findall("\n".join(lines)) for lines in (before, after))
        (wording if next(figures) == next(figures) else numbers).append(moved)
    if numbers:
        return "numbers", [*numbers, *wording]
    return "wording", wording or ["version or fingerprint only"]


def _moved(before: str, after: str) -> str:
    """The words before the first number that moved, and that number old and new."""
    pairs = zip(_NUMBER.finditer(before), _NUMBER.finditer(after), strict=False)
    for a, b in pairs:
        if a[0] != b[0]:
            words = re.sub(r"<[^>]*>|[*`|]", " ", before[: a.start()])
            return f"{' '.join(words.split())[-50:]} {a[0]} → {b[0]}".strip()
    return "a bar"


def _short(lines: list[str]) -> str:
    joined = " ".join(" ".join(lines).split())
    return (joined[:57] + "…" if len(joined) > 58 else joined) or "nothing"
