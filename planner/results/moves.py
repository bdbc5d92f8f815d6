"""The table of moves: what may be changed in a plan to reach one a step away, and its values there.

Questions about near plans filter and order these rows: changes that make a plan fit (``frees``),
faster layouts (``faster``), what a run may do otherwise than its plan (``otherwise``), what reports
double (``doubled``). What a move costs or saves is evaluated on the changed plan
(``evaluate_near``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import resources
from planner.engine import instance
from planner.engine.evaluate import Evaluation
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, MATRICES, OUTER, ROW, filter_keys
from planner.plans.plan import reset_derived

TENSOR, SEQUENCE, PIPELINE = "parallelism.tensor", "parallelism.sequence", "parallelism.pipeline"
VIRTUAL, EXPERT, ZERO = "parallelism.virtual_pipeline", "parallelism.expert", "parallelism.zero"
MICRO_BATCH, RECOMPUTE = "training.micro_batch", "training.recompute"
#: Factors to try on a degree; the first that makes a valid plan is used.
FACTORS = (2, 3, 5)
#: Returns the values that a key of a plan may take instead of its own, nearest first.
Offer = Callable[[Plan, str], Iterable[Any]]


class Move(NamedTuple):
    """A change of one key.

    Attributes:
        key: the dotted key.
        offer: the values that it may take in a plan.
        resets: keys that follow from the layout are derived again.
        also: what other keys must be then, if the document states them.
        words: what a run does that has this change, or what is doubled.
        frees: if it may free memory, how much it interferes, low first.
        faster: it may save time by itself. Dividing more, or recomputing more, never does.
        otherwise: a run may do so though its plan does not: ``set`` to a value, or ``scale`` of the
            plan's, so that the change may also be part of it.
        doubled: reports show the effect of twice as much.
    """

    key: str
    offer: Offer
    resets: bool = True
    also: Mapping[str, Any] = {}
    words: str = ""
    frees: int | None = None
    faster: bool = False
    otherwise: str = ""
    doubled: bool = False

    def yield_changes(self, plan: Plan) -> Iterator[dict[str, Any]]:
        """Yield the changes of a plan, by dotted key, for each value that the key may take."""
        also = {k: value for k, value in self.also.items() if plan.document.get(k) is not None}
        for value in self.offer(plan, self.key):
            changes = {self.key: value, **also, **(reset_derived(plan) if self.resets else {})}
            if self.key == TENSOR and value == 1:  # which sequence parallelism needs
                changes[SEQUENCE] = False
            yield changes


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


def _offer_step(up: bool) -> Offer:
    """Make an offer of the next value up or down; of a degree upwards, of its multiples."""

    def offer(plan: Plan, key: str) -> Iterable[Any]:
        value = plan.get(key)
        if value is not None and up and not ROW[key].values:
            return [value * factor for factor in FACTORS]
        after = None if value is None else ROW[key].step_value(value, up)
        return () if after is None else (after,)

    return offer


def _offer_fewer(plan: Plan, key: str) -> Iterable[Any]:
    """Return half of an even size, then 1."""
    size = plan.get(key)
    return () if size % 2 else sorted({size // 2, 1}, reverse=True)


def _offer(
    value: Any, *own: Any, mode: str = "", when: Callable[[Plan], bool] | None = None
) -> Offer:
    """Make an offer of one value to plans that have another one.

    Args:
        value: the value.
        own: those of which the plan must have one; by default any.
        mode: the mode that the plan must have; by default any.
        when: a further condition on the plan.

    Returns:
        The offer.
    """

    def offer(plan: Plan, key: str) -> Iterable[Any]:
        now, right = plan.get(key), mode in ("", plan.get("training.mode"))
        apt = right and now != value and (not own or now in own) and (when is None or when(plan))
        return (value,) if apt else ()

    return offer


def _scale(factor: str) -> Offer:
    """Make an offer of a number's multiple."""

    def offer(plan: Plan, key: str) -> Iterable[Any]:
        value, by = plan.get(key), Fraction(factor)
        by = int(by) if by.denominator == 1 else by
        return (value * by,) if isinstance(value, int | Fraction) else ()

    return offer


def _share_states(plan: Plan) -> bool:
    """Decide whether several devices hold the same states."""
    data, context = plan.get("parallelism.data"), plan.get("parallelism.context")
    return bool(data * context > plan.get("parallelism.replicate"))


#: The rows, but for those of moves.yaml.
_ROWS = (
    *(Move(ZERO, _offer(stage, *range(stage), mode="train", when=_share_states), False,
           {"training.distributed_optimizer": True}, frees=stage) for stage in (1, 2, 3)),
    Move(SEQUENCE, _offer(True, False, when=lambda plan: plan.get(TENSOR) > 1), False, frees=1,
         faster=True),
    Move("training.loss", _offer("chunked", "full"), False, frees=2),
    Move(RECOMPUTE, _offer("selective", "none"), False, frees=3),
    Move(RECOMPUTE, _offer("full", "selective"), False, frees=3),
    Move(RECOMPUTE, _offer("full", "none"), False, frees=4),
    Move(MICRO_BATCH, _offer_fewer, frees=3),
    Move("training.lora.base", _offer("nf4", "bf16", "int8"), False, frees=6),
    *(Move(key, _scale("2"), frees=4 if ROW[key].divides == MATRICES else 5)
      for key in filter_keys(OUTER)),
    Move("training.optimizer", _offer("adam-8bit", "adamw", mode="train"), False, frees=7),
    Move("training.offload.optimizer", _offer(True, False, mode="train"), False, frees=8),
    *(Move(key, _offer_step(False), faster=True)
      for key in (TENSOR, PIPELINE, "parallelism.context", EXPERT, ZERO, RECOMPUTE)),
    *(Move(key, _offer_step(True), faster=True) for key in (PIPELINE, EXPERT, ZERO, MICRO_BATCH)),
    Move(VIRTUAL, _offer_step(True), also={"training.schedule": None}, faster=True),
    Move("cluster.devices", _scale("2"), words="devices", doubled=True),
    Move("training.global_batch", _scale("2"), words="batch", doubled=True),
)  # fmt: skip
#: Moves that may save time, in the order of the columns of a layout.
FASTER = tuple(move for row in COLUMNS for move in _ROWS if move.faster and move.key == row.key)


@cache
def list_moves() -> tuple[Move, ...]:
    """List all rows; of those that free memory, the ones that interfere least come first."""
    found, offers = [*_ROWS], {"set": _offer, "scale": _scale}
    for row in resources.read_yaml(Path(__file__).with_suffix(".yaml")):
        how = "scale" if "scale" in row else "set"
        found.append(Move(row["key"], offers[how](row[how]), words=row["words"], otherwise=how))
    return tuple(found)
