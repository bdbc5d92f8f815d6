"""Which FLOPs a utilisation counts, as entries of the axis ``convention``.

Model FLOPs exclude recomputation, hardware FLOPs include it; attention counts in full, or its
causal half. Keys outside a window, or not selected by an indexer, never count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.base.recent import cache_last
from planner.book.expressions import make_number, to_expression
from planner.book.formulas.compute import (
    attended,
    count_scores,
    executed_per_token,
    per_token,
    reruns,
)
from planner.book.notation import C_conv, m_key
from planner.engine.evaluate import Entry

MODEL, HARDWARE = "model FLOPs (MFU)", "hardware FLOPs, recomputation counted (HFU)"


def list_conventions(settings: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Return the conventions that differ under a plan's settings."""
    if settings["training.mode"] != "train":
        return ()
    shape, recomputed = bool(settings["model.shape"]), settings["training.recompute"] != "none"
    found: tuple[Entry, ...] = _make_conventions(shape, recomputed)
    return found


@cache_last(8)
def _make_conventions(shape: bool, recomputed: bool) -> Iterator[Entry]:
    """Yield the conventions: attention in full and, if the model's shape is known, causal."""
    for name, title, plain, again in (
        ("mfu", MODEL, per_token, make_number(0)),
        ("hfu", HARDWARE, executed_per_token, reruns if recomputed else make_number(0)),
    ):
        for key, words, met in (
            (name, "attention in full", m_key),
            (f"{name}-causal", "causal attention counted (half)", attended),
        ):
            if shape or met is m_key:
                counted = count_scores(met, again) if shape else plain
                bindings = {C_conv: to_expression(counted)}
                yield Entry("convention", key, f"{title}, {words}", bindings=bindings)
