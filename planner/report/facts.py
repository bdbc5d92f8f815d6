"""Text shared by all formats: values, intervals, warnings. No formulas, no templates."""

from __future__ import annotations

from math import inf
from typing import Any

from planner.base import numbers
from planner.plans.document import Plan
from planner.plans.hardware import FORMATS, PEAKS
from planner.report.layout import BETWEEN, STEP
from planner.results import intervals
from planner.results.allocations import count_alive
from planner.results.allocator import run_allocator
from planner.results.result import Quantity, Result

#: Layers' activations alive at once up to which reports run the allocator: some 0.2 s.
MOST_ALIVE = 500


def format_interval(quantity: Quantity) -> str:
    """The rounded value, and in parentheses what published runs leave open of it."""
    text = quantity.text()
    if quantity.interval is None:
        return text
    return (
        f"{text} ({numbers.between(map(quantity.declared.text, quantity.interval), text, ' to ')})"
    )


def describe_allocator(result: Result, most: float = inf) -> str:
    """Describe two simulated steps of PyTorch's allocator: what it reserves beside the formula's
    value, its largest free block, and the request that fails. Empty if memory is unknown, or if
    more than ``most`` layers' activations are alive at once, as the simulation takes too long."""
    reserved, free = result.get("memory.reserved"), result.get("memory.headroom")
    if reserved is None or free is None or "memory.stage" not in result:
        return ""
    if most < inf and count_alive(result) > most:
        return ""
    allocator, failed = run_allocator(result, float(free.number + reserved.number))
    blocks = (pool.blocks[-1][0] for pool in allocator.pools.values() if pool.blocks)
    sizes = allocator.most_reserved, max(blocks, default=0), failed.bytes if failed else 0
    held, largest, size = (numbers.text(one, "bytes") for one in sizes)
    fails = f"; the request that fails: {failed.title} ({failed.born}), {size}" if failed else ""
    formula = f"{reserved.text()} by the formula"
    return f"simulated allocator: {held} reserved ({formula}); largest free block {largest}{fails}"


def left_open(result: Result, base: str = "") -> str:
    """Describe the basis of intervals: of one quantity, or of time and memory."""
    settings = result.evaluation.case.settings
    found = intervals.find_basis(base or STEP, settings)
    if found is None or not found.own:
        return BETWEEN
    others = "" if base else ", memory from published runs"
    return f"90 % interval from {found.own}{others}"


def list_warnings(result: Result) -> list[tuple[str, str]]:
    """List warnings by quantity: a precision without a peak rate, a kernel that does not exist, an
    assumed utilisation outside the interval of published runs."""
    found = [("memory.activations", warn_no_kernel(result.plan))]
    mfu = result.get("time.mfu")
    free = mfu.alternative if mfu is not None and result.assumes_utilisation else None
    if mfu is None:
        found.append((STEP, warn_no_peak(result.plan)))
    elif free is not None and free.interval is not None:
        said = mfu.text()
        found.append(
            ("time.mfu", warn_assumed(mfu.number, free.interval, said, format_interval(free)))
        )
    return [(base, words) for base, words in found if words]


def warn_no_kernel(plan: Plan) -> str:
    """Warn of FlashAttention under fp32, for which TPUs have a kernel and GPUs none."""
    runs = (plan.get("training.attention"), plan.get("training.precision"))
    if runs != ("flash", "fp32") or plan.get("cluster.accelerator.matrix_unit") is not None:
        return ""
    return "FlashAttention has no fp32 kernel on GPUs (training.attention: efficient has one)"


def warn_no_peak(plan: Plan) -> str:
    """Warn of a precision for which the accelerator has no peak rate, so that no time is predicted;
    empty if it has one, or no rates at all."""
    peaks = plan.get("cluster.accelerator.peaks")
    if not peaks or plan.get("cluster.accelerator.peak") is not None:
        return ""
    others = [p for p, matmuls in FORMATS.items() if {*PEAKS.get(p, (matmuls,))} & peaks.keys()]
    known = f"; of {', '.join(others)} it does (training.precision)" if others else ""
    wanted, accelerator = plan.get("training.precision"), plan.get("cluster.accelerator.name")
    return f"{accelerator} states no peak of {wanted}, so no time is predicted{known}"


def warn_assumed(assumed: Any, interval: tuple[Any, Any], said: str, predicted: str) -> str:
    """Warn of an assumed utilisation; empty if it lies inside the interval.

    Args:
        assumed, interval: the share of peak, and the interval of the predicted share.
        said, predicted: both as printed, the prediction with its interval.

    Returns:
        A sentence without a full stop, or nothing.
    """
    low, high = interval
    if low <= assumed <= high:
        return ""
    return (
        f"the assumed utilisation of {said} is outside the 90 % interval of measured runs of this "
        f"kind: predicted {predicted}"
    )
