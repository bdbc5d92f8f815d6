"""The rollout of a step of reinforcement learning: how many requests a replica of the engine works
on over its course, and how long the engine takes for a token at each point.

The axis ``rung`` has the stretches of a rollout: the full one, while requests wait for a slot, and
those of the drain, as responses end one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

from planner.base import numbers
from planner.book import notation
from planner.book.expressions import Symbol
from planner.engine.evaluate import Absent, Case, Entry, Evaluation
from planner.plans.document import Plan
from planner.plans.reinforcement import Lengths, read_lengths

#: Stretches of the drain.
RUNGS = 12


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

    While requests wait, each slot works through one after another; the responses under way then are
    as old as those that one meets in a renewal process. Where no request waits, all begin at once.

    Args:
        prompt: tokens of a prompt.
        response: lengths of responses.
        requests: of one replica.
        slots: requests that it works on at once.
        replicas: of the engine.

    Returns:
        the full stretch, then the drain in ``RUNGS`` parts of equal tokens.
    """
    mean, square = response.mean, response.second_moment
    waiting = requests > slots
    width = response.find_longest(requests * replicas) / RUNGS
    spread = math.sqrt(max(0.0, square - mean**2) * requests)
    worst = NormalDist().inv_cdf((replicas - 0.375) / (replicas + 0.25)) if replicas > 1 else 0
    full = max(0.0, (requests * mean + worst * spread) / slots - square / (2 * mean))
    found = [Stretch(full * waiting, min(requests, slots), prompt + square / (2 * mean))]
    steps = 8
    above = [response.find_share_above(width * step / steps) for step in range(RUNGS * steps + 1)]
    left = [0.0]  # of the mean length, from the end on
    for one, other in zip(above[-2::-1], above[:0:-1], strict=True):
        left.append(left[-1] + (one + other) / 2 * width / steps)
    left.reverse()
    alive = [part / left[0] for part in left] if waiting else above
    for rung in range(RUNGS):
        part = alive[rung * steps : (rung + 1) * steps + 1]
        share = sum(part[:-1]) / steps / 2 + sum(part[1:]) / steps / 2
        age = width * (rung + 0.5)
        # Of those under way at its start a response is at half its own length, on average.
        grown = age + square / (2 * mean) if waiting else age
        found.append(
            Stretch(width, share * min(requests, slots), prompt + min(response.cap, grown))
        )
    return found


def bind_rollout(
    plan: Plan, build: Callable[[Plan], Case]
) -> tuple[dict[Symbol, Any], tuple[Entry, ...] | Absent]:
    """Return what the other plans of a plan of reinforcement learning come to, by symbol, and the
    axis ``rung``.

    Args:
        plan: with its other plans.
        build: returns the case of a plan.
    """
    bindings = _bind_roles(plan, build)
    engine = plan.others["engine"]
    bindings[notation.k_roll] = plan.data["training"]["bytes"]["compute"]
    case = build(engine)
    first = Evaluation(case)
    rl, replicas = plan.data["rl"], engine.data["parallelism"]["data"]
    prompt, response = (read_lengths(rl[f"{name}_tokens"]) for name in ("prompt", "response"))
    requests = math.ceil(rl["prompts"] * rl["samples"] / replicas)
    live = prompt.mean + response.second_moment / (2 * response.mean)

    def evaluate(count: float, length: float) -> Evaluation:
        """Evaluate the engine with so many requests of a length on each replica."""
        rows, stages = max(1, round(count)), engine.data["parallelism"]["pipeline"]
        own = {
            notation.b: max(1, Fraction(rows, stages)),
            notation.s: max(1, round(length)),
            notation.s_o: 1,
        }
        own[notation.B] = own[notation.b] * stages * replicas
        changed = replace(case, bindings={**case.bindings, **own})
        return first.rerun(changed, True) or Evaluation(changed)

    try:
        one = evaluate(1, live)
        cache, process = (one.value(f"memory.{name}") for name in ("cache", "process"))
        bindings[notation.M_eng] = one.value("memory.weights")
        share = Fraction(rl["rollout"]["memory_share"])
        free = share * one.value("memory.capacity") - (process - cache)
        if free < cache:
            left, taken = (numbers.text(size, "bytes") for size in (max(0, free), cache))
            raise Absent(f"the engine's cache is too small for one sequence: {left}, not {taken}")
        slots = min(int(free / cache), rl["rollout"]["max_concurrency"], requests)
        read = evaluate(1, prompt.mean).value("time.prefill_tokens_per_second")
        bindings |= {notation.n_eng: replicas, notation.n_slot: slots, notation.r_read: read}
        stretches = list_stretches(prompt.mean, response, requests, slots, replicas)
        return bindings, tuple(_yield_rungs(stretches, evaluate))
    except Absent as absent:
        missing = (notation.n_eng, notation.n_slot, notation.r_read, notation.M_eng)
        return {**dict.fromkeys(missing, absent), **bindings}, absent


def _yield_rungs(
    stretches: list[Stretch], evaluate: Callable[[float, float], Evaluation]
) -> Iterator[Entry]:
    """Yield the entries of the axis, with the time of a token from the engine's plan."""
    for index, stretch in enumerate(stretches):
        own = evaluate(stretch.requests, stretch.length)
        title = f"part {index} of {RUNGS} of the drain" if index else "all slots busy"
        yield Entry(
            "rung",
            str(index),
            title,
            bindings={
                notation.n_tok_r: round(stretch.tokens),
                notation.n_req_r: Fraction(round(100 * stretch.requests), 100),
                notation.t_tok_r: own.value("time.decode_seconds"),
            },
        )


def _bind_roles(plan: Plan, build: Callable[[Plan], Case]) -> dict[Symbol, Any]:
    """Return times and states of critic and reward model, by symbol; 0 where there is none."""
    states = ("memory.weights", "memory.gradients", "memory.optimizer")
    wanted: Mapping[Symbol, tuple[str, tuple[str, ...]]] = {
        notation.t_crit: ("critic", ("rl.update_seconds",)),
        notation.t_val: ("critic", ("rl.logprob_seconds",)),
        notation.M_crit: ("critic", states),
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
