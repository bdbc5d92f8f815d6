"""Compute-optimal model size and tokens for a budget, by each published scaling law.

A budget in USD or days is converted to FLOP at the rate of the plan: tokens per second times 6 FLOP
for each active parameter. That another size would run at another utilisation is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from planner.base import numbers, units
from planner.base.display import as_json, columns, one_line
from planner.base.errors import PlanError
from planner.base.notebook import Shown
from planner.book import notation
from planner.engine import instance, scaling_laws
from planner.engine.evaluate import Absent, Entry, Evaluation, Number
from planner.plans.document import Plan
from planner.questions.constraints import Limit
from planner.questions.solve import families
from planner.questions.solve.evaluations import Probes
from planner.questions.solve.solve import solve_domain
from planner.results.intervals import compute_interval

QUESTION = "compute-optimal"
ACTIVE, SPENT = "parameters.active", "compute.training_flops_6nd"
#: Quantities of a law for the budget and for the plan, in the order of the fields below.
OF_BUDGET = ("optimal.parameters", "optimal.tokens", "optimal.loss")
OF_PLAN = ("scaling.model_tokens", "scaling.ratio", "scaling.loss", "optimal.loss")
DOUBTED = "* later work disagrees with this law; shown for comparison"
BUDGETS = "compute, money or time, such as '1e24 FLOP', '2M USD' or '30 days'"


@dataclass(frozen=True)
class LawChoice:
    """The result of one law: parameters and tokens for the budget, and how the plan compares.

    Attributes:
        law: the law as in presets/scaling.
        parameters: compute-optimal for the budget.
        tokens: compute-optimal for the budget.
        loss: the predicted loss for these; None for a law without a loss.
        model_tokens: compute-optimal tokens for the plan's size.
        ratio: the plan's tokens over these.
        plan_loss: the predicted loss of the plan.
        plan_lowest: the lowest loss for the plan's own compute.
    """

    law: Mapping[str, Any]
    parameters: Number
    tokens: Number
    loss: Number | None
    model_tokens: Number | None
    ratio: Number | None
    plan_loss: Number | None
    plan_lowest: Number | None


@dataclass(frozen=True)
class NearestModel:
    """The model of the plan's family whose size is nearest to the size that a law chooses.

    Attributes:
        law: name of the law.
        parameters: those that a token uses.
        changes: the model, by dotted key of the plan.
    """

    law: str
    parameters: Number
    changes: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Spending(Shown):
    """The answer: the budget in each unit that the plan has a rate for, and each law's choice.

    Attributes:
        given: the budget as it was given; None for the plan's own compute.
        flops: the budget in FLOP.
        seconds: the budget in seconds of training; None without a rate.
        cost: the budget in USD; None without a rate or a price.
        parameters: of the plan, those that a token uses.
        tokens: of the plan; None where it states none.
        choices: what each law chooses.
        notes: caveats, a sentence each.
        shape: the nearest model of the plan's family; None where it has no shape to scale.
    """

    given: str | None
    flops: Number
    seconds: Number | None
    cost: Number | None
    parameters: Number
    tokens: Number | None
    choices: tuple[LawChoice, ...]
    notes: tuple[str, ...]
    shape: NearestModel | None = None

    def __repr__(self) -> str:
        return f"<Spending of {self.given or 'what the plan spends'}>"


def solve_budget(plan: Plan, budget: str | None = None) -> Spending:
    """Find the compute-optimal parameters and tokens for a budget.

    Args:
        plan: its price and its rate convert money and time to compute.
        budget: such as ``1e24 FLOP``, ``2M USD`` or ``30 days``; None: the plan's own compute.

    Raises:
        PlanError: the budget is invalid, or the plan has no rate or price to convert it.
    """
    base = Evaluation(instance.build(plan))
    entries = base.case.axes["law"]
    if isinstance(entries, Absent) or not entries:
        about = f"{QUESTION} applies to training all weights from scratch"
        raise PlanError(about, None, "training.mode: train, without training.lora")
    active = Fraction(base.get_values([ACTIVE])[ACTIVE])
    rate, price = _evaluate_law(base, "time.tokens_per_second"), plan.get("cluster.price")
    flops, unit = _convert_budget(base, plan, active, rate, budget)
    tokens = Fraction(flops) / (6 * active)
    spent = base.change_input(notation.T, tokens)
    seconds = None if rate is None else tokens / Fraction(rate)
    hours = None if seconds is None else seconds / 3600 * plan.get("cluster.devices")
    choices = tuple(
        LawChoice(
            law,
            *(_evaluate_law(spent, quantity, entry) for quantity in OF_BUDGET),
            *(_evaluate_law(base, quantity, entry) for quantity in OF_PLAN),
        )
        for law, entry in zip(scaling_laws.load_laws(), entries, strict=True)
    )
    return Spending(
        budget,
        flops,
        seconds,
        None if hours is None or price is None else hours * price,
        active,
        plan.get("training.tokens"),
        choices,
        tuple(_yield_caveats(base, plan, flops, unit, rate, seconds)),
        _find_nearest(plan, next(c for c in choices if c.law["current"] and c.loss is not None)),
    )


def parse_budget(budget: str) -> tuple[Number, str]:
    """Parse a budget; return its value and its unit: FLOP, USD or s.

    Raises:
        PlanError: it is not a budget, has no unit, or is not positive.
    """
    if units.NUMBER.fullmatch(budget.replace(",", "").strip()):
        raise PlanError(f"--budget {budget} has no unit", None, BUDGETS)
    for unit in ("FLOP", "USD", "s"):
        with suppress(units.UnitError):
            value = units.parse(budget, unit)
            break
    else:
        raise PlanError(f"--budget {one_line(budget)!r} is not a budget", None, BUDGETS)
    if value <= 0:
        raise PlanError(f"--budget {budget} buys nothing", None, BUDGETS)
    return value, unit


def _yield_caveats(
    base: Evaluation,
    plan: Plan,
    flops: Number,
    unit: str | None,
    rate: Number | None,
    seconds: Fraction | None,
) -> Iterator[str]:
    """Yield caveats, and the 90 % interval of a budget that is converted to another unit at a
    predicted rate.

    Args:
        base: the evaluation of the plan.
        plan: the plan, whose model may have experts.
        flops: the budget in FLOP.
        unit: the unit of the given budget; None for the plan's own compute.
        rate: tokens per second of the plan; None without one.
        seconds: the budget in seconds; None without a rate.
    """
    yield "the laws were fitted on dense models, each on the data and vocabulary of its source"
    if plan.model is not None and any(
        block.kind == "moe" for part in plan.model.parts for block in part.blocks
    ):
        yield "of a mixture of experts, parameters are those that one token uses"
    yield "predicted losses rank choices of one law; they forecast no other data"
    if unit is not None:
        yield (
            "time and money at this plan's rate in 6ND FLOP/s, without interruptions; another size "
            "runs at another utilisation"
        )
    between = rate and compute_interval("time.tokens_per_second", rate, base)
    if between and rate and seconds is not None:
        low, high = (Fraction(bound) / Fraction(rate) for bound in between)
        if unit not in (None, "FLOP"):
            ends = [numbers.text(Fraction(flops) * share, "FLOP") for share in (low, high)]
        else:
            ends = [numbers.text(seconds / share, "s") for share in (high, low)]
        yield (
            f"the rate is predicted: measured runs leave {ends[0]} to {ends[1]} open (5th to 95th "
            "percentile)"
        )


def _find_nearest(plan: Plan, choice: LawChoice) -> NearestModel | None:
    """Find the model nearest to a law's size; None where the plan's family has no such size."""
    limit = Limit(ACTIVE, "<=", choice.parameters)
    try:
        whole, family = families.build_family(plan)
        answer = solve_domain(Probes(whole, replace(family.domain, measure=ACTIVE), (limit,)))
    except PlanError:
        return None
    sides = filter(None, (answer.holds, answer.miss, *answer.beyond))
    best = min(sides, key=lambda probe: abs(float(probe.slack(limit))))
    return NearestModel(
        str(choice.law["name"]), best.values[ACTIVE], family.build_changes(best.value)
    )


def _evaluate_law(evaluation: Evaluation, quantity: str, entry: Entry | None = None) -> Any:
    """Return a quantity of the plan or of a law; None where it is absent.

    Args:
        evaluation: the evaluation of the plan.
        quantity: id of the quantity.
        entry: the law; None for a quantity of the whole plan.
    """
    with suppress(Absent):
        return evaluation.value(quantity, {"law": entry} if entry else None)
    return None


def _convert_budget(
    base: Evaluation, plan: Plan, active: Fraction, rate: Number | None, budget: str | None
) -> tuple[Number, str | None]:
    """Convert a budget to FLOP.

    Args:
        base: the evaluation of the plan.
        plan: its price and devices convert money to time.
        active: parameters that a token uses.
        rate: tokens per second of the plan, which convert time to compute; None without one.
        budget: as it was given; None for the plan's own compute.

    Returns:
        FLOP, and the unit of the given budget: FLOP, USD or s; None without a budget.

    Raises:
        PlanError: the budget is invalid, or the plan lacks the price or the rate to convert it.
    """
    if budget is None:
        return base.get_values([SPENT])[SPENT], None
    value, unit = parse_budget(budget)
    if unit == "FLOP":
        return value, unit
    seconds: Number = value
    if unit == "USD":
        price = plan.get("cluster.price")
        if not price:
            place = plan.document.find_place(("cluster",))
            raise PlanError("the cluster has no price (cluster.price)", place, "2.5 USD/h")
        seconds = Fraction(value) * 3600 / (price * plan.get("cluster.devices"))
    if rate is None:
        known = "time.mfu, or a model of known shape, from which it is predicted"
        raise PlanError("the plan has no rate that turns time into compute", None, known)
    return 6 * active * Fraction(rate) * seconds, unit


# as text and data --------------------------------------------------------------------------


def text(answer: Spending) -> str:
    """Format the answer for a terminal: the budget, each law's choice, how the plan compares."""
    lines = [f"{QUESTION} {_format_budget(answer)}", ""]
    lines += columns(list_optima(answer), right=(1, 2, 3, 4), indent="  ")
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
        lines += ["", _describe_own(answer), ""]
        rows = [("law", "optimal tokens", "the plan's over them", "loss", "lowest for its compute")]
        for choice in answer.choices:
            loss, lowest = (
                numbers.text(each, style="table", digits=4)
                for each in (choice.plan_loss, choice.plan_lowest)
            )
            tokens = (_short(choice.model_tokens), numbers.text(choice.ratio))
            rows.append((_name_law(choice), *tokens, loss, lowest))
        lines += columns(rows, right=(1, 2, 3, 4), indent="  ")
    lines += ["", DOUBTED]
    lines += [f"Note: {note}." for note in answer.notes]
    return "\n".join(lines) + "\n"


