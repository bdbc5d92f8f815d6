"""The questions that people ask backwards, by name, and what an answer looks like.

``ask`` answers, ``text`` prints, ``to_json`` and ``as_data`` give plain data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from planner import closed, domains, families, units
from planner.document import Plan
from planner.domains import Domain
from planner.errors import Fault, PlanError, nearest
from planner.evaluate import Absent, Evaluation
from planner.solve import Answer, Limit, Probe, evaluated, known, parse_limit, shown, solve

FITS = Limit("memory.headroom", ">=", 0)


def ask(
    plan: Plan,
    question: str | None = None,
    *,
    vary: str | None = None,
    until: Sequence[str] = (),
    deadline: str | None = None,
) -> Answer:
    """The answer to a named question, or to ``vary`` a key ``until`` limits are met.

    Args:
        plan: the plan from which the question starts; what is not asked for keeps its value.
        question: a key of ``QUESTIONS``; None with ``vary``.
        vary: any numeric key of a plan, such as ``training.micro_batch``.
        until: limits such as ``memory.process<=70 GiB``; further limits of a named question.
        deadline: such as ``30 days``; a limit on ``time.training_days``.

    Raises:
        PlanError: no such question, key or quantity; nothing to limit the unknown.
    """
    limits = [parse_limit(text) for text in until]
    if deadline is not None:
        limits.append(_deadline(deadline))
    if (question is None) == (vary is None):
        raise PlanError(
            Fault(
                "ask a question or vary a key",
                None,
                "one of: " + ", ".join(QUESTIONS) + "; or --vary KEY",
            )
        )
    if vary is not None:
        if not limits:
            raise PlanError(
                Fault(f"--vary {vary} needs a limit", None, "--until 'QUANTITY<=VALUE'")
            )
        return solve(plan, domains.of_key(plan, vary), tuple(limits), question="vary")
    assert question is not None
    if question not in QUESTIONS:
        raise PlanError(
            Fault(
                f"unknown question {question}",
                None,
                "one of: " + ", ".join(QUESTIONS),
                nearest(question, QUESTIONS),
            )
        )
    return QUESTIONS[question](plan, tuple(limits))


def _deadline(text: str) -> Limit:
    known("time.training_days")
    try:
        return Limit("time.training_days", "<=", units.parse(text, "days"))
    except units.UnitError as error:
        raise PlanError(Fault(f"--deadline: {error}", None, error.allowed, error.hint)) from None


# the questions -----------------------------------------------------------------------------


def _largest_model(plan: Plan, limits: tuple[Limit, ...]) -> Answer:
    """Both ways: bytes per parameter alone, and an architecture with everything counted."""
    extra: dict[str, Any] = {"closed": closed.largest_model(plan)}
    return solve(
        plan,
        families.of_plan(plan),
        (FITS, *limits),
        question="largest-model",
        direction=1,
        extra=extra,
    )


def _largest_batch(plan: Plan, limits: tuple[Limit, ...]) -> Answer:
    return _of_key(plan, "training.micro_batch", (FITS, *limits), "largest-batch", 1)


def _longest_context(plan: Plan, limits: tuple[Limit, ...]) -> Answer:
    return _of_key(plan, "training.sequence_length", (FITS, *limits), "longest-context", 1)


def _fewest_devices(plan: Plan, limits: tuple[Limit, ...]) -> Answer:
    return _of_key(plan, "cluster.devices", (FITS, *limits), "fewest-devices", -1)


def _tokens_by_deadline(plan: Plan, limits: tuple[Limit, ...]) -> Answer:
    if not limits:
        raise PlanError(Fault("tokens-by-deadline needs a deadline", None, "--deadline '30 days'"))
    return _of_key(plan, "training.tokens", limits, "tokens-by-deadline", 1)


def _of_key(
    plan: Plan, key: str, limits: tuple[Limit, ...], question: str, direction: int
) -> Answer:
    return solve(plan, domains.of_key(plan, key), limits, question=question, direction=direction)


QUESTIONS: dict[str, Callable[[Plan, tuple[Limit, ...]], Answer]] = {
    "largest-model": _largest_model,
    "largest-batch": _largest_batch,
    "longest-context": _longest_context,
    "fewest-devices": _fewest_devices,
    "tokens-by-deadline": _tokens_by_deadline,
}


# as text and data --------------------------------------------------------------------------


def text(answer: Answer) -> str:
    """The certificate for a terminal: the answer first, then both sides of the limit."""
    lines = [_headline(answer), ""]
    for row in answer.extra.get("closed", ()):
        if row is answer.extra["closed"][0]:
            lines.append(f"By bytes per parameter alone, {row.formula}:")
        lines.append(f"  {row.case}")
        lines.append(f"    {row.substituted} = {shown(int(row.value), 'parameters')}")
    if answer.extra.get("closed"):
        lines += ["", "As an architecture, everything on the device counted:"]
    width = max(len(_value(answer.domain, p)) for p in _sides(answer) if p)
    for label, probe in _labelled(answer):
        values = ", ".join(
            f"{name} {shown(value, _unit(name))}" for name, value in _shown_values(answer, probe)
        )
        lines.append(f"  {label:<6} {_value(answer.domain, probe):<{width}}  {values}")
    lines += ["", _reason(answer)]
    if answer.domain.step:
        lines.append(f"Steps: {answer.domain.step}.")
    lines += [f"Note: {note}." for note in answer.notes]
    lines.append(f"{answer.tried} plans evaluated exactly.")
    return "\n".join(lines) + "\n"


def _sides(answer: Answer) -> tuple[Probe | None, ...]:
    return answer.holds, answer.fails, answer.miss


def _labelled(answer: Answer) -> list[tuple[str, Probe]]:
    pairs = (("holds", answer.holds), ("fails", answer.fails), ("misses", answer.miss))
    return [(label, probe) for label, probe in pairs if probe is not None]


def _headline(answer: Answer) -> str:
    limits = " and ".join(map(str, answer.limits))
    if answer.holds is None:
        return f"{_name(answer)}: no value satisfies {limits}"
    which = "largest" if answer.direction > 0 else "smallest"
    value = _value(answer.domain, answer.holds)
    return f"{_name(answer)}: {value} is the {which} with {limits}"


def _name(answer: Answer) -> str:
    return answer.domain.key if answer.question == "vary" else answer.question


def _value(domain: Domain, probe: Probe) -> str:
    if domain.key != "model":
        return shown(probe.value, domain.unit, digits=domains.DIGITS)
    model, total = probe.plan.get("model"), evaluated(probe.plan, ["parameters.total"])
    heads = (model.get("attention") or {}).get("heads")
    shape = f"{model['layers']} layers, hidden {model['hidden']}"
    shape += f", {heads} heads" if heads else ""
    return f"{shown(total['parameters.total'], 'parameters')} ({shape})"


def _shown_values(answer: Answer, probe: Probe) -> list[tuple[str, Any]]:
    """The limits' quantities, and beside the headroom what fills the device."""
    values = dict(probe.values)
    if "memory.headroom" in values:
        evaluation = _evaluation(probe.plan)
        for name in ("memory.process", "memory.capacity"):
            try:
                values[name] = evaluation.value(name)
            except (Absent, KeyError):
                continue
    return list(values.items())


