"""Answers to inverse questions as text for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.base import numbers
from planner.base.display import as_json, columns
from planner.base.numbers import COUNTS, exact_text
from planner.book.quantity import Quantity
from planner.engine.evaluate import Number
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, KERNELS, LayoutKey, pick_shown
from planner.plans.plan import is_own_choice
from planner.questions.constraints import PREDICTED, Limit
from planner.questions.domains import DIGITS
from planner.questions.solve import bounds
from planner.questions.solve.evaluations import Goal, Probe
from planner.questions.solve.intervals import Ends, bound_answer, bound_quantity
from planner.questions.solve.references import list_smaller
from planner.questions.solve.solve import Answer
from planner.results.verdict import SURE

if TYPE_CHECKING:
    from planner.questions.solve.cheapest import OfferResult

#: Significant digits of a value that depends on a predicted time.
ROUGH = 2
#: Quantities that decide whether a plan fits.
FITTING = {"memory.headroom", SURE}
#: The limits on memory, in words.
SAID = {
    Limit(SURE, ">=", 0): "memory left at worst (95th percentile of live tensors)",
    PREDICTED: "the memory of the host",
    Limit("memory.headroom", ">=", 0): "the predicted memory, no margin",
}


def text(answer: Answer) -> str:
    """Format the certificate for a terminal: the answer first, then both sides of the limit."""
    between = bound_answer(answer)
    lines = [f"{answer.name}: {_write_headline(answer, between)}", ""]
    rows = answer.extra.get("closed", ())
    if rows:
        lines.append(f"By bytes per parameter alone, {rows[0].formula}:")
        for row in rows:
            value = numbers.text(int(row.value), "parameters", full=True)
            lines += [f"  {row.case}", f"    {row.substituted} = {value}"]
        if answer.domain.key == "model":
            lines += ["", "As an architecture, everything on the device counted:"]
        else:
            lines += ["", "With nothing but these bytes; activations and buffers need a shape."]
    if between is not None:
        most = "Largest" if answer.direction == 1 else "Smallest"
        lines.append(f"{most} value that works, and the next one:")
    cells = []
    for label, value, told in list_bounds(answer):
        what = ", ".join(f"{name} {text}" for name, text in told.items())
        cells.append((f"{label:<6} {value}", what))
    lines += columns(cells, indent="  ")
    lines += _state_layout(answer)
    lines += [
        "",
        *_costs(answer),
        *_explain_end(answer),
        *_list_notes(answer),
        *format_offers(answer),
    ]
    lines.append(f"Plans tried: {answer.tried}; the answer is evaluated exactly.")
    return "\n".join(lines) + "\n"


def sentence(answer: Answer) -> str:
    """Return the answer and its certificate in one sentence, without the name of the question: the
    feasible value, the infeasible one and by how much that misses the limit."""
    between = bound_answer(answer)
    said, holds, fails, limit = _write_headline(answer, between), answer.holds, answer.fails, None
    costs = "".join(f"; {costs[:1].lower()}{costs[1:].rstrip('.')}" for costs in _costs(answer))
    if answer.domain.key == "cluster.devices" and answer.domain.step:
        costs += f"; counts tried: {answer.domain.step}"
    if answer.goal is None and holds is not None and fails is not None:
        limit = answer.binding
    if limit is None or holds is None or fails is None:
        whys = [*_explain_end(answer), *(answer.notes if holds is None else ())]
        reasons = "; ".join(why[:1].lower() + why[1:].rstrip(".") for why in whys)
        return (f"{said}: {reasons}" if reasons else said) + costs
    exact = numbers.text(holds.number, answer.domain.unit, digits=DIGITS, full=True)
    which = f"{SAID.get(limit, limit)} is missed" if len(answer.limits) > 1 else "it is missed"
    at = "" if said.startswith(f"{exact} ") else f"holds at {exact}, "
    predicted = "as predicted it " if between is not None else ""
    beyond = f"fails at {value_text(answer, fails)}, where {which} by {fails.shortfall(limit)}"
    return f"{said}: {predicted}{at}{beyond}{costs}"


def tables(answer: Answer) -> list[list[Sequence[str]]]:
    """Return the tables of an answer, each with its header row first: the values of the
    certificate, the devices to choose from, and the sizes that bytes per parameter alone allow."""
    rows = list_bounds(answer)
    names = list(dict.fromkeys(name for _, _, told in rows for name in told))
    found: list[list[Sequence[str]]] = [[("", "value", *names)]]
    found[0] += [(label, value, *(told.get(n, "–") for n in names)) for label, value, told in rows]
    if devices := sort_offers(answer):
        found.append([("device", "price", "comes to"), *map(_format_offer, devices)])
    closed = answer.extra.get("closed", ())
    if closed:
        values = [numbers.text(int(r.value), "parameters", full=True) for r in closed]
        head = ("by bytes per parameter alone", closed[0].formula, "")
        rows_of = [(r.case, r.substituted, v) for r, v in zip(closed, values, strict=True)]
        found.append([head, *rows_of])
    return found


def remarks(answer: Answer) -> list[str]:
    """Return further remarks on an answer, one sentence each."""
    said = [line for line in [*_state_layout(answer), *_explain_end(answer)] if line]
    return [*said, *_list_notes(answer)]


def _costs(answer: Answer) -> list[str]:
    """Return a sentence with the answer's days, cost, utilisation and memory, as far as known."""
    found = bounds.evaluate_costs(answer.holds.plan) if answer.holds else {}
    after = {"time.mfu": " MFU", "memory.process": " a device"}
    told = [each.text() + after.get(key, "") for key, each in found.items()]
    if answer.holds and told and answer.domain.key in ("cluster.devices", bounds.MICRO_BATCH):
        batch = exact_text(answer.holds.plan.get("training.global_batch"))
        told.append(f"at a global batch of {batch}")
    return [f"It takes {', '.join(told)}."] if told else []


