"""The tensors of the fullest device in the order of a step: what is allocated when, and freed.

Each value comes from the evaluated formula of ``memory.live``: sums are taken apart, of a maximum
the operand that it selects, down to one tensor of a layer, one component, one buffer. So the list
adds up to ``memory.live`` of each phase exactly, whatever the formulas are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from planner.base.errors import Fault, PlanError
from planner.book.quantity import Quantity
from planner.engine.evaluate import Absent, Entry, Evaluation
from planner.engine.graph import LEAVES
from planner.engine.run import pick_operands
from planner.results.result import Result

#: Axes whose entries are single tensors, and the units of their sizes.
FINEST, SIZES = ("component", "tensor"), ("bytes", "parameters")


class Allocation(NamedTuple):
    """Equal tensors of one device that live through the same phases of a step.

    Attributes:
        quantity: id of the innermost quantity of the book that has its bytes.
        entry: path of the tensor or component, such as ``layer.attention.query``; of a layer or
            stage where the quantity has no finer one.
        title: for people.
        role: weights, gradients, optimizer states, activations or buffers.
        part: the layer kind that it belongs to; None of a stage.
        copies: how many there are, over layers and micro-batches in flight.
        bytes: of each one; a Fraction where ranks divide it unevenly.
        born: the first phase in which it is alive.
        freed: the last one; what lives from the first to the last phase survives the step.
    """

    quantity: str
    entry: str
    title: str
    role: str
    part: str | None
    copies: int = 0
    bytes: Fraction = Fraction(0)
    born: str = ""
    freed: str = ""

    def get_total(self) -> Fraction:
        """Return the bytes of all of them."""
        return self.copies * self.bytes


def list_allocations(result: Result, stage: Entry | None = None) -> tuple[Allocation, ...]:
    """List the allocations of a step on one device of a stage.

    Args:
        stage: an entry of the axis ``stage``; the fullest one by default.

    Returns:
        allocations in the order of the book. Those alive in a phase have ``memory.live`` bytes.

    Raises:
        PlanError: the memory of the plan cannot be computed.
    """
    evaluation, phases = result.evaluation, result.list_entries("phase")
    try:
        evaluation.value("memory.stage")
    except Absent as absent:
        raise PlanError(Fault(f"allocations cannot be listed: {absent.reason}")) from None
    stage = stage or max(
        result.list_entries("stage"),
        key=lambda one: evaluation.value("memory.peak", {"stage": one}),
    )
    breakdown, names = Breakdown(evaluation), [phase.name for phase in phases]
    counts: dict[Allocation, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * len(phases))
    for number, phase in enumerate(phases):
        place = evaluation.instance("memory.live", {"stage": stage, "phase": phase})
        evaluation.evaluate_node(place)
        for tensor, count in breakdown.walk(place):
            counts[tensor][number] += count
    return tuple(
        tensor._replace(
            copies=math.ceil(count),
            bytes=tensor.bytes * count / math.ceil(count),
            born=names[born],
            freed=names[freed],
        )
        for tensor, by_phase in counts.items()
        for count, born, freed in list_lifetimes(by_phase)
    )


def list_lifetimes(counts: Sequence[Fraction]) -> Iterator[tuple[Fraction, int, int]]:
    """Yield how many tensors are alive from which phase to which, where so many are in each."""
    for low, high in pairwise(sorted({Fraction(0), *counts})):
        alive = [count >= high for count in counts]
        for born, here in enumerate(alive):
            if here and not (born and alive[born - 1]):
                yield high - low, born, born + [*alive[born:], False].index(False) - 1


class Breakdown:
    """Takes the formula of an evaluated quantity apart into single tensors."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.book, self.values = evaluation.book, evaluation.values
        self.nodes = evaluation.graph.nodes
        self._divisible: dict[int, bool] = {}

    def walk(
        self, place: int, count: Any = 1, scale: Any = 1, within: Allocation | None = None
    ) -> Iterator[tuple[Allocation, Fraction]]:
        """Yield the tensors that a node is the sum of, and how many of each.

        Args:
            place: the node.
            count: how often it is taken.
            scale: bytes of one unit of it.
            within: the innermost quantity around it, without lifetime.
        """
        (operation, arguments), value = self.nodes[place], self.values[place]
        if not count * scale * value:
            return
        if operation == "quantity":
            within = self.describe(place, within)
        if operation == "quantity" and not self.is_finest(place):
            inner = [(arguments[0], count, scale)]
        elif operation == "add" and all(self.values[one] >= 0 for one in arguments):
            inner = [(one, count, scale) for one in arguments]
        elif operation != "quantity" and self.is_divisible(place):
            inner = [self.select_operand(operation, arguments, count, scale)]
        else:
            assert within is not None
            yield within._replace(bytes=Fraction(scale * value)), Fraction(count)
            return
        for one in inner:
            yield from self.walk(*one, within)

    def describe(self, place: int, within: Allocation | None) -> Allocation:
        """Describe what a quantity sums; ``within`` describes the quantity around it."""
        quantity, entries = self.find_quantity(place), self.nodes[self.nodes[place][1][1]][1][0][1]
        assert quantity is not None
        role = within.role if within and within.role else quantity.attribution
        entry = entries[0] if entries and entries[0].axis != "stage" else None
        if within is not None and quantity.unit != "bytes":  # parameters, of what has bytes
            quantity = self.book.quantities[within.quantity]
        title = quantity.title
        if entry is not None and entry.axis in FINEST:
            kind = {"component": f", {title if role == 'buffers' else role}"}.get(entry.axis, "")
            title = f"{entry.title or entry.name}{kind}"
        part = entry.around.get("part") if entry else None
        path, layer = entry.path if entry else "", part.name if part else None
        return Allocation(quantity.id, path, title, role, layer)

    def select_operand(
        self, operation: str, arguments: Sequence[int], count: Any, scale: Any
    ) -> tuple[int, Any, Any]:
        """Return the operand that decides an operation, with its count and scale."""
        if operation not in ("mul", "div"):
            wanted = {"max": max, "min": min}.get(operation)
            if wanted is None:
                return pick_operands(operation, arguments, self.values)[-1], count, scale
            numbers = [self.values[one] for one in arguments]
            return arguments[numbers.index(wanted(numbers))], count, scale
        (chosen,) = (one for one in arguments if self.is_divisible(one))
        for one in arguments:
            value = Fraction(self.values[one])
            if one != chosen and operation == "div":
                scale /= value
            elif one != chosen and (self.is_size(one) or value.denominator > 1):
                scale *= value
            elif one != chosen:
                count *= value
        return chosen, count, scale

    def find_quantity(self, place: int) -> Quantity | None:
        """Return the quantity whose value a node is; None of other nodes."""
        operation, arguments = self.nodes[place]
        name = self.nodes[arguments[1]][1][0][0] if operation == "quantity" else None
        return self.book.quantities[name] if name else None

    def is_finest(self, place: int) -> bool:
        """Decide whether a node is a quantity of single tensors."""
        quantity = self.find_quantity(place)
        return (
            quantity is not None
            and quantity.unit in SIZES
            and bool({*quantity.per[-1:]} & {*FINEST})
        )

    def is_size(self, place: int) -> bool:
        """Decide whether a node is a number of bytes."""
        operation, arguments = self.nodes[place]
        if operation == "add":
            return any(map(self.is_size, arguments))
        note = self.book.notation.get(arguments[0]) if operation == "input" else None
        return getattr(note or self.find_quantity(place), "unit", "") == "bytes"

    def is_divisible(self, place: int) -> bool:
        """Decide whether a node is proportional to single tensors below it."""
        if place not in self._divisible:
            operation, arguments = self.nodes[place]
            inner = [] if operation in LEAVES else [*map(self.is_divisible, arguments)]
            if operation in ("mul", "div"):
                found = sum(inner) == 1 and (operation == "mul" or inner[0])
            elif operation == "quantity":
                found = self.is_finest(place) or inner[0]
            else:
                found = operation in ("add", "max", "min", "pick") and any(inner)
            self._divisible[place] = found
        return self._divisible[place]
