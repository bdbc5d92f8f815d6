"""The stretches of a rollout beside one that is simulated request by request."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean

import pytest

from planner.engine.rollout import list_stretches, run_requests
from planner.plans.reinforcement import Lengths


def simulate(
    response: Lengths, requests: int, slots: int, replicas: int, random: Random
) -> tuple[float, float]:
    """Return the steps until the last response of all replicas ends, and the tokens of each."""
    drawn = (random.gauss(response._centre, response.spread) for _ in range(requests * replicas))
    lengths = [min(response.cap, math.exp(one)) for one in drawn]
    ends = (run_requests(lengths[one::replicas], slots) for one in range(replicas))
    return max(end for runs in ends for _, end in runs), sum(lengths) / replicas


@pytest.mark.parametrize("seed", range(24))
def test_a_rollout_takes_the_steps_and_has_the_tokens_of_a_simulated_one(seed: int) -> None:
    random = Random(seed)
    cap = random.choice((1024, 4096, 16384))
    response = Lengths(cap * random.uniform(0.05, 0.7), cap, random.uniform(0.2, 1.4))
    slots, replicas = random.choice((32, 64, 256)), random.choice((1, 1, 2, 8))
    requests = round(slots * random.choice((0.5, 1, 1.1, 1.5, 2, 5, 12, 40)))
    stretches = list_stretches(100, response, requests, slots, replicas)
    count = max(5, 40000 // (requests * replicas))
    runs = [simulate(response, requests, slots, replicas, random) for _ in range(count)]
    steps = sum(one.tokens for one in stretches)
    assert steps == pytest.approx(fmean(run[0] for run in runs), rel=0.06)
    tokens = sum(one.tokens * one.requests for one in stretches)
    assert tokens == pytest.approx(fmean(run[1] for run in runs), rel=0.1)
