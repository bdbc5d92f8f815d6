"""How a quantity moves with every input: by derivative where it is smooth, else by one step.

The elasticity is the share by which the quantity changes over the share by which the input does:
1 for what it is proportional to, -1 for what divides it. Measures (a bandwidth, a price, the number
of tokens) have one by derivative; of choices that are whole numbers (layers, devices, a degree of
the layout) the next value that makes a valid plan is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from planner import case, domains
from planner.document import Plan
from planner.errors import Fault, PlanError
from planner.evaluate import Absent, Case, Number
from planner.evaluated import plain
from planner.gradient import gradient
from planner.inverse.probes import AsItIs, Probes
from planner.limits import numeric, shown
from planner.plan import about
from planner.quantity import BOOK, Notation
from planner.tape import Tape

#: Keys that are whole numbers but so large that one more is next to nothing.
LARGE = ("training.tokens",)
#: Sections whose whole numbers are stepped, in this order.
SECTIONS = ("training", "parallelism", "cluster", "model")
FITS = "memory.headroom"


@dataclass(frozen=True)
class Elasticity:
    """By the derivative of the formula: 1 % more of the input is so many per cent of the result."""

    note: Notation
    value: Number  # of the input
    elasticity: Fraction


@dataclass(frozen=True)
class Step:
    """The next valid value of a choice, and the share by which the quantity changes there."""

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
        kinds = about(key).get("type", ())
    except PlanError:
        return True  # follows from the document, as the peak of the training precision does
    return "integer" not in ([kinds] if isinstance(kinds, str) else kinds)


class Slopes:
    """The derivatives of one quantity of a case.

    Raises:
        Absent: the quantity has no value.
    """

    def __init__(self, built: Case, target: str) -> None:
        self.tape = Tape(built, [target])
        leaves = self.tape.values(built)
        assert leaves is not None
        self.leaves, self._result = leaves, self.tape.results[target]
        self._values = self.tape.run(leaves)

    @cached_property
    def measures(self) -> list[Elasticity]:
        """The measures that the quantity hangs on, the strongest first."""
        value, found = self._values[self._result], []
        if not value:
            return []
        for number, slope in gradient(self.tape, self._values, self._result).items():
            leaf, size = self.tape.leaves[number], self.leaves[number]
            note = BOOK.notation.get(leaf.symbol)
            if note is None or note.key is None or leaf.places or not is_measure(note.key):
                continue
            elasticity = Fraction(slope) * Fraction(size) / Fraction(value)
            if elasticity and not note.meaning.startswith("whether"):
                found.append(Elasticity(note, size, elasticity))
        return sorted(found, key=lambda entry: (-abs(entry.elasticity), entry.note.rank))

    def change(self, note: Notation, share: Fraction) -> Fraction | None:
        """By which share the quantity changes where a measure is larger by a share of itself; None
        where it has no value there."""
        moved = [
            value * (1 + share) if leaf.symbol == note.symbol else value
            for leaf, value in zip(self.tape.leaves, self.leaves, strict=True)
        ]
        try:
            after = self.tape.run(moved)[self._result]
            return Fraction(after) / Fraction(self._values[self._result]) - 1
        except (ArithmeticError, ValueError):
            return None


def by_step(plan: Plan, target: str) -> list[Step]:
    """The choices that a quantity hangs on, one step each, the strongest elasticity first.

    Raises:
        PlanError: the quantity cannot be computed.
    """
    here = AsItIs([target]).values((plan,), exact=True)[1][target]
    also = [FITS]
    try:
        AsItIs(also).values((plan,), exact=True)
    except PlanError:
        also = []  # unknown without a shape
    evaluator, found = AsItIs([target, *also]), []
    for key in _choices(plan):
        try:
            domain = domains.of_key(plan, key)
            search = Probes(plan, domain, (), [target], evaluator)
            probe = search.beyond(domain.start + 1, 1) or search.beyond(domain.start - 1, -1)
        except PlanError:
            continue
        if probe is None or not here:
            continue
        probe = search.confirmed(probe)
        change = Fraction(probe.values[target]) / Fraction(here) - 1
        if change:
            fits = bool(probe.values[FITS] >= 0) if also else None
            found.append(Step(key, plan.get(key), probe.value, change, fits))
    return sorted(found, key=lambda step: -abs(step.elasticity))


def _choices(plan: Plan) -> Iterator[str]:
    """The keys of a plan that hold whole numbers above zero."""

    def walk(node: Any, dotted: str) -> Iterator[str]:
        if isinstance(node, Mapping):
            for key, value in node.items():
                yield from walk(value, f"{dotted}.{key}")
        elif isinstance(node, int) and not isinstance(node, bool) and node > 0:
            yield dotted

    for section in SECTIONS:
        for key in walk(plan.data.get(section), section):
            try:
                if not is_measure(key):
                    yield key
            except PlanError:
                continue


@dataclass(frozen=True)
class Hangs:
    """What one quantity of a plan hangs on."""

    quantity: str
    value: Number
    measures: tuple[Elasticity, ...]
    steps: tuple[Step, ...]


def hangs_on(plan: Plan, quantity: str) -> Hangs:
    """How a quantity moves with every measure and every choice of a plan.

    Raises:
        PlanError: an unknown quantity, a name, or one that cannot be computed.
    """
    numeric(quantity)
    try:
        measures = Slopes(case.build(plan), quantity).measures
    except Absent as absent:
        raise PlanError(Fault(absent.reason)) from None
    value = AsItIs([quantity]).values((plan,), exact=True)[1][quantity]
    return Hangs(quantity, value, tuple(measures), tuple(by_step(plan, quantity)))


def text(found: Hangs, most: int | None = None) -> str:
    """A table for a terminal, of each kind no more than ``most`` rows."""
    unit = BOOK.declarations[found.quantity][0].unit
    lines = [f"{found.quantity} is {shown(found.value, unit)}"]
    if found.measures:
        lines += ["", "Measures, by exact derivative: 1 % more of each changes it by"]
        width = max(len(entry.note.key or "") for entry in found.measures[:most])
        for entry in found.measures[:most]:
            key = (entry.note.key or "").ljust(width)
            lines.append(f"  {_signed(entry.elasticity):>8} %  {key}  {entry.note.meaning}")
    if found.steps:
        lines += ["", "Choices, by one step: it changes by"]
        width = max(len(step.key) for step in found.steps[:most])
        for step in found.steps[:most]:
            way = f"{shown(step.before, '1', 6)} → {shown(step.after, '1', 6)}"
            words = f"elasticity {_signed(step.elasticity)}"
            words += "; does not fit" if step.fits is False else ""
            lines.append(
                f"  {_signed(100 * step.change):>8} %  {step.key.ljust(width)}  {way}  ({words})"
            )
    if not found.measures and not found.steps:
        lines += ["", "Nothing moves it."]
    return "\n".join(lines) + "\n"


def _signed(value: Fraction) -> str:
    digits = 3 if abs(value) < 10 else 1
    return f"{float(value):+.{digits}f}".replace("-", "−")


def as_data(found: Hangs, most: int | None = None) -> dict[str, Any]:
    """Plain data for JSON, of each kind no more than ``most`` entries."""
    return {
        "quantity": found.quantity,
        "unit": BOOK.declarations[found.quantity][0].unit,
        "value": plain(found.value),
        "measures": [
            {
                "key": entry.note.key,
                "value": plain(entry.value),
                "elasticity": plain(entry.elasticity),
            }
            for entry in found.measures[:most]
        ],
        "steps": [
            {
                "key": step.key,
                "before": plain(step.before),
                "after": plain(step.after),
                "change": plain(step.change),
                "elasticity": plain(step.elasticity),
                "fits": step.fits,
            }
            for step in found.steps[:most]
        ],
    }


def to_json(found: Hangs, most: int | None = None) -> str:
    """JSON text."""
    return json.dumps(as_data(found, most), indent=2) + "\n"
