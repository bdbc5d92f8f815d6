"""A search in a terminal, as a page and in the other formats that its ending picks: the best layout
in a sentence, the others by what differs, what each choice costs, the front of memory, and where
all of them lie.

A sample of the space is drawn by what is made small and by memory, and the best close by, with the
capacity of a device, where what fits becomes tight, the front and the plan's own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from planner.base.display import columns, exact_text, significant
from planner.base.version import __version__
from planner.questions.search import ranking
from planner.questions.search.engine import FITS, MEMORY, STEP, Found, Layout, Point
from planner.questions.search.selection import SPARE
from planner.report import chart
from planner.report.numbers import GIB, Data, clean, scale
from planner.report.report import page, words
from planner.report.sentences import Parts, between, of_whole, plain, three, with_interval, wrapped
from planner.results.result import Result

#: What is made small is called best how.
BEST = {STEP: "Fastest", "cost.total": "Cheapest"}
#: What stands beside the best, where it has it: days and cost.
BESIDE = ("time.training_days", "cost.total")
WORST = "memory.at_worst"
#: The label of the best layout, also where that is the plan's own.
OWN_FIRST = "own, 1"
FIRST = ("1", OWN_FIRST)
#: So many times the best, and the memory of a device, a picture goes at most.
BEYOND, ABOVE = 10, 1.5
#: Up to so many times the best a layout that is marked lies inside a narrow picture.
FAR = 2
#: How high a plane in a narrow column is.
TALL = 440
#: The plain and the own layout are drawn beside the best, where they are no further behind.
NEAR = 1.25
STATES = (
    ("front", "front: no layout beats it in both"),
    ("some", "fits"),
    ("over", "does not fit"),
)


def view(found: Found) -> Data:
    """What the templates show of a search."""
    title = found.plan.book.quantities[found.by].title  # of what is made small
    layout = found.best[0] if found.best else found.nearest
    capacity = layout.values[FITS] + layout.values[MEMORY] if layout else 0  # bytes of a device
    picture = _picture(found, float(capacity / GIB))
    return Data(
        name=f"Layouts of {clean(found.plan.name or 'a plan')}",
        status="ok" if found.best else "bad",
        word="Layouts that fit" if found.best else "No layout fits",
        lead=lead(found),
        facts=facts(found),
        sentence=ranking.counted(found),
        plainest=ranking.plainest(found),
        leeway=" ".join(filter(None, (ranking.simulation(found), ranking.leeway(found)))),
        closest="" if found.best else ranking.closest(found).strip(),
        title=title,
        best=_table(found, front=False),
        front=_table(found, front=True),
        costs=ranking.costs(found),
        in_front=f"The Pareto front: nothing beats one of these both in memory and in {title}. "
        "Each needs less memory than all before it.",
        choosing=f"The best value of each choice, and how far behind ({title}) the best layout "
        "with another value is; in brackets what the nearest of these loses most in, and what "
        f"it has less of where that makes up for half. {ranking.same(found)}".rstrip(),
        picture=picture,
        caption="" if picture is None else picture.caption,
        version=__version__,
    )


def lead(found: Found) -> Parts:
    """The best layout in a sentence; where nothing fits that, and which comes nearest."""
    counted = exact_text(found.fitting)
    if not found.best:
        return [("No layout fits.", "b"), (f" {ranking.closest(found).strip()}", "")]
    best, quantity = found.best[0], found.plan.book.quantities[found.by]
    named = BEST.get(found.by, f"Least {quantity.title.split(' (')[0]}")
    of = "of those that only fit tightly" if found.tight else f"of {counted} that fit"
    parts = [(f"{named} {of}: ", ""), (ranking.words(best, kernels=False), ""), (", ", "")]
    text = three(best.values[found.by], quantity.unit)
    parts.append((f"{text} a step" if found.by == STEP else text, "b"))
    if best.interval is not None:
        parts.append((f" ({between(best.interval, quantity.unit, text)})", "small"))
    if (result := _result(best)) is not None:
        for name in BESIDE if found.by == STEP else ():
            if (one := result.get(name)) is not None:
                parts += [(", ", ""), *with_interval(one)]
        memory, capacity = result.get(MEMORY), result.get("memory.capacity")
        if memory is not None and capacity is not None and found.by != MEMORY:
            parts.append((f", {of_whole(memory, capacity)}", ""))
    return [*parts, (".", "")]


def _result(layout: Layout) -> Result | None:
    """A layout as a plan by itself; None where it is not evaluated exactly."""
    if layout.evaluated is None or layout.made is None:
        return None
    return Result(layout.made, layout.evaluated[0])


def facts(found: Found) -> list[Parts]:
    """The plainest and the plan's own layout held against the best, and how many there are."""
    said: list[Parts] = []
    if found.best:
        listed = ranking.labelled(found)
        for label, layout in listed:
            if label.isdigit() or label in FIRST:
                continue
            what = {
                "plainest": "Plainest within " + ranking.percent(SPARE),
                "own, plainest": f"The plan's own, the plainest within {ranking.percent(SPARE)}",
            }
            head = what.get(label, "The plan's own")
            amount = three(layout.values[found.by], found.plan.book.quantities[found.by].unit)
            differs = differences(layout, found)
            where = "" if label.startswith("own") or not differs else f" ({differs})"
            said.append([(f"{head}{where}: ", ""), (amount, "b"),
                         (f", {_behind(layout, found)} on the best", "")])  # fmt: skip
            if why := own_fits(found) if label.startswith("own") else "":
                said[-1].append((f"; {why}", ""))
        if any(label == OWN_FIRST for label, _ in listed):
            said.append([("The plan's own layout is the best.", "")])
    said.append([(ranking.counted(found), "")])
    return said


