"""What a budget of compute, money or time is best spent on, by each published scaling law.

A budget in USD or days becomes FLOP at the rate of the plan itself: its tokens per second times
6 FLOP for each parameter that a token uses. So the plan's hardware, layout and utilisation decide
what a day is worth; that another size would run at another utilisation is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf
from typing import Any

from planner.base import units
from planner.base.display import as_json, columns, format_value, one_line, plain
from planner.base.errors import Fault, PlanError
from planner.book import notation
from planner.engine import instance as case
from planner.engine import scaling_laws as laws
from planner.engine.evaluate import Absent, Entry, Evaluation
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions.constraints import shown
from planner.questions.solve import families
from planner.results.intervals import around

QUESTION = "compute-optimal"
UNITS = ("FLOP", "USD", "s")
BUDGETS = "compute, money or time, such as '1e24 FLOP', '2M USD' or '30 days'"

Number = int | Fraction | float


@dataclass(frozen=True)
class Choice:
    """What one law says: parameters and tokens for the budget, and where the plan stands."""

    law: Mapping[str, Any]  # as in presets/scaling
    parameters: Number
    tokens: Number
    loss: Number | None  # at those; None for a law without a loss
    model_tokens: Number | None  # compute-optimal for the plan's size
    ratio: Number | None  # the plan's tokens over them
    plan_loss: Number | None
    plan_lowest: Number | None  # the lowest loss for the plan's own compute


@dataclass(frozen=True)
class Shape:
    """The model of the plan's family whose size is nearest to what a law chooses."""

    law: str
    parameters: Number  # those that a token uses
    changes: Mapping[str, Any]  # dotted keys of the plan


@dataclass(frozen=True)
class Spending:
    """The answer: the budget in every unit that the plan has a rate for, and each law's choice."""

    given: str | None  # None: the plan's own compute
    flops: Number
    seconds: Number | None
    cost: Number | None
    parameters: Number  # of the plan, those that a token uses
    tokens: Number | None
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    shape: Shape | None = None  # None: the plan's model has no shape to scale


def ask(plan: Plan, budget: str | None = None) -> Spending:
    """Compute-optimal parameters and tokens for a budget.

    Args:
        plan: whose hardware and rate turn money and time into compute.
        budget: such as ``1e24 FLOP``, ``2M USD`` or ``30 days``; None is what the plan spends.

    Raises:
        PlanError: no such budget, or the plan has no rate or price for it.
    """
    base = Evaluation(case.build(plan))
    entries = base.case.axes["law"]
    if isinstance(entries, Absent) or not entries:
        raise PlanError(
            Fault(
                f"{QUESTION} is about training all weights of a model from scratch",
                None,
                "training.mode: train, without training.lora",
            )
        )
    active = _needed(base, "parameters.active")
    flops = _flops(base, plan, active, budget)
    spent = base.varied(notation.T, Fraction(flops) / (6 * Fraction(active)))
    rate = _found(base, "time.tokens_per_second")
    seconds = None if rate is None else Fraction(flops) / (6 * Fraction(active) * Fraction(rate))
    price = plan.get("cluster.price")
    hours = None if seconds is None else seconds / 3600 * plan.get("cluster.devices")
    choices = tuple(
        _choice(law, base, spent, entry)
        for law, entry in zip(laws.published(), entries, strict=True)
    )
    return Spending(
        budget,
        flops,
        seconds,
        None if hours is None or price is None else hours * price,
        active,
        plan.get("training.tokens"),
        choices,
        (*_notes(plan, budget), *_leeway(base, rate, flops, seconds, budget)),
        _shape(plan, next(c for c in choices if c.law["current"] and c.loss is not None)),
    )


def _choice(law: Mapping[str, Any], base: Evaluation, spent: Evaluation, entry: Entry) -> Choice:
    return Choice(
        law,
        _needed(spent, "optimal.parameters", entry),
        _needed(spent, "optimal.tokens", entry),
        _found(spent, "optimal.loss", entry),
        _found(base, "scaling.model_tokens", entry),
        _found(base, "scaling.ratio", entry),
        _found(base, "scaling.loss", entry),
        _found(base, "optimal.loss", entry),
    )


