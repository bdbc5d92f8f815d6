"""The comparison of a study: a few lines for a terminal, Markdown, or one HTML page. It begins with
one plan in a sentence: the cheapest before the deadline, or without one the knee."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import Any

from planner.base import numbers
from planner.base.display import clean, columns, headline
from planner.base.files import format_of, write_text
from planner.base.numbers import GIB, exact_text, trim_zeros
from planner.base.sandbox import Record, computed_field
from planner.book.quantity import BOOK
from planner.plans.document import Plan
from planner.plans.layout import DEGREES, label_layout
from planner.plans.plan import about
from planner.questions.studies import COMPARISONS, summary
from planner.questions.studies.axes import LAYOUT, StudyAxis, collect_keys
from planner.questions.studies.points import COST, DEVICES, HOURS, MEMORY, STATES
from planner.questions.studies.run import StudyOutcome
from planner.questions.studies.study import DAYS, TASK, StudySpec
from planner.report import chart
from planner.report.elements import Label, Plot, Table
from planner.report.layout import HEADS, SEVERAL
from planner.report.report import render_md, render_page
from planner.report.sentences import (
    Parts,
    build_interval,
    format_amount,
    format_part,
    format_quantity,
    join_parts,
    wrap_text,
)
from planner.results.result import Result, evaluate_plan
from planner.results.verdict import VERDICTS

__all__ = ["format_study", "render_study", "write_study"]

CAPACITY, AT_WORST = "memory.capacity", "memory.at_worst"
#: Rows of a table, values of an axis, columns beside each other, labels of a chart that are shown.
MOST_ROWS, MOST_VALUES, MOST_COLUMNS, MOST_LABELS = 40, 8, 6, 16
#: The most values along x with a line through them; beyond, the front is drawn.
MOST_JOINED = 24
#: Marks over which no label is written; of more, those of the line alone.
MOST_FREE = 300
#: A deadline this many times beyond the plot is stated, not drawn.
FAR = 4
#: Keys of the layout that the sentence names.
SAID = (*(f"parallelism.{name}" for name in DEGREES if "_" not in name), "parallelism.zero")
FITS, OPEN, TIGHT, NO = (STATES.index(state) for state in ("fits", "open", "tight", "no"))
#: The unit of cost, or of GPU hours in its place.
UNITS = {COST: "USD", HOURS: "GPU-hours"}
SIZES = (("billion", 10**9), ("million", 10**6), ("thousand", 10**3))
VENDORS = ("NVIDIA ", "AMD ", "Intel ", "Google ", "AWS ")


class Cell(Record):
    """The best point at some places: the cheapest of those that fit in time.

    Attributes:
        places: its index along each dimension with separate cells.
        in_time: whether it meets the deadline; true without one.
        point: the index of the point in the study.
        state: how it fits, an index into ``STATES``.
        days: training time; None if unknown.
        paid: USD, or GPU hours in a study without prices; None if unknown.
        memory: peak bytes of a device; None if unknown.
    """

    places: tuple[int, ...]
    in_time: bool
    point: int
    state: int
    days: float | None
    paid: float | None
    memory: float | None

    @property
    def drawn(self) -> tuple[float, float] | None:
        """Days and cost; None if one is unknown."""
        if not self.days or not self.paid:
            return None
        return self.days, self.paid

    @property
    def gib(self) -> str:
        """The memory of a device in GiB, three digits."""
        return numbers.text(self.memory and self.memory / GIB, style="table")


class TaskAnswer(Record):
    """The plan that answers one task.

    Attributes:
        cell: the chosen cell.
        kind: how it was chosen, a key of ``HEADS``.
        group: the cells among which it was chosen; empty if nothing fits.
    """

    cell: Cell
    kind: str
    group: tuple[Cell, ...]


def find_front(cells: Iterable[Cell]) -> list[Cell]:
    """Return the Pareto front of cost and days, the cheapest first."""
    kept: list[Cell] = []
    known = (cell for cell in cells if cell.drawn)
    for cell in sorted(known, key=lambda cell: (cell.paid, cell.days)):
        if not kept or cell.days < kept[-1].days:  # type: ignore[operator]
            kept.append(cell)
    return kept


def find_knee(cells: Sequence[Cell]) -> Cell | None:
    """Return the knee of a front: the cell farthest below the line between its ends, on logarithmic
    scales; None if none is below it."""
    if len(cells) < 3:
        return None
    days, paid = ([math.log(cell.drawn[way]) for cell in cells if cell.drawn] for way in (0, 1))
    wide, high = days[0] - days[-1], paid[-1] - paid[0]
    gain = [
        1 - (day - days[-1]) / wide - (cost - paid[0]) / high
        for day, cost in zip(days, paid, strict=True)
    ]
    best = max(range(len(cells)), key=lambda i: gain[i])
    return cells[best] if gain[best] > 1e-9 else None


class StudyView(Record):
    """The contents of the page of a study; numbers are text already.

    Attributes:
        name, notes: of the study.
        fingerprint: its hash.
        limits: what its plans must satisfy.
        deadlines: whether a task has a deadline.

        cells: the best point at each combination of places.
        paid: the id of what is compared: total cost, or GPU hours where no plan has a price.
        unit: of that.
        money: the unit of the tables, such as million USD.
        size: how many USD or GPU hours that unit is.
    """

    _study: StudySpec
    _found: summary.Summary
    _output: str | None
    name: str
    notes: str
    fingerprint: str
    limits: list[str]
    deadlines: bool
    _roles: summary.Roles
    cells: list[Cell]
    paid: str
    unit: str
    money: str
    size: int

    @computed_field
    def tasks(self) -> list[Task]:
        """Each task that has cells, with its answer."""
        apart = [range(self._study.shape[d]) for d in self._roles.tasks]
        made = (build_task(self, places) for places in product(*apart))
        return [task for task in made if task.cells]

    @computed_field
    def lead(self) -> Task | None:
        """The last task, which is mostly the largest; None if nothing can be evaluated."""
        return self.tasks[-1] if self.tasks else None

    @computed_field
    def timed(self) -> bool:
        """Whether a plan of the last task has a time."""
        return self.lead is not None and any(cell.days for cell in self.lead.cells)

    @computed_field
    def plans(self) -> str:
        """The number of plans, by axis."""
        several = [
            exact_text(size)
            + f" {' and '.join(SEVERAL.get(axis.name, f'values of {axis.name}') for axis in axes)}"
            for axes, size in zip(self._study.dimensions, self._study.shape, strict=True)
            if size > 1
        ]
        said = f": {' × '.join(map(clean, several))}" if several else ""
        return f"{exact_text(self._found.points)} plans{said}"

    @computed_field
    def sentence(self) -> str:
        """The number of plans by outcome."""
        found = self._found
        counts = {
            VERDICTS["fits"].says: found.fit - found.tight,
            VERDICTS["tight"].says: found.tight,
            VERDICTS["no"].says: found.unfit,
            ("breaks a limit of the study", "break a limit of the study"): found.outside,
            ("is invalid", "are invalid"): found.invalid,
        }
        others = found.points - sum(counts.values())
        said = [f"{exact_text(n)} {what[n > 1]}" for what, n in counts.items() if n]
        said += [f"{exact_text(others)} cannot be judged"] if others > 0 else []
        return ", ".join(said) or "none can be judged"

    @computed_field
    def axes(self) -> list[tuple[str, str, str]]:
        """Each axis with its values, cut to the room there is, and their number."""
        rows = []
        for axis in self._study.axes:
            texts = [label_of(axis, choice.label) for choice in axis.choices]
            if len(texts) > MOST_VALUES:
                texts = [*texts[: MOST_VALUES - 2], "…", texts[-1]]
            rows.append((clean(axis.name), ", ".join(texts), str(len(axis.choices))))
        return rows

    def name_dimension(self, number: int) -> str:
        """Return the name of a dimension."""
        return " and ".join(clean(axis.name) for axis in self._study.dimensions[number])

    def at(self, dimension: int, place: int) -> str:
        """Format the value of a dimension."""
        axes = self._study.dimensions[dimension]
        return ", ".join(label_of(axis, axis.choices[place].label) for axis in axes)

    def place(self, cell: Cell, dimension: int) -> int:
        """Return the index of a cell along a dimension with separate cells."""
        return cell.places[self._roles.cells.index(dimension)]

    @property
    def collapsed(self) -> str:
        """The dimensions over which each cell is the best; empty if there are none."""
        rest = [d for d, n in enumerate(self._study.shape) if n > 1 and d not in self._roles.cells]
        return " and ".join(map(self.name_dimension, rest))

    def format_amount(self, value: float) -> str:
        """Format an amount in the unit of the tables."""
        return numbers.text(value / self.size, style="table")

    @computed_field
    def answers(self) -> Table | None:
        """The answer of each task, if there are more than two or each has one plan."""
        if len(self.tasks) < (2 if self.single else 3):
            return None
        head = ["", "Answer", "Plan", "Days", "5 to 95 %", headline(self.money), "GiB", "Memory"]
        return Table("", head, [task.row for task in self.tasks])

    @computed_field
    def single(self) -> bool:
        """Whether each task has one plan, so that there is nothing to choose."""
        return all(len(task.cells) == 1 for task in self.tasks)

    @computed_field
    def basis(self) -> str:
        """The basis of intervals and of each kind of number."""
        found = [one for task in self.tasks for q in (DAYS, MEMORY)
                 if (one := task.result.get(q)) is not None]  # fmt: skip
        said = []
        if any(one.interval for one in found):
            said.append(
                "90 % intervals from published runs of this kind; the error is mostly shared, so "
                "the order of the plans is more reliable than their values."
            )
        assumptions = dict.fromkeys(one.assumption for one in found if one.assumption)
        said += [f"Some days and costs are those of {one}." for one in assumptions]
        if self.paid == HOURS:
            said.append("No plan has a price (cluster.price), so GPU-hours replace cost.")
        if any(task.answer.kind == "knee" for task in self.tasks):
            said.append(
                "Knee: best trade-off on the Pareto front of cost and time (farthest from the line "
                "between the cheapest and the fastest, on logarithmic scales); with a deadline "
                "(the study's key) the answer is the cheapest that meets it."
            )
        if self.collapsed:
            said.append(f"Each point is the best over {self.collapsed}; the table has all.")
        return " ".join(said)

    @computed_field
    def states(self) -> Parts:
        """The legend of the marks in use."""
        drawn = {
            cell.state for task in self.tasks if task.chart for cell in task.cells if cell.drawn
        }
        words = ((one.state, one.legend) for one in VERDICTS.values())
        return [(state, legend) for state, legend in words if STATES.index(state) in drawn]

    @computed_field
    def tables(self) -> list[Table]:
        """For each value of an axis, how many plans fit and the best of each question."""
        found = []
        asked = {
            name: said for name, said in summary.QUESTIONS.items()
            if any(name in best for places in self._found.best.values() for best in places.values())
        }  # fmt: skip
        for number, places in self._found.each.items():
            name, rows = self.name_dimension(int(number)), []
            for place, counts in places.items():
                best = self._found.best[number].get(place, {})
                cells = [
                    BOOK.quantities[quantity].text(sign * best[question][0])
                    if question in best
                    else "–"
                    for question, (quantity, sign) in asked.items()
                ]
                label = self.at(int(number), int(place))
                rows.append((label, *map(exact_text, counts.values()), *cells))
            if len(rows) > 1:
                head = (name, "Plans", "Valid", "Fit", *map(headline, asked))
                many = len(rows) > MOST_ROWS  # a long table is cut, and says so
                note = f"{MOST_ROWS} of {len(rows)} shown; the table has all." if many else ""
                cut = rows[:MOST_ROWS]
                found.append(Table(f"By {name}", head, cut, note, style="num"))
        return found

    @computed_field
    def nothing(self) -> list[str]:
        """The values with no plan that fits."""
        found = (
            f"{self.name_dimension(int(number))}: {self.at(int(number), int(place))}"
            for number, places in self._found.each.items()
            for place, counts in places.items()
            if len(places) > 1 and not counts["fit"]
        )
        return list(islice(found, MOST_ROWS))

    @computed_field
    def reasons(self) -> Parts:
        """The reasons of invalid points, the most common first."""
        counted = sorted(self._found.reasons.items(), key=lambda item: (-item[1], item[0]))
        return [(exact_text(count), clean(text)) for text, count in counted[:MOST_VALUES]]

    @computed_field
    def command(self) -> str:
        """The command that reproduces this page."""
        name = self._study.document or "STUDY.yaml"
        table = self._output or "study.csv"
        return f"plan.py sweep {shlex.quote(name)} -o {shlex.quote(table.rsplit('/', 1)[-1])}"


@lru_cache(maxsize=1)
def build_study_view(outcome: StudyOutcome) -> StudyView:
    """Return the view of a sweep, which the formats of one comparison and the terminal share."""
    study, found = outcome.study, outcome.summary
    paid = next((q for q in (COST, HOURS) if any(map(_of(q), found.cells.values()))), COST)
    cells = [
        Cell(
            tuple(int(place) for place in at.split(",") if place),
            not kept[0][0] % 2, kept[1], kept[2], _of(DAYS)(kept), _of(paid)(kept),
            _of(MEMORY)(kept),
        )
        for at, kept in found.cells.items()
    ]  # fmt: skip
    most, unit = max((cell.paid or 0 for cell in cells), default=0), UNITS[paid]
    larger = ((f"{name} {unit}", size) for name, size in SIZES if most >= size)
    money, size = next(larger, (unit, 1))
    return StudyView(
        study,
        found,
        outcome.output,
        name=clean(study.name),
        notes=clean(study.notes or "", 2000),
        fingerprint=study.digest,
        limits=[str(limit) for limit in study.where],
        deadlines=bool(study.deadlines),
        _roles=summary.choose_roles(study),
        cells=cells,
        paid=paid,
        unit=unit,
        money=money,
        size=size,
    )


class TaskTable(Record):
    """Cells of a task: values along x as rows, layouts as columns.

    Attributes:
        head, columns: heads of the first column, and of the others.
        rows: the value, the cells (two lines and a style each) and the memory of each row.
        alone: whether there is one column, beside which memory is shown.
        note: what is left out; empty if nothing is.
    """

    head: str
    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str, str]], str]]
    alone: bool
    note: str


class Task(Record):
    """A task with the plans for it: the answer, its neighbours, chart and tables.

    Attributes:
        id: its anchor.
        name: the values of its dimensions; empty in a study with one task.
        cells: its cells.
        deadline: days; None without one.
    """

    _view: StudyView
    id: str
    name: str
    cells: list[Cell]
    deadline: float | None

    @cached_property
    def answer(self) -> TaskAnswer:
        """The cheapest plan in time, or without a deadline the knee; else the nearest to that.
        Plans that fit safely come before unknown and tight ones."""
        if len(self.cells) == 1 and self.cells[0].state != NO and self.deadline is None:
            return TaskAnswer(self.cells[0], "only", (self.cells[0],))
        if self.over_tasks and (fit := [c for c in self.cells if c.state != NO and c.drawn]):
            return TaskAnswer(fit[-1], "only", tuple(fit))
        groups = [[c for c in self.cells if c.state == state] for state in (FITS, OPEN, TIGHT)]
        drawn = [tuple(c for c in group if c.drawn) for group in groups]
        if self.deadline is not None:
            for group in drawn:
                if early := [c for c in find_front(group) if c.in_time]:
                    return TaskAnswer(early[0], "in time", group)
        for group in filter(None, drawn):
            ends = find_front(group)
            if self.deadline is not None:
                return TaskAnswer(ends[-1], "late", group)
            if best := find_knee(ends):
                return TaskAnswer(best, "knee", group)
            return TaskAnswer(ends[0], "both" if len(ends) == 1 else "cheapest", group)
        for found in filter(None, groups):
            return TaskAnswer(min(found, key=_get_memory), "room", tuple(found))
        return TaskAnswer(min(self.cells, key=_get_memory), "none", ())

    @cached_property
    def result(self) -> Result:
        """The answer, evaluated exactly as a plan of its own."""
        return evaluate_plan(self._view._study.build_plan(self.answer.cell.point))

    @property
    def within(self) -> str:
        """The deadline as text; empty without one."""
        return "" if self.deadline is None else trim_zeros(numbers.text(self.deadline, "days"))

    @cached_property
    def head(self) -> str:
        """The beginning of the sentence."""
        cheap = "Cheapest" if self._view.paid == COST else "Fewest GPU-hours"
        task = f" for {self.name}" if self.name else ""
        cost = "cost" if self._view.paid == COST else "GPU-hours"
        if self.answer.kind == "only":
            along = self.label_cell(self.answer.cell) if self.over_tasks else ""
            return headline(", ".join(filter(None, (self.name, along))) or "The plan")
        said = HEADS[self.answer.kind]
        return said.format(cheapest=cheap, task=task, deadline=self.within, cost=cost)

    @cached_property
    def subject(self) -> tuple[str, str]:
        """The plan of the answer: its devices, and the other axes."""
        plan, study = self.result.plan, self._view._study
        labels, said = study.label_point(self.answer.cell.point), []
        varied = [axis for axis in study.axes if len(axis.choices) > 1]
        if any(key.startswith(LAYOUT) for key in collect_keys(varied)) or study.searches:
            said.append(f"as {label_layout(plan.get, SAID)}")
        known = (*self._view._roles.tasks, *([self._view._roles.x or 0] if self.over_tasks else []))
        tasks = {axis.name for d in known for axis in study.dimensions[d]}
        for axis in varied:
            layout = all(k.startswith(f"{LAYOUT}.") or k == LAYOUT for k in axis.keys)
            if axis.name not in tasks and not layout and axis.keys != {DEVICES}:
                said.append(_name_value(axis, label_of(axis, labels[axis.name])))
        return format_devices(plan), ", ".join(said)

    @computed_field
    def lead(self) -> Parts:
        """The sentence in parts, each with its style: b, small or none."""
        devices, rest = self.subject
        parts = [(f"{self.head}: ", ""), (devices, "b")]
        parts += [(f"{' ' if rest.startswith('as ') else ', '}{rest}", "")] if rest else []
        fits = self.answer.cell.state != NO
        for quantity in (DAYS, self._view.paid) if fits else ():
            if (found := self.result.get(quantity)) is not None:
                parts += [(", ", ""), *build_interval(found, self._pick_unit(quantity))]
        memory, capacity = self.result.get(MEMORY), self.result.get(CAPACITY)
        if memory and capacity and not fits:
            parts += [
                (", which needs ", ""),
                *build_interval(memory),
                (f" of {format_quantity(capacity)}", ""),
            ]
        if self.answer.cell.state in (TIGHT, OPEN):
            parts.append((", tight" if self.answer.cell.state == TIGHT else ", memory open", ""))
        return [*parts, (".", "")]

    @property
    def said(self) -> str:
        """The sentence as plain text."""
        return join_parts(self.lead)

    def _pick_unit(self, quantity: str) -> str | None:
        """Return the unit of GPU hours; None for other quantities."""
        return UNITS[HOURS] if quantity == HOURS else None

    @computed_field
    def brief(self) -> str:
        """The answer in a few words, for the head of a chart."""
        head = self.head.replace(f" for {self.name}", "") if self.name else self.head
        values = [
            format_quantity(found, self._pick_unit(quantity))
            for quantity in ((DAYS, self._view.paid) if self.answer.cell.state != NO else (MEMORY,))
            if (found := self.result.get(quantity)) is not None
        ]
        return f"{head[:1].lower()}{head[1:]}: {', '.join([self.subject[0], *values])}"

    @cached_property
    def row(self) -> list[str]:
        """The answer as a row of a table."""
        cell, days = self.answer.cell, self.result.get(DAYS)
        kind = HEADS[self.answer.kind].partition("{task}")[0]
        head = kind.format(cheapest="Cheapest", deadline=self.within, cost="cost") or "–"
        text = "" if days is None else format_quantity(days)
        ends = days and days.interval and map(days.declared.text, days.interval)
        return [
            self.name,
            head,
            " ".join(filter(None, self.subject)),
            numbers.text(cell.days, style="table"),
            numbers.between(ends, text) if ends else "",
            self._view.format_amount(cell.paid) if cell.paid else "–",
            cell.gib,
            VERDICTS[STATES[cell.state] or "open"].mark,
        ]

    @computed_field
    def facts(self) -> list[Parts]:
        """The answer's neighbours, its memory, and whether its interval passes the deadline."""
        cell, found = self.answer.cell, []
        if cell.drawn:
            found += [*self._compare_nearby(), *self._describe_tight()]
        days = self.result.get(DAYS)
        if self.answer.kind == "in time" and days is not None and days.interval:
            worst = float(days.interval[1])
            if self.deadline is not None and worst > self.deadline:
                late = (numbers.text(worst, "days"), "b")
                found.insert(0, [("May miss the deadline: ", ""), late, (" at worst", "")])
        if days is not None and self.result.assumes_utilisation and days.alternative is not None:
            found.append(
                [("Predicted instead of assumed: ", ""), *build_interval(days.alternative)]
            )
        memory, capacity = self.result.get(MEMORY), self.result.get(CAPACITY)
        if memory is not None and capacity is not None and self.answer.kind != "none":
            worst_of = self.result.get(AT_WORST)
            if cell.state == OPEN:
                more = f"; {clean(self.result.verdict['reason'])}"
            else:
                more = f", {format_quantity(worst_of)} at worst" if worst_of is not None else ""
            found.append([("Memory: ", ""), (format_part(memory, capacity), "b"), (more, "")])
        return found

    def _compare_nearby(self) -> list[Parts]:
        """Compare the answer with the plans next to it along x, or along the front."""
        cell, along = self.answer.cell, self.along
        if along is None:
            row, word = find_front(self.answer.group), ("Next cheaper", "Next faster")
            texts = [""] * len(row)
        else:
            row, word = along, ("", "")
            texts = [self._name_cell(one) for one in row]
        if cell not in row:
            return []
        here, found = row.index(cell), []
        for place in (here - 1, here + 1):
            if not 0 <= place < len(row):
                continue
            other = row[place]
            said = word[place > here] or self._describe_step(cell, other) or texts[place]
            change = Fraction(other.paid or 0) / Fraction(cell.paid or 1) - 1
            percent = numbers.text(abs(change), style="share")
            than = "more expensive" if change > 0 else "cheaper"
            worth = f"{percent} {than}" if change else "same cost"
            time = numbers.text(other.days or 0, "days")
            found.append([(f"{said}: ", ""), (time, "b"), (", ", ""), (worth, "b")])
        return found

    def _describe_tight(self) -> list[Parts]:
        """Describe the cheapest plan that fits only tightly, if it is cheaper than the answer."""
        cell = self.answer.cell
        tight = [
            c for c in self.cells if c.state == TIGHT and c.drawn and c.in_time >= cell.in_time
        ]
        other = min(tight, key=_rank_cell, default=None)
        saved = 1 - (other.paid or 0) / (cell.paid or 1) if other else 0
        if other is None or cell.state == TIGHT or saved < 0.005:
            return []
        across = self._view._roles.columns
        column = [] if across is None else [self._column(across, self._view.place(other, across))]
        said = ", ".join(filter(None, (self._name_cell(other), *column)))
        days = numbers.text(other.days or 0, "days")
        worth = f"{numbers.text(saved, style='share')} cheaper"
        return [[(f"Cheaper, but tight: {said}, ", ""), (days, "b"), (", ", ""), (worth, "b")]]

    def _name_cell(self, cell: Cell) -> str:
        """Name a cell by its value along x, with the key."""
        x, text = self._view._roles.x, self.label_cell(cell)
        axes = self._view._study.dimensions[x or 0]
        if not text or len(axes) > 1 or not axes[0].numeric:
            return text
        return f"{text} devices" if axes[0].name == DEVICES else _name_value(axes[0], text)

    def _describe_step(self, cell: Cell, other: Cell) -> str:
        """Return "Twice the devices" or "Half the devices" if that is the step along x, else
        nothing."""
        view, x = self._view, self._view._roles.x
        assert x is not None
        axes = view._study.dimensions[x]
        if len(axes) != 1 or axes[0].name != DEVICES:
            return ""
        mine, theirs = (axes[0].choices[view.place(c, x)].label for c in (cell, other))
        if 2 * mine == theirs or mine == 2 * theirs:
            return "Twice the devices" if theirs > mine else "Half the devices"
        return ""

    def label_cell(self, cell: Cell) -> str:
        """Label a cell in the chart by its value along x."""
        x = self._view._roles.x
        if x is None:
            return ""
        axes, text = self._view._study.dimensions[x], self._view.at(x, self._view.place(cell, x))
        bare = all(axis.numeric for axis in axes) and not self.over_tasks
        return text.split(" ")[0] if bare else text[:24]

    @property
    def over_tasks(self) -> bool:
        """Whether x is the task itself, so that no value is best."""
        x = self._view._roles.x
        return x is not None and any(map(TASK.match, collect_keys(self._view._study.dimensions[x])))

    @computed_field
    def along(self) -> list[Cell] | None:
        """The cheapest cell at each value along x, of those as safe as the answer; None if a line
        through them has no meaning."""
        view, x = self._view, self._view._roles.x
        if x is None:
            return None
        axes = view._study.dimensions[x]
        if not all(axis.numeric for axis in axes) or self.over_tasks:
            return None
        best = _pick_best((view.place(cell, x), cell) for cell in self.answer.group if cell.drawn)
        found = [best[place] for place in sorted(best)]
        return found if 1 < len(found) <= MOST_JOINED else None

    @computed_field
    def chart(self) -> Plot | None:
        """Cost against days: all cells, a line, the deadline; None with fewer than two points."""
        drawn = [cell for cell in self.cells if cell.drawn]
        usable = [c.drawn for c in drawn if c.state != NO] or [c.drawn for c in drawn]
        points = [point for point in usable if point]
        if len(set(points)) < 2:
            return None
        inside, days = list(points), sorted(point[0] for point in points)
        late = self.deadline
        if late and days[0] / FAR < late < days[-1] * FAR:
            inside.append((late, points[0][1]))
        else:
            late = None
        unit = self._view.size
        names = "days of training", self._view.money
        plane = chart.Plane([(x, y / unit) for x, y in inside], names)

        def at(cell: Cell) -> chart.Point:
            assert cell.drawn is not None
            return cell.drawn[0], cell.drawn[1] / unit

        answer, ends = self.answer, self.along or find_front(self.answer.group)
        if self.over_tasks:
            ends = []
        shapes = {NO: chart.CROSS, TIGHT: chart.TRIANGLE, OPEN: "h0", FITS: "h0"}
        marks = {
            str(STATES[s]): plane.dots((at(c) for c in drawn if c.state == s), shapes[s])
            for s in shapes
        }
        chosen = answer.cell if answer.cell.drawn and answer.cell.state != NO else None
        plane.keep_free(map(at, ends if len(drawn) > MOST_FREE else drawn))
        if self.along:
            plane.keep_line_free(list(map(at, ends)))
        whisker = None
        if chosen is not None:
            interval = (one := self.result.get(DAYS)) and one.interval
            if interval:
                low, high = (plane.clamp_point((float(b), at(chosen)[1])) for b in interval)
                whisker = plane.x(low[0]), plane.x(high[0]), plane.y(low[1])
                plane.keep_free([low, high])
            name = self.subject[0] if self.along else self.label_cell(chosen) or self.subject[0]
        named = ends if len(ends) <= MOST_LABELS else [ends[0], ends[-1]]
        named = named or drawn[:: max(1, len(drawn) // MOST_LABELS)]
        wanted = [(at(c), self.label_cell(c)) for c in named if c != chosen and self.label_cell(c)]
        best = plane.place_labels([(at(chosen), name)], far=True) if chosen is not None else []
        outside = sum(not plane.is_inside(at(cell)) for cell in drawn)
        told = [f"{outside} that do not fit are outside the axes."] if outside else []
        if outside == 1:
            told = ["One that does not fit is outside the axes."]
        if missing := len(self.cells) - len(drawn):
            are = "is" if missing == 1 else "are"
            told.append(f"{missing} of no known time or cost {are} not drawn.")
        if self.deadline and late is None:
            side = "longer" if self.deadline < days[0] else "less"
            told.append(f"All take {side} than the {self.within} allowed.")
        few = ends if len(ends) <= MOST_ROWS else []
        return Plot(
            plane.axes,
            marks={state: path for state, path in marks.items() if path},
            line=plane.draw_line(list(map(at, ends)), steps=self.along is None),
            ends=[Label(*plane.at(at(c)), self._describe_cell(c)) for c in few],
            chosen=None if chosen is None else plane.at(at(chosen)),
            labels=plane.place_labels(wanted),
            best=best,
            whisker=whisker,
            late=None if late is None else (plane.x(late), f"later than {self.within}"),
            said=" ".join(told),
        )

    def _describe_cell(self, cell: Cell) -> str:
        """Describe a cell, for its tooltip."""
        paid = format_amount(cell.paid or 0, self._view.unit)
        return f"{self.label_cell(cell)}: {numbers.text(cell.days or 0, 'days')}, {paid}"

    @computed_field
    def tables(self) -> list[TaskTable]:
        """All cells as tables: values along x as rows, layouts as columns, as many at once as fit
        on a phone."""
        view, role = self._view, self._view._roles
        x, across = role.x, role.columns
        at = ([0 if d is None else view.place(c, d) for d in (x, across)] for c in self.cells)
        best = _pick_best(zip(map(tuple, at), self.cells, strict=True))
        rows = range(1 if x is None else view._study.shape[x])
        places = range(1 if across is None else view._study.shape[across])
        heads = [self._column(across, p) for p in places]
        firsts = {
            r: min((best[r, p] for p in places if (r, p) in best), key=_rank_cell, default=None)
            for r in rows
        }
        chosen = self.answer.cell
        kept = [r for r in rows if r < MOST_ROWS or (x is not None and r == view.place(chosen, x))]
        found, note = list[TaskTable](), ""
        head = _format_heading(view.name_dimension(x) if x is not None else "")
        for start in range(0, len(places), MOST_COLUMNS):
            some = places[start : start + MOST_COLUMNS]
            body = [
                (
                    view.at(x, r) if x is not None else "",
                    [self._build_cell(best.get((r, p)), chosen, firsts[r]) for p in some],
                    f.gib if (f := firsts[r]) else "–",
                )
                for r in kept
            ]
            if len(kept) < len(rows) and some[-1] == places[-1]:
                note = f"{len(kept)} of {len(rows)} rows are shown; the table has all."
            found.append(TaskTable(head, [heads[p] for p in some], body, across is None, note))
        return found

    def _column(self, across: int | None, place: int) -> str:
        """Return the head of a column."""
        if across is None:
            return f"Days, and {self._view.money}"
        text, axes = self._view.at(across, place), self._view._study.dimensions[across]
        return _name_value(axes[0], text) if len(axes) == 1 and axes[0].numeric else text

    def _build_cell(
        self, cell: Cell | None, chosen: Cell, first: Cell | None
    ) -> tuple[str, str, str]:
        """Build a cell of a table: two lines and a style.

        Args:
            cell: the best point of row and column; None if there is none.
            chosen: the answer of the task.
            first: the best cell of the row.
        """
        if cell is None:
            return "–", "", "none"
        memory = f"{cell.gib} GiB" if cell.memory else ""
        if cell.state == NO:
            return "×", memory, "no near" if cell is chosen else "no"
        mark = "△ " if cell.state == TIGHT else ""
        look = "" if cell.in_time else "late"
        if cell is chosen:
            look = "win"
        elif cell is first and cell.state == FITS:
            look = f"first {look}".strip()
        if cell.days is None:
            return mark + (memory or "open"), "", look
        paid = self._view.format_amount(cell.paid) if cell.paid else memory
        return mark + numbers.text(cell.days, style="table"), paid, look


def build_task(view: StudyView, places: tuple[int, ...]) -> Task:
    """Build a task; ``places`` are its index along each dimension of tasks."""
    pairs = [*zip(view._roles.tasks, places, strict=True)]
    deadlines = view._study.deadlines
    place = places[0] if view._roles.tasks and view._roles.tasks[0] == 0 else 0
    found = deadlines[place] if len(deadlines) > 1 else next(iter(deadlines), None)
    return Task(
        view,
        id=f"task-{'-'.join(map(str, places))}".rstrip("-"),
        name=", ".join(view.at(d, place) for d, place in pairs),
        cells=[cell for cell in view.cells if all(view.place(cell, d) == p for d, p in pairs)],
        deadline=None if found is None else float(found),
    )


def _rank_cell(cell: Cell) -> tuple[float, ...]:
    """Return the sort key of a cell: safe and in time first, then cheap."""
    rank = (FITS, OPEN, TIGHT, NO).index(cell.state)
    if cell.state == NO or cell.paid is None:
        return rank, not cell.in_time, cell.memory or math.inf
    return rank, not cell.in_time, cell.paid


def _pick_best(cells: Iterable[tuple[Any, Cell]]) -> dict[Any, Cell]:
    """Pick the first of the best cells at each place."""
    best: dict[Any, Cell] = {}
    for place, cell in cells:
        best[place] = min(best.get(place, cell), cell, key=_rank_cell)
    return best


def _get_memory(cell: Cell) -> float:
    """Return the memory of a cell, infinite where it is unknown."""
    return math.inf if cell.memory is None else cell.memory


def _of(quantity: str) -> Callable[[Sequence[Any]], float | None]:
    """Return the function that reads a quantity of a stored cell."""
    place = 3 + summary.DRAWN.index(quantity)
    return lambda kept: kept[place]


def format_devices(plan: Plan) -> str:
    """Format the devices of a plan: 64 × H100."""
    name = clean(plan.get("cluster.accelerator.name") or "device").partition(",")[0]
    for vendor in VENDORS:
        name = name.removeprefix(vendor)
    words = name.split(" ")
    numbered = next((i for i, word in enumerate(words) if any(map(str.isdigit, word))), len(words))
    return f"{exact_text(plan.get(DEVICES))} × {' '.join(words[: numbered + 1])}"


def _format_heading(key: str) -> str:
    """Format a key as the head of its values."""
    return headline(key.split(".")[-1].replace("_", " "))


def label_of(axis: StudyAxis, value: Any) -> str:
    """Format a value of an axis."""
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        unit = str(about(axis.name).get("unit", "1")) if axis.numeric else "1"
        return trim_zeros(numbers.text(value, unit))
    return clean(value, 80)


def _name_value(axis: StudyAxis, text: str) -> str:
    """Format a value with its key, unless the value names it."""
    key = clean(axis.name).split(".")[-1].replace("_", " ")
    return text if text.endswith(key) else f"{key} {text.removesuffix(' sequences')}"


def render_study(outcome: StudyOutcome, kind: str = "html") -> str:
    """Format the comparison as one HTML file without scripts or requests, or as ``md`` for
    GitHub."""
    render = render_md if kind == "md" else render_page
    return render(f"study.{kind}.jinja", view=build_study_view(outcome))


#: Tasks whose plans a terminal lists.
LISTED = 3


def format_study(outcome: StudyOutcome) -> str:
    """Format the comparison for a terminal, at the end of a sweep."""
    view = build_study_view(outcome)
    lead = view.lead
    out = wrap_text("No plan can be evaluated." if lead is None else lead.said)
    for fact in [] if lead is None else lead.facts:
        out += wrap_text(join_parts(fact), "  ")
    out += ["", *wrap_text(f"{view.plans}; {view.sentence}.")]
    if view.answers is not None:
        rows = [
            [task.row[0], task.row[2].partition(" as ")[0], *task.row[3:]] for task in view.tasks
        ]
        out += ["", *columns([["", *view.answers.head[2:]], *rows], right=(2, 4, 5))]
    else:
        for task in view.tasks[::-1][:LISTED]:
            out += ["", *lines] if (lines := _list_best(task)) else []
    if not view.tasks:
        out += ["", *(f"{count} × {reason}" for count, reason in view.reasons[:3])]
    out += ["", *wrap_text(view.basis)] if view.basis else []
    return "\n".join(out) + "\n"


def _list_best(task: Task) -> list[str]:
    """List the best plan at each value along x, for a terminal."""
    view, row = task._view, task.along or find_front(task.answer.group)
    if not row:
        return []
    layout = view._roles.columns
    head = [
        task.name or "Plans",
        "days",
        view.money,
        "GiB",
        *([_format_heading(view.name_dimension(layout))] if layout is not None else []),
    ]
    rows = [
        [
            f"{'>' if cell is task.answer.cell else ' '} {task.label_cell(cell)}",
            numbers.text(cell.days, style="table"),
            view.format_amount(cell.paid or 0),
            cell.gib,
            *([view.at(layout, view.place(cell, layout))] if layout is not None else []),
        ]
        for cell in row[:MOST_ROWS]
    ]
    return columns([head, *rows], right=(1, 2, 3))


def write_study(outcome: StudyOutcome, path: str) -> None:
    """Write the comparison atomically, in the format of its ending.

    Raises:
        PlanError: another ending, or a place that cannot be written.
    """
    write_text(path, render_study(outcome, format_of(path, COMPARISONS, "comparison")))
