"""The effects of a branch on a repository's plans: one row per plan, compared if any of its
documents changed.

The documents of a plan are those read for it, on either side: the plan itself, its model, its
cluster, what these extend, and any other file that is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

from planner.base import files, resources
from planner.base.display import as_json, clean, one_line
from planner.base.errors import Fault, Place, PlanError
from planner.base.progress import report_progress
from planner.documents import references
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.plan_questions import check_questions, evaluate
from planner.report import as_text
from planner.report.report import escape_md, format_code
from planner.results.result import Result
from planner.review import revisions, writing
from planner.review.diff import Diff, diff_results, format_count

#: The similarity of lines from which a document counts as renamed.
ALIKE = 0.7
#: Plans that are shown in full; more are folded.
FEW = 3
#: Documents named for one plan.
MOST_NAMED = 4
WORDS: Mapping[str, str] = resources.load_beside(__file__)


@dataclass(frozen=True)
class PlanSide:
    """A plan on one side of a comparison.

    Attributes:
        documents: digests of the documents read for it, by path from the top of the tree.
        text: of the plan's own document.
        plan: None if it has faults.
        faults: none if it is valid.
    """

    documents: Mapping[str, str]
    text: str
    plan: Plan | None
    faults: tuple[Fault, ...]

    @cached_property
    def result(self) -> Result | None:
        """The result of the plan, with its answers and requirements; None if it is not valid."""
        return None if self.plan is None else evaluate(self.plan)


@dataclass(frozen=True)
class PlanChange:
    """The change of one plan.

    Attributes:
        path: from the top of the tree.
        kind: of ``WORDS``.
        was: the path before, of one that was renamed.
        documents: those that differ between its sides.
        diff: of its results, if both sides are valid.
        summary: of a new one.
        faults: of the new side.
        missed: failed requirements.
    """

    path: str
    kind: str
    was: str = ""
    documents: tuple[str, ...] = ()
    diff: Diff | None = None
    summary: str = ""
    faults: tuple[Fault, ...] = ()
    missed: tuple[Fault, ...] = ()

    @property
    def sentence(self) -> str:
        """The change as a sentence."""
        if self.diff is not None:
            return writing.format_sentence(self.diff)
        if self.kind == "invalid":
            return f"The plan is not valid: {format_count(len(self.faults), 'fault')}."
        first = self.summary.split("  ")[0].strip()
        return f"The plan is {WORDS[self.kind]}" + (f": {first}." if first else ".")


def compare_revisions(
    old: str, new: str | None = None, paths: Sequence[Path] = ()
) -> list[PlanChange]:
    """Compare each plan between a revision and another one, or the working tree.

    Args:
        old: a revision of git.
        new: another; the working tree by default.
        paths: plans and folders of plans, on either side; every plan below the current folder by
            default.

    Returns:
        A row for each plan on either side, by path, unchanged ones too.

    Raises:
        PlanError: there is no such revision, or no plan on either side.
    """
    with _read_side(old, paths) as before, _read_side(new, paths, before) as after:
        if not before and not after:
            where = Place(" ".join(map(str, paths)) or ".")
            known = "documents with " + ", ".join(sorted(references.STATED))
            raise PlanError("no plans found", where, known)
        renamed = _match_renamed(before, after)
        names = (revisions.trim_commit(old), "" if new is None else revisions.trim_commit(new))
        return [
            _compare_plan(path, renamed.get(path, path), before, after, names)
            for path in sorted(before.keys() | after.keys())
            if path not in renamed.values()
        ]


@contextlib.contextmanager
def _read_side(
    revision: str | None, paths: Sequence[Path], also: Collection[str] = ()
) -> Iterator[dict[str, PlanSide]]:
    """Yield the plans of a revision, or of the working tree, by path from the current folder, and
    the files at the paths ``also``, which were plans on the other side; the documents stay until
    the end."""
    if revision is None:
        top = revisions.find_top()[0]
        own = top / "presets" if (top / revisions.PROGRAM).is_file() else None
        yield _read_tree(top, Path(), "", own, paths, also)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        with files.use_copy(folder):
            tree = revisions.copy_tree(revision, folder)
            said = f"{revisions.trim_commit(revision)}:"
            found = _read_tree(folder, tree.current, said, tree.presets, paths, also)
        yield found


def _read_tree(
    top: Path,
    current: Path,
    said: str,
    presets: Path | None,
    paths: Sequence[Path],
    also: Collection[str],
) -> dict[str, PlanSide]:
    """Read every plan of a tree below its current folder, or below some paths there."""
    there = [path for path in (current / path for path in paths or (Path(),)) if path.exists()]
    names = [
        os.path.relpath(file, current)
        for file, outright in files.walk_files(there, references.ENDINGS)
        if outright or references.is_plan_like(file)
    ]
    names += [name for name in also if files.is_file(current / name)]
    return {name: _reading(current / name, said, top, presets) for name in dict.fromkeys(names)}


def _reading(file: Path, said: str, top: Path, presets: Path | None) -> PlanSide:
    """Return one side of a plan: what it reads, its result or its faults.

    Args:
        file: the plan's document.
        said: the revision in front of paths of faults; empty for the files at hand.
        top: of the tree, from which paths of documents count.
        presets: folder of built-in documents, if it is not the program's own.
    """
    report_progress(str(file))
    plan, faults, text = None, tuple[Fault, ...](), ""
    with files.record_reads() as opened:
        try:
            plan = check_questions(loading.load(file, presets=presets))
        except PlanError as error:
            faults = error.faults
        with contextlib.suppress(PlanError):  # which the faults tell
            text = files.read_text(file, files.MAX_JSON)
    bound = os.path.join(os.path.realpath(top), "")
    documents = {
        path.removeprefix(bound): hashlib.sha256(files.read_bytes(path, files.MAX_JSON)).hexdigest()
        for path in sorted(opened)
        if path.startswith(bound)
    }
    if said:  # faults name the revision, not the folder of the copy
        faults = tuple(
            replace(one, place=one.place._replace(file=said + one.place.file.removeprefix(bound)))
            if one.place is not None and one.place.file.startswith(bound)
            else one
            for one in faults
        )
    return PlanSide(documents, text, plan, faults)


def _match_renamed(before: Mapping[str, PlanSide], after: Mapping[str, PlanSide]) -> dict[str, str]:
    """Detect renamed plans: match added and removed files by similarity; map new paths to old."""
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    pairs = []
    for path in sorted(new):
        for was in sorted(gone):
            one, other = before[was].text, after[path].text
            alike = 1.0 if one == other else _measure_match(one.splitlines(), other.splitlines())
            if alike >= ALIKE:
                pairs.append((-alike, path, was))
    found: dict[str, str] = {}
    for _, path, was in sorted(pairs):
        if path not in found and was not in found.values():
            found[path] = was
    return found


def _measure_match(one: list[str], other: list[str]) -> float:
    """Return how similar two documents are, from 0 to 1; 0 below ``ALIKE``, which is quick to
    see."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() if matcher.real_quick_ratio() >= ALIKE else 0.0


