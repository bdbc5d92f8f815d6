"""One step over time, simulated pass by pass: what each stage does and waits for, in words and as
figures."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter

from planner.base import numbers
from planner.base.errors import PlanError
from planner.base.numbers import format_column, format_shares
from planner.base.sandbox import Record, computed_field
from planner.report import lanes
from planner.report.elements import Table
from planner.report.lanes import ORDER
from planner.report.layout import CALLED, LEGEND, LOOKS
from planner.results.durations import COMPUTE, HOST, LINK, NETWORK, SLOTS
from planner.results.result import Result
from planner.results.rl_step import DRAIN, REPLICA_LANES, simulate_plan
from planner.results.timeline import Span, Timeline, simulate_step

MOST = 16  # lanes that are seen at once
WORK, IDLE = "at work", "idle in the pipeline bubble"
SPACE = "\u00a0"  # at which no line ends
ALIKE = 0.002  # of a step, by which stages differ that share a row
_ALIKE = numbers.trim_zeros(numbers.text(ALIKE, style="share"))
SHARED = f"Stages that differ by less than {_ALIKE} of the step share a row."

#: Of a plan whose own step is assumed.
ASSUMED = " The plan's time is assumed (time.use); this is the step that is predicted."


def build_step_view(result: Result, section: str = "time") -> StepView | None:
    """Simulate the step that a section of a report is about; None if it is about none, or if that
    is impossible."""
    with suppress(PlanError):
        if section == "time":
            note = ASSUMED if result.assumes_utilisation else ""
            return StepView(simulate_step(result), note, result.plan.reinforced)
        if section == "reinforcement-learning":
            return RlStepView(simulate_plan(result))
    return None


class StepView(Record):
    """A simulated step over time, for a report."""

    _timeline: Timeline
    _note: str = ""
    _inner: bool = False  # whether it is one of several in a step of reinforcement learning
    _id: str = "timeline"

    @computed_field
    def title(self) -> str:
        """Its heading."""
        step = "optimizer step" if self._inner else "step"
        return f"One {step} of {numbers.text(self._timeline.seconds, 's')} over time"

    @computed_field
    def said(self) -> list[str]:
        """What the busiest stage does, what the critical path is made of, and how long it takes."""
        length = f"Simulated pass by pass, {_compare_seconds(self._timeline)}{self._note}"
        return [self._describe_stage(), self._describe_path(), length]

    @cached_property
    def _busiest(self) -> int:
        """The stage that computes longest, counted from 0."""
        return max(range(self._timeline.stages), key=self._timeline.busy.__getitem__)

    @cached_property
    def _spans(self) -> list[list[Span]]:
        """What each stage does."""
        spans = (span for span in self._timeline.spans if span.stream != SLOTS)
        return [list(found) for _, found in groupby(spans, itemgetter(0))]

    def _sum_parts(self, stage: int) -> dict[str, float]:
        """Return the seconds of a stage: work, exposed communication by kind, idle time."""
        of = self._timeline
        return {WORK: of.busy[stage], **of.exposed[stage], IDLE: of.idle[stage]}

    def _describe_stage(self) -> str:
        """Describe how the busiest stage spends the step."""
        which = (
            f"Stage {self._busiest + 1}, the busiest" if self._timeline.stages > 1 else "The step"
        )
        return f"{which}: {_list_parts(self._sum_parts(self._busiest))}."

    def _describe_path(self) -> str:
        """Describe the work on the critical path, and the stage with most of it."""
        of, reached = self._timeline, 0.0
        spent, where = defaultdict[str, float](float), defaultdict[int, float](float)
        for span in of.critical:
            if span.start > reached:  # a part of what the stage computes meanwhile, or nothing
                spent[self._find_work(span)] += span.start - reached
            spent[span.work] += span.end - max(span.start, reached)
            where[span.stage] += span.end - reached
            reached = span.end
        parts = {CALLED.get(work, work): seconds for work, seconds in spent.items()}
        stage, most = max(where.items(), key=lambda item: item[1])
        on = f", {numbers.text(most, 's')} of it on stage {stage + 1}" if of.stages > 1 else ""
        return f"The critical path{on}: {_list_parts(parts)}."

    @cached_property
    def _work(self) -> list[list[Span]]:
        """The work of each stage, in the order of time."""
        return [[span for span in spans if span.work in LOOKS] for spans in self._spans]

    def _find_work(self, span: Span) -> str:
        """Return the work of a stage at the start of a span."""
        work = self._work[span.stage]
        before = bisect_left(work, span.start, key=attrgetter("start")) - 1
        runs = before >= 0 and work[before].end >= span.start
        return work[before].work if runs else "waiting"

    @computed_field
    def table(self) -> Table:
        """Work, communication and idle time by stage; similar neighbours share a row."""
        of, rows = self._timeline, list[tuple[list[int], dict[str, float]]]()
        for stage in range(of.stages):
            parts = self._sum_parts(stage)
            last = rows[-1][1] if rows else {}
            apart = (abs(last.get(n, 0) - parts.get(n, 0)) for n in last.keys() | parts.keys())
            if rows and max(apart) < ALIKE * of.seconds:
                rows[-1][0].append(stage + 1)
            else:
                rows.append(([stage + 1], parts))
        kinds = [name for _, parts in rows for name in parts if name not in (WORK, IDLE)]
        names = [WORK, *dict.fromkeys(kinds), IDLE]
        unit, texts = format_column(
            [parts.get(name, 0.0) for _, parts in rows for name in names], "s"
        )
        said = [f"{s[0]} to {s[-1]}" if len(s) > 1 else str(s[0]) for s, _ in rows]
        size = len(names)
        return Table(
            title=f"The step of each stage, {unit}: work, exposed communication, idle time",
            head=[
                "Stage",
                *(name.removesuffix(" exchange").partition(" in ")[0] for name in names),
            ],
            rows=[[name, *texts[i * size : (i + 1) * size]] for i, name in enumerate(said)],
            note=SHARED if len(rows) < of.stages else "",
            style="num",
        )

    @cached_property
    def _axis(self) -> lanes.TimeAxis:
        """The axis of time that all lanes share."""
        return lanes.choose_axis(self._timeline, self._spans)

    @cached_property
    def _lanes(self) -> list[lanes.Lane]:
        """One lane per stage, or per stream of a single stage."""
        if self._timeline.stages > 1:
            names = self._timeline.names or [f"stage {i + 1}" for i in range(len(self._spans))]
            named = [*zip(names, self._spans, strict=True)]
        else:
            streams = (COMPUTE, LINK, NETWORK, HOST)
            named = [(name, [s for s in self._spans[0] if s.stream == name]) for name in streams]
        return [lanes.build_lane(name, spans, self._axis) for name, spans in named if spans]

    @computed_field
    def figures(self) -> list[lanes.LanesFigure]:
        """The lanes; of many first the outer stages and the busiest, then the others."""
        count = len(self._lanes)
        seen = list(range(count))
        if count > MOST:
            seen = sorted({0, 1, self._busiest, count - 2, count - 1})
        rest = [number for number in range(count) if number not in seen]
        given = self._timeline, self._axis, self._lanes
        first = lanes.draw_lanes(*given, seen, self._id)
        return [first, lanes.draw_lanes(*given, rest, "timeline-rest")] if rest else [first]

    @computed_field
    def legend(self) -> list[tuple[str, str]]:
        """The looks in use, each with its time per micro-batch on the busiest stage."""
        spent, batches = defaultdict[str, float](float), set()
        for span in self._spans[self._busiest]:
            if span.micro_batch is not None and span.work in LOOKS:
                spent[LOOKS[span.work]] += span.end - span.start
                batches.add(span.micro_batch)
        rows = []
        for look in ORDER:
            runs = [run for lane in self._lanes for run in lane.runs.get(look, [])]
            if any(end - start > lanes.UNITS for start, end in runs):  # others nobody sees
                each, words = spent[look] / len(batches), LEGEND.get(look, look)
                if look == "exchange" and self._timeline.stages == 1:
                    words = look  # in a lane of its own, beside passes or between them
                text = f"{words}, {numbers.text(each, 's')} a micro-batch" if each else words
                rows.append((look, text))
        found = sorted(self._timeline.idle)
        idle = list(dict.fromkeys(numbers.text(each, "s") for each in found))
        if found[-1] * 10**6 > self._timeline.seconds:  # less is left of sums of doubles
            spans = f"{idle[0]} to {idle[-1]}" if len(idle) > 1 else idle[0]
            rows.append(("idle", f"idle, {spans} of a stage"))
        return rows

    @computed_field
    def break_said(self) -> str:
        """A sentence about what the lanes leave out."""
        axis = self._axis
        gone = numbers.text(axis.end - axis.start, "s") if axis.batches else ""
        said = f"The break leaves out {gone}, {axis.batches} micro-batches that pass alike."
        return said if axis.batches else ""


class RlStepView(StepView):
    """A simulated step of reinforcement learning over time: lanes of replicas and of roles."""

    _id: str = "roles"

    @computed_field
    def title(self) -> str:
        """Its heading."""
        return f"One step of all phases, {numbers.text(self._timeline.seconds, 's')}, over time"

    @computed_field
    def said(self) -> list[str]:
        """How long each lane works, when requests wait, and how long the step takes."""
        of = self._timeline
        lanes = zip(of.names, of.busy, strict=True)
        busy = ", ".join(f"{name} {numbers.text(seconds, 's')}" for name, seconds in lanes)
        tail = sum(s.end - s.start for s in self._spans[self._slowest] if s.work == DRAIN)
        late = f"No request waits for a slot in the last {numbers.text(tail, 's')} of the rollout"
        both = "Of the engine's replicas, the quickest and the slowest are shown. "
        return [
            f"{both if self._slowest else ''}At work: {busy}. {late}.",
            f"Simulated request by request, {_compare_seconds(of)}",
        ]

    @cached_property
    def _slowest(self) -> int:
        """The lane of the engine's slowest replica."""
        return int(self._timeline.names[:2] == REPLICA_LANES)

    @computed_field
    def table(self) -> Table:
        """No table: sums of the section have its numbers."""
        return Table("", [], [])

    @computed_field
    def legend(self) -> list[tuple[str, str]]:
        """The looks in use, each with the works that it stands for."""
        works = dict.fromkeys(span.work for spans in self._spans for span in spans)
        named = {look: [work for work in works if LOOKS[work] == look] for look in ORDER}
        return [(look, ", ".join(those)) for look, those in named.items() if those]


def _compare_seconds(timeline: Timeline) -> str:
    """Compare the simulated seconds of a step with those of the closed form."""
    more = timeline.closed / timeline.seconds - 1
    took = f"the step takes {numbers.text(timeline.seconds, 's')}"
    if abs(more) < 5e-4:
        return f"{took}, as the formula of a step says."
    closed, change = numbers.text(timeline.closed, "s"), numbers.text(more, style="change")
    return f"{took}; the formula, which this report uses, says {closed} ({change})."


def _list_parts(parts: Mapping[str, float]) -> str:
    """Format seconds by name with shares that add up as printed; zero shares are left out."""
    unit, texts = format_column(list(parts.values()), "s")
    rows = zip(parts, texts, format_shares(list(parts.values())), strict=True)
    listed = [
        f"{name} {text}{SPACE}{unit} ({share}{SPACE}%)"
        for name, text, share in rows
        if share != "0.0"
    ]
    return ", ".join(listed)
