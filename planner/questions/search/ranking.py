"""Write the result of a search as sentences and tables, plain data and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from planner.base import numbers
from planner.base.display import escape_cell, plain
from planner.base.numbers import exact_text
from planner.book.quantity import BOOK
from planner.plans.document import Plan
from planner.plans.error_bands import load_order
from planner.plans.layout import COLUMNS as ROWS
from planner.plans.layout import KERNELS, KEYS, ROW, format_option, label_layout
from planner.questions.constraints import Limit
from planner.questions.search.engine import (
    HEADROOM,
    MEMORY,
    STEP,
    Layout,
    SearchResult,
    describe_subset,
)
from planner.questions.search.modes import RECOMPUTE
from planner.questions.search.selection import SPARE
from planner.results.verdict import FITS

#: Heading and key of each column of a layout.
COLUMNS = tuple((row.heading, row.key) for row in ROWS if row.key in (*KEYS, KERNELS))


def format_percent(share: float) -> str:
    """Format a share that was chosen or rounded: 2 %, not 2.0 %."""
    return numbers.trim_zeros(numbers.text(share, style="share"))


#: Number of values of a choice that are listed.
LISTED = 6
#: Number of the best that are simulated.
SIMULATED = 5
SPARED = format_percent(SPARE)
#: A part of the minimised quantity, and how much it grew.
Difference = tuple[str, Any]
#: Smallest differences of parts to report, as a share of the whole; gains, of the loss.
TOLD = Fraction(1, 10**6)
OUTWEIGHS = Fraction(1, 2)


def choose_columns(found: SearchResult) -> tuple[tuple[str, str], ...]:
    """Return the columns of a layout, and one for each further key that was varied."""
    further = (key for key in found.varied if key not in dict(COLUMNS).values())
    return (*COLUMNS, *((key.split(".")[-1].replace("_", " "), key) for key in further))


def describe_count(found: SearchResult) -> str:
    """Describe how many layouts there are, and how many of them fit."""
    said = f"{describe_scope(found)}, {exact_text(found.fitting)} fit into memory"
    if found.limits:
        said += " and keep " + " and ".join(map(str, found.limits))
    if found.margin is not None and found.margin.quantity != HEADROOM:
        said += f" ({describe_margin(found.margin)})"
    return f"{said}; those listed are tight: they fit only as predicted" if found.tight else said


def describe_margin(margin: Limit) -> str:
    """Describe the safety margin with which a layout fits."""
    if margin.quantity == MEMORY:
        return f"with a margin: {margin}"
    return "at the 95th percentile of published measurements"


def describe_simplest(found: SearchResult) -> str:
    """Describe the simplest layout; empty if it is the best."""
    if found.plain is None or found.plain.changes == found.best[0].changes:
        return ""
    plain, least = (layout.values[found.by] for layout in (found.plain, found.best[0]))
    behind = numbers.text(max(0.0, float(plain / least) - 1), style="share")
    return (
        f"The simplest layout is the one to run, and parallelism: auto takes it: of all layouts "
        f"within {SPARED} of the best that somebody is known to have run it has the fewest kinds "
        "of parallelism, a common schedule, the smallest degrees, the fewest virtual stages and "
        f"the lowest ZeRO stage, in this order ({behind} slower)."
    )


def describe_scope(found: SearchResult) -> str:
    """Describe how many layouts an answer is about, and which if not all."""
    started = f" that {found.launcher} can start" if found.launcher else ""
    if not found.narrowed:
        return f"{exact_text(found.size)} layouts{started}"
    several = f"{exact_text(found.size)} of {exact_text(found.every)} layouts{started}"
    return f"{several} ({describe_subset(found.narrowed)}; all are too many to search)"


def label_layouts(found: SearchResult, front: bool = False) -> list[tuple[str, Layout]]:
    """Label the best layouts or the front by number, after the simplest and before the plan's
    own."""
    listed = found.front if front else found.best
    numbered = [(str(number), layout) for number, layout in enumerate(listed, start=1)]
    if not front and found.plain is not None and describe_simplest(found):
        rest = [pair for pair in numbered if pair[1].changes != found.plain.changes]
        numbered = [("simplest", found.plain), *rest]
    if (own := found.own) is not None:
        is_own = [
            _read_choices(layout, found) == _read_choices(own, found) for _, layout in numbered
        ]
        numbered = [(f"own, {label}" if one else label, layout)
                    for (label, layout), one in zip(numbered, is_own, strict=True)]  # fmt: skip
        numbered += [] if any(is_own) else [("own", own)]
    return numbered


def build_ranking(
    found: SearchResult, front: bool = False
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Build the table of the labelled layouts.

    Args:
        found: the result of a search.
        front: whether to list the Pareto front instead of the best.

    Returns:
        The heading with a row for each layout, and the main loss of each row against the best; both
            have an entry for the heading.
    """
    listed = found.front if front else found.best
    named = label_layouts(found, front)
    said = [column for column in choose_columns(found) if _is_shown(found, listed, column[1])]
    by, between = found.plan.book.quantities[found.by], any(layout.interval for layout in listed)
    headings, title = [heading for heading, _ in said], by.title.split(" (")[0]
    #: Simulated steps of the first few and of labelled layouts, by label.
    few = named if found.by == STEP else []
    runs = {label: layout.simulated for n, (label, layout) in enumerate(few)
            if n < SIMULATED or not label.isdigit()}  # fmt: skip
    shows = any(runs.values())
    further = [*(["5 to 95 %"] if between else []), *(["simulated"] if shows else []), "memory"]
    rows = [("", *headings, title, *further)]
    reasons = [""]
    for label, layout in named:
        cells = [label, *(format_choice(layout.get(key)) for _, key in said)]
        cells.append(by.text(layout.values[found.by]))
        if between:
            cells.append(" to ".join(by.text(bound) for bound in layout.interval or ()))
        if shows:
            seconds = runs.get(label)
            cells.append("" if seconds is None else by.text(seconds))
        rows.append((*cells, numbers.text(layout.values[MEMORY], "bytes")))
        reasons.append(describe_loss(layout, listed[0], found.by))
    return rows, reasons


