"""Answers to inverse questions as text for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from planner.base.display import as_json, format_value
from planner.book.quantity import BOOK
from planner.engine.evaluate import Number
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, KERNELS, LayoutKey, stated
from planner.plans.plan import chosen_by
from planner.questions.constraints import Limit, shown
from planner.questions.domains import DIGITS
from planner.questions.solve.intervals import Ends, of_answer, of_quantity
from planner.questions.solve.probes import Probe
from planner.questions.solve.solve import Answer

if TYPE_CHECKING:
    from planner.questions.solve.expression import ClosedForm

#: Units of what is counted in billions.
COUNTED = ("parameters", "tokens")
#: Significant digits of a value that rests on a prediction of time.
ROUGH = 2


def text(answer: Answer) -> str:
    """The certificate for a terminal: the answer first, then both sides of the limit."""
    between = of_answer(answer)
    lines = [_headline(answer, between), ""]
    rows = answer.extra.get("closed", ())
    if rows:
        lines.append(f"By bytes per parameter alone, {rows[0].formula}:")
        for row in rows:
            lines.append(f"  {row.case}")
            lines.append(f"    {row.substituted} = {shown(int(row.value), 'parameters')}")
        if answer.domain.key == "model":
            lines += ["", "As an architecture, everything on the device counted:"]
        else:
            lines += ["", "With nothing but these bytes; activations and buffers need a shape."]
    if between is not None:
        lines.append("As predicted, to the last step:")
    lines += _table(answer)
    if "layouts" in answer.extra and answer.holds is not None:
        lines += ["", f"Layout: {layout_words(answer.holds.plan)}."]
    lines += ["", *_reasons(answer), *_closed(answer)]
    names = [f"{name} ({format_value(size, short=True)})" for name, size in published(answer)]
    if names:
        lines.append(f"Published models next below it: {', '.join(names)}.")
    if answer.domain.step:
        lines.append(f"Steps: {answer.domain.step}.")
    lines += [f"Note: {note}." for note in answer.notes]
    lines += _offers(answer)
    lines.append(f"{answer.tried} plans tried, the answer evaluated exactly.")
    return "\n".join(lines) + "\n"


def _labelled(answer: Answer) -> Iterator[tuple[str, Probe]]:
    if answer.holds is not None:
        yield "best" if answer.goal else "holds", answer.holds
    if answer.fails is not None:
        yield "fails", answer.fails
    for probe in answer.beside:
        assert answer.holds is not None
        yield "less" if probe.index < answer.holds.index else "more", probe
    if answer.miss is not None:
        yield "misses", answer.miss


def _table(answer: Answer) -> list[str]:
    labelled = list(_labelled(answer))
    width = max(len(value_text(answer, probe)) for _, probe in labelled)
    lines = []
    for label, probe in labelled:
        values = ", ".join(
            f"{name} {shown(value, unit_of(name))}"
            for name, value in _shown_values(answer, probe).items()
        )
        lines.append(f"  {label:<6} {value_text(answer, probe):<{width}}  {values}")
    return lines


def _headline(answer: Answer, between: Ends | None) -> str:
    # Where bytes alone are asked for, the lines below say what limits them.
    limits = " and ".join(_said(li) for li in answer.limits if li.quantity != "parameters.total")
    if answer.holds is None:
        return f"{name_of(answer)}: no value satisfies {limits}"
    value = _value(answer, answer.holds, between)
    if answer.question == "cheapest":
        paid = f"{_goal_text(answer)}{_price(answer, answer.holds)}"
        return f"cheapest: {value} for {paid} with {limits}"
    if answer.goal is not None:
        best = _goal_text(answer)
        what = f"{value} makes {answer.goal.quantity} {answer.goal.word}, {best}"
        return f"{name_of(answer)}: {what}" + (f", with {limits}" if limits else "")
    which = "largest" if answer.direction > 0 else "smallest"
    why = f"with {limits}" if limits else "by bytes of state alone"
    return f"{name_of(answer)}: {value} is the {which} {why}"


#: Quantities that say whether a plan fits.
FITTING = {"memory.headroom", "memory.headroom_p95"}
#: What it takes to fit, in words.
SAID = {
    Limit("memory.headroom_p95", ">=", 0): "room for 95 % of published readings",
    Limit("memory.headroom", ">=", 0): "room for what is predicted, without a margin",
}


def _said(limit: Limit) -> str:
    return SAID.get(limit, str(limit))


def _value(answer: Answer, holds: Probe, between: Ends | None) -> str:
    """The value of the headline, rounded to what is known of it, with what the error of the
    prediction leaves open."""
    if between is None:
        return value_text(answer, holds, short=True)
    slow, fast = between
    ends = sorted((end for end in (slow, fast) if end is not None), key=lambda end: end.index)
    told = [rough(_number_of(answer, end)) for end in ends]
    if None in (slow, fast):
        told.insert(0 if answer.direction > 0 else 1, "no value")
    middle = rough(_number_of(answer, holds))
    unit = "" if _unit(answer) in ("1", "–") else f" {_unit(answer)}"
    unit = " devices" if answer.domain.key == "cluster.devices" else unit
    shape = f", as predicted {shape_of(holds)}" if answer.domain.key == "model" else ""
    return f"~{middle}{unit} ({' to '.join(told)}{shape})"


def _number_of(answer: Answer, probe: Probe) -> Number:
    return probe.values[answer.domain.measure] if answer.domain.rows else probe.value


def _unit(answer: Answer) -> str:
    return "parameters" if answer.domain.rows else answer.domain.unit


def _goal_text(answer: Answer) -> str:
    """What is largest or smallest at the answer, with its interval where it is a prediction."""
    assert answer.goal is not None and answer.holds is not None
    name = answer.goal.quantity
    value, unit = answer.holds.values[name], unit_of(name)
    between = of_quantity(answer.holds, name)
    if between is None:
        return shown(value, unit)
    low, high = (rough(bound) for bound in between)
    return f"~{rough(value)}{'' if unit in ('1', '–') else f' {unit}'} ({low} to {high})"


def rough(value: Any) -> str:
    """A number to two digits, without its unit."""
    return format_value(Fraction(value), "1", ROUGH, short=True)


def name_of(answer: Answer) -> str:
    """What the answer is about: the question, or the key that was varied."""
    return answer.domain.key if answer.question == "vary" else answer.question


def value_text(answer: Answer, probe: Probe, short: bool = False) -> str:
    """A value of the unknown for people; of a model its size, ``short`` in three digits, and its
    shape."""
    if answer.question == "cheapest":
        name = probe.plan.get("cluster.accelerator.name") or "devices"
        return f"{shown(probe.value, '1')} × {name}"
    if answer.domain.key != "model":
        if short and answer.domain.unit in COUNTED:
            return format_value(Fraction(probe.value), answer.domain.unit, short=True)
        return shown(probe.value, answer.domain.unit, digits=DIGITS)
    size = Fraction(_number_of(answer, probe))
    return f"{format_value(size, 'parameters', short=short)} ({shape_of(probe)})"


def shape_of(probe: Probe) -> str:
    """A model's layers and widths."""
    model = probe.plan.get("model")
    heads = (model.get("attention") or {}).get("heads")
    shape = f"{model['layers']} layers, hidden {model['hidden']}"
    return shape + (f", {heads} heads" if heads else "")


