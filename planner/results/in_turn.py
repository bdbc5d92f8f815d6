"""Plans evaluated one after another, in less time than each by itself.

What a plan has in common with the nearest of the last ones is lowered once, and what rests on
nothing that differs is worked out once; every value is what it would be by itself. Results then
share a graph, so this is asked for, by a server's process, and holds within one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from planner.engine.lower import Case

#: Results that are kept (of the module that asks here, so of no type), and nodes of a graph beyond
#: which the next plan begins another.
MOST, LARGEST = 4, 30_000
_KEPT: ContextVar[list[Any] | None] = ContextVar("kept", default=None)


@contextmanager
def in_turn() -> Iterator[None]:
    """Until the end, each plan is evaluated like the nearest of the last ones."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def nearest(case: Case) -> Any:
    """Of the last results the one whose case differs least from another."""
    alike = (
        one
        for one in _KEPT.get() or ()
        if one.evaluation.book is case.book and len(one.evaluation.graph.nodes) < LARGEST
    )
    return min(alike, key=lambda one: one.evaluation.differs(case), default=None)


def keep(result: Any) -> None:
    """Another plan may be like this one."""
    kept = _KEPT.get()
    if kept is not None:
        kept[:] = [result, *kept[: MOST - 1]]
