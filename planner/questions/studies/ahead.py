"""What engines have in common: work on a piece; pieces go out in a window and come back in order.

An engine takes the numbers of pieces and gives the pieces back in that order. It never holds more
than a window of them, so that memory does not grow with the study.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from planner.questions.studies.work import Job, Piece

S = TypeVar("S")
T = TypeVar("T")
Pieces = Generator["Piece", None, None]
Engine = Callable[["Job", range], Pieces]
#: Tasks under way for each worker.
AHEAD = 3
#: How often work is begun anew after the process died that was at it.
MOST_DEATHS = 5


def work(job: Job, number: int) -> Piece:
    """A piece. The scheduler of a cluster loads this module, and has no use for what works on it:
    numpy, sympy and the book of formulas, half a second during which all workers would wait."""
    from planner.questions.studies import work

    return work.work(job, number)


def ready(kind: str | None) -> None:
    """Load what the first piece needs."""
    from planner.questions.studies import work

    work.load(kind)


def ahead(
    submit: Callable[[Sequence[S]], Iterable[T]], tasks: Sequence[S], workers: int
) -> Iterator[T]:
    """What is submitted, in order; so many are under way, and no more are done and waiting. As many
    as there are workers are submitted at once, which costs a scheduler less than one by one."""
    under_way: deque[T] = deque()
    while tasks or under_way:
        room = workers * AHEAD - len(under_way)
        if tasks and room >= workers:
            under_way += submit(tasks[:room])
            tasks = tasks[room:]
        yield under_way.popleft()
