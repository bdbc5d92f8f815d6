"""Plans evaluated one after another, in less time than each alone.

What a plan shares with the nearest of the last ones is lowered once, and values whose inputs are
equal are computed once; every value is as if it were evaluated alone. Evaluations then share a
graph, so this is limited to one thread: a command, a search, a server's process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from planner.base.files import set_variable
from planner.engine.evaluate import Case, Evaluation

#: Evaluations that are kept, and nodes of a graph beyond which the next plan begins another.
MOST, LARGEST = 4, 60_000
_KEPT: ContextVar[list[Evaluation] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_graphs() -> Iterator[None]:
    """Evaluate each plan, in this context, on the graph of the nearest of the last ones."""
    with set_variable(_KEPT, [] if (kept := _KEPT.get()) is None else kept):
        yield


def evaluate_case(case: Case, exact: bool = True, like: Evaluation | None = None) -> Evaluation:
    """Make the evaluation of a case.

    Args:
        case: what is evaluated.
        exact: whether numbers are exact, else floats.
        like: whose graph it extends; by default, of the last ones, the nearest that is kept.
    """
    kept = _KEPT.get()
    alike = (one for one in kept or () if one.book is case.book and len(one.graph.nodes) < LARGEST)
    before = like or min(alike, key=lambda one: one.count_changes(case), default=None)
    made = None if before is None else before.rerun(case, exact)
    if made is None or made.sealed:
        made = Evaluation(case, like=before, exact=exact)
    if kept is not None:
        kept[:] = [made, *kept[: MOST - 1]]
    return made
