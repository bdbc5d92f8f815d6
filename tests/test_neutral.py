"""Neutral: a degree of one, sharing with nobody and another spelling leave every number alone. And
more of any work never takes less time, also where launches bound a layer."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import planner
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.documents.references import preset_names
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.batch import Batch
from planner.questions.search.layouts import Space
from tests.changed import changed
from tests.conftest import KINDS_OF_MODEL, leave_to_night, read_data
from tests.strategies import Document, plans

SCALARS = [name for name, first in BOOK.quantities.items() if not first.per]
RUN = {"tokens": 10**9, "sequence_length": 1024, "global_batch": 64, "micro_batch": 2}


def document(model: Any, devices: int = 1, **layout: Any) -> Document:
    cluster = {"accelerator": "h100-sxm-80gb", "devices": devices, "price": "2 USD/h"}
    return {
        "name": "a plan", "model": model, "cluster": cluster, "training": dict(RUN),
        "parallelism": {"tensor": 1, **layout},
    }  # fmt: skip


def numbers(written: Any, ids: Any = None) -> dict[str, Any]:
    """Every number of a plan, by the name of its quantity; None where it has none."""
    result = planner.load(written).evaluate()
    return {name: result.find(name).value for name in ids or SCALARS}


#: Of a plan where one device holds everything, what has nothing to divide or nobody to send to.
ALONE: dict[str, dict[str, Any]] = read_data("neutral")["alone"]
RECIPES: dict[str, dict[str, Any]] = {
    "bf16": {},
    "fp8": {"training.precision": "fp8", "training.implementation": "megatron"},
    "kept wide": {"training.implementation": "pytorch", "training.recompute": "full"},
}


def assert_neutral(plan: Document, names: Iterable[str]) -> None:
    """Hold that changes of ``ALONE`` leave all numbers of a plan alone: those of different keys at
    once, and one by one where these are no plan together, or to name the one that does not."""
    plain, together = numbers(plan), list[dict[str, Any]]()
    for name in names:
        for several in together:
            if not several.keys() & ALONE[name].keys():
                several |= ALONE[name]
                break
        else:
            together.append(dict(ALONE[name]))
    for several in together:
        with suppress(planner.PlanError):
            if numbers(changed(plan, several)) == plain:
                continue
        for name in names:
            if ALONE[name].items() <= several.items():
                assert numbers(changed(plan, ALONE[name])) == plain, name
        with suppress(planner.PlanError):
            raise AssertionError(f"together: {several} moves {numbers(changed(plan, several))}")


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("model", ["gpt2-small", "mixtral-8x7b"])
def test_what_divides_nothing_changes_nothing(model: str, recipe: str) -> None:
    assert_neutral(changed(document(model), RECIPES[recipe]), ALONE)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("model", leave_to_night(preset_names("model"), KINDS_OF_MODEL))
def test_no_shipped_model_is_divided_among_one(model: str) -> None:
    plan = document(model)
    names = ("ZeRO 3", "sequence parallelism", "GPipe", "one expert rank", "an overlap of data")
    try:
        planner.load(plan)
    except planner.PlanError:  # its positions end before
        plan = changed(plan, {"training.sequence_length": 64})
    assert_neutral(plan, names)


#: Layouts in which no two devices hold the same weights; and devices that do, unsharded.
DIVIDED: dict[str, tuple[Document, list[dict[str, Any]]]] = {
    "tensor": (
        document("llama2-7b", 8, tensor=8),
        [{"parallelism.zero": stage} for stage in (1, 2, 3)],
    ),
    "pipeline": (
        document("llama2-7b", 4, pipeline=4),
        [{"parallelism.zero": stage} for stage in (1, 2, 3)],
    ),
    "experts over tensor ranks": (
        document("mixtral-8x7b", 8, tensor=8, expert=8, expert_tensor=1),
        [{"parallelism.zero": stage} for stage in (1, 2, 3)],
    ),
    "replicas of nothing": (
        document("llama2-7b", 8),
        [{"parallelism.replicate": several} for several in (2, 4, 8)],
    ),
    "replicas of one device": (
        document("llama2-7b", 8),
        [{"parallelism.replicate": 8, "parallelism.zero": stage} for stage in (1, 2, 3)],
    ),
    "one stage": (
        document("llama2-7b", 8, zero=1),
        [
            {"training.schedule": "gpipe"},
            {"parallelism.virtual_pipeline": 4},
            {"training.schedule": "dualpipev", "parallelism.virtual_pipeline": 2},
        ],
    ),
}


@pytest.mark.parametrize("layout", DIVIDED)
def test_sharing_needs_somebody_to_share_with(layout: str) -> None:
    plan, several = DIVIDED[layout]
    plain = numbers(plan)
    for changes in several:
        assert numbers(changed(plan, changes)) == plain, changes


def test_experts_are_still_shared_where_other_weights_are_not() -> None:
    """Of 8 tensor ranks each holds all experts, which are whole on each: ZeRO divides these."""
    plan = document("mixtral-8x7b", 8, tensor=8, expert_tensor=1)
    few = numbers(changed(plan, {"parallelism.zero": 1}))
    assert few["memory.optimizer"] < numbers(plan)["memory.optimizer"] / 4


@pytest.mark.parametrize("stages", [(3,), (0, 1, 2, 3)])
def test_a_search_evaluates_sharing_with_nobody_as_the_plan_does(stages: tuple[int, ...]) -> None:
    """Each row of a search, on one device, is worth what the plan that it says is worth."""
    ids = ("memory.process", "time.step_seconds")
    plan = loading.load(changed(document("llama2-7b"), {"training.precision": "fp8"}))
    space, checked = Space(plan, {"parallelism.zero": stages, "training.micro_batch": (2,)}), 0
    for rows in space.yield_blocks():
        for part, found in Batch(space).evaluate_rows(rows, ids):
            taken = rows.take(part, found)
            for place in taken.valid.ravel().nonzero()[0]:
                says = taken.build_changes(int(place))
                assert says["parallelism.zero"] == stages[0]
                exact = Evaluation(case.build(variant(plan, says)))
                for name in ids:
                    [worth] = taken.of(name, place[None])
                    assert worth == pytest.approx(float(exact.value(name)), rel=1e-9), name
                    checked += 1
    assert checked


#: Spellings of a plan as YAML, by what they write otherwise.
YAML = """
name: a plan
model: {model}
cluster: {{accelerator: {accelerator}, devices: 8, price: {price}}}
training: {{tokens: {tokens}, sequence_length: {length}, global_batch: {batch}}}
parallelism: {{zero: {zero}}}
time: {{restart: {restart}}}
"""
SPELLED = read_data("neutral")["spelled_out"]


@pytest.mark.slow
def test_another_spelling_is_the_same_number(tmp_path: Path) -> None:
    file, first = tmp_path / "plan.yaml", {key: values[0] for key, values in SPELLED.items()}

    def spelled(**others: str) -> dict[str, Any]:
        file.write_text(YAML.format(**{**first, **others}), "utf-8")
        return numbers(file)

    plain = spelled()
    for key, values in SPELLED.items():
        for value in values[1:]:
            assert spelled(**{key: value}) == plain, (key, value)


# -- conventions of counting ----------------------------------------------------------------------

#: Keys that say how something is counted, whatever is done.
CONVENTIONS = ("training.attention_count",)
#: What they count: FLOPs, and utilisation by these.
COUNTED = ("compute.", "time.mfu", "time.tflops_per_device")
LONG = {"training.sequence_length": 8192}
ASSUMED = {"time": {"mfu": 0.4, "use": "assumed"}}
COUNTS: dict[str, Document] = {
    "windows": changed(document("mistral-7b", 8, context=2), LONG),
    "picked keys": changed(document("deepseek-v3.2", 16, expert=8), LONG),
    "recomputed": changed(document("llama2-7b", 8), {**LONG, "training.recompute": "full"}),
    "no mask": document("t5-small", 8),
    "assumed": changed(document("mistral-7b", 8), {**LONG, **ASSUMED}),
    "served": changed(
        document("mistral-7b", 8),
        {"training": {"mode": "inference", "output_tokens": 100, "micro_batch": 4, **RUN}},
    ),
}


@pytest.mark.parametrize("key", CONVENTIONS)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "windows" else pytest.mark.slow) for n in COUNTS]
)
def test_a_convention_moves_what_it_counts_alone(name: str, key: str) -> None:
    """Never a time, memory, energy or money. An assumed utilisation is one by the convention, so
    what follows from it is left out; what is predicted beside it stays."""
    said, plan = schema.describe("plan", key) or {}, COUNTS[name]
    results = [planner.load(changed(plan, {key: way})).evaluate() for way in said["enum"]]
    if name == "assumed":
        results = [result.alternative for result in results]
    first, *others = ({n: result.find(n).value for n in SCALARS} for result in results)
    moved = {n for other in others for n in SCALARS if other[n] != first[n]}
    assert {n for n in moved if not n.startswith(COUNTED)} == set()
    assert any(n.startswith("compute.") for n in moved)


# -- more work ------------------------------------------------------------------------------------

MANY = settings(
    max_examples=max(4, settings.default.max_examples // 8),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    deadline=None,
)
#: Keys of more work, with how much more at least.
MORE = ("training.sequence_length", "training.micro_batch", "model.layers", "model.vocab")
SCHEDULES = ("1f1b", "zero-bubble", "gpipe", "interleaved", "dualpipe", "dualpipev")


@MANY
@given(plans(), st.sampled_from(MORE), st.sampled_from(SCHEDULES), st.data())
def test_more_work_never_takes_less_time(
    plan: Document, key: str, schedule: str, data: st.DataObject
) -> None:
    """As many micro-batches of more, in small models too, which their launches bound."""
    plan = changed(
        plan,
        {
            "time": {},
            "training.schedule": schedule,
            "parallelism.virtual_pipeline": {"interleaved": 2, "dualpipev": 2}.get(schedule, 1),
            "training.recompute_layers": data.draw(st.sampled_from((None, 0, 1, 2))),
            "parallelism.expert_overlap": False,
        },
    )
    section, name = key.split(".")
    more = {key: 2 * plan[section][name]}
    if name == "micro_batch":
        more["training.global_batch"] = 2 * plan["training"]["global_batch"]
    try:
        few, many = (numbers(each, ("time.step_seconds",)) for each in (plan, changed(plan, more)))
    except planner.PlanError:
        assume(False)
        raise
    assert many["time.step_seconds"] >= few["time.step_seconds"] * (1 - 1e-9), more


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble", "dualpipev"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_launches_are_shared_as_launches(schedule: str, recompute: str) -> None:
    """A layer that waits for the host: gradients of weights that take longer fill no more of the
    bubble, and layers that keep all save no more."""
    small = {
        "layers": 32, "hidden": 1024, "vocab": 512, "attention": {"heads": 4},
        "mlp": {"intermediate": 4096},
    }  # fmt: skip
    plan = changed(
        document(small, 8, pipeline=8),
        {
            "training.schedule": schedule,
            "training.recompute": recompute,
            "training.recompute_layers": 1 if recompute == "full" else None,
            "parallelism.virtual_pipeline": 2 if schedule == "dualpipev" else 1,
            "training.micro_batch": 1,
            "training.global_batch": 16,
        },
    )
    taken = [
        numbers(changed(plan, {"training.sequence_length": length}), ("time.step_seconds",))
        for length in (64, 512, 1024, 2048, 3072, 4096, 6144)
    ]
    times = [float(each["time.step_seconds"]) for each in taken]
    assert times == sorted(times)


@pytest.mark.parametrize("dispatcher", ["all-to-all", "deepep", "all-gather"])
@pytest.mark.parametrize("layout", [{"expert": 8}, {"expert": 4, "tensor": 2, "expert_tensor": 2}])
def test_a_token_of_experts_takes_no_less_after_a_longer_prompt(
    dispatcher: str, layout: dict[str, Any]
) -> None:
    plan = changed(
        document("mixtral-8x7b", 8, dispatcher=dispatcher, **layout),
        {"training": {"mode": "inference", "output_tokens": 100, "micro_batch": 4}},
    )
    ids = ("time.decode_seconds", "time.decode.exchange", "time.prefill_seconds")
    found = [
        numbers(changed(plan, {"training.sequence_length": length}), ids)
        for length in (16, 256, 1000, 4096, 16384)
    ]
    for name in ids:
        times = [float(each[name]) for each in found]
        assert times == sorted(times), name
    # What a token exchanges is the same whatever was read before.
    assert max(times := [float(each[ids[1]]) for each in found]) == pytest.approx(min(times))