def _name(found: Found) -> str:
    """What is made small, as the head of a column."""
    return "step" if found.by == STEP else found.by


def _behind(layout: Layout, found: Found) -> str:
    """How far a layout is behind the best, in words."""
    ratio = float(layout.values[found.by] / found.best[0].values[found.by]) - 1
    return f"{'+' if ratio >= 0 else '−'}{abs(100 * ratio):.1f} %"


def differences(layout: Layout, found: Found) -> str:
    """What a layout chooses otherwise than the best, in words."""
    pairs = [(heading, layout.get(key), found.best[0].get(key))
             for heading, key in ranking.columns(found)]  # fmt: skip
    return ", ".join(
        f"{heading} {ranking.word(mine)}"
        for heading, mine, best in pairs
        if ranking.word(mine) != ranking.word(best)
    )


def own_fits(found: Found) -> str:
    """That the plan's own layout does not fit, or not for sure; nothing where it does."""
    if found.own is None or found.margin is None:
        return ""
    if found.own.values[FITS] < 0:
        return "it does not fit into memory"
    if not found.margin.holds(found.own.values[found.margin.quantity]):
        return f"it is tight: it does not fit {ranking.spared(found.margin)}"
    return ""


def _table(found: Found, front: bool) -> Data | None:
    """The best layouts, or the front; None where there are none. What answers comes first, then
    the choices: ``choices`` are their columns, ``differs`` says of each cell whether it is another
    than the best one's."""
    if not found.best:
        return None
    rows, reasons = ranking.table(found, front)
    lost = any(reasons)
    by = found.plan.book.quantities[found.by].title.split(" (")[0]
    head = list(rows[0])
    answers = [head.index(by), *([head.index("simulated")] if "simulated" in head else []),
               head.index("memory")]  # fmt: skip
    choices = range(1, head.index(by))
    listed = ranking.labelled(found, front)
    body, said = [], _name(found)
    first = next(row for row in rows[1:] if row[0] in FIRST)
    for row, (label, layout), why in zip(rows[1:], listed, reasons[1:], strict=True):
        body.append(
            Data(
                label=label,
                answers=[(row[i], said if head[i] == by else head[i]) for i in answers],
                behind=_behind(layout, found),
                choices=[(row[i], row[i] != first[i]) for i in choices],
                differs=differences(layout, found),
                why=why,
                best=label in FIRST,
            )
        )
    shown_head = [said if head[i] == by else head[i] for i in answers]
    # As words and numbers, for Markdown and for reports: all columns as they are ranked.
    joined = [(*row, *([why] if lost else [])) for row, why in zip(rows, reasons, strict=True)]
    plain_head = [said if cell == by else cell for cell in head] + (
        ["loses most by"] if lost else [])  # fmt: skip
    return Data(
        title="", head=plain_head, rows=joined[1:], note="", wraps=lost, body=body,
        answers=shown_head, choices=[head[i] for i in choices], lost=lost,
    )  # fmt: skip