def _state_layout(answer: Answer) -> list[str]:
    """Return the line with the answer's layout; nothing where no layout was searched."""
    if "layouts" not in answer.extra or answer.holds is None:
        return []
    return ["", f"Layout: {summarise_layout(answer.holds.plan)}."]


def _list_notes(answer: Answer) -> list[str]:
    """List the published models next below the answer, the steps of the unknown, and notes."""
    names = [
        f"{name} ({numbers.text(size, 'parameters', 'table')})"
        for name, size in list_published(answer)
    ]
    lines = [f"Published models next below it: {', '.join(names)}."] if names else []
    if answer.domain.step:
        lines.append(f"Steps: {answer.domain.step}.")
    return [*lines, *(f"Note: {note}." for note in answer.notes)]


def list_bounds(answer: Answer) -> list[tuple[str, str, dict[str, str]]]:
    """List the values of the certificate, each with its label, its text and its quantities."""
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
        if FITTING & values.keys():  # beside the headroom: used memory and capacity
            values |= compute_values(side.plan, ["memory.process", "memory.capacity"])
        told = {
            name: find_definition(side, name).text(value, full=True)
            for name, value in values.items()
        }
        rows.append((label, value_text(answer, side), told))
    return rows


def _write_headline(answer: Answer, between: Ends | None) -> str:
    """Describe the answer in one clause: the value, the goal or direction, and the limits."""
    # The lines below explain the limit by bytes alone.
    by_bytes = answer.question != "vary" and answer.domain.key == "model.parameters"
    named = answer.limits[by_bytes:]
    limits = " and ".join(SAID.get(limit, str(limit)) for limit in named)
    if answer.holds is None:
        return f"no value satisfies {limits}"
    value = _format_result(answer, answer.holds, between)
    if answer.goal is not None:
        goal = find_definition(answer.holds, answer.goal.quantity)
        value_of_goal = answer.holds.values[answer.goal.quantity]
        ends = bound_quantity(answer.holds, answer.goal.quantity)
        best = goal.text(value_of_goal, full=True)
        if ends:
            best = _append_interval(value_of_goal, goal.unit, map(_rough, ends))
        if answer.question == "cheapest":
            offer = answer.extra["offer"]
            best += f" at {numbers.text(offer.price, 'USD/h')} ({offer.whose})"
            return f"{value} for {best} with {limits}"
        what = f"{value} makes {answer.goal.quantity} {answer.goal.word}, {best}"
        return what + (f", with {limits}" if limits else "")
    which = "largest" if answer.direction == 1 else "smallest"
    why = f"with {limits}" if limits else "by bytes of state alone"
    at_once = " at once on a copy of the model" if answer.domain.key == bounds.MICRO_BATCH else ""
    return f"{value}{at_once} is the {which} {why}"


