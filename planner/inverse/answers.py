"""Answers to inverse questions as text for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from planner.display import as_json
from planner.document import Plan
from planner.domains import DIGITS
from planner.inverse.probes import Probe
from planner.inverse.solve import Answer
from planner.limits import Limit, shown
from planner.plan import KERNELS, chosen_by
from planner.quantity import BOOK
from planner.untraced import evaluated

if TYPE_CHECKING:
    from planner.inverse.expression import Expression

#: Keys of a layout as they are shown, where they are not 1, 0 or false.
LAYOUT = (
    "parallelism.tensor",
    "parallelism.sequence",
    "parallelism.pipeline",
    "parallelism.virtual_pipeline",
    "parallelism.context",
    "parallelism.expert",
    "parallelism.expert_tensor",
    "parallelism.data",
    "parallelism.zero",
    "training.micro_batch",
    "training.recompute",
    "training.schedule",
)


def text(answer: Answer) -> str:
    """The certificate for a terminal: the answer first, then both sides of the limit."""
    lines = [_headline(answer), ""]
    rows = answer.extra.get("closed", ())
    if rows:
        lines.append(f"By bytes per parameter alone, {rows[0].formula}:")
        for row in rows:
            lines.append(f"  {row.case}")
            lines.append(f"    {row.substituted} = {shown(int(row.value), 'parameters')}")
        lines += ["", "As an architecture, everything on the device counted:"]
    lines += _table(answer)
    if "layouts" in answer.extra and answer.holds is not None:
        lines += ["", f"Layout: {layout_words(answer.holds.plan)}."]
    lines += ["", *_reasons(answer), *_closed(answer)]
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
            f"{name} {shown(value, unit_of(name))}" for name, value in _shown_values(probe).items()
        )
        lines.append(f"  {label:<6} {value_text(answer, probe):<{width}}  {values}")
    return lines


def _headline(answer: Answer) -> str:
    limits = " and ".join(map(str, answer.limits))
    if answer.holds is None:
        return f"{name_of(answer)}: no value satisfies {limits}"
    value = value_text(answer, answer.holds)
    if answer.question == "cheapest":
        cost = shown(answer.holds.values["cost.total"], "USD")
        return f"cheapest: {value} for {cost} with {limits}"
    if answer.goal is not None:
        best = shown(answer.holds.values[answer.goal.quantity], unit_of(answer.goal.quantity))
        what = f"{value} makes {answer.goal.quantity} {answer.goal.word}, {best}"
        return f"{name_of(answer)}: {what}" + (f", with {limits}" if limits else "")
    which = "largest" if answer.direction > 0 else "smallest"
    return f"{name_of(answer)}: {value} is the {which} with {limits}"


def name_of(answer: Answer) -> str:
    """What the answer is about: the question, or the key that was varied."""
    return answer.domain.key if answer.question == "vary" else answer.question


def value_text(answer: Answer, probe: Probe) -> str:
    """A value of the unknown for people; of a model its size and shape."""
    if answer.question == "cheapest":
        name = probe.plan.get("cluster.accelerator.name") or "devices"
        return f"{shown(probe.value, '1')} × {name}"
    if answer.domain.key != "model":
        return shown(probe.value, answer.domain.unit, digits=DIGITS)
    model, total = probe.plan.get("model"), evaluated(probe.plan, ["parameters.total"])
    heads = (model.get("attention") or {}).get("heads")
    shape = f"{model['layers']} layers, hidden {model['hidden']}"
    shape += f", {heads} heads" if heads else ""
    return f"{shown(total['parameters.total'], 'parameters')} ({shape})"


def _shown_values(probe: Probe) -> dict[str, Any]:
    """What was asked about, and beside the headroom what fills the device."""
    values = dict(probe.values)
    if "memory.headroom" in values:
        values |= evaluated(probe.plan, ["memory.process", "memory.capacity"])
    return values


def unit_of(quantity: str) -> str:
    return BOOK.declarations[quantity][0].unit


def _told(plan: Plan) -> tuple[str, ...]:
    """The keys of a layout, with that of the kernels where they do not follow from the others."""
    return (*LAYOUT, KERNELS) if chosen_by(plan, KERNELS) else LAYOUT


def layout_words(plan: Plan) -> str:
    """A layout in words, neutral values left out."""
    found = []
    for key in _told(plan):
        value = plan.get(key)
        name = "kernels" if key == KERNELS else key.split(".")[1].replace("_", " ")
        if value is True:
            found.append(name)
        elif value not in (None, False, 0, 1) or key == "training.micro_batch":
            found.append(f"{name} {value}")
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


def expression(answer: Answer) -> Expression | str | None:
    """The closed form of an answer, or why there is none; None where nothing is to be solved."""
    from planner.inverse.expression import NoForm, closed_form

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
    return [*lines, ""]


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
        **_offer_data(answer),
        "step": answer.domain.step,
        "notes": list(answer.notes),
        **_narrowed_data(answer),
        "tried": answer.tried,
    }


def _goal_data(answer: Answer) -> dict[str, Any]:
    if answer.goal is None:
        return {}
    return {
        "goal": {"quantity": answer.goal.quantity, "which": answer.goal.word},
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
        total = evaluated(probe.plan, ["parameters.total"])["parameters.total"]
        data = {"value": number(total)}
    data["set"] = {k: number(v) for k, v in answer.domain.changes(probe.value).items()}
    if "layouts" in answer.extra:
        data["layout"] = {
            key: number(probe.plan.get(key))
            for key in _told(probe.plan)
            if probe.plan.get(key) is not None
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