def _read_choices(layout: Layout, found: SearchResult) -> dict[str, Any]:
    """Return the choices of a layout; a mode that was skipped is replaced by its equivalent."""
    chosen = {key: layout.get(key) for key in (*KEYS, KERNELS)}
    return {**chosen, RECOMPUTE: found.same.get(chosen[RECOMPUTE], chosen[RECOMPUTE])}


def describe_modes(found: SearchResult) -> str:
    """Describe which recomputation modes are left out because another makes the same step."""
    return " ".join(
        f"Recomputation {mode} is not listed: here it takes as long as {by} and saves no memory."
        for mode, by in found.same.items()
    )


def leeway(found: SearchResult) -> str:
    """Describe the 90 % interval of the best layout, how sure the order is, and which layouts are
    not told apart; empty if its value has no interval."""
    between = found.best[0].interval if found.best else None
    if between is None:
        return ""
    declared = found.plan.book.quantities[found.by]
    low, high = map(declared.text, between)
    said = f"90 % interval of the best: {low} to {high}."
    return f"{said} {describe_order(found)}" if declared.scales_with else said


def describe_order(found: SearchResult) -> str:
    """Describe how often published pairs of layouts ran in the predicted order, and how many of the
    best are not told apart."""
    *near, (_, far) = [
        (format_percent(at), format_percent(right)) for at, right in load_order().distances
    ]
    shares = ", ".join(f"{right} of those up to {apart} apart" for apart, right in near)
    said = (
        "The error is mostly shared. Published pairs of layouts ran in the predicted order (mean "
        f"over sources): {shares}, {far} of the others."
    )
    alike = count_alike(found)
    more = f" The first {alike} are at most {SPARED} apart: which is the fastest is not known."
    return said + more if alike > 1 else said


def count_alike(found: SearchResult) -> int:
    """Count the best layouts that are too close to the first to be told apart."""
    values = [float(layout.values[found.by]) for layout in found.best]
    return sum(value <= values[0] + SPARE * abs(values[0]) for value in values)


def simulation(found: SearchResult) -> str:
    """Describe the difference between the closed form of the best few and their simulated steps,
    and whether the order changes; empty if none is simulated."""
    few = found.best[:SIMULATED] if found.by == STEP else ()
    runs = [(layout.simulated, float(layout.values[STEP])) for layout in few]
    both = [(run, closed) for run, closed in runs if run]
    if not both:
        return ""
    most = max(abs(closed / run - 1) for run, closed in both)
    first = min(range(len(both)), key=lambda place: both[place][0])
    stays = "the first stays first" if not first else f"number {first + 1} would be first"
    return (
        f"Simulated as events, {stays} of {len(both)}; the time that layouts are ranked by differs "
        f"by {numbers.text(most, style='share')} at most."
    )


