"""The questions that people ask backwards, by name; ``answers.py`` prints what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.base import units
from planner.base.errors import Fault, PlanError, nearest
from planner.plans.document import Plan
from planner.questions import domains
from planner.questions.constraints import MARGIN, Limit, fit_limit, known, numeric, parse_limit
from planner.questions.domains import Domain
from planner.questions.solve import closed, families
from planner.questions.solve.answers import as_data, text, to_json
from planner.questions.solve.evaluations import Goal
from planner.questions.solve.solve import Answer, solve

__all__ = ["LAYOUTS", "NAMES", "QUESTIONS", "Answer", "as_data", "ask", "text", "to_json"]

#: What --with-layout takes: the layout of the plan, or the best one at each value.
LAYOUTS = ("own", "auto")


@dataclass(frozen=True)
class Asked:
    """What a question is about, its options checked."""

    plan: Plan
    question: str
    limits: tuple[Limit, ...]
    fits: Limit  # what a plan keeps in order to fit
    deadline: bool  # whether one of the limits is a deadline
    free: bool  # whether the layout is
    family: str | None = None
    accelerators: tuple[str, ...] | None = None


def ask(
    plan: Plan,
    question: str | None = None,
    *,
    vary: str | None = None,
    until: Sequence[str] = (),
    deadline: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    family: str | None = None,
    accelerators: Sequence[str] | str | None = None,
    with_layout: str | None = None,
    margin: str | None = None,
) -> Answer:
    """The answer to a named question, or to ``vary`` a key.

    Args:
        plan: the plan from which the question starts; what is not asked for keeps its value.
        question: a key of ``QUESTIONS``; None with ``vary``.
        vary: any numeric key of a plan, such as ``training.micro_batch``.
        until: limits such as ``memory.process<=70 GiB``; further limits of a named question.
        deadline: such as ``30 days``; a limit on ``time.training_days``.
        maximize: a quantity; of ``vary``'s values the one within the limits that makes it largest.
        minimize: as ``maximize``, smallest.
        family: a model whose shape ``largest-model`` scales in place of the plan's own.
        accelerators: what ``cheapest`` chooses from: names, with or without ``=PRICE``.
        with_layout: ``auto`` searches for the best layout at each value; ``own`` keeps the plan's.
            None is ``auto`` where the plan leaves its layout open, and where a model is asked
            for that a layout of another model would not suit.
        margin: how surely a plan fits: ``p95``, the default, a share such as ``5%``, or ``0``.

    Raises:
        PlanError: no such question, key or quantity; options that do not go together; nothing to
            limit the unknown.
    """
    limits = [parse_limit(limit) for limit in ([until] if isinstance(until, str) else until)]
    if deadline is not None:
        limits.append(_deadline(deadline))
    goal = _goal(vary, maximize, minimize)
    if with_layout is not None and with_layout not in LAYOUTS:
        near = nearest(with_layout, LAYOUTS)
        raise PlanError(Fault(f"--with-layout {with_layout}", None, "own or auto", near))
    if (question is None) == (vary is None):
        allowed = f"one of: {', '.join(NAMES)}; or --vary KEY"
        raise PlanError(Fault("ask a question or vary a key", None, allowed))
    if question is not None and question not in QUESTIONS:
        raise PlanError(Fault.among(f"unknown question {question}", question, NAMES))
    for option, given, takes in (
        ("--family", family, FAMILIES),
        ("--accelerators", accelerators, ("cheapest",)),
    ):
        if given is not None and question not in takes:
            raise PlanError(Fault(f"{option} goes with {' or '.join(takes)}", None))
    if isinstance(accelerators, str):
        accelerators = [name for name in accelerators.split(",") if name.strip()]
    asked = Asked(
        plan,
        question or "vary",
        tuple(limits),
        fit_limit(MARGIN if margin is None else margin, plan),
        any(limit.quantity == "time.training_days" for limit in limits),
        _free(plan, question, with_layout, family),
        family,
        None if accelerators is None else tuple(accelerators),
    )
    if vary is not None:
        return _vary(asked, vary, goal)
    assert question is not None
    if (question in LIMITED and not limits) or (question in DEADLINES and not asked.deadline):
        raise PlanError(Fault(f"{question} needs a deadline", None, "--deadline '30 days'"))
    return QUESTIONS[question](asked)


def _free(plan: Plan, question: str | None, layout: str | None, family: str | None) -> bool:
    """Whether the layout is free."""
    if plan.model is None and question in FAMILIES and family is None:
        return False  # of a size alone bytes are asked, which any layout divides
    if layout is not None:
        return layout == "auto"
    # Utilisation is predicted for each layout, so one that is assumed goes with the plan's own.
    timed = question == "largest-model-by-deadline" and plan.get("time.mfu") is not None
    trained = plan.get("training.mode") == "train" and plan.get("training.sequence_length")
    return plan.searched is not None or bool(question in FAMILIES and trained and not timed)


def _goal(vary: str | None, maximize: str | None, minimize: str | None) -> Goal | None:
    if maximize is None and minimize is None:
        return None
    if maximize is not None and minimize is not None:
        raise PlanError(Fault("--maximize and --minimize exclude each other", None, "one of them"))
    option = "--maximize" if maximize is not None else "--minimize"
    quantity = maximize if maximize is not None else minimize
    assert quantity is not None
    if vary is None:
        raise PlanError(Fault(f"{option} {quantity} needs a key to vary", None, "--vary KEY"))
    numeric(quantity)
    return Goal(quantity, 1 if maximize is not None else -1)


def _deadline(text: str) -> Limit:
    known("time.training_days")
    try:
        return Limit("time.training_days", "<=", units.parse(text, "days"))
    except units.UnitError as error:
        raise PlanError(Fault(f"--deadline: {error}", None, error.allowed, error.hint)) from None


def _vary(asked: Asked, key: str, goal: Goal | None) -> Answer:
    if goal is None and not asked.limits:
        raise PlanError(
            Fault(
                f"--vary {key} needs a limit or a goal",
                None,
                "--until 'QUANTITY<=VALUE', --maximize QUANTITY or --minimize QUANTITY",
            )
        )
    domain = domains.of_key(asked.plan, key, asked.free)
    limits = (asked.fits, *asked.limits) if asked.free else asked.limits
    if goal is None:
        return _solved(asked, domain, limits)
    if asked.free:
        from planner.questions.solve.solve_with_layout import optimise_free

        return optimise_free(asked.plan, domain, limits, goal)
    from planner.questions.solve.optimum import optimise

    return optimise(asked.plan, domain, limits, goal)


def _solved(
    asked: Asked,
    domain: Domain,
    limits: tuple[Limit, ...],
    direction: int | None = None,
    plan: Plan | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Answer:
    """The last value, with the plan's layout or with the best at each value."""
    if asked.free:
        from planner.questions.solve.solve_with_layout import solve_free

        found = solve_free(plan or asked.plan, domain, limits, direction)
    else:
        found = solve(plan or asked.plan, domain, limits, direction)
    return replace(found, question=asked.question, extra={**found.extra, **(extra or {})})


