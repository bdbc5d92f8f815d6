"""The Python face: load a plan, evaluate it, ask it questions. Nothing prints or exits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.base import notebook
from planner.questions import loading

if TYPE_CHECKING:
    from planner.plans import document
    from planner.report.study_api import Study
    from planner.results.result import Result
    from planner.results.timeline import Timeline


def _html(thing: Any) -> str:
    from planner.report.notebook import render_notebook

    return render_notebook(thing)


notebook.html = _html


class Plan:
    """A validated plan.

    >>> import planner
    >>> plan = planner.load("presets/llama70b_h100x1024.yaml", set={"training.tokens": "2T"})
    >>> plan.evaluate()["parameters.total"].value
    68976648192
    """

    def __init__(self, plan: document.Plan) -> None:
        self.plan = plan
        self.name = plan.name

    @cached_property
    def _result(self) -> Result:
        from planner.questions.plan_questions import evaluate

        return evaluate(self.plan)

    def evaluate(self) -> Result:
        """Return every quantity of the plan; ``result["memory.total"].value`` is exact."""
        return self._result

    def simulate(self, slow: Mapping[int, float] | None = None) -> Timeline:
        """Simulate one step as events on the streams of each stage; see ``planner.simulate``."""
        return simulate(self, slow)

    def solve(self, question: str | None = None, **options: Any) -> Any:
        """Answer an inverse question; ``plan.py solve --help`` lists questions and options."""
        from planner.questions.solve import questions

        return questions.prepare(self.plan, question, **options)()

    def sensitivity(self, quantity: str) -> Any:
        """Return how a quantity depends on every setting; see questions.sensitivity."""
        from planner.questions.sensitivity import find_sensitivity

        return find_sensitivity(self.plan, quantity)

    def search(self, top: int = 10, by: str = "time.step_seconds", **options: Any) -> Any:
        """Search the layouts that fit into memory and return the best, smallest ``by`` first."""
        from planner.questions.search.engine import search

        return search(self.plan, top, by, **options)

    def __repr__(self) -> str:
        return f"<Plan {self.name!r}>"


def simulate(plan: Plan | Result, slow: Mapping[int, float] | None = None) -> Timeline:
    """Simulate one optimizer step of a plan or of its result: what each pipeline stage does when,
    its bubble, the communication that it waits for, its memory, and the critical path. Of
    reinforcement learning a step of all phases: what engine and trainer do when.

    Args:
        slow: pipeline stages, counted from 0, whose passes take so many times as long.

    Raises:
        PlanError: the plan has no step to simulate, as inference and models given by their size.
    """
    from planner.results import rl_step

    return rl_step.simulate_plan(plan.evaluate() if isinstance(plan, Plan) else plan, slow)


def load(
    document: str | Path | Mapping[str, Any],
    set: Mapping[str, Any] | Sequence[str] = (),
    *,
    defaults: str | Path | bool | None = None,
) -> Plan:
    """Load the plan of a YAML file, of a shipped plan's name or of a mapping; ``set`` overrides
    dotted keys.

    Args:
        defaults: a team's file of defaults. Left out, a plan that is read from a file has the
            trainplan.yaml around it, and no other has one; False is none.

    Raises:
        PlanError: every fault that was found, with its place.
    """
    from planner.questions.plan_questions import check_questions

    return Plan(check_questions(loading.load(document, set, team=defaults)))


def quick(text: str) -> Plan:
    """Build the plan that a line of text describes, such as ``llama3-8b on 64 h100, 2T tokens``.

    Raises:
        PlanError: what is not understood, at its column.
    """
    from planner.documents.quick import parse_quick

    return Plan(loading.load(parse_quick(text)))


def load_study(
    document: str | Path | Mapping[str, Any], set: Mapping[str, Any] | Sequence[str] = ()
) -> Study:
    """Load the study of a YAML file or of a mapping; ``set`` overrides its keys.

    Raises:
        PlanError: every fault that was found, with its place.
    """
    from planner.questions.studies import study
    from planner.report.study_api import Study

    return Study(study.read_study(document, set))
