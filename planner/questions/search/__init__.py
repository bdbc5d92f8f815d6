"""All layouts of a plan, and the best of them.

``layouts`` lists the valid ones as columns, ``engine`` runs them as a batch in chunks,
``bounded_search`` finds the one best, ``ranking`` prints what was found.
Everything here imports NumPy, but ``choices``: the names below are imported when they are asked
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.questions.search.engine import Found, Layout, best, scatter, search

__all__ = ["Found", "Layout", "best", "scatter", "search"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from planner.questions.search import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
