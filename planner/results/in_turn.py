"""Plans evaluated one after another, in less time than each alone.

What a plan shares with the nearest of the last ones is lowered once, and values whose inputs are
equal are computed once; every value is as if it were evaluated alone. Results then share a graph,
so this is optional, for a server's process, and limited to one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from planner.engine.lower import Case, Lowering

#: Results that are kept (of the module that asks here, so of no type), and nodes of a graph beyond
#: which the next plan begins another.
MOST, LARGEST = 4, 30_000
_KEPT: ContextVar[list[Any] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_graphs() -> Iterator[None]:
    """Evaluate each plan, in this context, on the graph of the nearest of the last ones."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def pick_nearest(case: Case) -> Any:
    """Return the last result whose case differs least from another, or None."""
    alike = (
        one
        for one in _KEPT.get() or ()
        if one.evaluation.book is case.book and len(one.evaluation.graph.nodes) < LARGEST
    )
    return min(alike, key=lambda one: Lowering.count_changes(one.evaluation, case), default=None)


def keep_result(result: Any) -> None:
    """Record a result, for a later plan may share its graph."""
    kept = _KEPT.get()
    if kept is not None:
        kept[:] = [result, *kept[: MOST - 1]]
