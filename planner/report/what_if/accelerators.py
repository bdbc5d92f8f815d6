"""The accelerators that a what-if page offers: every preset, as a plan holds it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.base import resources
from planner.documents import schema, source
from planner.plans.document import Plan

__all__ = ["KEY", "name_of", "presets"]

KEY = "cluster.accelerator"


@cache
def presets() -> Mapping[str, Mapping[str, Any]]:
    """The documents by the name that ``--set cluster.accelerator=NAME`` takes."""
    folder = resources.folder("presets") / "accelerators"
    return {
        name: schema.validate(
            source.load(folder / f"{name}.yaml", kind="accelerator"), "accelerator"
        ).data
        for name in source.preset_names("accelerator")
    }


def name_of(plan: Plan) -> str | None:
    """The preset that a plan's accelerator is; None where it changes one or spells its own."""
    if any(key.startswith(f"{KEY}.") for key, _ in plan.document.overrides):
        return None
    given = plan.document.data["cluster"]["accelerator"]
    return next((name for name, data in presets().items() if data == given), None)
