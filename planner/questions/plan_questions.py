"""The questions and requirements that a plan states (its keys ``questions`` and ``require``).

They are parsed and checked with the plan, but answered only for the result that is shown
in this module, never for the plans that a search, a study or a question tries.
A plan without them imports nothing for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planner.base.display import format_flow
from planner.base.errors import Fault, Place, PlanError, collect_faults
from planner.documents.yaml_nodes import Node
from planner.plans.document import Plan

if TYPE_CHECKING:
    from planner.engine.evaluate import Number
    from planner.questions.constraints import Limit
    from planner.results.result import Result

QUESTIONS, REQUIRE = "questions", "require"
#: The option that a question's only value stands for, if not ``deadline``.
ALONE = {"compute-optimal": "budget"}


def evaluate(plan: Plan) -> Result:
    """Evaluate a plan; its questions and requirements are answered lazily."""
    from planner.results import result

    return attach_questions(result.evaluate_plan(plan))


def attach_questions(result: Result) -> Result:
    """Attach to a result the questions and requirements of its plan, answered lazily."""
    result.questions = PlanQuestions(result)
    return result


def check_questions(plan: Plan) -> Plan:
    """Check the questions and requirements of a plan without answering them, and return the plan.

    Raises:
        PlanError: every fault, at its place.
    """
    faults = list[Fault]()
    for node, read in [
        *((node, _parse_question) for node in _list_items(plan, QUESTIONS)),
        *((node, _parse_requirement) for node in _list_items(plan, REQUIRE)),
    ]:
        with collect_faults(faults):
            read(plan, node)
    if faults:
        raise PlanError(faults)
    return plan


class PlanQuestions:
    """The answered questions (``answers``) and checked ``requirements`` of a result's plan."""

    def __init__(self, result: Result) -> None:
        self.result = result

    @cached_property
    def answers(self) -> tuple[PlanAnswer, ...]:
        """The answers in the order of the questions.

        Raises:
            PlanError: a question without an answer, such as one without a limit, at its place.
        """
        plan = self.result.plan
        answers = tuple(_parse_question(plan, node) for node in _list_items(plan, QUESTIONS))
        for answer in answers:
            _ = answer.found
        return answers

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """Each requirement, and whether it is met."""
        plan = self.result.plan
        read = (_parse_requirement(plan, node) for node in _list_items(plan, REQUIRE))
        return tuple(judge_limit(self.result, *requirement) for requirement in read)

    @property
    def missed(self) -> list[Fault]:
        """The requirements that are not met or cannot be evaluated."""
        return [Fault(one.sentence, one.place) for one in self.requirements if not one.holds]

    def to_json(self) -> dict[str, Any]:
        """Return plain data as schemas/result.schema.json describes it; empty without questions."""
        data: dict[str, Any] = {}
        if self.answers:
            data["answers"] = [answer.to_json() for answer in self.answers]
        if self.requirements:
            data["requirements"] = [one.to_json() for one in self.requirements]
        return data


def _list_items(plan: Plan, key: str) -> list[Node]:
    """Return the items of a list of the plan as they were written."""
    node = plan.document.node.value
    found = node.get(key) if isinstance(node, dict) else None
    return found.value if found is not None and isinstance(found.value, list) else []


# questions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanAnswer:
    """A question of a plan with its answer, which is computed once.

    Attributes:
        name: its own name, else the question or the key that it varies.
        item: the question as the plan states it, as plain data.
        place: where the plan states it.
        ready: computes the answer.
    """

    name: str
    item: Any
    place: Place
    ready: Callable[[], Any]

    @cached_property
    def found(self) -> Any:
        """A ``solve.Answer``, or for a budget a ``Spending``.

        Raises:
            PlanError: it has no answer; at the place of the question.
        """
        try:
            return self.ready()
        except PlanError as error:
            raise PlanError(_place_faults(error, self.name, self.place)) from None

    @cached_property
    def _writer(self) -> ModuleType:
        """The module that prints answers of this kind."""
        from planner.questions.solve import answers, budgets

        return budgets if isinstance(self.found, budgets.Spending) else answers

    @cached_property
    def sentence(self) -> str:
        """The answer with its certificate: what works, what does not, and by how much."""
        return str(self._writer.sentence(self.found))

    @cached_property
    def remarks(self) -> list[str]:
        """Further remarks, a sentence each."""
        return list(self._writer.remarks(self.found))

    @cached_property
    def tables(self) -> list[Sequence[Sequence[str]]]:
        """Its tables, each with its headings first."""
        return list(self._writer.tables(self.found))

    def to_json(self) -> dict[str, Any]:
        """Return the data of ``solve --format json``, with the question and the sentence."""
        said = {"asked": self.item, "name": self.name, "sentence": self.sentence}
        return {**said, **self._writer.data_of(self.found)}


def _parse_question(plan: Plan, node: Node) -> PlanAnswer:
    """Parse a question of a plan and check its options.

    Raises:
        PlanError: what is wrong with it, at its place.
    """
    from planner.questions.solve import questions

    question, options = _read_options(node)
    changes, name = options.pop("set", None), options.pop("name", None)
    name = name or question or options["vary"]
    try:
        asked = plan if changes is None else _change_plan(plan, changes)
        ready = questions.prepare(asked, question, **options)
    except PlanError as error:
        raise PlanError(_place_faults(error, name, node.place)) from None
    return PlanAnswer(name, node.plain(), node.place, ready)


def _read_options(node: Node) -> tuple[str | None, dict[str, Any]]:
    """Return an item's question (None: it varies a key) and its options as on a command line."""
    if not isinstance(node.value, dict):
        return str(node.value), {}
    if "vary" in node.value:
        return None, {key: _read_option(key, value) for key, value in node.value.items()}
    ((question, value),) = node.value.items()
    if isinstance(value.value, dict):
        return question, {key: _read_option(key, inner) for key, inner in value.value.items()}
    return question, {ALONE.get(question, "deadline"): _write_scalar(value)}


