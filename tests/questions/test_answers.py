"""What answers say in words, by arithmetic done here: sizes, shares, what is left, what lacks."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from planner.base import numbers
from planner.base.errors import PlanError
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.domains import MOST_LAYERS
from planner.questions.solve import (
    answers,
    budgets,
    families,
    intervals,
    priced_devices,
    questions,
)
from planner.questions.solve.evaluations import Goal
from planner.results.result import evaluate_plan
from tests.conftest import read_data

GPT2 = "presets/gpt2small_hgx-h100.yaml"
LAST = "presets/largest_on_8xh100.yaml"
#: GPT-2 small (Radford et al. 2019): vocabulary and positions of width 768 and the last norm; a
#: layer's 12 h² + 13 h.
AROUND = (50_257 + 1_024) * 768 + 2 * 768
LAYER = 12 * 768**2 + 13 * 768


def numbers_end_below_their_headings(rows: list[str]) -> None:
    """In a table whose columns stand two blanks apart; the first has words."""
    ends = [match.end() for match in re.finditer(r"\S+( \S+)*", rows[0])][1:]
    for row in rows:
        assert len(row) == ends[-1]
        assert all(row[end - 1] != " " and row[end : end + 2].strip() == "" for end in ends)


def words(text: str) -> str:
    """Without the marks between the digits of numbers."""
    return re.sub(r"(?<=\d),(?=\d)", "", text)


def asked(*until: str, **options: Any) -> Any:
    return questions.ask(loading.load(GPT2), vary="model.layers", until=until, **options)


def test_a_limit_on_the_size_is_named_with_what_is_left_and_what_lacks() -> None:
    assert (AROUND, LAYER) == (39_385_344, 7_087_872)
    text = words(questions.text(asked("parameters.total<=500M")))
    limit = "parameters.total <= 500000000 parameters"
    assert text.startswith(f"model.layers: 64 is the largest with {limit}\n")
    left, lacks = 500_000_000 - AROUND - 64 * LAYER, AROUND + 65 * LAYER - 500_000_000
    assert f"{left} parameters to spare here, the next value is {lacks} parameters short" in text
    assert f"holds  64  parameters.total {AROUND + 64 * LAYER} parameters" in text
    assert f"fails  65  parameters.total {AROUND + 65 * LAYER} parameters" in text


@pytest.mark.parametrize("relation", ["<=", ">="])
def test_a_limit_that_is_met_exactly_is_met_at_the_root(relation: str) -> None:
    answer = asked(f"parameters.total{relation}{AROUND + 64 * LAYER}")
    assert answer.holds.value == 64


def test_the_smallest_is_called_so_and_bound_by_the_limit_that_it_meets_last() -> None:
    answer = asked("parameters.total>=500M", "parameters.total>=400M")
    assert words(questions.text(answer)).startswith("model.layers: 65 is the smallest with ")
    assert answer.binding is not None and answer.binding.value == 500_000_000


def test_two_limits_that_only_one_at_a_time_can_keep_contradict_each_other() -> None:
    """64 layers have too few parameters, 65 too many."""
    until = ("parameters.total<=499M", "parameters.total>=500M")
    answer = asked(*until)
    assert answer.holds is None and answer.together and len(answer.unmet) == 2
    text = words(questions.text(answer))
    assert "contradict each other: each can be met, both cannot be met" in text
    assert text.startswith("model.layers: no value satisfies parameters.total <= 499000000 param")


def test_a_limit_below_every_value_is_missed_by_what_the_smallest_has_more() -> None:
    answer = asked("parameters.total<=30M", "memory.total>=1 GiB")
    assert answer.holds is None and [limit.value for limit in answer.unmet] == [30_000_000]
    more = AROUND + LAYER - 30_000_000
    text = words(questions.text(answer))
    assert f"cannot be met; the nearest value misses it by {more} parameters" in text


def test_by_bytes_alone_no_limit_is_named() -> None:
    """80 GB on each of eight devices at 16 bytes a parameter of Adam in mixed precision."""
    plan = loading.load(read_data("plans")["size_alone"])
    text = words(questions.text(questions.ask(plan, "largest-model")))
    first = text.splitlines()[0]
    assert first == "largest-model: 40.0B parameters is the largest by bytes of state alone"
    assert "With nothing but these bytes; " in text and "As an architecture" not in text
    assert f"8 × 80000000000 bytes / 16 bytes = {8 * 80 * 10**9 // 16} parameters" in text


def test_heads_of_keys_and_values_stay_as_many_where_they_are_shared() -> None:
    """Twice the width has twice the query heads; 32 of 32 are not shared."""
    for heads, wide in ((8, 8), (32, 64)):
        model = {"extends": "llama2-7b", "attention": {"kv_heads": heads}}
        _, family = families.build_family(loading.load(LAST, {"model": model}), free=True)
        place = family.widths.index(2 * 4096)
        changed = family.build_changes(place * families.ROW + 64)
        assert changed["model.attention.heads"] == 64
        assert changed["model.attention.kv_heads"] == wide


def test_what_a_family_keeps_is_named() -> None:
    """Llama 3 8B (arXiv 2407.21783): 32 query heads of 128, 8 of keys and values."""
    _, family = families.build_family(loading.load(LAST, {"model": "llama3-8b"}), free=True)
    assert family.domain.step.endswith(
        "; heads of 128, 8 key/value heads and feed-forward ratio kept"
    )
    domain = family.domain
    least = family.build_changes(domain.first)
    assert least["model.hidden"] == min(family.widths) and domain.has(domain.first)
    assert least["model.layers"] == family.bound_depths(0)[0]


def test_what_published_runs_leave_open_stands_around_the_size_and_ends_with_its_shape() -> None:
    plan = loading.load(GPT2, {"time.mfu": None, "training.tokens": "20B"})
    answer = questions.ask(plan, "largest-model-by-deadline", deadline="3 days", with_layout="own")
    text = questions.text(answer)
    assert "As an architecture, everything on the device counted:" in text
    first = text.splitlines()[0]
    shape = r"\d+ layers, hidden \d+, \d+ heads"
    assert re.search(
        rf": ~[\d.]+M parameters \([\d.]+M to [\d.]+M, as predicted {shape}\) is ", first
    )


@pytest.mark.slow
def test_an_answer_in_any_layout_has_an_interval_in_the_layout_of_the_answer() -> None:
    plan = loading.load(GPT2, {"time.mfu": None, "training.tokens": "20B"})
    answer = questions.ask(
        plan, "largest-model-by-deadline", deadline="3 days", with_layout="auto", margin="0"
    )
    slow, fast = intervals.bound_answer(answer)
    assert slow.number < answer.holds.number < fast.number


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("preset", ["gpt2small_hgx-h100", "gpt3_a100x1024", "llama70b_h100x1024"])
def test_the_largest_model_is_not_larger_than_with_the_fastest_runs(preset: str) -> None:
    """Also where the layout cuts its layers unevenly, as 191 of them into 64 chunks."""
    answer = questions.ask(loading.load(f"presets/{preset}.yaml"), "largest-model")
    ends = intervals.bound_answer(answer)
    if ends is not None:
        assert answer.holds.number <= ends[1].number


def test_a_stack_that_is_spelled_out_has_one_pattern_or_more() -> None:
    """Jamba (arXiv 2403.19887): eight layers in a pattern."""
    _, family = families.build_family(loading.load(LAST, {"model": "jamba-52b"}))
    least, most = family.bound_depths(0)
    assert (least, family.unit) == (1, 8) and most == MOST_LAYERS // 8
    assert family.build_changes(least)["model.layers"] == 8


# -- compute-optimal ---------------------------------------------------------------------------


def plain(tokens: str = "200B", **training: Any) -> Plan:
    """10B parameters on eight devices at 2 USD an hour, at half of their peak."""
    return loading.load(
        {
            "name": "x",
            "model": {"parameters": "10B"},
            "cluster": {"extends": "hgx-h100", "price": "2 USD/h"},
            "training": {"tokens": tokens, **training},
            "time": {"mfu": 0.5, "use": "assumed"},
        }
    )


@pytest.mark.parametrize(
    ("tokens", "count", "each", "verdict"), read_data("questions")["tokens_each_parameter"]
)
def test_tokens_for_each_parameter_are_their_ratio(
    tokens: str, count: str, each: str, verdict: str
) -> None:
    """Hoffmann et al. 2022 (arXiv 2203.15556): about 20 tokens for each parameter are optimal."""
    answer = budgets.solve_budget(plain(tokens))
    text = words(budgets.text(answer))
    said = f"This plan: 10.0B parameters, {count} tokens, {each} for each parameter: {verdict}"
    assert said in text
    lines = text.splitlines()
    numbers_end_below_their_headings(lines[2:9])
    numbers_end_below_their_headings(lines[12:19])
    data = json.loads(budgets.to_json(answer))
    for law, *rows in zip(data["laws"], lines[3:9], lines[13:19], strict=True):
        numbers = (row.removeprefix(f"  {law['title']}") for row in rows)
        chosen, own = (re.findall(r"\d[\d.]*|–", row) for row in numbers)
        assert float(chosen[2]) == pytest.approx(law["tokens"] / law["parameters"], rel=0.006)
        losses = (
            (chosen[3], law["loss"]),
            *zip(own[2:], list(law["plan"].values())[2:], strict=True),
        )
        for printed, loss in losses:  # in four digits
            assert printed == "–" if loss is None else float(printed) == round(loss, 3)
        if law["plan"]["ratio"] is not None:
            whole = law["plan"]["ratio"] * law["plan"]["optimal_tokens"]
            assert whole == pytest.approx(float(answer.tokens or 0))


@pytest.mark.parametrize("dollars", [1, 1600])
def test_dollars_buy_the_hours_of_all_devices(dollars: int) -> None:
    plan = plain()
    rate = compute_values(plan, ["time.tokens_per_second"])["time.tokens_per_second"]
    seconds = Fraction(dollars, 2 * 8) * 3600
    answer = budgets.solve_budget(plan, f"{dollars} USD")
    assert answer.flops == 6 * 10**10 * Fraction(rate) * seconds
    assert (answer.seconds, answer.cost) == (seconds, dollars)
    assert json.loads(budgets.to_json(answer))["budget"]["days"] == float(seconds / 86_400)


@pytest.mark.parametrize("budget", ["0 USD", "0 days", "0 FLOP"])
def test_nothing_buys_nothing(budget: str) -> None:
    with pytest.raises(PlanError, match=r"buys nothing"):
        budgets.solve_budget(plain(), budget)


def test_the_rest_of_a_day_is_a_budget_too() -> None:
    plan = plain()
    rate = compute_values(plan, ["time.tokens_per_second"])["time.tokens_per_second"]
    assert budgets.solve_budget(plan, "1 s").flops == 6 * 10**10 * Fraction(rate)
    assert (
        budgets.solve_budget(variant(plan, {"training.tokens": None}), "3e20 FLOP").flops
        == 3 * 10**20
    )


@pytest.mark.parametrize(("ratios", "words"), read_data("questions")["what_laws_say"])
def test_what_laws_agree_on_is_said(ratios: tuple[float, ...], words: str) -> None:
    """One that later work disagrees with has no say."""
    said = [(True, ratio) for ratio in ratios] + [(False, 0.1), (False, 10)]
    laws = [SimpleNamespace(law={"current": now}, ratio=ratio) for now, ratio in said]
    assert budgets._judge_plan(SimpleNamespace(choices=laws)) == words  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", ["3e20 FLOP", "5 days"])
def test_what_published_runs_leave_open_of_a_rate_is_left_open_of_what_it_turns_into(
    budget: str,
) -> None:
    """FLOP take days at the rate; days buy FLOP at it."""
    plan = loading.load(GPT2, {"time.mfu": None})
    rate = evaluate_plan(plan).find("time.tokens_per_second")
    flops_per_token = 6 * compute_values(plan, ["parameters.active"])["parameters.active"]
    ends = [flops_per_token * Fraction(bound) for bound in rate.interval]
    if "days" in budget:
        expected = [numbers.text(5 * 86_400 * end, "FLOP") for end in ends]
    else:
        expected = [numbers.text(3 * 10**20 / end, "s") for end in reversed(ends)]
    answer = budgets.solve_budget(plan, budget)
    assert any(f"leave {expected[0]} to {expected[1]} open" in note for note in answer.notes)
    assert answer.shape is not None
    titles = {choice.law["name"]: choice.law["title"] for choice in answer.choices}
    first = next(c.law["name"] for c in answer.choices if c.law["current"] and c.loss is not None)
    assert answer.shape.law == first
    assert f"Nearest to {titles[first]}, in the shape of" in budgets.text(answer)


def test_parameters_of_experts_are_those_of_one_token() -> None:
    said = "of a mixture of experts, parameters are those that one token uses"
    for model in ("mixtral-8x7b", "llama2-7b"):
        plan = loading.load(LAST, {"model": model})
        notes = budgets._yield_caveats(None, plan, 1, None, None, None)  # type: ignore[arg-type]
        assert (said in notes) == (model == "mixtral-8x7b")


# -- words --------------------------------------------------------------------------------------


def test_an_end_without_a_value_is_told_on_its_side() -> None:
    """The slowest run allows the least: the smallest of sizes, the largest of devices needed."""
    holds, end = SimpleNamespace(number=17, plan=None), SimpleNamespace(number=23, index=5)
    for direction, words in ((1, "~17 (no value to 23)"), (-1, "~17 (23 to no value)")):
        domain = SimpleNamespace(key="x", unit="1")
        answer = SimpleNamespace(direction=direction, domain=domain)
        assert answers._format_result(answer, holds, (None, end)) == words  # type: ignore[arg-type]


def test_kernels_that_follow_from_a_layout_are_not_among_its_words() -> None:
    base = {"parallelism.tensor": 2, "parallelism.zero": 1}
    for kernels in (None, "megatron"):
        plan = variant(loading.load(GPT2), {**base, "training.implementation": kernels})
        found = answers.summarise_layout(plan).split(", ")
        assert "tensor 2" in found and "zero 1" in found
        assert [word for word in found if "megatron" in word] == ["kernels megatron"] * bool(
            kernels
        )
        assert not any("implementation" in word for word in found)


def test_data_has_what_the_question_is_about() -> None:
    """Published models stand beside a model, an accelerator beside the cheapest."""
    data = json.loads(questions.to_json(asked("parameters.total<=500M")))
    assert data["holds"].keys() == {"value", "set", "quantities", "slack"}
    assert "published" not in data


def test_a_layout_is_free_where_it_is_left_open_or_of_a_model_that_is_trained() -> None:
    """Not where only a size is given, nor where the time rests on an assumed utilisation."""
    model, deadline = "largest-model", "largest-model-by-deadline"

    def free(question: str | None, searched: Any = None, **given: Any) -> bool:
        keys = {
            "training.mode": "train",
            "training.sequence_length": 128,
            "time.mfu": None,
            **given,
        }
        settings = {"time.assumed": keys.get("time.use") == "assumed"}
        plan = SimpleNamespace(
            model=given.get("shape", ()),
            searched=searched,
            get=keys.get,
            settings=settings,
            reinforced=False,
        )
        return questions._is_free(plan, question, given.get("layout"), None)  # type: ignore[arg-type]

    assert free(model) and free(deadline) and not free("fewest-devices") and not free(None)
    assumed = {"time.mfu": 0.4, "time.use": "assumed"}
    assert free(model, **assumed) and not free(deadline, **assumed)
    assert not free(model, **{"training.mode": "serve"})
    assert not free(model, **{"training.sequence_length": None}) and not free(model, shape=None)
    assert free("fewest-devices", searched={}) and free(None, searched={})
    assert free("fewest-devices", layout="auto") and not free(model, layout="own")


def test_the_sense_of_a_goal_is_a_sign() -> None:
    plan, quantity = loading.load(GPT2), "time.mfu"
    assert questions._goal(plan, "key", quantity, None) == Goal(quantity, 1)
    assert questions._goal(plan, "key", None, "mfu") == Goal(quantity, -1)


def test_a_price_of_a_list_has_its_source_and_one_of_the_plan_has_none() -> None:
    plan = loading.load(GPT2)
    listed = priced_devices.list_offers(plan)[0]
    assert listed.price == plan.get("cluster.price") and "https://" in listed.source
    own = priced_devices.list_offers(variant(plan, {"cluster.price": listed.price + 1}))[0]
    assert own.price == listed.price + 1 and own.source == ""


@pytest.mark.slow
def test_beside_the_best_the_next_ones_say_what_they_lack() -> None:
    """Of sizes within 500M that of 64 layers is the largest, a layer less one layer smaller; the
    smallest has one layer, and two are one layer larger."""
    best = words(questions.text(asked("parameters.total<=500M", maximize="parameters.total")))
    lacks = AROUND + 65 * LAYER - 500_000_000
    assert f"64 makes parameters.total largest, {AROUND + 64 * LAYER} parameters, with" in best
    assert f"One step less: parameters.total is {LAYER} parameters less.\n" in best
    assert "One step more: parameters.total <= 500000000 parameters is missed by " in best
    assert f"is missed by {lacks} parameters.\n" in best
    assert f"  less   63  parameters.total {AROUND + 63 * LAYER} parameters" in best
    assert f"  more   65  parameters.total {AROUND + 65 * LAYER} parameters" in best
    least = words(questions.text(asked(minimize="parameters.total")))
    assert least.startswith(f"model.layers: 1 makes parameters.total smallest, {AROUND + LAYER} ")
    assert f"One step more: parameters.total is {LAYER} parameters more.\n" in least
    assert "One step less" not in least


@pytest.mark.slow
@pytest.mark.parametrize("hours", [12])
def test_devices_cost_their_hours(hours: int) -> None:
    """However long it takes, all of them are paid for by the hour; the cheapest end in time, and
    one node less does not, or costs more."""
    plan = loading.load(GPT2, {"time.mfu": None, "training.tokens": "300B"})
    prices = {"H100": 3, "A100": Fraction(9, 10)}
    offered = ["h100-sxm-80gb=3 USD/h", "a100-sxm-80gb=0.9 USD/h"]
    answer = questions.ask(plan, "cheapest", deadline=f"{hours} h", accelerators=offered)
    days = "time.training_days"
    for row in answer.extra["rows"]:
        if row.holds is None:
            assert re.search(r"already|even at 100 % utilisation", row.reason)
            continue
        taken = compute_values(row.holds.plan, [days])[days]
        price = prices[row.offer.accelerator[7:11]]
        assert row.holds.value % 8 == 0 and 24 * taken <= hours
        assert float(row.cost) == pytest.approx(float(row.holds.value * 24 * taken * price))
    found = [row for row in answer.extra["rows"] if row.holds is not None]
    assert answer.holds.values["cost.total"] == min(row.cost for row in found)
    less, more = answer.beside
    best = answer.holds.values["cost.total"]
    assert less.value < answer.holds.value < more.value
    for side in (less, more):
        assert 24 * side.values[days] > hours or side.values["cost.total"] > best
    text = words(questions.text(answer))
    name = answer.holds.plan.get("cluster.accelerator.name")
    assert text.startswith(f"cheapest: {answer.holds.value} × {name} for ")
    assert f"  less   {less.value} × {name}  " in text
    for side, step in ((less, "less"), (more, "more")):
        if side.broken:
            assert f"One step {step}: time.training_days <= " in text
        else:
            said = re.search(rf"One step {step}: cost.total is ([\d.]+) USD more\.", text)
            assert said is not None
            assert float(said[1]) == pytest.approx(side.values["cost.total"] - best, rel=0.01)
