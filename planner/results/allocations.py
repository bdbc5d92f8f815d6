"""The tensors of the fullest device in the order of a step: what is allocated when, and freed.

Each value comes from the evaluated formula of ``memory.live``: sums are taken apart, of a maximum
the operand that it selects, down to one tensor of a layer, one component, one buffer. So the list
adds up to ``memory.live`` of each phase exactly, whatever the formulas are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter
from typing import Any, NamedTuple

from planner.base.errors import PlanError
from planner.book import notation
from planner.engine.evaluate import Entry, Evaluation
from planner.engine.graph import LEAVES
from planner.engine.run import pick_operands
from planner.results.result import Result

#: Units and axes of quantities of single tensors.
FINEST = (("bytes", "component"), ("bytes", "tensor"), ("parameters", "component"))


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
    stage = stage or find_fullest(result)
    counts: dict[Allocation, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * len(phases))
    for number, phase in enumerate(phases):
        place = evaluation.instance("memory.live", {"stage": stage, "phase": phase})
        evaluation.evaluate_node(place)
        for tensor, count in Breakdown(evaluation).walk(place, Allocation("", "", "", "", None)):
            counts[tensor][number] += count
    return tuple(
        tensor._replace(copies=ceil(count), bytes=tensor.bytes * count / ceil(count), **lifetime)
        for tensor, by_phase in counts.items()
        for count, lifetime in list_lifetimes(by_phase, [phase.name for phase in phases])
    )


def find_fullest(result: Result) -> Entry:
    """Return the stage with the largest peak.

    Raises:
        PlanError: the memory of the plan cannot be computed.
    """
    value, absent = result.evaluation.value, result["memory.stage"].absent
    if absent is not None:
        raise PlanError(f"allocations cannot be listed: {absent}")
    return max(result.list_entries("stage"), key=lambda one: value("memory.peak", {"stage": one}))


def count_alive(result: Result) -> Fraction:
    """Count the layers times micro-batches whose activations the fullest stage keeps at once."""
    stage, pairs = find_fullest(result), result.evaluation.case.pair_values
    parts = result.list_entries("part")
    return sum((Fraction(pairs[notation.in_flight, stage, part]) for part in parts), Fraction())


def list_lifetimes(
    counts: Sequence[Fraction], phases: Sequence[str]
) -> Iterator[tuple[Fraction, dict[str, str]]]:
    """Yield how many tensors are born and freed in which phases, where so many are in each."""
    for low, high in pairwise(sorted({Fraction(0), *counts})):
        alive = (count >= high for count in counts)
        for here, run in groupby(zip(alive, phases, strict=True), itemgetter(0)):
            names = [phase for _, phase in run]
            if here:
                yield high - low, {"born": names[0], "freed": names[-1]}


class Breakdown:
    """Takes the formula of an evaluated quantity apart into single tensors."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.book, self.values = evaluation.book, evaluation.values
        self.nodes = evaluation.graph.nodes

    def walk(
        self, place: int, within: Allocation, copies: Any = 1, scale: Any = 1
    ) -> Iterator[tuple[Allocation, Fraction]]:
        """Yield the tensors that a node is the sum of, and how many of each.

        Args:
            place: the node.
            within: the innermost quantity around it, without lifetime.
            copies: how often it is taken.
            scale: bytes of one unit of it.
        """
        (operation, arguments), value = self.nodes[place], self.values[place]
        if not copies * scale * value:
            return
        if operation == "quantity":
            within = self.describe(place, within)
        if operation == "quantity" and self.find_unit(place) not in FINEST:
            yield from self.walk(arguments[0], within, copies, scale)
        elif operation == "add" and all(self.values[one] >= 0 for one in arguments):
            for one in arguments:
                yield from self.walk(one, within, copies, scale)
        elif operation != "quantity" and self.is_divisible(place):
            chosen, copies, scale = self.select_operand(operation, arguments, copies, scale)
            yield from self.walk(chosen, within, copies, scale)
        else:
            yield within._replace(bytes=Fraction(scale * value)), Fraction(copies)

    def describe(self, place: int, within: Allocation) -> Allocation:
        """Describe what a quantity sums; ``within`` describes the quantity around it."""
        name, entries = self.nodes[self.nodes[place][1][1]][1][0]
        quantity = self.book.quantities[name]
        role = within.role or quantity.attribution
        entry = entries[0] if entries and entries[0].axis != "stage" else None
        if quantity.unit != "bytes":  # parameters, of what has bytes
            quantity = self.book.quantities[within.quantity]
        title = quantity.title
        if entry is not None and entry.axis in ("component", "tensor"):
            kind = f", {title if role == 'buffers' else role}"
            title = f"{entry.title or entry.name}{kind if entry.axis == 'component' else ''}"
        part = entry.around.get("part") if entry else None
        path, layer = entry.path if entry else "", part.name if part else None
        return Allocation(quantity.id, path, title, role, layer)

    def select_operand(
        self, operation: str, arguments: Sequence[int], copies: Any, scale: Any
    ) -> tuple[int, Any, Any]:
        """Return the operand that decides an operation, with its copies and scale."""
        if operation == "pick":
            return pick_operands(operation, arguments, self.values)[-1], copies, scale
        if operation in ("max", "min"):
            select = max if operation == "max" else min
            return select(arguments, key=self.values.__getitem__), copies, scale
        (chosen,) = (one for one in arguments if self.is_divisible(one))
        for one in arguments:
            value = Fraction(self.values[one])
            if one != chosen and operation == "div":
                scale /= value
            elif one != chosen and (self.find_unit(one)[0] == "bytes" or value.denominator > 1):
                scale *= value
            elif one != chosen:
                copies *= value
        return chosen, copies, scale

    def find_unit(self, place: int) -> tuple[str, str]:
        """Return the unit of an input, a quantity or a sum, and the finest axis of a quantity."""
        operation, arguments = self.nodes[place]
        if operation == "quantity":
            quantity = self.book.quantities[self.nodes[arguments[1]][1][0][0]]
            return quantity.unit, quantity.per[-1] if quantity.per else ""
        if operation == "add":
            return self.find_unit(arguments[0])[0], ""
        note = self.book.notation.get(arguments[0]) if operation == "input" else None
        return note.unit if note else "", ""

    def is_divisible(self, place: int) -> bool:
        """Decide whether a node is proportional to tensors of layers below it."""
        operation, arguments = self.nodes[place]
        if operation == "quantity":
            measured = self.find_unit(place)
            return measured in (*FINEST, ("bytes", "part")) or (
                measured[0] == "bytes" and self.is_divisible(arguments[0])
            )
        inner = [] if operation in LEAVES else [*map(self.is_divisible, arguments)]
        if operation in ("mul", "div"):
            return sum(inner) == 1 and (operation == "mul" or inner[0])
        return operation in ("add", "max", "min", "pick") and any(inner)
