"""Inverse questions: certificates that hold, agreement with a scan, published answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.documents import references, source
from planner.engine.instance import compute_values
from planner.plans import plan as plans
from planner.plans.plan import variant
from planner.questions import domains, loading
from planner.questions.constraints import parse_limit
from planner.questions.domains import divisors
from planner.questions.solve import families, questions
from planner.questions.solve.evaluations import Probes
from planner.questions.solve.solve import solve_domain
from tests.conftest import leave_to_night, read_data
from tests.in_turn import InTurn

FAULTS = read_data("faults")

GPT2 = "presets/gpt2small_hgx-h100.yaml"
LLAMA = "tests/documents/llama70b_assumed.yaml"
LAST = "presets/largest_on_8xh100.yaml"


def load(path: str, **changes: Any) -> plans.Plan:
    return loading.load(path, {key.replace("__", "."): value for key, value in changes.items()})


def naive(**changes: Any) -> plans.Plan:
    """8 × H100 with AdamW in fp32: the lecture's question, whatever model it starts from."""
    return load(
        GPT2,
        **{
            "training__precision": "fp32",
            "training__micro_batch": 1,
            "training__global_batch": 8,
            **changes,
        },
    )


# the lecture (CS336, lecture 2): 8 H100s hold 40e9 parameters in AdamW at 16 bytes each


@pytest.mark.slow
def test_lecture() -> None:
    rows = {row.case: row for row in questions.ask(naive(), "largest-model").extra["closed"]}
    assert rows["capacity of the datasheet, fp32 adamw"].value == 40 * 10**9
    driver = rows["capacity that the driver reports, fp32 adamw"].value
    assert driver == Fraction(8 * 81079 * 2**20, 16)
    assert "capacity of the datasheet, bf16 adamw" in rows


@pytest.mark.slow
def test_more_devices_hold_a_larger_model() -> None:
    sizes = [
        questions.ask(
            naive(cluster__devices=n, training__global_batch=n, parallelism__zero=3),
            "largest-model",
            with_layout="own",
        )
        for n in (8, 16, 32)
    ]
    counts = [compute_values(a.holds.plan, ["parameters.total"])["parameters.total"] for a in sizes]
    assert counts == sorted(set(counts))
    assert all(a.extra["closed"][0].value > c for a, c in zip(sizes, counts, strict=True))


