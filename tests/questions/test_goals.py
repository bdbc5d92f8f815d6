"""Goals, families, free layouts, the cheapest devices; and answers that move the right way."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from planner.base.errors import Fault, PlanError
from planner.engine.instance import compute_values
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.domains import Domain
from planner.questions.search.engine import FITS, SURE, Walk
from planner.questions.solve import answers, cheapest, intervals, priced_devices, questions
from planner.questions.solve.evaluations import Probes
from planner.questions.solve.solve import Answer
from planner.results.result import evaluate_plan
from tests.conftest import RunCli, leave_to_night
from tests.layouts import find_best
from tests.strategies import plans

GPT2 = "presets/gpt2small_hgx-h100.yaml"
LLAMA = "tests/documents/llama70b_assumed.yaml"


def load(path: str, **changes: Any) -> Any:
    return loading.load(path, {key.replace("__", "."): value for key, value in changes.items()})


# goals


def test_a_monotone_goal_ends_at_the_limit() -> None:
    until = ["time.training_days<=30 days"]
    plan = load(LLAMA)
    by_goal = questions.ask(plan, vary="training.tokens", until=until, maximize="cost.total")
    by_limit = questions.ask(plan, vary="training.tokens", until=until)
    assert by_goal.holds.value == by_limit.holds.value
    assert "One step more: time.training_days <= 30 days is missed" in questions.text(by_goal)


# families


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", leave_to_night(["llama3-8b", "mixtral-8x7b", "deepseek-v2-lite"], ["mixtral-8x7b"])
)
def test_another_family_is_scaled_in_its_own_shape(family: str) -> None:
    plan = load("presets/largest_on_8xh100.yaml")
    answer = questions.ask(plan, "largest-model", family=family)
    assert answer.holds and answer.fails and answer.fails.broken
    shape, model = loading.load({**named(family)}), answer.holds.plan.get("model")
    assert model["vocab"] == shape.get("model.vocab")
    if model.get("moe"):
        assert model["moe"]["experts"] == shape.get("model.moe.experts")
    data = json.loads(questions.to_json(answer))
    assert data["family"] == family and data["holds"]["value"] < 8 * 80e9 / 16


def named(model: str) -> dict[str, Any]:
    return {
        "name": "a plan",
        "model": model,
        "cluster": "hgx-h100",
        "training": {"tokens": 10**9, "sequence_length": 128, "micro_batch": 1},
    }


# free layouts


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("question", ["longest-context", "largest-batch"])
def test_a_free_layout_is_never_worse_than_the_plans_own(question: str) -> None:
    plan = load(GPT2, model__positions="rope", model__max_sequence=None)
    until = ["time.step_seconds<=60 s"]
    own = questions.ask(variant(plan, {"time.mfu": None}), question, until=until)
    free = questions.ask(plan, question, until=until, with_layout="auto")
    assert free.holds and own.holds and free.holds.value >= own.holds.value * 15 // 16
    assert not any(not li.is_met(free.holds.values[li.quantity]) for li in free.limits)


@pytest.mark.slow
@pytest.mark.parametrize("path", leave_to_night([GPT2, "presets/largest_on_8xh100.yaml"], [GPT2]))
def test_a_failure_names_the_layout_of_all_that_lacks_least(path: str) -> None:
    """One step beyond the largest model, every layout in turn; and each size up to it fits."""
    answer = questions.ask(load(path), "largest-model", with_layout="auto", unbounded=True)
    assert answer.holds is not None and answer.fails is not None
    chunks = list(Walk(answer.fails.plan, (SURE,)))
    room = max(float(chunk.values[SURE][chunk.valid].max()) for chunk in chunks)
    assert float(answer.fails.values[SURE]) == pytest.approx(room, rel=1e-9) and room < 0
    assert not any("monotone" in note for note in answer.notes)
    for index in range(answer.holds.index - 3, answer.holds.index + 1):
        changes = answer.domain.changes(answer.domain.value(index))
        assert find_best(variant(answer.holds.plan, changes), FITS) is not None


@pytest.mark.nightly
@pytest.mark.parametrize("batch", [464, 512])
def test_a_batch_that_more_layouts_divide_holds_beyond_one_that_fewer_do(batch: int) -> None:
    """Steps of neighbouring batches are far apart: the answer is the largest batch all the same."""
    one = {"training.micro_batch": 1, "training.tokens": 10**9, "training.global_batch": 512,
           "parallelism.pipeline": 2}  # fmt: skip
    plan = variant(load(GPT2), one)
    found = {each: find_best(variant(plan, {**one, "training.global_batch": each}))
             for each in range(440, 533, 4)}  # fmt: skip
    steps = {each: layout.values["time.step_seconds"] for each, layout in found.items() if layout}
    assert list(steps.values()) != sorted(steps.values())
    bound = float(steps[batch]) * (1 + 1e-9)
    until = [f"time.step_seconds<={bound} s"]
    vary = {"vary": "training.global_batch", "with_layout": "auto", "unbounded": True}
    answer = questions.ask(plan, until=until, **vary)
    assert answer.holds and answer.fails and answer.fails.broken
    assert answer.holds.value == max(each for each, step in steps.items() if step <= bound)


# cheapest


@pytest.mark.slow
def test_the_cheapest_of_two_is_the_cheaper_one_and_earlier_costs_more() -> None:
    plan = load(GPT2)
    offers = "h100-sxm-80gb,a100-sxm-80gb=1.5 USD/h"
    slow, fast = (
        questions.ask(plan, "cheapest", deadline=deadline, accelerators=offers)
        for deadline in ("3 h", "20 min")
    )
    assert slow.holds.plan.get("cluster.accelerator.name").startswith("NVIDIA A100")
    assert slow.holds.values["cost.total"] < fast.holds.values["cost.total"]
    assert slow.holds.value < fast.holds.value
    for answer in (slow, fast):
        costs = [row.cost for row in answer.extra["rows"] if row.cost is not None]
        assert answer.holds.values["cost.total"] == min(costs)
        for probe in answer.beside:
            worse = probe.values["cost.total"] > answer.holds.values["cost.total"]
            assert probe.broken or worse
            assert abs(probe.index - answer.holds.index) == 1
    text = questions.text(slow)
    assert "Devices to choose from:" in text and "Layout:" in text


@pytest.mark.nightly
def test_devices_that_are_too_few_and_cost_more_already_are_not_looked_at_further() -> None:
    """A hundred times the price: two nodes miss the deadline, and more of them would cost more."""
    plan = load(LLAMA, cluster__devices=128)
    offers = ["h100-sxm-80gb", "a100-sxm-80gb=50 USD/h"]
    few = {"question": "cheapest", "deadline": "300 days"}
    answer = questions.ask(plan, accelerators=offers, **few)
    dear = next(row for row in answer.extra["rows"] if row.cost is None)
    assert dear.offer.accelerator.startswith("NVIDIA A100")
    assert "even at 100 % utilisation" in dear.reason
    alone = questions.ask(plan, accelerators=offers[1:], **few)
    assert alone.holds and answer.holds
    assert alone.holds.values["cost.total"] > answer.holds.values["cost.total"]


def test_shipped_prices_are_offered() -> None:
    from planner.questions.solve.priced_devices import list_offers

    found = {offer.accelerator: offer.price for offer in list_offers(load(GPT2))}
    listed = [yaml.safe_load(file.read_text()) for file in Path("presets/accelerators").iterdir()]
    kinds = {one["name"]: {row["kind"] for row in one.get("prices") or ()} for one in listed}
    assert found.keys() == {name for name, of in kinds.items() if of - {"reserved", "spot"}}
    assert found["NVIDIA H800 SXM5 80 GB"] == 2
    # The lowest of the price lists of four providers, and of the one that the plan names.
    assert found["NVIDIA H200 SXM5 141 GB"] == Fraction("3.99")  # Hyperstack, 2026-08
    asked = list_offers(load(GPT2, cluster__provider="coreweave"))
    named = {offer.accelerator: offer.price for offer in asked}
    assert named["NVIDIA H200 SXM5 141 GB"] == Fraction("6.305")
    assert {offer.keys["cluster"]["provider"] for offer in asked if offer.keys.get("cluster")} == {
        "coreweave"
    }


def test_at_best_devices_cost_their_hours_at_the_peak() -> None:
    """Twelve devices are two nodes of eight; an H100 has 989.5e12 FLOP/s at 3 USD an hour."""
    plan = load(GPT2, cluster__devices=12, training__global_batch=480, training__micro_batch=1)
    (offer,) = priced_devices.list_offers(plan, ["h100-sxm-80gb=3 USD/h"])
    base, cost = cheapest._bound_cost(plan, replace(offer, per_node=8))
    assert not isinstance(base, PlanError) and base.get("cluster.devices") == 16
    flops = compute_values(plan, ["compute.training_flops"])["compute.training_flops"]
    assert cost == Fraction(3 * 2 * flops, 1979 * 10**12 * 3600)


@pytest.mark.slow
def test_software_follows_the_devices_that_are_compared() -> None:
    """Each kind gets the stack that a plan for it gets which names none."""
    run = {"tokens": "1T", "global_batch": 1024}
    plan = loading.load({"model": "llama2-7b", "cluster": "hgx-h100", "training": run})
    for offer in priced_devices.list_offers(plan, ["hgx-h100", "mi300x"]):
        base = cheapest._bound_cost(plan, offer)[0]
        assert not isinstance(base, PlanError)
        found = base.get("training.stack")
        changes = {"model": "llama2-7b", "training": run, "cluster": offer.keys["cluster"]}
        assert found == loading.load(changes).get("training.stack")
        assert found.startswith("megatron-bridge") == offer.accelerator.startswith("NVIDIA")


class Priced:
    """Plans whose cost is a function of their number of devices; ``searches`` of them are searched
    for a layout, which the others are not."""

    def __init__(self, cost: Callable[[int], int], searches: int = 0) -> None:
        self.cost, self.searches, self.searched = cost, searches, list[int]()

    def build_variants(self, plan: Any, changes: Any) -> Any:
        if self.searches:
            self.searches -= 1
            self.searched.append(changes["n"])
        return (changes["n"],)

    def evaluate_best(self, plans: Any, exact: bool) -> Any:
        return plans[0], {"cost.total": self.cost(plans[0])}


def counts(last: int = 100) -> Domain:
    return Domain("n", "1", lambda i: i, lambda v: {"n": v}, 10, 1, last)


@pytest.mark.parametrize("best", [10, 11, 12, 14, 18])
def test_counts_above_the_fewest_devices_are_priced(
    best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one with the best layout, and two, four and eight more with known ones; where one of
    these is the cheapest, those beside it with the best of their own."""
    layouts = Priced(lambda count: abs(count - best))
    monkeypatch.setattr(cheapest, "FreeLayout", lambda *_, searches, **__: vars(layouts).update(
        searches=searches) or layouts)  # fmt: skip
    known = Probes(None, counts(), (), evaluator=Priced(layouts.cost))  # type: ignore[arg-type]
    answer = Answer(counts(), -1, (), holds=known.evaluate_index(10), fails=known.evaluate_index(9))
    found, beside = cheapest._compare_counts(None, counts(), answer, {})  # type: ignore[arg-type]
    assert found.index == best and found.exact and all(side.exact for side in beside)
    assert [side.index for side in beside] == [best - 1, best + 1]
    fresh = [count for count in (best - 1, best + 1) if count not in (11, 12, 14, 18)]
    assert layouts.searched == [11, *(fresh if best > 10 else [])]


