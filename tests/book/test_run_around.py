"""The run around the step: interruptions, stragglers, cost, energy; adapters; utilisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planner
from tests.conftest import read_data

VALID = Path(__file__).parents[1] / "documents" / "valid" / "run_around_the_step.yaml"
LLAMA = "tests/documents/llama70b_assumed.yaml"


def values(changes: dict[str, Any] | None = None, document: Any = VALID) -> Any:
    result = planner.load(document, set=changes or {}).evaluate()
    return lambda name: float(result[name].number)


@pytest.mark.slow
def test_the_days_of_a_run_are_the_sum_of_where_they_go() -> None:
    """Renewal: on the calendar each day gives goodput days of training."""
    for changes in ({}, {"cluster.stragglers": "null"}):
        of = values(changes)
        trained = of("time.training_days") + (of("time.straggler_days") if not changes else 0)
        lost = of("time.checkpoint_days") + of("time.failure_days")
        assert of("time.run_days") == pytest.approx(trained + lost)
        assert of("time.run_days") == pytest.approx(trained / of("time.goodput"))


@pytest.mark.slow
def test_stragglers_lengthen_every_step() -> None:
    with_them, without = values(), values({"cluster.stragglers": 0})
    assert with_them("time.run_days") == pytest.approx(1.05 * without("time.run_days"))
    assert without("time.straggler_days") == 0


def test_llama_3_device_hours_with_its_own_interruptions() -> None:
    """Model card of Llama 3.1: 30.84 million hours for 405B on 16,384 H100s that were interrupted
    419 times in 54 days; 38 to 43 % utilisation (Grattafiori et al. 2024, table 4); more than 90 %
    effective training time is said of snapshots, with automated restarts."""
    document = read_data("plans")["llama_405b_of_meta"]
    of = values(document=document)
    assert of("time.run_device_hours") == pytest.approx(30.84e6, rel=0.05)
    assert of("time.device_hours") < of("time.run_device_hours")
    assert of("time.goodput") == pytest.approx(0.9, abs=0.01)


def test_both_prices_and_the_run_on_the_calendar() -> None:
    of = values()
    assert of("cost.total") == pytest.approx(2.5 * of("time.device_hours"))
    assert of("cost.reserved") == pytest.approx(1.9 * of("time.device_hours"))
    assert of("cost.run") == pytest.approx(2.5 * 24 * 64 * of("time.run_days"))


@pytest.mark.slow
def test_energy_lies_between_idle_and_rated_and_grows_with_use() -> None:
    hours = values()("time.device_hours")
    shares = []
    for mfu in ("0.1", "0.3", "0.5", "0.9"):
        of = values({"time.mfu": mfu, "time.use": "assumed"})
        low = (75 + 500) / 1000 * of("time.device_hours") * 1.2
        assert low < of("energy.expected") <= of("energy.total") * (1 + 1e-12)
        shares.append(of("energy.expected") / of("energy.total"))
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1)
    assert values()("energy.total") == pytest.approx(hours * (700 + 500) / 1000 * 1.2)


@pytest.mark.slow
def test_what_devices_of_any_power_draw_is_the_same_over_arrays() -> None:
    """At 1e30 W idling is a share of 1e-28, which 1 less a difference would not show."""
    changes: dict[str, Any] = {
        "time.mfu": 0.4,
        "time.use": "assumed",
        "cluster.accelerator.idle_power": "70 W",
    }
    powers = [f"{10.0**power} W" for power in (3, 9, 15, 21, 30)]
    for host in ("575 W", "null"):
        own = {**changes, "cluster.host_power": host}
        study = planner.load_study(
            {
                "base": {"extends": str(VALID)},
                "axes": {"cluster.accelerator.power": powers, "time.mfu": [1e-30, 0.4]},
                "record": ["energy.expected"],
            },
            set={f"base.{key}": value for key, value in own.items()},
        )
        for row in study:
            power = f"{row['cluster.accelerator.power']} W"
            axes = {"cluster.accelerator.power": power, "time.mfu": row["time.mfu"]}
            alone = values({**own, **axes})("energy.expected")
            assert row["energy.expected"] == pytest.approx(alone, rel=1e-12)


def test_a_node_of_h100s_draws_what_was_measured() -> None:
    """Latif et al. 2024 (arXiv 2412.08602): at most 8.4 kW of 10.2 kW rated, in training."""
    result = planner.load(LLAMA).evaluate()
    expected, hours = result["energy.expected"].number, result["time.device_hours"].number
    kilowatts = float(expected / hours) * 8
    assert kilowatts == pytest.approx(8.4, rel=0.05)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("missing", "quantity"),
    read_data("book")["absent_facts"],
)
def test_what_has_no_fact_is_absent_and_named(missing: str, quantity: str) -> None:
    found = planner.load(VALID, set={missing: "null"}).evaluate()[quantity]
    assert found.value is None and found.absent is not None and missing in found.absent


def test_adapters_leave_out_the_gradients_of_frozen_weights() -> None:
    """Of three products of equal work, forward and two backward, one is left out."""
    adapted = {"training.lora": {"rank": 16, "targets": ["query", "value"]}, "time.mfu": "null"}
    layout = {"parallelism": {"zero": 0}}  # else each plan has the layout that suits it best
    base = planner.load(VALID, set={"time.mfu": "null", **layout}).evaluate()
    lora = planner.load(VALID, set={**adapted, **layout}).evaluate()
    forward = float(base["compute.forward_flops_per_token"].number)
    assert lora["compute.forward_flops_per_token"].number >= forward
    narrow = "time.product.backward[layer.mlp.gate]"
    names = [i for i in base.quantities if i.startswith("time.product.backward[layer.mlp")]
    assert names, narrow
    for name in names:
        assert float(lora[name].number) == pytest.approx(float(base[name].number) / 2, rel=0.2)
    ratio = float(lora["time.step_seconds"].number / base["time.step_seconds"].number)
    assert 0.6 < ratio < 0.85


def test_adapters_count_two_thirds_of_the_work() -> None:
    """Llama-2 7B, rank 16 beside queries and values of 32 layers: 8.4 million weights train. Frozen
    weights multiply twice instead of three times, attention scores three times, adapters too."""
    lora = {"training.lora": {"rank": 16, "targets": ["query", "value"]}}
    base, adapted = planner.load(VALID).evaluate(), planner.load(VALID, set=lora).evaluate()
    scores = 2 * 4096 * 2 * 4096 * 32  # 2 FLOP, all keys, both products, layers
    forward = base["compute.forward_flops_per_token"].number
    narrow = 32 * 2 * 16 * 2 * 4096  # layers, projections, rank, both matrices
    assert adapted["compute.flops_per_token"].value == 2 * forward + scores + 6 * narrow
    step = "time.step_seconds"  # at an assumed utilisation the step is shorter by as much
    ratio = adapted[step].number / base[step].number
    assert ratio == (2 * forward + scores + 6 * narrow) / (3 * forward)


def test_utilisation_by_every_convention() -> None:
    result = planner.load(LLAMA, set={"training.recompute": "full"}).evaluate()
    of = {
        (work, attention, peak): float(result[f"time.{peak}[{name}]"].number)
        for work, attention, name in (
            ("model", "full", "mfu"),
            ("model", "causal", "mfu-causal"),
            ("hardware", "full", "hfu"),
            ("hardware", "causal", "hfu-causal"),
        )
        for peak in ("utilisation", "utilisation_listed")
    }
    for work in ("model", "hardware"):
        for attention in ("full", "causal"):
            # the H100's sheet prints the rate with sparsity
            dense = of[work, attention, "utilisation"]
            assert dense == pytest.approx(2 * of[work, attention, "utilisation_listed"])
        full, causal = (of[work, attention, "utilisation"] for attention in ("full", "causal"))
        # of Llama-2 70B at 4,096 tokens, attention scores are 7.2 % of all; half are masked
        assert 1 - causal / full == pytest.approx(0.0725 / 2, rel=0.02)
    model, hardware = (of[work, "full", "utilisation"] for work in ("model", "hardware"))
    assert model == pytest.approx(float(result["time.mfu"].number))
    assert hardware == pytest.approx(4 / 3 * model, rel=0.02)
    causal = of["hardware", "causal", "utilisation"]  # less than is performed, in whole blocks
    assert causal <= float(result["time.hfu"].number) < hardware


def test_an_encoder_masks_nothing() -> None:
    layout = {f"parallelism.{key}": 1 for key in ("tensor", "pipeline")}
    changes = {"model": "bert-base", "parallelism.sequence": False, "training.sequence_length": 512}
    of = values({**layout, **changes}, LLAMA)
    assert of("time.utilisation[mfu-causal]") == of("time.utilisation[mfu]")


def test_only_what_can_be_told_apart_is_shown() -> None:
    def shown(**changes: str) -> set[str]:
        keys = {key.replace("__", "."): value for key, value in changes.items()}
        result = planner.load(LLAMA, set=keys).evaluate()
        return {i for i in result.quantities if i.startswith("time.utilisation[")}

    assert len(shown()) == 4
    assert shown(training__attention_count="causal") == shown()
    assert shown(training__mode="inference") == set()