# the questions -----------------------------------------------------------------------------


def _largest_model(asked: Asked) -> Answer:
    """Both ways: bytes per parameter alone, and an architecture with everything counted; of a
    model that is given by its size only, the first alone."""
    extra: dict[str, Any] = {"closed": closed.largest_model(asked.plan)}
    if asked.family is not None:
        extra["family"] = asked.family
    elif asked.plan.model is None and extra["closed"]:
        most = Limit(families.SIZE, "<=", int(extra["closed"][0].value))
        domain = domains.of_key(asked.plan, "model.parameters")
        return _solved(asked, domain, (most, *asked.limits), 1, extra=extra)
    plan, family = families.of_plan(asked.plan, asked.family, asked.free)
    return _solved(asked, family.domain, (asked.fits, *asked.limits), 1, plan, extra)


def _of_key(key: str, direction: int, fits: bool = True) -> Callable[[Asked], Answer]:
    def answered(asked: Asked) -> Answer:
        domain = domains.of_key(asked.plan, key, asked.free)
        limits = (asked.fits, *asked.limits) if fits or asked.free else asked.limits
        return _solved(asked, domain, limits, direction)

    return answered


def _cheapest(asked: Asked) -> Answer:
    from planner.questions.solve.cheapest import cheapest

    return cheapest(asked.plan, (asked.fits, *asked.limits), asked.accelerators)


QUESTIONS: dict[str, Callable[[Asked], Answer]] = {
    "largest-model": _largest_model,
    "largest-model-by-deadline": _largest_model,
    "largest-batch": _of_key("training.micro_batch", 1),
    "longest-context": _of_key("training.sequence_length", 1),
    "fewest-devices": _of_key("cluster.devices", -1),
    "tokens-by-deadline": _of_key("training.tokens", 1, fits=False),
    "cheapest": _cheapest,
}
#: With the question of budgets.py, which is about a budget and has no unknown to search.
NAMES = (*QUESTIONS, "compute-optimal")
FAMILIES = ("largest-model", "largest-model-by-deadline")
#: Questions that nothing but a deadline ends; of tokens another limit will do.
DEADLINES = ("largest-model-by-deadline", "cheapest")
LIMITED = (*DEADLINES, "tokens-by-deadline")
