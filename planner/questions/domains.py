"""The values that an inverse question tries: which values of a key can make a valid plan, in order.

A domain numbers candidate values by an index. It may contain values that the plan's checks then
refuse, but omits none that they would accept (``step`` describes coarser steps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile
from typing import Any

from planner.base.errors import PlanError
from planner.documents import stacks
from planner.documents.source import assume_batch
from planner.plans.document import Plan
from planner.plans.layout import INNER, OUTER, filter_keys
from planner.plans.plan import about

Number = int | Fraction | float

#: A model is built layer by layer, so questions about layers need a bound.
MOST_LAYERS = 10_000
#: Significant digits of answers that are not whole numbers.
DIGITS = 6
#: Where the batch follows the devices, so many counts of nodes lie between two powers of two.
FINENESS = 8
#: The largest of those counts of devices.
MOST_DEVICES = 2**17


@dataclass(frozen=True)
class Domain:
    """Candidate values by index.

    Attributes:
        key: the dotted key that takes the values, or ``model``.
        unit: the unit of the values.
        value: the value at an index.
        changes: the changes of a plan that a value makes, by dotted key.
        start: the index nearest to the plan's own value.
        first: the smallest index.
        last: the largest index; None if the domain has no end.
        step: description of one step, for people.
        endless: whether valid values have no end; then ``last`` is None or only our own bound.
        rows: if values differ in two ways, the indices of each row of values that differ in one way
            only; values of several rows are compared by ``measure``.
        measure: with rows, a quantity that increases along each.
        bound: why ``last`` is not larger, if it is a plausibility bound (``bounds``).
    """

    key: str
    unit: str
    value: Callable[[int], Number]
    changes: Callable[[Number], Mapping[str, Any]]
    start: int
    first: int = 0
    last: int | None = None
    step: str = ""
    endless: bool = False
    rows: tuple[range, ...] = ()
    measure: str = ""
    bound: str = ""

    def has(self, index: int) -> bool:
        """Decide whether an index is in the domain."""
        return self.clamp_index(index) == index

    def clamp_index(self, index: int) -> int:
        """Clamp an index to the domain."""
        return max(self.first, index if self.last is None else min(index, self.last))


def build_domain(plan: Plan, key: str, free: bool = False) -> Domain:
    """Build the domain of a numeric key of a plan.

    Args:
        plan: its own value is the start, and its layout limits the values of some keys.
        key: a dotted key.
        free: whether the layout may change; then devices, micro-batch, layers and sequence length
            are not tied to the plan's own layout.

    Returns:
        Listed values of a key that must divide something; otherwise multiples of a step.

    Raises:
        PlanError: no such key, or one that holds no number.
    """
    said = about(key)
    kinds = {said["type"]} if isinstance(said.get("type"), str) else set(said.get("type", ()))
    if "unit" not in said and not kinds & {"integer", "number"}:
        raise PlanError(f"{key} is not a number, so it cannot be varied", None)
    # Reinforcement learning turns batch, length and devices into those of its trainer.
    current = plan.document.get(key) if plan.reinforced else None
    current = plan.get(key) if current is None else current
    if not isinstance(current, (int, Fraction)) or isinstance(current, bool):
        raise PlanError(f"{key} has no value to start from", None, f"give one with --set {key}=…")
    if free and key == "cluster.devices":
        return make_count_domain(plan)
    listed = _list_key_values(plan, key)
    if free and key == "training.micro_batch":
        listed = divisors(plan.get("training.global_batch"))
    if said.get("enum"):
        listed = tuple(v for v in said["enum"] if isinstance(v, int))
    if listed is not None:
        return make_list_domain(key, said.get("unit", "1"), listed, current)
    if "integer" not in kinds and key != "training.tokens":
        size = math.floor(math.log10(float(abs(Fraction(current)) or 1)))
        return _make_step_domain(plan, key, current, said, Fraction(10) ** (size - DIGITS + 1))
    step = 1 if free and key == "model.layers" else _find_step(plan, key)
    if free and key == "training.sequence_length":
        # Lengths that many layouts divide: an eighth of the present one, as a power of two.
        step = 1 << max(6, int(current).bit_length() - 4)
    return _make_step_domain(plan, key, current, said, step)


def make_list_domain(key: str, unit: str, values: tuple[int, ...], current: Number) -> Domain:
    """Make a domain of listed values.

    Args:
        key: the dotted key that takes the values.
        unit: their unit.
        values: at least one value, in increasing order.
        current: the plan's own value; the domain starts at the value nearest to it.

    Returns:
        A domain whose indices are those of ``values``.
    """
    nearest = min(range(len(values)), key=lambda i: abs(values[i] - current))
    return Domain(key, unit, lambda i: values[i], lambda v: {key: v}, nearest, 0, len(values) - 1)


def _make_step_domain(
    plan: Plan, key: str, current: Number, said: Mapping[str, Any], step: int | Fraction
) -> Domain:
    """Make a domain of multiples of a step.

    Args:
        plan: learned positions limit its sequence length.
        key: the dotted key that takes the values.
        current: the plan's own value.
        said: the schema of the key, whose minimum and maximum end the domain.
        step: a whole step makes values from 1 on, unless the schema gives a minimum.
    """
    least, words = 0, f"to {DIGITS} digits"
    if isinstance(step, int):
        least, words = 1, f"multiples of {step}" if step > 1 else ""
    first = math.ceil(Fraction(said.get("minimum", least)) / step)
    if said.get("exclusiveMinimum") is not None:
        first = math.floor(Fraction(said["exclusiveMinimum"]) / step) + 1
    highest = said.get("maximum")
    if key == "training.sequence_length" and plan.get("model.positions") == "learned":
        highest = plan.get("model.max_sequence")
    endless = highest is None
    if key == "model.layers":
        highest = MOST_LAYERS
    return Domain(
        key,
        said.get("unit", "1"),
        lambda i: i * step,
        lambda v: {key: v},
        max(least, round(Fraction(current) / step)),
        first,
        None if highest is None else math.floor(Fraction(highest) / step),
        words,
        endless,
    )


def _find_step(plan: Plan, key: str) -> int:
    """Return the smallest increment of a value that the layout permits."""
    get = plan.get
    if key == "cluster.devices":
        return math.prod(get(outer) for outer in filter_keys(OUTER))
    if key == "training.global_batch":
        return int(get("parallelism.data") * get("training.micro_batch"))
    if key == "training.tokens" and get("training.sequence_length"):
        return int(get("training.global_batch") * get("training.sequence_length"))
    if key == "training.sequence_length":
        # Sequence parallelism cuts it over tensor ranks; context parallelism in two pieces a rank.
        whole, context = get("parallelism.tensor"), get("parallelism.context")
        whole = whole if get("parallelism.sequence") else 1
        return math.lcm(whole, 2 * context if context > 1 else 1)
    if key == "model.hidden":
        fixed = (plan.document.data["model"].get("attention") or {}).get("head_dim") is not None
        return 1 if fixed else int(get("model.attention.heads") or 1)
    return 1


def make_count_domain(plan: Plan, sold: int = 1) -> Domain:
    """Make a domain of device counts with even layouts: a divisor of the batch, times a divisor of
    the layers, times a power of two that divides the heads; in whole nodes, or in an even part of
    one that ``sold`` divides, the devices that are rented together. Without a network there is one
    node. A batch that the plan leaves open follows the devices (``assume_batch``).

    Raises:
        PlanError: the model is given by its size only.
    """
    if plan.model is None:
        raise PlanError("the best layout needs the shape of the model", None)
    node, joined = plan.get("cluster.devices_per_node"), plan.get("cluster.network") is not None
    heads, batch = plan.get("model.attention.heads") or 1, "training.global_batch"
    document = plan.document
    is_open = document.get(batch) is not None and not document.has_value(batch.split("."))
    halves = [1 << i for i in range((heads & -heads).bit_length())]
    if is_open:
        beyond = (node * many for many in _list_round(MOST_DEVICES // node))
        whole = {*range(1, node), *beyond}
    else:
        runs = stacks.find_choices(plan.get("training.stack"), plan.get)
        stages = divisors(len(plan.model.sequence))
        whole = {
            data * pipeline * tensor
            for data in divisors(plan.get(batch))
            for pipeline in stages
            if pipeline in runs.get("parallelism.pipeline", stages)
            for tensor in halves
            if tensor in runs.get("parallelism.tensor", halves)
        }
    current = plan.get("cluster.devices")
    part = [n for n in whole if n == current or (n <= node and n % min(sold, node) == 0)]
    even = {*part, *(n for n in whole if joined and n % node == 0)}
    counts = tuple(sorted(even)) or (current,)
    domain = make_list_domain("cluster.devices", "1", counts, current)
    if not is_open:
        return replace(
            domain, step="whole nodes or parts of one that batch, layers and heads divide over"
        )

    def change(count: Number) -> Mapping[str, Any]:
        """Set a count of devices and the batch that follows it."""
        followed, _ = assume_batch(plan.get, int(count))
        return {"cluster.devices": count, batch: followed}

    return replace(domain, changes=change, step="any below a node, then round numbers of nodes")


def _list_round(most: int) -> list[int]:
    """List the counts up to ``most`` of which ``FINENESS`` lie between two powers of two."""
    scales = [1 << i for i in range(most.bit_length())]
    steps = range(FINENESS, 2 * FINENESS)
    found = {step * scale // FINENESS for scale in scales for step in steps}
    return sorted(count for count in found if count <= most)


def _list_key_values(plan: Plan, key: str) -> tuple[int, ...] | None:
    """List the values of a key that must divide something; None for other keys."""
    given = plan.document.data["training"]
    data, devices = plan.get("parallelism.data"), plan.get("cluster.devices")
    batch, micro = given.get("global_batch"), plan.get("training.micro_batch")
    if plan.reinforced and key == "training.global_batch":
        return divisors(plan.get("rl.prompts") * plan.get("rl.samples"))
    if key == "cluster.devices" and batch and not plan.reinforced:
        return tuple(_find_step(plan, key) * d for d in divisors(batch // micro))
    if key in ("training.micro_batch", "training.gradient_accumulation") and batch:
        return divisors(batch // data)
    if key in (*filter_keys(OUTER, INNER), "parallelism.replicate"):
        return divisors(devices)
    return None


def divisors(value: int) -> tuple[int, ...]:
    """List all divisors in increasing order."""
    most = min(math.isqrt(value), 10**6)  # a bound on the time for absurd numbers
    small = [i for i in range(1, most + 1) if value % i == 0]
    return tuple(sorted({*small, *(value // i for i in small)}))


def yield_starts(devices: int) -> Iterator[dict[str, int]]:
    """Yield layouts of which one is probably valid, for a search to start from: every combination
    of degrees that divide all devices, small ones first."""
    outer, sizes = filter_keys(OUTER), divisors(devices)

    def split_size(size: int, many: int) -> Iterator[tuple[int, ...]]:
        """Yield every way to write a size as an ordered product of so many factors."""
        if many == 1:
            yield (size,)
            return
        for first in takewhile(size.__ge__, sizes):
            if size % first == 0:
                yield from ((first, *rest) for rest in split_size(size // first, many - 1))

    for size in sizes:
        for degrees in split_size(size, len(outer)):
            yield dict(zip(outer, degrees, strict=True))