def published(answer: Answer) -> list[tuple[str, int]]:
    """Shipped models of the answer's kind, dense or of experts, next below it in size, with their
    parameters; of those that carry a size in their name."""
    if answer.domain.key != "model" or answer.holds is None:
        return []
    from planner.questions.solve.published import below

    return below(answer.holds.plan, int(_number_of(answer, answer.holds)))


def _shown_values(answer: Answer, probe: Probe) -> dict[str, Any]:
    """What was asked about, and beside the headroom what fills the device."""
    asked = [limit.quantity for limit in answer.limits]
    asked += [answer.goal.quantity] if answer.goal else []
    values = {name: probe.values[name] for name in asked}
    if FITTING & values.keys():
        values |= evaluated(probe.plan, ["memory.process", "memory.capacity"])
    return values


def unit_of(quantity: str) -> str:
    return BOOK.quantities[quantity].unit


def _follows(row: LayoutKey, plan: Plan) -> bool:
    """Whether the kernels of a layout follow from the rest of it."""
    return row.key == KERNELS and not chosen_by(plan, KERNELS)


def layout_words(plan: Plan) -> str:
    """A layout in words, neutral values left out."""
    found = []
    for row, value in stated(plan.get):
        name = row.heading if row.key == KERNELS else row.name.replace("_", " ")
        if not _follows(row, plan):
            found.append(name if value is True else f"{name} {value}")
    return ", ".join(found)


