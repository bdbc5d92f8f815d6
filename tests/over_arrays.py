"""A graph over columns of numbers: how a search and a study run it, without their batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from planner.engine.arrays.program import Program, Values
from planner.engine.arrays.table import Codes, Table
from planner.engine.graph import Content, Graph
from planner.engine.tape import Tape


def over_arrays(
    graph: Graph, roots: Collection[int], columns: Mapping[Content, Any]
) -> dict[int, Any]:
    """The roots, as (rows,), where inputs are columns (rows,), or numbers that all rows share."""
    rows = next((len(c) for c in columns.values() if isinstance(c, np.ndarray)), 1)
    table = Table(rows, {"row": Codes(np.arange(rows), rows)})

    def leaf(content: Content) -> Any:
        found = columns.get(content, float("nan"))
        return Values("row", found[None, None, :]) if isinstance(found, np.ndarray) else found

    found = Program(graph, roots, table, leaf).run(slice(None), (1, 1))
    return {root: array.ravel() for root, array in found.items()}


def over_tape(tape: Tape, leaves: Sequence[Any]) -> dict[int, Any]:
    """The results of a tape, as (rows,), some of whose leaves are columns."""
    contents = (tape.graph.nodes[place] for place in tape.inputs)
    columns = dict(zip(contents, leaves, strict=True))
    return over_arrays(tape.graph, list(tape.results.values()), columns)
