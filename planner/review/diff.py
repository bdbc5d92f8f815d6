"""The differences between two plans or results, their causes and effects.

A side is a plan (YAML), a result (JSON), a report (Markdown or HTML: its plan, evaluated today), or
one of these in a git revision, ``main:plans/x.yaml``. Numbers that print the same are the same.
planner/review/writing.py formats them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import files, numbers
from planner.base.display import clean, format_flow
from planner.base.errors import Place, PlanError
from planner.base.numbers import plain_text
from planner.book.quantity import BOOK
from planner.questions import loading
from planner.questions.plan_questions import evaluate
from planner.report.layout import PHASES
from planner.review import reports, revisions

#: Causes of a change, in the order of print.
CAUSES = ("plan", "program", "presets", "prices")
#: Origins of an input stated for this plan, and of one from a preset.
_STATED = re.compile(r"--set|argument|quick|assumed: .*|[^:]+:\d+")
_PRESET = re.compile("preset (.+)")
#: Inputs that follow from a provider, an accelerator and a day.
_PRICES = ("cluster.price", "cluster.reserved_price")
_PRICED = ("cluster.provider", "cluster.accelerator.name")
#: A rest of a sum below this share is rounding.
ROUNDING = Fraction(1, 10**6)
STEP, PROCESS, WITH_ROLLOUT = "time.step_seconds", "memory.process", "rl.step_seconds"


@dataclass(frozen=True)
class ChangeRow:
    """One changed input or quantity.

    Attributes:
        id: dotted key of an input, id of a quantity.
        kind: verdict, input, quantity, answer or requirement.
        title: for people.
        unit: of both values.
        old: None where it is absent.
        new: None where it is absent.
        origins: of an input on either side.
    """

    id: str
    kind: str
    title: str
    unit: str
    old: Any
    new: Any
    origins: tuple[str, ...] = ("", "")

    def format_value(self, value: Any) -> str:
        """Format one of its values, counts exactly; values that print alike are the same."""
        if not is_number_value(value):
            return format_words(value)
        declared = BOOK.quantities.get(self.id.partition("[")[0])
        if declared is None or declared.unit != self.unit:
            return numbers.text(value, self.unit, full=True)
        return declared.text(value, full=True)

    def said_by(self, pattern: re.Pattern[str]) -> bool:
        """Decide whether an origin on either side matches a pattern."""
        return any(map(pattern.fullmatch, self.origins))


class Change(NamedTuple):
    """One change by somebody: an input, or all inputs of a preset in place of another."""

    key: str
    old: str
    new: str
    place: str


class Parts(NamedTuple):
    """A sum on either side, in its unit, and its parts by name."""

    unit: str
    of: str
    totals: tuple[Fraction, Fraction]
    parts: dict[str, tuple[Fraction, Fraction]]


@dataclass(frozen=True)
class Diff:
    """The differences between two results, and the results as JSON data."""

    old: str
    new: str
    rows: tuple[ChangeRow, ...]
    sides: tuple[Mapping[str, Any], ...] = field(default=({}, {}), repr=False)

    def of(self, kind: str) -> list[ChangeRow]:
        """Return the rows of one kind."""
        return [row for row in self.rows if row.kind == kind]

    @cached_property
    def moved(self) -> dict[str, ChangeRow]:
        """The changed quantities, by id."""
        return {row.id: row for row in self.of("quantity")}

    @cached_property
    def states(self) -> tuple[str, str]:
        """The verdict of each side: fits, tight, no or open."""
        by_fit = {True: "fits", False: "no", None: "open"}
        said = (side.get("verdict") or {"fits": None} for side in self.sides)
        old, new = (verdict.get("state") or by_fit[verdict["fits"]] for verdict in said)
        return old, new

    @cached_property
    def versions(self) -> tuple[str, str]:
        """The program version of each side."""
        old, new = (clean(side.get("version") or "unknown", 40) for side in self.sides)
        return old, new

    @cached_property
    def one_plan(self) -> bool:
        """Whether both sides are one document, at two times; of what is none, of one name."""
        documents = ((side.get("plan") or {}).get("document") for side in self.sides)
        names = zip(documents, (self.old, self.new), strict=True)
        return len({Path(document or name).name for document, name in names}) == 1

    @cached_property
    def _kept(self) -> set[str]:
        """Parts of a plan (its model, its accelerator) with the same preset on both sides."""
        old, new = map(_list_presets, self.sides)
        return {part for part in old if old[part] & new.get(part, set())}

    @cached_property
    def causes(self) -> dict[str, list[ChangeRow]]:
        """The causes, of ``CAUSES``, each with its inputs. Derived inputs are attributed to the
        program if no other input changed."""
        found: dict[str, list[ChangeRow]] = {cause: [] for cause in CAUSES}
        follow, inputs = [], self.of("input")
        priced = {row.id for row in inputs}.intersection(_PRICED)
        for row in inputs:
            if row.said_by(_STATED):
                found["plan"].append(row)
            elif row.said_by(_PRESET):
                found["presets" if _find_part(row.id) in self._kept else "plan"].append(row)
            elif row.id in _PRICES and not priced:
                found["prices"].append(row)
            else:
                follow.append(row)
        if not any(found.values()):
            found["program"] = follow
        another = self.versions[0] != self.versions[1]
        alone = bool(self.rows) and not any(found.values())
        return {
            cause: rows
            for cause, rows in found.items()
            if rows or (cause == "program" and (another or alone))
        }

    @cached_property
    def changes(self) -> list[Change]:
        """The changes for a reviewer: keys with their places; for another preset, its name and the
        number of keys that differ."""
        found: list[Change] = []
        swapped: dict[str, int] = {}
        for rows in self.causes.values():
            for row in rows:
                part = _find_part(row.id)
                if row.said_by(_PRESET) and not row.said_by(_STATED) and part not in self._kept:
                    swapped[part] = swapped.get(part, 0) + 1
                else:
                    old, new = (_format_as_plan(row.id, value) for value in (row.old, row.new))
                    place = next((origin for origin in reversed(row.origins) if origin), "")
                    found.append(Change(clean(row.id), old, new, clean(place)))
        found.sort(key=lambda one: one.key.split(".")[-1] == "name")
        presets = []
        for part, count in swapped.items():
            named = (", ".join(sorted(_list_presets(side).get(part, ()))) for side in self.sides)
            old, new = (names or "the plan's own" for names in named)
            presets.append(Change(part, old, new, format_count(count, "input")))
        another = self.versions[0] != self.versions[1]
        return [*([Change("program", *self.versions, "")] if another else []), *presets, *found]

    @cached_property
    def first_moved(self) -> list[ChangeRow]:
        """The changed quantities none of whose inputs changed: the direct effects of inputs, or of
        the program. Empty if a side does not list the inputs of its quantities."""
        after = self.sides[1].get("quantities", {})
        told = {i: after[i].get("uses") for i in self.moved if i in after}
        if any(uses is None for uses in told.values()):
            return []
        return [self.moved[i] for i, uses in told.items() if not self.moved.keys() & set(uses)]

    @cached_property
    def parts(self) -> list[Parts]:
        """The time of a step and the memory of the fullest device by part, if they changed."""
        found = []
        phased = all(WITH_ROLLOUT in side["quantities"] for side in self.sides)
        for identifier, unit, parted in (
            (WITH_ROLLOUT, "s", _read_phases) if phased else (STEP, "s", _read_step_parts),
            (PROCESS, "bytes", _read_memory),
        ):
            old, new = (_get_number(side, identifier) for side in self.sides)
            if identifier in self.moved and old is not None and new is not None:
                before, after = (parted(side) for side in self.sides)
                apart = _pair_parts(before, after, (old, new)) if before and after else {}
                found.append(Parts(unit, identifier, (old, new), apart))
        return found


def diff_plans(old: str, new: str) -> Diff:
    """Compare two plans or results.

    Args:
        old: a plan document, a report, a result in JSON, or ``REVISION:PATH`` of one.
        new: the same.

    Raises:
        PlanError: a side cannot be read or is no valid plan.
    """
    return diff_results(old, new, _load_side(old), _load_side(new))


def diff_results(
    old: str, new: str, before: Any, after: Any, precision: float | None = None
) -> Diff:
    """Compare two results.

    Args:
        old: what the first is called.
        new: what the second is called.
        before: the first, as ``Result.to_json`` gives it, with verdicts and inputs.
        after: the second.
        precision: relative change below which a number is unchanged, 0.01 for 1 %.
    """
    rows = compare_results(before, after, everything=True, precision=precision)
    return Diff(old, new, tuple(rows), (before, after))


def compare_results(
    old: Any, new: Any, everything: bool = False, precision: float | None = None
) -> list[ChangeRow]:
    """Return rows for the quantities that differ between two results in JSON form.

    Args:
        everything: also the verdict and the inputs.
        precision: share up to which values are the same; by default those that print the same are.
    """
    rows = []
    if everything:
        fits = [side["verdict"]["fits"] for side in (old, new)]
        if fits[0] != fits[1]:
            rows.append(ChangeRow("verdict", "verdict", "fits", "", *fits))
        for key in dict.fromkeys((*old["inputs"], *new["inputs"])):
            said = [side["inputs"].get(key) or {} for side in (old, new)]
            a, b = (one.get("value") for one in said)
            if a != b and "sources" not in key.split("."):
                origins = tuple(one.get("origin", "") for one in said)
                rows.append(ChangeRow(key, "input", key, "", a, b, origins))
    before, after = old["quantities"], new["quantities"]
    for identifier in dict.fromkeys((*before, *after)):
        a, b = before.get(identifier), after.get(identifier)
        about = b or a
        values = a and a["value"], b and b["value"]
        # Entries of an axis share their title.
        entry = identifier.partition("[")[2].removesuffix("]")
        title = f"{about['title']}: {entry}" if entry else about["title"]
        row = ChangeRow(identifier, "quantity", title, about["unit"], *values)
        if not _is_same(row, precision):
            rows.append(row)
    return [*rows, *_diff_answers(old, new, precision)]


def _diff_answers(old: Any, new: Any, precision: float | None) -> Iterator[ChangeRow]:
    """Yield the answers to questions, and the requirements, that differ."""
    sides = [{str(a["asked"]): a for a in side.get("answers", ())} for side in (old, new)]
    for key in dict.fromkeys((*sides[0], *sides[1])):
        both = [side.get(key) for side in sides]
        about = both[1] or both[0]
        assert about is not None
        values = [answer and (answer.get("holds") or {}).get("value") for answer in both]
        if values == [None, None]:
            values = [answer and answer["sentence"] for answer in both]
        unit = about.get("unit", "") if any(map(is_number_value, values)) else ""
        row = ChangeRow(about["name"], "answer", about["name"], unit, values[0], values[1])
        if not _is_same(row, precision):
            yield row
    required = [
        {one["requirement"]: one["holds"] for one in side.get("requirements", ())}
        for side in (old, new)
    ]
    for text in dict.fromkeys((*required[0], *required[1])):
        before, after = (side.get(text) for side in required)
        if before != after:
            yield ChangeRow(text, "requirement", text, "", before, after)


def _is_same(row: ChangeRow, precision: float | None) -> bool:
    """Decide whether both values of a row print alike, or differ by less than the precision, a
    share of the larger one."""
    if precision is None or not (is_number_value(row.old) and is_number_value(row.new)):
        return row.format_value(row.old) == row.format_value(row.new)
    a, b = Fraction(row.old), Fraction(row.new)  # an integer may be too large for a float
    return abs(a - b) <= Fraction(precision) * max(abs(a), abs(b))


def is_number_value(value: Any) -> bool:
    """Decide whether a value is a number, not a boolean."""
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


def _get_number(side: Any, identifier: str) -> Fraction | None:
    """Return the value of a quantity of a side; None if it is absent or a name."""
    value: Any = (side["quantities"].get(identifier) or {}).get("value")
    return Fraction(value) if is_number_value(value) else None


def _read_step_parts(side: Any) -> dict[str, Fraction]:
    """Return the seconds of a step by part; empty if its time is assumed."""
    return {clean(name, 38): Fraction(s) for name, s in side.get("step_parts", {}).items()}


def _read_phases(side: Any) -> dict[str, Fraction]:
    """Return the seconds of each phase of reinforcement learning; less what runs beside others."""
    numbers = {label: _get_number(side, name) for label, name in PHASES}
    whole, *parts = ((label, number) for label, number in numbers.items() if number)
    beside = whole[1] - sum((number for _, number in parts), Fraction(0))
    return {**dict(parts), "at the same time": beside} if beside < 0 else dict(parts)


def _read_memory(side: Any) -> dict[str, Fraction]:
    """Return the bytes of the fullest device: live tensors by kind, the allocator, and the
    runtime."""
    total = side["quantities"].get("memory.total") or {}
    kinds = [i for i in total.get("uses", ()) if i.startswith("memory.")]
    found = {i: _get_number(side, i) for i in (*kinds, "memory.allocator")}
    process, reserved = _get_number(side, PROCESS), _get_number(side, "memory.reserved")
    if not kinds or None in (*found.values(), process, reserved):
        return {}
    found["memory.runtime"] = process - reserved  # type: ignore[operator]
    return {i.removeprefix("memory."): size for i, size in found.items() if size is not None}


def _pair_parts(
    before: dict[str, Fraction], after: dict[str, Fraction], totals: tuple[Fraction, Fraction]
) -> dict[str, tuple[Fraction, Fraction]]:
    """Pair the parts of two sums, with the rest of the sums."""
    none = Fraction(0)
    both = {name: (before.get(name, none), after.get(name, none)) for name in {**before, **after}}
    rest = totals[0] - sum(before.values()), totals[1] - sum(after.values())
    left = any(abs(part) > ROUNDING * abs(of) for part, of in zip(rest, totals, strict=True))
    return {**both, "the rest": rest} if left else both


def _find_part(key: str) -> str:
    """Return the part of a plan with a key: its model, its cluster or the accelerator there."""
    head, *rest = key.split(".")
    return f"{head}.accelerator" if rest[:1] == ["accelerator"] else head


def _list_presets(side: Any) -> dict[str, set[str]]:
    """Return the presets of the inputs, by part of the plan."""
    found: dict[str, set[str]] = {}
    for key, said in side.get("inputs", {}).items():
        preset = _PRESET.fullmatch(said.get("origin", ""))
        if preset is not None:
            found.setdefault(_find_part(key), set()).add(clean(preset[1], 60))
    return found


def _load_side(side: str) -> Any:
    """Load a side as a result in JSON form; for a git revision, with all documents of that
    revision."""
    revision, colon, path = side.partition(":")
    if not colon or Path(side).exists() or (len(revision) == 1 and path[:1] in "\\/"):
        return _read_result(side, side)
    with tempfile.TemporaryDirectory() as folder, files.use_copy(folder):
        return _read_result(side, *revisions.copy_file(revision, path, Path(folder)))


def _read_result(name: str, file: str | Path, presets: Path | None = None) -> Any:
    """Read a side as data.

    Args:
        name: as the user gave it, for faults.
        file: a result in JSON, a report or a plan, by its ending.
        presets: folder of built-in documents, if it is not the program's own.

    Raises:
        PlanError: the file has no result, or its plan is not valid.
    """
    ending = Path(file).suffix
    if ending in (".md", ".html"):
        claim = reports.read_claim(Path(file)) if files.is_file(Path(file)) else None
        if claim is None:
            raise reports.make_error(name)
        here = Path() if name == file else Path(file).parent  # of a revision nothing else is taken
        return reports.evaluate_claim(Path(file), claim, here, presets).to_json()
    if ending != ".json":
        return evaluate(loading.load(file, presets=presets)).to_json()
    place, wanted = Place(name), "a result written with -o"
    data = files.parse_json(files.read_text(file, files.MAX_JSON, place, wanted), place, wanted)
    if not reports.is_result(data):
        raise PlanError("this is not a result", place, wanted)
    return data


def _format_as_plan(key: str, value: Any) -> str:
    """Format an input as a plan does: counts as 15T if that is exact."""
    if is_number_value(value) and not key.startswith(("cluster.", "memory.")):
        for suffix, size in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
            if value >= size and (Fraction(value) * 1000 / size).denominator == 1:
                return f"{plain_text(Fraction(value) / size)}{suffix}"
    if isinstance(value, (list, tuple)):
        return clean(format_flow(value))
    return numbers.text(value, "1", "exact") if is_number_value(value) else format_words(value)


def format_words(value: Any) -> str:
    """Format a value that is no number."""
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "–"}[value]
    return clean(value)


def format_count(count: int, what: str) -> str:
    """Format a count with its noun: ``1 row``, ``2 rows``."""
    return f"{count} {what}" + ("s" if count != 1 else "")


def format_change(row: ChangeRow) -> str:
    """Format the change in per cent; ``new`` from zero or nothing, ``gone`` if absent now."""
    a, b = row.old, row.new
    if b is None:
        return "gone"
    if a is None or (is_number_value(a) and a == 0 and is_number_value(b)):
        return "new"
    if not (is_number_value(a) and is_number_value(b)):
        return ""
    return numbers.text((Fraction(b) - Fraction(a)) / abs(Fraction(a)), style="change")
