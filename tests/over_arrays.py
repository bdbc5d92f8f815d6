"""A graph over columns of numbers: how a search and a study run it, without their batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from planner.book.expressions import Symbol
from planner.engine.arrays.program import Program, Values
from planner.engine.arrays.table import Codes, Table
from planner.engine.evaluate import Evaluation
from planner.engine.graph import Content, Graph


def over_arrays(
    graph: Graph, roots: Collection[int], columns: Mapping[Content, Any]
) -> dict[int, Any]:
    """The roots, as (rows,), where inputs are columns (rows,), or numbers that all rows share."""
    rows = next((len(c) for c in columns.values() if isinstance(c, np.ndarray)), 1)
    table = Table(rows, {"row": Codes(np.arange(rows), rows)})

    def leaf(content: Content) -> Any:
        found = columns.get(content, float("nan"))
        return Values("row", found[None, None, :]) if isinstance(found, np.ndarray) else found

    found = Program(graph, roots, table, leaf).run_rows(slice(None), (1, 1))
    return {root: array.ravel() for root, array in found.items()}


def over_column(evaluation: Evaluation, name: str, symbol: Symbol, column: Any) -> Any:
    """A quantity, as (rows,), where a symbol of the plan is a column (rows,)."""
    graph, node = evaluation.graph, evaluation.instance(name, {})
    columns = {graph.nodes[place]: evaluation.evaluate_node(place) for place in graph.inputs}
    return over_arrays(graph, [node], {**columns, ("input", (symbol,)): column})[node]
