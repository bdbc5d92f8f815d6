"""Which FLOPs a utilisation counts, as entries of the axis ``convention``.

Model FLOPs leave out what is computed again, hardware FLOPs count it; attention counts in full, or
as far as it is causal: half of its scores are masked, forward, backward and where computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

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
    return _entries(
        settings["training.attention_count"] in ("causal", "causal-window"),
        bool(settings["model.shape"]),
        settings["training.recompute"] != "none",
    )


@cache
def _entries(causal: bool, shape: bool, recomputed: bool) -> tuple[Entry, ...]:
    if causal:
        return tuple(
            _entry(name, f"{title}, attention as far as it is causal", counted)
            for name, title, counted in (
                ("mfu-causal", MODEL, per_token),
                ("hfu-causal", HARDWARE, executed_per_token),
            )
        )
    full = (
        _entry("mfu", f"{MODEL}, attention in full", per_token),
        _entry("hfu", f"{HARDWARE}, attention in full", executed_per_token),
    )
    if not shape:
        return full
    executed = executed_per_token - (4 * MASKED / 3 if recomputed else MASKED)
    return (
        full[0],
        _entry("mfu-causal", f"{MODEL}, attention as far as it is causal", per_token - MASKED),
        full[1],
        _entry("hfu-causal", f"{HARDWARE}, attention as far as it is causal", executed),
    )


def _entry(name: str, title: str, counted: Any) -> Entry:
    return Entry("convention", name, title, bindings={C_conv: expression(counted)})
