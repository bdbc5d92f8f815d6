"""A search as a page and in the other formats that its ending picks: the best layouts, what each
choice costs, the front of memory, and where all of them lie.

A sample of the space is drawn by what is made small and by memory, with the capacity of a device,
the front and the plan's own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.base.version import __version__
from planner.book.quantity import BOOK
from planner.questions.constraints import shown
from planner.questions.search import ranking
from planner.questions.search.engine import FITS, MEMORY, STEP, Found
from planner.report import chart
from planner.report.numbers import GIB, Data, clean
from planner.report.report import page, words

#: Series of the chart, in the order in which they are drawn; points of all but JOINED are loose.
SERIES = ("does not fit", "fits", "the front", "the best", "the plan's own", "a device's memory")
JOINED = (2, 5)


def view(found: Found) -> Data:
    """What the templates show of a search."""
    title = BOOK.quantities[found.by].title  # of what is made small
    layout = found.best[0] if found.best else found.nearest
    capacity = layout.values[FITS] + layout.values[MEMORY] if layout else 0  # bytes of a device
    return Data(
        name=f"Layouts of {clean(found.plan.name or 'a plan')}",
        status="ok" if found.best else "bad",
        word="Layouts that fit" if found.best else "No layout fits",
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
        picture=_picture(found, title, float(capacity / GIB)),
        caption="A sample of all layouts, evenly over the picture. No layout beats one of the "
        f"front both in memory and in {title}. A device has {shown(capacity, 'bytes')}.",
        version=__version__,
    )


def _table(found: Found, front: bool) -> Data | None:
    """The best layouts, or the front; None where there are none."""
    if not found.best:
        return None
    rows, reasons = ranking.table(found, front)
    lost = any(reasons)
    joined = [(*row, *([why] if lost else [])) for row, why in zip(rows, reasons, strict=True)]
    said = "step" if found.by == STEP else found.by
    by = BOOK.quantities[found.by].title.split(" (")[0]
    head = [said if cell == by else cell for cell in rows[0]]
    head += ["loses most by"] if lost else []
    return Data(title="", head=head, rows=joined[1:], note="", wraps=lost)


def _picture(found: Found, title: str, capacity: float) -> Data | None:
    """A sample of the layouts; None where memory itself is made small."""
    if found.by == MEMORY or not found.points:
        return None

    series: dict[str, list[tuple[float, float]]] = {name: [] for name in SERIES}
    for point in found.points:
        name = "the front" if point.front else "fits" if point.fits else "does not fit"
        series[name].append((point.score, point.memory / GIB))
    series["the front"].sort()
    own = [] if found.own is None else [found.own]
    for name, layouts in (("the best", found.best), ("the plan's own", own)):
        series[name] = [(float(x.values[found.by]), float(x.values[MEMORY] / GIB)) for x in layouts]
    scores = [point.score for point in found.points]
    series["a device's memory"] = [(score, capacity) for score in (min(scores), max(scores))]
    return chart.lines(
        [*series.items()],
        (f"{title}, {BOOK.quantities[found.by].unit}", "memory of a device, GiB"),
        (chart.tick, chart.tick),
        loose=[number for number in range(len(SERIES)) if number not in JOINED],
    )


#: The pages have best and front: GitHub Markdown, and one file without scripts or requests.
WRITERS: Mapping[str, Callable[[Found, bool], str]] = {
    **ranking.WRITERS,
    "md": lambda found, _: words("search.md.jinja", view=view(found)),
    "html": lambda found, _: page("search.html.jinja", view=view(found)),
}
#: Formats that draw the space.
DRAWN = frozenset({"html"})
#: The formats by ending.
SUFFIXES = {".txt": "text", **{f".{kind}": kind for kind in WRITERS}}
