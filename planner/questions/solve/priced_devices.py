"""Devices with a price: the plan's own, and clusters whose provider publishes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from planner.base import resources, units
from planner.base.errors import PlanError, nearest
from planner.documents import aliases, references, schema, source
from planner.documents.source import list_prices, name_price
from planner.engine.evaluate import Number
from planner.plans.document import Plan
from planner.results.inputs import find_origin

#: The source of a price that the question itself states.
ASKED = "--accelerators"
#: The price of one device for an hour: a row of an accelerator's prices, or only ``price`` in USD.
Price = Mapping[str, Any]
#: Devices of a node of accelerators that no built-in cluster has, and of a group of tensor
#: parallelism in models whose hidden size does not determine the number of heads.
NODE = 8
#: How devices are paid: ``cluster.purchase`` and ``cluster.term``.
Paid = tuple[str | None, str | None]


@dataclass(frozen=True)
class Offer:
    """One kind of device at a price.

    Attributes:
        accelerator: its title.
        keys: changes of a plan that select it, except the count, by dotted key.
        price: USD for an hour of one device.
        per_node: devices of a node.
        sold: devices that are rented together.
        whose: whose price it is.
        source: where the price is published; empty if nowhere.
        assumed: whether the price is an assumption that no seller asks.
    """

    accelerator: str
    keys: Mapping[str, Any]
    price: Number
    per_node: int
    whose: str
    source: str
    assumed: bool = False
    sold: int = 1


def list_offers(plan: Plan, asked: Sequence[str] | None = None) -> tuple[Offer, ...]:
    """List the devices to choose from.

    Args:
        plan: without ``asked``, its own devices come first if they have a price.
        asked: names of accelerators or clusters, with or without ``=PRICE``; None for each
            accelerator that has a price, in its cheapest built-in cluster or by itself, the lowest
            price first: that of the provider that the plan itself names, else of any.

    Returns:
        The offers, in the order of ``asked`` where that is given.

    Raises:
        PlanError: an unknown name, an invalid price, or an accelerator without a price.
    """
    if asked is not None:
        return tuple(_parse_offer(plan, text) for text in asked)
    own = [] if plan.get("cluster.price") is None else [_make_own_offer(plan)]
    of_preset = find_origin(plan, "cluster.provider")[0] == "preset"
    provider = None if of_preset else plan.get("cluster.provider")
    built_in = reversed(_list_clusters(provider, get_payment(plan)))
    found = {offer.accelerator: offer for offer in (*built_in, *own)}
    return tuple(sorted(found.values(), key=lambda offer: (offer not in own, offer.price)))


def get_payment(plan: source.Document | Plan) -> Paid:
    """Return how the devices of a plan are paid."""
    return plan.get("cluster.purchase"), plan.get("cluster.term")


def _name_devices(plan: Plan) -> str:
    """Return the title of the plan's own devices."""
    return str(plan.get("cluster.accelerator.name") or "the plan's devices")


def _make_own_offer(plan: Plan) -> Offer:
    """Return the plan's own devices at its own price, with a source if the accelerator lists it."""
    amount, device = plan.get("cluster.price"), plan.get("cluster.accelerator")
    listed = find_listed_price(device, plan.get("cluster.provider") or "", get_payment(plan))
    price = listed if listed and listed["price"] == amount else {"price": amount}
    offer = _build_offer(_name_devices(plan), {}, plan.get("cluster.devices_per_node"), price)
    return replace(offer, whose=find_origin(plan, "cluster.price")[1])


def _build_offer(name: str, changes: Mapping[str, Any], nodes: int, price: Price) -> Offer:
    """Build an offer.

    Args:
        name: the title of the accelerator.
        changes: changes of a plan that select it, by dotted key.
        nodes: devices of a node.
        price: the price with its kind, provider, date and source, as far as known.
    """
    amount, whose = price["price"], ASKED
    if "kind" in price:
        whose = name_price(price)
    published = ", ".join(str(price[key]) for key in ("text", "url") if price.get(key))
    keys, assumed = {**changes, "cluster.price": amount}, price.get("kind") == "assumed"
    sold = price.get("devices", 1 if "kind" in price else nodes)
    return Offer(name, keys, amount, nodes, whose, published, assumed, sold)


@cache
def _list_clusters(provider: str | None, paid: Paid) -> tuple[Offer, ...]:
    """Return what has a price at a provider, or at any for None, the cheapest first: the built-in
    clusters but instances, which one cloud alone has, then accelerators by themselves; those with
    assumed prices last. ``paid`` is how it is paid."""
    instances = {name for name, others in aliases.iter_aliases("cluster") if name in others}
    names = [name for name in references.preset_names("cluster") if name not in instances]
    found = [_find_cluster(name, None, provider, paid) for name in names]
    cards = references.preset_names("accelerator")
    found += [_find_card(name, None, provider, paid) for name in cards]
    return tuple(sorted(filter(None, found), key=lambda offer: (offer.assumed, offer.price)))


