"""What is shown of a search: the best layouts, what each choice costs, the front of memory, and
where all of them lie.

A sample of the space is drawn by what is made small and by memory, with the capacity of a device,
the front and the plan's own layout.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from planner.base.display import exact_text
from planner.base.version import __version__
from planner.book.quantity import BOOK
from planner.questions.constraints import shown
from planner.questions.search import ranking
from planner.questions.search.engine import FITS, MEMORY, STEP, Found
from planner.report import chart
from planner.report.numbers import GIB, clean

#: Series of the chart, in the order in which they are drawn; points of all but JOINED are loose.
SERIES = ("does not fit", "fits", "the front", "the best", "the plan's own", "a device's memory")
JOINED = (2, 5)


class View:
    """What the templates show of a search."""

    def __init__(self, found: Found) -> None:
        self.found = found

    @property
    def name(self) -> str:
        return f"Layouts of {clean(self.found.plan.name or 'a plan')}"

    @property
    def status(self) -> str:
        return "ok" if self.found.best else "bad"

    @property
    def word(self) -> str:
        return "Layouts that fit" if self.found.best else "No layout fits"

    @property
    def sentence(self) -> str:
        return ranking.counted(self.found)

    @property
    def plainest(self) -> str:
        """Which layout is to be run, where that is not the best."""
        return ranking.plainest(self.found)

    @property
    def leeway(self) -> str:
        """How far the predictions may be off."""
        return ranking.leeway_words(self.found)

    @property
    def closest(self) -> str:
        return "" if self.found.best else ranking.closest(self.found).strip()

    @property
    def title(self) -> str:
        """What is made small."""
        return BOOK.quantities[self.found.by].title

    @cached_property
    def best(self) -> dict[str, Any]:
        return self._table(front=False)

    @cached_property
    def front(self) -> dict[str, Any]:
        return self._table(front=True)

    def _table(self, front: bool) -> dict[str, Any]:
        if not self.found.best:
            return {}
        rows, reasons = ranking.table(self.found, front)
        lost = any(reasons)
        joined = [(*row, *([why] if lost else [])) for row, why in zip(rows, reasons, strict=True)]
        said = "step" if self.found.by == STEP else self.found.by
        by = self.title.split(" (")[0]
        head = [*(said if cell == by else cell for cell in rows[0])]
        head += ["loses most by"] if lost else []
        return {"title": "", "head": head, "rows": joined[1:], "note": "", "wraps": lost}

    @cached_property
    def costs(self) -> list[tuple[str, str, str]]:
        """What another value of each choice costs."""
        return ranking.costs(self.found)

    @property
    def in_front(self) -> str:
        """What the front is."""
        return (
            f"The Pareto front: nothing beats one of these both in memory and in {self.title}. "
            "Each needs less memory than all before it."
        )

    @property
    def choosing(self) -> str:
        said = (
            f"The best value of each choice, and how far behind ({self.title}) the best layout "
            "with another value is; in brackets what the nearest of these loses most in, and what "
            "it has less of where that makes up for half."
        )
        return f"{said} {ranking.same(self.found)}".rstrip()

    @cached_property
    def picture(self) -> chart.Chart | None:
        """A sample of the layouts; None where memory itself is made small."""
        found = self.found
        if found.by == MEMORY or not found.points:
            return None
        sample = [point for point in found.points if not point.front]
        edge = sorted((point.score, point.memory / GIB) for point in found.points if point.front)
        scores = [point.score for point in found.points]
        series = (
            [(point.score, point.memory / GIB) for point in sample if not point.fits],
            [(point.score, point.memory / GIB) for point in sample if point.fits],
            edge,
            [self._place(layout) for layout in found.best],
            [self._place(found.own)] if found.own is not None else [],
            [(s, float(self.capacity / GIB)) for s in (min(scores), max(scores))],
        )
        unit = BOOK.quantities[found.by].unit
        return chart.lines(
            [*zip(SERIES, series, strict=True)],
            (f"{self.title}, {unit}", "memory of a device, GiB"),
            (_short, _short),
            loose=[number for number in range(len(SERIES)) if number not in JOINED],
        )

    def _place(self, layout: Any) -> tuple[float, float]:
        return float(layout.values[self.found.by]), float(layout.values[MEMORY] / GIB)

    @property
    def capacity(self) -> Any:
        """Bytes of a device."""
        layout = self.found.best[0] if self.found.best else self.found.nearest
        return layout.values[FITS] + layout.values[MEMORY] if layout else 0

    @property
    def caption(self) -> str:
        return (
            "A sample of all layouts, evenly over the picture. No layout beats one of the front "
            f"both in memory and in {self.title}. A device has {shown(self.capacity, 'bytes')}."
        )

    @property
    def version(self) -> str:
        return __version__


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else exact_text(round(value))
