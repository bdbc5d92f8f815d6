"""Scaling laws: the tables that papers print, how optima grow, and what a budget buys."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import planner
from planner.engine import scaling_laws as laws
from planner.engine.instance import compute_values
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.solve import budgets, families
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
LLAMA = "tests/documents/llama70b_assumed.yaml"

# Hoffmann et al. 2022 (arXiv 2203.15556), tables 3 and A3: parameters, FLOPs, tokens
CHINCHILLA = read_data("chinchilla")
#: The row of 67 billion lies 4 % beside a line through the others, in each table; approach 3's
#: constants in print miss its table by up to 12 %.
NEAR = {"chinchilla-1": 0.02, "chinchilla-2": 0.04, "chinchilla-3": 0.12}


def sized(parameters: float, tokens: float) -> dict[str, Any]:
    return {
        "name": "a size",
        "model": {"parameters": int(parameters)},
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64, "devices_per_node": 8},
        "training": {"tokens": int(tokens), "sequence_length": 2048, "global_batch": 64},
        "time": {"mfu": 0.4, "use": "assumed"},
    }


def choices(plan: planner.api.Plan, budget: str | None = None) -> dict[str, budgets.LawChoice]:
    found = plan.solve("compute-optimal", **({"budget": budget} if budget else {}))
    return {choice.law["name"]: choice for choice in found.choices}


@pytest.mark.parametrize(
    ("law", "parameters", "flops", "tokens"),
    [(law, *row) for law, rows in CHINCHILLA.items() for row in rows],
)
def test_the_tables_of_chinchilla(law: str, parameters: float, flops: float, tokens: float) -> None:
    found = choices(planner.load(sized(parameters, tokens)), f"{flops:.3e} FLOP")[law]
    assert float(found.parameters) == pytest.approx(parameters, rel=NEAR[law])
    # the table rounds tokens to 0.1 trillion, and its row of 67 billion to 1.5 where 6ND gives 1.43
    rounding = 0.05e12 / tokens if tokens >= 1e12 else 0
    assert float(found.tokens) == pytest.approx(tokens, rel=NEAR[law] + rounding + 0.02)
    assert found.model_tokens is not None
    assert float(found.model_tokens) == pytest.approx(tokens, rel=2 * NEAR[law] + rounding)


def test_exponents_lie_in_the_intervals_of_table_2() -> None:
    one, two, three = (law for law in laws.list_laws() if law.name.startswith("chinchilla"))
    from planner.book.notation import a_D, a_N

    assert 0.488 <= float(one.bindings[a_N]) <= 0.502 and float(one.bindings[a_D]) <= 0.512
    assert 0.462 <= float(two.bindings[a_N]) <= 0.534
    assert round(float(three.bindings[a_N]), 2) == 0.46
    assert round(float(three.bindings[a_D]), 2) == 0.54


def test_what_gopher_cost_buys() -> None:
    """Sections 3.1 to 3.3 and figure 4: 67, 63 and 40 billion; refitted, Chinchilla's own shape."""
    found = choices(planner.load(sized(280e9, 300e9)), "5.76e23 FLOP")
    sizes = {law: float(choice.parameters) / 1e9 for law, choice in found.items()}
    assert sizes["chinchilla-1"] == pytest.approx(67, rel=0.02)
    assert sizes["chinchilla-2"] == pytest.approx(63, rel=0.02)
    assert sizes["chinchilla-3"] == pytest.approx(40, rel=0.02)
    # Besiroglu et al. 2024: about 20 tokens for each parameter, as Chinchilla was trained
    each = float(found["replication"].tokens) / float(found["replication"].parameters)
    assert 17 < each < 22


def test_the_extrapolations_that_llama_3_and_kaplan_print() -> None:
    found = choices(planner.load(sized(405e9, 15.6e12)), "3.8e25 FLOP")["llama3"]
    assert (found.parameters, found.tokens) == pytest.approx((402e9, 16.55e12), rel=1e-9)
    day = choices(planner.load(sized(1e9, 20e9)), "86.4e18 FLOP")["kaplan"]
    assert (day.parameters, day.tokens) == pytest.approx((1.3e9, 2e10), rel=1e-9)