def _reasons(answer: Answer) -> list[str]:
    limit = answer.binding
    if answer.holds is None and answer.miss is not None:
        return [_unmet(answer, answer.miss, limit)]
    if answer.goal is not None and answer.holds is not None:
        return [_beside(answer, answer.holds, probe) for probe in answer.beside] or [
            "There is no other valid value."
        ]
    if answer.fails is None or answer.holds is None or limit is None:
        return ["No limit binds: this is the last value that makes a valid plan."]
    short = shown(-answer.fails.slack(limit), limit.unit)
    left = shown(answer.holds.slack(limit), limit.unit)
    return [f"{limit} binds: {left} left here, short by {short} one step further."]


def _closed(answer: Answer) -> list[str]:
    """The closed form, or why there is none; nothing where no limit was solved for."""
    found = expression(answer)
    if found is None:
        return []
    if isinstance(found, str):
        return [] if answer.extra.get("closed") else [f"No closed form: {found}."]
    name, degree = found.unknown, ("first", "second")[found.degree - 1]
    lines = ["", f"In closed form, of {degree} degree in {name} ({answer.domain.key}):"]
    lines += [f"  {name} = {found.formula}", f"  {' ' * len(name)} = {found.substituted}"]
    lines.append(f"  {' ' * len(name)} = {shown(found.value, answer.domain.unit, DIGITS)}")
    lines += [f"  {symbol}: {meaning}" for symbol, meaning in found.where]
    return [*lines, ""]


def expression(answer: Answer) -> ClosedForm | str | None:
    """The closed form of an answer, or why there is none; None where nothing is to be solved."""
    from planner.questions.solve.expression import NoForm, closed_form

    if answer.binding is None or answer.holds is None or answer.fails is None:
        return None
    try:
        return closed_form(answer)
    except NoForm as none:
        return str(none)


def _expression_data(answer: Answer) -> dict[str, Any] | None:
    found = expression(answer)
    if found is None:
        return None
    if isinstance(found, str):
        return {"none": found}
    return {
        "unknown": found.unknown,
        "degree": found.degree,
        "formula": found.formula,
        "latex": found.latex,
        "substituted": found.substituted,
        "value": number(found.value),
        "where": dict(found.where),
    }


def _beside(answer: Answer, best: Probe, probe: Probe) -> str:
    goal = answer.goal
    assert goal is not None
    where = "One step less" if probe.index < best.index else "One step more"
    if probe.broken:
        limit = min(probe.broken, key=probe.share)
        return f"{where}: {limit} is missed by {shown(-probe.slack(limit), limit.unit)}."
    change = abs(goal.of(best) - goal.of(probe))
    if not change:
        return f"{where}: {goal.quantity} is the same."
    way = "less" if goal.sense > 0 else "more"
    return f"{where}: {goal.quantity} is {shown(change, unit_of(goal.quantity))} {way}."


def _unmet(answer: Answer, miss: Probe, limit: Limit | None) -> str:
    """Which limit no value meets, or which two none meets together, and the nearest miss."""
    assert limit is not None
    short = shown(-miss.slack(limit), limit.unit)
    if answer.together:
        first, second = answer.unmet
        pair = f"{first} and {second} contradict each other: each can be met, both cannot be met"
        return f"{pair}; the nearest value misses {limit} by {short}."
    return f"{limit} cannot be met; the nearest value misses it by {short}."


def _offers(answer: Answer) -> list[str]:
    """What every kind of device comes to, for ``cheapest``."""
    rows = answer.extra.get("rows")
    if not rows:
        return []
    lines = ["", "Devices to choose from:"]
    cells = []
    for row in rows:
        price = f"{shown(row.offer.price, 'USD/h')} ({row.offer.whose})"
        if row.cost is None:
            cells.append((row.offer.accelerator, price, row.reason))
            continue
        holds = row.answer.holds
        days = holds.values.get("time.training_days")
        told = [f"{shown(holds.value, '1')} devices", shown(row.cost, "USD")]
        told += [] if days is None else [shown(days, "days")]
        cells.append((row.offer.accelerator, price, ", ".join(told)))
    widths = [max(len(cell[i]) for cell in cells) for i in (0, 1)]
    lines += [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in cells]
    sources = dict.fromkeys((r.offer.whose, r.offer.source) for r in rows if r.offer.source)
    lines += ["", "Whose prices these are:"] if sources else []
    lines += [f"  {whose}: {source}" for whose, source in sources]
    return [*lines, ""]


def _price(answer: Answer, holds: Probe) -> str:
    """Whose price the cheapest devices have, and what it is."""
    named = holds.plan.get("cluster.accelerator.name")
    rows = [row.offer for row in answer.extra["rows"] if row.offer.accelerator == named]
    return f" at {shown(rows[0].price, 'USD/h')} ({rows[0].whose})" if rows else ""


