"""Times of a step and what lies on the host, by hand from the sizes of published models."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.base.errors import PlanError
from planner.engine.evaluate import Evaluation
from planner.plans.plan import variant
from planner.questions import loading
from tests.changed import changed, evaluation_of
from tests.conftest import ROOT, read_data

#: Mixtral 8x7B (arXiv 2401.04088, table 1): 32 layers of 4,096, 8 experts of 14,336, two a token.
PLAN: dict[str, Any] = read_data("plans")["time_by_hand"]


def evaluation(**changes: Any) -> Evaluation:
    return evaluation_of(PLAN, changes)


def first(
    e: Evaluation, identifier: str, axis: str, beside: dict[str, Any] | None = None, **settings: Any
) -> Any:
    """A quantity at the first entry of an axis that has these settings, and entries ``beside``."""
    entry = next(
        x for x in e.case.axes[axis] if all(x.settings.get(k) == v for k, v in settings.items())
    )
    return e.value(identifier, {axis: entry, **(beside or {})})


@pytest.mark.slow
@pytest.mark.parametrize("width", [64, 128, 256])
def test_heads_of_128_and_more_fill_the_products_of_attention(width: int) -> None:
    """Below that they do less well; above, no better."""

    def rate(size: int) -> Any:
        return first(
            evaluation(model__attention={"heads": 32, "head_dim": size}),
            "time.core.rate",
            "block",
            block="attention",
        )

    assert (rate(width) < rate(128)) == (width < 128)
    assert rate(width) <= rate(128)


@pytest.mark.parametrize(("context", "replicate"), [(1, 1), (2, 1), (2, 4), (1, 8)])
def test_what_is_sharded_lies_on_all_devices_that_hold_the_same_part(
    context: int, replicate: int
) -> None:
    """64 devices, 2 ranks of a tensor: over data and context, but not over replicas."""
    layout = {"tensor": 2, "context": context, "replicate": replicate, "zero": 3}
    e = evaluation(parallelism=layout)
    assert e.value("network.shards") == Fraction(64, 2 * replicate)
    assert e.value("layout.data") == Fraction(64, 2 * context)


@pytest.mark.parametrize("devices", [8, 64])
def test_messages_hold_forty_million_values_or_a_million_for_each_rank(devices: int) -> None:
    """Megatron-LM, distributed_data_parallel_config.py: bucket_size."""
    e = evaluation(
        model={"extends": "llama2-7b"}, parallelism={"zero": 1}, cluster__devices=devices
    )
    each = max(40_000_000, 1_000_000 * devices)
    assert e.value("time.buckets") == Fraction(6_738_415_616, each)


def test_energy_is_power_times_hours() -> None:
    """700 W of a device and 300 W of its host, a tenth more for the building, in kWh."""
    e = evaluation(cluster__host_power="300 W", cluster__pue="1.1")
    hours = e.value("time.device_hours")
    assert float(e.value("energy.total")) == pytest.approx(float(hours * (700 + 300)) * 1.1 / 1000)


@pytest.mark.parametrize(
    ("accelerator", "rate"),
    # As printed, both ways together, a superchip's for two GPUs; 0.8 of it sustained.
    [
        ("gb300", Fraction(8, 10) * 900 * 10**9 / 2 / 2),
        ("h100-sxm-80gb", Fraction(8, 10) * 128 * 10**9 / 2),
        ("tpu-v5e", 25 * 10**9),
    ],
)
def test_activations_travel_on_the_accelerators_own_link_to_the_host(
    accelerator: str, rate: Fraction
) -> None:
    assert loading.load(on_the_host(accelerator)).get("time.host_link") == rate


def on_the_host(accelerator: str, **offload: int) -> dict[str, Any]:
    changes = {"cluster.accelerator": accelerator, "training.offload": offload}
    return changed(read_data("plans")["on_the_host"], changes)


def test_twenty_of_eighty_layers_leave_sixty_and_one_on_its_way() -> None:
    """TransformerEngine's cpu_offload spreads the layers that it moves over all of them, and waits
    for one before it moves the next."""
    whole, part = (planner.load(on_the_host("gb300", **o)).evaluate() for o in ({}, {"layers": 20}))
    name = "memory.activations.layers[0]"
    assert part[name].value * 80 == whole[name].value * 61
    # Over NVLink-C2C a quarter of the activations takes less time than the passes that hide it.
    step = "time.step_seconds"
    assert part[step].value == whole[step].value


@pytest.mark.parametrize(("layers", "fits"), [(10, False), (20, True)])
def test_a_published_script_keeps_as_many_layers_on_the_host_as_it_must(
    layers: int, fits: bool
) -> None:
    """Megatron-Bridge v0.4.1: Llama 3 70B on 64 GB300, fully sharded, two sequences of 8,192 a
    device, with 20 of 80 layers on the host."""
    rows = (ROOT / "tests/data/runs.jsonl").read_text("utf-8").splitlines()
    row = next(row for row in map(json.loads, rows) if row["id"] == "bridge-gb300-l3-70b-0001a")
    assert row["plan"]["training"]["offload"] == {"layers": 20}
    row["plan"]["training"]["offload"] = {"layers": layers}
    found = planner.load(row["plan"]).evaluate()
    assert (found["memory.process"].value <= found["memory.capacity"].value) is fits


def test_another_layout_keeps_as_many_layers_on_the_host() -> None:
    plan = loading.load(on_the_host("gb300", layers=20))
    other = variant(plan, {"parallelism.zero": 2})
    assert other.get("training.offload.activations") == Fraction(20, 80)


@pytest.mark.parametrize(("changes", "said"), read_data("faults")["placement"])
def test_places_that_contradict_each_other_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as refused:
        evaluation_of(on_the_host("gb300"), changes)
    assert said in str(refused.value)