def describe_loss(layout: Layout, best: Layout, by: str) -> str:
    """Describe the largest loss of a layout against a better one, and a gain that offsets much of
    it.

    Args:
        layout: the layout to describe.
        best: the better layout.
        by: the minimised quantity, whose parts are compared.

    Returns:
        Both changes with the titles of their parts; empty if the layout loses nothing or was not
            evaluated exactly.
    """
    most, least = _find_differences(layout, best, by)
    unit = BOOK.quantities[by].unit if by in BOOK.quantities else ""
    said = f"+{numbers.text(most[1], unit)} {name_part(most[0])}" if most else ""
    return said + (f", −{numbers.text(-least[1], unit)} {name_part(least[0])}" if least else "")


def _find_differences(
    layout: Layout, best: Layout, by: str
) -> tuple[Difference | None, Difference | None]:
    """Compare the parts of the minimised quantity of two layouts.

    Args:
        layout: the layout to describe.
        best: a better layout.
        by: the minimised quantity.

    Returns:
        The part that grew most and the part that shrank most, each with its change; None where the
            change is negligible.
    """
    if not layout.parts or layout is best:
        return None, None
    names = dict.fromkeys((*layout.parts, *best.parts))
    more = [(name, layout.parts.get(name, 0) - best.parts.get(name, 0)) for name in names]
    most, least = (choose(more, key=lambda pair: pair[1]) for choose in (max, min))
    if most[1] <= abs(layout.values[by]) * TOLD:
        return None, None
    return most, least if -least[1] >= most[1] * OUTWEIGHS else None


def name_part(part: str) -> str:
    """Return the title of a part of the minimised quantity."""
    return BOOK.quantities[part].title if part in BOOK.quantities else part


def compare_choices(found: SearchResult, reasons: bool = True) -> list[tuple[str, str, str]]:
    """For each choice, return its heading, the best value, and the other values with how much
    slower the best layout with each is, cheapest first; the first of them with its reason."""
    headings = {key: heading for heading, key in choose_columns(found)}
    known = {repr(layout.changes): layout for layout in found.best if layout.evaluated}
    rows = []
    for key, several in groupby(found.choices, key=lambda choice: choice.key):
        choices = list(several)
        first, fitting = choices[0], [choice for choice in choices if choice.layout is not None]
        if first.layout is None:
            continue
        said = []
        for number, choice in enumerate(fitting[1:LISTED]):
            assert choice.layout is not None
            least, more = (one.approximate[found.by] for one in (first.layout, choice.layout))
            ratio = more / least if least > 0 else 1.0
            slower = numbers.text(ratio - 1, style="change") if ratio > 1 else "same"
            if ratio >= 2:
                slower = f"× {numbers.text(ratio, style='table', digits=2)}"
            told = reasons and not number and ratio > 1
            why = _explain_loss(choice.layout, found, known) if told else ""
            said.append(f"{format_choice(choice.value)}: {slower}{why}")
        if len(fitting) > LISTED:
            said.append(f"{len(fitting) - LISTED} more")
        if len(fitting) < len(choices):
            none = ", ".join(format_choice(choice.value) for choice in choices[len(fitting) :])
            said.append(f"fits with nothing: {none}")
        rows.append((headings[key], format_choice(first.value), "; ".join(said)))
    order = list(headings.values())
    return sorted(rows, key=lambda row: order.index(row[0]))


def _explain_loss(layout: Layout, found: SearchResult, known: dict[str, Layout]) -> str:
    """Return, in brackets, the parts in which a layout loses most against the best and gains most.

    Args:
        layout: the layout to explain.
        found: the result of the search.
        known: evaluated layouts by their changes; the layout is added.
    """
    if repr(layout.changes) not in known:
        by = found.by  # floats suffice: only the name of the largest part is printed
        known[repr(layout.changes)] = layout.evaluate(found.plan, (by,), by, exact=False)
    most, least = _find_differences(known[repr(layout.changes)], found.best[0], found.by)
    less = f", less {name_part(least[0])}" if least else ""
    return f" ({name_part(most[0])}{less})" if most else ""


