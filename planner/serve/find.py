"""What the page looks for at length: searches, inverse questions, charts. Each tells on the way
what runs (``planner.base.progress.tell``), which the page shows, and ends when the page goes away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: What the page may look for, by the last part of its address: of the request's body, what the
#: page shows. Faults are raised.
FUNCTIONS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {}


def call(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the page looks for by name.

    Raises:
        PlanError: faults of the document or of the question.
    """
    return FUNCTIONS[name](body)