def _leeway(
    base: Evaluation,
    rate: Number | None,
    flops: Number,
    seconds: Number | None,
    budget: str | None,
) -> tuple[str, ...]:
    """What published runs leave open of a budget that is turned into another unit at a predicted
    rate; nothing where the rate is assumed."""
    between = rate and around("time.tokens_per_second", rate, base)
    if not between or rate is None or seconds is None:
        return ()
    low, high = (Fraction(bound) / Fraction(rate) for bound in between)
    if budget is not None and _parsed(budget)[1] != "FLOP":
        ends = [shown(Fraction(flops) * share, "FLOP") for share in (low, high)]
    else:
        ends = [shown(Fraction(seconds) / share, "s") for share in (high, low)]
    return (
        f"the rate is predicted: published runs leave {ends[0]} to {ends[1]} open (5th to 95th "
        "percentile)",
    )


def _shape(plan: Plan, choice: Choice) -> Shape | None:
    """The nearest of every width whose depths reach that size: sizes grow evenly with depth, and
    from the least depth of one width to that of the next."""
    try:
        whole, family = families.of_plan(plan)
    except PlanError:
        return None
    aim, rows = float(choice.parameters), family.domain.rows

    @cache
    def size(index: int) -> float:
        """Infinite where the layout does not allow it."""
        try:
            scaled = variant(whole, family.changes(index))
            return float(evaluated(scaled, ["parameters.active"])["parameters.active"])
        except PlanError:
            return inf

    def off(index: int) -> float:
        return abs(size(index) - aim)

    place = bisect_left(range(1, len(rows)), aim, key=lambda i: size(rows[i][0]))
    best = rows[place][0]
    for low, high in reversed(rows[: place + 2]):
        best = min(best, high, low, key=off)
        if size(high) < aim:
            break
        if size(low) < aim < size(high) < inf:
            near = low + round((aim - size(low)) / (size(high) - size(low)) * (high - low))
            best = min(best, *range(max(low, near - 1), min(high, near + 1) + 1), key=off)
    if size(best) == inf:
        return None
    changes = family.changes(best)
    return Shape(str(choice.law["name"]), int(size(best)), changes)


def _found(evaluation: Evaluation, quantity: str, entry: Entry | None = None) -> Any:
    try:
        return evaluation.value(quantity, {"law": entry} if entry else None)
    except Absent:
        return None


def _needed(evaluation: Evaluation, quantity: str, entry: Entry | None = None) -> Any:
    found = evaluation.trace(quantity, {"law": entry} if entry else None).value
    if isinstance(found, Absent):
        raise PlanError(Fault(f"{quantity} cannot be computed: {found.reason}"))
    return found


def _flops(base: Evaluation, plan: Plan, active: Number, budget: str | None) -> Number:
    if budget is None:
        return _needed(base, "compute.training_flops_6nd")  # type: ignore[no-any-return]
    value, unit = _parsed(budget)
    if value <= 0:
        raise PlanError(Fault(f"--budget {budget} buys nothing", None, BUDGETS))
    if unit == "FLOP":
        return value
    seconds: Number = value
    if unit == "USD":
        price = plan.get("cluster.price")
        if not price:
            place = plan.document.place(("cluster",))
            raise PlanError(Fault("the cluster has no price (cluster.price)", place, "2.5 USD/h"))
        seconds = Fraction(value) * 3600 / (price * plan.get("cluster.devices"))
    rate = _found(base, "time.tokens_per_second")
    if rate is None:
        known = "time.mfu, or a model of known shape, from which it is predicted"
        raise PlanError(Fault("the plan has no rate that turns time into compute", None, known))
    return 6 * Fraction(active) * Fraction(rate) * seconds


def _parsed(budget: str) -> tuple[Number, str]:
    """A budget and its unit; a number without a unit is FLOP."""
    for unit in UNITS:
        try:
            return units.parse(budget, unit), unit
        except units.UnitError:
            continue
    raise PlanError(Fault(f"--budget {one_line(budget)!r} is no budget", None, BUDGETS))


def _notes(plan: Plan, budget: str | None) -> tuple[str, ...]:
    notes = ["the laws were fitted on dense models, each on its laboratory's data and vocabulary"]
    if plan.model is not None and any(
        block.kind == "moe" for part in plan.model.parts for block in part.blocks
    ):
        notes.append("of a mixture of experts, parameters are those that one token uses")
    notes.append("predicted losses rank choices of one law; they forecast no other data")
    if budget is not None:
        notes.append(
            "time and money at this plan's rate in 6ND FLOP/s, without interruptions; another size "
            "runs at another utilisation"
        )
    return tuple(notes)


