"""A search for a terminal, as a page, and in the other formats that a file's ending selects: the
best layout in a sentence, the others by their differences, the cost of each choice, the Pareto
front, and a scatter plot.

The plot shows a sample of the space by objective and memory, and the best close by, with the
capacity of a device, the front and the plan's own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from planner.base import numbers
from planner.base.display import clean, columns
from planner.base.numbers import GIB, choose_unit, exact_text
from planner.base.sandbox import Record
from planner.questions.search import ranking
from planner.questions.search.engine import HEADROOM, MEMORY, STEP, Layout, Point, SearchResult
from planner.report import chart
from planner.report.elements import Label, Plot, Table
from planner.report.report import render_md, render_page
from planner.report.sentences import Parts, build_interval, format_part, join_parts, wrap_text
from planner.results.result import Result
from planner.results.verdict import FITS, UNFIT, VERDICTS

#: The word for the best layout by objective.
BEST = {STEP: "Fastest", "cost.total": "Cheapest"}
#: Quantities shown with the best layout, if it has them.
BESIDE = ("time.training_days", "cost.total")
#: The label of the best layout, also where that is the plan's own.
OWN_FIRST = "own, 1"
FIRST = ("1", OWN_FIRST)
#: The largest axes of a plot, as multiples of the best objective and of a device's memory.
BEYOND, ABOVE = 10, 1.5
#: The multiple of the best objective up to which a narrow plot includes a marked layout.
FAR = 2
#: How high a plane in a narrow column is.
TALL = 440
#: The multiple of the best objective up to which the simplest and own layouts are drawn.
NEAR = 1.25
STATES = (("front", "Pareto front"), ("some", VERDICTS["fits"].says[0]), ("over", UNFIT))


class SearchView(Record):
    """What templates show of a search.

    Attributes:
        sentence: the number of layouts.
        name, word: its title, and a word where no layout fits.
        lead: the best layout, in parts.
        facts: sentences in parts.
        simplest, leeway, closest: sentences on the simplest layout, on what published runs leave
            open, and on the nearest layout where none fits.
        title: the objective.
        best, front: the best layouts, and the Pareto front.
        costs: each choice with its best value and what others cost.
        in_front, choosing: what the front and the choices are.
        plots: all layouts, and the best close by.
    """

    sentence: str
    name: str = ""
    word: str = ""
    lead: Sequence[tuple[str, str]] = ()
    facts: Sequence[Parts] = ()
    simplest: str = ""
    leeway: str = ""
    closest: str = ""
    title: str = ""
    best: Ranking | None = None
    front: Ranking | None = None
    costs: Sequence[tuple[str, str, str]] = ()
    in_front: str = ""
    choosing: str = ""
    plots: Sequence[Plot] = ()


def build_search_view(found: SearchResult) -> SearchView:
    """Return what the templates show of a search."""
    title = found.plan.book.quantities[found.by].title  # of the objective
    layout = found.best[0] if found.best else found.nearest
    capacity = layout.values[HEADROOM] + layout.values[MEMORY] if layout else 0  # bytes of a device
    return SearchView(
        name=f"Layouts of {clean(found.plan.name or 'a plan')}",
        word="" if found.best else "No layout fits",
        lead=describe_best(found),
        facts=compare_layouts(found),
        sentence=ranking.describe_count(found),
        simplest=ranking.describe_simplest(found),
        leeway=" ".join(filter(None, (ranking.simulation(found), ranking.leeway(found)))),
        closest="" if found.best else ranking.describe_closest(found).strip(),
        title=title,
        best=_build_ranking(found, front=False),
        front=_build_ranking(found, front=True),
        costs=ranking.compare_choices(found),
        in_front=f"The Pareto front of memory and {title}: each layout needs less memory than all "
        "before it.",
        choosing=f"The best value of each setting, and how much worse ({title}) the best layout "
        "with another value is. In brackets: where the nearest of these loses most, and what "
        f"it saves if that makes up for half. {ranking.describe_modes(found)}".rstrip(),
        plots=_build_plots(found, float(capacity / GIB)),
    )


def describe_best(found: SearchResult) -> Parts:
    """Describe the best layout in a sentence; if none fits, the nearest one."""
    counted = exact_text(found.fitting)
    if not found.best:
        return [("No layout fits.", "b"), (f" {ranking.describe_closest(found).strip()}", "")]
    best, quantity = found.best[0], found.plan.book.quantities[found.by]
    named = BEST.get(found.by, f"Least {quantity.title.split(' (')[0]}")
    of = "of those that fit tightly" if found.tight else f"of {counted} that fit"
    parts = [(f"{named} {of}: ", ""), (ranking.name_layout(best, kernels=False), ""), (", ", "")]
    text = quantity.text(best.values[found.by])
    parts.append((f"{text} a step" if found.by == STEP else text, "b"))
    if best.interval is not None:
        parts.append((f" ({numbers.between(map(quantity.text, best.interval), text)})", "small"))
    if best.evaluated is not None and best.made is not None:  # exactly, as a plan of its own
        result = Result(best.made, best.evaluated[0])
        for name in BESIDE if found.by == STEP else ():
            if (one := result.get(name)) is not None:
                parts += [(", ", ""), *build_interval(one)]
        memory, capacity = result.get(MEMORY), result.get("memory.capacity")
        if memory is not None and capacity is not None and found.by != MEMORY:
            parts.append((f", {format_part(memory, capacity)}", ""))
    return [*parts, (".", "")]


def compare_layouts(found: SearchResult) -> list[Parts]:
    """Compare the simplest and the plan's own layout with the best; count the layouts."""
    said: list[Parts] = []
    if found.best:
        listed = ranking.label_layouts(found)
        for label, layout in listed:
            if label.isdigit() or label in FIRST:
                continue
            what = {
                "simplest": "Simplest within " + ranking.SPARED,
                "own, simplest": f"The plan's own, the simplest within {ranking.SPARED}",
            }
            head = what.get(label, "The plan's own")
            amount = found.plan.book.quantities[found.by].text(layout.values[found.by])
            differs = list_differences(layout, found)
            where = "" if label.startswith("own") or not differs else f" ({differs})"
            said.append([(f"{head}{where}: ", ""), (amount, "b"),
                         (f", {_format_loss(layout, found)} on the best", "")])  # fmt: skip
            if why := explain_misfit(found) if label.startswith("own") else "":
                said[-1].append((f"; {why}", ""))
        if any(label == OWN_FIRST for label, _ in listed):
            said.append([("The plan's own layout is the best.", "")])
    if found.plan.invalid:
        said.append([(f"The plan's own layout is not valid: {found.plan.invalid}.", "")])
    said.append([(ranking.describe_count(found), "")])
    return said