def _picture(found: Found, capacity: float) -> Data | None:
    """Two planes: a sample of all layouts, and the best close by; None where memory itself is made
    small. ``capacity`` is of a device, GiB."""
    if found.by == MEMORY or not found.points:
        return None
    points = [((p.score, p.memory / GIB), p) for p in found.points if p.score > 0]
    least = min((at[0] for at, p in points if p.fits), default=min(at[0] for at, _ in points))
    top = max(ABOVE * capacity, 1.2 * min(at[1] for at, _ in points))
    kept = [(at, p) for at, p in points if at[0] <= BEYOND * least and at[1] <= top]
    kept = kept or points
    named = [(label.removeprefix("own, "), x) for label, x in ranking.labelled(found)]
    best = [(label, x) for label, x in named if label.isdigit()][:10]
    further = [(label, x) for label, x in named if label == "plainest"]
    own = None if found.own is None else _at(found.own, found.by)
    unit = found.plan.book.quantities[found.by].unit
    names = f"{_name(found)}, {unit}", "GiB of a device"
    close = None
    if best:
        most = NEAR * float(found.best[0].values[found.by])
        drawn = best + [(label, x) for label, x in further if float(x.values[found.by]) <= most]
        around = [_at(layout, found.by) for _, layout in drawn]
        if own and own[0] <= most:
            around.append(own)
        close = chart.Plane(around, names, (chart.tick, chart.tick))
    ends = [at for at, _ in kept] + ([(kept[0][0][0], capacity)] if capacity else [])
    whole = chart.Plane(ends, names, (chart.tick, chart.tick))
    parts = [_plane(found, whole, "All layouts, a sample", kept, capacity, own, [])]
    if close is not None:
        parts[0].window = _window(whole, close)
        title = "The layouts of the table, close by"
        parts.append(_plane(found, close, title, kept, capacity, own, drawn))
    said = (
        [
            f"{len(points) - len(kept)} of {len(points)} sampled layouts lie beyond the axes: "
            f"over {BEYOND} times the best or {top:.3g} GiB."
        ]
        if len(points) > len(kept)
        else []
    )
    if close is not None:
        said.append("The dotted box is what is drawn beside it; numbers as in the table.")
    if own:
        inside = close is not None and close.holds(own)
        said.append("The ring is the plan's own layout" + (
            "." if inside or whole.holds(own) else f", beyond the axes at {chart.tick(own[0])} "
            f"{unit} and {chart.tick(own[1])} GiB."))  # fmt: skip
        parts[0].rings = [whole.at(own)] if whole.holds(own) else []
    present = {p.front * "front" or ("some" if p.fits else "over") for _, p in kept}
    return Data(parts=parts, caption=" ".join(said), states=[s for s in STATES if s[0] in present])


