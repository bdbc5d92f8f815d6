"""The words that every format shares: verdict, key figures, warnings. No formulas, no templates."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from planner.display import format_value
from planner.evaluate import Absent
from planner.render.layout import KEY_FIGURES, SHARES, STATUS, WARNINGS
from planner.render.numbers import clean, shown
from planner.result import Quantity, Result

__all__ = ["Figure", "Verdict", "brief", "key_figures", "verdict", "warnings"]


class Verdict(NamedTuple):
    """The answer: true, false or unknown as ok, bad, unknown; a word and a sentence."""

    status: str
    word: str
    sentence: str


class Figure(NamedTuple):
    """One key figure. ``estimate`` marks a number that rests on an estimate; ``interval`` is
    what published runs of its kind leave open of a prediction, in ``unit``."""

    label: str
    text: str
    note: str
    id: str
    estimate: bool
    interval: str = ""
    unit: str = ""


def brief(quantity: Quantity, estimate: bool | None = None) -> str:
    """The rounded value with its unit, marked where it is an estimate; by ``estimate`` where it
    was evaluated without what it rests on."""
    text = shown(quantity.value, quantity.unit, quantity.base in SHARES)
    marked = not quantity.exact if estimate is None else estimate
    return f"~{text}" if marked and not isinstance(quantity.value, str) else text


def between(quantity: Quantity) -> tuple[str, str]:
    """The interval of a prediction to three digits, and its unit; empty where there is none."""
    if quantity.interval is None:
        return "", ""
    share = quantity.base in SHARES
    low, high = (
        shown(_three(Fraction(bound)), quantity.unit, share) for bound in quantity.interval
    )
    number, _, unit = high.rpartition(" ")
    if not low.endswith(f" {unit}"):
        return f"{low} to {high}", ""
    return f"{low.removesuffix(f' {unit}')} to {number}", unit


def _three(value: Fraction) -> Fraction:
    """Rounded to three digits: a range does not know the fourth."""
    return Fraction(f"{float(value):.2e}")


def verdict(result: Result) -> Verdict:
    """Whether it fits, by how much, how long it takes and what it costs, in one sentence."""
    fits = result.verdict["fits"]
    status = {True: "ok", False: "bad", None: "unknown"}[fits]
    parts = []
    headroom, capacity = result.get("memory.headroom"), result.get("memory.capacity")
    if headroom is not None and capacity is not None:
        amount = shown(abs(headroom.number), headroom.unit)
        mark = "" if headroom.exact else "~"
        where = result.get("memory.stage")
        stages = result.evaluation.case.axes.get("stage", ())
        several = where is not None and not isinstance(stages, Absent) and len(stages) > 1
        stage = f" ({clean(where.value)})" if several and where is not None else ""
        if fits:
            parts.append(f"{mark}{amount} of {brief(capacity)} free on the fullest device{stage}")
        else:
            parts.append(f"{mark}{amount} more than the {brief(capacity)} of a device{stage}")
    for identifier in ("time.training_days", "cost.total"):
        quantity = result.get(identifier)
        if quantity is not None:
            parts.append(brief(quantity))
    if fits is None and not parts:
        parts.append(f"whether it fits is unknown: {result.verdict['reason']}")
    return Verdict(status, STATUS[fits], clean("; ".join(parts)))


def key_figures(result: Result) -> list[Figure]:
    """The six to nine numbers that answer most questions; absent ones are left out."""
    figures = []
    for row in KEY_FIGURES:
        quantity = result.get(row.id)
        if quantity is None:
            continue
        text = brief(quantity)
        of = result.get(row.of) if row.of else None
        if of is not None:
            text += f" of {brief(of)}"
        notes = []
        if row.given is not None and result.plan.get(row.given) is not None:
            notes.append("assumed by the plan")
        for words, identifier in row.beside:
            other = result.get(identifier)
            if other is not None and other.value != quantity.value:
                notes.append(f"{words} {brief(other)}".strip())
        text = text.removesuffix(f" {row.label.lower()}")  # Parameters: 69.0B
        figures.append(
            Figure(
                row.label, text, ", ".join(notes), row.id, not quantity.exact, *between(quantity)
            )
        )
    return figures


def warnings(result: Result) -> list[tuple[str, str]]:
    """Where it is tight: the first judgement of each pair that holds, with its quantity."""
    found: dict[str, str] = {}
    for rule in WARNINGS:
        part, whole = result.get(rule.part), result.get(rule.whole)
        if part is None or whole is None or rule.part in found:
            continue
        if part.number < whole.number * Fraction(*rule.below):
            found[rule.part] = rule.words
    return [*found.items(), *_open(result), *_advice(result)]


def _open(result: Result) -> list[tuple[str, str]]:
    """Whether published runs leave open what the verdict says."""
    headroom = result.get("memory.headroom")
    bounds = headroom.interval if headroom is not None else None
    if headroom is None or bounds is None:
        return []
    low, high = (Fraction(bound) for bound in bounds)
    if low >= 0 or high < 0:
        return []
    other = "does not fit" if headroom.number >= 0 else "fits"
    return [("memory.headroom", f"published runs leave open that it {other}")]


def _advice(result: Result) -> list[tuple[str, str]]:
    """Of a plan that does not fit: which part holds most, and the cheapest changes that help."""
    advice = result.advice
    if advice is None:
        return []
    most = result[advice.decides]
    found = [(advice.decides, f"most is held by {most.title.split(' on ')[0]}: {brief(most)}")]
    for remedy in advice.remedies:
        free = format_value(Fraction(remedy.headroom), "bytes")
        slower = ""
        if remedy.slowdown is not None:
            percent = round(100 * (remedy.slowdown - 1))
            slower = (
                ", about as fast"
                if percent == 0
                else f", ~{abs(percent)} % " + ("slower" if percent > 0 else "faster")
            )
        found.append(("memory.headroom", f"fits with {remedy}: ~{free} free{slower}"))
    if not advice.remedies:
        found.append(("memory.headroom", "no one or two changes of the layout make it fit"))
    return found
