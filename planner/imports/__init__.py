"""Model documents from the configurations of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.imports.hf import convert

__all__ = ["import_config"]


def import_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A model document from a Hugging Face configuration, defaults left out.

    Raises:
        PlanError: what is missing, malformed, contradictory or not modelled.
    """
    return convert(config).document