def columns_of(found: Found, layouts: Sequence[Layout]) -> tuple[list[str], list[tuple[str, ...]]]:
    """What is made small and GiB of some layouts: the heads, and a row of each."""
    memory = [f"{float(layout.values[MEMORY] / GIB):.1f}" for layout in layouts]
    if found.by == MEMORY:
        return ["GiB"], [(text,) for text in memory]
    values = [Fraction(layout.values[found.by]) for layout in layouts]
    unit, size = scale(max(values), found.plan.book.quantities[found.by].unit)
    # One more digit than a prediction is known to, by which they differ.
    texts = [significant(value / size, 4) for value in values]
    return [unit, "GiB"], [*zip(texts, memory, strict=True)]


def close(found: Found, others: Mapping[str, Layout], listed: Sequence[Layout]) -> Data | None:
    """One plane for a narrow column: what is near the best, each layout in the order in which it is
    listed as a point that can be taken; None where memory itself is made small or nothing fits.

    Args:
        others: layouts that are marked, by what they are called.
    """
    if found.by == MEMORY or not found.best:
        return None
    best, unit = found.best[0], found.plan.book.quantities[found.by].unit
    capacity = float((best.values[FITS] + best.values[MEMORY]) / GIB)
    least = float(best.values[found.by])
    places = [_at(layout, found.by) for layout in listed]
    marked = {name: _at(layout, found.by) for name, layout in others.items()}
    inside = [at for at in places if at[0] <= NEAR * least]
    inside += [at for at in marked.values() if at[0] <= FAR * least]
    words = chart.tick, chart.tick
    names = f"{_name(found)}, {unit}", "GiB of a device"
    plane = chart.Plane([*inside, (places[0][0], capacity)], names, words, height=TALL)
    front = [(_at(one, found.by), Point(0, 0, True, True)) for one in found.front]
    part = _plane(found, plane, "", front, capacity, None, [])
    fronts = {at for at, _ in front}
    part.dots = [
        Data(x=x, y=y, r=5, take=number, look="on" if at in fronts else "off",
             text=f"{chart.tick(at[0])} {unit}, {chart.tick(at[1])} GiB: {ranking.words(layout)}")
        for number, (at, layout) in enumerate(zip(places, listed, strict=True))
        if plane.holds(at) for x, y in [plane.at(at)]
    ]  # fmt: skip
    part.dots.sort(key=lambda dot: (dot.x, dot.y))
    there = {name: at for name, at in marked.items() if plane.holds(at)}
    part.rings = [plane.at(at) for at in there.values()]
    plane.keep_free(there.values(), 9)
    part.labels = plane.labels([(at, name) for name, at in there.items()], far=True)
    cut = len(listed) - len(part.dots)
    said = [f"{cut} lie beyond {chart.tick(plane.x_high)} {unit}."] if cut else []
    for name, at in marked.items():
        if name not in there:
            where = f"{chart.tick(at[0])} {unit} and {chart.tick(at[1])} GiB"
            said.append(f"{name[:1].upper()}{name[1:]} lies beyond the axes, at {where}.")
    part.said = " ".join(said)
    return part


def _at(layout: Layout, by: str) -> chart.Point:
    """Where a layout lies: what is made small, and GiB of a device."""
    return float(layout.values[by]), float(layout.values[MEMORY] / GIB)


