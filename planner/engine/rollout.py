"""The rollout of a step of reinforcement learning: how many requests a replica of the engine works
on over its course, and how long the engine takes for a token at each point.

The axis ``rung`` has the stretches of a rollout: the full one, while requests wait for a slot, and
those of the drain, as responses end one after another.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from operator import mul
from typing import Any, NamedTuple

from planner.base import numbers
from planner.book import notation
from planner.book.expressions import Symbol
from planner.engine.evaluate import Absent, Case, Entry, Evaluation
from planner.plans.document import Plan
from planner.plans.reinforcement import GRID, NORMAL, Lengths, read_lengths

#: Evaluates an engine with so many requests of a length on each replica.
Evaluate = Callable[[float, float], Evaluation]
#: Stretches of the drain.
RUNGS = 12
#: Points of a normal distribution at which what differs between replicas is averaged.
DRAWS = 33
#: Requests of a slot, one after another, beyond which more only lengthen the full stretch.
SETTLED = 32


class Stretch(NamedTuple):
    """A stretch of a rollout.

    Attributes:
        tokens: that each request gains in it.
        requests: that a replica works on, on average.
        length: cached tokens of each of these, on average.
    """

    tokens: float
    requests: float
    length: float


def list_stretches(
    prompt: float, response: Lengths, requests: float, slots: float, replicas: int
) -> list[Stretch]:
    """List the stretches of the rollout of the replica that takes longest.

    A slot begins a request as soon as it ends one, until none waits: a renewal process (Cox 1962),
    followed from its start. Then the responses under way end, the last of them as the longest of
    their remaining lengths.

    Args:
        prompt: tokens of a prompt.
        response: lengths of responses.
        requests: of one replica.
        slots: requests that it works on at once.
        replicas: of the engine.

    Returns:
        the full stretch, then the drain in ``RUNGS`` parts of equal tokens.
    """
    slots = min(slots, requests)
    width = response.find_longest(requests * replicas * GRID) / GRID
    ends = _list_ends(response, width)
    alive = [*accumulate(reversed(ends[1:]))][::-1]
    mean, more = sum(alive), max(0.0, requests / slots - SETTLED)
    begun = _list_begun(ends, requests / slots - more)
    full, recent = len(begun) - 1, begun[: -GRID - 1 : -1]
    left = [sum(map(mul, recent, alive[step:])) for step in range(GRID)]
    aged = [age * (index + 0.5) for index, age in enumerate(alive)]  # cached tokens, in widths
    cached = [sum(map(mul, recent, aged[step:])) for step in range(GRID)]
    total = [0.0, *accumulate(aged)]
    grown = sum(one * total[min(full - at, GRID)] for at, one in enumerate(begun))
    waited = full + more * mean
    variance = max(0.0, response.second_moment / width**2 - mean**2)
    spread = math.sqrt(waited * variance / mean / slots)
    drain = _find_last_end(left, slots, replicas, 0)
    late = _find_last_end(left, slots, replicas, spread) - drain if replicas > 1 else 0
    found = [Stretch((waited + late) * width, slots, prompt + grown / max(1, full) * width)]
    for rung in range(RUNGS):
        first, last = (drain * index / RUNGS for index in (rung, rung + 1))
        live, held = (_average(values, first, last) for values in (left, cached))
        length = prompt + held / live * width if live else prompt
        found.append(Stretch((last - first) * width, live * slots, length))
    return found


def _average(values: list[float], first: float, last: float) -> float:
    """Average a step function with one value for each whole number between two points."""
    inside = range(math.floor(first), min(len(values), math.ceil(last)))
    parts = (values[at] * (min(at + 1, last) - max(at, first)) for at in inside)
    return sum(parts) / (last - first)


def _list_ends(response: Lengths, width: float) -> list[float]:
    """List the shares of responses that end after 0, 1, … ``GRID`` widths."""
    above = [response.find_share_above(width * at) for at in range(GRID)] + [0.0]
    parts = [one - other for one, other in pairwise(above)]
    # The last part is whole at its end, where the responses are that the cap cuts.
    inner = [(one + other) / 2 for one, other in pairwise([0.0, *parts[:-1], 0.0])]
    return [*inner, parts[-1]]


def _list_begun(ends: list[float], each: float) -> list[float]:
    """List the requests that a slot begins after 0, 1, … widths, until it has begun ``each``."""
    begun, many = [min(each, 1 / (1 - ends[0]))], min(each, 1 / (1 - ends[0]))
    while many < each * (1 - 1e-9):
        new = sum(map(mul, ends[1:], reversed(begun[-GRID:]))) / (1 - ends[0])
        begun.append(min(new, each - many))
        many += begun[-1]
    return begun


def _find_last_end(left: list[float], slots: float, replicas: int, spread: float) -> float:
    """Find when the last response of all replicas ends, on average, in widths.

    Args:
        left: share of slots that are busy in each width after no request waits.
        slots: of each replica.
        replicas: of the engine.
        spread: standard deviation, over replicas, of when no request waits, in widths.
    """
    ended = [0.0, *((1 - min(1.0, share)) ** slots for share in left)]
    at = [NORMAL.inv_cdf((index + 0.5) / DRAWS) * spread for index in range(DRAWS)]
    begin = min(0, math.floor(at[0]))
    total = float(begin)
    for time in range(begin, GRID + math.ceil(at[-1]) + 1):
        done = (ended[min(max(0, round(time - one) + 1), GRID)] for one in at)
        total += 1 - (sum(done) / DRAWS) ** replicas
    return total


def run_requests(lengths: Iterable[float], slots: int) -> list[tuple[float, float]]:
    """Run requests on the slots of a replica, each as soon as a slot is free; return when each
    begins and ends, in tokens of a slot.

    Args:
        lengths: of the responses, in tokens, in the order in which they wait.
        slots: requests that the replica works on at once.
    """
    free, runs = [0.0] * slots, list[tuple[float, float]]()
    for length in lengths:
        begin = free[0]
        heapq.heapreplace(free, begin + length)
        runs.append((begin, begin + length))
    return runs


def bind_rollout(
    plan: Plan, build: Callable[[Plan], Case]
) -> tuple[dict[Symbol, Any], tuple[Entry, ...] | Absent]:
    """Return what the other plans of a plan of reinforcement learning come to, by symbol, and the
    axis ``rung``.

    Args:
        plan: with its other plans.
        build: returns the case of a plan.
    """
    rl, replicas = plan.data["rl"], plan.others["engine"].data["parallelism"]["data"]
    bindings = _bind_roles(plan, build)
    bindings[notation.k_roll] = plan.data["training"]["bytes"]["compute"]
    drafted = rl["rollout"]["speculation"]["draft_tokens"]
    queries = {"engine": 1 + drafted, "draft": 1}
    engines = [
        _prepare_engine(plan.others[role], build, count)
        for role, count in queries.items()
        if role in plan.others
    ]
    prompt, response = (read_lengths(rl[f"{name}_tokens"]) for name in ("prompt", "response"))
    requests = math.ceil(rl["prompts"] * rl["samples"] / replicas)
    live = prompt.mean + response.second_moment / (2 * response.mean)

    def add(name: str, length: float) -> Any:
        """Add up a quantity of engine and draft with one sequence of a length, in tokens."""
        return sum(one(1, length).value(name) for one in engines)

    try:
        longest = prompt.mean + response.cap
        cache, weights = (add(f"memory.{name}", longest) for name in ("cache", "weights"))
        first = engines[0](1, longest)
        whole, *own = (first.value(f"memory.{name}") for name in ("process", "cache", "weights"))
        held = whole - sum(own) + weights
        bindings |= {notation.M_one: held + cache, notation.M_eng: weights}
        share = Fraction(rl["rollout"]["memory_share"])
        free = share * first.value("memory.capacity") - held
        if free < cache:
            left, taken = (numbers.text(size, "bytes") for size in (max(0, free), cache))
            least = math.ceil(100 * (held + cache) / first.value("memory.capacity")) / 100
            use = f"memory_share {least}" if least <= 1 else "a larger rl.rollout.tensor"
            wrong = f"the engine's cache is too small for one sequence: {left}, not {taken}"
            raise Absent(f"{wrong}; {use} has room")
        slots = min(
            int(free / add("memory.cache", live)), rl["rollout"]["max_concurrency"], requests
        )
        rate = "time.prefill_tokens_per_second"
        read = 1 / sum(1 / one(1, prompt.mean).value(rate) for one in engines)
        bindings |= {notation.n_eng: replicas, notation.n_slot: slots, notation.r_read: read}
        stretches = list_stretches(prompt.mean, response, requests, slots, replicas)
        if rl["rollout"]["partial"]:  # each ended response makes room for one of a later step
            stretches = [Stretch(requests * response.mean / slots, slots, live)]
        return bindings, tuple(_yield_rungs(stretches, engines, drafted))
    except Absent as absent:
        missing = (notation.n_eng, notation.n_slot, notation.r_read, notation.M_eng, notation.M_one)
        return {**dict.fromkeys(missing, absent), **bindings}, absent


def _prepare_engine(plan: Plan, build: Callable[[Plan], Case], queries: int) -> Evaluate:
    """Prepare the evaluation of an engine, or of its draft.

    Args:
        plan: of it.
        build: returns the case of a plan.
        queries: tokens of a sequence that a step of decoding computes.

    Returns:
        what evaluates it with so many requests of a length, in tokens, on each replica.
    """
    case = build(plan)
    first = Evaluation(case)
    stages, replicas = (plan.data["parallelism"][key] for key in ("pipeline", "data"))

    def evaluate(count: float, length: float) -> Evaluation:
        own = {
            notation.b: max(1, Fraction(max(1, round(count)), stages)),
            notation.s: max(1, round(length)),
            notation.s_o: 1,
            notation.n_q: queries,
        }
        own[notation.B] = own[notation.b] * stages * replicas
        changed = replace(case, bindings={**case.bindings, **own})
        return first.rerun(changed, True) or Evaluation(changed)

    return evaluate


def _yield_rungs(
    stretches: list[Stretch], engines: list[Evaluate], drafted: int
) -> Iterator[Entry]:
    """Yield the entries of the axis, with the time of a step: one of the engine's, and ``drafted``
    of its draft, if there is one."""
    for index, (tokens, requests, length) in enumerate(stretches):
        times = (one(requests, length).value("time.decode_seconds") for one in engines)
        title = f"part {index} of {RUNGS} of the drain" if index else "all slots busy"
        yield Entry(
            "rung",
            str(index),
            title,
            bindings={
                notation.n_tok_r: round(tokens),
                notation.n_req_r: Fraction(round(100 * requests), 100),
                notation.t_tok_r: next(times) + drafted * sum(times),
            },
        )


def bind_teacher(student: Evaluation, teacher: Evaluation) -> dict[Symbol, Any]:
    """Return the parameters of a teacher, and its forward pass as so many of the student's."""
    flops, read = "compute.forward_flops_per_token", student.case.bindings[notation.n_read]
    try:
        passes = read and Fraction(teacher.value(flops)) / student.value(flops)
        size = teacher.value("parameters.total")
        return {notation.n_read: passes, notation.P_tea: size}
    except Absent as absent:
        return dict.fromkeys((notation.n_read, notation.P_tea), absent)


def _bind_roles(plan: Plan, build: Callable[[Plan], Case]) -> dict[Symbol, Any]:
    """Return times and states of critic and reward model, by symbol; 0 where there is none."""
    wanted: Mapping[Symbol, tuple[str, tuple[str, ...]]] = {
        notation.t_crit: ("critic", ("rl.update_seconds",)),
        notation.t_val: ("critic", ("rl.logprob_seconds",)),
        notation.M_crit: ("critic", ("memory.weights", "memory.gradients", "memory.optimizer")),
        notation.M_cst: ("critic", ("memory.weights", "memory.optimizer")),
        notation.t_rm: ("reward", ("rl.logprob_seconds",)),
    }
    own = {role: plan.others[role] for role in ("critic", "reward") if role in plan.others}
    evaluations = {role: Evaluation(build(other)) for role, other in own.items()}
    found: dict[Symbol, Any] = {}
    for symbol, (role, quantities) in wanted.items():
        found[symbol] = 0
        if role in evaluations:
            try:
                found[symbol] = sum(evaluations[role].value(name) for name in quantities)
            except Absent as absent:
                found[symbol] = absent
    return found
