"""Sensitivity of a quantity: by derivative where it is smooth, else by one step.

The elasticity is the relative change of the quantity over the relative change of the input: 1 for
what it is proportional to, -1 for what divides it. Measures (a bandwidth, a price, the number of
tokens) have one by derivative; choices that are whole numbers (layers, devices, a degree of the
layout) take the next value that people would try: twice as many, a multiple of 128.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from planner.base import numbers
from planner.base.display import as_json, columns
from planner.base.errors import PlanError
from planner.base.notebook import Shown
from planner.book.quantity import Notation
from planner.documents import schema
from planner.engine import instance
from planner.engine.evaluate import Absent, Evaluation, Number
from planner.engine.run import slopes
from planner.plans.document import Plan
from planner.plans.pipeline import count_chunks
from planner.plans.plan import variant
from planner.questions import domains
from planner.questions.constraints import numeric
from planner.questions.solve.evaluations import AsItIs, Probes
from planner.results.moves import evaluate_near, list_moves
from planner.results.result import Result
from planner.results.verdict import FITS, UNFIT

#: Whole numbers so large that they are treated as measures.
LARGE = ("training.tokens",)
#: Sections whose whole numbers are changed by steps.
SECTIONS = ("training.", "parallelism.", "cluster.", "model.")
#: Keys that nobody chooses: properties of a device.
FIXED = "cluster.accelerator."
#: Widths are multiples of it, so that matmuls fill their tiles.
TILE = 128
TENTH = Fraction(1, 10)
#: Roundings to whole numbers below this size are steps, not noise in the last digits.
COARSE = 10_000
#: Elasticities that differ by no more are equal.
SMALL = Fraction(1, 10**6)


class Elasticity(NamedTuple):
    """The derivative of a quantity with respect to one input of its formulas.

    Rounding to whole numbers (tiles, steps, rows of the fullest device) may lie between the two;
    then the derivative is not the actual change, see ``Measure``.

    Attributes:
        note: the symbol of the input.
        value: of the input, in its unit.
        elasticity: 1 % more of the input changes the quantity by so many per cent.
        rounded: whether such a rounding lies between the two.
    """

    note: Notation
    value: Number
    elasticity: Fraction
    rounded: bool = False


class Measure(NamedTuple):
    """A measure that can be set, and its effect.

    Attributes:
        key: the dotted key that sets it.
        value: its value in the plan.
        elasticity: the derivative; with ``by_difference``, the slope between a tenth less and a
            tenth more instead, because of rounding to whole numbers.
        change: relative change of the quantity for a tenth more.
        by_difference: whether the elasticity is a slope.
        meaning: what the measure is, for people.
    """

    key: str
    value: Number
    elasticity: Fraction
    change: Fraction
    by_difference: bool
    meaning: str


class ChoiceStep(NamedTuple):
    """The next natural value of a choice, and its effect.

    Attributes:
        key: the dotted key.
        before: the plan's own value.
        after: the next valid value.
        change: relative change of the quantity.
        elasticity: that change over the relative change of the value.
        fits: whether the plan still fits at ``after``; None where that is unknown.
    """

    key: str
    before: Number
    after: Number
    change: Fraction
    elasticity: Fraction
    fits: bool | None


def is_measure(key: str) -> bool:
    """Decide whether a key holds a measure, not a choice of whole numbers."""
    said = schema.describe("plan", key)
    if key in LARGE or said is None:  # follows, as the peak of the training precision does
        return True
    return "integer" not in said.get("type", ())


def list_elasticities(evaluation: Evaluation, target: str) -> list[Elasticity]:
    """Compute the elasticity of an evaluated plan's quantity for each measure, strongest first.

    Raises:
        PlanError: the quantity has no value.
    """
    value, found = evaluation.get_values([target])[target], list[Elasticity]()
    if not value:
        return found
    nodes, values = evaluation.graph.nodes, evaluation.values
    place = evaluation.instance(target, {})
    kept = slopes(nodes, values, place, rounds=COARSE)
    for leaf, slope in slopes(nodes, values, place).items():
        (symbol, *scope), size = nodes[leaf][1], values[leaf]
        note = evaluation.book.notation.get(symbol)
        if note is None or note.key is None or scope or not is_measure(note.key):
            continue
        scale = Fraction(size) / Fraction(value)
        elasticity = Fraction(slope) * scale
        rounded = abs(Fraction(kept.get(leaf, 0)) * scale - elasticity) > SMALL
        if elasticity and not note.meaning.startswith("whether"):
            found.append(Elasticity(note, size, elasticity, rounded))
    return sorted(found, key=lambda entry: (-abs(entry.elasticity), entry.note.rank))


def find_settable(plan: Plan, key: str) -> str:
    """Return the key to set in order to change a derived value: a run's peak is that of a
    format."""
    for name in ("peak", "peak_16"):
        if key == f"cluster.accelerator.{name}.value":
            format_ = plan.get(f"cluster.accelerator.{name}.format")
            return f"cluster.accelerator.peaks.{format_}.value"
    return key


def yield_measures(plan: Plan, evaluation: Evaluation, target: str) -> Iterator[Measure]:
    """Yield the measures that a quantity depends on, by the keys that set them.

    Args:
        plan: the plan whose keys are changed.
        evaluation: the evaluation of that plan.
        target: id of the quantity.

    Yields:
        Measures, strongest derivative first. If a key cannot be set a tenth higher or lower, only
            the formulas' inputs vary.
    """
    together: dict[str, list[Elasticity]] = {}
    for entry in list_elasticities(evaluation, target):
        together.setdefault(find_settable(plan, str(entry.note.key)), []).append(entry)
    whole = {
        key: sum((entry.elasticity for entry in found), Fraction(0))
        for key, found in together.items()
    }

    def change(key: str, share: Fraction) -> Fraction | None:
        """Return the relative change of the quantity if ``key`` is set higher by a share. If it
        cannot be set, or some measure does not follow, scale those measures alone. None if the
        quantity has no value there."""
        here = Fraction(evaluation.value(target))
        named = [str(entry.note.key) for entry in together[key]]
        with suppress(PlanError, Absent):
            other = variant(plan, {key: Fraction(together[key][0].value) * (1 + share)})
            if all(other.get(name) != plan.get(name) for name in named):
                there = evaluate_near(evaluation, other, (target,))
                return Fraction(there.value(target)) / here - 1
        with suppress(Absent):
            there = evaluation
            for entry in together[key]:
                there = there.change_input(entry.note.symbol, Fraction(entry.value) * (1 + share))
            return Fraction(there.value(target)) / here - 1
        return None

    for key in sorted(together, key=lambda key: -abs(whole[key])):
        slope, first, less = whole[key], together[key][0], None
        more = change(key, TENTH)
        if more is None:
            continue
        # Of reinforcement learning the engine's plan is evaluated apart from these formulas.
        if plan.reinforced or any(entry.rounded for entry in together[key]):
            less = change(key, -TENTH)
        if less is not None:
            slope = (more - less) / (2 * TENTH)
        yield Measure(key, first.value, slope, more, less is not None, first.note.meaning)


def step_choices(plan: Plan, target: str) -> list[ChoiceStep]:
    """Change each choice that a quantity depends on by one step; the strongest elasticity first.

    Raises:
        PlanError: the quantity cannot be computed.
    """
    evaluator, found = AsItIs([target, FITS]), []
    try:
        here = evaluator.evaluate_best((plan,), exact=True)[1][target]
    except PlanError:  # whether a plan fits is unknown without a shape
        evaluator = AsItIs([target])
        here = evaluator.evaluate_best((plan,), exact=True)[1][target]
    for key, own in plan.settings.items() if here else ():
        # Choices: whole numbers above zero.
        whole = isinstance(own, int) and not isinstance(own, bool) and own > 0
        chosen = key.startswith(SECTIONS) and not key.startswith(FIXED) and key not in plan.derived
        if not (whole and chosen) or is_measure(key):
            continue
        try:
            domain = domains.build_domain(plan, key)
            search = Probes(plan, domain, (), [target], evaluator)
            value, first = find_next_value(plan, key), domain.start + 1
            last = first + value if domain.last is None else domain.last
            reached = bisect_left(range(first, last), True, key=lambda i: domain.value(i) >= value)
            probe = search.beyond(first + reached, 1) or search.beyond(domain.start - 1, -1)
        except PlanError:
            continue
        if probe is None:
            continue
        probe = search.evaluate_exact(probe)
        change = Fraction(probe.values[target]) / Fraction(here) - 1
        if change:
            fits = bool(probe.values[FITS] >= 0) if FITS in probe.values else None
            each = change / (Fraction(probe.value) / own - 1)
            found.append(ChoiceStep(key, own, probe.value, change, each, fits))
    return sorted(found, key=lambda step: -abs(step.elasticity))


def find_next_value(plan: Plan, key: str) -> int:
    """Return the value to try next: the next multiple of 128 for a width, one more layer for each
    stage, twice as much for all else."""
    value = int(plan.get(key))
    if key == "model.layers":
        return value + count_chunks(plan.data["parallelism"])
    if key.startswith("model.") and value > TILE:
        return (value // TILE + 1) * TILE
    return 2 * value


@dataclass(frozen=True, repr=False)
class Sensitivity(Shown):
    """Sensitivity of one quantity of a plan to its measures and its choices.

    Attributes:
        quantity: id of the quantity.
        value: its value in the plan.
        measures: effects of measures, strongest derivative first.
        steps: effects of choices, strongest elasticity first.
        unit: the unit of the value.
        said: the value, for people.
    """

    quantity: str
    value: Number
    measures: tuple[Measure, ...]
    steps: tuple[ChoiceStep, ...]
    unit: str = "1"
    said: str = ""

    def __repr__(self) -> str:
        return f"<Sensitivity of {self.quantity}>"


def find_sensitivity(plan: Plan, quantity: str) -> Sensitivity:
    """Compute the sensitivity of a quantity to every measure and every choice of a plan.

    Raises:
        PlanError: an unknown quantity, a name, or one that cannot be computed.
    """
    numeric(quantity, plan.book)
    evaluation = Evaluation(instance.build(plan))
    value = evaluation.get_values([quantity])[quantity]
    measures = yield_measures(plan, evaluation, quantity)
    found = tuple(sorted(measures, key=lambda measure: -abs(measure.elasticity)))
    declared = plan.book.quantities[quantity]
    steps = tuple(step_choices(plan, quantity))
    return Sensitivity(quantity, value, found, steps, declared.unit, declared.text(value))


def format_sensitivity(found: Sensitivity, most: int | None = None) -> str:
    """Format a table for a terminal, with at most ``most`` rows of each kind."""
    lines = [f"{found.quantity} is {found.said}"]
    measured, stepped = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for entry in found.measures[:most]:
        mark = " (steps: mean of a tenth less and a tenth more)" if entry.by_difference else ""
        share = numbers.text(entry.elasticity / 100, style="change")
        measured.append((share, entry.key, f"{entry.meaning}{mark}"))
    for step in found.steps[:most]:
        way = " → ".join(numbers.text(end, digits=6) for end in (step.before, step.after))
        words = f"; {UNFIT}" if step.fits is False else ""
        words = f"(elasticity {numbers.text(step.elasticity)}{words})"
        change = numbers.text(step.change, style="change")
        stepped.append((change, step.key, f"{way}  {words}"))
    for rows, title in (
        (measured, "Measures, by exact derivative: 1 % more of each changes it by"),
        (stepped, "Choices, by one step that people would take: it changes by"),
    ):
        if rows:
            lines += ["", title, *columns(rows, right=(0,), indent="  ")]
    if not measured and not stepped:
        lines += ["", "Nothing moves it."]
    return "\n".join(lines) + "\n"


def encode_sensitivity(found: Sensitivity, most: int | None = None) -> str:
    """Return JSON text, with at most ``most`` entries of each kind."""
    measured = [entry._asdict() for entry in found.measures[:most]]
    for entry in measured:
        del entry["meaning"]
    data = {
        "quantity": found.quantity,
        "unit": found.unit,
        "value": found.value,
        "measures": measured,
        "steps": [step._asdict() for step in found.steps[:most]],
    }
    return as_json(data)


#: Keys of the measures that reports name: facts and prices, not the sizes of number formats.
SMOOTH = (
    "training.tokens", "time.", "cluster.price", "cluster.reserved_price", "cluster.pue",
    "cluster.carbon_intensity", "cluster.host_power", "cluster.accelerator.", "cluster.network.",
)  # fmt: skip


def rank_measures(result: Result, target: str, most: int = 5) -> list[Measure]:
    """Rank the measures to which a quantity is most sensitive; choices are left out.

    Args:
        result: the evaluated plan.
        target: id of the quantity.
        most: the most measures to return.

    Returns:
        Measures that reports name (``SMOOTH``), strongest derivative first; each change is that of
            a plan with the input set a tenth higher. Empty if the quantity has no value or is 0.
    """
    quantity = result.get(target)
    if quantity is None or not quantity.number:
        return []
    found = yield_measures(result.plan, result.evaluation, target)
    return list(islice((each for each in found if each.key.startswith(SMOOTH)), most))


def twice(result: Result, target: str) -> list[tuple[str, str, Fraction]]:
    """Return the effect of doubling each choice on a quantity: name, key and relative change.
    Doublings that make no valid plan are left out, such as twice the devices of a fixed layout."""
    found, here = [], Fraction(result[target].number)
    for move in (move for move in list_moves() if move.doubled):
        for changes in move.yield_changes(result.plan):
            with suppress(PlanError, Absent):
                other = variant(result.plan, changes)
                there = evaluate_near(result.evaluation, other, (target,))
                change = Fraction(there.value(target)) / here - 1
                found.append((move.words, move.key, change))
    return found
