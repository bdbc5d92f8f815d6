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

from planner.base import files
from planner.base.display import as_json, clean, one_line
from planner.base.errors import Fault, Place, PlanError
from planner.base.progress import tell
from planner.documents import references
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.plan_questions import checked, evaluate
from planner.report import as_text
from planner.report.report import code, escaped
from planner.results.result import Result
from planner.review import revisions, writing
from planner.review.diff import Diff, between, counted

#: The similarity of lines from which a document counts as renamed.
ALIKE = 0.7
#: Plans that are shown in full; more are folded.
FEW = 3
#: Documents named for one plan.
MOST_NAMED = 4
WORDS = {
    "changed": "changed",
    "new": "new",
    "removed": "removed",
    "renamed": "renamed",
    "invalid": "not valid",
    "same": "as before",
}


@dataclass(frozen=True)
class Reading:
    """A plan on one side: the documents read for it, by path from the top of the tree, and the plan
    or its faults."""

    documents: Mapping[str, str]  # digests
    text: str
    plan: Plan | None
    faults: tuple[Fault, ...]

    @cached_property
    def result(self) -> Result | None:
        """The result of the plan, with its answers and requirements; None if it is not valid."""
        return None if self.plan is None else evaluate(self.plan)


@dataclass(frozen=True)
class PlanChange:
    """The change of one plan; ``documents`` are those that differ between its sides."""

    path: str
    kind: str  # of WORDS
    was: str = ""  # the path before, of one that was renamed
    documents: tuple[str, ...] = ()
    diff: Diff | None = None
    summary: str = ""  # of a new one
    faults: tuple[Fault, ...] = ()
    missed: tuple[Fault, ...] = ()  # failed requirements

    @property
    def sentence(self) -> str:
        """The change as a sentence."""
        if self.diff is not None:
            return writing.sentence(self.diff)
        if self.kind == "invalid":
            return f"The plan is not valid: {counted(len(self.faults), 'fault')}."
        first = self.summary.split("  ")[0].strip()
        return f"The plan is {WORDS[self.kind]}" + (f": {first}." if first else ".")


def compare(old: str, new: str | None = None, paths: Sequence[Path] = ()) -> list[PlanChange]:
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
    with _side(old, paths) as before, _side(new, paths, before) as after:
        if not before and not after:
            where, known = (
                " ".join(map(str, paths)) or ".",
                "documents with " + ", ".join(sorted(references.STATED)),
            )
            raise PlanError(Fault("no plans found", Place(where), known))
        renamed = _renamed(before, after)
        names = (revisions.short(old), "" if new is None else revisions.short(new))
        return [
            _changed(path, renamed.get(path, path), before, after, names)
            for path in sorted(before.keys() | after.keys())
            if path not in renamed.values()
        ]


@contextlib.contextmanager
def _side(
    revision: str | None, paths: Sequence[Path], also: Collection[str] = ()
) -> Iterator[dict[str, Reading]]:
    """Yield the plans of a revision, or of the working tree, by path from the current folder, and
    the files at the paths ``also``, which were plans on the other side; the documents stay until
    the end."""
    if revision is None:
        top = revisions.top()[0]
        yield _read(top, Path(), "", revisions.presets(top), paths, also)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        with files.copied_to(folder):
            tree = revisions.laid_out(revision, folder)
            said = f"{revisions.short(revision)}:"
            found = _read(folder, tree.current, said, tree.presets, paths, also)
        yield found


def _read(
    top: Path,
    current: Path,
    said: str,
    presets: Path | None,
    paths: Sequence[Path],
    also: Collection[str],
) -> dict[str, Reading]:
    """Read every plan of a tree below its current folder, or below some paths there."""
    there = [path for path in (current / path for path in paths or (Path(),)) if path.exists()]
    names = [
        os.path.relpath(file, current)
        for file, outright in files.found(there, references.ENDINGS)
        if outright or references.meant_as_plan(file)
    ]
    names += [name for name in also if files.is_file(current / name)]
    return {name: _reading(current / name, said, top, presets) for name in dict.fromkeys(names)}


def _reading(file: Path, said: str, top: Path, presets: Path | None) -> Reading:
    tell(str(file))
    plan, faults, text = None, tuple[Fault, ...](), ""
    with files.noted() as opened:
        try:
            plan = checked(loading.load(file, presets=presets))
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
    return Reading(documents, text, plan, faults)


