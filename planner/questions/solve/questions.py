"""The inverse questions by name; ``answers.py`` prints their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from planner.base import units
from planner.base.errors import Fault, PlanError, nearest
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.examples import DECIDED_BY
from planner.plans.plan import about, variant
from planner.questions import domains
from planner.questions.constraints import (
    Limit,
    find_quantity,
    list_fit_limits,
    margin_of,
    numeric,
    parse_limit,
)
from planner.questions.domains import Domain
from planner.questions.solve import bounds, budgets, families, references
from planner.questions.solve.answers import text, to_json
from planner.questions.solve.evaluations import Goal, Probes
from planner.questions.solve.optimum import find_optimum
from planner.questions.solve.solve import Answer, solve_domain

__all__ = ["LAYOUTS", "NAMES", "QUESTIONS", "Answer", "ask", "prepare", "text", "to_json"]

#: Values of --with-layout: the layout of the plan, or the best one at each value.
LAYOUTS = ("own", "auto")


class Question(NamedTuple):
    """What a named question varies.

    Attributes:
        key: the dotted key of the unknown, or ``model``; empty for the kind and number of devices.
        direction: +1 for the largest value, -1 for the smallest; None for the direction in which a
            limit comes nearer.
        fits: whether a plan with its own layout has to fit.
        needs: the required limit: a deadline, or that or another limit.
    """

    key: str = ""
    direction: int | None = 1
    fits: bool = True
    needs: tuple[str, ...] = ()


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
#: With the question of budgets.py, which has a budget and no unknown to search.
NAMES = (*QUESTIONS, budgets.QUESTION)
FAMILIES = tuple(name for name, asked in QUESTIONS.items() if asked.key == MODEL)


def prepare(
    plan: Plan, question: str | None = None, *, budget: str | None = None, **options: Any
) -> Callable[[], Answer | budgets.Spending]:
    """Check the options of a question without answering it.

    Args:
        plan: the plan that the question starts from.
        question: its name; None with ``vary``.
        budget: of compute-optimal, which takes no other option.
        options: further options, as of the command.

    Returns:
        The call that answers the question.

    Raises:
        PlanError: as answering would, as far as the options alone decide.
    """
    if question == budgets.QUESTION:
        if any(options.values()):
            *others, last = (f"--{name.replace('_', '-')}" for name in options)
            listed = f"{', '.join(others)} or {last}" if others else last
            raise PlanError(f"{budgets.QUESTION} takes no {listed}", None)
        if budget is not None:
            budgets.parse_budget(budget)
        return partial(budgets.solve_budget, plan, budget)
    if budget is not None:
        raise PlanError("--budget is for one question", None, budgets.QUESTION)
    return Inquiry(plan, question, **options).compute_answer


def ask(plan: Plan, question: str | None = None, **options: Any) -> Answer:
    """Answer a named question, or one that varies a key; options as of the command.

    Args:
        plan: the plan that the question starts from.
        question: its name; None with ``vary``.
        options: as of the command ``solve``, with underscores.

    Returns:
        The answer with its certificate.

    Raises:
        PlanError: no such question, key or quantity; options that do not go together; nothing to
            limit the unknown.
    """
    return Inquiry(plan, question, **options).compute_answer()


@dataclass
class Inquiry:
    """A question with its options, which are checked when it is made.

    Attributes:
        plan: the plan from which the question starts; its other keys keep their values.
        question: a key of ``QUESTIONS``; None with ``vary``.
        vary: any numeric key of a plan, such as ``training.micro_batch``.
        until: limits such as ``memory.process<=70 GiB``; further limits of a named question.
        deadline: such as ``30 days``; a limit on ``time.training_days``.
        maximize: a quantity; the answer is the value of ``vary`` within limits that maximises it.
        minimize: a quantity that the answer minimises likewise.
        family: a model whose shape ``largest-model`` scales in place of the plan's own.
        accelerators: those that ``cheapest`` compares, with or without ``=PRICE``; None for all.
        with_layout: ``auto`` searches for the best layout at each value; ``own`` keeps the plan's.
            None is ``auto`` where the plan's layout is ``auto`` and for largest models in training.
        margin: the memory margin: ``p95`` (default), a share such as ``5%``, or ``0``.
        unbounded: lift the default bounds (``bounds.BOUNDS``).
        about: the key that varies, and the direction.
        limits: limits besides that a plan fits.
        fits: the limits that a plan must satisfy in order to fit.
        goal: what is maximised or minimised; None for the last value within limits.
    """

    plan: Plan
    question: str | None = None
    _: KW_ONLY
    vary: str | None = None
    until: Sequence[str] = ()
    deadline: str | None = None
    maximize: str | None = None
    minimize: str | None = None
    family: str | None = None
    accelerators: Sequence[str] | str | None = None
    with_layout: str | None = None
    margin: str | None = None
    unbounded: bool = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            PlanError: no such question, key or quantity; options that do not go together.
        """
        plan, question, vary = self.plan, self.question, self.vary
        several = [self.until] if isinstance(self.until, str) else self.until
        limits = [parse_limit(limit, plan) for limit in several]
        if self.deadline is not None:
            with units.name_faults("--deadline"):
                limits.append(Limit(bounds.DAYS, "<=", units.parse(self.deadline, "days")))
        self.limits = tuple(limits)
        self.goal = _goal(plan, vary, self.maximize, self.minimize)
        if self.with_layout is not None and self.with_layout not in LAYOUTS:
            near = nearest(self.with_layout, LAYOUTS)
            raise PlanError(f"--with-layout {self.with_layout}", None, "own or auto", near)
        if plan.reinforced and (question or self.with_layout == "auto"):
            wrong = f"{question or '--with-layout auto'} is of training alone, without a rollout"
            raise PlanError(wrong, None, "--vary KEY, or parallelism: auto in the plan")
        if (question is None) == (vary is None):
            allowed = f"one of: {', '.join(NAMES)}; or --vary KEY"
            raise PlanError("a question or --vary is missing", None, allowed)
        if question is not None and question not in QUESTIONS:
            raise PlanError(Fault.from_pool(f"unknown question {question}", question, NAMES))
        for option, given, takes in (
            ("--family", self.family, FAMILIES),
            ("--accelerators", self.accelerators, ("cheapest",)),
        ):
            if given is not None and question not in takes:
                raise PlanError(f"{option} is only for {' or '.join(takes)}", None)
        self.fits = list_fit_limits(margin_of(plan, self.margin), plan)
        self.about = QUESTIONS[question] if question else Question(vary or "", None, fits=False)
        if held := [key for key in DECIDED_BY.get(self.about.key, ()) if plan.get(key)]:
            self.plan = variant(plan, dict.fromkeys(held))
        if vary is not None:
            about(vary)
        if vary is not None and self.goal is None and not limits:
            goals = "--until 'QUANTITY<=VALUE', --maximize QUANTITY or --minimize QUANTITY"
            raise PlanError(f"--vary {vary} needs a limit or a goal", None, goals)
        needs = self.about.needs
        if needs and not self._has_deadline() and not (limits and "limit" in needs):
            raise PlanError(f"{question} needs a deadline", None, "--deadline '30 days'")

    def _has_deadline(self) -> bool:
        """Decide whether a limit is on the days of training."""
        return any(limit.quantity == bounds.DAYS for limit in self.limits)

    def compute_answer(self) -> Answer:
        """Answer the question; both sides of the answer are evaluated exactly.

        Raises:
            PlanError: no value makes a valid plan, a quantity is absent, or nothing limits the
                unknown.
        """
        found = self._answer_within(self.limits)
        if found.holds is None:
            way = bounds.suggest_batch(found)
            return replace(found, notes=(*found.notes, *filter(None, [way])))
        if self.unbounded or self._has_deadline():
            return found
        # Few answers take that long, so this is checked afterwards.
        days, note = bounds.bound_of(self.plan, bounds.DAYS)
        most = Limit(bounds.DAYS, "<=", days)
        try:
            took = compute_values(found.holds.plan, [bounds.DAYS])[bounds.DAYS]
        except PlanError:  # the plan does not say how much it trains
            return found
        if most.is_met(took):
            return found
        again = self._answer_within((*self.limits, most))
        note = note if again.holds else f"no value stays within it: {note}"
        found = again if again.holds else found
        return replace(found, notes=(*found.notes, note))

    def _answer_within(self, limits: tuple[Limit, ...]) -> Answer:
        """Answer the question within some limits."""
        plan, question, fits = self.plan, self.question, self.fits
        if question == "cheapest":
            from planner.questions.solve.cheapest import find_cheapest

            offers = self.accelerators
            if isinstance(offers, str):
                offers = [name for name in offers.split(",") if name.strip()]
            return find_cheapest(plan, (*fits, *limits), offers, self.unbounded)
        free, extra = _is_free(plan, question, self.with_layout, self.family), dict[str, Any]()
        if question in FAMILIES:
            plan, domain, fits, extra = _build_models(plan, self.family, free, fits)
        else:
            domain = domains.build_domain(plan, self.about.key, free)
        if not self.unbounded:
            domain = bounds.cut_domain(plan, domain)
        kept = (*fits, *limits) if free or self.about.fits else limits
        if free:
            from planner.questions.solve import solve_with_layout

            space = solve_with_layout.build_options(plan, plan, self.unbounded)
            if self.goal is not None:
                return solve_with_layout.find_free_optimum(plan, domain, kept, self.goal, space)
            found = solve_with_layout.solve_free(
                plan, domain, kept, self.about.direction, space=space
            )
        elif self.goal is not None:
            return find_optimum(Probes(plan, domain, kept, [self.goal.quantity]), self.goal)
        else:
            found = solve_domain(Probes(plan, domain, kept), self.about.direction)
        return replace(found, question=question or "vary", extra={**found.extra, **extra})


