"""What a search found, in words and tables, as plain data, as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from planner.base.display import cell, exact_text, plain
from planner.book.quantity import BOOK
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS as ROWS
from planner.plans.layout import KERNELS, KEYS, ROW, described
from planner.questions.constraints import Limit, shown
from planner.questions.search.engine import FITS, MEMORY, STEP, Found, Layout, only
from planner.questions.search.modes import RECOMPUTE
from planner.questions.search.selection import SPARE

#: Heading and key of each column of a layout.
COLUMNS = tuple((row.heading, row.key) for row in ROWS if row.key in (*KEYS, KERNELS))
#: So many values of a choice are told.
LISTED = 6
#: So many of the best are simulated.
SIMULATED = 5
SAME = "+0.0 %"
#: A part of what is made small, and how much more of it there is.
Difference = tuple[str, Any]
#: Differences of parts that are told, as a share of the whole; and gains, as a share of the loss.
TOLD = Fraction(1, 10**6)
OUTWEIGHS = Fraction(1, 2)


def columns(found: Found) -> tuple[tuple[str, str], ...]:
    """The columns of a layout, with one for each further key that was varied."""
    further = (key for key in found.varied if key not in dict(COLUMNS).values())
    return (*COLUMNS, *((key.split(".")[-1].replace("_", " "), key) for key in further))


def counted(found: Found) -> str:
    """How many layouts there are, and how many of them fit."""
    said = f"{of_how_many(found)}, {exact_text(found.fitting)} fit into memory"
    if found.limits:
        said += " and keep " + " and ".join(map(str, found.limits))
    if found.margin is not None and found.margin.quantity != FITS:
        said += f" ({spared(found.margin)})"
    return f"{said}; those here are tight, they fit as estimated alone" if found.tight else said


def spared(margin: Limit) -> str:
    """With how much to spare a layout fits, in words."""
    if margin.quantity == MEMORY:
        return f"with a margin: {margin}"
    return "in the worst case: the 95th percentile of published readings"


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.2g} %"


def plainest(found: Found) -> str:
    """What the plainest layout is, in words; nothing where it is the best."""
    if found.plain is None or found.plain.changes == found.best[0].changes:
        return ""
    plain, least = (layout.values[found.by] for layout in (found.plain, found.best[0]))
    behind = percent(max(0.0, float(plain / least) - 1))
    return (
        f"The plainest is what to run, and what parallelism: auto takes: of all layouts within "
        f"{percent(SPARE)} of the first it has the fewest kinds of parallelism, a common schedule, "
        f"the fewest virtual stages, the smallest degrees and the lowest ZeRO stage, in this order "
        f"({behind} behind)."
    )


def of_how_many(found: Found) -> str:
    """Of how many layouts an answer speaks, and of which if not of all."""
    started = f" that {found.launcher} can start" if found.launcher else ""
    if not found.narrowed:
        return f"{exact_text(found.size)} layouts{started}"
    several = f"{exact_text(found.size)} of {exact_text(found.every)} layouts{started}"
    return f"{several} ({only(found.narrowed)}; all are too many to search)"


def labelled(found: Found, front: bool = False) -> list[tuple[str, Layout]]:
    """The best layouts by their numbers, or those of the front of memory, the plainest of those
    near the best before them and the plan's own last."""
    listed = found.front if front else found.best
    numbered = [(str(number), layout) for number, layout in enumerate(listed, start=1)]
    if not front and found.plain is not None and plainest(found):
        rest = [pair for pair in numbered if pair[1].changes != found.plain.changes]
        numbered = [("plainest", found.plain), *rest]
    if (own := found.own) is not None:
        is_own = [_choices(layout, found) == _choices(own, found) for _, layout in numbered]
        numbered = [(f"own, {label}" if one else label, layout)
                    for (label, layout), one in zip(numbered, is_own, strict=True)]  # fmt: skip
        numbered += [] if any(is_own) else [("own", own)]
    return numbered


