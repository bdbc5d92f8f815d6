"""The questions that people ask backwards, by name; ``answers.py`` prints what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from planner.base import units
from planner.base.errors import Fault, PlanError, nearest
from planner.plans.document import Plan
from planner.plans.plan import about
from planner.questions import domains
from planner.questions.constraints import Limit, called, fit_limit, margin_of, numeric, parse_limit
from planner.questions.domains import Domain
from planner.questions.solve import budgets, families, references
from planner.questions.solve.answers import text, to_json
from planner.questions.solve.evaluations import Goal, Probes
from planner.questions.solve.optimum import optimise
from planner.questions.solve.solve import Answer, solve

__all__ = ["LAYOUTS", "NAMES", "QUESTIONS", "Answer", "ask", "prepare", "text", "to_json"]

#: What --with-layout takes: the layout of the plan, or the best one at each value.
LAYOUTS = ("own", "auto")


class Question(NamedTuple):
    """What a question varies, and which way."""

    key: str = ""  # none: the kind and the number of devices
    direction: int | None = 1  # None: the way on which a limit comes nearer
    fits: bool = True  # whether a plan has to fit whose layout is its own
    needs: tuple[str, ...] = ()  # what has to end it: a deadline, or that or another limit


MODEL = "model"  # its width and its depth
QUESTIONS: dict[str, Question] = {
    "largest-model": Question(MODEL),
    "largest-model-by-deadline": Question(MODEL, needs=("deadline",)),
    "largest-batch": Question("training.micro_batch"),
    "longest-context": Question("training.sequence_length"),
    "fewest-devices": Question("cluster.devices", -1),
    "tokens-by-deadline": Question("training.tokens", fits=False, needs=("deadline", "limit")),
    "cheapest": Question(needs=("deadline",)),
}
#: With the question of budgets.py, which is about a budget and has no unknown to search.
NAMES = (*QUESTIONS, budgets.QUESTION)
FAMILIES = tuple(name for name, asked in QUESTIONS.items() if asked.key == MODEL)


def prepare(
    plan: Plan, question: str | None = None, *, budget: str | None = None, **options: Any
) -> Callable[[], Answer | budgets.Spending]:
    """What answers any question when it is called, its options checked: those of ``ask``, and of
    compute-optimal a ``budget``.

    Raises:
        PlanError: as ``ask`` and ``budgets.ask``, as far as the options alone tell.
    """
    if question == budgets.QUESTION:
        if any(options.values()):
            *others, last = (f"--{name.replace('_', '-')}" for name in options)
            listed = f"{', '.join(others)} or {last}" if others else last
            raise PlanError(Fault(f"{budgets.QUESTION} takes no {listed}", None))
        if budget is not None:
            budgets.amount(budget)
        return partial(budgets.ask, plan, budget)
    if budget is not None:
        raise PlanError(Fault("--budget is for one question", None, budgets.QUESTION))
    return _inquiry(plan, question, **options).answer


def ask(plan: Plan, question: str | None = None, **options: Any) -> Answer:
    """The answer to a named question, or to ``vary`` a key; see ``_inquiry`` for the options.

    Raises:
        PlanError: no such question, key or quantity; options that do not go together; nothing to
            limit the unknown.
    """
    return _inquiry(plan, question, **options).answer()


@dataclass(frozen=True)
class Inquiry:
    """A question with its options, checked as far as they alone tell."""

    plan: Plan
    question: str | None
    about: Question
    limits: tuple[Limit, ...]  # besides that it fits
    fits: Limit
    goal: Goal | None
    family: str | None
    accelerators: Sequence[str] | str | None
    with_layout: str | None

    def answer(self) -> Answer:
        """The answer, both sides of it evaluated exactly.

        Raises:
            PlanError: no value makes a valid plan, a quantity is absent, or nothing limits the
                unknown.
        """
        plan, question, fits, limits = self.plan, self.question, self.fits, self.limits
        if question == "cheapest":
            from planner.questions.solve.cheapest import cheapest

            offers = self.accelerators
            if isinstance(offers, str):
                offers = [name for name in offers.split(",") if name.strip()]
            return cheapest(plan, (fits, *limits), offers)
        free, extra = _free(plan, question, self.with_layout, self.family), dict[str, Any]()
        if question in FAMILIES:
            plan, domain, fits, extra = _models(plan, self.family, free, fits)
        else:
            domain = domains.of_key(plan, self.about.key, free)
        kept = (fits, *limits) if free or self.about.fits else limits
        if free:
            from planner.questions.solve.solve_with_layout import optimise_free, solve_free

            if self.goal is not None:
                return optimise_free(plan, domain, kept, self.goal)
            found = solve_free(plan, domain, kept, self.about.direction)
        elif self.goal is not None:
            return optimise(Probes(plan, domain, kept, [self.goal.quantity]), self.goal)
        else:
            found = solve(Probes(plan, domain, kept), self.about.direction)
        return replace(found, question=question or "vary", extra={**found.extra, **extra})


def _inquiry(
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
) -> Inquiry:
    """A named question, or to ``vary`` a key.

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
        PlanError: no such question, key or quantity; options that do not go together.
    """
    several = [until] if isinstance(until, str) else until
    limits = [parse_limit(limit, plan) for limit in several]
    if deadline is not None:
        try:
            limits.append(Limit("time.training_days", "<=", units.parse(deadline, "days")))
        except units.UnitError as error:
            fault = Fault(f"--deadline: {error}", None, error.allowed, error.hint)
            raise PlanError(fault) from None
    goal = _goal(plan, vary, maximize, minimize)
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
    fits = fit_limit(margin_of(plan, margin), plan)
    asked = QUESTIONS[question] if question else Question(vary or "", None, fits=False)
    if vary is not None:
        about(vary)
    if vary is not None and goal is None and not limits:
        goals = "--until 'QUANTITY<=VALUE', --maximize QUANTITY or --minimize QUANTITY"
        raise PlanError(Fault(f"--vary {vary} needs a limit or a goal", None, goals))
    timed = any(limit.quantity == "time.training_days" for limit in limits)
    if asked.needs and not timed and not (limits and "limit" in asked.needs):
        raise PlanError(Fault(f"{question} needs a deadline", None, "--deadline '30 days'"))
    return Inquiry(
        plan, question, asked, tuple(limits), fits, goal, family, accelerators, with_layout
    )


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


def _goal(plan: Plan, vary: str | None, maximize: str | None, minimize: str | None) -> Goal | None:
    if maximize is not None and minimize is not None:
        raise PlanError(Fault("--maximize and --minimize exclude each other", None, "one of them"))
    for option, quantity, sense in (("--maximize", maximize, 1), ("--minimize", minimize, -1)):
        if quantity is not None:
            if vary is None:
                needs = f"{option} {quantity} needs a key to vary"
                raise PlanError(Fault(needs, None, "--vary KEY"))
            name = called(plan, quantity)
            numeric(name, plan.book)
            return Goal(name, sense)
    return None


def _models(
    plan: Plan, family: str | None, free: bool, fits: Limit
) -> tuple[Plan, Domain, Limit, dict[str, Any]]:
    """What largest-model asks about, both ways: bytes per parameter alone, and an architecture with
    everything counted; of a model that is given by its size only, the first alone."""
    extra: dict[str, Any] = {"closed": references.by_bytes(plan)}
    if family is not None:
        extra["family"] = family
    elif plan.model is None and extra["closed"]:
        most = Limit(families.SIZE, "<=", int(extra["closed"][0].value))
        return plan, domains.of_key(plan, "model.parameters"), most, extra
    plan, models = families.of_plan(plan, family, free)
    return plan, models.domain, fits, extra