def _format_result(answer: Answer, holds: Probe, between: Ends | None) -> str:
    """Format the value of the headline. One that depends on a predicted time is rounded and
    followed by its interval.

    Args:
        answer: the answer, whose domain has the unit.
        holds: the feasible value.
        between: the answers at both ends of the interval; None without an interval.
    """
    if between is None:
        return value_text(answer, holds, short=True)
    domain = answer.domain
    ends = sorted((end for end in between if end is not None), key=lambda end: end.index)
    told = [_rough(end.number) for end in ends]
    if None in between:
        told = ["no value", *told] if answer.direction == 1 else [*told, "no value"]
    if domain.key == "model":
        told[-1] += f", as predicted {describe_shape(holds)}"
    unit = "devices" if domain.key == "cluster.devices" else domain.unit
    return _append_interval(holds.number, unit, told)


def _append_interval(value: Number, unit: str, ends: Iterable[str]) -> str:
    """Format a value to two digits, followed by its interval.

    Args:
        value: the value, in ``unit``.
        unit: left out for a pure number.
        ends: the ends of the interval as texts.
    """
    return f"~{_rough(value)}{'' if unit in ('1', '–') else f' {unit}'} ({' to '.join(ends)})"


def _rough(value: Any) -> str:
    """Format a value to two significant digits, without a unit."""
    return numbers.text(value, "tokens", digits=ROUGH).partition(" ")[0]


def value_text(answer: Answer, probe: Probe, short: bool = False) -> str:
    """Format a value of the unknown.

    Args:
        answer: the answer that the value belongs to.
        probe: the value with its plan.
        short: whether to round sizes and counts to three digits.

    Returns:
        A model by its size and shape, devices with their name, any other value with its unit.
    """
    unit = answer.domain.unit
    if answer.question == "cheapest":
        name = probe.plan.get("cluster.accelerator.name") or "devices"
        return f"{numbers.text(probe.value, '1')} × {name}"
    if answer.domain.key == "model":
        size = numbers.text(probe.number, unit, full=not short)
        return f"{size} ({describe_shape(probe)})"
    if short and unit in COUNTS:
        return numbers.text(probe.value, unit)
    return numbers.text(probe.value, unit, digits=DIGITS, full=True)


def describe_shape(probe: Probe) -> str:
    """Return a model's layers, hidden size and heads in words."""
    model = probe.plan.get("model")
    heads = (model.get("attention") or {}).get("heads")
    shape = f"{model['layers']} layers, hidden {model['hidden']}"
    return shape + (f", {heads} heads" if heads else "")


def list_published(answer: Answer) -> list[tuple[str, int]]:
    """List built-in models next below the answer in size, with their parameters: of the same kind
    (dense or with experts), and with a size in their names."""
    if answer.domain.key != "model" or answer.holds is None:
        return []
    return list_smaller(answer.holds.plan, int(answer.holds.number))


def find_definition(probe: Probe, quantity: str) -> Quantity:
    """Return the definition of a quantity in the plan's book."""
    return probe.plan.book.quantities[quantity]