def table(found: Found, front: bool = False) -> tuple[list[tuple[str, ...]], list[str]]:
    """The head and a row for each layout of ``labelled``, and for each row where the layout loses
    against the best."""
    listed = found.front if front else found.best
    named = labelled(found, front)
    said = [column for column in columns(found) if _differs(found, listed, column[1])]
    by, between = found.plan.book.quantities[found.by], any(layout.interval for layout in listed)
    headings, title = [heading for heading, _ in said], by.title.split(" (")[0]
    #: Of the first few and of those with a name of their own, by label.
    few = named if found.by == STEP else []
    runs = {label: layout.simulated for n, (label, layout) in enumerate(few)
            if n < SIMULATED or not label.isdigit()}  # fmt: skip
    shows = any(runs.values())
    further = [*(["5 to 95 %"] if between else []), *(["simulated"] if shows else []), "memory"]
    rows = [("", *headings, title, *further)]
    reasons = [""]
    for label, layout in named:
        cells = [label, *(word(layout.get(key)) for _, key in said)]
        cells.append(shown(layout.values[found.by], by.unit))
        if between:
            cells.append(" to ".join(shown(bound, by.unit) for bound in layout.interval or ()))
        if shows:
            seconds = runs.get(label)
            cells.append("" if seconds is None else shown(seconds, by.unit))
        rows.append((*cells, shown(layout.values[MEMORY], "bytes")))
        reasons.append(behind(layout, listed[0], found.by))
    return rows, reasons


def _choices(layout: Layout, found: Found) -> dict[str, Any]:
    """What a layout chooses; of modes of recomputation that are the same step, the one asked."""
    chosen = {key: layout.get(key) for key in (*KEYS, KERNELS)}
    return {**chosen, RECOMPUTE: found.same.get(chosen[RECOMPUTE], chosen[RECOMPUTE])}


def same(found: Found) -> str:
    """Which modes of recomputation are left out because another is the same step, in words."""
    return " ".join(
        f"Recomputation {mode} is left out: it is the same step here as {by}, and holds no less."
        for mode, by in found.same.items()
    )


def leeway(found: Found) -> str:
    """Between which values published runs leave what is made small of the best layout, in a
    sentence; empty where it rests on no prediction."""
    between = found.best[0].interval if found.best else None
    if between is None:
        return ""
    unit = found.plan.book.quantities[found.by].unit
    low, high = (shown(bound, unit) for bound in between)
    return (
        f"These are predictions: for the first, measured runs leave {low} to {high} open (5th to "
        "95th percentile). All share most of that error, so their order is surer than their times."
    )


def simulation(found: Found) -> str:
    """How far the closed form of the best few lies from their simulated steps, in a sentence, and
    whether another one would be first; nothing where none is simulated."""
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
        f"by {percent(most)} at most."
    )


def behind(layout: Layout, best: Layout, by: str) -> str:
    """Where a layout loses most against a better one, in words, and where it gains, if that makes
    up for much of it; nothing where it does not lose."""
    most, least = _told(layout, best, by)
    unit = BOOK.quantities[by].unit if by in BOOK.quantities else ""
    said = f"+{shown(most[1], unit)} {named(most[0])}" if most else ""
    return said + (f", −{shown(-least[1], unit)} {named(least[0])}" if least else "")


def _told(layout: Layout, best: Layout, by: str) -> tuple[Difference | None, Difference | None]:
    """The part of which a layout has most more than a better one, and the one of which it has most
    less; None where that is too little to tell."""
    if not layout.parts or layout is best:
        return None, None
    names = dict.fromkeys((*layout.parts, *best.parts))
    more = [(name, layout.parts.get(name, 0) - best.parts.get(name, 0)) for name in names]
    most, least = (choose(more, key=lambda pair: pair[1]) for choose in (max, min))
    if most[1] <= abs(layout.values[by]) * TOLD:
        return None, None
    return most, least if -least[1] >= most[1] * OUTWEIGHS else None


def named(part: str) -> str:
    """A part of what is made small, in words."""
    return BOOK.quantities[part].title if part in BOOK.quantities else part


def costs(found: Found, reasons: bool = True) -> list[tuple[str, str, str]]:
    """For each choice its heading, the best value, and the others, each by how far the best layout
    with it is behind, those that cost least first, the nearest with its reason."""
    headings = {key: heading for heading, key in columns(found)}
    known = {_key(layout): layout for layout in found.best if layout.evaluated}
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
            slower = f"× {ratio:.1f}" if ratio >= 2 else f"+{100 * (ratio - 1):.1f} %"
            told = reasons and not number and slower != SAME
            why = _lost(choice.layout, found, known) if told else ""
            said.append(f"{word(choice.value)}: {slower}{why}")
        if len(fitting) > LISTED:
            said.append(f"{len(fitting) - LISTED} more")
        if len(fitting) < len(choices):
            none = ", ".join(word(choice.value) for choice in choices[len(fitting) :])
            said.append(f"fits with nothing: {none}")
        rows.append((headings[key], word(first.value), "; ".join(said)))
    order = list(headings.values())
    return sorted(rows, key=lambda row: order.index(row[0]))


