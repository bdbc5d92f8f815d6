"""The words that every format shares: verdict, key figures, warnings. No formulas, no templates."""

from __future__ import annotations

from typing import Any

from planner.plans.document import Plan
from planner.plans.hardware import FORMATS, PEAKS
from planner.report.layout import BETWEEN, STATUS, STEP
from planner.report.numbers import Data, clean, shown
from planner.results import intervals
from planner.results.result import Quantity, Result


def brief(quantity: Quantity, estimate: bool | None = None) -> str:
    """The rounded value with its unit, marked where it is not exact; by ``estimate`` where it was
    evaluated without what it rests on."""
    text = shown(quantity.value, quantity.unit, quantity.declared.share)
    marked = not quantity.exact if estimate is None else estimate
    return f"~{text}" if marked and not isinstance(quantity.value, str) else text


def with_interval(quantity: Quantity) -> str:
    """The rounded value, and in parentheses what published runs leave open of it."""
    (interval, unit), text = between(quantity), brief(quantity, False)
    if unit and not text.endswith(f" {unit}"):
        interval = f"{interval} {unit}"
    return f"{text} ({interval})" if interval else text


def between(quantity: Quantity) -> tuple[str, str]:
    """The interval of a prediction to three digits, and its unit; empty where there is none."""
    if quantity.interval is None:
        return "", ""
    share = quantity.declared.share
    low, high = (shown(bound, quantity.unit, share) for bound in quantity.interval)
    number, _, unit = high.partition(" ")
    if not low.endswith(f" {unit}"):
        return f"{low} to {high}", ""
    return f"{low.removesuffix(f' {unit}')} to {number}", unit


def verdict(result: Result) -> Data:
    """Whether it fits, by how much, how long it takes and what it costs: its ``status`` (ok, tight,
    bad, unknown), a ``word`` and a ``sentence``."""
    state = result.verdict["state"]
    parts = _memory(result, state)
    told, expected = [], []
    for identifier in ("time.training_days", "cost.total"):
        quantity = result.get(identifier)
        if quantity is not None:
            told.append(with_interval(quantity))
            if quantity.predicted is not None:
                expected.append(with_interval(quantity.predicted))
    if told and result.plan.get("time.mfu") is not None:
        share = shown(result["time.mfu"].value, "1", True)
        told[0] = f"at an assumed utilisation of {share} {told[0]}"
        if expected:
            expected[0] = f"predicted are {expected[0]}"
    (status, word), sentence = STATUS[state], clean("; ".join([*parts, *told, *expected]))
    return Data(status=status, word=word, sentence=sentence)


def _memory(result: Result, state: str) -> list[str]:
    """What is free of a device, now and at worst, or what is missing."""
    headroom, capacity = result.get("memory.headroom"), result.get("memory.capacity")
    if headroom is None or capacity is None:
        return [f"what decides is not stated: {result.verdict['reason']}"]
    where = result.get("memory.stage")
    several = where is not None and len(result.entries("stage")) > 1
    stage = f" ({clean(where.value)})" if several and where is not None else ""
    amount, whole = shown(abs(headroom.number), headroom.unit), brief(capacity)
    if state == "no":
        needed = with_interval(result["memory.process"])
        return [f"{needed} needed, {amount} more than the {whole} of a device{stage}"]
    if state == "open":
        return [f"{amount} of {whole} free beside the states; {result.verdict['reason']}"]
    worst = shown(abs(result["memory.headroom_p95"].number), headroom.unit)
    short = "" if state == "fits" else " too little"
    return [f"{amount} of {whole} free on the fullest device{stage}, {worst}{short} at worst"]


def left_open(result: Result, base: str = "") -> str:
    """What the range beside a prediction is: of one quantity, or of time and memory together."""
    settings = (result.predicted or result).evaluation.case.settings
    found = intervals.basis(base or STEP, settings)
    if found is None or not found.own:
        return BETWEEN
    others = "" if base else ", of memory by published ones"
    return f"what is left open by {found.own}{others}, 5th to 95th percentile"


def warnings(result: Result) -> list[tuple[str, str]]:
    """What a reader has to know before the numbers, with the quantity that each is about: a
    precision that the accelerator has no peak of, and an assumed utilisation outside of what
    published runs of the kind leave open."""
    mfu = result.get("time.mfu")
    free = mfu.predicted if mfu is not None else None
    if mfu is None:
        words = without_peak(result.plan)
        return [(STEP, words)] if words else []
    if free is None or free.interval is None:
        return []
    said = shown(mfu.value, "1", True)
    words = unborne(mfu.number, free.interval, said, with_interval(free))
    return [("time.mfu", words)] if words else []


def without_peak(plan: Plan) -> str:
    """The warning about a precision of which the accelerator states no peak, so that no time is
    predicted; empty where it states one, or none at all."""
    peaks = plan.get("cluster.accelerator.peaks")
    if not peaks or plan.get("cluster.accelerator.peak") is not None:
        return ""
    others = [p for p, matmuls in FORMATS.items() if {*PEAKS.get(p, (matmuls,))} & peaks.keys()]
    known = f"; of {', '.join(others)} it does (training.precision)" if others else ""
    wanted, accelerator = plan.get("training.precision"), plan.get("cluster.accelerator.name")
    return f"{accelerator} states no peak of {wanted}, so no time is predicted{known}"


def unborne(assumed: Any, interval: tuple[Any, Any], said: str, predicted: str) -> str:
    """The warning about an assumed utilisation; empty where published runs bear it out.

    Args:
        assumed, interval: the share of peak, and what published runs leave open of the predicted.
        said, predicted: both as they are printed, the prediction with its interval.
    """
    low, high = interval
    if low <= assumed <= high:
        return ""
    return (
        f"the assumed utilisation of {said} is outside of what measured runs of this kind "
        f"leave open: {predicted} is predicted"
    )