def _format_budget(answer: Spending) -> str:
    """Format the budget in each unit."""
    worth = ((answer.flops, "FLOP"), (answer.seconds, "s"), (answer.cost, "USD"))
    given = f"for {one_line(answer.given)}" if answer.given else "for what this plan spends"
    return f"{given}: " + ", ".join(
        numbers.text(value, unit) for value, unit in worth if value is not None
    )


def list_optima(answer: Spending) -> list[tuple[str, ...]]:
    """List what each law chooses for the budget, after a header row."""
    rows: list[tuple[str, ...]] = [("law", "parameters", "tokens", "per parameter", "loss")]
    for choice in answer.choices:
        each = _short(choice.tokens / choice.parameters)
        loss = numbers.text(choice.loss, style="table", digits=4)
        sizes = (_short(choice.parameters), _short(choice.tokens))
        rows.append((_name_law(choice), *sizes, each, loss))
    return rows


def sentence(answer: Spending) -> str:
    """Return in one sentence the range of what the laws that later work confirms choose."""
    current = [choice for choice in answer.choices if choice.law["current"]]
    sizes, tokens = ([c.parameters for c in current], [c.tokens for c in current])
    chosen = (
        f"{_short(min(sizes))} to {_short(max(sizes))} parameters on {_short(min(tokens))} to "
        f"{_short(max(tokens))} tokens by the {len(current)} laws that later work confirms"
    )
    plan = f"; the plan itself is {_judge_plan(answer)}" if answer.tokens is not None else ""
    return f"{chosen} {_format_budget(answer)}{plan}"