def _read_option(key: str, node: Node) -> Any:
    """Return an option as on a command line: numbers as texts with their units; changed keys and
    flags as data."""
    if key in ("set", "unbounded"):
        return node.plain()
    if isinstance(node.value, list):
        return [_write_scalar(item) for item in node.value]
    return _write_scalar(node)


def _write_scalar(node: Node) -> str:
    """Return a scalar as it was written."""
    return node.text if node.text is not None else format_flow(node.value)


def _change_plan(plan: Plan, changes: dict[str, Any]) -> Plan:
    """Change some keys of a plan and drop its questions; a layout that it leaves open is searched
    for again.

    Raises:
        PlanError: it is no valid plan.
    """
    from planner.questions import loading

    root = plan.document.node.drop_defaults()
    kept = {key: node for key, node in root.entries.items() if key not in (QUESTIONS, REQUIRE)}
    if plan.searched is not None:
        found = plan.searched
        chosen = {"auto": True, "margin": found["margin"], "for": found["launcher"]}
        said = {f"parallelism.{key}": value for key, value in chosen.items() if value is not None}
        changes = {**said, **changes}
    return loading.load(replace(root, value=kept), changes, team=plan.document.defaults)


def _place_faults(error: PlanError, name: str, place: Place) -> Iterator[Fault]:
    """Yield the faults of a question or requirement at its place, with options spelled as keys.

    Args:
        error: the faults, whose texts may name options such as ``--with-layout``.
        name: put before a message that does not contain it.
        place: where the plan states the question.
    """

    def keys(text: str | None) -> str | None:
        """Replace each option in a text by the key of a plan: ``--with-layout`` by
        ``with_layout:``."""
        return text and re.sub(r"--([a-z-]+)", lambda f: f"{f[1].replace('-', '_')}:", text)

    for fault in error.faults:
        message = keys(fault.message) or ""
        message = message if name in message else f"{name}: {message}"
        yield replace(fault, message=message, place=place, allowed=keys(fault.allowed))


# requirements --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Requirement:
    """A requirement with the value that decides it.

    Attributes:
        text: the requirement as it was written.
        place: where the plan states it.
        limit: what it requires.
        value: the value of the quantity; None if it has none.
        holds: whether the requirement is met; None if it cannot be evaluated.
        reason: why it cannot be evaluated.
        worst: the end of the 90 % interval that fails, if only the prediction meets the limit.
    """

    text: str
    place: Place
    limit: Limit
    value: Number | None
    holds: bool | None
    reason: str = ""
    worst: Number | None = None

    @property
    def sentence(self) -> str:
        """Whether the requirement is met, with the value, and by how much it is missed."""
        if self.holds is None or self.value is None:
            return f"{self.text} is not known: {self.reason}"
        value = self.limit.format_value(self.value)
        if self.limit.quantity not in self.text:
            value = f"{self.limit.quantity} is {value}"
        if self.holds:
            may = "" if self.worst is None else f", {self.limit.format_value(self.worst)} at worst"
            return f"{self.text} holds ({value}{may})"
        off = self.limit.format_value(-self.limit.compute_slack(self.value))
        return f"{self.text} does not hold: {value}, missed by {off}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data as schemas/result.schema.json describes it."""
        return {
            "requirement": self.text,
            "quantity": self.limit.quantity,
            "relation": self.limit.relation,
            "limit": self.limit.value,
            "value": self.value,
            "unit": self.limit.unit,
            "holds": self.holds,
            "sentence": self.sentence,
        }


def judge_limit(
    result: Result, text: str, place: Place, limit: Limit, fits: bool = False
) -> Requirement:
    """Decide whether a result satisfies a limit.

    Args:
        result: the evaluated plan.
        text: the requirement as it was written.
        place: where it was written.
        limit: what it requires.
        fits: whether the limit is what makes the plan fit; then it is unknown if only the optimizer
            states are known.

    Returns:
        The requirement with its value and whether it is met.
    """
    from planner.questions.constraints import PREDICTED

    quantity = result[limit.quantity]
    if quantity.absent is not None:
        return Requirement(text, place, limit, None, None, quantity.absent)
    if fits and limit.is_met(quantity.number) and not result.verdict["fits"]:  # of the host
        limit, quantity = PREDICTED, result[PREDICTED.quantity]
    if fits and result.verdict["state"] == "open":
        return Requirement(text, place, limit, None, None, result.verdict["reason"])
    value, worst = quantity.number, None
    ends = quantity.interval or ()
    if limit.is_met(value):
        worst = next((end for end in ends if not limit.is_met(end)), None)
    return Requirement(text, place, limit, value, bool(limit.is_met(value)), "", worst)


def _parse_requirement(plan: Plan, node: Node) -> tuple[str, Place, Limit, bool]:
    """Parse a requirement into what decides it; True at the end if the plan must fit.

    Raises:
        PlanError: what is wrong with it, at its place.
    """
    from planner.questions.constraints import MARGIN, fit_limit, parse_limit

    text, margin = _write_scalar(node) if not isinstance(node.value, dict) else "", None
    if isinstance(node.value, dict):
        ((key, value),) = node.value.items()
        margin = _write_scalar(value) if key == "fits" else None
        text = f"{key} {_write_scalar(value)}" if margin is None else f"fits: {margin}"
    elif text == "fits":
        margin = MARGIN
    try:
        limit = parse_limit(text, plan) if margin is None else fit_limit(margin, plan)
    except PlanError as error:
        raise PlanError(_place_faults(error, text, node.place)) from None
    return text, node.place, limit, margin is not None
