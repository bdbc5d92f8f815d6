"""The questions and requirements that a plan states (its keys ``questions`` and ``require``).

They are read and checked with the plan; they are answered only for the result that somebody sees
(``evaluate`` below), never for the plans that a search, a study or a question tries.
A plan without them imports nothing for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planner.base.display import flow
from planner.base.errors import Fault, Place, PlanError
from planner.documents.yaml_nodes import Node
from planner.plans.document import Plan

if TYPE_CHECKING:
    from planner.engine.evaluate import Number
    from planner.questions.constraints import Limit
    from planner.results.result import Result

QUESTIONS, REQUIRE = "questions", "require"
#: The option that a question takes as its only value.
ALONE = {"compute-optimal": "budget"}


def evaluate(plan: Plan) -> Result:
    """The result of a plan; its questions and requirements are answered when they are asked for."""
    from planner.results import result as results

    return with_questions(results.evaluate(plan))


def with_questions(result: Result) -> Result:
    """A result that answers what its plan asks, when it is asked for."""
    result.questions = PlanQuestions(result)
    return result


def checked(plan: Plan) -> Plan:
    """The plan; what it asks and requires is checked as far as no answer has to be found for it.

    Raises:
        PlanError: every fault, at its place.
    """
    faults = list[Fault]()
    for node, read in [
        *((node, _question) for node in _items(plan, QUESTIONS)),
        *((node, _requirement) for node in _items(plan, REQUIRE)),
    ]:
        try:
            read(plan, node)
        except PlanError as error:
            faults += error.faults
    if faults:
        raise PlanError(faults)
    return plan


class PlanQuestions:
    """What the plan of a result asks, answered: ``answers`` and ``requirements``."""

    def __init__(self, result: Result) -> None:
        self.result = result

    @cached_property
    def answers(self) -> tuple[PlanAnswer, ...]:
        """The answers in the order of the questions.

        Raises:
            PlanError: a question that cannot be answered, as one that nothing limits, at its place.
        """
        plan = self.result.plan
        return tuple(_question(plan, node).answer() for node in _items(plan, QUESTIONS))

    @cached_property
    def requirements(self) -> tuple[Outcome, ...]:
        """What is required, and whether it holds."""
        plan = self.result.plan
        read = (_requirement(plan, node) for node in _items(plan, REQUIRE))
        return tuple(outcome(self.result, *requirement) for requirement in read)

    @property
    def missed(self) -> list[Fault]:
        """The requirements that do not hold, or of which that is not known."""
        return [Fault(one.sentence, one.place) for one in self.requirements if not one.holds]

    def to_json(self) -> dict[str, Any]:
        """Plain data as schemas/result.schema.json describes it; nothing where nothing is asked."""
        data: dict[str, Any] = {}
        if self.answers:
            data["answers"] = [answer.to_json() for answer in self.answers]
        if self.requirements:
            data["requirements"] = [one.to_json() for one in self.requirements]
        return data


def _items(plan: Plan, key: str) -> list[Node]:
    """The items of a list of the plan, as they were written."""
    node = plan.document.node.value
    found = node.get(key) if isinstance(node, dict) else None
    return found.value if found is not None and isinstance(found.value, list) else []


# questions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanQuestion:
    """A question of a plan. ``ready`` finds the answer."""

    name: str
    item: Any  # as the plan states it
    place: Place
    ready: Callable[[], Any]

    def answer(self) -> PlanAnswer:
        """The answer.

        Raises:
            PlanError: there is none, at the place of the question.
        """
        try:
            return PlanAnswer(self, self.ready())
        except PlanError as error:
            raise PlanError(_placed(error, self.name, self.place)) from None


@dataclass(frozen=True)
class PlanAnswer:
    """A question of a plan with its answer: a ``solve.Answer``, of a budget a ``Spending``."""

    question: PlanQuestion
    found: Any

    @property
    def name(self) -> str:
        """What it is called."""
        return self.question.name

    @cached_property
    def _writer(self) -> ModuleType:
        from planner.questions.solve import answers, budgets

        return budgets if isinstance(self.found, budgets.Spending) else answers

    @cached_property
    def sentence(self) -> str:
        """The answer with its certificate: where it holds, where it fails and by how much."""
        return str(self._writer.sentence(self.found))

    @cached_property
    def remarks(self) -> list[str]:
        """What else is to be said, a sentence each."""
        return list(self._writer.remarks(self.found))

    @cached_property
    def tables(self) -> list[Sequence[Sequence[str]]]:
        """Its tables, each with its heads first."""
        return list(self._writer.tables(self.found))

    def to_json(self) -> dict[str, Any]:
        """Plain data: what ``solve --format json`` says, with the question and the sentence."""
        said = {"asked": self.question.item, "name": self.name, "sentence": self.sentence}
        return {**said, **self._writer.data_of(self.found)}


def _question(plan: Plan, node: Node) -> PlanQuestion:
    """A question of a plan, its options checked.

    Raises:
        PlanError: what is wrong with it, at its place.
    """
    from planner.questions.solve import questions

    question, options = _options(node)
    changes, name = options.pop("set", None), options.pop("name", None)
    name = name or question or options["vary"]
    try:
        asked = plan if changes is None else _with(plan, changes)
        ready = questions.prepare(asked, question, **options)
    except PlanError as error:
        raise PlanError(_placed(error, name, node.place)) from None
    return PlanQuestion(name, node.plain(), node.place, ready)


def _options(node: Node) -> tuple[str | None, dict[str, Any]]:
    """The question that an item names, None where it varies a key, and its options as a command
    line has them."""
    if not isinstance(node.value, dict):
        return str(node.value), {}
    entries = node.value
    if "vary" in entries:
        return None, {key: _option(key, value) for key, value in entries.items()}
    ((question, value),) = entries.items()
    if isinstance(value.value, dict):
        return question, {key: _option(key, inner) for key, inner in value.value.items()}
    return question, {ALONE.get(question, "deadline"): _text(value)}


def _option(key: str, node: Node) -> Any:
    if key == "set":
        return node.plain()
    if isinstance(node.value, list):
        return [_text(item) for item in node.value]
    return _text(node)


def _text(node: Node) -> str:
    """A scalar as it was written."""
    return node.text if node.text is not None else flow(node.value)


def _with(plan: Plan, changes: dict[str, Any]) -> Plan:
    """The plan with other values of some keys and without questions; a layout that it leaves open
    is found anew.

    Raises:
        PlanError: it is no valid plan.
    """
    from planner.questions import loading

    root = _stated(plan.document.node)
    assert isinstance(root.value, dict)
    kept = {key: node for key, node in root.value.items() if key not in (QUESTIONS, REQUIRE)}
    if plan.searched is not None:
        found = plan.searched
        chosen = {"auto": True, "margin": found["margin"], "for": found["launcher"]}
        said = {f"parallelism.{key}": value for key, value in chosen.items() if value is not None}
        changes = {**said, **changes}
    return loading.load(replace(root, value=kept), changes, team=plan.document.defaults)


def _stated(node: Node) -> Node:
    """A tree without the values that nobody stated."""
    if isinstance(node.value, dict):
        stated = {k: _stated(v) for k, v in node.value.items() if v.origin.kind != "default"}
        return replace(node, value=stated)
    return node


def _placed(error: PlanError, name: str, place: Place) -> Iterator[Fault]:
    """The faults of a question or of a requirement at its place, with options as keys."""

    def keys(text: str | None) -> str | None:
        return text and re.sub(r"--([a-z-]+)", lambda f: f"{f[1].replace('-', '_')}:", text)

    for fault in error.faults:
        message = keys(fault.message) or ""
        message = message if name in message else f"{name}: {message}"
        yield replace(fault, message=message, place=place, allowed=keys(fault.allowed))


# requirements --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A requirement as it was written, its limit, and what the quantity is."""

    text: str
    place: Place
    limit: Limit
    value: Number | None
    holds: bool | None  # None: it is not known
    reason: str = ""  # why it is not known
    worst: Number | None = None  # where it holds as predicted and may not: the end that does not

    @property
    def sentence(self) -> str:
        """Whether it holds, with the value; how far off where it does not."""
        if self.holds is None or self.value is None:
            return f"{self.text} is not known: {self.reason}"
        from planner.questions.constraints import shown

        value, unit = shown(self.value, self.limit.unit), self.limit.unit
        if self.limit.quantity not in self.text:
            value = f"{self.limit.quantity} is {value}"
        if self.holds:
            may = "" if self.worst is None else f", {shown(self.worst, unit)} at worst"
            return f"{self.text} holds ({value}{may})"
        off = shown(-self.limit.slack(self.value), unit)
        return f"{self.text} does not hold: {value}, missed by {off}"

    def to_json(self) -> dict[str, Any]:
        """Plain data as schemas/result.schema.json describes it."""
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


