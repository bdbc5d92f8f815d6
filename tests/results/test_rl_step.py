"""Simulated steps of reinforcement learning beside the closed form, and what they obey."""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import Any

import pytest

import planner
from planner.results.durations import SLOTS
from planner.results.timeline import Timeline

PLAN = "presets/reinforcement/grpo_llama3.1-8b_16xh100.yaml"


def draw(random: Random) -> dict[str, Any]:
    """Changes of a plan: lengths, requests, slots, replicas, and who waits for whom."""
    cap = random.choice((1024, 2048, 3946))
    late = random.choice((0, 0, 1, 2))
    split = late or random.random() < 0.3
    return {
        "rl.response_tokens": {
            "mean": round(cap * random.uniform(0.1, 0.7)),
            "cap": cap,
            "spread": round(random.uniform(0.2, 1.2), 2),
        },
        "rl.prompts": random.choice((32, 128, 512)),
        "rl.reference": random.random() < 0.5,
        "rl.placement": "split" if split else "colocated",
        "rl.staleness": late,
        "rl.reward_seconds": random.choice((0, 5)),
        "rl.rollout.max_concurrency": random.choice((16, 64, 256)),
        "rl.rollout.tensor": random.choice((1, 2, 4)),
    }


def simulate(**changes: Any) -> tuple[Any, Timeline]:
    """Return a plan's result, and its simulated step."""
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    result = planner.load(PLAN, keys).evaluate()
    return result, planner.simulate(result)


@pytest.mark.slow
def test_a_step_takes_as_long_as_the_closed_form_has_it() -> None:
    random, off = Random(46), []
    for _ in range(8):
        step = planner.simulate(planner.load(PLAN, draw(random)))
        off.append(step.closed / step.seconds - 1)
    assert fmean(map(abs, off)) < 0.02 and max(map(abs, off)) < 0.06


def test_slots_run_one_request_each_and_every_response_is_trained_on() -> None:
    result, step = simulate(rl__rollout__max_concurrency=16)
    for lane in (0, 1):
        requests = [span for span in step.spans if (span.stage, span.stream) == (lane, SLOTS)]
        assert len(requests) == 64 * 32 / 16
        moments = sorted([(s.start, 1) for s in requests] + [(s.end, -1) for s in requests])
        assert max(sum(by for _, by in moments[: n + 1]) for n in range(len(moments))) == 16
    trained = min(span.start for span in step.spans if span.stage == 2)
    assert trained == max(span.end for span in step.spans if span.stage == 1)
    assert result["rl.idle_share"].value == 0


def test_each_side_waits_as_long_as_the_closed_form_has_it() -> None:
    sides = {"rl__placement": "split", "rl__staleness": 1, "rl__rollout__devices": 8}
    result, step = simulate(**sides)
    for lane, side in ((1, "rollout"), (2, "trainer")):
        waits = step.idle[lane] / step.seconds
        assert waits == pytest.approx(float(result[f"rl.{side}_idle_share"].number), abs=0.02)