def _name_objective(found: SearchResult) -> str:
    """Return the objective as the head of a column."""
    return "step" if found.by == STEP else found.by


def _format_loss(layout: Layout, found: SearchResult) -> str:
    """Format the loss of a layout against the best."""
    ratio = float(layout.values[found.by] / found.best[0].values[found.by]) - 1
    return numbers.text(ratio, style="change")


def list_differences(layout: Layout, found: SearchResult) -> str:
    """List the choices in which a layout differs from the best."""
    pairs = [(heading, layout.get(key), found.best[0].get(key))
             for heading, key in ranking.choose_columns(found)]  # fmt: skip
    return ", ".join(
        f"{heading} {ranking.format_choice(mine)}"
        for heading, mine, best in pairs
        if ranking.format_choice(mine) != ranking.format_choice(best)
    )


def explain_misfit(found: SearchResult) -> str:
    """Explain that the plan's own layout does not fit, or not safely; empty if it fits."""
    if found.own is None or found.margin is None:
        return ""
    if found.own.values[FITS] < 0:
        return f"it {UNFIT} into memory"
    if not found.margin.is_met(found.own.values[found.margin.quantity]):
        return f"it is tight: it {UNFIT} {ranking.describe_margin(found.margin)}"
    return ""


class RankedLayout(Record):
    """A row of a ranking.

    Attributes:
        label: its place in the ranking, or what else it is.
        answers: its results, each with the head of its column.
        behind: its loss against the best.
        choices: its values of settings, each with whether the best has another one.
        differs: the differences from the best.
        why: what it loses most by.
        best: whether it is the best.
    """

    label: str
    answers: list[tuple[str, str]]
    behind: str
    choices: list[tuple[str, bool]]
    differs: str
    why: str
    best: bool


