"""Elasticities: exact derivatives held against differences, choices against whole plans."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.engine.instance import compute_values
from planner.plans.plan import about, variant
from planner.questions import loading
from planner.questions.sensitivity import (
    find_sensitivity,
    list_elasticities,
    rank_measures,
    step_choices,
)
from planner.results.result import evaluate_plan
from tests.conftest import RunCli
from tests.strategies import plans

LLAMA = "tests/documents/llama70b_assumed.yaml"
GPT2 = "presets/gpt2small_hgx-h100.yaml"
STEP = Fraction(1, 10**4)


def differences(evaluation: Evaluation, symbol: Any, value: Any, target: str) -> list[float]:
    """The elasticity by a small step up and by one down, both through the evaluation itself."""
    here = Fraction(evaluation.value(target))
    found = []
    for step in (STEP, -STEP):
        moved = evaluation.change_input(symbol, Fraction(value) * (1 + step))
        found.append(float((Fraction(moved.value(target)) / here - 1) / step))
    return found


@pytest.mark.slow
@settings(max_examples=12)
@given(
    plans(),
    st.sampled_from(("time.step_seconds", "memory.process", "time.training_days")),
    st.sampled_from((None, 0.4)),
)
def test_a_derivative_lies_between_the_differences_on_both_sides(
    document: Any, target: str, mfu: float | None
) -> None:
    """Where the formula is smooth the two are the same; at a kink it is one of them."""
    document = {**document, "time": {"mfu": mfu, "use": "assumed"} if mfu else {}}
    document["training"] = {**document["training"], "tokens": 15 * 10**12}
    plan = loading.load(document)
    evaluation = Evaluation(case.build(plan))
    entries = list_elasticities(evaluation, target)
    assert entries
    for entry in entries:
        if entry.rounded:
            continue  # whole numbers lie between: what is told there is a difference
        both = differences(evaluation, entry.note.symbol, entry.value, target)
        slack = 5e-3 * max(map(abs, both)) + 2e-4
        assert min(both) - slack <= entry.elasticity <= max(both) + slack, (entry, both)


@pytest.mark.parametrize("mfu", [None, Fraction(1, 2)], ids=["predicted", "assumed"])
def test_whatever_is_left_out_moves_nothing(mfu: Any) -> None:
    plan = variant(loading.load(LLAMA), {"time.mfu": mfu})
    evaluation = Evaluation(case.build(plan))
    named = {entry.note.key for entry in list_elasticities(evaluation, "time.training_days")}
    for key in ("cluster.price", "memory.context", "cluster.accelerator.memory"):
        assert key not in named
    assert "training.tokens" in named and ("time.mfu" in named) == (mfu is not None)


def test_what_is_proportional_has_an_elasticity_of_one() -> None:
    found = {
        e.key: e.elasticity for e in find_sensitivity(loading.load(LLAMA), "cost.total").measures
    }
    assert found["training.tokens"] == found["cluster.price"] == 1
    assert found["time.mfu"] == found["cluster.accelerator.peaks.bf16.value"] == -1


@pytest.mark.parametrize("device", ["h100-sxm-80gb", "a100-sxm-40gb"])
def test_a_choice_moves_by_one_valid_step(device: str) -> None:
    """The predicted memory of twice the sequences fits on 80 GB, not on 40."""
    plan = loading.load(GPT2, {"cluster.accelerator": device})
    here = compute_values(plan, ["memory.process"])["memory.process"]
    steps = {step.key: step for step in step_choices(plan, "memory.process")}
    for key in ("training.micro_batch", "model.layers", "training.sequence_length"):
        step = steps[key]
        assert step.before == plan.get(key)
        there = compute_values(variant(plan, {key: step.after}), ["memory.process", "memory.left"])
        assert step.change == Fraction(there["memory.process"], here) - 1
        assert step.fits == (there["memory.left"] >= 0)
    step = steps["training.micro_batch"]
    assert step.after == 64 and step.fits is device.endswith("80gb")


def test_reports_name_facts_with_the_change_for_a_tenth_more() -> None:
    result = evaluate_plan(loading.load(LLAMA))
    found = {entry.key: entry for entry in rank_measures(result, "time.training_days")}
    assert found["training.tokens"].change == Fraction(1, 10)
    assert found["time.mfu"].change == Fraction(10, 11) - 1 and found["time.mfu"].elasticity == -1
    assert "training.bytes.reduce" not in found


@pytest.mark.slow
def test_the_command_line(run_cli: RunCli) -> None:
    done = run_cli("sensitivity", GPT2, "memory.process", "--top", "3")
    assert done.returncode == 0 and "by exact derivative" in done.stdout
    words = (
        "--set",
        "time.mfu=0.35",
        "--set",
        "time.use=assumed",
        "--format",
        "json",
    )  # all of it exact
    data = json.loads(run_cli("sensitivity", GPT2, "cost.total", *words).stdout)
    price = next(row for row in data["measures"] if row["key"] == "cluster.price")
    assert (price["value"], price["elasticity"], price["change"]) == (6.155, 1, 0.1)
    assert price["by_difference"] is False
    for arguments, says in (
        (("memory.proces",), "did you mean 'memory.process'"),
        (("memory.stage",), "is a name"),
        (("memory.process", "--top", "0"), "shows nothing"),
    ):
        done = run_cli("sensitivity", GPT2, *arguments)
        assert (done.returncode, done.stdout) == (2, "") and says in done.stderr


def test_what_cannot_be_computed_says_why() -> None:
    with pytest.raises(PlanError, match="price of one device"):
        find_sensitivity(
            loading.load("presets/gpt3_a100x1024.yaml", {"cluster.provider": None}), "cost.total"
        )


@pytest.mark.slow
@pytest.mark.parametrize("plan", [LLAMA, "presets/llama70b_h100x1024.yaml"])
def test_a_tenth_more_is_what_a_reader_gets_who_sets_it(plan: str) -> None:
    """A format's peak is set once, and both products and logits run at it."""
    loaded = loading.load(plan)
    found = find_sensitivity(loaded, "time.training_days").measures[:8]
    assert "cluster.accelerator.peaks.bf16.value" in {entry.key for entry in found}
    here = Fraction(compute_values(loaded, ["time.training_days"])["time.training_days"])
    for entry in found:
        if entry.value * Fraction(11, 10) > about(entry.key).get("maximum", math.inf):
            continue  # a share is 1 at most
        document = loading.load(plan, [f"{entry.key}={float(Fraction(entry.value) * 11 / 10)!r}"])
        there = compute_values(document, ["time.training_days"])["time.training_days"]
        assert float(Fraction(there) / here - 1) == pytest.approx(float(entry.change), rel=1e-6)


