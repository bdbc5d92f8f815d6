"""The stretches of a rollout beside one that is simulated request by request."""

from __future__ import annotations

import heapq
import math
from random import Random
from statistics import fmean

import pytest

from planner.engine.rollout import list_stretches
from planner.plans.reinforcement import Lengths


def simulate(response: Lengths, requests: int, slots: int, random: Random) -> tuple[int, int]:
    """Return the steps until the last response ends, and the tokens of all, of one replica."""
    lengths = [
        min(response.cap, math.exp(random.gauss(response._centre, response.spread)))
        for _ in range(requests)
    ]
    ends = [0.0] * slots
    for length in lengths:
        heapq.heappush(ends, heapq.heappop(ends) + length)
    return round(max(ends)), round(sum(lengths))


@pytest.mark.parametrize("seed", range(12))
def test_a_rollout_takes_the_steps_and_has_the_tokens_of_a_simulated_one(seed: int) -> None:
    random = Random(seed)
    cap = random.choice((1024, 4096, 16384))
    response = Lengths(cap * random.uniform(0.1, 0.7), cap, random.uniform(0.3, 1.2))
    slots = random.choice((32, 64, 256))
    requests = round(slots * random.choice((0.5, 1, 2, 5, 12)))
    stretches = list_stretches(100, response, requests, slots, 1)
    runs = [simulate(response, requests, slots, random) for _ in range(30)]
    steps = sum(one.tokens for one in stretches)
    assert steps == pytest.approx(fmean(run[0] for run in runs), rel=0.15)
    tokens = sum(one.tokens * one.requests for one in stretches)
    assert tokens == pytest.approx(fmean(run[1] for run in runs), rel=0.15)