def _find_card(name: str, price: Price | None, provider: str | None, paid: Paid) -> Offer | None:
    """Return an accelerator in nodes of ``NODE``, its network that of its usual systems, at a price
    as of ``_find_cluster``."""
    data = _read_preset("accelerator", name)
    price = price or find_listed_price(data, provider, paid)
    if price is None:
        return None
    nodes = max(NODE, price.get("devices", 1))
    cluster = {"accelerator": name, "devices": nodes, "devices_per_node": nodes}
    title, changes = str(data.get("name") or name), {**cluster, **_name_price(price, paid)}
    return _build_offer(title, {"cluster": changes}, nodes, price)


def _find_cluster(name: str, price: Price | None, provider: str | None, paid: Paid) -> Offer | None:
    """Return a built-in cluster at ``price``, else at the provider's, for None at the lowest; None
    without a price."""
    data = _read_preset("cluster", name)
    price = price or find_listed_price(data["accelerator"], provider, paid)
    if price is None:
        return None
    cluster = {"extends": name, **_name_price(price, paid)}
    title, nodes = str(data["accelerator"].get("name") or name), data["devices_per_node"]
    return _build_offer(title, {"cluster": cluster}, nodes, price)


def _name_price(price: Price, paid: Paid) -> dict[str, str]:
    """Return the keys of a cluster that a listed price is for."""
    paid_by = {key: value for key, value in zip(("purchase", "term"), paid, strict=True) if value}
    return {"provider": price["provider"], **paid_by} if "provider" in price else {}


@cache
def _read_preset(kind: str, name: str) -> dict[str, Any]:
    """Read a built-in document, completed by its schema."""
    path = resources.folder("presets") / references.FOLDERS[kind] / f"{name}.yaml"
    return schema.validate(source.load(path, kind=kind), kind).data


def find_listed_price(
    accelerator: Mapping[str, Any], provider: str | None, paid: Paid
) -> Price | None:
    """Find the price that an accelerator has at a provider, or the first that is listed.

    Args:
        accelerator: its document.
        provider: as ``cluster.provider``; None for any.
        paid: how it is paid.
    """
    rows = list_prices(accelerator, *paid)
    return next((row for row in rows if provider in (None, row["provider"])), None)


def _parse_offer(plan: Plan, text: str) -> Offer:
    """Parse ``NAME`` or ``NAME=PRICE`` into an offer."""
    name, equals, written = (part.strip() for part in text.partition("="))
    with units.name_faults(f"--accelerators {text}"):
        price = {"price": units.parse(written, "USD/h")} if equals else None
    clusters, known = references.preset_names("cluster"), references.preset_names("accelerator")
    if name not in clusters:
        name = aliases.find_preset("accelerator", name, known) or name
    if name not in (*clusters, *known):
        wrong, near = f"unknown accelerator {name}", nearest(name, [*known, *clusters])
        raise PlanError(f"--accelerators: {wrong}", None, "see plan.py list accelerators", near)
    if name in clusters:
        found = _find_cluster(name, price, None, get_payment(plan))
    else:
        found = _find_accelerator(plan, name, price)
    if found is None:
        raise PlanError(f"--accelerators: no price for {name}", None, f"{name}='2.5 USD/h'")
    return found


def _find_accelerator(plan: Plan, name: str, price: Price | None) -> Offer | None:
    """Find the price of an accelerator and make an offer of it.

    The price is the first of: ``price``; the plan's own, if it has this accelerator; its
    provider's; that of a built-in cluster; the lowest known.

    Args:
        plan: its own devices and provider are read.
        name: name of a built-in accelerator.
        price: the price that the question states; None for none.

    Returns:
        The offer; None without any price.
    """
    data = _read_preset("accelerator", name)
    title, paid = str(data.get("name") or name), get_payment(plan)
    if price and (listed := find_listed_price(data, None, paid)):  # rented as at others' prices
        price = {"devices": listed.get("devices", 1), **price}
    if title == _name_devices(plan) and (price or plan.get("cluster.price") is not None):
        nodes = plan.get("cluster.devices_per_node")
        return _build_offer(title, {}, nodes, price) if price else _make_own_offer(plan)
    if found := _find_card(name, price, plan.get("cluster.provider") or "", paid):
        return found
    return next((offer for offer in _list_clusters(None, paid) if offer.accelerator == title), None)