def _compare_plan(
    path: str,
    was: str,
    before: Mapping[str, PlanSide],
    after: Mapping[str, PlanSide],
    names: tuple[str, str],
) -> PlanChange:
    """Compare one plan on both sides."""
    old, new = before.get(was), after.get(path)
    moved = was if was != path else ""
    if new is None:
        return PlanChange(path, "removed")
    former = new.documents if old is None else old.documents
    named = sorted({**former, **new.documents})
    documents = tuple(name for name in named if former.get(name) != new.documents.get(name))
    if old is not None and not documents:  # also one that was not valid before
        return PlanChange(path, "same")
    if new.result is None:
        return PlanChange(path, "invalid", moved, documents, faults=new.faults)
    try:
        after_it, missed = new.result.to_json(), tuple(new.result.questions.missed)
    except PlanError as error:  # a question that has no answer
        return PlanChange(path, "invalid", moved, documents, faults=error.faults)
    before_it = None
    with contextlib.suppress(PlanError):
        before_it = old.result.to_json() if old is not None and old.result is not None else None
    if old is None or before_it is None:
        first = as_text(new.result, "text")
        return PlanChange(path, "new", moved, documents, summary=first, missed=missed)
    if moved and len(documents) == 2 and old.text == new.text:  # its two names alone
        return PlanChange(path, "renamed", moved)
    sides = (f"{names[0]}:{was}", f"{names[1]}:{path}" if names[1] else path)
    found = diff_results(*sides, before_it, after_it)
    if moved:  # the same document under another name
        said = {**found.sides[0], "plan": {**found.sides[0]["plan"], "document": path}}
        found = replace(found, sides=(said, found.sides[1]))
    kind = "renamed" if moved else "changed"
    return PlanChange(path, kind, moved, documents, found, missed=missed)


