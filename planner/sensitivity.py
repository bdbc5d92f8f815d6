"""What an answer hangs on: how it moves with each fact, and what the next layouts would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planner import plan as plans
from planner.errors import PlanError
from planner.evaluate import Absent
from planner.quantity import Notation
from planner.result import Quantity, Result, evaluate

__all__ = ["Neighbour", "Sensitivity", "neighbours", "predicted", "sensitivities"]

#: Keys that hold measures rather than choices: a tenth more of them is a plan as well.
SMOOTH = (
    "training.tokens",
    "time.",
    "cluster.price",
    "cluster.reserved_price",
    "cluster.pue",
    "cluster.carbon_intensity",
    "cluster.host_power",
    "cluster.accelerator.",
    "cluster.network.",
)
TENTH = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """By which share of itself a quantity changes where one input is a tenth larger."""

    note: Notation
    change: Fraction


def sensitivities(result: Result, target: str, most: int = 5) -> list[Sensitivity]:
    """The inputs that move `target` most; only those that are measures, not choices."""
    quantity = result.get(target)
    if quantity is None or not quantity.number:
        return []
    case, found = result.evaluation.case, []
    for note in _inputs(quantity):
        value = case.bindings.get(note.symbol)
        if isinstance(value, bool) or not isinstance(value, (int, Fraction)) or not value:
            continue
        changed = result.evaluation.varied(note.symbol, value * (1 + TENTH))
        try:
            after = Fraction(changed.value(target))
        except Absent:
            continue
        if after != quantity.number:
            found.append(Sensitivity(note, after / quantity.number - 1))
    found.sort(key=lambda entry: (-abs(entry.change), entry.note.rank))
    return found[:most]


def _inputs(quantity: Quantity) -> list[Notation]:
    """The smooth inputs that a quantity rests on, however deep."""
    notes: dict[Notation, None] = {}
    seen = {quantity.key}
    stack = [quantity]
    while stack:
        here = stack.pop()
        for note, _, _ in here.symbols:
            if note.key is not None and not note.per and note.key.startswith(SMOOTH):
                notes[note] = None
        for used in here.uses:
            if used.key not in seen:
                seen.add(used.key)
                stack.append(used)
    return sorted(notes, key=lambda note: note.rank)


@dataclass(frozen=True)
class Neighbour:
    """A plan one step away: the keys that differ, and its result; a reason where it is no plan.
    Its time is predicted, whatever utilisation the plan assumes."""

    changes: dict[str, Any]
    result: Result | None
    reason: str | None = None


def _doubled(value: int) -> int:
    return 2 * value


def _halved(value: int) -> int | None:
    return value // 2 if value % 2 == 0 else None


def _up(value: int) -> int | None:
    return value + 1 if value < 3 else None


def _down(value: int) -> int | None:
    return value - 1 if value > 0 else None


#: One step towards less memory, and one towards more of it (and, mostly, less time).
LIGHTER: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("training.micro_batch", _halved),
    ("training.recompute", {"none": "selective", "selective": "full"}.get),
    ("parallelism.tensor", _doubled),
    ("parallelism.pipeline", _doubled),
    ("parallelism.zero", _up),
)
HEAVIER: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("training.micro_batch", _doubled),
    ("training.recompute", {"full": "selective", "selective": "none"}.get),
    ("parallelism.tensor", _halved),
    ("parallelism.pipeline", _halved),
    ("parallelism.zero", _down),
)


def neighbours(result: Result, most: int = 5) -> list[Neighbour]:
    """Plans one step away: lighter ones where this one does not fit, else heavier ones first."""
    fits = result.verdict["fits"]
    steps = LIGHTER if fits is False else (*HEAVIER, *LIGHTER)
    found: list[Neighbour] = []
    for changes in _changes(result, steps):
        if len(found) == most:
            break
        try:
            other = evaluate(plans.variant(result.plan, changes | _unassumed(result)))
        except PlanError as error:
            found.append(Neighbour(changes, None, error.faults[0].message))
            continue
        found.append(Neighbour(changes, other))
    return found


def predicted(result: Result) -> Result | None:
    """The same plan with its time predicted; None where it is, or cannot be."""
    changes = _unassumed(result)
    try:
        return evaluate(plans.variant(result.plan, changes)) if changes else None
    except PlanError:
        return None


def _unassumed(result: Result) -> dict[str, Any]:
    return {"time.mfu": None} if result.plan.get("time.mfu") is not None else {}


def _changes(
    result: Result, steps: tuple[tuple[str, Callable[[Any], Any]], ...]
) -> Iterator[dict[str, Any]]:
    for key, step in steps:
        value = result.plan.get(key)
        after = None if value is None else step(value)
        if after is not None:
            # Sequence parallelism needs tensor parallelism beside it.
            alone = key == "parallelism.tensor" and after == 1
            yield {key: after} | ({"parallelism.sequence": False} if alone else {})
