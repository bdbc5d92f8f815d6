"""What the program proposes for a plan that is not safe does make it safe."""

import json
from pathlib import Path

import jsonschema
import pytest

import planner
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.plans.plan import variant
from planner.questions.loading import load
from planner.results.improvements import find_fixes
from planner.results.moves import list_moves

PLAN = "presets/llama70b_h100x1024.yaml"
VIRTUAL = "parallelism.virtual_pipeline=1"
PLAIN = ("parallelism.pipeline=4", VIRTUAL)


def headroom(plan, quantity="memory.headroom"):
    return float(Evaluation(case.build(plan)).value(quantity))


def test_a_plan_that_fits_needs_none():
    assert find_fixes(load(PLAN)) is None


def test_a_model_of_known_size_only_gets_none():
    document = {
        "model": {"parameters": "70B"},
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
        "training": {"tokens": "1T", "sequence_length": 2048},
    }
    assert find_fixes(load(document)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "decides"),
    [
        (["training.micro_batch=8", *PLAIN], "memory.activations"),
        (["parallelism.pipeline=1", "parallelism.zero=0", VIRTUAL], "memory.optimizer"),
        (["cluster.accelerator.memory_usable=53 GiB"], "memory.activations"),  # tight
    ],
)
def test_each_remedy_makes_the_plan_safe(overrides, decides):
    plan = load(PLAN, overrides)
    advice = find_fixes(plan)
    assert advice is not None
    assert advice.missing == -headroom(plan, "memory.headroom_p95") > 0
    assert advice.decides == decides
    assert 1 <= len(advice.remedies) <= 3
    speed = "time.tokens_per_second"
    now = headroom(variant(plan, {"time.mfu": None}), speed)
    for remedy in advice.remedies:
        changed = variant(plan, {**remedy.changes, "time.mfu": None})
        assert headroom(changed) == remedy.headroom
        assert headroom(changed, "memory.headroom_p95") == remedy.at_worst >= 0
        # However the plan's own time is found, changes are told apart by prediction.
        assert remedy.slowdown == pytest.approx(now / headroom(changed, speed))
    assert advice.remedies == tuple(
        sorted(advice.remedies, key=lambda one: (changed_keys(one), one.slowdown))
    )


def changed_keys(remedy):
    """How many keys a change gives a value, not takes back."""
    return len([value for value in remedy.changes.values() if value is not None])


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("usable", ["53 GiB", "40 GiB", "79 GiB"])
def test_json_says_what_would_be_safe_and_each_of_it_fits_when_it_is_set(usable):
    base = {"cluster.accelerator.memory_usable": usable}
    data = json.loads(json.dumps(planner.load(PLAN, set=base).evaluate().to_json()))
    schema = Path(__file__).parents[2] / "schemas" / "result.schema.json"
    jsonschema.validate(data, json.loads(schema.read_text("utf-8")))
    assert ("advice" in data) == (data["verdict"]["state"] in ("tight", "no"))
    if "advice" in data:
        at_worst, capacity = (
            data["quantities"][f"memory.{name}"]["value"] for name in ("at_worst", "capacity")
        )
        assert data["advice"]["missing"] == pytest.approx(at_worst - capacity)
        assert data["advice"]["safer"]
    for safer in data.get("advice", {}).get("safer", ()):
        other = planner.load(PLAN, set={**base, **safer["set"]}).evaluate()
        assert other.verdict["state"] == "fits"
        assert other["memory.headroom"].value == pytest.approx(safer["headroom"])


ONE_CARD = {
    "model": "llama3.1-8b",
    "cluster": "1 x rtx-4090",
    "training": {"tokens": "10M", "sequence_length": 2048, "micro_batch": 4, "global_batch": 8},
}


@pytest.mark.parametrize("lora", [None, {"rank": 16}, {"rank": 16, "base": "int8"}])
@pytest.mark.parametrize("devices", [1, 2])
def test_states_are_divided_over_others_only(devices, lora):
    """One device has nobody to share with, so no stage of ZeRO is proposed to it."""
    layout = {"data": devices, "zero": 0}
    document = {**ONE_CARD, "cluster": f"{devices} x rtx-4090", "parallelism": layout}
    document["training"] = {**document["training"], **({"lora": lora} if lora else {})}
    plan = load(document)
    moves = [move for move in list_moves() if move.frees is not None]
    candidates = [change for move in moves for change in move.yield_changes(plan)]
    assert any("parallelism.zero" in change for change in candidates) == (devices > 1)
    # A base in 4 bits is proposed where there is a base, a smaller micro-batch always.
    assert ({"training.lora.base": "nf4"} in candidates) == bool(lora)
    assert {change.get("training.micro_batch") for change in candidates} >= {1, 2}


def test_adapters_that_do_not_fit_are_led_to_a_packed_base():
    full = {**ONE_CARD["training"], "recompute": "full", "lora": {"rank": 16}}
    advice = find_fixes(load({**ONE_CARD, "training": full}))
    assert advice is not None and advice.decides == "memory.weights"
    assert any("training.lora.base" in remedy.changes for remedy in advice.remedies)


def test_fine_tuning_that_does_not_fit_is_led_to_adapters():
    """A 65B model is fine-tuned on one card of 48 GB with adapters beside a 4-bit base (arXiv
    2305.14314), and not otherwise; a pre-training is never told so."""
    training = {**ONE_CARD["training"], "sequence_length": 512, "recompute": "full"}
    document = {**ONE_CARD, "model": "llama-65b", "cluster": "1 x rtx-a6000"}
    advice = find_fixes(load({**document, "training": training}))
    assert advice is not None and advice.remedies
    packed = {"training.lora.rank": 16, "training.lora.base": "nf4"}
    assert all(packed.items() <= remedy.changes.items() for remedy in advice.remedies)
    more = {**training, "tokens": "1.4T"}
    assert find_fixes(load({**document, "training": more})).remedies == ()
