"""The words that every format shares: verdict, key figures, warnings. No formulas, no templates."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from planner.plans.layout import described
from planner.questions.sensitivity import sensitivities
from planner.report.layout import BETWEEN, DAYS, KEY_FIGURES, STATUS, STEP
from planner.report.numbers import Data, clean, headline, shown, signed
from planner.results import intervals
from planner.results.remedies import Remedy
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


def layout(result: Result) -> str:
    """How the work is divided, and for a layout that was found, how."""
    plan = result.plan
    said = clean(described(plan.get))
    if plan.searched is None:
        return said
    why = next((why for why in plan.derived.values() if why.endswith("(parallelism: auto)")), "")
    return f"{said}; {why.removesuffix(' (parallelism: auto)')}"


def key_figures(result: Result) -> list[Data]:
    """The six to nine numbers that answer most questions; absent ones are left out. ``kind`` is how
    one is known, of ``quantity.KINDS``; ``interval`` what published runs of its kind leave open of
    a prediction, in ``unit``."""
    figures = []
    for row in KEY_FIGURES:
        quantity = result.get(row.id)
        if quantity is None:
            continue
        text = brief(quantity)
        of = result.get(row.of) if row.of else None
        if of is not None:
            text += f" of {brief(of)}"
        notes = ["assumed"] if quantity.kind == "assumed" else []
        if quantity.predicted is not None:
            notes.append(f"predicted {with_interval(quantity.predicted)}")
        for words, identifier in row.beside if quantity.predicted is None else ():
            other = result.get(identifier)
            if other is not None and other.value != quantity.value:
                notes.append(f"{words} {brief(other)}".strip())
        text = text.removesuffix(f" {row.label.lower()}")  # Parameters: 69.0B
        interval, unit = between(quantity)
        figures.append(
            Data(
                label=row.label,
                text=text,
                note=", ".join(notes),
                id=row.id,
                kind=quantity.kind,
                interval=interval,
                unit=unit,
            )
        )
    return figures


def left_open(result: Result, base: str = "") -> str:
    """What the range beside a prediction is: of one quantity, or of time and memory together."""
    settings = (result.predicted or result).evaluation.case.settings
    found = intervals.basis(base or STEP, settings)
    if found is None or not found.own:
        return BETWEEN
    others = "" if base else ", of memory by published ones"
    return f"what is left open by {found.own}{others}, 5th to 95th percentile"


def warnings(result: Result) -> list[tuple[str, str]]:
    """Assumptions that no published run bears out, with the quantity that each is about: an assumed
    utilisation outside of what published runs of the kind leave open."""
    mfu = result.get("time.mfu")
    free = mfu.predicted if mfu is not None else None
    if mfu is None or free is None or free.interval is None:
        return []
    said = shown(mfu.value, "1", True)
    words = unborne(mfu.number, free.interval, said, with_interval(free))
    return [("time.mfu", words)] if words else []


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


@lru_cache(maxsize=1)
def moved(result: Result) -> list[Data]:
    """What a tenth more of an input does to the days of training, the most first; with a bar from
    the middle of a box to the left or right, in thousandths of its width."""
    found, rows = sensitivities(result, DAYS), []
    widest = max((abs(entry.change) for entry in found), default=1)
    for entry in found:
        width, more = round(abs(entry.change) * 480 / widest), entry.change > 0
        rows.append(
            Data(
                key=entry.key,
                meaning=headline(entry.meaning),
                short=".".join(entry.key.removesuffix(".value").split(".")[-2:]),
                text=signed(entry.change),
                more=more,
                width=width,
                x=500 if more else 500 - width,
            )
        )
    return rows


def advised(result: Result) -> Data | None:
    """What would make a plan safe that does not fit, or only tightly; None where it is, or where
    what decides is not stated. ``said`` is what holds most of its memory, or that nothing helps;
    ``safer`` are the nearest plans that are safe: what changes and what comes of it."""
    advice = result.advice
    if advice is None:
        return None
    if not advice.remedies:
        return Data(said="no one or two changes of the layout make it safe", safer=[])
    most = result[advice.decides]
    said = f"{most.title.split(' on ')[0]} take most: {shown(most.value, most.unit)}"
    return Data(said=said, safer=[(str(remedy), _effect(remedy)) for remedy in advice.remedies])


def _effect(remedy: Remedy) -> str:
    """What is free, and how time changes."""
    free, worst = (shown(size, "bytes") for size in (remedy.headroom, remedy.at_worst))
    text = f"{free} free, {worst} at worst"
    if remedy.slowdown is None:
        return text
    percent = round(100 * (remedy.slowdown - 1))
    speed = f"{abs(percent)} % {'slower' if percent > 0 else 'faster'}"
    return f"{text}, {speed if percent else 'about as fast'}"
