"""What a step is taken apart into: the parts add up, and each moves as its hardware does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.search import ranking
from planner.questions.search.engine import search
from planner.questions.search.layouts import Space
from planner.results.attribution import break_down
from tests.changed import changed
from tests.conftest import read_data
from tests.in_turn import InTurn

STEP = "time.step_seconds"
PARTS = {quantity.attribution for quantity in BOOK.quantities.values()}
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt3": ("presets/gpt3_a100x1024.yaml", {}),
    "mixtral": ("presets/mixtral8x7b_h100x1024.yaml", {"training.precision": "fp8"}),
    "gpt2": ("presets/gpt2small_hgx-h100.yaml", {}),
}


CHUNKS = ("interleaved", "dualpipe", "dualpipev")


def some(plan: Plan, count: int) -> Iterator[Plan]:
    """Layouts at random, of all that are valid."""
    chance, blocks = random.Random(5), list(Space(plan, full=True).yield_blocks())
    while count:
        rows = chance.choice(blocks)
        row = rows.take(np.array([chance.randrange(len(rows))]))
        yield variant(plan, row.build_changes(chance.choice(np.flatnonzero(row.valid).tolist())))
        count -= 1


def parts(plan: Plan, quantity: str = STEP) -> dict[str, Any]:
    return break_down(Evaluation(case.build(plan)), quantity)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", PLANS)
def test_parts_differ_by_as_much_as_the_steps(name: str) -> None:
    plan = loading.load(*PLANS[name])
    seen = set()
    steps = (
        (break_down(evaluation, STEP), float(evaluation.value(STEP)))
        for evaluation in map(InTurn().evaluation, some(plan, 40))
    )
    for (more, first), (less, second) in pairwise(steps):
        seen |= more.keys()
        difference = sum(float(more.get(k, 0) - less.get(k, 0)) for k in {*more, *less})
        assert difference == pytest.approx(first - second, abs=1e-9 * max(first, second))
        assert more.keys() <= PARTS  # nothing is left over
        assert all(value > 0 for value in more.values())
    assert {"matrix products", "recomputation", "data-parallel exchange"} <= seen


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", PLANS)
def test_parts_that_a_step_adds_up_by_itself(name: str) -> None:
    alone = read_data("results")["parts_by_quantity"]
    in_turn = InTurn()
    for plan in some(loading.load(*PLANS[name]), 20):
        evaluation = in_turn.evaluation(plan)
        found = break_down(evaluation, STEP)
        values = evaluation.get_values([*alone.values(), "network.pipeline"])
        for part, quantity in alone.items():
            assert float(found.get(part, 0)) == pytest.approx(float(values[quantity]))
        sends = 2 * plan.get("training.gradient_accumulation")
        sends *= plan.get("parallelism.virtual_pipeline")
        if plan.get("parallelism.send_overlap") and plan.get("training.schedule") in CHUNKS:
            sends *= plan.get("time.efficiency.contention")  # beside another chunk's work
        exchanged = float(found.get("pipeline exchange", 0))
        assert exchanged == pytest.approx(float(sends * values["network.pipeline"]))


#: What a rate of the hardware decides where there is one stage, and the keys that make it faster or
#: slower by a share.
RATES = {
    ("tensor-parallel exchange",): ("accelerator.link.bandwidth", "accelerator.link.latency"),
    ("data-parallel exchange",): ("network.bandwidth", "network.latency"),
    ("elementwise kernels", "optimizer", "gradient accumulation"): (
        "accelerator.memory_bandwidth",
    ),
}
EPSILON = 1e-5


@pytest.mark.parametrize("recompute", ["none", "selective"])
@pytest.mark.parametrize("names", RATES)
def test_a_faster_rate_saves_its_share_of_a_part(names: tuple[str, ...], recompute: str) -> None:
    """Of two exact evaluations, one with hardware that is faster by a little. Tensor parallelism
    fills the nodes, so that links carry nothing else; one stage has no bubble, which would take
    part in all."""
    document = changed(read_data("plans")["two_nodes"], {"training.recompute": recompute})
    plan = loading.load(document)
    faster = {}
    for key in RATES[names]:
        share = 1 - EPSILON if key.endswith("latency") else 1 / (1 - EPSILON)
        faster[f"cluster.{key}"] = float(plan.get(f"cluster.{key}")) * share
    saved = (
        compute_values(plan, [STEP])[STEP]
        - compute_values(loading.load(document, faster), [STEP])[STEP]
    )
    found = parts(plan)
    expected = sum(float(found.get(name, 0)) for name in names)
    assert float(saved) / EPSILON == pytest.approx(expected, rel=1e-3) and expected > 0


def test_costs_and_memory_are_taken_apart_too() -> None:
    plan = loading.load("presets/mixtral8x7b_h100x1024.yaml", {"time.mfu": None})
    for quantity in ("cost.total", "energy.total", "memory.process"):
        found, value = parts(plan, quantity), float(compute_values(plan, [quantity])[quantity])
        assert sum(map(float, found.values())) == pytest.approx(value)
        assert max(found, key=lambda name: found[name]) in PARTS
    step, cost = parts(plan), parts(plan, "cost.total")
    for name in ("matrix products", "expert-parallel exchange"):
        assert cost[name] / cost["pipeline bubble"] == pytest.approx(
            float(step[name] / step["pipeline bubble"])
        )


def test_kernels_have_their_own_time_beneath_launches() -> None:
    """A step whose launches take longest: they have what the step is shorter by without them, and
    products no less than their FLOPs take at the peak rate."""
    changes = {"parallelism": {}, "cluster.devices": 1, "training.global_batch": 1}
    plan = loading.load("presets/gpt2small_hgx-h100.yaml", {**changes, "training.micro_batch": 1})
    without = variant(plan, {"time.efficiency.launch": 1e-12})
    found, steps = parts(plan), [compute_values(one, [STEP])[STEP] for one in (plan, without)]
    assert float(found["kernel launches"]) == pytest.approx(float(steps[0] - steps[1]))
    assert found["kernel launches"] > sum(found.values()) / 3
    for name, seconds in parts(without).items():
        assert name == "kernel launches" or found[name] == pytest.approx(float(seconds))


@pytest.mark.slow
def test_a_layout_is_told_by_the_part_that_it_loses_most_in() -> None:
    plan = loading.load("presets/gpt3_a100x1024.yaml", {"training.recompute": "full"})
    found = search(plan, 1)
    assert found.own is not None
    own, best = found.own.parts, found.best[0].parts
    assert max(own, key=lambda name: own[name] - best.get(name, 0)) == "recomputation"
    assert ranking.describe_loss(found.own, found.best[0], found.by).endswith(" s recomputation")
