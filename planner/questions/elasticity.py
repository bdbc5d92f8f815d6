"""How a quantity moves with every input: by derivative where it is smooth, else by one step.

The elasticity is the share by which the quantity changes over the share by which the input does:
1 for what it is proportional to, -1 for what divides it. Measures (a bandwidth, a price, the number
of tokens) have one by derivative; of choices that are whole numbers (layers, devices, a degree of
the layout) the next one that people would try is taken: twice as many, a multiple of 128.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from planner.base.display import as_json, columns, plain
from planner.base.errors import Fault, PlanError
from planner.book.quantity import BOOK, Notation
from planner.documents import schema
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Case, Evaluation, Number
from planner.engine.tape import Tape
from planner.plans.document import Plan
from planner.plans.pipeline import chunk_count
from planner.plans.plan import variant
from planner.questions import domains
from planner.questions.constraints import numeric, shown
from planner.questions.solve.evaluations import AsItIs, Probes

#: Keys that are whole numbers but so large that one more is next to nothing.
LARGE = ("training.tokens",)
#: Sections whose whole numbers are stepped, in this order.
SECTIONS = ("training", "parallelism", "cluster", "model")
#: What nobody chooses: the parts of a device.
FIXED = "cluster.accelerator."
#: Widths are multiples of it, so that products fill their tiles.
TILE = 128
FITS = "memory.headroom_p95"
TENTH = Fraction(1, 10)
#: Roundings to whole numbers below this size are steps, not noise in the last digits.
COARSE = 10_000
#: Elasticities that differ by no more are the same.
SMALL = Fraction(1, 10**6)


@dataclass(frozen=True)
class Elasticity:
    """By the derivative of the formula: 1 % more of the input is so many per cent of the result.
    ``rounded`` where whole numbers stand between the two (tiles, steps, rows of the fullest
    device): there the derivative is not what happens, see ``Measure``."""

    note: Notation
    value: Number  # of the input
    elasticity: Fraction
    rounded: bool = False


@dataclass(frozen=True)
class Measure:
    """A measure that can be set, and what follows where it is.

    ``change`` is the share by which the quantity changes for a tenth more. ``elasticity`` is the
    exact derivative; ``by_difference`` where it is the slope between a tenth less and a tenth more
    instead, because roundings to whole numbers lie between.
    """

    key: str
    meaning: str
    value: Number
    elasticity: Fraction
    change: Fraction
    by_difference: bool = False


@dataclass(frozen=True)
class Step:
    """The next natural value of a choice, and the share by which the quantity changes there."""

    key: str
    before: Number
    after: Number
    change: Fraction
    fits: bool | None  # whether the plan still fits there; None where that is unknown

    @property
    def elasticity(self) -> Fraction:
        return self.change / (Fraction(self.after) / Fraction(self.before) - 1)


def is_measure(key: str) -> bool:
    """Whether a key holds a measure, not a choice of whole numbers."""
    if key in LARGE:
        return True
    try:
        kinds = schema.describe("plan", key).get("type", ())
    except KeyError:
        return True  # follows from the document, as the peak of the training precision does
    return "integer" not in ([kinds] if isinstance(kinds, str) else kinds)


class Slopes:
    """The derivatives of one quantity of a case, of which there may be an evaluation.

    Raises:
        Absent: the quantity has no value.
    """

    def __init__(self, built: Case, target: str, evaluation: Evaluation | None = None) -> None:
        self.target = target
        self.tape = Tape(built, [target], like=evaluation)
        leaves = self.tape.values(built)
        assert leaves is not None
        self.leaves, self._result = leaves, self.tape.results[target]
        self._values = self.tape.again(leaves, exact=True)
        self.value: Number = self._values[self._result]

    @cached_property
    def measures(self) -> list[Elasticity]:
        """The measures that the quantity hangs on, the strongest first."""
        value, found = self.value, list[Elasticity]()
        if not value:
            return found
        kept = self.tape.gradient(self._values, self._result, rounds=COARSE)
        for number, slope in self.tape.gradient(self._values, self._result).items():
            leaf, size = self.tape.leaves[number], self.leaves[number]
            note = BOOK.notation.get(leaf.symbol)
            if note is None or note.key is None or leaf.places or not is_measure(note.key):
                continue
            elasticity = Fraction(slope) * Fraction(size) / Fraction(value)
            without = Fraction(kept.get(number, 0)) * Fraction(size) / Fraction(value)
            rounded = abs(without - elasticity) > SMALL
            if elasticity and not note.meaning.startswith("whether"):
                found.append(Elasticity(note, size, elasticity, rounded))
        return sorted(found, key=lambda entry: (-abs(entry.elasticity), entry.note.rank))

    def of(self, built: Case) -> Fraction:
        """By which share the quantity differs in another case.

        Raises:
            Absent: it has no value there.
        """
        leaves = self.tape.values(built)
        if leaves is None:  # by other formulas
            after = Evaluation(built).value(self.target)
        else:
            after = self.tape.again(leaves, exact=True)[self._result]
            if isinstance(after, float) and math.isnan(after):
                raise Absent(f"{self.target} has no value")
        return Fraction(after) / Fraction(self.value) - 1

    def change(self, notes: Sequence[Notation], share: Fraction) -> Fraction | None:
        """By which share the quantity changes where measures are larger by a share of themselves;
        None where it has no value there."""
        symbols = {note.symbol for note in notes}
        moved = [
            value * (1 + share) if leaf.symbol in symbols else value
            for leaf, value in zip(self.tape.leaves, self.leaves, strict=True)
        ]
        try:
            return Fraction(self.tape.run(moved)[self._result]) / Fraction(self.value) - 1
        except (ArithmeticError, ValueError):
            return None


def settable(plan: Plan, key: str) -> str:
    """The key that a document sets where a value follows from it: the peak of a run is that of a
    format, whether its products or its logits run at it."""
    for name in ("peak", "peak_16"):
        if key == f"cluster.accelerator.{name}.value":
            return (
                f"cluster.accelerator.peaks.{plan.get(f'cluster.accelerator.{name}.format')}.value"
            )
    return key


def measures(plan: Plan, slopes: Slopes) -> Iterator[Measure]:
    """The measures that a quantity hangs on by the keys that set them, the strongest derivative
    first; what cannot be set to a tenth more and a tenth less moves on the formulas alone."""
    together: dict[str, list[Elasticity]] = {}
    for entry in slopes.measures:
        together.setdefault(settable(plan, str(entry.note.key)), []).append(entry)
    whole = {
        key: sum((entry.elasticity for entry in found), Fraction(0))
        for key, found in together.items()
    }
    for key in sorted(together, key=lambda key: -abs(whole[key])):
        entries, slope = together[key], whole[key]
        more, less = _changed(plan, slopes, key, entries, TENTH), None
        if more is None:
            continue
        if any(entry.rounded for entry in entries):
            less = _changed(plan, slopes, key, entries, -TENTH)
        if less is not None:
            slope = (more - less) / (2 * TENTH)
        first = entries[0]
        yield Measure(key, first.note.meaning, first.value, slope, more, less is not None)


def _changed(
    plan: Plan, slopes: Slopes, key: str, entries: list[Elasticity], share: Fraction
) -> Fraction | None:
    """By which share a quantity changes in the plan whose key is set to another value."""
    value = entries[0].value
    try:
        other = variant(plan, {key: Fraction(value) * (1 + share)})
        kept = all(other.get(str(e.note.key)) != plan.get(str(e.note.key)) for e in entries)
        after = slopes.of(case.build(other)) if kept else None
    except (PlanError, Absent):
        after = None
    return slopes.change([e.note for e in entries], share) if after is None else after


def by_step(plan: Plan, target: str) -> list[Step]:
    """The choices that a quantity hangs on, one step each, the strongest elasticity first.

    Raises:
        PlanError: the quantity cannot be computed.
    """
    evaluator, found = AsItIs([target, FITS]), []
    try:
        here = evaluator.values((plan,), exact=True)[1][target]
    except PlanError:  # whether a plan fits is unknown without a shape
        evaluator = AsItIs([target])
        here = evaluator.values((plan,), exact=True)[1][target]
    for key in _choices(plan):
        try:
            domain = domains.of_key(plan, key)
            search = Probes(plan, domain, (), [target], evaluator)
            next_one = _index(domain, natural(plan, key))
            probe = search.beyond(next_one, 1) or search.beyond(domain.start - 1, -1)
        except PlanError:
            continue
        if probe is None or not here:
            continue
        probe = search.confirmed(probe)
        change = Fraction(probe.values[target]) / Fraction(here) - 1
        if change:
            fits = bool(probe.values[FITS] >= 0) if FITS in probe.values else None
            found.append(Step(key, plan.get(key), probe.value, change, fits))
    return sorted(found, key=lambda step: -abs(step.elasticity))


def natural(plan: Plan, key: str) -> int:
    """The value that people would try next: a width the next multiple of 128, layers one more for
    each stage, all else twice as much."""
    value = int(plan.get(key))
    if key == "model.layers":
        return value + chunk_count(plan.data["parallelism"])
    if key.startswith("model.") and value > TILE:
        return (value // TILE + 1) * TILE
    return 2 * value


def _index(domain: domains.Domain, value: int) -> int:
    """The first index of a domain from which on its values are no smaller."""
    index = domain.start + 1
    while (domain.last is None or index < domain.last) and domain.value(index) < value:
        index += 1
    return index


def _choices(plan: Plan) -> Iterator[str]:
    """The keys of a plan that hold whole numbers above zero, those that somebody chooses."""

    def walk(node: Any, dotted: str) -> Iterator[str]:
        if isinstance(node, Mapping):
            for key, value in node.items():
                yield from walk(value, f"{dotted}.{key}")
        elif isinstance(node, int) and not isinstance(node, bool) and node > 0:
            yield dotted

    for section in SECTIONS:
        for key in walk(plan.data.get(section), section):
            try:
                if not (is_measure(key) or key in plan.derived or key.startswith(FIXED)):
                    yield key
            except PlanError:
                continue


@dataclass(frozen=True)
class Hangs:
    """What one quantity of a plan hangs on."""

    quantity: str
    value: Number
    measures: tuple[Measure, ...]
    steps: tuple[Step, ...]


def hangs_on(plan: Plan, quantity: str) -> Hangs:
    """How a quantity moves with every measure and every choice of a plan.

    Raises:
        PlanError: an unknown quantity, a name, or one that cannot be computed.
    """
    numeric(quantity)
    try:
        slopes = Slopes(case.build(plan), quantity)
    except Absent as absent:
        raise PlanError(Fault(absent.reason)) from None
    found = tuple(measures(plan, slopes))
    return Hangs(quantity, slopes.value, found, tuple(by_step(plan, quantity)))


def text(found: Hangs, most: int | None = None) -> str:
    """A table for a terminal, of each kind no more than ``most`` rows."""
    unit = BOOK.quantities[found.quantity].unit
    lines = [f"{found.quantity} is {shown(found.value, unit)}"]
    measured, stepped = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for entry in found.measures[:most]:
        mark = " (steps: mean of a tenth less and a tenth more)" if entry.by_difference else ""
        share = f"{_signed(entry.elasticity):>8} %"
        measured.append((share, entry.key, f"{entry.meaning}{mark}"))
    for step in found.steps[:most]:
        way = f"{shown(step.before, '1', 6)} → {shown(step.after, '1', 6)}"
        words = "; does not fit" if step.fits is False else ""
        words = f"(elasticity {_signed(step.elasticity)}{words})"
        stepped.append((f"{_signed(100 * step.change):>8} %", step.key, f"{way}  {words}"))
    if measured:
        lines += ["", "Measures, by exact derivative: 1 % more of each changes it by"]
        lines += columns(measured, indent="  ")
    if stepped:
        lines += ["", "Choices, by one step that people would take: it changes by"]
        lines += columns(stepped, indent="  ")
    if not measured and not stepped:
        lines += ["", "Nothing moves it."]
    return "\n".join(lines) + "\n"


def _signed(value: Fraction) -> str:
    digits = 3 if abs(value) < 10 else 1
    return f"{float(value):+.{digits}f}".replace("-", "−")


def as_data(found: Hangs, most: int | None = None) -> dict[str, Any]:
    """Plain data for JSON, of each kind no more than ``most`` entries."""
    measured = ("key", "value", "elasticity", "change", "by_difference")
    stepped = ("key", "before", "after", "change", "elasticity", "fits")
    data = {
        "quantity": found.quantity,
        "unit": BOOK.quantities[found.quantity].unit,
        "value": found.value,
        "measures": [{k: getattr(e, k) for k in measured} for e in found.measures[:most]],
        "steps": [{k: getattr(e, k) for k in stepped} for e in found.steps[:most]],
    }
    return plain(data)  # type: ignore[no-any-return]


def to_json(found: Hangs, most: int | None = None) -> str:
    """JSON text."""
    return as_json(as_data(found, most))