def _is_free(plan: Plan, question: str | None, layout: str | None, family: str | None) -> bool:
    """Decide whether the layout is free.

    Args:
        plan: the plan that the question starts from.
        question: its name; None if it varies a key.
        layout: the option ``with_layout``, which decides where it is given.
        family: the model whose shape is scaled; None for the plan's own.
    """
    if plan.model is None and question in FAMILIES and family is None:
        return False  # a size alone is limited by bytes, whatever the layout
    if layout is not None:
        return layout == "auto"
    if plan.reinforced:
        return False
    # An assumed utilisation goes with the plan's own layout; each other one has its prediction.
    timed = question == "largest-model-by-deadline" and plan.settings["time.assumed"]
    trained = plan.get("training.mode") == "train" and plan.get("training.sequence_length")
    return plan.searched is not None or bool(question in FAMILIES and trained and not timed)


def _goal(plan: Plan, vary: str | None, maximize: str | None, minimize: str | None) -> Goal | None:
    """Return what is to be maximised or minimised; None for neither.

    Raises:
        PlanError: both are given, no key varies, or the quantity is unknown or a name.
    """
    if maximize is not None and minimize is not None:
        raise PlanError("--maximize and --minimize exclude each other", None, "one of them")
    for option, quantity, sense in (("--maximize", maximize, 1), ("--minimize", minimize, -1)):
        if quantity is not None:
            if vary is None:
                raise PlanError(f"{option} {quantity} needs a key to vary", None, "--vary KEY")
            name = find_quantity(plan, quantity)
            numeric(name, plan.book)
            return Goal(name, sense)
    return None


def _build_models(
    plan: Plan, family: str | None, free: bool, fits: tuple[Limit, ...]
) -> tuple[Plan, Domain, tuple[Limit, ...], dict[str, Any]]:
    """Build the domain of ``largest-model``.

    Args:
        plan: the plan that the question starts from.
        family: the model whose shape is scaled; None for the plan's own.
        free: whether the layout is free.
        fits: the limits that a plan must satisfy in order to fit.

    Returns:
        A plan with one of the models, the domain, the limits that it fits, and extras of the
            answer: the sizes that bytes per parameter alone allow. For a model that is given by its
            size only, the limit is that size.
    """
    extra: dict[str, Any] = {"closed": references.compute_by_bytes(plan)}
    if family is not None:
        extra["family"] = family
    elif plan.model is None and extra["closed"]:
        most = Limit(families.SIZE, "<=", int(extra["closed"][0].value))
        return plan, domains.build_domain(plan, "model.parameters"), (most,), extra
    plan, models = families.build_family(plan, family, free)
    return plan, models.domain, fits, extra
