"""Devices that can be had at a price: the plan's own, and clusters whose provider has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from planner.base import resources, units
from planner.base.errors import Fault, PlanError, nearest
from planner.documents import aliases, schema, source
from planner.engine.evaluate import Number
from planner.plans.document import Plan
from planner.results.inputs import origin

#: Whose a price is that the question itself gives.
ASKED = "--accelerators"
#: What an hour of one device costs: a row of an accelerator's prices, or ``price`` (USD) alone.
Price = Mapping[str, Any]


@dataclass(frozen=True)
class Offer:
    """One kind of device: what of a plan changes to have it, the number of devices aside."""

    accelerator: str  # its title
    keys: Mapping[str, Any]  # changes by dotted key
    price: Number  # USD for an hour of one device
    per_node: int
    whose: str  # whose price it is
    source: str


def offers(plan: Plan, asked: Sequence[str] | None = None) -> tuple[Offer, ...]:
    """Devices to choose from.

    Args:
        plan: whose own devices are among them where nothing is asked for and it has a price.
        asked: names of accelerators or clusters, with or without ``=PRICE``; None for every
            cluster that ships with a price, one for each accelerator, the lowest price first.

    Raises:
        PlanError: an unknown name, a price that is none, or an accelerator without a price.
    """
    if asked is not None:
        return tuple(_by_name(plan, text) for text in asked)
    own = [] if plan.get("cluster.price") is None else [_own(plan)]
    found = {offer.accelerator: offer for offer in (*reversed(_presets()), *own)}
    return tuple(sorted(found.values(), key=lambda offer: (offer not in own, offer.price)))


def _title(plan: Plan) -> str:
    return str(plan.get("cluster.accelerator.name") or "the plan's devices")


def _own(plan: Plan) -> Offer:
    """The plan's own devices at its own price, which may be one of the accelerator's."""
    amount = plan.get("cluster.price")
    listed = _list_price(plan.get("cluster.accelerator"), plan.get("cluster.provider") or "")
    price = listed if listed and listed["price"] == amount else {"price": amount}
    offer = _offer(_title(plan), {}, plan.get("cluster.devices_per_node"), price)
    return replace(offer, whose=origin(plan, "cluster.price")[1])


def _offer(name: str, changes: Mapping[str, Any], nodes: int, price: Price) -> Offer:
    """Devices that a plan has with some changes, at a price."""
    amount, whose = price["price"], ASKED
    if "kind" in price:
        whose = f"{price['kind']} price of {price['provider']}, {price['date']}"
    published = ", ".join(str(price[key]) for key in ("text", "url") if price.get(key))
    return Offer(name, {**changes, "cluster.price": amount}, amount, nodes, whose, published)


@cache
def _presets() -> tuple[Offer, ...]:
    """The shipped clusters with a price, the cheapest first."""
    found = [_cluster(name, None) for name in source.preset_names("cluster")]
    return tuple(sorted(filter(None, found), key=lambda offer: offer.price))


def _cluster(name: str, price: Price | None) -> Offer | None:
    """A shipped cluster, at its provider's price where none is given."""
    data = _read("cluster", name)
    price = price or _list_price(data["accelerator"], data.get("provider") or "")
    title, nodes = str(data["accelerator"].get("name") or name), data["devices_per_node"]
    return _offer(title, {"cluster": {"extends": name}}, nodes, price) if price else None


def _read(kind: str, name: str) -> dict[str, Any]:
    path = resources.folder("presets") / source.FOLDERS[kind] / f"{name}.yaml"
    return schema.validate(source.load(path, kind=kind), kind).data


def _list_price(accelerator: Mapping[str, Any], provider: str | None) -> Price | None:
    """Of an accelerator's prices the one that a plan on it would take; without a provider, the
    lowest."""
    rows = [row for row in accelerator.get("prices") or () if row["kind"] != "reserved"]
    if provider is None:
        rows.sort(key=lambda row: row["price"])
    return next((row for row in rows if provider in (None, row["provider"])), None)


def _by_name(plan: Plan, text: str) -> Offer:
    """What a name stands for, with or without ``=PRICE``."""
    name, equals, written = (part.strip() for part in text.partition("="))
    try:
        price = {"price": units.parse(written, "USD/h")} if equals else None
    except units.UnitError as error:
        wrong = f"--accelerators {text}: {error}"
        raise PlanError(Fault(wrong, None, error.allowed, error.hint)) from None
    clusters, known = source.preset_names("cluster"), source.preset_names("accelerator")
    if name not in clusters:
        name = aliases.preset("accelerator", name, known) or name
    if name not in (*clusters, *known):
        wrong, near = f"unknown accelerator {name}", nearest(name, [*known, *clusters])
        lists = "see plan.py list accelerators"
        raise PlanError(Fault(f"--accelerators: {wrong}", None, lists, near))
    found = _cluster(name, price) if name in clusters else _accelerator(plan, name, price)
    if found is None:
        raise PlanError(Fault(f"--accelerators: no price for {name}", None, f"{name}='2.5 USD/h'"))
    return found


def _accelerator(plan: Plan, name: str, price: Price | None) -> Offer | None:
    """An accelerator at the price that is given; else at the plan's own, where the plan has it, or
    its provider's; else in the shipped cluster that has a price for it; else at the lowest price
    that is known."""
    data, nodes = _read("accelerator", name), plan.get("cluster.devices_per_node")
    title = str(data.get("name") or name)
    if title == _title(plan) and (price or plan.get("cluster.price") is not None):
        return _offer(title, {}, nodes, price) if price else _own(plan)
    price = price or _list_price(data, plan.get("cluster.provider") or "")
    if price is None:
        for offer in _presets():
            if offer.accelerator == title:
                return offer
        price = _list_price(data, None)
    if price is None:
        return None
    cluster = {"accelerator": name, "devices": nodes, "devices_per_node": nodes}
    if "provider" in price:
        cluster["provider"] = price["provider"]
    return _offer(title, {"cluster": cluster}, nodes, price)