def _evaluation(plan: Plan) -> Evaluation:
    from planner import case

    return Evaluation(case.build(plan))


def _unit(quantity: str) -> str:
    from planner.quantity import BOOK

    return BOOK.declarations[quantity][0].unit


def _reason(answer: Answer) -> str:
    limit = answer.binding
    if answer.holds is None and answer.miss is not None and limit is not None:
        short = shown(-answer.miss.slack(limit), limit.unit)
        return f"{limit} cannot be met; the nearest value misses it by {short}."
    if answer.fails is None or answer.holds is None or limit is None:
        return "No limit binds: this is the last value that makes a valid plan."
    short = shown(-answer.fails.slack(limit), limit.unit)
    left = shown(answer.holds.slack(limit), limit.unit)
    return f"{limit} binds: {left} left here, short by {short} one step further."


def as_data(answer: Answer) -> dict[str, Any]:
    """Plain data for JSON: numbers are ints where exact, else floats."""
    limit = answer.binding
    return {
        "question": _name(answer),
        "solved": answer.holds is not None,
        "unknown": answer.domain.key,
        "unit": "parameters" if answer.domain.key == "model" else answer.domain.unit,
        "direction": "largest" if answer.direction > 0 else "smallest",
        "limits": [
            {
                "quantity": li.quantity,
                "relation": li.relation,
                "value": _number(li.value),
                "unit": li.unit,
            }
            for li in answer.limits
        ],
        **{label: _probe_data(answer, probe) for label, probe in _labelled(answer)},
        "binding": limit and limit.quantity,
        "closed": [
            {
                "case": row.case,
                "formula": row.formula,
                "substituted": row.substituted,
                "value": _number(row.value),
            }
            for row in answer.extra.get("closed", ())
        ],
        "step": answer.domain.step,
        "notes": list(answer.notes),
        "tried": answer.tried,
    }


def _probe_data(answer: Answer, probe: Probe) -> dict[str, Any]:
    data: dict[str, Any] = {"value": _number(probe.value)}
    if answer.domain.key == "model":
        total = evaluated(probe.plan, ["parameters.total"])["parameters.total"]
        data = {"value": _number(total)}
    data["set"] = {k: _number(v) for k, v in answer.domain.changes(probe.value).items()}
    data["quantities"] = {name: _number(value) for name, value in probe.values.items()}
    data["slack"] = {li.quantity: _number(probe.slack(li)) for li in answer.limits}
    return data


def _number(value: Any) -> Any:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def to_json(answer: Answer) -> str:
    """The answer as JSON text, keys in a fixed order."""
    return json.dumps(as_data(answer), indent=2, ensure_ascii=False) + "\n"