@pytest.mark.slow
def test_where_roundings_lie_between_the_slope_is_a_difference_and_says_so(
    run_cli: RunCli,
) -> None:
    """Rows of the fullest device are whole, and so are the tiles of its products."""
    plan = loading.load(
        "presets/mixtral8x7b_h100x1024.yaml",
        {"time.mfu": None, "training.expert_imbalance": Fraction(6, 5)},
    )
    entry = next(
        entry
        for entry in find_sensitivity(plan, "time.step_seconds").measures
        if entry.key == "training.expert_imbalance"
    )
    assert entry.by_difference
    less, here, more = (
        compute_values(variant(plan, {entry.key: value}), ["time.step_seconds"])[
            "time.step_seconds"
        ]
        for value in (Fraction(108, 100), Fraction(120, 100), Fraction(132, 100))
    )
    assert float(entry.elasticity) == pytest.approx(float((more - less) / here / 0.2))
    text = run_cli(
        "sensitivity", "presets/mixtral8x7b_h100x1024.yaml", "time.step_seconds",
        "--set", "time.mfu=null", "--set", "training.expert_imbalance=1.2",
    ).stdout  # fmt: skip
    row = next(line for line in text.splitlines() if "training.expert_imbalance" in line)
    assert "mean of a tenth less and a tenth more" in row


def test_choices_move_as_people_move_them() -> None:
    """Twice as many, or a width the next multiple of 128; never the multiprocessors of a device."""
    steps = {s.key: s for s in step_choices(loading.load(LLAMA), "memory.process")}
    assert steps["model.mlp.intermediate"].after == 28_672 + 128
    assert steps["training.sequence_length"].after == 2 * 4096
    assert steps["model.layers"].after == 84
    assert not [key for key in steps if key.startswith("cluster.accelerator.")]
