"""Devices that can be had at a price: the plan's own, and clusters that ship with a price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from planner import resources, source, units
from planner.display import plain_text
from planner.document import Plan
from planner.errors import Fault, PlanError, nearest
from planner.evaluate import Number


@dataclass(frozen=True)
class Offer:
    """One kind of device: what of a plan changes to have it, the number of devices aside."""

    accelerator: str  # its title
    keys: Mapping[str, Any]  # changes by dotted key
    price: Number  # USD for an hour of one device
    per_node: int
    own: bool = False

    def changes(self, devices: int) -> dict[str, Any]:
        """The changes for so many devices."""
        cluster = self.keys.get("cluster")
        if cluster is not None:
            return {"cluster": {**cluster, "devices": devices}}
        return {**self.keys, "cluster.devices": devices}


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
        return tuple(_asked(plan, text) for text in asked)
    found = {offer.accelerator: offer for offer in reversed(_shipped())}
    if plan.get("cluster.price") is not None:
        found[_title(plan)] = _own(plan, plan.get("cluster.price"))
    return tuple(sorted(found.values(), key=lambda offer: (not offer.own, offer.price)))


def _title(plan: Plan) -> str:
    return str(plan.get("cluster.accelerator.name") or "the plan's devices")


def _own(plan: Plan, price: Number) -> Offer:
    nodes = plan.get("cluster.devices_per_node")
    return Offer(_title(plan), {"cluster.price": price}, price, nodes, True)


@cache
def _shipped() -> tuple[Offer, ...]:
    """The shipped clusters with a price, the cheapest first."""
    found = []
    for name in source.preset_names("cluster"):
        offer = _cluster(name, None)
        if offer is not None:
            found.append(offer)
    return tuple(sorted(found, key=lambda offer: offer.price))


def _read(kind: str, name: str) -> dict[str, Any]:
    path = resources.folder("presets") / source.FOLDERS[kind] / f"{name}.yaml"
    return source.load(path, kind=kind).data


def _cluster(name: str, price: Number | None) -> Offer | None:
    data = _read("cluster", name)
    if price is None and data.get("price") is None:
        return None
    price = units.parse(data["price"], "USD/h") if price is None else price
    given = {"cluster": {"extends": name, "price": _text(price)}}
    title = str(data["accelerator"].get("name") or name)
    return Offer(title, given, price, int(data.get("devices_per_node", 8)))


def _text(price: Number) -> str:
    return f"{plain_text(Fraction(price))} USD/h"


def _asked(plan: Plan, text: str) -> Offer:
    name, equals, written = (part.strip() for part in text.partition("="))
    price: Number | None = None
    if equals:
        try:
            price = units.parse(written, "USD/h")
        except units.UnitError as error:
            raise PlanError(
                Fault(f"--accelerators {text}: {error}", None, error.allowed, error.hint)
            ) from None
    if name in source.preset_names("cluster"):
        offer = _cluster(name, price)
        if offer is None:
            raise _without_price(name)
        return offer
    known = source.preset_names("accelerator")
    if name not in known:
        raise PlanError(
            Fault(
                f"--accelerators: unknown accelerator {name}",
                None,
                "see plan.py list accelerators",
                nearest(name, [*known, *source.preset_names("cluster")]),
            )
        )
    title = str(_read("accelerator", name).get("name") or name)
    if price is None:
        return _priced(plan, name, title)
    if title == _title(plan):
        return _own(plan, price)
    nodes = plan.get("cluster.devices_per_node")
    given = {"accelerator": name, "devices_per_node": nodes, "price": _text(price)}
    return Offer(title, {"cluster": given}, price, nodes)


def _priced(plan: Plan, name: str, title: str) -> Offer:
    own = plan.get("cluster.price")
    if own is not None and title == _title(plan):
        return _own(plan, own)
    for offer in _shipped():
        if offer.accelerator == title:
            return offer
    raise _without_price(name)


def _without_price(name: str) -> PlanError:
    return PlanError(Fault(f"--accelerators: no price for {name}", None, f"{name}='2.5 USD/h'"))
