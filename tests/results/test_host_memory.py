"""One verdict on the memory of the host, whoever judges it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import planner
from planner import PlanError
from planner.engine.instance import compute_values
from planner.questions import loading
from planner.questions.constraints import list_fit_limits
from planner.questions.plan_questions import evaluate
from planner.questions.search.engine import find_own_layout, list_criteria, search
from planner.questions.solve.questions import ask
from planner.results.improvements import find_fixes
from planner.results.result import Result, evaluate_plan
from planner.serve import page
from tests.strategies import Document, set_key, whole_plans

NODE, STEP, LEFT = "cluster.node_memory", "time.step_seconds", "memory.left"
OPTIMIZER, MICRO = "training.offload.optimizer", "training.micro_batch"
GPT2, PREDICTED = "gpt2small_hgx-h100", {"time.mfu": None}


def judge(document: Document, changes: dict[str, Any]) -> Result:
    return evaluate(loading.load(document, changes))


def assert_one_verdict(document: Document) -> None:
    """At the bytes that a plan fills, and at one byte less, all judge as the plan itself."""
    set_key(document, OPTIMIZER, True)
    set_key(document, "time", {"mfu": None})
    document.setdefault("parallelism", {"zero": 1})  # left out, it would be searched
    try:
        base = judge(document, {})
    except PlanError:
        assume(False)
    assume("memory.host" in base and base.verdict["state"] in ("fits", "tight"))
    fills = int(base["memory.host"].number)
    study = {"base": document, "axes": {NODE: [fills - 1, fills]}}
    rows = {row[NODE]: row["verdict"] for row in planner.load_study(study).rows()}
    for memory in (fills - 1, fills):
        result = judge(document, {NODE: memory, "require": [{"fits": 0}]})
        plan, state = result.plan, result.verdict["state"]
        assert (state == "no") is (memory < fills) and rows[memory] == state
        assert (find_fixes(plan) is None) is (state == "fits")
        (required,) = result.questions.requirements
        assert required.holds is (state != "no" and base["memory.headroom"].number >= 0)
        own = find_own_layout(plan, list_criteria(STEP, list_fit_limits("0", plan)), STEP)
        assert own is None or (own.values[LEFT] < 0) is (state == "no")


def test_a_shipped_plan_has_one_verdict() -> None:
    assert_one_verdict({"extends": GPT2, "parallelism": {"zero": 1}})


@pytest.mark.slow
@settings(max_examples=8, phases=(Phase.generate,))
@given(whole_plans())
def test_random_plans_have_one_verdict(document: Document) -> None:
    assert_one_verdict(document)


@pytest.mark.slow
@settings(max_examples=15, phases=(Phase.generate,))
@given(whole_plans(), st.sampled_from((1, 3)))
def test_more_on_the_host_never_takes_less_time(document: Document, batches: int) -> None:
    """One kernel updates a weight wherever it lies: several would read it more often."""
    document.setdefault("parallelism", {}).update(zero=3)
    training = document["training"]
    training["global_batch"] *= batches
    training |= {"implementation": "pytorch", "optimizer": "adamw", "optimizer_kernel": "fused"}
    shares = ((0, 0), (0.5, 0), (1, 0), (1, 0.5), (1, 1))
    places = [{"optimizer": optimizer, "parameters": weights} for optimizer, weights in shares]
    places.insert(3, {"optimizer": True, "gradients": True})
    times = []
    for place in places:
        try:
            plan = loading.load({**document, "training": {**training, "offload": place}}, PREDICTED)
            times.append(compute_values(plan, [STEP])[STEP])
        except PlanError:
            assume(False)
    assert times == sorted(times)


@pytest.mark.slow
def test_no_answer_has_more_on_the_host_than_it_holds() -> None:
    """A search over shares, a layout that is found, a largest value, and the page's choices."""
    document = {"extends": GPT2, "training": {"offload": {"optimizer": 0.5}}}
    document |= {"time": {"mfu": None}, "parallelism": {"zero": 1}}
    half = judge(document, {})
    room = {NODE: int(half["memory.host"].number)}
    plan = loading.load(document, room)
    found = search(plan, 50, "memory.process", vary={OPTIMIZER: (0, 0.5, 1)})
    layouts = [evaluate_plan(layout.of(plan)) for layout in found.best]
    assert layouts and all(one.verdict["state"] == "fits" for one in layouts)
    opened = {**room, "parallelism": "auto", "training.implementation": "pytorch"}
    assert judge(document, opened).verdict["state"] == "fits"
    away = {"training.offload.activations": 1, "training.recompute": "full", NODE: "8 GiB"}
    batch = loading.load(document, away)
    answer = ask(batch, "largest-batch")
    states = [evaluate_plan(one.plan).verdict["state"] for one in (answer.holds, answer.fails)]
    assert states == ["fits", "no"] and answer.binding.quantity == LEFT
    refused = dict(page._find_refused(evaluate_plan(batch)))[MICRO]
    for size in (16, 64):
        result = judge(document, {**away, MICRO: size})
        assert (str(size) in refused) is (result.verdict["state"] == "no")
    assert refused