def test_doubling_a_budget_multiplies_by_the_exponents() -> None:
    plan = planner.load(LLAMA)
    small, large = choices(plan, "1e23 FLOP"), choices(plan, "2e23 FLOP")
    for law in laws.load_laws():
        one, two = small[law["name"]], large[law["name"]]
        up = math.log2(float(two.parameters) / float(one.parameters))
        on = math.log2(float(two.tokens) / float(one.tokens))
        assert up + on == pytest.approx(1)  # 6 N D doubles
        if "exponents" in law:
            assert up == pytest.approx(float(law["exponents"]["parameters"]))


def test_a_loss_is_lowest_at_the_optimum_and_the_optimum_is_its_own() -> None:
    for law in ("chinchilla-3", "replication"):
        found = choices(planner.load(sized(70e9, 1.4e12)))[law]
        size, tokens = float(found.parameters), float(found.tokens)
        at = choices(planner.load(sized(size, tokens)))[law]
        assert at.ratio is not None and float(at.ratio) == pytest.approx(1, rel=1e-6)
        assert found.loss is not None and at.plan_loss is not None
        assert float(at.plan_loss) == pytest.approx(float(found.loss), rel=1e-9)
        for scale in (0.8, 1.25):
            beside = choices(planner.load(sized(size * scale, tokens / scale)))[law]
            assert beside.plan_loss is not None and beside.plan_loss > at.plan_loss


def test_money_and_time_buy_what_the_plan_would_spend() -> None:
    plan = planner.load(LLAMA)
    result = plan.evaluate()
    own = plan.solve("compute-optimal")
    days = plan.solve(
        "compute-optimal", budget=f"{float(result['time.training_days'].number)} days"
    )
    cost = plan.solve("compute-optimal", budget=f"{float(result['cost.total'].number)} USD")
    assert float(days.flops) == pytest.approx(float(own.flops), rel=1e-9)
    assert float(cost.flops) == pytest.approx(float(own.flops), rel=1e-9)
    assert float(own.cost) == pytest.approx(float(result["cost.total"].number))


@pytest.mark.parametrize("preset", ["llama70b_h100x1024", "mixtral8x7b_h100x1024"])
def test_a_model_of_the_plans_shape_is_near_the_choice(preset: str) -> None:
    """As the keys of the answer, set in the plan, say themselves."""
    file = f"presets/{preset}.yaml"
    answer = planner.load(file).solve("compute-optimal", budget="1e24 FLOP")
    wanted = {choice.law["name"]: choice for choice in answer.choices}[answer.shape.law]
    found = planner.load(file, set=dict(answer.shape.changes)).evaluate()["parameters.active"]
    assert found.value == answer.shape.parameters
    assert float(found.number) == pytest.approx(float(wanted.parameters), rel=0.12)


@pytest.mark.parametrize("place", [3, 5, 8])
def test_a_size_that_is_one_of_the_family_is_that_model(place: int) -> None:
    """The shallowest of a width too, which is no deeper model of the width before."""
    plan = loading.load("presets/largest_on_8xh100.yaml", {"model": "llama2-7b"})
    whole, family = families.build_family(plan)
    changes = family.build_changes(family.domain.rows[place][0])
    size = compute_values(variant(whole, changes), ["parameters.active"])["parameters.active"]
    choice = SimpleNamespace(parameters=size, law={"name": "any"})
    found = budgets._find_nearest(plan, choice)  # type: ignore[arg-type]
    assert found is not None and found.parameters == size and found.changes == changes


def test_over_and_under_trained() -> None:
    for tokens, word in ((300e9, "under-trained"), (1.5e12, "near"), (15e12, "over-trained")):
        text = budgets.text(planner.load(sized(70e9, tokens)).solve("compute-optimal"))
        assert f"for each parameter: {word}" in text
        assert max(map(len, text.splitlines())) <= 130


def test_fine_tuning_and_serving_have_no_scaling_law() -> None:
    for changes in ({"training.mode": "inference"}, {"training.lora.rank": 8}):
        plan = planner.load(LLAMA, set=changes)
        assert not [i for i in plan.evaluate().quantities if i.startswith("scaling.")]
        with pytest.raises(planner.PlanError, match="from scratch"):
            plan.solve("compute-optimal")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "plan.py", "solve", LLAMA, "compute-optimal", *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_the_question_on_the_command_line() -> None:
    done = run("--budget", "2M USD", "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["budget"]["USD"] == 2_000_000
    assert {law["law"] for law in answer["laws"]} == {law["name"] for law in laws.load_laws()}
    assert all(law["source"] and law["parameters"] > 0 for law in answer["laws"])


@pytest.mark.parametrize(("arguments", "words"), read_data("faults")["scaling"])
def test_what_cannot_be_asked(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