def _is_derived(row: LayoutKey, plan: Plan) -> bool:
    """Decide whether a key is the kernels and these follow from the rest of the layout."""
    return row.key == KERNELS and not is_own_choice(plan, KERNELS)


def summarise_layout(plan: Plan) -> str:
    """Format a layout in words, without neutral values."""
    found = []
    for row, value in pick_shown(plan.get):
        name = row.heading if row.key == KERNELS else row.name.replace("_", " ")
        if not _is_derived(row, plan):
            found.append(name if value is True else f"{name} {value}")
    return ", ".join(found)


def _explain_end(answer: Answer) -> list[str]:
    """Explain what ends the answer; of a best value, how its neighbours compare; without a feasible
    value, the limit that none meets, or two that contradict each other, and the nearest miss."""
    limit, holds, miss = answer.binding, answer.holds, answer.miss
    if holds is None and miss is not None and limit is not None:
        why, which = f"{limit} cannot be met", "it"
        if answer.together:
            first, second = answer.unmet
            why = f"{first} and {second} contradict each other: each can be met, both cannot be met"
            which = str(limit)
        return [f"{why}; the nearest value misses {which} by {miss.shortfall(limit)}."]
    ended = holds is not None and holds.index == answer.domain.last and answer.domain.bound
    reasons = [f"{ended[:1].upper()}{ended[1:]}."] if ended else []
    if answer.goal is not None and holds is not None:
        beside = [_compare_probe(answer.goal, holds, probe) for probe in answer.beside]
        return [*beside, *reasons] or ["No other value is valid."]
    if answer.fails is None or holds is None or limit is None:
        return reasons or ["No limit is reached: this is the last value that makes a valid plan."]
    left, short = limit.format_value(holds.slack(limit)), answer.fails.shortfall(limit)
    return [f"Limiting factor: {limit}; {left} to spare here, the next value is {short} short."]


def _compare_probe(goal: Goal, best: Probe, probe: Probe) -> str:
    """Describe how a neighbour of the best value compares: the limit that it misses, or by how much
    its goal is worse."""
    where = "One step less" if probe.index < best.index else "One step more"
    if probe.broken:
        limit = min(probe.broken, key=probe.share)
        return f"{where}: {limit} is missed by {probe.shortfall(limit)}."
    score = goal.score_probe(best)
    change = score - goal.score_probe(probe)
    if 1000 * change < max(score, -score):  # less than the digits that are shown
        return f"{where}: {goal.quantity} is the same{' within 0.1 %' if change else ''}."
    by = find_definition(probe, goal.quantity).text(change, full=True)
    return f"{where}: {goal.quantity} is {by} {'less' if goal.sense == 1 else 'more'}."


def format_offers(answer: Answer, limit: int | None = None) -> list[str]:
    """Format the result of each kind of device and the sources of prices, for ``cheapest``; with a
    ``limit`` only so many of the cheapest."""
    rows = sort_offers(answer)
    real = [row for row in rows if not row.offer.assumed]
    lines = columns([*map(_format_offer, real[:limit])], indent="  ")
    if limit or not rows:
        left = len(rows) - len(lines)
        rest = f"  {left} others cost more, are assumed or do not fit: plan.py solve"
        return [*lines, rest] if left else lines
    lines = ["", "Devices to choose from:", *lines]
    if assumed := rows[len(real) :]:
        lines += ["", "At an assumed price (not compared with those above):"]
        lines += columns([*map(_format_offer, assumed)], indent="  ")
    sources = dict.fromkeys((r.offer.whose, r.offer.source) for r in rows if r.offer.source)
    lines += ["", "Sources of the prices:"] if sources else []
    lines += [f"  {whose}: {source}" for whose, source in sources]
    return [*lines, ""]


def sort_offers(answer: Answer) -> list[OfferResult]:
    """Return the kinds of device, the dearest last, those at an assumed price after all others;
    empty for questions other than ``cheapest``."""
    return sorted(
        answer.extra.get("rows", ()),
        key=lambda row: (row.offer.assumed, row.cost is None, row.cost or 0),
    )