def describe_closest(found: SearchResult) -> str:
    """Describe the layout that is nearest to fitting."""
    if found.nearest is None:
        return ""
    room = found.nearest.values[FITS]
    said = name_layout(found.nearest)
    if room >= 0:
        return f"The layout with most room breaks a limit: {said}.\n"
    return f"The nearest lacks {numbers.text(-room, 'bytes')}: {said}.\n"


def name_layout(layout: Layout | Plan, kernels: bool = True) -> str:
    """Describe a layout in a few words: what is not neutral, and the kernels."""
    return label_layout(layout.get, (*KEYS, *([KERNELS] if kernels else [])))


def _is_shown(found: SearchResult, listed: Sequence[Layout], key: str) -> bool:
    """Decide whether a column is shown: layouts differ in it, or all share a value worth stating.
    Kernels are shown only if they differ.

    Args:
        found: the result of a search, whose plan's own layout counts too.
        listed: the layouts of the table.
        key: the key of the column.
    """
    layouts = (*listed, *([found.own] if found.own else []))
    values = [layout.get(key) for layout in layouts]
    if len(set(map(format_choice, values))) > 1 or key not in ROW:
        return True
    value, row = values[0], ROW[key]
    always = row.stated and isinstance(value, str)  # a mode, not a size
    return value is not None and key != KERNELS and (always or value != row.neutral)


def format_choice(value: Any) -> str:
    """Format a value; None is “default”."""
    return "default" if value is None else format_option(value)


def dump_search(found: SearchResult) -> dict[str, Any]:
    """Return plain data for JSON."""
    between = found.best[0].interval if found.best else None
    data: dict[str, Any] = {
        "by": found.by,
        "layouts": found.every,
        "searched": found.size,
        "narrowed": {key: list(values) for key, values in found.narrowed.items()},
        "fitting": found.fitting,
        "limits": [str(limit) for limit in found.limits],
        "best": [
            _dump_layout(layout, found.by == STEP and place < SIMULATED)
            for place, layout in enumerate(found.best)
        ],
        "interval": between and [float(bound) for bound in between],
        "front": [_dump_layout(layout) for layout in found.front],
        "own": None if found.own is None else _dump_layout(found.own),
        "same": {RECOMPUTE: dict(found.same)} if found.same else {},
        "margin": None if found.margin is None else str(found.margin),
        "tight": found.tight,
        "for": found.launcher,
        "plain": None if found.plain is None else _dump_layout(found.plain),
        "alike": count_alike(found),
    }
    if found.choices:
        data["choices"] = [
            {"key": key, "value": value, **({} if layout is None else _dump_layout(layout))}
            for key, value, layout in found.choices
        ]
    if found.nearest is not None:
        data["nearest"] = _dump_layout(found.nearest)
    return data


def _dump_layout(layout: Layout, simulated: bool = False) -> dict[str, Any]:
    """Return a layout with its interval, and on request its simulated step, as plain data."""
    data: dict[str, Any] = {
        "set": plain(layout.changes),
        "follows": plain(layout.follows),
        "quantities": plain(layout.values),
    }
    if layout.interval is not None:
        data["interval"] = [float(bound) for bound in layout.interval]
    if simulated and layout.simulated is not None:
        data["simulated"] = layout.simulated
    return {**data, "parts": plain(layout.parts)} if layout.parts else data


def encode_search(found: SearchResult, front: bool = False) -> str:
    """Return JSON text, which always has both the best and the front."""
    return json.dumps(dump_search(found), indent=2) + "\n"


def to_csv(found: SearchResult, front: bool = False) -> str:
    """Return CSV with one line for each of the best layouts, or of those on the front."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    listed = found.front if front else found.best
    keys = [key for _, key in choose_columns(found)]
    names = list(listed[0].values) if listed else []
    writer.writerow([*keys, *names])
    for layout in listed:
        numbers = plain(layout.values)
        row = [*(layout.get(key) for key in keys), *(numbers.get(name) for name in names)]
        writer.writerow([escape_cell(value) if isinstance(value, str) else value for value in row])
    return buffer.getvalue()


WRITERS: Mapping[str, Callable[[SearchResult, bool], str]] = {"json": encode_search, "csv": to_csv}