def _plane(
    found: Found,
    plane: chart.Plane,
    title: str,
    points: list[tuple[chart.Point, Any]],
    capacity: float,
    own: chart.Point | None,
    drawn: list[tuple[str, Layout]],
) -> Data:
    """One plane with its sample, the front as steps, capacity, where tight begins, the best."""
    looks: dict[str, list[chart.Point]] = {"over": [], "some": []}
    for at, point in points:
        if not point.front:
            looks["some" if point.fits else "over"].append(at)
    front = sorted(at for at, point in points if point.front)
    lines = []
    worst = _worst(found)
    for look, y, text in (
        ("capacity", capacity, f"capacity {capacity:.3g} GiB"),
        ("worst", worst and capacity / worst, "tight from here on"),
    ):
        if y and plane.y_low <= y <= plane.y_high:
            lines.append(Data(look=look, y=plane.y(y), text=text, above=look == "capacity"))
    best = [(label, _at(layout, found.by)) for label, layout in drawn]
    inside = [at for at in front if plane.holds(at)]
    plane.keep_free([at for _, at in best])
    return Data(
        plane=plane,
        title=title,
        lines=lines,
        marks={look: plane.dots(several) for look, several in looks.items() if several},
        front=plane.line(inside, steps=True),
        rings=[plane.at(own)] if own and plane.holds(own) else [],
        best=[Data(x=x, y=y, text=f"{label}: {chart.tick(at[0])}, {chart.tick(at[1])} GiB")
              for label, at in best for x, y in [plane.at(at)]],
        labels=plane.labels([(at, label) for label, at in best], far=True),
        window="",
    )  # fmt: skip


def _worst(found: Found) -> float:
    """How many times what is predicted a device needs at worst; 0 where no run says."""
    result = _result(found.best[0]) if found.best else None
    worst = None if result is None else result.get(WORST)
    return 0.0 if worst is None else float(worst.number) / float(found.best[0].values[MEMORY])


def _window(whole: chart.Plane, close: chart.Plane) -> str:
    """Where one plane lies in another."""
    corners = (close.x_low, close.y_low), (close.x_high, close.y_high)
    (left, low), (right, high) = (whole.at(whole.nearest(corner)) for corner in corners)
    return f"M{left:g} {low:g}H{right:g}V{high:g}H{left:g}Z"


def text(found: Found, front: bool = False) -> str:
    """The best layout in a sentence and the others by what differs, or the front of memory, for a
    terminal; then what each choice costs."""
    out = wrapped(plain(lead(found)))
    for fact in facts(found):
        out += wrapped(plain(fact), "  ", "    ")
    if not found.best:
        return "\n".join(out) + "\n"
    unit, rows = found.plan.book.quantities[found.by].unit, [["", _name(found), "", "GiB"]]
    differing = ["what differs from the first" if not front else "what differs from the best"]
    for label, layout in ranking.labelled(found, front):
        amount = three(layout.values[found.by], unit)
        behind = "" if label in FIRST and not front else _behind(layout, found)
        rows.append([label, amount, behind, f"{float(layout.values[MEMORY] / GIB):.1f}"])
        differing.append(differences(layout, found))
    if front:
        out += ["", "The front: each needs less memory than all before it."]
    out.append("")
    for line, differs in zip(columns(rows, right=(0, 1, 2, 3)), differing, strict=True):
        out += wrapped(differs, f"{line}  ", " " * (len(line) + 2)) or [line]
    if not front and (choices := ranking.costs(found, reasons=False)):
        out += ["", "Best value of each choice, and how far behind the best with another one is:"]
        heads = columns([(choice, best) for choice, best, _ in choices], right=(1,), indent="  ")
        wide = max(map(len, heads)) + 2
        for head, (_, _, others) in zip(heads, choices, strict=True):
            out += wrapped(others, head.ljust(wide), " " * wide) or [head]
    for said in (ranking.plainest(found), ranking.same(found), ranking.simulation(found),
                 ranking.leeway(found)):  # fmt: skip
        out += ["", *wrapped(said)] if said else []
    return "\n".join(out) + "\n"


#: The pages have best and front: GitHub Markdown, and one file without scripts or requests.
WRITERS: Mapping[str, Callable[[Found, bool], str]] = {
    "text": text,
    "txt": text,
    **ranking.WRITERS,
    "md": lambda found, _: words("search.md.jinja", view=view(found)),
    "html": lambda found, _: page("search.html.jinja", view=view(found)),
}
#: Formats that draw the space.
DRAWN = frozenset({"html"})
#: The formats by ending.
SUFFIXES = {".txt": "text", **{f".{kind}": kind for kind in WRITERS}}