class Ranking(Table):
    """Layouts as they are ranked: all columns as words and numbers, and the same as rows.

    Attributes:
        body: the rows by results, choices and differences.
        answers, choices: heads of the columns of results and of settings.
    """

    body: Sequence[RankedLayout] = ()
    answers: Sequence[str] = ()
    choices: Sequence[str] = ()


def _build_ranking(found: SearchResult, front: bool) -> Ranking | None:
    """Return the best layouts, or the front, as a table; None if there are none."""
    if not found.best:
        return None
    rows, reasons = ranking.build_ranking(found, front)
    lost = any(reasons)
    by = found.plan.book.quantities[found.by].title.split(" (")[0]
    head = list(rows[0])
    answers = [head.index(by), *([head.index("simulated")] if "simulated" in head else []),
               head.index("memory")]  # fmt: skip
    choices = range(1, head.index(by))
    listed = ranking.label_layouts(found, front)
    body, said = [], _name_objective(found)
    first = next(row for row in rows[1:] if row[0] in FIRST)
    for row, (label, layout), why in zip(rows[1:], listed, reasons[1:], strict=True):
        body.append(
            RankedLayout(
                label=label,
                answers=[(row[i], said if head[i] == by else head[i]) for i in answers],
                behind=_format_loss(layout, found),
                choices=[(row[i], row[i] != first[i]) for i in choices],
                differs=list_differences(layout, found),
                why=why,
                best=label in FIRST,
            )
        )
    shown_head = [said if head[i] == by else head[i] for i in answers]
    # As words and numbers, for Markdown and for reports: all columns as they are ranked.
    joined = [(*row, *([why] if lost else [])) for row, why in zip(rows, reasons, strict=True)]
    plain_head = [said if cell == by else cell for cell in head] + (
        ["loses most by"] if lost else [])  # fmt: skip
    named = [head[i] for i in choices]
    return Ranking("", plain_head, joined[1:], body=body, answers=shown_head, choices=named)


def _build_plots(found: SearchResult, capacity: float) -> list[Plot]:
    """Return two plots: a sample of all layouts, and the best close by; none if memory is the
    objective.

    Args:
        found: the search, whose sampled points are drawn.
        capacity: memory of a device, GiB; 0 if unknown.

    Returns:
        The plots; the first has the caption of both, and the legend of the marks in use.
    """
    if found.by == MEMORY or not found.points:
        return []
    points = [((p.score, p.memory / GIB), p) for p in found.points if p.score > 0]
    least = min((at[0] for at, p in points if p.fits), default=min(at[0] for at, _ in points))
    top = max(ABOVE * capacity, 1.2 * min(at[1] for at, _ in points))
    kept = [(at, p) for at, p in points if at[0] <= BEYOND * least and at[1] <= top]
    kept = kept or points
    named = [(label.removeprefix("own, "), x) for label, x in ranking.label_layouts(found)]
    best = [(label, x) for label, x in named if label.isdigit()][:10]
    further = [(label, x) for label, x in named if label == "simplest"]
    own = None if found.own is None else _place_layout(found.own, found.by)
    unit = found.plan.book.quantities[found.by].unit
    names = f"{_name_objective(found)}, {unit}", "GiB of a device"
    close = None
    if best:
        most = NEAR * float(found.best[0].values[found.by])
        drawn = best + [(label, x) for label, x in further if float(x.values[found.by]) <= most]
        around = [_place_layout(layout, found.by) for _, layout in drawn]
        if own and own[0] <= most:
            around.append(own)
        close = chart.Plane(around, names)
    ends = [at for at, _ in kept] + ([(kept[0][0][0], capacity)] if capacity else [])
    whole = chart.Plane(ends, names)
    first = _build_plot(found, whole, "All layouts, a sample", kept, capacity, own, [])
    said = []
    if beyond := len(points) - len(kept):
        said.append(
            f"{beyond} of {len(points)} sampled layouts lie beyond the axes: over {BEYOND} times "
            f"the best or {chart.tick(top)} GiB."
        )
    parts, window = list[Plot](), ""
    if close is not None:
        corners = (close.x_low, close.y_low), (close.x_high, close.y_high)
        (left, low), (right, high) = (whole.at(whole.clamp_point(corner)) for corner in corners)
        window = f"M{left:g} {low:g}H{right:g}V{high:g}H{left:g}Z"
        title = "The layouts of the table, close by"
        parts.append(_build_plot(found, close, title, kept, capacity, own, drawn))
        said.append("The dotted box is what is drawn beside it; numbers as in the table.")
    if own:
        inside = close is not None and close.is_inside(own)
        said.append("The ring is the plan's own layout" + (
            "." if inside or whole.is_inside(own) else f", beyond the axes at {chart.tick(own[0])} "
            f"{unit} and {chart.tick(own[1])} GiB."))  # fmt: skip
    present = {p.front * "front" or ("some" if p.fits else "over") for _, p in kept}
    states = [state for state in STATES if state[0] in present]
    return [replace(first, window=window, said=" ".join(said), states=states), *parts]


