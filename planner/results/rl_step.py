"""Steps of reinforcement learning as events: requests on the slots of the engine's replicas, then
the trainer's phases; each side waits for the other as far as ``rl.staleness`` has it.

Responses have the plan's lengths, one of each equal share, in random order. Times of a token and of
a phase are the book's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from random import Random
from typing import NamedTuple

from planner.base import resources
from planner.base.errors import PlanError
from planner.book import notation
from planner.engine.rollout import run_requests
from planner.plans.reinforcement import read_lengths
from planner.results.durations import COMPUTE, SLOTS
from planner.results.result import Result
from planner.results.timeline import Span, Timeline, simulate_step

#: What each side works on in turn, with the part of a step that it is and its share of that.
PhaseShares = Sequence[tuple[str, str, float]]
SCORING, TRAINING = resources.load_beside(__file__).values()
READING, FULL, DRAIN = "reading prompts", "generating", "generating, no request waits"
REQUEST_SPAN = "request"
#: Lanes of the replicas of the engine that end first and last, and of the only one.
REPLICA_LANES, ONLY = ("quickest", "slowest"), ("engine",)
#: Steps that are run beyond those that the staleness has under way.
SETTLING = 3
#: Points of a line, in order.
PolyLine = Sequence[tuple[float, float]]


def simulate_plan(result: Result, slow: Mapping[int, float] | None = None) -> Timeline:
    """Simulate one step of an evaluated plan: all phases of reinforcement learning, else one
    optimizer step.

    Args:
        slow: pipeline stages of an optimizer step, from 0 on, whose passes take so many times as
            long.

    Raises:
        PlanError: the plan has no step to simulate.
    """
    if not result.plan.reinforced:
        return simulate_step(result, slow)
    if why := result["rl.step_seconds"].absent:
        raise PlanError(f"no step can be simulated: {why}", None)
    return _RlRun(result).build_timeline()


class ReplicaRun(NamedTuple):
    """The rollout of one replica of the engine, in seconds from its first token.

    Attributes:
        end: of the last response.
        full: until when all slots are busy.
        requests: begin and end of each.
    """

    end: float
    full: float
    requests: Sequence[tuple[float, float]]


def time_replica(lengths: Sequence[float], slots: int, pace: PolyLine) -> ReplicaRun:
    """Run the requests of a replica.

    Args:
        lengths: of its responses, in tokens, in the order in which they wait.
        slots: requests that it works on at once.
        pace: seconds of a token, by the requests that the replica works on.
    """
    runs = run_requests(lengths, min(slots, len(lengths)))
    at = max(begin for begin, _ in runs)
    ends = sorted(end for _, end in runs if end > at)
    line = [(0.0, 0.0), (at, at * interpolate(pace, len(ends)))]
    for live, end in zip(range(len(ends), 0, -1), ends, strict=True):
        before, seconds = line[-1]
        line.append((end, seconds + (end - before) * interpolate(pace, live)))
    times = [(interpolate(line, begin), interpolate(line, end)) for begin, end in runs]
    return ReplicaRun(line[-1][1], line[1][1], times)


def interpolate(line: PolyLine, at: float) -> float:
    """Interpolate between the points of a line; beyond its ends it has their values."""
    number = bisect_left(line, (at,))
    if not 0 < number < len(line):
        return line[min(number, len(line) - 1)][1]
    (left, low), (right, high) = line[number - 1 : number + 1]
    return low + (high - low) * (at - left) / (right - left)


class _RlRun:
    """Steps in progress: what each side did so far."""

    def __init__(self, result: Result) -> None:
        """Read requests, slots and times from an evaluated plan."""
        case, rl = result.evaluation.case, result.plan.data["rl"]
        self.result, self.late, self.random = result, rl["staleness"], Random(0)
        self.spans, self.names = list[Span](), list[str]()
        self.replicas, self.slots = (
            int(case.bindings[symbol]) for symbol in (notation.n_eng, notation.n_slot)
        )
        rungs = (entry.bindings for entry in case.entries("rung"))
        pairs = ((one[notation.n_req_r], one[notation.t_tok_r]) for one in rungs)
        beyond = case.bindings[notation.t_over]
        yields = result["rl.accepted_tokens"].number
        self.pace = sorted((float(live), float((step + beyond) / yields)) for live, step in pairs)
        lengths, count = read_lengths(rl["response_tokens"]), rl["prompts"] * rl["samples"]
        self.lengths = lengths.list_typical(count)

    def build_timeline(self) -> Timeline:
        """Run steps until they settle, and return the timeline of one."""
        ends, free = [0.0], 0.0
        for step in range(self.late + SETTLING):
            free = self._generate(max(free, ends[max(0, step - self.late)]))
            ends.append(self._work("trainer", max(free, ends[-1]), TRAINING))
        begin, end = ends[SETTLING - 1 : SETTLING + 1]
        spans = sorted(self._cut(begin, end), key=itemgetter(0, 1, 5))
        busy = [0.0] * len(self.names)
        for span in spans:
            busy[span.stage] += (span.end - span.start) * (span.stream == COMPUTE)
        return Timeline(
            schedule=f"{self.late} steps off policy",
            stages=len(busy),
            spans=tuple(spans),
            seconds=end - begin,
            closed=float(self.result["rl.step_seconds"].number),
            busy=tuple(busy),
            idle=tuple(end - begin - one for one in busy),
            names=tuple(self.names),
        )

    def _cut(self, begin: float, end: float) -> Iterator[Span]:
        """Yield what happens between two moments, with times from the first on."""
        for span in self.spans:
            start, stop = max(span.start, begin), min(span.end, end)
            if start < stop:
                yield span._replace(start=start - begin, end=stop - begin)

    def _generate(self, begin: float) -> float:
        """Generate the responses of a step and score them; return when that is through."""
        self.random.shuffle(self.lengths)
        groups = (self.lengths[number :: self.replicas] for number in range(self.replicas))
        runs = sorted(time_replica(group, self.slots, self.pace) for group in groups if group)
        if self.result.plan.data["rl"]["rollout"]["partial"]:
            runs = [ReplicaRun(self._get_seconds("decode"), self._get_seconds("decode"), ())]
        lanes = REPLICA_LANES if len(runs) > 1 else ONLY
        pauses = ("sync", "prefill") if self.late else ("prefill",)  # of all replicas alike
        start = begin + sum(map(self._get_seconds, pauses))
        for name, run in zip(lanes, (runs[0], runs[-1]), strict=False):
            self._add(name, COMPUTE, READING, begin, start)
            self._add(name, COMPUTE, FULL, start, start + run.full)
            self._add(name, COMPUTE, DRAIN, start + run.full, start + run.end)
            for one, other in run.requests:
                self._add(name, SLOTS, REQUEST_SPAN, start + one, start + other)
        return self._work("reward", start + runs[-1].end, SCORING)

    def _work(self, lane: str, at: float, phases: PhaseShares) -> float:
        """Work through phases from a moment on; return when they are through."""
        for work, part, share in phases:
            if seconds := share * self._get_seconds(part):
                self._add(lane, COMPUTE, work, at, at + seconds)
                at += seconds
        return at

    def _get_seconds(self, part: str) -> float:
        """Return the seconds of a part of a step."""
        return float(self.result[f"rl.{part}_seconds"].number)

    def _add(self, lane: str, stream: str, work: str, begin: float, end: float) -> None:
        """Add what a lane does."""
        if lane not in self.names:
            self.names.append(lane)
        self.spans.append(Span(self.names.index(lane), stream, work, None, None, begin, end))