def tables(answer: Spending) -> list[list[tuple[str, ...]]]:
    """Return one table: what each law chooses for the budget, after a header row."""
    return [list_optima(answer)]


def remarks(answer: Spending) -> list[str]:
    """Return further remarks, one sentence each."""
    plan = [f"{_describe_own(answer)}."] if answer.tokens is not None else []
    return [*plan, f"{DOUBTED}.", *(f"Note: {note}." for note in answer.notes)]


def _describe_own(answer: Spending) -> str:
    """Describe the plan's own size and tokens, and whether it is over- or under-trained."""
    each = numbers.text(Fraction(answer.tokens or 0) / Fraction(answer.parameters))
    return (
        f"This plan: {_short(answer.parameters)} parameters, {_short(answer.tokens)} tokens, "
        f"{each} for each parameter: {_judge_plan(answer)}"
    )


def _name_law(choice: LawChoice) -> str:
    """Return the title of a law, with an asterisk if later work disagrees with it."""
    return str(choice.law["title"]) + ("" if choice.law["current"] else " *")


def _judge_plan(answer: Spending) -> str:
    """Decide whether the plan is over- or under-trained, by the laws that later work confirms."""
    ratios = [c.ratio for c in answer.choices if c.law["current"] and c.ratio is not None]
    if not ratios:
        return "no law has its size"
    low, high = min(ratios), max(ratios)
    between = f"{numbers.text(low)} to {numbers.text(high)}"
    if high < 1:
        return f"under-trained, {between} of the optimal tokens"
    said = "over-trained" if low > 1 else "near compute-optimal"
    return f"{said}, {between} times the optimal tokens"


def _short(value: Number | None) -> str:
    """Format a number of parameters or tokens for a table, without a unit."""
    return numbers.text(value, "tokens", "table")


def to_json(answer: Spending) -> str:
    """Return JSON text with keys in a fixed order; exact numbers are integers, others floats."""
    return as_json(data_of(answer))


def data_of(answer: Spending) -> dict[str, Any]:
    """Return the answer as plain data; JSON prints its fractions as floats."""
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
    days = None if answer.seconds is None else Fraction(answer.seconds) / 86400
    shape = answer.shape
    return {
        "question": QUESTION,
        "solved": True,
        "budget": {"given": answer.given, "FLOP": answer.flops, "days": days, "USD": answer.cost},
        "laws": laws,
        "plan": {"parameters": answer.parameters, "tokens": answer.tokens},
        "shape": shape and {"law": shape.law, "parameters": shape.parameters, "set": shape.changes},
        "exact": False,
        "notes": answer.notes,
    }
