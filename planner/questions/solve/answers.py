"""Answers to inverse questions as text for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.base.display import as_json, columns
from planner.engine.evaluate import Number
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, KERNELS, LayoutKey, stated
from planner.plans.plan import chosen_by
from planner.questions.constraints import Limit, shown
from planner.questions.domains import DIGITS
from planner.questions.solve.evaluations import Goal, Probe
from planner.questions.solve.intervals import Ends, of_answer, of_quantity
from planner.questions.solve.references import below
from planner.questions.solve.solve import Answer

if TYPE_CHECKING:
    from planner.questions.solve.cheapest import Row
    from planner.questions.solve.expression import ClosedForm

#: Units of what is counted in billions.
COUNTED = ("parameters", "tokens")
#: Significant digits of a value that rests on a prediction of time.
ROUGH = 2
#: Quantities that say whether a plan fits.
FITTING = {"memory.headroom", "memory.headroom_p95"}
#: What it takes to fit, in words.
SAID = {
    Limit("memory.headroom_p95", ">=", 0): "room for 95 % of published readings",
    Limit("memory.headroom", ">=", 0): "room for what is predicted, without a margin",
}


def text(answer: Answer) -> str:
    """The certificate for a terminal: the answer first, then both sides of the limit."""
    between = of_answer(answer)
    lines = [f"{answer.name}: {_headline(answer, between)}", ""]
    rows = answer.extra.get("closed", ())
    if rows:
        lines.append(f"By bytes per parameter alone, {rows[0].formula}:")
        for row in rows:
            value = shown(int(row.value), "parameters")
            lines += [f"  {row.case}", f"    {row.substituted} = {value}"]
        if answer.domain.key == "model":
            lines += ["", "As an architecture, everything on the device counted:"]
        else:
            lines += ["", "With nothing but these bytes; activations and buffers need a shape."]
    if between is not None:
        lines.append("As predicted, to the last step:")
    cells = []
    for label, value, told in sides(answer):
        what = ", ".join(f"{name} {text}" for name, text in told.items())
        cells.append((f"{label:<6} {value}", what))
    lines += columns(cells, indent="  ")
    lines += _layout(answer)
    lines += ["", *_reasons(answer), *_closed(answer), *_notes(answer), *_devices(answer)]
    lines.append(f"{answer.tried} plans tried, the answer evaluated exactly.")
    return "\n".join(lines) + "\n"


def sentence(answer: Answer) -> str:
    """The answer in one sentence with its certificate: where it holds, where it fails and by how
    much; without its name."""
    between = of_answer(answer)
    said, holds, fails, limit = _headline(answer, between), answer.holds, answer.fails, None
    if answer.goal is None and holds is not None and fails is not None:
        limit = answer.binding
    if limit is None or holds is None or fails is None:
        reasons = "; ".join(why[:1].lower() + why[1:].rstrip(".") for why in _reasons(answer))
        return f"{said}: {reasons}" if reasons else said
    exact = shown(holds.number, answer.domain.unit, DIGITS)
    which = f"{SAID.get(limit, limit)} is missed" if len(answer.limits) > 1 else "it is missed"
    at = "" if said.startswith(f"{exact} ") else f"holds at {exact}, "
    predicted = "as predicted it " if between is not None else ""
    beyond = f"fails at {value_text(answer, fails)}, where {which} by {fails.shortfall(limit)}"
    return f"{said}: {predicted}{at}{beyond}"


def tables(answer: Answer) -> list[list[Sequence[str]]]:
    """What is known of an answer, each table with its heads first: the values of its certificate,
    the devices to choose from, and what bytes alone allow."""
    rows = sides(answer)
    names = list(dict.fromkeys(name for _, _, told in rows for name in told))
    found: list[list[Sequence[str]]] = [[("", "value", *names)]]
    found[0] += [(label, value, *(told.get(n, "–") for n in names)) for label, value, told in rows]
    devices = offers(answer)
    if devices:
        found.append([("device", "price", "comes to"), *devices])
    closed = answer.extra.get("closed", ())
    if closed:
        values = [shown(int(row.value), "parameters") for row in closed]
        head = ("by bytes per parameter alone", closed[0].formula, "")
        rows_of = [(r.case, r.substituted, v) for r, v in zip(closed, values, strict=True)]
        found.append([head, *rows_of])
    return found


def remarks(answer: Answer) -> list[str]:
    """What else is to be said of an answer, a sentence each."""
    said = [line for line in [*_layout(answer), *_reasons(answer)] if line]
    form = expression(answer)
    if form is not None and not isinstance(form, str):
        value = shown(form.value, answer.domain.unit, DIGITS)
        said.append(
            f"In closed form: {form.unknown} = {form.formula} = {form.substituted} = {value}."
        )
    return [*said, *_notes(answer)]


def _layout(answer: Answer) -> list[str]:
    """The layout of the answer, where it was searched for."""
    if "layouts" not in answer.extra or answer.holds is None:
        return []
    return ["", f"Layout: {layout_words(answer.holds.plan)}."]


def _notes(answer: Answer) -> list[str]:
    """What the answer is held against, and what it leaves out."""
    names = [f"{name} ({shown(size, '1', short=True)})" for name, size in published(answer)]
    lines = [f"Published models next below it: {', '.join(names)}."] if names else []
    if answer.domain.step:
        lines.append(f"Steps: {answer.domain.step}.")
    return [*lines, *(f"Note: {note}." for note in answer.notes)]


def sides(answer: Answer) -> list[tuple[str, str, dict[str, str]]]:
    """Each value that the certificate names: what becomes of it, the value, its quantities."""
    best = answer.holds
    named = [("best" if answer.goal else "holds", best), ("fails", answer.fails)]
    for probe in answer.beside:
        named.append(("less" if best and probe.index < best.index else "more", probe))
    named.append(("misses", answer.miss))
    asked = [limit.quantity for limit in answer.limits]
    asked += [answer.goal.quantity] if answer.goal else []
    rows = []
    for label, side in named:
        if side is None:
            continue
        values = {name: side.values[name] for name in asked}
        if FITTING & values.keys():  # beside the headroom stands what fills the device
            values |= evaluated(side.plan, ["memory.process", "memory.capacity"])
        told = {name: shown(value, unit_of(side, name)) for name, value in values.items()}
        rows.append((label, value_text(answer, side), told))
    return rows


def _headline(answer: Answer, between: Ends | None) -> str:
    # Where bytes alone are asked for, the lines below say what limits them.
    by_bytes = answer.question != "vary" and answer.domain.key == "model.parameters"
    named = answer.limits[by_bytes:]
    limits = " and ".join(SAID.get(limit, str(limit)) for limit in named)
    if answer.holds is None:
        return f"no value satisfies {limits}"
    value = _value(answer, answer.holds, between)
    if answer.goal is not None:
        best, unit = (
            answer.holds.values[answer.goal.quantity],
            unit_of(answer.holds, answer.goal.quantity),
        )
        ends = of_quantity(answer.holds, answer.goal.quantity)
        best = _between(best, unit, map(_rough, ends)) if ends else shown(best, unit)
        if answer.question == "cheapest":
            offer = answer.extra["offer"]
            best += f" at {shown(offer.price, 'USD/h')} ({offer.whose})"
            return f"{value} for {best} with {limits}"
        what = f"{value} makes {answer.goal.quantity} {answer.goal.word}, {best}"
        return what + (f", with {limits}" if limits else "")
    which = "largest" if answer.direction == 1 else "smallest"
    why = f"with {limits}" if limits else "by bytes of state alone"
    return f"{value} is the {which} {why}"


def _value(answer: Answer, holds: Probe, between: Ends | None) -> str:
    """The value of the headline, rounded to what is known of it, with what the error of the
    prediction leaves open."""
    if between is None:
        return value_text(answer, holds, short=True)
    domain = answer.domain
    ends = sorted((end for end in between if end is not None), key=lambda end: end.index)
    told = [_rough(end.number) for end in ends]
    if None in between:
        told = ["no value", *told] if answer.direction == 1 else [*told, "no value"]
    if domain.key == "model":
        told[-1] += f", as predicted {shape_of(holds)}"
    unit = "devices" if domain.key == "cluster.devices" else domain.unit
    return _between(holds.number, unit, told)


def _between(value: Number, unit: str, ends: Iterable[str]) -> str:
    """A value to two digits, and between which it lies."""
    return f"~{_rough(value)}{'' if unit in ('1', '–') else f' {unit}'} ({' to '.join(ends)})"


def _rough(value: Any) -> str:
    return shown(value, "1", ROUGH, short=True)


def value_text(answer: Answer, probe: Probe, short: bool = False) -> str:
    """A value of the unknown for people; of a model its size, ``short`` in three digits, and its
    shape."""
    unit = answer.domain.unit
    if answer.question == "cheapest":
        name = probe.plan.get("cluster.accelerator.name") or "devices"
        return f"{shown(probe.value, '1')} × {name}"
    if answer.domain.key == "model":
        return f"{shown(probe.number, unit, short=short)} ({shape_of(probe)})"
    if short and unit in COUNTED:
        return shown(probe.value, unit, short=True)
    return shown(probe.value, unit, digits=DIGITS)


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
    return below(answer.holds.plan, int(answer.holds.number))


def unit_of(probe: Probe, quantity: str) -> str:
    return probe.plan.book.quantities[quantity].unit


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
    """Why the answer is not one step further; of a best value, what the next ones are; without a
    value, which limit none meets, or which two none meets together, and the nearest miss."""
    limit, holds, miss = answer.binding, answer.holds, answer.miss
    if holds is None and miss is not None and limit is not None:
        why, which = f"{limit} cannot be met", "it"
        if answer.together:
            first, second = answer.unmet
            why = f"{first} and {second} contradict each other: each can be met, both cannot be met"
            which = str(limit)
        return [f"{why}; the nearest value misses {which} by {miss.shortfall(limit)}."]
    if answer.goal is not None and holds is not None:
        beside = [_beside(answer.goal, holds, probe) for probe in answer.beside]
        return beside or ["There is no other valid value."]
    if answer.fails is None or holds is None or limit is None:
        return ["No limit binds: this is the last value that makes a valid plan."]
    left, short = shown(holds.slack(limit), limit.unit), answer.fails.shortfall(limit)
    return [f"{limit} binds: {left} left here, short by {short} one step further."]


def _beside(goal: Goal, best: Probe, probe: Probe) -> str:
    where = "One step less" if probe.index < best.index else "One step more"
    if probe.broken:
        limit = min(probe.broken, key=probe.share)
        return f"{where}: {limit} is missed by {probe.shortfall(limit)}."
    change = abs(goal.of(best) - goal.of(probe))
    if not change:
        return f"{where}: {goal.quantity} is the same."
    way = "less" if goal.sense == 1 else "more"
    return f"{where}: {goal.quantity} is {shown(change, unit_of(probe, goal.quantity))} {way}."


def _closed(answer: Answer) -> list[str]:
    """The closed form, or why there is none; nothing where no limit was solved for."""
    found = expression(answer)
    if found is None:
        return []
    if isinstance(found, str):
        return [] if answer.extra.get("closed") else [f"No closed form: {found}."]
    name, degree = found.unknown, ("first", "second")[found.degree - 1]
    value = shown(found.value, answer.domain.unit, DIGITS)
    return [
        "",
        f"In closed form, of {degree} degree in {name} ({answer.domain.key}):",
        f"  {name} = {found.formula}",
        f"  {' ' * len(name)} = {found.substituted}",
        f"  {' ' * len(name)} = {value}",
        *(f"  {symbol}: {meaning}" for symbol, meaning in found.where),
        "",
    ]


def expression(answer: Answer) -> ClosedForm | str | None:
    """The closed form of an answer, or why there is none; None where nothing is to be solved."""
    from planner.questions.solve.expression import NoForm, closed_form

    if answer.binding is None or answer.holds is None or answer.fails is None:
        return None
    try:
        return closed_form(answer)
    except NoForm as none:
        return str(none)


def _devices(answer: Answer) -> list[str]:
    """What every kind of device comes to, for ``cheapest``."""
    cells = offers(answer)
    if not cells:
        return []
    rows = answer.extra["rows"]
    lines = ["", "Devices to choose from:", *columns(cells, indent="  ")]
    sources = dict.fromkeys((r.offer.whose, r.offer.source) for r in rows if r.offer.source)
    lines += ["", "Whose prices these are:"] if sources else []
    lines += [f"  {whose}: {source}" for whose, source in sources]
    return [*lines, ""]


def offers(answer: Answer) -> list[tuple[str, str, str]]:
    """Each kind of device to choose from, its price, and what it comes to; none but of
    ``cheapest``."""
    cells = []
    for row in answer.extra.get("rows", ()):
        told = row.reason
        if row.holds is not None:
            days = row.holds.values.get("time.training_days")
            told = f"{shown(row.holds.value, '1')} devices, {shown(row.cost, 'USD')}"
            told += "" if days is None else f", {shown(days, 'days')}"
        price = f"{shown(row.offer.price, 'USD/h')} ({row.offer.whose})"
        cells.append((row.offer.accelerator, price, told))
    return cells


# as data -------------------------------------------------------------------------------------


def to_json(answer: Answer) -> str:
    """As JSON text, keys in a fixed order: numbers are ints where exact, else floats."""
    return as_json({**data_of(answer), "tried": answer.tried})


def data_of(answer: Answer) -> dict[str, Any]:
    """As plain data, whose fractions become floats in JSON."""
    limit, extra = answer.binding, answer.extra
    sides = {"holds": answer.holds, "fails": answer.fails, "misses": answer.miss}
    data: dict[str, Any] = {
        "question": answer.name,
        "solved": answer.holds is not None,
        "unknown": answer.domain.key,
        "unit": answer.domain.unit,
        "direction": "largest" if answer.direction == 1 else "smallest",
        "limits": [li.to_json() for li in answer.limits],
        **{label: _probe_data(answer, probe) for label, probe in sides.items() if probe},
    }
    between = of_answer(answer)
    if between is not None:  # the values for the slowest and the fastest run
        ends = (end and end.number for end in between)
        data["interval"] = dict(zip(("slowest", "fastest"), ends, strict=True))
    data["binding"] = limit and limit.quantity
    data["unmet"] = [li.to_json() for li in answer.unmet]
    if answer.goal is not None:
        quantity = answer.goal.quantity
        leeway = answer.holds and of_quantity(answer.holds, quantity)
        data["goal"] = {"quantity": quantity, "which": answer.goal.word, "interval": leeway}
        data["beside"] = [_probe_data(answer, probe) for probe in answer.beside]
    data["closed"] = list(map(asdict, extra.get("closed", ())))
    found = expression(answer)
    if isinstance(found, str):
        data["expression"] = {"none": found}
    else:
        data["expression"] = found and {**asdict(found), "where": dict(found.where)}
    data["family"] = extra.get("family")
    if answer.domain.key == "model":
        data["published"] = dict(published(answer))
    if "rows" in extra:
        data["accelerators"] = list(map(_offer_data, extra["rows"]))
    data |= {"step": answer.domain.step, "notes": answer.notes}
    if "narrowed" in extra:  # to these values of keys, where layouts were too many to search
        data["narrowed"] = extra["narrowed"]
    return data


def _probe_data(answer: Answer, probe: Probe) -> dict[str, Any]:
    data = {"value": probe.number, "set": answer.domain.changes(probe.value)}
    if "layouts" in answer.extra:
        data["layout"] = {
            row.key: value
            for row in COLUMNS
            if (value := probe.plan.get(row.key)) is not None and not _follows(row, probe.plan)
        }
    if answer.question == "cheapest":
        data["accelerator"] = probe.plan.get("cluster.accelerator.name")
    data["quantities"] = probe.values
    data["slack"] = {limit.quantity: probe.slack(limit) for limit in answer.limits}
    return data


def _offer_data(row: Row) -> dict[str, Any]:
    return {
        "accelerator": row.offer.accelerator,
        "price": row.offer.price,
        "whose": row.offer.whose,
        "source": row.offer.source or None,
        "devices": row.holds and row.holds.value,
        "cost": row.cost,
        "reason": row.reason or None,
    }
