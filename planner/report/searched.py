"""A search as a page and in the other formats that its ending picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from planner.base.errors import Fault, Place, PlanError, nearest
from planner.questions.search import ranking
from planner.questions.search.engine import Found


def html(found: Found, front: bool = False) -> str:
    """The page as one HTML file without scripts or requests; it has best and front."""
    from planner.report.report import page
    from planner.report.space import view

    return page("search.html.jinja", view=view(found))


def markdown(found: Found, front: bool = False) -> str:
    """The page as GitHub Markdown; it has best and front."""
    from planner.report.report import words
    from planner.report.space import view

    return words("search.md.jinja", view=view(found))


WRITERS: Mapping[str, Callable[[Found, bool], str]] = {
    **ranking.WRITERS,
    "md": markdown,
    "html": html,
}
#: Formats that draw the space.
DRAWN = frozenset({"html"})


def kind_of(path: str) -> str:
    """The format that the ending of a file picks.

    Raises:
        PlanError: an ending that says no format.
    """
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in WRITERS:
        allowed = "one of " + ", ".join(f".{kind}" for kind in WRITERS)
        raise PlanError(
            Fault("unknown ending of an output", Place(path), allowed, nearest(kind, WRITERS))
        )
    return kind
