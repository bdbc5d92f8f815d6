"""What is paid for: hours as they are billed, storage, data sent out, electricity, and a mix of
spot devices and others; each against arithmetic on the rules that providers publish."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import pytest

import planner
from planner.base.errors import PlanError
from planner.questions.solve import bounds

CARD = "presets/fine_tuning/qlora_llama3.1-8b_rtx4090.yaml"
RL = "presets/reinforcement/grpo_llama3.1-8b_16xh100.yaml"


def evaluate(path: str = CARD, **changes: Any) -> Any:
    return planner.load(path, set={k.replace("__", "."): v for k, v in changes.items()}).evaluate()


def test_hours_are_billed_in_whole_increments_and_no_less_than_the_least() -> None:
    plain = evaluate(cluster__price="2 USD/h")
    hours = Fraction(plain["time.training_days"].number) * 24
    assert plain["cost.total"].number == pytest.approx(float(2 * hours))
    interrupted = {
        "cluster__storage": {"bandwidth": "9 GB/s"},
        "cluster__failures": {"count": 1, "devices": 8, "period": "9 days"},
    }
    for increment, least in (("1 h", "0 s"), ("90 min", "0 s"), ("1 s", "24 h")):
        bill = {"increment": increment, "minimum": least}
        prices = {"cluster__price": "2 USD/h", "cluster__reserved_price": "1 USD/h"}
        found = evaluate(**prices, **interrupted, cluster__bill=bill)
        each = {"1 h": 1, "90 min": Fraction(3, 2), "1 s": Fraction(1, 3600)}[increment]
        billed = max(24 if least == "24 h" else 0, ceil(hours / each) * each)
        assert found["cost.billed_hours"].number == pytest.approx(float(billed))
        assert found["cost.total"].number == pytest.approx(2 * float(billed))
        assert found["cost.reserved"].number == pytest.approx(float(billed))
        whole = ceil(24 * Fraction(found["time.run_days"].number) / each) * each
        whole = max(24 if least == "24 h" else 0, whole)
        assert found["cost.run"].number == pytest.approx(2 * float(whole))


def test_storage_is_paid_by_the_month_and_egress_once() -> None:
    """730 hours are a month: 100 GB at 0.07 USD for one, and 16 GB that leave at 0.09."""
    bill = {"stored": "100 GB", "storage_price": "0.07 USD/GB/month", "increment": "1 s"}
    bill |= {"sent": "16 GB", "egress_price": "0.09 USD/GB"}
    found = evaluate(cluster__price="2 USD/h", cluster__bill=bill)
    months = found["time.training_days"].number * 24 / 730
    assert found["cost.storage"].number == pytest.approx(float(7 * months) + 1.44)
    parts = 2 * found["cost.billed_hours"].number + found["cost.storage"].number
    assert found["cost.total"].number == pytest.approx(parts)


def test_a_provider_that_sells_days_is_paid_for_days_and_minutes_are_not_rounded() -> None:
    """EC2 Capacity Blocks are sold by the day; RunPod bills by the second."""
    path = "presets/gpt2small_hgx-h100.yaml"
    sold = evaluate(path, cluster__provider="aws-capacity-blocks")
    devices, days = sold.plan.get("cluster.devices"), sold["time.training_days"].number
    assert sold["cost.billed_hours"].number == devices * 24 * ceil(days)
    runpod = evaluate(path, cluster__provider="runpod")
    assert runpod["cost.billed_hours"].absent
    hours = float(runpod["time.device_hours"].number)
    assert runpod["cost.total"].number == pytest.approx(3.99 * hours)
    own = evaluate(path, cluster__provider="aws-capacity-blocks", cluster__price="3 USD/h")
    assert own["cost.billed_hours"].absent  # another price is another seller's


def test_steps_of_reinforcement_learning_are_billed_as_training_is() -> None:
    """A seller of whole days is paid for them, on the devices of trainer and engine together."""
    found = evaluate(RL, cluster__bill={"increment": "24 h"}, cluster__price="2 USD/h")
    days = ceil(found["rl.days"].number)
    assert found["rl.cost"].number == pytest.approx(2 * 24 * days * found["rl.devices"].number)


def test_electricity_costs_what_the_meter_reads() -> None:
    found = evaluate(cluster__electricity_price="0.4 USD/kWh")
    assert found["energy.cost"].number == pytest.approx(0.4 * float(found["energy.total"].number))
    assert evaluate()["energy.cost"].absent


def test_a_mix_lies_between_spot_and_on_demand_and_the_cheapest_meets_the_deadline() -> None:
    """The deadline of half the days that interruptions add is met by half of the run on spot."""
    path, more = "presets/llama70b_h100x1024.yaml", {"time__mfu": None, "cluster": None}
    spot = {"accelerator": "h100-sxm-80gb", "devices": 1024, "provider": "aws", "purchase": "spot"}
    more["cluster"] = spot
    whole, none = (evaluate(path, **more, cluster__spot_share=share) for share in (1, 0))
    assert whole["cost.run"].number == pytest.approx(whole["cost.total"].number)
    hours, price = none["time.device_hours"].number, none.plan.get("cluster.on_demand_price")
    assert none["cost.total"].number == pytest.approx(hours * price)
    assert none["time.mixed_days"].number == none["time.training_days"].number
    assert none["cost.total"].number > whole["cost.total"].number
    assert bounds.evaluate_costs(none.plan)["cost.total"].number == none["cost.total"].number
    days = [float(one["time.mixed_days"].number) for one in (whole, none)]
    plan = planner.load(path, set={key.replace("__", "."): value for key, value in more.items()})
    until = [f"time.mixed_days <= {sum(days) / 2} days"]
    answer = plan.solve(vary="cluster.spot_share", until=until)
    assert answer.holds and float(answer.holds.number) == pytest.approx(0.5, abs=1e-4)


def test_a_share_on_spot_devices_is_not_billed() -> None:
    spot = {"accelerator": "h100-sxm-80gb", "devices": 8, "provider": "aws", "purchase": "spot"}
    with pytest.raises(PlanError, match=r"spot devices beside a bill"):
        evaluate(cluster={**spot, "spot_share": 0.5, "bill": {"increment": "1 h"}})


def test_a_share_on_spot_devices_needs_spot_devices() -> None:
    cluster = {"accelerator": "h100-sxm-80gb", "devices": 8, "provider": "aws", "spot_share": 0.5}
    with pytest.raises(PlanError, match="of which none are rented"):
        evaluate(cluster=cluster)
