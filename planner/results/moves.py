"""The table of moves (moves.yaml): what may be changed in a plan to reach one a step away.

Questions about near plans filter and order its rows: changes that make a plan fit (``frees``),
faster layouts (``faster``), what a run may do otherwise than its plan (``otherwise``), what reports
double (``doubled``). What a move costs or saves is evaluated on the changed plan
(``evaluate_near``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from planner.base import resources
from planner.engine import instance
from planner.engine.evaluate import Evaluation
from planner.plans.document import Plan
from planner.plans.layout import ROW
from planner.plans.plan import reset_derived

TENSOR, SEQUENCE = "parallelism.tensor", "parallelism.sequence"
PARAMETERS = "parameters.total"
#: Factors to try on a degree; the first that makes a valid plan is used.
FACTORS = (2, 3, 5)


class Move(NamedTuple):
    """A row of the table: a change of one key.

    Attributes:
        key: the dotted key.
        words: what a run does that has this change, or what is doubled.
        set, scale, step, halve: what the key becomes, by one of these (``list_values``).
        own: the values of which the key must have one; by default any.
        mode, when: the mode that the plan must have, and a further condition on it.
        also: what other keys become then, if the document states them.
        beside: what other keys become then.
        keeps: nothing is derived again, for nothing follows from the key.
        frees: if it may free memory, how much it interferes, low first.
        faster: it may save time by itself.
        otherwise: a run may do so though its plan does not.
        doubled: reports show the effect of twice as much.
    """

    key: str
    words: str = ""
    set: Any = None
    scale: str | int = 0
    step: str = ""
    halve: bool = False
    own: tuple[Any, ...] = ()
    mode: str = ""
    when: str = ""
    also: Mapping[str, Any] = {}
    beside: Mapping[str, Any] = {}
    keeps: bool = False
    frees: int | None = None
    faster: bool = False
    otherwise: bool = False
    doubled: bool = False

    def list_values(self, plan: Plan) -> Iterable[Any]:
        """List the values that the key may take in a plan instead of its own, nearest first."""
        value, mode, up = plan.get(self.key), plan.get("training.mode"), self.step == "up"
        right = self.mode in ("", mode) and (not self.own or value in self.own)
        if not right or (self.when and not _is_met(self.when, plan)):
            return ()
        if self.step:
            if value is not None and up and not ROW[self.key].values:
                return [value * factor for factor in FACTORS]
            after = None if value is None else ROW[self.key].step_value(value, up)
            return () if after is None else (after,)
        if self.halve:
            return () if value % 2 else sorted({value // 2, 1}, reverse=True)
        if self.scale:
            by = Fraction(self.scale) if isinstance(self.scale, str) else self.scale
            return (value * by,) if isinstance(value, int | Fraction) else ()
        return () if value == self.set else (self.set,)

    def yield_changes(self, plan: Plan) -> Iterator[dict[str, Any]]:
        """Yield the changes of a plan, by dotted key, for each value that the key may take."""
        also = {k: value for k, value in self.also.items() if plan.document.get(k) is not None}
        for value in self.list_values(plan):
            derived = {} if self.keeps else reset_derived(plan)
            changes = {**self.beside, self.key: value, **also, **derived}
            if self.key == TENSOR and value == 1:  # which sequence parallelism needs
                changes[SEQUENCE] = False
            yield changes


def _is_met(when: str, plan: Plan) -> bool:
    """Decide a condition: devices that share states, tensor parallelism, or fewer tokens than the
    model has parameters, as no model is pre-trained on."""
    if when == "fine-tuning":
        tokens = plan.get("training.tokens")
        return not tokens or bool(tokens < instance.compute_values(plan, [PARAMETERS])[PARAMETERS])
    if when == "tensor":
        return bool(plan.get(TENSOR) > 1)
    data, context, apart = (
        plan.get(f"parallelism.{name}") for name in ("data", "context", "replicate")
    )
    return bool(data * context > apart)


@cache
def list_moves() -> tuple[Move, ...]:
    """List all rows in their order."""
    rows = resources.load_beside(__file__)
    return tuple(Move(**{**row, "own": tuple(row.get("own", ()))}) for row in rows)


def evaluate_near(
    evaluation: Evaluation, plan: Plan, quantities: Iterable[str], exact: bool = True
) -> Evaluation:
    """Evaluate a plan over the graph of another evaluation where only numbers differ, else over a
    new one.

    Args:
        evaluation: of a plan near it, not sealed.
        plan: the plan.
        quantities: what is read of it.
        exact: compute in fractions, not in floats.

    Returns:
        The evaluation, for these quantities.
    """
    for name in quantities:
        evaluation.instance(name, {})
    built = instance.build(plan)
    return evaluation.rerun(built, exact) or Evaluation(built, like=evaluation, exact=exact)
