"""One optimizer step as events: what each stage of a pipeline does when, and what it waits for.

Stages run the passes in the order of their schedule (planner/plans/schedules.py), each for the
book's duration (planner/results/durations.py); the inputs of a pass arrive when another stage has
sent them. Bubbles, exposed communication and the effect of a slow stage follow. A device does one
thing at a time on each of its streams: ``compute``, the ``link`` inside its node, the ``network``
and its ``host``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from planner.base.errors import PlanError
from planner.plans.schedules import BACKWARD, FORWARD, INPUT, WEIGHT, Pass, Place, run_passes
from planner.results import pieces
from planner.results.durations import COMPUTE, StepData, read_step
from planner.results.result import Result

#: Names of passes in a timeline.
WORK = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT: "input gradient",
    WEIGHT: "weight gradient",
}


class Span(NamedTuple):
    """One activity of a stage on one of its streams.

    Attributes:
        stage: from 0 on.
        stream: compute, link, network, host or slot.
        work: forward, backward, input gradient, weight gradient, recompute, send, reduce, …
        micro_batch: from 0 on; None for what belongs to none.
        chunk: of those that the device holds, from 0 on.
        start: seconds from the start of the step.
        end: seconds from the start of the step.
    """

    stage: int
    stream: str
    work: str
    micro_batch: int | None
    chunk: int | None
    start: float
    end: float


class Timeline(NamedTuple):
    """A simulated step; at any time each stage is busy, idle or waits for exposed communication.

    Attributes:
        schedule: its name.
        stages: how many.
        spans: those of one stream of one stage in the order of time.
        seconds: of the step.
        closed: what the closed form gives for it, ``time.step_seconds``.
        busy: seconds of each stage at work, without traffic that it waits for.
        idle: seconds of each stage in which it waits for others: the bubble.
        exposed: seconds of traffic that each stage waits for, by the names of
            ``Result.step_parts``.
        critical: what the length of the step follows from, first to last.
        memory: of each stage the times (s) at which it changes, with the bytes from then on.
        capacity: bytes of a device.
        layers: what one forward pass of each layer kind, embedding and head is made of.
        names: of the lanes that stand for stages in a step of reinforcement learning.
    """

    schedule: str
    stages: int
    spans: tuple[Span, ...]
    seconds: float
    closed: float
    busy: tuple[float, ...]
    idle: tuple[float, ...]
    exposed: tuple[Mapping[str, float], ...] = ()
    critical: tuple[Span, ...] = ()
    memory: tuple[tuple[tuple[float, float], ...], ...] = ()
    capacity: float = 0.0
    layers: tuple[tuple[str, tuple[pieces.PassSpan, ...]], ...] = ()
    names: tuple[str, ...] = ()


def simulate_step(result: Result, slow: Mapping[int, float] | None = None) -> Timeline:
    """Simulate one step of an evaluated plan.

    Args:
        slow: stages, from 0 on, whose passes take so many times as long.

    Raises:
        PlanError: the plan has no step to simulate: inference, a model without a shape, or too many
            passes.
    """
    found = run_step(_prepare_step(result, slow or {}))
    result = _predict_time(result)
    parts = [
        (part.title, pieces.simulate_forward(result, part)) for part in result.list_entries("part")
    ]
    return found._replace(layers=tuple(parts))


def simulate_seconds(result: Result) -> float:
    """Simulate a step for its duration only, in a fraction of the time of a timeline.

    Raises:
        PlanError: the plan has no step to simulate.
    """
    return _Run(_prepare_step(result, {}), told=False).run_to_end()[0]


def _predict_time(result: Result) -> Result:
    """Return the plan with its time predicted: an assumed utilisation gives no time of a pass."""
    return result.alternative or result if result.assumes_utilisation else result


def _prepare_step(result: Result, slow: Mapping[int, float]) -> StepData:
    """Return the data of the step of an evaluated plan."""
    result = _predict_time(result)
    reason = result["time.step_seconds"].absent
    if result.plan.settings["training.mode"] != "train":
        reason = "inference has no training step"
    elif result.plan.model is None:
        reason = "the model is given by its size only"
    if reason is not None:
        raise PlanError(f"no step can be simulated: {reason}", None)
    try:
        return read_step(result, slow)
    except ValueError as error:  # more passes than anybody looks at
        raise PlanError(f"no step can be simulated: {error}", None) from None


def run_step(step: StepData) -> Timeline:
    """Run a step: return its timeline, from the durations of its passes and communication."""
    return _Run(step).build_timeline()


class _Sent(NamedTuple):
    """Data-parallel communication in progress, and the number of its span."""

    work: str
    start: float
    end: float
    number: int


class _Run:
    """A step in progress: the state of each stage, and what was sent; with ``told``, also a record
    of all spans and what each waited for."""

    def __init__(self, of: StepData, told: bool = True) -> None:
        """Prepare a run of a step.

        Args:
            of: durations in seconds, by stage and chunk.
            told: whether spans are recorded; a search needs only how long the step takes.
        """
        self.of, self.told, size = of, told, len(of.chunks)
        #: All spans, and for each the one that it waited for; empty unless ``told``.
        self.spans: list[Span] = []
        self.after: list[int] = []
        #: Of each stage: from when on its device is free, and after which span.
        self.free, self.last = [0.0] * size, [-1] * size
        self.busy = [0.0] * size
        self.exposed: list[dict[str, float]] = [defaultdict(float) for _ in range(size)]
        #: When and after which span (stage, chunk, forward?, micro-batch) has what it needs.
        self.arrived: dict[tuple[int, int, bool, int], tuple[float, int]] = {}
        #: The last traffic of data parallelism of each stage; and that of weights, by chunk.
        self.through: list[_Sent | None] = [None] * size
        self.gathered: dict[Place, _Sent] = {}
        #: What of that may still be on its way, and for how long there was work beside.
        self.traffic: list[list[_Sent]] = [[] for _ in range(size)]
        self.beside = [0.0] * size
        self.kept = [0.0] * size  # bytes of activations
        self.memory = [[(0.0, of.base[stage][True])] for stage in range(size)]
        #: Seconds of each kind of pass over each chunk.
        kinds = (FORWARD, BACKWARD, INPUT, WEIGHT)
        self.takes = [
            {
                (number, kind): chunk.get_seconds(kind)
                for number, chunk in chunks.items()
                for kind in kinds
            }
            for chunks in of.chunks
        ]
        #: Passes that are still to add to the gradients of a chunk, where these travel beside them.
        self.adding = Counter(
            (stage, one.chunk)
            for stage, order in enumerate(of.schedule.orders if of.reduces_beside else ())
            for work in order
            for one in (work, work.beside)
            if one is not None and one.kind in (BACKWARD, WEIGHT)
        )
        #: The next and the previous chunk on the way of a micro-batch.
        self.behind, self.before = of.schedule.find_neighbours()

    def run_to_end(self) -> tuple[float, int]:
        """Run the step; return its end, and its last span."""
        if self.of.gathers_first:
            self._gather_weights()
        run_passes(self.of.schedule, self._try_pass)
        if self.told:
            self._count_times()
        return self._run_tail()

    def build_timeline(self) -> Timeline:
        """Run the step, and return its timeline."""
        seconds, last = self.run_to_end()
        size = len(self.of.chunks)
        idle = [
            max(0.0, seconds - self.busy[stage] - sum(self.exposed[stage].values()))
            for stage in range(size)
        ]
        path = []
        while last >= 0:
            path.append(self.spans[last])
            last = self.after[last]
        return Timeline(
            schedule=self.of.schedule.name,
            stages=size,
            spans=tuple(sorted(self.spans, key=itemgetter(0, 1, 5))),
            seconds=seconds,
            closed=self.of.closed,
            busy=tuple(self.busy),
            idle=tuple(idle),
            exposed=tuple({k: v for k, v in one.items() if v > 0} for one in self.exposed),
            critical=tuple(reversed(path)),
            memory=tuple(map(tuple, self.memory)),
            capacity=self.of.capacity,
        )

    def _add_span(self, after: int, *span: Any) -> int:
        """Add a span that waited for another one; return its number, -1 without a record."""
        if not self.told:
            return -1
        self.spans.append(tuple.__new__(Span, span))  # quicker by half than Span(*span)
        self.after.append(after)
        return len(self.spans) - 1

    def _count_times(self) -> None:
        """Count each stage's time in its passes, and its waits for communication within them."""
        for stage, order in enumerate(self.of.schedule.orders):
            both = chain(order, (one.beside for one in order if one.beside is not None))
            for (number, kind), times in Counter((one.chunk, one.kind) for one in both).items():
                chunk = self.of.chunks[stage][number]
                shown = {} if kind == WEIGHT else chunk.exposed[kind != FORWARD]
                self.busy[stage] += times * (chunk.get_seconds(kind) - sum(shown.values()))
                for name, waited in shown.items():
                    self.exposed[stage][name] += times * waited

    def _try_pass(self, stage: int, work: Pass) -> bool:
        """Run a pass, and the one beside it, if what they need has arrived."""
        pair = (work,) if work.beside is None else (work, work.beside)
        start, after = self.free[stage], self.last[stage]
        for kind, chunk, batch, _ in pair:
            if kind != WEIGHT:
                found = self.arrived.get((stage, chunk, kind == FORWARD, batch))
                if found is None:
                    if kind != FORWARD or (stage, chunk) in self.before:
                        return False
                elif found[0] > start:
                    start, after = found
                if kind == FORWARD and (weights := self.gathered.get((stage, chunk))):
                    # those of its first layers, before it begins
                    begin = weights.start + (weights.end - weights.start) / self.of.buckets
                    if begin > start:
                        start, after = begin, weights.number
        if self.told and start > self.free[stage]:
            on = self.spans[after]  # communication for as long as it took, the rest is idle
            if on.work in self.of.names:
                waited = min(start - self.free[stage], on.end - on.start)
                self.exposed[stage][self.of.names[on.work]] += waited
        ready = []
        for one in pair:  # those beside each other are through together
            start, after = self._run_pass(stage, one, start, after)
            ready.append(after)
        self.free[stage], self.last[stage] = start, after
        for one, number in zip(pair, ready, strict=True):
            self._pass_on(stage, one, start, number)
        return True

    def _run_pass(self, stage: int, one: Pass, start: float, after: int) -> tuple[float, int]:
        """Run one pass on the device of a stage; return its end, and its span."""
        kind, number, *_ = one
        if self.told:
            self._record_memory(stage, start, one)
        took = self.takes[stage][number, kind]
        if self.adding and kind not in (FORWARD, INPUT):
            self._reduce_beside(stage, one, start, after)
        now = start + took
        if kind == FORWARD and (weights := self.gathered.pop((stage, number), None)):
            # those of its last layers, before it works on these
            late = weights.end + took / self.of.buckets
            if late > now:
                self.exposed[stage][self.of.names["gather"]] += late - now
                now, after = late, weights.number
        if self.traffic[stage]:
            self._record_overlap(stage, start, now)
        return now, self._record_spans(stage, one, start, now, after) if self.told else after

    def _record_spans(self, stage: int, one: Pass, start: float, now: float, after: int) -> int:
        """Record the spans of a pass; return the last."""
        kind, number, batch, _ = one
        chunk = self.of.chunks[stage][number]
        for stream, works, each in chunk.travels[kind != FORWARD] if kind != WEIGHT else ():
            for work, begin in zip(works, (start, now - each), strict=False):
                span = (stage, stream, work, batch, number, begin, begin + each)
                self._add_span(after, *span)
        if chunk.again and kind in (BACKWARD, INPUT):
            middle = start + chunk.again
            after = self._add_span(after, stage, COMPUTE, "recompute", batch, number, start, middle)
            start = middle
        return self._add_span(after, stage, COMPUTE, WORK[kind], batch, number, start, now)

    def _reduce_beside(self, stage: int, one: Pass, start: float, after: int) -> None:
        """Reduce the gradients that a pass adds to, as soon as they are complete."""
        of, took, place = self.of, self.takes[stage][one.chunk, one.kind], (stage, one.chunk)
        self.adding[place] -= 1
        whole = not self.adding[place]
        if whole or of.reduces_each:
            pieces = of.buckets if whole else 1
            for piece in range(pieces):
                ready = start + (piece + 1) * took / pieces
                self._reduce_piece(stage, one.chunk, ready, pieces, after)

    def _record_overlap(self, stage: int, start: float, end: float) -> None:
        """Record for how long a pass overlaps with data-parallel communication."""
        on_its_way = [span for span in self.traffic[stage] if span.end > start]
        self.traffic[stage] = on_its_way
        for span in on_its_way:
            self.beside[stage] += max(0.0, min(end, span.end) - max(start, span.start))

    def _pass_on(self, stage: int, one: Pass, end: float, number: int) -> None:
        """Send the output of a pass to the stage that needs it."""
        of, (kind, chunk, batch, _) = self.of, one
        if kind == WEIGHT:
            return
        here, forward = (stage, chunk), kind == FORWARD
        there = (self.behind if forward else self.before).get(here)
        if there is None:
            if forward:  # to the loss, and back
                self.arrived[*here, False, batch] = end, number
            return
        if there[0] != stage and of.send:
            start, end = end, end + of.send
            number = self._add_span(number, stage, of.sends, "send", batch, chunk, start, end)
            until = start + of.waits * (end - start)
            if until > self.free[stage]:  # it waits for what it sends, or works slower beside it
                self.exposed[stage][of.names["send"]] += until - self.free[stage]
                self.free[stage] = until
                self.last[stage] = number if of.waits == 1 else self.last[stage]
        self.arrived[*there, forward, batch] = end, number

    def _record_memory(self, stage: int, start: float, one: Pass) -> None:
        """Record the memory of a device from the beginning of a pass on."""
        chunk = self.of.chunks[stage][one.chunk]
        if one.kind == FORWARD:
            self.kept[stage] += chunk.kept
        again = chunk.held_again if one.kind in (BACKWARD, INPUT) else 0.0
        held = self.kept[stage] + again + self.of.base[stage][one.kind == FORWARD]
        self.memory[stage].append((start, held))
        if one.kind in (BACKWARD, WEIGHT):
            self.kept[stage] -= chunk.kept

    def _travel(
        self, after: int, stage: int, work: str, chunk: int | None, ready: float, seconds: float
    ) -> _Sent:
        """Send data-parallel communication, after what is in progress."""
        before = self.through[stage]
        if before is not None and before.end > ready:
            after, ready = before.number, before.end
        sent = self._sent(after, stage, self.of.shares, work, chunk, ready, seconds)
        self.through[stage] = sent
        self.traffic[stage].append(sent)
        return sent

    def _sent(
        self,
        after: int,
        stage: int,
        stream: str,
        work: str,
        chunk: int | None,
        start: float,
        seconds: float,
    ) -> _Sent:
        """Record communication that belongs to no micro-batch."""
        end = start + seconds
        return _Sent(
            work, start, end, self._add_span(after, stage, stream, work, None, chunk, start, end)
        )

    def _reduce_piece(self, stage: int, chunk: int, ready: float, pieces: int, after: int) -> None:
        """Reduce a piece of the gradients of a chunk."""
        of = self.of
        seconds = of.reduce[stage] * of.parted[stage][chunk] / pieces
        seconds /= of.turns if of.reduces_each else 1
        if seconds:
            self._travel(after, stage, "reduce", chunk, ready, seconds)

    def _gather_weights(self) -> None:
        """Gather the weights of all chunks, in the order in which they are needed."""
        of = self.of
        for stage, order in enumerate(of.schedule.orders):
            for chunk in dict.fromkeys(one.chunk for one in order if one.kind == FORWARD):
                seconds = of.gather[stage] * of.parted[stage][chunk]
                if seconds:
                    self.gathered[stage, chunk] = self._travel(
                        -1, stage, "gather", chunk, 0.0, seconds
                    )

    def _run_tail(self) -> tuple[float, int]:
        """Run what follows the passes; return the end of the step, and its last span."""
        of, size = self.of, len(self.free)
        for stage, seconds in enumerate(of.reduce):
            if seconds and not of.reduces_beside:
                self._travel(self.last[stage], stage, "reduce", None, self.free[stage], seconds)
            self._wait(stage, self.through[stage])
            if slowed := of.contention * self.beside[stage]:
                # If it delays others too, it counts once, at the end.
                start, after = self.free[stage], self.last[stage]
                self._wait(
                    stage, self._sent(after, stage, of.shares, "contention", None, start, slowed)
                )
        if of.tied:
            ready, after = self._find_latest((0, size - 1))
            for stage in (0, size - 1):
                self._wait(stage, self._sent(after, stage, of.sends, "tied", None, ready, of.tied))
        # Gradient clipping needs the norm of all gradients: a barrier for all stages.
        ready, after = self._find_latest(range(size))
        for stage, seconds in enumerate(of.optimizer):
            span = (stage, of.updates, "optimizer", None, None, ready, ready + seconds)
            self.last[stage], self.free[stage] = self._add_span(after, *span), ready + seconds
            self.memory[stage].append((ready, of.update[stage]))
            self.busy[stage] += seconds
        if not of.gathers_first:
            for stage, seconds in enumerate(of.gather):
                ready, after = self.free[stage], self.last[stage]
                if seconds:
                    sent = self._sent(after, stage, of.shares, "gather", None, ready, seconds)
                    self._wait(stage, sent)
        return self._find_latest(range(size))

    def _find_latest(self, stages: Iterable[int]) -> tuple[float, int]:
        """Return when the last of some stages is free, and after which span."""
        late = max(stages, key=lambda stage: self.free[stage])
        return self.free[late], self.last[late]

    def _wait(self, stage: int, sent: _Sent | None) -> None:
        """Wait until communication ends, all of which is exposed from then on."""
        free = self.free[stage]
        if sent is not None and sent.end > free:
            shown = sent.end - (free if sent.work == "reduce" else max(sent.start, free))
            self.exposed[stage][self.of.names[sent.work]] += shown
            self.free[stage], self.last[stage] = sent.end, sent.number