def _format_offer(row: OfferResult) -> tuple[str, str, str]:
    """Return a kind of device, its price with whose it is, and its result."""
    name, told = row.offer.accelerator, row.reason
    if row.holds is not None:
        name = f"{numbers.text(row.holds.value, '1')} × {name}"
        days = row.holds.values.get("time.training_days")
        told = numbers.text(row.cost, "USD")
        told += "" if days is None else f", {numbers.text(days, 'days')}"
    return name, f"{numbers.text(row.offer.price, 'USD/h')} ({row.offer.whose})", told


# as data -------------------------------------------------------------------------------------


def to_json(answer: Answer) -> str:
    """Return JSON text with keys in a fixed order; exact numbers are integers, others floats."""
    return as_json({**data_of(answer), "tried": answer.tried})


def data_of(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data; JSON prints its fractions as floats."""
    limit, extra = answer.binding, answer.extra
    sides = {"holds": answer.holds, "fails": answer.fails, "misses": answer.miss}
    data: dict[str, Any] = {
        "question": answer.name,
        "solved": answer.holds is not None,
        "unknown": answer.domain.key,
        "unit": answer.domain.unit,
        "direction": "largest" if answer.direction == 1 else "smallest",
        "limits": [li.to_json() for li in answer.limits],
        **{label: _dump_probe(answer, probe) for label, probe in sides.items() if probe},
    }
    between = bound_answer(answer)
    if between is not None:  # the values for the slowest and the fastest run
        ends = (end and end.number for end in between)
        data["interval"] = dict(zip(("slowest", "fastest"), ends, strict=True))
    data["binding"] = limit and limit.quantity
    data["unmet"] = [li.to_json() for li in answer.unmet]
    if answer.goal is not None:
        quantity = answer.goal.quantity
        leeway = answer.holds and bound_quantity(answer.holds, quantity)
        data["goal"] = {"quantity": quantity, "which": answer.goal.word, "interval": leeway}
        data["beside"] = [_dump_probe(answer, probe) for probe in answer.beside]
    data["closed"] = list(map(asdict, extra.get("closed", ())))
    data["family"] = extra.get("family")
    if answer.domain.key == "model":
        data["published"] = dict(list_published(answer))
    if answer.holds is not None:
        costs = bounds.evaluate_costs(answer.holds.plan)
        data["costs"] = {key: each.number for key, each in costs.items()}
    if "rows" in extra:
        data["accelerators"] = list(map(_dump_offer, extra["rows"]))
    data |= {"step": answer.domain.step, "notes": answer.notes}
    if "narrowed" in extra:  # to these values of keys, where layouts were too many to search
        data["narrowed"] = extra["narrowed"]
    return data


def _dump_probe(answer: Answer, probe: Probe) -> dict[str, Any]:
    """Return a value as plain data: the keys that it sets, its quantities, and its slack for each
    limit."""
    data = {"value": probe.number, "set": answer.domain.changes(probe.value)}
    if "layouts" in answer.extra:
        data["layout"] = {
            row.key: value
            for row in COLUMNS
            if (value := probe.plan.get(row.key)) is not None and not _is_derived(row, probe.plan)
        }
    if answer.question == "cheapest":
        data["accelerator"] = probe.plan.get("cluster.accelerator.name")
    data["quantities"] = probe.values
    data["slack"] = {limit.quantity: probe.slack(limit) for limit in answer.limits}
    return data


def _dump_offer(row: OfferResult) -> dict[str, Any]:
    """Return the result of one kind of device as plain data."""
    return {
        "accelerator": row.offer.accelerator,
        "price": row.offer.price,
        "whose": row.offer.whose,
        "assumed": row.offer.assumed,
        "source": row.offer.source or None,
        "devices": row.holds and row.holds.value,
        "cost": row.cost,
        "reason": row.reason or None,
    }
