"""Which FLOPs a utilisation counts, as entries of the axis ``convention``.

Model FLOPs leave out what is computed again, hardware FLOPs count it; attention counts in full, or
as far as it is causal: half of its scores are masked, forward, backward and where computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.base.recent import recent
from planner.book.expressions import expression
from planner.book.formulas.compute import executed_per_token, per_token
from planner.book.formulas.time import MASKED
from planner.book.notation import C_conv
from planner.engine.evaluate import Entry

MODEL, HARDWARE = "model FLOPs (MFU)", "hardware FLOPs, recomputation counted (HFU)"


def axis(settings: Mapping[str, Any]) -> tuple[Entry, ...]:
    """The conventions that can be told apart under a plan's settings."""
    if settings["training.mode"] != "train":
        return ()
    found: tuple[Entry, ...] = _entries(
        settings["training.attention_count"] in ("causal", "causal-window"),
        bool(settings["model.shape"]),
        settings["training.recompute"] != "none",
    )
    return found


@recent(8)
def _entries(causal: bool, shape: bool, recomputed: bool) -> Iterator[Entry]:
    """Attention in full and, where a shape says how much it is, as far as it is causal; the latter
    alone where nothing else is counted."""
    again = 4 * MASKED / 3 if recomputed else MASKED
    for name, title, counted, masked in (
        ("mfu", MODEL, per_token, MASKED),
        ("hfu", HARDWARE, executed_per_token, again),
    ):
        least = counted if causal else counted - masked
        for key, words, flops, there in (
            (name, "attention in full", counted, not causal),
            (f"{name}-causal", "attention as far as it is causal", least, causal or shape),
        ):
            if there:
                bindings = {C_conv: expression(flops)}
                yield Entry("convention", key, f"{title}, {words}", bindings=bindings)
