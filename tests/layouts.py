"""Layouts of a search, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from planner.plans.document import Plan
from planner.questions.constraints import Limit
from planner.questions.search.engine import MOST, STEP, Layout, search
from planner.questions.search.layouts import SpaceRows


def yield_layouts(rows: SpaceRows) -> Iterator[dict[str, Any]]:
    """Yield the changes of every layout, row after row."""
    for row, *choice in np.argwhere(np.moveaxis(rows.valid, 2, 0)):
        yield rows.build_changes(int(np.ravel_multi_index((*choice, row), rows.shape)))


def find_best(
    plan: Plan,
    by: str = STEP,
    limits: Sequence[Limit] = (),
    fixed: Mapping[str, Any] | None = None,
) -> Layout | None:
    """Find the simplest of the best layouts of a plan that fit as predicted and satisfy some
    limits; None if none does. A large space is narrowed."""
    return search(plan, 1, by, fixed, limits=limits, most=MOST, margin="0").plain
