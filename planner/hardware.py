"""What the hardware is worth for one training run: the figures that follow from its choices.

A datasheet lists a peak for each number format; a run uses one of them. Which one follows from
the training precision here, so that formulas see one peak and its convention.
"""

from __future__ import annotations

from typing import Any

from planner.document import Draft

#: Number format of the matmuls under each precision recipe.
FORMATS = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "bf16-pure": "bf16"}


def complete(draft: Draft) -> None:
    """Fill ``cluster.accelerator.peak`` (the peak of the run's precision, as the datasheet prints
    it) and ``cluster.network`` (that of the accelerator's usual systems, unless one is given)."""
    accelerator = draft.get("cluster", "accelerator")
    wanted = FORMATS[draft.get("training", "precision")]
    peak = accelerator["peaks"].get(wanted)
    if peak is not None:
        draft.default(
            ("cluster", "accelerator", "peak"),
            {"format": wanted, **peak},
            f"peaks.{wanted}, the format of the matmuls",
        )
    network = accelerator.get("network")
    if network is not None:
        draft.default(
            ("cluster", "network"), dict(network), "that of the accelerator's usual systems"
        )


def settings(draft: Draft) -> dict[str, Any]:
    """Settings that decide between formulas of time and energy."""
    cluster = draft.get("cluster")
    return {
        "time.assumed": draft.get("time", "mfu") is not None,
        "energy.hosts_given": cluster.get("host_power") is not None,
        "energy.pue_given": cluster.get("pue") is not None,
    }