# as text and data --------------------------------------------------------------------------


def text(answer: Spending) -> str:
    """For a terminal: what the budget is, each law's choice, and where the plan stands."""
    worth = ((answer.flops, "FLOP"), (answer.seconds, "s"), (answer.cost, "USD"))
    given = f" for {one_line(answer.given)}" if answer.given else " for what this plan spends"
    told = ", ".join(shown(value, unit) for value, unit in worth if value is not None)
    lines = [f"{QUESTION}{given}: {told}", ""]
    rows = [("law", "parameters", "tokens", "per parameter", "loss")]
    for choice in answer.choices:
        each, loss = _short(choice.tokens / choice.parameters), _short(choice.loss, 4)
        sizes = (_short(choice.parameters), _short(choice.tokens))
        rows.append((_title(choice), *sizes, each, loss))
    lines += columns(rows, right=range(1, 5), indent="  ")
    if answer.shape is not None:
        title = next(c.law["title"] for c in answer.choices if c.law["name"] == answer.shape.law)
        keys = " ".join(f"--set {key}={value}" for key, value in answer.shape.changes.items())
        lines += [
            "",
            f"Nearest to {title}, in the shape of this plan's model: "
            f"{_short(answer.shape.parameters)} parameters",
            f"  {keys}",
        ]
    if answer.tokens is not None:
        each = _short(Fraction(answer.tokens) / Fraction(answer.parameters))
        lines += [
            "",
            f"This plan: {_short(answer.parameters)} parameters, {_short(answer.tokens)} tokens, "
            f"{each} for each parameter: {_verdict(answer)}",
            "",
        ]
        rows = [("law", "optimal tokens", "the plan's over them", "loss", "lowest for its compute")]
        for choice in answer.choices:
            losses = (_short(choice.plan_loss, 4), _short(choice.plan_lowest, 4))
            tokens = (_short(choice.model_tokens), _short(choice.ratio))
            rows.append((_title(choice), *tokens, *losses))
        lines += columns(rows, right=range(1, 5), indent="  ")
    lines += ["", "* later work disagrees with this law; shown for comparison"]
    lines += [f"Note: {note}." for note in answer.notes]
    return "\n".join(lines) + "\n"


def _title(choice: Choice) -> str:
    return str(choice.law["title"]) + ("" if choice.law["current"] else " *")


def _verdict(answer: Spending) -> str:
    """Over- or under-trained, where the laws that later work confirms agree on it."""
    ratios = [c.ratio for c in answer.choices if c.law["current"] and c.ratio is not None]
    if not ratios:
        return "no law has its size"
    low, high = min(ratios), max(ratios)
    if high < 1:
        return f"under-trained, {_short(low)} to {_short(high)} of the optimal tokens"
    if low > 1:
        return f"over-trained, {_short(low)} to {_short(high)} times the optimal tokens"
    return f"near compute-optimal, {_short(low)} to {_short(high)} times the optimal tokens"


def _short(value: Number | None, digits: int = 3) -> str:
    if value is None:
        return "–"
    return format_value(Fraction(value), "1", digits, short=True)


def as_data(answer: Spending) -> dict[str, Any]:
    """Plain data for JSON: numbers are ints where exact, else floats."""
    days = None if answer.seconds is None else Fraction(answer.seconds) / 86400
    laws = [
        {
            "law": choice.law["name"],
            **{key: choice.law[key] for key in ("title", "source", "current", "note")},
            "parameters": choice.parameters,
            "tokens": choice.tokens,
            "loss": choice.loss,
            "plan": {
                "optimal_tokens": choice.model_tokens,
                "ratio": choice.ratio,
                "loss": choice.plan_loss,
                "lowest_loss": choice.plan_lowest,
            },
        }
        for choice in answer.choices
    ]
    shape = answer.shape
    data = {
        "question": QUESTION,
        "solved": True,
        "budget": {"given": answer.given, "FLOP": answer.flops, "days": days, "USD": answer.cost},
        "laws": laws,
        "plan": {"parameters": answer.parameters, "tokens": answer.tokens},
        "shape": shape and {"law": shape.law, "parameters": shape.parameters, "set": shape.changes},
        "exact": False,
        "notes": answer.notes,
    }
    return plain(data)  # type: ignore[no-any-return]


def to_json(answer: Spending) -> str:
    """The answer as JSON text, keys in a fixed order."""
    return as_json(as_data(answer))