@pytest.mark.parametrize(
    ("cost", "least", "compared"),
    [(10, inf, True), (10, 10, True), (125, 100, True), (126, 100, False)],
)
def test_clearly_dearer_devices_are_not_looked_at_further(
    cost: int, least: float, compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter more is not clear."""
    probe = Probes(None, counts(), (), evaluator=Priced(lambda _: cost)).evaluate_index(10)  # type: ignore[arg-type]
    asked: list[Any] = []

    def solve_free(base: Any, domain: Any, limits: Any, direction: int, layouts: Any) -> Answer:
        asked.append(direction)
        return Answer(domain, direction, limits, holds=probe)

    monkeypatch.setattr(cheapest.domains, "make_count_domain", lambda *_: counts())
    monkeypatch.setattr(cheapest, "solve_free", solve_free)
    monkeypatch.setattr(cheapest, "_compare_counts", lambda *_: (probe, (probe,)))
    offer: Any = SimpleNamespace(sold=8)
    row = cheapest._solve_offer(None, offer, (), least, {})  # type: ignore[arg-type]
    assert row.answer is not None and bool(row.answer.beside) is compared and row.cost == cost
    assert asked == [-1]

    def invalid(*_: Any, **__: Any) -> Any:
        raise PlanError([Fault("first"), Fault("second")])

    monkeypatch.setattr(cheapest, "solve_free", invalid)
    assert cheapest._solve_offer(None, offer, (), inf, {}).reason == "first"  # type: ignore[arg-type]


def test_devices_that_cost_more_at_their_best_are_not_priced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is tried by what it costs at best, the least first; the cheapest is the answer."""

    class Named(str):
        assumed = False

    best = {Named(name): cost for name, cost in zip("abcde", (5, 8, 1, 7, inf), strict=True)}
    real, priced = {"a": 9, "b": 8, "c": None, "d": 8, "e": None}, list[str]()

    def row(base: Any, offer: Any, *_: Any) -> Any:
        priced.append(offer)
        probes = Probes(None, counts(), (), evaluator=Priced(lambda _: real[offer]))  # type: ignore[arg-type]
        probe = probes.evaluate_index(10)
        late = None if probe is None else replace(probe, broken=(Limit("cost.total", "<=", 2),),
                                                  values={"cost.total": 3})  # fmt: skip
        held = {"holds": probe} if real[offer] else {"miss": late}
        return cheapest.OfferResult(offer, Answer(counts(), -1, (), **held))

    fault = PlanError([Fault("not valid"), Fault("second")])
    monkeypatch.setattr(cheapest, "list_offers", lambda *_: [*best])
    monkeypatch.setattr(cheapest, "_bound_cost", lambda _, offer: (
        fault if offer == "e" else None, best[offer]))  # fmt: skip
    monkeypatch.setattr(cheapest, "_solve_offer", row)
    monkeypatch.setattr(cheapest, "build_options", lambda *_: {})
    answer = cheapest.find_cheapest(None, (), None)  # type: ignore[arg-type]
    assert priced == ["c", "a", "d"] and answer.extra["offer"] == "d"
    reasons = {one.offer: one.reason for one in answer.extra["rows"]}
    assert "even at 100 % utilisation" in reasons["b"] and reasons["e"] == "not valid"
    del best["a"], best["d"], best["b"], best["c"]
    with pytest.raises(PlanError, match="not valid"):
        cheapest.find_cheapest(None, (), None)  # type: ignore[arg-type]


def test_a_price_of_ones_own_is_for_as_many_devices_as_they_are_sold_in() -> None:
    """Cards of RunPod are rented one by one, those of an HGX node together."""
    plan = loading.load(GPT2)
    asked = ["l40s=0.8 USD/h", "a6000=0.4 USD/h", "h200-sxm-141gb=2 USD/h"]
    offers = priced_devices.list_offers(plan, asked)
    assert [offer.sold for offer in offers] == [1, 1, 8]


@pytest.mark.parametrize(("limit", "shown", "left"), [(1, 1, 4), (2, 2, 3), (8, 2, 3)])
def test_kinds_of_device_are_shown_or_counted(limit: int, shown: int, left: int) -> None:
    """Of two at a price and three at an assumed one."""
    rows = [
        cheapest.OfferResult(
            priced_devices.Offer(name, {}, 2, 8, "aws", "", name in "cde"), None, "none fits"
        )
        for name in "abcde"
    ]
    lines = answers.format_offers(Answer(counts(), -1, (), extra={"rows": rows}), limit)
    assert len(lines) == shown + 1 and lines[-1].split()[0] == str(left)


@pytest.mark.slow
def test_an_impossible_deadline_is_missed_by_the_least(run_cli: RunCli) -> None:
    arguments = ("cheapest", "--deadline", "1 s", "--accelerators", "hgx-h100")
    done = run_cli("solve", GPT2, *arguments)
    assert done.returncode == 1 and "cannot be met" in done.stdout


# answers move in the right direction


def solved(plan: Any, **options: Any) -> Any:
    """The value that answers a question; None where there is none, infinite where unbounded."""
    try:
        answer = questions.ask(plan, **options)
    except PlanError as error:
        if "unbounded" in str(error):
            return float("inf")
        raise
    return answer.holds.value if answer.holds else None


@pytest.mark.slow
@settings(max_examples=12)
@given(plans())
def test_more_of_anything_never_buys_less(document: Any) -> None:
    """Doubled deadline and budget for tokens, doubled memory and devices for the model."""
    document["cluster"] = {**document["cluster"], "price": "2 USD/h"}
    plan = loading.load(document)
    chance = random.Random(str(document))
    days = chance.randint(1, 400)

    def tokens(factor: int) -> Any:
        return solved(plan, question="tokens-by-deadline", deadline=f"{factor * days} days")

    def bought(factor: int) -> Any:
        until = [f"cost.total<={factor * 1000 * days} USD"]
        return solved(plan, vary="training.tokens", until=until)

    def layers(devices: int) -> Any:
        sharded = {"parallelism.zero": 3, "training.tokens": 10**9}
        batch = {"training.global_batch": None, "training.gradient_accumulation": None}
        more = {"cluster.devices": devices * plan.get("cluster.devices"), **batch, **sharded}
        return solved(variant(plan, more), vary="model.layers", until=["memory.headroom>=0"])

    for answer in (tokens, bought):
        one, two = answer(1) or 0, answer(2) or 0
        assert two >= one
        if one and two != float("inf"):  # more than any run has
            step = plan.get("training.global_batch") * plan.get("training.sequence_length")
            assert abs(two - 2 * one) <= 2 * step
    if plan.get("parallelism.pipeline") == 1:
        assert (layers(2) or 0) >= (layers(1) or 0)


# plans that leave their layout open


def _open(**training: Any) -> Any:
    return {
        "model": "llama2-7b",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
        "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 512, **training},
        "parallelism": "auto",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    leave_to_night(["longest-context", "tokens-by-deadline", "largest-model"], ["longest-context"]),
)
def test_a_plan_that_leaves_its_layout_open_is_solved_with_the_best_at_each_value(
    question: str,
) -> None:
    """No less than with the layout that was found for the plan as it is, or with any other one."""
    plan, options = loading.load(_open()), {"margin": "0"}
    if question == "tokens-by-deadline":
        options["deadline"] = "30 days"
    free = questions.ask(plan, question, **options)
    assert free.holds is not None and "layouts" in free.extra
    size = compute_values(free.holds.plan, ["parameters.total"])["parameters.total"]
    for changes in (
        {},
        {"parallelism.tensor": 8, "parallelism.pipeline": 2, "parallelism.virtual_pipeline": 1},
        {"parallelism.zero": 3, "training.recompute": "full"},
    ):
        try:
            fixed = variant(plan, changes)
            own = questions.ask(fixed, question, with_layout="own", **options)
        except PlanError:
            continue
        if own.holds is None:
            continue
        if question == "largest-model":
            assert size >= compute_values(own.holds.plan, ["parameters.total"])["parameters.total"]
        else:
            assert free.holds.value >= own.holds.value


@pytest.mark.slow
def test_what_a_plan_gives_of_an_open_layout_stays() -> None:
    document = {**_open(), "parallelism": {"auto": True, "tensor": 4}}
    answer = questions.ask(loading.load(document), "longest-context", unbounded=True)
    assert answer.holds is not None and answer.fails is not None
    for probe in (answer.holds, answer.fails):
        assert probe.plan.get("parallelism.tensor") == 4


def test_a_margin_leaves_room() -> None:
    """By default the 95th percentile of published measurements fits; a share is kept as it says."""
    plan = load(LLAMA)
    room, capacity = {}, "memory.capacity"
    for margin in (None, "p95", "5%", "0"):
        answer = questions.ask(plan, "longest-context", margin=margin, unbounded=True)
        assert answer.holds is not None
        found = compute_values(
            answer.holds.plan, ["memory.process", "memory.headroom_p95", capacity]
        )
        room[margin] = found[capacity] / found["memory.process"]
        assert margin in ("5%", "0") or found["memory.headroom_p95"] >= 0
    assert room[None] == room["p95"]
    assert room["5%"] >= 1.05 > room["0"] >= 1
    with pytest.raises(PlanError, match="not a margin"):
        questions.ask(plan, "longest-context", margin="p50")


# what a prediction of time leaves open


@pytest.mark.slow
@pytest.mark.parametrize("question", ["tokens-by-deadline", "fewest-devices"])
def test_an_answer_that_rests_on_a_predicted_time_says_what_that_leaves_open(question: str) -> None:
    """At either end a run that is as much slower, or faster, as published ones keeps the deadline,
    and one step beyond does not."""
    plan = load(GPT2, time__mfu=None, training__tokens="2T", training__global_batch=1024)
    answer = questions.ask(plan, question, deadline="10 days", margin="0")
    between = intervals.bound_answer(answer)
    assert answer.holds is not None and between is not None
    slow, fast = between
    assert slow is not None and fast is not None
    values = sorted((slow.value, answer.holds.value, fast.value), reverse=question[0] == "f")
    assert values == [slow.value, answer.holds.value, fast.value] and slow.value != fast.value
    days = evaluate_plan(answer.holds.plan)["time.training_days"]
    low, high = (Fraction(bound) / Fraction(days.number) for bound in days.interval)
    assert slow.values["time.training_days"] * high <= 10 + 1e-9
    assert fast.values["time.training_days"] * low <= 10 + 1e-9
    if question == "tokens-by-deadline":  # time is linear in tokens
        step = plan.get("training.global_batch") * plan.get("training.sequence_length")
        assert abs(slow.value * high - answer.holds.value) <= 3 * step
        assert abs(fast.value * low - answer.holds.value) <= 3 * step
    data = json.loads(questions.to_json(answer))
    assert data["interval"] == {"slowest": slow.value, "fastest": fast.value}
    first = questions.text(answer).splitlines()[0]
    assert "~" in first and " to " in first
    assert str(answer.holds.value) not in first or answer.holds.value < 100


def test_an_answer_by_an_assumed_time_has_no_interval() -> None:
    plan = load(GPT2, time__mfu="0.4", time__use="assumed")
    answer = questions.ask(plan, "tokens-by-deadline", deadline="10 days")
    assert intervals.bound_answer(answer) is None
    assert "interval" not in json.loads(questions.to_json(answer))
    assert "~" not in questions.text(answer)


@pytest.mark.slow
def test_the_cheapest_says_whose_prices_it_compared() -> None:
    names = ["h100-sxm-80gb", "a100-sxm-80gb"]
    plan = load(GPT2, time__mfu=None)
    answer = questions.ask(plan, "cheapest", deadline="1 days", accelerators=names)
    text, data = questions.text(answer), json.loads(questions.to_json(answer))
    for row in data["accelerators"]:
        assert re.search(r"price of [\w-]+, 20\d\d-\d\d(-\d\d)?$", row["whose"])
        assert "https://" in row["source"]
        assert row["whose"] in text and row["source"] in text
    (taken,) = (
        row for row in data["accelerators"] if row["accelerator"] == data["holds"]["accelerator"]
    )
    assert f" at {taken['price']:.2f} USD/h ({taken['whose']}) " in text.splitlines()[0]
    low, high = data["goal"]["interval"]
    assert low < data["holds"]["quantities"]["cost.total"] < high
