"""Committed reports compared with the results of their plans today, and rewritten on demand.

A report is rendered again and compared: lines that differ in digits alone are changed numbers, all
others changed wording.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import fault_formats, files, numbers, resources
from planner.base.display import as_json, one_line
from planner.base.errors import Fault, Place, PlanError
from planner.base.progress import report_progress
from planner.documents import defaults, references
from planner.report import as_text
from planner.results.result import Result
from planner.review import reports
from planner.review.diff import Diff, compare_results, diff_results, format_count
from planner.review.writing import HEADLINES, format_line

KINDS = (".md", ".html", ".json")
_NUMBER = re.compile(r"\d+(?:[\u202f\u2009,]\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
_GROUPS = re.compile("[\u202f\u2009,]")
#: Numbers of references to the list of sources.
_REFERENCE = re.compile(r'#s\d+\b|\\?\[\d+\\?\]|^\d+\. |<li id="?s\d+"?>')
_BAR = re.compile("[█░]+")
#: What is markup of a line, in Markdown and HTML, and how many characters of its words are shown.
_MARKUP = re.compile(r"<[^<>]*>|\]\([^()]*\)|[\\*`|\[\]~]")
MOST_WORDS = 50
#: Values that differ by less, as a share, are the same: the last digits of floats.
ROUNDING = 1e-12
#: Differences shown of a report, lines of all that drifted, where they are few, and how many times
#: the lines of today's report are compared; of an old one more are none of its own.
MOST, LINES, LONGER = 12, 25, 4
#: What became of a report, in words; and how a summary counts it.
KINDS_SAID, SUMMED = resources.load_beside(__file__).values()
MISSED = "requirement"
#: The rules that faults of reports are of.
RULES = {
    **fault_formats.RULES,
    MISSED: "a requirement of a plan does not hold",
    **{kind: words for kind, words in KINDS_SAID.items() if kind not in ("same", "invalid")},
}
#: Differences that one fault tells.
MOST_TOLD = 4


class Finding(NamedTuple):
    """One report held against its plan.

    Attributes:
        path: of the report.
        kind: same, numbers, wording, lost, invalid, or missing (of a plan without a report).
        details: the first differences, as lines.
        cause: whether the plan or the program changed since.
        line: of the report, where the first difference stands.
        faults: of a plan that is no longer valid.
        missed: failed requirements of the plan.
        fresh: the report as it is today, if it drifted.
        written: whether it has replaced the old one.
    """

    path: str
    kind: str
    details: tuple[str, ...] = ()
    cause: str = ""
    line: int | None = None
    faults: tuple[Fault, ...] = ()
    missed: tuple[Fault, ...] = ()
    fresh: str = ""
    written: bool = False

    @property
    def drift(self) -> bool:
        """Whether the report differs from its plan and was not written again."""
        return self.kind != "same" and not self.written

    @property
    def words(self) -> str:
        """The outcome of the report, and its cause."""
        more = (self.cause, "written" if self.written else "")
        return "; ".join(filter(None, (KINDS_SAID[self.kind], *more)))


def check_reports(paths: Sequence[Path] = (), plans: Sequence[Path] = ()) -> list[Finding]:
    """Evaluate every report under the paths again; without paths those of the folders in a team's
    trainplan.yaml, or else below the current folder.

    Args:
        paths: reports and folders of reports.
        plans: plans and folders of plans, each of which must have a report among them.

    Raises:
        PlanError: a path does not exist, a named file is no report, or there is no report below the
            paths.
    """
    found, covered, latest = list[Finding](), set[Path](), dict[Any, Result]()
    if not paths and (around := defaults.find_defaults(Path("here"))) is not None:
        paths = around.reports
    for path, named in files.walk_files(paths or (Path(),), KINDS):
        claim = reports.read_claim(path)
        if claim is None:
            if named:
                raise reports.make_error(path)
            continue
        report_progress(f"{path}, {numbers.text(len(found))} reports before it")
        found.append(_check_report(path, claim, latest))
        file = reports.find_named(path, claim.plan)
        if file is not None:
            covered.add(references.locate_file(file, "plan")[0].resolve())
    for plan, named in files.walk_files(plans, references.ENDINGS):
        if (named or references.is_plan(plan)) and plan.resolve() not in covered:
            found.append(Finding(str(plan), "missing"))
    if paths and not found:
        raise PlanError("no reports found", Place(" ".join(map(str, paths))), reports.WRITTEN)
    return found


def write_drifted(findings: Sequence[Finding]) -> list[Finding]:
    """Write the current version of each report that drifted, whole or not at all.

    Raises:
        PlanError: a report cannot be written.
    """
    made = list[Finding]()
    for one in findings:
        if one.fresh:
            files.write_text(one.path, one.fresh)
        made.append(one._replace(written=bool(one.fresh)))
    return made


def format_findings(findings: Sequence[Finding], everything: bool = False) -> str:
    """Format a block for each drifted report: its cause and its differences, fewer of each if there
    are several, all with ``everything``; a summary last."""
    drifted = [finding for finding in findings if finding.kind != "same"]
    most = max(0, min(MOST, (LINES - 1) // len(drifted) - 2)) if drifted else 0
    lines = []
    for finding in findings if everything else drifted:
        lines.append(f"{finding.path}: {finding.words}")
        shown = finding.details if everything else finding.details[:most]
        lines += [f"  {detail}" for detail in shown]
        left = len(finding.details) - len(shown)
        if shown and left:
            lines.append(f"  and {left} more: --all")
    lines += map(str, _list_missed(findings))
    return "".join(one_line(line) + "\n" for line in [*lines, _count_reports(findings)])


def _list_missed(findings: Sequence[Finding]) -> list[Fault]:
    """Return the failed requirements, each once."""
    return list(dict.fromkeys(fault for one in findings for fault in one.missed))


def collect_faults(findings: Sequence[Finding]) -> list[fault_formats.Row]:
    """Return everything that changed as faults with lines; those of a plan once each."""
    found: list[fault_formats.Row] = []
    for one in findings:
        if one.faults:
            found += fault_formats.list_fault_rows(one.faults)
        elif one.drift:
            more = len(one.details) - MOST_TOLD
            left = [f"and {more} more"] if more > 0 else []
            said = ": ".join(
                filter(None, (one.words, "; ".join([*one.details[:MOST_TOLD], *left])))
            )
            found.append((one.kind, Fault(said, Place(one.path, one.line))))
    found += [(MISSED, fault) for fault in _list_missed(findings)]
    return list(dict.fromkeys(found))


def export_findings(findings: Sequence[Finding], how: str) -> str:
    """Format the findings as one of the formats of faults; JSON has every report too."""
    if how != "json":
        said = fault_formats.WRITERS[how](collect_faults(findings), RULES)
        return said + (_count_reports(findings) + "\n" if how == "github" else "")
    reports_found = [
        {"path": one.path, "state": one.kind, "cause": one.cause, "details": list(one.details)}
        | ({"written": True} if one.written else {})
        for one in findings
    ]
    faults = [fault_formats.encode_fault(fault, rule) for rule, fault in collect_faults(findings)]
    return as_json({"faults": faults, "reports": reports_found})


def _count_reports(findings: Sequence[Finding]) -> str:
    """Count the reports, and those that drifted by kind."""
    if not findings:
        return "no reports found"
    kinds = Counter(finding.kind for finding in findings)
    missing = kinds.pop("missing", 0)
    reports_found = format_count(len(findings) - missing, "report")
    ways = [f"{count} {SUMMED[kind]}" for kind, count in kinds.items() if kind != "same"]
    drifted = sum(kinds.values()) - kinds["same"]
    said = f"{drifted} drifted ({', '.join(ways)})" if drifted else "none drifted"
    written = sum(finding.written for finding in findings)
    more = f"; {written} written" if written else ""
    more += f"; {format_count(missing, 'plan')} without a report" if missing else ""
    unmet = len(_list_missed(findings))
    more += f"; {format_count(unmet, 'requirement')} not met" if unmet else ""
    return f"{reports_found}, {said}{more}"


def _check_report(path: Path, claim: reports.Claim, latest: dict[Any, Result]) -> Finding:
    """Write a report again and compare; a plan that cannot be evaluated is a finding, not an
    error.

    Args:
        path: the report.
        claim: the command in its footer.
        latest: the result of the report before, kept for the other formats of the same report.
    """
    sides = [name and reports.find_named(path, name) for name in (claim.plan, claim.log)]
    for name, side in zip((claim.plan, claim.log), sides, strict=True):
        if name is not None and side is None:
            return Finding(str(path), "lost", (f"{name} does not exist",))
    try:
        if (key := (claim, *sides)) not in latest:
            latest.clear()
            latest[key] = reports.evaluate_claim(path, claim)
        result = latest[key]
        fresh = as_text(result, path.suffix.lstrip("."))
    except PlanError as error:
        told = tuple(map(str, error.faults))
        return Finding(str(path), "invalid", told, faults=error.faults)
    found = _compare_report(path, files.read_text(path, files.MAX_JSON), fresh)
    fresh = fresh if found.drift else ""
    return found._replace(missed=tuple(result.questions.missed), fresh=fresh)


def _compare_report(path: Path, old: str, fresh: str) -> Finding:
    """Compare a report as committed with its current version."""
    if old == fresh:
        return Finding(str(path), "same")
    if path.suffix == ".json":
        before, after = files.parse_json(old), files.parse_json(fresh)
        kind, details, first = _compare_results(before, after)
        stated = [
            reports.Stated(str(r.get("version")), str(r["plan"].get("fingerprint")))
            for r in (before, after)
        ]
        found = diff_results(str(path), str(path), before, after)
        cause, at = _cause(stated[0], stated[1], found), _find_id_line(first, old)
        return Finding(str(path), kind, tuple(details), cause, at)
    stated = [reports.read_footer(report) for report in (old, fresh)]
    kind, numbered = _compare_lines(old.splitlines(), fresh.splitlines())
    details = [f"line {number}: {words}" if number else words for number, words in numbered]
    cause = _cause(stated[0], stated[1])
    return Finding(str(path), kind, tuple(details), cause, numbered[0][0])


def _find_id_line(identifier: str | None, content: str) -> int | None:
    """Return the line at which a quantity begins in a JSON result."""
    at = content.find(f'"{identifier}": {{', content.find('"quantities"'))
    return content.count("\n", 0, at) + 1 if identifier is not None and at >= 0 else None


def _cause(before: reports.Stated, after: reports.Stated, found: Diff | None = None) -> str:
    """Describe what changed a report: its plan or the program; for results, also which keys, or
    presets."""
    old, new = before.version, after.version
    program = f"the program changed ({old} → {new})" if old != new else ""
    if before.fingerprint == after.fingerprint:
        return f"the plan is as it was, {program or 'the program or the report changed'}"
    if found is None or not found.changes:
        return ", and ".join(filter(None, ["the plan or what it names changed", program]))
    whose = [cause for cause in found.causes if cause != "program"]
    keys = [one.key for one in found.changes if one.key != "program"]
    some = [*keys[:3], *([f"{len(keys) - 3} more"] if len(keys) > 3 else [])]
    who = " and ".join("the plan" if cause == "plan" else cause for cause in whose)
    said = f"{who or 'what follows from the plan'} changed ({', '.join(some)})"
    return ", and ".join(filter(None, [said, program]))


def _compare_results(old: Any, new: Any) -> tuple[str, list[str], str | None]:
    """Compare two JSON results: quantities with other values first, headlines leading; else
    wording. Also return the first changed quantity."""
    rank = {figure: place for place, figure in enumerate(HEADLINES)}
    rows = compare_results(old, new, precision=ROUNDING)
    rows.sort(key=lambda row: rank.get(row.id, len(rank)))
    moved, first = [format_line(row) for row in rows], rows[0].id if rows else None
    beside = ((side.get("comparison") or {}).get("quantities", ()) for side in (old, new))
    before, after = ({row["id"]: row["measured"] for row in rows} for rows in beside)
    moved += [
        f"{key} measured: {before.get(key)} → {after.get(key)}"
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]
    if moved:
        return "numbers", moved, first
    changed = [
        (key, part)
        for key in old["quantities"]
        for part in old["quantities"][key]
        if old["quantities"][key][part] != new["quantities"].get(key, {}).get(part)
    ]
    details = [f"{key}: {part}" for key, part in changed] or ["layout or provenance only"]
    return "wording", details, changed[0][0] if changed else None


def _compare_lines(old: list[str], new: list[str]) -> tuple[str, list[tuple[int | None, str]]]:
    """Compare two reports by line: changed numbers, and changed wording, each with its line in the
    old one."""
    from difflib import SequenceMatcher

    numbers: list[tuple[int | None, str]] = []
    wording: list[tuple[int | None, str]] = []
    plain_old, plain_new = ([_REFERENCE.sub("", line) for line in lines] for lines in (old, new))
    masked_old, masked_new = (
        [_BAR.sub("=", _NUMBER.sub("0", line)) for line in lines]
        for lines in (plain_old, plain_new)
    )
    # Only so many lines of the old report are compared, which bounds the time.
    most = LONGER * len(new) + 1000
    steps = SequenceMatcher(None, masked_old[:most], masked_new).get_opcodes()
    if len(old) > most:
        steps.append(("delete", most, len(old), len(new), len(new)))
    for what, a, b, c, d in steps:
        before, after = plain_old[a:b], plain_new[c:d]
        if what == "equal":
            for number, (one, other) in enumerate(zip(before, after, strict=True), a + 1):
                if one != other and not reports.MARK.search(other):
                    moved = _find_changed(one, other)
                    how = moved or "digits are grouped otherwise"
                    (numbers if moved else wording).append((number, how))
            continue
        told = a + 1, f"{_cut_lines(old[a:b])} → {_cut_lines(new[c:d])}"
        # If numbers differ too, it counts as changed numbers.
        figures = (_figures("\n".join(lines)) for lines in (before, after))
        (wording if next(figures) == next(figures) else numbers).append(told)
    if numbers:
        return "numbers", [*numbers, *wording]
    return "wording", wording or [(None, "version or fingerprint only")]


def _figures(text: str) -> list[str]:
    """Return the numbers in a text, without grouping of digits."""
    return [_GROUPS.sub("", number) for number in _NUMBER.findall(text)]


def _find_changed(before: str, after: str) -> str:
    """Return the words before the first changed number, and that number old and new; empty if only
    the grouping of digits changed."""
    pairs = zip(_NUMBER.finditer(before), _NUMBER.finditer(after), strict=False)
    for a, b in pairs:
        if _GROUPS.sub("", a[0]) != _GROUPS.sub("", b[0]):
            words = " ".join(["", *_MARKUP.sub(" ", before[: a.start()]).split()])
            pair = (_GROUPS.sub(",", number[0]) for number in (a, b))
            return f"{words[-MOST_WORDS - 1 :].partition(' ')[2]} {' → '.join(pair)}".strip()
    same = _figures(before) == _figures(after) and _BAR.findall(before) == _BAR.findall(after)
    return "" if same else "a bar"


def _cut_lines(lines: list[str]) -> str:
    """Join lines and cut them to what a message shows."""
    joined = " ".join(" ".join(lines).split())
    return (joined[:57] + "…" if len(joined) > 58 else joined) or "nothing"
