"""The formulas of a case as a graph that ``program.py`` runs over arrays.

Numbers that a plan's document gives are inputs, so that one graph serves all plans of the same
structure; settings and entries that differ between plans are conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.engine.arrays.graph import ArrayGraph
from planner.engine.graph import Graph
from planner.engine.lower import Case, Entry, Lowering


@dataclass(frozen=True, eq=False)
class Compiled:
    """A graph, and where quantities are in it; a quantity that no plan has is left out."""

    graph: Graph
    roots: Mapping[str, int]
    absent: Mapping[str, str] = field(default_factory=dict)  # quantity -> reason


def compiled(
    case: Case, quantities: Sequence[str], conditional: Mapping[Entry, int] | None = None
) -> Compiled:
    """The graph of some quantities of a case.

    Args:
        case: settings may be ``Varying``; numbers of the document and crossed symbols are inputs.
        quantities: ids that hold for the whole plan.
        conditional: entries that are there in some of the plans only, each with a key; it is the
            key of the node ``present`` that says in which.
    """
    lowering = Lowering(case, graph=ArrayGraph(), conditional=conditional)
    found = {name: lowering.instance(name, {}) for name in quantities}
    lacking = lowering.graph.lacking
    return Compiled(
        lowering.graph,
        {name: node for name, node in found.items() if node not in lacking},
        {name: lacking[node] for name, node in found.items() if node in lacking},
    )
