"""Prices are facts of an accelerator at a provider, with a date; a plan's own price is its word."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.base import units
from planner.documents import source
from planner.questions.loading import load
from planner.questions.solve.priced_devices import list_offers
from tests.conftest import read_data
from tests.plans.test_hardware_presets import ACCELERATORS, CLUSTERS, document

#: USD for an instance of so many devices, as the providers' pages print it; or for a second.
PRINTED = {
    (name, provider, kind, *term): (usd, Fraction(count))
    for name, provider, kind, usd, count, *term in read_data("printed_prices")
}
PLAN: dict[str, Any] = read_data("plans")["prices"]


def _term(row: Mapping[str, Any]) -> list[str]:
    """For how long a device is reserved, if the row says it."""
    return [row["term"]] if "term" in row else []


def hourly(document: Any, **changes: Any) -> Fraction | None:
    """What one device costs for an hour, by the cost and the hours of a result that are billed."""
    result = planner.load(document, set=changes).evaluate()
    if "cost.total" not in result:
        return None
    billed = "cost.billed_hours" if "cost.billed_hours" in result else "time.device_hours"
    return result["cost.total"].number / result[billed].number


def test_every_shipped_price_is_the_printed_one() -> None:
    shipped = {
        (name, row["provider"], row["kind"], *_term(row)): units.parse(row["price"], "USD/h")
        for name in ACCELERATORS
        for row in document("accelerator", name).get("prices") or ()
    }
    assert shipped == {key: Fraction(usd) / count for key, (usd, count) in PRINTED.items()}


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_price_has_a_date_and_a_page(name: str) -> None:
    rows = document("accelerator", name).get("prices") or ()
    assert all(row["date"] >= "2024" and row["url"] and row["text"] for row in rows)
    assert len({(row["provider"], row["kind"], *_term(row)) for row in rows}) == len(rows)


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_shipped_cluster_is_billed_by_its_providers_list(name: str) -> None:
    data = document("cluster", name)
    asked = {"cluster": name, "cluster.devices": data.get("devices_per_node", 8)}
    found = hourly(PLAN, **asked, **{"training.global_batch": 144})
    reference = source.load({"cluster": name}, kind="plan").find_node(("cluster", "accelerator"))
    rows = {
        (accelerator, provider): Fraction(usd) / count
        for (accelerator, provider, kind, *_), (usd, count) in PRINTED.items()
        if kind not in ("reserved", "spot")
    }
    assert found == rows.get((reference.reference, data.get("provider")))


def test_another_device_has_another_price_or_none() -> None:
    assert hourly(PLAN) == Fraction(4924, 800)
    b200 = {"cluster.accelerator": "b200-sxm-192gb"}
    assert hourly(PLAN, **b200) == Fraction(6880, 800)
    assert hourly(PLAN, **b200, **{"cluster.provider": "lambda"}) == Fraction(669, 100)
    assert hourly(PLAN, **{"cluster.accelerator": "b300-sxm-288gb"}) is None
    absent = planner.load(PLAN, set={"cluster.accelerator": "b300-sxm-288gb"}).evaluate().absent
    assert "coreweave has none" in absent["cost.total"] and "hyperstack" in absent["cost.total"]


@pytest.mark.parametrize("child", ["h100-sxm-96gb", "a800-sxm-80gb", "mi325x"])
def test_a_device_does_not_inherit_the_price_of_its_kin(child: str) -> None:
    assert "prices" not in document("accelerator", child)


def test_the_plans_own_price_is_its_word() -> None:
    own = {"cluster.price": "2 USD/h"}
    assert hourly(PLAN, **own) == 2
    assert hourly(PLAN, **own, **{"cluster.accelerator": "b200-sxm-192gb"}) == 2
    assert hourly(PLAN, **own, **{"cluster.provider": "lambda"}) == 2


def test_the_source_of_a_cost_names_the_provider_and_the_day() -> None:
    result = planner.load(PLAN).evaluate()
    told = result.to_json()
    assert "coreweave, 2026-09-20" in told["quantities"]["cost.total"]["source"]
    assert "coreweave, 2026-09-20" in told["inputs"]["cluster.price"]["origin"]
    assert not any("prices" in key for key in told["inputs"])
    own = planner.load(PLAN, set={"cluster.price": "2 USD/h"}).evaluate()["cost.total"]
    assert "--set" in own.source or "argument" in own.source


def test_reserved_hours_are_those_of_the_provider_too() -> None:
    result = planner.load(PLAN, set={"cluster.provider": "hyperstack"}).evaluate()
    hours = result["time.device_hours"].number
    assert result["cost.reserved"].number == hours * Fraction(272, 100)
    assert result["cost.total"].number == hours * Fraction(320, 100)


@pytest.mark.parametrize(("term", "usd"), [("1 year", 767), ("3 years", 486), (None, 767)])
def test_reserved_devices_are_paid_by_their_term(term: str | None, usd: int) -> None:
    paid = {"cluster.purchase": "reserved", "cluster.provider": "google", "cluster.term": term}
    asked = {key: value for key, value in paid.items() if value}
    assert hourly(PLAN, **asked) == Fraction(usd, 100)
    source = planner.load(PLAN, set=asked).evaluate()["cost.total"].source
    assert f"google for {term or '1 year'}, 2025-03-17" in source
    offers = list_offers(load(PLAN | {"cluster": PLAN["cluster"] | {"purchase": "reserved"}}))
    assert all("reserved price" in offer.whose for offer in offers[1:])


def test_offers_say_whose_prices_they_are() -> None:
    for offer in list_offers(load(PLAN)):
        assert any(year in offer.whose for year in ("2024", "2026")), offer
    (b200,) = list_offers(load(PLAN), ["b200-sxm-192gb"])
    assert b200.price == Fraction(6880, 800) and "coreweave" in b200.whose
    (other,) = list_offers(load(PLAN), ["b300-sxm-288gb"])
    assert other.price == Fraction(740, 100) and "hyperstack" in other.whose


RENTED: dict[str, Any] = {
    "model": "llama3.2-1b",
    "cluster": {"extends": "hgx-h100", "provider": "aws"},
    "training": {"implementation": "pytorch", "tokens": "1B", "sequence_length": 2048}
    | {"global_batch": 64, "micro_batch": 1},
    "parallelism": {"zero": 3},
}
SEEN = {"failures": {"count": 1, "devices": 8, "period": "30 days"}}


def rent(**keys: Any) -> planner.Result:
    return planner.load(RENTED, {f"cluster.{key}": value for key, value in keys.items()}).evaluate()


def test_spot_is_paid_for_what_interruptions_cost() -> None:
    """AWS's Spot Instance Advisor: 15 to 20 % of p5.48xlarge are taken back in a month, 35 of 200
    in the middle, so one of one instance each 30 × 200 / 35 days."""
    spot, plain = rent(purchase="spot"), rent()
    assert spot["time.between_failures"].value == Fraction(30 * 86_400 * 200, 35)
    price = spot.plan.get("cluster.price")
    lost = spot["time.run_days"].value / spot["time.training_days"].value
    assert lost > 1
    hours = spot["time.device_hours"].value * price
    assert spot["cost.total"].value == pytest.approx(float(hours * lost))
    assert spot["cost.total"].value < plain["cost.total"].value / 2


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"purchase": "reserved"}, "known are those of: google, hyperstack"),
        ({"purchase": "spot", "provider": "lambda", **SEEN}, "those of: aws, nebius, verda"),
        ({"purchase": "spot", "provider": "nebius"}, "cluster.failures.count"),
    ],
)
def test_a_price_that_nobody_lists_is_absent(keys: dict[str, Any], why: str) -> None:
    assert why in rent(**keys).absent["cost.total"]