def outcome(result: Result, text: str, place: Place, limit: Limit, fits: bool = False) -> Outcome:
    """Whether a limit holds; ``fits``: it is what the plan has to keep in order to fit, which is
    not known where only its states are."""
    quantity = result[limit.quantity]
    if quantity.absent is not None:
        return Outcome(text, place, limit, None, None, quantity.absent)
    if fits and result.verdict["state"] == "open":
        return Outcome(text, place, limit, None, None, result.verdict["reason"])
    value, worst = quantity.number, None
    ends = quantity.interval or ()
    if limit.holds(value):
        worst = next((end for end in ends if not limit.holds(end)), None)
    return Outcome(text, place, limit, value, bool(limit.holds(value)), "", worst)


def _requirement(plan: Plan, node: Node) -> tuple[str, Place, Limit, bool]:
    """What a plan requires, as ``outcome`` takes it.

    Raises:
        PlanError: what is wrong with it, at its place.
    """
    from planner.questions.constraints import MARGIN, fit_limit, parse_limit

    text, margin = _text(node) if not isinstance(node.value, dict) else "", None
    if isinstance(node.value, dict):
        ((key, value),) = node.value.items()
        margin = _text(value) if key == "fits" else None
        text = f"{key} {_text(value)}" if margin is None else f"fits: {margin}"
    elif text == "fits":
        margin = MARGIN
    try:
        limit = parse_limit(text, plan) if margin is None else fit_limit(margin, plan)
    except PlanError as error:
        raise PlanError(_placed(error, text, node.place)) from None
    return text, node.place, limit, margin is not None