def columns_of(
    found: SearchResult, layouts: Sequence[Layout]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Format the objective and the memory of some layouts as columns.

    Args:
        found: the search, whose objective is read.
        layouts: the layouts.

    Returns:
        The heads (the unit of the objective, GiB), and the cells of each layout; GiB alone if
        memory is the objective.
    """
    memory = [numbers.text(layout.values[MEMORY] / GIB, style="table") for layout in layouts]
    if found.by == MEMORY:
        return ["GiB"], [(text,) for text in memory]
    values = [Fraction(layout.values[found.by]) for layout in layouts]
    unit, size = choose_unit(max(values), found.plan.book.quantities[found.by].unit)
    # One digit more than is significant, to tell layouts apart.
    texts = [numbers.text(value / size, style="table", digits=4) for value in values]
    return [unit, "GiB"], [*zip(texts, memory, strict=True)]


def close(
    found: SearchResult, others: Mapping[str, Layout], listed: Sequence[Layout]
) -> Plot | None:
    """Build one plot for a narrow column: layouts near the best, each of which can be chosen.

    Args:
        found: the search.
        others: layouts to mark, by label.
        listed: the layouts to draw as points; a point has the index of its layout.

    Returns:
        The plot; None if memory is the objective or nothing fits.
    """
    if found.by == MEMORY or not found.best:
        return None
    best, unit = found.best[0], found.plan.book.quantities[found.by].unit
    capacity = float((best.values[HEADROOM] + best.values[MEMORY]) / GIB)
    least = float(best.values[found.by])
    places = [_place_layout(layout, found.by) for layout in listed]
    marked = {name: _place_layout(layout, found.by) for name, layout in others.items()}
    inside = [at for at in places if at[0] <= NEAR * least]
    inside += [at for at in marked.values() if at[0] <= FAR * least]
    names = f"{_name_objective(found)}, {unit}", "GiB of a device"
    plane = chart.Plane([*inside, (places[0][0], capacity)], names, height=TALL)
    front = [(_place_layout(one, found.by), Point(0, 0, True, True)) for one in found.front]
    part = _build_plot(found, plane, "", front, capacity, None, [])
    fronts = {at for at, _ in front}
    dots = []
    for number, (at, layout) in enumerate(zip(places, listed, strict=True)):
        if plane.is_inside(at):
            look, name = "on" if at in fronts else "off", ranking.name_layout(layout)
            text = f"{chart.tick(at[0])} {unit}, {chart.tick(at[1])} GiB: {name}"
            dots.append((Label(*plane.at(at), text, look), number))
    dots.sort(key=lambda dot: (dot[0].x, dot[0].y))
    there = {name: at for name, at in marked.items() if plane.is_inside(at)}
    plane.keep_free(there.values(), 9)
    labels = plane.place_labels([(at, name) for name, at in there.items()], far=True)
    rings, cut = [plane.at(at) for at in there.values()], len(listed) - len(dots)
    said = [f"{cut} lie beyond {chart.tick(plane.x_high)} {unit}."] if cut else []
    for name, at in marked.items():
        if name not in there:
            where = f"{chart.tick(at[0])} {unit} and {chart.tick(at[1])} GiB"
            said.append(f"{name[:1].upper()}{name[1:]} lies beyond the axes, at {where}.")
    return replace(part, dots=dots, rings=rings, best=labels, said=" ".join(said))


def _place_layout(layout: Layout, by: str) -> chart.Point:
    """Return the coordinates of a layout: the objective, and GiB of a device."""
    return float(layout.values[by]), float(layout.values[MEMORY] / GIB)


def _build_plot(
    found: SearchResult,
    plane: chart.Plane,
    title: str,
    points: list[tuple[chart.Point, Any]],
    capacity: float,
    own: chart.Point | None,
    drawn: list[tuple[str, Layout]],
) -> Plot:
    """Build one plot: sample, front in steps, capacity and the best layouts.

    Args:
        found: the search.
        plane: the axes: the objective to the right, GiB of a device upwards.
        title: what is written above it.
        points: points of the search, each after its place on the axes.
        capacity: of a device, GiB; 0 if unknown.
        own: the place of the plan's own layout; None without one.
        drawn: the layouts to label, with their labels.
    """
    looks: dict[str, list[chart.Point]] = {"over": [], "some": []}
    for at, point in points:
        if not point.front:
            looks["some" if point.fits else "over"].append(at)
    front = sorted(at for at, point in points if point.front)
    lines = []
    if capacity and plane.y_low <= capacity <= plane.y_high:
        lines.append(("capacity", plane.y(capacity), f"capacity {chart.tick(capacity)} GiB", True))
    best = [(label, _place_layout(layout, found.by)) for label, layout in drawn]
    inside = [at for at in front if plane.is_inside(at)]
    plane.keep_free([at for _, at in best])
    return Plot(
        plane.axes,
        title=title,
        lines=lines,
        marks={look: plane.dots(several) for look, several in looks.items() if several},
        line=plane.draw_line(inside, steps=True),
        rings=[plane.at(own)] if own and plane.is_inside(own) else [],
        ends=[
            Label(*plane.at(at), f"{label}: {chart.tick(at[0])}, {chart.tick(at[1])} GiB")
            for label, at in best
        ],
        best=plane.place_labels([(at, label) for label, at in best], far=True),
    )


def format_search(found: SearchResult, front: bool = False) -> str:
    """Format the search for a terminal: the best layout in a sentence, the others by their
    differences, or the Pareto front; then the cost of each choice.

    Args:
        found: the search.
        front: whether to list the Pareto front in place of the best layouts.

    Returns:
        The text, which ends with a line break.
    """
    out = wrap_text(join_parts(describe_best(found)))
    for fact in compare_layouts(found):
        out += wrap_text(join_parts(fact), "  ", "    ")
    if not found.best:
        return "\n".join(out) + "\n"
    declared, rows = found.plan.book.quantities[found.by], [["", _name_objective(found), "", "GiB"]]
    differing = ["differences from the first" if not front else "differences from the best"]
    for label, layout in ranking.label_layouts(found, front):
        amount = declared.text(layout.values[found.by])
        behind = "" if label in FIRST and not front else _format_loss(layout, found)
        rows.append(
            [label, amount, behind, numbers.text(layout.values[MEMORY] / GIB, style="table")]
        )
        differing.append(list_differences(layout, found))
    if front:
        out += ["", "The front: each needs less memory than all before it."]
    out.append("")
    for line, differs in zip(columns(rows, right=(0, 1, 2, 3)), differing, strict=True):
        out += wrap_text(differs, f"{line}  ", " " * (len(line) + 2)) or [line]
    if not front and (choices := ranking.compare_choices(found, reasons=False)):
        out += ["", "Best value of each setting, and how much worse the best with another one is:"]
        heads = columns([(choice, best) for choice, best, _ in choices], right=(1,), indent="  ")
        wide = max(map(len, heads)) + 2
        for head, (_, _, others) in zip(heads, choices, strict=True):
            out += wrap_text(others, head.ljust(wide), " " * wide) or [head]
    remarks = (ranking.describe_simplest(found), ranking.describe_modes(found))
    for said in (*remarks, ranking.simulation(found), ranking.leeway(found)):
        out += ["", *wrap_text(said)] if said else []
    return "\n".join(out) + "\n"


#: Pages show both the best layouts and the front.
WRITERS: Mapping[str, Callable[[SearchResult, bool], str]] = {
    "text": format_search,
    "txt": format_search,
    **ranking.WRITERS,
    "md": lambda found, _: render_md("search.md.jinja", view=build_search_view(found)),
    "html": lambda found, _: render_page("search.html.jinja", view=build_search_view(found)),
}
#: Formats that draw the space.
DRAWN = frozenset({"html"})
#: The formats by ending.
SUFFIXES = {".txt": "text", **{f".{kind}": kind for kind in WRITERS}}
