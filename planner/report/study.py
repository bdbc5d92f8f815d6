"""The comparison of a study: in a few lines for a terminal, as Markdown, as one HTML page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from types import SimpleNamespace
from typing import Any

from planner.base.display import columns, exact_text, format_value
from planner.base.files import write_text
from planner.base.version import __version__
from planner.book.quantity import BOOK, KINDS
from planner.questions.studies import outputs
from planner.questions.studies.axes import Axis
from planner.questions.studies.points import (
    COST,
    DAYS,
    DEVICES,
    FITS,
    MEMORY,
    USE,
    Point,
    exact,
)
from planner.questions.studies.run import Outcome
from planner.questions.studies.summary import MOST_LINES, QUESTIONS, roles
from planner.report import chart
from planner.report.facts import with_interval
from planner.report.layout import BETWEEN
from planner.report.numbers import clean, headline, percent, shown
from planner.report.report import page, words
from planner.results.result import Quantity, evaluate

__all__ = ["html", "markdown", "text", "write"]

Data = SimpleNamespace
CAPACITY = "memory.capacity"
#: What stands beside every highlighted point.
BESIDE = (DAYS, COST, MEMORY, FITS, USE)
#: With more tasks the highlights leave out the questions beyond time and money.
FEW_TASKS = 3
HEADS = {
    DAYS: "Days",
    COST: "Cost",
    MEMORY: "Memory per device",
    FITS: "Left",
    USE: "MFU",
}
WORDS = {"ok": "Something fits", "bad": "Nothing fits", "unknown": "Memory unknown"}
#: Rows of a table, and bars of a chart, that are shown.
MOST_ROWS, MOST_BARS, MOST_VALUES, MOST_TASKS = 40, 24, 8, 12


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Data:
    """Cells as text; the first column is words, the others are numbers. A long one is cut, and
    says so."""
    if len(rows) > MOST_ROWS:
        note = f"{MOST_ROWS} of {len(rows)} shown; the table has all."
    return Data(title=title, head=head, rows=rows[:MOST_ROWS], note=note)


class View:
    """Everything that the page says, numbers already as text."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.study, self.found = outcome.study, outcome.summary
        self._exact: dict[int, Point] = {}
        self._quantities: dict[int, list[Quantity | None]] = {}
        study, found = self.study, self.found
        self.name, self.notes = clean(study.name), clean(study.notes or "", 2000)
        self.version, self.fingerprint = __version__, study.digest
        self.limits = [str(limit) for limit in study.where]
        self.varying = [axis for axis in study.axes if len(axis.choices) > 1]
        self.roles = roles(study)
        unknown = "unknown" if found.best and not found.unfit else "bad"
        self.status = "ok" if found.fit else unknown
        self.word = WORDS[self.status]

    # -- the head -----------------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """How many points there are, and what became of them."""
        found = self.found
        tight = f" ({exact_text(found.tight)} only tightly)" if found.tight else ""
        said = [
            f"{exact_text(found.points)} plans",
            f"{exact_text(found.fit)} fit into memory{tight}",
        ]
        for count, what in (
            (found.unfit, "do not fit"),
            (found.outside, "break a limit of the study"),
            (found.invalid, "are no valid plan"),
        ):
            if count:
                said.append(f"{exact_text(count)} {what}")
        return ", ".join(said)

    @cached_property
    def axes(self) -> list[tuple[str, str, str]]:
        """Each axis with its values, as far as there is room, and their number."""
        rows = []
        for axis in self.study.axes:
            texts = [self.label(axis, place) for place in range(len(axis.choices))]
            if len(texts) > MOST_VALUES:
                texts = [*texts[: MOST_VALUES - 2], "…", texts[-1]]
            rows.append((clean(axis.name), ", ".join(texts), str(len(axis.choices))))
        return rows

    def label(self, axis: Axis, place: int) -> str:
        """The value of an axis at a place, for people."""
        value = axis.choices[place].label
        if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
            return format_value(value, axis.unit, short=axis.unit in ("tokens", "parameters"))
        return clean(value, 80)

    def dimension(self, number: int) -> str:
        """What a dimension is called."""
        return " and ".join(clean(axis.name) for axis in self.study.dimensions[number])

    def at(self, dimension: int, place: int) -> str:
        """The place of a dimension in words."""
        return ", ".join(self.label(axis, place) for axis in self.study.dimensions[dimension])

    # -- highlights ---------------------------------------------------------------------------

    def exact(self, point: int) -> Point:
        """A point evaluated by itself."""
        if point not in self._exact:
            places = self.study.places(point)
            self._exact[point] = exact(self.study, places, (CAPACITY,))
        return self._exact[point]

    @cached_property
    def best(self) -> Data | None:
        """The best point for each question and each task, evaluated exactly."""
        rows = []
        lines = sorted(self.found.best.items(), key=lambda item: int(item[0]))
        for _, questions in lines[:MOST_TASKS]:
            for question in list(QUESTIONS)[: None if len(lines) <= FEW_TASKS else 2]:
                if question in questions:
                    _, point = questions[question]
                    cells = [self._cell(quantity) for quantity in self._beside(point)]
                    rows.append((question, *self._axes_of(point), *cells))
        if not rows:
            return None
        cells = [cell for row in rows for cell in row[-len(BESIDE) :]]
        said = ["~ marks what is not exact."] if any("~" in cell for cell in cells) else []
        if any("(" in cell for cell in cells):
            said.append(f"In parentheses {BETWEEN}.")
        note = " ".join([*said, _first_of(MOST_TASKS, len(lines)).strip()]).strip()
        heads = [clean(axis.name) for axis in self.varying]
        if self.study.searches:
            heads.append("layout")
        head = ("Question", *heads, *(f"{HEADS[b]}, {self._known(b)}".rstrip(", ") for b in BESIDE))
        return table("The best for each question", head, rows, note)

    def _axes_of(self, point: int) -> list[str]:
        layout = [self.exact(point).layout or "as given"] if self.study.searches else []
        return [*self._varied(point), *layout]

    def _varied(self, point: int) -> list[str]:
        """The values of a point along the axes that have several."""
        places = self.study.places(point)
        return [
            self.label(axis, place)
            for axes, place in zip(self.study.dimensions, places, strict=True)
            for axis in axes
            if axis in self.varying
        ]

    def _beside(self, point: int) -> list[Quantity | None]:
        """What stands beside a point; None where it has no value."""
        if point not in self._quantities:
            plan = self.exact(point).plan
            result = None if plan is None else evaluate(plan)
            self._quantities[point] = [result.get(base) if result else None for base in BESIDE]
        return self._quantities[point]

    @staticmethod
    def _cell(quantity: Quantity | None) -> str:
        """A value with what published runs leave open of it, and with what is predicted where its
        time is assumed."""
        if quantity is None:
            return "–"
        text = with_interval(quantity) if quantity.exact else f"~{with_interval(quantity)}"
        if quantity.predicted is not None:
            text += f", predicted {with_interval(quantity.predicted)}"
        return text

    def _known(self, base: str) -> str:
        """How a quantity of the highlighted points is known; nothing where it is exact."""
        every = (quantities[BESIDE.index(base)] for quantities in self._quantities.values())
        found = {quantity.kind for quantity in every if quantity is not None} - {"exact"}
        return " or ".join(kind for kind in KINDS if kind in found)

    def value(self, quantity: str, value: Any) -> str:
        """A number of a quantity, with its unit, marked where it is not exact."""
        mark = "~" if self.best is not None and self._known(quantity) else ""
        if quantity == USE:
            return mark + percent(Fraction(value))
        return mark + shown(value, BOOK.quantities[quantity].unit)

    # -- charts -------------------------------------------------------------------------------

    @cached_property
    def lines(self) -> list[tuple[int, str]]:
        """The numbers and the words of the lines that a chart draws: all, or where they are too
        many those with the last values of the last dimensions."""
        role, shape = self.roles, self.study.shape
        places = [range(shape[dimension]) for dimension in role.lines]
        for index in reversed(range(len(places))):
            if math.prod(map(len, places)) > MOST_LINES and index:
                places[index] = places[index][-1:]
        found = []
        for at in islice(product(*places), MOST_LINES):
            words = (self.at(d, place) for d, place in zip(role.lines, at, strict=True))
            found.append((role.line(self.study, at), ", ".join(words)))
        return found

    @property
    def _left_out(self) -> str:
        count = self.roles.count(self.study)
        return f" {len(self.lines)} of {count} lines are drawn." if count > len(self.lines) else ""

    def _x(self, dimension: int, place: int) -> float:
        """Where a value stands along x: at its number, or one after another."""
        axis = self.study.dimensions[dimension][0]
        return float(axis.choices[place].label) if axis.numeric else float(place)

    @cached_property
    def charts(self) -> list[Data]:
        """One chart for each question, each with the table that it draws."""
        found = [
            self._against("days", "Days", DAYS),
            self._against("cost", "Cost", COST),
            self._front(),
            self._memory(),
        ]
        return [one for one in found if one is not None]

    def _against(self, name: str, what: str, quantity: str) -> Data | None:
        cells = self.found.cells.get(name)
        x_dimension = self.roles.x
        if x_dimension is None or not cells:
            return None
        places = range(self.study.shape[x_dimension])
        drawn = []
        for place, label in self.lines:
            points = [
                (self._x(x_dimension, x), float(cells[f"{x},{place}"][0]))
                for x in places
                if f"{x},{place}" in cells
            ]
            drawn.append((label, points))
        x_name = self.dimension(x_dimension)
        words = {self._x(x_dimension, place): self.at(x_dimension, place) for place in places}
        picture = chart.lines(
            drawn,
            (x_name, "days" if quantity == DAYS else "cost, USD"),
            (lambda x: words.get(x, f"{x:g}"), lambda y: _few(quantity, y)),
            [self._x(x_dimension, place) for place in places] if len(places) <= 16 else None,
        )
        rows = []
        for x in places:
            best = [cells.get(f"{x},{place}") for place, _ in self.lines]
            texts = [self.value(quantity, cell[0]) if cell else "–" for cell in best]
            rows.append((self.at(x_dimension, x), *texts))
        said = "The shortest run" if quantity == DAYS else "The lowest cost"
        return Data(
            id=name,
            title=f"{what} against {'devices' if x_name == DEVICES else x_name}",
            caption=f"{said} that fits for each value of {x_name}, over everything else."
            f"{self._left_out}",
            lines=picture,
            bars=None,
            table=table("", (x_name, *(label or what for _, label in self.lines)), rows),
        )

    def _front(self) -> Data | None:
        if not self.found.front:
            return None
        series = [
            (label, self.found.front[str(place)])
            for place, label in self.lines
            if str(place) in self.found.front
        ]
        picture = chart.lines(
            [(label, [(days, cost) for cost, days, _ in points]) for label, points in series],
            ("days", "cost, USD"),
            (lambda x: _few(DAYS, x), lambda y: _few(COST, y)),
        )
        rows = [
            (label or "all", self.value(DAYS, days), self.value(COST, cost), *self._varied(point))
            for label, points in series
            for cost, days, point in points
        ]
        head = ("Line", "Days", "Cost", *(clean(axis.name) for axis in self.varying))
        return Data(
            id="front",
            title="Cost against days",
            caption="What fits, and no other plan is both cheaper and sooner." + self._left_out,
            lines=picture,
            bars=None,
            table=table("", head, rows),
        )

    def _memory(self) -> Data | None:
        layout = self.roles.layout
        if layout is None or not self.found.memory:
            return None
        limit = self._capacity()
        rows = [
            (self.at(layout, int(place)), ends["least"][0], -ends["most"][0])
            for place, ends in sorted(self.found.memory.items(), key=lambda i: int(i[0]))
        ]
        text = []
        for label, low, high in rows:
            fits = [] if limit is None else [_verdict(low, high, limit)]
            text.append((label, self.value(MEMORY, low), self.value(MEMORY, high), *fits))
        named = "layout" if self._is_layout(layout) else self.dimension(layout)
        head = (self.dimension(layout), "Least", "Most", *([] if limit is None else ["Fits"]))
        beside = f" The line is the memory of a device, {shown(limit, 'bytes')}." if limit else ""
        most = float(limit) if limit else None
        drawn = f" The first {MOST_BARS} of {len(rows)} are shown." if len(rows) > MOST_BARS else ""
        return Data(
            id="memory",
            title=f"Memory by {named}",
            caption="Least and most that a device needs, over everything else." + beside + drawn,
            lines=None,
            bars=chart.bars(rows[:MOST_BARS], most, lambda v: shown(v, "bytes")),
            table=table("", head, text),
        )

    def _is_layout(self, dimension: int) -> bool:
        return any(
            key.startswith("parallelism")
            for axis in self.study.dimensions[dimension]
            for key in axis.keys
        )

    def _capacity(self) -> int | None:
        """The memory of a device, where all points have the same."""
        moved = {key for axis in self.varying for key in axis.keys if key.startswith("cluster")} - {
            "cluster.devices",
            "cluster.price",
        }
        best = next((b for line in self.found.best.values() for b in line.values()), None)
        if moved or self.study.several or best is None:
            return None
        value = self.exact(best[1]).values.get(CAPACITY)
        return None if value is None else int(value)

    # -- each axis ----------------------------------------------------------------------------

    @cached_property
    def tables(self) -> list[Data]:
        """For each value of an axis how many plans fit, and the best of each question."""
        found = []
        for number, places in self.found.each.items():
            dimension = int(number)
            if self.study.shape[dimension] < 2:
                continue
            rows = []
            for place, found_there in sorted(places.items(), key=lambda i: int(i[0])):
                best = found_there["best"]
                cells = [
                    self.value(quantity, sign * best[question][0]) if question in best else "–"
                    for question, (quantity, sign) in QUESTIONS.items()
                ]
                counts = [exact_text(found_there[count]) for count in ("plans", "valid", "fit")]
                rows.append((self.at(dimension, int(place)), *counts, *cells))
            head = (self.dimension(dimension), "Plans", "Valid", "Fit", *map(headline, QUESTIONS))
            found.append(table(f"By {self.dimension(dimension)}", head, rows))
        return found

    @cached_property
    def nothing(self) -> list[str]:
        """The values at which nothing fits."""
        return [
            f"{self.dimension(int(number))}: {self.at(int(number), int(place))}"
            for number, places in self.found.each.items()
            for place, found in places.items()
            if not found["fit"] and self.study.shape[int(number)] > 1
        ][:MOST_ROWS]

    @cached_property
    def reasons(self) -> list[tuple[str, str]]:
        """Why points are no plan, the most common first."""
        counted = sorted(self.found.reasons.items(), key=lambda item: (-item[1], item[0]))
        return [(exact_text(count), clean(text)) for text, count in counted[:MOST_VALUES]]

    @property
    def command(self) -> str:
        """What makes this page again."""
        name = self.study.document or "STUDY.yaml"
        table = self.outcome.output or "study.csv"
        return f"plan.py sweep {shlex.quote(name)} -o {shlex.quote(table.rsplit('/', 1)[-1])}"


