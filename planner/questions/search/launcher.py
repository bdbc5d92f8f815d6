"""Decide which layouts a framework can start: those that its exporter can express completely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.connect import exports
from planner.connect.exports.rules import OF_SIZES, Row, follow_rows, walk_rows
from planner.connect.exports.table import Elsewhere, ExportDraft
from planner.documents.source import change_keys
from planner.plans.document import Plan
from planner.plans.layout import KEYS, ROW


class Launcher:
    """What a framework can start of a plan's layouts.

    Args:
        plan: its model and training stay.
        name: of a framework that plans are exported to.

    Raises:
        PlanError: no such framework, or one that has no such models.
    """

    def __init__(self, plan: Plan, name: str) -> None:
        """Collect the rows of the framework's export table that read a key of a layout."""
        exports.check_model(plan, name)
        self.plan, self.name = plan, name
        self.rows: list[Row] = []  # those that read a key of a layout
        for row in exports.load_framework(name).rows:
            draft = ExportDraft(plan, name)
            follow_rows(draft, [row])
            if not draft.heard.isdisjoint(KEYS):
                self.rows.append(row)
        #: Whether the size of degrees matters, not only whether they are above 1.
        self.of_sizes = any(
            row.get("rule") in OF_SIZES or (isinstance(about, Mapping) and "times" in about)
            for row in walk_rows(self.rows)
            for about in row.values()
        )

    def can_start(self, layout: Mapping[str, Any]) -> bool:
        """Decide whether the framework can start a layout, given by dotted keys; keys that it sets
        in the training script or the model count as supported."""
        # Neither completed nor checked.
        changed = replace(self.plan, data=change_keys(self.plan.data, layout))
        draft = ExportDraft(changed, self.name)
        follow_rows(draft, self.rows)
        unsaid = {one.key for one in draft.unsaid if not isinstance(one.why, Elsewhere)}
        unheard = {
            key
            for key in layout.keys() - draft.heard
            if layout[key] not in (None, ROW[key].neutral)
        }
        return (unsaid | unheard).isdisjoint(KEYS)