def count_changes(found: Sequence[PlanChange]) -> str:
    """Count plans by change: ``3 plans: 1 changed, 2 as before``."""
    kinds = [one.kind for one in found]
    said = [f"{kinds.count(kind)} {words}" for kind, words in WORDS.items() if kind in kinds]
    return f"{format_count(len(found), 'plan')}: {', '.join(said)}"


def explain_change(one: PlanChange) -> str:
    """List the former path of a plan and its changed documents, unless the plan alone changed."""
    said = [f"before: {one.was}"] if one.was else []
    others = [name for name in one.documents if Path(name).name != Path(one.path).name]
    if others and one.kind != "removed":
        left = [f"{len(one.documents) - MOST_NAMED} more"] * (len(one.documents) > MOST_NAMED)
        said.append(f"documents that changed: {', '.join([*one.documents[:MOST_NAMED], *left])}")
    return "; ".join(said)


def list_changed(found: Sequence[PlanChange]) -> list[PlanChange]:
    """List the plans that are not the same on both sides."""
    return [one for one in found if one.kind != "same"]


def format_branches(found: Sequence[PlanChange], everything: bool = False) -> str:
    """Format for a terminal: a block per changed plan, and the counts."""
    blocks = []
    for one in list_changed(found):
        lines = [one.path, *filter(None, [explain_change(one)])]
        said = [*map(str, one.faults)] or [one.sentence]
        lines += map(str, one.missed)
        if one.diff is not None:
            said = writing.format_diff(one.diff, everything).splitlines()
        blocks.append([*lines, *(f"  {line}".rstrip() for line in said)])
    blocks.append([count_changes(found)])
    return "\n\n".join("\n".join(map(one_line, block)) for block in blocks) + "\n"


def render_branches(found: Sequence[PlanChange], everything: bool = False) -> str:
    """Format for a comment on a pull request: the counts, then each changed plan; if there are
    many, a sentence each with the rest in a fold."""
    lines, several = [f"{escape_md(count_changes(found))}.", ""], len(list_changed(found)) > FEW
    for one in list_changed(found):
        name = format_code(one_line(clean(one.path)))
        body = _format_section(one, everything)
        if several:
            lines += [f"#### {name}", "", escape_md(one.sentence), ""]
            lines += ["<details><summary>more</summary>", "", *body, "</details>", ""]
        else:
            lines += [f"### {name}", "", *body]
    return "\n".join(lines).rstrip() + "\n"


def _format_section(one: PlanChange, everything: bool) -> list[str]:
    """Format the change of one plan in Markdown.

    Args:
        one: the change.
        everything: whether rows that changed little are shown too.

    Returns:
        lines, the last one empty.
    """
    why = [f"{escape_md(explain_change(one))}.", ""] if explain_change(one) else []
    why += [line for fault in one.missed for line in (f"**{escape_md(str(fault))}.**", "")]
    if one.diff is not None:
        return [*why, *writing.render_diff(one.diff, everything).splitlines(), ""]
    words = "\n".join(map(str, one.faults)) if one.faults else one.summary
    if not words:
        return [*why, escape_md(one.sentence), ""]
    # Output as it is; no line of it ends the fence.
    return [*why, "```text", *words.replace("```", "'''").splitlines(), "```", ""]


def encode_branches(found: Sequence[PlanChange]) -> str:
    """Format all changes as JSON."""
    return as_json(
        {
            "plans": [
                {
                    "path": one.path,
                    "state": one.kind,
                    "was": one.was or None,
                    "documents": list(one.documents),
                    "sentence": one.sentence,
                    "diff": writing.dump_diff(one.diff) if one.diff is not None else None,
                    "faults": list(map(str, one.faults)),
                    "missed": list(map(str, one.missed)),
                }
                for one in found
            ]
        }
    )