def _first_of(most: int, count: int) -> str:
    return f" The first {most} of {count} are shown; the table has all." if count > most else ""


def _verdict(low: float, high: float, limit: int) -> str:
    return "all" if high <= limit else "none" if low > limit else "some"


def _few(quantity: str, value: float) -> str:
    """A short number for a tick: the unit stands on the axis."""
    if quantity == COST:
        for name, size in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
            if value >= size:
                return f"{value / size:.3g}{name}"
    return chart.tick(value)


def markdown(outcome: Outcome) -> str:
    """The comparison as GitHub Markdown."""
    return words("study.md.jinja", view=View(outcome))


def html(outcome: Outcome) -> str:
    """The comparison as one HTML file without scripts or requests."""
    return page("study.html.jinja", view=View(outcome))


def text(outcome: Outcome) -> str:
    """What a terminal shows when a sweep is done."""
    view = View(outcome)
    out = [f"{view.name}: {view.sentence}."]
    if view.best is not None:
        out += ["", *columns([view.best.head, *view.best.rows])]
    elif view.reasons:
        out += ["", *(f"{count} × {reason}" for count, reason in view.reasons[:3])]
    return "\n".join(out) + "\n"


def write(outcome: Outcome, path: str) -> None:
    """Write the comparison atomically, in the format of its ending.

    Raises:
        PlanError: another ending, or a place that cannot be written.
    """
    writers = {"md": markdown, "html": html}
    write_text(path, writers[outputs.comparison(path)](outcome))
