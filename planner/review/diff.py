"""What changed between two plans or results, quantity by quantity.

A side is a plan (YAML), a result (JSON), or a file of a git revision, ``main:plans/x.yaml``. The
verdict comes first; numbers that print the same are the same.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner.base import files, resources
from planner.base.display import format_value, one_line, significant
from planner.base.errors import Fault, Place, PlanError
from planner.documents.json_schema import accepts
from planner.questions import loading
from planner.report.numbers import clean
from planner.report.report import code, escaped
from planner.results.result import evaluate
from planner.review import revisions

#: What a comment on a pull request shows above the fold.
KEY_FIGURES = (
    "parameters.total",
    "parameters.active",
    "compute.training_flops",
    "memory.process",
    "memory.headroom",
    "time.step_seconds",
    "time.tokens_per_second",
    "time.mfu",
    "time.training_days",
    "cost.total",
    "energy.total",
)
#: A line that reviewers do not see, by which a comment is found again and updated in place.
MARKER = "<!-- trainplan diff -->"


@dataclass(frozen=True)
class Row:
    """One input or quantity that changed; None on the side where it is absent."""

    id: str
    kind: str  # verdict | input | quantity
    title: str
    unit: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Diff:
    """All that changed between two results."""

    old: str
    new: str
    rows: tuple[Row, ...]

    def of(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row.kind == kind]


def diff(old: str, new: str) -> Diff:
    """What changed from one plan or result to another.

    Args:
        old: a plan document, a result in JSON, or ``REVISION:PATH`` of either.
        new: the same.

    Raises:
        PlanError: a side cannot be read or is no valid plan.
    """
    return Diff(old, new, tuple(compare(_load(old), _load(new), everything=True)))


def compare(
    old: Any, new: Any, everything: bool = False, precision: float | None = None
) -> list[Row]:
    """Rows of the quantities that differ between two results in JSON form.

    ``everything`` adds the verdict and the inputs. Values are the same where they print the same,
    or, with ``precision``, where they differ by no more than that share.
    """
    rows = []
    if everything:
        fits = [side["verdict"]["fits"] for side in (old, new)]
        if fits[0] != fits[1]:
            rows.append(Row("verdict", "verdict", "fits", "", *fits))
        for key in dict.fromkeys((*old["inputs"], *new["inputs"])):
            a, b = ((side["inputs"].get(key) or {}).get("value") for side in (old, new))
            if a != b and "sources" not in key.split("."):
                rows.append(Row(key, "input", key, "", a, b))
    before, after = old["quantities"], new["quantities"]
    for identifier in dict.fromkeys((*before, *after)):
        a, b = before.get(identifier), after.get(identifier)
        about = b or a
        values = a and a["value"], b and b["value"]
        if not _same(*values, about["unit"], precision):
            # Entries of an axis share their title.
            entry = identifier.partition("[")[2].removesuffix("]")
            title = f"{about['title']}: {entry}" if entry else about["title"]
            rows.append(Row(identifier, "quantity", title, about["unit"], *values))
    return rows


def _same(old: Any, new: Any, unit: str, precision: float | None) -> bool:
    if precision is None or not (_is_number(old) and _is_number(new)):
        return printed(old, unit) == printed(new, unit)
    a, b = Fraction(old), Fraction(new)  # an integer may be too large for a float
    return abs(a - b) <= Fraction(precision) * max(abs(a), abs(b))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# reading a side ----------------------------------------------------------------------------


def _load(side: str) -> Any:
    """A side as a result in JSON form; one of a git revision with all documents of that revision,
    as a plan names others."""
    revision, colon, path = side.partition(":")
    if not colon or Path(side).exists() or (len(revision) == 1 and path[:1] in "\\/"):
        return _read(side, side)
    with tempfile.TemporaryDirectory() as folder, files.copied_to(folder):
        return _read(side, *revisions.copied(revision, path, Path(folder)))


def _read(name: str, file: str | Path, presets: Path | None = None) -> Any:
    if Path(file).suffix != ".json":
        return evaluate(loading.load(file, presets=presets)).to_json()
    place, wanted = Place(name), "a result written with -o"
    data = files.parse_json(files.read_text(file, files.MAX_JSON, place, wanted), place, wanted)
    if not is_result(data):
        raise PlanError(Fault("this is no result", place, wanted))
    return data


def is_result(data: Any, report: bool = False) -> bool:
    """Whether everything is there that a comparison reads, of any version of the program; of a
    ``report``, what it says of how it was made too."""
    said = resources.read_yaml(Path(__file__).with_name("results.yaml"))
    if not accepts(said["result"], data) or (report and not accepts(said["report"], data)):
        return False
    values = (one["value"] for key in ("quantities", "inputs") for one in data[key].values())
    return all(math.isfinite(value) for value in values if isinstance(value, float))


# as text -----------------------------------------------------------------------------------


def printed(value: Any, unit: str) -> str:
    """A value as it is shown; two that print the same are the same."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return {True: "yes", False: "no"}[value]
    if isinstance(value, (int, float)):
        if unit == "h" and value >= 1:  # device hours stay hours
            return f"{significant(Fraction(value), 3)} h"
        return format_value(Fraction(value), unit).replace("-", "−")
    return clean(value)


