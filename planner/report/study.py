"""The comparison of a study: in a few lines for a terminal, as Markdown, as one HTML page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from typing import Any

from planner.base.display import columns, exact_text, format_value
from planner.base.files import format_of, write_text
from planner.base.version import __version__
from planner.book.quantity import BOOK, KINDS
from planner.plans.plan import about
from planner.questions.studies import COMPARISONS, points, summary
from planner.questions.studies.axes import LAYOUT, Axis, keys
from planner.questions.studies.points import COST, DAYS, DEVICES, FITS, MEMORY, USE
from planner.questions.studies.run import Outcome
from planner.report import chart
from planner.report.facts import with_interval
from planner.report.layout import BETWEEN
from planner.report.numbers import Data, clean, headline, shown
from planner.report.report import page, words
from planner.results.result import Quantity, evaluate

__all__ = ["html", "markdown", "text", "write"]

CAPACITY = "memory.capacity"
#: What stands beside every highlighted point, and what it is called.
BESIDE = {
    DAYS: "Days",
    COST: "Cost",
    MEMORY: "Memory per device",
    FITS: "Left",
    USE: "MFU",
}
#: With more tasks the highlights leave out the questions beyond time and money.
FEW_TASKS = 3
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
        study, found = self.study, self.found = outcome.study, outcome.summary
        self.name, self.notes = clean(study.name), clean(study.notes or "", 2000)
        self.version, self.fingerprint = __version__, study.digest
        self.limits = [str(limit) for limit in study.where]
        self.varying = [axis for axis in study.axes if len(axis.choices) > 1]
        self.roles = summary.roles(study)
        self.tasks = found.best[summary.TASKS]
        unknown = "unknown" if self.tasks and not found.unfit else "bad"
        self.status = "ok" if found.fit else unknown
        self.word = WORDS[self.status]
        tasks = sorted(self.tasks, key=lambda places: [int(p) for p in places.split(",") if p])
        asked = list(summary.QUESTIONS)[: None if len(tasks) <= FEW_TASKS else 2]
        bests = [self.tasks[task] for task in tasks[:MOST_TASKS]]
        #: Questions with the point that is best, task by task.
        self.highlights = [(q, best[q][1]) for best in bests for q in asked if q in best]
        #: These points, each evaluated exactly, as a plan by itself.
        several = dict.fromkeys(point for _, point in self.highlights)
        self.results = {point: evaluate(study.plan(point)) for point in several}

    # -- the head -----------------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """How many points there are, and what became of them."""
        found = self.found
        tight = f" ({exact_text(found.tight)} only tightly)" if found.tight else ""
        others = {
            "do not fit": found.unfit,
            "break a limit of the study": found.outside,
            "are no valid plan": found.invalid,
        }
        said = [f"{exact_text(count)} {what}" for what, count in others.items() if count]
        fit = f"{exact_text(found.fit)} fit into memory{tight}"
        return ", ".join([f"{exact_text(found.points)} plans", fit, *said])

    @cached_property
    def axes(self) -> list[tuple[str, str, str]]:
        """Each axis with its values, as far as there is room, and their number."""
        rows = []
        for axis in self.study.axes:
            texts = [_label(axis, choice.label) for choice in axis.choices]
            if len(texts) > MOST_VALUES:
                texts = [*texts[: MOST_VALUES - 2], "…", texts[-1]]
            rows.append((clean(axis.name), ", ".join(texts), str(len(axis.choices))))
        return rows

    def dimension(self, number: int) -> str:
        """What a dimension is called."""
        return " and ".join(clean(axis.name) for axis in self.study.dimensions[number])

    def at(self, dimension: int, place: int) -> str:
        """The place of a dimension in words."""
        axes = self.study.dimensions[dimension]
        return ", ".join(_label(axis, axis.choices[place].label) for axis in axes)

    # -- highlights ---------------------------------------------------------------------------

    @cached_property
    def best(self) -> Data | None:
        """The best point for each question and each task."""
        if not self.highlights:
            return None
        numbers = {
            point: [_cell(result.get(quantity)) for quantity in BESIDE]
            for point, result in self.results.items()
        }
        rows = []
        for question, point in self.highlights:
            layout = []
            if self.study.searches:
                found = self.study.searches_at(point)
                layout = [(found and points.words(self.results[point].plan)) or "as given"]
            rows.append((question, *self._varied(point), *layout, *numbers[point]))
        cells = "".join(cell for several in numbers.values() for cell in several)
        said = ["~ marks what is not exact."] if "~" in cells else []
        said += [f"In parentheses {BETWEEN}."] if "(" in cells else []
        if len(self.tasks) > MOST_TASKS:
            count = len(self.tasks)
            said.append(f"The first {MOST_TASKS} of {count} are shown; the table has all.")
        head = ["Question", *(clean(axis.name) for axis in self.varying)]
        head += ["layout"] if self.study.searches else []
        head += [f"{name}, {self._known(q)}".rstrip(", ") for q, name in BESIDE.items()]
        return table("The best for each question", head, rows, " ".join(said))

    def _varied(self, point: int) -> list[str]:
        """The values of a point along the axes that have several."""
        labels = self.study.labels(point)
        return [_label(axis, labels[axis.name]) for axis in self.varying]

    def _known(self, quantity: str) -> str:
        """How a quantity of the highlighted points is known; nothing where it is exact."""
        every = (result.get(quantity) for result in self.results.values())
        found = {one.kind for one in every if one is not None} - {"exact"}
        return " or ".join(kind for kind in KINDS if kind in found)

    def value(self, quantity: str, value: Any) -> str:
        """A number of a quantity, with its unit, marked where it is not exact."""
        declared = BOOK.quantities[quantity]
        mark = "~" if self._known(quantity) else ""
        return mark + shown(value, declared.unit, declared.share)

    # -- charts -------------------------------------------------------------------------------

    @cached_property
    def lines(self) -> list[tuple[tuple[int, ...], str]]:
        """The places and the words of the lines that a chart draws: all, or where they are too many
        those with the last values of the last dimensions."""
        role = self.roles
        places = [range(self.study.shape[dimension]) for dimension in role.lines]
        for index in reversed(range(len(places))):
            if math.prod(map(len, places)) > summary.MOST_LINES and index:
                places[index] = places[index][-1:]
        return [
            (line, ", ".join(self.at(d, place) for d, place in zip(role.lines, line, strict=True)))
            for line in islice(product(*places), summary.MOST_LINES)
        ]

    @cached_property
    def charts(self) -> list[Data]:
        """One chart for each question, each with the table that it draws."""
        x = self.roles.x
        found = [] if x is None else [self._against(x, *one) for one in summary.CHARTS.items()]
        return [one for one in (*found, self._front(), self._memory()) if one is not None]

    def _drawn(self) -> str:
        """How many lines a chart draws, where that is not all."""
        count = math.prod(self.study.shape[dimension] for dimension in self.roles.lines)
        drawn = len(self.lines)
        return f" {drawn} of {count} lines are drawn." if count > drawn else ""

    def _against(self, x: int, name: str, question: str) -> Data | None:
        """The best of a question along dimension x."""
        bests, quantity = self.found.best[summary.ALONG_X], summary.QUESTIONS[question][0]
        if not any(question in best for best in bests.values()):
            return None
        axis, x_name = self.study.dimensions[x][0], self.dimension(x)
        texts = [self.at(x, place) for place in range(self.study.shape[x])]
        # A value stands at its number, or they stand one after another.
        labels = [choice.label for choice in axis.choices] if axis.numeric else range(len(texts))
        along = list(map(float, labels))
        best = [
            [bests.get(summary.at((place, *line)), {}).get(question) for place in range(len(along))]
            for line, _ in self.lines
        ]
        drawn = [
            (label, [(where, b[0]) for where, b in zip(along, several, strict=True) if b])
            for (_, label), several in zip(self.lines, best, strict=True)
        ]
        words = dict(zip(along, texts, strict=True))
        unit, tick = ("days", chart.tick) if quantity == DAYS else ("cost, USD", _cost)
        picture = chart.lines(
            drawn,
            (x_name, unit),
            (lambda where: words.get(where, f"{where:g}"), tick),
            along if len(along) <= 16 else None,
        )
        rows = [
            (text, *(self.value(quantity, b[0]) if b else "–" for b in several))
            for text, *several in zip(texts, *best, strict=True)
        ]
        what = BESIDE[quantity]
        head = (x_name, *(label or what for _, label in self.lines))
        title = f"{what} against {'devices' if x_name == DEVICES else x_name}"
        said = f"The {question} that fits for each value of {x_name}, over everything else."
        cells, said = table("", head, rows), said + self._drawn()
        return Data(id=name, title=title, caption=said, lines=picture, bars=None, table=cells)

    def _front(self) -> Data | None:
        """What no other plan beats in cost and in days."""
        front = self.found.front
        if not front:
            return None
        series = [
            (text, front[at]) for line, text in self.lines if (at := summary.at(line)) in front
        ]
        picture = chart.lines(
            [(label, [(days, cost) for cost, days, _ in points]) for label, points in series],
            ("days", "cost, USD"),
            (chart.tick, _cost),
        )
        rows = [
            (label or "all", self.value(DAYS, days), self.value(COST, cost), *self._varied(point))
            for label, points in series
            for cost, days, point in points
        ]
        head = ("Line", "Days", "Cost", *(clean(axis.name) for axis in self.varying))
        title = "Cost against days"
        said = f"What fits, and no other plan is both cheaper and sooner.{self._drawn()}"
        cells = table("", head, rows)
        return Data(id="front", title=title, caption=said, lines=picture, bars=None, table=cells)

    def _memory(self) -> Data | None:
        """The least and the most memory of each layout."""
        dimension, limit = self.roles.layout, self._capacity()
        layouts = self.found.best.get(summary.LAYOUTS)
        if dimension is None or not layouts:
            return None
        rows, cells = [], []
        for place in sorted(layouts, key=int):
            low, high = layouts[place]["least"][0], -layouts[place]["most"][0]
            rows.append((self.at(dimension, int(place)), low, high))
            cells.append([rows[-1][0], self.value(MEMORY, low), self.value(MEMORY, high)])
            if limit:
                cells[-1].append("all" if high <= limit else "none" if low > limit else "some")
        axes = self.study.dimensions[dimension]
        of_layout = any(key.startswith(LAYOUT) for key in keys(axes))
        said = "Least and most that a device needs, over everything else."
        if limit:
            said += f" The line is the memory of a device, {shown(limit, 'bytes')}."
        if len(rows) > MOST_BARS:
            said += f" The first {MOST_BARS} of {len(rows)} are shown."
        head = (self.dimension(dimension), "Least", "Most", *(["Fits"] if limit else []))
        bars = chart.bars(rows[:MOST_BARS], limit, lambda size: shown(size, "bytes"))
        title = f"Memory by {'layout' if of_layout else self.dimension(dimension)}"
        told = table("", head, cells)
        return Data(id="memory", title=title, caption=said, lines=None, bars=bars, table=told)

    def _capacity(self) -> float | None:
        """The memory of a device, where all points have the same."""
        moved = {key for key in keys(self.varying) if key.startswith("cluster")}
        if moved - {DEVICES, "cluster.price"} or self.study.several or not self.results:
            return None
        quantity = next(iter(self.results.values())).get(CAPACITY)
        return None if quantity is None else float(quantity.number)

    # -- each axis ----------------------------------------------------------------------------

    @cached_property
    def tables(self) -> list[Data]:
        """For each value of an axis how many plans fit, and the best of each question."""
        head, found = ("Plans", "Valid", "Fit", *map(headline, summary.QUESTIONS)), []
        for number, places in self.found.each.items():
            name, rows = self.dimension(int(number)), []
            for place, counts in places.items():
                best = self.found.best[number].get(place, {})
                cells = [
                    self.value(quantity, sign * best[question][0]) if question in best else "–"
                    for question, (quantity, sign) in summary.QUESTIONS.items()
                ]
                label = self.at(int(number), int(place))
                rows.append((label, *map(exact_text, counts.values()), *cells))
            if len(rows) > 1:
                found.append(table(f"By {name}", (name, *head), rows))
        return found

    @cached_property
    def nothing(self) -> list[str]:
        """The values at which nothing fits."""
        found = (
            f"{self.dimension(int(number))}: {self.at(int(number), int(place))}"
            for number, places in self.found.each.items()
            for place, counts in places.items()
            if len(places) > 1 and not counts["fit"]
        )
        return list(islice(found, MOST_ROWS))

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


def _label(axis: Axis, value: Any) -> str:
    """A value of an axis, for people."""
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        unit = str(about(axis.name).get("unit", "1")) if axis.numeric else "1"
        return format_value(value, unit, short=unit in ("tokens", "parameters"))
    return clean(value, 80)


def _cell(quantity: Quantity | None) -> str:
    """A value with what published runs leave open of it, and with what is predicted where its time
    is assumed."""
    if quantity is None:
        return "–"
    text = with_interval(quantity) if quantity.exact else f"~{with_interval(quantity)}"
    if quantity.predicted is not None:
        text += f", predicted {with_interval(quantity.predicted)}"
    return text


def _cost(value: float) -> str:
    """How a tick says a cost: short, the unit stands on the axis."""
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
    write_text(path, writers[format_of(path, COMPARISONS, "comparison")](outcome))
