"""Devices that can be had at a price: the plan's own, and clusters whose provider has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from planner.base import resources, units
from planner.base.display import plain_text
from planner.base.errors import Fault, PlanError, nearest
from planner.documents import schema, source
from planner.engine.evaluate import Number
from planner.plans.document import Plan
from planner.results.inputs import origin

#: Whose a price is that the question itself gives.
ASKED = "--accelerators"


@dataclass(frozen=True)
class Offer:
    """One kind of device: what of a plan changes to have it, the number of devices aside."""

    accelerator: str  # its title
    keys: Mapping[str, Any]  # changes by dotted key
    price: Number  # USD for an hour of one device
    per_node: int
    whose: str = ""  # whose price it is, and of which day
    own: bool = False
    source: str = ""  # where it is published

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
        found[_title(plan)] = _own(plan)
    return tuple(sorted(found.values(), key=lambda offer: (not offer.own, offer.price)))


def _title(plan: Plan) -> str:
    return str(plan.get("cluster.accelerator.name") or "the plan's devices")


def _own(plan: Plan, price: Number | None = None) -> Offer:
    """The plan's own devices, at its own price or another."""
    whose, published = ASKED, ""
    if price is None:
        price, whose = plan.get("cluster.price"), origin(plan, "cluster.price")[1]
        row = _listed(plan.get("cluster.accelerator") or {}, plan.get("cluster.provider") or "")
        published = _source(row) if row is not None and row["price"] == price else ""
    nodes = plan.get("cluster.devices_per_node")
    return Offer(_title(plan), {"cluster.price": price}, price, nodes, whose, True, published)


def _offer(
    title: str,
    cluster: Mapping[str, Any],
    per_node: int,
    price: Number | None,
    row: Mapping[str, Any] | None,
) -> Offer | None:
    """Devices of a cluster, at the price that the question gives or else at a listed one; None
    where there is neither."""
    if price is not None:
        given = {**cluster, "price": f"{plain_text(Fraction(price))} USD/h"}
        return Offer(title, {"cluster": given}, price, per_node, ASKED)
    if row is None:
        return None
    whose = f"{row['kind']} price of {row['provider']}, {row['date']}"
    return Offer(title, {"cluster": cluster}, row["price"], per_node, whose, source=_source(row))


@cache
def _shipped() -> tuple[Offer, ...]:
    """The shipped clusters with a price, the cheapest first."""
    found = [_cluster(name, None) for name in source.preset_names("cluster")]
    return tuple(sorted(filter(None, found), key=lambda offer: offer.price))


def _cluster(name: str, price: Number | None) -> Offer | None:
    """A shipped cluster, at its provider's price where none is given."""
    data = _read("cluster", name)
    row = _listed(data["accelerator"], data["provider"]) if data.get("provider") else None
    title = str(data["accelerator"].get("name") or name)
    return _offer(title, {"extends": name}, data["devices_per_node"], price, row)


def _read(kind: str, name: str) -> dict[str, Any]:
    path = resources.folder("presets") / source.FOLDERS[kind] / f"{name}.yaml"
    return schema.validate(source.load(path, kind=kind), kind).data


def _listed(accelerator: Mapping[str, Any], provider: str | None) -> Mapping[str, Any] | None:
    """The row of an accelerator's prices that a plan on it would take; without a provider, the
    lowest."""
    rows = [row for row in accelerator.get("prices") or () if row["kind"] != "reserved"]
    if provider is None:
        return min(rows, key=lambda row: row["price"], default=None)
    return next((row for row in rows if row["provider"] == provider), None)


def _source(row: Mapping[str, Any]) -> str:
    return ", ".join(str(row[key]) for key in ("text", "url") if row.get(key))


def _asked(plan: Plan, text: str) -> Offer:
    """What a name stands for, with or without ``=PRICE``."""
    name, equals, written = (part.strip() for part in text.partition("="))
    price: Number | None = None
    if equals:
        try:
            price = units.parse(written, "USD/h")
        except units.UnitError as error:
            wrong = f"--accelerators {text}: {error}"
            raise PlanError(Fault(wrong, None, error.allowed, error.hint)) from None
    clusters, known = source.preset_names("cluster"), source.preset_names("accelerator")
    if name not in (*clusters, *known):
        wrong, near = f"unknown accelerator {name}", nearest(name, [*known, *clusters])
        lists = "see plan.py list accelerators"
        raise PlanError(Fault(f"--accelerators: {wrong}", None, lists, near))
    found = _cluster(name, price) if name in clusters else _accelerator(plan, name, price)
    if found is None:
        raise PlanError(Fault(f"--accelerators: no price for {name}", None, f"{name}='2.5 USD/h'"))
    return found


def _accelerator(plan: Plan, name: str, price: Number | None) -> Offer | None:
    """An accelerator at the price that is given; else at the plan's own, where the plan has it, or
    its provider's; else in the shipped cluster that has a price for it; else at the lowest price
    that is known."""
    data, provider = _read("accelerator", name), plan.get("cluster.provider")
    title, nodes = str(data.get("name") or name), plan.get("cluster.devices_per_node")
    if title == _title(plan) and (price is not None or plan.get("cluster.price") is not None):
        return _own(plan, price)
    row = _listed(data, provider) if price is None and provider is not None else None
    if price is None and row is None:
        for offer in _shipped():
            if offer.accelerator == title:
                return offer
        row = _listed(data, None)
    cluster = {"accelerator": name, "devices_per_node": nodes}
    if row is not None:
        cluster["provider"] = row["provider"]
    return _offer(title, cluster, nodes, price, row)