# as data -------------------------------------------------------------------------------------


def as_data(answer: Answer) -> dict[str, Any]:
    """Plain data for JSON: numbers are ints where exact, else floats."""
    limit = answer.binding
    sides = {"holds": answer.holds, "fails": answer.fails, "misses": answer.miss}
    return {
        "question": name_of(answer),
        "solved": answer.holds is not None,
        "unknown": answer.domain.key,
        "unit": "parameters" if answer.domain.key == "model" else answer.domain.unit,
        "direction": "largest" if answer.direction > 0 else "smallest",
        "limits": [_limit_data(li) for li in answer.limits],
        **{label: _probe_data(answer, probe) for label, probe in sides.items() if probe},
        **_interval_data(answer),
        "binding": limit and limit.quantity,
        "unmet": [_limit_data(li) for li in answer.unmet],
        **_goal_data(answer),
        "closed": [
            {
                "case": row.case,
                "formula": row.formula,
                "substituted": row.substituted,
                "value": number(row.value),
            }
            for row in answer.extra.get("closed", ())
        ],
        "expression": _expression_data(answer),
        "family": answer.extra.get("family"),
        **({"published": dict(published(answer))} if answer.domain.key == "model" else {}),
        **_offer_data(answer),
        "step": answer.domain.step,
        "notes": list(answer.notes),
        **_narrowed_data(answer),
        "tried": answer.tried,
    }


def _interval_data(answer: Answer) -> dict[str, Any]:
    """Where a predicted time decides, the values for the slowest and the fastest run; null where no
    value keeps the limits."""
    between = of_answer(answer)
    if between is None:
        return {}
    ends = (None if p is None else number(_number_of(answer, p)) for p in between)
    return {"interval": dict(zip(("slowest", "fastest"), ends, strict=True))}


def _goal_data(answer: Answer) -> dict[str, Any]:
    if answer.goal is None:
        return {}
    between = answer.holds and of_quantity(answer.holds, answer.goal.quantity)
    return {
        "goal": {
            "quantity": answer.goal.quantity,
            "which": answer.goal.word,
            "interval": between and [number(bound) for bound in between],
        },
        "beside": [_probe_data(answer, probe) for probe in answer.beside],
    }


def _narrowed_data(answer: Answer) -> dict[str, Any]:
    """Of an answer whose layout is free: to which values of which keys layouts were narrowed where
    there were too many to search."""
    if "narrowed" not in answer.extra:
        return {}
    return {"narrowed": {key: list(values) for key, values in answer.extra["narrowed"].items()}}


def _offer_data(answer: Answer) -> dict[str, Any]:
    if "rows" not in answer.extra:
        return {}
    found = []
    for row in answer.extra["rows"]:
        holds = row.answer.holds if row.answer is not None else None
        found.append(
            {
                "accelerator": row.offer.accelerator,
                "price": number(row.offer.price),
                "whose": row.offer.whose,
                "source": row.offer.source or None,
                "devices": None if holds is None else number(holds.value),
                "cost": None if row.cost is None else number(row.cost),
                "reason": row.reason or None,
            }
        )
    return {"accelerators": found}


def _limit_data(limit: Limit) -> dict[str, Any]:
    return {
        "quantity": limit.quantity,
        "relation": limit.relation,
        "value": number(limit.value),
        "unit": limit.unit,
    }


def _probe_data(answer: Answer, probe: Probe) -> dict[str, Any]:
    data: dict[str, Any] = {"value": number(probe.value)}
    if answer.domain.key == "model":
        data = {"value": number(_number_of(answer, probe))}
    data["set"] = {k: number(v) for k, v in answer.domain.changes(probe.value).items()}
    if "layouts" in answer.extra:
        data["layout"] = {
            row.key: number(value)
            for row in COLUMNS
            if (value := probe.plan.get(row.key)) is not None and not _follows(row, probe.plan)
        }
    if answer.question == "cheapest":
        data["accelerator"] = probe.plan.get("cluster.accelerator.name")
    data["quantities"] = {name: number(value) for name, value in probe.values.items()}
    data["slack"] = {li.quantity: number(probe.slack(li)) for li in answer.limits}
    return data


def number(value: Any) -> Any:
    """A number as JSON has it."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def to_json(answer: Answer) -> str:
    """The answer as JSON text, keys in a fixed order."""
    return as_json(as_data(answer))
