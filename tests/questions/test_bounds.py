"""Bounds of good sense on inverse answers: data, said where they end an answer, and lifted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.engine.instance import compute_values
from planner.plans.plan import Plan, variant
from planner.questions import loading
from planner.questions.solve import answers, bounds, evaluations, questions
from planner.serve import find
from tests.conftest import read_data

LLAMA = "presets/llama70b_h100x1024.yaml"
SMALL = read_data("plans")["small_on_16"]
ROPE = {"model": {"extends": "llama3.2-1b", "max_sequence": 8192}}
QUESTIONS: list[dict[str, Any]] = read_data("questions")["bounds"]


def small(**changes: Any) -> Plan:
    return loading.load(SMALL, ROPE | {k.replace("__", "."): v for k, v in changes.items()})


def test_every_bound_is_a_row_with_words_and_a_source() -> None:
    for row in bounds.BOUNDS:
        assert row["words"].count("{}") == 1 and row["source"]
    assert len({row["key"] for row in bounds.BOUNDS}) == len(bounds.BOUNDS)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_a_bounded_answer_is_valid_and_never_beyond_the_unbounded(asked: dict[str, Any]) -> None:
    plan = small()
    bounded = questions.ask(plan, **asked)
    assert bounded.holds is not None
    again = variant(plan, bounded.domain.changes(bounded.holds.value))  # it validates
    assert again.get("cluster.devices") > 0
    if asked.get("vary") == "training.global_batch":
        assert "critical batch" in answers.text(bounded)
        return  # nothing ends it otherwise
    free = questions.ask(plan, **asked, unbounded=True)
    assert free.holds is not None
    assert bounded.direction * (free.holds.number - bounded.holds.number) >= 0
    assert "--unbounded" not in answers.text(free)
    if free.holds.number != bounded.holds.number:
        assert "--unbounded goes further" in answers.text(bounded)
        assert "--unbounded goes further" in answers.sentence(bounded)


def test_the_context_ends_where_the_model_was_trained() -> None:
    """Llama 2 was trained for 4,096 tokens (arXiv 2307.09288); memory alone allows 6,704, and
    millions where the layout is free."""
    plan = loading.load(LLAMA)
    found = questions.ask(plan, "longest-context")
    assert found.holds is not None and found.holds.number == 4096
    assert (
        "The model was trained for 4,096 tokens; plan.py solve --unbounded goes further."
        in answers.text(found)
    )
    further = questions.ask(plan, "longest-context", unbounded=True)
    assert further.holds is not None and further.holds.number > 4096
    own = variant(plan, {"training.sequence_length": 6144})  # what the plan states stays allowed
    assert bounds.bound_of(own, "training.sequence_length")[0] == 6144


@pytest.mark.slow
def test_the_largest_model_stays_within_a_node_and_three_years() -> None:
    """Of 1,024 H100s 3.81T parameters at tensor 256 were the largest, a run of 455,068 days."""
    found = questions.ask(loading.load(LLAMA), "largest-model")
    assert found.holds is not None
    made = found.holds.plan
    assert made.get("parallelism.tensor") <= made.get("cluster.link_domain") == 8
    days = compute_values(made, ["time.training_days"])["time.training_days"]
    assert days <= 3 * 365
    told = answers.text(found)
    assert "8 devices that the fast link joins" in told and "at most three years" in told


@pytest.mark.slow
def test_free_layouts_stay_within_the_fast_link() -> None:
    plan = small(training__global_batch=16)
    assert bounds.bound_degrees(plan) == {"parallelism.tensor": (1, 2, 4, 8)}
    six = variant(plan, {"cluster.devices": 6, "training.global_batch": 12})
    assert bounds.bound_degrees(six) == {"parallelism.tensor": (1, 2, 3, 6)}
    found = questions.ask(plan, "longest-context", with_layout="auto")
    assert found.holds is not None and found.holds.plan.get("parallelism.tensor") <= 8
    assert "8 devices that the fast link joins" in answers.text(found)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("name", "until", "key", "beyond"),
    [
        (LLAMA, "time.training_days <= 20 days", bounds.BATCH, False),
        ("presets/gpt2small_hgx-h100.yaml", "time.training_days <= 10 min", "micro", False),
        ("presets/gpt2small_hgx-h100.yaml", "time.training_days <= 2 min", bounds.BATCH, True),
        (None, "time.training_days <= 60 min", bounds.BATCH, False),
        (None, "time.training_days <= 30 min", bounds.BATCH, True),
        (None, "memory.process <= 1 GiB", None, False),
    ],
)
def test_what_stands_in_the_way_is_named_with_what_would_meet_the_limits(
    name: str | None, until: str, key: str | None, beyond: bool
) -> None:
    plan = small(training__micro_batch=4) if name is None else loading.load(name)
    found = questions.ask(plan, "fewest-devices", until=[until])
    assert found.holds is None
    way = "".join(note for note in found.notes if "stands in the way" in note)
    assert way in answers.sentence(found) and way in answers.text(found)
    assert ("critical batch" in way) is beyond
    if key is None:
        assert way == ""
        return
    own, size, devices = (int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", way)[:3])
    changed = bounds.BATCH if key == bounds.BATCH else bounds.MICRO_BATCH
    assert plan.get(changed) == own
    made = variant(plan, {changed: size, bounds.DEVICES: devices})
    names = [limit.quantity for limit in found.limits]
    assert not evaluations.broken(compute_values(made, names), found.limits)
    with pytest.raises(PlanError):  # with what it has, so many are not used
        variant(plan, {bounds.DEVICES: devices})


def test_days_of_a_run_bound_what_does_not_state_a_deadline() -> None:
    plan = small(training__tokens="10T")
    found = questions.ask(plan, "fewest-devices")
    assert found.holds is not None
    costs = bounds.evaluate_costs(found.holds.plan)
    assert costs[bounds.DAYS].number <= 3 * 365
    asked = questions.ask(plan, "fewest-devices", deadline="3000 days")
    assert not any("three years" in note for note in asked.notes)


def test_each_answer_names_what_it_costs() -> None:
    found = questions.ask(small(), "longest-context")
    data = json.loads(questions.to_json(found))
    assert data["costs"].keys() <= set(bounds.COSTS)
    assert found.holds is not None
    known = [name for name in bounds.COSTS if name in data["costs"]]
    values = compute_values(found.holds.plan, known)
    assert all(float(values[name]) == pytest.approx(data["costs"][name]) for name in known)
    assert {"time.training_days", "time.mfu", "memory.process"} <= data["costs"].keys()
    assert "% MFU" in answers.sentence(found) and "a device" in answers.text(found)


def test_the_critical_batch_is_that_of_the_paper() -> None:
    """Zhang et al. 2024: 22.91 (D / 10^6)^0.47 sequences of 512 tokens; of 20 tokens for each of N
    parameters that is 93.20 (N / 10^6)^0.47, the other fit that they print."""
    plan = small(training__tokens="1.7B", training__sequence_length=512)
    assert bounds.bound_of(plan, bounds.BATCH)[0] == pytest.approx(93.20 * 85**0.47, rel=0.02)


@pytest.mark.slow
def test_an_assumed_price_wins_against_no_real_one() -> None:
    chosen = ["h800-sxm-80gb", "h100-sxm-80gb=6 USD/h"]
    found = questions.ask(small(), "cheapest", deadline="30 days", accelerators=chosen)
    real, apart = found.extra["rows"]
    assert not found.extra["offer"].assumed and not real.offer.assumed and apart.offer.assumed
    assert "At an assumed price" in answers.text(found)
    alone = questions.ask(small(), "cheapest", deadline="30 days", accelerators=chosen[:1])
    assert alone.extra["offer"].assumed


def test_taking_an_answer_renames_the_plan() -> None:
    text = json.dumps(SMALL | {"model": ROPE["model"]})
    first = find.answer_solve({"text": text, "question": "longest-context"})
    assert first["takes"][0]["set"]["name"] == "Small on 16 H100s · Longest context"
    made = find.take_keys({"text": text, "set": first["takes"][0]["set"]})
    assert any("name" in line for line in made["changed"])
    again = find.answer_solve({"text": made["text"], "question": "largest-batch"})
    assert again["takes"][0]["set"]["name"] == "Small on 16 H100s · Largest micro-batch"
    further = find.answer_solve({"text": text, "question": "longest-context", "unbounded": "true"})
    assert further["takes"][0]["set"] != first["takes"][0]["set"]


def test_a_question_of_a_plan_lifts_them() -> None:
    asked = [{"longest-context": {"unbounded": True}}, "longest-context"]
    plan = loading.load(SMALL | {"questions": asked}, ROPE)
    from planner.questions.plan_questions import evaluate

    free, bounded = evaluate(plan).questions.answers
    assert free.found.holds.number > bounded.found.holds.number == 8192
