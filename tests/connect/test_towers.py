"""Towers in front of a language model: counted as transformers counts them, held and timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.connect.imports import hf, towers
from tests.changed import result_of
from tests.conftest import read_data

DATA = Path(__file__).parents[1] / "data" / "counts" / "towers.json"
ROWS = json.loads(DATA.read_text("utf-8"))["models"]
#: Those of which a tower was run.
RUN = [row for row in ROWS if "tower_flops" in row]
LENGTH = 1024
VISION: dict[str, Any] = read_data("connect")["vision_tower"]
TEXT: dict[str, Any] = read_data("connect")["text_of_towers"]


def result(model: dict[str, Any], **more: Any) -> Any:
    document = {
        "model": model,
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8, "devices_per_node": 8},
        "training": {"sequence_length": LENGTH, "global_batch": 64, "tokens": "1B"},
        "parallelism": {},
    }
    return result_of(document, **more)


def value(found: Any, quantity: str) -> Any:
    return found[quantity].value


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
def test_a_wrapper_is_counted_whole_as_the_library_counts_it(row: dict[str, Any]) -> None:
    document = hf.convert_config(row["config"]).document
    assert {"vision", "audio"} & document.keys()
    assert value(result(document), "parameters.total") == row["params_total"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in RUN])
def test_an_image_or_a_clip_takes_the_flops_that_the_counter_counts(row: dict[str, Any]) -> None:
    document = hf.convert_config(row["config"]).document
    (name,) = {"vision", "audio"} & document.keys()
    tokens = row.get("tower_tokens") or document[name]["tokens"]
    whole = result(document, training={name: {"tokens": tokens}})
    text = result({key: said for key, said in document.items() if key != name})
    forward = "compute.forward_flops_per_token"
    assert (value(whole, forward) - value(text, forward)) * LENGTH == row["tower_flops"]


def test_every_wrapper_whose_towers_are_known_was_built() -> None:
    assert {row["name"].rsplit("-", 1)[0] for row in ROWS} == towers.WRAPPERS.keys()


@pytest.mark.parametrize(("change", "said"), read_data("connect")["unknown_towers"])
def test_a_tower_that_is_not_known_is_left_out_and_told(change: dict[str, Any], said: str) -> None:
    row = next(row for row in ROWS if row["name"] == "llava-0")
    found = hf.convert_config({**row["config"], **change})
    assert "vision" not in found.document
    assert "text part" in found.notes[0] and said in found.notes[0]


WAYS = read_data("connect")["ways_of_towers"]
MORE = read_data("connect")["towers"]


def joined(way: dict[str, Any], **training: Any) -> dict[str, Any]:
    return {**way, "training": {**way.get("training", {}), **training}}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("way", WAYS)
def test_no_tower_no_frozen_tower_a_trained_one_more_images_each_take_no_less(
    way: dict[str, Any],
) -> None:
    model = {**TEXT, "vision": VISION}
    found = [
        result(TEXT, **way),
        result(model, **joined(way, vision={"frozen": True})),
        result(model, **way),
        result(model, **joined(way, vision={"items": 3})),
    ]
    for quantity in MORE:
        values = [value(one, quantity) for one in found]
        assert values == sorted(values), quantity


def test_a_frozen_tower_has_no_gradients_no_states_and_no_backward_pass() -> None:
    model = {**TEXT, "vision": VISION}
    one = {"cluster": {"devices": 1}}
    text, still, whole = (
        result(kind, **one, training={"precision": "bf16-pure", **more})
        for kind, more in ((TEXT, {}), (model, {"vision": {"frozen": True}}), (model, {}))
    )
    tower = value(whole, "parameters.total") - value(text, "parameters.total")
    projector = value(whole, "parameters.layer[vision-projector]")
    frozen = tower - projector
    assert value(whole, "memory.gradients") - value(still, "memory.gradients") == 2 * frozen
    states = value(whole, "memory.optimizer") - value(still, "memory.optimizer")
    assert states >= 4 * frozen  # two moments of two bytes, and step counters
    assert value(still, "memory.weights") == value(whole, "memory.weights")
    backward = "compute.backward_flops_per_token"
    forward = "compute.forward_flops_per_token"
    # What is left of the tower's backward pass is that of the projector.
    left = value(still, backward) - value(text, backward)
    layer = value(still, "compute.layer[vision-projector]")
    assert left == 2 * layer
    assert value(whole, backward) - value(text, backward) == 2 * (
        value(whole, forward) - value(text, forward)
    )


def test_the_first_stage_holds_the_tower_and_parallelism_divides_it() -> None:
    model = {**TEXT, "vision": {**VISION, "layers": 64, "hidden": 512, "projector": [
        {"inputs": 2048, "outputs": 256, "bias": True}, {"bias": True}]}}  # fmt: skip
    found = result(model, parallelism={"pipeline": 2, "zero": 0})
    assert value(found, "memory.stage") == "stage 1 of 2"
    held = value(found, "memory.weights.stage[0]")
    assert held > 2 * value(found, "memory.weights.stage[1]")
    for layout in ({"tensor": 2, "zero": 0}, {"zero": 3}):
        assert value(result(model, parallelism=layout), "memory.weights") < value(
            result(model, parallelism={"zero": 0}), "memory.weights"
        )


def test_windows_of_a_tower_are_sequences_of_their_own() -> None:
    """Four windows of 16 patches meet a quarter of the keys that one of 64 does."""
    cores = {}
    for window in (None, 16):
        vision = {**VISION, "class_tokens": 0, "kinds": {"all": {"attention": {"window": window}}}}
        found = result({**TEXT, "vision": vision})
        cores[window] = value(found, "compute.component[vision-all.attention.core]")
    assert cores[None] == 4 * cores[16]


@pytest.mark.parametrize(
    ("model", "training", "said"),
    [
        ({}, {"vision": {"items": 2}}, "the model has no vision tower"),
        ({"vision": {**VISION, "attention": {"heads": 3}}}, {}, "3 heads do not divide"),
        ({"vision": {**VISION, "projector": [{"outputs": 9}]}}, {}, "has 9 outputs, not 256"),
        ({"vision": {**VISION, "stem": [{}]}}, {}, "input width of the first matrix"),
        ({"vision": {**VISION, "kinds": {"a": None}, "pattern": ["b"]}}, {}, "unknown layer kind"),
        ({"vision": {"layers": 2}}, {}, "hidden"),
        ({"vision": {**VISION, "layer": 2}}, {}, "layers"),
        ({"vision": VISION, "encoder": {"layers": 2}}, {}, "beside an encoder"),
    ],
)
def test_a_wrong_tower_is_one_clear_fault(
    model: dict[str, Any], training: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as caught:
        result({**TEXT, **model}, training=training)
    assert any(said in str(fault) for fault in caught.value.faults), caught.value


def test_outputs_of_a_classifier_are_live_at_the_loss() -> None:
    """Of 100,000 labels each token has a log-softmax of 4 bytes, and two gradients of it."""
    classed = {**TEXT, "head": False}
    few, many = (result({**classed, "classifier": {"labels": n}}) for n in (1, 100_001))
    each = LENGTH * 100_000 * 4
    kept = value(many, "memory.activations.whole[head]") - value(
        few, "memory.activations.whole[head]"
    )
    loss = value(many, "memory.buffers.loss[0]") - value(few, "memory.buffers.loss[0]")
    assert (kept, loss) == (each, 2 * each)