def _key(layout: Layout) -> str:
    return repr(layout.changes)


def _lost(layout: Layout, found: Found, known: dict[str, Layout]) -> str:
    """Where a layout loses most against the best, in brackets; ``known`` are the layouts that were
    evaluated, which it joins."""
    if _key(layout) not in known:
        by = found.by  # floats suffice: which part is largest is told, not its size
        known[_key(layout)] = layout.evaluate(found.plan, (by,), by, like=found.best, exact=False)
    most, least = _told(known[_key(layout)], found.best[0], found.by)
    less = f", less {named(least[0])}" if least else ""
    return f" ({named(most[0])}{less})" if most else ""


def closest(found: Found) -> str:
    """Of layouts that do not fit, the one that lacks least."""
    if found.nearest is None:
        return ""
    room = found.nearest.values[FITS]
    said = words(found.nearest)
    if room >= 0:
        return f"The layout with most room breaks a limit: {said}.\n"
    return f"The nearest lacks {shown(-room, 'bytes')}: {said}.\n"


def words(layout: Layout | Plan, kernels: bool = True) -> str:
    """A layout in a few words: what is not neutral, and whose kernels run."""
    return described(layout.get, (*KEYS, *([KERNELS] if kernels else [])))


def _differs(found: Found, listed: Sequence[Layout], key: str) -> bool:
    """Whether a column says something: layouts differ in it, or what all have does not go without
    saying, as kernels do."""
    layouts = (*listed, *([found.own] if found.own else []))
    values = [layout.get(key) for layout in layouts]
    if len(set(map(word, values))) > 1 or key not in ROW:
        return True
    value, row = values[0], ROW[key]
    always = row.stated and isinstance(value, str)  # a mode, not a size
    return value is not None and key != KERNELS and (always or value != row.neutral)


def word(value: Any) -> str:
    """A value in words; None is what follows where the plan says nothing."""
    if value is None:
        return "default"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def as_data(found: Found) -> dict[str, Any]:
    """Plain data for JSON."""
    between = found.best[0].interval if found.best else None
    data: dict[str, Any] = {
        "by": found.by,
        "layouts": found.every,
        "searched": found.size,
        "narrowed": {key: list(values) for key, values in found.narrowed.items()},
        "fitting": found.fitting,
        "limits": [str(limit) for limit in found.limits],
        "best": [
            _data(layout, found.by == STEP and place < SIMULATED)
            for place, layout in enumerate(found.best)
        ],
        "interval": between and [float(bound) for bound in between],
        "front": [_data(layout) for layout in found.front],
        "own": None if found.own is None else _data(found.own),
        "same": {RECOMPUTE: dict(found.same)} if found.same else {},
        "margin": None if found.margin is None else str(found.margin),
        "tight": found.tight,
        "for": found.launcher,
        "plain": None if found.plain is None else _data(found.plain),
    }
    if found.choices:
        data["choices"] = [
            {"key": key, "value": value, **({} if layout is None else _data(layout))}
            for key, value, layout in found.choices
        ]
    if found.nearest is not None:
        data["nearest"] = _data(found.nearest)
    return data


def _data(layout: Layout, simulated: bool = False) -> dict[str, Any]:
    """A layout, with the interval of what is made small; its simulated step, where it is asked."""
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


def to_json(found: Found, front: bool = False) -> str:
    """JSON text, which has best and front."""
    return json.dumps(as_data(found), indent=2) + "\n"


def to_csv(found: Found, front: bool = False) -> str:
    """One line for each of the best layouts, or of the front of memory."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    listed = found.front if front else found.best
    keys = [key for _, key in columns(found)]
    names = list(listed[0].values) if listed else []
    writer.writerow([*keys, *names])
    for layout in listed:
        numbers = plain(layout.values)
        row = [*(layout.get(key) for key in keys), *(numbers.get(name) for name in names)]
        writer.writerow([cell(value) if isinstance(value, str) else value for value in row])
    return buffer.getvalue()


WRITERS: Mapping[str, Callable[[Found, bool], str]] = {
    "json": to_json,
    "csv": to_csv,
}
