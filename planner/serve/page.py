"""What the page asks for: a document as text in, what stands on the page out.

The text of the plan is all that the page holds. A control changes a key in it, and whatever is
shown is made of it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.base.errors import Fault, Place, PlanError
from planner.documents import yaml_nodes
from planner.documents.editing import edited
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.plan_questions import checked, evaluate

#: How the document is called in faults.
NAME = "plan.yaml"


def plan_of(text: str, name: str = NAME) -> Plan:
    """The plan that a text is.

    Raises:
        PlanError: every fault that was found, with its place.
    """
    root = yaml_nodes.compose(text, name, None)
    if root is None:
        raise PlanError(Fault("the document is empty", Place(name, 1, 1), "a mapping of keys"))
    return checked(loading.load(root, team=False))


def change(body: Mapping[str, Any]) -> dict[str, Any]:
    """The text with other values of some keys, and its answer."""
    text = edited(body["text"], NAME, body.get("set", {}))
    return {"text": text, **answer({"text": text})}


def answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """The first screen of a plan."""
    from planner.report.answer import Answer

    first = Answer(evaluate(plan_of(body["text"])))
    return {"verdict": first.word, "sentence": first.text}


def _of_find(name: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """One of the quick functions of find.py, which imports this module."""

    def call(body: Mapping[str, Any]) -> dict[str, Any]:
        from planner.serve import find

        return find.QUICK[name](body)

    return call


#: What the page may ask for, by the last part of its address.
FUNCTIONS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "answer": answer,
    "change": change,
    **{name: _of_find(name) for name in ("why", "diff", "take", "panel")},
}


def call(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the page asks for by name; faults of the document are part of what it shows."""
    try:
        return FUNCTIONS[name](body)
    except PlanError as error:
        return {"faults": [fault_of(fault) for fault in error.faults]}


def fault_of(fault: Any) -> dict[str, Any]:
    """A fault as data."""
    place = fault.place
    where = {} if place is None else {"line": place.line, "column": place.column}
    return {"place": str(place or ""), "message": fault.words, **where}