def change(row: Row) -> str:
    """The change in percent; ``new`` against zero or nothing, ``gone`` where nothing is left."""
    a, b = row.old, row.new
    if b is None:
        return "gone"
    numbers = _is_number(a) and _is_number(b)
    if a is None or (numbers and a == 0):
        return "new"
    if not numbers:
        return ""
    percent = (Fraction(b) - Fraction(a)) / abs(Fraction(a)) * 100
    return f"{'+' if percent > 0 else '−'}{significant(abs(percent), 2)} %"


def line(row: Row) -> str:
    """``id: old → new (percent)``."""
    how = change(row)
    old, new = printed(row.old, row.unit), printed(row.new, row.unit)
    if old == new:
        old, new = str(row.old), str(row.new)
    return f"{row.id}: {old} → {new}" + (f" ({how})" if how else "")


def sentence(found: Diff) -> str:
    """The verdict: does it still fit, and what time and money do."""
    for row in found.of("verdict"):
        said = {True: "fits", False: "does not fit", None: "has no verdict"}
        return f"{said[row.old]} before, {said[row.new]} now"
    if not found.rows:
        return "nothing changed"
    moved = {row.id: row for row in found.of("quantity")}
    wanted = [
        moved[i] for i in ("time.training_days", "cost.total", "memory.process") if i in moved
    ]
    if wanted:
        return "; ".join(
            f"{row.title} {printed(row.old, row.unit)} → {printed(row.new, row.unit)} "
            f"({change(row)})"
            for row in wanted
        )
    return f"{len(found.of('quantity'))} quantities and {len(found.of('input'))} inputs changed"


def text(found: Diff) -> str:
    """For a terminal: the verdict, the inputs that changed, the quantities that moved."""
    lines = [one_line(f"{found.old} → {found.new}"), sentence(found)]
    for heading, kind in (("Inputs", "input"), ("Quantities", "quantity")):
        rows = found.of(kind)
        if rows:
            lines += ["", heading, *(f"  {line(row)}" for row in rows)]
    return "\n".join(lines) + "\n"


def markdown(found: Diff) -> str:
    """For a comment: the marker, the verdict, the key figures, the rest folded."""
    title = sentence(found)
    moved = found.of("quantity")
    by_id = {row.id: row for row in moved}
    key = [by_id[identifier] for identifier in KEY_FIGURES if identifier in by_id]
    lines = [
        MARKER,
        f"**{escaped(title[:1].upper() + title[1:])}**",
        "",
        f"{code(one_line(found.old))} → {code(one_line(found.new))}",
        "",
    ]
    lines += _table(key, "quantity") + _table(found.of("input"), "input")
    rest = [row for row in moved if row not in key]
    if rest:
        lines += [
            f"<details><summary>{len(rest)} more quantities</summary>",
            "",
            *_table(rest, "quantity"),
            "</details>",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _table(rows: Sequence[Row], heading: str) -> list[str]:
    if not rows:
        return []
    lines = [f"| {heading} | old | new | change |", "|---|--:|--:|--:|"]
    for row in rows:
        cells = (printed(row.old, row.unit), printed(row.new, row.unit), change(row))
        name = code(one_line(row.id)) if row.kind == "input" else escaped(row.title)
        lines.append(f"| {name} | " + " | ".join(map(escaped, cells)) + " |")
    return [*lines, ""]
