"""What a step or a device's memory consists of, in terms that a reader can act on: matmuls,
communication, the pipeline bubble; weights, activations.

The time of a step is made of the times below by sums, maxima, roots of powers and factors without a
unit, so it doubles if all of them double. By Euler's theorem on homogeneous functions it is then
the sum of its arguments, each times its derivative: the exposed share of each time. Nothing
remains, so the parts of two layouts differ by as much as their steps. Costs and energies that grow
with time are divided alike. Kernels run beside the launches of the next ones: where launches take
longer, kernels have their own time, and launches what is beyond it.
"""

from __future__ import annotations

from typing import Any

from planner.engine.evaluate import Evaluation, Point
from planner.engine.graph import UNKNOWN
from planner.engine.run import slopes

#: What takes time only where the kernels that it starts take less.
LAUNCHES = "kernel launches"
#: A remainder below this share of a quantity is rounding error.
ROUNDING = 1e-9
#: Rounding error of floats that cancel, as a share.
NOTHING = 1e-13


def break_down(evaluation: Evaluation, quantity: str, point: Point | None = None) -> dict[str, Any]:
    """Break a quantity down into parts, in its own unit and in the order of the book.

    The parts are the ``attribution`` names of quantities, if the quantity grows with these, else
    the ids of its summands. A remainder has the quantity's own id.

    Args:
        evaluation: exact or in floats.
        quantity: its id.
        point: its entries by axis, if it has axes.

    Raises:
        Absent: the quantity has no value.
    """
    point = point or {}
    book, whole = evaluation.book, evaluation.value(quantity, point)
    parts = {i: q.attribution for i, q in book.quantities.items() if q.attribution}
    ends = {node: parts[i] for (i, _), node in evaluation.nodes.items() if i in parts}
    result, values = evaluation.instance(quantity, point), evaluation.values
    found: dict[str, Any] = dict.fromkeys(parts.values(), 0)
    launches = {node: 0 for node, part in ends.items() if part == LAUNCHES and values[node]}
    beneath = values
    if launches:  # as if they took none
        between = [0 if node in ends else UNKNOWN for node in range(len(values))]
        needed = evaluation.graph.list_needed([result], between)
        beneath = evaluation.recompute_nodes(needed, launches)
        found[LAUNCHES] = whole - beneath[result]
    for node, slope in sorted(slopes(evaluation.graph.nodes, beneath, result, ends=ends).items()):
        if node in ends:
            found[ends[node]] += slope * beneath[node]
    found = {part: value for part, value in found.items() if abs(value) > NOTHING * abs(whole)}
    named = sum(found.values())
    if not 0 < named <= whole * (1 + ROUNDING):
        found = _find_summands(evaluation, quantity, point)
        named = sum(found.values())
    rest = whole - named
    return found if abs(rest) <= ROUNDING * abs(whole) else {**found, quantity: rest}


def _find_summands(evaluation: Evaluation, quantity: str, point: Point) -> dict[str, Any]:
    """Return the summands of a quantity that equal, or are a multiple of, one of the same unit."""
    book, held = evaluation.book, evaluation.trace_quantity(quantity, point).chosen
    unit, whole = book.quantities[quantity].unit, held.expression if held is not None else None
    terms = () if whole is None else whole.args if whole.op == "add" else (whole,)
    found: dict[str, Any] = {}
    for term in terms:
        ids = [book.symbols.get(f, "") for f in (term.args if term.op == "mul" else (term,))]
        alike = [i for i in ids if i and book.quantities[i].unit == unit]
        if len(alike) == 1:
            found[alike[0]] = evaluation.compute(term, point)
    return found