@pytest.mark.slow
def test_family_keeps_its_shape() -> None:
    answer = questions.ask(load(LAST, model="mixtral-8x7b"), "largest-model", with_layout="own")
    assert answer.holds
    for probe in (answer.holds, answer.fails):
        model = probe.plan.get("model")
        heads = model["attention"]["heads"]
        assert model["attention"].get("head_dim", model["hidden"] // heads) == 128
        assert abs(model["hidden"] - 128 * heads) <= 128 * 8 / 2  # to the nearest eight heads
        assert model["attention"]["kv_heads"] == 8
        assert model["moe"]["intermediate"] * 4096 == 14336 * model["hidden"]
        assert model["moe"]["experts"] == 8


def shapes(family: families.Family, below: int, above: int) -> Iterator[tuple[int, int]]:
    """Every width and depth of a family whose layers have so many weights by the 12 h² of each."""
    for place, width in enumerate(family.widths):
        low, high = family.bound_depths(place)
        for depth in range(low, high + 1):
            if below < 12 * width**2 * depth * family.unit < above:
                yield place, depth


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("path", "model", "margin"),
    [(LAST, "llama2-7b", "p95"), (LAST, "llama3-8b", "0"), (GPT2, "", "p95")],
)
def test_the_largest_model_is_that_of_a_scan_over_widths_and_depths(
    path: str, model: str, margin: str
) -> None:
    """Every shape near the answer is evaluated, no order of sizes assumed."""
    plan = load(path, **({"model": model} if model else {}))
    how = {"with_layout": "own", "margin": margin, "unbounded": True}
    answer = questions.ask(plan, "largest-model", **how)
    assert answer.holds is not None and answer.fails is not None
    names = ["parameters.total", answer.limits[0].quantity]
    size = compute_values(answer.holds.plan, names)["parameters.total"]
    _, family = families.build_family(plan)
    best, larger, exactly = 0, [], InTurn()
    for place, depth in shapes(family, size // 5, 2 * size):
        changes = family.build_changes(place * families.ROW + depth)
        try:
            values = exactly(variant(plan, changes), names)
        except PlanError:
            continue
        if answer.limits[0].is_met(values[names[1]]):
            best = max(best, values["parameters.total"])
        elif values["parameters.total"] > size:
            larger.append(values["parameters.total"])
    assert size == best
    assert compute_values(answer.fails.plan, names)["parameters.total"] == min(larger)


@pytest.mark.parametrize(("model", "stages", "tensor"), read_data("questions")["layers_of_stages"])
def test_the_largest_model_has_the_layers_that_stages_state(
    model: Any, stages: list[int], tensor: int
) -> None:
    layout = {"pipeline": 2, "stages": stages, "tensor": tensor}
    plan = loading.load(LAST, {"model": model, "parallelism": layout})
    answer = questions.ask(plan, "largest-model", with_layout="own")
    assert answer.holds is not None
    for probe in filter(None, (answer.holds, answer.fails)):
        assert probe.plan.model is not None
        assert len(probe.plan.model.sequence) == sum(stages)


def test_a_question_without_a_valid_value_is_a_fault() -> None:
    """As where the family of a model has no member that the layout divides."""
    plan = load(LAST)
    _, family = families.build_family(plan)
    wrong = replace(family.domain, changes=lambda index: {"model.layers": 0})
    with pytest.raises(PlanError, match="layers"):
        solve_domain(Probes(plan, wrong, (parse_limit("memory.headroom >= 0", plan),)))


@pytest.mark.slow
def test_the_largest_model_does_not_depend_on_the_size_that_it_starts_from() -> None:
    """Llama 3 of 1B, 8B and 70B with the same head and feed-forward ratio are one family."""
    small = {"extends": "llama3-8b", "layers": 16, "hidden": 2048,
             "attention": {"heads": 16, "kv_heads": 8}, "mlp": {"gated": True, "intermediate": 7168,
             "activation": "silu"}}  # fmt: skip
    sizes: dict[str, set[Any]] = {}
    for model in (small, "llama3-8b", "llama3-70b"):
        plan = loading.load(LAST, {"model": model})
        for layout in ("own", "auto"):
            how = {"with_layout": layout, "margin": "0", "unbounded": True}
            answer = questions.ask(plan, "largest-model", **how)
            assert answer.holds is not None
            shape = answer.domain.changes(answer.holds.value)
            shape.pop("model.name", None)  # of the model that was scaled
            sizes.setdefault(layout, set()).add(tuple(sorted(shape.items())))
    assert all(len(found) == 1 for found in sizes.values())


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("model", ["llama2-7b", "llama3-8b", "qwen2.5-32b"])
def test_no_family_is_far_from_what_its_states_alone_allow(model: str) -> None:
    """With any layout 8 x 80e9 bytes hold nearly the 40e9 parameters that 16 bytes each allow."""
    plan = loading.load(LAST, {"model": model})
    answer = questions.ask(plan, "largest-model", margin="0", unbounded=True)
    assert answer.holds is not None
    size = compute_values(answer.holds.plan, ["parameters.total"])["parameters.total"]
    assert 38 * 10**9 < size < 40 * 10**9


@pytest.mark.slow
def test_a_size_alone_is_answered_by_bytes_of_state() -> None:
    """The lecture: 8 x 80e9 bytes over 16 bytes are 40e9 parameters."""
    plan = loading.load(LAST, {"model": {"parameters": "7B"}})
    answer = questions.ask(plan, "largest-model")
    assert answer.holds is not None and answer.fails is not None
    assert (answer.holds.value, answer.fails.value) == (40 * 10**9, 40 * 10**9 + 1)
    assert "40.0B parameters" in questions.text(answer)
    shaped = questions.ask(plan, "largest-model", family="llama3-8b")
    same = questions.ask(loading.load(LAST, {"model": "llama3-8b"}), "largest-model")
    assert shaped.holds is not None and same.holds is not None
    assert shaped.holds.value == same.holds.value


@pytest.mark.slow
@pytest.mark.parametrize("path", leave_to_night([LAST, GPT2, LLAMA], [LAST]))
def test_a_plan_has_one_number_of_bytes_per_parameter(path: str) -> None:
    plan = load(path)
    rows = questions.ask(plan, "largest-model").extra["closed"]
    each = compute_values(plan, ["memory.bytes_per_parameter"])["memory.bytes_per_parameter"]
    devices, memory = plan.get("cluster.devices"), plan.get("cluster.accelerator.memory")
    assert rows[0].value == Fraction(devices * memory, each)


@pytest.mark.slow
def test_published_models_below_an_answer_are_named() -> None:
    """As published: Yi-34B 34.4B, Code Llama 33.7B, DeepSeek-Coder 33.3B, Qwen2.5-32B 32.8B."""
    usable = {"cluster.accelerator.memory_usable": "71 GiB"}
    plan = loading.load(LAST, {"model": "llama3-8b", **usable})
    answer = questions.ask(plan, "largest-model", unbounded=True)
    text, data = questions.text(answer), json.loads(questions.to_json(answer))
    assert 33.75e9 < data["holds"]["value"] < 34.3e9  # between the first two
    assert "codellama-34b (33.7B), deepseek-coder-33b (33.3B), qwen2.5-32b (32.8B)" in text
    assert "yi-34b" not in text
    sizes = list(data["published"].values())
    assert sizes == sorted(sizes, reverse=True) and sizes[0] <= data["holds"]["value"]


def test_most_published_models_have_an_aspect_that_is_tried() -> None:
    found = []
    for name in references.preset_names("model"):
        model = source.load({"extends": name}, kind="model").data
        if int(model.get("hidden") or 0) >= 2048 and model.get("layers"):
            found.append(Fraction(int(model["hidden"]), int(model["layers"])))
    low, high = families.ASPECT
    assert sum(low <= aspect <= high for aspect in found) > len(found) * 0.85


# certificates


@pytest.mark.parametrize("path", [GPT2, LLAMA])
@pytest.mark.parametrize(("question", "deadline"), read_data("questions")["last_that_holds"])
def test_holds_here_and_fails_one_step_further(
    path: str, question: str, deadline: str | None
) -> None:
    answer = questions.ask(load(path), question, deadline=deadline)
    assert answer.holds is not None
    certify(load(path), answer)
    data = json.loads(questions.to_json(answer))
    assert data["solved"] and questions.text(answer).startswith(question)


def certify(plan: plans.Plan, answer: questions.Answer) -> None:
    """Both sides evaluated anew, and no valid value between them."""
    names = [limit.quantity for limit in answer.limits]
    domain = answer.domain

    def broken(index: int) -> list[Any]:
        changed = variant(plan, domain.changes(domain.value(index)))
        values = compute_values(changed, names)
        return [li for li in answer.limits if not li.is_met(values[li.quantity])]

    assert answer.holds is not None
    assert broken(answer.holds.index) == []
    if answer.fails is not None:
        assert answer.binding in broken(answer.fails.index)
        low, high = sorted((answer.holds.index, answer.fails.index))
        for index in range(low + 1, high):
            with pytest.raises(PlanError):
                variant(plan, domain.changes(domain.value(index)))


def table(plan: plans.Plan, key: str, quantity: str, values: Iterable[int]) -> dict[int, Any]:
    """The quantity at every value that makes a valid plan, by brute force."""
    found, exactly = {}, InTurn()
    for value in values:
        try:
            found[value] = exactly(variant(plan, {key: value}), [quantity])[quantity]
        except PlanError:
            continue
    return found


def test_batch_divides_the_global_batch() -> None:
    """A fixed global batch of 1,024 over 32 ranks leaves the divisors of 32."""
    answer = questions.ask(load(LLAMA), "largest-batch")
    assert answer.holds and answer.holds.value in divisors(32)
    known = table(load(LLAMA), "training.micro_batch", "memory.headroom", range(1, 65))
    assert list(known) == [1, 2, 4, 8, 16, 32]
    assert answer.holds.value == max(v for v, room in known.items() if room >= 0)


def test_smallest_where_the_limit_asks_for_at_least() -> None:
    answer = questions.ask(load(GPT2), vary="model.layers", until=["parameters.total>=1e9"])
    assert answer.direction == -1 and answer.holds and answer.fails
    assert (answer.holds.value, answer.fails.value) == (136, 135)


def test_a_later_deadline_allows_more_tokens() -> None:
    few, many = (
        questions.ask(load(LLAMA), "tokens-by-deadline", deadline=d) for d in ("15 days", "30 days")
    )
    assert few.holds and many.holds
    assert abs(many.holds.value - 2 * few.holds.value) <= 2 * 1024 * 4096


# two limits, no solution, unbounded


def test_two_limits_leave_a_window() -> None:
    window = ["parameters.total>=500M", "parameters.total<=1e9"]
    answer = questions.ask(load(GPT2), vary="model.layers", until=window)
    assert answer.holds
    assert 5 * 10**8 <= answer.holds.values["parameters.total"] <= 10**9


def test_contradiction_names_a_limit_and_the_nearest_miss() -> None:
    limits = ["parameters.total<=500M", "parameters.total>=504M"]
    answer = questions.ask(load(GPT2), vary="model.layers", until=limits)
    assert answer.holds is None and answer.miss is not None
    assert answer.binding is not None
    assert answer.miss.value in (65, 66)
    assert "cannot be met" in questions.text(answer)


@pytest.mark.parametrize(
    ("options", "says"),
    FAULTS["questions"],
)
def test_bad_questions(options: Mapping[str, Any], says: str) -> None:
    with pytest.raises(PlanError) as caught:
        questions.ask(load(GPT2), **options)
    assert len(caught.value.faults) == 1 and says in str(caught.value)


@pytest.mark.slow
def test_a_size_that_holds_beyond_one_that_does_not_is_the_answer() -> None:
    """The next larger model of another width holds in 40 days where one of the answer's does not;
    it was asked for again and again."""
    plan = load(LLAMA)
    options = {"deadline": "40 days", "with_layout": "auto", "unbounded": True}
    answer = questions.ask(plan, "largest-model-by-deadline", **options)
    holds, fails = answer.holds, answer.fails
    assert holds is not None and fails is not None and not holds.broken and fails.broken
    assert holds.number < fails.number
    assert "not monotone" in " ".join(answer.notes)


def test_devices_are_counted_as_they_are_rented() -> None:
    """A node of an HGX whole, cards of RunPod one by one, and no second node without a network."""
    for name, sold, joined in (("h100-sxm-80gb", 8, True), ("rtx-4090", 1, False)):
        cluster = {"accelerator": name, "devices": 8, "devices_per_node": 8}
        plan = loading.load(LAST, {"cluster": cluster, "training.global_batch": 64})
        domain = domains.make_count_domain(plan, sold)
        counts = {domain.value(n) for n in range((domain.last or 0) + 1)}
        assert min(counts) == sold and (max(counts) > 8) == joined
        assert {n % sold for n in counts} == {0}


def test_only_counts_that_a_stack_can_start_are_tried() -> None:
    """Trainer has no pipeline, so the 80 layers of Llama-3 70B give no count its factor of five."""
    keys = {"model": "llama3-70b", "cluster.devices": 8, "training.global_batch": 64}
    layout = {"tensor": 8, "zero": 0}
    for stack, fives in (("megatron-lm", True), ("transformers-trainer", False)):
        plan = loading.load(LAST, {**keys, "training.stack": stack, "parallelism": layout})
        domain = domains.make_count_domain(plan)
        assert domain.last is not None
        counts = map(domain.value, range(domain.last + 1))
        assert any(count % 5 == 0 for count in counts) == fives