def _renamed(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> dict[str, str]:
    """Detect renamed plans: match added and removed files by similarity; map new paths to old."""
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    pairs = []
    for path in sorted(new):
        for was in sorted(gone):
            one, other = before[was].text, after[path].text
            alike = 1.0 if one == other else _alike(one.splitlines(), other.splitlines())
            if alike >= ALIKE:
                pairs.append((-alike, path, was))
    found: dict[str, str] = {}
    for _, path, was in sorted(pairs):
        if path not in found and was not in found.values():
            found[path] = was
    return found


def _alike(one: list[str], other: list[str]) -> float:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() if matcher.real_quick_ratio() >= ALIKE else 0.0


def _changed(
    path: str,
    was: str,
    before: Mapping[str, Reading],
    after: Mapping[str, Reading],
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
    found = between(*sides, before_it, after_it)
    if moved:  # the same document under another name
        said = {**found.sides[0], "plan": {**found.sides[0]["plan"], "document": path}}
        found = replace(found, sides=(said, found.sides[1]))
    kind = "renamed" if moved else "changed"
    return PlanChange(path, kind, moved, documents, found, missed=missed)


# formats -----------------------------------------------------------------------------------


def counts(found: Sequence[PlanChange]) -> str:
    """Count plans by change: ``3 plans: 1 changed, 2 as before``."""
    kinds = [one.kind for one in found]
    said = [f"{kinds.count(kind)} {words}" for kind, words in WORDS.items() if kind in kinds]
    return f"{counted(len(found), 'plan')}: {', '.join(said)}"


def because(one: PlanChange) -> str:
    """List the former path of a plan and its changed documents, unless the plan alone changed."""
    said = [f"before: {one.was}"] if one.was else []
    others = [name for name in one.documents if Path(name).name != Path(one.path).name]
    if others and one.kind != "removed":
        left = [f"{len(one.documents) - MOST_NAMED} more"] * (len(one.documents) > MOST_NAMED)
        said.append(f"documents that changed: {', '.join([*one.documents[:MOST_NAMED], *left])}")
    return "; ".join(said)


def shown(found: Sequence[PlanChange]) -> list[PlanChange]:
    return [one for one in found if one.kind != "same"]


def text(found: Sequence[PlanChange], everything: bool = False) -> str:
    """Format for a terminal: a block per changed plan, and the counts."""
    blocks = []
    for one in shown(found):
        lines = [one.path, *filter(None, [because(one)])]
        said = [*map(str, one.faults)] or [one.sentence]
        lines += map(str, one.missed)
        if one.diff is not None:
            said = writing.text(one.diff, everything).splitlines()
        blocks.append([*lines, *(f"  {line}".rstrip() for line in said)])
    blocks.append([counts(found)])
    return "\n\n".join("\n".join(map(one_line, block)) for block in blocks) + "\n"


def markdown(found: Sequence[PlanChange], everything: bool = False) -> str:
    """Format for a comment on a pull request: the counts, then each changed plan; if there are
    many, a sentence each with the rest in a fold."""
    lines, several = [f"{escaped(counts(found))}.", ""], len(shown(found)) > FEW
    for one in shown(found):
        name = code(one_line(clean(one.path)))
        body = _section(one, everything)
        if several:
            lines += [f"#### {name}", "", escaped(one.sentence), ""]
            lines += ["<details><summary>more</summary>", "", *body, "</details>", ""]
        else:
            lines += [f"### {name}", "", *body]
    return "\n".join(lines).rstrip() + "\n"


def _section(one: PlanChange, everything: bool) -> list[str]:
    why = [f"{escaped(because(one))}.", ""] if because(one) else []
    why += [line for fault in one.missed for line in (f"**{escaped(str(fault))}.**", "")]
    if one.diff is not None:
        return [*why, *writing.markdown(one.diff, everything).splitlines(), ""]
    words = "\n".join(map(str, one.faults)) if one.faults else one.summary
    if not words:
        return [*why, escaped(one.sentence), ""]
    # Output as it is; no line of it ends the fence.
    return [*why, "```text", *words.replace("```", "'''").splitlines(), "```", ""]


def json_text(found: Sequence[PlanChange]) -> str:
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
                    "diff": writing.data(one.diff) if one.diff is not None else None,
                    "faults": list(map(str, one.faults)),
                    "missed": list(map(str, one.missed)),
                }
                for one in found
            ]
        }
    )
